"""Growth rates of the first two degrees beside their law, and the threshold against dimension."""

from __future__ import annotations

from functools import partial

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.lawful import beside, evenly
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.oracles import linear

__all__ = ["rates_and_threshold"]

DIMENSIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 768)


@figure_of(DiagramReading, preset="direct-consensus", shows=("rate", "crossing"))
def rates_and_threshold(reading: DiagramReading) -> Drawing | None:
    """One panel of rates a dimension, then the threshold over dimension with the clouds' crossings."""
    dims, tokens, shares = (reading.values_along(name) for name in ("dim", "tokens", "relative"))
    panels = []
    for dim in dims:
        threshold = linear.direct_consensus_threshold(dim)
        curves: list[Curve] = []
        for k, degree in enumerate(reading.values_along("degree")):
            at = {"dim": dim, "tokens": tokens[-1], "degree": degree}
            curves.append(reading.line("rate", "relative", f"degree {degree}", SERIES[k], **at))
            law = beside(
                f"law, degree {degree}", evenly(shares),
                partial(_law, degree=int(degree), dim=int(dim)), SERIES[k],
            )  # fmt: skip
            curves.append(law)
        title = f"d = {dim}, β_c = {threshold:.3g}"
        panels.append(
            Panel(title, reading.axis_of("relative"), Axis("growth rate σ"), tuple(curves), note=f"{tokens[-1]} tokens")
        )
    panels.append(_thresholds(reading))
    caption = (
        "Growth rates of a small imbalance of a uniform cloud, of degree 1 (the mean direction) and 2, as read off the "
        "engine's velocity, beside the law of infinitely many tokens (dashed). Where they cross, direct consensus "
        "stops being what grows fastest. Last panel: that beta over the dimension, with the crossings of finite "
        "clouds. Shaded: intervals over seeds."
    )
    return Drawing(
        "rates_and_threshold", "Growth rates and the threshold", caption,
        told("Growth rates against beta over its threshold", tuple(panels)), (View((), tuple(panels)),),
    )  # fmt: skip


def _law(share: float, *, degree: int, dim: int) -> float:
    return linear.harmonic_rate(degree, dim=dim, beta=share * linear.direct_consensus_threshold(dim))


def _thresholds(reading: DiagramReading) -> Panel:
    dims = [float(one) for one in reading.values_along("dim")]
    law = Curve(
        "law", tuple(map(float, DIMENSIONS)), tuple(linear.direct_consensus_threshold(d) / d for d in DIMENSIONS),
        style=Style(SERIES[0].color, "solid", "none", 1.6),
    )  # fmt: skip
    curves = [law]
    for k, count in enumerate(reading.values_along("tokens")):
        found = reading.over_seeds("crossing", tokens=count)
        scale = np.asarray([linear.direct_consensus_threshold(int(d)) / d for d in dims])
        ends = [tuple((scale * one).tolist()) for one in (found.value, found.low, found.high)]
        shown = bool(np.isfinite(found.low).any())
        style = SERIES[1 + k % (len(SERIES) - 1)]
        curves.append(
            Curve(
                f"{count} tokens",
                tuple(dims),
                ends[0],
                ends[1] if shown else (),
                ends[2] if shown else (),
                style,
                "points",
            )
        )
    limit = Rule("2/3", y=2 / 3)
    return Panel("threshold over dimension", Axis("dimension", "log"), Axis("β_c / d"), tuple(curves), (limit,))
