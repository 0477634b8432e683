"""Figures of attention: where the heads of each block look, as means against depth and as a map of all heads."""

from __future__ import annotations

import math

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Drawing, Panel, Rule, Tiles, View
from armillary.figures.reading import Reading
from armillary.figures.registry import figure
from armillary.figures.stream import room_for

__all__ = ["attention_depth", "attention_heads"]

DEPTH = (
    ("attention_first_mass", "mass on the first token", "mean mass"),
    ("attention_largest_mass_elsewhere", "largest mass elsewhere", "mean mass"),
    ("attention_sink_mass", "mass on no token", "mean mass"),
    ("attention_relative_entropy", "row entropy over its ceiling", "H / ln i"),
    ("attention_entropy", "row entropy", "nats"),
    ("attention_distance", "distance looked back", "tokens"),
    ("attention_effective_beta", "effective beta", "beta"),
    ("attention_overlap_slope", "slope against overlap", "d ln A / d c"),
    ("attention_antisymmetric_share", "antisymmetric share", "share of squared norm"),
    ("attention_participation_rank", "participation rank of the map", "directions"),
)
"""Number, title and unit, in the order of the panels."""

HEADS = ("attention_first_mass", "attention_relative_entropy", "attention_distance")
ROUNDING = 1e-3
"""Mass on no token below this is what is left of rows that sum to one."""


@figure
def attention_depth(reading: Reading) -> Drawing | None:
    """Every number of attention as the mean over the heads of a block, against depth, for each condition."""
    panels = []
    for name, title, unit in DEPTH:
        curves = reading.by_condition(f"{name}_head_mean")
        if not curves or (name == "attention_sink_mass" and _is_rounding(reading)):
            continue
        axis = Axis(unit)
        rules: tuple[Rule, ...] = ()
        if name == "attention_effective_beta":
            axis = Axis(unit, "log")
        elif name == "attention_overlap_slope":
            axis, rules = Axis(unit, limits=room_for(reading, curves)), (Rule("no preference", y=0.0),)
        panels.append(Panel(title, _blocks(reading), axis, curves, rules))
    if not panels:
        return None
    return Drawing(
        "attention_depth",
        "Where attention goes, mean over the heads of a block, against depth",
        "Each attention map is reduced to numbers inside the pass; shown is their mean over the heads of a block and "
        "over documents, all tokens included, rows 2 to T. Entropy over its ceiling is 1 for a row that spreads evenly "
        "over all it can see. Effective beta: the beta at which softmax(beta c) over the overlaps c of the stream "
        "before the block would be as sharp. Slope against overlap: whether attention prefers tokens that agree "
        "(positive) or not (negative); its panel is scaled to the decoders with every part in place. Both would give "
        "beta for an idealized head. Shaded: document-bootstrap intervals.",
        told("Numbers of attention, mean over heads", tuple(panels)),
        (View((), tuple(panels)),),
        columns=3,
    )


@figure
def attention_heads(reading: Reading) -> Drawing | None:
    """Mass on the first token, entropy and distance of every head, one condition at a time."""
    views, told_of = [], {}
    known = [name for name in reading.conditions if any(_tiles(reading, one, name) for one in HEADS)]
    for condition in known:
        panels = []
        for name in HEADS:
            tiles = _tiles(reading, name, condition)
            if tiles is not None:
                title = next(words for one, words, _ in DEPTH if one == name)
                panels.append(Panel(title, _blocks(reading), _head_axis(tiles), (), tiles=tiles))
        views.append(View((reading.label(condition),), tuple(panels)))
        told_of[condition] = tuple(panels)
    if not views:
        return None
    first = "trained" if "trained" in known else known[0]
    return Drawing(
        "attention_heads",
        "Where each head looks",
        "One tile for each block (across) and head (upward), the mean over documents; the scale of colors is the same "
        "in every condition. Mass on the first token, mean over rows 2 to T; row entropy over its ceiling; distance "
        "looked back in tokens, half the document if a head looks at the first token only. Intervals of every head "
        "stand in the record's table. Head numbers mean nothing across blocks.",
        told(f"Numbers of every head, {reading.label(first)}", told_of[first]),
        tuple(views),
        (Control("condition", tuple(view.choice[0] for view in views), "choice", reading.label(first)),),
        columns=3,
        printed=((reading.label(first),),),
    )


def _blocks(reading: Reading) -> Axis:
    """The axis of blocks: there is no attention at the embedding."""
    axis = reading.depth_axis()
    return Axis("block", ticks=tuple((place, text) for place, text in axis.ticks if place > 0))


def _head_axis(tiles: Tiles) -> Axis:
    step = max(1, math.ceil(len(tiles.y) / 12))
    return Axis("head", ticks=tuple((head, f"{head:g}") for head in tiles.y[::step]))


def _tiles(reading: Reading, name: str, condition: str) -> Tiles | None:
    if name not in reading.dataset:
        return None
    every = reading.dataset[name].mean("document", skipna=True)
    values = every.sel(condition=condition).transpose("head", "layer").sel(layer=every["layer"] > 0).values
    if not np.isfinite(values).any():
        return None
    ends = reading.attainable(name)
    blocks = tuple(float(layer) for layer in reading.layers if layer > 0)
    heads = tuple(float(head) for head in reading.dataset["head"].values)
    rows = tuple(tuple(float(value) for value in row) for row in values)
    unit = next(words for one, _, words in DEPTH if one == name)
    return Tiles(unit, blocks, heads, rows, ends)


def _is_rounding(reading: Reading) -> bool:
    """Whether the rows of this decoder's maps sum to one."""
    return not bool((np.abs(reading.dataset["attention_sink_mass"].values) > ROUNDING).any())
