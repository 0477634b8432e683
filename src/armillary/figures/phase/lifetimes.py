"""Lifetimes of two clusters against beta, with the law of each angle."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, View
from armillary.figures.lawful import beside, evenly
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.studies.phase.lifetimes import LONGEST, SHORTEST, lifetime_by_law

__all__ = ["lifetimes_against_beta"]


@figure_of(DiagramReading, preset="lifetimes", shows=("lifetime", "ratio"))
def lifetimes_against_beta(reading: DiagramReading) -> Drawing | None:
    """Lifetimes on a logarithmic axis, one line an angle, and the ratio of simulation to law."""
    betas, first = reading.values_along("beta"), reading.values_along("first")[0]
    share, merging = first / reading.fixed("tokens"), reading.fixed("merging")

    def law(beta: float, angle: float) -> float:
        found = lifetime_by_law(beta, angle, share=share, merging=merging)
        return found if SHORTEST < found < LONGEST else math.nan

    times, ratios = [], []
    for k, angle in enumerate(reading.values_along("angle")):
        style = SERIES[k % len(SERIES)]
        times.append(reading.line("lifetime", "beta", f"{angle:g}°", style, angle=angle, first=first))
        times.append(beside(f"law, {angle:g}°", evenly(betas), partial(law, angle=angle), style))
        ratios.append(_off(reading.line("ratio", "beta", f"{angle:g}°", style, angle=angle, first=first)))
    one = Rule("the law", y=0.0)
    panels = (
        Panel("lifetime", reading.axis_of("beta"), Axis("s", "log"), tuple(times), note=f"clusters of {first} of 16"),
        Panel("simulated over law", reading.axis_of("beta"), Axis("ratio - 1, millionths"), tuple(ratios), (one,)),
    )
    caption = (
        "Left: the time from two settled clusters to their merger, beside the quadrature of the equation of two "
        "clusters (dashed) at the angle of their centers; the scatter of a seed's angle moves its time by many per "
        "cent. Right: the same over the law from the overlap that the settled clusters really had. Shaded: intervals "
        "over seeds."
    )
    return Drawing(
        "lifetimes_against_beta", "Lifetimes of two clusters", caption,
        told("Lifetime of two clusters against beta", panels), (View((), panels),),
    )  # fmt: skip


def _off(curve: Curve) -> Curve:
    """By how many millionths a ratio is above one."""
    value, low, high = (tuple(1e6 * (float(one) - 1) for one in ends) for ends in (curve.y, curve.low, curve.high))
    return replace(curve, y=value, low=low, high=high)
