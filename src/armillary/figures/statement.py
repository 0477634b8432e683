"""The figure of the statement: each reported number before and after a change of basis."""

from __future__ import annotations

import re

from armillary.figures.depth import told
from armillary.figures.distributions import layer_words
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import Reading
from armillary.figures.registry import figure
from armillary.figures.terms import measurement_words, preparation_words

__all__ = ["change_of_basis"]

UNTOUCHED = "none"
MOST = 8  # panels
MAIN = (
    "mean_overlap | normalize",
    "squared_mean_direction | normalize",
    "clustering_order_parameter | center, normalize",
    "participation_rank | normalize",
    "participation_rank | center, normalize",
    "algebraic_rank | normalize",
)


@figure
def change_of_basis(reading: Reading) -> Drawing | None:
    """Value of each measurement under no map, an orthogonal map, a general linear map and the next norm's gain."""
    if "statement_value" not in reading.dataset:
        return None
    layers = tuple(int(layer) for layer in reading.dataset["statement_layer"].values)
    views = tuple(View((layer_words(layer),), _panels(reading, layer)) for layer in layers)
    if not any(panel.drawn for view in views for panel in view.panels):
        return None
    options = tuple(view.choice[0] for view in views)
    start = options[(len(options) - 1) // 2]
    return Drawing(
        "change_of_basis",
        "Reported numbers under a change of basis",
        "The stored states of the trained stream, mapped and measured again; bars are document-bootstrap intervals. "
        "What does not move under the orthogonal map but moves under the other two depends on the metric, and the "
        "gain of the next norm is a metric the architecture itself admits.",
        told(f"Numbers before and after a change of basis, at {start}", views[options.index(start)].panels),
        views,
        (Control("layer", options, "slider" if len(options) > 6 else "choice", start),),
        columns=2,
        height=0.34,
    )


def _shown(names: tuple[str, ...]) -> tuple[str, ...]:
    """All of a few measurements, or of many the ones a reader meets first."""
    if len(names) <= MOST:
        return names
    main = tuple(name for wanted in MAIN for name in names if re.sub(r"\(.*?\) \|", " |", name) == wanted)
    return main or names[:MOST]


def _panels(reading: Reading, layer: int) -> tuple[Panel, ...]:
    transformations = reading.options("transformation")
    panels = []
    for name in _shown(reading.options("statement_measurement")):
        curves = []
        for transformation, style in zip(transformations, SERIES, strict=False):
            where = {"transformation": transformation, "statement_layer": layer}
            band = reading.band("statement_value", "statement_measurement", **where)
            value, low, high, members = (0.0, 0.0, 0.0, 0) if band is None else band.at(name)
            if members:
                words = "unmapped" if transformation == UNTOUCHED else transformation
                curves.append(Curve(words, (value,), (words,), (low,), (high,), style, "dots"))
        if curves:
            measurement, _, preparation = name.partition(" | ")
            note = preparation_words(preparation) if preparation else ""
            panels.append(Panel(measurement_words(measurement), Axis(""), Axis("", "names"), tuple(curves), note=note))
    return tuple(panels)
