"""Tables of texts: JSON lines, CSV, TSV, Parquet or a `datasets` object, with a text column and an id column."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError
from armillary.models.text_files import not_readable, opened, require_file, shown
from armillary.models.texts import Skipped, Source, Text, checked

__all__ = ["TABLE_ENDINGS", "rows", "table_ending", "table_file"]

TABLE_ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet", ".tsv")
"""What the name of a table ends in, in either case; `.gz` may follow, except after `.parquet`."""

Row = Mapping[str, Any] | Skipped
"""A row of a table, or why it is none."""

_ROWS_AT_ONCE = 256


def table_file(path: Path, *, text_column: str, id_column: str | None) -> Source:
    """The rows of a file in their order, one document a row.

    Args:
        path: A file whose name ends in one of `TABLE_ENDINGS`.
        text_column: Where the text stands.
        id_column: Where the title stands, all different; None calls them row 1, row 2 and so on.

    Raises:
        ArgumentError: The file is missing or damaged, or lacks a column; while it is read, an id that repeats.
    """
    require_file(path)
    ending = table_ending(path)
    names: tuple[str, ...] | None = None
    if ending == ".parquet":
        names, found = _parquet(path, [text_column, *([] if id_column is None else [id_column])])
    elif ending in (".csv", ".tsv"):
        names, found = _separated_values(path, "\t" if ending == ".tsv" else ",")
    elif ending in TABLE_ENDINGS:
        found = _json_lines(path)
    else:
        raise ArgumentError(
            f"Argument `documents` must be a table ending in {', '.join(TABLE_ENDINGS)}, but it is {path}. Rename it, "
            "or give its rows through `Documents.from_rows`."
        )
    return _source(found, names, shown(path), f"file {shown(path)}", text_column=text_column, id_column=id_column)


def rows(table: Any, *, text_column: str, id_column: str | None) -> Source:
    """The rows of a `datasets.Dataset` or `IterableDataset`, or of anything that gives mappings one after the other.

    Args:
        table: The rows.
        text_column: Where the text stands.
        id_column: Where the title stands, all different; None calls them row 1, row 2 and so on.

    Raises:
        ArgumentError: It gives no rows, is several data sets by name, or lacks a column; later, an id that repeats.
    """
    if isinstance(table, Mapping):
        raise ArgumentError(
            f"Argument `rows` must be one data set, but it is {len(table)} of them by name. "
            f"Choose one, rows[{next(iter(table), 'train')!r}] for instance."
        )
    if not isinstance(table, Iterable) or isinstance(table, str | bytes):
        raise ArgumentError(
            f"Argument `rows` must give rows with named columns, but it is of type {type(table).__name__}. "
            "Give a `datasets.Dataset`, or a list of mappings."
        )
    names = getattr(table, "column_names", None)
    names = tuple(map(str, names)) if isinstance(names, list | tuple) else None
    source = _source(
        _mappings(table, names, text_column, id_column),
        names,
        "the rows given",
        _dataset_words(table),
        text_column=text_column,
        id_column=id_column,
    )
    return source


def _source(
    found: Iterable[Row],
    names: tuple[str, ...] | None,
    where: str,
    origin: str,
    *,
    text_column: str,
    id_column: str | None,
) -> Source:
    for argument, column in (("text_column", text_column), ("id_column", id_column)):
        if names is not None and column is not None and column not in names:
            raise _no_column(argument, column, where, names)
    called = "called by their number" if id_column is None else f"called by column {id_column!r}"
    order = f"the rows of {where} in their order, text from column {text_column!r}, {called}"
    return Source(_texts(found, where, text_column, id_column), origin, order, where)


def _texts(found: Iterable[Row], where: str, text_column: str, id_column: str | None) -> Iterator[Text | Skipped]:
    """One text a row; a row without one is skipped, and a second row of the same id ends everything."""
    seen: dict[str, int] = {}
    known: dict[str, None] = {}
    number = 0
    for number, row in enumerate(found, start=1):
        if isinstance(row, Skipped):
            yield row
            continue
        known |= dict.fromkeys(map(str, row))
        title = f"row {number}"
        if id_column is not None:
            title = _title(row, number, where, id_column, tuple(known))
            if title in seen:
                raise ArgumentError(
                    f"Argument `id_column` must name each row of {where} differently, but rows {seen[title]} and "
                    f"{number} are both {title!r}. Join the rows of one document first, or name another column."
                )
            seen[title] = number
        text = row.get(text_column)
        if text is None or text != text:  # a missing number stands for a missing text
            yield Skipped(title, f"no text in column {text_column!r}")
        elif not isinstance(text, str):
            yield Skipped(title, f"column {text_column!r} holds {type(text).__name__}, not text")
        else:
            yield checked(title, text)
    if known and text_column not in known:
        raise _no_column("text_column", text_column, where, tuple(known))


def _title(row: Mapping[str, Any], number: int, where: str, column: str, known: tuple[str, ...]) -> str:
    value = row.get(column)
    if value is None or value != value or not str(value).strip():
        if column not in known:
            raise _no_column("id_column", column, where, known)
        raise ArgumentError(
            f"Argument `id_column` must name every row of {where}, but row {number} has nothing in {column!r}. "
            "Fill it in, or leave the argument out: rows are then called by their number."
        )
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _no_column(argument: str, column: str, where: str, names: tuple[str, ...]) -> ArgumentError:
    return ArgumentError(
        f"Argument `{argument}` must be a column of {where}, but {column!r} is none of {', '.join(names)}. "
        "Name one of them."
    )


def table_ending(path: Path) -> str:
    """What the name of a file ends in, in small letters, before `.gz`."""
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return name.suffix.lower()


def _json_lines(path: Path) -> Iterator[Row]:
    """One object a line; a damaged line is skipped with the reason, an empty one is no row."""
    number = 0
    try:
        with opened(path) as file:
            for raw in file:
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw
                if not line.strip():
                    continue
                number += 1
                yield _json_row(f"row {number}", line)
    except (gzip.BadGzipFile, EOFError, zlib.error) as trouble:
        raise not_readable(path, f"it cannot be unpacked ({trouble})") from trouble


def _json_row(title: str, line: bytes) -> Row:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as trouble:
        return Skipped(title, f"not UTF-8: byte {trouble.start} of the line is 0x{line[trouble.start]:02x}")
    except (ValueError, RecursionError) as trouble:  # a number of thousands of digits is a ValueError too
        return Skipped(title, f"not JSON: {trouble}")
    return row if isinstance(row, dict) else Skipped(title, f"no JSON object but {type(row).__name__}")


def _separated_values(path: Path, delimiter: str) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Header and rows as they stand: no field is taken for a number or for missing."""
    import pandas as pd

    try:
        reader = pd.read_csv(
            path,
            sep=delimiter,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            chunksize=_ROWS_AT_ONCE,
            iterator=True,
        )
        first = next(reader)
    except _TROUBLES as trouble:
        raise not_readable(path, " ".join(str(trouble).split()).rstrip(".")) from trouble
    if not isinstance(first.index, pd.RangeIndex):
        raise not_readable(path, "its first row has more fields than the header")
    return tuple(map(str, first.columns)), _chunks(path, first, reader)


