"""Figures of the residual stream: norms, sublayer updates, token policy, metrics, offsets, and the loss."""

from __future__ import annotations

from collections.abc import Sequence

from armillary.figures.depth import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Reading
from armillary.figures.registry import figure
from armillary.figures.terms import TOKENS, preparation_words

__all__ = ["held_out_loss", "metrics", "norms", "offsets", "token_policy", "updates"]

UPDATES = (
    ("update_radial", "radial part", "radial part / length before", "linear"),
    ("update_tangential", "tangential part", "tangential part / length before", "log"),
    ("update_angle", "angle turned", "angle, radians", "linear"),
)

Wanted = Sequence[tuple[str, dict[str, str]]]


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
        f"panel is the first token alone. Spread: {spread.rstrip('.')}. A state on a sphere would draw horizontal "
        "lines and no spread. Bands are document-bootstrap intervals; one that leaves a panel is cut.",
        told("Length of the residual stream", tuple(panels)),
        (View((), tuple(panels)),),
        columns=2,
        height=0.5,
    )


@figure
def updates(reading: Reading) -> Drawing | None:
    """Radial and tangential part of each sublayer's update, and the angle it turns the stream by."""
    panels = []
    for tap, sublayer in (("mid", "attention"), ("block", "MLP")):
        for name, note, label, scale in UPDATES:
            curves = reading.by_condition(name, tap=tap, tokens=DEFAULT_TOKENS)
            if curves:
                limits = _room_for(reading, curves) if scale == "linear" else None
                axis = Axis(label, "log", limits=limits) if scale == "log" else Axis(label, limits=limits)
                panels.append(Panel(sublayer, reading.depth_axis(), axis, curves, note=note))
    if not panels:
        return None
    return Drawing(
        "updates",
        "How far each sublayer moves the stream, along itself and across",
        "What a sublayer adds, split into the part along the stream before it (radial, positive outward) and the "
        "part across (tangential, logarithmic axis), both divided by the length before, averaged over tokens. A "
        "motion that stays on the sphere has no radial part beyond the small one that makes up for its own step; "
        "what is drawn here leaves the sphere. First token left out. Radial and angle panels are scaled to the "
        "decoders with every part in place; an ablated one may leave them. Bands are document-bootstrap intervals.",
        told("Updates of the residual stream", tuple(panels)),
        (View((), tuple(panels)),),
        columns=3,
    )


@figure
def metrics(reading: Reading) -> Drawing | None:
    """Residual metric against the metric the next sublayer reads, after the block and after attention."""

    def wanted(name: str, preparation: str) -> Wanted:
        taps = (
            ("residual, after the block", "block"),
            ("as the next sublayer reads it", "block_read"),
            ("residual, after attention", "mid"),
            ("as the MLP reads it", "mid_read"),
        )
        return [
            (words, {"variable": name, "tap": tap, "tokens": DEFAULT_TOKENS, "preparation": preparation})
            for words, tap in taps
        ]

    return _one_condition_at_a_time(
        reading,
        "metrics",
        "Residual metric and the metric the next sublayer reads",
        (
            ("mean overlap", "normalize", "mean overlap", "linear", wanted("mean_overlap", "normalize")),
            ("participation rank", "normalize", "participation rank", "log", wanted("participation_rank", "normalize")),
            (
                "participation rank",
                "center, normalize",
                "participation rank, centered",
                "log",
                wanted("participation_rank", "center, normalize"),
            ),
        ),
        "The same states in two metrics: the stream itself, and the stream after the norm and gain through which "
        "the next sublayer reads it. At the last layer the read-out is the output of the final norm (“final”), "
        "which never stands in for the last block. First token left out. Bands are document-bootstrap intervals.",
        columns=3,
    )


