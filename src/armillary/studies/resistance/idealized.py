"""The lowest rungs: embedding directions under the idealized flow with identity matrices, in continuous time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.flow import flow
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import on_sphere
from armillary.models.anatomy import Decoder
from armillary.models.capture import Sink, Tap
from armillary.studies.resistance.rungs import Pass, Workshop, unit

__all__ = ["Idealized"]

UNIT_LAYER = 1.0
"""The step of a residual layer that adds its update unscaled: time ln 2 of the flow."""


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
            rows = unit(workshop.start(ids).double().cpu())
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


def _reduced(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Unit rows in the coordinates of their own span, and the frame that leads back: rows = reduced @ frame.

    Identity dynamics commute with rotations, so fewer tokens than dimensions need as many coordinates as tokens only.
    """
    tokens, dim = rows.shape[-2:]
    if tokens >= dim:
        return rows, torch.eye(dim, dtype=rows.dtype).expand(*rows.shape[:-2], dim, dim)
    frame, triangle = torch.linalg.qr(rows.mT)
    return unit(triangle.mT), frame.mT
