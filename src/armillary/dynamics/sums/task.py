"""What is summed over all pairs, and what every evaluator of such sums can be asked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Hardmax, Mask, RowRule, Softmax, Uniform, Unnormalized

__all__ = ["Evaluator", "PairSum"]


@dataclass(frozen=True, kw_only=True)
class PairSum:
    """A sum over all pairs: A_ij from overlaps of unit rows by a row rule under a mask, times the rows themselves.

    Attributes:
        tokens: How many rows T.
        dim: Their dimension d.
        rule: How overlaps become weights.
        mask: Who may be looked at.
        dtype: Of the rows.
        device: Where they lie, "cpu" or "cuda".
        gradient: Whether derivatives with respect to the rows are wanted.
        systems: How many independent configurations are summed at once.
        unit: Whether the rows are unit vectors.
    """

    tokens: int
    dim: int
    rule: RowRule
    mask: Mask = field(default_factory=Full)
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    gradient: bool = False
    systems: int = 1
    unit: bool = True

    @property
    def beta(self) -> float:
        """Inverse temperature: 0 for uniform weights, inf for hardmax."""
        if isinstance(self.rule, Softmax | Unnormalized):
            return self.rule.beta
        return 0.0 if isinstance(self.rule, Uniform) else math.inf

    @property
    def rounding(self) -> float:
        """Distance of 1 from the next number of the type."""
        return float(torch.finfo(self.dtype).eps)

    @property
    def scale(self) -> float:
        """Length that no pull exceeds: 1 for weights that sum to one."""
        plain = isinstance(self.rule, Unnormalized) and self.rule.clock == "plain"
        return math.exp(abs(self.beta)) if plain else 1.0

    @property
    def exponential(self) -> bool:
        """Whether the weights are exponentials of overlaps that differ from one another."""
        return not isinstance(self.rule, Hardmax | Uniform) and self.beta != 0


class Evaluator(ABC):
    """A way to evaluate a sum over all pairs.

    Errors are of the pull, whose rows have length at most 1 under softmax. `error` says how far the pull may be off:
    an absolute number; `relative` evaluators are off by no more than that share of each row's own pull as well, so
    that also the slow motion of tokens that are far from all others keeps its digits.

    Args:
        task: What is summed.
        accuracy: Largest absolute error of the pull that is asked for.
    """

    name: ClassVar[str]
    relative: ClassVar[bool] = False

    def __init__(self, task: PairSum, accuracy: float) -> None:
        self.task = task
        self.accuracy = accuracy

    @classmethod
    @abstractmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """What of the task the evaluator cannot do at any accuracy, in words; None if nothing."""

    @classmethod
    @abstractmethod
    def attainable(cls, task: PairSum) -> float:
        """The smallest error of the pull that the evaluator can promise for the task."""

    @property
    def error(self) -> float:
        """The largest error of the pull that is promised."""
        return type(self).attainable(self.task)

    @abstractmethod
    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The part along the sphere of the attention output, P_i sum_j A_ij x_j.

        Args:
            rows: Unit rows, `*batch tokens dim`.
            weights: How many tokens each row stands for, `*batch tokens`; None for one each.

        Returns:
            `*batch tokens dim`.
        """

    @abstractmethod
    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The attention output sum_j A_ij x_j, `*batch tokens dim`."""

    @abstractmethod
    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Logarithm of Z_i = sum over allowed j of w_j e^{beta x_i . x_j}, `*batch tokens`."""

    def log_energy(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Logarithm of |Phi| = sum_i w_i Z_i / (2 |beta|), `*batch`; the energy where there is one."""
        found = self.log_partition(rows, weights)
        found = found if weights is None else found + weights.log()
        return torch.logsumexp(found, dim=-1) - math.log(2 * abs(self.task.beta))

    @property
    def words(self) -> str:
        """Which evaluator it is and how exact, as it stands in a record."""
        kind = "relative" if self.relative else "absolute"
        return f"{self.name}, {kind} error {self.error:.0e}"


def tangential(rows: Tensor, vectors: Tensor) -> Tensor:
    """The part of vectors along the sphere at unit rows."""
    return vectors - (vectors * rows).sum(-1, keepdim=True) * rows
