"""Steps of a hand-written loop that no number can poison: backward, accumulation, a finite gradient, or a skip."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch import distributed as dist

from armillary.errors import ArgumentError, NumericalError
from armillary.training.gathered import processes

__all__ = ["GuardedSteps", "WhenNotFinite", "agreed", "finite_gradient", "not_finite", "require_when_not_finite"]

WhenNotFinite = Literal["skip", "stop"]
"""What becomes of a step whose loss or gradient is not finite: it is skipped and counted, or training stops."""


@dataclass(eq=False)
class GuardedSteps:
    """An optimizer whose steps are taken only on finite losses and gradients.

    A skipped step leaves weights and the optimizer's state as they are; with accumulation, all of its parts are given
    up together. Data-parallel processes agree before each backward pass, so that none waits for another.

    Attributes:
        optimizer: Whose parameters are trained.
        when_not_finite: "skip", or "stop", which raises.
        largest_norm: Gradients are scaled down to this norm; None leaves them.
        accumulate: How many losses make one step; each counts for its share.
        taken: Steps taken so far.
        skipped: Steps given up so far.
        norm: Of the gradient of the last step, before it was scaled.

    Raises:
        ArgumentError: Another word, or fewer than one loss a step.
    """

    optimizer: torch.optim.Optimizer
    when_not_finite: WhenNotFinite
    largest_norm: float | None = None
    accumulate: int = 1
    taken: int = 0
    skipped: int = 0
    norm: float = math.nan
    _parts: int = field(default=0, repr=False)
    _spoilt: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        require_when_not_finite(self.when_not_finite)
        if self.accumulate < 1:
            raise ArgumentError(
                f"Argument `accumulate` must be at least 1, but it is {self.accumulate}. Give how many losses make a "
                "step."
            )

    def take(self, loss: Tensor, *, blame: Callable[[], str] | None = None) -> bool:
        """Backward on one loss, and the optimizer's step after every `accumulate` of them.

        Args:
            loss: A scalar, the mean over its batch.
            blame: Says which part of a loss that is not finite is not (`Regularizer.blame`); called only to stop.

        Returns:
            Whether a step was taken now.

        Raises:
            NumericalError: The loss or its gradient is not finite, and training is to stop.
        """
        self._parts += 1
        if not self._spoilt:
            if agreed(bool(torch.isfinite(loss.detach()))):
                (loss / self.accumulate).backward()
            else:
                value = float(loss.detach())
                self._spoil(blame or (lambda: f"the loss is {value}"))
        if self._parts < self.accumulate:
            return False
        self._parts = 0
        weights = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not self._spoilt and weights:
            self.norm = float(torch.nn.utils.clip_grad_norm_(weights, self.largest_norm or math.inf))
            if not agreed(math.isfinite(self.norm)):
                self._spoil(lambda: f"the gradient is not finite (its norm is {self.norm})")
        spoilt, self._spoilt = self._spoilt, False
        if spoilt:
            self.skipped += 1
        else:
            self.optimizer.step()
            self.taken += 1
        self.optimizer.zero_grad(set_to_none=True)
        return not spoilt

    def _spoil(self, what: Callable[[], str]) -> None:
        if self.when_not_finite == "stop":
            self.optimizer.zero_grad(set_to_none=True)
            raise not_finite(what(), self.taken + self.skipped)
        self._spoilt = True


def agreed(fine: bool) -> bool:
    """Whether it is fine in every process of a process group.

    Args:
        fine: Whether it is here.
    """
    if processes() == 1:
        return fine
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    flag = torch.tensor([int(fine)], device=device)
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    return bool(flag.item())


def finite_gradient(weights: Iterable[Tensor]) -> bool:
    """Whether every gradient is finite, in every process of a process group.

    Args:
        weights: Whose gradients; one without is fine.
    """
    given = [weight.grad for weight in weights if weight.grad is not None]
    return agreed(all(bool(torch.isfinite(gradient).all()) for gradient in given))


def not_finite(what: str, step: int) -> NumericalError:
    """The refusal to train on.

    Args:
        what: is not finite, as a clause.
        step: How many optimizer steps came before.
    """
    return NumericalError(
        f"A loss and its gradient must be finite, but at step {step} {what}. Lower the strength or the learning rate, "
        'or set `when_not_finite` to "skip" to count such steps.'
    )


def require_when_not_finite(word: Any) -> None:
    """Refuse any other word than "skip" and "stop"."""
    if word not in ("skip", "stop"):
        raise ArgumentError(
            f"Argument `when_not_finite` must be 'skip' or 'stop', but it is {word!r}. Say which of the two."
        )
