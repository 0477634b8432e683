"""An audit as a study of its own: a decoder, a few documents, layers, transformations; reduced to a record.

It is the statement of a laboratory (`studies/statement.py`) for whatever layers and transformations are asked for, on
the trained decoder alone; one document is enough for verdicts, though not for intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary.errors import ArgumentError
from armillary.estimates import require_choices
from armillary.invariance.against import against
from armillary.invariance.audit import audit, require_transformations
from armillary.invariance.judgment import Audit
from armillary.invariance.trial import tried
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, capture
from armillary.models.contract import prove, require
from armillary.models.documents import Documents
from armillary.models.gauges.listing import named_gauges
from armillary.models.gauges.verification import Untie
from armillary.observables.between import BetweenMeasurement
from armillary.observables.cloud import STEPS, Cloud
from armillary.observables.declaration import Measurement
from armillary.observables.rank import participation_rank
from armillary.records.audits import FLOOR, UNTOUCHED, VALUE
from armillary.records.gauged import GaugedNumbers
from armillary.records.record import Record
from armillary.studies.gauged import bytes_under_gauges
from armillary.studies.gauging import numbers_under
from armillary.studies.origin import origin
from armillary.studies.passes import calibrate
from armillary.studies.plan import (
    FLOOR_DOCUMENTS,
    Plan,
    check_measurements,
    default_between_layers,
    default_measurements,
    statement_layers,
)
from armillary.studies.simulation import default_measurements_along_time
from armillary.studies.statement import GAIN, claimed
from armillary.terms import layer_words
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import DiagonalGain

if TYPE_CHECKING:
    import xarray

__all__ = ["Auditing", "audits_of_states", "course", "default_layers"]

KIND = "audit"

OTHER_ORDER = participation_rank.after("normalize", "center")
"""Beside the laboratory's "center, normalize": the order of preparations decides what a number survives."""


def default_layers(decoder: Decoder) -> tuple[int, ...]:
    """The embedding, half of the way, and the last layer."""
    return tuple(dict.fromkeys((0, *statement_layers(range(decoder.facts.layers + 1)))))


def course(decoder: Decoder) -> tuple[int, ...]:
    """About seven layers from the embedding to the last, half of the way among them: enough for a curve."""
    last = decoder.facts.layers
    return tuple(dict.fromkeys(round(k * last / 6) for k in range(7)))


