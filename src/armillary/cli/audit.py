"""`armillary audit`: which number survives which transformation, of a record or of a decoder on documents."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary.cli import terminal
from armillary.cli.corpus import Corpus
from armillary.cli.options import LARGEST_SEED, AsJson, Quiet, given
from armillary.cli.report import drawn
from armillary.cli.source import AllowPickle, Device, Dtype, Model, Revision, Source, Tokenizer, TrustRemoteCode
from armillary.cli.study import chosen_layers, layer_ranges
from armillary.errors import ArgumentError, ArmillaryError

if TYPE_CHECKING:
    from armillary.invariance.judgment import Audit
    from armillary.models.gauges.verification import Untie
    from armillary.records.gauged import GaugedNumbers
    from armillary.records.record import Record
    from armillary.studies.auditing import Auditing
    from armillary.transformations.declaration import Transformation

__all__ = ["audit"]

NAMES = (
    "orthogonal", "feature-permutation", "token-permutation", "global-scale", "row-scale", "translation", "centering",
    "general-linear", "gain",
)  # fmt: skip
LABELS = {
    "feature-permutation": "permutation of features",
    "token-permutation": "permutation of tokens",
    "global-scale": "global scale",
    "row-scale": "row scale",
    "gain": "gain of the next norm",
}
"""What a table calls them, where it is not the name with a space for the hyphen."""

REFUTED = 1
UNTIE: dict[str, Untie] = {"by-copy": "by copy", "never": "never"}


def audit(
    context: typer.Context,
    record: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of a record: of a laboratory or an audit, whose numbers are judged again without a decoder, "
            "or of a simulation, whose kept states are tried. Without one: a decoder and documents."
        ),
    ] = None,
    model: Model = None,
    revision: Revision = None,
    tokenizer: Tokenizer = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    allow_pickle: AllowPickle = False,
    trust_remote_code: TrustRemoteCode = False,
    layers: Annotated[
        str | None,
        typer.Option(
            help="For example 0,5,10-12. Default: the embedding, half of the way, the last layer; of gauges seven."
        ),
    ] = None,
    transformations: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Any of {', '.join(NAMES)}, or a matrix in a file .npy. Repeat the option or separate by commas. "
            "Default: all of them."
        ),
    ] = None,
    condition_number: Annotated[
        float,
        typer.Option(
            help="Largest over smallest singular value of general maps; where written, of gauges too, else 10."
        ),
    ] = 4.0,
    gauges: Annotated[
        list[str] | None,
        typer.Option(
            help="Re-parametrizations that leave the function unchanged, verified in float64 on the first two "
            "documents, 48 tokens of each, unless --max-documents or --max-tokens is written: all, none, or names; "
            "repeat the option or separate by commas. Default: none."
        ),
    ] = None,
    untie: Annotated[
        str, typer.Option(help="by-copy (tied tensors are untied where a gauge needs it) or never.")
    ] = "by-copy",
    documents: Annotated[
        Path | None, typer.Option(help="Folder of texts, a text file or a table. Default: texts that Python carries.")
    ] = None,
    max_documents: Annotated[
        int, typer.Option(min=1, help="The first N that are long enough; one gives verdicts without intervals.")
    ] = 8,
    max_tokens: Annotated[int, typer.Option(min=4, help="Tokens of every document.")] = 128,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of what is drawn, and of the resampling.")] = 0,
    level: Annotated[float, typer.Option(help="Nominal coverage of the intervals.")] = 0.95,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the record of a decoder's audit. Default: records/audit."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Put claims on trial.

    Which number survives which transformation, as a table of verdicts; exit code 1 if a claim is refuted.
    """
    names = _names(transformations)
    if record is not None:
        _refuse_what_needs_a_decoder(context)
        found, gauged = _of_record(record, layers=layers, names=names)
        _told(found, gauged, content={"record": str(record)}, as_json=as_json)
        _end(found, gauged)
        return
    source = Source(
        model=model, revision=revision, tokenizer=tokenizer, device=device, dtype=dtype, allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )  # fmt: skip
    from armillary.records.record import Record

    path = Record.require_new(Path("records/audit") if out is None else out)
    corpus = Corpus(documents, None, None, "text", None, "truncate")
    with terminal.interruptible(path):
        study = _study(
            source, corpus, layers=layers, names=names, condition_number=condition_number, gauges=gauges, untie=untie,
            max_documents=max_documents, max_tokens=max_tokens, seed=seed, level=level, written=given(context),
        )  # fmt: skip
        with terminal.progress("auditing", quiet=quiet) as progress:
            made = study.run(path, progress=progress)
        found = {f"layer {layer}": one for layer, one in made.audits().items()}
        gauged = _Gauged.of(made)
        _told(found, gauged, content={"record": str(path), "study": made.study}, as_json=as_json)
        page = drawn(made, quiet=quiet)
    if not quiet and not as_json:
        typer.echo(f"record: {made.path}\nreport: {page}")
    _end(found, gauged)


