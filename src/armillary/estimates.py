"""What may be claimed of a measurement made on a few documents: a mean, and an interval by resampling documents.

Token pairs inside a document are far from independent, so the only honest unit is the *member*: a document, a seed.
The method is the studentized bootstrap (bootstrap-t): resample members, form t* = (m* - m) / se*, and read

    low = m - q_{1 - a/2}(t*) se,     high = m - q_{a/2}(t*) se,     se = sd / sqrt(n),     a = 1 - level.

A resample in which every member carries the same value has se* = 0; its t* counts as plus or minus infinity by the
sign of m* - m, which can only widen the interval and may leave it unbounded. One matrix of resampled counts serves
every column of an array, so whatever is measured on the same documents is resampled together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from armillary.errors import ArgumentError, NumericalError, UnsoundError

__all__ = ["METHOD", "MINIMUM_MEMBERS", "Estimate", "Intervals", "Sample", "contrast", "estimate", "intervals"]

METHOD = "bootstrap-t"
"""The name of the interval: studentized bootstrap over members."""

MINIMUM_MEMBERS = 8
"""From this many members on, simulated coverage of a 95 % interval lies within 2 points of 95 %.

That holds for normal, gamma(4), lognormal(0.5), beta(8, 2), beta(20, 1), exponential and Poisson(3) members
(`benchmarks/interval_coverage.py` prints the table). Beyond it lie heavier tails (lognormal(1): 90 % at 8 members, 94 %
at 64) and rare counts: where most documents count zero, all of those at hand may, and then the interval has no width.
"""

Column = Float[np.ndarray, "members"]
"""One number a member; NaN means undefined."""

Columns = Float[np.ndarray, "members *rest"]
"""One row a member, whatever a member's numbers are arranged in."""

Rest = Float[np.ndarray, "*rest"]
"""One number for each column."""

Counts = Int[np.ndarray, "*rest"]
"""How many members had a number, for each column."""

_CHUNK = 4_000_000  # resampled numbers held at a time: 32 MB an array


@dataclass(frozen=True)
class Estimate:
    """A mean over members with its interval.

    Attributes:
        value: Mean over the members at which the measurement is defined.
        low: Lower end; minus infinity where the members cannot bound it.
        high: Upper end; plus infinity where the members cannot bound it.
        level: Nominal coverage, 0.95 for 95 %.
        members: How many members the interval rests on.
        unit: What a member is.
        method: Name of the interval.
        undefined: How many further members were measured and gave no number.
    """

    value: float
    low: float
    high: float
    level: float
    members: int
    unit: str = "documents"
    method: str = METHOD
    undefined: int = 0

    @property
    def flag(self) -> str | None:
        """A sentence on what weakens this interval, or None."""
        percent = f"{100 * self.level:g}%"
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return f"{self.members} {self.unit} with these values cannot bound the interval."
        if self.low == self.high:
            return f"All {self.members} {self.unit} give the same value, so the interval has no width."
        if self.members < MINIMUM_MEMBERS:
            return f"With fewer than {MINIMUM_MEMBERS} {self.unit} the interval may cover less often than {percent}."
        return None

    def __str__(self) -> str:
        """The digits its interval allows: `11.42 [10.9, 12.0] 95% over 64 documents`."""
        value, low, high = _digits(self.value, self.low, self.high)
        text = f"{value} [{low}, {high}] {100 * self.level:g}% over {self.members} {self.unit}"
        if self.undefined:
            text += f", undefined for {self.undefined} more"
        return text if self.flag is None else f"{text} ({self.flag[0].lower()}{self.flag[1:-1]})"


@dataclass(frozen=True, eq=False)
class Intervals:
    """Many estimates at once; every array has the shape of one member's values.

    Attributes:
        value: Means over the members with a number; NaN where there is none.
        low: Lower ends; NaN with fewer than two such members, minus infinity where unbounded.
        high: Upper ends, likewise.
        members: How many members had a number.
        asked: How many members were measured.
        level: Nominal coverage.
    """

    value: Rest
    low: Rest
    high: Rest
    members: Counts
    asked: int
    level: float

    def estimate(self, index: tuple[int, ...] = (), *, unit: str = "documents") -> Estimate:
        """One of them, refused where fewer than two members have a number."""
        members = int(self.members[index])
        if members < 2:
            raise UnsoundError(_lonely(members, unit))
        ends = (float(self.value[index]), float(self.low[index]), float(self.high[index]))
        return Estimate(*ends, self.level, members, unit, undefined=self.asked - members)


