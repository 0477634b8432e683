"""Each layer set against the layer before it and against the embedding, while the batch is still on its way.

Two layers are kept, the embedding and the one before, and of each only what a number needs of it: for the laboratory's
own, a matrix `tokens tokens`. The last layer is no third: it is known when the pass ends, and every layer would have to
be kept until then. What the last layer has left of the embedding is measured, and so is what each step costs.
"""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor

from armillary.observables.between import BetweenMeasurement
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Setting, Variable, attainable
from armillary.studies.layout import Layout

__all__ = ["REFERENCES", "Between"]

REFERENCES = {"previous": "the measured layer before", "embedding": "the embedding"}
"""What a layer is compared with, by the end of the variable's name."""

_DIMS = ("condition", "layer", "preparation", "document")


class Between(Collector):
    """Variables NAME_to_previous and NAME_to_embedding: tokens without the first, stream after every block."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.measurements = tuple(
            one for one in self.layout.between if setting.calibrations or not one.preparation.needs_calibration
        )
        self._preparations = {name: index for index, name in enumerate(self.layout.preparations)}
        self._kept: dict[tuple[str, BetweenMeasurement], Tensor] = {}

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """One variable for each number and what it is compared with; nothing with the embedding if that is left out."""
        return Declared(
            {
                f"{one.name}_to_{reference}": Variable(_DIMS, _attributes(layout, one, words))
                for one in layout.between
                for reference, words in REFERENCES.items()
                if reference != "embedding" or 0 in layout.rows
            }
        )

    @classmethod
    def held(cls, layout: Layout) -> int:
        """A matrix of overlaps in float64 for each number, of the embedding and of the layer before."""
        return len(layout.between) * len(REFERENCES) * 8 * layout.tokens**2

    def begin(self, documents: int) -> None:
        """Fresh arrays, and nothing kept."""
        super().begin(documents)
        self._kept = {}

    def add(self, batch: TapBatch) -> None:
        """Compare the stream after a block with what was kept, and keep it in turn."""
        if batch.tap.place != "block":
            return
        cloud = batch.stream.shared[1]
        for one in self.measurements:
            reduced, at = one.reduced(cloud), self._preparations[str(one.preparation)]
            for reference in REFERENCES:
                if (reference, one) in self._kept:
                    value = one.compared(reduced, self._kept[(reference, one)], cloud.batch)
                    self.arrays[f"{one.name}_to_{reference}"][:, batch.row, at] = value.numpy()
            self._kept[("previous", one)] = reduced
            if batch.tap.layer == 0:
                self._kept[("embedding", one)] = reduced

    def finish(self, final: Tensor, ids: Tensor) -> None:
        """Let go of what was kept."""
        self._kept = {}


def _attributes(layout: Layout, measurement: BetweenMeasurement, words: str) -> dict[str, Any]:
    one, rows = measurement.observable, layout.tokens - 1
    return {
        "symbol": one.symbol,
        "definition": f"{one.definition}; x this layer, y {words}",
        "source": one.source,
        "undefined": f"{one.undefined}; at the first layer there is nothing before it",
        "compared_with": words,
        "preparations": json.dumps([str(other.preparation) for other in layout.between if other.name == one.name]),
        "independent": float(one.independent(rows, layout.width)),
        "tap": "block",
        "tokens": "without_first",
        **dict(one.parameters),
        **attainable(*one.attainable(rows, layout.width)),
    }
