"""The audit: every number under every transformation, on real states and on witnesses, with a verdict for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from armillary.errors import ArgumentError
from armillary.estimates import require_choices
from armillary.invariance.floors import stretch
from armillary.invariance.judgment import Audit, Reasons, judged
from armillary.invariance.proofs import proof
from armillary.invariance.trial import tried, witnessed
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

__all__ = ["audit", "reasons_of", "require_transformations", "standard"]


def standard(*, condition_number: float, seed: int, gain: DiagonalGain | None = None) -> tuple[Transformation, ...]:
    """The transformations of a laboratory, from what the metric does not see to what changes it.

    Args:
        condition_number: Of the general linear map.
        seed: Of everything that is drawn.
        gain: Of a norm that reads the states, if there is one.

    Returns:
        Nine of them, or eight without a gain, which is the last.
    """
    return (
        Orthogonal(seed),
        FeaturePermutation(seed),
        TokenPermutation(seed),
        GlobalScale(3.0),
        RowScale(0.5, seed),
        Translation(1.0, seed),
        Centering(),
        GeneralLinear(condition_number, seed),
        *(() if gain is None else (gain,)),
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
        ArgumentError: If there is nothing to try, two share a name, a measurement has no preparation, states are not
            finite, or a condition number is larger than the type of the states resolves.

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
    require_transformations(chosen, rows.shape[-1], rows.dtype)
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


def reasons_of(measurements: Sequence[Measurement], transformations: Sequence[Transformation]) -> Reasons:
    """What is claimed of each pair, with its reason."""
    return {
        (str(m), str(t)): reason for m in measurements for t in transformations if (reason := proof(m, t)) is not None
    }


def require_transformations(transformations: Sequence[Transformation], dim: int, dtype: torch.dtype) -> None:
    """Refuse none at all, two of one name, and a condition number that the type of the states does not resolve.

    Args:
        transformations: What is to be done to states.
        dim: Dimension of the rows.
        dtype: That of the states as they came.

    Raises:
        ArgumentError: Naming what two share, or the largest condition number that is resolved.
    """
    if not transformations:
        raise ArgumentError(
            "Argument `transformations` must hold at least one, but it is empty. Give for example "
            "[Translation(1.0, seed=0)]."
        )
    _require_apart("transformations", transformations, remedy="Give one another name.")
    largest = largest_condition_number(dtype)
    for one in transformations:
        if not isinstance(one, GeneralLinear | Linear):
            continue
        if not (condition_number := stretch(one, 1, dim)) < largest:
            must, but = "`given` must have a condition number", "it has one of"
            if isinstance(one, GeneralLinear):
                must, but = "`condition_number` must be", "it is"
            raise ArgumentError(
                f"Argument {must} below {largest:.3g}, where {str(dtype).removeprefix('torch.')} "
                f"leaves only rounding of the direction that is stretched least, but {but} {condition_number:.6g}. "
                "Lower it, or keep states in a wider type."
            )


def _require_measurements(measurements: Sequence[Any]) -> None:
    if not measurements:
        raise ArgumentError(
            "Argument `measurements` must hold at least one, but it is empty. Give for example "
            "[participation_rank.after('normalize')]."
        )
    for one in measurements:
        if not isinstance(one, Measurement):
            raise ArgumentError(
                f"Argument `measurements` must hold observables with a declared preparation, but it holds "
                f"{getattr(one, 'name', one)!r} without one. Write for example participation_rank.after('normalize'), "
                "or .after() for rows as given."
            )
    _require_apart("measurements", measurements, remedy="Leave one out.")


def _require_apart(argument: str, given: Sequence[object], *, remedy: str) -> None:
    """Verdicts go by names, so that two of one name would be one."""
    names = [str(one) for one in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ArgumentError(
            f"Argument `{argument}` must have a name each, but {names.count(twice[0])} are called {twice[0]!r}. "
            f"{remedy}"
        )
