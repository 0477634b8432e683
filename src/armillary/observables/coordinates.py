"""How unequal the coordinates of a row are: numbers of the basis, which any rotation changes."""

from __future__ import annotations

import torch

from armillary.observables.claims import WHATEVER_THE_ORDER, Claim
from armillary.observables.declaration import observable
from armillary.shapes import Configuration, Value
from armillary.transformations.linear import FeaturePermutation
from armillary.transformations.rows import RowScale

__all__ = ["coordinate_kurtosis", "largest_coordinate_share"]

_PAGE = "docs/gauges.md, 8"
_CLAIMS = (
    Claim(FeaturePermutation, "it sums over coordinates or takes the largest, whatever their order", _PAGE),
    Claim(RowScale, "it is a ratio within each row, in which the row's factor cancels", _PAGE),
    WHATEVER_THE_ORDER,
)


@observable(
    symbol="max x_i²/|x|²",
    source="the share of a massive activation; Sun, Chen, Kolter & Liu 2024",
    definition="mean over tokens of max_i x_i^2 / |x|^2",
    undefined="no row of positive length",
    attainable=lambda tokens, dim: (1.0 / dim, 1.0),
    claims=_CLAIMS,
)
def largest_coordinate_share(configuration: Configuration) -> Value:
    """Share of a row's squared length that its largest coordinate holds: 1/d if all are alike, 1 for a basis vector."""
    squares = configuration.square()
    return (squares.amax(-1) / squares.sum(-1)).nanmean(-1)


@observable(
    symbol="kurt x",
    source="the fourth moment of the coordinates; Elhage, Lasenby & Olah 2023",
    definition="mean over tokens of d sum_i x_i^4 / (sum_i x_i^2)^2",
    undefined="no row of positive length",
    attainable=lambda tokens, dim: (1.0, float(dim)),
    claims=_CLAIMS,
)
def coordinate_kurtosis(configuration: Configuration) -> Value:
    """Fourth moment of a row's coordinates over the square of the second: 1 if all are alike in size.

    A basis vector has d; a row in a random direction has 3 d / (d + 2).
    """
    squares = configuration.square()
    second = squares.sum(-1)
    fourth = configuration.shape[-1] * squares.square().sum(-1)
    return (fourth / torch.where(second > 0, second, torch.nan).square()).nanmean(-1)
