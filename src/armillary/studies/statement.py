"""The audit of a laboratory: each number before and after each transformation, at a few layers of one condition.

It sees the first documents only, as many as an interval needs, and costs what two or three layers more would cost.
What is claimed, and which witnesses move, does not depend on any decoder and stands beside the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from armillary.invariance.audit import reasons_of, standard
from armillary.invariance.trial import tried, witnessed
from armillary.models.anatomy import Decoder
from armillary.observables.declaration import Measurement
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Setting, Variable
from armillary.studies.layout import UNKNOWN, Layout
from armillary.studies.plan import FLOOR_DOCUMENTS, statement_layers
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import DiagonalGain

__all__ = ["GAIN", "Statement", "claimed", "transformations"]

GAIN = "gain of the next norm"

_DIMS = ("transformation", "statement_layer", "statement_measurement", "document")


class Statement(Collector):
    """Variables `statement_value` and `statement_floor`: before and after each map, and what rounding does."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.maps = transformations(setting.decoder, setting.layout)
        self._rows = {layer: row for row, layer in enumerate(self.maps)}

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """Two variables, with axes of their own."""
        named = [str(one) for one in _named(layout)]
        attrs = {
            "definition": "each measurement of the stream before and after a transformation",
            "condition": layout.conditions[0],
            "tap": "block",
            "tokens": "without_first",
            "seed": layout.seed,
            "general_linear_seed": layout.seed,
            "condition_number": layout.plan.condition_number,
            "documents": min(layout.plan.audit_documents, len(layout.titles)),
            **claimed(layout.measurements, _named(layout)),
        }
        floor = {
            "definition": "how far rounding alone moves the difference of a document, on the documents where that was "
            "measured: the rows moved at random by about what a transformation rounds, fifty times over",
        }
        return Declared(
            {
                "statement_value": Variable(_DIMS, attrs),
                "statement_floor": Variable(_DIMS, floor),
            },
            {
                "transformation": ["none", *named],
                "statement_layer": np.asarray(statement_layers(layout.layers)),
                "statement_measurement": [str(one) for one in layout.measurements],
            },
        )

    @classmethod
    def belongs(cls, setting: Setting) -> bool:
        """The first condition carries the statement."""
        return setting.condition == setting.layout.conditions[0]

    def add(self, batch: TapBatch) -> None:
        """Put the first documents of a batch on trial, if its layer carries the statement."""
        if batch.tap.place != "block" or batch.tap.layer not in self._rows:
            return
        audited = self.layout.titles[: self.layout.plan.audit_documents]
        count = sum(title in audited for title in batch.titles)
        if not count:
            return
        measurements = self.setting.measurements
        taken = [self.layout.measurements.index(one) for one in measurements]
        floored = sum(title in audited[:FLOOR_DOCUMENTS] for title in batch.titles)
        whole = batch.stream.shared[1]
        cloud = whole.first(count)
        found = tried(cloud, self.maps[batch.tap.layer], measurements, floor_documents=floored)
        if cloud is not whole:  # what others have made of the whole batch stays
            cloud.forget()
        row = self._rows[batch.tap.layer]
        values, floors = (self.arrays[name][:, :, row] for name in ("statement_value", "statement_floor"))
        values[:count, 0, taken] = found.before
        for t, (after, floor) in enumerate(zip(found.after, found.floors, strict=True), start=1):
            values[:count, t, taken] = after
            floors[:floored, t, taken] = floor


def transformations(decoder: Decoder, layout: Layout) -> dict[int, tuple[Transformation, ...]]:
    """The maps of the statement at each of its layers; the gain of the next norm is the last one.

    Where no norm reads the stream next, or one without a gain does, there is no such map, and its values stay
    undefined.

    Args:
        decoder: Whose norms' gains are taken: the decoder of the condition that carries the statement.
        layout: Layers, seed, condition number.
    """
    return {layer: (*_seeded(layout), *_gain(decoder, layer)) for layer in statement_layers(layout.layers)}


def claimed(measurements: Sequence[Measurement], chosen: Sequence[Transformation]) -> dict[str, str]:
    """What stands beside the numbers of an audit: groups, reasons and witnesses, as attributes that any file takes.

    Args:
        measurements: What is measured.
        chosen: The transformations.
    """
    functions = tuple((one.observable.function, one.observable.claims) for one in measurements)
    return dict(_claimed(tuple(measurements), tuple(chosen), functions))


@lru_cache(maxsize=4)
def _claimed(
    measurements: tuple[Measurement, ...], chosen: tuple[Transformation, ...], functions: tuple[object, ...]
) -> Mapping[str, str]:
    """Made once for a list of measurements; an observable of the same name that was declared anew is another one."""
    reasons = reasons_of(measurements, chosen)
    texts = list(dict.fromkeys(reasons.values()))
    numbers = {str(m): {str(t): texts.index(reasons[str(m), str(t)]) for t in chosen if (str(m), str(t)) in reasons}
               for m in measurements}  # fmt: skip
    witnesses = [
        {**vars(one), "after": one.after if np.isfinite(one.after) else None} for one in witnessed(chosen, measurements)
    ]
    content: dict[str, Any] = {
        "groups": {str(one): one.group for one in chosen},
        "reasons": texts,
        "claims": numbers,
        "without_claims": [str(one) for one in measurements if not one.observable.claims],
        "witnesses": witnesses,
    }
    return {name: json.dumps(one) for name, one in content.items()}


def _seeded(layout: Layout) -> tuple[Transformation, ...]:
    """The maps that need no decoder."""
    return standard(condition_number=layout.plan.condition_number, seed=layout.seed)


def _named(layout: Layout) -> tuple[Transformation, ...]:
    """All of them; without a decoder, those that need none."""
    return _seeded(layout) if layout.residual == UNKNOWN else (*_seeded(layout), _nothing(layout.width))


@lru_cache(maxsize=4)
def _nothing(width: int) -> DiagonalGain:
    """A gain for its name and its group alone."""
    return DiagonalGain(torch.ones(width), name=GAIN)


def _gain(decoder: Decoder, layer: int) -> tuple[Transformation, ...]:
    norm = decoder.norm_after(layer)
    gain = None if norm is None else decoder.gain(norm)
    return () if gain is None else (DiagonalGain(gain, name=GAIN),)
