"""Many independent systems through one stretch of time: fixed or adaptive steps, layers of a network, or noise.

All functions take systems flattened to `systems tokens dim`. A system never sees another one: its steps, errors and end
are its own, so its result does not depend on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.adaptive import adaptive
from armillary.dynamics.integrators import RK4, Euler, ResidualLayer, StratonovichHeun, Tableau, Tsit5
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.progress import Progress
from armillary.dynamics.runge_kutta import combined, stages

__all__ = ["advance"]


def advance(
    velocity: VelocityField,
    progress: Progress,
    integrator: RK4 | Tsit5 | Euler | ResidualLayer | StratonovichHeun,
    *,
    start: float,
    stop: float,
    keep: Sequence[float],
    tolerance: np.ndarray | None,
    random: torch.Generator | None,
) -> list[Tensor]:
    """Bring every system from `start` to `stop`, within which the field does not change.

    Args:
        velocity: The field.
        progress: Changed on the way.
        integrator: How.
        start: Time at which the systems are.
        stop: Time to reach.
        keep: Times in (start, stop] at which states are wanted, ascending.
        tolerance: For each system a factor (at most 1) on the tolerances of an adaptive integrator.
        random: Where Brownian increments come from.

    Returns:
        One state `systems tokens dim` for each of `keep`.
    """
    match integrator:
        case Tsit5():
            return adaptive(velocity, progress, integrator, start, stop, keep, tolerance)
        case RK4():
            return _fixed(velocity, progress, integrator.tableau, integrator.step, start, stop, keep)
        case StratonovichHeun():
            return _noisy(velocity, progress, integrator.step, start, stop, keep, random)
        case _:
            return _layers(velocity, progress, integrator, start, stop, keep)


def _fixed(
    velocity: VelocityField, progress: Progress, tableau: Tableau, step: float, start: float, stop: float,
    keep: Sequence[float],
) -> list[Tensor]:  # fmt: skip
    kept, now = [], start
    for target in _targets(keep, stop):
        whole = max(1, int(np.ceil((target - now) / step * (1 - 1e-12))))
        length = (target - now) / whole  # equal steps, none longer than asked for
        for k in range(whole):
            found = stages(velocity, tableau, now + k * length, length, progress.state, progress.multiplicity)
            progress.state = velocity.retracted(combined(progress.state, length, tableau.weights, found))
        progress.steps += whole
        progress.evaluations += whole * len(tableau.nodes)
        now = target
        if target in keep:
            kept.append(progress.state)
    return kept


def _layers(
    velocity: VelocityField, progress: Progress, integrator: Euler | ResidualLayer, start: float, stop: float,
    keep: Sequence[float],
) -> list[Tensor]:  # fmt: skip
    pace = integrator.step if isinstance(integrator, Euler) else 1.0
    kept, now = [], start
    for target in _targets(keep, stop):
        count = round((target - now) / pace)
        for k in range(count):
            progress.state = velocity.layer(now + k * pace, progress.state, integrator.step, progress.multiplicity)
        progress.steps += count
        progress.evaluations += count
        now = target
        if target in keep:
            kept.append(progress.state)
    return kept


def _noisy(
    velocity: VelocityField, progress: Progress, step: float, start: float, stop: float, keep: Sequence[float],
    random: torch.Generator | None,
) -> list[Tensor]:  # fmt: skip
    kept, now, strength = [], start, velocity.drift.noise
    for target in _targets(keep, stop):
        whole = max(1, int(np.ceil((target - now) / step * (1 - 1e-12))))
        length = (target - now) / whole
        for k in range(whole):
            x, time = progress.state, now + k * length
            kick = torch.randn(x.shape, generator=random, dtype=x.dtype).to(x.device) * (strength * length**0.5)
            first = length * velocity.velocity(time, x, progress.multiplicity) + velocity.tangential(x, kick)
            guess = x + first
            second = length * velocity.velocity(time + length, guess, progress.multiplicity)
            second = second + velocity.tangential(guess, kick)
            progress.state = velocity.retracted(x + (first + second) / 2)
        progress.steps += whole
        progress.evaluations += 2 * whole
        now = target
        if target in keep:
            kept.append(progress.state)
    return kept


def _targets(keep: Sequence[float], stop: float) -> list[float]:
    return sorted({*keep, stop})
