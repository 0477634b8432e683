"""What panels show, told in words for somebody who cannot see them: where each curve starts, ends and peaks."""

from __future__ import annotations

import math

from armillary.figures.drawing import Curve, Panel

__all__ = ["told"]


def told(title: str, panels: tuple[Panel, ...]) -> str:
    """The panels in words.

    Args:
        title: what they show together.
        panels: drawn side by side.
    """
    across = " and ".join(dict.fromkeys(panel.x.label or "value" for panel in panels))
    sentences = [f"{title}. {len(panels)} panel{'s' if len(panels) > 1 else ''}; horizontal axis: {across}."]
    for panel in panels:
        heading = ", ".join(part for part in (panel.title, panel.note) if part) or panel.y.label
        if panel.tiles is not None and panel.tiles.drawn:
            sentences.append(f"{heading}: {_ends(panel)}.")
            continue
        parts = [words for curve in panel.curves if (words := _course(curve, panel.x.label))]
        sentences.append(f"{heading}: " + "; ".join(parts) + ".")
    return " ".join(sentences)


def _ends(panel: Panel) -> str:
    """The lowest and the highest of a panel's tiles, and where they lie."""
    assert panel.tiles is not None
    tiles = panel.tiles
    known = [
        (value, f"{panel.x.label} {x:g}, {panel.y.label} {y:g}")
        for y, row in zip(tiles.y, tiles.values, strict=True)
        for x, value in zip(tiles.x, row, strict=True)
        if math.isfinite(value)
    ]
    (low, here), (high, there) = min(known), max(known)
    return f"{tiles.name} from {low:.3g} at {here} to {high:.3g} at {there}"


def _course(curve: Curve, across: str) -> str:
    """The course of one curve in words; a row of dots or a mark is its value."""
    if curve.shape == "dots":
        return f"{curve.name} {curve.x[0]:.3g}"
    if curve.shape == "mark":
        return f"{curve.name} of an isotropic cloud {curve.y[0]:.3g}"
    pairs = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isinstance(y, float) and math.isfinite(y)]
    if not pairs:
        return ""
    if len(pairs) == 1:
        return f"{curve.name} {pairs[0][1]:.3g}"
    place, peak = max(pairs, key=lambda pair: pair[1])
    return f"{curve.name} goes from {pairs[0][1]:.3g} to {pairs[-1][1]:.3g}, highest {peak:.3g} at {across} {place}"