_TROUBLES = (ValueError, EOFError, zlib.error, gzip.BadGzipFile)  # the parser's and the decoder's are ValueErrors


def _chunks(path: Path, first: Any, reader: Any) -> Iterator[Row]:
    try:
        with reader:
            yield from first.to_dict("records")
            for chunk in reader:
                yield from chunk.to_dict("records")
    except _TROUBLES as trouble:
        raise not_readable(path, " ".join(str(trouble).split()).rstrip(".")) from trouble


def _parquet(path: Path, wanted: list[str]) -> tuple[tuple[str, ...], Iterator[Row]]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as trouble:
        raise not_readable(path, " ".join(str(trouble).split()).rstrip(".")) from trouble
    names = tuple(file.schema_arrow.names)
    columns = [name for name in dict.fromkeys(wanted) if name in names]

    def found() -> Iterator[Row]:
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns)
        with file:
            while True:
                try:
                    some = next(batches, None)
                    rows_ = [] if some is None else some.to_pylist()
                except (pyarrow.ArrowException, OSError, ValueError) as trouble:  # damage behind a sound footer
                    raise not_readable(path, " ".join(str(trouble).split()).rstrip(".")) from trouble
                if some is None:
                    return
                yield from rows_

    return names, found()


def _mappings(table: Any, names: tuple[str, ...] | None, text_column: str, id_column: str | None) -> Iterator[Row]:
    """Rows as mappings; where the table can leave columns out, only those asked for are read."""
    wanted = [column for column in (text_column, id_column) if column is not None]
    if names is not None and hasattr(table, "select_columns") and set(wanted) <= set(names):
        table = table.select_columns(list(dict.fromkeys(wanted)))
    for row in table:
        if not isinstance(row, Mapping):
            raise ArgumentError(
                f"Argument `rows` must give rows with named columns, but one is of type {type(row).__name__}. "
                "Give a `datasets.Dataset`, or a list of mappings."
            )
        yield row


def _dataset_words(table: Any) -> str:
    """What a data set says of itself."""
    said = {key: getattr(table, key, None) for key in ("builder_name", "config_name", "split", "version")}
    told = ", ".join(f"{key.split('_')[0]} {value}" for key, value in said.items() if value is not None)
    return f"rows given by the caller ({type(table).__name__}{': ' if told else ''}{told})"
