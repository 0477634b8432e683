"""The distance between particles and density: against time, against their number, and when clouds leave."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.lawful import bounded
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.studies.phase.mean_field import FIXED_AT, LEFT, expected_growth

__all__ = ["particles_and_density"]


@figure_of(DiagramReading, preset="mean-field", shows=("distance", "leaves_at"))
def particles_and_density(reading: DiagramReading) -> Drawing | None:
    """Distance against time for each density, against T at fixed times, and times of leaving against T."""
    tokens = reading.values_along("tokens")
    panels = []
    for name in reading.values_along("density"):
        curves = tuple(
            bounded(
                reading.line("distance", "time", f"T = {count:g}", SERIES[k % len(SERIES)], density=name, tokens=count)
            )
            for k, count in enumerate(tokens)
        )
        left = Rule(f"left: {LEFT[str(name)]:g} radians", y=LEFT[str(name)])
        panels.append(Panel(str(name), Axis("time s", "log"), Axis("W1 (radians)", "log"), curves, (left,)))
    if len(tokens) > 1:
        panels += [_powers(reading), _leaving(reading)]
    caption = (
        "Wasserstein distance between T independent tokens and the density they were drawn from. Up to any fixed time "
        "it falls as the root of T (dashed). A density that stands still only for infinitely many tokens, the uniform "
        "one or two opposed clusters, is left by every finite cloud, later by the same amount for every factor in T "
        "(dashed: 1 / (2 rate) of the escape); so the limits of many tokens and of late times do not commute there. "
        "An uneven density is not left. Shaded: intervals over seeds."
    )
    return Drawing(
        "particles_and_density", "Particles and their density", caption,
        told("Distance between particles and density", tuple(panels)), (View((), tuple(panels)),),
    )  # fmt: skip


def _powers(reading: DiagramReading) -> Panel:
    """The distance against T at the time at which the power is read."""
    at = min(reading.values_along("time"), key=lambda one: abs(float(one) - FIXED_AT))
    curves = []
    tokens = np.asarray(reading.values_along("tokens"), dtype=float)
    for k, name in enumerate(reading.values_along("density")):
        measured = reading.line("distance", "tokens", str(name), SERIES[k], density=name, time=at)
        middle = np.exp(np.mean(np.log(np.asarray(measured.y, dtype=float) * np.sqrt(tokens))))
        law = tuple((middle / np.sqrt(tokens)).tolist())
        curves += [
            measured,
            Curve(f"T^-1/2, {name}", measured.x, law, style=Style(SERIES[k].color, "dash", "none", 1.0)),
        ]
    return Panel(f"s = {at:g}", reading.axis_of("tokens"), Axis("W1 (radians)", "log"), tuple(curves))


def _leaving(reading: DiagramReading) -> Panel:
    """Times of leaving against T, with the slope of the law through their middle."""
    tokens = np.asarray(reading.values_along("tokens"), dtype=float)
    curves = []
    for k, name in enumerate(reading.values_along("density")):
        slope = expected_growth(str(name), beta=reading.fixed("beta"))
        found = reading.line("leaves_at", "tokens", str(name), SERIES[k], density=name)
        values = np.asarray(found.y, dtype=float)
        if not np.isfinite(slope) or not np.isfinite(values).any():
            continue
        known = np.isfinite(values)
        level = np.mean(values[known] - slope * np.log(tokens[known]))
        law = tuple((level + slope * np.log(tokens)).tolist())
        curves += [found, Curve(f"law, {name}", found.x, law, style=Style(SERIES[k].color, "dash", "none", 1.0))]
    return Panel("time of leaving", reading.axis_of("tokens"), Axis("time s"), tuple(curves))
