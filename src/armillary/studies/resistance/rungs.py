"""A rung of the ladder: a model that documents pass through, the neighbor it differs from, and whether it applies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.circuits import IdentityScores
from armillary.dynamics.flow import flow
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import on_sphere
from armillary.errors import ArgumentError, ArmillaryError
from armillary.models.anatomy import Decoder, DecoderFacts
from armillary.models.capture import Sink, Tap, capture, stream
from armillary.models.conditions import Ablated, Condition
from armillary.models.decoder import load_decoder
from armillary.models.matrices import without_plain_form, without_plain_mlp
from armillary.studies.resistance.climbing import CalibratedStep, EqualStep, PacedStep, climb
from armillary.studies.resistance.sources import TRAINED, Sources
from armillary.studies.resistance.sublayers import Sublayers, attention_drift, mlp_drift
from armillary.terms import CALIBRATED

__all__ = ["IDENTITY", "NONE", "Idealized", "Matrices", "Pass", "Pace", "Real", "Rung", "Saved", "Shuffled", "Workshop"]

IDENTITY, NONE = "identity", "none"
UNIT_LAYER = 1.0
"""The step of a residual layer that adds its update unscaled: time ln 2 of the flow."""

Pass = Callable[[Tensor, Sink], Any]
"""Called as pass(ids, sink): one chunk of documents through the rung; the sink hears every tap in order."""


@dataclass(frozen=True)
class Pace:
    """How far the decoder's own sublayers move its tokens, mean over tokens without the first, one number a block.

    Args:
        attention_angle: Radians.
        mlp_angle: Radians.
        attention_ratio: Length of attention's update over the length of the stream.
    """

    attention_angle: tuple[float, ...]
    mlp_angle: tuple[float, ...]
    attention_ratio: tuple[float, ...]


@dataclass(eq=False)
class Workshop:
    """What all rungs share: the decoder, its matrices and others', and the pace of its own sublayers.

    Args:
        decoder: The decoder.
        sources: Matrices by source.
        pace: None until the decoder itself was measured.
        steps: Of each paced rung that was calibrated, as `Matrices.calibrated` found them.
        tolerance: Relative tolerance of the idealized flow.
    """

    decoder: Decoder
    sources: Sources
    tolerance: float
    pace: Pace | None = None
    steps: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    _starts: dict[tuple[str, bytes], Tensor] = field(default_factory=dict)

    @property
    def measured_pace(self) -> Pace:
        """The pace, once it is known."""
        if self.pace is None:
            raise ArgumentError("Argument `pace` must be measured before a rung follows it. Measure the decoder first.")
        return self.pace

    def start(self, ids: Tensor, *, positions: str = "own") -> Tensor:
        """Layer 0 of the documents, `documents tokens dim`; without learned positions if they are to be left out."""
        moved = "none" if positions == "none" and self.decoder.family.position_embedding is not None else "own"
        key = (moved, ids.cpu().numpy().tobytes())
        if key not in self._starts:
            if moved == "none":
                with Ablated("positions").applied(self.decoder) as applied:
                    self._starts[key] = _embedded(applied.decoder, ids)
            else:
                self._starts[key] = _embedded(self.decoder, ids)
        return self._starts[key]


class Rung(Protocol):
    """What every rung says of itself and can do."""

    @property
    def name(self) -> str:
        """Its label in a record."""

    @property
    def label(self) -> str:
        """It in words."""

    @property
    def level(self) -> int:
        """1 idealization, 2 attention matrices, 3 with MLPs, 4 the decoder, 5 its checkpoints."""

    @property
    def neighbor(self) -> str:
        """The rung from which it differs in one thing; empty for none."""

    @property
    def change(self) -> str:
        """That thing, in words."""

    def lacks(self, decoder: Decoder) -> str:
        """Why it does not apply to a decoder; empty where it does."""

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""

    def opened(self, workshop: Workshop) -> Any:
        """A context in which documents can pass; yields a `Pass` and a sentence that says what it is."""


@dataclass(frozen=True, kw_only=True)
class Idealized:
    """The decoder's embedding directions under the idealized flow with identity matrices, in continuous time.

    Args:
        beta: Inverse temperature.
        mask: "full" or "causal".
        clock: "unit": a block is the time ln 2, that of a residual layer of step 1; "ratio": a block is the time
            |update| / |stream| that the decoder's own attention takes there.
        words: What beta is, in words, or nothing.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    beta: float
    mask: str
    clock: str
    words: str = ""
    neighbor: str = ""
    change: str = ""
    level: int = 1

    @property
    def name(self) -> str:
        """Its label in a record."""
        return f"idealized-beta{self.beta:.4g}-{self.mask}-{self.clock}"

    @property
    def label(self) -> str:
        """It in words."""
        known = f" ({self.words})" if self.words else ""
        clock = "ln 2 a block" if self.clock == "unit" else "measured ratio a block"
        return f"identity Q, K, V on the sphere, beta {self.beta:.4g}{known}, {self.mask} mask, time {clock}"

    def lacks(self, decoder: Decoder) -> str:
        """Nothing: it needs the embedding only; the measured ratio needs a stream that attention alone has moved."""
        if self.clock == "ratio" and decoder.family.residual == "parallel":
            return "attention and MLP read one stream side by side, so attention's own ratio cannot be measured"
        return ""

    def times(self, workshop: Workshop) -> tuple[float, ...]:
        """The time of the flow at every layer, from 0."""
        layers = workshop.decoder.facts.layers
        if self.clock == "unit":
            steps: tuple[float, ...] = (math.log1p(UNIT_LAYER),) * layers
        else:
            steps = workshop.measured_pace.attention_ratio
        return (0.0, *accumulate(steps))

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass by flowing from time to time."""
        times = self.times(workshop)
        mask = Full() if self.mask == "full" else Causal()
        field = on_sphere(AttentionDrift(Softmax(self.beta), mask=mask))

        def through(ids: Tensor, sink: Sink) -> None:
            rows = _unit(workshop.start(ids).double().cpu())
            reduced, frame = _reduced(rows)
            apart = sorted(set(times))  # a sublayer that does nothing takes no time
            states = reduced[:, None]
            if len(apart) > 1:
                tsit5 = Tsit5(rtol=workshop.tolerance)
                states = flow(field, reduced, until=apart[-1], integrator=tsit5, keep=apart).states
            for layer, time in enumerate(times):
                state = states[:, apart.index(time)] @ frame
                sink(Tap(layer), state, state)

        said = f"times {times[1]:.4g} to {times[-1]:.4g}; {field}; Tsit5, rtol {workshop.tolerance:g}"
        yield through, f"{self.label}; {said}"

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"beta": self.beta, "mask": self.mask, "clock": self.clock}


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
            start = _unit(workshop.start(ids, positions=self.positions))
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
        start = torch.cat([_unit(workshop.start(ids, positions=self.positions)) for ids in batches])
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


@dataclass(frozen=True, kw_only=True)
class Real:
    """The decoder itself, in one of its conditions.

    Args:
        condition: As loaded, fresh, or with a part removed.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    condition: Condition
    neighbor: str = ""
    change: str = ""
    level: int = 4

    @property
    def name(self) -> str:
        """That of the condition."""
        return self.condition.name

    @property
    def label(self) -> str:
        """That of the condition."""
        return f"the decoder, {self.condition.label}"

    def lacks(self, decoder: Decoder) -> str:
        """What the condition itself refuses."""
        try:
            self.condition.check_fits(decoder)
        except ArmillaryError as error:
            return str(error)
        return ""

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass through the decoder."""
        with self.condition.applied(workshop.decoder) as applied:

            def through(ids: Tensor, sink: Sink) -> None:
                with stream(applied.decoder, sink):
                    applied.decoder.hidden(ids)

            yield through, applied.proof.sentence

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"condition": self.condition.name}


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Another decoder of the same shape, read from a folder: a checkpoint, at step 0 for instance.

    Here, and nowhere else, trained minus initial is exact: both are states of one decoder.

    Args:
        source: Folder of the checkpoint.
        name: Its label in a record.
        label: It in words.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    source: str
    name: str
    label: str
    neighbor: str = "trained"
    change: str = "the checkpoint"
    level: int = 5

    def lacks(self, decoder: Decoder) -> str:
        """Nothing, before it is read."""
        return ""

    @cached_property
    def facts(self) -> DecoderFacts:
        """Those of the decoder in the folder.

        Raises:
            ArgumentError: There is no decoder there.
        """
        if not (Path(self.source) / "config.json").is_file():
            raise ArgumentError(
                f"Argument `checkpoints` must be folders with a config.json and weights, but {self.source} holds no "
                "config.json. Name a folder that `armillary train` keeps checkpoints in."
            )
        return load_decoder(self.source, device="cpu", prove=False).facts

    def require_shape(self, decoder: Decoder) -> None:
        """See that the folder holds a decoder of the same shape, before anything is measured.

        Raises:
            ArgumentError: It has another number of blocks, another width or another vocabulary, or is not there.
        """
        for fact in ("layers", "width", "heads", "vocabulary"):
            if getattr(self.facts, fact) != getattr(decoder.facts, fact):
                raise ArgumentError(
                    f"Argument `checkpoints` must hold decoders of the same {fact}, {getattr(decoder.facts, fact)}, "
                    f"but that of {self.source} is {getattr(self.facts, fact)}. Name checkpoints of the same decoder."
                )

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass through the decoder of the folder."""
        own = workshop.decoder
        other = load_decoder(
            self.source, tokenizer=own.tokenizer, device=str(own.device), dtype=own.facts.dtype, prove=True
        )

        def through(ids: Tensor, sink: Sink) -> None:
            with stream(other, sink):
                other.hidden(ids)

        yield through, f"weights of {self.source}, hash {other.facts.weight_hash[:12]}"

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it: the folder and the hash of its weights."""
        return {"source": self.source, "weight_hash": self.facts.weight_hash}


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """The decoder as loaded on the same tokens in another order: a null model of what order does.

    Args:
        seed: Of the order, which is another for each document.
    """

    seed: int
    name: str = "shuffled"
    label: str = "the decoder, trained, tokens of each document in random order"
    level: int = 4
    neighbor: str = "trained"
    change: str = "order of the tokens"

    def lacks(self, decoder: Decoder) -> str:
        """Nothing."""
        return ""

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass with their tokens in an order that depends on the tokens and the seed alone."""

        def through(ids: Tensor, sink: Sink) -> None:
            with stream(workshop.decoder, sink):
                workshop.decoder.hidden(torch.stack([self._mixed(row) for row in ids]))

        yield through, f"every document's tokens in random order, seed {self.seed}; weights as loaded"

    def _mixed(self, row: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + int(row.sum()))
        return row[torch.randperm(len(row), generator=draw)]

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"seed": self.seed}


def _embedded(decoder: Decoder, ids: Tensor) -> Tensor:
    """Layer 0."""
    return capture(decoder, ids, (Tap(0),), batch_size=len(ids)).states[:, 0].to(decoder.device)


def _in_parts(drift: Callable[[Tensor], Tensor] | None, sizes: Sequence[int]) -> Callable[[Tensor], Tensor] | None:
    """The same function of rows, taken of so many documents after the other."""
    return None if drift is None else lambda rows: torch.cat([drift(part) for part in rows.split(list(sizes))])


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)


def _reduced(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Unit rows in the coordinates of their own span, and the frame that leads back: rows = reduced @ frame.

    Identity dynamics commute with rotations, so fewer tokens than dimensions need as many coordinates as tokens only.
    """
    tokens, dim = rows.shape[-2:]
    if tokens >= dim:
        return rows, torch.eye(dim, dtype=rows.dtype).expand(*rows.shape[:-2], dim, dim)
    frame, triangle = torch.linalg.qr(rows.mT)
    return _unit(triangle.mT), frame.mT
