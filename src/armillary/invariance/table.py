"""The table of an audit as text: one row a number, one column a transformation, as many columns as fit side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from armillary.terms import measurement_name, measurement_words

if TYPE_CHECKING:
    from armillary.invariance.judgment import Audit, Judgment

__all__ = ["cell", "row_names", "text_table"]

WIDTH = 100
"""Characters that a table may take across."""

_SHORT = {"proved and survived": "proved, survived", "survived": "survived", "not resolved": "not resolved"}


def cell(one: Judgment) -> str:
    """A judgment in a few characters."""
    if one.verdict.word in _SHORT:
        return _SHORT[one.verdict.word]
    if one.verdict.word == "undefined":
        return "undefined"
    mark = "REFUTED " if one.verdict.word == "claim refuted" else ""
    if one.on_witness_only and one.witness is not None:
        return f"{mark}on {one.witness.witness}"
    return f"{mark}{one.verdict.change}".partition(" (")[0].replace(" [one document: no interval]", "")


def row_names(measurements: Sequence[str]) -> list[str]:
    """Measurements in words, with the preparation behind a bar."""
    names = []
    for one in measurements:
        name, preparation = measurement_name(one)
        names.append(f"{measurement_words(name)} | {preparation}")
    return names


def text_table(audit: Audit) -> str:
    """Every judgment, in blocks of columns that are no wider than a terminal."""
    names = row_names(audit.measurements)
    left = max([len(name) for name in names], default=0)
    columns = {}
    for transformation in audit.transformations:
        cells = [cell(audit.of(measurement, transformation)) for measurement in audit.measurements]
        columns[transformation] = [transformation, *cells]
    width = max([len(text) for cells in columns.values() for text in cells], default=0) + 2
    lines = []
    across = max(1, (WIDTH - left - 2) // width)
    for start in range(0, len(columns), across):
        shown = list(columns.values())[start : start + across]
        for place, name in enumerate(["", *names]):
            lines.append(f"{name:<{left + 2}}" + "".join(f"{column[place]:<{width}}" for column in shown).rstrip())
        lines.append("")
    return "\n".join(lines[:-1])
