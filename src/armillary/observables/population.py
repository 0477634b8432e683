"""How many directions the population has that the rows were drawn from: participation rank without the sample's bias.

The participation rank of T rows grows with T until it reaches that of the population (roughly, 1/R = 1/R_population +
1/T), so that ranks from documents of different lengths cannot be compared. Here numerator and denominator are averages
over distinct rows, each without bias. Their ratio keeps a bias of the order of the denominator's relative variance: of
variances 1, 1/2, 1/3 ... 1/60 (participation rank 13.4), 16 rows give 15.3 on average where the plain rank gives 7.2,
and 64 rows 13.9 where it gives 11.2.
What is estimated is the participation rank of the covariance, so that "center" before it changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from armillary.observables.claims import (
    BY_DIFFERENCES,
    BY_INNER_PRODUCTS,
    FREE_OF_SCALE,
    WHATEVER_THE_ORDER,
    Claim,
)
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import observable
from armillary.observables.unbiased import LEAST_ROWS, squared_covariance, squared_variance
from armillary.shapes import Overlaps, Value
from armillary.transformations.linear import FeaturePermutation

__all__ = ["both_ways_participation_rank", "population_participation_rank", "population_participation_rank_about_zero"]

_SOURCE = "Chun, Canatar, Chung & Lee 2025, arXiv:2509.26560"
_FEW = "fewer than four rows, or an estimate of sum l^2 that is not positive"


def _unbounded_above(tokens: int, dim: int) -> tuple[float, float]:
    return 0.0, float("inf")


@observable(
    symbol="R_pop",
    source=f"{_SOURCE}, correction for rows",
    undefined=_FEW,
    attainable=_unbounded_above,
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER, FREE_OF_SCALE, BY_DIFFERENCES),
)
def population_participation_rank(cloud: Cloud) -> Value:
    """Participation rank (tr S)^2 / tr S^2 of the covariance S that the rows were drawn from, whatever their number.

    Rows are taken as independent draws from a population with the coordinates that it has: the coordinates are given,
    not sampled. Tokens of one document are not independent; what is estimated for a document is the population that
    longer documents of its kind would show only as far as that is a fair picture. An estimate can exceed the number
    of rows, and of coordinates; the rank of the population cannot exceed the latter.
    """
    return _ratio(squared_variance(cloud), squared_covariance(cloud, cloud))


@observable(
    symbol="R_pop about 0",
    source=f"{_SOURCE}, correction for rows, without subtracting a mean",
    undefined="fewer than two rows, or all of them orthogonal",
    attainable=_unbounded_above,
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER, FREE_OF_SCALE),
)
def population_participation_rank_about_zero(gram: Overlaps) -> Value:
    """Participation rank of the second moment M = E x x^T about zero: mean of G_ii G_jj over mean of G_ij^2, i != j.

    What `participation_rank` of rows that were not centered tends to for many rows. Rows and coordinates as in
    `population_participation_rank`; rows that were centered are no longer independent and belong there.
    """
    squares = gram.diagonal(dim1=-2, dim2=-1)
    with_itself = squares.square().sum(-1)
    return _ratio(squares.sum(-1).square() - with_itself, gram.square().sum((-2, -1)) - with_itself)


@observable(
    symbol="R_pop, both ways",
    source=f"{_SOURCE}, correction for rows and columns",
    undefined=f"{_FEW}, or fewer than two coordinates",
    attainable=lambda tokens, dim: (float("-inf"), float("inf")),
    claims=(
        Claim(FeaturePermutation, "it treats all coordinates alike", "docs/audit.md, 2"),
        WHATEVER_THE_ORDER,
        FREE_OF_SCALE,
        BY_DIFFERENCES,
    ),
)
def both_ways_participation_rank(cloud: Cloud) -> Value:
    """Participation rank of a population of rows and of coordinates, of which both are a sample: (N - c) / (D - c).

    N and D are numerator and denominator of `population_participation_rank`, c the sum over coordinates of the unbiased
    estimate of their squared variance: the pairs in which a coordinate meets itself. Coordinates are taken as drawn
    from a larger population of exchangeable ones (neurons of an area, of which some were recorded); of a decoder's
    stream all coordinates are there, and the correction for rows alone is the one that fits.
    """
    met = _squared_variances(cloud.after("center").rows.to(cloud.gram.dtype)).sum(-1)
    return _ratio(squared_variance(cloud) - met, squared_covariance(cloud, cloud) - met)


def _squared_variances(centered: Tensor) -> Tensor:
    """Unbiased estimate of each coordinate's squared variance, `*batch dim`, from its power sums about the mean."""
    n = max(centered.shape[-2], LEAST_ROWS)  # of fewer rows the averages beside it are undefined
    squares = centered.square()
    second, fourth = squares.sum(-2).square(), squares.square().sum(-2)
    pairs = (second - fourth) / (n * (n - 1))
    triples = (2 * fourth - second) / (n * (n - 1) * (n - 2))
    quadruples = (3 * second - 6 * fourth) / (n * (n - 1) * (n - 2) * (n - 3))
    return pairs - 2 * triples + quadruples


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    return torch.where(below > 0, above / below, torch.nan)
