"""A verdict: what a number did when something was done to the states or to the weights, and how sure that is.

It sees numbers before and after, document by document, how far rounding alone moves them, and the reason, if there is
one, why they cannot move. Where they come from it does not know: a transformation of the rows, or a re-parametrization
of a decoder. What was done is fixed and not random, so that every document is a proof of its own: a number has moved
if it moved by more than its floor in any document. The interval says how large the change is over documents like these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from armillary.errors import ArgumentError
from armillary.estimates import Estimate, intervals

__all__ = ["WORDS", "Verdict", "Word", "verdict", "verdicts"]

Word = Literal["proved and survived", "survived", "changes", "claim refuted", "not resolved", "undefined"]

WORDS: dict[Word, str] = {
    "proved and survived": "a theorem says that it cannot change, and it did not change beyond rounding",
    "survived": "it did not change beyond rounding; nothing says that it never will",
    "changes": "it changed by more than rounding in at least one document, or on a witness",
    "claim refuted": "a theorem was claimed and it changed: an error in the package",
    "not resolved": "rounding alone may decide, so that the trial says nothing",
    "undefined": "it is undefined before and after, everywhere",
}
"""Every word of a verdict and what it says."""


@dataclass(frozen=True)
class Verdict:
    """What one number did under one transformation.

    Attributes:
        word: The verdict.
        before: Mean over documents before; NaN where undefined.
        after: Mean over documents after.
        difference: Mean over documents of after minus before, paired.
        low: Lower end of its interval; NaN with one document.
        high: Upper end.
        relative: Difference over the absolute value of `before`; NaN where that is below the floor.
        largest: Largest |after - before| of any document; infinite where only one of them is defined.
        floor: How far rounding alone moves the difference of a document; NaN where that was not measured.
        documents: Documents with a number before and after.
        level: Nominal coverage of the interval.
        reason: Why it cannot change; None without a claim.
    """

    word: Word
    before: float
    after: float
    difference: float
    low: float
    high: float
    relative: float
    largest: float
    floor: float
    documents: int
    level: float
    reason: str | None = None

    @property
    def resolved(self) -> bool:
        """Whether the mean difference is larger than what rounding alone moves a document's number by."""
        return abs(self.difference) > self.floor

    @property
    def change(self) -> str:
        """The difference with its interval and, behind it, relative to the number before; or that it is rounding."""
        if math.isinf(self.largest):
            return "defined on one side only in a document"
        if math.isnan(self.difference):
            return "undefined"
        if not self.resolved:
            single = f", up to {self.largest:.2g} in a document" if self.largest > self.floor else ""
            return f"{self.difference:.1e}, not resolved (floor {self.floor:.1e}){single}"
        return f"{self._with_interval}{self._beside}"

    @property
    def _with_interval(self) -> str:
        if self.documents < 2 or math.isnan(self.low):
            return f"{self.difference:.4g} [one document: no interval]"
        return str(Estimate(self.difference, self.low, self.high, self.level, self.documents)).partition("]")[0] + "]"

    @property
    def _beside(self) -> str:
        return "" if math.isnan(self.relative) else f" ({100 * self.relative:+.3g}%)"

    def __str__(self) -> str:
        """`changes by 0.37 [0.31, 0.44] (+9.1%)`, or the word alone where nothing changed."""
        if self.word == "changes":
            return f"changes by {self.change}"
        return f"claim refuted: changes by {self.change}" if self.word == "claim refuted" else self.word

    def row(self) -> dict[str, Any]:
        """Plain data for strict JSON; what is undefined, unbounded or not measured is None."""
        numbers = ("before", "after", "difference", "low", "high", "relative", "largest", "floor", "level")
        return {
            "verdict": self.word,
            **{name: _strict(getattr(self, name)) for name in numbers},
            "documents": self.documents,
            "resolved": self.resolved,
            "reason": self.reason,
        }