@dataclass(frozen=True, eq=False)
class Sample:
    """One number a member, with everything that decides what it may be subtracted from.

    Attributes:
        values: One number a member; NaN where undefined.
        members: Names of the members, in order.
        measurement: Name of the observable.
        preparation: Ordered steps, "center, normalize" or "as given".
        tokens: Which tokens took part.
        metric: "residual", or "read" for what the next sublayer's norm hands on.
        source: Hash of the members themselves (token ids), where there is one.
    """

    values: Column
    members: tuple[str, ...]
    measurement: str
    preparation: str
    tokens: str = "all"
    metric: str = "residual"
    source: str = ""

    def __post_init__(self) -> None:
        """Values and names belong together, one to one."""
        if np.shape(self.values) != (len(self.members),):
            raise ArgumentError(
                f"Argument `values` must have one number for each of the {len(self.members)} members, "
                f"but has shape {np.shape(self.values)}. Measure every member once."
            )


def intervals(values: Columns, *, level: float, resamples: int, seed: int) -> Intervals:
    """Means and bootstrap-t intervals of every column, all from the same resampled members.

    Columns in which some members are undefined (NaN) are estimated from the others, with counts resampled for that
    number of members. A column's interval depends on its own values and the seed, never on its neighbors.

    Args:
        values: One row a member; NaN where a member has no number.
        level: Nominal coverage, between 0 and 1.
        resamples: How often the members are resampled.
        seed: Of the resampled counts; equal seeds give equal intervals.

    Returns:
        Arrays of the shape of one member.

    Raises:
        UnsoundError: There are fewer than two members.
        NumericalError: A value is infinite.
        ArgumentError: Level or resamples are out of range.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 12.5.
    """
    _require_choices(level, resamples)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[0] < 2:
        raise UnsoundError(_lonely(0 if array.ndim == 0 else array.shape[0], "members"))
    _require_no_infinity(array)
    rest = array.shape[1:]
    columns = array.reshape(array.shape[0], -1)
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
    ends = (value.reshape(rest), low.reshape(rest), high.reshape(rest))
    return Intervals(*ends, members.reshape(rest), asked=array.shape[0], level=level)


def estimate(
    values: ArrayLike | Sample, *, level: float, resamples: int, seed: int, unit: str = "documents"
) -> Estimate:
    """The mean over members with its bootstrap-t interval.

    Args:
        values: One number a member; NaN where a member has none.
        level: Nominal coverage.
        resamples: How often the members are resampled.
        seed: Of the resampling.
        unit: What a member is, in the plural.

    Returns:
        Value, interval and the number of members they rest on.

    Raises:
        UnsoundError: Fewer than two members have a number: one document has no spread to resample.
    """
    array = np.asarray(values.values if isinstance(values, Sample) else values, dtype=np.float64)
    if array.ndim != 1:
        raise ArgumentError(
            f"Argument `values` must hold one number a member, but has shape {array.shape}. "
            "Use `intervals` for many columns."
        )
    if len(array) < 2:
        raise UnsoundError(_lonely(len(array), unit))
    return intervals(array, level=level, resamples=resamples, seed=seed).estimate(unit=unit)


def contrast(
    a: Sample | ArrayLike, b: Sample | ArrayLike, *, level: float, resamples: int, seed: int, unit: str = "documents"
) -> Estimate:
    """The mean of a minus b over members, paired: each member is its own control.

    Args:
        a: One number a member.
        b: The same members in the same order, measured and prepared alike.
        level: Nominal coverage.
        resamples: How often the members are resampled.
        seed: Of the resampling.
        unit: What a member is, in the plural.

    Returns:
        The difference with its interval; a member counts where both have a number.

    Raises:
        UnsoundError: The two sides are not the same members, or not the same measurement prepared alike.
    """
    if isinstance(a, Sample) and isinstance(b, Sample):
        _require_alike(a, b)
    left, right = (np.asarray(s.values if isinstance(s, Sample) else s, dtype=np.float64) for s in (a, b))
    if left.shape != right.shape:
        raise UnsoundError(
            f"Argument `b` must hold the same members as `a`, but the shapes are {left.shape} and {right.shape}. "
            "Measure both on identical documents."
        )
    return estimate(left - right, level=level, resamples=resamples, seed=seed, unit=unit)


