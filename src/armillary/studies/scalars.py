"""One number for each document, tap, layer, token set and preparation: measurements, norms, massive tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from armillary.observables.declaration import Measurement
from armillary.observables.drift import (
    stream_norm_first,
    stream_norm_mean,
    stream_norm_median,
    stream_norm_spread,
    zero_rows,
)
from armillary.observables.rank import rank_tolerance
from armillary.studies.batch import TapBatch, TokenSets
from armillary.studies.collector import Collector, Declared, Setting, Variable, attainable
from armillary.studies.layout import Layout
from armillary.studies.plan import TAPS, TOKEN_SETS, at_other_taps

__all__ = ["PLACES", "Scalars"]

PLACES = TAPS[:2]
"""The taps on the residual stream itself."""

_DIMS = ("condition", "tap", "layer", "tokens", "preparation", "document")
_OF_EACH_SET = tuple(one.after() for one in (stream_norm_mean, stream_norm_spread, stream_norm_median, zero_rows))
_OF_ALL_TOKENS = stream_norm_first.after()
_MASSIVE = "massive_tokens"


class Scalars(Collector):
    """One variable for each observable, and the count of massive tokens."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.measurements = setting.measurements
        self.light = at_other_taps(self.measurements)
        self._preparations = {name: index for index, name in enumerate(self.layout.preparations)}

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """Observables as they are measured, each with the taps, token sets and preparations where it is."""
        found: dict[str, dict[str, Any]] = {}
        measured: dict[str, list[list[str]]] = {}
        for place, measurement in _measured(layout.measurements, layout.taps):
            name = measurement.name
            if name not in found:
                found[name], measured[name] = _attributes(layout, measurement), []
            sets = TOKEN_SETS[:1] if measurement == _OF_ALL_TOKENS else TOKEN_SETS
            measured[name] += [[place, tokens, str(measurement.preparation)] for tokens in sets]
        found[_MASSIVE] = _massive(layout)
        measured[_MASSIVE] = [
            [place, tokens, "as given"] for place in PLACES if place in layout.taps for tokens in TOKEN_SETS
        ]
        return Declared(
            {name: Variable(_DIMS, attrs | {"measured": json.dumps(measured[name])}) for name, attrs in found.items()}
        )

    def add(self, batch: TapBatch) -> None:
        """Measure the stream, and what is read of it."""
        place = batch.tap.place
        measured = self.measurements if place == "block" else self.light
        self._fill(place, (*measured, *_OF_EACH_SET), batch.stream, batch)
        if batch.read is not None:
            self._fill(f"{place}_read", self.light, batch.read, batch)
        at = TAPS.index(place)
        first = self.arrays[_OF_ALL_TOKENS.name][:, at, batch.row, 0, self._at(_OF_ALL_TOKENS)]
        first[:] = _OF_ALL_TOKENS.of(batch.stream.shared[0]).numpy()
        counts = self.arrays[_MASSIVE][:, at, batch.row, :, self._preparations["as given"]]
        counts[:, 0] = batch.massive.sum(-1).numpy()
        counts[:, 1] = batch.massive[:, 1:].sum(-1).numpy()
        counts[:, 2] = 0

    def _at(self, measurement: Measurement) -> int:
        return self._preparations[str(measurement.preparation)]

    def _fill(self, tap: str, measurements: Sequence[Measurement], sets: TokenSets, batch: TapBatch) -> None:
        for measurement in measurements:
            block = self.arrays[measurement.name][:, TAPS.index(tap), batch.row, :, self._at(measurement)]
            for index, cloud in enumerate(sets.shared):
                block[:, index] = measurement.of(cloud).numpy()
            block[:, 2] = block[:, 1]
            for document, cloud in sets.alone.items():
                block[document, 2] = float(measurement.of(cloud))


def _measured(measurements: Sequence[Measurement], taps: Sequence[str]) -> Iterator[tuple[str, Measurement]]:
    """Every tap with what is measured there."""
    light = at_other_taps(measurements)
    for tap in taps:
        for one in measurements if tap == "block" else light:
            yield tap, one
        if tap in PLACES:
            for one in (*_OF_EACH_SET, _OF_ALL_TOKENS):
                yield tap, one


def _massive(layout: Layout) -> dict[str, Any]:
    ratio = layout.plan.massive_ratio
    return {
        "symbol": "n_massive",
        "definition": f"number of tokens whose norm exceeds {ratio:g} times the median norm of their document",
        "source": "Sun et al. 2024",
        "undefined": "never",
        "lowest": 0.0,
    }


def _attributes(layout: Layout, measurement: Measurement) -> dict[str, Any]:
    one = measurement.observable
    attrs: dict[str, Any] = {
        "symbol": one.symbol,
        "definition": one.definition,
        "source": one.source,
        "undefined": one.undefined,
        **dict(one.parameters),
        **attainable(*one.attainable(layout.tokens, layout.width)),
    }
    if one.name == "algebraic_rank":
        share = rank_tolerance(layout.tokens, layout.width, layout.resolution)
        attrs["tolerance"] = f"max(T, d) eps s_max, at most {share:.2e} s_max; eigenvalues in float64"
    return attrs
