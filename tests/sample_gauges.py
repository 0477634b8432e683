"""Numbers before and after two invented gauges: one moves what is read, one moves nothing."""

from __future__ import annotations

import numpy as np

import armillary as am
from armillary.records.gauged import PlacedNumber, UnderGauge


def planted(*, reason: str | None = None) -> am.GaugedNumbers:
    """Two layers of the stream and of what is read; "fold" moves what is read, "spin" moves nothing."""
    overlap = "mean_overlap | normalize"
    numbers = tuple(PlacedNumber(place, overlap, layer) for place in ("stream", "read") for layer in (0, 4))
    before = np.array([[0.10, 0.50, 0.30, 0.70], [0.12, 0.54, 0.32, 0.66], [0.11, 0.52, 0.31, 0.68]])
    moved = before + np.array([0.0, 0.0, 0.1, -0.2])
    under = {
        name: UnderGauge(f"{name} in words", f"{name}: logits move by 1e-13", 1e-13, 1e-5, 1e-5, after, reasons)
        for name, after, reasons in (
            ("fold", moved, ("kept", "kept", reason, reason)),
            ("spin", before + 1e-14, ("kept",) * 4),
        )
    }
    floor = np.full(4, 1e-9)
    return am.GaugedNumbers("planted", ("a", "b", "c"), numbers, before, floor, under, {"bend": "it is stiff"})
