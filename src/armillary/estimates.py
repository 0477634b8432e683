"""What may be claimed of a measurement made on a few documents: a mean, and an interval by resampling documents.

Token pairs inside a document are far from independent, so the only honest unit is the *member*: a document, a seed.
The method is the studentized bootstrap over members (`bootstrap`): nothing is assumed of how they are distributed.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from armillary.bootstrap import bootstrap_t
from armillary.errors import ArgumentError, NumericalError, UnsoundError

__all__ = [
    "METHOD",
    "MINIMUM_MEMBERS",
    "UNPAIRED_TOKENS",
    "Estimate",
    "Intervals",
    "Sample",
    "contrast",
    "estimate",
    "intervals",
    "require_choices",
]

METHOD = "bootstrap-t"
"""The name of the interval: studentized bootstrap over members."""

MINIMUM_MEMBERS = 8
"""From this many members on, simulated coverage of a 95 % interval lies within 2 points of 95 %.

That holds for normal, gamma(4), lognormal(0.5), beta(8, 2), beta(20, 1), exponential and Poisson(3) members
(`benchmarks/interval_coverage.py` prints the table). Beyond it lie heavier tails (lognormal(1): 90 % at 8 members, 94 %
at 64) and rare counts: where most documents count zero, all of those at hand may, and then the interval has no width.
"""

UNPAIRED_TOKENS = ("without_first_and_massive",)
"""Token sets that a state chooses for itself, by the norms of its own rows.

They differ between conditions, layers and documents, so that a difference of two such numbers would mix what became of
the tokens with which tokens were counted.
"""

Column = Float[np.ndarray, "members"]
"""One number a member; NaN means undefined."""

Columns = Float[np.ndarray, "members *rest"]
"""One row a member, whatever a member's numbers are arranged in."""

Rest = Float[np.ndarray, "*rest"]
"""One number for each column."""

Counts = Int[np.ndarray, "*rest"]
"""How many members had a number, for each column."""


@dataclass(frozen=True)
class Estimate:
    """A mean over members with its interval.

    The method knows the members' numbers and not what they can be: an end may lie outside the attainable range, above 1
    for an overlap or below 1 for a rank. Where the range is known (`Intervals.within`, a record's attributes) ends are
    cut there, which costs no coverage, since the mean lies within.

    Attributes:
        value: Mean over the members at which the measurement is defined.
        low: Lower end; minus infinity where the members cannot bound it.
        high: Upper end; plus infinity where the members cannot bound it.
        level: Nominal coverage, 0.95 for 95 %.
        members: How many members the interval rests on.
        unit: What a member is.
        method: Name of the interval.
        undefined: How many further members were measured and gave no number.
        floor: How far rounding alone moves the value, as it was measured; NaN where it was not.

    Example:
        >>> print(Estimate(11.4193, 10.88, 12.01, level=0.95, members=64))
        11.42 [10.9, 12.0] 95% over 64 documents
    """

    value: float
    low: float
    high: float
    level: float
    members: int
    unit: str = "documents"
    method: str = METHOD
    undefined: int = 0
    floor: float = math.nan

    @property
    def resolved(self) -> bool | None:
        """Whether a difference is larger than what rounding alone moves it by; None where that was not measured."""
        return None if math.isnan(self.floor) else abs(self.value) > self.floor

    @property
    def flag(self) -> str | None:
        """A sentence on what weakens this interval, or None."""
        percent = f"{100 * self.level:g}%"
        if self.resolved is False:
            return f"Not resolved: rounding alone moves it by up to {self.floor:.2g}."
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

    def _repr_html_(self) -> str:
        """What a notebook shows: the value, its interval small beside it, and what weakens it below."""
        number, _, rest = html.escape(str(self)).partition(" [")
        ends, _, over = rest.partition("]")
        text = f"<b>{number}</b> <small>[{ends}]</small>{over.partition(' (')[0]}"
        return text if self.flag is None else f"{text}<br><small>{html.escape(self.flag)}</small>"


