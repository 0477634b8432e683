"""The study: every choice of one climb of the ladder, carried out rung by rung through a journal to a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from armillary.errors import ArgumentError, ArmillaryError, DiskError, Interrupted, UnsoundError
from armillary.estimates import require_choices
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap
from armillary.models.contract import prove, require
from armillary.models.documents import Documents
from armillary.models.matrices import without_plain_form
from armillary.observables.cloud import Calibration
from armillary.observables.declaration import Preparation
from armillary.observables.rank import isotropic_participation_rank, rank_ceiling
from armillary.records import storage, unfinished
from armillary.records.journal import (
    IDS,
    SECONDS,
    UNFINISHED,
    Beginning,
    Journal,
    calibration_unit,
    chunk_unit,
)
from armillary.records.record import Record
from armillary.studies.axes import with_words
from armillary.studies.finite import require_finite
from armillary.studies.origin import origin, processor, versions
from armillary.studies.plan import GROUPS, TAPS
from armillary.studies.resistance.calibrating import Reader, pace_of
from armillary.studies.resistance.cost import cost
from armillary.studies.resistance.heads_at_work import HeadsAtWork, head_variables
from armillary.studies.resistance.ladder import RECIPES, chosen_rungs
from armillary.studies.resistance.nulls import null_variables
from armillary.studies.resistance.numbers import (
    AFTER_BLOCKS,
    EVERYWHERE,
    PREPARATIONS,
    TOKENS,
    Numbers,
    variables,
)
from armillary.studies.resistance.projections import KINDS, Projections, kept_directions, projection_variables
from armillary.studies.resistance.reproduction import require_reproduced
from armillary.studies.resistance.rungs import CALIBRATED, Idealized, Matrices, Pass, Rung, Saved, Workshop
from armillary.studies.resistance.sources import SPECTRUM, TRAINED, Sources
from armillary.studies.resistance.trial import GAINS, declared_heads, head_table
from armillary.studies.resistance.wandering import AXES, Wandering, wandering_variables
from armillary.studies.station import threads

if TYPE_CHECKING:
    import xarray

__all__ = ["Resistance"]

ROGUE_COORDINATES = 3
LEVEL_OF_DECODERS = 4
PROVED_TOKENS = 64
"""Tokens of the first document on which the matrices are put to the proof."""


@dataclass(frozen=True)
class Resistance:
    """All choices of one climb; `run` turns them into a record.

    Args:
        decoder: The decoder, which has proved its contract.
        documents: The documents, identical on every rung.
        calibration: Documents disjoint from the others: they name the rogue coordinates of the decoder, which are left
            out on every rung, the pace of its sublayers, and the steps with which other rungs follow it.
        rungs: Names of rungs or of groups of rungs; all that apply if None.
        further: Rungs of one's own, after all others: checkpoints of the same decoder (`Saved`), or anything that is a
            `Rung`.
        layers: Measured layers; all if None. Shares of a budget need neighboring ones.
        level: Nominal coverage of the intervals.
        resamples: How many times documents are resampled.
        seed: Of the resampling and of everything drawn.
        chunk: Documents in one pass: what a stopped run loses at most.
        tolerance: Relative tolerance of the idealized flow.
        threads: Of the processor; the last bits of numbers depend on it.

    Raises:
        ArgumentError: Choices that contradict each other.
        UnsoundError: One document.
    """

    decoder: Decoder
    documents: Documents
    calibration: Documents
    rungs: Sequence[str] | None = None
    further: Sequence[Rung] = ()
    layers: Sequence[int] | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    chunk: int = 4
    tolerance: float = 1e-6
    threads: int = 1

    def __post_init__(self) -> None:
        facts = self.decoder.facts
        layers = tuple(range(facts.layers + 1)) if self.layers is None else tuple(sorted(set(self.layers)))
        if not layers or layers[0] < 0 or layers[-1] > facts.layers:
            raise ArgumentError(
                f"Argument `layers` must lie within 0 (embedding) and {facts.layers}, but it is {list(layers)}. "
                "Layer l is the stream after block l."
            )
        if len(self.documents) < 2:
            raise UnsoundError(
                "Argument `documents` must hold at least two documents, but it holds one. Tokens of one document are "
                "dependent, so one document gives no interval. Add documents."
            )
        if self.documents.tokens < 4 or self.calibration.tokens < 4:
            raise ArgumentError("Argument `documents` must have at least 4 tokens each. Ask for more tokens.")
        if set(self.documents.titles) & set(self.calibration.titles):
            raise ArgumentError(
                "Argument `calibration` must hold other documents than `documents`, but they share one. Take the next "
                "ones of the same source."
            )
        for name in ("chunk", "threads"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"Argument `{name}` must be at least 1, but it is {getattr(self, name)}. Take 1.")
        require_choices(self.level, self.resamples)
        object.__setattr__(self, "layers", layers)

    @cached_property
    def climbed(self) -> tuple[Rung, ...]:
        """The rungs that apply, the decoder first."""
        return self._chosen[0]

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The rungs that do not, with the reason."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[tuple[Rung, ...], dict[str, str]]:
        rungs, reasons = chosen_rungs(self.decoder, self.rungs)
        for rung in self.further:
            if isinstance(rung, Saved):
                rung.require_shape(self.decoder)
        reasons |= {rung.name: why for rung in self.further if (why := rung.lacks(self.decoder))}
        return (*rungs, *(rung for rung in self.further if rung.name not in reasons)), reasons

    def run(
        self,
        path: str | Path,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Record:
        """Climb, or go on climbing, and write the record.

        Args:
            path: The new folder.
            progress: Told after every chunk with a sentence, the passes done and the passes in all.
            notice: Told that an earlier run is gone on with.

        Raises:
            ArgumentError: The folder exists, or an unfinished run in its place has other choices.
            CheckMissed: The matrices do not reproduce the decoder, or a condition cannot prove what it changed.
            NumericalError: A state of the decoder as loaded is not finite; what fails on another rung is written
                down, and the other rungs go on.
        """
        with Journal.held(Path(path)) as journal:
            _Climb(self, journal, progress).carry_out(Path(path), notice)
        return Record.open(path)

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        return {
            "kind": "resistance",
            "model": {"name": self.decoder.facts.name, "source": self.decoder.facts.source},
            "conditions": [rung.name for rung in self.climbed],
            "rungs": {
                rung.name: {
                    "label": rung.label, "level": rung.level, "neighbor": rung.neighbor, "change": rung.change,
                    **rung.as_choices(),
                }
                for rung in self.climbed
            },
            "left_out": self.left_out,
            "layers": list(self.layers or ()),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "chunk": self.chunk,
            "tolerance": self.tolerance,
            "threads": self.threads,
            "dtype": self.decoder.facts.dtype,
            "measurements": [str(one) for one in (*EVERYWHERE, *AFTER_BLOCKS)],
            "grouping": str(GROUPS),
            "rogue_coordinates": ROGUE_COORDINATES,
            "documents": {
                "source": self.documents.source, "genre": self.documents.genre, "rule": self.documents.rule,
                "count": len(self.documents), "tokens": self.documents.tokens,
            },
            "calibration": {"rule": self.calibration.rule, "count": len(self.calibration)},
        }  # fmt: skip

    def frame(self) -> xarray.Dataset:
        """Labels of all axes, and what an isotropic cloud of the same size gives."""
        import xarray as xr

        tokens, width = self.documents.tokens, self.decoder.facts.width
        heads, axes = self._heads()
        nulls, null_axis = null_variables(self.decoder, self.documents, tuple(self.layers or ()), self._recipes)
        prepared = [Preparation.parse(one) for one in PREPARATIONS]
        counts = [tokens, tokens - 1]
        return with_words(
            xr.Dataset(
                {
                    "reference_ceiling": (
                        ("tokens", "preparation"),
                        np.asarray([[rank_ceiling(n, width, one) for one in prepared] for n in counts], dtype=float),
                        {"definition": "largest value any rank can take: min(T, d), or min(T - 1, d) after centering"},
                    ),
                    "reference_isotropic": (
                        ("tokens", "preparation"),
                        np.asarray([[isotropic_participation_rank(n, width, one) for one in prepared] for n in counts]),
                        {"definition": "participation rank of an isotropic cloud of that size, n d / (n + d - 1)"},
                    ),
                    **heads,
                    **nulls,
                },
                coords={
                    "condition": [rung.name for rung in self.climbed],
                    "layer": np.asarray(self.layers),
                    "tap": list(TAPS),
                    "tokens": list(TOKENS),
                    "preparation": list(PREPARATIONS),
                    "document": list(self.documents.titles),
                    **axes,
                    **null_axis,
                    "position": np.arange(tokens),
                    "path_axis": np.arange(AXES),
                    "projection": list(KINDS),
                    "directions": list(kept_directions(width)),
                },
                attrs={"layers": self.decoder.facts.layers, "width": width, "tokens_per_document": tokens},
            )
        )

    def _heads(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Numbers of every head's matrices: the decoder's, of random directions, and fresh ones; and their axes."""
        facts = self.decoder.facts
        heads = {"head": np.arange(facts.heads)}
        if without_plain_form(self.decoder):
            return {}, heads
        names = (TRAINED, SPECTRUM, *(f"initial-{name}-seed{self.seed}" for name in self._recipes))
        sources = Sources(self.decoder, self.seed)
        made = (sources.random_directions() if name == SPECTRUM else sources(name) for name in names)
        tables = [{gain: head_table(weights, gain=gain) for gain in GAINS} for weights in made]
        axes = {"source": list(names), "gain": list(GAINS), "block": np.arange(1, facts.layers + 1)}
        return declared_heads(tables, names), axes | heads

    @property
    def _recipes(self) -> tuple[str, ...]:
        """Recipes of fresh decoders whose spread is known; one where both are the same number."""
        facts = self.decoder.facts
        spreads = {"released": facts.released_spread, "library": facts.library_spread}
        known = tuple(name for name in RECIPES if spreads[name] is not None)
        return known if len({spreads[name] for name in known}) == len(known) else known[:1]

    def cost(self) -> dict[str, Any]:
        """What a run would take, estimated from one document; nothing is written."""
        return cost(self)

    def workshop(self) -> Workshop:
        """What all rungs share."""
        return Workshop(self.decoder, Sources(self.decoder, self.seed), self.tolerance)


