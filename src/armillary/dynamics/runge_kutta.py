"""One step of an explicit Runge-Kutta method on many systems at once, each with its own step length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from armillary.dynamics.integrators import Tableau
from armillary.dynamics.normalization import VelocityField

__all__ = ["combined", "increment", "stages"]


def stages(
    field: VelocityField, tableau: Tableau, time: Tensor | float, length: Tensor | float, state: Tensor,
    multiplicity: Tensor | None, first: Tensor | None = None,
) -> list[Tensor]:  # fmt: skip
    """Velocities of the stages of a step.

    Args:
        field: The field.
        tableau: The method.
        time: Where the step begins, one number or one a system.
        length: Of the step, one number or one a system.
        state: `systems tokens dim`.
        multiplicity: How many original tokens a row stands for, `systems tokens`, or None.
        first: The first stage if it is known.

    Returns:
        One velocity a stage. Where the last stage is the next step's first it is left out: it belongs to the end of the
        step, after that was put back on the sphere.
    """
    found = [field.velocity(time, state, multiplicity) if first is None else first]
    rows = tableau.stages[:-1] if tableau.first_same_as_last else tableau.stages
    for node, row in zip(tableau.nodes[1:], rows, strict=False):
        found.append(field.velocity(time + node * length, combined(state, length, row, found), multiplicity))
    return found


def increment(length: Tensor | float, weights: Sequence[float], velocities: Sequence[Tensor]) -> Tensor:
    """Length times the weighted sum of velocities."""
    total = torch.zeros_like(velocities[0])
    for weight, velocity in zip(weights, velocities, strict=True):
        if weight:
            total = total + weight * velocity
    return (length[:, None, None] if isinstance(length, Tensor) else length) * total


def combined(state: Tensor, length: Tensor | float, weights: Sequence[float], velocities: Sequence[Tensor]) -> Tensor:
    """The state moved by `increment`; not yet put back on the sphere."""
    return state + increment(length, weights, velocities)
