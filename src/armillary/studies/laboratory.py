"""The laboratory: a decoder, layer by layer, in several conditions on identical documents, reduced to a record."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import require_choices
from armillary.models.conditions import Condition
from armillary.models.decoder import Decoder
from armillary.models.documents import Documents
from armillary.models.gauges.listing import named_gauges
from armillary.observables.between import BetweenMeasurement
from armillary.observables.cloud import STEPS, Calibration
from armillary.observables.declaration import Measurement
from armillary.records.journal import Journal
from armillary.records.record import Record
from armillary.studies.backend import Backend
from armillary.studies.chunk import Bench, Chunk, partition
from armillary.studies.collector import Setting
from armillary.studies.gauged import memory_of_gauges
from armillary.studies.layout import Layout
from armillary.studies.memory import MIB, MemoryNeed, largest_batch
from armillary.studies.passes import calibrate
from armillary.studies.plan import Plan, at_other_taps, check_measurements, default_between_layers, default_measurements

__all__ = ["Laboratory"]

Progress = Callable[[str, int, int], None]
"""Called with a sentence, the documents done and the documents in all."""


_MOST_THREADS = max(256, os.cpu_count() or 1)

HERE = Backend()
"""This process."""


@dataclass(frozen=True)
class Laboratory:
    """All choices of one laboratory; `run` turns them into a record.

    Args:
        decoder: The decoder, which has proved its contract.
        documents: The evaluation documents, identical in every condition.
        conditions: States of the decoder; the first one carries the statement.
        measurements: At the stream after every block; the laboratory's own list if None.
        between: Between every layer and the one before it, and the embedding; the laboratory's own list if None.
        layers: Which layers to measure, 0 (embedding) to the number of blocks; all if None.
        calibration: Documents disjoint from the others, for the corpus-mean and rogue-coordinate views; without them
            these views are left out.
        gauges: Re-parametrizations of the decoder that leave its function unchanged, by name; ("all",) for all, () for
            none. Those that the decoder admits are verified, and numbers measured before and after them, on a few short
            documents at the statement's layers.
        plan: Bins, thresholds, token policy.
        level: Nominal coverage of the intervals.
        resamples: How many times documents are resampled.
        seed: Of the resampling and of the statement's maps.
        batch_size: Documents in one pass.
        preset: Name of the preset these choices started from, for the record; it changes nothing.
        threads: Of the processor, for one pass; the last bits of numbers depend on it. None for one: two were slower.
        memory_limit: Bytes beyond the loaded model (of each worker) that a run may take: passes are made smaller than
            `batch_size` if need be. No limit if None.

    Raises:
        ArgumentError: If choices contradict each other.
        UnsoundError: If there is only one document: no interval can come from it.
    """

    decoder: Decoder
    documents: Documents
    conditions: Sequence[Condition]
    measurements: Sequence[Measurement] | None = None
    between: Sequence[BetweenMeasurement] | None = None
    layers: Sequence[int] | None = None
    calibration: Documents | None = None
    gauges: Sequence[str] = ("all",)
    plan: Plan = field(default_factory=Plan)
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    batch_size: int = 8
    preset: str = "none"
    threads: int | None = None
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        facts = self.decoder.facts
        chosen = tuple(range(facts.layers + 1)) if self.layers is None else tuple(sorted(set(self.layers)))
        if not chosen or chosen[0] < 0 or chosen[-1] > facts.layers:
            raise ArgumentError(
                f"Argument `layers` must lie within 0 (embedding) and {facts.layers}, but it is {list(chosen)}. "
                "Layer l is the stream after block l."
            )
        if len(self.documents) < 2:
            raise UnsoundError(
                "Argument `documents` must hold at least two documents, but it holds one. Token pairs within a "
                "document are dependent, so one document gives no interval. Add documents."
            )
        if self.documents.tokens < 4:
            raise ArgumentError(
                f"Argument `documents` must have at least 4 tokens each, but they have {self.documents.tokens}. "
                "Ask for more tokens."
            )
        for condition in self.conditions:
            if not hasattr(condition, "applied"):
                raise ArgumentError(
                    f"Argument `conditions` must hold conditions, but it holds {condition!r}. Write am.Trained(), "
                    "am.Initial(seed=0), am.Ablated('mlp'), or am.parse_condition('ablated-mlp')."
                )
        names = [condition.name for condition in self.conditions]
        if not names or len(set(names)) < len(names):
            remedy = "Leave the repeated one out." if names else "Give [am.Trained()], for instance."
            raise ArgumentError(
                f"Argument `conditions` must name at least one condition, each once, but it is {names}. {remedy}"
            )
        for condition in self.conditions:
            condition.check_fits(self.decoder)
        require_choices(self.level, self.resamples)
        for name, least in (("seed", 0), ("batch_size", 1), ("threads", 1), ("memory_limit", 1)):
            if getattr(self, name) is not None and not least <= getattr(self, name) < 2**63:
                raise ArgumentError(
                    f"Argument `{name}` must be a whole number from {least} up, but it is {getattr(self, name)}. "
                    "Leave it out for the default."
                )
        if (self.threads or 1) > _MOST_THREADS:  # more than a processor can start end the process without a word
            raise ArgumentError(
                f"Argument `threads` must be at most {_MOST_THREADS}, but it is {self.threads}. Ask for as many as "
                f"this machine has processors ({os.cpu_count()})."
            )
        self.documents.check_independent()
        self.documents.check_context(facts.context)
        self.documents.check_vocabulary(facts.vocabulary)
        if self.calibration is not None:
            self.documents.check_disjoint(self.calibration)
        measurements = self.measurements
        if measurements is None:
            measurements = default_measurements(calibrated=self.calibration is not None)
        between = default_between_layers() if self.between is None else self.between
        check_measurements(measurements, between, calibrated=self.calibration is not None)
        known = named_gauges(tuple(self.gauges), condition_number=self.plan.gauge_condition)
        object.__setattr__(self, "gauges", tuple(self.gauges) if known else ())
        object.__setattr__(self, "layers", chosen)
        object.__setattr__(self, "measurements", tuple(measurements))
        object.__setattr__(self, "between", tuple(between))
        object.__setattr__(self, "conditions", tuple(self.conditions))

    @property
    def light(self) -> tuple[Measurement, ...]:
        """What is measured at the other taps too."""
        return at_other_taps(self.measurements or ())

    def run(
        self,
        path: str | Path,
        *,
        backend: Backend = HERE,
        progress: Progress | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Record:
        """Measure every condition and write the record.

        What is finished is kept beside the record in a folder of its name and `.partial`, so a run that was cut short
        goes on where it was when it is called again with the same choices; its numbers are those of a run that never
        stopped, bit for bit.

        Args:
            path: The new folder.
            backend: Where chunks are measured: in this process, or spread over others. Numbers do not depend on it.
            progress: Told after every chunk.
            notice: Told, in a sentence, that an earlier run is gone on with.

        Returns:
            The record.

        Raises:
            ArgumentError: If the folder exists or cannot be written, another run writes it, or one that was cut short
                there made other choices.
            CheckMissed: If a condition cannot prove what it changed, or the token ids are not the same throughout.
            NumericalError: If a state is not finite, named by condition, layer, document and token.
            DiskError: If the disk is full.
        """
        from armillary.studies.run import carry_out

        folder = Path(path)
        with Journal.held(folder) as journal:
            study = self.settled(journal.identity())
            carry_out(study, journal, folder, backend=backend, progress=progress, notice=notice)
        return Record.open(folder)

    def settled(self, begun: Mapping[str, Any]) -> Laboratory:
        """The laboratory with what was left open decided: as a run that was cut short has it, or as this machine is.

        Args:
            begun: The choices of that run; empty if there is none.
        """
        threads = self.threads or int(begun.get("threads", 1))
        size = self.batch_size
        if self.memory_limit is not None and begun.get("memory_limit") == self.memory_limit:
            size = int(begun["batch_size"])
        elif self.memory_limit is not None:
            size = largest_batch(self.need, self.memory_limit)
        return replace(self, threads=threads, batch_size=size)

    @property
    def need(self) -> MemoryNeed:
        """What a run takes of memory, and what its record takes."""
        size = min(self.batch_size, len(self.documents))
        return MemoryNeed.of(self.layout, self.decoder, self.conditions, size)

    def partition(self, condition: Condition) -> tuple[Chunk, ...]:
        """The chunks of one condition, in the order of the documents."""
        return partition(condition.name, len(self.documents), self.batch_size)

    def calibrate(self, condition: Condition, decoder: Decoder) -> dict[int, Calibration]:
        """What is estimated on the calibration documents, for each layer; nothing without them.

        Args:
            condition: For messages.
            decoder: In this condition.
        """
        return calibrate(
            decoder,
            self.calibration,
            plan=self.plan,
            condition=condition.name,
            batch_size=self.batch_size,
        )

    def bench(self, condition: Condition, decoder: Decoder, calibrations: Mapping[int, Calibration]) -> Bench:
        """What measures the chunks of one condition; that of the first condition carries the statement.

        Args:
            condition: Which one.
            decoder: In this condition.
            calibrations: As `calibrate` returns them; without any, the views that need them are left out.
        """
        return Bench(Setting(self.layout, decoder, condition.name, calibrations))

    @cached_property
    def layout(self) -> Layout:
        """The axes of the record."""
        facts = self.decoder.facts
        return Layout(
            conditions=tuple(condition.name for condition in self.conditions),
            layers=tuple(self.layers or ()),
            measurements=tuple(self.measurements or ()),
            between=tuple(self.between or ()),
            titles=self.documents.titles,
            tokens=self.documents.tokens,
            depth=facts.layers,
            width=facts.width,
            heads=facts.heads,
            residual=facts.residual,
            resolution=float(torch.finfo(getattr(torch, facts.dtype)).eps),
            plan=self.plan,
            seed=self.seed,
        )

    def cost(self) -> dict[str, Any]:
        """What a run would take, estimated from one document measured once; nothing is written.

        Returns:
            Counts of conditions, documents, layers, measurements and passes; the seconds that the passes would take
            (building the conditions and drawing the page come on top); MiB of the model, of what a run takes beyond it,
            and of the record before it is compressed.
        """
        settled = self.settled({})
        facts, documents, need = self.decoder.facts, self.documents, settled.need
        condition = self.conditions[-1]
        bench = self.bench(condition, self.decoder, {})
        self.decoder.hidden(documents.token_ids[:1])
        began = time.perf_counter()
        bench.measure(documents.token_ids[:1], documents.titles[:1])
        each = time.perf_counter() - began
        passes = len(self.conditions) * (len(documents) + len(self.calibration or ()))
        return {
            "model": facts.name,
            "conditions": [condition.name for condition in self.conditions],
            "documents": len(documents),
            "calibration_documents": len(self.calibration or ()),
            "tokens_each": documents.tokens,
            "layers": len(self.layers or ()),
            "measurements": len(self.measurements or ()),
            "document_passes": passes,
            "estimated_seconds": round(each * passes),
            "batch_size": settled.batch_size,
            "model_mib": math.ceil(need.model / MIB),
            "gauges": list(self.gauges),
            "beyond_the_model_mib": math.ceil(max(need.beyond, memory_of_gauges(self)) / MIB),
            "record_mib": math.ceil(need.record / MIB),
        }

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        measurements, between = self.measurements or (), self.between or ()
        prepared = [*(one.preparation for one in measurements), *(one.preparation for one in between)]
        return {
            "kind": "laboratory",
            "preset": self.preset,
            "model": {"name": self.decoder.facts.name, "source": self.decoder.facts.source},
            "conditions": [condition.name for condition in self.conditions],
            "layers": list(self.layers or ()),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "threads": self.threads or 1,
            "memory_limit": "none" if self.memory_limit is None else self.memory_limit,
            "dtype": self.decoder.facts.dtype,
            "device": str(self.decoder.device),
            "measurements": [str(one) for one in measurements],
            "measurements_at_other_taps": [str(one) for one in self.light],
            "measurements_between_layers": [str(one) for one in between],
            "preparation_steps": {k: v for k, v in STEPS.items() if any(k in one.steps for one in prepared)},
            "documents": {
                "source": self.documents.source,
                "genre": self.documents.genre,
                "rule": self.documents.rule,
                "count": len(self.documents),
                "tokens": self.documents.tokens,
            },
            "calibration": {
                "rule": "none" if self.calibration is None else self.calibration.rule,
                "count": len(self.calibration or ()),
            },
            "gauges": list(self.gauges),
            "plan": self.plan.choices(),
        }
