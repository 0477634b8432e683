"""`armillary report`: the page and the figures of a record, or of two side by side, drawn without the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary.cli import terminal
from armillary.cli.options import Quiet
from armillary.errors import ArgumentError, ArmillaryError

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["drawn", "report"]

MOST = 2

SIMULATION = "simulation"
SIDE_BY_SIDE = ("laboratory", "captured states")
"""Kinds of records that have a page of two, as two simulations have."""

KIND_WORDS = {
    "simulation": "a simulation", "phase": "a diagram", "training": "a training", "diagnosis": "a diagnosis",
    "audit": "an audit", "resistance": "a ladder",
}  # fmt: skip
"""What a record of another kind is called."""


def report(
    records: Annotated[list[Path], typer.Argument(help="Folder of a record, or of two to be shown side by side.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where page and figures go. Default: the record's folder; of two, A-beside-B in this one."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Draw the page of one or two records.

    Page and figures of a record again, or of two records side by side, without the model.
    """
    from armillary.records.record import Record

    if len(records) > MOST:
        raise ArgumentError(
            f"Argument `RECORD` must be one folder or two, but {len(records)} are given. Compare them two by two."
        )
    opened = [Record.open(path) for path in records]
    if len(opened) == MOST:
        _require_depth(opened)
    target = out if out is not None or len(opened) == 1 else Path(f"{_name(records[0])}-beside-{_name(records[1])}")
    if target is not None:
        _require_drawable(target)
    with terminal.interruptible(records[0]):
        page = drawn(*opened, quiet=quiet, folder=target)
    if not quiet:
        typer.echo(str(page))


def drawn(*records: Record, quiet: bool, folder: Path | None = None) -> Path:
    """Draw figures and page; all are drawn before the first takes its place.

    Args:
        records: One, or two to be shown side by side.
        quiet: Whether no progress is shown.
        folder: Where they go; None for the folder of the one record.
    """
    target = records[0].path if folder is None else folder
    made = not target.exists()
    try:
        from armillary.figures import write_figures
        from armillary.report import write_comparison, write_report, write_run_comparison

        target.mkdir(parents=True, exist_ok=True)
        with (
            terminal.progress("drawing", quiet=quiet),
            tempfile.TemporaryDirectory(prefix=".drawing.", dir=target) as beside,
        ):
            if len(records) == MOST:
                simulated = records[0].study.get("kind") == SIMULATION
                page = (write_run_comparison if simulated else write_comparison)(records[0], records[1], beside)
            else:
                write_figures(records[0], Path(beside) / "figures")
                page = write_report(records[0], Path(beside) / "report.html")
            (target / "figures").mkdir(exist_ok=True)
            for file in sorted((Path(beside) / "figures").iterdir()):
                file.replace(target / "figures" / file.name)
            return page.replace(target / page.name)
    except Exception as trouble:  # numbers are safe, whatever pictures stumble over
        kind = type(trouble) if isinstance(trouble, ArmillaryError) else ArmillaryError
        if isinstance(trouble, OSError):
            kind, trouble = ArgumentError, OSError(trouble.strerror or trouble)
        names = " ".join(str(record.path) for record in records)
        whole = f"record in {names} is whole, but its" if len(records) == 1 else "records are whole, but their"
        raise kind(
            f"The {whole} pictures could not be drawn ({type(trouble).__name__}: {trouble}). Draw them with "
            f"`armillary report {names}` once that is mended."
        ) from trouble
    finally:
        if made and target.is_dir() and not any(target.iterdir()):
            target.rmdir()


def _name(path: Path) -> str:
    return path.absolute().name


def _require_depth(opened: list[Record]) -> None:
    """Refuse two records that share no axis: both must be of documents through depth, or both be simulations."""
    if all(str(record.study.get("kind")) == SIMULATION for record in opened):
        return
    for record in opened:
        kind = str(record.study.get("kind", SIDE_BY_SIDE[0]))
        if kind not in SIDE_BY_SIDE:
            raise ArgumentError(
                "Argument `RECORD` must be two records of decoders, of captured states, or of simulations, to be shown "
                f"side by side, but {record.path} is {KIND_WORDS.get(kind, kind)}. Draw it alone: "
                f"`armillary report {record.path}`."
            )


def _require_drawable(folder: Path) -> None:
    """Refuse a folder that holds something other than what an earlier report left there."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "report.html").is_file():
        raise ArgumentError(
            f"Argument `--out` must be a new folder, or one that holds an earlier report, but {folder} holds other "
            "things. Name another."
        )
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"Argument `--out` must be a folder, but {folder} is a file. Name another.")
