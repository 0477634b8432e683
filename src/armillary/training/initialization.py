"""Recipes of initialization that break the symmetry of tokens: each writes into the matrices of every block."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.matrices import attention_matrices
from armillary.training.recipe import drawn, recipe

__all__ = [
    "depth_scaled",
    "fan_in_scaled",
    "identity_plus_noise",
    "mimetic_value_output",
    "orthogonal_matrices",
    "spectrum_shaped_value",
]


@recipe
def identity_plus_noise(decoder: Decoder, *, identity: float, seed: int) -> dict[str, Any]:
    """Queries and keys that share a matrix: W_Q^T W_K is a multiple of the identity plus noise, of unchanged size.

    In every head the rows of query and key are sqrt(a) P + sqrt(1 - a) N, a the share `identity`, P rows of one random
    orthogonal matrix (so that the heads' products add up to the identity where heads fill the width) and N Gaussian,
    drawn apart for query and key; each matrix keeps its root mean square. Heads that share a key share its P.

    Args:
        decoder: A model or decoder.
        identity: a, within (0, 1].
        seed: Of P and N.

    Returns:
        A report; `trace_share` is tr(W_Q^T W_K) / (|W_Q| |W_K|), mean over heads, for each block.

    Source:
        Trockman & Kolter 2023 (mimetic initialization).
    """
    _require("identity", identity, 0 < identity <= 1, "lie within (0, 1]", "0.9")
    generator = torch.Generator().manual_seed(seed)
    shares = []
    for layer in range(1, decoder.facts.layers + 1):
        found = attention_matrices(decoder, layer)
        groups, size, width = found.key.shape
        shared = _orthogonal_rows(groups * size, width, found.key, generator).reshape(groups, size, width)
        per = len(found.query) // groups
        _mix(found.query, shared.repeat_interleave(per, 0), identity, generator)
        _mix(found.key, shared, identity, generator)
        keys = found.key.repeat_interleave(per, 0)
        shares.append(float((_cosine(found.query, keys)).mean()))
    return {"trace_share": shares}


@recipe
def mimetic_value_output(
    decoder: Decoder, *, sign: Literal["attractive", "repulsive", "zero"], share: float, seed: int
) -> dict[str, Any]:
    """Values and outputs whose product is a multiple of plus or minus the identity, plus noise; or outputs of zero.

    Values become rows of a random orthogonal matrix; the output of a head is sqrt(a) (+-) W_V^T + sqrt(1 - a) N, a the
    `share`. Each matrix keeps its root mean square. "attractive" pulls a token toward what it attends to, "repulsive"
    pushes it away, "zero" leaves attention silent at the start (and values as they are). Where a push is longer than
    the stream, the sphere's intuition fails: all rows are pushed by the same vector, and overlap rises.

    Args:
        decoder: A model or decoder.
        sign: Which.
        share: a, within (0, 1].
        seed: Of the matrices and N.

    Returns:
        A report; `trace_share` is tr(W_O W_V) / (|W_O| |W_V|), mean over heads, for each block (0 for "zero").

    Source:
        Trockman & Kolter 2023.
    """
    _require("share", share, 0 < share <= 1, "lie within (0, 1]", "0.5")
    generator = torch.Generator().manual_seed(seed)
    shares = []
    for layer in range(1, decoder.facts.layers + 1):
        found = attention_matrices(decoder, layer)
        if sign == "zero":
            found.output.zero_()
            shares.append(0.0)
            continue
        groups, size, width = found.value.shape
        rows = _orthogonal_rows(groups * size, width, found.value, generator).reshape(groups, size, width)
        _mix(found.value, rows, 1.0, generator)
        back = rows.repeat_interleave(len(found.output) // groups, 0).mT
        _mix(found.output, back if sign == "attractive" else -back, share, generator)
        shares.append(
            float(_cosine(found.output, found.value.repeat_interleave(len(found.output) // groups, 0).mT).mean())
        )
    return {"trace_share": shares}


@recipe
def orthogonal_matrices(decoder: Decoder, *, parts: Literal["attention", "mlp", "both"], seed: int) -> dict[str, Any]:
    """Every matrix of the named sublayers drawn orthogonal (rows or columns orthonormal), of unchanged size.

    Args:
        decoder: A model or decoder.
        parts: Which sublayers.
        seed: Of the draw.

    Returns:
        A report; `matrices` counts those that were written.

    Source:
        Saxe, McClelland & Ganguli 2014.
    """
    generator = torch.Generator().manual_seed(seed)
    written = 0
    for weight in _matrices(decoder, parts):
        root, flat = _root(weight), weight.reshape(-1, *weight.shape[-2:])
        for matrix in flat:  # the experts of a mixture lie in one tensor
            rows = _orthogonal_rows(matrix.shape[0], matrix.shape[1], matrix, generator)
            matrix.copy_(root / _root(rows) * rows)
        written += len(flat)
    return {"matrices": written}


@recipe
def spectrum_shaped_value(decoder: Decoder, *, decay: float, seed: int) -> dict[str, Any]:
    """Value matrices with singular values k^-decay in random directions, of unchanged size; 0 makes them orthogonal.

    Args:
        decoder: A model or decoder.
        decay: Exponent, not negative.
        seed: Of the directions.

    Returns:
        A report; `participation_rank` is that of the singular values of each block's values.
    """
    _require("decay", decay, decay >= 0, "not be negative", "0.5")
    generator = torch.Generator().manual_seed(seed)
    ranks = []
    for layer in range(1, decoder.facts.layers + 1):
        value = attention_matrices(decoder, layer).value
        groups, size, width = value.shape
        root, least = _root(value), min(groups * size, width)
        left = _orthogonal_rows(least, groups * size, value, generator)
        right = _orthogonal_rows(least, width, value, generator)
        singular = torch.arange(1, least + 1, dtype=torch.float64).pow(-decay).to(value)
        value.copy_((left.mT @ (singular[:, None] * right)).reshape(value.shape))
        value.mul_(root / _root(value))
        ranks.append(float(singular.square().sum() ** 2 / singular.pow(4).sum()))
    return {"participation_rank": ranks}


@recipe
def depth_scaled(decoder: Decoder, *, power: float, seed: int) -> dict[str, Any]:
    """Output projections of attention and MLP set to spread / (2 L)^power, spread that of the block's other matrices.

    Power 0.5 is the rule of GPT-2, 0 gives every matrix one spread. Nothing is drawn: the matrices are multiplied.

    Args:
        decoder: A model or decoder.
        power: Exponent of twice the number of blocks.
        seed: Kept for the report; nothing is drawn.

    Returns:
        A report; `spread` of the output projections.

    Source:
        Radford et al. 2019.
    """
    _require("power", power, math.isfinite(power), "be finite", "0.5")
    spreads = []
    for layer in range(1, decoder.facts.layers + 1):
        spread = _root(attention_matrices(decoder, layer).query)
        aim = spread / (2 * decoder.facts.layers) ** power
        for sublayer in ("attention", "mlp"):
            for module, name in decoder.written(sublayer, layer):
                weight: Any = getattr(module, name)
                if weight.ndim >= 2 and _root(weight) > 0:
                    weight.mul_(aim / _root(weight))
        spreads.append(aim)
    return {"spread": spreads}


@recipe
def fan_in_scaled(decoder: Decoder, *, seed: int) -> dict[str, Any]:
    """Every matrix of every block multiplied to the root mean square 1 / sqrt(inputs): it passes on unit variance.

    Args:
        decoder: A model or decoder.
        seed: Kept for the report; nothing is drawn.

    Returns:
        A report; `matrices` counts those that were multiplied.

    Source:
        LeCun et al. 1998.
    """
    found = _matrices(decoder, "both")
    for weight in found:
        if _root(weight) > 0:
            weight.mul_(1 / (math.sqrt(weight.shape[-1]) * _root(weight)))
    return {"matrices": len(found)}


def _matrices(decoder: Decoder, parts: str) -> list[Tensor]:
    """Views `*experts outputs inputs` of the matrices of every block's sublayers."""
    sequence: list[Tensor] = []
    for layer in range(1, decoder.facts.layers + 1):
        wanted = {"attention": ("attention",), "mlp": ("mlp",), "both": ("attention", "mlp")}[parts]
        for sublayer in wanted:
            part = decoder.attention(layer) if sublayer == "attention" else decoder.mlp(layer)
            for module in part.modules():
                for parameter in module._parameters.values():
                    if parameter is not None and parameter.ndim >= 2:
                        transposed = type(module).__name__ == "Conv1D"  # it holds inputs by outputs
                        sequence.append(parameter.data.mT if transposed else parameter.data)
    return sequence


def _mix(matrix: Tensor, shared: Tensor, share: float, generator: torch.Generator) -> None:
    """Write sqrt(share) shared + sqrt(1 - share) noise into a matrix, which keeps its root mean square."""
    root = _root(matrix)
    noise = drawn(tuple(matrix.shape), matrix, generator)
    mixed = math.sqrt(share) * shared / _root(shared) + math.sqrt(1 - share) * noise / _root(noise)
    matrix.copy_(mixed * root / _root(mixed))


def _orthogonal_rows(rows: int, columns: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """A random matrix with orthonormal rows, or orthonormal columns where there are more rows than columns."""
    gaussian = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()
    return (q if rows >= columns else q.mT).to(like)


def _cosine(first: Tensor, second: Tensor) -> Tensor:
    """Inner product of matrices over their lengths, for each head."""
    lengths = first.norm(dim=(-2, -1)) * second.norm(dim=(-2, -1))
    return (first * second).sum((-2, -1)) / lengths


def _root(tensor: Tensor) -> float:
    return float(tensor.detach().double().square().mean().sqrt())


def _require(name: str, value: float, fits: bool, must: str, remedy: str) -> None:
    if not fits:
        raise ArgumentError(f"Argument `{name}` must {must}, but it is {value}. Write {name}={remedy}.")
