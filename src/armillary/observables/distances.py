"""How far apart two directions are: distances between unit rows, each a metric that follows from the overlap alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["AngularDistance", "ChordalDistance", "Distance"]


class Distance(Protocol):
    """What a grouping asks of a distance: a metric on unit rows that decreases with their overlap."""

    @property
    def unit(self) -> str:
        """The unit of its values, empty if it has none."""
        ...

    def of(self, overlaps: Tensor) -> Tensor:
        """Distances from overlaps of unit rows, of the same shape, in float64."""
        ...


@dataclass(frozen=True)
class AngularDistance:
    """Angle between directions, arccos c_ij, in radians within [0, pi]."""

    unit = "rad"

    def of(self, overlaps: Tensor) -> Tensor:
        """Distances from overlaps of unit rows, of the same shape, in float64."""
        return torch.arccos(overlaps.double().clamp(-1.0, 1.0))

    def __str__(self) -> str:
        return "angular distance"


@dataclass(frozen=True)
class ChordalDistance:
    """Straight distance between unit vectors, sqrt(2 - 2 c_ij), within [0, 2]."""

    unit = ""

    def of(self, overlaps: Tensor) -> Tensor:
        """Distances from overlaps of unit rows, of the same shape, in float64."""
        return torch.sqrt((2.0 - 2.0 * overlaps.double()).clamp(min=0.0))

    def __str__(self) -> str:
        return "chordal distance"
