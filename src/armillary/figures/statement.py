"""The figure of the statement: each reported number before and after a change of basis."""

from __future__ import annotations

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import Reading
from armillary.figures.registry import figure
from armillary.terms import layer_words, measurement_name, measurement_words, preparation_words

__all__ = ["change_of_basis"]

UNTOUCHED = "none"
MOST = 8  # panels
MAIN = (
    ("mean_overlap", "normalize"),
    ("squared_mean_direction", "normalize"),
    ("clustering_order_parameter", "center, normalize"),
    ("participation_rank", "normalize"),
    ("participation_rank", "center, normalize"),
    ("algebraic_rank", "normalize"),
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
        f"The states of one condition ({reading.mapped_condition}), mapped and measured again. Bars are "
        "document-bootstrap intervals; they say how large a number is over documents like these, while the paired "
        "differences in the table say what a map changed. What stays under the orthogonal map and moves under the "
        "other two depends on the metric, and the gain of the next norm is a metric that the architecture itself "
        "admits.",
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
    main = tuple(name for wanted in MAIN for name in names if measurement_name(name) == wanted)
    return main or names[:MOST]


def _panels(reading: Reading, layer: int) -> tuple[Panel, ...]:
    transformations = reading.options("transformation")
    panels = []
    for name in _shown(reading.options("statement_measurement")):
        curves = []
        for transformation, style in zip(transformations, SERIES, strict=False):
            where = {"transformation": transformation, "statement_layer": layer}
            profile = reading.profile("statement_value", "statement_measurement", **where)
            value, low, high, members = (0.0, 0.0, 0.0, 0) if profile is None else profile.at(name)
            if members:
                words = "unmapped" if transformation == UNTOUCHED else transformation
                curves.append(Curve(words, (value,), (words,), (low,), (high,), style, "dots"))
        if curves:
            measurement, preparation = measurement_name(name)
            note = preparation_words(preparation) if preparation else ""
            panels.append(Panel(measurement_words(measurement), Axis(""), Axis("", "names"), tuple(curves), note=note))
    return tuple(panels)
