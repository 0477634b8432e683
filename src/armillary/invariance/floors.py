"""How far rounding alone moves a number in the trial itself: measured by moving the rows by about as much as it does.

States are mapped and measured in float64. Mapping rounds: x M is off by about eps k |x M| for a matrix of condition
number k. So the rows after the map are moved at random, by twice that, and measured again; what the number moves by,
fifty times over, is the floor: sums round as well, and only a few documents are moved. Two things no jitter shows for
certain. Singular values that are zero but for rounding come out between zero and sqrt(n eps) of the
largest: the number is taken at both ends. And counts with a tolerance may change by as many units as a map of that
condition number can push across it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from armillary.invariance.against import Against
from armillary.invariance.moved import value_of
from armillary.invariance.proofs import behind
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Measurement
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import DiagonalGain, GeneralLinear, Linear
from armillary.transformations.rows import RowScale

__all__ = ["SAFETY", "floors", "least_floors", "stretch"]

SAFETY = 50.0
"""How many times what a jitter of the size of rounding moved a number by still counts as rounding."""

_EPS = torch.finfo(torch.float64).eps
_LEAST = 1024 * _EPS


def stretch(transformation: Transformation, tokens: int, dim: int) -> float:
    """The condition number of a transformation as a matrix that acts on rows, or on tokens; one for all others.

    Args:
        transformation: Which one.
        tokens: Number of rows.
        dim: Their dimension.

    Returns:
        Largest over smallest factor, at least 1. Of a gain with zeros, over the smallest of the others: what is
        multiplied by zero is zero exactly, and has no rounding.
    """
    if isinstance(transformation, GeneralLinear):
        return transformation.condition_number
    if isinstance(transformation, DiagonalGain):
        sizes = transformation.matrix(dim).abs()
    elif isinstance(transformation, Linear):
        sizes = torch.linalg.svdvals(transformation.matrix(dim))
    elif isinstance(transformation, RowScale):
        sizes = transformation.factors(tokens)
    else:
        return 1.0
    sizes = sizes[sizes > 0]
    return float(sizes.max() / sizes.min()) if len(sizes) else 1.0


def floors(
    cloud: Cloud, transformation: Transformation | None, measurements: Sequence[Measurement], values: Sequence[Tensor]
) -> list[Tensor]:
    """How far rounding moves each number of rows that went through a transformation.

    Args:
        cloud: Rows after the transformation.
        transformation: Which one; None for the rows before.
        measurements: What was measured.
        values: What came out, one tensor `*batch` a measurement.

    Returns:
        One tensor `*batch` for each measurement; infinite where rounding alone decides whether there is a number.
    """
    factor = 1.0 if transformation is None else stretch(transformation, cloud.tokens, cloud.dim)
    jittered = _jittered(cloud, min(factor, 1.0 / _EPS))
    found = []
    for measurement, value in zip(measurements, values, strict=True):
        again = value_of(_beside(measurement, jittered, factor), jittered)
        apart = (again - value).abs()
        apart = torch.where(torch.isnan(again) != torch.isnan(value), math.inf, torch.nan_to_num(apart, nan=0.0))
        open_ends = _undecided(cloud, measurement, transformation, factor, value) + _null(cloud, measurement, value)
        found.append(torch.maximum(SAFETY * apart, open_ends))
    jittered.forget()
    return found


def least_floors(measurements: Sequence[Measurement], values: Sequence[Tensor], tokens: int, dim: int) -> list[Tensor]:
    """The floor below which none goes: a thousand roundings of the largest number that a measurement can be or was.

    Args:
        measurements: What was measured.
        values: What came out.
        tokens: Number of rows.
        dim: Their dimension.

    Returns:
        One tensor `*batch` for each measurement.
    """
    found = []
    for measurement, value in zip(measurements, values, strict=True):
        ends = [abs(end) for end in measurement.observable.attainable(tokens, dim) if math.isfinite(end)]
        size = torch.nan_to_num(value.double().abs(), nan=0.0, posinf=0.0)
        found.append(_LEAST * size.clamp(min=max(ends, default=0.0)))
    return found


def _undecided(
    cloud: Cloud, measurement: Measurement, transformation: Transformation | None, factor: float, value: Tensor
) -> Tensor:
    """What a tolerance leaves open; normalizing behind a map stretches once more, unless it takes the map away."""
    ask, steps = measurement.observable.undecided, measurement.preparation.steps
    if ask is None or transformation is None or factor == 1.0 or behind(measurement.preparation, transformation) == ():
        return torch.zeros_like(value)
    return ask(cloud.prepared(steps), factor ** (1 + steps.count("normalize"))).to(value)


def _null(cloud: Cloud, measurement: Measurement, value: Tensor) -> Tensor:
    """What singular values that are zero but for rounding do to a number of the spectrum."""
    if measurement.observable.wants != "spectrum":
        return torch.zeros_like(value)
    spectrum = cloud.prepared(measurement.preparation.steps).singular_values
    bound = math.sqrt(spectrum.shape[-1] * _EPS) * spectrum[..., :1]
    ends = (torch.where(spectrum > bound, spectrum, end) for end in (bound, torch.zeros_like(bound)))
    high, low = (measurement.observable.function(end) for end in ends)
    return torch.nan_to_num((high - low).abs(), nan=0.0)


def _beside(measurement: Measurement, cloud: Cloud, factor: float) -> Measurement:
    """The measurement, with the other layer moved at random too if it is one between layers."""
    if not isinstance(measurement, Against):
        return measurement
    return replace(measurement, other=_jittered(measurement.other.first(cloud.batch[0]), min(factor, 1.0 / _EPS)))


def _jittered(cloud: Cloud, factor: float) -> Cloud:
    """The rows moved at random, each by about what rounding does to it."""
    rows = cloud.rows.double()
    size = 2 * _EPS * factor * rows.norm(dim=-1, keepdim=True) / math.sqrt(cloud.dim)
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = Cloud(rows + size * noise.to(rows.device), calibration=cloud.calibration)
    made.resolution = cloud.resolution
    return made
