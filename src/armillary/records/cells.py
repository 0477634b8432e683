"""A run of cells as a record: what each finished cell left in the journal, put into one dataset of named axes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from armillary.records import storage
from armillary.records.journal import SECONDS, SUMS, Journal

if TYPE_CHECKING:
    import xarray

__all__ = ["KIND", "cell_unit", "finished_cells", "stored_cells"]

KIND = "phase"
"""What the study of a record made of cells has under `kind`."""

_CELL = re.compile(r"cell-(\d+)\.npz")


def cell_unit(place: int) -> str:
    """The name of the file of a finished cell.

    Args:
        place: Of the cell in its grid.
    """
    return f"cell-{place:07d}.npz"


def finished_cells(journal: Journal) -> list[int]:
    """Places of the cells that are finished, ascending.

    Args:
        journal: Of the run.
    """
    found = (_CELL.fullmatch(name) for name in journal.units())
    return sorted(int(one[1]) for one in found if one)


def stored_cells(folder: Path) -> storage.Stored:
    """The record of a run of cells: of all of them, or of those that are finished so far; the others are undefined.

    Args:
        folder: Where the journal lies.

    Returns:
        Study, provenance and dataset. Where cells are missing, provenance has `partial`: how many are there, of how
        many.

    Raises:
        ArgumentError: No cell is finished, or the journal is of another format.
    """
    journal = Journal(folder)
    content, frame = journal.content(), journal.frame()
    places = finished_cells(journal)
    if not places:
        raise storage.not_a_record(folder, "holds no cell yet that is finished", "Run the same command again to go on")
    study, provenance = content["study"], content["provenance"]
    axes = list(study["grid"]["axes"])
    dataset, seconds, sums = _assembled(journal, frame, axes, content["variables"], places)
    provenance["seconds"] = round(seconds, 3)
    provenance["summation"] = sorted(sums)
    if len(places) < study["cells"]:
        provenance["partial"] = {"cells": len(places), "of": study["cells"]}
    return storage.Stored(study, provenance, dataset, storage.measurements_hash(dataset))


def _assembled(
    journal: Journal, frame: xarray.Dataset, axes: list[str], variables: dict[str, dict[str, object]], places: list[int]
) -> tuple[xarray.Dataset, float, set[str]]:
    """The dataset, how many seconds of processor its cells took, and which sums over pairs ran in them."""
    sizes = {str(name): size for name, size in frame.sizes.items()}
    shape = tuple(sizes[name] for name in axes)
    arrays: dict[str, np.ndarray] = {}
    dims: dict[str, list[str]] = {}
    for name, one in variables.items():
        dims[name] = [str(axis) for axis in one["dims"]]  # type: ignore[attr-defined]
        arrays[name] = np.full([sizes[axis] for axis in dims[name]], np.nan)
    seconds, sums = 0.0, set[str]()
    for place in places:
        found = journal.arrays(cell_unit(place))
        index = np.unravel_index(place, shape) if shape else ()
        seconds += float(found[SECONDS])
        sums.update(map(str, found.get(SUMS, ())))
        for name, whole in arrays.items():
            whole[index] = found[name]
    named = {name: (dims[name], arrays[name], variables[name]["attrs"]) for name in arrays}
    return frame.assign(named), seconds, sums
