"""The weights of a decoder as plain data: matrices of attention, norms, rotary frequencies, MLPs as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.norming import epsilon_of

__all__ = [
    "PlainAttention",
    "PlainBlock",
    "PlainNorm",
    "PlainWeights",
    "attention_matrices",
    "plain_weights",
    "without_plain_form",
    "without_plain_mlp",
]

GROWING_ROTATIONS = ("dynamic", "longrope")
"""Kinds of rotary positions whose frequencies depend on how long the document is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainNorm:
    """A norm as numbers: kind, gain, offset and what is added to the mean square.

    Args:
        kind: "RMSNorm" or "LayerNorm".
        gain: `dim`, or None for ones.
        offset: `dim`, or None for zeros.
        eps: Added to the mean square, or to the variance.
    """

    kind: str
    gain: Tensor | None
    offset: Tensor | None
    eps: float


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainAttention:
    """The matrices of one attention sublayer: head h scores (W_Q x + b_Q) . (W_K y + b_K) and writes W_O (W_V y + b_V).

    Args:
        query: `heads head_dim dim`.
        key: `key_value_heads head_dim dim`.
        value: `key_value_heads value_dim dim`.
        output: `heads dim value_dim`.
        query_offset: `heads head_dim`, or None.
        key_offset: `key_value_heads head_dim`, or None.
        value_offset: `key_value_heads value_dim`, or None.
        output_offset: `dim`, or None; added once.
        scale: What scores are multiplied by.
        window: How many tokens back are seen, oneself included; None for all.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    query_offset: Tensor | None
    key_offset: Tensor | None
    value_offset: Tensor | None
    output_offset: Tensor | None
    scale: float
    window: int | None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainBlock:
    """One block: what each sublayer reads through, the matrices of attention, and the MLP as a function of rows.

    Args:
        attention: The matrices.
        mlp: `*batch tokens dim` to the same shape; None where the MLP has not the form of one function.
        attention_norm: What attention reads the stream through; None for the stream itself.
        mlp_norm: What the MLP reads the stream through; None for the stream itself.
    """

    attention: PlainAttention
    mlp: Callable[[Tensor], Tensor] | None
    attention_norm: PlainNorm | None
    mlp_norm: PlainNorm | None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainWeights:
    """All blocks of a decoder as plain data; whoever holds them needs to know of no model.

    Args:
        blocks: In order.
        frequencies: Angle per position of each rotated pair of coordinates, `pairs`; None without rotary positions. The
            first coordinates of a head are rotated, the first half of them paired with the second.
        rotation_factor: What rotated coordinates are multiplied by.
        multiplier: What every sublayer's output is multiplied by before it is added.
    """

    blocks: tuple[PlainBlock, ...]
    frequencies: Tensor | None
    rotation_factor: float
    multiplier: float


def without_plain_form(decoder: Decoder) -> tuple[str, ...]:
    """Why this decoder's attention is not the form of plain matrices; empty where it is.

    Args:
        decoder: The decoder.
    """
    row, config = decoder.family, decoder.model.config
    attention = decoder.attention(1)
    rotary = getattr(config, "rope_parameters", None) or {}
    kinds = {"rope_type": rotary.get("rope_type", "default")} if "rope_type" in rotary else rotary
    growing = [kind for kind in _rotations(kinds) if kind in GROWING_ROTATIONS]
    found = (
        (row.residual == "parallel", "attention and MLP read one stream side by side, so no state lies between them"),
        (row.sinks is not None, "learned sinks take a share of every row of attention"),
        (getattr(config, "attn_logit_softcapping", None) is not None, "scores pass through a soft cap"),
        (row.position_argument is not None, "positions are added to the scores (alibi)"),
        (any("norm" in name for name, _ in attention.named_children()), "queries and keys pass through norms"),
        (_behind(decoder), "a norm stands behind each sublayer"),
        (bool(growing), f"rotary frequencies depend on the length of the document ({', '.join(growing)})"),
        (len(_frequencies(decoder)) > 1, "blocks have rotary frequencies of different kinds"),
        (_projections(attention) is None, "its projections lie in no modules that are known"),
    )
    return tuple(words for holds, words in found if holds)


def without_plain_mlp(decoder: Decoder) -> str:
    """Why this decoder's MLPs are not functions of a row of the stream; empty where they are.

    Args:
        decoder: The decoder.
    """
    if any("expert" in path for path in decoder.family.mlp_output):
        return "its MLP is a mixture of experts, not one function of a row"
    for layer in range(1, decoder.facts.layers + 1):
        if not _is_function_of_rows(decoder, decoder.mlp(layer)):
            return f"the MLP of block {layer} lies in no module that maps rows of the stream to rows of the stream"
    return ""


def plain_weights(decoder: Decoder) -> PlainWeights:
    """The decoder's weights as plain data: views where they can be, in the decoder's own type.

    Args:
        decoder: The decoder.

    Returns:
        Matrices of every block.

    Raises:
        UnsupportedModelError: Its attention has not this form; the message says why.
    """
    reasons = without_plain_form(decoder)
    if reasons:
        raise UnsupportedModelError(
            f"Argument `decoder` must have attention that is plain matrices, but in {decoder.facts.name} "
            f"{'; '.join(reasons)}. Leave out what is built from its matrices."
        )
    rotary = next(iter(_frequencies(decoder).values()), None)
    return PlainWeights(
        blocks=tuple(_block(decoder, layer) for layer in range(1, decoder.facts.layers + 1)),
        frequencies=None if rotary is None else rotary.inv_freq.detach(),
        rotation_factor=1.0 if rotary is None else float(getattr(rotary, "attention_scaling", 1.0)),
        multiplier=decoder.multiplier,
    )


def _block(decoder: Decoder, layer: int) -> PlainBlock:
    row, block = decoder.family, decoder.block(layer)
    mlp = decoder.mlp(layer)
    return PlainBlock(
        attention=_attention(decoder, layer),
        mlp=mlp if _is_function_of_rows(decoder, mlp) else None,
        attention_norm=_norm(decoder, None if row.attention_norm is None else block.get_submodule(row.attention_norm)),
        mlp_norm=_norm(decoder, None if row.mlp_norm is None else block.get_submodule(row.mlp_norm)),
    )


def attention_matrices(decoder: Decoder, layer: int) -> PlainAttention:
    """The matrices of one attention sublayer, whatever else acts on scores or stream: views into the weights.

    What is written into a matrix is written into the decoder.

    Args:
        decoder: The decoder.
        layer: Block 1..L.

    Raises:
        UnsupportedModelError: Its projections lie in no modules that are known.
    """
    if _projections(decoder.attention(layer)) is None:
        raise UnsupportedModelError(
            f"Argument `decoder` must have an attention whose projections are known, but in {decoder.facts.name} they "
            "lie in no modules that are. Leave out what changes or reads its matrices."
        )
    return _attention(decoder, layer)


def _attention(decoder: Decoder, layer: int) -> PlainAttention:
    facts, attention = decoder.facts, decoder.attention(layer)
    heads, groups, size = facts.heads, facts.key_value_heads, facts.head_dim
    found = _projections(attention)
    assert found is not None
    matrices = found(attention, heads)
    (query, query_offset), (key, key_offset), (value, value_offset) = matrices
    output, axis = decoder.attention_output(layer), decoder.family.attention_output_axis
    weight: Any = output.weight
    written = weight.detach() if axis == 1 else weight.detach().mT
    scale = getattr(attention, "scaling", None)
    return PlainAttention(
        query=query.reshape(heads, size, -1),
        key=key.reshape(groups, size, -1),
        value=value.reshape(groups, size, -1),
        output=written.reshape(written.shape[0], heads, size).permute(1, 0, 2),
        query_offset=None if query_offset is None else query_offset.reshape(heads, size),
        key_offset=None if key_offset is None else key_offset.reshape(groups, size),
        value_offset=None if value_offset is None else value_offset.reshape(groups, size),
        output_offset=_offset(output),
        scale=float(size**-0.5 if scale is None else scale),
        window=decoder.window(layer),
    )


Pieces = tuple[tuple[Tensor, Tensor | None], ...]


def _projections(attention: nn.Module) -> Callable[[nn.Module, int], Pieces] | None:
    """How queries, keys and values are read from the modules of an attention; None for names that are not known."""
    names = dict(attention.named_children())
    if {"q_proj", "k_proj", "v_proj"} <= names.keys():
        return _apart
    if "c_attn" in names:
        return _side_by_side
    return _head_by_head if "query_key_value" in names else None


def _apart(attention: nn.Module, heads: int) -> Pieces:
    modules: list[Any] = [attention.get_submodule(name) for name in ("q_proj", "k_proj", "v_proj")]
    return tuple((one.weight.detach(), _offset(one)) for one in modules)


def _side_by_side(attention: nn.Module, heads: int) -> Pieces:
    module: Any = attention.get_submodule("c_attn")
    parts = module.weight.detach().mT.chunk(3)
    offsets = _offset(module)
    return tuple(zip(parts, (None,) * 3 if offsets is None else offsets.chunk(3), strict=True))


def _head_by_head(attention: nn.Module, heads: int) -> Pieces:
    module: Any = attention.get_submodule("query_key_value")
    weight, offset = module.weight.detach(), _offset(module)
    matrices = weight.reshape(heads, 3, -1, weight.shape[-1])
    offsets = None if offset is None else offset.reshape(heads, 3, -1)
    return tuple((matrices[:, part], None if offsets is None else offsets[:, part]) for part in range(3))


def _offset(module: Any) -> Tensor | None:
    bias: Any = getattr(module, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def _norm(decoder: Decoder, norm: nn.Module | None) -> PlainNorm | None:
    if norm is None:
        return None
    gain = decoder.gain(norm)
    return PlainNorm(kind=decoder.family.norm, gain=gain, offset=_offset(norm), eps=epsilon_of(norm))


def _behind(decoder: Decoder) -> bool:
    """Whether a norm stands between what a sublayer writes and the stream."""
    paths = (decoder.family.attention_added, decoder.family.mlp_added)
    return any(path is not None and "norm" in path.lower() for path in paths)


def _is_function_of_rows(decoder: Decoder, mlp: nn.Module) -> bool:
    """Whether the MLP is one module that maps rows of the stream to rows of the stream, each by itself."""
    if any("expert" in path for path in decoder.family.mlp_output):
        return False
    probe = torch.zeros(1, 1, decoder.facts.width, dtype=decoder.model.dtype, device=decoder.device)
    try:
        with torch.no_grad():
            found = mlp(probe)
    except Exception:  # a module that takes other rows than the stream's says so in words of its own
        return False
    return isinstance(found, Tensor) and found.shape == probe.shape


def _rotations(kinds: dict[str, Any]) -> list[str]:
    """The kinds of rotary positions that a configuration names, once or once for each kind of block."""
    flat = [kinds.get("rope_type", "default")]
    nested = [one.get("rope_type", "default") for one in kinds.values() if isinstance(one, dict)]
    return [str(kind) for kind in (*flat, *nested)]


def _frequencies(decoder: Decoder) -> dict[tuple[float, ...], Any]:
    """The modules that hold rotary frequencies, those with equal ones once."""
    found: dict[tuple[float, ...], Any] = {}
    for module in decoder.inner.modules():
        held = [name for name, _ in module.named_buffers(recurse=False) if name.endswith("inv_freq")]
        for name in held:
            if not name.startswith("original"):
                found.setdefault(tuple(getattr(module, name).tolist()), module)
    return found
