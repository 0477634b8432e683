"""The figure of a diagnosis: overlap, participation rank, norm and gradient against depth, measured and predicted."""

from __future__ import annotations

from dataclasses import replace

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Drawing, Panel, Rule, View
from armillary.figures.members import DiagnosisReading
from armillary.figures.palette import SERIES
from armillary.figures.registry import figure_of

__all__ = ["initialization_through_depth"]

PANELS = (
    ("mean_overlap", "mean overlap", "c", "linear"),
    ("participation_rank", "participation rank", "R", "log"),
    ("stream_norm_mean", "norm of a row", "|x|", "log"),
    ("gradient_norm", "gradient of the loss", "norm", "log"),
)


@figure_of(DiagnosisReading)
def initialization_through_depth(reading: DiagnosisReading) -> Drawing | None:
    """Every recipe: what was measured as a line with its interval, what was predicted as dots of the same color."""
    recipes = reading.options("recipe")
    panels = []
    for variable, title, label, scale in PANELS:
        curves = []
        for recipe, style in zip(recipes, SERIES * len(recipes), strict=False):
            drawn = reading.reach(recipe, style, variable, "layer", recipe=recipe)
            dotted = replace(style, dash="dot", marker="none", width=1.3)
            predicted = reading.reach(f"{recipe}, predicted", dotted, f"predicted_{variable}", "layer", recipe=recipe)
            curves += [curve for curve in (drawn, predicted) if curve is not None]
        rules = (Rule(name="threshold", y=float(reading.study["threshold"])),) if variable == "mean_overlap" else ()
        axis = Axis(label, "log" if scale == "log" else "linear")
        panel = Panel(title, reading.depth_axis(), axis, tuple(curves), rules)
        panels += [panel] if panel.drawn else []
    if not panels:
        return None
    caption = (
        "Stream after each block of a model that was never trained; rows normalized, all tokens. Dotted: the recursion "
        "of wide random layers on the same token ids, from the size of each matrix alone. The gradient is that of the "
        "next-token loss, summed over a document, with respect to the stream."
    )
    if reading.members > 1:
        caption += f" Shaded: from the lowest to the highest of {reading.members} draws, each with its own weights."
    title = "An initialization through depth"
    return Drawing(
        "initialization_through_depth", title, caption, told(title, tuple(panels)), (View((), tuple(panels)),)
    )
