"""`armillary train`: does a geometric start or a geometric term help? Small decoders on real texts, paired by seed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.corpus import Corpus, DocumentsPath, IdColumn, Separator, TextColumn
from armillary.cli.options import AsJson, Quiet
from armillary.cli.report import drawn

if TYPE_CHECKING:
    from armillary.records.record import Record
    from armillary.studies.training import TrainingStudy

__all__ = ["train"]


def train(
    preset: Annotated[
        str, typer.Option(help="quick (a toy, in minutes) or full (about an hour); options beside it win.")
    ] = "quick",
    recipes: Annotated[
        list[str] | None,
        typer.Option("--recipe", help="Recipe of initialization, the baseline first; may be repeated."),
    ] = None,
    terms: Annotated[
        list[str] | None, typer.Option("--term", help="PENALTY@STRENGTH beside the loss; may be repeated.")
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list-recipes", help="Print the recipes and stop.")] = False,
    list_terms: Annotated[bool, typer.Option("--list-terms", help="Print the penalties and stop.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Paired seeds.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of every run.")] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Steps between two measurements.")] = None,
    architecture: Annotated[str | None, typer.Option(help="gpt2 or llama.")] = None,
    width: Annotated[int | None, typer.Option(min=4, help="Coordinates of the stream.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1, help="Number of blocks.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=8, help="Bytes of a document.")] = None,
    rates: Annotated[
        list[float] | None, typer.Option("--rate", help="Learning rate of the sweep; may be repeated.")
    ] = None,
    documents: DocumentsPath = None,
    separator: Separator = None,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    held_out: Annotated[int | None, typer.Option(min=1, help="Documents held out whole, to measure on.")] = None,
    when_not_finite: Annotated[
        str, typer.Option(help="A step whose loss or gradient is not finite: skip (counted) or stop.")
    ] = "skip",
    checkpoints: Annotated[
        str, typer.Option(help="Of which seeds checkpoints are kept: first, all or none.")
    ] = "first",
    workers: Annotated[int | None, typer.Option(min=1, help="Runs side by side, one thread each.")] = None,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/training"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained and stop.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train small decoders under recipes of initialization and terms beside the loss.

    Held-out loss and geometry through depth and steps, paired by seed, each at its own best learning rate.
    """
    from armillary.records.record import Record
    from armillary.training.penalty_texts import accepted_penalties
    from armillary.training.recipes import accepted_recipes

    if list_recipes or list_terms:
        typer.echo("\n".join((accepted_recipes() if list_recipes else accepted_penalties()).split(", ")))
        return
    if not dry_run:
        Record.require_new(out)
    texts = Corpus(documents, None, separator, text_column, id_column, "truncate")
    shape = {
        "architecture": architecture,
        "width": width,
        "blocks": blocks,
        "heads": heads,
        "tokens": max_tokens,
        "steps": steps,
        "every": every,
        "when_not_finite": when_not_finite,
    }
    study = _study(
        preset, {name: value for name, value in shape.items() if value is not None}, recipes, terms, seeds=seeds,
        rates=rates, texts=texts, held_out=held_out, checkpoints=checkpoints, workers=workers or os.cpu_count() or 1,
    )  # fmt: skip
    if dry_run:
        typer.echo(_plan(study))
        return
    with terminal.interruptible(out, parts=""):  # runs are compared, so that some alone say nothing
        with terminal.progress("training", quiet=quiet) as told:
            record = study.run(out, told=told)
        if as_json:
            terminal.print_json(summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)


def _study(
    preset: str, changed: dict[str, Any], recipes: list[str] | None, terms: list[str] | None, *, seeds: int | None,
    rates: list[float] | None, texts: Corpus, held_out: int | None, checkpoints: Any, workers: int,
) -> TrainingStudy:  # fmt: skip
    from armillary.studies.training import TrainingStudy
    from armillary.studies.training_presets import training_preset
    from armillary.training.corpus import Corpus as Held
    from armillary.training.loop import require_when_not_finite
    from armillary.training.penalty_texts import parse_term
    from armillary.training.recipes import parse_recipe
    from armillary.training.run import Shape, Term

    named = training_preset(preset)
    shape = Shape(**(dict(named.shape) | changed))
    require_when_not_finite(shape.when_not_finite)
    chosen = [Term(), *(Term(*parse_term(text)) for text in (terms or named.terms))]
    return TrainingStudy(
        shape=shape, recipes=[parse_recipe(text) for text in (recipes or named.recipes)], terms=chosen,
        seeds=seeds or named.seeds, rates=tuple(rates or named.rates), sweep_seeds=named.sweep_seeds,
        corpus=Held.of(texts.source(), tokens=shape.tokens, held_out=held_out or named.held_out), workers=workers,
        checkpoints=checkpoints,
    )  # fmt: skip


def _plan(study: TrainingStudy) -> str:
    shape = study.shape
    return (
        f"{study.runs} runs of {shape.steps} steps: recipes {', '.join(map(str, study.recipes))}; terms "
        f"{', '.join(map(str, study.terms))}; {study.seeds} paired seeds at the best of the learning rates "
        f"{', '.join(f'{rate:g}' for rate in study.rates)}; {shape.architecture} of {shape.blocks} blocks, width "
        f"{shape.width}, {shape.documents} documents of {shape.tokens} bytes a step; {study.workers} side by side"
    )


def summary(record: Record) -> dict[str, Any]:
    """The study, what every cell ended with, and paired differences from the baseline, ready for strict JSON.

    Args:
        record: of a training.
    """
    from armillary.figures.registry import reading_of
    from armillary.figures.trained import cells, differences

    reading = reading_of(record)
    return {
        "study": record.study,
        "cells": [
            {
                "recipe": recipe,
                "term": term,
                **{k: [terminal.strict(v) for v in values] for k, values in numbers.items()},
            }
            for recipe, term, numbers in cells(reading)
        ],
        "minus_baseline": [
            {
                "recipe": recipe,
                "term": term,
                "value": terminal.strict(ends[0]),
                "low": terminal.strict(ends[1]),
                "high": terminal.strict(ends[2]),
            }
            for recipe, term, ends in differences(reading)
        ],
    }


def _closing_words(record: Record, page: Path) -> None:
    from armillary.estimates import Estimate
    from armillary.figures.registry import reading_of
    from armillary.figures.trained import cells, differences, given_up

    reading = reading_of(record)
    for recipe, term, numbers in cells(reading):
        told = ", ".join(f"{name.replace('_', ' ')} {_mean(values)}" for name, values in numbers.items())
        typer.echo(f"{recipe}, {term}\n  {told}")
    for recipe, term, ends in differences(reading):
        members = int(record.study["seeds"])
        typer.echo(f"final loss of {recipe}, {term} minus baseline: {Estimate(*ends, reading.level, members, 'seeds')}")
    for sentence in given_up(reading):
        typer.echo(sentence)
    typer.echo(f"record: {record.path}\nreport: {page}")


def _mean(values: list[float]) -> str:
    known = [value for value in values if value == value]
    missing = f" ({len(values) - len(known)} of {len(values)} never)" if len(known) < len(values) else ""
    return (f"{sum(known) / len(known):.4g}" if known else "none") + (missing if known else "")
