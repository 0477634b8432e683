"""Figures against depth: order parameter, alignment, ranks, and paired differences between conditions."""

from __future__ import annotations

import math

from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Reading
from armillary.figures.registry import figure
from armillary.figures.terms import MEASUREMENTS, RANKS, measurement_words, preparation_words

__all__ = ["alignment", "contrasts", "order_parameter", "rank_family", "ranks"]

BANDS = "Bands are document-bootstrap intervals."


@figure
def order_parameter(reading: Reading) -> Drawing | None:
    """The clustering order parameter, the number of groups and the threshold-free mean against depth."""
    panels = _panels(
        reading,
        ("clustering_order_parameter", "center, normalize", "sum of squared group shares", "linear"),
        ("cluster_count", "center, normalize", "groups", "log"),
        ("exponential_overlap", "normalize", "mean of exp β(c − 1)", "linear"),
    )
    return _drawing(
        "order_parameter",
        "Clustering order parameter against depth",
        panels,
        "Order parameter: the sum of squared group shares; 1 is a single group, 1/T is all tokens apart. Grouping: "
        f"{reading.grouping}. Rows centered over the tokens of a document, then normalized; first token left out. "
        "The third panel needs no threshold: the mean of exp β(c − 1) over pairs of normalized rows, β = "
        f"{reading.attribute('exponential_overlap', 'beta', 'as recorded')}. {BANDS}",
        columns=3,
    )


@figure
def alignment(reading: Reading) -> Drawing | None:
    """Mean overlap and squared mean direction against depth."""
    panels = _panels(
        reading,
        ("mean_overlap", "normalize", "mean overlap", "linear"),
        ("squared_mean_direction", "normalize", "squared mean direction", "linear"),
    )
    return _drawing(
        "alignment",
        "Alignment of token directions against depth",
        panels,
        "Mean overlap c over all unordered pairs of different tokens of a document, self-pairs left out; the "
        "squared mean direction is the squared length of the average unit row and counts self-pairs. Rows "
        f"normalized, not centered; first token left out; stream after each block. {BANDS}",
    )


@figure
def ranks(reading: Reading) -> Drawing | None:
    """Participation rank, uncentered and centered, and algebraic rank against depth with their references."""
    panels = _panels(
        reading,
        ("participation_rank", "normalize", "participation rank", "log"),
        ("participation_rank", "center, normalize", "participation rank, centered", "log"),
        ("algebraic_rank", "normalize", "algebraic rank", "linear"),
    )
    return _drawing(
        "ranks",
        "Participation rank and algebraic rank against depth",
        panels,
        "Participation rank (Σλ)²/Σλ² of the normalized rows, uncentered and after centering over the tokens of a "
        "document; algebraic rank counts singular values above its recorded tolerance. First token left out. "
        "Horizontal rules: the attainable ceiling for this many tokens and coordinates, and an isotropic cloud of "
        f"the same size. {BANDS}",
        columns=3,
    )


@figure
def rank_family(reading: Reading) -> Drawing | None:
    """Every rank by its own name against depth, one condition at a time."""
    views = []
    options = []
    for condition in reading.conditions:
        panels = []
        for preparation in ("normalize", "center, normalize"):
            curves = tuple(
                curve
                for name, style in zip(RANKS, SERIES, strict=False)
                if (
                    curve := reading.curve(
                        measurement_words(name),
                        style,
                        name,
                        condition=condition,
                        tap="block",
                        tokens=DEFAULT_TOKENS,
                        preparation=preparation,
                    )
                )
                is not None
            )
            if curves:
                panels.append(
                    Panel(
                        "rank-like numbers",
                        reading.depth_axis(),
                        Axis("value", "log"),
                        curves,
                        note=preparation_words(preparation),
                    )
                )
        if panels:
            options.append(reading.label(condition))
            views.append(View((reading.label(condition),), tuple(panels)))
    if not views:
        return None
    return Drawing(
        "rank_family",
        "Six numbers that are all called a rank",
        "One spectrum, six summaries, each under its own name; they do not agree and are not interchangeable. First "
        f"token left out; stream after each block. {BANDS}",
        told(f"Rank-like numbers; {options[0]}", views[0].panels),
        tuple(views),
        (Control("condition", tuple(options), "choice", options[0]),),
    )


