"""The laboratory: a decoder, layer by layer, in several conditions on identical documents, reduced to a record."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from armillary.errors import ArgumentError, UnsoundError
from armillary.invariance import DiagonalGain, GeneralLinear, Orthogonal, Transformation
from armillary.models.capture import stream
from armillary.models.conditions import Applied, Condition
from armillary.models.contract import Promise, prove, require
from armillary.models.decoder import Decoder
from armillary.models.documents import Documents
from armillary.observables.cloud import STEPS, Calibration
from armillary.observables.declaration import Measurement
from armillary.record import Record
from armillary.studies.batch import Grid
from armillary.studies.calibration import CalibrationReader
from armillary.studies.dataset import Layout, as_dataset
from armillary.studies.distributions import Distributions
from armillary.studies.plan import Plan, at_other_taps, default_measurements, statement_layers
from armillary.studies.reader import TapReader
from armillary.studies.scalars import Scalars
from armillary.studies.statement import Statement

__all__ = ["Laboratory"]

Progress = Callable[[str, int, int], None]
"""Called with a sentence, the documents done and the documents in all."""


@dataclass(frozen=True)
class Laboratory:
    """All choices of one laboratory; `run` turns them into a record.

    Args:
        decoder: The decoder, which has proved its contract.
        documents: The evaluation documents, identical in every condition.
        conditions: States of the decoder; the first one carries the statement.
        measurements: At the stream after every block; the laboratory's own list if None.
        layers: Which layers to measure, 0 (embedding) to the number of blocks; all if None.
        calibration: Documents disjoint from the others, for the corpus-mean and rogue-coordinate views; without them
            these views are left out.
        plan: Bins, thresholds, token policy.
        level: Nominal coverage of the intervals.
        resamples: How many times documents are resampled.
        seed: Of the resampling and of the statement's maps.
        batch_size: Documents in one pass.

    Raises:
        ArgumentError: If choices contradict each other.
        UnsoundError: If there is only one document: no interval can come from it.
    """

    decoder: Decoder
    documents: Documents
    conditions: Sequence[Condition]
    measurements: Sequence[Measurement] | None = None
    layers: Sequence[int] | None = None
    calibration: Documents | None = None
    plan: Plan = field(default_factory=Plan)
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        facts = self.decoder.facts
        chosen = tuple(range(facts.layers + 1)) if self.layers is None else tuple(sorted(set(self.layers)))
        if not chosen or chosen[0] < 0 or chosen[-1] > facts.layers:
            raise ArgumentError(
                f"Argument `layers` must lie within 0 (embedding) and {facts.layers}, but it is {list(chosen)}. "
                "Layer l is the stream after block l."
            )
        if len(self.documents) < 2:
            raise UnsoundError(
                "Argument `documents` must hold at least two documents, but it holds one. Token pairs within a "
                "document are dependent, so one document gives no interval. Add documents."
            )
        if self.documents.tokens < 4:
            raise ArgumentError(
                f"Argument `documents` must have at least 4 tokens each, but they have {self.documents.tokens}. "
                "Ask for more tokens."
            )
        names = [condition.name for condition in self.conditions]
        if not names or len(set(names)) < len(names):
            raise ArgumentError(
                f"Argument `conditions` must name at least one condition, each once, but it is {names}. "
                "Leave the repeated one out."
            )
        self.documents.check_context(facts.context)
        self.documents.check_vocabulary(facts.vocabulary)
        if self.calibration is not None:
            self.documents.check_disjoint(self.calibration)
        measurements = self.measurements
        if measurements is None:
            measurements = default_measurements(calibrated=self.calibration is not None)
        _check_measurements(measurements, calibrated=self.calibration is not None)
        object.__setattr__(self, "layers", chosen)
        object.__setattr__(self, "measurements", tuple(measurements))
        object.__setattr__(self, "conditions", tuple(self.conditions))

    @property
    def light(self) -> tuple[Measurement, ...]:
        """What is measured at the other taps too."""
        return at_other_taps(self.measurements or ())

    def run(self, path: str | Path, *, progress: Progress | None = None) -> Record:
        """Measure every condition and write the record.

        Args:
            path: The new folder.
            progress: Told after every batch.

        Returns:
            The record.

        Raises:
            ArgumentError: If the folder exists or cannot be written.
            CheckMissed: If a condition cannot prove what it changed, or the token ids are not the same throughout.
            NumericalError: If a state is not finite, named by condition, layer, document and token.
        """
        Record.require_new(path)
        tell = _counting(progress, len(self.conditions) * (len(self.documents) + len(self.calibration or ())))
        promises = prove(self.decoder)
        require(self.decoder, promises)
        started = datetime.now(UTC)
        readers, losses, proofs, calibrations, timings = {}, {}, [], {}, {}
        for condition in self.conditions:
            began = time.perf_counter()
            with condition.applied(self.decoder) as applied:
                found = self._calibrate(condition, applied, tell)
                readers[condition.name], losses[condition.name] = self._read(condition, applied, found, tell)
            self.documents.check_unchanged()
            calibrations[condition.name] = found
            proofs.append({"name": condition.name, "label": condition.label, **asdict(applied.proof)})
            timings[condition.name] = round(time.perf_counter() - began, 2)
        return Record.write(
            path,
            self.choices(),
            self._provenance(started, promises, proofs, calibrations, timings),
            as_dataset(self._layout(), readers, losses),
        )

    def _calibrate(self, condition: Condition, applied: Applied, tell: Progress) -> dict[int, Calibration]:
        if self.calibration is None:
            return {}
        reader = CalibrationReader(self.plan, condition=condition.name, titles=self.calibration.titles)
        start = 0
        for batch in self.calibration.batches(self.batch_size):
            with stream(applied.decoder, reader.at(start)), torch.inference_mode():
                applied.decoder.hidden(batch)
            start += len(batch)
            tell(f"{condition.label}: calibration", len(batch), 0)
        return reader.result()

    def _read(
        self, condition: Condition, applied: Applied, calibrations: Mapping[int, Calibration], tell: Progress
    ) -> tuple[TapReader, np.ndarray]:
        maps = self._maps(applied.decoder) if condition is self.conditions[0] else {}
        reader = self._reader(condition, calibrations, maps)
        losses, start = [], 0
        for batch in self.documents.batches(self.batch_size):
            with stream(applied.decoder, reader.at(start)), torch.inference_mode():
                final = applied.decoder.hidden(batch)
                losses.append(applied.decoder.loss(final, batch).double().cpu().numpy())
            start += len(batch)
            tell(condition.label, len(batch), 0)
        return reader, np.concatenate(losses)

    def _reader(
        self,
        condition: Condition,
        calibrations: Mapping[int, Calibration],
        maps: Mapping[int, Sequence[torch.Tensor]],
    ) -> TapReader:
        grid = Grid(tuple(self.layers or ()), len(self.documents), self.documents.tokens, self.plan)
        chosen = [one for one in self.measurements or () if calibrations or not one.preparation.needs_calibration]
        return TapReader(
            grid,
            scalars=Scalars(chosen, self.light, grid),
            distributions=Distributions(grid),
            statement=Statement(chosen, maps, grid),
            calibrations=calibrations,
            condition=condition.name,
            titles=self.documents.titles,
        )

    def transformations(self, decoder: Decoder) -> dict[int, tuple[Transformation, ...]]:
        """The maps of the statement at each of its layers: orthogonal, general linear, and the next norm's gain.

        Args:
            decoder: Whose norms' gains are taken: the decoder of the condition that carries the statement.
        """
        seeded = (Orthogonal(self.seed), GeneralLinear(self.plan.condition_number, self.seed))
        return {
            layer: (*seeded, DiagonalGain(_gain(decoder.norms[_norm_after(layer)])))
            for layer in statement_layers(self.layers or ())
        }

    def _maps(self, decoder: Decoder) -> dict[int, list[torch.Tensor]]:
        transformations = self.transformations(decoder)
        made = {
            one: one.matrix(decoder.facts.width) for one in {m for chosen in transformations.values() for m in chosen}
        }
        return {layer: [made[one] for one in chosen] for layer, chosen in transformations.items()}

    def _layout(self) -> Layout:
        facts = self.decoder.facts
        return Layout(
            layers=tuple(self.layers or ()),
            measurements=tuple(self.measurements or ()),
            titles=self.documents.titles,
            tokens=self.documents.tokens,
            depth=facts.layers,
            width=facts.width,
            resolution=float(torch.finfo(getattr(torch, facts.dtype)).eps),
            plan=self.plan,
            transformations=tuple(str(one) for one in next(iter(self.transformations(self.decoder).values()))),
            seed=self.seed,
        )

    def cost(self) -> dict[str, Any]:
        """What a run would take, estimated from one document measured once; nothing is written.

        Returns:
            Counts of conditions, documents, layers, measurements and passes, and the seconds that the passes would take
            (building the conditions and drawing the page come on top).
        """
        facts, documents = self.decoder.facts, self.documents
        one = documents.token_ids[:1]
        reader = self._reader(self.conditions[0], {}, {})
        with torch.inference_mode():
            self.decoder.hidden(one)
            began = time.perf_counter()
            with stream(self.decoder, reader.at(0)):
                self.decoder.loss(self.decoder.hidden(one), one)
        each = time.perf_counter() - began
        passes = len(self.conditions) * (len(documents) + len(self.calibration or ()))
        return {
            "model": facts.name,
            "conditions": [condition.name for condition in self.conditions],
            "documents": len(documents),
            "calibration_documents": len(self.calibration or ()),
            "tokens_each": documents.tokens,
            "layers": len(self.layers or ()),
            "measurements": len(self.measurements or ()),
            "document_passes": passes,
            "estimated_seconds": round(each * passes),
        }

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        measurements = self.measurements or ()
        return {
            "kind": "laboratory",
            "model": {"name": self.decoder.facts.name, "source": self.decoder.facts.source},
            "conditions": [condition.name for condition in self.conditions],
            "layers": list(self.layers or ()),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "dtype": self.decoder.facts.dtype,
            "device": str(self.decoder.device),
            "measurements": [str(one) for one in measurements],
            "measurements_at_other_taps": [str(one) for one in self.light],
            "preparation_steps": {
                k: v for k, v in STEPS.items() if any(k in one.preparation.steps for one in measurements)
            },
            "documents": {
                "source": self.documents.source,
                "rule": self.documents.rule,
                "count": len(self.documents),
                "tokens": self.documents.tokens,
            },
            "calibration": {
                "rule": "none" if self.calibration is None else self.calibration.rule,
                "count": len(self.calibration or ()),
            },
            "plan": asdict(self.plan),
        }

    def _provenance(
        self,
        started: datetime,
        promises: Sequence[Promise],
        proofs: list[dict[str, Any]],
        calibrations: Mapping[str, Mapping[int, Calibration]],
        timings: Mapping[str, float],
    ) -> dict[str, Any]:
        calibration: dict[str, Any] = {"titles": [], "hash": None, "rogue_coordinates": {}}
        if self.calibration is not None:
            calibration = {
                "titles": list(self.calibration.titles),
                "hash": self.calibration.hash,
                "rule": self.calibration.rule,
                "rogue_coordinates": {
                    name: {str(layer): list(one.coordinates) for layer, one in found.items()}
                    for name, found in calibrations.items()
                },
            }
        libraries = ("armillary", "torch", "transformers", "tokenizers", "numpy", "scipy", "xarray")
        documents = self.documents.provenance()
        return {
            "created": started.isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in libraries}},
            "decoder": asdict(self.decoder.facts),
            "promises": [asdict(one) for one in promises],
            "conditions": proofs,
            "documents": {**documents, "hash": documents["token_hash"]},
            "calibration": calibration,
            "timings": dict(timings),
        }


def _norm_after(layer: int) -> int:
    """Index among `Decoder.norms` of the norm that reads the stream after block `layer`."""
    return 2 * layer


def _gain(norm: torch.nn.Module) -> torch.Tensor:
    weight = getattr(norm, "weight", None)
    if weight is None:
        raise ArgumentError(
            "Argument `decoder` must have norms with a gain, but one has none. Leave the statement out."
        )
    return torch.as_tensor(weight).detach()


def _check_measurements(measurements: Sequence[Measurement], *, calibrated: bool) -> None:
    seen: dict[tuple[str, str], Measurement] = {}
    for one in measurements:
        if not isinstance(one, Measurement):
            raise ArgumentError(
                f"Argument `measurements` must hold observables with a declared preparation, but it holds {one!r}. "
                "Write for example participation_rank.after('normalize')."
            )
        key = (one.name, str(one.preparation))
        if key in seen:
            raise ArgumentError(
                f"Argument `measurements` must name each observable once a preparation, but {one} comes twice. "
                "Leave one out, or run two laboratories."
            )
        seen[key] = one
        if one.preparation.needs_calibration and not calibrated:
            raise ArgumentError(
                f"Argument `calibration` must hold documents for {one}, but there is none. "
                "Pass calibration=Documents(...) disjoint from the others."
            )


def _counting(progress: Progress | None, total: int) -> Progress:
    done = 0

    def tell(sentence: str, more: int, _: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(sentence, done, total)

    return tell
