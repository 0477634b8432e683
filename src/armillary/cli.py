"""The command line: each command gathers choices, runs one study or reads one record, and ends with a documented code.

Exit codes: 0 done, 1 a check missed, 2 bad input, 3 unsupported model, 4 numerical failure, 5 done with documents
skipped, 130 interrupted. Heavy imports happen inside the commands, so that `armillary --help` answers at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.errors import ArgumentError, ArmillaryError, NothingLeft, UnsoundError
from armillary.refusals import is_out_of_memory, parser_words, refuse, with_options

if TYPE_CHECKING:
    from armillary.models.conditions import Condition
    from armillary.models.decoder import Decoder
    from armillary.models.documents import Documents
    from armillary.record import Record
    from armillary.studies.laboratory import Laboratory

__all__ = ["app", "main"]

DONE_WITH_SKIPS = 5
INTERRUPTED = 130
LARGEST_SEED = 2**63 - 1
CALIBRATION_DOCUMENTS = 8
LAB_CONDITIONS = (
    "trained",
    "initial:released:0",
    "initial:library:0",
    "ablated:mlp",
    "ablated:attention",
    "ablated:positions",
)
app = typer.Typer(
    name="armillary",
    help="The geometry of transformers as interacting particles on a sphere: calculate first, then measure.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str | None, typer.Option(help="Folder, GGUF file or hub id. Default: the embedded SmolLM2-135M-Instruct (4-bit).")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Dtype = Annotated[str, typer.Option(help="Type of weights and states: float32, bfloat16, float16 or float64.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="One strict JSON object on standard output and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no closing words.")]


@app.command()
def lab(
    model: Model = None,
    documents: Annotated[
        Path | None, typer.Option(help="Folder of text files. Default: the topics of Python's own reference.")
    ] = None,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            help="trained, initial:released:0, initial:0.02:1, ablated:mlp, ablated:attention:3-5, ablated:head:16:0; "
            "repeat the option or separate by commas. The first one carries the statement. "
            f"Default: {', '.join(LAB_CONDITIONS)}."
        ),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="For example 0,5,10-30. Default: all; 0 is the embedding.")] = None,
    max_documents: Annotated[int, typer.Option(min=1, help="The first N that are long enough.")] = 32,
    max_tokens: Annotated[int, typer.Option(min=4, help="Tokens of every document: the same number for all.")] = 256,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents in one pass.")] = 8,
    device: Device = "auto",
    dtype: Dtype = "float32",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of the resampling and the statement's maps.")] = 0,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/lab"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and about how long its passes take; write nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a decoder layer by layer, trained, initial and ablated, on identical documents; write a record."""
    from armillary.record import Record

    _require_interval(level=level, documents=max_documents)
    if not dry_run:
        Record.require_new(out)
    with _interruptible(out):
        study = _laboratory(
            model=model, documents=documents, conditions=conditions, layers=layers, max_documents=max_documents,
            max_tokens=max_tokens, batch_size=batch_size, device=device, dtype=dtype, seed=seed, level=level,
        )  # fmt: skip
        if dry_run:
            _print_estimate(study, as_json=as_json)
            return
        with _progress("measuring", quiet=quiet) as progress:
            record = study.run(out, progress=progress)
        if as_json:  # before anything is drawn: numbers do not wait for pictures
            _print_json(_summary(record))
        page = _pictures(record, quiet=quiet)
        if not quiet:
            _closing_words(record, page, as_json=as_json)
        if study.documents.skipped:
            raise typer.Exit(DONE_WITH_SKIPS)


@app.command()
def check(model: Model = None, device: Device = "auto", dtype: Dtype = "float32", as_json: AsJson = False) -> None:
    """Print what a decoder promises and whether it keeps it; exit code 1 if it misses one."""
    from dataclasses import asdict

    from armillary.models.decoder import load_decoder, prove

    with _interruptible():
        decoder = load_decoder(model, device=device, dtype=dtype, prove=False)
        promises = prove(decoder)
    if as_json:
        _print_json({"model": asdict(decoder.facts), "promises": [asdict(one) for one in promises]})
    else:
        typer.echo(f"{decoder.facts.name} ({decoder.facts.architecture}, {decoder.facts.layers} blocks)")
        for one in promises:
            typer.echo(f"{'kept  ' if one.passed else 'MISSED'}  {one.name}: expected {one.expected}, got {one.got}")
    if not all(one.passed for one in promises):
        raise typer.Exit(1)


