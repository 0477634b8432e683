"""A record's numbers as files for other programs: Parquet, CSV, JSON and NPZ, with their conventions, and read back.

    NAME.parquet   the tidy table; conventions under the key `armillary` of the schema's metadata
    NAME.csv       the tidy table with every digit; conventions beside it in NAME.conventions.json
    NAME.json      {"conventions": ..., "rows": [...]}, strict: what is missing is null, what is unbounded "inf", "-inf"
    NAME.npz       every array of the record under its name; conventions as JSON text in the array `conventions`

A file is written whole or not at all and never over another. What `read_table` and `read_arrays` give back equals what
was written, number by number and convention by convention.
"""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armillary.errors import ArgumentError
from armillary.records.storage import plain

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["FORMATS", "Arrays", "Table", "read_arrays", "read_table", "require_new_file", "write_arrays", "write_table"]

FORMATS = ("parquet", "csv", "npz", "json")
"""The endings an export can have."""

_TABLES = ("parquet", "csv", "json")
_KEY = b"armillary"
_CONVENTIONS = "conventions"
_KINDS = {"text": "str", "number": "float64", "count": "int64", "layer": "Int64", "answer": "boolean"}


class Table(NamedTuple):
    """A tidy table with what its columns mean.

    Attributes:
        frame: One row an estimate, or one row a document.
        conventions: Definitions, choices and the meaning of every column, as plain data.
    """

    frame: pandas.DataFrame
    conventions: dict[str, Any]


class Arrays(NamedTuple):
    """All arrays of a record with what their axes mean.

    Attributes:
        dataset: The measurements as the record holds them.
        conventions: Study and provenance, and whatever else was said when they were written.
    """

    dataset: xarray.Dataset
    conventions: dict[str, Any]


def require_new_file(path: str | Path, *endings: str) -> Path:
    """Refuses, before any work is done, a file that an export cannot become.

    Args:
        path: The file to come.
        endings: The formats it may have; all of `FORMATS` if none is named.

    Returns:
        The path.

    Raises:
        ArgumentError: It has another ending, exists (or its side file does), or its folder does not exist.
    """
    target, known = Path(path), endings or FORMATS
    if _ending(target) not in known:
        written = " or ".join(f".{one}" for one in known)
        raise ArgumentError(f"Argument `path` must end in {written}, but is {target}. Name a file of that kind.")
    for one in (target, *([_beside(target)] if _ending(target) == "csv" else [])):
        if one.exists() or one.is_symlink():
            raise ArgumentError(
                f"Argument `path` must be a new file, but {one} exists. Name another, or remove it first."
            )
    if not target.absolute().parent.is_dir():
        raise ArgumentError(
            f"Argument `path` must lie in a folder that exists, but {target.parent} does not. Make it first, or name "
            "another place."
        )
    return target


def write_table(frame: pandas.DataFrame, conventions: Mapping[str, Any], path: str | Path) -> Path:
    """Writes a tidy table in the format that the ending of its name says.

    Args:
        frame: Columns of text, floats (NaN is undefined, infinite is unbounded) and whole numbers.
        conventions: What the columns mean, as plain data; None stands for what is missing.
        path: A new file that ends in .parquet, .csv or .json.

    Returns:
        The file.

    Raises:
        ArgumentError: The path cannot become such a file, or a convention is no plain data.
    """
    target = require_new_file(path, *_TABLES)
    said = plain(conventions, _CONVENTIONS)
    types = {str(name): _kind(frame[name]) for name in frame.columns}
    writers: dict[str, Callable[[], dict[Path, Callable[[Path], None]]]] = {
        "parquet": lambda: {target: lambda file: _to_parquet(frame, said, types, file)},
        "csv": lambda: {
            _beside(target): lambda file: _to_json({"types": types, _CONVENTIONS: said}, file),
            target: lambda file: _to_csv(frame, file),
        },
        "json": lambda: {
            target: lambda file: _to_json({"types": types, _CONVENTIONS: said, "rows": _rows(frame)}, file)
        },
    }
    _publish(writers[_ending(target)]())
    return target


