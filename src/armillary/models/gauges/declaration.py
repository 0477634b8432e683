"""What a gauge is: a map of a decoder's weights that leaves its function unchanged, with its refusals and its reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from armillary.models.gauges.wiring import Wiring
from armillary.transformations.declaration import Transformation

__all__ = ["PLACES", "Gauge", "Reach"]

PLACES = {
    "stream": "the residual stream after a block",
    "read": "what the attention of the next block reads: the stream after its norm",
    "query": "the queries of each head before positions turn them",
    "key": "the keys of each key-value head before positions turn them",
    "value": "the values of each key-value head",
    "neuron": "what the last projection of the MLP reads",
    "attention": "the attention map of each head, by the index of the head",
}
"""Where numbers are taken before and after a gauge."""


@dataclass(frozen=True)
class Reach:
    """What a gauge does to the rows at one place.

    Args:
        words: in words.
        kinds: transformations of the rows it comes to, one after the other, each standing for its kind; none where no
            kind is known.
        undone_by: a preparation step that takes it away.
        heads_only: whether it gives heads another order and does nothing else.
    """

    words: str
    kinds: tuple[Transformation, ...] = ()
    undone_by: str | None = None
    heads_only: bool = False


class Gauge:
    """A re-parametrization: other weights, the same next-token probabilities.

    Subclasses are frozen dataclasses of their choices. What each class says of itself is a claim: `Decoder.under`
    applies it to a copy and compares the outputs, so that a gauge that is no gauge is refused with the difference.

    Attributes:
        name: short, as on the command line.
        compared: what must not move: "logits", or "log-probabilities" where all logits of a token move together.
        reach: place -> what it does to the rows there; a place that is not listed does not move.
        control: for a map that is wrong on purpose, what it forgets; empty for a gauge.
    """

    name: ClassVar[str]
    compared: ClassVar[Literal["logits", "log-probabilities"]] = "logits"
    reach: ClassVar[Mapping[str, Reach]] = {}
    control: ClassVar[str] = ""

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> Gauge:
        """The gauge with the laboratory's own choices.

        Args:
            seed: of its draws, where it draws.
            condition_number: of its general maps, where it has any.
        """
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The gauge with its choices, in words."""
        raise NotImplementedError

    def refusal(self, wiring: Wiring) -> str | None:
        """Why this decoder does not admit the gauge, as the end of a sentence; None if it does."""
        return None

    def needs_own_head(self, wiring: Wiring) -> bool:
        """Whether the unembedding must be a tensor of its own, so that a tied one is copied first."""
        return False

    def apply(self, wiring: Wiring) -> None:
        """Change the weights behind a wiring; they are those of a copy in float64."""
        raise NotImplementedError
