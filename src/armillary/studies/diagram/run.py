"""A diagram as a study: its cells go one by one into the journal, on any backend, and the record comes from them."""

from __future__ import annotations

import hashlib
import inspect
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import require_choices
from armillary.records import storage
from armillary.records.assembly import Variable
from armillary.records.cells import KIND, cell_unit, finished_cells, stored_cells
from armillary.records.journal import UNFINISHED, Beginning, Journal
from armillary.records.record import Record
from armillary.studies.backend import Backend
from armillary.studies.diagram.declaration import SEED, Axis, Cell, Grid, Preset, require_axes
from armillary.studies.diagram.work import measured_cell
from armillary.studies.origin import processor

if TYPE_CHECKING:
    import xarray

__all__ = ["Diagram"]

_LIBRARIES = ("armillary", "numba", "numpy", "scipy", "torch", "xarray")


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagram:
    """All choices of one diagram; `run` turns them into a record.

    Args:
        preset: What is asked and how a cell is measured.
        grid: The cells.
        size: What the grid is called: "full", "quick", or where it is from.
        level: Nominal coverage of the intervals over seeds.
        resamples: How many times seeds are resampled.
        seed: The first of the seeds; also of the resampling.
    """

    preset: Preset
    grid: Grid
    size: str
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        require_choices(self.level, self.resamples)
        require_axes(self.preset.results, self.grid)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of every cell."""
        return tuple(range(self.seed, self.seed + self.grid.seeds))

    @property
    def seconds(self) -> float:
        """Seconds of one core that all cells take, by what the preset says of them."""
        return sum(self._cost(cell) for cell in self.grid.cells.values())

    def _cost(self, cell: Cell) -> float:
        return max(self.preset.cost(cell) * self.grid.seeds, 1e-3)

    def run(
        self,
        path: str | Path,
        *,
        backend: Backend | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Record:
        """Measure every cell and write the record; a run that was cut short goes on where it ended.

        Args:
            path: The new folder.
            backend: Where cells are measured; in this process if None. Numbers do not depend on it.
            progress: Told after every cell what is done, in milliseconds of expected work done and there in all.
            notice: Told that an earlier run is gone on with.

        Returns:
            The record.

        Raises:
            ArgumentError: The folder exists, or holds a run with other choices, or another run is writing it.
            DiskError: The disk is full; finished cells are kept.
            WorkersLost: Workers were lost again and again.
        """
        folder = Path(path)
        with Journal.held(folder) as journal:
            journal.begin(self._identity(), self._beginning)
            if journal.resumed and (done := len(finished_cells(journal))) and notice is not None:
                notice(
                    f"Going on with the run in {journal.folder}: {done} of {len(self.grid.cells)} cells are finished."
                )
            self._measure(journal, backend or Backend(), progress)
            found = stored_cells(journal.folder)
            provenance = {**found.provenance, "findings": self._findings(found.dataset)}
            storage.write(
                folder, found.study, provenance, found.dataset, workshop=journal.folder / f"record{UNFINISHED}"
            )
        return Record.open(folder)

    def _measure(self, journal: Journal, backend: Backend, progress: Callable[[str, int, int], None] | None) -> None:
        """Every cell that the journal does not hold, the most expensive first so that no worker waits at the end."""
        cells = self.grid.cells
        costs = {place: round(1000 * self._cost(cell)) + 1 for place, cell in cells.items()}
        done = set(finished_cells(journal))

        def tell(words: str) -> None:
            if progress is not None:
                progress(words, sum(costs[place] for place in done), sum(costs.values()))

        def calls() -> list[tuple[Any, ...]]:
            missing = sorted((place for place in cells if place not in done), key=lambda place: (-costs[place], place))
            preset, kind = self.preset, processor()
            return [(preset.measure, preset.results, cells[place], self.seeds, place, kind) for place in missing]

        def keep(found: tuple[int, dict[str, np.ndarray]]) -> None:
            place, arrays = found
            journal.put(cell_unit(place), arrays)
            done.add(place)
            tell(f"{len(done)} of {len(cells)} cells, {self.grid.words(place)}")

        tell(f"{len(done)} of {len(cells)} cells")
        backend.each(measured_cell, calls, keep)

    # what the record says ----------------------------------------------------------------------------------------

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml has it."""
        preset, grid = self.preset, self.grid
        return {
            "kind": KIND,
            "preset": preset.name,
            "size": self.size,
            "title": preset.title,
            "question": preset.question,
            "source": preset.source,
            "differs": list(preset.differs),
            "method": preset.method,
            "limits": list(preset.limits),
            "grid": {
                "axes": {one.name: _spelled(one) for one in grid.axes},
                "along": {one.name: _spelled(one) for one in grid.along},
                "fixed": dict(grid.fixed),
            },
            "results": {one.name: list(one.dims) for one in preset.results},
            "cells": len(grid.cells),
            "seeds": grid.seeds,
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
        }

    def _identity(self) -> dict[str, Any]:
        """Whatever decides a bit of the numbers, the code that measures a cell included."""
        module = sys.modules[self.preset.measure.__module__]
        try:
            code = hashlib.sha256(inspect.getsource(module).encode()).hexdigest()
        except OSError:  # typed at a prompt: there is no file to read
            code = "not known"
        return {**self.choices(), "code": code, "versions": _versions(), "processor": processor()}

    def _beginning(self) -> Beginning:
        axes = tuple(one.name for one in self.grid.axes)
        variables = {one.name: Variable((*axes, *one.dims), one.attrs) for one in self.preset.results}
        origin = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
            "processor": processor(),
        }
        return Beginning(self.choices(), origin, self._frame(), variables)

    def _frame(self) -> xarray.Dataset:
        import xarray as xr

        coordinates: dict[str, Any] = {
            one.name: (one.name, np.asarray(one.values), {"long_name": one.label})
            for one in (*self.grid.axes, *self.grid.along)
        }
        coordinates[SEED] = (SEED, np.asarray(self.seeds), {"long_name": "seed of an independent system"})
        return xr.Dataset(coords=coordinates)

    def _findings(self, dataset: xarray.Dataset) -> list[dict[str, Any]]:
        if self.preset.findings is None:
            return []
        choices: Mapping[str, Any] = {"level": self.level, "resamples": self.resamples, "seed": self.seed}
        return [asdict(one) for one in self.preset.findings(dataset, choices)]


def _spelled(axis: Axis) -> dict[str, Any]:
    return {"label": axis.label, "scale": axis.scale, "values": list(axis.values)}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}
