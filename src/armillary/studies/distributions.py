"""Whole distributions at the stream after every block: histogram, spectrum, threshold sweep, bands, directions."""

from __future__ import annotations

import numpy as np

from armillary.observables.alignment import histogram_edges, mean_overlap_within, overlap_histogram
from armillary.observables.clustering import cluster_sweep
from armillary.observables.distances import AngularDistance
from armillary.shapes import Pairs
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Setting, Variable, attainable
from armillary.studies.layout import Layout
from armillary.studies.plan import CENTERED, SPHERE, TOKEN_SETS, position_bands

__all__ = ["PREPARATIONS", "Distributions"]

PREPARATIONS = (SPHERE, CENTERED)
"""The preparations of histogram and spectrum."""


class Distributions(Collector):
    """Variables that hold more than one number a document."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.plan = self.layout.plan
        self.bands = position_bands(self.layout.tokens, self.plan.bands)

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """Histogram, spectrum, sweep, bands, massive tokens and mean direction, with their own axes."""
        edges = histogram_edges(layout.plan.bins).numpy()
        steps = [", ".join(one) for one in PREPARATIONS]
        bands = position_bands(layout.tokens, layout.plan.bands)
        return Declared(
            _variables(layout),
            {
                "bin": ("bin", (edges[:-1] + edges[1:]) / 2, {"edges": edges}),
                "threshold": ("threshold", np.asarray(layout.plan.thresholds), {"units": "radians"}),
                "band": [f"{start}-{stop - 1}" for start, stop in bands],
                "histogram_tokens": list(TOKEN_SETS),
                "histogram_preparation": steps,
                "spectrum_preparation": steps,
            },
        )

    def add(self, batch: TapBatch) -> None:
        """Take one batch; the mean direction is summed over documents, everything else kept for each."""
        if batch.tap.place != "block":
            return
        row, found = batch.row, self.arrays
        everything, without_first = batch.stream.shared
        histogram = found["overlap_histogram"][:, row]
        for p, steps in enumerate(PREPARATIONS):
            for index, cloud in enumerate(batch.stream.shared):
                histogram[:, index, p] = self._counted(cloud.prepared(steps).pairs)
            histogram[:, 2, p] = histogram[:, 1, p]
            for document, cloud in batch.stream.alone.items():
                histogram[document, 2, p] = self._counted(cloud.prepared(steps).pairs)
            values = without_first.prepared(steps).singular_values
            found["singular_values"][:, row, p, : values.shape[-1]] = values.numpy()
        counts, orders = cluster_sweep(without_first.prepared(CENTERED), AngularDistance(), self.plan.thresholds)
        found["cluster_count_sweep"][:, row], found["order_parameter_sweep"][:, row] = counts, orders
        unit = everything.after("normalize").gram
        for band, (start, stop) in enumerate(self.bands):
            found["overlap_by_band"][:, row, band] = mean_overlap_within(unit, start, stop)
        found["massive_token_mask"][:, row] = batch.massive.numpy()
        found["mean_direction"][row] = without_first.after("normalize").rows.mean(-2).sum(0).numpy()

    def _counted(self, pairs: Pairs) -> np.ndarray:
        return overlap_histogram(pairs, bins=self.plan.bins).numpy()


def _variables(layout: Layout) -> dict[str, Variable]:
    swept = {"tap": "block", "tokens": "without_first", "preparation": ", ".join(CENTERED)}
    sweep = ("condition", "layer", "threshold", "document")
    return {
        "overlap_histogram": Variable(
            ("condition", "layer", "histogram_tokens", "histogram_preparation", "document", "bin"),
            {
                "definition": "exact counts of overlaps over unordered pairs i < j, no self-pair; bins half open, the "
                "last closed, rounding beyond +-1 counted in the end bins; all zero = undefined",
                "tap": "block",
            },
            dtype="int64",
            fill=0,
        ),
        "singular_values": Variable(
            ("condition", "layer", "spectrum_preparation", "document", "component"),
            {"definition": "singular values of the rows, descending", "tap": "block", "tokens": "without_first"},
            dtype="float32",
        ),
        "order_parameter_sweep": Variable(
            sweep,
            {
                "definition": "sum of squared shares of groups connected within the threshold angle",
                **swept,
                **attainable(1.0 / layout.tokens, 1.0),
            },
        ),
        "cluster_count_sweep": Variable(
            sweep,
            {
                "definition": "number of groups, connected components within the threshold angle",
                **swept,
                **attainable(1.0, layout.tokens),
            },
        ),
        "overlap_by_band": Variable(
            ("condition", "layer", "band", "document"),
            {
                "definition": "mean overlap of the pairs whose positions both lie in the band",
                "tap": "block",
                "tokens": "without_first",
                "preparation": "normalize",
                **attainable(-1.0, 1.0),
            },
        ),
        "massive_token_mask": Variable(
            ("condition", "layer", "document", "position"),
            {
                "definition": f"1 where a norm exceeds {layout.plan.massive_ratio:g} medians of the document",
                "tap": "block",
            },
            dtype="int8",
            fill=0,
        ),
        "mean_direction": Variable(
            ("condition", "layer", "coordinate"),
            {
                "definition": "mean over documents of the mean of the unit rows",
                "tap": "block",
                "tokens": "without_first",
            },
        ),
    }
