"""How unequal the coordinates of a row are: numbers of the basis, which any rotation changes."""

from __future__ import annotations

import torch

from armillary.observables.declaration import observable
from armillary.shapes import Configuration, Value

__all__ = ["coordinate_kurtosis", "largest_coordinate_share"]


@observable(
    symbol="max x_i^2/|x|^2",
    source="the share of a massive activation; Sun, Chen, Kolter & Liu 2024",
    definition="mean over tokens of max_i x_i^2 / |x|^2",
    undefined="no row of positive length",
    attainable=lambda tokens, dim: (1.0 / dim, 1.0),
)
def largest_coordinate_share(configuration: Configuration) -> Value:
    """Share of a row's squared length that its largest coordinate holds: 1/d if all are alike, 1 for a basis vector."""
    squares = configuration.square()
    return (squares.amax(-1) / squares.sum(-1)).nanmean(-1)


@observable(
    symbol="kurt",
    source="the fourth moment of the coordinates; Elhage, Lasenby & Olah 2023",
    definition="mean over tokens of d sum_i x_i^4 / (sum_i x_i^2)^2",
    undefined="no row of positive length",
    attainable=lambda tokens, dim: (1.0, float(dim)),
)
def coordinate_kurtosis(configuration: Configuration) -> Value:
    """Fourth moment of a row's coordinates over the square of the second: 1 if all are alike in size, d for a basis vector.

    A row in a random direction has 3 d / (d + 2).
    """
    squares = configuration.square()
    second = squares.sum(-1)
    return (
        configuration.shape[-1] * squares.square().sum(-1) / torch.where(second > 0, second, torch.nan).square()
    ).nanmean(-1)
