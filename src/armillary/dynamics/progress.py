"""Where the systems of a run are, what it took to get there, and which of their tokens have become one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.merging import Merger, Merging, merged

__all__ = ["Progress"]


@dataclass
class Progress:
    """Where the systems of a run are, and what it took.

    Attributes:
        state: `systems tokens dim`.
        multiplicity: How many original tokens each row stands for, `systems tokens`, or None.
        steps: Accepted steps, `systems`.
        rejected: Rejected steps, `systems`.
        evaluations: Evaluations of the velocity, `systems`.
        stopped: Why a system stopped early: system -> (time, sentence).
        next_step: Length of the step to try next, `systems`, NaN before the first.
        merging: When tokens count as one, or None.
        holder: For each original token the row that stands for it, `systems tokens`.
        mergers: The log.
    """

    state: Tensor
    multiplicity: Tensor | None
    steps: np.ndarray
    rejected: np.ndarray
    evaluations: np.ndarray
    stopped: dict[int, tuple[float, str]] = field(default_factory=dict)
    next_step: np.ndarray = field(default_factory=lambda: np.empty(0))
    merging: Merging | None = None
    holder: Tensor = field(default_factory=lambda: torch.empty(0))
    mergers: list[Merger] = field(default_factory=list)

    @classmethod
    def start(cls, state: Tensor, merging: Merging | None, weights: Tensor | None) -> Progress:
        """Nothing done yet."""
        systems, tokens = state.shape[:2]
        steps, rejected, evaluations = (np.zeros(systems, dtype=np.int64) for _ in range(3))
        return cls(
            state,
            torch.ones(systems, tokens).to(state) if merging is not None and weights is None else weights,
            steps,
            rejected,
            evaluations,
            next_step=np.full(systems, np.nan),
            merging=merging,
            holder=torch.arange(tokens).repeat(systems, 1),
        )

    def spread(self, system: int, state: Tensor) -> Tensor:
        """Every original token of a system at the row that stands for it."""
        return state if self.merging is None else state[self.holder[system].to(state.device)]

    def merge(self, system: int, state: Tensor, time: float) -> Tensor | None:
        """The state of a system after its mergers, or None if nothing merged."""
        if self.merging is None or self.multiplicity is None:
            return None
        after, weight, holder, log = merged(
            state, self.multiplicity[system], self.holder[system], angle=self.merging.angle, time=time, system=system
        )
        if not log:
            return None
        self.multiplicity = self.multiplicity.clone()
        self.multiplicity[system], self.holder[system] = weight, holder
        self.mergers += log
        return after
