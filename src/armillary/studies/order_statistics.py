"""Intervals that ask nothing of a distribution: the median between order statistics, a share by the exact binomial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import beta, binom

from armillary.errors import ArgumentError, UnsoundError

__all__ = ["median_interval", "share_interval"]


def median_interval(values: Sequence[float] | np.ndarray, *, level: float) -> tuple[float, float, float]:
    """The sample median, and the innermost pair of order statistics that covers the median at the level.

    Args:
        values: One number a member; infinity for one that is beyond what was looked at, and no NaN.
        level: Nominal coverage, which is exceeded.

    Returns:
        Median, lower and upper end; an end is infinite where it is not bounded.

    Raises:
        UnsoundError: Fewer than two members.
        ArgumentError: A value is NaN.

    Source:
        David and Nagaraja (2003), Order Statistics, section 7.1.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    count = len(ordered)
    if count < 2:
        raise UnsoundError(
            f"Argument `values` must hold at least two members, but holds {count}. Measure more of them."
        )
    if np.isnan(ordered).any():
        raise ArgumentError(
            "Argument `values` must hold numbers, but some are NaN. Write infinity for a member that is beyond the "
            "last time, and leave others out."
        )
    middle = ordered[(count - 1) // 2 : count // 2 + 1]
    center = float(middle.mean()) if np.isfinite(middle).all() else float(middle[-1])
    k = int(binom.ppf((1 - level) / 2, count, 0.5))  # P(Binomial(n, 1/2) < k) <= (1 - level) / 2
    if k == 0:
        return center, -math.inf, math.inf
    return center, float(ordered[k - 1]), float(ordered[count - k])


def share_interval(hits: int, trials: int, *, level: float) -> tuple[float, float, float]:
    """A share with its exact binomial interval (Clopper and Pearson 1934): of none in n, at most about 3.7 / n at 95 %.

    Args:
        hits: How many members have what is counted.
        trials: How many there are.
        level: Nominal coverage, which is exceeded.

    Returns:
        Share, lower and upper end.

    Raises:
        UnsoundError: There is no member.
    """
    if trials < 1:
        raise UnsoundError("Argument `trials` must be at least 1, but there is no member. Measure some.")
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return hits / trials, low, high
