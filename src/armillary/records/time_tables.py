"""A simulation's record as tidy tables: one row a time and number with its interval over starts, or one a start."""

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

__all__ = ["SIMULATION", "run_words", "start_table", "time_table"]

SIMULATION = "simulation"

_MEANING = {
    "time": "time s; the number of the layer in a network of layers",
    "measurement": "name of the number; its definition stands under `definitions`",
    "preparation": "steps in order; empty where none applies",
    "start": "independent start, counted from 0",
    "value": "mean over the starts with a number, or the number of one start; empty where undefined",
    "low": f"lower end of the {METHOD} interval over starts; empty where there is none",
    "high": f"upper end of the {METHOD} interval over starts; empty where there is none",
    "level": "nominal coverage of the interval",
    "starts": "how many starts have a number",
}


def time_table(dataset: xarray.Dataset, study: Mapping[str, Any]) -> pandas.DataFrame:
    """One row for each number and kept time: its mean over starts, with an interval where there are several.

    Args:
        dataset: Of the record.
        study: Its choices: level, resamples, seed.

    Returns:
        Columns `time, measurement, preparation, value, low, high, level, starts`.
    """
    import pandas as pd

    choices = {name: study[name] for name in ("level", "resamples", "seed")}
    parts = []
    for name in _names(dataset):
        array = dataset[name]
        values = array.transpose("system", "time").values.astype(np.float64)
        if len(values) > 1:
            ends = (float(array.attrs.get(end, side)) for end, side in (("lowest", -math.inf), ("highest", math.inf)))
            found = intervals(values, **choices).within(*ends)
            numbers: tuple[Any, ...] = (found.value, found.low, found.high, found.members)
        else:
            nothing = np.full(values.shape[1], np.nan)
            numbers = (values[0], nothing, nothing, np.isfinite(values[0]).astype(int))
        frame = _places(dataset, name)
        frame = frame.assign(value=numbers[0], low=numbers[1], high=numbers[2], level=float(study["level"]))
        parts.append(frame.assign(starts=np.asarray(numbers[3], dtype=np.int64)))
    return _described(pd.concat(parts, ignore_index=True), dataset)


def start_table(dataset: xarray.Dataset) -> pandas.DataFrame:
    """One row for each number, start and kept time.

    Args:
        dataset: Of the record.

    Returns:
        Columns `start, time, measurement, preparation, value`.
    """
    import pandas as pd

    parts = []
    for name in _names(dataset):
        values = dataset[name].transpose("system", "time").values.astype(np.float64)
        for start, row in enumerate(values):
            frame = _places(dataset, name).assign(value=row)
            frame.insert(0, "start", np.full(len(row), start, dtype=np.int64))
            parts.append(frame)
    return _described(pd.concat(parts, ignore_index=True), dataset)


def run_words(study: Mapping[str, Any]) -> str:
    """What a simulation's record holds, in a few words.

    Args:
        study: Its choices.
    """
    return (
        f"simulation, {study['systems']} starts of {study['tokens']} tokens in dimension {study['dim']}, "
        f"{study['dynamics']}"
    )


def _names(dataset: xarray.Dataset) -> list[str]:
    return [str(name) for name, array in dataset.data_vars.items() if set(array.dims) == {"system", "time"}]


def _places(dataset: xarray.Dataset, name: str) -> pandas.DataFrame:
    import pandas as pd

    words, _, steps = name.partition(" after ")
    frame = pd.DataFrame({"time": np.asarray(dataset["time"].values, dtype=np.float64)})
    return frame.assign(measurement=words, preparation=steps)


def _described(frame: pandas.DataFrame, dataset: xarray.Dataset) -> pandas.DataFrame:
    """The table with the meaning of its columns beside it."""
    frame.attrs["columns"] = {name: said for name, said in _MEANING.items() if name in frame.columns}
    frame.attrs["definitions"] = {name: plain(dict(dataset[name].attrs), name) for name in _names(dataset)}
    return frame
