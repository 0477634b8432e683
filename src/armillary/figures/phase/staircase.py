"""Staircases of single systems over twelve decades of time, with the squared weights of their clusters."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Style, View
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.studies.phase.staircase import EXAMPLE

__all__ = ["staircases"]

SHOWN = 3


@figure_of(DiagramReading, preset="staircase", shows=("energy", "squared_weights"))
def staircases(reading: DiagramReading) -> Drawing | None:
    """Energy against the logarithm of time for the published example and the first seeds of each kind of system."""
    panels = []
    for system in reading.values_along("system"):
        for beta in reading.values_along("beta"):
            energy = reading.numbers("energy", system=system, beta=beta)
            if not np.isfinite(energy.values).any():
                continue
            weights = reading.numbers("squared_weights", system=system, beta=beta)
            rows = 1 if system == EXAMPLE else min(SHOWN, reading.seeds)
            curves = []
            for k in range(rows):
                style, name = SERIES[k], f"start {k + 1}"
                curves.append(_course(name, energy.isel(seed=k), Style(style.color, "solid", "none", 1.6)))
                law = f"squared weights {k + 1}"
                curves.append(_course(law, weights.isel(seed=k), Style(style.color, "dash", "none", 1.0)))
            title = system if system == EXAMPLE else f"{system}, {reading.fixed('tokens')} tokens"
            panels.append(
                Panel(
                    f"{title}, β = {beta:g}",
                    reading.axis_of("time"),
                    Axis("Φ / Φ max", limits=(0.0, 1.05)),
                    tuple(curves),
                )
            )
    if not panels:
        return None
    caption = (
        "The mean of exp(β(c - 1)) over all pairs, which is the energy over its largest. Dashed: the sum of squared "
        "shares of tokens over groups, where the energy must wait while clusters are far apart. Each step is a merger."
    )
    return Drawing(
        "staircases", "The staircase of the energy", caption, told("Energy against time", tuple(panels)),
        (View((), tuple(panels)),),
    )  # fmt: skip


def _course(name: str, row: object, style: Style) -> Curve:
    import xarray

    assert isinstance(row, xarray.DataArray)
    return Curve(name, tuple(map(float, row["time"].values)), tuple(map(float, row.values)), style=style)
