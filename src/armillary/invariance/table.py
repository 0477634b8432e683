"""The table of an audit as text: one row a number, one column a transformation, in blocks no wider than a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from armillary.terms import measurement_name, measurement_words

if TYPE_CHECKING:
    from armillary.invariance.judgment import Audit, Judgment

__all__ = ["ELSEWHERE", "LEGEND", "has_intervals", "text_table"]

LEGEND = (
    "proved: proved and survived; survived: not moved, nothing proved; a number: the change, mean over documents; "
    "(witness): stays here and changes on a witness; ~: single documents move, their mean is not resolved; "
    "REFUTED: a claim that does not hold"
)
ELSEWHERE = "Intervals and relative changes: on the page, in --json, and here for a transformation that is named alone."

_WORDS = {"proved and survived": "proved", "undefined": "undef.", "not resolved": "unresolved"}


def text_table(audit: Audit, *, width: int = 100) -> str:
    """Every judgment, with intervals if all columns fit beside each other, in one word or number each otherwise.

    Args:
        audit: The judgments.
        width: Characters that the table may take across.
    """
    left = _labels(_together(audit.measurements))
    if has_intervals(audit, width=width):
        return "\n".join(_block(left, _columns(audit, _in_full)))
    short = _columns(audit, _in_short)
    gap = max((len(text) for column in short for text in column), default=0) + 1
    lead = max((len(text) for text in left), default=0) + 1
    fit = max(1, (width - lead) // gap)
    lines: list[str] = []
    for start in range(0, len(short), fit):
        lines += [*_block(left, short[start : start + fit]), ""]
    return "\n".join(lines[:-1])


def has_intervals(audit: Audit, *, width: int) -> bool:
    """Whether all columns fit beside each other with intervals and relative changes.

    Args:
        audit: The judgments.
        width: Characters that the table may take across.
    """
    return _across(_labels(_together(audit.measurements)), _columns(audit, _in_full)) <= width


def _together(measurements: Sequence[str]) -> list[str]:
    """The preparations of one number one after the other."""
    words = [measurement_words(measurement_name(one)[0]) for one in measurements]
    order = list(dict.fromkeys(words))
    return [one for _, one in sorted(zip(words, measurements, strict=True), key=lambda pair: order.index(pair[0]))]


def _labels(measurements: Sequence[str]) -> list[str]:
    """What stands at the left: two empty lines for the heads, then numbers with their preparations."""
    labels, last = ["", ""], ""
    for one in measurements:
        name, preparation = measurement_name(one)
        words = measurement_words(name)
        if words != last:
            labels.append(words)
            last = words
        labels.append(f"  {preparation}")
    return labels


def _columns(audit: Audit, cell: Callable[[Judgment], str]) -> list[list[str]]:
    """For each transformation its head in two lines, then its cells; nothing beside the title of a group of rows."""
    columns = []
    for transformation in audit.transformations:
        column, last = _head(transformation), ""
        for measurement in _together(audit.measurements):
            words = measurement_words(measurement_name(measurement)[0])
            if words != last:
                column.append("")
                last = words
            column.append(cell(audit.of(measurement, transformation)))
        columns.append(column)
    return columns


def _head(transformation: str) -> list[str]:
    """A name in two lines, broken where the halves are nearest in length."""
    words = transformation.split()
    cuts = range(1, len(words) + 1)
    best = min(cuts, key=lambda cut: max(len(" ".join(words[:cut])), len(" ".join(words[cut:]))))
    return [" ".join(words[:best]), " ".join(words[best:])]


def _across(left: Sequence[str], columns: Sequence[Sequence[str]]) -> int:
    return sum(max(len(text) for text in column) + 2 for column in (left, *columns)) - 2


def _block(left: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    gap = 2 if len({max(len(text) for text in column) for column in columns}) > 1 else 1
    every = [left, *columns]
    sizes = [max(len(text) for text in column) for column in every]
    rows = zip(*every, strict=True)
    return [(" " * gap).join(f"{text:<{size}}" for text, size in zip(row, sizes, strict=True)).rstrip() for row in rows]


def _in_full(one: Judgment) -> str:
    verdict = one.verdict
    if verdict.word == "proved and survived":
        return "proved, survived"
    if verdict.word in ("changes", "claim refuted"):
        return str(one) if not one.on_witness_only else f"{verdict.word} on a witness"
    return verdict.word


def _in_short(one: Judgment) -> str:
    verdict = one.verdict
    if verdict.word == "claim refuted":
        return "REFUTED"
    if verdict.word != "changes":
        return _WORDS.get(verdict.word, verdict.word)
    if one.on_witness_only:
        return "(witness)"
    if verdict.largest == float("inf"):
        return "undef."
    return f"{verdict.difference:+.2g}" if verdict.resolved else "~"
