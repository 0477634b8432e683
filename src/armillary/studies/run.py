"""One run of a laboratory: what is still to do goes unit by unit into the journal, and the record comes from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import torch

from armillary.errors import CheckMissed
from armillary.models.contract import prove, require
from armillary.models.documents import ids_hash
from armillary.records import storage, unfinished
from armillary.records.journal import (
    IDS,
    UNFINISHED,
    Beginning,
    Journal,
    calibration_unit,
    chunk_unit,
    gauges_unit,
    proof_unit,
    rounding_unit,
)
from armillary.studies.backend import Backend
from armillary.studies.chunk import Chunk
from armillary.studies.dataset import declared, frame
from armillary.studies.gauged import under_gauges
from armillary.studies.origin import origin, processor, versions
from armillary.studies.rounding import rounding_words
from armillary.studies.station import Errand, Finished, Task, threads

if TYPE_CHECKING:
    from armillary.studies.laboratory import Laboratory

__all__ = ["carry_out", "identity"]

ROUND = 8
"""Chunks of one condition before the next has its turn: a run that is cut short has something of every condition."""

Tell = Callable[[str, int], None]


def carry_out(
    study: Laboratory,
    journal: Journal,
    record: Path,
    *,
    backend: Backend,
    progress: Callable[[str, int, int], None] | None,
    notice: Callable[[str], None] | None,
) -> None:
    """Do what the journal does not hold yet, and write the record.

    Args:
        study: With nothing left open.
        journal: Of this run, locked.
        record: The folder to come.
        backend: Where chunks are measured.
        progress: Told after every unit, documents done before included.
        notice: Told that an earlier run is gone on with.
    """
    promises = prove(study.decoder)
    require(study.decoder, promises)
    run = _Run(study, journal, progress)
    journal.begin(
        identity(study),
        lambda: Beginning(
            study.choices(),
            {
                **origin(study.decoder, study.documents, promises=promises, calibration=study.calibration),
                "rounding": rounding_words(study.decoder, study.plan.rounding_documents),
            },
            frame(study.layout),
            declared(study.layout).variables,
        ),
    )
    run.count_what_is_done()
    if run.done and notice is not None:
        notice(f"Going on with the run in {journal.folder}: {run.done} of {run.total} passes are finished.")
    run.every_unit(backend)
    run.gauges()
    found = unfinished.stored(journal.folder)
    storage.write(record, found.study, found.provenance, found.dataset, workshop=journal.folder / f"record{UNFINISHED}")


def identity(study: Laboratory) -> dict[str, Any]:
    """Whatever decides a bit of the numbers: two runs with the same may share what they have finished."""
    return {
        **study.choices(),
        "token hash of the documents": study.documents.hash,
        "token hash of the calibration documents": None if study.calibration is None else study.calibration.hash,
        "weight hash": study.decoder.facts.weight_hash,
        "versions": versions(),
        "processor": processor(),
    }


class _Run:
    """What one run carries along."""

    def __init__(self, study: Laboratory, journal: Journal, progress: Callable[[str, int, int], None] | None) -> None:
        self.study, self.journal, self.progress = study, journal, progress
        self.ids = study.documents.token_ids.clone()
        if ids_hash(self.ids) != study.documents.hash:
            raise _other_ids(study.documents.hash, ids_hash(self.ids), "the documents")
        self.total = len(study.conditions) * (len(study.documents) + len(study.calibration or ()))
        self.done = 0
        self.known: dict[int, dict[str, np.ndarray]] = {}

    def count_what_is_done(self) -> None:
        units = self.journal.units()
        for place, condition in enumerate(self.study.conditions):
            self.done += len(self.study.calibration or ()) * (calibration_unit(place) in units)
            self.done += sum(
                len(one) for one in self.study.partition(condition) if chunk_unit(place, one.start) in units
            )

    def tell(self, sentence: str, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(sentence, self.done, self.total)

    def every_unit(self, backend: Backend) -> None:
        """Do what is missing, here or there."""
        study, errand = self.study, self.errand()
        if backend.kind == "here":
            backend.do(study.decoder, errand, self.in_turn(), self.keep)
            return
        backend.spread(study.decoder, errand, lambda: list(self.calibrations()), self.keep)
        backend.spread(study.decoder, errand, lambda: list(self.rounds(backend.workers)), self.keep)

    def gauges(self) -> None:
        """Re-parametrizations of the trained decoder, here and last, whatever the backend."""
        if self.study.gauges and gauges_unit() not in self.journal.units():
            self.tell("re-parametrizations", 0)
            with threads(self.study.threads or torch.get_num_threads()):
                self.journal.put(gauges_unit(), under_gauges(self.study))

    def errand(self) -> Errand:
        """What all tasks share."""
        study = self.study
        return Errand(
            key=uuid4().hex,
            conditions=tuple(study.conditions),
            layout=study.layout,
            calibration=study.calibration,
            batch_size=study.batch_size,
            threads=study.threads or torch.get_num_threads(),
            weight_hash=study.decoder.facts.weight_hash,
            processor=processor(),
        )

    def calibrations(self) -> Iterator[Task]:
        """Those that are missing."""
        if self.study.calibration is not None:
            units = self.journal.units()
            yield from (Task(place) for place in self.places if calibration_unit(place) not in units)

    def rounds(self, workers: int = 1) -> Iterator[Task]:
        """The chunks that are missing, some of one condition and then some of the next."""
        parts = [self.study.partition(condition) for condition in self.study.conditions]
        units = self.journal.units()
        for first in range(0, len(parts[0]), ROUND * workers):
            for place in self.places:
                some = parts[place][first : first + ROUND * workers]
                yield from (self.task(place, one) for one in some if chunk_unit(place, one.start) not in units)

    def in_turn(self) -> Iterator[Task]:
        """Everything that is missing, each calibration right before the first chunk that needs it."""
        missing = {task.place: task for task in self.calibrations()}
        for task in self.rounds():
            if task.place in missing:
                yield missing.pop(task.place)
                task = self.task(task.place, Chunk("", task.start or 0, (task.start or 0) + len(task.titles)))
            yield task
        yield from missing.values()

    @property
    def places(self) -> range:
        return range(len(self.study.conditions))

    def task(self, place: int, chunk: Chunk) -> Task:
        where, unit = slice(chunk.start, chunk.stop), calibration_unit(place)
        if place not in self.known and unit in self.journal.units():
            self.known[place] = self.journal.arrays(unit)
        documents = self.study.documents
        return Task(place, chunk.start, documents.token_ids[where], documents.titles[where], self.known.get(place))

    def keep(self, task: Task, found: Finished) -> None:
        """Journal what a task found; ids that went through the decoder must be the documents'."""
        self.keep_proof(task.place, found.proof)
        label = self.study.conditions[task.place].label
        if task.start is None:
            self.journal.put(calibration_unit(task.place), found.arrays)
            self.tell(f"{label}: calibration", len(self.study.calibration or ()))
            return
        fed = torch.from_numpy(found.arrays[IDS])
        expected = self.ids[task.start : task.start + len(fed)]
        if not torch.equal(fed, expected):
            raise _other_ids(ids_hash(expected), ids_hash(fed), found.proof["name"])
        if found.rounding is not None:  # first, so that where the chunk is there, so are the floors
            self.journal.put(rounding_unit(task.place), found.rounding)
        self.journal.put(chunk_unit(task.place, task.start), found.arrays)
        self.tell(label, len(fed))

    def keep_proof(self, place: int, proof: Mapping[str, Any]) -> None:
        """Journal what the condition changed; it must be the same each time."""
        if not (self.journal.folder / proof_unit(place)).exists():
            self.journal.put_proof(place, proof)
        elif (before := self.journal.read_json(proof_unit(place))) != proof:
            raise CheckMissed(
                f"Condition {proof['name']} must change the same each time, but changed {before['sentence']!r} before "
                f"and {proof['sentence']!r} now. Do not change the model while a laboratory runs."
            )


def _other_ids(expected: str, got: str, who: str) -> CheckMissed:
    return CheckMissed(
        f"Every condition must see the ids of hash {expected[:12]}, but {who} saw {got[:12]}. "
        "Do not change the documents while a laboratory runs."
    )
