"""States captured elsewhere, measured as a laboratory measures its own: what can be known without the decoder, no more.

There is one condition, "captured". What needs the decoder is absent, and the record says so: attention, what norms hand
on, the stream between attention and MLP, what sublayers add, loss, and the statement's gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from armillary.errors import UnsoundError
from armillary.estimates import require_choices
from armillary.invariance.audit import standard
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap
from armillary.models.states import States
from armillary.observables.between import BetweenMeasurement
from armillary.observables.cloud import STEPS
from armillary.observables.declaration import Measurement
from armillary.records.assembly import Part, assembled
from armillary.records.record import Record
from armillary.studies.between import Between
from armillary.studies.collector import Collector, Setting
from armillary.studies.dataset import declared, frame
from armillary.studies.distributions import Distributions
from armillary.studies.history import History
from armillary.studies.layout import UNKNOWN, Layout
from armillary.studies.origin import versions
from armillary.studies.plan import (
    Plan,
    check_measurements,
    default_between_layers,
    default_measurements,
    statement_layers,
)
from armillary.studies.reader import TapReader
from armillary.studies.scalars import Scalars
from armillary.studies.statement import Statement

__all__ = ["CONDITION", "CapturedStates"]

CONDITION = "captured"
ABSENT = (
    "attention, what norms hand on, the stream between attention and MLP, what sublayers add, the loss, the gain of a "
    "norm as a change of basis, calibrated views, and a rounding floor"
)


class _Statement(Statement):
    """The statement without a norm: what needs no decoder."""

    def __init__(self, setting: Setting) -> None:
        Collector.__init__(self, setting)
        chosen = standard(condition_number=self.layout.plan.condition_number, seed=self.layout.seed)
        self.maps = dict.fromkeys(statement_layers(self.layout.layers), chosen)
        self._rows = {layer: row for row, layer in enumerate(self.maps)}


_KINDS: tuple[type[Collector], ...] = (Scalars, Between, Distributions, History, _Statement)


@dataclass(frozen=True)
class CapturedStates:
    """All choices of a study of states without their decoder; `run` turns them into a record.

    Args:
        states: What was captured.
        measurements: At every layer; the laboratory's own list without calibrated views if None.
        between: Between every layer and the one before it, and the first; the laboratory's own list if None.
        plan: Bins, thresholds, token policy.
        level: Nominal coverage of the intervals.
        resamples: How many times documents are resampled.
        seed: Of the resampling and of the statement's maps.
        batch_size: Documents measured at once.

    Raises:
        ArgumentError: If choices contradict each other, or a measurement needs calibration documents.
        UnsoundError: If there is only one document: no interval can come from it.
    """

    states: States
    measurements: Sequence[Measurement] | None = None
    between: Sequence[BetweenMeasurement] | None = None
    plan: Plan = field(default_factory=Plan)
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    batch_size: int = 8

    def __post_init__(self) -> None:
        if len(self.states) < 2:
            raise UnsoundError(
                "Argument `states` must hold at least two documents, but it holds one. Tokens of one document are "
                "dependent, so one document gives no interval. Capture more."
            )
        self.states.require_distinct()
        require_choices(self.level, self.resamples)
        measurements = default_measurements(calibrated=False) if self.measurements is None else self.measurements
        between = default_between_layers() if self.between is None else self.between
        check_measurements(measurements, between, calibrated=False)
        object.__setattr__(self, "measurements", tuple(measurements))
        object.__setattr__(self, "between", tuple(between))

    @property
    def layout(self) -> Layout:
        """The axes of the record."""
        states = self.states
        return Layout(
            conditions=(CONDITION,),
            layers=states.layers,
            measurements=tuple(self.measurements or ()),
            between=tuple(self.between or ()),
            titles=states.titles,
            tokens=states.tokens,
            depth=states.layers[-1],
            width=int(states.states.shape[-1]),
            heads=0,
            residual=UNKNOWN,
            resolution=float(torch.finfo(states.states.dtype).eps),
            plan=self.plan,
            seed=self.seed,
        )

    def run(self, path: str | Path, *, progress: Callable[[str, int, int], None] | None = None) -> Record:
        """Measure every document and write the record.

        Args:
            path: The new folder.
            progress: Told after every batch with a sentence, the documents done and the documents in all.

        Raises:
            ArgumentError: If the folder exists or cannot be written.
        """
        Record.require_new(path)
        layout, parts = self.layout, []
        setting = Setting(layout, cast("Decoder", None), CONDITION, {})  # no collector here asks for the decoder
        collectors = [kind(setting) for kind in _KINDS]
        for start in range(0, len(self.states), self.batch_size):
            batch = self.states.states[start : start + self.batch_size]
            parts.append(Part(0, start, self._measured(setting, collectors, batch, start)))
            if progress is not None:
                progress("captured states", start + len(batch), len(self.states))
        dataset = assembled(frame(layout, _KINDS), declared(layout, _KINDS).variables, parts)
        return Record.write(path, self.choices(), self._origin(), dataset)

    def _measured(
        self, setting: Setting, collectors: Sequence[Collector], batch: torch.Tensor, start: int
    ) -> dict[str, np.ndarray]:
        reader = TapReader(setting, collectors, self.states.titles[start:])
        for collector in collectors:
            collector.begin(len(batch))
        with torch.inference_mode():
            for index, layer in enumerate(self.states.layers):
                reader(Tap(layer), batch[:, index].contiguous(), None)
        nothing = torch.empty(0)
        for collector in collectors:
            collector.finish(nothing, nothing)  # none of these looks at the final states or the ids
        found: dict[str, np.ndarray] = {}
        for collector in collectors:
            found |= collector.arrays
            collector.arrays = {}
        return found

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        measurements, between = self.measurements or (), self.between or ()
        prepared = [*(one.preparation for one in measurements), *(one.preparation for one in between)]
        used = {step for one in prepared for step in one.steps}
        return {
            "kind": "captured states",
            "states": self.states.source,
            "absent": ABSENT,
            "conditions": [CONDITION],
            "layers": list(self.states.layers),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "dtype": str(self.states.states.dtype).removeprefix("torch."),
            "measurements": [str(one) for one in measurements],
            "measurements_between_layers": [str(one) for one in between],
            "preparation_steps": {step: words for step, words in STEPS.items() if step in used},
            "documents": {"source": self.states.source, "rule": self.states.rule, "count": len(self.states)},
            "plan": self.plan.choices(),
        }

    def _origin(self) -> dict[str, Any]:
        states = self.states
        dtype = str(states.states.dtype).removeprefix("torch.")
        told = f"States were captured elsewhere, so nothing could be proved of them. Absent: {ABSENT}."
        last = "Whether the last layer is the stream after its block or the output of the final norm is not known."
        documents = {
            "source": states.source,
            "rule": states.rule,
            "documents": len(states),
            "tokens": states.tokens,
            "titles": list(states.titles),
            "skipped": [{"title": title, "reason": reason} for title, reason in states.skipped],
            "start_token": "not known",
            "token_hash": None,
            "states_hash": states.digest,
        }
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "decoder": {
                "name": "a decoder that is not at hand",
                "source": states.source,
                "layers": states.layers[-1],
                "width": int(states.states.shape[-1]),
                "dtype": dtype,
                "notes": [told, last],
            },
            "promises": [],
            "conditions": [
                {
                    "name": CONDITION,
                    "label": "captured elsewhere",
                    "changed": [],
                    "unchanged": 0,
                    "spreads": {},
                    "sentence": "nothing can be proved of states without their decoder",
                    "token_hash": None,
                }
            ],
            "documents": documents,
            "calibration": {"titles": [], "token_hash": None, "rogue_coordinates": {}},
            "rounding": "not measured: states come without their decoder",
        }