@figure
def contrasts(reading: Reading) -> Drawing | None:
    """Trained minus every other condition, paired by document, against depth."""
    if "trained" not in reading.conditions or len(reading.conditions) < 2:
        return None
    panels = []
    for name, preparation in (
        ("mean_overlap", "normalize"),
        ("participation_rank", "center, normalize"),
        ("clustering_order_parameter", "center, normalize"),
    ):
        curves = []
        for condition in reading.conditions:
            if condition == "trained":
                continue
            band = reading.contrast(
                name, "trained", condition, tap="block", tokens=DEFAULT_TOKENS, preparation=preparation
            )
            if band is not None:
                curves.append(
                    Curve(
                        f"trained minus {reading.label(condition)}",
                        band.x,
                        tuple(band.value.tolist()),
                        tuple(band.low.tolist()),
                        tuple(band.high.tolist()),
                        reading.style(condition),
                    )
                )
        if curves:
            zero = (Rule("no difference", y=0.0),)
            axis = Axis("difference")
            panels.append(
                Panel(
                    MEASUREMENTS[name], reading.depth_axis(), axis, tuple(curves), zero, preparation_words(preparation)
                )
            )
    return _drawing(
        "contrasts",
        "Trained minus each other condition, paired by document",
        tuple(panels),
        "Differences are taken within a document, then averaged; the interval resamples documents. Where a band "
        "leaves zero out, the sign is the same under resampling of these documents; it says nothing about other "
        "seeds or other texts.",
        columns=3,
    )


def _panels(reading: Reading, *wanted: tuple[str, str, str, str]) -> tuple[Panel, ...]:
    """One panel for each (measurement, preparation, label, scale) that the record has."""
    panels = []
    for name, preparation, label, scale in wanted:
        curves = reading.by_condition(name, tap="block", tokens=DEFAULT_TOKENS, preparation=preparation)
        if curves:
            axis = Axis(label, "log" if scale == "log" else "linear")
            panels.append(
                Panel(
                    measurement_words(name),
                    reading.depth_axis(),
                    axis,
                    curves,
                    _references(reading, name, preparation),
                    preparation_words(preparation),
                )
            )
    return tuple(panels)


def _references(reading: Reading, name: str, preparation: str) -> tuple[Rule, ...]:
    """Ceiling and isotropic value of a rank, where the record has them."""
    if name not in RANKS:
        return ()
    rules = []
    for variable, words in (("reference_ceiling", "ceiling"), ("reference_isotropic", "isotropic cloud")):
        value = reference(reading, variable, name, preparation)
        if math.isfinite(value) and not (variable == "reference_isotropic" and name != "participation_rank"):
            rules.append(Rule(f"{words} {value:.4g}", y=value))
    return tuple(rules)


def reference(reading: Reading, variable: str, measurement: str, preparation: str) -> float:
    """A stored reference value (ceiling or isotropic cloud) at the default token set; NaN where there is none."""
    if variable not in reading.dataset:
        return math.nan
    array = reading.dataset[variable]
    labels = {"tokens": DEFAULT_TOKENS, "preparation": preparation, "measurement": measurement, "rank": measurement}
    for dim in array.dims:
        wanted = labels.get(str(dim))
        if dim not in array.coords or wanted not in array[dim].values:
            return math.nan
        array = array.sel({dim: wanted})
    return float(array)


def _drawing(name: str, title: str, panels: tuple[Panel, ...], caption: str, columns: int = 2) -> Drawing | None:
    """A drawing without controls; its alt text is told from the curves."""
    if not panels:
        return None
    return Drawing(name, title, caption, told(title, panels), (View((), panels),), columns=columns)


def told(title: str, panels: tuple[Panel, ...]) -> str:
    """A description of panels for somebody who cannot see them: where each curve starts, ends and peaks."""
    across = " and ".join(dict.fromkeys(panel.x.label or "value" for panel in panels))
    sentences = [f"{title}. {len(panels)} panel{'s' if len(panels) > 1 else ''}; horizontal axis: {across}."]
    for panel in panels:
        heading = ", ".join(part for part in (panel.title, panel.note) if part) or panel.y.label
        parts = [words for curve in panel.curves if (words := _course(curve, panel.x.label))]
        sentences.append(f"{heading}: " + "; ".join(parts) + ".")
    return " ".join(sentences)


def _course(curve: Curve, across: str) -> str:
    """The course of one curve in words; a row of dots is its value."""
    if curve.shape == "dots":
        return f"{curve.name} {curve.x[0]:.3g}"
    pairs = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isinstance(y, float) and math.isfinite(y)]
    if not pairs:
        return ""
    place, peak = max(pairs, key=lambda pair: pair[1])
    return f"{curve.name} goes from {pairs[0][1]:.3g} to {pairs[-1][1]:.3g}, highest {peak:.3g} at {across} {place}"
