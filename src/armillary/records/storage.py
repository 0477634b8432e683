"""The folder of a record: three files written at once or not at all, and read back without loss, or refused.

    study.toml         every choice (TOML)
    provenance.json    versions, decoder, conditions, documents (strict JSON: what is missing is null)
    measurements.nc    one value a document (netCDF, xarray): condition, tap, layer, tokens, preparation, document

What netCDF cannot hold (flags, missing values, mappings, half precision) is spelled out on the way in and put back on
the way out; a hash of the numbers stands in the provenance, so that altered ones are noticed.
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
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    import xarray

__all__ = [
    "FORMAT",
    "Stored",
    "measurements_hash",
    "not_a_record",
    "plain",
    "read",
    "require_new",
    "write",
]

FORMAT = 1
"""The version of the layout; a record of another one is refused by name."""

_STUDY, _PROVENANCE, _MEASUREMENTS = "study.toml", "provenance.json", "measurements.nc"
_JSON = "json:"  # how an attribute that netCDF cannot hold is spelled


@dataclass(frozen=True, eq=False)
class Stored:
    """What lies in the folder of a record.

    Attributes:
        study: Every choice.
        provenance: Where the numbers come from.
        dataset: The measurements, in memory.
        measurements_hash: SHA-256 of the measurements.
    """

    study: dict[str, Any]
    provenance: dict[str, Any]
    dataset: xarray.Dataset
    measurements_hash: str


def require_new(folder: Path) -> None:
    """Refuses, before any work is done, a path where no record can be written.

    Args:
        folder: The folder to come.

    Raises:
        ArgumentError: It exists, or cannot be made.
    """
    with _partial(folder):
        pass


def write(
    folder: Path,
    study: Mapping[str, Any],
    provenance: Mapping[str, Any],
    dataset: xarray.Dataset,
    *,
    workshop: Path | None = None,
) -> None:
    """Writes the three files into a hidden folder, which is given the name of the one to come when all are in it.

    Args:
        folder: The folder to come.
        study: Every choice; TOML has no null, so None is refused.
        provenance: Where the numbers come from; NaN and None become null.
        dataset: The measurements.
        workshop: A new folder on the same disk to put them together in; beside the one to come if None.

    Raises:
        ArgumentError: The folder exists or cannot be written, or something cannot be stored without loss.
    """
    import tomli_w

    with _partial(folder, workshop) as partial:
        choices = tomli_w.dumps(plain(study, "study", null=False))
        stored = _stored(dataset)
        if "record" in provenance:
            raise ArgumentError("Argument `provenance` must leave the key 'record' free, but has it. Rename the key.")
        own = {"format": FORMAT, "measurements": measurements_hash(dataset)}
        origin = {"record": own, **plain(provenance, "provenance")}
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


def read(folder: Path) -> Stored:
    """Reads a record whole.

    Args:
        folder: Where it lies.

    Returns:
        Its three parts, and the hash of its numbers.

    Raises:
        ArgumentError: The folder is no record, of another format, damaged, or its numbers were altered.
    """
    import xarray as xr

    if not folder.is_dir():
        raise not_a_record(folder, "is a file" if folder.exists() else "does not exist")
    missing = [name for name in (_STUDY, _PROVENANCE, _MEASUREMENTS) if not (folder / name).is_file()]
    if missing:
        raise not_a_record(folder, f"holds no {' and no '.join(missing)}")
    try:
        provenance = json.loads((folder / _PROVENANCE).read_text(encoding="utf-8"))
        own = provenance.pop("record", {})
        if own.get("format") != FORMAT:
            raise ArgumentError(
                f"Argument `path` must be a record of format {FORMAT}, but {folder} says {own.get('format')}. "
                "Open it with the version of armillary that its provenance.json names."
            )
        study = tomllib.loads((folder / _STUDY).read_text(encoding="utf-8"))
        found = xr.load_dataset(folder / _MEASUREMENTS, engine="h5netcdf", decode_times=False, decode_timedelta=False)
    except ArgumentError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise not_a_record(folder, f"cannot be read ({type(error).__name__}: {error})") from error
    dataset = _restored(found)
    digest = measurements_hash(dataset)
    if digest != own.get("measurements"):
        raise not_a_record(folder, f"its {_MEASUREMENTS} is not the one it was written with")
    return Stored(study, provenance, dataset, digest)


def not_a_record(folder: Path, why: str, remedy: str = "Name a folder that `armillary lab` wrote") -> ArgumentError:
    """The refusal of a folder that is no record, with the reason."""
    return ArgumentError(f"Argument `path` must be the folder of a record, but {folder} {why}. {remedy}.")


def plain(value: Any, where: str, *, null: bool = True) -> Any:
    """The value in what TOML and JSON share; None and NaN become None if `null`, and None is refused if not."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): plain(v, f"{where}.{k}", null=null) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, f"{where}[{i}]", null=null) for i, v in enumerate(value)]
    if isinstance(value, float) and null and not math.isfinite(value):
        return None if math.isnan(value) else f"{value}"
    if isinstance(value, bool | int | float | str) or (value is None and null):
        return value
    if isinstance(value, Path):
        return str(value)
    raise ArgumentError(
        f"Argument `{where}` must be text, a number, a flag, a list or a mapping, but is {value!r}. Say it in words."
    )


def measurements_hash(dataset: xarray.Dataset) -> str:
    """SHA-256 over names, dimensions, values and attributes: the same before writing and after reading."""
    digest = hashlib.sha256(json.dumps(plain(dict(dataset.attrs), "attrs"), sort_keys=True).encode())
    for name in sorted(map(str, dataset.variables)):
        variable = dataset.variables[name]
        attributes = plain(dict(variable.attrs), name)
        values = np.asarray(variable.values)
        text = values.dtype.kind in "OUST"
        kind = "text" if text else values.dtype.newbyteorder("<").str
        digest.update(json.dumps([name, variable.dims, values.shape, kind, attributes], sort_keys=True).encode())
        raw = json.dumps(values.tolist()).encode() if text else np.ascontiguousarray(values, dtype=kind).tobytes()
        digest.update(raw)
    return digest.hexdigest()


@contextmanager
def _partial(folder: Path, workshop: Path | None = None) -> Iterator[Path]:
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
            if workshop is None:
                partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            else:
                workshop.mkdir()
                partial = workshop
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
    return value if array or number or text else _JSON + json.dumps(plain(value, where), ensure_ascii=False)


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
