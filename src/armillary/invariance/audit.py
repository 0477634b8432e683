"""The audit: every number under every transformation, on real states and on witnesses, with a verdict for each pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from armillary.errors import ArgumentError
from armillary.estimates import require_choices
from armillary.invariance.proofs import proof
from armillary.invariance.trial import Finding, Tried, tried, witnessed
from armillary.invariance.verdicts import Verdict, verdicts
from armillary.invariance.witnesses import WITNESSES, Witness
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.declaration import Measurement, as_tensor, require_finite_rows
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import (
    DiagonalGain,
    FeaturePermutation,
    GeneralLinear,
    Linear,
    Orthogonal,
    largest_condition_number,
)
from armillary.transformations.rows import Centering, GlobalScale, RowScale, TokenPermutation, Translation

__all__ = ["Audit", "Judgment", "Reasons", "audit", "judged", "reasons_of", "require_resolvable", "standard"]

Reasons = Mapping[tuple[str, str], str]
"""(measurement, transformation) -> why it cannot change; pairs of which nothing is claimed are absent."""


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

    def of(self, measurement: Measurement | str, transformation: Transformation | str) -> Judgment:
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

    def rows(self) -> list[dict[str, Any]]:
        """Plain data for strict JSON, one for each pair."""
        return [one.row() for one in self.judgments]

    def __str__(self) -> str:
        """The table, one row a number and one column a transformation."""
        from armillary.invariance.table import text_table

        return text_table(self)


def standard(*, condition_number: float, seed: int, gain: DiagonalGain | None = None) -> tuple[Transformation, ...]:
    """The transformations of a laboratory, from what the metric does not see to what changes it.

    Args:
        condition_number: Of the general linear map.
        seed: Of everything that is drawn.
        gain: Of a norm that reads the states, if there is one; gains from 2 to 1 otherwise are not assumed.

    Returns:
        Nine of them, or eight without a gain.
    """
    return (
        Orthogonal(seed),
        FeaturePermutation(seed),
        TokenPermutation(seed),
        GlobalScale(3.0),
        RowScale(0.5, seed),
        Translation(1.0, seed),
        Centering(),
        *(() if gain is None else (gain,)),
        GeneralLinear(condition_number, seed),
    )


def audit(
    measurements: Sequence[Measurement],
    configurations: Any,
    *,
    transformations: Sequence[Transformation] | None = None,
    calibration: Calibration | None = None,
    witnesses: Sequence[Witness] = WITNESSES,
    condition_number: float = 4.0,
    floor_documents: int = 2,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Audit:
    """Put every claim to the trial, and try what nothing is claimed of.

    Args:
        measurements: Observables with their preparations.
        configurations: States of documents, `documents tokens dim`, or of one, `tokens dim`.
        transformations: What is done to them; `standard` if None, with a diagonal gain from 2 to 1.
        calibration: For the steps that subtract what was estimated on other documents.
        witnesses: Named configurations on which claims are tried besides.
        condition_number: Of the general linear map, where `transformations` is None.
        floor_documents: How many documents show what rounding does.
        level: Nominal coverage of the intervals.
        resamples: How often documents are resampled.
        seed: Of what is drawn, and of the resampling.

    Returns:
        A judgment for each measurement and transformation; with one document, without intervals.

    Raises:
        ArgumentError: If a measurement has no preparation, states are not finite, or a condition number is larger than
            the type of the states resolves.

    Example:
        >>> from armillary.observables.rank import algebraic_rank, participation_rank
        >>> gain = DiagonalGain(torch.tensor([2.0, 1.0]), name="diag(2, 1)")
        >>> ranks = [participation_rank.after(), algebraic_rank.after()]
        >>> found = audit(ranks, torch.eye(2, dtype=torch.float64), transformations=[gain], seed=0)
        >>> [str(one) for one in found.judgments]
        ['changes by -0.5294 [one document: no interval] (-26.5%)', 'proved and survived']
    """
    require_choices(level, resamples)
    rows = as_tensor(configurations)
    require_finite_rows(rows)
    rows = rows[None] if rows.ndim == 2 else rows.flatten(end_dim=-3)
    _require_measurements(measurements)
    chosen = transformations
    if chosen is None:
        gains = torch.logspace(1, 0, rows.shape[-1], base=2.0, dtype=torch.float64)
        chosen = standard(condition_number=condition_number, seed=seed, gain=DiagonalGain(gains, name="diagonal gain"))
    require_resolvable(chosen, rows.shape[-2], rows.shape[-1], rows.dtype)
    cloud = Cloud(rows, accumulate=torch.float64, calibration=calibration)
    found = tried(cloud, chosen, measurements, floor_documents=max(1, min(floor_documents, len(rows))))
    return judged(
        found,
        measurements=[str(one) for one in measurements],
        transformations=[str(one) for one in chosen],
        reasons=reasons_of(measurements, chosen),
        findings=witnessed(chosen, measurements, witnesses),
        without_claims=[str(one) for one in measurements if not one.observable.claims],
        level=level,
        resamples=resamples,
        seed=seed,
    )


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


def reasons_of(measurements: Sequence[Measurement], transformations: Sequence[Transformation]) -> Reasons:
    """What is claimed of each pair, with its reason."""
    return {
        (str(m), str(t)): reason for m in measurements for t in transformations if (reason := proof(m, t)) is not None
    }


def require_resolvable(transformations: Sequence[Transformation], tokens: int, dim: int, dtype: torch.dtype) -> None:
    """Refuse a condition number that the type of the states does not resolve.

    Args:
        transformations: Which may have one.
        tokens: Number of rows.
        dim: Their dimension.
        dtype: That of the states as they came.

    Raises:
        ArgumentError: Naming the largest that it does.
    """
    largest = largest_condition_number(tokens, dim, dtype)
    for one in transformations:
        if isinstance(one, GeneralLinear) and one.condition_number > largest:
            raise ArgumentError(
                f"Argument `condition_number` must be at most {largest:.3g}, what {str(dtype).removeprefix('torch.')} "
                f"resolves of {tokens} rows in {dim} dimensions, but it is {one.condition_number:g}. Lower it, or keep "
                "states in a wider type."
            )
        if isinstance(one, Linear):
            one.matrix(dim)


def _require_measurements(measurements: Sequence[Any]) -> None:
    for one in measurements:
        if not isinstance(one, Measurement):
            raise ArgumentError(
                f"Argument `measurements` must hold observables with a declared preparation, but it holds "
                f"{getattr(one, 'name', one)!r} without one. Write for example participation_rank.after('normalize'), "
                "or .after() for rows as given."
            )


def _with_witness(verdict: Verdict, finding: Finding | None) -> Verdict:
    """What a witness adds: a claim that it refutes is refuted, and what stayed by accident is known to change."""
    if finding is None or verdict.word == "claim refuted":
        return verdict
    return replace(verdict, word="claim refuted" if verdict.reason is not None else "changes")
