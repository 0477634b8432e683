"""The page of a diagram: the question, what was found beside what was expected, figures, and how it differs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from armillary.figures.diagram import SEED, DiagramReading
from armillary.figures.registry import drawings
from armillary.report.markup import Markup, counted, element, facts, interval, join, paragraph, table
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import NOSCRIPT, assembled, laid_out, with_answer

__all__ = ["diagram_page"]


def diagram_page(reading: DiagramReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    drawn = drawings(reading)
    sections, links = laid_out(
        [
            ("picture", "The picture", "Picture", list(drawn.values())),
            ("found", "Found and expected", "Found", [_found(reading)]),
            ("published", "How it differs from what was published", "Published", [_differs(reading)]),
            ("limits", "What these numbers do not show", "Limits", [_limits(reading)]),
            ("methods", "Methods", "Methods", [_methods(reading), _definitions(reading)]),
            ("provenance", "Provenance", "Provenance", [_provenance(reading)]),
        ]
    )
    contents = with_answer(links)
    title = str(reading.study["title"])
    return assembled(f"Diagram: {title}", join([_head(reading, title), sections]), contents, drawn)


def _head(reading: DiagramReading, title: str) -> Markup:
    header = element(
        "header",
        element("p", "Diagram report · many independent systems over a grid", class_="kind"),
        element("h1", title),
        element("p", str(reading.study["question"]), class_="model"),
    )
    content = element("div", *_answer(reading), class_="answer")
    return join([header, element("section", content, _warning(reading), NOSCRIPT, id="answer")])


def _answer(reading: DiagramReading) -> list[Markup]:
    """Every finding in a sentence."""
    said = []
    for one in _findings(reading):
        expected = _number(one, "expected")
        beside = f"; expected {expected:.4g} ({one['source']})" if math.isfinite(expected) else ""
        note = f" {one['note']}" if one.get("note") else ""
        said.append(paragraph(f"{one['words']}: ", element("b", _value(reading, one)), f"{beside}.{note}"))
    counts = {name: len(reading.values_along(name)) for name in reading.axes}
    shape = " × ".join(f"{count} values of {name}" for name, count in counts.items() if count > 1) or "one point"
    return [
        *said,
        paragraph(
            f"{counted(int(reading.study['cells']), 'cell')} ({shape}), "
            f"{counted(reading.seeds, 'independent system')} in each; size: {reading.study['size']}."
        ),
    ]


def _warning(reading: DiagramReading) -> Markup:
    partial = reading.provenance.get("partial")
    if not isinstance(partial, Mapping):
        return Markup("")
    return element(
        "p",
        f"This run has not ended: {partial['cells']} of {partial['of']} cells are finished, the others are undefined.",
        class_="flag",
    )


def _findings(reading: DiagramReading) -> list[Mapping[str, Any]]:
    return [one for one in reading.provenance.get("findings") or [] if isinstance(one, Mapping)]


def _number(one: Mapping[str, Any], name: str) -> float:
    """A number of a finding; what the record keeps as missing is undefined."""
    value = one.get(name)
    return math.nan if value is None else float(value)


def _value(reading: DiagramReading, one: Mapping[str, Any]) -> Markup:
    members = int(one.get("members") or 0)
    level = _number(one, "level")
    ends = (_number(one, "value"), _number(one, "low"), _number(one, "high"), max(members, 1))
    if math.isnan(ends[1]) and math.isfinite(ends[0]):
        return element("span", f"{ends[0]:.4g}", class_="num")
    return interval(ends, reading.level if math.isnan(level) else level)


def _found(reading: DiagramReading) -> Markup | None:
    rows = []
    for one in _findings(reading):
        expected = _number(one, "expected")
        shown = f"{expected:.4g}" if math.isfinite(expected) else "none"
        members = int(one.get("members") or 0)
        rows.append([str(one["words"]), _value(reading, one), str(members or "none drawn"), shown, str(one["source"])])
    if not rows:
        return None
    caption = f"Brackets: {100 * reading.level:g}% bootstrap intervals over independent systems."
    return table(caption, ["number", "found", "systems", "expected", "where that is from"], rows)


def _differs(reading: DiagramReading) -> Markup:
    items = [element("li", str(sentence)) for sentence in reading.study["differs"]]
    return join([paragraph(f"Published: {reading.study['source']}."), element("ul", *items)])


def _limits(reading: DiagramReading) -> Markup:
    general = []
    if reading.seeds > 1 and any(SEED in reading.dataset[name].dims for name in reading.results):
        general = [
            "Intervals rest on independent starts with the same seeds in every cell: neighboring cells share their "
            "chance, so that a curve looks smoother than its intervals are wide."
        ]
    return element("ul", *(element("li", str(sentence)) for sentence in (*reading.study["limits"], *general)))


def _methods(reading: DiagramReading) -> Markup:
    grid = reading.study["grid"]
    axes = {**grid["axes"], **grid["along"]}
    rows = [(f"{name}: {one['label']}", _listed(one["values"])) for name, one in axes.items()]
    fixed = [
        (name.replace("_", " "), _listed(v) if isinstance(v, list) else str(v)) for name, v in grid["fixed"].items()
    ]
    sums = [str(one) for one in reading.provenance.get("summation") or ()]
    return join(
        [
            paragraph(str(reading.study["method"])),
            paragraph(f"Sums over pairs of tokens: {'; '.join(sums)}.") if sums else Markup(""),
            facts("The grid.", rows),
            facts("The same in every cell.", fixed),
        ]
    )


def _definitions(reading: DiagramReading) -> Markup:
    rows = [
        [
            name.replace("_", " "),
            reading.attribute(name, "symbol"),
            reading.attribute(name, "definition"),
            reading.attribute(name, "undefined", "never"),
        ]
        for name in reading.results
    ]
    return table("What was measured.", ["number", "symbol", "definition", "undefined"], rows)


def _provenance(reading: DiagramReading) -> Markup:
    origin = dict(reading.provenance)
    single = {
        name: value for name, value in origin.items() if name not in ("versions", "findings", "partial", "summation")
    }
    return join(
        [
            facts("Record", flattened({**single, "hash of the measurements": reading.digest})),
            facts("Versions", flattened(origin.get("versions") or {})),
            every_choice(reading.study),
        ]
    )


def _listed(values: list[Any]) -> str:
    words = [f"{value:.6g}" if isinstance(value, int | float) else str(value) for value in values]
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:3])}, ... {words[-1]} ({len(words)} values)"
