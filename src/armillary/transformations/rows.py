"""What is done to rows as they stand: scaled together or one by one, put in another order, moved, centered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from armillary.shapes import Configuration
from armillary.transformations.declaration import Row, Transformation, drawn_order, require_positive

__all__ = ["Centering", "GlobalScale", "RowScale", "Shift", "TokenPermutation", "Translation"]


@dataclass(frozen=True)
class GlobalScale:
    """Every row times one positive factor.

    Args:
        factor: Positive and finite.

    Raises:
        ArgumentError: If it is not.
    """

    group: ClassVar[str] = "positive numbers"
    factor: float

    def __post_init__(self) -> None:
        require_positive("factor", self.factor)

    def of(self, rows: Configuration) -> Configuration:
        """The rows times the factor."""
        return rows * self.factor

    def inverse(self, rows: Configuration) -> Transformation:
        """The reciprocal factor."""
        return GlobalScale(1.0 / self.factor)

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row times the factor."""
        return row * self.factor

    def __str__(self) -> str:
        return "global scale"


@dataclass(frozen=True)
class RowScale:
    """Every row times a positive factor of its own, e^{spread z} with z normal; the same factors in every document.

    Args:
        spread: Standard deviation of the logarithm of the factors; a negative one divides by what a positive one
            multiplies with.
        seed: Seed of a generator of its own.

    Raises:
        ArgumentError: If the spread is zero or not finite.
    """

    group: ClassVar[str] = "positive numbers, one for each row"
    spread: float
    seed: int

    def __post_init__(self) -> None:
        require_positive("spread", abs(self.spread))

    def factors(self, tokens: int) -> Tensor:
        """One for each row, `tokens`, float64."""
        normal = torch.randn(tokens, generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64)
        return torch.exp(self.spread * normal)

    def of(self, rows: Configuration) -> Configuration:
        """Each row times its factor."""
        return rows * self.factors(rows.shape[-2]).to(rows)[:, None]

    def inverse(self, rows: Configuration) -> Transformation:
        """The reciprocal factors."""
        return RowScale(-self.spread, self.seed)

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row as it is: the factors belong to tokens of these documents."""
        return row

    def __str__(self) -> str:
        return "row scale"


@dataclass(frozen=True)
class TokenPermutation:
    """The rows in another order, drawn uniformly; the same order in every document.

    Args:
        seed: Seed of a generator of its own.
        undone: Whether the order is the one that undoes it.
    """

    group: ClassVar[str] = "S_T on tokens"
    seed: int
    undone: Literal["no", "yes"] = "no"

    def order(self, tokens: int) -> Tensor:
        """Row i after the map is row `order[i]` before it; `tokens`."""
        order = drawn_order(self.seed, tokens)
        return order if self.undone == "no" else order.argsort()

    def of(self, rows: Configuration) -> Configuration:
        """The same rows at other places."""
        return rows[..., self.order(rows.shape[-2]).to(rows.device), :]

    def inverse(self, rows: Configuration) -> Transformation:
        """The order that undoes it."""
        return TokenPermutation(self.seed, "yes" if self.undone == "no" else "no")

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row as it is."""
        return row

    def __str__(self) -> str:
        return "permutation of tokens"


@dataclass(frozen=True, eq=False)
class Shift:
    """One given vector added to every row.

    Args:
        vector: `dim`, or one for each configuration, `*batch dim`.
    """

    group: ClassVar[str] = "R^d under addition"
    vector: Row

    def of(self, rows: Configuration) -> Configuration:
        """Every row plus the vector."""
        return rows + self.vector.to(rows)[..., None, :]

    def inverse(self, rows: Configuration) -> Transformation:
        """Minus the vector."""
        return Shift(-self.vector)

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row plus the vector."""
        return row + self.vector.to(row)

    def __str__(self) -> str:
        return "translation by a vector"


@dataclass(frozen=True)
class Translation:
    """One vector added to every row: a drawn direction, as long as `length` root mean squared rows.

    Args:
        length: In units of the root mean squared norm of a configuration's rows; not zero.
        seed: Seed of a generator of its own, for the direction.

    Raises:
        ArgumentError: If the length is not positive and finite.
    """

    group: ClassVar[str] = "R^d under addition"
    length: float
    seed: int

    def __post_init__(self) -> None:
        require_positive("length", self.length)

    def vector(self, rows: Configuration) -> Row:
        """What is added, one vector for each configuration, `*batch dim`."""
        normal = torch.randn(rows.shape[-1], generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64)
        size = rows.square().sum(-1).mean(-1).sqrt()
        return self.length * size[..., None] * (normal / normal.norm()).to(rows)

    def of(self, rows: Configuration) -> Configuration:
        """Every row plus the vector."""
        return rows + self.vector(rows)[..., None, :]

    def inverse(self, rows: Configuration) -> Transformation:
        """Minus the vector."""
        return Shift(-self.vector(rows))

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row plus the vector."""
        return row + self.vector(rows)

    def __str__(self) -> str:
        return "translation"


@dataclass(frozen=True)
class Centering:
    """The mean over tokens subtracted from every row: for each configuration the translation by minus its mean."""

    group: ClassVar[str] = "a projection: no group; within the translations for each configuration"

    def of(self, rows: Configuration) -> Configuration:
        """Every row less the mean."""
        return rows - rows.mean(dim=-2, keepdim=True)

    def inverse(self, rows: Configuration) -> Transformation:
        """The mean added again: it is known only from the rows before."""
        return Shift(rows.mean(dim=-2))

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row less the mean of these rows."""
        return row - rows.mean(dim=-2)

    def __str__(self) -> str:
        return "centering"
