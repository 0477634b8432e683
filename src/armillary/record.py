"""What a run leaves behind: a folder of every choice, where the numbers come from, and the labeled numbers themselves.

    study.toml         every choice (TOML)
    provenance.json    versions, decoder, conditions, documents (strict JSON: what is missing is null)
    measurements.nc    one value a document (netCDF, xarray): condition, tap, layer, tokens, preparation, document

A record is written once, all at once or not at all, and never changed. Intervals are not stored: they are computed
from the values of the documents with the level, resamples and seed of the study.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from armillary.errors import ArgumentError
from armillary.estimates import METHOD, Estimate, Intervals, Sample, estimate, intervals

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["FORMAT", "Record"]

FORMAT = 1
"""The version of the layout; a record of another one is refused by name."""

_STUDY, _PROVENANCE, _MEASUREMENTS = "study.toml", "provenance.json", "measurements.nc"
_AXES = ("condition", "tap", "layer", "tokens", "preparation")
_ROW = (
    "condition",
    "layer",
    "tap",
    "measurement",
    "preparation",
    "tokens",
    "value",
    "low",
    "high",
    "level",
    "documents",
)
_JSON = "json:"  # how an attribute that netCDF cannot hold is spelled


class Record:
    """One record, read from its folder.

    Attributes:
        path: The folder.
        study: Every choice, as it stands in study.toml.
        provenance: Where the numbers come from, as it stands in provenance.json.
        dataset: The measurements, an xarray Dataset in memory.
        measurements_hash: sha256 of the measurements (names, labels, values, attributes); figures are keyed to it.
    """

    def __init__(
        self, path: Path, study: dict[str, Any], provenance: dict[str, Any], dataset: xarray.Dataset, digest: str
    ) -> None:
        self.path = path
        self.study = study
        self.provenance = provenance
        self.dataset = dataset
        self.measurements_hash = digest

    @staticmethod
    def require_new(path: str | Path) -> Path:
        """Refuse, before any work is done, a path where no record can be written; returns the path."""
        with _partial(Path(path)):
            return Path(path)

    @classmethod
    def write(
        cls, path: str | Path, study: Mapping[str, Any], provenance: Mapping[str, Any], dataset: xarray.Dataset
    ) -> Record:
        """Write a new record: into a hidden folder beside `path`, which is renamed when everything is in it.

        Args:
            path: The new folder.
            study: Every choice; TOML has no null, so None is refused: say "all", or leave the key out.
            provenance: Where the numbers come from; NaN and None become null.
            dataset: One value a document; NaN means not measured or undefined.

        Returns:
            The record as read back.

        Raises:
            ArgumentError: The path exists or cannot be written, or something cannot be stored without loss.
        """
        import tomli_w

        folder = Path(path)
        with _partial(folder) as partial:
            choices = tomli_w.dumps(_plain(study, "study", null=False))
            stored = _stored(dataset)
            origin = {
                "record": {"format": FORMAT, "measurements": _digest(dataset)},
                **_plain(provenance, "provenance"),
            }
            if "record" in provenance:
                raise ArgumentError(
                    "Argument `provenance` must leave the key 'record' free, but has it. Rename the key."
                )
            (partial / _STUDY).write_text(choices, encoding="utf-8")
            text = json.dumps(origin, indent=2, ensure_ascii=False, allow_nan=False)
            (partial / _PROVENANCE).write_text(text + "\n", encoding="utf-8")
            packed = {
                name: {"zlib": True, "complevel": 1}
                for name, variable in stored.data_vars.items()
                if variable.dtype.kind in "fiub" and variable.size > 1000
            }
            stored.to_netcdf(partial / _MEASUREMENTS, engine="h5netcdf", encoding=packed)
            _publish(partial, folder)
        return cls.open(folder)

    @classmethod
    def open(cls, path: str | Path) -> Record:
        """Read a record whole; refuses a folder that is none, another format, and numbers that were altered.

        Raises:
            ArgumentError: With the reason.
        """
        import xarray as xr

        folder = Path(path)
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise _not_a_record(folder, what)
        missing = [name for name in (_STUDY, _PROVENANCE, _MEASUREMENTS) if not (folder / name).is_file()]
        if missing:
            raise _not_a_record(folder, f"holds no {' and no '.join(missing)}")
        try:
            provenance = json.loads((folder / _PROVENANCE).read_text(encoding="utf-8"))
            own = provenance.pop("record", {})
            if own.get("format") != FORMAT:
                raise ArgumentError(
                    f"Argument `path` must be a record of format {FORMAT}, but {folder} says {own.get('format')}. "
                    "Open it with the version of armillary that its provenance.json names."
                )
            study = tomllib.loads((folder / _STUDY).read_text(encoding="utf-8"))
            read = xr.load_dataset(
                folder / _MEASUREMENTS, engine="h5netcdf", decode_times=False, decode_timedelta=False
            )
        except ArgumentError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise _not_a_record(folder, f"cannot be read ({type(error).__name__}: {error})") from error
        dataset = _restored(read)
        digest = _digest(dataset)
        if digest != own.get("measurements"):
            raise _not_a_record(folder, f"its {_MEASUREMENTS} is not the one it was written with")
        return cls(folder, study, provenance, dataset, digest)

    # what was measured -------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> pandas.DataFrame:
        """What was measured, one row for each column of `values`: condition, layer, tap, measurement and so on.

        A combination was measured if a document has a number there, or if the variable's attribute `measured` (JSON:
        a list of [tap, tokens, preparation]) names it; `tap` is in words, `place` is the label in the dataset. The
        embedding comes before any sublayer: it has no tap inside a block and no update (a variable that knows no
        preparation).
        """
        return self._table[0]

    @property
    def values(self) -> np.ndarray:
        """One row a document, one column for each row of `columns`; NaN where undefined."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[pandas.DataFrame, np.ndarray]:
        import pandas as pd

        frames, values = [], []
        for name in self.dataset.data_vars:
            variable = self.dataset[name]
            if {"condition", "document"} <= set(variable.dims) <= {*_AXES, "document"}:
                frame, block = self._measured(str(name), variable)
                frames.append(frame)
                values.append(block)
        if not frames:
            raise _not_a_record(self.path, "holds no measurement with a condition and a document")
        return pd.concat(frames, ignore_index=True), np.concatenate(values, axis=1)

    def _measured(self, name: str, variable: xarray.DataArray) -> tuple[pandas.DataFrame, np.ndarray]:
        import pandas as pd

        lacking = [axis for axis in _AXES if axis not in variable.dims]
        block = variable.expand_dims(lacking).transpose(*_AXES, "document").values.astype(np.float64)
        alone = {
            "tap": "logits" if "layer" in lacking else "block",
            "layer": -1,
            "tokens": "all",
            "preparation": "as given",
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
                here[None, :, :, None, None]
                & (labels["tokens"] == tokens)[:, None]
                & (labels["preparation"] == preparation)
            )
        where = np.nonzero(keep)
        frame = pd.DataFrame({axis: labels[axis][index] for axis, index in zip(_AXES, where, strict=True)})
        frame["layer"] = frame["layer"].astype("Int64").where(frame["layer"] >= 0)
        frame["place"] = frame["tap"]
        frame["tap"] = self._words(frame["place"].to_numpy(), frame["layer"].fillna(-1).to_numpy(dtype=int))
        frame.insert(0, "measurement", name)
        return frame, block[keep].T

    def _words(self, places: np.ndarray, layers: np.ndarray) -> np.ndarray:
        """Taps in words: the stream at layer 0 is the embedding, what the final norm hands on is "final"."""
        facts = self.provenance.get("decoder") or {}
        last = int(self.dataset.attrs.get("layers", facts.get("layers", -1)))
        words = places.astype(object)
        words[(places == "block") & (layers == 0)] = "embedding"
        words[(places == "block_read") & (layers == 0)] = "embedding_read"
        words[(places == "block_read") & (layers == last)] = "final"
        return words

    # estimates ---------------------------------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> dict[str, Any]:
        try:
            return {key: self.study[key] for key in ("level", "resamples", "seed")}
        except KeyError as error:
            raise _not_a_record(self.path, f"its study has no {error}, so no interval can be computed") from None

    @cached_property
    def intervals(self) -> Intervals:
        """The interval of every column of `values`, computed once."""
        return intervals(self.values, **self._choices)

    def rows(self) -> list[dict[str, Any]]:
        """Every measured combination as one flat row, ready for strict JSON.

        Returns:
            `condition, layer, tap, measurement, preparation, tokens, value, low, high, level, documents`; a value that
            is undefined in every document, and an end that the documents cannot bound, is None.
        """
        frame = self._framed(self.columns, self.intervals)
        cells = [[_cell(x) for x in frame[key].tolist()] for key in _ROW]
        return [dict(zip(_ROW, row, strict=True)) for row in zip(*cells, strict=True)]

    def _framed(self, columns: pandas.DataFrame, found: Intervals) -> pandas.DataFrame:
        frame = columns.assign(value=found.value, low=found.low, high=found.high, level=found.level)
        return self._described(frame.assign(documents=found.members))

    def sample(
        self,
        measurement: str,
        *,
        condition: str,
        layer: int | None = None,
        tap: str = "block",
        tokens: str = "all",
        preparation: str = "as given",
    ) -> Sample:
        """The documents' values of one measured combination, ready to be estimated or contrasted.

        Args:
            measurement: Name of the variable.
            condition: Its name, or a beginning that only one condition has.
            layer: 0 is the embedding; None for the loss.
            tap: In words ("final") or as in the dataset ("block_read").
            tokens: Which tokens took part.
            preparation: Ordered steps.

        Raises:
            ArgumentError: That combination was not measured.
        """
        c = self.columns
        asked = (c["measurement"] == measurement) & (c["condition"] == self.condition(condition))
        asked &= (c["tokens"] == tokens) & (c["preparation"] == preparation)
        if layer is None:
            asked &= c["layer"].isna()
        else:
            asked &= (c["layer"] == layer).fillna(False) & ((c["tap"] == tap) | (c["place"] == tap))
        where = np.flatnonzero(asked.to_numpy(dtype=bool))
        if len(where) != 1:
            raise ArgumentError(
                f"Argument `measurement` must have been measured, but {measurement!r} was not in {condition!r} "
                f"at layer {layer}, tap {tap!r}, tokens {tokens!r}, preparation {preparation!r}. See `record.columns`."
            )
        metric = "read" if c["place"].iloc[where[0]].endswith("_read") else "residual"
        source = str((self.provenance.get("documents") or {}).get("hash", ""))
        members = tuple(str(title) for title in self.dataset["document"].values)
        return Sample(self.values[:, where[0]], members, measurement, preparation, tokens, metric, source)

    def estimate(self, measurement: str, **where: Any) -> Estimate:
        """One measured combination with its interval; takes what `sample` takes."""
        return estimate(self.sample(measurement, **where), **self._choices)

    def condition(self, name: str) -> str:
        """The full name of a condition, from its name or a beginning that only one has."""
        known = [str(c) for c in self.dataset["condition"].values]
        found = [name] if name in known else [c for c in known if c.startswith(name)]
        if len(found) != 1:
            raise ArgumentError(
                f"Argument `condition` must name one of {', '.join(known)}, but {name!r} fits {len(found)} of them. "
                "Spell it out."
            )
        return found[0]

    def contrast(self, a: str, b: str, measurement: str | None = None) -> pandas.DataFrame:
        """Condition a minus condition b, paired by document, for everything that was measured in both.

        Args:
            a: A condition.
            b: Another.
            measurement: Only this one; None for all.

        Returns:
            One row a layer, tap, measurement, preparation and token policy, with value, low, high, level, documents.
        """
        left, right = self.condition(a), self.condition(b)
        keys = ["measurement", "layer", "tap", "place", "tokens", "preparation"]
        table = self.columns.assign(column=np.arange(len(self.columns)))
        if measurement is not None:
            table = table[table["measurement"] == measurement]
        both = table[table["condition"] == left].merge(table[table["condition"] == right], on=keys, suffixes=("", "_b"))
        if both.empty:
            raise ArgumentError(
                f"Argument `measurement` must have been measured in {left!r} and {right!r}, but {measurement!r} was "
                "not. See `record.columns`."
            )
        difference = self.values[:, both["column"].to_numpy()] - self.values[:, both["column_b"].to_numpy()]
        columns = both[keys].assign(condition=left, against=right)
        return self._framed(columns, intervals(difference, **self._choices))

    # other formats -----------------------------------------------------------------------------------------------

    def to_dataframe(self, per: Literal["estimate", "document"] = "estimate") -> pandas.DataFrame:
        """Tidy: one row an estimate (as in `rows`), or one row a document; what the columns mean is in `.attrs`."""
        if per == "estimate":
            return self._framed(self.columns, self.intervals)
        titles = [str(title) for title in self.dataset["document"].values]
        frame = self.columns
        frame = frame.loc[frame.index.repeat(len(titles))].reset_index(drop=True)
        frame["document"] = titles * len(self.columns)
        frame["value"] = self.values.T.ravel()
        return self._described(frame)

    def to_csv(self, path: str | Path, per: Literal["estimate", "document"] = "estimate") -> Path:
        """The tidy table as CSV, with every digit, and beside it `<path>-metadata.json` with what the columns mean."""
        frame = self.to_dataframe(per)
        frame.to_csv(path, index=False)
        beside = Path(f"{path}-metadata.json")
        beside.write_text(
            json.dumps(frame.attrs, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
        return Path(path)

    def to_parquet(self, path: str | Path, per: Literal["estimate", "document"] = "estimate") -> Path:
        """The tidy table as Parquet, with what the columns mean in its metadata; needs pyarrow."""
        if find_spec("pyarrow") is None:
            raise ArgumentError(
                "Argument `path` must be writable as Parquet, but pyarrow is not installed. Run `pip install pyarrow`, "
                "or use `to_csv`."
            )
        self.to_dataframe(per).to_parquet(path, index=False)
        return Path(path)

    def _described(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        """The conventions a table cannot say by itself, in the one place every tidy format can carry them."""
        names = dict.fromkeys(frame["measurement"])
        frame.attrs = {
            "conventions": {
                "layer": "0 is the embedding, l the stream after block l; empty for the loss",
                "tap": "mid is the stream after attention, _read what the next norm hands on, final what the last does",
                "place": "the tap as the dataset calls it: one curve against depth",
                "preparation": "steps in order; as given is none",
                "value": "mean over the documents with a number; empty where no document has one",
                "interval": f"{METHOD} over documents",
            },
            "definitions": {n: _plain(dict(self.dataset[n].attrs), n) for n in names},
            "choices": _plain(self._choices, "study"),
            "documents": _plain(self.provenance.get("documents") or {}, "documents").get("hash"),
            "measurements": self.measurements_hash,
        }
        return frame


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the one to come; whatever is left of it is removed, parents made for it included."""
    if folder.exists() or folder.is_symlink():
        raise ArgumentError(
            f"Argument `path` must be a new folder, but {folder} exists. Name another, or remove it first."
        )
    made = [parent for parent in folder.absolute().parents if not parent.exists()]
    partial = None
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        except OSError as error:
            raise ArgumentError(
                f"Argument `path` must lie in a folder that can be written, but {folder.parent} cannot "
                f"({error.strerror}). Name another place."
            ) from error
        yield partial
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()  # only if nothing came to lie in it


def _publish(partial: Path, folder: Path) -> None:
    """Give the finished folder its name, with the permissions any new folder here gets."""
    probe = partial / "permissions"
    probe.mkdir()
    partial.chmod(probe.stat().st_mode & 0o777)
    probe.rmdir()
    try:
        partial.rename(folder)
    except OSError as error:
        raise ArgumentError(
            f"Argument `path` must be a new folder, but {folder} cannot be made ({error.strerror}). Name another."
        ) from error


def _cell(x: Any) -> Any:
    """A cell of a row in strict JSON: what is undefined or unbounded is None."""
    return x if isinstance(x, str) or (isinstance(x, int | float) and math.isfinite(x)) else None


def _not_a_record(folder: Path, why: str) -> ArgumentError:
    return ArgumentError(
        f"Argument `path` must be the folder of a record, but {folder} {why}. Name a folder that `armillary lab` wrote."
    )


def _plain(value: Any, where: str, *, null: bool = True) -> Any:
    """The value in what TOML and JSON share; None and NaN become None if `null`, and None is refused if not."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{where}.{k}", null=null) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, f"{where}[{i}]", null=null) for i, v in enumerate(value)]
    if isinstance(value, float) and null and not math.isfinite(value):
        return None if math.isnan(value) else f"{value}"
    if isinstance(value, bool | int | float | str) or (value is None and null):
        return value
    if isinstance(value, Path):
        return str(value)
    raise ArgumentError(
        f"Argument `{where}` must be text, a number, a flag, a list or a mapping, but is {value!r}. Say it in words."
    )


