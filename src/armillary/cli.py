"""The command line: each command gathers choices, runs one study or reads one record, and ends with a documented code.

Exit codes: 0 done, 1 a check missed, 2 bad input, 3 unsupported model, 4 numerical failure, 5 done with documents
skipped, 130 interrupted. Heavy imports happen inside the commands, so that `armillary --help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.errors import ArgumentError, ArmillaryError

if TYPE_CHECKING:
    from armillary.models.decoder import Decoder
    from armillary.models.documents import Documents
    from armillary.record import Record
    from armillary.studies.laboratory import Laboratory

__all__ = ["app", "main"]

DONE_WITH_SKIPS = 5
INTERRUPTED = 130
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
    no_args_is_help=True,
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
    batch_size: Annotated[int, typer.Option(min=1, help="Documents in one pass.")] = 4,
    device: Device = "auto",
    dtype: Dtype = "float32",
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling and the statement's maps.")] = 0,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/lab"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, how long and how large; run nothing.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure a decoder layer by layer, trained, initial and ablated, on identical documents; write a record."""
    from armillary.record import Record

    if not dry_run:
        Record.require_new(out)
    study = _laboratory(
        model=model, documents=documents, conditions=conditions, layers=layers, max_documents=max_documents,
        max_tokens=max_tokens, batch_size=batch_size, device=device, dtype=dtype, seed=seed, level=level,
    )  # fmt: skip
    if dry_run:
        _print_estimate(study, as_json=as_json)
        return
    with _progress(quiet=quiet or as_json) as progress:
        record = study.run(out, progress=progress)
    page = _pictures(record)
    if as_json:
        _print_json(_summary(record))
    elif not quiet:
        _closing_words(record, page)
    if study.documents.skipped:
        raise typer.Exit(DONE_WITH_SKIPS)


@app.command()
def check(model: Model = None, device: Device = "auto", dtype: Dtype = "float32", as_json: AsJson = False) -> None:
    """Print what a decoder promises and whether it keeps it; exit code 1 if it misses one."""
    from dataclasses import asdict

    from armillary.models.decoder import load_decoder, prove

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

    page = _pictures(Record.open(record))
    if not quiet:
        typer.echo(str(page))


def main() -> None:
    """Run the command line; every trouble that armillary explains ends in one sentence and its exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(prog_name="armillary", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("Interrupted; nothing was written.", err=True)
        sys.exit(INTERRUPTED)
    except typer.exceptions.TyperException as error:  # a wrong option: the parser's own sentence
        typer.echo(f"armillary: {error}", err=True)
        sys.exit(error.exit_code)
    except ArmillaryError as error:
        typer.echo(f"armillary: {error}", err=True)
        sys.exit(error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _laboratory(
    *, model: str | None, documents: Path | None, conditions: list[str] | None, layers: str | None, max_documents: int,
    max_tokens: int, batch_size: int, device: str, dtype: str, seed: int, level: float,
) -> Laboratory:  # fmt: skip
    from armillary.models.conditions import parse_condition
    from armillary.models.decoder import load_decoder
    from armillary.studies.laboratory import Laboratory

    chosen = [one.strip() for text in conditions or LAB_CONDITIONS for one in text.split(",")]
    parsed = [parse_condition(one) for one in chosen]
    which = _layers(layers)
    decoder = load_decoder(model, device=device, dtype=dtype)
    evaluation = _documents(decoder, documents, limit=max_documents, tokens=max_tokens, offset=0)
    if conditions is None and decoder.facts.released_spread is None:
        parsed = [one for one in parsed if not one.name.startswith("initial-released")]
    return Laboratory(
        decoder, evaluation, parsed, layers=which, calibration=_calibration(decoder, documents, evaluation),
        level=level, seed=seed, batch_size=batch_size,
    )  # fmt: skip


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
    """The next documents of the same source, if any are left; the views that need them are left out otherwise."""
    try:
        return _documents(
            decoder, folder, limit=CALIBRATION_DOCUMENTS, tokens=evaluation.tokens, offset=len(evaluation)
        )
    except ArgumentError:
        return None


def _layers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ArgumentError(f"Argument `--layers` must look like 0,5,10-30, but it is {text!r}. Use whole numbers.")
        found += range(int(first), int(last or first) + 1)
    return found


def _progress(*, quiet: bool) -> Any:
    """A progress bar with remaining time on standard error; silent when that is no terminal."""
    from contextlib import contextmanager

    @contextmanager
    def bar() -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if quiet or not console.is_terminal:
            yield None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as shown:
            task = shown.add_task("loading", total=None)
            yield lambda words, done, total: shown.update(task, description=words, completed=done, total=total)

    return bar()


def _pictures(record: Record) -> Path:
    from armillary.figures import write_figures
    from armillary.report import write_report

    write_figures(record, record.path / "figures")
    return write_report(record, record.path / "report.html")


def _summary(record: Record) -> dict[str, Any]:
    return {
        "model": record.provenance["decoder"],
        "token_hash": record.provenance["documents"]["hash"],
        "measurements": record.rows(),
    }


def _print_json(content: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(content, allow_nan=False, ensure_ascii=False))


def _closing_words(record: Record, page: Path) -> None:
    documents = record.provenance["documents"]
    typer.echo(
        f"{record.provenance['decoder']['name']}: {len(documents['titles'])} documents, "
        f"token hash {documents['hash'][:12]}"
    )
    last = max(record.study["layers"])
    for condition in record.study["conditions"]:
        estimate = record.estimate(
            "mean_overlap", condition=condition, layer=last, tokens="without_first", preparation="normalize"
        )
        typer.echo(f"  mean overlap after block {last}, {condition}: {estimate}")
    for one in documents["skipped"]:
        typer.echo(f"  skipped {one['title']}: {one['reason']}", err=True)
    typer.echo(f"record: {record.path}\nreport: {page}")


def _print_estimate(study: Laboratory, *, as_json: bool) -> None:
    content = study.cost()
    if as_json:
        _print_json(content)
        return
    for name, value in content.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")
