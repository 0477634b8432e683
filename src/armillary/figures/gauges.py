"""The figure of gauges: numbers through depth before and after each re-parametrization that keeps the function."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armillary.estimates import intervals
from armillary.figures.audited import AuditReading
from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Style, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import Reading
from armillary.figures.registry import figure_of
from armillary.records.gauge_summary import number_words
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers

__all__ = ["before_and_after_gauges"]

SHOWN = (
    ("stream", "mean_overlap | normalize"),
    ("stream", "participation_rank | normalize"),
    ("first", "largest_coordinate_share | as given"),
    ("read", "mean_overlap | normalize"),
    ("read", "participation_rank | normalize"),
    ("query", "mean_overlap | normalize"),
    ("key", "mean_overlap | normalize"),
    ("value", "mean_overlap | normalize"),
    ("neuron", "mean_overlap | normalize"),
    ("attention", "attention_entropy, head 0"),
)
"""Place and number of each panel; those that a record lacks are left out."""

EVERY = "every gauge that moves it"


@figure_of(Reading, AuditReading)
def before_and_after_gauges(reading: Reading) -> Drawing | None:
    """A number of each place against depth, before and after every gauge that moves it, or the one a reader chooses."""
    found = GaugedNumbers.of(reading.dataset)
    if found is None or not found.under:
        return None
    options = (EVERY, *found.under)
    views = tuple(View((option,), _panels(reading, found, option)) for option in options)
    if not any(panel.drawn for panel in views[0].panels):
        return None
    return Drawing(
        "before_and_after_gauges",
        "Numbers before and after re-parametrizations that leave the function unchanged",
        "Each gauge gives the decoder other weights and the same outputs; what it moves belongs to a basis that "
        "training happened to choose. A panel with one curve shows a number that no gauge moves by more than "
        "rounding. Measured in float64 on the same documents, the first token left out except where it stands alone. "
        "Shaded: document-bootstrap interval of the number before, not of the difference.",
        told("Numbers before and after gauges", views[0].panels),
        views,
        (Control("gauge", options, "choice", EVERY),),
        columns=2,
    )


def _panels(reading: Reading, found: GaugedNumbers, option: str) -> tuple[Panel, ...]:
    panels, looks = [], _looks(found)
    for place, number in SHOWN:
        columns = [k for k, one in enumerate(found.numbers) if (one.place, one.number) == (place, number)]
        if not columns:
            continue
        layers = tuple(float(found.numbers[k].layer) for k in columns)
        shown = [option] if option != EVERY else [gauge for gauge in found.under if _moves(found, gauge, columns)]
        after = [
            Curve(gauge, layers, _means(found.under[gauge].after[:, columns]), style=looks[gauge]) for gauge in shown
        ]
        words, _, note = number_words(number).partition(" | ")
        axis = Axis("layer" if place in ("stream", "first", "read") else "block", ticks=_ticks(layers))
        title = words if place == "attention" else f"{words}, {PLACE_WORDS[place]}"
        curves = (_before(reading, layers, found.before[:, columns]), *after)
        panels.append(Panel(title, axis, Axis(words), curves, note=note))
    return tuple(panels)


def _moves(found: GaugedNumbers, gauge: str, columns: list[int]) -> bool:
    """Whether a gauge moves one of these numbers by more than its floor in some document."""
    apart = np.abs(found.under[gauge].after - found.before)[:, columns]
    return bool((apart > found.floor[columns]).any())


def _looks(found: GaugedNumbers) -> dict[str, Style]:
    """One look for each gauge throughout, first those that move something shown; the second round has open dashes."""
    shown = [k for k, one in enumerate(found.numbers) if (one.place, one.number) in SHOWN]
    ordered = sorted(found.under, key=lambda gauge: not _moves(found, gauge, shown))
    further = [replace(style, dash="dot", marker="none") for style in SERIES[1:]]
    return dict(zip(ordered, (*SERIES[1:], *further), strict=False))


def _before(reading: Reading, layers: tuple[float, ...], values: np.ndarray) -> Curve:
    """Means over documents with their intervals; one document has none."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    if len(values) > 1:
        found = intervals(values, level=reading.level, resamples=reading.resamples, seed=reading.seed)
        low, high = tuple(map(float, found.low)), tuple(map(float, found.high))
    return Curve("before", layers, _means(values), low, high, SERIES[0])


def _means(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(one) for one in values.mean(axis=0))


def _ticks(layers: tuple[float, ...]) -> tuple[tuple[float, str], ...]:
    """Whole numbers, at most eight of them."""
    step = -(-len(layers) // 8)
    return tuple((layer, f"{layer:.0f}") for layer in layers[::step])
