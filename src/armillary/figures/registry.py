"""Every figure by name, found rather than listed: a function of a reading that declares a drawing, or has none.

A module of this package that holds a function marked `@figure` is all a new figure needs: the page shows it and
`write_figures` prints it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from armillary.errors import ArgumentError
from armillary.figures.drawing import Drawing
from armillary.figures.reading import Reading

__all__ = ["FigureFunction", "drawings", "figure", "figure_names"]

FigureFunction = Callable[[Reading], Drawing | None]

_FIGURES: dict[str, FigureFunction] = {}


def figure(function: FigureFunction) -> FigureFunction:
    """Mark a function as a figure; its name is the figure's name.

    Args:
        function: takes a `Reading`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    name = function.__name__
    known = _FIGURES.get(name)
    if known is not None and known.__module__ != function.__module__:
        raise ArgumentError(
            f"Argument `function` must have a name of its own, but {known.__module__} already has a figure {name!r}. "
            "Rename one."
        )
    _FIGURES[name] = function
    return function


def figure_names() -> tuple[str, ...]:
    """Names of all figures, in alphabetical order."""
    _discover()
    return tuple(sorted(_FIGURES))


def drawings(reading: Reading) -> dict[str, Drawing]:
    """Every drawing that the record has numbers for, by name.

    Raises:
        ArgumentError: a figure returned a drawing under another name than its own.
    """
    result = {}
    for name in figure_names():
        drawing = _FIGURES[name](reading)
        if drawing is None:
            continue
        if drawing.name != name:
            raise ArgumentError(
                f"Argument `name` of a drawing must be its figure's, but {name!r} declared {drawing.name!r}. Give "
                "both one name."
            )
        result[name] = drawing
    return result


def _discover() -> None:
    package = importlib.import_module("armillary.figures")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"armillary.figures.{module.name}")
