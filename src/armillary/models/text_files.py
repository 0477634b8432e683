"""Text files: a folder of them, one document a file, or one file whose documents a stated separator keeps apart."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from armillary.errors import ArgumentError
from armillary.models.texts import Skipped, Source, Text, checked

__all__ = ["TEXT_ENDINGS", "folder", "not_readable", "opened", "require_file", "separated_file", "shown"]

TEXT_ENDINGS = (".md", ".rst", ".text", ".txt")
"""What the name of a text file ends in, in either case; in a single file `.gz` may follow."""

_BLOCK = 1 << 20
_LINE_ENDS = "line ends as LF"


def folder(path: Path) -> Source:
    """The text files of a folder (not of its subfolders), sorted by name, each one document.

    Args:
        path: Where they lie.

    Returns:
        Files whose names end in `TEXT_ENDINGS`, in UTF-8; a byte order mark is not text, and line ends become LF.

    Raises:
        ArgumentError: The folder is missing, or holds none.
    """
    if not path.is_dir():
        got = "is a file" if path.exists() else "does not exist"
        raise ArgumentError(
            f"Argument `documents` must be a folder of text files, but {path} {got}. Give the folder that holds them."
        )
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in TEXT_ENDINGS and file.is_file())
    if not files:
        count = sum(1 for _ in path.iterdir())
        raise ArgumentError(
            f"Argument `documents` must be a folder of text files, but none of the {count} entries of {path} is a "
            f"file ending in {', '.join(TEXT_ENDINGS)}. Put the texts there as UTF-8 files with such names."
        )
    order = f"the {len(files)} text files ({', '.join(TEXT_ENDINGS)}) of the folder, sorted by name, {_LINE_ENDS}"
    return Source((_file(file) for file in files), f"folder {shown(path)}", order, f"the folder {path}")


def separated_file(path: Path, separator: str) -> Source:
    """The texts of one file between separators, in their order; what stands between is stripped of outer white space.

    The file is read block by block and never held whole.

    Args:
        path: A text file in UTF-8, or the same compressed with gzip.
        separator: What stands between two documents, with line ends as LF: two of them for an empty line.

    Raises:
        ArgumentError: The separator is empty or no text, or the file is missing.
    """
    if not isinstance(separator, str) or not separator:
        raise ArgumentError(
            f"Argument `separator` must be the text between two documents, but it is {separator!r}. "
            "Give two line ends where an empty line stands between them."
        )
    require_file(path)
    order = f"the texts of {path.name} between separators {separator!r}, in their order, {_LINE_ENDS}"
    return Source(_parts(path, separator), f"file {shown(path)}", order, f"the file {path}")


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked where its name ends in `.gz`."""
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def require_file(path: Path) -> None:
    """Raises ArgumentError unless the path is a file that can be read."""
    if not path.is_file():
        got = "is a folder" if path.is_dir() else "does not exist"
        raise ArgumentError(f"Argument `documents` must be a file of texts, but {path} {got}. Give the file itself.")


def shown(path: Path) -> str:
    """A file name that can be written as UTF-8, whatever bytes it was made of."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def not_readable(path: Path, why: str) -> ArgumentError:
    """A file as a whole cannot be read."""
    return ArgumentError(
        f"Argument `documents` must be a readable file of texts in UTF-8, but {path} is not: {why}. Convert or repair "
        "it."
    )


def _file(file: Path) -> Text | Skipped:
    title = shown(Path(file.name))
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as trouble:
        return Skipped(title, f"not UTF-8: byte {trouble.start} is 0x{trouble.object[trouble.start]:02x}")
    except OSError as trouble:
        return Skipped(title, f"cannot be read: {trouble.strerror}")
    return checked(title, text.replace("\r\n", "\n").replace("\r", "\n"))


def _parts(path: Path, separator: str) -> Iterator[Text | Skipped]:
    """Each part as soon as the separator behind it was read; empty parts are counted and passed over."""
    waiting, number, name = "", 0, shown(Path(path.name))
    for block in _decoded(path):
        *whole, waiting = (waiting + block).split(separator)
        for part in whole:
            number += 1
            if part.strip():
                yield checked(f"{name}, text {number}", part.strip())
    if waiting.strip():
        yield checked(f"{name}, text {number + 1}", waiting.strip())


def _decoded(path: Path) -> Iterator[str]:
    """The text of a file in blocks, line ends as LF."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    lines = io.IncrementalNewlineDecoder(None, translate=True)
    read = 0
    try:
        with opened(path) as file:
            while block := file.read(_BLOCK):
                before = len(decoder.getstate()[0])
                yield lines.decode(decoder.decode(block))
                read += len(block)
            before = len(decoder.getstate()[0])
            yield lines.decode(decoder.decode(b"", final=True), final=True)
    except UnicodeDecodeError as trouble:
        place = read - before + trouble.start
        raise not_readable(path, f"byte {place} is 0x{trouble.object[trouble.start]:02x}") from trouble
    except (gzip.BadGzipFile, EOFError, zlib.error) as trouble:
        raise not_readable(path, f"it cannot be unpacked ({trouble})") from trouble