def _require_alike(a: Sample, b: Sample) -> None:
    if a.members != b.members or a.source != b.source:
        raise UnsoundError(
            "Argument `b` must hold the same members as `a`, but they differ: "
            f"{_first_difference(a.members, b.members)}. Measure both on identical documents."
        )
    for field in ("measurement", "preparation", "tokens", "metric"):
        left, right = getattr(a, field), getattr(b, field)
        if left != right:
            raise UnsoundError(
                f"Argument `b` must have the {field} of `a`, but they are {right!r} and {left!r}: a difference of "
                "unlike numbers has no meaning. Measure both in the same way."
            )


def _first_difference(a: Sequence[str], b: Sequence[str]) -> str:
    if len(a) != len(b):
        return f"{len(a)} and {len(b)} of them"
    unlike = (f"{x!r} against {y!r}" for x, y in zip(a, b, strict=True) if x != y)
    return next(unlike, "equal names, unequal contents")


def _lonely(members: int, unit: str) -> str:
    return (
        f"Argument `values` must hold at least two {unit} with a number, but holds {members}: the spread over {unit} "
        f"is what an interval is made of, and token pairs are no substitute. Measure more {unit}."
    )


def _require_choices(level: float, resamples: int) -> None:
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"Argument `level` must lie between 0 and 1, but is {level!r}. Use 0.95 for 95 %.")
    least = math.ceil(10.0 / (1.0 - level) - 1e-9)
    if resamples < least:
        raise ArgumentError(
            f"Argument `resamples` must be at least {least} for level {level:g}, so that five lie beyond either end, "
            f"but is {resamples}. Use 2000."
        )


def _require_no_infinity(array: np.ndarray) -> None:
    if np.isinf(array).any():
        index = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
        raise NumericalError(
            f"Argument `values` must be finite or NaN (undefined), but member {index[0]} is {array[index]} at "
            f"{index[1:] or 'its only value'}. Look at the states it was measured on."
        )


def _resampled_counts(members: int, resamples: int, seed: int) -> np.ndarray:
    """How often each member is drawn, [resamples, members]; a function of its arguments alone."""
    generator = np.random.default_rng([seed, members])
    return generator.multinomial(members, np.full(members, 1.0 / members), size=resamples).astype(np.float64)


def _mean(x: np.ndarray) -> np.ndarray:
    same = x.min(axis=0) == x.max(axis=0)
    return np.where(same, x[0], x.mean(axis=0))  # a mean of equal numbers is that number, to the last bit


def _studentized(x: np.ndarray, counts: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the bootstrap-t interval of every column of x [members, columns], without undefined entries."""
    members, resamples = x.shape[0], counts.shape[0]
    mean, spread = _mean(x), x.std(axis=0, ddof=1)
    constant = x.min(axis=0) == x.max(axis=0)
    z = (x - mean) / np.where(constant, 1.0, spread)
    shift = z.T @ counts.T / members  # m* - m in units of the spread, [columns, resamples]
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


def _digits(value: float, low: float, high: float) -> tuple[str, str, str]:
    """The ends to two digits of the interval's width, the value to two digits of half of it."""
    width = high - low
    if not math.isfinite(width) or width <= 0.0:
        bottom, top = (f"{end:.6g}" if math.isfinite(end) else "unbounded" for end in (low, high))
        return f"{value:.6g}", bottom, top
    places = 1 - math.floor(math.log10(width))
    finer = 1 - math.floor(math.log10(width / 2.0))
    return _rounded(value, finer), _rounded(low, places), _rounded(high, places)


def _rounded(x: float, places: int) -> str:
    rounded = round(x, places) + 0.0  # no negative zero
    size = math.floor(math.log10(abs(x))) if x else 0
    places = min(places, 14 - size)
    if places > 8 and size < -4:
        return f"{rounded:.{max(places + size, 0)}e}"
    return f"{rounded:.{max(places, 0)}f}"
