"""Whole distributions at the stream after every block: histogram, spectrum, threshold sweep, bands, directions."""

from __future__ import annotations

import numpy as np

from armillary.observables.alignment import mean_overlap_within, overlap_histogram
from armillary.observables.clustering import AngularDistance, cluster_sweep
from armillary.shapes import Pairs
from armillary.studies.batch import Grid, TapBatch
from armillary.studies.plan import CENTERED, SPHERE, TOKEN_SETS, position_bands

__all__ = ["PREPARATIONS", "Distributions"]

PREPARATIONS = (SPHERE, CENTERED)
"""The preparations of histogram and spectrum."""


class Distributions:
    """The arrays of one condition that hold more than one number a document.

    Args:
        grid: The axes.
    """

    def __init__(self, grid: Grid) -> None:
        self.plan = grid.plan
        self.bands = position_bands(grid.tokens, grid.plan.bands)
        layers, documents, plan = len(grid.layers), grid.documents, grid.plan
        self.histogram = np.zeros((layers, len(TOKEN_SETS), len(PREPARATIONS), documents, plan.bins), dtype=np.int64)
        self.singular_values = np.full(
            (layers, len(PREPARATIONS), documents, grid.tokens - 1), np.nan, dtype=np.float32
        )
        self.counts = np.full((layers, len(plan.thresholds), documents), np.nan)
        self.orders = np.full_like(self.counts, np.nan)
        self.by_band = np.full((layers, len(self.bands), documents), np.nan)
        self.massive = np.zeros((layers, documents, grid.tokens), dtype=np.int8)
        self.mean_direction: dict[int, np.ndarray] = {}

    def add(self, batch: TapBatch) -> None:
        """Take one batch; the mean direction is summed over documents, everything else kept for each."""
        row, where = batch.row, batch.where
        everything, without_first = batch.stream.shared
        for p, steps in enumerate(PREPARATIONS):
            for index, cloud in enumerate(batch.stream.shared):
                self.histogram[row, index, p, where] = self._counted(cloud.prepared(steps).pairs)
            self.histogram[row, 2, p, where] = self.histogram[row, 1, p, where]
            for document, cloud in batch.stream.alone.items():
                self.histogram[row, 2, p, batch.start + document] = self._counted(cloud.prepared(steps).pairs)
            values = without_first.prepared(steps).singular_values
            self.singular_values[row, p, where, : values.shape[-1]] = values.numpy()
        counts, orders = cluster_sweep(without_first.prepared(CENTERED), AngularDistance(), self.plan.thresholds)
        self.counts[row, :, where], self.orders[row, :, where] = counts.T, orders.T
        unit = everything.after("normalize").gram
        for band, (start, stop) in enumerate(self.bands):
            self.by_band[row, band, where] = mean_overlap_within(unit, start, stop)
        self.massive[row, where] = batch.massive.numpy()
        mean = without_first.after("normalize").rows.mean(-2).sum(0).numpy()
        self.mean_direction[row] = self.mean_direction.get(row, 0.0) + mean

    def _counted(self, pairs: Pairs) -> np.ndarray:
        return overlap_histogram(pairs, bins=self.plan.bins).numpy()
