"""One trial: numbers of a few configurations before and after each transformation, and their rounding floors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.invariance.against import Against
from armillary.invariance.floors import floors, least_floors
from armillary.invariance.judgment import Finding, Tried
from armillary.invariance.moved import moved, value_of
from armillary.invariance.witnesses import RESOLUTION, WITNESSES, Witness, for_witness
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.declaration import Measurement
from armillary.transformations.declaration import Transformation

__all__ = ["tried", "witnessed"]


def tried(
    cloud: Cloud,
    transformations: Sequence[Transformation],
    measurements: Sequence[Measurement],
    *,
    floor_documents: int,
) -> Tried:
    """Measure, transform and measure again.

    Args:
        cloud: Rows as given, `documents tokens dim`.
        transformations: What is done to them, each alone.
        measurements: What is measured.
        floor_documents: How many of the documents, from the first, show what rounding does.

    Returns:
        Numbers and floors; a number that is undefined is NaN.
    """
    first = [one.of(cloud) for one in measurements]  # refuses here what cannot be asked of these rows at all
    before = _floors(cloud, None, measurements, first, floor_documents)
    after, found = [], []
    for transformation in transformations:
        mapped = moved(cloud, transformation)
        asked = [one.under(transformation) if isinstance(one, Against) else one for one in measurements]
        values = [value_of(one, mapped) for one in asked]
        after.append(_table(values))
        found.append(np.maximum(before, _floors(mapped, transformation, asked, values, floor_documents)))
        mapped.forget()
    table = _table(first)
    if not found:
        return Tried(table, np.empty((0, *table.shape)), np.empty((0, *before.shape)))
    return Tried(table, np.stack(after), np.stack(found))


def witnessed(
    transformations: Sequence[Transformation],
    measurements: Sequence[Measurement],
    witnesses: Sequence[Witness] = WITNESSES,
) -> tuple[Finding, ...]:
    """The witnesses on which a number moves under a transformation, by more than rounding.

    Args:
        transformations: What is done to them; each in the dimension of the witness.
        measurements: What is measured.
        witnesses: On what.

    Returns:
        One for each measurement, transformation and witness where something moved, in this order of witnesses.
    """
    found = []
    measurements = [one for one in measurements if not isinstance(one, Against)]  # a witness is one configuration
    for alike in _by_shape(witnesses):
        means = torch.stack([one.calibration.mean for one in alike])
        cloud = Cloud(torch.stack([one.rows for one in alike]), calibration=Calibration(means, (0,)))
        cloud.resolution = RESOLUTION
        defined = [one for one in measurements if not bool(value_of(one, cloud).isnan().all())]
        fitting = [(str(t), made) for t in transformations if (made := for_witness(t, cloud.dim)) is not None]
        result = tried(cloud, [made for _, made in fitting], defined, floor_documents=len(alike))
        for t, m, w in np.argwhere(_moved(result)).tolist():
            ends = float(result.before[w, m]), float(result.after[t, w, m]), float(result.floors[t, w, m])
            found.append(Finding(str(defined[m]), fitting[t][0], alike[w].name, *ends))
        cloud.forget()
    order = [one.name for one in witnesses]
    return tuple(sorted(found, key=lambda one: order.index(one.witness)))


def _by_shape(witnesses: Sequence[Witness]) -> list[list[Witness]]:
    """Those of one shape together."""
    found: dict[torch.Size, list[Witness]] = {}
    for one in witnesses:
        found.setdefault(one.rows.shape, []).append(one)
    return list(found.values())


def _moved(result: Tried) -> np.ndarray:
    """Where a number moved by more than its floor or is defined on one side only, `transformations measurements w`."""
    before, after, floor = result.before[None], result.after, result.floors
    one_side = np.isnan(before) != np.isnan(after)
    apart = np.where(one_side, np.inf, np.nan_to_num(np.abs(after - before), nan=0.0))
    return np.moveaxis((apart > floor) & np.isfinite(floor), 1, 2)


def _floors(
    cloud: Cloud,
    transformation: Transformation | None,
    measurements: Sequence[Measurement],
    values: Sequence[Tensor],
    count: int,
) -> np.ndarray:
    """The floors of the first configurations, `count measurements`."""
    if count < 1:
        return np.empty((0, len(measurements)))
    known, numbers = cloud.first(count), [value[:count] for value in values]
    measured = floors(known, transformation, measurements, numbers)
    least = least_floors(measurements, numbers, cloud.tokens, cloud.dim)
    if known is not cloud:
        known.forget()
    return _table([torch.maximum(a, b) for a, b in zip(measured, least, strict=True)])


def _table(values: Sequence[Tensor]) -> np.ndarray:
    made = torch.stack([value.double() for value in values], dim=-1) if values else torch.empty(0, 0)
    return made.cpu().numpy()
