"""One climb carried out: rung after rung through a journal to a record, here or a rung at a time in other processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor

from armillary.errors import ArgumentError, ArmillaryError, DiskError, Interrupted
from armillary.models.capture import Tap
from armillary.models.contract import prove, require
from armillary.models.matrices import without_plain_form
from armillary.observables.cloud import Calibration
from armillary.records import storage, unfinished
from armillary.records.journal import IDS, SECONDS, UNFINISHED, Beginning, Journal, calibration_unit, chunk_unit
from armillary.studies.backend import Backend, copied, one_at_a_time, same_decoder
from armillary.studies.finite import require_finite
from armillary.studies.origin import origin, processor, versions
from armillary.studies.resistance.calibrating import Reader, pace_of
from armillary.studies.resistance.heads_at_work import HeadsAtWork, head_variables
from armillary.studies.resistance.idealized import Idealized
from armillary.studies.resistance.matrix_rungs import Matrices
from armillary.studies.resistance.numbers import Numbers, variables
from armillary.studies.resistance.projections import Projections, projection_variables
from armillary.studies.resistance.reproduction import require_reproduced
from armillary.studies.resistance.rungs import Pass, Rung
from armillary.studies.resistance.wandering import Wandering, wandering_variables
from armillary.studies.station import threads
from armillary.terms import CALIBRATED

if TYPE_CHECKING:
    from armillary.models.anatomy import DecoderFacts
    from armillary.studies.resistance.study import Resistance

__all__ = ["ROGUE_COORDINATES", "Climb", "climbed_elsewhere"]

ROGUE_COORDINATES = 3
LEVEL_OF_DECODERS = 4
PROVED_TOKENS = 64
"""Tokens of the first document on which the matrices are put to the proof."""


class Kept(Protocol):
    """Where what a rung gave is put: a journal, or what a worker hands back."""

    def units(self) -> set[str]:
        """Names of all finished units."""

    def put(self, unit: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep one."""

    def put_proof(self, condition: int, proof: Mapping[str, Any]) -> None:
        """Keep what a rung proved."""

    def arrays(self, unit: str) -> dict[str, np.ndarray]:
        """One, as it was kept."""


