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
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from armillary.errors import ArgumentError
from armillary.studies.diagram.declaration import Axis, Cell, Grid, Preset
from armillary.studies.diagram.flows import RESULTS, flow_cost, measure_flow, require_possible

__all__ = ["StudyFile", "study_from_file"]

_LABELS = {
    "beta": "inverse temperature beta", "dim": "dimension d", "tokens": "tokens T", "mask": "mask", "heads": "heads",
    "norm": "norm", "start": "start",
}  # fmt: skip
LISTED = 12  # impossible cells that a refusal names one by one

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

    @property
    def values(self) -> list[float]:
        """The values, ascending or descending as the ends are."""
        spaced = np.geomspace if self.spacing == "log" else np.linspace
        return [float(value) for value in spaced(self.first, self.last, self.count)]


Words = Annotated[list[str], Field(min_length=1)]


class GridTable(_Strict):
    """The axes: every combination of their values is a cell."""

    beta: Annotated[list[Number], Field(min_length=1)] | Spread
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
        where = ".".join(
            str(part) for part in first["loc"] if str(part) not in ("Spread",) and "list[" not in str(part)
        )
        got = f", but is {first['input']!r}" if not isinstance(first["input"], dict) else ""
        more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ArgumentError(
            f"Argument `study` must be a file whose `{where or 'content'}` fits{got}: {first['msg']}{more}. Mend "
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
    """Refuse cells that cannot be, all of them at once; what they share is tried once."""
    wrong, tried = [], dict[tuple[Any, ...], str]()
    for place, cell in grid.cells.items():
        named = ("dim", "tokens", "mask", "heads", "norm", "start")
        key = tuple(cell[name] for name in named)
        if key not in tried:
            tried[key] = _trouble(cell)
        if tried[key]:
            wrong.append((grid.words(place), tried[key]))
    if wrong:
        listed = "; ".join(words for words, _ in wrong[:LISTED])
        rest = f"; and {len(wrong) - LISTED} more" if len(wrong) > LISTED else ""
        raise ArgumentError(
            f"Argument `grid` must hold cells that can be, but {len(wrong)} of {len(grid.cells)} cannot: {listed}"
            f"{rest}. The first: {wrong[0][1]}"
        )


def _trouble(cell: Cell) -> str:
    try:
        require_possible(cell)
    except ArgumentError as error:
        return str(error)
    return ""