@dataclass(frozen=True, eq=False)
class Intervals:
    """Many estimates at once; every array has the shape `*rest` of one member's values.

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

    def within(self, lowest: ArrayLike, highest: ArrayLike) -> Intervals:
        """The same with ends cut at the attainable range: the true mean lies there, so that this costs no coverage.

        An end that the members cannot bound stays infinite: the range would look like something they had told.

        Args:
            lowest: Lowest attainable mean, one number or one for each column; minus infinity for none.
            highest: Highest attainable mean, likewise.

        Returns:
            Intervals whose ends lie within the range.
        """
        low = np.where(np.isinf(self.low), self.low, np.maximum(self.low, lowest))
        high = np.where(np.isinf(self.high), self.high, np.minimum(self.high, highest))
        return replace(self, low=low, high=high)

    def estimate(self, index: tuple[int, ...] = (), *, unit: str = "documents") -> Estimate:
        """One of them.

        Args:
            index: Where in `*rest`.
            unit: What a member is, in the plural.

        Returns:
            Value, interval, and the number of members they rest on.

        Raises:
            UnsoundError: Fewer than two members have a number there.
        """
        members = int(self.members[index])
        if members < 2:
            raise UnsoundError(_lonely(members, unit))
        ends = (float(self.value[index]), float(self.low[index]), float(self.high[index]))
        return Estimate(*ends, self.level, members, unit, undefined=self.asked - members)


@dataclass(frozen=True, eq=False)
class Sample:
    """One number a member, with everything that decides what it may be subtracted from.

    Attributes:
        values: `members`: one number a member; NaN where undefined.
        members: Names of the members, in order.
        measurement: Name of the observable.
        preparation: Ordered steps, "center, normalize" or "as given".
        tokens: Which tokens took part.
        metric: "residual", or "read" for what the next sublayer's norm hands on.
        source: Hash of the members themselves (token ids), where there is one.
        lowest: Lowest attainable value; ends of intervals are cut there.
        highest: Highest attainable value, likewise.
        floor: How far rounding alone moves a value, as it was measured; NaN where it was not.
    """

    values: Column
    members: tuple[str, ...]
    measurement: str
    preparation: str
    tokens: str = "all"
    metric: str = "residual"
    source: str = ""
    lowest: float = -math.inf
    highest: float = math.inf
    floor: float = math.nan

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
        values: `members *rest`, one row a member; NaN where a member has no number.
        level: Nominal coverage, between 0 and 1.
        resamples: How often the members are resampled.
        seed: Of the resampled counts; equal seeds give equal intervals.

    Returns:
        Arrays of the shape `*rest` of one member.

    Raises:
        UnsoundError: There are fewer than two members.
        NumericalError: A value is infinite.
        ArgumentError: Level or resamples are out of range.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 12.5.

    Example:
        >>> overlaps_of_two_layers = np.array([[0.50, 0.61], [0.54, 0.66], [0.47, np.nan], [0.52, 0.63]])
        >>> found = intervals(overlaps_of_two_layers, level=0.95, resamples=2000, seed=0)
        >>> found.members.tolist(), found.value.round(4).tolist()
        ([4, 3], [0.5075, 0.6333])
    """
    require_choices(level, resamples)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[0] < 2:
        raise UnsoundError(_lonely(0 if array.ndim == 0 else array.shape[0], "members"))
    _require_no_infinity(array)
    rest = array.shape[1:]
    columns = array.reshape(array.shape[0], -1)
    value, low, high, members = bootstrap_t(columns, level=level, resamples=resamples, seed=seed)
    ends = (value.reshape(rest), low.reshape(rest), high.reshape(rest))
    return Intervals(*ends, members.reshape(rest), asked=array.shape[0], level=level)


def estimate(
    values: ArrayLike | Sample, *, level: float, resamples: int, seed: int, unit: str = "documents"
) -> Estimate:
    """The mean over members with its bootstrap-t interval.

    Args:
        values: `members`: one number a member; NaN where a member has none.
        level: Nominal coverage.
        resamples: How often the members are resampled.
        seed: Of the resampling.
        unit: What a member is, in the plural.

    Returns:
        Value, interval and the number of members they rest on.

    Raises:
        UnsoundError: Fewer than two members have a number: one document has no spread to resample.
        ArgumentError: The values are no single column, or level or resamples are out of range.
        NumericalError: A value is infinite.

    Example:
        >>> overlaps = [0.50, 0.54, 0.47, 0.52, 0.49, 0.55, 0.51, 0.48]
        >>> print(estimate(overlaps, level=0.95, resamples=2000, seed=0))
        0.508 [0.485, 0.536] 95% over 8 documents
    """
    array = np.asarray(values.values if isinstance(values, Sample) else values, dtype=np.float64)
    if array.ndim != 1:
        raise ArgumentError(
            f"Argument `values` must hold one number a member, but has shape {array.shape}. "
            "Use `intervals` for many columns."
        )
    if len(array) < 2:
        raise UnsoundError(_lonely(len(array), unit))
    found = intervals(array, level=level, resamples=resamples, seed=seed)
    if isinstance(values, Sample):
        found = found.within(values.lowest, values.highest)
    return found.estimate(unit=unit)


