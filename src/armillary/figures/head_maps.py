"""Figures of single heads: which attract and which repel, and how their scores follow the overlaps of real states."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Style, Tiles, View
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.reading import Numbers
from armillary.figures.registry import figure_of

__all__ = ["head_maps", "head_traces", "heads_at_work"]

SHOWN = (("head_vo_trace", "values and output, W_O W_V"), ("head_qk_trace", "scores, W_Q^T W_K"))
WORK = (
    ("score_slope", "slope of scores against overlap"),
    ("score_spread", "spread of scores within a row"),
    ("score_explained", "share of scores that overlap explains"),
    ("axis_two_points", "opposed points on the attractive axis"),
)
SOURCES = {"trained": "trained", "spectrum": "random directions"}
NULL = Style("#D55E00", "solid", "x", 1.0)


@figure_of(LadderReading)
def head_maps(reading: LadderReading) -> Drawing | None:
    """Normalized traces of both matrices of every head, a block a column."""
    if "head_vo_trace" not in reading.dataset:
        return None
    views = []
    for source in reading.options("source"):
        panels = []
        for name, title in SHOWN:
            values = np.asarray(reading.dataset[name].sel(source=source, gain="folded").values, dtype=np.float64)
            panels.append(_tiles(reading, values, title, "normalized trace", limits=(-1.0, 1.0)))
        views.append(View((_words(source),), tuple(panels)))
    options = tuple(view.choice[0] for view in views)
    return Drawing(
        "head_maps",
        "Heads that attract and heads that repel",
        "The normalized trace of a head's matrices, the gain of the norm that it reads through folded in: 1 for a "
        "projection on as many directions as the head has (it carries tokens toward what they attend to), −1 for minus "
        "one, near 0 for random directions. All maps have one scale of colors.",
        told("Normalized traces of heads, trained", views[0].panels),
        tuple(views),
        (Control("matrices", options, "choice", options[0]),),
    )


@figure_of(LadderReading)
def head_traces(reading: LadderReading) -> Drawing | None:
    """The same traces against depth, with those of random directions behind them."""
    if "head_vo_trace" not in reading.dataset:
        return None
    blocks = tuple(float(block) for block in reading.dataset["block"].values)
    panels = []
    for name, title in SHOWN:
        found = reading.dataset[name].sel(gain="folded")
        curves = []
        for source, style in (("trained", Style("#1b1b1b", "solid", "circle", 1.0)), ("spectrum", NULL)):
            values = np.asarray(found.sel(source=source).values, dtype=np.float64)
            x = tuple(block for block in blocks for _ in range(values.shape[1]))
            curves.append(Curve(_words(source), x, tuple(values.ravel().tolist()), style=style, shape="points"))
        mean = tuple(np.asarray(found.sel(source="trained").mean("head").values, dtype=np.float64).tolist())
        curves.append(Curve("mean over heads", blocks, mean, style=Style("#0072B2", "solid", "none", 2.0)))
        panels.append(Panel(title, Axis("block"), Axis("normalized trace", limits=(-1.05, 1.05)), tuple(curves)))
    return Drawing(
        "head_traces",
        "Traces of heads against depth",
        "Every head is a point: trained, and beside it a head of random directions with the same singular values "
        "(gain folded in), which is what the size of a trace is to be measured against.",
        told("Traces of heads", tuple(panels)),
        (View((), tuple(panels)),),
    )


@figure_of(LadderReading)
def heads_at_work(reading: LadderReading) -> Drawing | None:
    """Slope, spread and explained share of the scores of every head on the documents, mean over them."""
    panels = []
    for name, title in WORK:
        if name not in reading.dataset:
            continue
        found = reading.dataset[name].sel(condition="trained").mean("document").transpose("layer", "head")
        values = np.asarray(found.values, dtype=np.float64)
        if not np.isfinite(values).any():
            continue
        kept = [place for place in range(len(values)) if np.isfinite(values[place]).any()]
        layers = tuple(float(reading.layers[place]) for place in kept)
        reach = float(np.nanmax(np.abs(values)))
        limits = {"score_slope": (-reach, reach), "score_spread": (0.0, reach)}.get(name, (0.0, 1.0))
        panels.append(_tiles(reading, values[kept], title, reading.attribute(name, "symbol"), limits=limits, x=layers))
    if not panels:
        return None
    return Drawing(
        "heads_at_work",
        "Heads at work on the documents",
        "On the states of the decoder itself, before each block. In the idealization scores are β times overlaps: the "
        "slope is β, the spread β times the spread of overlaps, and overlaps explain everything. On the axis along "
        "which a head attracts most, 1 means that all tokens stand at two opposed points, 0.64 a normal cloud.",
        told("Heads at work", tuple(panels)),
        (View((), tuple(panels)),),
    )


def _tiles(
    reading: LadderReading,
    values: Numbers,
    title: str,
    name: str,
    *,
    limits: tuple[float, float],
    x: tuple[float, ...] | None = None,
) -> Panel:
    blocks = x or tuple(float(block) for block in reading.dataset["block"].values)
    heads = tuple(float(head) for head in range(values.shape[1]))
    rows = tuple(tuple(row) for row in values.T.tolist())
    return Panel(title, Axis("block"), Axis("head"), (), tiles=Tiles(name, blocks, heads, rows, limits))


def _words(source: str) -> str:
    return SOURCES.get(source, f"fresh ({source.split('-')[1]})" if source.startswith("initial-") else source)
