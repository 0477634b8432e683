"""From the states of one pass to numbers: each tap's rows are reduced inside the pass and never kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.invariance import values_after
from armillary.models.capture import Tap
from armillary.observables.alignment import mean_overlap_within, overlap_histogram
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.clustering import AngularDistance, cluster_sweep
from armillary.observables.declaration import Measurement
from armillary.observables.drift import (
    massive_tokens,
    stream_norm_first,
    stream_norm_mean,
    stream_norm_median,
    stream_norm_spread,
    sublayer_update,
    zero_rows,
)
from armillary.studies.finite import require_finite
from armillary.studies.plan import CENTERED, SPHERE, TOKEN_SETS, Plan, position_bands

__all__ = ["TapReader"]

NORMS = (stream_norm_mean, stream_norm_spread, stream_norm_median)
WHOLE_STREAM = (stream_norm_first, zero_rows)
UPDATES = ("norm", "radial", "tangential", "angle")
HISTOGRAM_PREPARATIONS = (SPHERE, CENTERED)


class TapReader:
    """Fills the arrays of one condition, batch after batch of documents.

    Args:
        measurements: At the stream after every block, in all token sets.
        light: Those of them taken at the other taps too.
        layers: Which layers, ascending.
        documents: Number of documents.
        tokens: Tokens in each.
        plan: The laboratory's further choices.
        calibrations: For each layer, what was estimated on other documents.
        maps: For each statement layer, the matrices (or diagonals) that its rows are multiplied by.
        condition: Name, for messages.
        titles: Document titles, for messages.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        light: Sequence[Measurement],
        *,
        layers: Sequence[int],
        documents: int,
        tokens: int,
        plan: Plan,
        calibrations: Mapping[int, Calibration],
        maps: Mapping[int, Sequence[Tensor]],
        condition: str,
        titles: Sequence[str],
    ) -> None:
        self.measurements, self.light, self.plan = tuple(measurements), tuple(light), plan
        self.layers = {layer: index for index, layer in enumerate(layers)}
        self.calibrations = calibrations
        self.condition, self.titles = condition, titles
        self.bands = position_bands(tokens, plan.bands)
        self.start = 0
        self.before: Tensor | None = None
        self.mean_direction: dict[int, np.ndarray] = {}
        size = (len(self.layers), len(TOKEN_SETS), documents)
        self.updates: dict[tuple[str, str], np.ndarray] = {}
        self.massive_counts: dict[str, np.ndarray] = {}
        self.values = {("block", m): _empty(*size) for m in self.measurements}
        for place in ("mid", "block_read", "mid_read"):
            self.values |= {(place, m): _empty(*size) for m in self.light}
        for place in ("block", "mid"):
            self.values |= {(place, m.after()): _empty(*size) for m in (*NORMS, *WHOLE_STREAM)}
            self.updates |= {(place, part): _empty(*size) for part in UPDATES}
            self.massive_counts[place] = _empty(*size)
        self.histogram = np.zeros((len(self.layers), 3, 2, documents, plan.bins), dtype=np.int64)
        self.singular_values = np.full((len(self.layers), 2, documents, tokens - 1), np.nan, dtype=np.float32)
        self.sweep = {k: _empty(len(self.layers), len(plan.thresholds), documents) for k in ("count", "order")}
        self.by_band = _empty(len(self.layers), len(self.bands), documents)
        self.massive = np.zeros((len(self.layers), documents, tokens), dtype=np.int8)
        self.maps = maps
        self.statement = {layer: _empty(len(m) + 1, len(self.measurements), documents) for layer, m in maps.items()}

    def at(self, start: int) -> TapReader:
        """The reader, told that the next batch begins with document `start`."""
        self.start, self.before = start, None
        return self

    def __call__(self, tap: Tap, residual: Tensor, read: Tensor) -> None:
        """Reduce one batch of states at one tap: the sink that `stream` calls."""
        before, self.before = self.before, residual
        norms = torch.linalg.vector_norm(residual, dim=-1, dtype=torch.float32).cpu()
        if not bool(torch.isfinite(norms).all()):
            require_finite(residual, tap=tap, condition=self.condition, titles=self.titles[self.start :])
        if tap.layer not in self.layers:
            return
        layer, where = self.layers[tap.layer], slice(self.start, self.start + len(residual))
        massive = massive_tokens(norms, ratio=self.plan.massive_ratio)
        residual, read = residual.cpu(), read.cpu()
        stream = Cloud(
            residual,
            accumulate=torch.float64 if tap.place == "block" else None,
            calibration=self.calibrations.get(tap.layer),
        )
        measurements = self.measurements if tap.place == "block" else self.light
        sets = _token_sets(stream, massive)
        self._fill(tap.place, measurements, sets, layer, where)
        self._fill(tap.place, [one.after() for one in (*NORMS, zero_rows)], sets, layer, where)
        self._store(tap.place, stream_norm_first.after(), layer, 0, where, stream_norm_first.after().of(stream))
        handed_on = Cloud(read)
        read_sets = _token_sets(handed_on, massive)
        self._fill(f"{tap.place}_read", self.light, read_sets, layer, where)
        self._tokens(tap.place, massive, layer, where)
        if before is not None and tap.layer > 0:
            self._update(tap.place, before.cpu(), residual, massive, layer, where)
        if tap.place == "block":
            self._pictures(sets, layer, where)
            self.massive[layer, where] = massive.numpy()
            self._mean_direction(tap.layer, stream)
            if tap.layer in self.statement:
                self._statement(tap.layer, stream, where)
        for cloud in (stream, handed_on, *sets.alone.values(), *read_sets.alone.values()):
            cloud.forget()

    def _store(self, place: str, key: Measurement, layer: int, token_set: int, where: slice, value: Tensor) -> None:
        self.values[(place, key)][layer, token_set, where] = value.numpy()

    def _fill(
        self, place: str, measurements: Sequence[Measurement], sets: _TokenSets, layer: int, where: slice
    ) -> None:
        for measurement in measurements:
            for index, cloud in enumerate(sets.shared):
                self._store(place, measurement, layer, index, where, measurement.of(cloud))
            row = self.values[(place, measurement)][layer]
            row[2, where] = row[1, where]
            for document, cloud in sets.alone.items():
                row[2, self.start + document] = float(measurement.of(cloud))

    def _tokens(self, place: str, massive: Tensor, layer: int, where: slice) -> None:
        row = self.massive_counts[place][layer]
        row[0, where] = massive.sum(-1).numpy()
        row[1, where] = massive[:, 1:].sum(-1).numpy()
        row[2, where] = 0

    def _update(self, place: str, before: Tensor, after: Tensor, massive: Tensor, layer: int, where: slice) -> None:
        update = sublayer_update(before, after)
        masks = torch.stack([torch.ones_like(massive), torch.ones_like(massive), ~massive]).double()
        masks[1:, :, 0] = 0
        for part in UPDATES:
            value = torch.where(masks > 0, getattr(update, part).double(), 0.0)
            self.updates[(place, part)][layer, :, where] = (value.sum(-1) / masks.sum(-1)).numpy()

    def _pictures(self, sets: _TokenSets, layer: int, where: slice) -> None:
        for p, steps in enumerate(HISTOGRAM_PREPARATIONS):
            for t, cloud in enumerate(sets.shared):
                self.histogram[layer, t, p, where] = overlap_histogram(cloud.prepared(steps).pairs, bins=self.plan.bins)
            self.histogram[layer, 2, p, where] = self.histogram[layer, 1, p, where]
            for document, cloud in sets.alone.items():
                counts = overlap_histogram(cloud.prepared(steps).pairs, bins=self.plan.bins)
                self.histogram[layer, 2, p, self.start + document] = counts
            values = sets.shared[1].prepared(steps).singular_values
            self.singular_values[layer, p, where, : values.shape[-1]] = values.numpy()
        counts, orders = cluster_sweep(sets.shared[1].prepared(CENTERED), AngularDistance(), self.plan.thresholds)
        self.sweep["count"][layer, :, where], self.sweep["order"][layer, :, where] = counts.T, orders.T
        unit = sets.shared[0].after("normalize").gram
        for band, (start, stop) in enumerate(self.bands):
            self.by_band[layer, band, where] = mean_overlap_within(unit, start, stop)

    def _mean_direction(self, layer: int, stream: Cloud) -> None:
        mean = stream.without_tokens(1).after("normalize").rows.mean(-2).sum(0).numpy()
        self.mean_direction[layer] = self.mean_direction.get(layer, 0.0) + mean

    def _statement(self, layer: int, stream: Cloud, where: slice) -> None:
        kept = stream.without_tokens(1)
        table = self.statement[layer]
        for m, measurement in enumerate(self.measurements):
            table[0, m, where] = measurement.of(kept).numpy()
        for t, matrix in enumerate(self.maps[layer], start=1):
            after = values_after(kept, matrix, self.measurements)
            table[t, :, where] = np.stack([value.numpy() for value in after])


class _TokenSets:
    """The clouds of a batch with all tokens and without the first, and those documents alone that hold massive ones."""

    def __init__(self, shared: tuple[Cloud, Cloud], alone: dict[int, Cloud]) -> None:
        self.shared, self.alone = shared, alone


def _token_sets(stream: Cloud, massive: Tensor) -> _TokenSets:
    later = massive.clone()
    later[:, 0] = False
    alone = {}
    for document in later.any(-1).nonzero().flatten().tolist():
        keep = ~later[document]
        keep[0] = False
        alone[document] = stream.member(document, keep)
    return _TokenSets((stream, stream.without_tokens(1)), alone)


def _empty(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan)
