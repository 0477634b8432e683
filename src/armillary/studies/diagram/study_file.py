"""A diagram described in a file (TOML, YAML, JSON): a grid of moving tokens, what is the same everywhere, seeds.

title = "Groups on the circle"
seeds = 16

[grid]                        # every combination is a cell
beta = { from = 1, to = 9, count = 5 }
dim = [2]
tokens = [32, 64]
start = ["uniform", "ring"]   # mask, heads, norm and start may be left out: full, identity, post, uniform

[run]
until = 50
above = 0.999                 # overlap above which a pair has met
within = 0.1                  # angle up to which tokens share a group
rtol = 1e-6
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from armillary.errors import ArgumentError
from armillary.studies.diagram.declaration import Axis, Cell, Grid, Preset
from armillary.studies.diagram.flows import RESULTS, flow_cost, measure_flow, require_possible

__all__ = ["StudyFile", "study_from_file"]

_LABELS = {
    "beta": "inverse temperature beta", "dim": "dimension d", "tokens": "tokens T", "mask": "mask", "heads": "heads",
    "norm": "norm", "start": "start",
}  # fmt: skip

Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=2, le=100_000)]


class _Strict(BaseModel):
    """What is not known is refused, and never guessed at."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Spread(_Strict):
    """Evenly spaced values, both ends included."""

    first: Number = Field(alias="from")
    last: Number = Field(alias="to")
    count: Annotated[int, Field(ge=2, le=10_000)]
    spacing: Literal["even", "log"] = "even"

    @model_validator(mode="after")
    def _one_sign(self) -> Spread:
        if self.spacing == "log" and not self.first * self.last > 0:
            raise ValueError(
                f'spacing = "log" needs ends of one sign and not 0, but they are {self.first:g} and {self.last:g}'
            )
        return self

    @property
    def values(self) -> list[float]:
        """The values, ascending or descending as the ends are."""
        spaced = np.geomspace if self.spacing == "log" else np.linspace
        return [float(value) for value in spaced(self.first, self.last, self.count)]


def _way(value: Any) -> str:
    """Whether values are given by their ends or one by one: only what is wrong with that way is said."""
    return "ends" if isinstance(value, dict | Spread) else "each"


Values = Annotated[
    Annotated[list[Number], Field(min_length=1), Tag("each")] | Annotated[Spread, Tag("ends")], Discriminator(_way)
]
Words = Annotated[list[str], Field(min_length=1)]


class GridTable(_Strict):
    """The axes: every combination of their values is a cell."""

    beta: Values
    dim: Annotated[list[Count], Field(min_length=1)]
    tokens: Annotated[list[Count], Field(min_length=1)]
    mask: Words = ["full"]
    heads: Words = ["identity"]
    norm: Words = ["post"]
    start: Words = ["uniform"]


class RunTable(_Strict):
    """What is the same in every cell."""

    until: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    above: Annotated[float, Field(gt=0, lt=1)]
    within: Annotated[float, Field(gt=0, lt=math.pi)]
    rtol: Annotated[float, Field(gt=1e-14, lt=0.1)]
    rule: Literal["softmax", "unnormalized", "uniform", "hardmax"] = "softmax"
    times: Annotated[int, Field(ge=2, le=10_000)] = 61
    spacing: Literal["even", "log"] = "even"
    steps: Annotated[int, Field(ge=1, le=100_000_000)] = 100_000
    merge: Annotated[float, Field(gt=0, lt=0.5)] | None = None
    stop: Literal["gathered", "never"] = "gathered"

    @property
    def kept(self) -> tuple[float, ...]:
        """Times at which numbers are read, the last one where a system ends."""
        if self.spacing == "log":
            return tuple(np.geomspace(min(0.01, self.until / 10), self.until, self.times).tolist())
        return tuple(np.linspace(0.0, self.until, self.times).tolist())


class StudyFile(_Strict):
    """A whole study file."""

    title: str
    question: str = ""
    seeds: Annotated[int, Field(ge=1, le=1_000_000)]
    grid: GridTable
    run: RunTable

    def as_preset(self, source: str) -> Preset:
        """The study as a preset whose only size is its grid.

        Args:
            source: Where it is from, in words.

        Raises:
            ArgumentError: Cells that cannot be; all of them are listed.
        """
        grid = self._grid()
        _require_cells(grid)
        return Preset(
            name="study-file",
            title=self.title,
            question=self.question or f"{self.title.rstrip('.?')}: what becomes of tokens over this grid?",
            source=source,
            differs=("No publication is meant.",),
            method=(
                "Independent starts follow the flow that each cell names, with adaptive steps of each system's own; "
                "random heads are drawn anew for each seed."
            ),
            limits=("A finite number of tokens and a finite time: what stands still at the end may move later.",),
            full=grid,
            quick=grid,
            results=RESULTS,
            measure=measure_flow,
            cost=flow_cost,
        )

    def _grid(self) -> Grid:
        table = self.grid
        betas = table.beta.values if isinstance(table.beta, Spread) else table.beta
        axes = {"beta": betas, **{name: getattr(table, name) for name in _LABELS if name != "beta"}}
        run = self.run
        return Grid(
            axes=tuple(
                Axis(name, tuple(values), _LABELS[name], _scale(values)) for name, values in axes.items() if values
            ),
            seeds=self.seeds,
            along=(Axis("time", run.kept, "time s", "log" if run.spacing == "log" else "linear"),),
            fixed={
                "rule": run.rule, "until": run.until, "above": run.above, "within": run.within, "rtol": run.rtol,
                "steps": run.steps,
                "merge": run.merge or 0.0, "stop": run.stop == "gathered",
            },
        )  # fmt: skip


