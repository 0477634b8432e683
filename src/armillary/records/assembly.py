"""From the arrays of chunks to one labeled dataset: document after document, condition beside condition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

__all__ = ["Part", "Variable", "assembled"]


@dataclass(frozen=True)
class Variable:
    """One variable of a record.

    In the arrays of a chunk the document axis comes first and the axis of conditions is missing. A variable without a
    document axis is a mean over documents: a chunk holds the sum over its own. A variable without the axis of
    conditions comes from the first condition.

    Args:
        dims: Its axes in the record.
        attrs: Definition, source, range.
        dtype: Of its numbers.
        fill: What stands where nothing was measured.
    """

    dims: tuple[str, ...]
    attrs: Mapping[str, Any]
    dtype: str = "float64"
    fill: float = math.nan

    @property
    def inner(self) -> list[str]:
        """Its axes beside conditions and documents."""
        return [axis for axis in self.dims if axis not in ("condition", "document")]


@dataclass(frozen=True, eq=False)
class Part:
    """What was measured of one chunk.

    Args:
        condition: Place on the axis of conditions.
        start: Place of its first document.
        arrays: Name -> numbers.
    """

    condition: int
    start: int
    arrays: Mapping[str, np.ndarray]


def assembled(frame: xarray.Dataset, variables: Mapping[str, Variable], parts: Iterable[Part]) -> xarray.Dataset:
    """The frame with the numbers of all parts in it.

    Sums over documents are added in the order of the parts, so parts must come in the order of conditions and documents
    for the last bit to be the same whichever was measured first.

    Args:
        frame: Axes with their labels, and what does not come from documents.
        variables: What the parts hold, in the order wanted; a variable no part holds is left out.
        parts: Taken one at a time, so that only one need be in memory.

    Returns:
        A dataset of its own.
    """
    numbers: dict[str, np.ndarray] = {}
    places: dict[str, np.ndarray] = {}
    for part in parts:
        for name, variable in variables.items():
            if name in part.arrays:
                array = part.arrays[name]
                if name not in numbers:
                    numbers[name] = _blank(variable, frame, array)
                    places[name] = _condition_and_document_first(variable, numbers[name])
                _take(variable, places[name], part, array)
    count = frame.sizes["document"]
    for name, array in numbers.items():
        if "document" not in variables[name].dims:
            array /= count
    return frame.assign(
        {name: (v.dims, numbers[name], dict(v.attrs)) for name, v in variables.items() if name in numbers}
    )


def _blank(variable: Variable, frame: xarray.Dataset, array: np.ndarray) -> np.ndarray:
    lengths = dict(zip(variable.inner, array.shape[array.ndim - len(variable.inner) :], strict=True))
    lengths |= {axis: frame.sizes[axis] for axis in ("condition", "document")}
    shape = [lengths[axis] for axis in variable.dims]
    return np.full(shape, 0 if "document" not in variable.dims else variable.fill, dtype=variable.dtype)


def _condition_and_document_first(variable: Variable, numbers: np.ndarray) -> np.ndarray:
    """A view of the same numbers: condition (of length one where there is no such axis), document, others in order."""
    outer = [axis for axis in ("condition", "document") if axis in variable.dims]
    view = numbers.transpose([variable.dims.index(axis) for axis in (*outer, *variable.inner)])
    return view if "condition" in variable.dims else view[None]


def _take(variable: Variable, place: np.ndarray, part: Part, array: np.ndarray) -> None:
    if "condition" not in variable.dims and part.condition > 0:
        return
    if "document" in variable.dims:
        place[part.condition, part.start : part.start + len(array)] = array
    else:
        place[part.condition] += array
