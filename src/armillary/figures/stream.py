"""Figures of the residual stream: norms, sublayer updates, and the loss."""

from __future__ import annotations

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, View
from armillary.figures.reading import DEFAULT_TOKENS, Reading
from armillary.figures.registry import figure

__all__ = ["loss", "norms", "room_for", "updates"]

UPDATES = (
    ("update_radial", "radial part", "radial part / length before", "linear"),
    ("update_tangential", "tangential part", "tangential part / length before", "log"),
    ("update_angle", "angle turned", "angle, radians", "linear"),
)


@figure
def norms(reading: Reading) -> Drawing | None:
    """Length of the stream through depth: mean, spread, median and first token."""
    panels = []
    for name, label, tokens in (
        ("stream_norm_mean", "mean over tokens", DEFAULT_TOKENS),
        ("stream_norm_spread", "spread over tokens", DEFAULT_TOKENS),
        ("stream_norm_median", "median over tokens", DEFAULT_TOKENS),
        ("stream_norm_first", "first token", "all"),
    ):
        curves = reading.by_condition(name, tap="block", tokens=tokens, preparation="as given")
        if curves:
            panels.append(
                Panel(label, reading.depth_axis(), Axis(reading.attribute(name, "symbol", "length"), "log"), curves)
            )
    if not panels:
        return None
    spread = reading.attribute("stream_norm_spread", "definition", "as recorded")
    return Drawing(
        "norms",
        "Length of the residual stream against depth",
        "Euclidean length |x| of the un-normalized stream after each block, in the model's own units, on a "
        "logarithmic axis. Mean, spread and median are over the tokens of a document without the first; the last "
        f"panel is the first token alone. Spread: {spread.rstrip('.')}. If the stream stayed on a sphere, every length "
        "would keep its value from layer to layer and the spread would be zero. Shaded: document-bootstrap "
        "intervals; one that leaves a panel is cut.",
        told("Length of the residual stream", tuple(panels)),
        (View((), tuple(panels)),),
        columns=2,
        height=0.5,
    )


@figure
def updates(reading: Reading) -> Drawing | None:
    """Radial and tangential part of each sublayer's update, and the angle it turns the stream by."""
    panels = []
    middle = bool(reading.by_condition(UPDATES[0][0], tap="mid", tokens=DEFAULT_TOKENS))
    for tap, sublayer in (("mid", "attention"), ("block", "MLP" if middle else "attention and MLP")):
        for name, note, label, scale in UPDATES:
            curves = reading.by_condition(name, tap=tap, tokens=DEFAULT_TOKENS)
            if curves:
                limits = room_for(reading, curves) if scale == "linear" else None
                axis = Axis(label, "log", limits=limits) if scale == "log" else Axis(label, limits=limits)
                panels.append(Panel(sublayer, reading.depth_axis(), axis, curves, note=note))
    if not panels:
        return None
    return Drawing(
        "updates",
        "How far each sublayer moves the stream, along itself and across",
        "What a sublayer adds, split into the part along the stream before it (radial, positive outward) and the "
        "part across (tangential, logarithmic axis), both divided by the length before, averaged over tokens. Where "
        "the radial part is not small against the tangential one, the stream does not move along a sphere. First "
        "token left out. Radial and angle panels are scaled to the "
        "decoders with every part in place; an ablated one may leave them. Shaded: document-bootstrap intervals.",
        told("Updates of the residual stream", tuple(panels)),
        (View((), tuple(panels)),),
        columns=3,
    )


@figure
def loss(reading: Reading) -> Drawing | None:
    """Loss of every condition on the measured documents, with its interval."""
    curves = []
    for condition in reading.conditions:
        value, low, high, members = reading.one("loss", condition=condition)
        if members:
            label = reading.label(condition)
            curves.append(Curve(label, (value,), (label,), (low,), (high,), reading.style(condition), "dots"))
    if not curves:
        return None
    panel = Panel("", Axis("nats per token", "log"), Axis("", "names"), tuple(curves))
    told_values = "; ".join(f"{curve.name} {curve.x[0]:.3g}" for curve in curves)
    return Drawing(
        "loss",
        "Loss on these documents, by condition",
        "Next-token cross entropy on the measured documents, logarithmic axis; bars are document-bootstrap "
        "intervals. Nothing shows that the documents lie outside the training data. Where the loss is high, the "
        "decoder no longer predicts text, and its geometry is to be read with that in mind.",
        f"Next-token cross entropy in nats per token, one dot with an interval for each condition: {told_values}.",
        (View((), (panel,)),),
        columns=1,
        height=0.28,
    )


def room_for(reading: Reading, curves: tuple[Curve, ...]) -> tuple[float, float] | None:
    """Limits that hold every whole decoder's curve; a decoder with a part removed may leave them."""
    removed = {reading.label(name) for name in reading.conditions if name.startswith("ablated")}
    whole = tuple(curve for curve in curves if curve.name not in removed) or curves
    return Panel("", Axis(""), Axis(""), whole).reach
