"""Figures against depth: order parameter, alignment, ranks, paired differences, and whatever else was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Reading, curve_of
from armillary.figures.registry import figure
from armillary.terms import (
    PREPARATIONS,
    RANKS,
    isotropic_words,
    measurement_name,
    measurement_words,
    preparation_words,
)

__all__ = [
    "alignment",
    "contrasts",
    "depth_panels",
    "order_parameter",
    "other_measurements",
    "plain_drawing",
    "rank_family",
    "ranks",
]

SHADED = "Shaded: document-bootstrap intervals."
ISOTROPIC = "Dotted: an isotropic cloud of the same size."
COUNTED = (*RANKS, "cluster_count")  # positive, and over decades
TAKEN = "First token left out; stream after each block."

Wanted = tuple[str, str, str, str]
"""Measurement, preparation, axis label, scale."""

ORDER: tuple[Wanted, ...] = (
    ("clustering_order_parameter", "center, normalize", "sum of squared group shares", "log"),
    ("cluster_count", "center, normalize", "groups", "log"),
    ("exponential_overlap", "normalize", "mean of exp β(c − 1)", "linear"),
)
ALIGNMENT: tuple[Wanted, ...] = (
    ("mean_overlap", "normalize", "mean overlap", "linear"),
    ("squared_mean_direction", "normalize", "squared mean direction", "linear"),
)
PARTICIPATION: tuple[Wanted, ...] = (
    ("participation_rank", "normalize", "participation rank", "log"),
    ("participation_rank", "center, normalize", "participation rank, centered", "log"),
    ("algebraic_rank", "normalize", "algebraic rank", "linear"),
)
DRAWN = (
    {(name, preparation) for name, preparation, *_ in (*ORDER, *ALIGNMENT, *PARTICIPATION)}
    | {(name, preparation) for name in RANKS for preparation in ("normalize", "center, normalize")}
    | {(name, preparation) for name in ("mean_overlap", "participation_rank") for preparation in PREPARATIONS}
) - {
    ("participation_rank", "center"),
    ("participation_rank", "normalize, center"),
    ("mean_overlap", "normalize, center"),
}
"""Measurements that have a figure of their own; `other_measurements` draws the rest."""


@figure
def order_parameter(reading: Reading) -> Drawing | None:
    """The clustering order parameter, the number of groups and the threshold-free mean against depth."""
    beta = reading.attribute("exponential_overlap", "beta", "as recorded").removesuffix(".0")
    declared = f"Grouping: {reading.grouping}; rows centered over the tokens of a document, then normalized."
    return plain_drawing(
        "order_parameter",
        "Groups of token directions against depth",
        depth_panels(reading, *ORDER),
        {
            "clustering_order_parameter": "The clustering order parameter is the sum of squared group shares, on a "
            f"logarithmic axis: 1 is a single group, 1/T is all T tokens apart. {declared}",
            "cluster_count": "" if "clustering_order_parameter" in reading.dataset else declared,
            "exponential_overlap": f"The mean of exp β(c − 1) over pairs of normalized rows, with β = {beta}, needs no "
            "threshold.",
        },
        f"{TAKEN} {ISOTROPIC} {SHADED}",
        columns=3,
    )


@figure
def alignment(reading: Reading) -> Drawing | None:
    """Mean overlap and squared mean direction against depth."""
    return plain_drawing(
        "alignment",
        "Alignment of token directions against depth",
        depth_panels(reading, *ALIGNMENT),
        {
            "mean_overlap": "Mean overlap c over all unordered pairs of different tokens of a document, self-pairs "
            "left out.",
            "squared_mean_direction": "The squared mean direction is the squared length of the average unit row, and "
            "counts self-pairs.",
        },
        f"Rows normalized, not centered. {TAKEN} {ISOTROPIC} {SHADED}",
    )


@figure
def ranks(reading: Reading) -> Drawing | None:
    """Participation rank, uncentered and centered, and algebraic rank against depth with their references."""
    return plain_drawing(
        "ranks",
        "Ranks against depth",
        depth_panels(reading, *PARTICIPATION),
        {
            "participation_rank": "The participation rank is (Σλ)²/Σλ²; the λ are the squared singular values.",
            "algebraic_rank": "The algebraic rank counts singular values above its recorded tolerance.",
        },
        f"{TAKEN} Dotted: the ceiling, which is the largest value that this many tokens and coordinates allow, and an "
        f"isotropic cloud of the same size. {SHADED}",
        columns=3,
    )


@figure
def rank_family(reading: Reading) -> Drawing | None:
    """Every rank by its own name against depth, one condition at a time."""
    views = []
    for condition in reading.conditions:
        panels = (_family(reading, condition, preparation) for preparation in ("normalize", "center, normalize"))
        shown = tuple(panel for panel in panels if len({curve.name for curve in panel.curves}) > 1)
        if shown:
            views.append(View((reading.label(condition),), shown))
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    marked = any(curve.shape == "mark" for view in views for panel in view.panels for curve in panel.curves)
    return Drawing(
        "rank_family",
        "Numbers that are all called a rank",
        "One spectrum and several summaries of it, each under its own name. They do not agree, and none may stand in "
        f"for another. {TAKEN} "
        + "Open markers at the right: the same numbers for an isotropic cloud of the same size. " * marked
        + SHADED,
        told(f"Rank-like numbers; {options[0]}", views[0].panels),
        tuple(views),
        (Control("condition", options, "choice", options[0]),),
    )


def _family(reading: Reading, condition: str, preparation: str) -> Panel:
    where = {"condition": condition, "tap": "block", "tokens": DEFAULT_TOKENS, "preparation": preparation}
    curves, marks = [], []
    axis = reading.depth_axis()
    beside = max(reading.layers) + max(0.12 * (max(reading.layers) - min(reading.layers)), 0.5)
    for name, style in zip(RANKS, SERIES, strict=False):
        curve = reading.curve(measurement_words(name), style, name, **where)
        isotropic = reading.isotropic(name, preparation)
        if curve is not None:
            curves.append(curve)
            if math.isfinite(isotropic):
                marks.append(Curve(curve.name, (beside,), (isotropic,), style=style, shape="mark"))
    if marks:
        axis = Axis(axis.label, ticks=(*axis.ticks, (beside, "cloud")))
    note = preparation_words(preparation)
    return Panel("rank-like numbers", axis, Axis("value", "log"), (*curves, *marks), note=note)


@figure
def contrasts(reading: Reading) -> Drawing | None:
    """Trained minus every other condition, paired by document, against depth."""
    others = tuple(name for name in reading.conditions if name != "trained")
    if "trained" not in reading.conditions or not others:
        return None
    panels = []
    for name, preparation in (
        ("mean_overlap", "normalize"),
        ("participation_rank", "center, normalize"),
        ("clustering_order_parameter", "center, normalize"),
    ):
        where = {"tap": "block", "tokens": DEFAULT_TOKENS, "preparation": preparation}
        curves = (
            curve_of(
                reading.contrast(name, "trained", other, **where),
                f"trained minus {reading.label(other)}",
                reading.style(other),
            )
            for other in others
        )
        shown = tuple(curve for curve in curves if curve is not None)
        if shown:
            zero = (Rule("no difference", y=0.0),)
            axes = reading.depth_axis(), Axis("difference")
            panels.append(Panel(measurement_words(name), *axes, shown, zero, preparation_words(preparation)))
    return plain_drawing(
        "contrasts",
        "Trained minus each other condition, paired by document",
        tuple(panels),
        {},
        "Differences are taken within a document and then averaged; the interval resamples documents. Where the shaded "
        "interval leaves zero out, the sign holds over documents like these. It says nothing about other seeds or "
        "other texts.",
        columns=3,
    )


@figure
def other_measurements(reading: Reading) -> Drawing | None:
    """Every further measurement of the stream after each block that has no figure of its own."""
    wanted = (measurement_name(str(text)) for text in reading.study.get("measurements", ()))
    rest = [
        (name, preparation, measurement_words(name), "log" if name in COUNTED else "linear")
        for name, preparation in wanted
        if (name, preparation) not in DRAWN
    ]
    return plain_drawing(
        "other_measurements",
        "Further measurements against depth",
        depth_panels(reading, *rest),
        {},
        f"What else was measured, each with its preparation; its definition stands at the end of the page. {TAKEN} "
        f"Dotted: an isotropic cloud of the same size, where it is known. {SHADED}",
        columns=3,
    )


def depth_panels(reading: Reading, *wanted: Wanted) -> tuple[Panel, ...]:
    """One panel against depth for each measurement that the record has, with all conditions and the references.

    Args:
        reading: the record's reading.
        wanted: (measurement, preparation, axis label, "linear" or "log") each.
    """
    panels = []
    for name, preparation, label, scale in wanted:
        curves = reading.by_condition(name, tap="block", tokens=DEFAULT_TOKENS, preparation=preparation)
        if curves:
            axis = Axis(label, "log" if scale == "log" else "linear")
            rules = _references(reading, name, preparation)
            titles = measurement_words(name), preparation_words(preparation)
            panels.append(Panel(titles[0], reading.depth_axis(), axis, curves, rules, titles[1]))
    return tuple(panels)


def _references(reading: Reading, name: str, preparation: str) -> tuple[Rule, ...]:
    """Ceiling of a rank, and what an isotropic cloud of the same size gives, where the record has them."""
    ceiling, isotropic = reading.ceiling(preparation), reading.isotropic(name, preparation)
    rules = [Rule(f"ceiling {ceiling:.4g}", y=ceiling)] if name in RANKS and math.isfinite(ceiling) else []
    if math.isfinite(isotropic) and isotropic not in (rule.y for rule in rules):
        rules.append(Rule(f"isotropic cloud {isotropic_words(isotropic)}", y=isotropic))
    return tuple(rules)


def plain_drawing(
    name: str,
    title: str,
    panels: tuple[Panel, ...],
    sentences: Mapping[str, str],
    closing: str,
    *,
    columns: int = 2,
) -> Drawing | None:
    """A drawing without controls; its caption names what it shows and its alt text is told from the curves.

    Args:
        name: file name and anchor.
        title: a short noun phrase.
        panels: what the record has; None is returned where that is nothing.
        sentences: for a measurement, what the caption says of it if a panel shows it.
        closing: the end of the caption.
        columns: panels in a row.
    """
    if not panels:
        return None
    shown = {panel.title for panel in panels}
    said = [text for measurement, text in sentences.items() if text and measurement_words(measurement) in shown]
    return Drawing(name, title, " ".join([*said, closing]), told(title, panels), (View((), panels),), columns=columns)
