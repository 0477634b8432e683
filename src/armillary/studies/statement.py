"""Each number before and after a change of basis, at a few layers of the condition that carries the statement."""

from __future__ import annotations

import numpy as np
import torch

from armillary.invariance.moved import values_after
from armillary.models.anatomy import Decoder
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Setting, Variable
from armillary.studies.layout import Layout
from armillary.studies.plan import statement_layers
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import DiagonalGain, GeneralLinear, Orthogonal

__all__ = ["Statement", "seeded", "transformations"]


class Statement(Collector):
    """Variable `statement_value`: each measurement of the stream before and after each map."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.maps = transformations(setting.decoder, setting.layout)
        self._rows = {layer: row for row, layer in enumerate(self.maps)}

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """One variable, with axes of its own."""
        attrs = {
            "definition": "each measurement of the stream before and after a change of basis x -> x M",
            "condition": layout.conditions[0],
            "tap": "block",
            "tokens": "without_first",
            "seed": layout.seed,
            "general_linear_seed": layout.seed,
            "condition_number": layout.plan.condition_number,
        }
        dims = ("transformation", "statement_layer", "statement_measurement", "document")
        gain = DiagonalGain(torch.ones(layout.width))  # its name says nothing of its numbers
        return Declared(
            {"statement_value": Variable(dims, attrs)},
            {
                "transformation": ["none", *(str(one) for one in (*seeded(layout), gain))],
                "statement_layer": np.asarray(statement_layers(layout.layers)),
                "statement_measurement": [str(one) for one in layout.measurements],
            },
        )

    @classmethod
    def belongs(cls, setting: Setting) -> bool:
        """The first condition carries the statement."""
        return setting.condition == setting.layout.conditions[0]

    def add(self, batch: TapBatch) -> None:
        """Map one batch and measure again, if its layer carries the statement."""
        if batch.tap.place != "block" or batch.tap.layer not in self._rows:
            return
        cloud, measurements = batch.stream.shared[1], self.setting.measurements
        table = self.arrays["statement_value"][:, :, self._rows[batch.tap.layer]]
        taken = [self.layout.measurements.index(one) for one in measurements]
        for m, measurement in zip(taken, measurements, strict=True):
            table[:, 0, m] = measurement.of(cloud).numpy()
        for t, one in enumerate(self.maps[batch.tap.layer], start=1):
            after = values_after(cloud, one, measurements)
            for m, value in zip(taken, after, strict=True):
                table[:, t, m] = value.numpy()


def transformations(decoder: Decoder, layout: Layout) -> dict[int, tuple[Transformation, ...]]:
    """The maps of the statement at each of its layers: orthogonal, general linear, and the next norm's gain.

    Where no norm reads the stream next, or one without a gain does, there is no third map, and its values stay
    undefined.

    Args:
        decoder: Whose norms' gains are taken: the decoder of the condition that carries the statement.
        layout: Layers, seed, condition number.
    """
    return {layer: (*seeded(layout), *_gain(decoder, layer)) for layer in statement_layers(layout.layers)}


def seeded(layout: Layout) -> tuple[Transformation, ...]:
    """The maps that need no decoder: orthogonal and general linear."""
    return (Orthogonal(layout.seed), GeneralLinear(layout.plan.condition_number, layout.seed))


def _gain(decoder: Decoder, layer: int) -> tuple[Transformation, ...]:
    norm = decoder.norm_after(layer)
    gain = None if norm is None else decoder.gain(norm)
    return () if gain is None else (DiagonalGain(gain),)
