"""Coalesced tokens as one weighted token: exact bookkeeping that takes the fast motion inside clusters out of a run.

Tokens nearer to each other than a declared angle are replaced by one at their weighted mean direction that carries the
sum of their multiplicities. What is lost is of the order of the angle squared; what is gained is that steps may grow
with the slow time between mergers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.errors import ArgumentError

__all__ = ["Merger", "Merging"]


@dataclass(frozen=True)
class Merging:
    """When tokens count as one.

    Args:
        angle: Largest angle in radians between tokens that are merged; at least ten times the integrator's tolerance,
            since tolerance noise inside a cluster would otherwise keep it from ever merging.
    """

    angle: float

    def __post_init__(self) -> None:
        if not 0 < self.angle < 0.5:
            raise ArgumentError(
                f"Argument `angle` must lie between 0 and 0.5 radians, but it is {self.angle}. Take 1e-4, for instance."
            )

    def check(self, tolerance: float) -> None:
        """Refuse an angle that the tolerance would blur.

        Raises:
            ArgumentError: The angle is below ten times the tolerance.
        """
        if self.angle < 10 * tolerance:
            raise ArgumentError(
                f"Argument `angle` must be at least ten times the tolerance {tolerance:g}, but it is {self.angle:g}: "
                f"noise inside a cluster would keep it from merging. Take {10 * tolerance:g}, or a smaller rtol."
            )


@dataclass(frozen=True)
class Merger:
    """One event: which tokens became one.

    Attributes:
        time: When.
        system: Index of the system in the batch.
        tokens: Original indices of all tokens that the new one stands for.
        weights: Multiplicities of the two clusters before.
        overlap: Of the two just before.
    """

    time: float
    system: int
    tokens: tuple[int, ...]
    weights: tuple[float, float]
    overlap: float


def merged(
    state: Tensor, multiplicity: Tensor, holder: Tensor, *, angle: float, time: float, system: int
) -> tuple[Tensor, Tensor, Tensor, list[Merger]]:
    """Merge every pair of present tokens of one system that is within the angle, nearest first.

    Args:
        state: Unit rows, `tokens dim`.
        multiplicity: `tokens`; 0 for rows that were merged into another one.
        holder: For each original token the row that stands for it, `tokens`.
        angle: Largest angle.
        time: When, for the log.
        system: Which, for the log.

    Returns:
        The same three after merging, and the log.
    """
    log: list[Merger] = []
    state, multiplicity, holder = state.clone(), multiplicity.clone(), holder.clone()
    while True:
        present = (multiplicity > 0).nonzero().flatten()
        rows = state[present]
        if len(present) < 2:
            return state, multiplicity, holder, log
        apart = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
        apart.fill_diagonal_(torch.inf)
        nearest = int(apart.argmin())
        first, second = divmod(nearest, len(present))
        chord = float(apart[first, second])
        if 2 * torch.asin(torch.tensor(min(chord / 2, 1.0))) > angle:
            return state, multiplicity, holder, log
        a, b = int(present[min(first, second)]), int(present[max(first, second)])
        wa, wb = float(multiplicity[a]), float(multiplicity[b])
        mean = wa * state[a] + wb * state[b]
        state[a] = mean / mean.norm()
        multiplicity[a], multiplicity[b] = wa + wb, 0.0
        holder[holder == b] = a
        group = tuple((holder == a).nonzero().flatten().tolist())
        log.append(Merger(time, system, group, (wa, wb), 1 - chord**2 / 2))
