"""Do the directions agree: pair overlaps, their histogram, the mean direction, and the energy of simulations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.claims import BY_INNER_PRODUCTS, WHATEVER_THE_ORDER
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable, as_tensor, observable
from armillary.shapes import Configuration, Overlaps, Pairs, Value

__all__ = [
    "exponential_overlap",
    "histogram_edges",
    "mean_direction",
    "mean_overlap",
    "mean_overlap_within",
    "overlap_histogram",
    "overlaps",
    "smallest_overlap",
    "squared_mean_direction",
]

_NOTE = "Geshkovski et al. 2023, arXiv:2312.10794"


def overlaps(configuration: Configuration) -> Overlaps:
    """Cosines c_ij = x_i . x_j / (|x_i| |x_j|) of all pairs of rows.

    Args:
        configuration: Rows as given, `*batch tokens dim`; normalized here, since an overlap is one of directions.

    Returns:
        Tensor `*batch tokens tokens` within [-1, 1], diagonal exactly 1; NaN in the row and column of a zero row.

    Example:
        >>> import torch
        >>> overlaps(torch.tensor([[2.0, 0.0], [0.0, 3.0]], dtype=torch.float64)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return Cloud(as_tensor(configuration), accumulate=torch.float64).after("normalize").gram


@observable(
    symbol="c",
    source="mean of c_ij over i != j; Ethayarajh 2019",
    undefined="fewer than two rows, or a row of zero length",
    needs_unit_rows=True,
    attainable=lambda tokens, dim: (-1.0, 1.0),
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER),
)
def mean_overlap(gram: Overlaps) -> Value:
    """Mean overlap of all pairs i < j, self-pairs excluded: (sum_ij c_ij - T) / (T (T - 1))."""
    tokens = gram.shape[-1]
    if tokens < 2:
        return torch.full(gram.shape[:-2], torch.nan, dtype=gram.dtype)
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (gram.sum((-2, -1)) - trace) / (tokens * (tokens - 1))


@observable(
    symbol="|x_bar|^2",
    source="identity |x_bar|^2 = mean of c_ij over all i, j",
    undefined="a row of zero length",
    needs_unit_rows=True,
    attainable=lambda tokens, dim: (0.0, 1.0),
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER),
)
def squared_mean_direction(gram: Overlaps) -> Value:
    """Squared length of the mean of the unit rows, self-pairs included: sum_ij c_ij / T^2; 1 only at consensus."""
    return gram.mean((-2, -1))


@observable(
    symbol="min c",
    source="consensus: all directions agree, so that the smallest overlap is 1",
    undefined="fewer than two rows, or a row of zero length",
    needs_unit_rows=True,
    attainable=lambda tokens, dim: (-1.0, 1.0),
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER),
)
def smallest_overlap(pairs: Pairs) -> Value:
    """Smallest overlap of any pair: consensus (all directions agree) means 1, and no mean hides one that does not."""
    if pairs.shape[-1] == 0:
        return torch.full(pairs.shape[:-1], torch.nan, dtype=pairs.dtype)
    return pairs.amin(-1)


def exponential_overlap(*, beta: float) -> Observable:
    """Mean of e^{beta (c_ij - 1)} over all ordered pairs (i, j), self-pairs included; it needs no threshold.

    For orthogonal groups of shares w_a it is W + (1 - W) e^{-beta} with W the sum of w_a^2, and 1 at consensus; times
    e^beta T^2 / (2 beta) it is the energy Phi of the idealized dynamics.

    Args:
        beta: Inverse temperature, positive and finite.

    Returns:
        An observable of unit rows.

    Raises:
        ArgumentError: If beta is not positive and finite.
    """
    if not 0 < beta < float("inf"):
        raise ArgumentError(f"Argument `beta` must be positive and finite, but it is {beta}. Use for example beta=4.0.")

    def mean_exponential(pairs: Pairs) -> Value:
        tokens = tokens_of(pairs.shape[-1])
        undefined = torch.isnan(pairs).any(-1)
        both_ways = 2.0 * torch.exp(beta * (pairs - 1.0)).sum(-1)
        return torch.where(undefined, torch.nan, (both_ways + tokens) / tokens**2)

    return Observable(
        name="exponential_overlap",
        symbol="<e^{beta(c-1)}>",
        definition=f"mean over all pairs (i, j), self-pairs included, of exp(beta (c_ij - 1)) at beta = {beta:g}",
        source=_NOTE,
        function=mean_exponential,
        wants="pairs",
        undefined="a row of zero length",
        needs_unit_rows=True,
        attainable=lambda tokens, dim: (1.0 / tokens, 1.0),
        parameters=(("beta", float(beta)),),
        claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER),
    )


OBSERVABLES["exponential_overlap"] = exponential_overlap


def mean_direction(configuration: Configuration) -> Tensor:
    """Mean of the unit rows, `*batch dim`: a vector of length at most 1.

    Args:
        configuration: Rows as given, `*batch tokens dim`.

    Returns:
        Tensor `*batch dim`; NaN if a row has zero length.
    """
    return Cloud(as_tensor(configuration)).after("normalize").rows.mean(dim=-2)


def histogram_edges(bins: int) -> Tensor:
    """Edges of `bins` equal bins over [-1, 1], `bins+1`."""
    return torch.linspace(-1.0, 1.0, bins + 1, dtype=torch.float64)


def overlap_histogram(pairs: Pairs, *, bins: int) -> Tensor:
    """Exact counts of all unordered pairs i < j by overlap.

    Bins are half open, the last is closed, and nothing is dropped: the counts sum to T (T - 1) / 2.

    Args:
        pairs: Overlaps of unit rows over unordered pairs, `*batch pairs`, as `Cloud.pairs` gives them.
        bins: Number of equal bins over [-1, 1].

    Returns:
        int64 tensor `*batch bins`; all zero where a row is undefined.

    Raises:
        UnsoundError: If an overlap lies beyond [-1, 1] by more than rounding: the rows were not of unit length.
    """
    flat = pairs.reshape(-1, pairs.shape[-1])
    largest = flat.abs().amax(-1) if flat.shape[-1] else torch.zeros(len(flat))
    undefined = torch.isnan(largest)
    if bool(undefined.any()):
        flat = torch.where(undefined[:, None], 0.0, flat)
    if bool((largest > 1 + 1e-5).any()):
        raise UnsoundError(
            f"Argument `pairs` must hold overlaps of unit rows, but one is {float(largest.nan_to_num().max()):.6g}. "
            "Normalize the rows first."
        )
    index = ((flat + 1.0) * (bins / 2)).to(torch.int32).clamp_(0, bins - 1)
    offset = torch.arange(len(flat), dtype=torch.int32)[:, None] * bins
    counts = torch.bincount((index + offset).flatten(), minlength=bins * len(flat)).reshape(len(flat), bins)
    counts[undefined] = 0
    return counts.reshape(*pairs.shape[:-1], bins)


def tokens_of(pairs: int) -> int:
    """How many tokens have this many unordered pairs: T with T (T - 1) / 2 = pairs; 1 for none."""
    return (1 + math.isqrt(1 + 8 * pairs)) // 2


def mean_overlap_within(gram: Overlaps, start: int, stop: int) -> Value:
    """Mean overlap of the pairs whose tokens both have positions in [start, stop): causal attention orders positions.

    Args:
        gram: Overlaps of unit rows, `*batch tokens tokens`.
        start: First position of the band.
        stop: One past its last position.

    Returns:
        Tensor `*batch`; NaN for a band of fewer than two tokens.
    """
    return mean_overlap.function(gram[..., start:stop, start:stop])
