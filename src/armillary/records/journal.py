"""What a run has finished so far: a folder beside the record to come, each unit written whole, from which it resumes.

    NAME.partial/
      journal.json         format, what the run is (choices, hashes, versions, threads), variables, provenance
      frame.npz            labels of all axes, and what does not come from documents
      CC-calibration.npz   what condition CC estimated on calibration documents
      CC-proof.json        what condition CC changed
      CC-rounding.npz      what rounding alone does to the numbers of condition CC
      CC-SSSSSSS.npz       the chunk of condition CC that starts with document SSSSSSS: arrays, ids, seconds
      lock, holder.json    while a run goes on

A unit is written beside, brought to the disk and renamed, so it is there as a whole or not at all, whenever a run ends.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError, DiskError
from armillary.records import storage
from armillary.records.assembly import Variable

if TYPE_CHECKING:
    import xarray

__all__ = [
    "IDS",
    "REASON",
    "SECONDS",
    "SUMS",
    "UNFINISHED",
    "Beginning",
    "Journal",
    "calibration_unit",
    "chunk_unit",
    "gauges_unit",
    "is_journal",
    "partial_of",
    "proof_unit",
    "rounding_unit",
]

FORMAT = 1
IDS, SECONDS = "token_ids", "seconds"
"""Beside its variables a chunk keeps the ids that went through the decoder, and how long it took."""

SUMS = "sums"
"""Beside its variables a cell keeps which sums over pairs ran, in words."""

REASON = "reason"
"""In the place of floors: why there are none."""

_JOURNAL, _FRAME, _LOCK, _HOLDER = "journal.json", "frame.npz", "lock", "holder.json"
_CHUNK = re.compile(r"(\d+)-(\d+)\.npz")
_ARRAY = "array"
_NO_SPACE = os.strerror(errno.ENOSPC)
UNFINISHED = ".unfinished"
"""How the name of everything ends that is still being written."""


def partial_of(record: Path) -> Path:
    """Where the journal of a record to come lies: beside it, under its name and `.partial`."""
    return record.with_name(f"{record.name}.partial")


def is_journal(folder: Path) -> bool:
    """Whether a folder is the journal of a run that has not ended."""
    return (folder / _JOURNAL).is_file()


@dataclass(frozen=True, eq=False)
class Beginning:
    """What a journal holds before anything is measured.

    Args:
        study: Every choice.
        provenance: Where the numbers will come from; what follows from the units is added when it is read.
        frame: Labels of all axes, and what does not come from documents.
        variables: What the chunks will hold.
    """

    study: Mapping[str, Any]
    provenance: Mapping[str, Any]
    frame: xarray.Dataset
    variables: Mapping[str, Variable]


class Journal:
    """The finished units of one run; use `Journal.held`.

    Attributes:
        folder: Where it lies.
        resumed: Whether it was there before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resumed = is_journal(folder)

    @classmethod
    @contextmanager
    def held(cls, record: Path) -> Iterator[Journal]:
        """The journal of a record to come, locked for as long as the block lasts.

        If the block ends without a single finished unit, nothing is left of it.

        Args:
            record: The folder of the record.

        Raises:
            ArgumentError: The record exists, its place cannot be written, or another run holds the journal.
            DiskError: The disk cannot take a unit, or the record.
        """
        from filelock import FileLock, Timeout

        storage.require_new(record)
        folder = partial_of(record)
        made = [parent for parent in folder.absolute().parents if not parent.exists()]
        lock = FileLock(folder / _LOCK)
        try:
            with _on_disk(folder):
                folder.mkdir(parents=True, exist_ok=True)
                _require_own(folder)
                lock.acquire(blocking=False)
        except Timeout:
            raise _in_use(record) from None
        try:
            journal = cls(folder)
            with _on_disk(folder):
                storage.require_new(record)  # another run may have finished it meanwhile
                journal._tidy()
                _write(folder / _HOLDER, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
                yield journal
        finally:
            (folder / _HOLDER).unlink(missing_ok=True)
            if record.exists() or not cls(folder).units():
                shutil.rmtree(folder, ignore_errors=True)
            lock.release()
            with suppress(OSError):
                (folder / _LOCK).unlink(missing_ok=True)
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()  # only if nothing came to lie in it

    @staticmethod
    def require_free(record: Path) -> None:
        """Refuses, before any work is done, a record that another run is writing."""
        from filelock import FileLock, Timeout

        lock = partial_of(record) / _LOCK
        if lock.exists():
            try:
                with FileLock(lock, blocking=False):
                    pass
            except Timeout:
                raise _in_use(record) from None

    # what it is about --------------------------------------------------------------------------------------------

    def begin(self, identity: Mapping[str, Any], beginning: Callable[[], Beginning]) -> None:
        """Write down what the run is; or, if it was begun before, see that it is the same run.

        Args:
            identity: What decides every bit of the numbers: choices, hashes, versions, threads.
            beginning: Makes what else a new journal holds.

        Raises:
            ArgumentError: The journal is that of another run; the message names what differs.
        """
        identity = json.loads(json.dumps(storage.plain(identity, "identity")))
        if self.resumed:
            _require_same(self.folder, self.content()["identity"], identity)
            return
        made = beginning()
        labels = made.frame.variables
        self.put(_FRAME, {str(name): np.asarray(one.values) for name, one in labels.items()})
        content = {
            "format": FORMAT,
            "identity": identity,
            "study": storage.plain(made.study, "study", null=False),
            "provenance": storage.plain(made.provenance, "provenance"),
            "variables": {
                name: {
                    "dims": list(one.dims),
                    "attrs": storage.plain(one.attrs, name),
                    "dtype": one.dtype,
                    "fill": storage.plain(float(one.fill), name),
                }
                for name, one in made.variables.items()
            },
            "frame": {
                "attrs": _spelled(made.frame.attrs),
                "coordinates": list(made.frame.coords),
                "variables": {name: [one.dims, _spelled(one.attrs)] for name, one in labels.items()},
            },
        }
        self._write_json(_JOURNAL, content)

    def identity(self) -> dict[str, Any]:
        """What the run is, as it was begun; empty if it was not."""
        return dict(self.content()["identity"]) if is_journal(self.folder) else {}

    # units -------------------------------------------------------------------------------------------------------

    def units(self) -> set[str]:
        """Names of what is finished."""
        found = {path.name for path in self.folder.glob("*.npz")} if is_journal(self.folder) else set()
        return found - {_FRAME}

    def put(self, unit: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a finished unit, whole or not at all."""
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        _write(self.folder / unit, content.getvalue())

    def arrays(self, unit: str) -> dict[str, np.ndarray]:
        """The arrays of a unit."""
        with np.load(self.folder / unit, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def array(self, unit: str, name: str) -> np.ndarray:
        """One array of a unit."""
        with np.load(self.folder / unit, allow_pickle=False) as stored:
            return np.asarray(stored[name])

    def put_proof(self, condition: int, proof: Mapping[str, Any]) -> None:
        """Keep what a condition changed."""
        self._write_json(proof_unit(condition), storage.plain(proof, "proof"))

    def chunks(self, condition: int) -> list[int]:
        """The first documents of the finished chunks of a condition, ascending."""
        found = (_CHUNK.fullmatch(name) for name in self.units())
        return sorted(int(one[2]) for one in found if one and int(one[1]) == condition)

    # files -------------------------------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """What `begin` wrote down: identity, study, provenance, variables.

        Raises:
            ArgumentError: It is of another format.
        """
        content = self.read_json(_JOURNAL)
        if content.get("format") != FORMAT:
            raise ArgumentError(
                f"Argument `path` must be a run of format {FORMAT}, but {self.folder} says {content.get('format')}. "
                "Go on with the version of armillary that began it, or remove the folder to begin anew."
            )
        return content

    def frame(self) -> xarray.Dataset:
        """Labels of all axes, and what does not come from documents."""
        import xarray as xr

        said, arrays = self.content()["frame"], self.arrays(_FRAME)
        labels = {
            name: (dims, arrays[name], {key: _meant(value) for key, value in attrs.items()})
            for name, (dims, attrs) in said["variables"].items()
        }
        coordinates = {name: labels.pop(name) for name in said["coordinates"]}
        return xr.Dataset(labels, coords=coordinates, attrs=said["attrs"])

    def read_json(self, name: str) -> dict[str, Any]:
        """One of the small files."""
        return dict(json.loads((self.folder / name).read_text(encoding="utf-8")))

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        _write(self.folder / name, json.dumps(content, ensure_ascii=False, allow_nan=False).encode())

    def _tidy(self) -> None:
        """Remove what a killed run left unfinished, and units that the disk has damaged: these are measured again."""
        for path in self.folder.iterdir():
            if path.name.endswith(UNFINISHED):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for unit in self.units():
            if not _is_whole(self.folder / unit):
                (self.folder / unit).unlink()


def chunk_unit(condition: int, start: int) -> str:
    """The name of a chunk's file."""
    return f"{condition:02d}-{start:07d}.npz"


def calibration_unit(condition: int) -> str:
    """The name of a calibration's file."""
    return f"{condition:02d}-calibration.npz"


def gauges_unit() -> str:
    """The name of the file of numbers before and after re-parametrizations of the decoder."""
    return "gauges.npz"


def rounding_unit(condition: int) -> str:
    """The name of the file of a condition's rounding floors."""
    return f"{condition:02d}-rounding.npz"


def proof_unit(condition: int) -> str:
    """The name of the file that says what a condition changed."""
    return f"{condition:02d}-proof.json"


def _spelled(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as JSON has them; an array is marked as one."""
    return {
        str(key): {_ARRAY: value.tolist()} if isinstance(value, np.ndarray) else storage.plain(value, str(key))
        for key, value in attrs.items()
    }


def _meant(value: Any) -> Any:
    return np.asarray(value[_ARRAY]) if isinstance(value, dict) and _ARRAY in value else value


def _is_whole(unit: Path) -> bool:
    try:
        with zipfile.ZipFile(unit) as stored:
            return stored.testzip() is None
    except Exception:  # a flipped bit may say encrypted, or a method that nobody knows: whatever it is, it is damaged
        return False


def _write(path: Path, content: bytes) -> None:
    """The file with this content, there as a whole or not at all even if the machine stops."""
    beside = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _remember(path.parent)


def _remember(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _on_disk(folder: Path) -> Iterator[None]:
    """A full disk is one sentence, whichever library met it."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the HDF5 library says it in its own words, without a number
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or _NO_SPACE in str(error)
        if not full:
            raise
        raise DiskError(
            f"The disk must have room for the numbers of a run, but that of {folder.parent} has none left "
            f"({_NO_SPACE}). Make room, then run the same command again: it goes on from what is finished."
        ) from error


def _in_use(record: Path) -> ArgumentError:
    try:
        holder = json.loads((partial_of(record) / _HOLDER).read_text(encoding="utf-8"))
        who = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError):
        who = "another process"
    return ArgumentError(
        f"Argument `path` must be a record that no other run is writing, but {who} is writing {record}. "
        "Wait until it has ended, or name another folder."
    )


def _require_own(folder: Path) -> None:
    """Refuse a folder of that name that is no journal: nothing of somebody else's is ever removed."""
    known = {_LOCK, _HOLDER, _FRAME}
    others = sorted(path.name for path in folder.iterdir() if path.name not in known and UNFINISHED not in path.name)
    if others and not is_journal(folder):
        raise ArgumentError(
            f"Argument `path` must leave the folder {folder} to the run, which keeps there what is finished, but it "
            f"holds {others[0]}. Name another place, or move that folder away."
        )


def _require_same(folder: Path, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    before, now = dict(_leaves(there)), dict(_leaves(here))
    changed = [key for key in dict.fromkeys([*before, *now]) if before.get(key) != now.get(key)]
    if not changed:
        return
    key = changed[0]
    others = f" (and {', '.join(changed[1:4])}{', ...' if len(changed) > 4 else ''})" if len(changed) > 1 else ""
    raise ArgumentError(
        f"Argument `path` must be a new place or go on with the same run, but the one in {folder} was begun with {key} "
        f"{_short(before.get(key))} and this one has {_short(now.get(key))}{others}. Ask for the same again to go on "
        f"with it, name another place, or remove {folder} to begin anew."
    )


def _leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{where}.{key}" if where else str(key))
    else:
        yield where, value


def _short(value: Any) -> str:
    text = "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
