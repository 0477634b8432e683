"""`armillary lab`: the laboratory from the command line, from its options to its closing words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.captured import Axes, StatesArray, StatesFile, captured
from armillary.cli.corpus import Corpus, DocumentsPath, IdColumn, Separator, TextColumn
from armillary.cli.options import LARGEST_SEED, Address, AsJson, BackendKind, Quiet, Workers, given
from armillary.cli.report import drawn
from armillary.cli.source import AllowPickle, Device, Dtype, Model, Revision, Source, Tokenizer, TrustRemoteCode
from armillary.cli.study import laboratory, require_interval
from armillary.errors import ArgumentError
from armillary.studies.presets import DEFAULT_PRESET, PRESETS, Preset

if TYPE_CHECKING:
    from armillary.records.record import Record
    from armillary.studies.laboratory import Laboratory

__all__ = ["lab"]


def _from_preset(choice: str) -> str:
    """The default of an option that a preset decides, in words."""
    return f"Default: {', '.join(f'{getattr(one, choice)} ({one.name})' for one in PRESETS.values())}."


def lab(
    context: typer.Context,
    model: Model = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    allow_pickle: AllowPickle = False,
    trust_remote_code: TrustRemoteCode = False,
    states: StatesFile = None,
    axes: Axes = None,
    states_array: StatesArray = None,
    documents: DocumentsPath = None,
    genre: Annotated[
        str | None,
        typer.Option(
            help="Without --documents: reference (topics of Python's own reference, the default) or docstrings (of its "
            "standard library). With them: what kind of text they are, in words."
        ),
    ] = None,
    separator: Separator = None,
    text_column: TextColumn = "text",
    id_column: IdColumn = None,
    cut: Annotated[
        str,
        typer.Option(
            help="truncate (each text to its first tokens), split (one piece of each text, drawn; split:1:7 with seed "
            "7) or pack:TOKEN (short texts joined with that token of the tokenizer)."
        ),
    ] = "truncate",
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            help="trained, initial-released-seed0, initial-0.02-seed1, ablated-mlp, ablated-attention-3-5, "
            "ablated-head-16-0; short forms with colons, such as initial:0.02:1, name the same. "
            "Repeat the option or separate by commas. The first one carries the statement. "
            f"Default: {', '.join(PRESETS[DEFAULT_PRESET].conditions)}, or those of the preset."
        ),
    ] = None,
    gauges: Annotated[
        list[str] | None,
        typer.Option(
            help="Re-parametrizations of the decoder that leave its function unchanged, for the statement: all, none, "
            "or names. Repeat the option or separate by commas. Default: all."
        ),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="For example 0,5,10-30. Default: all; 0 is the embedding.")] = None,
    max_documents: Annotated[
        int | None, typer.Option(min=1, help=f"The first N that are long enough. {_from_preset('documents')}")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=4, help=f"Tokens of every document: the same number for all. {_from_preset('tokens')}"),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents in one pass.")] = 8,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of the resampling and the statement's maps.")] = 0,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    out: Annotated[
        Path,
        typer.Option(help="New folder for the record. A run that was cut short goes on when it is asked for again."),
    ] = Path("records/lab"),
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the processor, for one pass; the last bits depend on it.")
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Such as 300MiB or 2GiB, beyond the loaded model: passes are made small enough to keep to it."
        ),
    ] = None,
    backend: BackendKind = "here",
    workers: Workers = 1,
    address: Address = None,
    preset: Annotated[
        str,
        typer.Option(
            help="What is measured where no other option says so: "
            f"{'; '.join(f'{one.name} ({one.purpose})' for one in PRESETS.values())}."
        ),
    ] = DEFAULT_PRESET,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what would run, how long its passes and how much memory it takes; write nothing."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a decoder in several conditions.

    Layer by layer, trained, initial and ablated, on identical documents; leaves a record and its page.
    """
    from armillary.records.record import Record
    from armillary.studies.backend import Backend

    place = Backend(backend, workers, address, None if quiet else terminal.notice)
    chosen = Preset.named(preset)
    source = Source(
        model=model, revision=revision, tokenizer=tokenizer, device=device, dtype=dtype, allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    require_interval(level=level, documents=max_documents or chosen.documents)
    if not dry_run:
        Record.require_new(out)
    for option, value in (("--axes", axes), ("--states-array", states_array)):
        if value is not None and states is None:
            raise ArgumentError(
                f"Argument `{option}` must come with --states, but it is {value!r} and no file of states is named. "
                "Leave it out, or name the file."
            )
    if states is not None:
        with terminal.interruptible(out):
            there = captured(
                states, axes=axes, array=states_array, layers=layers, max_documents=max_documents,
                max_tokens=max_tokens, batch_size=batch_size, seed=seed, level=level, given=given(context),
            )  # fmt: skip
            with terminal.progress("measuring", quiet=quiet) as progress:
                record = there.run(out, progress=progress)
            _told(record, as_json=as_json, quiet=quiet)
        return
    with terminal.interruptible(out):
        corpus = Corpus(documents, genre, separator, text_column, id_column, cut)
        study = laboratory(
            chosen, source=source, corpus=corpus, conditions=conditions, layers=layers,
            max_documents=max_documents, max_tokens=max_tokens, batch_size=batch_size, seed=seed, level=level,
            threads=threads, memory_limit=memory_limit, gauges=gauges,
        )  # fmt: skip
        if dry_run:
            _print_estimate(study, as_json=as_json)
            return
        with terminal.progress("measuring", quiet=quiet) as progress:
            record = study.run(out, backend=place, progress=progress, notice=None if quiet else terminal.notice)
        _told(record, as_json=as_json, quiet=quiet)


def _told(record: Record, *, as_json: bool, quiet: bool) -> None:
    """What is said of a new record, and its pictures; the exit code says whether documents were skipped."""
    if as_json:  # before anything is drawn: numbers do not wait for pictures
        terminal.print_json(_summary(record))
    page = drawn(record, quiet=quiet)
    if not quiet:
        _closing_words(record, page, as_json=as_json)
    if record.provenance["documents"]["skipped"]:
        raise typer.Exit(terminal.DONE_WITH_SKIPS)


def _summary(record: Record) -> dict[str, Any]:
    return {
        "model": record.provenance["decoder"],
        "token_hash": record.provenance["documents"]["token_hash"],
        "skipped": record.provenance["documents"]["skipped"],
        "measurements": record.rows(),
    }


def _closing_words(record: Record, page: Path, *, as_json: bool) -> None:
    from armillary.estimates import MINIMUM_MEMBERS
    from armillary.report.doubts import doubts

    documents = record.provenance["documents"]
    for one in documents["skipped"]:
        typer.echo(f"skipped {one['title']}: {one['reason']}", err=True)
    if as_json:
        return
    typer.echo(
        f"{record.provenance['decoder']['name']}: {len(documents['titles'])} documents, "
        f"token hash {(documents['token_hash'] or 'not known')[:12]}"
    )
    last = max(record.study["layers"])
    typer.echo(f"mean overlap after block {last}, rows normalized, first token left out:")
    for condition in record.study["conditions"]:
        estimate = record.estimate(
            "mean_overlap",
            condition=condition,
            layer=last,
            tap="block",
            tokens="without_first",
            preparation="normalize",
        )
        typer.echo(f"  {condition:24s} {str(estimate).partition(' (')[0]}")
    for doubt in doubts(record.provenance, record.dataset):
        typer.echo(f"  {doubt}")
    if len(documents["titles"]) < MINIMUM_MEMBERS:
        typer.echo(f"  fewer than {MINIMUM_MEMBERS} documents: intervals this small say little")
    if record.study["kind"] == "laboratory" and not record.provenance["calibration"]["titles"]:
        typer.echo(
            "  no documents were left to calibrate the corpus-mean and rogue-coordinate views, so these are absent"
        )
    typer.echo(f"record: {record.path}\nreport: {page}")


def _print_estimate(study: Laboratory, *, as_json: bool) -> None:
    content = study.cost()
    if as_json:
        terminal.print_json(content)
        return
    for name, value in content.items():
        words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        typer.echo(f"{name.replace('_', ' ').replace(' mib', ', MiB')}: {words}")
