"""Figures of the perspective paper's diagram: shares of pairs over beta and time, and their edge at the last time."""

from __future__ import annotations

import math

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import DiagramReading
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, Style, Tiles, View
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of
from armillary.oracles.overlap import merge_time

__all__ = ["perspective_edges", "perspective_map"]

PAIRS, ALL = "share of pairs", "all together"
STATISTICS = {PAIRS: "share_above_in_time", ALL: "together_in_time"}
LAW = Style("#D55E00", "solid", "none", 2.4)
LAW_NAME = "orthonormal tokens, by quadrature"


@figure_of(DiagramReading, preset="perspective", shows=("share_above_in_time", "together_in_time"))
def perspective_map(reading: DiagramReading) -> Drawing | None:
    """Which share of pairs has met, over beta and time, one panel a dimension, with the law of orthonormal tokens."""
    options = tuple(STATISTICS)
    views = tuple(
        View((option,), tuple(_map(reading, option, dim) for dim in reading.values_along("dim"))) for option in options
    )
    panels = tuple(panel for view in views for panel in view.panels if panel.drawn)
    if not panels:
        return None
    above, tokens = reading.fixed("above"), reading.fixed("tokens")
    return Drawing(
        "perspective_map",
        "Which pairs have met, over beta and time",
        f"Color: mean over {reading.seeds} independent uniform starts of {tokens} tokens. Share of pairs: of all pairs "
        f"of a system, those with an overlap above {above:g} (the published statistic). All together: of all systems, "
        "those whose every pair is. Line: when orthonormal tokens, all of whose overlaps are equal, reach that "
        "overlap, by quadrature of their equation; random tokens follow it as the dimension grows.",
        told("Shares of pairs that have met, over beta and time", tuple(views[0].panels)),
        views,
        (Control("statistic", options, "choice", PAIRS),),
        columns=2 if len(reading.values_along("dim")) <= 4 else 3,
        printed=((PAIRS,), (ALL,)),
        height=0.8,
    )


@figure_of(DiagramReading, preset="perspective", shows=("share_above", "together"))
def perspective_edges(reading: DiagramReading) -> Drawing | None:
    """Both statistics at the last time against beta, every dimension, with the beta at which the law's time is up."""
    last = reading.values_along("time")[-1]
    panels = []
    for name, title in (("share_above", PAIRS), ("together", ALL)):
        curves = tuple(
            reading.line(name, "beta", f"d = {dim}", SERIES[k % len(SERIES)], dim=dim)
            for k, dim in enumerate(reading.values_along("dim"))
        )
        law = _edge(reading, last)
        rules = (Rule("law", x=law),) if math.isfinite(law) else ()
        axis = Axis("share", limits=(-0.02, 1.04))
        panels.append(Panel(f"{title} at s = {last:g}", reading.axis_of("beta"), axis, curves, rules))
    if not any(panel.drawn for panel in panels):
        return None
    return Drawing(
        "perspective_edges",
        "The edge at the last time: pairs that met, and systems that met as a whole",
        f"Means over {reading.seeds} systems; shaded: intervals over systems. The two statistics differ most in low "
        "dimension, where a system ends in a few groups: many of its pairs have met, and it has not met as a whole. "
        "Dotted: the beta up to which orthonormal tokens meet in that time.",
        told("Shares at the last time against beta", tuple(panels)),
        (View((), tuple(panels)),),
        columns=2,
    )


def _map(reading: DiagramReading, statistic: str, dim: int) -> Panel:
    found = reading.over_seeds(STATISTICS[statistic], dim=dim)
    times, betas = reading.values_along("time"), reading.values_along("beta")
    values = found.value if found.dims == ("time", "beta") else found.value.T
    rows = tuple(tuple(float(v) for v in row) for row in values)
    tiles = Tiles(statistic, tuple(map(float, betas)), tuple(map(float, times)), rows, (0.0, 1.0))
    return Panel(
        f"d = {dim}",
        Axis(reading.label_of("beta"), limits=(float(betas[0]), float(betas[-1]))),
        Axis(reading.label_of("time"), limits=(float(times[0]), float(times[-1]))),
        (_law(reading),),
        note=statistic,
        tiles=tiles,
    )


def _law(reading: DiagramReading) -> Curve:
    """When orthonormal tokens reach the threshold, for each beta, as far as the times reach."""
    tokens, above = int(reading.fixed("tokens")), float(reading.fixed("above"))
    betas, last = reading.values_along("beta"), reading.values_along("time")[-1]
    grid = np.linspace(betas[0], betas[-1], 361)
    times = [merge_time(tokens=tokens, beta=float(beta), stop=above) for beta in grid]
    shown = tuple(time if time <= last else math.nan for time in times)
    return Curve(LAW_NAME, tuple(grid.tolist()), shown, style=LAW)


def _edge(reading: DiagramReading, last: float) -> float:
    from armillary.studies.phase.perspective import boundary

    found = boundary(float(last), tokens=int(reading.fixed("tokens")), above=float(reading.fixed("above")))
    return found if found <= reading.values_along("beta")[-1] else math.nan
