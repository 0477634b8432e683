"""One vector added to every row of the unembedding: all logits of a token move together, probabilities do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge
from armillary.models.gauges.draws import generator_of
from armillary.models.gauges.wiring import Wiring

__all__ = ["UnembeddingShift"]


@dataclass(frozen=True)
class UnembeddingShift(Gauge):
    """A random vector added to all rows of the unembedding.

    Formula: (u_t + v) . y = u_t . y + v . y, one number for all tokens t, which softmax takes out.

    Args:
        size: the vector's entries beside the root mean square entry of the unembedding.
        seed: of the draw.
    """

    size: float
    seed: int
    name: ClassVar[str] = "unembedding-shift"
    compared: ClassVar[Literal["logits", "log-probabilities"]] = "log-probabilities"

    def __post_init__(self) -> None:
        if not 0 < self.size < 1e6:
            raise ArgumentError(f"Argument `size` must lie in (0, 1e6), but it is {self.size}. Use for example 1.")

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> UnembeddingShift:
        """As large as the entries themselves."""
        return cls(1.0, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"random vector of size {self.size:g} added to all unembedding rows, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """A cap on the logits."""
        row, config = wiring.decoder.family, wiring.decoder.model.config
        cap = getattr(config, row.logit_cap, None) if row.logit_cap else None
        return None if cap is None else f"logits are capped at {cap:g}, which what they have in common would change"

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The embedding stays."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Add."""
        matrix = wiring.head.matrix
        noise = torch.randn(matrix.shape[1], generator=generator_of(self.seed), dtype=torch.float64).to(matrix)
        matrix.add_(self.size * matrix.square().mean().sqrt() * noise)
