"""Changes of basis, x -> x M for every row: orthogonal, a permutation of features, diagonal, general, or given.

Whatever else is a row in these coordinates goes along: a mean row that was estimated on other documents, say. What is
drawn has a seed of its own, and is the same whenever it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsoundError
from armillary.shapes import Configuration
from armillary.transformations.declaration import Row, Transformation, drawn_order

__all__ = ["DiagonalGain", "FeaturePermutation", "GeneralLinear", "Linear", "Orthogonal", "largest_condition_number"]


class _Multiplied:
    """x -> x M, for `matrix(dim)`; a diagonal M comes as its diagonal."""

    group: ClassVar[str]

    def matrix(self, dim: int) -> Tensor:
        """M, `dim dim`, float64; a diagonal M may come as its diagonal, `dim`."""
        raise NotImplementedError

    def of(self, rows: Configuration) -> Configuration:
        """Every row times M."""
        matrix = self.matrix(rows.shape[-1]).to(rows)
        return rows * matrix if matrix.ndim == 1 else rows @ matrix

    def inverse(self, rows: Configuration) -> Transformation:
        """Every row times the inverse of M."""
        matrix = self.matrix(rows.shape[-1])
        return Linear(torch.linalg.inv(torch.diag(matrix) if matrix.ndim == 1 else matrix), name=f"inverse of {self}")

    def along(self, row: Row, rows: Configuration) -> Row:
        """The row times M."""
        matrix = self.matrix(rows.shape[-1]).to(row)
        return row * matrix if matrix.ndim == 1 else row @ matrix


@dataclass(frozen=True)
class Orthogonal(_Multiplied):
    """A rotation or reflection drawn from the uniform (Haar) law: it keeps every inner product.

    Args:
        seed: Seed of a generator of its own.
    """

    group: ClassVar[str] = "O(d), rotations and reflections"
    seed: int

    def matrix(self, dim: int) -> Tensor:
        """Q of the QR decomposition of a Gaussian matrix, signs fixed; `dim dim` (Stewart 1980)."""
        return _haar(self.seed, dim)

    def inverse(self, rows: Configuration) -> Transformation:
        """The transpose."""
        return Linear(self.matrix(rows.shape[-1]).mT, name=f"inverse of {self}")

    def __str__(self) -> str:
        return "orthogonal"


@dataclass(frozen=True)
class FeaturePermutation(_Multiplied):
    """The coordinates in another order, drawn uniformly.

    Args:
        seed: Seed of a generator of its own.
    """

    group: ClassVar[str] = "S_d on coordinates, within O(d)"
    seed: int

    def order(self, dim: int) -> Tensor:
        """Coordinate j after the map is coordinate `order[j]` before it; `dim`."""
        return drawn_order(self.seed, dim)

    def matrix(self, dim: int) -> Tensor:
        """A permutation matrix, `dim dim`."""
        return torch.eye(dim, dtype=torch.float64)[:, self.order(dim)]

    def of(self, rows: Configuration) -> Configuration:
        """The same numbers in other columns."""
        return rows[..., self.order(rows.shape[-1]).to(rows.device)]

    def inverse(self, rows: Configuration) -> Transformation:
        """The transpose."""
        return Linear(self.matrix(rows.shape[-1]).mT, name=f"inverse of {self}")

    def __str__(self) -> str:
        return "permutation of features"


@dataclass(frozen=True)
class GeneralLinear(_Multiplied):
    """An invertible map with a stated condition number: U diag(k^t) V, t evenly spaced over [0, 1].

    Args:
        condition_number: Ratio k >= 1 of its largest to its smallest singular value.
        seed: Seed of a generator of its own.

    Raises:
        ArgumentError: If the condition number is below one or not finite.
    """

    group: ClassVar[str] = "GL(d), invertible matrices"
    condition_number: float
    seed: int

    def __post_init__(self) -> None:
        if not 1.0 <= self.condition_number < float("inf"):
            raise ArgumentError(
                f"Argument `condition_number` must be finite and at least 1, but it is {self.condition_number}. "
                "Use for example 4."
            )

    def matrix(self, dim: int) -> Tensor:
        """M with the stated condition number; `dim dim`."""
        return _stretched(self.condition_number, self.seed, dim)

    def __str__(self) -> str:
        return f"general linear, k={self.condition_number:g}"


@dataclass(frozen=True, eq=False)
class Linear(_Multiplied):
    """An invertible matrix that is given.

    Args:
        given: M, `dim dim`.
        name: What to call it.

    Raises:
        ArgumentError: If the matrix is not square, not finite, or singular as far as its type can tell.
    """

    group: ClassVar[str] = "GL(d), invertible matrices"
    given: Tensor
    name: str = "given matrix"

    def __post_init__(self) -> None:
        if self.given.ndim != 2 or self.given.shape[0] != self.given.shape[1] or not len(self.given):
            raise ArgumentError(
                f"Argument `given` must be a square matrix, but it has shape {tuple(self.given.shape)}. Give one row "
                "and one column for each coordinate."
            )
        if not bool(torch.isfinite(self.given).all()):
            raise ArgumentError("Argument `given` must be finite, but an entry is not. Find out what made it so.")
        singular = torch.linalg.svdvals(self.given.double())
        smallest, largest = float(singular[-1]), float(singular[0])
        kind = self.given.dtype if self.given.is_floating_point() else torch.float64
        if smallest <= len(self.given) * torch.finfo(kind).eps * largest:
            raise ArgumentError(
                f"Argument `given` must be invertible, but its singular values lie between {smallest:.3g} and "
                f"{largest:.3g}, which is singular to the digits of {str(kind).removeprefix('torch.')}. Give a matrix "
                "with an inverse; what a projection does to a number is asked of the projected rows."
            )

    def matrix(self, dim: int) -> Tensor:
        """The matrix, `dim dim`."""
        if len(self.given) != dim:
            raise ArgumentError(
                f"Argument `given` must have one row for each of the {dim} coordinates, but it has {len(self.given)}. "
                "Give a matrix for this configuration."
            )
        return self.given.detach().cpu().double()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class DiagonalGain(_Multiplied):
    """Each coordinate times a gain, as the next norm does: a metric that the architecture itself admits.

    Args:
        gain: The gains, `dim`.
        name: What to call it.

    Raises:
        ArgumentError: If a gain is not finite.
    """

    group: ClassVar[str] = "diagonal matrices, one factor a coordinate"
    gain: Tensor
    name: str = "gain of the next norm"

    def __post_init__(self) -> None:
        if bool((strange := ~torch.isfinite(self.gain)).any()):
            place = int(strange.flatten().nonzero()[0])
            raise ArgumentError(
                f"Argument `gain` must be finite, but that of coordinate {place} is "
                f"{float(self.gain.flatten()[place])}. Find out what made it so."
            )

    def matrix(self, dim: int) -> Tensor:
        """The diagonal of diag(gain); `dim`."""
        if self.gain.shape != (dim,):
            raise ArgumentError(
                f"Argument `gain` must have shape ({dim},), but it has {tuple(self.gain.shape)}. "
                "Take the gain of the norm that reads this stream."
            )
        return self.gain.detach().cpu().double()

    def inverse(self, rows: Configuration) -> Transformation:
        """One over each gain.

        Raises:
            UnsoundError: If a gain is zero.
        """
        gain = self.matrix(rows.shape[-1])
        if not bool((gain != 0).all()):
            raise UnsoundError(
                f"Argument `gain` must have no zero to be undone, but coordinate {int((gain == 0).nonzero()[0])} is "
                "multiplied by zero. Leave that coordinate out."
            )
        return DiagonalGain(1.0 / gain, name=f"inverse of {self}")

    def __str__(self) -> str:
        return self.name


def largest_condition_number(dtype: torch.dtype) -> float:
    """The condition number from which on a map leaves nothing but rounding of what it stretches least: 1 / eps.

    Args:
        dtype: That of the states as they came.

    Returns:
        8.4e6 in single, 4.5e15 in double precision.
    """
    return 1.0 / torch.finfo(dtype).eps


@lru_cache(maxsize=8)
def _haar(seed: int, dim: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    q, r = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()


@lru_cache(maxsize=8)
def _stretched(condition_number: float, seed: int, dim: int) -> Tensor:
    stretch = torch.logspace(0, 1, dim, base=condition_number, dtype=torch.float64)
    return (_haar(seed, dim) * stretch) @ _haar(seed + 1, dim)
