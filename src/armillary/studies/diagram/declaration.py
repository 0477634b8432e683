"""What a diagram is: a question, a grid of cells, a function that measures one cell, and what its results mean.

A preset is one module of `armillary.studies.phase` with a `PRESET` in it. Everything else is done for it: running cells
on any backend, resuming, the record, tables, a figure of every result, the page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    import xarray

    from armillary.estimates import Estimate

__all__ = ["SEED", "Axis", "Cell", "Findings", "Finding", "Grid", "Measure", "Preset", "Result"]

SEED = "seed"
"""The axis of independent systems: intervals come from it alone."""

Cell = Mapping[str, Any]
"""What one cell is: the value of every axis, the values of everything kept along, and what is fixed, by name."""

Measure = Callable[[Cell, Sequence[int]], dict[str, np.ndarray]]
"""Measures a cell for the given seeds: one array for each declared result, with that result's axes in order."""

Findings = Callable[["xarray.Dataset", Mapping[str, Any]], Sequence["Finding"]]
"""The numbers a page leads with, from the record's dataset and the choices `level`, `resamples` and `seed`."""


@dataclass(frozen=True)
class Axis:
    """A named row of values.

    Args:
        name: Of the dimension in the record; a word such as "beta".
        values: Numbers or words, each once.
        label: Quantity and unit, as an axis of a figure has it.
        scale: How a figure spaces them.
    """

    name: str
    values: tuple[float | int | str, ...]
    label: str
    scale: Literal["linear", "log", "names"] = "linear"

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ArgumentError(
                f"Argument `values` of the axis {self.name!r} must hold one value or more, each once, but is "
                f"{list(self.values)}. Leave out what comes twice."
            )


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All cells of a diagram: every combination of the axes' values.

    Args:
        axes: What differs between cells, in the order of the record's dimensions.
        seeds: How many independent systems each cell has.
        along: What a result may have further axes of (times, layers): the same for every cell.
        fixed: What is the same in every cell (tokens, last time, tolerances): it is written into the record.
        belongs: Which combinations are cells at all; None for every one. Cells left out stay undefined in the record.
    """

    axes: tuple[Axis, ...]
    seeds: int
    along: tuple[Axis, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    belongs: Callable[[Cell], bool] | None = None

    def __post_init__(self) -> None:
        names = [one.name for one in (*self.axes, *self.along)] + list(self.fixed) + [SEED]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or self.seeds < 1:
            raise ArgumentError(
                "Arguments `axes`, `along` and `fixed` of a grid must have names of their own and at least one seed, "
                f"but {', '.join(twice) or 'no name'} comes twice and there are {self.seeds} seeds. Rename, or ask "
                "for more."
            )
        if not self.cells:
            raise ArgumentError(
                "Argument `axes` must leave at least one cell, but leaves none. Give every axis values."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(one.values) for one in self.axes)

    @property
    def cells(self) -> dict[int, Cell]:
        """Every cell by its place in the grid, counted with the last axis fastest."""
        found: dict[int, Cell] = {}
        rest = {one.name: one.values for one in self.along}
        for place, values in enumerate(itertools.product(*(one.values for one in self.axes))):
            cell = {**self.fixed, **rest, **dict(zip((one.name for one in self.axes), values, strict=True))}
            if self.belongs is None or self.belongs(cell):
                found[place] = cell
        return found

    def words(self, place: int) -> str:
        """A cell as progress and refusals name it: "beta 3.2, dim 8".

        Args:
            place: Of the cell.
        """
        index = np.unravel_index(place, self.shape) if self.axes else ()
        named = zip(self.axes, index, strict=True)
        return ", ".join(f"{one.name} {_short(one.values[int(at)])}" for one, at in named) or "the one cell"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one array of a measured cell holds.

    Args:
        name: Of the variable in the record.
        dims: Its axes inside a cell, in order: "seed" for one number a system, and names of what the grid has along.
        symbol: As a formula writes it.
        definition: What it is, in words.
        units: Of its numbers; empty for none.
        undefined: When it is NaN.
        lowest: Lowest attainable value: intervals end there.
        highest: Highest attainable value, likewise.
    """

    name: str
    dims: tuple[str, ...]
    symbol: str
    definition: str
    units: str = ""
    undefined: str = "never"
    lowest: float = -math.inf
    highest: float = math.inf

    @property
    def attrs(self) -> dict[str, Any]:
        """What the record keeps of it."""
        ends = {"lowest": self.lowest, "highest": self.highest}
        words = {"symbol": self.symbol, "definition": self.definition, "undefined": self.undefined}
        units = {"units": self.units} if self.units else {}
        return words | units | {name: end for name, end in ends.items() if math.isfinite(end)}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number of a diagram with its interval, and what was expected of it.

    Args:
        words: What the number is: "edge at dim = 128".
        value: The number.
        low: Lower end of its interval; NaN where it has none.
        high: Upper end, likewise.
        level: Nominal coverage of the interval; NaN without one.
        members: How many independent systems it rests on; 0 where nothing was drawn.
        expected: What a law or a publication says; NaN where none does.
        source: Where the expected number is from.
        note: A sentence that belongs to it, such as what it does not show.
    """

    words: str
    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    members: int = 0
    expected: float = math.nan
    source: str = ""
    note: str = ""

    @classmethod
    def of(
        cls, found: Estimate, words: str, *, expected: float = math.nan, source: str = "", note: str = ""
    ) -> Finding:
        """A finding that is a mean over seeds.

        Args:
            found: The mean with its interval.
            words: What the number is.
            expected: What a law or a publication says.
            source: Where that is from.
            note: A sentence that belongs to it.
        """
        return cls(
            words=words, value=found.value, low=found.low, high=found.high, level=found.level, members=found.members,
            expected=expected, source=source, note=note,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Preset:
    """One diagram that `armillary phase` can make.

    Args:
        name: What `--preset` is given: the name of its module, with hyphens.
        title: Of the page.
        question: One sentence that ends in a question mark.
        source: The publication whose picture it is, or the law it tests.
        differs: How it differs from what was published, one sentence each.
        method: How a cell is measured, in a few sentences.
        limits: What the numbers do not show, one sentence each.
        full: The published size, or as near as makes sense.
        quick: A size for a few minutes on two cores.
        results: What `measure` returns.
        measure: A function at the top level of a module: it travels to other processes by its name. Its numbers must
            depend on the cell and on each seed alone, not on which other seeds are asked for with it.
        cost: Seconds of one core that one seed of a cell takes, roughly: for `--dry-run`, progress, and the order in
            which cells are measured.
        findings: The numbers the page leads with; None for none.
    """

    name: str
    title: str
    question: str
    source: str
    differs: tuple[str, ...]
    method: str
    limits: tuple[str, ...]
    full: Grid
    quick: Grid
    results: tuple[Result, ...]
    measure: Measure
    cost: Callable[[Cell], float]
    findings: Findings | None = None

    def __post_init__(self) -> None:
        for grid in (self.full, self.quick):
            require_axes(self.results, grid)


def require_axes(results: Sequence[Result], grid: Grid) -> None:
    """Refuse results whose axes a grid does not have.

    Args:
        results: What a cell gives.
        grid: The cells.

    Raises:
        ArgumentError: An axis is neither that of the seeds nor one that the grid has along.
    """
    known = {SEED, *(one.name for one in grid.along)}
    for one in results:
        if unknown := [name for name in one.dims if name not in known]:
            raise ArgumentError(
                f"Argument `dims` of the result {one.name!r} must hold {SEED!r} and names of what the grid has along "
                f"({', '.join(sorted(known - {SEED})) or 'nothing'}), but holds {', '.join(unknown)}. Add that axis to "
                "`along`."
            )


def _short(value: float | int | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
