"""The axes that the numbers of a laboratory share, with their labels and lengths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from armillary.observables.between import BetweenMeasurement
from armillary.observables.declaration import Measurement
from armillary.studies.plan import TAPS, TOKEN_SETS, Plan

__all__ = ["UNKNOWN", "Layout"]

UNKNOWN = "unknown"
"""The wiring of a decoder that is not at hand: of its stream there is what was captured after every block."""


@dataclass(frozen=True)
class Layout:
    """What is measured, where, and on how much: enough to declare every variable of a record before a pass is made.

    Args:
        conditions: Names; the first one carries the statement.
        layers: Measured layers, ascending.
        measurements: At the stream after every block.
        between: Between every layer and the one before it, and the embedding.
        titles: Of the documents.
        tokens: Tokens in each document.
        depth: Number of blocks of the decoder.
        width: Coordinates of its stream.
        heads: Attention heads of each block.
        residual: "sequential", or "parallel": attention and MLP read one stream, and there is no tap between them.
        resolution: eps of the dtype of its states.
        plan: The laboratory's further choices.
        seed: Of the statement's maps.
    """

    conditions: tuple[str, ...]
    layers: tuple[int, ...]
    measurements: tuple[Measurement, ...]
    between: tuple[BetweenMeasurement, ...]
    titles: tuple[str, ...]
    tokens: int
    depth: int
    width: int
    heads: int
    residual: str
    resolution: float
    plan: Plan
    seed: int

    @property
    def taps(self) -> tuple[str, ...]:
        """Those of the axis `tap` that the decoder has; numbers at the others are not measured."""
        if self.residual == UNKNOWN:
            return TAPS[:1]
        return tuple(tap for tap in TAPS if self.residual == "sequential" or not tap.startswith("mid"))

    @property
    def preparations(self) -> list[str]:
        """Every declared preparation, rows as given first."""
        between = [str(one.preparation) for one in self.between]
        return list(dict.fromkeys(["as given", *(str(one.preparation) for one in self.measurements), *between]))

    @cached_property
    def coordinates(self) -> dict[str, Any]:
        """Labels of the shared axes, as xarray takes them."""
        return {
            "condition": list(self.conditions),
            "layer": np.asarray(self.layers),
            "tap": list(TAPS),
            "tokens": list(TOKEN_SETS),
            "preparation": self.preparations,
            "document": list(self.titles),
            "component": np.arange(self.tokens - 1),
            "position": np.arange(self.tokens),
            "coordinate": np.arange(self.width),
        }

    @cached_property
    def rows(self) -> dict[int, int]:
        """Place of each measured layer on the axis of layers."""
        return {layer: row for row, layer in enumerate(self.layers)}
