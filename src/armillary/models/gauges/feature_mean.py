"""The mean over the coordinates of the stream, which no LayerNorm reads: taken out of all that writes it, or put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import generator_of
from armillary.models.gauges.wiring import Wiring

__all__ = ["AddFeatureMean", "RemoveFeatureMean", "read_by_layer_norms_only"]


@dataclass(frozen=True)
class RemoveFeatureMean(Gauge):
    """The per-token mean over coordinates removed from everything that writes the stream.

    Formula: x -> x - mean(x) 1 for each row that an embedding or an output projection writes. A LayerNorm takes that
    mean out before it does anything else.
    """

    name: ClassVar[str] = "remove-feature-mean"
    reach: ClassVar[dict[str, Reach]] = {
        "stream": Reach("the mean of its own coordinates taken out of each row", undone_by="remove feature mean")
    }

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> RemoveFeatureMean:
        """There is nothing to choose."""
        return cls()

    @property
    def label(self) -> str:
        """In words."""
        return "mean over coordinates removed from all that writes the stream"

    def refusal(self, wiring: Wiring) -> str | None:
        """A norm that reads the mean."""
        return read_by_layer_norms_only(wiring)

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The unembedding reads what the final norm writes, whose mean counts."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Center every written row over its coordinates."""
        for writer in wiring.writers:
            writer.map_outputs(lambda rows: rows - rows.mean(-1, keepdim=True))


@dataclass(frozen=True)
class AddFeatureMean(Gauge):
    """A random mean over coordinates added to everything that writes the stream: the inverse of removing it.

    Formula: each embedding vector, each column of an output projection and each of its biases has one number, normal
    with `size` times the root mean square entry of its tensor, added to all of its coordinates.

    Args:
        size: of the numbers added.
        seed: of the draw.
    """

    size: float
    seed: int
    name: ClassVar[str] = "add-feature-mean"
    reach: ClassVar[dict[str, Reach]] = {
        "stream": Reach("one number added to all coordinates of each row", undone_by="remove feature mean")
    }

    def __post_init__(self) -> None:
        if not 0 < self.size < 1e6:
            raise ArgumentError(f"Argument `size` must lie in (0, 1e6), but it is {self.size}. Use for example 1.")

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> AddFeatureMean:
        """As large as the entries themselves."""
        return cls(1.0, seed)

    @property
    def label(self) -> str:
        """In words."""
        return (
            f"random mean over coordinates of size {self.size:g} added to all that writes the stream, seed {self.seed}"
        )

    def refusal(self, wiring: Wiring) -> str | None:
        """A norm that reads the mean."""
        return read_by_layer_norms_only(wiring)

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The unembedding reads what the final norm writes, whose mean counts."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Add."""
        generator = generator_of(self.seed)

        def raised(rows: Tensor) -> Tensor:
            noise = torch.randn(*rows.shape[:-1], 1, generator=generator, dtype=torch.float64).to(rows.device)
            return rows + self.size * rows.square().mean().sqrt() * noise

        for writer in wiring.writers:
            writer.map_outputs(raised)


def read_by_layer_norms_only(wiring: Wiring) -> str | None:
    """Why the mean over coordinates is read by somebody; None where nobody reads it."""
    row = wiring.decoder.family
    if row.norm != "LayerNorm":
        return "an RMS norm reads the mean over the coordinates"
    if row.attention_norm is None:
        return "a sublayer reads the stream itself, without a norm"
    return None
