"""How much of the direction that the tokens of a document share is common to all documents."""

from __future__ import annotations

import math

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, View
from armillary.figures.reading import DEFAULT_TOKENS, Numbers, Reading
from armillary.figures.registry import figure

__all__ = ["across_documents", "common_direction"]


@figure
def common_direction(reading: Reading) -> Drawing | None:
    """Overlap of mean directions between documents, beside their squared length within a document."""
    found = {name: across_documents(reading, name) for name in reading.conditions}
    drawn = {name: value for name, value in found.items() if value is not None}
    if not drawn:
        return None
    panels = []
    for title, note, label, place in (
        ("overlap of mean directions", "between documents", "mean of m · m′", 0),
        ("share common to all documents", "between over within", "mean of m · m′ / mean of |m|²", 1),
    ):
        curves = tuple(
            Curve(reading.label(name), tuple(reading.layers), tuple(value[place].tolist()), style=reading.style(name))
            for name, value in drawn.items()
        )
        rules = (Rule("the same direction in every document", y=1.0),) if place else ()
        panels.append(Panel(title, reading.depth_axis(), Axis(label), curves, rules, note))
    return Drawing(
        "common_direction",
        "Is it one direction for all documents?",
        "The mean direction m of a document is the mean of its normalized rows, first token left out. Left: its inner "
        "product with the mean direction m′ of another document, averaged over all pairs of documents. Right: the same "
        "over the mean of |m|², which stands in the alignment figure: 1 if every document has the same mean "
        "direction, 0 if their mean directions have nothing in common. The record keeps the mean over documents only, "
        "so these curves have no interval.",
        told("Mean directions of documents against one another", tuple(panels)),
        (View((), tuple(panels)),),
    )


def across_documents(reading: Reading, condition: str) -> tuple[Numbers, Numbers] | None:
    """Mean of m · m' over pairs of different documents at each layer, and its share of the mean of |m|^2.

    From M, the stored mean of m over n documents, and S, the mean of |m|^2: (n |M|^2 - S) / (n - 1). With one document,
    or where S was not measured or is not defined for every document, there is nothing.

    Args:
        reading: the record's reading.
        condition: its name.

    Returns:
        Two arrays, one number a layer, NaN where undefined.
    """
    where = {"condition": condition, "tap": "block", "tokens": DEFAULT_TOKENS, "preparation": "normalize"}
    squared = reading.values("squared_mean_direction", **where)
    if "mean_direction" not in reading.dataset or squared is None or len(squared) < 2:
        return None
    stored = reading.dataset["mean_direction"].sel(condition=condition).transpose("layer", "coordinate").values
    number, within = len(squared), squared.mean(axis=0)
    between = (number * np.sum(np.asarray(stored, dtype=np.float64) ** 2, axis=-1) - within) / (number - 1)
    if not np.isfinite(between).any():
        return None
    return between, between / np.where(within > 0, within, math.nan)
