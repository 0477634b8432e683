"""One process at work: a decoder that is put into one condition after the other, as the tasks it is given ask for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from armillary.errors import CheckMissed
from armillary.models import anatomy
from armillary.models.conditions import Condition
from armillary.models.decoder import Decoder
from armillary.models.documents import Documents
from armillary.models.widened import wider_type
from armillary.records import storage
from armillary.records.journal import REASON, SECONDS
from armillary.shapes import TokenIds
from armillary.studies import origin
from armillary.studies.calibration import as_arrays, as_calibrations
from armillary.studies.chunk import Arrays, Bench
from armillary.studies.collector import Setting
from armillary.studies.layout import Layout
from armillary.studies.passes import calibrate
from armillary.studies.rounding import rounding

__all__ = ["Errand", "Finished", "Station", "Task", "require_same", "threads"]


@dataclass(frozen=True, eq=False)
class Errand:
    """What is the same for all tasks of a run.

    Args:
        key: Of this run, unlike any other.
        conditions: In the order of the record.
        layout: Axes and choices.
        calibration: Documents for the corpus-mean and rogue-coordinate views, or None.
        batch_size: Documents in one pass of the calibration.
        threads: Of the processor, for one pass.
        weight_hash: Of the decoder as loaded.
        processor: What the last bits depend on beside the versions.
    """

    key: str
    conditions: tuple[Condition, ...]
    layout: Layout
    calibration: Documents | None
    batch_size: int
    threads: int
    weight_hash: str
    processor: str


@dataclass(frozen=True, eq=False)
class Task:
    """One unit: the calibration of a condition, or one of its chunks.

    Args:
        place: Of the condition.
        start: First document of the chunk; None for the calibration.
        ids: Of the chunk.
        titles: Of its documents.
        calibration: What the condition's calibration found; empty without one.
    """

    place: int
    start: int | None = None
    ids: TokenIds | None = None
    titles: Sequence[str] = ()
    calibration: Mapping[str, np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Finished:
    """What a task left: the proof of its condition, and the arrays; of a first chunk also the rounding floors."""

    proof: Mapping[str, Any]
    arrays: Arrays
    rounding: Arrays | None = None


class Station:
    """A decoder that is put into one condition after the other, as tasks ask for it; close it when there are none left.

    Args:
        decoder: The trained decoder.
        errand: What all tasks share.
    """

    def __init__(self, decoder: Decoder, errand: Errand) -> None:
        self.decoder, self.errand = decoder, errand
        self._entered: int | None = None
        self._leave = ExitStack()

    def do(self, task: Task) -> Finished:
        """Do a task, in its condition.

        Raises:
            CheckMissed: The condition cannot prove what it changed.
            NumericalError: A state is not finite.
        """
        with threads(self.errand.threads):
            self._enter(task.place)
            arrays = self._calibrated() if task.ids is None else self._measured(task, task.ids)
            return Finished(self._proof, arrays, self._rounding(task, arrays) if task.start == 0 else None)

    def close(self) -> None:
        """Take the condition off again; its weights are proved to be back."""
        self._entered = None
        self._leave.close()

    def _enter(self, place: int) -> None:
        if place == self._entered:
            return
        self.close()
        condition = self.errand.conditions[place]
        applied = self._leave.enter_context(condition.applied(self.decoder))
        proof = {"name": condition.name, "label": condition.label, **asdict(applied.proof)}
        self._proof: dict[str, Any] = storage.plain(proof, "proof")
        self._applied, self._bench, self._entered = applied.decoder, None, place

    def _calibrated(self) -> Arrays:
        began = time.perf_counter()
        layout = self.errand.layout
        found = calibrate(
            self._applied,
            self.errand.calibration,
            plan=layout.plan,
            condition=self._proof["name"],
            batch_size=self.errand.batch_size,
        )
        return as_arrays(found) | {SECONDS: np.asarray(time.perf_counter() - began)}

    _bench: Bench | None = None

    def _measured(self, task: Task, ids: TokenIds) -> Arrays:
        if self._bench is None:
            found = as_calibrations(task.calibration) if task.calibration else {}
            self._bench = Bench(Setting(self.errand.layout, self._applied, self._proof["name"], found))
        return self._bench.measure(ids, task.titles)

    def _rounding(self, task: Task, arrays: Arrays) -> Arrays | None:
        """What rounding alone does to the first documents; or why the wider type cannot be computed in."""
        count = self.errand.layout.plan.rounding_documents
        if count < 1 or task.ids is None or self._bench is None or wider_type(self._applied) is None:
            return None
        try:
            return rounding(self._bench.setting, task.ids[:count], tuple(task.titles[:count]), arrays)
        except RuntimeError as trouble:  # an operation that knows no wider type, or no memory for it
            return {REASON: np.asarray(f"{type(trouble).__name__}: {str(trouble).strip().splitlines()[0][:200]}")}


def require_same(decoder: Decoder, *, weight_hash: str, processor: str) -> None:
    """Refuse other weights, and a processor whose sums end in other digits.

    Args:
        decoder: What a worker loaded.
        weight_hash: Of the decoder that the run was begun with.
        processor: That it was begun on.

    Raises:
        CheckMissed: The decoder is not the one that the run was begun with, or this processor is of another kind.
    """
    found = anatomy.weight_hash(decoder.model)
    if found != weight_hash:
        raise CheckMissed(
            f"Every worker must load the weights of hash {weight_hash[:12]}, but one loaded {found[:12]}. "
            "Give all of them the same files, or measure in one process."
        )
    if origin.processor() != processor:
        raise CheckMissed(
            f"Every worker must have the processor {processor} for numbers equal to the last bit, but "
            f"one has {origin.processor()}. Leave that machine out, or measure on machines like it alone."
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for every library of matrices while the block lasts: the order of sums follows from it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(limits=count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