def contrast(
    a: Sample | ArrayLike, b: Sample | ArrayLike, *, level: float, resamples: int, seed: int, unit: str = "documents"
) -> Estimate:
    """The mean of a minus b over members, paired: each member is its own control.

    Args:
        a: `members`: one number a member.
        b: `members`: the same members in the same order, measured and prepared alike on the same tokens.
        level: Nominal coverage.
        resamples: How often the members are resampled.
        seed: Of the resampling.
        unit: What a member is, in the plural.

    Returns:
        The difference with its interval; a member counts where both have a number.

    Raises:
        UnsoundError: The two sides are not the same members, not the same measurement prepared alike, or taken over
            tokens that are chosen anew in every state (`UNPAIRED_TOKENS`).

    Example:
        >>> trained = [0.50, 0.54, 0.47, 0.52, 0.49, 0.55, 0.51, 0.48]
        >>> ablated = [0.61, 0.64, 0.58, 0.62, 0.61, 0.66, 0.61, 0.60]
        >>> print(contrast(trained, ablated, level=0.95, resamples=2000, seed=0))
        -0.1087 [-0.117, -0.102] 95% over 8 documents
    """
    if isinstance(a, Sample) and isinstance(b, Sample):
        _require_alike(a, b)
    left, right = (np.asarray(s.values if isinstance(s, Sample) else s, dtype=np.float64) for s in (a, b))
    if left.shape != right.shape:
        raise UnsoundError(
            f"Argument `b` must hold the same members as `a`, but the shapes are {left.shape} and {right.shape}. "
            "Measure both on identical documents."
        )
    difference = estimate(left - right, level=level, resamples=resamples, seed=seed, unit=unit)
    if not (isinstance(a, Sample) and isinstance(b, Sample)):
        return difference
    low, high = (
        end if math.isinf(end) else min(max(end, a.lowest - b.highest), a.highest - b.lowest)
        for end in (difference.low, difference.high)
    )
    return replace(difference, low=low, high=high, floor=a.floor + b.floor)


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
    if a.tokens in UNPAIRED_TOKENS:
        raise UnsoundError(
            f"Argument `tokens` must be a set that is the same on both sides, but {a.tokens!r} is chosen anew in every "
            "state, by its own norms: the difference would be one of unlike tokens. Use 'without_first' or 'all', or "
            "show both values side by side."
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


def require_choices(level: float, resamples: int) -> None:
    """Refuse a level or a number of resamples from which no interval can come.

    Args:
        level: Nominal coverage, between 0 and 1.
        resamples: How many times members are resampled.

    Raises:
        ArgumentError: With what is needed.
    """
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"Argument `level` must lie between 0 and 1, but is {level!r}. Use 0.95 for 95 %.")
    least = math.ceil(10.0 / (1.0 - level) - 1e-9)
    if resamples < least:
        raise ArgumentError(
            f"Argument `resamples` must be at least {least} for level {level:.12g}, so that five lie beyond either "
            f"end, but is {resamples}. Use {max(least, 2000)}, or a lower level."
        )


def _require_no_infinity(array: np.ndarray) -> None:
    if np.isinf(array).any():
        index = tuple(int(i) for i in np.argwhere(np.isinf(array))[0])
        raise NumericalError(
            f"Argument `values` must be finite or NaN (undefined), but member {index[0]} is {array[index]} at "
            f"{index[1:] or 'its only value'}. Look at the states it was measured on."
        )


def _digits(value: float, low: float, high: float) -> tuple[str, str, str]:
    """The ends to two digits of the interval's width, the value to two digits of half of it.

    Where one end is unbounded, the way to the other counts as half of the width.
    """
    bounded = [end for end in (low, high) if math.isfinite(end)]
    width = high - low if len(bounded) == 2 else 2.0 * max((abs(value - end) for end in bounded), default=0.0)
    if not width > 0.0:
        bottom, top = (f"{end:.6g}" if math.isfinite(end) else "unbounded" for end in (low, high))
        return f"{value:.6g}", bottom, top
    places = 1 - math.floor(math.log10(width))
    finer = 1 - math.floor(math.log10(width / 2.0))
    bottom, top = (_rounded(end, places) if math.isfinite(end) else "unbounded" for end in (low, high))
    return _rounded(value, finer), bottom, top


def _rounded(x: float, places: int) -> str:
    rounded = round(x, places) + 0.0  # no negative zero
    size = math.floor(math.log10(abs(x))) if x else 0
    places = min(places, 14 - size)
    if places > 8 and size < -4:
        return f"{rounded:.{max(places + size, 0)}e}"
    return f"{rounded:.{max(places, 0)}f}"
