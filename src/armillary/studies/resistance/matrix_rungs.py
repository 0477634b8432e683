"""The middle rungs: embedding directions through blocks on the sphere whose matrices are chosen one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.circuits import IdentityScores
from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.capture import Sink
from armillary.models.matrices import without_plain_form, without_plain_mlp
from armillary.studies.resistance.climbing import CalibratedStep, EqualStep, PacedStep, climb
from armillary.studies.resistance.rungs import Pass, Workshop, unit
from armillary.studies.resistance.sources import TRAINED
from armillary.studies.resistance.sublayers import Sublayers, attention_drift, mlp_drift
from armillary.terms import CALIBRATED

__all__ = ["IDENTITY", "NONE", "Matrices"]

IDENTITY, NONE = "identity", "none"


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """The decoder's embedding directions through blocks on the sphere whose matrices are chosen one by one.

    Args:
        name: Its label in a record.
        label: It in words.
        level: 2 for attention alone, 3 with an MLP.
        scores: "identity", or the source of queries and keys; "none" leaves attention out.
        values: "identity", or the source of values and outputs.
        mlp: "none", or the source of the MLPs.
        beta: Of identity scores.
        positions: "own" or "none".
        mask: "causal" or "full".
        reading: How sublayers read a direction, one of `READINGS`.
        step: "pace": as long as turns tokens by the decoder's own mean angle at each sublayer; "equal": one length.
        length: Of equal steps.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    name: str
    label: str
    level: int
    scores: str
    values: str
    mlp: str = NONE
    beta: float = 1.0
    positions: str = "own"
    mask: str = "causal"
    reading: str = "trained gains"
    step: str = "pace"
    length: float = 0.3
    neighbor: str = ""
    change: str = ""

    def lacks(self, decoder: Decoder) -> str:
        """Why the decoder's matrices have not the ladder's form."""
        reasons = list(without_plain_form(decoder))
        if self.mlp != NONE and (why := without_plain_mlp(decoder)):
            reasons.append(why)
        named = [one for one in (self.scores, self.values, self.mlp) if one.startswith("initial-released")]
        if named and decoder.facts.released_spread is None:
            reasons.append("the spread of the released configuration is not known (--spread 0.0417 would say it)")
        if any("initial-library" in one for one in (self.scores, self.values, self.mlp)):
            reasons += [] if decoder.facts.library_spread is not None else ["the library's spread is not known"]
        return "; ".join(reasons)

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass from block to block."""
        blocks = self._blocks(workshop)

        def through(ids: Tensor, sink: Sink) -> None:
            start = unit(workshop.start(ids, positions=self.positions))
            for tap, state in climb(start, blocks, self._step(workshop)):
                sink(tap, state, state)

        step = (
            "steps that turn tokens by the decoder's own mean angle at each sublayer"
            if self.step == "pace"
            else f"equal steps of length {self.length:g}"
        )
        said = (
            f"scores {self.scores}{f' (beta {self.beta:g})' if self.scores == IDENTITY else ''}, values {self.values}, "
            f"MLP {self.mlp}, positions {self.positions}, {self.mask} mask, {self.reading}, {step}"
        )
        yield through, said

    def calibrated(self, workshop: Workshop, batches: Sequence[Tensor]) -> dict[str, np.ndarray]:
        """Lengths of steps at which calibration documents turn by the decoder's own mean angles.

        Args:
            workshop: Which knows the pace.
            batches: Token ids of the calibration documents, `documents tokens` each.

        Returns:
            `step_length`, `angle_wanted` and `angle_realized`, `2 blocks`: attention's and the MLPs'; NaN for a
            sublayer that is left out.
        """
        pace, layers = workshop.measured_pace, workshop.decoder.facts.layers
        step = CalibratedStep(pace.attention_angle, pace.mlp_angle)
        start = torch.cat([unit(workshop.start(ids, positions=self.positions)) for ids in batches])
        for _ in climb(start, self._blocks(workshop, [len(ids) for ids in batches]), step):
            pass
        found = np.full((3, 2, layers), np.nan)
        for tap, three in step.found.items():
            found[:, int(tap.place == "block"), tap.layer - 1] = three
        return dict(zip(CALIBRATED, found, strict=True))

    def _step(self, workshop: Workshop) -> EqualStep | PacedStep:
        if self.step == "equal":
            return EqualStep(self.length)
        if self.name not in workshop.steps:
            raise ArgumentError(
                f"Argument `steps` must hold those of {self.name} before documents pass, but does not. Calibrate the "
                "rung first."
            )
        attention, mlp = workshop.steps[self.name]["step_length"].tolist()
        return PacedStep(tuple(attention), tuple(mlp))

    def _blocks(self, workshop: Workshop, sizes: Sequence[int] = ()) -> list[Callable[[], Sublayers]]:
        """What makes the sublayers of each block; with sizes they take that many documents at a time."""

        def made(at: int) -> Sublayers:
            attention, mlp = self._sublayers(workshop, at)
            return (_in_parts(attention, sizes), _in_parts(mlp, sizes)) if sizes else (attention, mlp)

        return [partial(made, at) for at in range(workshop.decoder.facts.layers)]

    def _sublayers(self, workshop: Workshop, at: int) -> Sublayers:
        own = workshop.sources(TRAINED).blocks[at]
        attention = None
        if self.scores != NONE:
            scores = IdentityScores(self.beta) if self.scores == IDENTITY else workshop.sources(self.scores)
            values = None if self.values == IDENTITY else workshop.sources(self.values).blocks[at].attention
            attention = attention_drift(
                own, scores=scores, values=values, at=at, reading=self.reading, positions=self.positions,
                mask=self.mask,
            )  # fmt: skip
        if self.mlp == NONE:
            return attention, None
        function = workshop.sources(self.mlp).blocks[at].mlp
        if function is None:
            raise ArgumentError(
                f"Argument `decoder` must have MLPs that are one function of a row, but that of block {at + 1} is "
                "none. Leave the rungs with MLPs out."
            )
        return attention, mlp_drift(own, function, reading=self.reading)

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        names = ("scores", "values", "mlp", "beta", "positions", "mask", "reading", "step", "length")
        return {name: getattr(self, name) for name in names if name != "length" or self.step == "equal"}


def _in_parts(drift: Callable[[Tensor], Tensor] | None, sizes: Sequence[int]) -> Callable[[Tensor], Tensor] | None:
    """The same function of rows, taken of so many documents after the other."""
    return None if drift is None else lambda rows: torch.cat([drift(part) for part in rows.split(list(sizes))])
