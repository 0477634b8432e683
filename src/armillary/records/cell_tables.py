"""A record made of cells as tidy tables: one row a cell and result with its interval over seeds, or one row a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import METHOD, intervals
from armillary.records.storage import plain

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["cell_table", "cell_words", "seed_table"]

SEED = "seed"

_MEANING = {
    "measurement": "name of the result; its definition stands under `definitions`",
    "value": "mean over seeds, the number of one seed, or the number of the cell where no seed is drawn",
    "low": f"lower end of the {METHOD} interval over seeds; empty where there is none",
    "high": f"upper end of the {METHOD} interval over seeds; empty where there is none",
    "level": "nominal coverage of the interval",
    "seeds": "how many independent systems have a number",
    SEED: "seed of an independent system; empty for a number of the whole cell",
}


def cell_table(dataset: xarray.Dataset, study: Mapping[str, Any]) -> pandas.DataFrame:
    """One row for each cell, result, and place along the further axes of the result.

    Args:
        dataset: Of the record.
        study: Its choices: grid, level, resamples, seed.

    Returns:
        A column for each axis, `measurement, value, low, high, level, seeds`.
    """
    import pandas as pd

    choices = {name: study[name] for name in ("level", "resamples", "seed")}
    axes = _axes(study)
    parts = []
    for name in study["results"]:
        array = dataset[name]
        rest = [str(axis) for axis in array.dims if axis != SEED]
        frame = _places(dataset, rest, axes)
        if SEED in array.dims and array.sizes[SEED] > 1:
            values = array.transpose(SEED, *rest).values.reshape(array.sizes[SEED], -1).astype(np.float64)
            found = intervals(values, **choices)
            ends = (float(array.attrs.get(end, side)) for end, side in (("lowest", -math.inf), ("highest", math.inf)))
            found = found.within(*ends)
            numbers = (found.value, found.low, found.high, found.members)
        else:
            value = array.transpose(*rest, ...).values.reshape(-1).astype(np.float64)
            nothing = np.full(len(value), np.nan)
            numbers = (value, nothing, nothing, np.isfinite(value).astype(int) * (SEED in array.dims))
        frame = frame.assign(measurement=name, value=numbers[0], low=numbers[1], high=numbers[2])
        parts.append(frame.assign(level=float(study["level"]), seeds=numbers[3]))
    return _described(pd.concat(parts, ignore_index=True), dataset)


def seed_table(dataset: xarray.Dataset, study: Mapping[str, Any]) -> pandas.DataFrame:
    """One row for each seed of each cell, result, and place along the further axes of the result.

    Args:
        dataset: Of the record.
        study: Its choices.

    Returns:
        A column for each axis, `seed, measurement, value`; results that are means over seeds have no seed.
    """
    import pandas as pd

    axes = _axes(study)
    parts = []
    for name in study["results"]:
        array = dataset[name]
        rest = [str(axis) for axis in array.dims if axis != SEED]
        inner = [SEED] if SEED in array.dims else []
        frame = _places(dataset, [*rest, *inner], [*axes, SEED])
        frame["measurement"] = name
        frame["value"] = array.transpose(*rest, *inner).values.reshape(-1).astype(np.float64)
        parts.append(frame)
    return _described(pd.concat(parts, ignore_index=True), dataset)


def cell_words(study: Mapping[str, Any]) -> str:
    """What a record made of cells holds, in a few words.

    Args:
        study: Its choices.
    """
    return f"phase diagram {study['preset']} ({study['size']}), {study['cells']} cells of {study['seeds']} systems"


def _axes(study: Mapping[str, Any]) -> list[str]:
    return [*study["grid"]["axes"], *study["grid"]["along"]]


def _places(dataset: xarray.Dataset, own: list[str], every: list[str]) -> pandas.DataFrame:
    """A row for each combination of a result's own axes, the last one fastest; other axes are empty."""
    import pandas as pd

    labels = [dataset[name].values for name in own]
    grid = np.indices([len(one) for one in labels]).reshape(len(own), -1)
    columns: dict[str, Any] = {}
    rows = int(np.prod([len(one) for one in labels]))
    for name in every:
        text = dataset[name].dtype.kind in "OUST"
        if name in own:
            values = labels[own.index(name)][grid[own.index(name)]]
            columns[name] = values.astype(str) if text else values.astype(np.float64)
        else:
            columns[name] = [""] * rows if text else np.full(rows, np.nan)
    return pd.DataFrame(columns)


def _described(frame: pandas.DataFrame, dataset: xarray.Dataset) -> pandas.DataFrame:
    """The table with the meaning of its columns beside it."""
    axes = {name: str(dataset[name].attrs.get("long_name", name)) for name in frame.columns if name in dataset.coords}
    meaning = {**axes, **{name: said for name, said in _MEANING.items() if name in frame.columns}}
    frame.attrs["columns"] = meaning
    frame.attrs["definitions"] = {
        name: plain(dict(dataset[name].attrs), name) for name in dict.fromkeys(frame["measurement"])
    }
    return frame
