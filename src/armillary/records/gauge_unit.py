"""What a run's journal keeps of gauges: the labeled numbers as plain arrays, or the reason why there are none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from armillary.records.gauged import GaugedNumbers
from armillary.records.journal import REASON

if TYPE_CHECKING:
    import xarray

__all__ = ["as_arrays", "with_gauges"]

_SPELLED = "spelled"
"""Beside the arrays: axes, attributes and which of them are coordinates, as JSON."""


def as_arrays(found: GaugedNumbers | str) -> dict[str, np.ndarray]:
    """Arrays that a file without objects takes.

    Args:
        found: Numbers, or why there are none.
    """
    if isinstance(found, str):
        return {REASON: np.asarray(found)}
    dataset = found.dataset()
    spelled = {
        "axes": {str(name): list(one.dims) for name, one in dataset.variables.items()},
        "attrs": {str(name): dict(one.attrs) for name, one in dataset.variables.items()},
        "coordinates": [str(name) for name in dataset.coords],
    }
    arrays = {str(name): np.asarray(one.values) for name, one in dataset.variables.items()}
    plain = {name: one.astype(str) if one.dtype == object else one for name, one in arrays.items()}
    return {**plain, _SPELLED: np.asarray(json.dumps(spelled))}


def with_gauges(dataset: xarray.Dataset, arrays: Mapping[str, np.ndarray]) -> tuple[xarray.Dataset, str | None]:
    """The dataset with what a unit holds beside its own variables, and why there is nothing, if there is not.

    Args:
        dataset: Of the run, without gauges.
        arrays: From `as_arrays`.
    """
    import xarray as xr

    if REASON in arrays:
        return dataset, str(arrays[REASON])
    spelled = json.loads(str(arrays[_SPELLED]))
    variables = {name: (axes, arrays[name], spelled["attrs"][name]) for name, axes in spelled["axes"].items()}
    coordinates = {name: variables.pop(name) for name in spelled["coordinates"]}
    return dataset.merge(xr.Dataset(variables, coords=coordinates)), None
