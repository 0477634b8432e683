"""What a transformation is: a map of configurations that knows its group and what undoes it."""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.shapes import Configuration

__all__ = ["Row", "Transformation", "drawn_order", "require_positive"]

Row = Float[Tensor, "... dim"]
"""One row for all tokens, or one for each configuration."""


class Transformation(Protocol):
    """A map of configurations; `str` names it."""

    group: ClassVar[str]

    def of(self, rows: Configuration) -> Configuration:
        """The configuration after the map, in the dtype of `rows`, of the same shape."""
        ...

    def inverse(self, rows: Configuration) -> Transformation:
        """What takes the map of `rows` back to `rows`; it may depend on them only where the map did."""
        ...

    def along(self, row: Row, rows: Configuration) -> Row:
        """What becomes of a row that was estimated elsewhere in the coordinates of `rows`."""
        ...


def drawn_order(seed: int, count: int) -> Tensor:
    """A uniform order of `count` things, `count`."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def require_positive(name: str, value: float) -> None:
    """Refuse what is not positive and finite."""
    if not 0.0 < value < float("inf"):
        raise ArgumentError(f"Argument `{name}` must be positive and finite, but it is {value}. Use for example 2.")
