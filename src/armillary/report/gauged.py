"""The part of a page that tells of gauges: proofs, what each moved at which place, and which are refused."""

from __future__ import annotations

from armillary.figures.reading import Reading
from armillary.records.gauge_summary import AtPlace, at_places, number_words
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers
from armillary.report.markup import Markup, element, join, paragraph, table

__all__ = ["gauges_of_laboratory", "gauges_section"]

_LEAD = (
    "A gauge gives the decoder other weights that compute the same function. Each was applied to a copy in float64 and "
    "verified on these documents; a number that it moves cannot belong to the function."
)


_CAPTION = (
    "How many numbers each gauge moved by more than rounding, all layers counted, and the one it moved most. Outputs: "
    "the largest difference of a logit (of a log-probability, where all logits move together) in float64."
)


def gauges_section(reading: Reading) -> Markup | None:
    """The table of gauges by place with their proofs and refusals; None where the record holds none.

    Args:
        reading: of a record.
    """
    found = GaugedNumbers.of(reading.dataset)
    if found is None:
        return None
    level, resamples, seed = float(reading.level), int(reading.resamples), int(reading.seed)
    entries = at_places(found, level=level, resamples=resamples, seed=seed)
    places = [place for place in PLACE_WORDS if any(entry.place == place for entry in entries)]
    rows = []
    for gauge, one in found.under.items():
        by_place = {entry.place: entry for entry in entries if entry.gauge == gauge}
        proof = element("td", f"{one.difference:.1e}", title=one.proof)
        rows.append((element("span", gauge, title=one.label), proof, *(_cell(by_place[place]) for place in places)))
    parts = [
        paragraph(_LEAD),
        table(_CAPTION, ("gauge", "outputs moved by", *(PLACE_WORDS[place] for place in places)), rows),
    ]
    if found.refused:
        refused = [element("li", f"{gauge}: {why}") for gauge, why in found.refused.items()]
        parts += [paragraph("Not admitted by this decoder:"), element("ul", *refused)]
    if found.failed:
        failed = [element("li", f"{gauge}: {why}") for gauge, why in found.failed.items()]
        words = "Not verified: these moved the outputs of this decoder, so that they are no gauges of it. Nothing was "
        parts.append(element("div", paragraph(words + "measured under them."), element("ul", *failed), class_="flag"))
    return join(parts)


def gauges_of_laboratory(reading: Reading) -> Markup:
    """The same of a laboratory, or in a sentence why its record holds nothing of gauges.

    Args:
        reading: of its record.
    """
    return gauges_section(reading) or paragraph(f"Re-parametrizations of the decoder: {_why_none(reading)}.")


def _why_none(reading: Reading) -> str:
    why, asked = reading.provenance.get("gauges_not_measured"), reading.study.get("gauges")
    if why:
        return f"not measured, since {str(why).rstrip('.')}"
    if reading.study.get("kind") != "laboratory":
        return "not measured, since states without their decoder have no weights to re-parametrize"
    if asked is None:
        return "none, since this record is older than those of a laboratory; armillary audit --gauges all applies them"
    return "not measured yet" if asked else "left out of this run (--gauges none)"


def _cell(entry: AtPlace) -> Markup:
    """One gauge at one place: a count, and behind it what moved most."""
    if entry.refuted:
        return element("td", f"{entry.refuted} refuted", title=str(entry))
    if entry.most is None:
        return element("td", "unmoved", title=str(entry))
    number, verdict = entry.most
    most = f"{number_words(number.number)}, layer {number.layer}: {verdict.before:.3g} → {verdict.after:.3g}"
    return element("td", f"{entry.moved} of {entry.numbers}", Markup("<br>"), element("small", most), title=str(entry))