def verdict(
    before: ArrayLike,
    after: ArrayLike,
    *,
    floor: float,
    reason: str | None,
    level: float,
    resamples: int,
    seed: int,
) -> Verdict:
    """The verdict on one number.

    Args:
        before: `documents`: one number a document; NaN where undefined.
        after: The same documents in the same order.
        floor: How far rounding alone moves the difference of a document; NaN if that is not known.
        reason: Why it cannot change, with its source; None where nothing is claimed.
        level: Nominal coverage of the interval.
        resamples: How often documents are resampled.
        seed: Of the resampling.

    Returns:
        The verdict; without an interval where there is one document.

    Raises:
        ArgumentError: If the two are not one column each, of the same documents.

    Example:
        >>> print(verdict([2.0], [25 / 17], floor=1e-14, reason=None, level=0.95, resamples=2000, seed=0))
        changes by -0.5294 [one document: no interval] (-26.5%)
    """
    column = np.asarray(before, dtype=np.float64)
    if column.ndim != 1:
        raise ArgumentError(
            f"Argument `before` must hold one number a document, but has shape {column.shape}. Use `verdicts` for many "
            "columns."
        )
    return verdicts(
        column, after, floors=floor, reasons=[reason], level=level, resamples=resamples, seed=seed
    )[0]  # fmt: skip


def verdicts(
    before: ArrayLike,
    after: ArrayLike,
    *,
    floors: ArrayLike,
    reasons: Sequence[str | None],
    level: float,
    resamples: int,
    seed: int,
) -> list[Verdict]:
    """The verdicts on many numbers, all from the same resampled documents.

    Args:
        before: `documents *rest`; NaN where undefined.
        after: The same.
        floors: `*rest`, or one for all: how far rounding alone moves the difference of a document.
        reasons: One for each number in the order of `*rest` flattened, or one for all.
        level: Nominal coverage of the intervals.
        resamples: How often documents are resampled.
        seed: Of the resampling.

    Returns:
        One for each number, in the order of `*rest` flattened.

    Raises:
        ArgumentError: If shapes disagree.
    """
    first, then = (np.asarray(one, dtype=np.float64) for one in (before, after))
    if first.ndim < 1 or first.shape != then.shape or not len(first):
        raise ArgumentError(
            f"Argument `after` must hold the documents and numbers of `before`, but the shapes are {then.shape} and "
            f"{first.shape}. Measure both on identical documents."
        )
    first, then = first.reshape(len(first), -1), then.reshape(len(then), -1)
    count = first.shape[1]
    floor = np.broadcast_to(np.asarray(floors, dtype=np.float64).reshape(-1), (count,))
    why = list(reasons) * count if len(reasons) == 1 else list(reasons)
    if len(why) != count:
        raise ArgumentError(
            f"Argument `reasons` must hold one for each of the {count} numbers, or one for all, but it holds "
            f"{len(reasons)}. Say None where nothing is claimed."
        )
    mean_before, mean_after = _means(first), _means(then)
    difference, low, high, members = _intervals(then - first, level=level, resamples=resamples, seed=seed)
    largest = _largest(first, then)
    found = []
    for k in range(count):
        ends = float(mean_before[k]), float(mean_after[k]), float(difference[k]), float(low[k]), float(high[k])
        size = abs(ends[0])
        relative = ends[2] / size if size > 0 and not size <= floor[k] else math.nan
        numbers = relative, float(largest[k]), float(floor[k]), int(members[k])
        found.append(Verdict(_word(numbers[1], numbers[2], why[k]), *ends, *numbers, level, why[k]))
    return found


def _word(largest: float, floor: float, reason: str | None) -> Word:
    if math.isnan(largest):
        return "undefined"
    if math.isinf(floor) or (math.isnan(floor) and largest > 0):
        return "not resolved"
    if largest > floor:
        return "changes" if reason is None else "claim refuted"
    return "survived" if reason is None else "proved and survived"


def _largest(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Largest |after - before| of any document; infinite where a number is on one side only, NaN where on none."""
    apart = np.abs(after - before)
    apart[np.isnan(before) != np.isnan(after)] = math.inf
    nowhere = np.isnan(apart).all(axis=0)
    return np.where(nowhere, math.nan, np.where(np.isnan(apart), -math.inf, apart).max(axis=0))


def _means(columns: np.ndarray) -> np.ndarray:
    known = ~np.isnan(columns)
    total = np.where(known, columns, 0.0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(columns.shape[1], math.nan), where=known.any(axis=0))


def _intervals(
    differences: np.ndarray, *, level: float, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, both ends and members of each column; no ends with one document."""
    if len(differences) < 2:
        nothing = np.full(differences.shape[1], math.nan)
        return differences[0], nothing, nothing, (~np.isnan(differences)).sum(axis=0)
    found = intervals(differences, level=level, resamples=resamples, seed=seed)
    return found.value, found.low, found.high, found.members


def _strict(number: float) -> float | None:
    return number if math.isfinite(number) else None
