"""A decoder as the recursion of wide random layers sees it: the variance that each of its matrices passes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from armillary.errors import UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.matrices import attention_matrices
from armillary.models.norming import epsilon_of
from armillary.oracles import wide_limit
from armillary.oracles.wide_limit import Averaging, Block, FeedForward, Matrix

__all__ = ["WideDecoder", "unpredictable", "wide_decoder"]

ACTIVATIONS = {
    "gelu": "gelu", "gelu_new": "gelu_new", "gelu_pytorch_tanh": "gelu_new", "gelu_fast": "gelu_new",
    "silu": "silu", "swish": "silu", "relu": "relu", "tanh": "tanh",
}  # fmt: skip
"""The library's names of activations -> those of the recursion."""

PLAIN = (("c_fc", "c_proj"), ("dense_h_to_4h", "dense_4h_to_h"), ("fc1", "fc2"))
"""First and last projection of a feed-forward layer, as the library's families call them."""


@dataclass(frozen=True)
class WideDecoder:
    """A decoder as the recursion sees it: blocks as variances, and how the stream begins.

    Attributes:
        blocks: In order.
        token: Variance of a coordinate of the token embedding.
        position: Variance of a coordinate of the position embedding; 0 without one.
        width: Coordinates of the stream.
        start_epsilon: What a norm behind the embedding adds under its root; None where there is no such norm.
    """

    blocks: tuple[Block, ...]
    token: float
    position: float
    width: int
    start_epsilon: float | None

    def start(self, ids: Sequence[int]) -> Matrix:
        """The Gram matrix of the embedding of a document.

        Args:
            ids: Its token ids.
        """
        gram = wide_limit.embedding_gram(ids, token=self.token, position=self.position)
        return gram if self.start_epsilon is None else wide_limit.normalized_gram(gram, self.start_epsilon)

    def grams(self, ids: Sequence[int]) -> list[Matrix]:
        """Gram matrices of the stream at layers 0..L for a document.

        Args:
            ids: Its token ids.
        """
        return wide_limit.stream_grams(self.start(ids), self.blocks)

    def numbers(self, ids: Sequence[int], *, skipped: int = 0) -> dict[str, np.ndarray]:
        """Predicted numbers at layers 0..L: overlap, participation rank of unit rows, mean norm of a row.

        Args:
            ids: Token ids of a document.
            skipped: How many tokens are left out at its beginning.
        """
        grams = [gram[skipped:, skipped:] for gram in self.grams(ids)]
        return {
            "mean_overlap": np.array([wide_limit.mean_overlap(gram) for gram in grams]),
            "participation_rank": np.array([wide_limit.participation_rank(gram, self.width) for gram in grams]),
            "stream_norm_mean": np.array([float(np.sqrt(self.width * np.diagonal(gram)).mean()) for gram in grams]),
        }


def unpredictable(decoder: Decoder) -> tuple[str, ...]:
    """Why the recursion does not speak of a decoder; empty where it does.

    Args:
        decoder: The decoder.
    """
    row, config = decoder.family, decoder.model.config
    behind = (row.attention_added, row.mlp_added)
    found = (
        (any(path is not None and "norm" in path for path in behind), "a norm stands behind each sublayer"),
        (any("expert" in path for path in row.mlp_output), "its MLPs are mixtures of experts"),
        (row.sinks is not None, "learned sinks take a share of every row of attention"),
        (row.position_argument is not None, "positions are added to the scores (alibi)"),
        (_activation(config) is None, f"its activation {_activation_name(config)!r} has no kernel here"),
        (row.embedding_projection is not None and _has(decoder.model, row.embedding_projection),
         "the embedding is projected"),
        (_feed_forward_modules(decoder, 1) is None, "the projections of its MLP lie in no modules that are known"),
    )  # fmt: skip
    return tuple(words for holds, words in found if holds)


