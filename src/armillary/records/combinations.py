"""Every measured combination of condition, layer, tap, tokens, preparation and head as a row of one table.

A combination was measured if a document has a number there, or if the variable's attribute `measured` (JSON: a list of
[tap, tokens, preparation]) names it. The embedding comes before any sublayer: it has no tap inside a block and no
update (a variable that knows no preparation).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["combinations", "the_only"]

_AXES = ("condition", "tap", "layer", "tokens", "preparation", "head")
_NUMBERED = ("layer", "head")  # empty where a variable does not have the axis
_LABELS = ("tap", "tokens", "preparation", "head")


def combinations(dataset: xarray.Dataset, *, blocks: int) -> tuple[pandas.DataFrame, np.ndarray]:
    """Every measured combination, and the documents' values of each.

    Args:
        dataset: The measurements of a record.
        blocks: Number of blocks: what is read at this layer is "final".

    Returns:
        A table (measurement, condition, tap in words, layer, tokens, preparation, head, and under `place` the tap as
        the dataset calls it), and an array `documents combinations` with NaN where undefined; both empty if the dataset
        holds no measurement with a condition and a document.
    """
    import pandas as pd

    frames, values = [], []
    for name in dataset.data_vars:
        variable = dataset[name]
        if {"condition", "document"} <= set(variable.dims) <= {*_AXES, "document"}:
            frame, block = _measured(variable)
            frame["place"] = frame["tap"]
            frame["tap"] = _words(frame["place"].to_numpy(), frame["layer"].fillna(-1).to_numpy(dtype=int), blocks)
            frame.insert(0, "measurement", str(name))
            frames.append(frame)
            values.append(block)
    if not frames:
        return pd.DataFrame(columns=["measurement", *_AXES, "place"]), np.empty((0, 0))
    return pd.concat(frames, ignore_index=True), np.concatenate(values, axis=1)


def the_only(
    columns: pandas.DataFrame,
    *,
    measurement: str,
    condition: str,
    layer: int | None,
    tap: str | None,
    tokens: str | None,
    preparation: str | None,
    head: int | None,
) -> int:
    """The one combination that was asked for.

    Args:
        columns: The table of combinations.
        measurement: Name of the variable.
        condition: Its full name.
        layer: None for a measurement without one.
        tap: In words or as the dataset calls it; None for the only one measured.
        tokens: None for the only set measured.
        preparation: None for the only one measured.
        head: Attention head, from 0; None for a measurement that is not one head's.

    Returns:
        Its row.

    Raises:
        ArgumentError: It was not measured, or several fit.
    """
    here = (columns["measurement"] == measurement) & (columns["condition"] == condition)
    asked = here & (columns["layer"].isna() if layer is None else (columns["layer"] == layer).fillna(value=False))
    if tap is not None:
        asked &= (columns["tap"] == tap) | (columns["place"] == tap)
    for axis, label in (("tokens", tokens), ("preparation", preparation)):
        if label is not None:
            asked &= columns[axis] == label
    if head is not None:
        asked &= (columns["head"] == head).fillna(value=False)
    where = np.flatnonzero(asked.to_numpy(dtype=bool))
    if len(where) == 1:
        return int(where[0])
    if len(where) > 1:
        raise _several(measurement, condition, columns.iloc[where])
    if not here.any():
        raise ArgumentError(
            f"Argument `measurement` must have been measured, but {measurement!r} was not in {condition!r}. "
            f"Ask for one of {', '.join(sorted(set(columns['measurement'])))}."
        )
    if layer is None and tap is None:
        raise ArgumentError(
            f"Argument `layer` must be given for {measurement!r}, but it was not. "
            f"Ask for {_offered(columns[here], layer)}."
        )
    given = {"layer": layer, "tap": tap, "tokens": tokens, "preparation": preparation, "head": head}
    raise ArgumentError(
        f"Argument `measurement` must have been measured, but {measurement!r} in {condition!r} was not at "
        f"{', '.join(f'{axis} {label!r}' for axis, label in given.items() if label is not None) or 'no layer'}. "
        f"Ask for what was: {_offered(columns[here], layer)}."
    )


def _measured(variable: xarray.DataArray) -> tuple[pandas.DataFrame, np.ndarray]:
    import pandas as pd

    lacking = [axis for axis in _AXES if axis not in variable.dims]
    block = variable.expand_dims(lacking).transpose(*_AXES, "document").values.astype(np.float64)
    alone = {
        "tap": "logits" if "layer" in lacking else "block",
        "layer": -1,
        "tokens": "all",
        "preparation": "as given",
        "head": -1,
    }
    labels = {
        axis: np.array([variable.attrs.get(axis, alone[axis])]) if axis in lacking else variable[axis].values
        for axis in _AXES
    }
    keep = np.isfinite(block).any(axis=-1)
    for combination in json.loads(variable.attrs.get("measured", "[]")):
        tap, tokens, preparation = (*combination, "as given")[:3]
        inside = str(tap).startswith("mid") or "preparation" in lacking
        here = (labels["tap"] == tap)[:, None] & ~((labels["layer"] == 0) & inside)
        keep |= (
            here[None, :, :, None, None, None]
            & (labels["tokens"] == tokens)[:, None, None]
            & (labels["preparation"] == preparation)[:, None]
        )
    where = np.nonzero(keep)
    frame = pd.DataFrame({axis: labels[axis][index] for axis, index in zip(_AXES, where, strict=True)})
    for axis in _NUMBERED:
        frame[axis] = frame[axis].astype("Int64").where(frame[axis] >= 0)
    return frame, block[keep].T


def _words(places: np.ndarray, layers: np.ndarray, last: int) -> np.ndarray:
    """Taps in words: the stream at layer 0 is the embedding, what the final norm hands on is "final"."""
    words = places.astype(object)
    words[(places == "block") & (layers == 0)] = "embedding"
    words[(places == "block_read") & (layers == 0)] = "embedding_read"
    words[(places == "block_read") & (layers == last)] = "final"
    return words


def _several(measurement: str, condition: str, fitting: pandas.DataFrame) -> ArgumentError:
    open_axes = [axis for axis in _LABELS if fitting[axis].nunique() > 1]
    names = " and ".join(f"`{axis}`" for axis in open_axes)
    return ArgumentError(
        f"Argument{'s' if len(open_axes) > 1 else ''} {names} must be given where more than one was measured, but "
        f"{measurement!r} in {condition!r} fits {len(fitting)} combinations. Choose {_listing(fitting, open_axes)}."
    )


def _offered(taken: pandas.DataFrame, layer: int | None) -> str:
    """What was measured: at that layer if anything was, else at which layers."""
    at = taken[(taken["layer"] == layer).fillna(value=False)] if layer is not None else taken[:0]
    layers = sorted({int(number) for number in taken["layer"].dropna()})
    where = f"layer {' or '.join(map(str, layers))}; " if at.empty and layers else ""
    return where + _listing(taken if at.empty else at, _LABELS)


def _listing(frame: pandas.DataFrame, axes: Sequence[str]) -> str:
    named = {axis: dict.fromkeys(frame[axis].dropna()) for axis in axes}
    return "; ".join(
        f"{axis} {' or '.join(str(x) if axis in _NUMBERED else repr(str(x)) for x in found)}"
        for axis, found in named.items()
        if found
    )
