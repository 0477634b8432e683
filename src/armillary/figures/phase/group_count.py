"""Groups on the circle against beta with both laws, and how the number keeps falling with time."""

from __future__ import annotations

from functools import partial

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Drawing, Panel, View
from armillary.figures.lawful import beside, evenly
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.studies.phase.group_count import READ_AT, expected

__all__ = ["groups_against_beta"]

LAWS = {"random": "maxima of the kernel density", "ring": "fastest mode"}


@figure_of(DiagramReading, preset="group-count", shows=("groups",))
def groups_against_beta(reading: DiagramReading) -> Drawing | None:
    """Counts at one time against beta beside their laws, one panel a start; then counts against time."""
    tokens, betas = reading.values_along("tokens"), reading.values_along("beta")
    at = min(reading.values_along("time"), key=lambda one: abs(float(one) - READ_AT))
    panels = []
    for start in reading.values_along("start"):
        curves = [
            reading.line(
                "groups", "beta", f"{count:g} tokens", SERIES[k % len(SERIES)], start=start, tokens=count, time=at
            )
            for k, count in enumerate(tokens)
        ]
        law = beside(LAWS[start], evenly(betas, scale="log"), partial(expected, start=start), SERIES[2])
        panels.append(
            Panel(f"{start} start, s = {at:g}", reading.axis_of("beta"), Axis("groups", "log"), (*curves, law))
        )
    chosen = [betas[int(share * (len(betas) - 1))] for share in (0.4, 0.7, 1.0)]
    for start in reading.values_along("start"):
        lines = tuple(
            reading.line("groups", "time", f"β = {b:.3g}", SERIES[k], start=start, tokens=tokens[-1], beta=b)
            for k, b in enumerate(dict.fromkeys(chosen))
        )
        title = f"{start} start, {tokens[-1]:g} tokens"
        panels.append(Panel(title, reading.axis_of("time"), Axis("groups", "log"), lines))
    caption = (
        "Groups are chains of neighbors within 0.1 radians. Dashed: for a random start the expected number of maxima "
        "of the kernel density, about √(3β/2); for a ring with noise the mode that grows fastest, about √(2β). The "
        "number never settles: groups keep meeting. Shaded: intervals over seeds."
    )
    return Drawing(
        "groups_against_beta", "Groups against beta and time", caption, told("Number of groups", tuple(panels)),
        (View((), tuple(panels)),),
    )  # fmt: skip
