"""One verdict as the cell of a table: the word, how large a change is, and what stands behind it."""

from __future__ import annotations

from armillary.invariance.judgment import Judgment
from armillary.report.markup import UNDEFINED, Markup, element, interval, minus

__all__ = ["MOVED", "cell"]

MOVED = ("changes", "claim refuted")
NEAR = 100.0
"""A difference below so many floors has its floor beside it."""
CLASSES = {"proved and survived": "proved", "survived": "kept", "changes": "moved", "claim refuted": "refuted"}


def cell(one: Judgment) -> Markup:
    """A table cell with the verdict; difference, floor and reason appear where a reader points.

    Args:
        one: what one number did under one transformation or re-parametrization.
    """
    verdict = one.verdict
    if verdict.word == "undefined":
        return element("td", UNDEFINED)
    hint = f"difference {verdict.difference:.1e}, floor {verdict.floor:.1e}" + (
        f"; {verdict.reason}" if verdict.reason else ""
    )
    kind = f"value {CLASSES.get(verdict.word, '')}".strip()
    if verdict.word not in MOVED:
        return element("td", verdict.word, class_=kind, title=hint)
    begun = "claim refuted: changes by " if verdict.word == "claim refuted" else "changes by "
    if one.on_witness_only and one.witness is not None:
        shown = one.witness
        words = f"on a witness ({shown.witness}: {minus(f'{shown.before:.4g}')} to {minus(f'{shown.after:.4g}')})"
        below = element("small", "unmoved on these documents", class_="part")
        return element("td", begun.removesuffix(" by ") + " ", words, below, class_=kind, title=hint)
    if not verdict.resolved and verdict.largest < float("inf"):
        words = f"in single documents, by up to {verdict.largest:.2g}"
        mean = minus(f"mean {verdict.difference:.1g} is below its floor {verdict.floor:.1g}")
        small = element("small", Markup(mean), class_="part")
        return element("td", begun.removesuffix("by "), words, small, class_=kind, title=hint)
    ends = (verdict.difference, verdict.low, verdict.high, verdict.documents)
    return element("td", begun, interval(ends, verdict.level, verdict.documents), _beside(one), class_=kind, title=hint)


def _beside(one: Judgment) -> Markup:
    """The relative change, or what a mean difference near zero hides: that single documents moved; and a near floor."""
    verdict = one.verdict
    near = f"floor {verdict.floor:.1g}" if abs(verdict.difference) < NEAR * verdict.floor else ""
    if verdict.largest == float("inf"):
        words = "defined on one side only in a document"
    elif verdict.low <= 0 <= verdict.high and abs(verdict.before) > verdict.floor:
        words = f"up to {100 * verdict.largest / abs(verdict.before):.3g}% in a document"
    elif verdict.relative == verdict.relative:
        words = minus(f"{100 * verdict.relative:+.3g}%")
    else:
        words = ""
    words = ", ".join(filter(None, (words, near)))
    return element("small", Markup(words) if "−" in words else words, class_="part") if words else Markup("")
