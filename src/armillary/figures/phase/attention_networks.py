"""Residuals of attention networks against depth, with and without a skip connection, and the law of the third power."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Style, View
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of

__all__ = ["residuals_by_layer"]

FLOOR = -16.0


@figure_of(DiagramReading, preset="attention-networks", shows=("log_residual",))
def residuals_by_layer(reading: DiagramReading) -> Drawing | None:
    """The logarithm of the residual after each layer, networks without and with a skip connection."""
    names = [str(one) for one in reading.values_along("network")]
    panels = []
    for title, chosen in (
        ("without a skip connection", [one for one in names if "skip" not in one]),
        ("with a skip connection", [one for one in names if "skip" in one]),
    ):
        curves = [
            reading.line("log_residual", "layer", one, SERIES[names.index(one) % len(SERIES)], network=one)
            for one in chosen
        ]
        if not curves:
            continue
        if title.startswith("without"):
            curves.append(_cubed(curves[0]))
        panels.append(Panel(title, _shown(curves), Axis("log10 |E| / |X|"), tuple(curves)))
    if not panels:
        return None
    caption = (
        "E are the deviations of the rows from their mean, X the rows. Without a skip connection each layer cubes the "
        f"residual (dashed), past rounding, which is at about {FLOOR:g}, and on to 1e-300. With "
        "it the residual falls too, by a factor a layer. Shaded: intervals over networks of random weights."
    )
    return Drawing(
        "residuals_by_layer", "Residual against depth", caption,
        told("Decimal logarithm of the residual against depth", tuple(panels)), (View((), tuple(panels)),),
    )  # fmt: skip


def _cubed(curve: Curve) -> Curve:
    """The third power from the first layer on at which the residual is small, with the factor it had there."""
    known = np.asarray([float(y) for y in curve.y if isinstance(y, float) and np.isfinite(y)])
    small = int(np.argmax(known < -1)) if (known < -1).any() else 0
    factor = known[small + 1] - 3 * known[small] if small + 1 < len(known) else 0.0
    found = [known[small]]
    for _ in range(len(known) - small - 1):
        found.append(3 * found[-1] + factor)
    return Curve(
        "cubed in every layer", tuple(float(x) for x in curve.x[small : small + len(found)]), tuple(map(float, found)),
        style=Style(curve.style.color, "dash", "none", 1.2),
    )  # fmt: skip


def _shown(curves: list[Curve]) -> Axis:
    """Up to the last layer at which anything is defined."""
    last = max(float(x) for c in curves for x, y in zip(c.x, c.y, strict=True) if isinstance(y, float) and y == y)
    return Axis("layer", limits=(0.0, max(last, 1.0)))
