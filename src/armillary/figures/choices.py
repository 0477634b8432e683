"""Figures that set the same number side by side under different choices: metrics, token sets, offsets taken out."""

from __future__ import annotations

from collections.abc import Mapping

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Drawing, Panel, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Reading
from armillary.figures.registry import figure
from armillary.terms import RANKS, TAPS, TOKENS, measurement_words, preparation_words

__all__ = ["POLICY", "metrics", "offsets", "token_policy"]

POLICY = (
    ("mean_overlap", "normalize"),
    ("participation_rank", "as given"),
    ("participation_rank", "center, normalize"),
)
"""What shows best what a single long row can do: the numbers of the token policy, where they were measured."""

OFFSETS = {
    "normalize": "rows normalized",
    "corpus mean, normalize": "corpus mean subtracted first",
    "without rogue coordinates, normalize": "rogue coordinates removed first",
    "center, normalize": "document mean subtracted first",
}
SHADED = "Shaded: document-bootstrap intervals."


@figure
def metrics(reading: Reading) -> Drawing | None:
    """Residual metric against the metric the next sublayer reads, after the block and after attention."""
    shown = (
        ("mean_overlap", "normalize"),
        ("participation_rank", "normalize"),
        ("participation_rank", "center, normalize"),
    )
    return _compared(
        reading,
        "metrics",
        "Residual metric and the metric the next sublayer reads",
        [{"variable": name, "tokens": DEFAULT_TOKENS, "preparation": preparation} for name, preparation in shown],
        "tap",
        TAPS,
        "The same states in two metrics: the stream itself, and the stream after the norm and gain through which the "
        "next sublayer reads it. What is read at the last layer is the output of the final norm, called final; it "
        f"never takes the place of the last block. First token left out. {SHADED}",
    )


@figure
def token_policy(reading: Reading) -> Drawing | None:
    """The same numbers with and without the first token and massive tokens."""
    shown = reading.chosen(*POLICY)
    given, centered = (any(step in preparation for _, preparation in shown) for step in ("as given", "center"))
    return _compared(
        reading,
        "token_policy",
        "What the first token and massive tokens do to a number",
        [{"variable": name, "tap": "block", "preparation": preparation} for name, preparation in shown],
        "tokens",
        TOKENS,
        "Three token sets side by side, stream after each block. "
        + "A single very long row can be nearly the whole spectrum of rows as given. " * given
        + "It dominates the mean that centering subtracts, too. " * centered
        + f"In rows that are only normalized it is one among many. {SHADED}",
    )


@figure
def offsets(reading: Reading) -> Drawing | None:
    """Mean overlap and participation rank after removing a shared offset: corpus mean, or rogue coordinates."""
    calibrated = bool((reading.provenance.get("calibration") or {}).get("titles"))
    return _compared(
        reading,
        "offsets",
        "How much of the alignment is a shared offset",
        [
            {"variable": name, "tap": "block", "tokens": DEFAULT_TOKENS}
            for name in ("mean_overlap", "participation_rank")
        ],
        "preparation",
        OFFSETS,
        "Corpus mean and rogue coordinates were estimated on calibration documents, none of which is among the "
        "measured ones; their hash is in the provenance table. "
        * calibrated
        + f"First token left out; stream after each block. {SHADED}",
    )


def _compared(
    reading: Reading,
    name: str,
    title: str,
    panels: list[dict[str, str]],
    axis: str,
    options: Mapping[str, str],
    caption: str,
) -> Drawing | None:
    """A drawing with a condition at a time: one panel for each set of labels, one curve for each option of `axis`."""
    views = []
    for condition in reading.conditions:
        drawn = (_panel(reading, condition, labels, axis, options) for labels in panels)
        shown = tuple(panel for panel in drawn if len(panel.curves) > 1)
        if shown:
            views.append(View((reading.label(condition),), shown))
    if not views:
        return None
    opened = tuple(view.choice[0] for view in views)
    control = Control("condition", opened, "choice", opened[0])
    alt = told(f"{title}; {opened[0]}", views[0].panels)
    return Drawing(name, title, caption, alt, tuple(views), (control,), columns=len(panels))


def _panel(reading: Reading, condition: str, labels: Mapping[str, str], axis: str, options: Mapping[str, str]) -> Panel:
    where = {name: label for name, label in labels.items() if name != "variable"}
    curves = (
        reading.curve(words, style, labels["variable"], condition=condition, **where, **{axis: option})
        for (option, words), style in zip(options.items(), SERIES, strict=False)
    )
    label = measurement_words(labels["variable"])
    y = Axis(label, "log") if labels["variable"] in RANKS else Axis(label)
    note = preparation_words(labels["preparation"]) if "preparation" in labels else ""
    return Panel(label, reading.depth_axis(), y, tuple(curve for curve in curves if curve is not None), note=note)
