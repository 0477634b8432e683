"""What can be read of a run that has not ended: a record of the documents finished in every condition so far."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.records import storage
from armillary.records.assembly import Part, Variable, assembled
from armillary.records.cells import KIND, stored_cells
from armillary.records.floors import with_floors
from armillary.records.gauge_unit import with_gauges
from armillary.records.journal import (
    IDS,
    REASON,
    SECONDS,
    Journal,
    calibration_unit,
    chunk_unit,
    gauges_unit,
    proof_unit,
    rounding_unit,
)

if TYPE_CHECKING:
    import xarray

__all__ = ["stored"]


def stored(folder: Path) -> storage.Stored:
    """A record of the documents finished in every condition begun so far; of everything, once the run is done.

    Args:
        folder: Where the journal lies.

    Returns:
        Study, provenance and dataset. Where something is missing, provenance has `partial`: how many documents are
        there, of how many, and which conditions have no number yet.

    Raises:
        ArgumentError: Fewer than two documents are finished, or the journal is of another format.
    """
    journal = Journal(folder)
    content = journal.content()
    if content["study"].get("kind") == KIND:
        return stored_cells(folder)
    frame = journal.frame()
    if "condition" not in frame.coords:
        raise storage.not_a_record(
            folder, "holds runs that cannot be read one by one", "Run the same command again to go on"
        )
    finished = _Finished.of(journal, frame)
    variables = {
        name: Variable(
            tuple(one["dims"]), one["attrs"], one["dtype"], math.nan if (fill := one["fill"]) is None else fill
        )
        for name, one in content["variables"].items()
    }
    part = frame.isel(condition=finished.conditions, document=finished.documents)
    dataset = assembled(part, variables, finished.parts())
    study, provenance = content["study"], content["provenance"]
    provenance |= finished.provenance(provenance["calibration"])
    floors = finished.floors()
    said = str(provenance.get("rounding", ""))
    dataset = with_floors(dataset, variables, floors, said)
    if without := {finished.names[c]: str(one[REASON]) for c, one in floors.items() if REASON in one}:
        provenance["rounding_not_measured"] = without
    if gauges_unit() in journal.units():
        dataset, why = with_gauges(dataset, journal.arrays(gauges_unit()))
        provenance |= {"gauges_not_measured": why} if why else {}
    if not finished.everything:
        provenance["partial"] = finished.words()
        study["conditions"] = finished.names
        study["documents"]["count"] = len(finished.documents)
        _cut(provenance["documents"], finished.documents, provenance["conditions"][0]["token_hash"])
    return storage.Stored(study, provenance, dataset, storage.measurements_hash(dataset))


@dataclass(frozen=True, eq=False)
class _Finished:
    """The chunks that are finished in each of the conditions begun.

    Args:
        journal: Where they lie.
        frame: The axes of the whole run.
        conditions: Places of the conditions begun.
        starts: First documents of the chunks.
        lengths: How many documents each chunk has.
    """

    journal: Journal
    frame: xarray.Dataset
    conditions: list[int]
    starts: list[int]
    lengths: list[int]

    @classmethod
    def of(cls, journal: Journal, frame: xarray.Dataset) -> _Finished:
        begun = [c for c in range(frame.sizes["condition"]) if journal.chunks(c)]
        starts = sorted(set.intersection(*(set(journal.chunks(c)) for c in begun))) if begun else []
        lengths = [len(journal.array(chunk_unit(begun[0], start), IDS)) for start in starts]
        if sum(lengths) < 2 or begun[0] != 0:
            raise storage.not_a_record(
                journal.folder,
                "holds no two documents yet that are finished in every condition begun",
                "Run the same command again to go on",
            )
        return cls(journal, frame, begun, starts, lengths)

    @property
    def documents(self) -> list[int]:
        pairs = zip(self.starts, self.lengths, strict=True)
        return [document for start, length in pairs for document in range(start, start + length)]

    @property
    def names(self) -> list[str]:
        every = self.frame["condition"].values
        return [str(every[c]) for c in self.conditions]

    @property
    def everything(self) -> bool:
        there = (len(self.conditions), len(self.documents))
        return there == (self.frame.sizes["condition"], self.frame.sizes["document"])

    def words(self) -> dict[str, Any]:
        names = set(self.names)
        every = [str(name) for name in self.frame["condition"].values]
        return {
            "documents": len(self.documents),
            "of": self.frame.sizes["document"],
            "conditions_without_numbers": [name for name in every if name not in names],
        }

    def parts(self) -> Iterator[Part]:
        for place, condition in enumerate(self.conditions):
            first = 0
            for start, length in zip(self.starts, self.lengths, strict=True):
                yield Part(place, first, self.journal.arrays(chunk_unit(condition, start)))
                first += length

    def floors(self) -> dict[int, dict[str, np.ndarray]]:
        """What rounding alone does, for each condition where that was measured."""
        units = self.journal.units()
        return {
            place: self.journal.arrays(rounding_unit(condition))
            for place, condition in enumerate(self.conditions)
            if rounding_unit(condition) in units
        }

    def provenance(self, calibration: Mapping[str, Any]) -> dict[str, Any]:
        """Proofs with the hash of the ids that each condition saw, rogue coordinates, seconds."""
        proofs, rogue, timings = [], {}, {}
        for condition, name in zip(self.conditions, self.names, strict=True):
            units = [chunk_unit(condition, start) for start in self.starts]
            fed = np.concatenate([self.journal.array(unit, IDS) for unit in units])
            proofs.append({**self.journal.read_json(proof_unit(condition)), "token_hash": _hash(fed)})
            seconds = sum(float(self.journal.array(unit, SECONDS)) for unit in units)
            if (unit := calibration_unit(condition)) in self.journal.units():
                found = self.journal.arrays(unit)
                seconds += float(found[SECONDS])
                pairs = zip(found["layers"].tolist(), found["coordinates"].tolist(), strict=True)
                rogue[name] = {str(layer): list(coordinates) for layer, coordinates in pairs}
            timings[name] = round(seconds, 2)
        return {
            "conditions": proofs,
            "calibration": {**calibration, "rogue_coordinates": rogue},
            "timings": timings,
        }


def _hash(ids: np.ndarray) -> str:
    """As `models.documents.ids_hash`, without the library of the models."""
    return hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest()


def _cut(documents: dict[str, Any], kept: list[int], token_hash: str) -> None:
    """The facts of all documents become those of the kept ones."""
    for key in ("titles", "text_hashes"):
        if documents.get(key):
            documents[key] = [documents[key][document] for document in kept]
    if isinstance(documents.get("first_ids"), list) and len(documents["first_ids"]) > max(kept):
        documents["first_ids"] = [documents["first_ids"][document] for document in kept]
    documents |= {"documents": len(kept), "token_hash": token_hash}
