"""What a trial left behind and what follows: numbers before and after, witnesses that moved, a judgment for each pair.

Nothing here measures, so that a record can be judged where neither decoder nor documents are at hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from armillary.errors import ArgumentError
from armillary.invariance.verdicts import Verdict, verdicts

__all__ = ["Audit", "Finding", "Judgment", "Reasons", "Tried", "judged"]

Reasons = Mapping[tuple[str, str], str]
"""(measurement, transformation) -> why it cannot change; pairs of which nothing is claimed are absent."""


@dataclass(frozen=True, eq=False)
class Tried:
    """Numbers of the same documents before and after each of several transformations.

    Args:
        before: `documents measurements`.
        after: `transformations documents measurements`.
        floors: How far rounding moves the difference of the first documents, `transformations floored measurements`.
    """

    before: np.ndarray
    after: np.ndarray
    floors: np.ndarray

    @property
    def floor(self) -> np.ndarray:
        """The largest of these documents, `transformations measurements`."""
        known = ~np.isnan(self.floors)
        largest: np.ndarray = np.where(known, self.floors, -np.inf).max(axis=1, initial=-np.inf)
        return np.where(known.any(axis=1), largest, np.nan)


@dataclass(frozen=True)
class Finding:
    """A witness on which a number moved.

    Args:
        measurement: As the study writes it.
        transformation: In words.
        witness: Its name.
        before: The number.
        after: The number after the transformation; NaN where it is undefined.
        floor: What rounding alone moves it by.
    """

    measurement: str
    transformation: str
    witness: str
    before: float
    after: float
    floor: float


@dataclass(frozen=True)
class Judgment:
    """What one number did under one transformation, on the states and on the witnesses.

    Attributes:
        measurement: As a study writes it: name and preparation, in order.
        transformation: In words.
        verdict: Of both together; its numbers are those of the states.
        witness: The first witness that moved; None if none did.
        layer: Of the states; None where they have none.
    """

    measurement: str
    transformation: str
    verdict: Verdict
    witness: Finding | None = None
    layer: int | None = None

    @property
    def on_witness_only(self) -> bool:
        """Whether the states stayed, so that a witness alone shows that the number can change."""
        return self.witness is not None and not self.verdict.largest > self.verdict.floor

    def __str__(self) -> str:
        """The verdict in words, with the witness where it is the one that tells."""
        if self.witness is None or not self.on_witness_only:
            return str(self.verdict)
        shown = self.witness
        return f"{self.verdict.word} on a witness ({shown.witness}: {shown.before:.4g} to {shown.after:.4g})"

    def row(self) -> dict[str, Any]:
        """Plain data for strict JSON."""
        one = self.witness
        told = None if one is None else {
            "name": one.witness,
            "before": one.before,
            "after": one.after if math.isfinite(one.after) else None,
            "floor": one.floor,
        }  # fmt: skip
        place = {} if self.layer is None else {"layer": self.layer}
        head = {"measurement": self.measurement, "transformation": self.transformation}
        return {**head, **place, **self.verdict.row(), "witness": told}


@dataclass(frozen=True)
class Audit:
    """All judgments of one configuration of the trial.

    Attributes:
        judgments: One for each measurement and transformation, measurement by measurement.
        without_claims: Measurements whose observable claims nothing; they were tried like the others.
        documents: How many.
    """

    judgments: tuple[Judgment, ...]
    without_claims: tuple[str, ...]
    documents: int

    @property
    def measurements(self) -> tuple[str, ...]:
        """In order."""
        return tuple(dict.fromkeys(one.measurement for one in self.judgments))

    @property
    def transformations(self) -> tuple[str, ...]:
        """In order."""
        return tuple(dict.fromkeys(one.transformation for one in self.judgments))

    @property
    def refuted(self) -> tuple[Judgment, ...]:
        """Claims that the trial refuted: errors in the package, or in an observable of your own."""
        return tuple(one for one in self.judgments if one.verdict.word == "claim refuted")

    def of(self, measurement: object, transformation: object) -> Judgment:
        """The judgment of one pair.

        Raises:
            ArgumentError: If it was not tried.
        """
        wanted = (str(measurement), str(transformation))
        for one in self.judgments:
            if (one.measurement, one.transformation) == wanted:
                return one
        raise ArgumentError(
            f"Argument `transformation` must be one of those that were tried with {wanted[0]}, but {wanted[1]} was "
            f"not. Tried: {', '.join(self.transformations)}."
        )

    def only(self, transformations: Sequence[str]) -> Audit:
        """The judgments under some of the transformations.

        Args:
            transformations: In words.
        """
        kept = tuple(one for one in self.judgments if one.transformation in transformations)
        return replace(self, judgments=kept)

    def rows(self) -> list[dict[str, Any]]:
        """Plain data for strict JSON, one for each pair."""
        return [one.row() for one in self.judgments]

    def __str__(self) -> str:
        """The table, one row a number and one column a transformation."""
        from armillary.invariance.table import text_table

        return text_table(self)


def judged(
    found: Tried,
    *,
    measurements: Sequence[str],
    transformations: Sequence[str],
    reasons: Reasons,
    findings: Sequence[Finding],
    without_claims: Sequence[str],
    level: float,
    resamples: int,
    seed: int,
    layer: int | None = None,
) -> Audit:
    """Verdicts from the numbers of a trial, wherever they come from: made just now, or read from a record.

    Args:
        found: Numbers before and after, and floors.
        measurements: Names of the columns.
        transformations: Names of the rows.
        reasons: What is claimed.
        findings: Witnesses that moved.
        without_claims: Measurements whose observable claims nothing.
        level: Nominal coverage of the intervals.
        resamples: How often documents are resampled.
        seed: Of the resampling.
        layer: Of the states.

    Returns:
        The audit.
    """
    pairs = [(m, t) for t in transformations for m in measurements]
    before = np.broadcast_to(found.before[:, None], (len(found.before), *found.floor.shape))
    made = verdicts(
        before, np.moveaxis(found.after, 0, 1), floors=found.floor, reasons=[reasons.get(pair) for pair in pairs],
        level=level, resamples=resamples, seed=seed,
    )  # fmt: skip
    first = {(one.measurement, one.transformation): one for one in reversed(findings)}
    judgments = {
        pair: Judgment(*pair, _with_witness(verdict, first.get(pair)), first.get(pair), layer)
        for pair, verdict in zip(pairs, made, strict=True)
    }
    ordered = tuple(judgments[(m, t)] for m in measurements for t in transformations)
    return Audit(ordered, tuple(without_claims), len(found.before))


def _with_witness(verdict: Verdict, finding: Finding | None) -> Verdict:
    """What a witness adds: a claim that it refutes is refuted, and what stayed by accident is known to change."""
    if finding is None or verdict.word == "claim refuted":
        return verdict
    return replace(verdict, word="claim refuted" if verdict.reason is not None else "changes")