def read_table(path: str | Path) -> Table:
    """Reads a tidy table that `write_table` wrote, with its conventions.

    Args:
        path: A file that ends in .parquet, .csv (its side file beside it) or .json.

    Returns:
        The table and its conventions, equal to what was written.

    Raises:
        ArgumentError: The file, its side file or its conventions are missing, or it is no table of that kind.
    """
    target = Path(path)
    if _ending(target) not in _TABLES:
        raise ArgumentError(
            f"Argument `path` must end in .parquet, .csv or .json, but is {target}. Read .npz with `read_arrays`."
        )
    readers = {"parquet": _from_parquet, "csv": _from_csv, "json": _from_json}
    with _readable(target):
        frame, conventions = readers[_ending(target)](target)
    frame.attrs.update(conventions)
    return Table(frame, conventions)


def write_arrays(dataset: xarray.Dataset, conventions: Mapping[str, Any], path: str | Path) -> Path:
    """Writes every array of a dataset under its name, with dimensions, attributes and conventions as one JSON text.

    Args:
        dataset: The measurements; half precision stays half precision.
        conventions: What else is to be said, as plain data.
        path: A new file that ends in .npz.

    Returns:
        The file; `numpy.load(file)` needs no pickle.

    Raises:
        ArgumentError: The path cannot become such a file, or an array is called "conventions".
    """
    target = require_new_file(path, "npz")
    names = [str(name) for name in dataset.variables]
    for name in names:
        if name == _CONVENTIONS or "/" in name:
            raise ArgumentError(
                f"Argument `dataset` must have names without a slash and other than {_CONVENTIONS!r}, but has "
                f"{name!r}. "
                "Rename it."
            )
    about = {
        "attributes": plain(dict(dataset.attrs), "attrs"),
        "coordinates": [name for name in names if name in dataset.coords],
        "arrays": {
            name: {"axes": list(dataset[name].dims), "attributes": plain(dict(dataset[name].attrs), name)}
            for name in names
        },
        _CONVENTIONS: plain(conventions, _CONVENTIONS),
    }
    arrays = {name: _array(dataset[name].values) for name in names}
    text = np.array(json.dumps(about, ensure_ascii=False, allow_nan=False))

    def write(file: Path) -> None:
        with file.open("wb") as opened:
            np.savez_compressed(opened, allow_pickle=False, **{_CONVENTIONS: text, **arrays})

    _publish({target: write})
    return target


def read_arrays(path: str | Path) -> Arrays:
    """Reads the arrays that `write_arrays` wrote.

    Args:
        path: A file that ends in .npz.

    Returns:
        The dataset and its conventions, equal to what was written.

    Raises:
        ArgumentError: The file is missing, or is no such file.
    """
    import xarray as xr

    target = Path(path)
    if _ending(target) != "npz":
        raise ArgumentError(f"Argument `path` must end in .npz, but is {target}. Read tables with `read_table`.")
    with _readable(target), np.load(target, allow_pickle=False) as found:
        about = json.loads(str(found[_CONVENTIONS]))
        variables = {name: (one["axes"], found[name], one["attributes"]) for name, one in about["arrays"].items()}
        axes = {name: variables.pop(name) for name in about["coordinates"]}
        dataset = xr.Dataset(variables, coords=axes, attrs=about["attributes"])
    return Arrays(dataset, about[_CONVENTIONS])


def _ending(path: Path) -> str:
    return path.suffix.removeprefix(".")


def _beside(path: Path) -> Path:
    """The side file of a CSV table."""
    return path.with_suffix(".conventions.json")


