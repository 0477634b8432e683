"""The page of a record as a whole: its sections in order, with the figures and tables that stand in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.figures.audited import AuditReading
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Drawing
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.members import DiagnosisReading, TrainingReading
from armillary.figures.reading import Reading
from armillary.figures.registry import drawings, reading_of
from armillary.figures.run import Run
from armillary.report.attention import attention
from armillary.report.audited import audit_page
from armillary.report.basis import statement
from armillary.report.climbed import ladder_page
from armillary.report.diagnosed import diagnosis_page
from armillary.report.diagrammed import diagram_page
from armillary.report.gauged import gauges_of_laboratory
from armillary.report.limits import limits
from armillary.report.markup import Markup, element, join
from armillary.report.provenance import provenance
from armillary.report.scope import scope
from armillary.report.simulated import simulation_page
from armillary.report.tables import (
    definitions,
    differences,
    headlines,
    losses,
    massive,
    rank_table,
    token_policy_table,
)
from armillary.report.template import NOSCRIPT, Section, assembled, laid_out, with_answer, written
from armillary.report.trained import training_page
from armillary.report.words import Facts, answer, flags, methods

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["figure_plan", "interval_note", "page", "write_report"]

Content = Callable[[Facts], Markup]

PAGES: dict[type[Reading], Callable[[Any], str]] = {
    Run: simulation_page,
    DiagramReading: diagram_page,
    LadderReading: ladder_page,
    AuditReading: audit_page,
    DiagnosisReading: diagnosis_page,
    TrainingReading: training_page,
}
"""What writes the page of each kind of reading; `page` writes that of every other."""

SECTIONS: tuple[tuple[str, str, str, tuple[str | Content, ...]], ...] = (
    ("numbers", "Headline numbers", "Numbers", (headlines, differences)),
    (
        "depth",
        "Against depth",
        "Against depth",
        (
            "order_parameter",
            "alignment",
            "ranks",
            "rank_family",
            rank_table,
            "contrasts",
            "other_measurements",
        ),
    ),
    ("layers", "Between layers", "Between layers", ("between_layers",)),
    ("groups", "Groups followed through depth", "Groups", ("groups_followed",)),
    ("attention", "Where attention goes", "Attention", ("attention_depth", "attention_heads", attention)),
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
        "Which numbers survive which transformation",
        "Audit",
        (
            lambda known: statement(known.reading),
            "verdicts",
            lambda known: gauges_of_laboratory(known.reading),
            "verdicts_of_gauges",
            "before_and_after_gauges",
        ),
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
    reading = reading_of(record)
    return written(PAGES.get(type(reading), page)(reading), path)


def page(reading: Reading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    from threadpoolctl import threadpool_limits

    known = Facts(reading)
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        drawn = drawings(reading)
        sections, links = laid_out(_sections(known, drawn))
        body = join([_head(known), sections, interval_note(known.reading)])
    contents = with_answer(links)
    return assembled(f"Geometry through depth: {known.model}", body, contents, drawn)


def figure_plan(drawn: Mapping[str, Drawing]) -> tuple[tuple[str, str, str, tuple[str | Content, ...]], ...]:
    """The sections with every drawn figure in one of them; one that no section names goes under further figures.

    Args:
        drawn: the figures there are, by name.
    """
    placed = {item for _, _, _, items in SECTIONS for item in items if isinstance(item, str)}
    further = tuple(name for name in drawn if name not in placed)
    return (*SECTIONS[:-3], ("further", "Further figures", "Further", further), *SECTIONS[-3:])


def _sections(known: Facts, drawn: Mapping[str, Drawing]) -> Iterator[Section]:
    for anchor, title, short, items in figure_plan(drawn):
        yield anchor, title, short, [drawn.get(item) if isinstance(item, str) else item(known) for item in items]


def _head(known: Facts) -> Markup:
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
        element("p", " · ".join(filter(None, (d.get("architecture"), known.quantization, size))), class_="model"),
    )
    content = element("div", answer(known), class_="answer")
    return join([header, element("section", content, flags(known), NOSCRIPT, id="answer")])


def interval_note(reading: Reading) -> Markup:
    """What the brackets are, as a footnote.

    Args:
        reading: the reading whose level and resamples are meant.
    """
    note = element(
        "li",
        "Whole documents are resampled, because the tokens of one document depend on one another. The interval is "
        f"{100 * reading.level:g}%, from {reading.resamples} resamples. An end that too few or too equal "
        "documents cannot bound is called unbounded, and no band is drawn there. "
        "“Undefined” stands where a number has no value, for example a "
        "centered rank where all rows agree. ",
        Markup('<a href="#back-interval" aria-label="back to the text">↩</a>'),
        id="note-interval",
    )
    return element("section", element("h2", "Note"), element("ol", note), class_="notes")
