"""Each number before and after a change of basis, at a few layers of the condition that carries the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from armillary.invariance import values_after
from armillary.observables.declaration import Measurement
from armillary.studies.batch import Grid, TapBatch

__all__ = ["Statement"]


class Statement:
    """The arrays `map measurement document` at each statement layer; the first map is none.

    Args:
        measurements: What is measured before and after, first token left out.
        maps: For each statement layer, the matrices (`dim dim`) or diagonals (`dim`) that its rows are multiplied by.
        grid: The axes.
    """

    def __init__(self, measurements: Sequence[Measurement], maps: Mapping[int, Sequence[Tensor]], grid: Grid) -> None:
        self.measurements, self.maps = tuple(measurements), maps
        self.values = {
            layer: np.full((len(chosen) + 1, len(self.measurements), grid.documents), np.nan)
            for layer, chosen in maps.items()
        }

    def add(self, batch: TapBatch) -> None:
        """Map one batch and measure again, if its layer carries the statement."""
        if batch.tap.layer not in self.values:
            return
        cloud, table = batch.stream.shared[1], self.values[batch.tap.layer]
        for m, measurement in enumerate(self.measurements):
            table[0, m, batch.where] = measurement.of(cloud).numpy()
        for t, matrix in enumerate(self.maps[batch.tap.layer], start=1):
            after = values_after(cloud, matrix, self.measurements)
            table[t, :, batch.where] = np.stack([value.numpy() for value in after])
