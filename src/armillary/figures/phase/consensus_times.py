"""Median times to consensus over twelve decades, against beta, one line a dimension."""

from __future__ import annotations

from functools import partial

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Drawing, Panel, View
from armillary.figures.lawful import beside, evenly, interval_curve
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.oracles import linear
from armillary.studies.phase.consensus_times import law_in_high_dimension, medians

__all__ = ["times_to_consensus"]


@figure_of(DiagramReading, preset="consensus-times", shows=("log_time", "met", "left"))
def times_to_consensus(reading: DiagramReading) -> Drawing | None:
    """Medians with intervals between order statistics, and the law of high dimension."""
    betas, dims = reading.values_along("beta"), reading.values_along("dim")
    curves, scaled = [], []
    for k, dim in enumerate(dims):
        style = SERIES[k % len(SERIES)]
        ends = [medians(reading.dataset, beta, dim, level=reading.level) for beta in betas]
        curves.append(interval_curve(f"d = {dim}", betas, ends, style))
        threshold = linear.direct_consensus_threshold(dim)
        scaled.append(interval_curve(f"d = {dim}", [beta / threshold for beta in betas], ends, style))
    law = beside(
        "orthonormal tokens", evenly(betas),
        partial(law_in_high_dimension, tokens=reading.fixed("tokens"), level=reading.fixed("level")), SERIES[0],
    )  # fmt: skip
    panels = (
        Panel("median time to consensus", reading.axis_of("beta"), Axis("s", "log"), (*curves, law)),
        Panel("over the threshold of direct consensus", Axis("β / β_c(d)", "log"), Axis("s", "log"), tuple(scaled)),
    )
    caption = (
        f"{reading.fixed('tokens')} uniform tokens; consensus: all overlaps above {reading.fixed('level')}. Shaded: "
        f"{100 * reading.level:g}% intervals of medians over {reading.seeds} starts, by order statistics; a line ends "
        "where more than half of the starts had not met. Dashed: orthonormal tokens, the limit of high dimension. "
        "Right: the same against beta over the value at which the mean direction stops growing fastest in an infinite "
        "cloud."
    )
    return Drawing(
        "times_to_consensus", "Median time to consensus", caption,
        told("Median time to consensus against beta", panels), (View((), panels),),
    )  # fmt: skip
