"""One run of a laboratory: what is still to do goes unit by unit into the journal, and the record comes from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary import storage, unfinished
from armillary.errors import CheckMissed
from armillary.journal import IDS, SECONDS, UNFINISHED, Beginning, Journal, calibration_unit, chunk_unit, proof_unit
from armillary.models.conditions import Applied, Condition
from armillary.models.contract import prove, require
from armillary.models.decoder import Decoder
from armillary.models.documents import ids_hash
from armillary.observables.cloud import Calibration
from armillary.studies.calibration import as_arrays, as_calibrations
from armillary.studies.chunk import Chunk
from armillary.studies.dataset import declared, frame
from armillary.studies.origin import origin, processor, versions

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
    progress: Callable[[str, int, int], None] | None,
    notice: Callable[[str], None] | None,
) -> None:
    """Do what the journal does not hold yet, and write the record.

    Args:
        study: With nothing left open.
        journal: Of this run, locked.
        record: The folder to come.
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
            origin(study.decoder, study.documents, promises=promises, calibration=study.calibration),
            frame(study.layout),
            declared(study.layout).variables,
        ),
    )
    run.count_what_is_done()
    if run.done and notice is not None:
        notice(f"Going on with the run in {journal.folder}: {run.done} of {run.total} passes are finished.")
    with _threads(study.threads):
        run.every_unit()
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

    def every_unit(self) -> None:
        parts = [self.study.partition(condition) for condition in self.study.conditions]
        for first in range(0, len(parts[0]), ROUND):
            for place, condition in enumerate(self.study.conditions):
                self.some_of(place, condition, parts[place][first : first + ROUND])

    def some_of(self, place: int, condition: Condition, chunks: tuple[Chunk, ...]) -> None:
        """The chunks of one condition that are not finished, while it is applied."""
        units = self.journal.units()
        missing = [one for one in chunks if chunk_unit(place, one.start) not in units]
        if not missing and (self.journal.folder / proof_unit(place)).exists():
            return
        with condition.applied(self.study.decoder) as applied:
            self.keep_proof(place, condition, applied)
            bench = self.study.bench(condition, applied.decoder, self.calibrated(place, condition, applied.decoder))
            for chunk in missing:
                where = slice(chunk.start, chunk.stop)
                arrays = bench.measure(self.study.documents.token_ids[where], self.study.documents.titles[where])
                self.keep(place, chunk, arrays)
                self.tell(condition.label, len(chunk))

    def keep(self, place: int, chunk: Chunk, arrays: Mapping[str, np.ndarray]) -> None:
        """Journal a chunk whose ids are the documents'."""
        fed = torch.from_numpy(arrays[IDS])
        if not torch.equal(fed, self.ids[chunk.start : chunk.stop]):
            raise _other_ids(ids_hash(self.ids[chunk.start : chunk.stop]), ids_hash(fed), chunk.condition)
        self.journal.put(chunk_unit(place, chunk.start), arrays)

    def keep_proof(self, place: int, condition: Condition, applied: Applied) -> None:
        """Journal what the condition changed; it must be the same each time."""
        proof = storage.plain({"name": condition.name, "label": condition.label, **asdict(applied.proof)}, "proof")
        if not (self.journal.folder / proof_unit(place)).exists():
            self.journal.put_proof(place, proof)
        elif (before := self.journal.read_json(proof_unit(place))) != proof:
            raise CheckMissed(
                f"Condition {condition.name} must change the same each time, but changed {before['sentence']!r} before "
                f"and {proof['sentence']!r} now. Do not change the model while a laboratory runs."
            )

    def calibrated(self, place: int, condition: Condition, decoder: Decoder) -> dict[int, Calibration]:
        """From the journal, or estimated now."""
        unit = calibration_unit(place)
        if self.study.calibration is None:
            return {}
        if unit not in self.journal.units():
            began = time.perf_counter()
            arrays = as_arrays(self.study.calibrate(condition, decoder))
            self.journal.put(unit, arrays | {SECONDS: np.asarray(time.perf_counter() - began)})
            self.tell(f"{condition.label}: calibration", len(self.study.calibration))
        return as_calibrations(self.journal.arrays(unit))


def _other_ids(expected: str, got: str, who: str) -> CheckMissed:
    return CheckMissed(
        f"Every condition must see the ids of hash {expected[:12]}, but {who} saw {got[:12]}. "
        "Do not change the documents while a laboratory runs."
    )


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch while the block lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
