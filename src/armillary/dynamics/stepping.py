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
            after = velocity.retracted(combined(progress.state, length, tableau.weights, found))
            _step_to(progress, after, now + k * length, "s =")
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
            time = now + k * pace
            after = velocity.layer(time, progress.state, integrator.step, progress.multiplicity)
            _step_to(progress, after, time, "s =" if isinstance(integrator, Euler) else "layer")
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
            _step_to(progress, velocity.retracted(x + (first + second) / 2), time, "s =")
        progress.evaluations += 2 * whole
        now = target
        if target in keep:
            kept.append(progress.state)
    return kept


def _step_to(progress: Progress, after: Tensor, time: float, unit: str) -> None:
    """Accept a step of every system but those whose step is not finite: they stay where they are, for good."""
    finite = torch.isfinite(after).flatten(1).all(1)
    if not bool(finite.all()):
        for system in (~finite).nonzero()[:, 0].tolist():
            why = "the next step is not finite, so the velocity grows without bound there or the step is too large"
            progress.stopped.setdefault(system, (time, f"stopped at {unit} {time:.6g}: {why}"))
    moving = np.ones(len(after), dtype=bool)
    moving[list(progress.stopped)] = False
    if not moving.all():
        goes_on = torch.from_numpy(moving).to(after.device)[:, None, None]
        after = torch.where(goes_on, after, progress.state)
    progress.state = after
    progress.steps += moving


def _targets(keep: Sequence[float], stop: float) -> list[float]:
    return sorted({*keep, stop})