class HandedBack:
    """What a worker found of one rung, to be put into the journal where the run was begun.

    Args:
        known: Units that are finished, with the arrays of those that the rung needs.
    """

    def __init__(self, known: Mapping[str, dict[str, np.ndarray]]) -> None:
        self.known = dict(known)
        self.found: dict[str, dict[str, np.ndarray]] = {}
        self.proofs: dict[int, dict[str, Any]] = {}

    def units(self) -> set[str]:
        """Names of all finished units."""
        return {*self.known, *self.found}

    def put(self, unit: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep one."""
        self.found[unit] = dict(arrays)

    def put_proof(self, condition: int, proof: Mapping[str, Any]) -> None:
        """Keep what a rung proved."""
        self.proofs[condition] = dict(proof)

    def arrays(self, unit: str) -> dict[str, np.ndarray]:
        """One, as it was kept."""
        return self.found.get(unit) or self.known[unit]


class Climb:
    """One run of a study.

    Args:
        study: Its choices.
        kept: Where the numbers of each rung are put.
        progress: Told after every chunk.
    """

    def __init__(self, study: Resistance, kept: Kept, progress: Callable[[str, int, int], None] | None = None) -> None:
        self.study, self.kept, self.progress = study, kept, progress
        self.workshop = study.workshop()
        self.starts = list(range(0, len(study.documents), study.chunk))
        self.rogue: Calibration | None = None
        self.total = len(study.climbed) * len(self.starts) + sum(map(_is_calibrated, study.climbed))
        self.done = 0

    def carry_out(self, journal: Journal, record: Path, backend: Backend, notice: Callable[[str], None] | None) -> None:
        """Climb what is left, and write the record.

        Args:
            journal: Of this run, locked; the same as `kept`.
            record: The folder to come.
            backend: Where rungs are climbed.
            notice: Told that an earlier run is gone on with.
        """
        study = self.study
        promises = prove(study.decoder)
        require(study.decoder, promises)
        self._require_directions()
        identity = {
            **study.choices(), "token hash of the documents": study.documents.hash,
            "token hash of the calibration documents": study.calibration.hash,
            "weight hash": study.decoder.facts.weight_hash,
            "spread of the released recipe": study.decoder.facts.released_spread, "versions": versions(),
            "processor": processor(),
        }  # fmt: skip
        journal.begin(
            identity,
            lambda: Beginning(
                study.choices(),
                {
                    **origin(study.decoder, study.documents, promises=promises, calibration=study.calibration),
                    "reproduction": self._reproduction(),
                    "first_document": self._first_document(),
                },
                study.frame(),
                variables(study.documents.tokens, study.decoder.facts.width)
                | head_variables()
                | wandering_variables()
                | projection_variables(),
            ),
        )
        if (found := len(journal.units())) and notice is not None:
            notice(f"Going on with the run in {journal.folder}: {found} of {self.total} passes are finished.")
        here = range(len(study.climbed)) if backend.kind == "here" else range(1)
        for place in here:  # the decoder as loaded comes first: the others follow its pace
            self.rung(place)
        if backend.kind != "here":
            self._elsewhere(backend)
        stored = unfinished.stored(journal.folder)
        storage.write(
            record, stored.study, stored.provenance, stored.dataset, workshop=journal.folder / f"record{UNFINISHED}"
        )

    def _elsewhere(self, backend: Backend) -> None:
        """The rungs beyond the first in other processes, each whole; those of workers that were lost begin anew."""
        study, key, loading = self.study, uuid4().hex, self.study.decoder.loading
        choices = {one.name: getattr(study, one.name) for one in fields(study) if one.name != "decoder"}
        shared = (key, study.decoder.facts, processor(), loading, copied(study.decoder), choices)

        def left() -> list[tuple[Any, ...]]:
            units, calls = self.kept.units(), []
            for place, rung in enumerate(study.climbed):
                own = {chunk_unit(place, start) for start in self.starts}
                own |= {calibration_unit(place)} if _is_calibrated(rung) else set()
                if place and not own <= units:
                    read = {calibration_unit(0), calibration_unit(place)} & units
                    known = {unit: self.kept.arrays(unit) if unit in read else {} for unit in (own | read) & units}
                    calls.append((*shared, place, known))
            return calls

        def keep(found: HandedBack) -> None:
            for place, proof in found.proofs.items():
                self.kept.put_proof(place, proof)
                self._tell(study.climbed[place].label, len(found.found))
            for unit, arrays in found.found.items():
                self.kept.put(unit, arrays)

        self._tell("rungs side by side", len(self.kept.units()) - self.done)
        backend.each(climbed_elsewhere, left, keep)

    def _require_directions(self) -> None:
        """Every token that a rung on the sphere starts from must have a direction there.

        Raises:
            ArgumentError: The embedding of a token is zero; the message names it.
        """
        study = self.study
        starts = {
            getattr(rung, "positions", "own") for rung in study.climbed if isinstance(rung, (Idealized, Matrices))
        }
        with torch.inference_mode():
            for documents in (study.documents, study.calibration) if starts else ():
                first = 0
                for ids in documents.batches(study.chunk):
                    for positions in sorted(starts):
                        zero = (self.workshop.start(ids, positions=positions).norm(dim=-1) == 0).nonzero().tolist()
                        for document, place in zero:
                            token, tokenizer = int(ids[document, place]), study.decoder.tokenizer
                            word = "" if tokenizer is None else f" ({tokenizer.decode([token])!r})"
                            raise ArgumentError(
                                f"Argument `documents` must hold tokens with a direction, but token {token}{word} of "
                                f"document {documents.titles[first + document]!r} has a zero embedding, so it has no "
                                "direction on the sphere. Leave the rungs on the sphere out (--rungs decoder), or give "
                                "other documents."
                            )
                    first += len(ids)

    def _reproduction(self) -> dict[str, Any]:
        """How far the decoder rebuilt from its matrices is from itself, or why it is not rebuilt."""
        study = self.study
        if not any(isinstance(rung, Matrices) for rung in study.climbed):
            return {"rebuilt": "no rung is built from matrices"}
        ids = study.documents.token_ids[:1, :PROVED_TOKENS]
        found = require_reproduced(study.decoder, self.workshop.sources.trained, ids)
        return {
            "rebuilt": f"from plain matrices, on {ids.shape[1]} tokens of {study.documents.titles[0]}",
            "largest_relative_departure": max(found.values()),
            "by_tap": {f"{tap.name} {tap.layer}": value for tap, value in found.items()},
        }

    def _first_document(self) -> dict[str, Any]:
        """The tokens whose paths are drawn, as text where there is a tokenizer."""
        ids, tokenizer = self.study.documents.token_ids[0].tolist(), self.study.decoder.tokenizer
        texts = [str(one) for one in ids] if tokenizer is None else [tokenizer.decode([one]) for one in ids]
        return {"title": self.study.documents.titles[0], "tokens": texts}

    def rung(self, place: int) -> None:
        """Calibrate one rung and measure its chunks, each unless it is there already; what fails is written down.

        Args:
            place: Of the rung among those that are climbed.
        """
        with threads(self.study.threads), torch.inference_mode():
            self._rung(place, self.study.climbed[place])

    def learn(self) -> None:
        """Take over what the decoder as loaded has shown, from where it was kept."""
        self._learn(self.study.climbed[0], self.kept.arrays(calibration_unit(0)))

    def _rung(self, place: int, rung: Rung) -> None:
        units, unit = self.kept.units(), calibration_unit(place)
        todo = [start for start in self.starts if chunk_unit(place, start) not in units]
        self._tell(rung.label, len(self.starts) - len(todo))
        if unit in units:
            self._learn(rung, self.kept.arrays(unit))
            self._tell(rung.label, 1)
        if not todo and (unit in units or not _is_calibrated(rung)):
            return
        proof = {"name": rung.name, "label": rung.label}
        try:
            with rung.opened(self.workshop) as (through, said):
                if _is_calibrated(rung) and unit not in units:
                    self.kept.put(unit, self._calibrated(through, rung))
                    self._learn(rung, self.kept.arrays(unit))
                    self._tell(rung.label, 1)
                self.kept.put_proof(place, {**proof, "sentence": said})
                for start in todo:
                    self.kept.put(chunk_unit(place, start), self._measured(through, rung, start))
                    self._tell(rung.label, 1)
        except ArmillaryError as error:
            if rung.name == "trained" or isinstance(error, (DiskError, Interrupted)):
                raise  # all others follow the pace of the decoder as loaded
            self.kept.put_proof(place, {**proof, "sentence": f"failed: {error}", "failed": str(error)})
            found = self.kept.units()
            for start in (one for one in self.starts if chunk_unit(place, one) not in found):
                numbers, ids = self._numbers(start)
                self.kept.put(chunk_unit(place, start), numbers.arrays | {IDS: ids.numpy(), SECONDS: np.zeros(())})
                self._tell(rung.label, 1)

    def _calibrated(self, through: Pass, rung: Rung) -> dict[str, np.ndarray]:
        began = time.perf_counter()
        batches = list(self.study.calibration.batches(self.study.chunk))
        if isinstance(rung, Matrices):
            found = rung.calibrated(self.workshop, batches)
            found |= {"layers": np.zeros(0), "coordinates": np.zeros((0, ROGUE_COORDINATES), dtype=int)}
        else:
            reader = Reader(ROGUE_COORDINATES)
            for batch in batches:
                through(batch, reader)
                reader.next_batch()
            found = reader.arrays()
        return found | {SECONDS: np.asarray(time.perf_counter() - began)}

    def _learn(self, rung: Rung, found: dict[str, np.ndarray]) -> None:
        """From the decoder itself the pace of its sublayers and its rogue coordinates; from others their steps."""
        if rung.name == "trained":
            self.workshop.pace = pace_of(found, self.study.decoder)
            self.rogue = Calibration(mean=torch.zeros(0), coordinates=tuple(found["coordinates"][0].tolist()))
        else:
            self.workshop.steps[rung.name] = {name: found[name] for name in CALIBRATED}

    def _numbers(self, start: int) -> tuple[Numbers, Tensor]:
        """Numbers to be taken of a chunk, and its token ids."""
        study = self.study
        ids = study.documents.token_ids[start : start + study.chunk]
        numbers = Numbers(
            layers=tuple(study.layers or ()), documents=len(ids), tokens=study.documents.tokens,
            width=study.decoder.facts.width, calibration=self.rogue,
        )  # fmt: skip
        return numbers, ids

    def _measured(self, through: Pass, rung: Rung, start: int) -> dict[str, np.ndarray]:
        began = time.perf_counter()
        study = self.study
        numbers, ids = self._numbers(start)
        titles = study.documents.titles[start : start + study.chunk]
        times = rung.times(self.workshop) if hasattr(rung, "times") else ()

        heads = None
        if rung.name == "trained" and not without_plain_form(study.decoder):
            trained = self.workshop.sources.trained
            heads = HeadsAtWork(trained, layers=tuple(study.layers or ()), documents=len(ids))

        drift, projected = None, None
        if rung.name == "trained":
            projected = Projections(
                layers=tuple(study.layers or ()), depth=study.decoder.facts.layers, width=study.decoder.facts.width,
                documents=len(ids), seed=study.seed,
            )  # fmt: skip
        if rung.level >= LEVEL_OF_DECODERS:
            drift = Wandering(
                layers=tuple(study.layers or ()), documents=len(ids), tokens=study.documents.tokens,
                paths=rung.name == "trained",
            )  # fmt: skip

        single = study.decoder.facts.dtype != "float64"

        def heard(tap: Tap, residual: Tensor, read: Tensor) -> None:
            require_finite(residual, tap=tap, condition=rung.name, titles=titles)
            residual = residual.to(torch.float32) if single else residual  # all rungs are measured in one type
            numbers.add(tap, residual, read)
            if heads is not None:
                heads.add(tap, residual)
            if drift is not None:
                drift.add(tap, residual)
            if projected is not None:
                projected.add(tap, residual)

        through(ids, heard)
        for layer, at in enumerate(times):
            numbers.at_time(layer, at)
        numbers.with_steps(self.workshop.steps.get(rung.name, {}))
        found = numbers.arrays | ({} if heads is None else heads.arrays) | ({} if drift is None else drift.finish())
        found |= {} if projected is None else projected.arrays
        return found | {IDS: ids.numpy(), SECONDS: np.asarray(time.perf_counter() - began)}

    def _tell(self, sentence: str, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(sentence, self.done, self.total)


def _is_calibrated(rung: Rung) -> bool:
    """Whether calibration documents pass through a rung: the decoder as loaded, and rungs that follow its pace."""
    return rung.name == "trained" or (isinstance(rung, Matrices) and rung.step == "pace")


def climbed_elsewhere(
    key: str,
    facts: DecoderFacts,
    kind: str,
    loading: dict[str, Any] | None,
    copy: np.ndarray | None,
    choices: dict[str, Any],
    place: int,
    known: dict[str, dict[str, np.ndarray]],
) -> HandedBack:
    """Climb one rung in a worker, which keeps its decoder for the next rung of the same run.

    Args:
        key: Of the run.
        facts: Of the decoder that the run was begun with.
        kind: Of the processor that it was begun on.
        loading: What a worker loads it with; None for a copy.
        copy: A decoder that came as an object, in bytes.
        choices: Of the study, without its decoder.
        place: Of the rung.
        known: Units that are finished, among them the calibration of the decoder as loaded.

    Raises:
        CheckMissed: The worker loaded other weights, or its processor is of another kind.
    """
    from armillary.studies.resistance.study import Resistance

    back = HandedBack(known)
    with one_at_a_time:  # a worker with several threads has one decoder, and rungs take parts of it away
        if key not in _studies:
            _studies.clear()
            decoder = same_decoder(loading, copy, weight_hash=facts.weight_hash, processor=kind)
            _studies[key] = Resistance(replace(decoder, facts=facts), **choices)
        climb = Climb(_studies[key], back)
        climb.learn()
        climb.rung(place)
    return back


_studies: dict[str, Resistance] = {}
