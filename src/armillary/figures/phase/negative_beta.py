"""How often tokens lock at negative beta, with exact binomial intervals, and where locked states let go."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Drawing, Panel, Rule, View
from armillary.figures.lawful import interval_curve, points_curve
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.studies.order_statistics import share_interval
from armillary.studies.phase.negative_beta import PROVED, TRIANGLE

__all__ = ["locking"]


@figure_of(DiagramReading, preset="negative-beta", shows=("locked", "release", "met", "untold"))
def locking(reading: DiagramReading) -> Drawing | None:
    """Shares of locked starts against beta, and releases against the number of tokens."""
    betas, tokens, rules = (reading.values_along(name) for name in ("beta", "tokens", "rule"))
    marks = (Rule("-2/3", x=TRIANGLE), Rule("-0.16", x=PROVED))
    panels = []
    for rule in rules:
        curves = []
        for k, count in enumerate(tokens):
            values = reading.numbers("locked", tokens=count, rule=rule).transpose("beta", "seed").values
            known = [row[np.isfinite(row)] for row in values]
            ends = [share_interval(int(row.sum()), max(len(row), 1), level=reading.level) for row in known]
            curves.append(interval_curve(f"{count} tokens", betas, ends, SERIES[k % len(SERIES)]))
        panels.append(Panel(f"starts that lock, {rule}", reading.axis_of("beta"), Axis("share"), tuple(curves), marks))
    places, releases = [], []
    for count in tokens:
        held = reading.numbers("release", tokens=count).values.ravel()
        for value in sorted(set(np.round(held[np.isfinite(held)], 5).tolist())):
            places.append(float(count))
            releases.append(float(value))
    if releases:
        found = points_curve("a locked state", places, releases, SERIES[1])
        limits = (Rule("-2/3", y=TRIANGLE), Rule("-0.16", y=PROVED))
        axis = Axis("β", limits=(min(-2.5, *releases) - 0.1, 0.05))
        named = tuple((float(count), f"{count}") for count in tokens)
        across = Axis("tokens", "log", ticks=named, limits=(0.8 * min(tokens), 1.25 * max(tokens)))
        panels.append(Panel("where locked states let go", across, axis, (found,), limits))
    most = share_interval(0, reading.seeds, level=reading.level)[2]
    caption = (
        "Left: the share of uniform starts that end apart from consensus in a stable state; shaded, exact binomial "
        f"intervals, which for none of {reading.seeds} reach {most:.2g}. From -2/3 to -0.16 nothing is proved. Right: "
        "each locked state followed upward in beta to where its slowest mode stops decaying; the highest are "
        "equilateral triangles."
    )
    return Drawing(
        "locking", "Locking at negative beta", caption, told("Locking at negative beta on the circle", tuple(panels)),
        (View((), tuple(panels)),),
    )  # fmt: skip
