"""A finding from one number a seed: the mean with its interval where seeds give one, and the mean alone where not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from armillary.estimates import estimate
from armillary.studies.diagram.declaration import Finding

__all__ = ["averaged"]


def averaged(
    values: Float[np.ndarray, seeds],
    words: str,
    choices: Mapping[str, Any],
    *,
    expected: float = math.nan,
    source: str = "",
    note: str = "",
    within: tuple[float, float] = (-math.inf, math.inf),
) -> list[Finding]:
    """What the mean over seeds says.

    Args:
        values: One number a seed; NaN where a seed has none.
        words: What the number is.
        choices: Level, resamples and seed of the interval.
        expected: What a law or a publication says.
        source: Where that is from.
        note: A sentence that belongs to it.
        within: The range that the number can take, at which the interval ends.

    Returns:
        One finding, without an interval from fewer than two seeds; none where no seed has a number.
    """
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    beside: dict[str, Any] = {"expected": expected, "source": source, "note": note}
    if len(known) == 0:
        return []
    if len(known) == 1:
        return [Finding(words=words, value=float(known[0]), members=1, **beside)]
    found = estimate(known, unit="seeds", **choices)
    low, high = (end if math.isinf(end) else min(max(end, within[0]), within[1]) for end in (found.low, found.high))
    return [replace(Finding.of(found, words, **beside), low=low, high=high)]