class _Climb:
    """One run of the study."""

    def __init__(self, study: Resistance, journal: Journal, progress: Callable[[str, int, int], None] | None) -> None:
        self.study, self.journal, self.progress = study, journal, progress
        self.workshop = study.workshop()
        self.starts = list(range(0, len(study.documents), study.chunk))
        self.rogue: Calibration | None = None
        self.total = len(study.climbed) * len(self.starts) + sum(map(_is_calibrated, study.climbed))
        self.done = 0

    def carry_out(self, record: Path, notice: Callable[[str], None] | None) -> None:
        study = self.study
        promises = prove(study.decoder)
        require(study.decoder, promises)
        self._require_directions()
        identity = {
            **study.choices(), "token hash of the documents": study.documents.hash,
            "token hash of the calibration documents": study.calibration.hash,
            "weight hash": study.decoder.facts.weight_hash,
            "spread of the released recipe": study.decoder.facts.released_spread, "versions": versions(),
            "processor": processor(),
        }  # fmt: skip
        self.journal.begin(
            identity,
            lambda: Beginning(
                study.choices(),
                {
                    **origin(study.decoder, study.documents, promises=promises, calibration=study.calibration),
                    "reproduction": self._reproduction(),
                    "first_document": self._first_document(),
                },
                study.frame(),
                variables(study.documents.tokens, study.decoder.facts.width)
                | head_variables()
                | wandering_variables()
                | projection_variables(),
            ),
        )
        if (found := len(self.journal.units())) and notice is not None:
            notice(f"Going on with the run in {self.journal.folder}: {found} of {self.total} passes are finished.")
        with threads(study.threads), torch.inference_mode():
            for place, rung in enumerate(study.climbed):
                self._rung(place, rung)
        stored = unfinished.stored(self.journal.folder)
        storage.write(
            record, stored.study, stored.provenance, stored.dataset,
            workshop=self.journal.folder / f"record{UNFINISHED}",
        )  # fmt: skip

    def _require_directions(self) -> None:
        """Every token that a rung on the sphere starts from must have a direction there.

        Raises:
            ArgumentError: The embedding of a token is zero; the message names it.
        """
        study = self.study
        starts = {
            getattr(rung, "positions", "own") for rung in study.climbed if isinstance(rung, (Idealized, Matrices))
        }
        with torch.inference_mode():
            for documents in (study.documents, study.calibration) if starts else ():
                first = 0
                for ids in documents.batches(study.chunk):
                    for positions in sorted(starts):
                        zero = (self.workshop.start(ids, positions=positions).norm(dim=-1) == 0).nonzero().tolist()
                        for document, place in zero:
                            token, tokenizer = int(ids[document, place]), study.decoder.tokenizer
                            word = "" if tokenizer is None else f" ({tokenizer.decode([token])!r})"
                            raise ArgumentError(
                                f"Argument `documents` must hold tokens with a direction, but token {token}{word} of "
                                f"document {documents.titles[first + document]!r} has a zero embedding, so it has no "
                                "direction on the sphere. Leave the rungs on the sphere out (--rungs decoder), or give "
                                "other documents."
                            )
                    first += len(ids)

    def _reproduction(self) -> dict[str, Any]:
        """How far the decoder rebuilt from its matrices is from itself, or why it is not rebuilt."""
        study = self.study
        if not any(isinstance(rung, Matrices) for rung in study.climbed):
            return {"rebuilt": "no rung is built from matrices"}
        ids = study.documents.token_ids[:1, :PROVED_TOKENS]
        found = require_reproduced(study.decoder, self.workshop.sources.trained, ids)
        return {
            "rebuilt": f"from plain matrices, on {ids.shape[1]} tokens of {study.documents.titles[0]}",
            "largest_relative_departure": max(found.values()),
            "by_tap": {f"{tap.name} {tap.layer}": value for tap, value in found.items()},
        }

    def _first_document(self) -> dict[str, Any]:
        """The tokens whose paths are drawn, as text where there is a tokenizer."""
        ids, tokenizer = self.study.documents.token_ids[0].tolist(), self.study.decoder.tokenizer
        texts = [str(one) for one in ids] if tokenizer is None else [tokenizer.decode([one]) for one in ids]
        return {"title": self.study.documents.titles[0], "tokens": texts}

    def _rung(self, place: int, rung: Rung) -> None:
        """Calibrate one rung and measure its chunks, each unless it is there already; what fails is written down."""
        units, unit = self.journal.units(), calibration_unit(place)
        todo = [start for start in self.starts if chunk_unit(place, start) not in units]
        self._tell(rung.label, len(self.starts) - len(todo))
        if unit in units:
            self._learn(rung, self.journal.arrays(unit))
            self._tell(rung.label, 1)
        if not todo and (unit in units or not _is_calibrated(rung)):
            return
        proof = {"name": rung.name, "label": rung.label}
        try:
            with rung.opened(self.workshop) as (through, said):
                if _is_calibrated(rung) and unit not in units:
                    self.journal.put(unit, self._calibrated(through, rung))
                    self._learn(rung, self.journal.arrays(unit))
                    self._tell(rung.label, 1)
                self.journal.put_proof(place, {**proof, "sentence": said})
                for start in todo:
                    self.journal.put(chunk_unit(place, start), self._measured(through, rung, start))
                    self._tell(rung.label, 1)
        except ArmillaryError as error:
            if rung.name == "trained" or isinstance(error, (DiskError, Interrupted)):
                raise  # all others follow the pace of the decoder as loaded
            self.journal.put_proof(place, {**proof, "sentence": f"failed: {error}", "failed": str(error)})
            found = self.journal.units()
            for start in (one for one in self.starts if chunk_unit(place, one) not in found):
                numbers, ids = self._numbers(start)
                self.journal.put(chunk_unit(place, start), numbers.arrays | {IDS: ids.numpy(), SECONDS: np.zeros(())})
                self._tell(rung.label, 1)

    def _calibrated(self, through: Pass, rung: Rung) -> dict[str, np.ndarray]:
        began = time.perf_counter()
        batches = list(self.study.calibration.batches(self.study.chunk))
        if isinstance(rung, Matrices):
            found = rung.calibrated(self.workshop, batches)
            found |= {"layers": np.zeros(0), "coordinates": np.zeros((0, ROGUE_COORDINATES), dtype=int)}
        else:
            reader = Reader(ROGUE_COORDINATES)
            for batch in batches:
                through(batch, reader)
                reader.next_batch()
            found = reader.arrays()
        return found | {SECONDS: np.asarray(time.perf_counter() - began)}

    def _learn(self, rung: Rung, found: dict[str, np.ndarray]) -> None:
        """From the decoder itself the pace of its sublayers and its rogue coordinates; from others their steps."""
        if rung.name == "trained":
            self.workshop.pace = pace_of(found, self.study.decoder)
            self.rogue = Calibration(mean=torch.zeros(0), coordinates=tuple(found["coordinates"][0].tolist()))
        else:
            self.workshop.steps[rung.name] = {name: found[name] for name in CALIBRATED}

    def _numbers(self, start: int) -> tuple[Numbers, Tensor]:
        """Numbers to be taken of a chunk, and its token ids."""
        study = self.study
        ids = study.documents.token_ids[start : start + study.chunk]
        numbers = Numbers(
            layers=tuple(study.layers or ()), documents=len(ids), tokens=study.documents.tokens,
            width=study.decoder.facts.width, calibration=self.rogue,
        )  # fmt: skip
        return numbers, ids

    def _measured(self, through: Pass, rung: Rung, start: int) -> dict[str, np.ndarray]:
        began = time.perf_counter()
        study = self.study
        numbers, ids = self._numbers(start)
        titles = study.documents.titles[start : start + study.chunk]
        times = rung.times(self.workshop) if hasattr(rung, "times") else ()

        heads = None
        if rung.name == "trained" and not without_plain_form(study.decoder):
            trained = self.workshop.sources.trained
            heads = HeadsAtWork(trained, layers=tuple(study.layers or ()), documents=len(ids))

        drift, projected = None, None
        if rung.name == "trained":
            projected = Projections(
                layers=tuple(study.layers or ()), depth=study.decoder.facts.layers, width=study.decoder.facts.width,
                documents=len(ids), seed=study.seed,
            )  # fmt: skip
        if rung.level >= LEVEL_OF_DECODERS:
            drift = Wandering(
                layers=tuple(study.layers or ()), documents=len(ids), tokens=study.documents.tokens,
                paths=rung.name == "trained",
            )  # fmt: skip

        single = study.decoder.facts.dtype != "float64"

        def heard(tap: Tap, residual: Tensor, read: Tensor) -> None:
            require_finite(residual, tap=tap, condition=rung.name, titles=titles)
            residual = residual.to(torch.float32) if single else residual  # all rungs are measured in one type
            numbers.add(tap, residual, read)
            if heads is not None:
                heads.add(tap, residual)
            if drift is not None:
                drift.add(tap, residual)
            if projected is not None:
                projected.add(tap, residual)

        through(ids, heard)
        for layer, at in enumerate(times):
            numbers.at_time(layer, at)
        numbers.with_steps(self.workshop.steps.get(rung.name, {}))
        found = numbers.arrays | ({} if heads is None else heads.arrays) | ({} if drift is None else drift.finish())
        found |= {} if projected is None else projected.arrays
        return found | {IDS: ids.numpy(), SECONDS: np.asarray(time.perf_counter() - began)}

    def _tell(self, sentence: str, more: int) -> None:
        self.done += more
        if self.progress is not None:
            self.progress(sentence, self.done, self.total)


def _is_calibrated(rung: Rung) -> bool:
    """Whether calibration documents pass through a rung: the decoder as loaded, and rungs that follow its pace."""
    return rung.name == "trained" or (isinstance(rung, Matrices) and rung.step == "pace")
