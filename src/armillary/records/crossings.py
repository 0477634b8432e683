"""The depth at which a curve over layers first passes a threshold, and several of them in words."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["crossing", "crossings"]


def crossing(layers: np.ndarray, overlaps: np.ndarray, threshold: float) -> float:
    """The depth at which a curve first passes a threshold, between layers in a straight line; NaN if it does not.

    Args:
        layers: Ascending.
        overlaps: One a layer.
        threshold: Overlap.
    """
    above = np.flatnonzero(overlaps >= threshold)
    if not len(above):
        return math.nan
    first = int(above[0])
    if first == 0:
        return float(layers[0])
    low, high = overlaps[first - 1], overlaps[first]
    return float(layers[first - 1] + (layers[first] - layers[first - 1]) * (threshold - low) / (high - low))


def crossings(layers: np.ndarray, rows: np.ndarray, threshold: float) -> str:
    """The depths at which curves first pass a threshold, from the lowest to the highest, in words.

    Args:
        layers: Ascending.
        rows: Overlaps, `curves layers`.
        threshold: Overlap.
    """
    found = [crossing(layers, row, threshold) for row in rows]
    known = [one for one in found if not math.isnan(one)]
    if not known:
        return "none"
    never = f", never in {len(found) - len(known)}" if len(known) < len(found) else ""
    return (f"{min(known):.1f}" if max(known) - min(known) < 0.05 else f"{min(known):.1f} to {max(known):.1f}") + never
