"""`armillary resist`: the ladder from identity matrices to a decoder, climbed from the command line."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.corpus import Corpus
from armillary.cli.options import LARGEST_SEED, Address, AsJson, BackendKind, Quiet, Workers, given
from armillary.cli.report import drawn
from armillary.cli.source import AllowPickle, Device, Dtype, Model, Revision, Source, Tokenizer, TrustRemoteCode
from armillary.cli.study import layer_ranges, require_interval
from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from armillary.models.anatomy import Decoder
    from armillary.records.record import Record
    from armillary.studies.resistance.study import Resistance

__all__ = ["resist"]

PARTS = {
    "ladder": "the decoder and its rungs",
    "dimension": "the idealization over dimension and number of tokens, without a decoder",
    "scale": "fresh decoders over width, depth and heads",
}
"""What can be asked, and in words."""

PRESETS = {"dimension": "dimension", "scale": "fresh-decoders"}
"""Parts that are diagrams of the idealization, and of `armillary phase`."""

RUNGS = "idealized, attention, mlp, equal, decoder, or names of rungs (--dry-run lists them); separated by commas."


RUNG_FAILED = 3
"""Exit code where a rung could not be climbed and the others were."""

_OF_DIAGRAMS = ("part", "full", "seed", "level", "out", "dry_run", "as_json", "quiet")
"""What says something of a part without a decoder; every other option would be ignored, and is refused instead."""


def resist(
    context: typer.Context,
    model: Model = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    allow_pickle: AllowPickle = False,
    trust_remote_code: TrustRemoteCode = False,
    documents: Annotated[
        Path | None,
        typer.Option(help="Folder of text files, one text file, or a table. Default: texts that Python carries."),
    ] = None,
    genre: Annotated[
        str | None,
        typer.Option(help="Without --documents: reference (the default) or docstrings. With them: in words."),
    ] = None,
    max_documents: Annotated[int, typer.Option(min=1, help="How many documents.")] = 32,
    max_tokens: Annotated[int, typer.Option(min=4, help="Tokens of each document.")] = 256,
    rungs: Annotated[list[str] | None, typer.Option(help=f"Which rungs: {RUNGS} Default: all that apply.")] = None,
    spread: Annotated[
        float | None,
        typer.Option(help="Of fresh weights by the released recipe, such as 0.0417, where the model does not say it."),
    ] = None,
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of checkpoints that train left: first and last of each run are rungs."),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Measured layers, such as 0,5,10-30. Default: all.")] = None,
    part: Annotated[str, typer.Option(help=f"{', '.join(PARTS)}: {'; '.join(PARTS.values())}.")] = "ladder",
    full: Annotated[bool, typer.Option("--full", help="With --part dimension or scale: the larger grid.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED // 2, help="Of resampling and of drawn matrices.")] = 0,
    level: Annotated[float, typer.Option(help="Coverage of the intervals, between 0 and 1.")] = 0.95,
    chunk: Annotated[int, typer.Option(min=1, help="Documents in one pass: what a stopped run loses at most.")] = 4,
    threads: Annotated[int, typer.Option(min=1, help="Of the processor, for each pass; last bits depend on it.")] = 1,
    backend: BackendKind = "here",
    workers: Workers = 1,
    address: Address = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be measured, in what time; no record.")
    ] = False,
    out: Annotated[Path, typer.Option(help="New folder for the record.")] = Path("records/resistance"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask whether training resists clustering.

    Identity, random and trained matrices, with and without MLP, norm, mask and positions, and the decoder itself, all
    on the same documents; and by how much each sublayer changes the alignment of tokens. A stopped run goes on when
    the same command is given again.
    """
    from armillary.records.record import Record

    if part not in PARTS:
        raise ArgumentError(f"Argument `--part` must be one of {', '.join(PARTS)}, but is {part!r}. Name one of them.")
    if full and part == "ladder":
        raise ArgumentError(
            "Argument `--full` must go with --part dimension or scale, but the part is ladder. Ask for more documents "
            "with --max-documents instead."
        )
    require_interval(level=level, documents=max_documents)
    ranges = layer_ranges(layers)
    if not dry_run:
        Record.require_new(out)
    if part != "ladder":
        _refuse_what_needs_a_decoder(context, part)
        from armillary.cli.phase import phase

        phase(
            preset=PRESETS[part], quick=not full, seeds=None, seed=seed, level=level, backend="here", workers=1,
            address=None, out=out, dry_run=dry_run, as_json=as_json, quiet=quiet,
        )  # fmt: skip
        return
    from armillary.studies.backend import Backend

    place = Backend(backend, workers, address, None if quiet else terminal.notice)
    source = Source(
        model=model, revision=revision, tokenizer=tokenizer, device=device, dtype=dtype, allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    corpus = Corpus(documents, genre, None, "text", None, "truncate")
    with terminal.interruptible(out):
        study = _study(
            source, corpus, max_documents=max_documents, max_tokens=max_tokens, rungs=rungs,
            checkpoints=checkpoints or [], spread=spread,
            layers=None if ranges is None else sorted({layer for one in ranges for layer in one}), seed=seed,
            level=level, chunk=chunk, threads=threads,
        )  # fmt: skip
        if dry_run:
            _print_estimate(study, as_json=as_json)
            return
        with terminal.progress("climbing", quiet=quiet) as told:
            record = study.run(out, backend=place, progress=told, notice=None if quiet else terminal.notice)
        if as_json:  # before anything is drawn: numbers do not wait for pictures
            terminal.print_json(_summary(record))
        page = drawn(record, quiet=quiet)
    if not quiet and not as_json:
        _closing_words(record, page)
    if any("failed" in one for one in record.provenance["conditions"]):
        raise typer.Exit(RUNG_FAILED)
    if record.provenance["documents"]["skipped"]:
        raise typer.Exit(terminal.DONE_WITH_SKIPS)


def _refuse_what_needs_a_decoder(context: typer.Context, part: str) -> None:
    if others := [name for name in given(context) if name not in _OF_DIAGRAMS]:
        raise ArgumentError(
            f"Argument `--{others[0].replace('_', '-')}` must be left out with --part {part}, but was given: that part "
            "takes no decoder, documents or rungs. Leave it out, or ask for --part ladder."
        )


def _study(
    source: Source, corpus: Corpus, *, max_documents: int, max_tokens: int, rungs: list[str] | None,
    checkpoints: list[Path], spread: float | None, layers: list[int] | None, seed: int, level: float, chunk: int,
    threads: int,
) -> Resistance:  # fmt: skip
    from armillary.studies.resistance.checkpoints import checkpoint_rungs
    from armillary.studies.resistance.study import Resistance

    further = checkpoint_rungs(checkpoints)
    decoder = source.load()
    if spread is not None:
        decoder = _with_spread(decoder, spread)
    if decoder.tokenizer is None:
        raise ArgumentError(
            f"Argument `--model` must hold a tokenizer that cuts the documents, but {decoder.facts.name} holds none. "
            "Put its tokenizer.json beside the weights, or name one with `--tokenizer`."
        )
    evaluation = corpus.evaluation(decoder, limit=max_documents, tokens=max_tokens)
    calibration = corpus.calibration(decoder, evaluation)
    if calibration is None:
        raise ArgumentError(
            "Argument `--documents` must leave at least two documents beyond those that are measured, which name rogue "
            f"coordinates and the pace of the decoder, but after {len(evaluation)} there are none. Lower "
            "--max-documents, or add documents."
        )
    named = None if rungs is None else [one.strip() for text in rungs for one in text.split(",")]
    return Resistance(
        decoder,
        evaluation,
        calibration,
        rungs=named,
        further=further,
        layers=layers,
        level=level,
        seed=seed,
        chunk=chunk,
        threads=threads,
    )


def _with_spread(decoder: Decoder, spread: float) -> Decoder:
    """The decoder with the spread of its released recipe, which it does not know itself."""
    known = decoder.facts.released_spread
    if known is not None:
        raise ArgumentError(
            f"Argument `spread` must be left out where the model says its own, but {decoder.facts.name} says "
            f"{known:g}. Leave it out."
        )
    if not 0 < spread < math.inf:
        raise ArgumentError(
            f"Argument `spread` must be a positive number, but is {spread:g}. Give the initializer_range of the "
            "released configuration, 0.0417 for instance."
        )
    return dataclasses.replace(decoder, facts=dataclasses.replace(decoder.facts, released_spread=spread))


def _print_estimate(study: Resistance, *, as_json: bool) -> None:
    content = study.cost()
    if as_json:
        terminal.print_json(content)
        return
    for name, value in content.items():
        if isinstance(value, dict):
            typer.echo(f"{name.replace('_', ' ')}:" + ("" if value else " none"))
            for key, words in value.items():
                typer.echo(f"  {key}: {words}")
        else:
            typer.echo(f"{name.replace('_', ' ').replace(' mib', ', MiB')}: {value}")


def _summary(record: Record) -> dict[str, Any]:
    from armillary.studies.resistance.verdict import failed_rungs, verdict

    def strict(value: float) -> float | None:
        return value if value == value and abs(value) != float("inf") else None

    found = []
    for one in verdict(record):
        number = one.estimate
        found.append(
            {
                "name": one.name, "question": one.question, "answer": one.answer, "shows": one.shows,
                "not_shown": one.not_shown,
                "estimate": None if number is None else {
                    "value": strict(number.value), "low": strict(number.low), "high": strict(number.high),
                    "level": number.level, "members": number.members, "unit": number.unit,
                },
            }
        )  # fmt: skip
    return {
        "model": record.provenance["decoder"],
        "token_hash": record.provenance["documents"]["token_hash"],
        "reproduction": record.provenance["reproduction"],
        "left_out": record.study["left_out"],
        "failed": failed_rungs(record),
        "steps": _steps(record),
        "verdict": found,
        "measurements_hash": record.measurements_hash,
        "measurements": record.rows(),
    }


def _steps(record: Record) -> dict[str, dict[str, list[list[float | None]]]]:
    """For each rung that follows the decoder's pace: length, wanted and realized angle, attention's and the MLPs'."""
    from armillary.terms import CALIBRATED

    data = record.dataset
    found: dict[str, dict[str, list[list[float | None]]]] = {}
    for name in data["condition"].values if CALIBRATED[0] in data else ():
        here = data[list(CALIBRATED)].sel(condition=name, tap=["mid", "block"]).isel(document=0)
        tables = {one: here[one].transpose("tap", "layer").values for one in CALIBRATED}
        if any((values == values).any() for values in tables.values()):
            found[str(name)] = {
                one: [[x if x == x else None for x in row] for row in values.tolist()] for one, values in tables.items()
            }
    return found


def _closing_words(record: Record, page: Path) -> None:
    from armillary.studies.resistance.verdict import failed_rungs, verdict

    documents, proof = record.provenance["documents"], record.provenance["reproduction"]
    typer.echo(
        f"{record.provenance['decoder']['name']}: {len(documents['titles'])} documents, {len(record.study['rungs'])} "
        f"rungs, token hash {documents['token_hash'][:12]}"
    )
    if "largest_relative_departure" in proof:
        typer.echo(f"rebuilt {proof['rebuilt']}: within {proof['largest_relative_departure']:.1e} of its own states")
    for one in verdict(record):
        typer.echo(f"- {one}")
    for name, why in record.study["left_out"].items():
        typer.echo(f"left out {name}: {why}")
    for name, why in failed_rungs(record).items():
        typer.echo(f"failed {name}: {why}")
    typer.echo(f"record: {record.path}\nhash of the measurements: {record.measurements_hash}\nreport: {page}")
