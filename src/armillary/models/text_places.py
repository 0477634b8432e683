"""What lies at a path, as a source of texts: a folder of text files, one text file, or a table by its ending."""

from __future__ import annotations

from pathlib import Path

from armillary.errors import ArgumentError
from armillary.models.text_files import folder, separated_file
from armillary.models.text_tables import TABLE_ENDINGS, table_ending, table_file
from armillary.models.texts import Source

__all__ = ["TEXT_COLUMN", "texts_at"]

TEXT_COLUMN = "text"
"""Of a table, unless another one is named."""


def texts_at(path: Path, *, separator: str | None, text_column: str, id_column: str | None) -> Source:
    """The texts that lie there.

    Args:
        path: A folder of text files, a text file, or a table that ends in one of `TABLE_ENDINGS`.
        separator: What stands between two documents of a text file; for nothing else.
        text_column: Where the text of a table stands.
        id_column: Where the titles of a table stand; None calls rows by their number.

    Raises:
        ArgumentError: Nothing is there, a text file comes without separator, or something else with one.
    """
    table = not path.is_dir() and table_ending(path) in TABLE_ENDINGS
    if separator is not None and (table or path.is_dir()):
        raise ArgumentError(
            f"Argument `separator` must be left out here, but it is {separator!r} while {path} is "
            f"{'a table' if table else 'a folder'}, which keeps documents apart by itself. Leave it out, or give a "
            "text file."
        )
    for name, column in (
        ("text_column", None if text_column == TEXT_COLUMN else text_column),
        ("id_column", id_column),
    ):
        if column is not None and not table:
            raise ArgumentError(
                f"Argument `{name}` must come with a table ending in {', '.join(TABLE_ENDINGS)}, but it is {column!r} "
                f"while {path} is none. Leave it out, or name a table."
            )
    if table:
        return table_file(path, text_column=text_column, id_column=id_column)
    if not path.exists():
        raise ArgumentError(
            f"Argument `documents` must be a folder of text files, a text file or a table, but {path} does not exist. "
            "Check its name."
        )
    if not path.is_file():
        return folder(path)
    if separator is None:
        raise ArgumentError(
            f"Argument `separator` must say what stands between two documents of the text file {path}, but none is "
            "given. Give two line ends for an empty line; or give a folder with one document a file, or a table ending "
            f"in {', '.join(TABLE_ENDINGS)}."
        )
    return separated_file(path, separator)
