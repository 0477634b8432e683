"""What takes numbers from the passes of one condition: the one interface of every statistic of a laboratory.

A collector declares its variables before anything runs; from that its arrays are made for each chunk, with one row a
document, and put together afterwards. Writing one is a class with `declared` and `add`, named in `collectors.py`:

    class Lengths(Collector):
        @classmethod
        def declared(cls, layout):
            return Declared({"length": Variable(("condition", "layer", "document"), {"definition": "..."})})

        def add(self, batch):
            if batch.tap.place == "block":
                self.arrays["length"][:, batch.row] = batch.stream.shared[0].norms.mean(-1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from armillary.models.anatomy import Decoder
from armillary.observables.cloud import Calibration
from armillary.observables.declaration import Measurement
from armillary.records.assembly import Variable
from armillary.studies.batch import TapBatch
from armillary.studies.layout import Layout

__all__ = ["Collector", "Declared", "Setting", "Variable", "attainable"]


@dataclass(frozen=True)
class Declared:
    """What one collector contributes to a record.

    Args:
        variables: By name.
        coordinates: Labels of axes of its own, as xarray takes them: a sequence, or (axis, labels, attributes).
    """

    variables: Mapping[str, Variable]
    coordinates: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Setting:
    """What a collector works in: the axes, and the decoder in one condition.

    Args:
        layout: Axes and choices.
        decoder: In this condition.
        condition: Its name.
        calibrations: For each layer, what was estimated on other documents; empty without them.
    """

    layout: Layout
    decoder: Decoder
    condition: str
    calibrations: Mapping[int, Calibration]

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Those that can be taken here: without calibration, what needs one is left out."""
        return tuple(
            one for one in self.layout.measurements if self.calibrations or not one.preparation.needs_calibration
        )


class Collector:
    """Takes numbers from the passes of one condition, one chunk after the other.

    For each chunk: `begin`, then the pass inside `listening` with one `add` a tap, then `finish`; `arrays` then holds
    the chunk's numbers. An instance serves all chunks of a condition and must carry nothing from one to the next.

    Args:
        setting: Axes, decoder, condition.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting, self.layout = setting, setting.layout
        self.arrays: dict[str, np.ndarray] = {}

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """Variables and axes of its own; pure, and the same for every condition."""
        raise NotImplementedError

    @classmethod
    def belongs(cls, setting: Setting) -> bool:
        """Whether it takes part in this condition."""
        return True

    @classmethod
    def held(cls, layout: Layout) -> int:
        """Bytes for each document of a chunk that it holds during a pass beyond its arrays and the batch at hand."""
        return 0

    def begin(self, documents: int) -> None:
        """Fresh arrays for a chunk of so many documents."""
        declared = self.declared(self.layout)
        labels = self.layout.coordinates | dict(declared.coordinates)
        self.arrays = {name: blank(one, labels, documents) for name, one in declared.variables.items()}

    def listening(self) -> AbstractContextManager[Any]:
        """Open during the pass: hooks of its own, gone afterwards."""
        return nullcontext()

    def add(self, batch: TapBatch) -> None:
        """Take the states at one tap."""

    def finish(self, final: Tensor, ids: Tensor) -> None:
        """After the pass: the final norm's output and the ids of the chunk."""


def blank(variable: Variable, labels: Mapping[str, Any], documents: int) -> np.ndarray:
    """The array of a variable in a chunk of so many documents, with nothing in it."""
    lengths = {axis: len(one[1] if isinstance(one, tuple) else one) for axis, one in labels.items()}
    shape = [lengths[axis] for axis in variable.dims if axis not in ("condition", "document")]
    if "document" in variable.dims:
        shape.insert(0, documents)
    return np.full(shape, variable.fill, dtype=variable.dtype)


def attainable(lowest: float, highest: float) -> dict[str, float]:
    """The range that a number can take as attributes: ends of intervals are cut there."""
    return {key: float(end) for key, end in (("lowest", lowest), ("highest", highest)) if math.isfinite(end)}
