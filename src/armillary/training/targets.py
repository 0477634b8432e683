"""Overlap distributions to aim at: an isotropic cloud, k groups, a ring; each known by its exponential averages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from armillary.errors import ArgumentError
from armillary.oracles.sampling import expected_kernel

__all__ = ["GroupsTarget", "IsotropicTarget", "RingTarget", "Target"]


class Target(Protocol):
    """A distribution of overlaps, given by log E e^{beta (c - 1)} at any beta, over pairs of different tokens."""

    def log_mean_exp(self, beta: float, *, tokens: float, dim: int) -> float:
        """The logarithm of the mean of e^{beta (c - 1)}.

        Args:
            beta: Any finite number.
            tokens: How many rows there are.
            dim: In how many coordinates.
        """


@dataclass(frozen=True)
class IsotropicTarget:
    """Independent uniform directions: log 0F1(; d/2; beta^2 / 4) - beta."""

    def log_mean_exp(self, beta: float, *, tokens: float, dim: int) -> float:
        """See `Target`."""
        return expected_kernel(beta, dim=dim) - beta


@dataclass(frozen=True)
class GroupsTarget:
    """k groups of equal size: overlap 1 within, and one overlap across.

    Attributes:
        count: k, at least 2.
        across: "orthogonal": overlap 0; "simplex": the most distant k directions, -1 / (k - 1).
    """

    count: int
    across: Literal["orthogonal", "simplex"]

    def __post_init__(self) -> None:
        if self.count < 2 or self.across not in ("orthogonal", "simplex"):
            raise ArgumentError(
                "Arguments `count` and `across` must be at least 2, and 'orthogonal' or 'simplex', but they are "
                f"{self.count} and {self.across!r}. Write GroupsTarget(4, 'simplex')."
            )

    def log_mean_exp(self, beta: float, *, tokens: float, dim: int) -> float:
        """See `Target`; a pair is of one group with probability (T / k - 1) / (T - 1)."""
        if tokens < self.count:
            raise ArgumentError(
                f"Argument `count` must be at most the number of tokens, but {self.count} groups are asked of "
                f"{tokens:g}. Ask for fewer groups."
            )
        within = (tokens / self.count - 1) / (tokens - 1)
        overlap = 0.0 if self.across == "orthogonal" else -1 / (self.count - 1)
        return math.log(within + (1 - within) * math.exp(beta * (overlap - 1)))


@dataclass(frozen=True)
class RingTarget:
    """T directions evenly around a circle: overlaps cos(2 pi m / T)."""

    def log_mean_exp(self, beta: float, *, tokens: float, dim: int) -> float:
        """See `Target`."""
        others = np.cos(2 * np.pi * np.arange(1, round(tokens)) / round(tokens))
        return float(np.logaddexp.reduce(beta * (others - 1)) - math.log(len(others)))
