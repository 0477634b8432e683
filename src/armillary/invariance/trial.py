"""One trial: numbers of a few configurations before and after each transformation, and their rounding floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from armillary.invariance.against import Against
from armillary.invariance.floors import floors, least_floors
from armillary.invariance.judgment import Finding, Tried
from armillary.invariance.moved import moved, value_of
from armillary.invariance.proofs import proof
from armillary.invariance.witnesses import RESOLUTION, WITNESSES, Witness, for_witness
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.declaration import Measurement
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import Linear

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

    A number between layers is tried on pairs of witnesses of one shape. A given matrix is tried by another one of its
    condition number: what is claimed of it is claimed of every invertible matrix; where nothing is, it stays untried.

    Args:
        transformations: What is done to them; each in the dimension of the witness.
        measurements: What is measured.
        witnesses: On what.

    Returns:
        One for each measurement, transformation and witness where something moved, in this order of witnesses.
    """
    single = [one for one in measurements if not isinstance(one, Against)]
    between = [one for one in measurements if isinstance(one, Against)]
    found: list[tuple[int, Finding]] = []
    for alike in _by_shape(witnesses):
        places, names = [witnesses.index(one) for one in alike], [one.name for one in alike]
        found += _moving(transformations, single, alike, list(zip(places, names, strict=True)))
        if len(alike) > 1 and between:
            later = [*alike[1:], alike[0]]
            pairs = [f"{one.name} and {other.name}" for one, other in zip(alike, later, strict=True)]
            held = _as_cloud(later)
            asked = [replace(one, other=held) for one in between]
            found += _moving(transformations, asked, alike, list(zip(places, pairs, strict=True)))
    return tuple(finding for _, finding in sorted(found, key=lambda entry: entry[0]))


def _moving(
    transformations: Sequence[Transformation],
    measurements: Sequence[Measurement],
    alike: Sequence[Witness],
    called: Sequence[tuple[int, str]],
) -> list[tuple[int, Finding]]:
    """What moved on witnesses of one shape, each with its place among all of them."""
    cloud = _as_cloud(alike)
    defined = [one for one in measurements if not bool(value_of(one, cloud).isnan().all())]
    fitting = [for_witness(one, cloud.dim) for one in transformations]
    result = tried(cloud, fitting, defined, floor_documents=len(alike))
    cloud.forget()
    found = []
    for t, m, w in np.argwhere(_moved(result)).tolist():
        transformation, measurement = transformations[t], defined[m]
        if isinstance(transformation, Linear) and proof(measurement, transformation) is None:
            continue
        ends = float(result.before[w, m]), float(result.after[t, w, m]), float(result.floors[t, w, m])
        place, name = called[w]
        found.append((place, Finding(str(measurement), str(transformation), name, *ends)))
    return found


def _as_cloud(witnesses: Sequence[Witness]) -> Cloud:
    means = torch.stack([one.calibration.mean for one in witnesses])
    cloud = Cloud(torch.stack([one.rows for one in witnesses]), calibration=Calibration(means, (0,)))
    cloud.resolution = RESOLUTION
    return cloud


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
