"""Two records in one panel: headline numbers over each other, and their difference where the documents are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArgumentError
from armillary.figures.beside import Pair
from armillary.figures.depth import COUNTED
from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Profile, curve_of
from armillary.records.contrasts import Side, differences
from armillary.records.headlines import HEADLINES, Headline
from armillary.terms import measurement_words, preparation_words

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["Differences", "differences_drawing", "headlines_of", "overlaid"]


def headlines_of(pair: Pair) -> tuple[Headline, ...]:
    """The measurements that both records lead with."""
    chosen = [reading.chosen(*HEADLINES) for reading in pair.readings]
    return tuple(one for one in chosen[0] if one in chosen[1])


def overlaid(pair: Pair) -> Drawing | None:
    """The headline numbers of both records against depth, a condition at a time: one dash and marker a record.

    Args:
        pair: The two records.
    """
    headlines = headlines_of(pair)
    views = []
    for condition in pair.conditions:
        panels = [panel for one in headlines if (panel := _panel(pair, one, condition)) is not None]
        if panels:
            views.append(View((pair.first.label(condition),), tuple(panels)))
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    depth = "blocks" if pair.same_depth else "the share of the blocks passed, since the decoders have unlike numbers"
    return Drawing(
        "overlaid",
        "Headline numbers of both records",
        f"Depth is counted in {depth}. First token left out; stream after each block. Shaded: document-bootstrap "
        "intervals, each over the documents of its own record.",
        told(f"Headline numbers of {pair.names[0]} and {pair.names[1]}; {options[0]}", views[0].panels),
        tuple(views),
        (Control("condition", options, "choice", options[0]),),
        columns=len(headlines),
        printed=tuple((option,) for option in options[:2]),
    )


@dataclass(frozen=True, eq=False)
class Differences:
    """The headline differences of two records on identical documents, first minus second, paired by document.

    Attributes:
        refusal: Why there are none, in a sentence; empty where there are.
        profiles: For each headline and condition the difference against depth.
    """

    refusal: str
    profiles: dict[tuple[Headline, str], Profile]

    @classmethod
    def between(cls, pair: Pair, first: Record, second: Record) -> Differences:
        """All of them, or the reason why there are none.

        Args:
            pair: The readings of the two records.
            first: What is subtracted from.
            second: What is subtracted.
        """
        found: dict[tuple[Headline, str], Profile] = {}
        try:
            for condition in pair.conditions:
                sides = first.side(condition), second.side(condition)
                for headline in headlines_of(pair):
                    profile = _difference(pair, sides, headline)
                    if profile is not None:
                        found[headline, condition] = profile
        except ArgumentError as error:
            return cls(str(error), {})
        return cls("" if found else "Nothing was measured in both in the same way.", found)


def differences_drawing(pair: Pair, found: Differences) -> Drawing | None:
    """The differences against depth, all conditions in a panel.

    Args:
        pair: The two records.
        found: Their differences.
    """
    panels = []
    for headline in headlines_of(pair):
        curves = tuple(
            curve
            for condition in pair.conditions
            if (curve := curve_of(found.profiles.get((headline, condition)), pair.first.label(condition),
                                  pair.first.style(condition)))
        )  # fmt: skip
        if curves:
            zero = (Rule("no difference", y=0.0),)
            axes = pair.depth_axis(), Axis("difference")
            panels.append(Panel(measurement_words(headline[0]), *axes, curves, zero, preparation_words(headline[1])))
    if not panels:
        return None
    title = f"{pair.names[0]} minus {pair.names[1]}, paired by document"
    return Drawing(
        "differences",
        title,
        "Both records hold the same token ids, so a difference is taken within each document and then averaged; the "
        "interval resamples documents. Where the shaded interval leaves zero out, the sign holds over documents like "
        "these.",
        told(title, tuple(panels)),
        (View((), tuple(panels)),),
        columns=len(panels),
    )


def _panel(pair: Pair, headline: Headline, condition: str) -> Panel | None:
    measurement, preparation = headline
    where = {"condition": condition, "tap": "block", "tokens": DEFAULT_TOKENS, "preparation": preparation}
    curves = []
    for which, (reading, style) in enumerate(zip(pair.readings, SERIES, strict=False)):
        curve = reading.curve(pair.names[which], style, measurement, **where)
        if curve is not None:
            x = tuple(pair.place(which, float(layer)) for layer in curve.x)
            curves.append(Curve(curve.name, x, curve.y, curve.low, curve.high, style))
    if len(curves) < 2:
        return None
    words = measurement_words(measurement)
    y = Axis(words, "log" if measurement in COUNTED or measurement.endswith("order_parameter") else "linear")
    return Panel(words, pair.depth_axis(), y, tuple(curves), note=preparation_words(preparation))


def _difference(pair: Pair, sides: Sequence[Side], headline: Headline) -> Profile | None:
    keys, values = differences(sides[0], sides[1], headline[0])
    here = (
        (keys["place"] == "block") & (keys["tokens"] == DEFAULT_TOKENS) & (keys["preparation"] == headline[1])
    ).to_numpy(dtype=bool)
    if not here.any():
        return None
    layers = tuple(int(layer) for layer in keys["layer"][here])
    order = np.argsort(layers)
    lowest, highest = pair.first.attainable(headline[0])
    return pair.first.summary(values[:, here][:, order], tuple(sorted(layers)), (lowest - highest, highest - lowest))
