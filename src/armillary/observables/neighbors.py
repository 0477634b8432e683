"""What the nearest rows say: distances between rows, rows that repeat, and the intrinsic dimension they lie on.

Distances are those of the rows as prepared. They need no preparation of their own: moving and turning a cloud leaves
them alone, and a tolerance is a share of its spread, the root mean squared distance of the rows from their mean.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.claims import BY_DIFFERENCES, BY_INNER_PRODUCTS, FREE_OF_SCALE
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable
from armillary.observables.gram import inner_products
from armillary.shapes import Overlaps, Value

__all__ = ["duplicate_rows", "intrinsic_dimension", "squared_distances"]

_LEAST_POINTS = 3
_RESOLVED = 1e-7


def squared_distances(cloud: Cloud) -> Overlaps:
    """Squared distances |x_i - x_j|^2 of all pairs of rows, in float64; rounding below zero becomes zero.

    Args:
        cloud: Rows as prepared.

    Returns:
        Tensor `*batch tokens tokens`, computed once for a cloud.
    """

    def make() -> Tensor:
        centered = cloud.after("center")
        # squares of neighbors' distances are small differences of squares
        double = centered.gram.dtype == torch.float64
        gram = centered.gram if double else inner_products(centered.rows.double())
        squares = gram.diagonal(dim1=-2, dim2=-1)
        found = (squares[..., :, None] + squares[..., None, :] - 2.0 * gram).clamp_(min=0.0)
        found.diagonal(dim1=-2, dim2=-1).zero_()
        return found

    return cloud.shared("squared distances", make)


def duplicate_rows(*, tolerance: float) -> Observable:
    """Number of rows that repeat an earlier one: within `tolerance` times the cloud's spread of it.

    Repeated tokens have one embedding, so that a document's rows repeat where no context has reached them yet.

    Args:
        tolerance: Share of the spread (root mean squared distance from the mean), from 1e-7 (less is rounding) to 1.

    Returns:
        An observable, 0 ... T - 1.

    Raises:
        ArgumentError: If the tolerance is out of that range.
    """
    _require_resolved(tolerance)

    def count(cloud: Cloud) -> Value:
        repeated = _repeated(cloud, tolerance)
        counted = repeated.sum(-1).double()
        return torch.where(_defined(cloud), counted, torch.nan)

    return Observable(
        name="duplicate_rows",
        symbol="n_dup",
        definition=f"number of rows within {tolerance:g} of the cloud's spread of an earlier row",
        source="two nearest neighbors need two distances that are not zero",
        function=count,
        wants="cloud",
        undefined="a row of zero length that was normalized",
        needs_unit_rows=False,
        attainable=lambda tokens, dim: (0.0, tokens - 1.0),
        parameters=(("tolerance", float(tolerance)),),
        claims=(BY_INNER_PRODUCTS, FREE_OF_SCALE, BY_DIFFERENCES),  # not of the order: who repeats whom depends on it
    )


def intrinsic_dimension(*, discard: float, tolerance: float) -> Observable:
    """Dimension of the surface that the rows lie on, from the ratio mu of the distances to the two nearest neighbors.

    On a d-dimensional surface of locally constant density P(mu > m) = m^-d. So log(1 - i/N) over the i-th smallest
    log mu is a line through the origin of slope -d, fitted by least squares with the largest `discard` of the ratios
    left out. Of rows that repeat one is kept; N counts those. Few points and many dimensions give too little, because
    neighbors are then far away, where the surface curves or ends: for d = 2, 5 and 10, 256 uniform points of a cube
    give on average 2.0, 4.5 and 8.3 (1,000 points: 2.0, 4.6 and 8.6), those of a sphere 2.1, 4.9 and 9.0.
    A repeated token that context has moved by a little is the nearest neighbor by far, and no tolerance counts it out:
    in the first blocks, where many rows of the embedding repeat, the ratio measures that instead.

    Args:
        discard: Share of the largest ratios that is left out of the fit, 0 to below 1; Facco et al. use 0.1.
        tolerance: Rows within this share of the cloud's spread of an earlier one repeat it; see `duplicate_rows`.

    Returns:
        An observable, positive.

    Raises:
        ArgumentError: If `discard` or `tolerance` is no such share.
    """
    if not 0 <= discard < 1:
        raise ArgumentError(f"Argument `discard` must be at least 0 and below 1, but it is {discard}. Use 0.1.")
    _require_resolved(tolerance)

    def slope(cloud: Cloud) -> Value:
        return _slope(cloud, discard=discard, tolerance=tolerance)

    return Observable(
        name="intrinsic_dimension",
        symbol="d_2NN",
        definition="slope of -log(1 - F(mu)) over log mu, mu the ratio of the distances to the second and the first "
        f"neighbor; the largest {discard:.0%} of mu left out of the fit, repeated rows (within {tolerance:g} of the "
        "spread) counted once",
        source="TwoNN; Facco, d'Errico, Rodriguez & Laio 2017",
        function=slope,
        wants="cloud",
        undefined="fewer than three rows that differ, or too few ratios above 1 for a slope",
        needs_unit_rows=False,
        attainable=lambda tokens, dim: (0.0, math.inf),
        parameters=(("discard", float(discard)), ("tolerance", float(tolerance))),
        claims=(BY_INNER_PRODUCTS, FREE_OF_SCALE, BY_DIFFERENCES),  # not of the order: who repeats whom depends on it
    )


OBSERVABLES["duplicate_rows"] = duplicate_rows
OBSERVABLES["intrinsic_dimension"] = intrinsic_dimension


def _slope(cloud: Cloud, *, discard: float, tolerance: float) -> Value:
    left_out = _repeated(cloud, tolerance)
    points = (~left_out).sum(-1)
    if cloud.tokens < _LEAST_POINTS:
        return torch.full(cloud.batch, torch.nan, dtype=torch.float64)
    squares = squared_distances(cloud).masked_fill(left_out[..., None, :], math.inf)
    nearest = _without_self(squares).topk(2, dim=-1, largest=False).values
    log_ratio = 0.5 * torch.log(nearest[..., 1] / nearest[..., 0])
    ordered = log_ratio.masked_fill(left_out, math.inf).sort(dim=-1).values
    rank = torch.arange(1, cloud.tokens + 1, dtype=torch.float64)
    last = torch.floor((1.0 - discard) * points + 1e-9).clamp(max=points - 1)  # F = 1 has no logarithm
    used = rank <= last[..., None]
    x = torch.where(used, ordered, 0.0)
    y = -torch.log1p(-torch.where(used, rank / points[..., None], 0.0))
    below = x.square().sum(-1)
    enough = _defined(cloud) & (points >= _LEAST_POINTS) & (below > 0)
    return torch.where(enough, (x * y).sum(-1) / below, torch.nan)


def _repeated(cloud: Cloud, tolerance: float) -> Tensor:
    """True at rows that lie within the tolerance of an earlier row, `*batch tokens`."""

    def make() -> Tensor:
        squares = squared_distances(cloud)
        spread = squares.mean((-2, -1)) / 2  # the mean over all pairs is twice the mean squared distance from the mean
        near = squares <= tolerance**2 * spread[..., None, None]
        return near.tril(-1).any(-1)

    return cloud.shared(("repeated", tolerance), make)


def _without_self(squares: Tensor) -> Tensor:
    return squares.diagonal_scatter(torch.full_like(squares[..., 0], math.inf), dim1=-2, dim2=-1)


def _defined(cloud: Cloud) -> Tensor:
    return torch.isfinite(squared_distances(cloud).sum((-2, -1)))


def _require_resolved(tolerance: float) -> None:
    if not _RESOLVED <= tolerance < 1:
        raise ArgumentError(
            f"Argument `tolerance` must be at least {_RESOLVED:g}, which float64 overlaps resolve, and below 1, but it "
            f"is {tolerance}. Use for example 1e-6."
        )
