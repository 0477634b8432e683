"""The figure of numbers between layers: each layer set against the one before it, and against the embedding."""

from __future__ import annotations

import json
import math

from armillary.figures.depth import SHADED, plain_drawing
from armillary.figures.drawing import Axis, Drawing, Panel, Rule
from armillary.figures.reading import Reading
from armillary.figures.registry import figure
from armillary.terms import isotropic_words, measurement_words, preparation_words

__all__ = ["between_layers"]

_SAID = {
    "linear_cka": "Linear CKA is 1 where a layer is the other one rotated, moved and scaled, and 0 on average where "
    "they have nothing to do with each other: it is estimated without bias.",
    "neighbor_overlap": "Neighbors kept: the share of each token's {k} nearest tokens of the document that are among "
    "its {k} nearest in the other layer.",
}


@figure
def between_layers(reading: Reading) -> Drawing | None:
    """Every number between a layer and the one before it, and the embedding, against depth."""
    panels: list[Panel] = []
    first: dict[str, str] = {}
    for variable, preparation in _measured(reading):
        curves = reading.by_condition(variable, preparation=preparation)
        if not curves:
            continue
        level = float(reading.attribute(variable, "independent", "nan"))
        rules = (Rule(f"independent clouds {isotropic_words(level)}", y=level),) if math.isfinite(level) else ()
        words = measurement_words(variable)
        panels.append(Panel(words, reading.depth_axis(), Axis("value"), curves, rules, preparation_words(preparation)))
        first.setdefault(variable.rpartition("_to_")[0], variable)
    neighbors = reading.attribute(first.get("neighbor_overlap", ""), "k").removesuffix(".0")
    return plain_drawing(
        "between_layers",
        "How much of a layer is kept in the next, and of the embedding",
        tuple(panels),
        {variable: _SAID.get(name, "").format(k=neighbors) for name, variable in first.items()},
        "Dotted: the average of two clouds that have nothing to do with each other. Stream after each block against "
        "the measured layer before it and against the embedding: the same tokens of the same document, the first left "
        f"out. {SHADED}",
    )


def _measured(reading: Reading) -> list[tuple[str, str]]:
    """Variables between layers, each with every preparation it was measured after."""
    found = []
    for name in map(str, reading.dataset.data_vars):
        if "compared_with" in reading.dataset[name].attrs:
            found += [(name, preparation) for preparation in json.loads(reading.attribute(name, "preparations", "[]"))]
    return found
