"""Courses under each placement of the norm, with the equations that orthonormal tokens obey."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, View
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.oracles import overlap as laws
from armillary.studies.phase.speeds import UNIFORM

__all__ = ["courses_of_norms"]


@figure_of(DiagramReading, preset="speeds", shows=("overlap",))
def courses_of_norms(reading: DiagramReading) -> Drawing | None:
    """Mean overlap against time, and its distance from one on a logarithmic axis."""
    beta = reading.values_along("beta")[0]
    times = np.asarray(reading.values_along("time"), dtype=float)
    rising, remaining = [], []
    for k, scheme in enumerate(reading.values_along("scheme")):
        style = SERIES[k]
        law = laws.scheme_overlap(
            times, scheme=scheme, tokens=reading.fixed("tokens"), beta=beta, alpha=reading.fixed("alpha"),
            switch=reading.fixed("switch"),
        )  # fmt: skip
        rising.append(reading.line("overlap", "time", scheme, style, scheme=scheme, start=UNIFORM, beta=beta))
        left = tuple(
            float(1 - one) for one in reading.over_seeds("overlap", scheme=scheme, start=UNIFORM, beta=beta).value
        )
        remaining.append(Curve(scheme, tuple(times.tolist()), left, style=style))
        dashed = type(style)(style.color, "dash", "none", 1.0)
        rising.append(Curve(f"law, {scheme}", tuple(times.tolist()), tuple(law.tolist()), style=dashed))
        remaining.append(Curve(f"law, {scheme}", tuple(times.tolist()), tuple((1 - law).tolist()), style=dashed))
    axis = reading.axis_of("time")
    panels = (
        Panel("mean overlap", axis, Axis("c"), tuple(rising), note=f"β = {beta:g}"),
        Panel("distance from consensus", axis, Axis("1 - c", "log"), tuple(remaining), note=f"β = {beta:g}"),
    )
    caption = (
        f"Uniform starts of {reading.fixed('tokens')} tokens in {reading.fixed('dim')} dimensions (shaded: intervals "
        "over seeds), beside the equations of orthonormal tokens (dashed). Peri starts fast and finishes slowly; pre, "
        "peri and mix slow down because the stream grows."
    )
    return Drawing(
        "courses_of_norms", "Courses under each placement of the norm", caption,
        told("Mean overlap against time", panels), (View((), panels),),
    )  # fmt: skip
