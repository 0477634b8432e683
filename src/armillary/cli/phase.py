"""`armillary phase`: diagrams of the idealization from the command line, many independent systems over a grid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.options import LARGEST_SEED, Address, AsJson, BackendKind, Quiet, Workers
from armillary.cli.report import drawn
from armillary.errors import ArgumentError
from armillary.studies.diagram.registry import preset_names

if TYPE_CHECKING:
    from armillary.records.record import Record
    from armillary.studies.diagram.declaration import Preset
    from armillary.studies.diagram.run import Diagram

__all__ = ["phase"]

SHOWN = 12  # cells that a dry run prints by name


def phase(
    preset: Annotated[str | None, typer.Option(help=f"Which diagram: {', '.join(preset_names())}.")] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="A file (.toml, .yaml, .json) that describes a grid of moving tokens, in place of a preset."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A size for minutes instead of the published one.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Independent systems in each cell. Default: those of the size.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED // 2, help="The first of the seeds; also of the resampling.")
    ] = 0,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    backend: BackendKind = "here",
    workers: Workers = 1,
    address: Address = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="New folder for the record. A run that was cut short goes on when it is asked for again. "
            "Default: records/phase-PRESET."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and what they cost; measure and write nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw a diagram of the idealization.

    Many independent systems over a grid; leaves a record with its pictures.
    """
    from armillary.records.record import Record
    from armillary.studies.backend import Backend
    from armillary.studies.diagram.run import Diagram

    place = Backend(backend, workers, address, None if quiet else terminal.notice)
    chosen = _chosen(preset, study, quick=quick)
    grid, size = (chosen.quick, "quick") if quick else (chosen.full, "full")
    diagram = Diagram(
        preset=chosen, grid=grid if seeds is None else replace(grid, seeds=seeds),
        size=size if study is None else study.name, level=level, seed=seed,
    )  # fmt: skip
    if dry_run:
        _print_cells(diagram, workers=workers, as_json=as_json)
        return
    name = chosen.name if study is None else study.stem
    record_path = Record.require_new(Path(f"records/phase-{name}") if out is None else out)
    with terminal.interruptible(record_path, parts="cells"):
        with terminal.progress("measuring", quiet=quiet, counted=False) as told:
            record = diagram.run(record_path, backend=place, progress=told, notice=None if quiet else terminal.notice)
        if as_json:  # before anything is drawn: numbers do not wait for pictures
            terminal.print_json(_summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)


def _chosen(name: str | None, study: Path | None, *, quick: bool) -> Preset:
    """The preset that is named, or the one that a file describes."""
    from armillary.studies.diagram.registry import preset_named

    if study is None and name is None:
        raise ArgumentError(
            f"Argument `--preset` must name one of {', '.join(preset_names())}, but is missing. Write "
            f"`--preset {preset_names()[0]}`, or describe a grid of your own in a file and name it with --study."
        )
    if study is None:
        return preset_named(str(name))
    if name is not None or quick:
        given = "--preset" if name is not None else "--quick"
        raise ArgumentError(
            f"Argument `{given}` must be left out beside --study, whose file says everything, but is given. Leave one "
            "out."
        )
    from armillary.studies.diagram.study_file import study_from_file

    return study_from_file(study)


def _print_cells(study: Diagram, *, workers: int, as_json: bool) -> None:
    grid = study.grid
    words = [grid.words(place) for place in grid.cells]
    if as_json:
        terminal.print_json(
            {
                "preset": study.preset.name, "question": study.preset.question, "size": study.size, "cells": words,
                "systems_per_cell": grid.seeds, "core_seconds": round(study.seconds, 1),
                "differs": list(study.preset.differs),
            }
        )  # fmt: skip
        return
    typer.echo(f"{study.preset.name}: {study.preset.question}")
    for axis in grid.axes:
        typer.echo(f"  {axis.name}: {', '.join(str(value) for value in _short(axis.values))}")
    typer.echo(f"{len(words)} cells of {grid.seeds} independent systems:")
    for line in words if len(words) <= SHOWN else [*words[: SHOWN - 2], "...", words[-1]]:
        typer.echo(f"  {line}")
    spread = f", about {_time(study.seconds / workers)} with {workers} workers" if workers > 1 else ""
    typer.echo(f"about {_time(study.seconds)} of one processor core{spread}")
    for sentence in study.preset.differs:
        typer.echo(f"differs: {sentence}")


def _short(values: tuple[Any, ...]) -> list[Any]:
    rounded = [f"{value:.4g}" if isinstance(value, float) else value for value in values]
    return rounded if len(rounded) <= SHOWN else [*rounded[:3], "...", rounded[-1]]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _summary(record: Record) -> dict[str, Any]:
    return {
        "record": str(record.path),
        "study": record.study,
        "findings": record.provenance["findings"],
        "core_seconds": record.provenance["seconds"],
    }


def _closing_words(record: Record, page: Path) -> None:
    study, origin = record.study, record.provenance
    typer.echo(f"{study['preset']}: {study['question']}")
    for one in origin["findings"]:
        typer.echo(f"  {_finding(one)}")
    typer.echo(
        f"{study['cells']} cells of {study['seeds']} systems in {_time(origin['seconds'])} of one processor core\n"
        f"record: {record.path}\nreport: {page}"
    )


def _finding(one: dict[str, Any]) -> str:
    from armillary.estimates import Estimate

    if one["value"] is None:
        number = "undefined"
    elif one["low"] is None:
        number = f"{one['value']:.4g}"
    else:
        value, low, high = (float(one[name]) for name in ("value", "low", "high"))
        number = str(Estimate(value, low, high, one["level"], one["members"], "systems"))
    beside = "" if one["expected"] is None else f"; expected {one['expected']:.4g} ({one['source']})"
    return f"{one['words']}: {number}{beside}"
