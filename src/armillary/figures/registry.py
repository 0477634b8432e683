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
from armillary.figures.audited import AuditReading
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Drawing
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.members import MembersReading
from armillary.figures.plain_diagram import plain_figure
from armillary.figures.reading import Reading
from armillary.figures.run import Run

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = [
    "DiagramFigureFunction",
    "AuditFigureFunction",
    "FigureFunction",
    "LadderFigureFunction",
    "RunFigureFunction",
    "drawings",
    "figure",
    "figure_names",
    "figure_of_audit",
    "figure_of_diagram",
    "figure_of_ladder",
    "figure_of_members",
    "figure_of_run",
    "reading_of",
]

FigureFunction = Callable[[Reading], Drawing | None]
AuditFigureFunction = Callable[[AuditReading], Drawing | None]
RunFigureFunction = Callable[[Run], Drawing | None]
DiagramFigureFunction = Callable[[DiagramReading], Drawing | None]
LadderFigureFunction = Callable[[LadderReading], Drawing | None]
MembersFigureFunction = Callable[[MembersReading], Drawing | None]

_FIGURES: dict[str, FigureFunction] = {}
_OF_RUNS: dict[str, RunFigureFunction] = {}
_OF_AUDITS: dict[str, AuditFigureFunction] = {}
_OF_LADDERS: dict[str, LadderFigureFunction] = {}
_OF_MEMBERS: dict[str, tuple[str, MembersFigureFunction]] = {}
"""For each figure of a diagnosis or a training its kind."""
_OF_DIAGRAMS: dict[str, tuple[str, tuple[str, ...], DiagramFigureFunction]] = {}
"""For each figure of a diagram the preset it belongs to, and the results that it shows."""


def reading_of(source: Record | Reading) -> Reading:
    """A record as the figures of its kind see it; a reading is handed on as it is.

    Args:
        source: a record of a laboratory, captured states, a simulation, a diagram, a ladder or an audit; or a reading
            of one.
    """
    if isinstance(source, Reading):
        return source
    kinds: dict[str, type[Reading]] = {
        "simulation": Run,
        "phase": DiagramReading,
        "resistance": LadderReading,
        "audit": AuditReading,
        "diagnosis": MembersReading,
        "training": MembersReading,
    }
    return kinds.get(str(source.study.get("kind")), Reading)(source)


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


def figure_of_ladder(function: LadderFigureFunction) -> LadderFigureFunction:
    """Mark a function as a figure of ladders; its name is the figure's name.

    Args:
        function: takes a `LadderReading`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    _OF_LADDERS[_own_name(function)] = function
    return function


def figure_of_audit(function: AuditFigureFunction) -> AuditFigureFunction:
    """Mark a function as a figure of audits; its name is the figure's name.

    Args:
        function: takes an `AuditReading`; returns a `Drawing`, or None where the record lacks what it shows.

    Raises:
        ArgumentError: another figure has that name.
    """
    _OF_AUDITS[_own_name(function)] = function
    return function


def figure_of_diagram(
    preset: str, *, shows: tuple[str, ...]
) -> Callable[[DiagramFigureFunction], DiagramFigureFunction]:
    """Mark a function as a figure of the diagrams of one preset; its name is the figure's name.

    Args:
        preset: the preset's name.
        shows: names of the results it draws; those that no figure shows are drawn plainly.

    Returns:
        What marks a function that takes a `DiagramReading` and returns a `Drawing`, or None where the record lacks what
        it shows.

    Raises:
        ArgumentError: another figure has that name.
    """

    def marked(function: DiagramFigureFunction) -> DiagramFigureFunction:
        _OF_DIAGRAMS[_own_name(function)] = (preset, shows, function)
        return function

    return marked


def figure_of_members(kind: str) -> Callable[[MembersFigureFunction], MembersFigureFunction]:
    """Mark a function as a figure of records whose members are draws or seeds; its name is the figure's name.

    Args:
        kind: of the record: "diagnosis" or "training".

    Returns:
        What marks a function that takes a `MembersReading` and returns a `Drawing` or None.

    Raises:
        ArgumentError: another figure has that name.
    """

    def marked(function: MembersFigureFunction) -> MembersFigureFunction:
        _OF_MEMBERS[_own_name(function)] = (kind, function)
        return function

    return marked


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
    if isinstance(reading, DiagramReading):
        made = _of_diagram(reading)
    elif isinstance(reading, MembersReading):
        made = {name: function(reading) for name, (kind, function) in _OF_MEMBERS.items() if kind == reading.kind}
    elif isinstance(reading, LadderReading):
        made = {name: function(reading) for name, function in sorted(_OF_LADDERS.items())}
    elif isinstance(reading, AuditReading):
        made = {name: function(reading) for name, function in sorted(_OF_AUDITS.items())}
    elif isinstance(reading, Run):
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


def _of_diagram(reading: DiagramReading) -> dict[str, Drawing | None]:
    """The preset's own figures in the order of their declaration, then every result that none of them shows."""
    _discover("armillary.figures.phase")
    own = {name: one for name, one in _OF_DIAGRAMS.items() if one[0] == reading.preset}
    made = {name: function(reading) for name, (_, _, function) in own.items()}
    drawn = {result for name, (_, shows, _) in own.items() if made[name] is not None for result in shows}
    plain = (plain_figure(reading, result) for result in reading.results if result not in drawn)
    return made | {one.name: one for one in plain if one is not None}


def _own_name(function: Callable[..., Drawing | None]) -> str:
    """The name of a figure function, unless another module's figure has it."""
    of_diagrams = {name: one[-1] for name, one in _OF_DIAGRAMS.items()}
    every: dict[str, Callable[..., Drawing | None]] = {
        **_FIGURES,
        **_OF_RUNS,
        **_OF_LADDERS,
        **_OF_AUDITS,
        **of_diagrams,
    }
    every |= {name: function for name, (_, function) in _OF_MEMBERS.items()}
    known = every.get(function.__name__)
    if known is not None and known.__module__ != function.__module__:
        raise ArgumentError(
            f"Argument `function` must have a name of its own, but {known.__module__} already has a figure "
            f"{function.__name__!r}. Rename one."
        )
    return function.__name__


def _discover(room: str = "armillary.figures") -> None:
    """Import the modules of a room; diagrams have their own, since the laws beside them need heavy libraries."""
    package = importlib.import_module(room)
    for module in pkgutil.iter_modules(package.__path__, f"{room}."):
        importlib.import_module(module.name)
