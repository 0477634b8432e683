"""`armillary export`: a record's numbers in a format that other programs read, with their conventions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from armillary.cli import terminal
from armillary.cli.options import Quiet
from armillary.errors import ArgumentError

__all__ = ["Format", "Per", "export"]


class Format(StrEnum):
    """The endings of `exports.FORMATS`, known before numbers are."""

    parquet = "parquet"
    csv = "csv"
    npz = "npz"
    json = "json"


class Per(StrEnum):
    """What a row of a table is."""

    estimate = "estimate"
    document = "document"


def export(
    record: Annotated[Path, typer.Argument(help="Folder of a record.")],
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Parquet, CSV and JSON hold the tidy table, NPZ every array. Default: as --out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New file. Default: measurements.FORMAT in the record's folder.")
    ] = None,
    per: Annotated[
        Per | None, typer.Option(help="What a row of the table is. Default: an estimate, with its interval.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a record's numbers to one file.

    With the conventions they need to be read, in a format that other programs read.
    """
    from armillary.records.record import Record

    if format_ is None and out is None:
        raise ArgumentError("Argument `--format` must say what to write, but is missing. Write `--format csv`.")
    target = record / f"measurements.{format_}" if out is None else out
    opened = Record.open(record)
    ending = _ending(target, format_)
    if ending == "npz" and per is not None:
        raise ArgumentError(
            "Argument `--per` must be left out for .npz, which holds arrays and no rows, but it is given. Leave it out."
        )
    with terminal.interruptible():
        if ending == "npz":
            opened.to_npz(target)
        else:
            {"csv": opened.to_csv, "parquet": opened.to_parquet, "json": opened.to_json}[ending](
                target, "document" if per is Per.document else "estimate"
            )
    if not quiet:
        typer.echo(str(target))


def _ending(target: Path, format_: Format | None) -> str:
    """The ending of a file that can be written, or a refusal in the words of the command line."""
    from armillary.records.exports import FORMATS, require_new_file

    try:
        return require_new_file(target, *(FORMATS if format_ is None else (format_.value,))).suffix.removeprefix(".")
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("`path`", "`--out`")) from error