def _stored(dataset: xarray.Dataset) -> xarray.Dataset:
    """The dataset as netCDF can hold it: attributes that are no text and no number are spelled as JSON."""
    stored = dataset.copy()
    for name in list(stored.variables):
        if not isinstance(name, str) or "/" in name:
            raise ArgumentError(f"Argument `dataset` must have names without a slash, but has {name!r}. Rename it.")
        if stored[name].dtype == np.float16:
            stored[name] = stored[name].astype(np.float32).assign_attrs(stored[name].attrs, half_precision=True)
    for holder in (stored, *(stored[name] for name in stored.variables)):
        holder.attrs = {key: _stored_attribute(value, f"{key}") for key, value in holder.attrs.items()}
    return stored


def _stored_attribute(value: Any, where: str) -> Any:
    array = isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 1 and value.dtype.kind in "fiu"
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    text = isinstance(value, str) and value != "" and not value.startswith(_JSON)
    return value if array or number or text else _JSON + json.dumps(_plain(value, where), ensure_ascii=False)


def _restored(dataset: xarray.Dataset) -> xarray.Dataset:
    for holder in (dataset, *(dataset[name] for name in dataset.variables)):
        holder.attrs = {key: _restored_attribute(value) for key, value in holder.attrs.items()}
    for name in list(dataset.variables):
        if dataset[name].attrs.pop("half_precision", False):
            dataset[name] = dataset[name].astype(np.float16)
    return dataset


def _restored_attribute(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_JSON):
        return json.loads(value[len(_JSON) :])
    return value.item() if isinstance(value, np.generic) else value


def _digest(dataset: xarray.Dataset) -> str:
    """sha256 over names, dimensions, values and attributes: the same before writing and after reading."""
    digest = hashlib.sha256(json.dumps(_plain(dict(dataset.attrs), "attrs"), sort_keys=True).encode())
    for name in sorted(map(str, dataset.variables)):
        variable = dataset.variables[name]
        attributes = _plain(dict(variable.attrs), name)
        values = np.asarray(variable.values)
        text = values.dtype.kind in "OUST"
        kind = "text" if text else values.dtype.newbyteorder("<").str
        digest.update(json.dumps([name, variable.dims, values.shape, kind, attributes], sort_keys=True).encode())
        raw = json.dumps(values.tolist()).encode() if text else np.ascontiguousarray(values, dtype=kind).tobytes()
        digest.update(raw)
    return digest.hexdigest()
