"""Every figure by name, found rather than listed: a function of a reading that declares a drawing, or has none.

A module of this package that holds a function marked `@figure` is all a new figure needs: the page shows it and
`write_figures` prints it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from armillary.errors import ArgumentError
from armillary.figures.drawing import Drawing
from armillary.figures.reading import Reading
from armillary.figures.run import Run

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = [
    "FigureFunction",
    "RunFigureFunction",
    "drawings",
    "figure",
    "figure_names",
    "figure_of_run",
    "reading_of",
]

FigureFunction = Callable[[Reading], Drawing | None]
RunFigureFunction = Callable[[Run], Drawing | None]

_FIGURES: dict[str, FigureFunction] = {}
_OF_RUNS: dict[str, RunFigureFunction] = {}


def reading_of(source: Record | Reading) -> Reading:
    """A record as the figures of its kind see it; a reading is handed on as it is.

    Args:
        source: a record of a laboratory, of captured states or of a simulation; or a reading of one.
    """
    if isinstance(source, Reading):
        return source
    return Run(source) if source.study.get("kind") == "simulation" else Reading(source)


def figure(function: FigureFunction) -> FigureFunction:
    """Mark a function as a figure; its name is the figure's name.

    Args:
        function: takes a `Reading`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    _FIGURES[_own_name(function)] = function
    return function


def figure_of_run(function: RunFigureFunction) -> RunFigureFunction:
    """Mark a function as a figure of simulations; its name is the figure's name.

    Args:
        function: takes a `Run`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    _OF_RUNS[_own_name(function)] = function
    return function


def figure_names(of: Literal["depth", "time"] = "depth") -> tuple[str, ...]:
    """Names of all figures, in alphabetical order.

    Args:
        of: what they are drawn against: the depth of a decoder, or the time of a simulation.
    """
    _discover()
    return tuple(sorted(_FIGURES if of == "depth" else _OF_RUNS))


def drawings(reading: Reading) -> dict[str, Drawing]:
    """Every drawing that the record has numbers for, by name.

    Raises:
        ArgumentError: a figure returned a drawing under another name than its own.
    """
    _discover()
    result = {}
    if isinstance(reading, Run):
        made = {name: function(reading) for name, function in sorted(_OF_RUNS.items())}
    else:
        made = {name: function(reading) for name, function in sorted(_FIGURES.items())}
    for name, drawing in made.items():
        if drawing is None:
            continue
        if drawing.name != name:
            raise ArgumentError(
                f"Argument `name` of a drawing must be its figure's, but {name!r} declared {drawing.name!r}. Give "
                "both one name."
            )
        result[name] = drawing
    return result


def _own_name(function: Callable[..., Drawing | None]) -> str:
    """The name of a figure function, unless another module's figure has it."""
    known = {**_FIGURES, **_OF_RUNS}.get(function.__name__)
    if known is not None and known.__module__ != function.__module__:
        raise ArgumentError(
            f"Argument `function` must have a name of its own, but {known.__module__} already has a figure "
            f"{function.__name__!r}. Rename one."
        )
    return function.__name__


def _discover() -> None:
    package = importlib.import_module("armillary.figures")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"armillary.figures.{module.name}")