@figure
def token_policy(reading: Reading) -> Drawing | None:
    """The same numbers with and without the first token and massive tokens."""

    def wanted(name: str, preparation: str) -> Wanted:
        return [
            (words, {"variable": name, "tap": "block", "tokens": tokens, "preparation": preparation})
            for tokens, words in TOKENS.items()
        ]

    return _one_condition_at_a_time(
        reading,
        "token_policy",
        "What the first token and massive tokens do to a number",
        (
            ("mean overlap", "normalize", "mean overlap", "linear", wanted("mean_overlap", "normalize")),
            (
                "participation rank",
                "as given",
                "participation rank, as given",
                "log",
                wanted("participation_rank", "as given"),
            ),
            (
                "participation rank",
                "center, normalize",
                "participation rank, centered",
                "log",
                wanted("participation_rank", "center, normalize"),
            ),
        ),
        "Three token sets side by side. On rows as given one very long row can be nearly the whole spectrum; on "
        "normalized rows it is one row among many. Bands are document-bootstrap intervals.",
        columns=3,
    )


@figure
def offsets(reading: Reading) -> Drawing | None:
    """Mean overlap and participation rank after removing a shared offset: corpus mean, or rogue coordinates."""

    def wanted(name: str) -> Wanted:
        views = (
            ("rows normalized", "normalize"),
            ("corpus mean subtracted first", "corpus mean, normalize"),
            ("rogue coordinates removed first", "without rogue coordinates, normalize"),
            ("document mean subtracted first", "center, normalize"),
        )
        return [
            (words, {"variable": name, "tap": "block", "tokens": DEFAULT_TOKENS, "preparation": preparation})
            for words, preparation in views
        ]

    return _one_condition_at_a_time(
        reading,
        "offsets",
        "How much of the alignment is a shared offset",
        (
            ("mean overlap", "", "mean overlap", "linear", wanted("mean_overlap")),
            ("participation rank", "", "participation rank", "log", wanted("participation_rank")),
        ),
        "Corpus mean and rogue coordinates were estimated on calibration documents that are disjoint from the "
        "measured ones; their hash is in the provenance table. First token left out. Bands are document-bootstrap "
        "intervals.",
        columns=2,
    )


@figure
def held_out_loss(reading: Reading) -> Drawing | None:
    """Held-out loss of every condition, with its interval."""
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
        "held_out_loss",
        "Held-out loss of each condition",
        "Next-token cross entropy on the measured documents, logarithmic axis; bars are document-bootstrap "
        "intervals. A condition that predicts nothing is a different object from a decoder, whatever its geometry.",
        f"Next-token cross entropy in nats per token, one dot with an interval for each condition: {told_values}.",
        (View((), (panel,)),),
        columns=1,
        height=0.28,
    )


def _room_for(reading: Reading, curves: tuple[Curve, ...]) -> tuple[float, float] | None:
    """Limits that hold every whole decoder's curve; a decoder with a part removed may leave them."""
    removed = {reading.label(name) for name in reading.conditions if name.startswith("ablated")}
    whole = tuple(curve for curve in curves if curve.name not in removed) or curves
    return Panel("", Axis(""), Axis(""), whole).reach


def _one_condition_at_a_time(
    reading: Reading,
    name: str,
    title: str,
    declared: tuple[tuple[str, str, str, str, Wanted], ...],
    caption: str,
    *,
    columns: int,
) -> Drawing | None:
    """A drawing whose condition is chosen; `declared` gives (title, preparation, label, scale, curves)."""
    views = []
    for condition in reading.conditions:
        panels = []
        for panel_title, preparation, label, scale, wanted in declared:
            curves = tuple(
                curve
                for (words, labels), style in zip(wanted, SERIES, strict=False)
                if (curve := reading.curve(words, style, condition=condition, **labels)) is not None
            )
            if curves:
                y = Axis(label, "log") if scale == "log" else Axis(label)
                note = preparation_words(preparation) if preparation else ""
                panels.append(Panel(panel_title, reading.depth_axis(), y, curves, note=note))
        if panels:
            views.append(View((reading.label(condition),), tuple(panels)))
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    controls = (Control("condition", options, "choice", options[0]),)
    return Drawing(
        name, title, caption, told(f"{title}; {options[0]}", views[0].panels), tuple(views), controls, columns=columns
    )
