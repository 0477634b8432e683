"""The page of an audit: the statement in words, the table of verdicts, its heat map, and where the numbers are from."""

from __future__ import annotations

from collections.abc import Mapping

from armillary.figures.audited import AuditReading
from armillary.figures.registry import drawings
from armillary.report.basis import statement
from armillary.report.gauged import gauges_section
from armillary.report.markup import Markup, counted, element, facts, join, paragraph
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import assembled, laid_out, with_answer

__all__ = ["audit_page"]

_LISTED = ("titles", "first_ids", "start_tokens", "text_hashes", "packs")  # one entry a document


def audit_page(reading: AuditReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    drawn = drawings(reading)
    further = [drawing for name, drawing in drawn.items() if name != "verdicts"]
    sections, links = laid_out(
        [
            ("picture", "The verdicts at a glance", "Picture", [drawn.get("verdicts")]),
            ("statement", "Which numbers survive which transformation", "Verdicts", [statement(reading)]),
            ("gauges", "Re-parametrizations", "Gauges", [gauges_section(reading), *further]),
            ("provenance", "Provenance", "Provenance", [_provenance(reading)]),
        ]
    )
    contents = with_answer(links, "Audit")
    decoder = reading.provenance.get("decoder") or {}
    name = str(decoder.get("name", "a decoder"))
    return assembled(f"Audit: {name}", join([_head(reading, name), sections]), contents, drawn)


def _head(reading: AuditReading, name: str) -> Markup:
    header = element(
        "header",
        element("p", "Audit report · claims on trial", class_="kind"),
        element("h1", name),
        element("p", _tried(reading), class_="model"),
    )
    words = "One document: verdicts stand, but no change has an interval."
    single = [paragraph(words)] if len(reading.documents) < 2 else []
    flag = element("div", *single, class_="flag", role="note") if single else Markup("")
    return join([header, element("section", flag, id="answer")])


def _tried(reading: AuditReading) -> str:
    numbers = len(reading.options("statement_measurement"))
    maps = len(reading.options("transformation")) - 1
    where = counted(len(reading.layers), "layer")
    documents = counted(len(reading.documents), "document")
    return f"{counted(numbers, 'number')} under {counted(maps, 'transformation')} at {where}, {documents}"


def _provenance(reading: AuditReading) -> Markup:
    """Decoder, documents, versions, the hash of the numbers, and every choice."""
    origin = dict(reading.provenance)
    parts = []
    for key in ("decoder", "documents", "versions"):
        held = origin.get(key)
        if isinstance(held, Mapping):
            parts.append(facts(key.capitalize(), flattened({k: v for k, v in held.items() if k not in _LISTED})))
    parts.append(
        facts("Record", [("created", str(origin.get("created"))), ("hash of the measurements", reading.digest)])
    )
    parts.append(every_choice(reading.study))
    return join(parts)
