"""Every figure by name, found rather than listed: a function of a reading that declares a drawing, or has none.

A module of this package that holds a function marked `@figure`, or `@figure_of` another kind of reading, is all a new
figure needs: the page shows it and `write_figures` prints it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from armillary.errors import ArgumentError
from armillary.figures.audited import AuditReading
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Drawing
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.members import DiagnosisReading, TrainingReading
from armillary.figures.plain_diagram import plain_figure
from armillary.figures.reading import Reading
from armillary.figures.run import Run

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["drawings", "figure", "figure_names", "figure_of", "reading_of"]

R = TypeVar("R", bound=Reading)

READINGS: dict[str, type[Reading]] = {
    "simulation": Run,
    "phase": DiagramReading,
    "resistance": LadderReading,
    "audit": AuditReading,
    "diagnosis": DiagnosisReading,
    "training": TrainingReading,
}
"""For each kind of study what its figures take; those of every other kind, a laboratory's, take a plain `Reading`."""


@dataclass(frozen=True)
class _Figure:
    """A marked function: what it draws, and of which records."""

    draw: Callable[[Any], Drawing | None]
    readings: tuple[type[Reading], ...]
    preset: str | None
    shows: tuple[str, ...]


_FIGURES: dict[str, _Figure] = {}


def reading_of(source: Record | Reading) -> Reading:
    """A record as the figures of its kind see it; a reading is handed on as it is.

    Args:
        source: a record of a laboratory, captured states, a simulation, a diagram, a ladder, an audit, a diagnosis or a
            training; or a reading of one.
    """
    if isinstance(source, Reading):
        return source
    return READINGS.get(str(source.study.get("kind")), Reading)(source)


def figure(function: Callable[[Reading], Drawing | None]) -> Callable[[Reading], Drawing | None]:
    """Mark a function as a figure of laboratories and captured states; its name is the figure's name.

    Args:
        function: takes a `Reading`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    return figure_of(Reading)(function)


def figure_of(
    *readings: type[R], preset: str | None = None, shows: tuple[str, ...] = ()
) -> Callable[[Callable[[R], Drawing | None]], Callable[[R], Drawing | None]]:
    """Mark a function as a figure of some kinds of records; its name is the figure's name.

    Args:
        readings: what the function takes: `Run` for a simulation, `DiagramReading`, `LadderReading`, `AuditReading`,
            `DiagnosisReading`, `TrainingReading`, or `Reading` for everything else; several where it reads several.
        preset: of a diagram: the preset's name.
        shows: of a diagram: names of the results it draws; those that no figure shows are drawn plainly.

    Returns:
        What marks a function that takes such a reading and returns a `Drawing`, or None where the record lacks what it
        shows.

    Raises:
        ArgumentError: another figure has that name.
    """

    def marked(function: Callable[[R], Drawing | None]) -> Callable[[R], Drawing | None]:
        name = function.__name__
        known = _FIGURES.get(name)
        if known is not None and known.draw.__module__ != function.__module__:
            raise ArgumentError(
                f"Argument `function` must have a name of its own, but {known.draw.__module__} already has a figure "
                f"{name!r}. Rename one."
            )
        _FIGURES[name] = _Figure(function, readings, preset, shows)
        return function

    return marked


def figure_names(reading: type[Reading] = Reading) -> tuple[str, ...]:
    """Names of all figures of one kind of record, in alphabetical order.

    Args:
        reading: what they take: a plain `Reading` for a laboratory, `Run` for a simulation, and so on.
    """
    _discover("armillary.figures.phase" if reading is DiagramReading else "armillary.figures")
    return tuple(sorted(name for name, one in _FIGURES.items() if reading in one.readings))


def drawings(reading: Reading) -> dict[str, Drawing]:
    """Every drawing that the record has numbers for, by name.

    Those of a diagram stand in the order of their declaration, with every result that none of them shows after them;
    all others in alphabetical order.

    Args:
        reading: the record's reading, as `reading_of` returns it.

    Raises:
        ArgumentError: a figure returned a drawing under another name than its own.
    """
    names = figure_names(type(reading))
    if isinstance(reading, DiagramReading):
        return _of_diagram(reading, {name: one for name, one in _FIGURES.items() if name in names})
    made = ((name, _drawn(name, reading)) for name in names)
    return {name: drawing for name, drawing in made if drawing is not None}


def _of_diagram(reading: DiagramReading, figures: dict[str, _Figure]) -> dict[str, Drawing]:
    own = {name: one for name, one in figures.items() if one.preset == reading.preset}
    made = {name: drawing for name in own if (drawing := _drawn(name, reading)) is not None}
    shown = {result for name in made for result in own[name].shows}
    plain = (plain_figure(reading, result) for result in reading.results if result not in shown)
    return made | {one.name: one for one in plain if one is not None}


def _drawn(name: str, reading: Reading) -> Drawing | None:
    drawing = _FIGURES[name].draw(reading)
    if drawing is not None and drawing.name != name:
        raise ArgumentError(
            f"Argument `name` of a drawing must be its figure's, but {name!r} declared {drawing.name!r}. Give "
            "both one name."
        )
    return drawing


def _discover(room: str) -> None:
    """Import the modules of a room; diagrams have their own, since the laws beside them need heavy libraries."""
    package = importlib.import_module(room)
    for module in pkgutil.iter_modules(package.__path__, f"{room}."):
        importlib.import_module(module.name)
