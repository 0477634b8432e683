"""A rung of the ladder: a model that documents pass through, the neighbor it differs from, and whether it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.capture import Sink, Tap, capture
from armillary.models.conditions import Ablated
from armillary.studies.resistance.sources import Sources

__all__ = ["Pace", "Pass", "Rung", "Workshop", "unit"]

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


def unit(rows: Tensor) -> Tensor:
    """Rows of length one, `*batch tokens dim`.

    Args:
        rows: None of them zero.
    """
    return rows / rows.norm(dim=-1, keepdim=True)


def _embedded(decoder: Decoder, ids: Tensor) -> Tensor:
    """Layer 0."""
    return capture(decoder, ids, (Tap(0),), batch_size=len(ids)).states[:, 0].to(decoder.device)