@app.command()
def report(
    record: Annotated[Path, typer.Argument(help="Folder of a record.")],
    quiet: Quiet = False,
) -> None:
    """Draw the page and the figures of a record again, without the model."""
    from armillary.record import Record

    with _interruptible(record):
        page = _pictures(Record.open(record), quiet=quiet)
    if not quiet:
        typer.echo(str(page))


def main() -> None:
    """Run the command line; every trouble that armillary explains ends in one sentence and its exit code."""
    # Threads that wait by spinning take the cores from those that work; libgomp reads this when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    arguments = sys.argv[1:] or ["--help"]
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="armillary", standalone_mode=False)
    except ArmillaryError as error:
        code = refuse(with_options(str(error), arguments), error.exit_code)
    except typer.exceptions.TyperException as error:  # a wrong option: the parser's own sentence
        code = refuse(parser_words(error.format_message(), arguments), error.exit_code)
    except OSError as error:  # a full disk, a folder that was taken away: nothing of armillary's own
        where = f"{error.filename} " if error.filename else ""
        code = refuse(f"{where}cannot be used ({error.strerror or error}). Check the disk, or name another place.", 2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        code = refuse("The memory of this machine does not suffice. Lower --batch-size or --max-tokens.", 2)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _interruptible(record: Path | None = None) -> Iterator[None]:
    """An interrupt ends in one sentence that says what it left behind: a record is there as a whole, or not at all."""
    before = record is not None and record.exists()
    try:
        yield
    except KeyboardInterrupt:
        if before or record is None:
            words = "Interrupted; nothing was changed."
        elif record.exists():
            words = f"Interrupted; the record in {record} is whole. Draw it with `armillary report {record}`."
        else:
            words = "Interrupted; nothing was written."
        raise typer.Exit(refuse(words, INTERRUPTED)) from None


def _require_interval(*, level: float, documents: int) -> None:
    """Refuse, before a model is loaded, what no interval can be given for."""
    if not 0 < level < 1:
        remedy = f"Write {level / 100:g}." if 50 <= level < 100 else "Write 0.95, for instance."
        raise ArgumentError(f"Argument `--level` must lie between 0 and 1, but it is {level:g}. {remedy}")
    if documents < 2:
        raise UnsoundError(
            "Argument `--max-documents` must be at least 2, but it is 1: tokens of one document are dependent, so one "
            "document gives no interval. Ask for more."
        )


def _laboratory(
    *, model: str | None, documents: Path | None, conditions: list[str] | None, layers: str | None, max_documents: int,
    max_tokens: int, batch_size: int, device: str, dtype: str, seed: int, level: float,
) -> Laboratory:  # fmt: skip
    from armillary.models.decoder import load_decoder
    from armillary.studies.laboratory import Laboratory

    asked, ranges = _conditions(conditions), _layers(layers)
    decoder = load_decoder(model, device=device, dtype=dtype)
    if decoder.tokenizer is None:
        raise ArgumentError(
            f"Argument `--model` must hold a tokenizer that cuts the documents, but {decoder.facts.name} holds none. "
            "Put its tokenizer.json beside the weights."
        )
    if conditions is None and decoder.facts.released_spread is None:
        asked = {text: one for text, one in asked.items() if not one.name.startswith("initial-released")}
    for text, condition in asked.items():
        _require_fit(text, condition, decoder)
    chosen = _within(ranges, decoder.facts.layers, layers)
    evaluation = _documents(decoder, documents, limit=max_documents, tokens=max_tokens, offset=0)
    _require_two(evaluation)
    return Laboratory(
        decoder, evaluation, list(asked.values()), layers=chosen,
        calibration=_calibration(decoder, documents, evaluation), level=level, seed=seed, batch_size=batch_size,
    )  # fmt: skip


def _conditions(texts: list[str] | None) -> dict[str, Condition]:
    """The conditions asked for, by what was written; each once."""
    from armillary.models.conditions import parse_condition

    found: dict[str, Condition] = {}
    for text in (one.strip() for given in texts or LAB_CONDITIONS for one in given.split(",")):
        condition = parse_condition(text)
        if condition in found.values():
            raise ArgumentError(
                f"Argument `--conditions` must name each condition once, but {condition.name} comes twice. Leave one "
                "out."
            )
        found[text] = condition
    return found


def _require_fit(text: str, condition: Condition, decoder: Decoder) -> None:
    try:
        condition.check_fits(decoder)
    except ArgumentError as error:
        raise type(error)(f"Argument `--conditions` must fit the decoder, but {text!r} does not: {error}") from error


def _require_two(documents: Documents) -> None:
    if len(documents) < 2:
        others = "".join(f"; {one.title!r} was skipped: {one.reason}" for one in documents.skipped[:1])
        raise UnsoundError(
            f"Argument `--documents` must hold at least two documents of {documents.tokens} tokens, but it holds one, "
            f"{documents.titles[0]!r}{others}. Tokens of one document are dependent, so one document gives no "
            "interval. Add documents."
        )


def _documents(decoder: Decoder, folder: Path | None, *, limit: int, tokens: int, offset: int) -> Documents:
    from armillary.models.documents import Documents

    if tokens > decoder.facts.context:
        raise ArgumentError(
            f"Argument `--max-tokens` must be at most {decoder.facts.context}, the context of this decoder, but it is "
            f"{tokens}. Ask for fewer."
        )
    if folder is None:
        return Documents.from_topics(decoder.tokenizer, limit=limit, tokens=tokens, offset=offset)
    return Documents.from_folder(folder, decoder.tokenizer, limit=limit, tokens=tokens, offset=offset)


def _calibration(decoder: Decoder, folder: Path | None, evaluation: Documents) -> Documents | None:
    """The next documents of the same source; with fewer than two left, the views that need them are left out."""
    try:
        found = _documents(
            decoder, folder, limit=CALIBRATION_DOCUMENTS, tokens=evaluation.tokens, offset=len(evaluation)
        )
    except NothingLeft:
        return None
    return found if len(found) > 1 else None


def _layers(text: str | None) -> list[range] | None:
    """The ranges that a text such as 0,5,10-30 names, both ends included."""
    found: list[range] = []
    for part in (text or "").split(",") if text is not None else ():
        match = re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ArgumentError(f"Argument `--layers` must look like 0,5,10-30, but it is {text!r}. Use whole numbers.")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found or None


def _within(ranges: list[range] | None, last: int, text: str | None) -> list[int] | None:
    if ranges is None:
        return None
    if max(one.stop for one in ranges) > last + 1:
        raise ArgumentError(
            f"Argument `--layers` must lie within 0 (embedding) and {last}, the blocks of this decoder, but it is "
            f"{text!r}. Layer l is the stream after block l."
        )
    return sorted({layer for one in ranges for layer in one})


@contextmanager
def _progress(words: str, *, quiet: bool) -> Iterator[Any]:
    """A progress bar with remaining time on standard error; silent when that is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        task = shown.add_task(words, total=None)
        yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total)


def _pictures(record: Record, *, quiet: bool) -> Path:
    """Draw figures and page; all are drawn before the first takes its place in the record's folder."""
    import tempfile

    figures = record.path / "figures"
    try:
        from armillary.figures import write_figures
        from armillary.report import write_report

        with (
            _progress("drawing", quiet=quiet),
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


def _summary(record: Record) -> dict[str, Any]:
    return {
        "model": record.provenance["decoder"],
        "token_hash": record.provenance["documents"]["token_hash"],
        "skipped": record.provenance["documents"]["skipped"],
        "measurements": record.rows(),
    }


def _print_json(content: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(content, allow_nan=False))  # ASCII: the same bytes whatever the terminal's encoding


def _closing_words(record: Record, page: Path, *, as_json: bool) -> None:
    from armillary.estimates import MINIMUM_MEMBERS

    documents = record.provenance["documents"]
    for one in documents["skipped"]:
        typer.echo(f"skipped {one['title']}: {one['reason']}", err=True)
    if as_json:
        return
    typer.echo(
        f"{record.provenance['decoder']['name']}: {len(documents['titles'])} documents, "
        f"token hash {documents['token_hash'][:12]}"
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
    if len(documents["titles"]) < MINIMUM_MEMBERS:
        typer.echo(f"  fewer than {MINIMUM_MEMBERS} documents: intervals this small say little")
    if not record.provenance["calibration"]["titles"]:
        typer.echo(
            "  no documents were left to calibrate the corpus-mean and rogue-coordinate views, so these are absent"
        )
    typer.echo(f"record: {record.path}\nreport: {page}")


def _print_estimate(study: Laboratory, *, as_json: bool) -> None:
    content = study.cost()
    if as_json:
        _print_json(content)
        return
    for name, value in content.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")
