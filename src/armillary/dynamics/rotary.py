"""Rotary positions given by their frequencies: coordinates of a head are rotated, pair by pair, by the position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.attention_drift import RotaryPositions
from armillary.errors import ArgumentError

__all__ = ["GivenRotations"]


@dataclass(frozen=True, eq=False)
class GivenRotations(RotaryPositions):
    """The first 2 p coordinates of queries and keys are rotated by position times frequency, p pairs; the rest stay.

    Coordinate k is paired with coordinate p + k. Source: Su et al. 2021, in the half-split layout.

    Args:
        base: Not used; the frequencies are given.
        frequencies: Radians per position, `pairs`.
        factor: What rotated coordinates are multiplied by.
    """

    frequencies: Tensor | None = None
    factor: float = 1.0

    def rotated(self, rows: Tensor) -> Tensor:
        """Rows `... tokens head_dim` rotated by their positions 0, 1, 2, ..."""
        assert self.frequencies is not None
        pairs = len(self.frequencies)
        if rows.shape[-1] < 2 * pairs:
            raise ArgumentError(
                f"Argument `frequencies` must fit into heads of {rows.shape[-1]} coordinates, but rotates {2 * pairs}. "
                "Give one frequency a pair."
            )
        place = torch.arange(rows.shape[-2], dtype=torch.float64, device=rows.device)
        angle = place[:, None] * self.frequencies.to(place)
        cos, sin = (self.factor * one.to(rows) for one in (angle.cos(), angle.sin()))
        first, second, rest = rows[..., :pairs], rows[..., pairs : 2 * pairs], rows[..., 2 * pairs :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)