def _publish(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write every file under a hidden name, then give all of them theirs, the last named one last."""
    partial: dict[Path, Path] = {}
    try:
        for target, write in writers.items():
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            os.close(handle)
            partial[target] = Path(name)
            write(partial[target])
        for target, file in partial.items():
            file.chmod(0o666 & ~_umask())
            file.replace(target)
    finally:
        for file in partial.values():
            with suppress(OSError):
                file.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What cannot be read is refused in one sentence that says why."""
    try:
        yield
    except ArgumentError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        why = "does not exist" if not path.exists() else f"cannot be read ({type(error).__name__}: {error})"
        raise ArgumentError(
            f"Argument `path` must be a file that `armillary export` wrote, but {path} {why}. Export the record again."
        ) from error


def _kind(column: pandas.Series) -> str:
    import pandas as pd

    kinds = pd.api.types
    if kinds.is_bool_dtype(column):
        return "answer"
    if kinds.is_float_dtype(column):
        return "number"
    if kinds.is_integer_dtype(column):
        return "layer" if kinds.is_extension_array_dtype(column.dtype) else "count"
    return "text"


def _typed(frame: pandas.DataFrame, types: Mapping[str, str]) -> pandas.DataFrame:
    return frame[list(types)].astype({name: _KINDS[kind] for name, kind in types.items()})


def _to_parquet(frame: pandas.DataFrame, said: Any, types: Mapping[str, str], file: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    bare = frame.copy()
    bare.attrs = said
    table = pyarrow.Table.from_pandas(bare, preserve_index=False)
    text = json.dumps({"types": types, _CONVENTIONS: said}, ensure_ascii=False, allow_nan=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: text.encode("utf-8")})
    pyarrow.parquet.write_table(table, file)


def _from_parquet(path: Path) -> tuple[pandas.DataFrame, dict[str, Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    about = json.loads((table.schema.metadata or {})[_KEY])
    return _typed(table.to_pandas(), about["types"]), about[_CONVENTIONS]


def _to_csv(frame: pandas.DataFrame, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        frame.to_csv(opened, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def _from_csv(path: Path) -> tuple[pandas.DataFrame, dict[str, Any]]:
    import pandas as pd

    if path.exists() and not _beside(path).exists():
        raise ArgumentError(
            f"Argument `path` must have its conventions beside it, but {_beside(path)} does not exist. Keep the two "
            "files together, or read the numbers alone with `pandas.read_csv`."
        )
    about = json.loads(_beside(path).read_text(encoding="utf-8"))
    types = about["types"]
    text = pd.read_csv(path, dtype="str", keep_default_na=False)
    columns = {name: _numbers(text[name], kind) for name, kind in types.items()}
    return _typed(pd.DataFrame(columns), types), about[_CONVENTIONS]


def _numbers(column: Iterable[Any], kind: str) -> list[Any]:
    """Cells of text or JSON as what their column holds; an empty one is undefined, or not there."""
    if kind == "number":
        return [math.nan if cell in ("", None) else float(cell) for cell in column]
    if kind == "answer":
        return [None if cell in ("", None) else cell in (True, "True") for cell in column]
    return [cell if kind == "text" else None if cell in ("", None) else int(cell) for cell in column]


def _rows(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): [_cell(x) for x in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cell(x: Any) -> Any:
    """A cell in strict JSON: what is undefined is None, what is unbounded says so."""
    if isinstance(x, str):
        return x
    if not isinstance(x, int | float) or math.isnan(x):
        return None
    return x if math.isfinite(x) else f"{x}"


def _to_json(content: Mapping[str, Any], file: Path) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    file.write_text(text + "\n", encoding="utf-8")


def _from_json(path: Path) -> tuple[pandas.DataFrame, dict[str, Any]]:
    import pandas as pd

    about = json.loads(path.read_text(encoding="utf-8"))
    types = about["types"]
    columns = {name: _numbers([row[name] for row in about["rows"]], kind) for name, kind in types.items()}
    return _typed(pd.DataFrame(columns), types), about[_CONVENTIONS]


def _array(values: np.ndarray) -> np.ndarray:
    """An array that a file without pickle can hold: text of any kind becomes text of one length."""
    return values.astype(np.str_) if values.dtype.kind in "OST" else values
