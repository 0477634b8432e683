"""The rounding floor: how far a number moves by rounding alone, as a run measured it, and what it leaves unresolved.

A few documents of a run pass through the same weights once more in the next wider type, in which every weight is exact.
What a number differs by between the two passes is rounding; the floor of a number is the largest such difference over
these documents and, since one of them may come out right by chance, over the neighboring measured layers. A difference
of two numbers below the sum of their floors is not resolved. Rounding of a mean over many documents is smaller still.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from armillary.records.assembly import Variable

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["floor_name", "floors", "is_floor", "judged", "moved", "resolved", "with_floors"]

_ENDING = "_rounding"
_AXES = ("condition", "tap", "layer", "tokens", "preparation")


def floor_name(variable: str) -> str:
    """The variable that holds the floors of a variable."""
    return f"{variable}{_ENDING}"


def is_floor(name: str) -> bool:
    """Whether a variable holds floors."""
    return name.endswith(_ENDING)


def judged(variables: Mapping[str, Variable]) -> tuple[str, ...]:
    """The variables that have a floor: one number for each condition, document and further label of a table."""
    return tuple(
        name
        for name, one in variables.items()
        if {"condition", "document"} <= set(one.dims) <= {*_AXES, "document"} and one.dtype == "float64"
    )


def moved(
    narrow: Mapping[str, np.ndarray],
    wide: Mapping[str, np.ndarray],
    variables: Mapping[str, Variable],
    layers: Sequence[int],
) -> dict[str, np.ndarray]:
    """The largest difference over documents, and over a layer and its neighbors, between two passes of the documents.

    The embedding has no neighbor: before the first block hardly anything is rounded.

    Args:
        narrow: Numbers of the run, document axis first.
        wide: The same in the wider type.
        variables: Which of them, with their axes.
        layers: Measured layers.

    Returns:
        Name of the floors -> floors without the document axis; NaN where a number is undefined in both passes of every
        document, infinite where rounding alone decides whether there is a number.
    """
    found = {}
    for name, variable in variables.items():
        one, other = narrow[name], wide[name]
        apart = np.abs(one - other)
        apart = np.where(np.isnan(one) != np.isnan(other), np.inf, apart)
        largest = np.where(np.isnan(apart), -np.inf, apart).max(axis=0)
        floor = np.where(np.isnan(apart).all(axis=0), np.nan, largest)
        if "layer" in variable.dims:
            floor = _with_neighbors(floor, variable.inner.index("layer"), start=1 if layers[0] == 0 else 0)
        found[floor_name(name)] = floor
    return found


def _with_neighbors(floor: np.ndarray, axis: int, *, start: int) -> np.ndarray:
    """The largest of each entry and the ones beside it along an axis, from `start` on; NaN stays NaN."""
    along = np.moveaxis(floor, axis, 0).copy()
    known = np.where(np.isnan(along), -np.inf, along)[start:]
    padded = np.concatenate([known[:1], known, known[-1:]])
    widest = np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])
    along[start:] = np.where(np.isnan(along[start:]), np.nan, widest)
    return np.moveaxis(along, 0, axis)


def with_floors(
    dataset: xarray.Dataset, variables: Mapping[str, Variable], parts: Mapping[int, Mapping[str, np.ndarray]], said: str
) -> xarray.Dataset:
    """A record's numbers with the floors beside them.

    Args:
        dataset: The numbers.
        variables: What they are.
        parts: Place of a condition on its axis -> its floors.
        said: How they were measured.

    Returns:
        The dataset with one more variable for each that was judged; as it came where there are no floors.
    """
    found = {}
    for name in judged(variables):
        if not any(floor_name(name) in arrays for arrays in parts.values()):
            continue
        dims = tuple(axis for axis in variables[name].dims if axis != "document")
        numbers = np.full([dataset.sizes[axis] for axis in dims], np.nan)
        by_condition = np.moveaxis(numbers, dims.index("condition"), 0)
        for condition, arrays in parts.items():
            if floor_name(name) in arrays:
                by_condition[condition] = arrays[floor_name(name)]
        attrs = {"definition": f"largest change of {name} by rounding alone", "measured_by": said}
        found[floor_name(name)] = (dims, numbers, attrs)
    return dataset.assign(found) if found else dataset


def floors(dataset: xarray.Dataset, columns: pandas.DataFrame) -> np.ndarray:
    """The floor of each combination.

    Args:
        dataset: The measurements of a record.
        columns: Rows with measurement, condition, layer, place, tokens, preparation.

    Returns:
        One number a row; NaN where none was measured.
    """
    found = np.full(len(columns), np.nan)
    table = columns.reset_index(drop=True)
    for name, rows in table.groupby("measurement"):
        if floor_name(str(name)) not in dataset:
            continue
        held = dataset[floor_name(str(name))]
        places = []
        for axis in held.dims:
            labels = {label: place for place, label in enumerate(held[axis].values.tolist())}
            asked = rows["place" if axis == "tap" else str(axis)]
            places.append([labels[one] for one in asked.tolist()])
        found[rows.index.to_numpy()] = held.values[tuple(np.asarray(one, dtype=int) for one in places)]
    return found


def resolved(value: float, floor: float) -> bool | None:
    """Whether a difference lies above its floor; None where no floor was measured or there is no difference."""
    return None if math.isnan(floor) or math.isnan(value) else abs(value) > floor