def wide_decoder(decoder: Decoder) -> WideDecoder:
    """The decoder's weights as the variances of the recursion.

    Each matrix counts by its mean square, so that a trained decoder gives its null model: independent random matrices
    of the same size. What a recipe writes into a matrix besides its size (an identity, signs, a spectrum) is not seen.

    Args:
        decoder: The decoder.

    Raises:
        UnsupportedModelError: The recursion does not speak of it; the message says why.
    """
    reasons = unpredictable(decoder)
    if reasons:
        raise UnsupportedModelError(
            f"Argument `decoder` must be one that the recursion speaks of, but in {decoder.facts.name} "
            f"{'; '.join(reasons)}. Measure it instead: `armillary diagnose` then shows measured numbers alone."
        )
    row = decoder.family
    embedding: Any = decoder.embedding
    position = 0.0
    if row.position_embedding is not None:
        held: Any = decoder.part(row.position_embedding)
        position = _mean_square(held.weight)
    norm = None if row.embedding_norm is None else decoder.part(row.embedding_norm)
    return WideDecoder(
        blocks=tuple(_block(decoder, layer) for layer in range(1, decoder.facts.layers + 1)),
        token=decoder.embedding_multiplier**2 * _mean_square(embedding.weight),
        position=position,
        width=decoder.facts.width,
        start_epsilon=None if norm is None else epsilon_of(norm),
    )


def _block(decoder: Decoder, layer: int) -> Block:
    row, block = decoder.family, decoder.block(layer)
    norm = block.get_submodule(row.attention_norm) if row.attention_norm else decoder.final_norm
    before_mlp = block.get_submodule(row.mlp_norm) if row.mlp_norm else norm
    return Block(
        attention=_averaging(decoder, layer, _gain(decoder, norm)),
        feed_forward=_fed(decoder, layer, _gain(decoder, before_mlp)),
        epsilon=epsilon_of(norm),
        parallel=row.residual == "parallel",
        scale=decoder.multiplier,
    )


def _averaging(decoder: Decoder, layer: int, gain: float) -> Averaging:
    found, width = attention_matrices(decoder, layer), decoder.facts.width
    size = found.query.shape[1]
    names = [name for name, _ in decoder.attention(layer).named_children()]
    if any("norm" in name for name in names):  # queries and keys are normalized: their own size is 1
        square = size * found.scale**2
    else:
        queries, keys = (width * gain * _mean_square(one) for one in (found.query, found.key))
        square = size * queries * keys * found.scale**2
    inputs = found.output.shape[0] * found.output.shape[2]
    return Averaging(
        value=width * gain * _mean_square(found.value),
        output=inputs * _mean_square(found.output),
        score_spread=square**0.5,
        window=found.window,
    )


def _fed(decoder: Decoder, layer: int, gain: float) -> FeedForward:
    modules = _feed_forward_modules(decoder, layer)
    assert modules is not None
    first, gate, last = modules
    width, hidden = decoder.facts.width, _elements(last) // decoder.facts.width
    into = width * gain * _mean_square(first.weight)
    return FeedForward(
        into=into if gate is None else width * gain * _mean_square(gate.weight),
        gate=None if gate is None else into,
        out=hidden * _mean_square(last.weight),
        activation=_activation(decoder.model.config) or "identity",
    )


def _feed_forward_modules(decoder: Decoder, layer: int) -> tuple[Any, Any, Any] | None:
    """First projection, gate (or None) and last projection."""
    block, inside = decoder.block(layer), decoder.mlp(layer)
    if all(_has(inside, name) for name in ("gate_proj", "up_proj", "down_proj")):
        up, gate, down = (inside.get_submodule(name) for name in ("up_proj", "gate_proj", "down_proj"))
        return up, gate, down
    for first, last in PLAIN:
        for owner in (inside, block):
            if _has(owner, first) and _has(owner, last):
                return owner.get_submodule(first), None, owner.get_submodule(last)
    return None


def _has(module: nn.Module, path: str) -> bool:
    try:
        return module.get_submodule(path) is not None
    except AttributeError:
        return False


def _gain(decoder: Decoder, norm: nn.Module) -> float:
    gain = decoder.gain(norm)
    return 1.0 if gain is None else _mean_square(gain)


def _mean_square(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean())


def _elements(module: Any) -> int:
    return int(module.weight.numel())


def _activation_name(config: Any) -> str:
    fields = ("hidden_act", "activation_function", "hidden_activation")
    named = next((getattr(config, field) for field in fields if isinstance(getattr(config, field, None), str)), None)
    return named or ("gelu_new" if config.model_type == "bloom" else "")


def _activation(config: Any) -> str | None:
    return ACTIVATIONS.get(_activation_name(config))
