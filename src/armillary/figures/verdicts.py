"""The figure of the audit: the verdict table as a heat map, one row a number and one column a transformation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from armillary.figures.audited import AuditReading
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Style, Tiles, View
from armillary.figures.reading import Reading
from armillary.figures.registry import figure_of
from armillary.invariance.judgment import Audit, Judgment
from armillary.records.gauged import PLACE_WORDS
from armillary.terms import PREPARATIONS, layer_words, measurement_name, measurement_words

__all__ = ["drawn_by_layer", "heat_map", "verdicts"]

LIMITS = (-3.0, 0.0)
"""Powers of ten between which a relative change has a color of its own."""

SINGLE = "changes in single documents only"
"""Up here and down there: the mean difference is below its floor."""

MARKS = {
    "proved and survived": Style("#1b1b1b", "solid", "circle"),
    "survived": Style("#009E73", "solid", "square"),
    "changes on a witness only": Style("#0072B2", "solid", "diamond"),
    SINGLE: Style("#CC79A7", "solid", "star"),
    "claim refuted": Style("#D55E00", "solid", "x"),
    "not resolved": Style("#8C6D1F", "solid", "triangle-up"),
    "undefined": Style("#8a8a8a", "solid", "cross"),
}


@figure_of(Reading, AuditReading)
def verdicts(reading: Reading) -> Drawing | None:
    """The table of verdicts as a heat map, one layer at a time."""
    found = reading.audits
    if not found:
        return None
    return drawn_by_layer(
        "verdicts",
        "Which numbers survive which transformation",
        f"{_mapped(reading)}Color: the change relative to the larger of the two numbers, as a power of ten, mean over "
        "documents. Where a "
        "number did not move there is no color and a mark says why: proved, or merely survived. What moves on a "
        "witness only stayed on these documents by accident.",
        {layer_words(layer): audit for layer, audit in found.items()},
    )


def _mapped(reading: Reading) -> str:
    """Which states were mapped, where the record is of several conditions."""
    if "statement_value" not in reading.dataset:
        return ""
    return f"The states of one condition ({reading.mapped_condition}), mapped and measured again. "


def drawn_by_layer(name: str, title: str, caption: str, audits: Mapping[str, Audit]) -> Drawing | None:
    """One heat map for each layer; None where nothing is in any of them.

    Args:
        name: Of the figure.
        title: In words.
        caption: What is drawn.
        audits: By layer in words.
    """
    views = {layer: heat_map(audit) for layer, audit in audits.items()}
    shown = {layer: panel for layer, panel in views.items() if panel.drawn or panel.curves}
    if not shown:
        return None
    options = tuple(shown)
    start = options[(len(options) - 1) // 2]
    rows = max(len(audit.measurements) for audit in audits.values())
    return Drawing(
        name,
        title,
        caption,
        _told(start, audits[start]),
        tuple(View((layer,), (panel,)) for layer, panel in shown.items()),
        (Control("layer", options, "choice", start),),
        columns=1,
        height=0.34 + 0.035 * rows,
    )


def heat_map(audit: Audit) -> Panel:
    """One panel: tiles for changes, marks for everything else; the first number is at the top.

    Args:
        audit: Judgments at one layer.
    """
    across = tuple(float(k) for k in range(len(audit.transformations)))
    upward = tuple(float(k) for k in range(len(audit.measurements)))
    names = audit.measurements[::-1]
    table = [[audit.of(name, transformation) for transformation in audit.transformations] for name in names]
    values = tuple(tuple(_power(one) for one in row) for row in table)
    marked: dict[str, list[tuple[float, float]]] = {}
    for y, row in zip(upward, table, strict=True):
        for x, one in zip(across, row, strict=True):
            if (mark := _mark(one)) is not None:
                marked.setdefault(mark, []).append((x, y))
    curves = tuple(
        Curve(mark, tuple(x for x, _ in places), tuple(y for _, y in places), style=style, shape="points")
        for mark, style in MARKS.items()
        if (places := marked.get(mark))
    )
    x_ticks = tuple(zip(across, audit.transformations, strict=True))
    y_ticks = tuple((y, _row_name(name)) for y, name in zip(upward, names, strict=True))
    tiles = Tiles("relative change, as a power of ten", across, upward, values, LIMITS)
    edges = (-0.5, len(across) - 0.5), (-0.5, len(upward) - 0.5)
    return Panel(
        "",
        Axis("", ticks=x_ticks, limits=edges[0], upright=True),
        Axis("", ticks=y_ticks, limits=edges[1]),
        curves,
        tiles=tiles,
    )


def _power(one: Judgment) -> float:
    """log10 of the mean change over the larger of both numbers; NaN where nothing changed on these documents."""
    verdict = one.verdict
    if verdict.word not in ("changes", "claim refuted") or one.on_witness_only:
        return math.nan
    if math.isinf(verdict.largest):
        return LIMITS[1]
    if not verdict.resolved:
        return math.nan
    size = max(abs(verdict.before), abs(verdict.after), verdict.floor)
    change = max(abs(verdict.difference), verdict.floor)
    return math.log10(change / size) if change > 0 and size > 0 else LIMITS[0]


def _mark(one: Judgment) -> str | None:
    if one.verdict.word != "changes":
        return one.verdict.word
    if one.on_witness_only:
        return "changes on a witness only"
    return None if one.verdict.resolved or math.isinf(one.verdict.largest) else SINGLE


def _row_name(measurement: str) -> str:
    """In words; of a number under gauges the place stays in front."""
    place, mark, number = measurement.partition(": ")
    if mark and place in PLACE_WORDS.values():
        return f"{place}: {_row_name(number)}"
    name, preparation = measurement_name(measurement)
    bare, _, which = name.partition(", ")
    steps = PREPARATIONS.get(preparation, preparation).removeprefix("rows ")
    return ", ".join(filter(None, (measurement_words(bare), which, steps)))


def _told(where: str, audit: Audit) -> str:
    """The table in words: for each transformation how many numbers it leaves and moves."""
    sentences = [f"Verdicts on {len(audit.measurements)} numbers at {where}."]
    for transformation in audit.transformations:
        column = [audit.of(name, transformation) for name in audit.measurements]
        sentences.append(f"{transformation}: {_counted(column)}.")
    return " ".join(sentences)


def _counted(column: Sequence[Judgment]) -> str:
    words = [one.verdict.word for one in column]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
