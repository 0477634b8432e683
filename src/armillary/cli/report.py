"""`armillary report`: the page and the figures of a record, drawn again without the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary.cli import terminal
from armillary.cli.options import Quiet
from armillary.errors import ArgumentError, ArmillaryError

if TYPE_CHECKING:
    from armillary.record import Record

__all__ = ["drawn", "report"]


def report(
    record: Annotated[Path, typer.Argument(help="Folder of a record.")],
    quiet: Quiet = False,
) -> None:
    """Draw the page and the figures of a record again, without the model."""
    from armillary.record import Record

    with terminal.interruptible(record):
        page = drawn(Record.open(record), quiet=quiet)
    if not quiet:
        typer.echo(str(page))


def drawn(record: Record, *, quiet: bool) -> Path:
    """Draw figures and page; all are drawn before the first takes its place in the record's folder."""
    import tempfile

    figures = record.path / "figures"
    try:
        from armillary.figures import write_figures
        from armillary.report import write_report

        with (
            terminal.progress("drawing", quiet=quiet),
            tempfile.TemporaryDirectory(prefix=".drawing.", dir=record.path) as beside,
        ):
            drawn = write_figures(record, Path(beside) / "figures")
            page = write_report(record, Path(beside) / "report.html")
            figures.mkdir(exist_ok=True)
            for file in drawn:
                file.replace(figures / file.name)
            return page.replace(record.path / page.name)
    except Exception as trouble:  # numbers are safe, whatever pictures stumble over
        kind = type(trouble) if isinstance(trouble, ArmillaryError) else ArmillaryError
        if isinstance(trouble, OSError):
            kind, trouble = ArgumentError, OSError(trouble.strerror or trouble)
        raise kind(
            f"The record in {record.path} is whole, but its pictures could not be drawn ({type(trouble).__name__}: "
            f"{trouble}). Draw them with `armillary report {record.path}` once that is mended."
        ) from trouble