_OF_RECORDS = ("record", "layers", "transformations", "as_json", "quiet")
"""What says something of a record; every other option would be ignored, and is refused instead."""


def _refuse_what_needs_a_decoder(context: typer.Context) -> None:
    if others := [name for name in given(context) if name not in _OF_RECORDS]:
        raise ArgumentError(
            f"Argument `--{others[0].replace('_', '-')}` must be left out with a record, but was given: its states are "
            "gone, and what it holds is judged again. Leave it out, or leave the record out and name a decoder."
        )


def _names(texts: list[str] | None) -> list[str] | None:
    """The transformations asked for, each once."""
    if texts is None:
        return None
    found = [one.strip() for given in texts for one in given.split(",")]
    for name in found:
        if name not in NAMES and not name.endswith(".npy"):
            raise ArgumentError(
                f"Argument `--transformations` must be of {', '.join(NAMES)}, or a file .npy, but it is {name!r}. "
                "Correct the name."
            )
    if len(set(found)) < len(found):
        raise ArgumentError(f"Argument `--transformations` must name each once, but it is {found}. Leave one out.")
    return found


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("-", " "))


@dataclass(frozen=True)
class _Gauged:
    """What a record holds of gauges, with the choices of its intervals."""

    numbers: GaugedNumbers
    choices: dict[str, Any]

    @classmethod
    def of(cls, record: Record) -> _Gauged | None:
        """None where it holds nothing of them."""
        from armillary.records.gauged import GaugedNumbers

        held = GaugedNumbers.of(record.dataset)
        choices = {name: record.study[name] for name in ("level", "resamples", "seed")}
        return None if held is None else cls(held, choices)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One for each gauge and number."""
        return self.numbers.rows(**self.choices)


def _of_record(path: Path, *, layers: str | None, names: list[str] | None) -> tuple[dict[str, Audit], _Gauged | None]:
    """What a record holds, by place in words; of a simulation, its kept states put to the trial."""
    from armillary.records.record import Record
    from armillary.studies.auditing import audits_of_states

    try:
        opened = Record.open(path)
    except ArmillaryError as error:  # `path` is where a record goes, here it is one
        raise type(error)(str(error).replace("`path`", "`RECORD`")) from error
    if opened.study.get("kind") == "simulation":
        if layers is not None:
            raise ArgumentError(
                "Argument `--layers` must be left out for a simulation, but was given: it has times, of which the "
                "middle and the last kept one are tried. Leave it out."
            )
        held, gauged = audits_of_states(opened), None
    else:
        stored = opened.audits()
        if not stored:
            raise ArgumentError(
                f"Argument `RECORD` must hold numbers before and after transformations, but {path} holds none. Name a "
                "record of `armillary lab` or `armillary audit`."
            )
        held = {f"layer {layer}": stored[layer] for layer in _stored_layers(list(stored), layers)}
        gauged = _Gauged.of(opened)
    return {place: _only(one, names) for place, one in held.items()}, gauged


def _stored_layers(stored: list[int], text: str | None) -> list[int]:
    asked = [layer for one in layer_ranges(text) or () for layer in one] or stored
    if missing := [layer for layer in asked if layer not in stored]:
        raise ArgumentError(
            f"Argument `--layers` must be of {', '.join(map(str, stored))}, where this record was tried, but it names "
            f"{missing[0]}. Leave the record out and name a decoder with --model for other layers."
        )
    return asked


def _only(found: Audit, names: list[str] | None) -> Audit:
    if names is None:
        return found
    labels = [_label(name) for name in names]
    kept = {name: label for label in labels for name in found.transformations if name.partition(",")[0] == label}
    if missing := [label for label in labels if label not in kept.values()]:
        raise ArgumentError(
            f"Argument `--transformations` must be of those that this record holds, {', '.join(found.transformations)},"
            f" but it names {missing[0]}. Leave the record out and name a decoder with --model for others."
        )
    return found.only(tuple(kept))


def _study(
    source: Source, corpus: Corpus, *, layers: str | None, names: list[str] | None, condition_number: float,
    gauges: list[str] | None, untie: str, max_documents: int, max_tokens: int, seed: int, level: float,
    written: Collection[str],
) -> Auditing:  # fmt: skip
    """The audit that the options ask for, with its decoder loaded and its documents cut."""
    from armillary.estimates import require_choices
    from armillary.models.gauges.listing import named_gauges
    from armillary.studies.auditing import Auditing

    require_choices(level, Auditing.resamples)
    ranges = layer_ranges(layers)
    asked = tuple(one.strip() for given in gauges or () for one in given.split(","))
    of_gauges: dict[str, Any] = {
        own: value
        for option, own, value in (
            ("condition_number", "gauge_condition", condition_number),
            ("max_documents", "gauge_documents", max_documents),
            ("max_tokens", "gauge_tokens", max_tokens),
        )
        if option in written
    }
    named_gauges(asked, condition_number=of_gauges.get("gauge_condition", Auditing.gauge_condition))  # before loading
    if untie not in UNTIE:
        raise ArgumentError(f"Argument `--untie` must be {' or '.join(UNTIE)}, but it is {untie!r}. Leave it out.")
    chosen = _transformations(names, condition_number=condition_number, seed=seed)
    decoder = source.load()
    texts = corpus.one_or_more(decoder, limit=max_documents, tokens=max_tokens)
    return Auditing(
        decoder=decoder, documents=texts, transformations=chosen,
        layers=chosen_layers(ranges, decoder.facts.layers, layers), gauges=asked, untie=UNTIE[untie],
        calibration=corpus.calibration(decoder, texts), level=level, seed=seed, **of_gauges,
    )  # fmt: skip


def _transformations(names: list[str] | None, *, condition_number: float, seed: int) -> list[Transformation]:
    import torch

    from armillary.invariance.audit import standard
    from armillary.studies.statement import GAIN
    from armillary.transformations.linear import DiagonalGain

    every = standard(
        condition_number=condition_number, seed=seed, gain=DiagonalGain(torch.ones(1), name=GAIN)
    )  # the gain stands for that of each layer's norm
    by_name = dict(zip(NAMES, every, strict=True))
    return list(every) if names is None else [by_name[name] if name in NAMES else _matrix(name) for name in names]


def _matrix(path: str) -> Transformation:
    import numpy as np
    import torch

    from armillary.transformations.linear import Linear

    try:
        held = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"Argument `--transformations` must name a NumPy file of one matrix, but {path} cannot be read ({error}). "
            "Write it with numpy.save."
        ) from error
    kind = getattr(held, "dtype", None)
    if kind is None or kind.kind not in "fiu":
        raise ArgumentError(
            f"Argument `--transformations` must name a NumPy file of one matrix of real numbers, but {path} holds "
            f"{'several arrays' if kind is None else kind}. Write one with numpy.save."
        )
    return Linear(torch.as_tensor(np.asarray(held, dtype=float)), name=path)


def _told(found: dict[str, Audit], gauged: _Gauged | None, *, content: dict[str, Any], as_json: bool) -> None:
    """The verdicts: as one JSON object, or as a table for each place."""
    from armillary.invariance.table import ELSEWHERE, LEGEND, has_intervals, text_table
    from armillary.invariance.verdicts import WORDS

    some = next(iter(found.values()))
    if as_json:
        rows = [{"at": place, **row} for place, one in found.items() for row in one.rows()]
        words = {"verdicts": rows, "without_claims": list(some.without_claims), "documents": some.documents}
        told = {} if gauged is None else {
            "gauges": gauged.rows,
            "verified_gauges": gauged.numbers.proofs(),
            "refused_gauges": dict(gauged.numbers.refused),
            "failed_gauges": dict(gauged.numbers.failed),
        }  # fmt: skip
        terminal.print_json({**content, **words, **told, "words": dict(WORDS)})
        return
    width = shutil.get_terminal_size((120, 24)).columns
    for place, one in found.items():
        typer.echo(f"{place}, {one.documents} document{'s' * (one.documents != 1)}\n")
        typer.echo(text_table(one, width=width))
        typer.echo("")
    typer.echo(LEGEND)
    if not all(has_intervals(one, width=width) for one in found.values()):
        typer.echo(ELSEWHERE)
    if some.documents == 1:
        typer.echo("One document: verdicts stand, but no change has an interval.")
    if some.without_claims:
        typer.echo(f"Nothing is claimed of {', '.join(some.without_claims)}; it was tried like the others.")
    if gauged is not None:
        from armillary.records.gauge_summary import summary_text

        typer.echo(f"\ngauges\n\n{summary_text(gauged.numbers, **gauged.choices)}")


def _end(found: dict[str, Audit], gauged: _Gauged | None) -> None:
    """Exit code 1 if a claim was refuted, with the first that was."""
    told = [
        f"{one.measurement} at {place} under {one.transformation}: {one} (claimed: {one.verdict.reason})"
        for place, each in found.items()
        for one in each.refuted
    ]
    told += [
        f"{row['measurement']} ({row['place']}) at layer {row['layer']} under {row['gauge']} (claimed: {row['reason']})"
        for row in ([] if gauged is None else gauged.rows)
        if row["verdict"] == "claim refuted"
    ]
    if told:
        typer.echo(f"armillary: claims that were refuted: {len(told)}; the first: {told[0]}", err=True)
        raise typer.Exit(REFUTED)
