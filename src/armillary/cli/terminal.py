"""How a command behaves at a terminal: progress, one sentence when interrupted, strict JSON, exit codes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from armillary.errors import Interrupted

__all__ = ["DONE_WITH_SKIPS", "interruptible", "notice", "print_json", "progress", "strict"]

DONE_WITH_SKIPS = 5


@contextmanager
def interruptible(record: Path | None = None, *, parts: str = "documents") -> Iterator[None]:
    """An interrupt ends in one sentence that says what it left behind: a whole record, what is finished, or nothing.

    Args:
        record: The folder of the record to come; None where none is written.
        parts: What an unfinished record can be read in; empty where it cannot be read before its end.
    """
    before = record is not None and record.exists()
    try:
        yield
    except KeyboardInterrupt:
        if before or record is None:
            words = "Interrupted; nothing was changed."
        elif record.exists():
            words = f"Interrupted; the record in {record} is whole. Draw it with `armillary report {record}`."
        elif (finished := record.with_name(f"{record.name}.partial")).exists():
            see = f", or `armillary report {finished}` to see the {parts} that are finished" if parts else ""
            words = f"Interrupted; what is finished is kept in {finished}. Run the same command again to go on{see}."
        else:
            words = "Interrupted; nothing was written."
        raise Interrupted(words) from None


@contextmanager
def progress(words: str, *, quiet: bool, counted: bool = True) -> Iterator[Any]:
    """A progress bar with remaining time on standard error; silent when that is no terminal.

    Args:
        words: What is being done.
        quiet: Whether nothing is shown.
        counted: Whether what is done is a count worth reading; else the words have it.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    count = (MofNCompleteColumn(),) if counted else ()
    columns = (TextColumn("{task.description}"), BarColumn(), *count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(words, total=None)
        yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total)


def notice(sentence: str) -> None:
    """One line on standard error that is no trouble."""
    typer.echo(f"armillary: {sentence}", err=True)


def print_json(content: dict[str, Any]) -> None:
    """One strict JSON object on standard output."""
    import json

    typer.echo(json.dumps(content, allow_nan=False))  # ASCII: the same bytes whatever the terminal's encoding


def strict(value: float) -> float | None:
    """A number as strict JSON knows it: None for NaN and infinities."""
    return float(value) if math.isfinite(value) else None
