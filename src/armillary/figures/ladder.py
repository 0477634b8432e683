"""Figures of the ladder: order parameters of every rung against depth, the budget of each sublayer, and paths."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.palette import SERIES
from armillary.figures.reading import Numbers, curve_of
from armillary.figures.registry import figure_of

__all__ = ["budget_bars", "budget_sums", "ladder", "paths", "projections", "token_paths"]

COURSES = (
    ("mean_overlap", "normalize", "mean overlap", "mean overlap", "linear"),
    (
        "mean_overlap",
        "without rogue coordinates, normalize",
        "mean overlap without rogue coordinates",
        "mean overlap",
        "linear",
    ),
    ("clustering_order_parameter", "center, normalize", "order parameter", "sum of squared group shares", "log"),
    ("participation_rank", "normalize", "participation rank", "participation rank", "log"),
    ("participation_rank", "center, normalize", "participation rank, centered", "participation rank", "log"),
)
"""Measurement, preparation, title, axis label and scale of the panels of the ladder."""

BARS = (
    ("mean_overlap", "normalize", "without_first", "mean overlap"),
    ("mean_overlap", "without rogue coordinates, normalize", "without_first", "mean overlap without rogue coordinates"),
    ("squared_mean_direction", "normalize", "without_first", "squared mean direction"),
    ("participation_rank", "center, normalize", "without_first", "participation rank, centered"),
)
ATTENTION = Style("#009E73", "solid", "circle", 1.8)
MLP = Style("#0072B2", "dash", "square", 1.8)
NORM = Style("#D55E00", "dot", "diamond", 1.2)
PARTS = (("attention", "attention", ATTENTION), ("mlp", "MLP", MLP))
BUDGETED = ("trained", "trained-qkvo-mlp", "trained-qkvo-gaussian-mlp", "identity-mlp", "gaussian-all")
SHADED = "Shaded: document-bootstrap intervals."
FOLLOWED_RUNGS = (
    "trained", "shuffled", "ablated-mlp", "ablated-attention", "initial-released-seed0", "initial-library-seed0",
)  # fmt: skip
STEPS = (
    ("update_angle", "angle of attention's step", "radians", "mid"),
    ("update_angle", "angle of the MLP's step", "radians", "block"),
    ("update_radial", "radial part of the MLP's step", "u.x / |x|²", "block"),
    ("path_length", "angle turned since the embedding", "radians", ""),
    ("path_straightness", "straightness of the path", "angle across / angle turned", ""),
    ("neighbor_overlap_to_previous", "neighbors kept from the layer before", "share of 10", ""),
    ("neighbor_overlap_to_embedding", "neighbors kept from the embedding", "share of 10", ""),
    ("groups_born", "groups born", "groups", ""),
    ("groups_merged", "mergers of groups", "events", ""),
    ("groups_lost", "groups lost", "groups", ""),
    ("group_persisting_share", "tokens that stay with their group", "share of tokens", ""),
)
"""Variable, title, axis label and tap of the panels of the paths; no tap where a number is of a whole layer."""

FOLLOWED = 6
"""Tokens that are followed through depth."""

CLOUDS = (
    Style("#9a9a9a", "solid", "circle", 0.7),
    Style("#56B4E9", "solid", "square", 0.7),
    Style("#D55E00", "solid", "x", 0.7),
)


@figure_of(LadderReading)
def ladder(reading: LadderReading) -> Drawing | None:
    """Order parameters against depth, one curve a rung, one view a group of rungs."""
    views = []
    for words, names in reading.groups:
        panels = tuple(panel for wanted in COURSES if (panel := _course(reading, names, *wanted)) is not None)
        if panels:
            views.append(View((words,), panels))
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    return Drawing(
        "ladder",
        "The ladder, from identity matrices to the decoder",
        "Every rung reads the same documents. Rungs built from matrices move the decoder's own embedding directions on "
        "the unit sphere; the decoder and its ablations move as they do. First token left out; groups: "
        f"{reading.study['grouping']}, rows centered. Dotted rules: an isotropic cloud of the same size. {SHADED}",
        told(f"The ladder; {options[0]}", views[0].panels),
        tuple(views),
        (Control("rungs", options, "choice", options[0]),),
        columns=2,
    )


def _course(
    reading: LadderReading, names: tuple[str, ...], measurement: str, preparation: str, title: str, label: str,
    scale: str,
) -> Panel | None:  # fmt: skip
    where = {"tap": "block", "tokens": "without_first", "preparation": preparation}
    curves = _curves(reading, names, names, measurement, **where)
    if not curves:
        return None
    if preparation == "normalize" and any(name.startswith("initial") for name in names):
        curves += reading.predicted(measurement)
    isotropic = reading.isotropic("participation_rank", preparation) if measurement == "participation_rank" else 0.0
    known = measurement in ("participation_rank", "mean_overlap")
    rules = (Rule(f"isotropic cloud {isotropic:.3g}", y=isotropic),) if known else ()
    return Panel(title, reading.depth_axis(), Axis(label, "log" if scale == "log" else "linear"), curves, rules)


@figure_of(LadderReading)
def budget_bars(reading: LadderReading) -> Drawing | None:
    """Shares of attention and MLP at every block."""
    views = [
        View((reading.short(name),), panels)
        for name in reading.conditions
        if name in BUDGETED and (panels := _bars(reading, name))
    ]
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    return Drawing(
        "budget_bars",
        "The clustering budget: what each sublayer adds to a number",
        "The share of a sublayer is the number after it minus the number before it; all shares add up to the change "
        "from the embedding to the last block. Above zero overlap rises. Norm: the number of what the MLP reads minus "
        "that of the stream, which is no step of the stream and is not part of the sum. First token left out. "
        f"{SHADED}",
        told(f"The clustering budget; {options[0]}", views[0].panels),
        tuple(views),
        (Control("rung", options, "choice", options[0]),),
        columns=2,
    )


def _bars(reading: LadderReading, name: str) -> tuple[Panel, ...]:
    panels = []
    for measurement, preparation, tokens, title in BARS:
        budget = reading.budget(name, measurement, preparation, tokens)
        if budget is None:
            continue
        x = tuple(float(layer) for layer in budget.layers)
        curves = []
        for part, words, style in PARTS:
            found = budget.by_layer(part) if len(budget.shares[part]) > 1 else None
            value = budget.shares[part].mean(axis=0) if found is None else found.value
            low, high = ((), ()) if found is None else (tuple(found.low.tolist()), tuple(found.high.tolist()))
            curves.append(Curve(words, x, tuple(value.tolist()), low, high, style))
        read = budget.read["mlp"].mean(axis=0)
        if np.isfinite(read).any():
            curves.append(Curve("norm before the MLP", x, tuple(read.tolist()), style=NORM))
        zero = (Rule("no change", y=0.0),)
        panels.append(Panel(title, Axis("block"), Axis("share"), tuple(curves), zero))
    return tuple(panels)


@figure_of(LadderReading)
def budget_sums(reading: LadderReading) -> Drawing | None:
    """Shares of attention and MLP summed up to each block, beside the number itself."""
    panels = []
    for measurement, preparation, tokens, title in BARS[:2]:
        budget = reading.budget("trained", measurement, preparation, tokens)
        if budget is None:
            continue
        x = (0.0, *(float(layer) for layer in budget.layers))
        curves, total = [], np.zeros(len(budget.layers) + 1)
        for part, words, style in PARTS:
            summed = np.concatenate([[0.0], np.cumsum(budget.shares[part].mean(axis=0))])
            total += summed
            curves.append(Curve(words, x, tuple(summed.tolist()), style=style))
        curves.append(Curve("both", x, tuple(total.tolist()), style=Style("#1b1b1b", "solid", "none", 2.2)))
        panels.append(Panel(title, Axis("block"), Axis("share summed from block 1"), tuple(curves), (Rule("", y=0.0),)))
    if not panels:
        return None
    shown = tuple(panels)
    return Drawing(
        "budget_sums",
        "The budget summed through depth",
        "What attention and the MLPs of the decoder have added to mean overlap up to each block; both together are "
        "where the stream stands, less where it began. First token left out; means over documents.",
        told("The budget summed through depth", shown),
        (View((), shown),),
    )


@figure_of(LadderReading)
def paths(reading: LadderReading) -> Drawing | None:
    """How far tokens turn through depth, and how straight their paths are."""
    names = tuple(name for name in FOLLOWED_RUNGS if name in reading.conditions)
    panels = []
    for variable, title, label, tap in STEPS:
        where = {"tap": tap, "tokens": "without_first"} if tap else {}
        shown_here = tuple(name for name in names if variable != "update_radial" or not name.startswith("ablated"))
        curves = _curves(reading, shown_here, names, variable, **where)
        if curves:
            panels.append(Panel(title, reading.depth_axis(), Axis(label), curves))
    if not panels:
        return None
    shown = tuple(panels)
    return Drawing(
        "paths",
        "Representation drift: how far and how straight tokens go",
        "Angles by which a sublayer turns a token, the angle turned since the embedding, and its share that is left "
        "between embedding and here: 1 on a great circle. Mean over tokens without the first. Groups: "
        f"{reading.study['grouping']}, rows centered; each number speaks of the step from the layer before. {SHADED}",
        told("Representation drift", shown),
        (View((), shown),),
        columns=3,
    )


@figure_of(LadderReading)
def token_paths(reading: LadderReading) -> Drawing | None:
    """A few tokens of the first document followed through depth, in the plane where its states spread most."""
    if "token_path" not in reading.dataset:
        return None
    first = reading.dataset["token_path"].isel(document=0).transpose("layer", "position", "path_axis")
    points = np.asarray(first.values, dtype=np.float64)
    tokens = points.shape[1]
    words = list((reading.provenance.get("first_document") or {}).get("tokens") or [])
    chosen = sorted({round(1 + k * (tokens - 2) / (FOLLOWED - 1)) for k in range(FOLLOWED)})
    at = (0, len(points) // 2, len(points) - 1)
    curves = [
        Curve(f"all tokens, layer {reading.layers[place]}", *_plane(points[place]), style=look, shape="points")
        for place, look in zip(at, CLOUDS, strict=True)
    ]
    for place, look in zip(chosen, SERIES[1:], strict=False):
        text = (
            "".join(c for c in words[place].strip() if c.isprintable() and c not in "$\ufffd")
            if place < len(words)
            else ""
        )
        name = f"token {place}" + (f", “{text}”" if text else "")
        curves.append(Curve(name, *_plane(points[:, place]), style=Style(look.color, look.dash, look.marker, 1.2)))
    title = f"{reading.documents[0]}"
    panel = Panel(title, Axis("first principal direction"), Axis("second principal direction"), tuple(curves))
    return Drawing(
        "token_paths",
        "Tokens of one document followed through depth",
        "Unit rows of the decoder as loaded at all layers, along the two directions in which they spread most over all "
        "layers together: paths of a few tokens, and the whole document at the first, a middle and the last layer. "
        "Most of what happens lies outside of any plane; distances here are lower bounds.",
        told("Paths of tokens in a plane", (panel,)),
        (View((), (panel,)),),
        columns=1,
        height=0.8,
    )


@figure_of(LadderReading)
def projections(reading: LadderReading) -> Drawing | None:
    """Numbers of the decoder's states on k directions, over their value on all."""
    panels = []
    for name, title in (
        ("projected_mean_overlap", "mean overlap"),
        ("projected_participation_rank", "participation rank, centered"),
    ):
        if name not in reading.dataset:
            continue
        data = reading.dataset[name]
        for kind in reading.options("projection"):
            curves = []
            for layer, look in zip(_projected_layers(reading, name), SERIES, strict=False):
                values = np.asarray(
                    data.sel(layer=layer, projection=kind).transpose("document", "directions").values, dtype=np.float64
                )
                kept = tuple(float(one) for one in data["directions"].values)
                words = "embedding" if layer == 0 else f"block {layer}"
                curve = curve_of(reading.summary(values, kept), words, look)
                if curve is not None:
                    curves.append(curve)
            if curves:
                axis = Axis("directions kept", "log")
                panels.append(Panel(f"{title}, {kind} directions", axis, Axis(title), tuple(curves)))
    if not panels:
        return None
    shown = tuple(panels)
    return Drawing(
        "projections",
        "How many directions the numbers need",
        "States of the decoder as loaded, first token left out, projected on k principal directions of each document "
        "or on k random ones; at the right end all directions are kept and the number is the decoder's own. "
        f"{SHADED}",
        told("Numbers of projected states", shown),
        (View((), shown),),
    )


def _curves(
    reading: LadderReading, rungs: tuple[str, ...], among: tuple[str, ...], variable: str, **where: str
) -> tuple[Curve, ...]:
    """One curve a rung that has the number, in the look it has among others."""
    found = (
        reading.curve(reading.short(name), reading.look(name, among), variable, condition=name, **where)
        for name in rungs
    )
    return tuple(curve for curve in found if curve is not None)


def _projected_layers(reading: LadderReading, name: str) -> list[int]:
    values = np.asarray(reading.dataset[name].transpose("layer", ...).values, dtype=np.float64)
    return [layer for layer, one in zip(reading.layers, values, strict=True) if np.isfinite(one).any()]


def _plane(points: Numbers) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Rows of two numbers as the positions of a curve."""
    return tuple(points[:, 0].tolist()), tuple(points[:, 1].tolist())
