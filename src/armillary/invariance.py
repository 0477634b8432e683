"""What may be claimed of a measurement: changes of basis with a seed, and each number before and after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Measurement

__all__ = ["DiagonalGain", "GeneralLinear", "Orthogonal", "Transformation", "values_after"]


class Transformation(Protocol):
    """A change of basis x -> x M of every row; `str` names it."""

    def matrix(self, dim: int) -> Tensor:
        """M, `dim dim`, float64; a diagonal M may come as its diagonal, `dim`."""
        ...


@dataclass(frozen=True)
class Orthogonal:
    """A rotation or reflection drawn from the uniform (Haar) law: it keeps every inner product.

    Args:
        seed: Seed of a generator of its own.
    """

    seed: int

    def matrix(self, dim: int) -> Tensor:
        """Q of the QR decomposition of a Gaussian matrix, signs fixed; `dim dim` (Stewart 1980)."""
        generator = torch.Generator().manual_seed(self.seed)
        q, r = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
        return q * r.diagonal().sign()

    def __str__(self) -> str:
        return "orthogonal"


@dataclass(frozen=True)
class GeneralLinear:
    """An invertible map with a stated condition number: U diag(k^t) V, t evenly spaced over [0, 1].

    Args:
        condition_number: Ratio k > 1 of its largest to its smallest singular value.
        seed: Seed of a generator of its own.

    Raises:
        ArgumentError: If the condition number is below one or not finite.
    """

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
        stretch = torch.logspace(0, 1, dim, base=self.condition_number, dtype=torch.float64)
        left, right = Orthogonal(self.seed).matrix(dim), Orthogonal(self.seed + 1).matrix(dim)
        return (left * stretch) @ right

    def __str__(self) -> str:
        return f"general linear, k={self.condition_number:g}"


@dataclass(frozen=True, eq=False)
class DiagonalGain:
    """Each coordinate times a gain, as the next norm does: a metric that the architecture itself admits.

    Args:
        gain: The gains, `dim`.
        name: What to call it.
    """

    gain: Tensor
    name: str = "gain of the next norm"

    def matrix(self, dim: int) -> Tensor:
        """The diagonal of diag(gain); `dim`."""
        if self.gain.shape != (dim,):
            raise ArgumentError(
                f"Argument `gain` must have shape ({dim},), but it has {tuple(self.gain.shape)}. "
                "Take the gain of the norm that reads this stream."
            )
        return self.gain.detach().cpu().double()

    def __str__(self) -> str:
        return self.name


def values_after(cloud: Cloud, matrix: Tensor, measurements: Sequence[Measurement]) -> list[Tensor]:
    """Each measurement of the rows multiplied by `matrix`.

    Args:
        cloud: Rows as given.
        matrix: M, `dim dim`, or the diagonal of a diagonal M, `dim`.
        measurements: What to measure.

    Returns:
        One tensor `*batch` for each measurement, in float64.
    """
    rows = cloud.rows.double()
    mapped = Cloud(
        rows * matrix if matrix.ndim == 1 else rows @ matrix,
        calibration=None if cloud.calibration is None else cloud.calibration.mapped(matrix),
    )
    mapped.resolution = cloud.resolution
    values = [measurement.of(mapped) for measurement in measurements]
    mapped.forget()
    return values