def study_from_file(path: Path) -> Preset:
    """The study that a file describes, as a preset.

    Args:
        path: A file that ends in .toml, .yaml, .yml or .json.

    Raises:
        ArgumentError: It cannot be read, says something that is not known, or has cells that cannot be.
    """
    try:
        found = StudyFile.model_validate(_content(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("ends", "each"))
        got = f", but is {first['input']!r}" if not isinstance(first["input"], dict) else ""
        said = first["msg"].removeprefix("Value error, ")
        more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ArgumentError(
            f"Argument `study` must be a file whose `{where or 'content'}` fits{got}: {said}{more}. Mend "
            f"{path.name}; `docs/phase.md` has an example."
        ) from None
    return found.as_preset(f"the study file {path.name}")


def _content(path: Path) -> Any:
    ending = path.suffix.removeprefix(".")
    if ending not in ("toml", "yaml", "yml", "json"):
        raise ArgumentError(
            f"Argument `study` must end in .toml, .yaml or .json, but is {path}. Name a file of that kind."
        )
    try:
        text = path.read_text(encoding="utf-8")
        if ending == "toml":
            return tomllib.loads(text)
        if ending == "json":
            return json.loads(text)
        import yaml

        return yaml.safe_load(text)
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"Argument `study` must be a file that can be read, but {path} cannot ({error}). Check name and content."
        ) from error
    except Exception as error:  # what a YAML file can be wrong in, whichever class the library raises
        raise ArgumentError(
            f"Argument `study` must be a file in YAML, but {path} is not ({error}). Mend it."
        ) from error


def _scale(values: list[Any]) -> Literal["linear", "log", "names"]:
    return "names" if isinstance(values[0], str) else "linear"


def _require_cells(grid: Grid) -> None:
    """Refuse cells that cannot be, all of them at once, by cause; what they share is tried once."""
    named = ("dim", "tokens", "mask", "heads", "norm", "start")
    tried = dict[tuple[Any, ...], str]()
    cells = [tuple(cell[name] for name in named) for cell in grid.cells.values()]
    for key, cell in zip(cells, grid.cells.values(), strict=True):
        if key not in tried:
            tried[key] = _trouble(cell)
    causes = dict[str, list[tuple[Any, ...]]]()
    for key, trouble in tried.items():
        if trouble:
            causes.setdefault(re.sub(r"[0-9.]+", "", trouble.partition(", but ")[0]), []).append(key)
    if causes:
        axes = {one.name: one.values for one in grid.axes if one.name in named}
        listed = " ".join(f"{_blocks(keys, axes)}: {tried[keys[0]]}" for keys in causes.values())
        raise ArgumentError(
            f"Argument `grid` must hold cells that can be, but {sum(bool(tried[key]) for key in cells)} of "
            f"{len(cells)} cannot. {listed}"
        )


def _blocks(keys: list[tuple[Any, ...]], axes: Mapping[str, Sequence[Any]]) -> str:
    """Cells as products of values of their axes; an axis that takes part as a whole is not named."""
    blocks = [tuple((value,) for value in key) for key in keys]
    names = list(axes)
    for at in sorted(range(len(names)), key=lambda at: -len(axes[names[at]])):
        alike = dict[tuple[Any, ...], list[Any]]()
        for one in blocks:
            alike.setdefault((*one[:at], *one[at + 1 :]), []).extend(one[at])
        blocks = [(*rest[:at], tuple(values), *rest[at:]) for rest, values in alike.items()]
    said = [
        ", ".join(
            f"{name} {_values(some)}" for name, some in zip(names, one, strict=True) if len(some) < len(axes[name])
        )
        for one in blocks
    ]
    return "; ".join(said) if all(said) else "Every cell"


def _values(some: tuple[Any, ...]) -> str:
    run = len(some) > 2 and all(isinstance(one, int) for one in some) and some == tuple(range(some[0], some[-1] + 1))
    return f"{some[0]}-{some[-1]}" if run else " or ".join(str(one) for one in some)


def _trouble(cell: Cell) -> str:
    try:
        require_possible(cell)
    except ArgumentError as error:
        return str(error)
    return ""
