"""How a condition looks: one color, dash and marker each, told apart without color.

Colors are Okabe and Ito's (2008), chosen to stay apart under the common color vision deficiencies.
"""

from __future__ import annotations

from dataclasses import replace

from armillary.figures.drawing import Style

__all__ = ["INK", "SERIES", "condition_style"]

INK = "#1b1b1b"

TRAINED = Style("#1b1b1b", "solid", "circle", 2.4)
INITIAL = (
    Style("#E69F00", "dash", "square"),
    Style("#D55E00", "dot", "diamond"),
    Style("#8C6D1F", "longdashdot", "star"),
)
ABLATED = {
    "mlp": Style("#0072B2", "dashdot", "triangle-up"),
    "attention": Style("#009E73", "longdash", "triangle-down"),
    "positions": Style("#CC79A7", "longdashdot", "x"),
    "head": Style("#56B4E9", "dash", "cross"),
}
FURTHER = (Style("#6b6b6b", "dot", "cross"), Style("#8a5a44", "dashdot", "star"), Style("#3d5a80", "longdash", "x"))

SERIES = (
    Style("#1b1b1b", "solid", "circle", 2.2),
    Style("#0072B2", "dash", "square"),
    Style("#D55E00", "dashdot", "triangle-up"),
    Style("#009E73", "dot", "diamond"),
    Style("#CC79A7", "longdash", "x"),
    Style("#E69F00", "longdashdot", "star"),
    Style("#56B4E9", "dash", "triangle-down"),
    Style("#6b6b6b", "dot", "cross"),
)
"""Looks for curves that are not conditions: taps, token sets, preparations."""


def condition_style(name: str, conditions: tuple[str, ...]) -> Style:
    """How the condition `name` looks among all the conditions of its record.

    Args:
        name: a condition's name, such as "trained" or "ablated-mlp-3-4".
        conditions: every condition of the record, in order: two of one kind never look alike.
    """
    if name == "trained":
        return TRAINED
    taken: set[tuple[str, str]] = {(TRAINED.color, TRAINED.marker)}
    for candidate in conditions:
        style = next(
            (choice for choice in _preferences(candidate) if (choice.color, choice.marker) not in taken), FURTHER[0]
        )
        if candidate == name:
            return style
        if candidate != "trained":
            taken.add((style.color, style.marker))
    return FURTHER[0]


def _preferences(name: str) -> tuple[Style, ...]:
    spare = FURTHER + tuple(replace(style, marker=marker) for style in SERIES[1:] for marker in ("cross", "star", "x"))
    if name.startswith("initial"):
        return INITIAL + spare
    part = name.split("-")[1] if "-" in name else ""
    return ((ABLATED[part],) if part in ABLATED else ()) + spare