@dataclass(frozen=True, kw_only=True)
class Auditing:
    """All choices of one audit; `run` turns them into a record.

    Args:
        decoder: The trained decoder.
        documents: One or more.
        transformations: What is done to the states; a gain of the name `GAIN` stands for that of the norm which reads
            the stream at each layer.
        measurements: What is measured; the laboratory's own list and `OTHER_ORDER` if None.
        between: Between each layer and the first of the layers; the laboratory's own list if None.
        gauges: Re-parametrizations by name, ("all",) for all of them; none if empty. Each is verified on the documents.
        gauge_condition: Condition number of the general maps among them.
        gauge_documents: How many of the documents, from the first, they are verified and measured on.
        gauge_tokens: How many tokens of each of these, from the first.
        gauge_layers: Where numbers under them are taken; `layers` where those are given, else `course`.
        untie: Whether tied tensors may be untied by copy where a gauge needs it: "by copy" or "never".
        layers: Where; `default_layers` if None.
        calibration: Documents disjoint from the others, for the views that need them; those are left out without.
        level: Nominal coverage of the intervals.
        resamples: How often documents are resampled.
        seed: Of the resampling.
        batch_size: Documents in one pass.

    Raises:
        ArgumentError: If choices contradict each other, or a condition number is larger than the states resolve.
    """

    decoder: Decoder
    documents: Documents
    transformations: Sequence[Transformation]
    measurements: Sequence[Measurement] | None = None
    between: Sequence[BetweenMeasurement] | None = None
    gauges: tuple[str, ...] = ()
    gauge_condition: float = Plan.gauge_condition
    gauge_documents: int = Plan.gauge_documents
    gauge_tokens: int = Plan.gauge_tokens
    gauge_layers: Sequence[int] | None = None
    untie: Untie = "by copy"
    layers: Sequence[int] | None = None
    calibration: Documents | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        facts = self.decoder.facts
        require_choices(self.level, self.resamples)
        chosen = default_layers(self.decoder) if self.layers is None else tuple(sorted(set(self.layers)))
        if not chosen or chosen[0] < 0 or chosen[-1] > facts.layers:
            raise ArgumentError(
                f"Argument `layers` must lie within 0 (embedding) and {facts.layers}, but it is {list(chosen)}. "
                "Layer l is the stream after block l."
            )
        if self.documents.tokens < 4:
            raise ArgumentError(
                f"Argument `documents` must have at least 4 tokens each, but they have {self.documents.tokens}. "
                "Ask for more tokens."
            )
        self.documents.check_context(facts.context)
        self.documents.check_vocabulary(facts.vocabulary)
        if self.calibration is not None:
            self.documents.check_disjoint(self.calibration)
        require_transformations(self.transformations, facts.width, getattr(torch, facts.dtype))
        calibrated = self.calibration is not None
        own = (*default_measurements(calibrated=calibrated), OTHER_ORDER)
        measurements = own if self.measurements is None else self.measurements
        between = default_between_layers() if self.between is None else self.between
        check_measurements(measurements, between, calibrated=calibrated)
        if self.gauge_documents < 1:
            raise ArgumentError(
                f"Argument `gauge_documents` must be at least 1, but it is {self.gauge_documents}. Use 2, or no gauges."
            )
        known = named_gauges(tuple(self.gauges), condition_number=self.gauge_condition)
        object.__setattr__(self, "gauges", tuple(self.gauges) if known else ())
        object.__setattr__(self, "between", tuple(between) if len(chosen) > 1 else ())
        if self.gauge_layers is None:
            object.__setattr__(self, "gauge_layers", course(self.decoder) if self.layers is None else chosen)
        object.__setattr__(self, "layers", chosen)
        object.__setattr__(self, "measurements", tuple(measurements))
        object.__setattr__(self, "transformations", tuple(self.transformations))

    def run(self, path: str | Path, *, progress: Callable[[str, int, int], None] | None = None) -> Record:
        """Capture, transform, measure and write the record.

        Args:
            path: The new folder.
            progress: Told what is being done, how much of it is done and how much there is.

        Returns:
            The record; `record.audits()` has the verdicts.

        Raises:
            ArgumentError: If the folder exists or cannot be written, or a measurement cannot be asked of these states.
            CheckMissed: If the decoder does not keep its promises, or a gauge moves its outputs: the difference is
                told, nothing is written, and the decoder is as it was.
        """
        Record.require_new(path)
        say = progress or (lambda words, done, total: None)
        promises = prove(self.decoder)
        require(self.decoder, promises)
        gauged = self._gauged(say)
        values, floors = self._tables(say)
        dataset = self._dataset(values, floors)
        whole = dataset if gauged is None else dataset.merge(gauged.dataset())
        return Record.write(path, self.choices(), self._origin(promises), whole)

    def _gauged(self, say: Callable[[str, int, int], None]) -> GaugedNumbers | None:
        """Numbers before and after the gauges that were asked for; views that need calibration are left out there."""
        if not self.gauges:
            return None
        ids = self.documents.token_ids[: self.gauge_documents, : self.gauge_tokens]
        few = Documents.from_token_ids(ids.clone(), self.documents.titles[: len(ids)])
        say(f"verifying gauges in float64, about {bytes_under_gauges(self.decoder, ids.numel()) >> 20} MiB", 0, 1)
        chosen = named_gauges(self.gauges, seed=self.seed, condition_number=self.gauge_condition)
        plain = [one for one in self.measurements or () if not one.preparation.needs_calibration]
        return numbers_under(
            self.decoder, few, chosen, layers=tuple(self.gauge_layers or ()), measurements=plain, untie=self.untie
        )

    def _tables(self, say: Callable[[str, int, int], None]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and floors, `transformations+1 layers measurements documents`."""
        layers, measurements = tuple(self.layers or ()), tuple(self.measurements or ())
        say("passing documents", 0, len(layers) + 1)
        states = capture(self.decoder, self.documents, [Tap(layer) for layer in layers], batch_size=self.batch_size)
        calibrations = calibrate(
            self.decoder, self.calibration, plan=Plan(), condition="trained", batch_size=self.batch_size
        )
        shape = len(self.transformations) + 1, len(layers), len(self._named), len(self.documents)
        values, floors = np.full(shape, np.nan), np.full(shape, np.nan)
        eps = float(torch.finfo(getattr(torch, self.decoder.facts.dtype)).eps)
        clouds = [
            Cloud(
                states.where(layer)[:, 1:],
                accumulate=torch.float64,
                calibration=calibrations.get(layer),
                resolution=eps,
            )
            for layer in layers
        ]
        count = min(FLOOR_DOCUMENTS, len(self.documents))
        for row, (layer, cloud) in enumerate(zip(layers, clouds, strict=True)):
            say("trying transformations", row + 1, len(layers) + 1)
            asked = [*measurements, *(self._against(clouds[0]) if row else ())]
            maps = self._maps(layer)
            found = tried(cloud, list(maps.values()), asked, floor_documents=count)
            values[0, row, : len(asked)] = found.before.T
            for t, after, floor in zip(maps, found.after, found.floors, strict=True):
                values[t, row, : len(asked)] = after.T
                floors[t, row, : len(asked), :count] = floor.T
            cloud.forget()
        return values, floors

    def _against(self, first: Cloud) -> list[Measurement]:
        """The numbers between layers, as ones of the later layer."""
        reference = layer_words(min(self.layers or (0,))).replace(" ", "_")
        return [against(one, first, reference) for one in self.between or ()]

    @property
    def _named(self) -> tuple[Measurement, ...]:
        """What is measured in the order of the record, numbers between layers last."""
        nothing = Cloud(torch.empty(1, 1, self.decoder.facts.width))
        return (*(self.measurements or ()), *self._against(nothing))

    def _maps(self, layer: int) -> Mapping[int, Transformation]:
        """By row of the table what is done at a layer: no gain where no norm with a gain reads the stream."""
        found: dict[int, Transformation] = {}
        for t, one in enumerate(self.transformations, start=1):
            if str(one) != GAIN:
                found[t] = one
                continue
            norm = self.decoder.norm_after(layer)
            gain = None if norm is None else self.decoder.gain(norm)
            if gain is not None:
                found[t] = DiagonalGain(gain, name=GAIN)
        return found

    def _dataset(self, values: np.ndarray, floors: np.ndarray) -> xarray.Dataset:
        import xarray as xr

        measurements = self._named
        axes = ("transformation", "statement_layer", "statement_measurement", "document")
        attrs = {
            "definition": "each measurement of the stream before and after a transformation",
            "condition": "trained",
            "tap": "block",
            "tokens": "without_first",
            "documents": len(self.documents),
            **claimed(measurements, self.transformations),
        }
        facts = self.decoder.facts
        return xr.Dataset(
            {
                VALUE: (axes, values, attrs),
                FLOOR: (axes, floors, {"definition": "how far rounding alone moves the difference of a document"}),
            },
            coords={
                "condition": ["trained"],
                "transformation": [UNTOUCHED, *(str(one) for one in self.transformations)],
                "statement_layer": np.asarray(self.layers),
                "statement_measurement": [str(one) for one in measurements],
                "document": list(self.documents.titles),
            },
            attrs={"layers": facts.layers, "width": facts.width, "tokens_per_document": self.documents.tokens},
        )

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        facts, measurements = self.decoder.facts, self._named
        used = {step for one in measurements for step in one.preparation.steps}
        return {
            "kind": KIND,
            "model": {"name": facts.name, "source": facts.source},
            "layers": list(self.layers or ()),
            "transformations": [
                {"name": str(one), "group": one.group, "choices": repr(one) if _is_plain(one) else "as given"}
                for one in self.transformations
            ],
            "gauges": list(self.gauges),
            **{f"gauge_{name}": getattr(self, f"gauge_{name}") for name in ("condition", "documents", "tokens")},
            "gauge_layers": list(self.gauge_layers or ()),
            "untie": self.untie,
            "measurements": [str(one) for one in measurements],
            "preparation_steps": {step: words for step, words in STEPS.items() if step in used},
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "dtype": facts.dtype,
            "documents": {
                "source": self.documents.source,
                "rule": self.documents.rule,
                "count": len(self.documents),
                "tokens": self.documents.tokens,
            },
            "calibration": {"count": len(self.calibration or ())},
        }

    def _origin(self, promises: Sequence[Any]) -> dict[str, Any]:
        return origin(self.decoder, self.documents, promises=promises, calibration=self.calibration)


def audits_of_states(record: Record) -> dict[str, Audit]:
    """The states that a simulation kept, put to the trial at the middle and at the last kept time.

    Args:
        record: Of a simulation.

    Returns:
        By time, in words; members are its starts.
    """
    data, study = record.dataset, record.study
    wanted = {str(one) for one in study["measurements"]}
    measurements = [one for one in default_measurements_along_time() if str(one) in wanted]
    times = data["time"].values
    found = {}
    for place in dict.fromkeys((len(times) // 2, len(times) - 1)):
        states = torch.from_numpy(np.asarray(data["states"].values[:, place], dtype=np.float64))
        choices = {name: study[name] for name in ("level", "resamples", "seed")}
        found[f"time {times[place]:g}"] = audit(measurements, states, **choices)
    return found


def _is_plain(transformation: Transformation) -> bool:
    """Whether numbers alone say what it does."""
    return all(isinstance(value, int | float | str) for value in vars(transformation).values())
