"""The page as a whole: its sections in order, its figures, and one file that asks nothing of any network."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from armillary.figures.drawing import Drawing
from armillary.figures.reading import Reading
from armillary.figures.registry import drawings
from armillary.report.basis import statement
from armillary.report.explored import embedded_json, explored
from armillary.report.limits import limits
from armillary.report.markup import Markup, element, escaped, join
from armillary.report.provenance import provenance
from armillary.report.scope import scope
from armillary.report.tables import (
    definitions,
    differences,
    headlines,
    losses,
    massive,
    rank_table,
    token_policy_table,
)
from armillary.report.words import Facts, answer, flags, methods

if TYPE_CHECKING:
    from armillary.record import Record

__all__ = ["page", "write_report"]

Content = Callable[[Facts], Markup]

SECTIONS: tuple[tuple[str, str, str, tuple[str | Content, ...]], ...] = (
    ("numbers", "Headline numbers", "Numbers", (headlines, differences)),
    (
        "depth",
        "Against depth",
        "Against depth",
        ("order_parameter", "alignment", "ranks", "rank_family", rank_table, "contrasts", "other_measurements"),
    ),
    (
        "histograms",
        "Whole distributions",
        "Distributions",
        ("overlap_histograms", "spectra", "threshold_sweep", "overlap_by_band"),
    ),
    ("sphere", "How far the stream leaves the sphere", "Leaving the sphere", ("norms", "updates")),
    ("metric", "Which metric", "Which metric", ("metrics",)),
    ("tokens", "Which tokens", "Which tokens", (scope, "token_policy", token_policy_table, massive)),
    ("offset", "A shared offset", "Shared offset", ("offsets", "common_direction")),
    ("loss", "Loss on these documents", "Loss", ("loss", losses)),
    (
        "statement",
        "What would change under another basis",
        "Change of basis",
        (lambda known: statement(known.reading), "change_of_basis"),
    ),
    ("limits", "What these numbers do not show", "Limits", (limits,)),
    ("methods", "Methods", "Methods", (methods, definitions)),
    ("provenance", "Provenance", "Provenance", (provenance,)),
)


def write_report(record: Record | Reading, path: str | Path) -> Path:
    """Write the page of a record: one self-contained HTML file, whole or not at all.

    Args:
        record: an opened record, or a reading of it.
        path: the file to write.

    Returns:
        The file.
    """
    target = Path(path)
    text = page(Reading.of(record))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).chmod(0o644)
        Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def page(reading: Reading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    import plotly.offline
    from threadpoolctl import threadpool_limits

    import armillary

    known = Facts(reading)
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        drawn = drawings(reading)
        body, contents = _body(known, drawn)
    here = resources.files("armillary.report")
    template = Template((here / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escaped(f"Geometry through depth: {known.model}"),
        version=escaped(getattr(armillary, "__version__", "")),
        css=(here / "page.css").read_text(encoding="utf-8"),
        contents=contents,
        body=body,
        data=embedded_json(explored(drawn)),
        plotly=plotly.offline.get_plotlyjs(),
        script=(here / "page.js").read_text(encoding="utf-8"),
    )


def _body(known: Facts, drawn: dict[str, Drawing]) -> tuple[Markup, Markup]:
    """The page's content and its table of contents."""
    placed = {item for _, _, _, items in SECTIONS for item in items if isinstance(item, str)}
    further = tuple(name for name in drawn if name not in placed)
    plan = (*SECTIONS[:-3], ("further", "Further figures", "Further", further), *SECTIONS[-3:])
    sections, links, number = [], [element("li", element("a", "Answer", href="#answer"))], 0
    for anchor, title, short, items in plan:
        parts = []
        for item in items:
            if not isinstance(item, str):
                parts.append(item(known))
            elif item in drawn:
                number += 1
                parts.append(_figure(drawn[item], number))
        if any(parts):
            sections.append(element("section", element("h2", title), *parts, id=anchor))
            links.append(element("li", element("a", short, href=f"#{anchor}")))
    return join([_head(known), *sections, _notes(known)]), join(links)


def _head(known: Facts) -> Markup:
    kind = f" · {known.quantization}" if known.quantization else ""
    d = known.decoder
    size = ", ".join(
        f"{d[name]} {words}"
        for name, words in (("layers", "blocks"), ("heads", "heads"), ("width", "coordinates"))
        if name in d
    )
    header = element(
        "header",
        element("p", "Laboratory report · the geometry of a trained decoder, layer by layer", class_="kind"),
        element("h1", known.model),
        element("p", f"{d.get('architecture', '')}{kind}{' · ' + size if size else ''}", class_="model"),
    )
    noscript = Markup(
        "<noscript><p>The figures of this page are drawn by a script inside it; without scripts read the "
        "tables.</p></noscript>"
    )
    content = element("div", answer(known), class_="answer")
    return join([header, element("section", content, flags(known), noscript, id="answer")])


def _figure(drawing: Drawing, number: int) -> Markup:
    words = element("details", element("summary", "This figure in words"), element("p", drawing.alt))
    caption = element("figcaption", element("b", f"Figure {number}. "), drawing.caption, words)
    return element(
        "figure",
        element("h3", drawing.title),
        element("div", class_="controls"),
        element("div", class_="legend"),
        element("div", class_="plot", role="img", aria_label=drawing.alt),
        caption,
        id=f"figure-{drawing.name}",
        data_figure=drawing.name,
    )


def _notes(known: Facts) -> Markup:
    note = element(
        "li",
        "Whole documents are resampled, because the tokens of one document depend on one another. The interval is "
        f"{100 * known.reading.level:g}%, from {known.reading.resamples} resamples. An end that too few or too equal "
        "documents cannot bound is called unbounded, and no band is drawn there. "
        "“Undefined” stands where a number has no value, for example a "
        "centered rank where all rows agree. ",
        Markup('<a href="#back-interval" aria-label="back to the text">↩</a>'),
        id="note-interval",
    )
    return element("section", element("h2", "Note"), element("ol", note), class_="notes")
