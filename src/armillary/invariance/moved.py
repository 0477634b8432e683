"""Each number after a transformation: rows mapped, and whatever was estimated elsewhere moved along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from armillary.errors import UnsoundError
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.declaration import Measurement
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import FeaturePermutation

__all__ = ["moved", "value_of", "values_after"]


def moved(cloud: Cloud, transformation: Transformation) -> Cloud:
    """The rows as given after a transformation, in float64; their calibration goes along.

    Args:
        cloud: Rows as given.
        transformation: What is done to them.

    Returns:
        A cloud of the same shape. Tolerances refer to the type in which `cloud` came.
    """
    rows = cloud.rows.double()
    mapped = Cloud(transformation.of(rows), calibration=_along(cloud.calibration, transformation, rows))
    mapped.resolution = cloud.resolution
    return mapped


def values_after(cloud: Cloud, transformation: Transformation, measurements: Sequence[Measurement]) -> list[Tensor]:
    """Each measurement of the rows after a transformation.

    Args:
        cloud: Rows as given.
        transformation: What is done to them.
        measurements: What to measure.

    Returns:
        One tensor `*batch` for each measurement, in float64.
    """
    mapped = moved(cloud, transformation)
    values = [value_of(measurement, mapped) for measurement in measurements]
    mapped.forget()
    return values


def value_of(measurement: Measurement, cloud: Cloud) -> Tensor:
    """The number, NaN where it is not defined for rows like these: of unit length only, and they have none any more.

    Args:
        measurement: What to measure.
        cloud: Rows as given.

    Returns:
        Tensor `*batch`, float64.
    """
    try:
        return measurement.of(cloud).double()
    except UnsoundError:
        return torch.full(cloud.batch, torch.nan, dtype=torch.float64)


def _along(calibration: Calibration | None, transformation: Transformation, rows: Tensor) -> Calibration | None:
    """The mean row goes along; named coordinates stay where they are, unless coordinates themselves are renamed."""
    if calibration is None:
        return None
    made = replace(calibration, mean=transformation.along(calibration.mean.to(rows), rows))
    if isinstance(transformation, FeaturePermutation):
        place = transformation.order(rows.shape[-1]).argsort().tolist()
        made = replace(made, coordinates=tuple(place[index] for index in calibration.coordinates))
    return made
