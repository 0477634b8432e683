"""The figure of gauges as a table: verdicts as a heat map, one row a number of each place and one column a gauge."""

from __future__ import annotations

from typing import Any

from armillary.figures.audited import AuditReading
from armillary.figures.drawing import Drawing
from armillary.figures.reading import Reading
from armillary.figures.registry import figure_of
from armillary.figures.verdicts import drawn_by_layer
from armillary.invariance.judgment import Audit, Judgment
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers
from armillary.terms import layer_words

__all__ = ["of_gauges", "verdicts_of_gauges"]


@figure_of(Reading, AuditReading)
def verdicts_of_gauges(reading: Reading) -> Drawing | None:
    """Verdicts on numbers of the stream, of what is read, of heads and neurons, under every verified gauge."""
    found = GaugedNumbers.of(reading.dataset)
    if found is None or not found.under:
        return None
    choices = {"level": float(reading.level), "resamples": int(reading.resamples), "seed": int(reading.seed)}
    layers = sorted({one.layer for one in found.numbers})
    return drawn_by_layer(
        "verdicts_of_gauges",
        "Which numbers survive which re-parametrization",
        "Each column gives the decoder other weights that compute the same function; a number that it moves belongs to "
        "a basis that training happened to choose. Color: the change relative to the larger of the two numbers, as a "
        "power of ten, mean over documents. Where nothing moved, a mark says whether that is proved. Of attention the "
        "first head and the mean over heads are shown.",
        {layer_words(layer): of_gauges(found, layer, **choices) for layer in layers},
    )


def of_gauges(found: GaugedNumbers, layer: int, **choices: Any) -> Audit:
    """Numbers at one layer under every gauge as an audit; their names begin with the place.

    Args:
        found: Numbers before and after gauges; of attention the first head stands for all.
        layer: Which.
        choices: Level, resamples and seed of the intervals.
    """
    here = [k for k, one in enumerate(found.numbers) if one.layer == layer and one.head in (None, 0)]
    by_gauge = {gauge: found.verdicts(gauge, **choices) for gauge in found.under}
    judgments = tuple(
        Judgment(f"{PLACE_WORDS[found.numbers[k].place]}: {found.numbers[k].number}", gauge, made[k], None, layer)
        for k in sorted(here, key=lambda k: list(PLACE_WORDS).index(found.numbers[k].place))
        for gauge, made in by_gauge.items()
    )
    return Audit(judgments, (), len(found.titles))
