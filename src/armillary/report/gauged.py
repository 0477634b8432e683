"""The part of a page that tells of gauges: proofs, what each moved at which place, and which are refused."""

from __future__ import annotations

from armillary.figures.reading import Reading
from armillary.records.gauge_summary import AtPlace, at_places, number_words, unmoved_words
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers
from armillary.report.markup import Markup, element, join, paragraph, table

__all__ = ["gauges_section"]

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
        paragraph(unmoved_words(found, level=level, resamples=resamples, seed=seed)),
        table(_CAPTION, ("gauge", "outputs moved by", *(PLACE_WORDS[place] for place in places)), rows),
    ]
    if found.refused:
        refused = [element("li", f"{gauge}: {why}") for gauge, why in found.refused.items()]
        parts += [paragraph("Not admitted by this decoder:"), element("ul", *refused)]
    return join(parts)


def _cell(entry: AtPlace) -> Markup:
    """One gauge at one place: a count, and behind it what moved most."""
    if entry.refuted:
        return element("td", f"{entry.refuted} refuted", title=str(entry))
    if entry.most is None:
        return element("td", "unmoved", title=str(entry))
    number, verdict = entry.most
    most = f"{number_words(number.number)}, layer {number.layer}: {verdict.before:.3g} → {verdict.after:.3g}"
    return element("td", f"{entry.moved} of {entry.numbers}", Markup("<br>"), element("small", most), title=str(entry))
