"""The studentized bootstrap (bootstrap-t): members are drawn again and again, the same ones for every column.

Resample members, form t* = (m* - m) / se*, and read

    low = m - q_{1 - a/2}(t*) se,     high = m - q_{a/2}(t*) se,     se = sd / sqrt(n),     a = 1 - level.

A resample in which every member carries the same value has se* = 0; its t* counts as plus or minus infinity by the
sign of m* - m, which can only widen the interval and may leave it unbounded. One matrix of resampled counts serves
every column of an array, so whatever is measured on the same documents is resampled together.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

__all__ = ["bootstrap_t"]

_CHUNK = 4_000_000  # resampled numbers held at a time: 32 MB an array

Table = Float[np.ndarray, "members columns"]
Row = Float[np.ndarray, "columns"]
Counts = Int[np.ndarray, "columns"]


def bootstrap_t(columns: Table, *, level: float, resamples: int, seed: int) -> tuple[Row, Row, Row, Counts]:
    """Means and ends of the interval of every column, from the members that have a number there.

    A column's interval depends on its own values and the seed, never on its neighbors.

    Args:
        columns: `members columns`, without infinities; NaN where a member has no number.
        level: Nominal coverage.
        resamples: How often the members are resampled.
        seed: Of the resampled counts.

    Returns:
        Mean, lower end, upper end, and how many members had a number, each `columns`; ends are NaN below two members.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 12.5.

    Example:
        >>> column = np.array([[0.50], [0.54], [0.47], [0.52]])
        >>> mean, low, high, members = bootstrap_t(column, level=0.95, resamples=2000, seed=0)
        >>> [round(float(x[0]), 3) for x in (low, mean, high)]
        [0.425, 0.508, 0.546]
    """
    defined = ~np.isnan(columns)
    members = defined.sum(axis=0)
    value, low, high = (np.full(columns.shape[1], np.nan) for _ in range(3))
    order = np.argsort(~defined, axis=0, kind="stable")  # members with a number first, in their own order
    for count in np.unique(members[members > 0]).tolist():
        chosen = np.flatnonzero(members == count)
        counts = None if count < 2 else _resampled_counts(count, resamples, seed)
        step = max(1, _CHUNK // resamples)
        for part in (chosen[i : i + step] for i in range(0, len(chosen), step)):
            x = columns[:, part]
            if count < len(columns):
                x = np.take_along_axis(x, order[:count, part], axis=0)
            value[part] = _mean(x)
            if counts is not None:
                low[part], high[part] = _studentized(x, counts, level)
    return value, low, high, members


def _resampled_counts(members: int, resamples: int, seed: int) -> np.ndarray:
    """How often each member is drawn, `resamples members`; a function of its arguments alone."""
    generator = np.random.default_rng([seed, members])
    return generator.multinomial(members, np.full(members, 1.0 / members), size=resamples).astype(np.float64)


def _mean(x: np.ndarray) -> np.ndarray:
    same = x.min(axis=0) == x.max(axis=0)
    return np.where(same, x[0], x.mean(axis=0))  # a mean of equal numbers is that number, to the last bit


def _studentized(x: np.ndarray, counts: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the bootstrap-t interval of every column of x, `members columns` without undefined entries."""
    members, resamples = x.shape[0], counts.shape[0]
    mean, spread = _mean(x), x.std(axis=0, ddof=1)
    constant = x.min(axis=0) == x.max(axis=0)
    z = (x - mean) / np.where(constant, 1.0, spread)
    shift = z.T @ counts.T / members  # m* - m in units of the spread, `columns resamples`
    variance = (z * z).T @ counts.T / members
    same = 1e-12 * (1.0 + variance)
    variance -= shift * shift
    flat = variance <= same
    variance[flat] = 1.0
    t = shift / np.sqrt(variance / (members - 1))
    t[flat] = np.copysign(np.inf, shift[flat])
    rank = max(1, math.floor((resamples + 1) * (1.0 - level) / 2.0 + 1e-9))
    t.partition((rank - 1, resamples - rank), axis=1)
    error = spread / math.sqrt(members)
    with np.errstate(invalid="ignore"):
        low, high = mean - t[:, resamples - rank] * error, mean - t[:, rank - 1] * error
    return np.where(constant, mean, low), np.where(constant, mean, high)
