"""One number for each document, layer and token set: measurements, norms, and what each sublayer adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.observables.declaration import Measurement
from armillary.observables.drift import (
    stream_norm_first,
    stream_norm_mean,
    stream_norm_median,
    stream_norm_spread,
    sublayer_update,
    zero_rows,
)
from armillary.studies.batch import Grid, TapBatch, TokenSets
from armillary.studies.plan import TAPS, TOKEN_SETS

__all__ = ["PLACES", "UPDATES", "Scalars"]

PLACES = TAPS[:2]
"""The taps on the residual stream itself."""

UPDATES = ("norm", "radial", "tangential", "angle")
"""The parts of a sublayer's update."""

_OF_EACH_SET = tuple(one.after() for one in (stream_norm_mean, stream_norm_spread, stream_norm_median, zero_rows))
_OF_ALL_TOKENS = stream_norm_first.after()


class Scalars:
    """The arrays `layer token_set document` of one condition, by tap and measurement.

    Args:
        measurements: At the stream after every block.
        light: Those of them taken at the other taps too.
        grid: The axes.
    """

    def __init__(self, measurements: Sequence[Measurement], light: Sequence[Measurement], grid: Grid) -> None:
        self.measurements, self.light = tuple(measurements), tuple(light)
        shape = (len(grid.layers), len(TOKEN_SETS), grid.documents)
        at_each = {tap: self.measurements if tap == "block" else self.light for tap in TAPS}
        for place in PLACES:
            at_each[place] = (*at_each[place], *_OF_EACH_SET, _OF_ALL_TOKENS)
        self.values = {(tap, one): np.full(shape, np.nan) for tap, chosen in at_each.items() for one in chosen}
        self.updates = {(place, part): np.full(shape, np.nan) for place in PLACES for part in UPDATES}
        self.massive = {place: np.full(shape, np.nan) for place in PLACES}

    def add(self, batch: TapBatch) -> None:
        """Measure one batch."""
        place = batch.tap.place
        measured = self.measurements if place == "block" else self.light
        self._fill(place, (*measured, *_OF_EACH_SET), batch.stream, batch)
        self._fill(f"{place}_read", self.light, batch.read, batch)
        first = self.values[(place, _OF_ALL_TOKENS)][batch.row]
        first[0, batch.where] = _OF_ALL_TOKENS.of(batch.stream.shared[0]).numpy()
        counts = self.massive[place][batch.row]
        counts[0, batch.where] = batch.massive.sum(-1).numpy()
        counts[1, batch.where] = batch.massive[:, 1:].sum(-1).numpy()
        counts[2, batch.where] = 0
        if batch.before is not None and batch.tap.layer > 0:
            self._add_update(batch, batch.before)

    def _fill(self, tap: str, measurements: Sequence[Measurement], sets: TokenSets, batch: TapBatch) -> None:
        for measurement in measurements:
            block = self.values[(tap, measurement)][batch.row]
            for index, cloud in enumerate(sets.shared):
                block[index, batch.where] = measurement.of(cloud).numpy()
            block[2, batch.where] = block[1, batch.where]
            for document, cloud in sets.alone.items():
                block[2, batch.start + document] = float(measurement.of(cloud))

    def _add_update(self, batch: TapBatch, before: Tensor) -> None:
        update = sublayer_update(before, batch.residual)
        everything = torch.ones_like(batch.massive)
        chosen = torch.stack([everything, everything, ~batch.massive])
        chosen[1:, :, 0] = False
        for part in UPDATES:
            value = torch.where(chosen, getattr(update, part).double(), 0.0)
            mean = value.sum(-1) / chosen.sum(-1)
            self.updates[(batch.tap.place, part)][batch.row, :, batch.where] = mean.numpy()
