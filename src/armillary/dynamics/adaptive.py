"""Adaptive steps, each system its own: an embedded error, a controller, dense output at requested times, mergers.

A system never sees another one: its steps, errors and end are its own, so that its result does not depend on what else
is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.progress import Progress
from armillary.dynamics.runge_kutta import combined, increment, stages

__all__ = ["adaptive"]

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
PROPORTIONAL, INTEGRAL = 0.7, 0.4
ROUNDING = float(np.finfo(float).eps)


def adaptive(
    field: VelocityField, progress: Progress, integrator: Tsit5, start: float, stop: float, keep: Sequence[float],
    tolerance: np.ndarray | None,
) -> list[Tensor]:  # fmt: skip
    """Bring every system from `start` to `stop` with steps of its own.

    Args:
        field: The field, which does not change in between.
        progress: Changed on the way.
        integrator: Tolerances and the largest number of steps.
        start: Time at which the systems are.
        stop: Time to reach.
        keep: Times in (start, stop] at which states are wanted, ascending.
        tolerance: For each system a factor (at most 1) on the tolerances.

    Returns:
        One state `systems tokens dim` for each of `keep`; a system that was stopped stays where it stopped.
    """
    run = _Run(field, progress, integrator, start, stop, np.asarray(keep, dtype=float), tolerance)
    active = [k for k in range(len(progress.state)) if k not in progress.stopped]
    while active:
        tried = run.tried(active)
        active = [k for row, k in enumerate(active) if run.goes_on(k, row, tried)]
    progress.state, progress.next_step = torch.stack(run.states), run.step
    return [torch.stack([run.kept_or_last(k, index) for k in range(len(run.states))]) for index in range(len(keep))]


@dataclass
class _Tried:
    """One step of every active system, not yet accepted."""

    begin: np.ndarray
    length: np.ndarray
    last: np.ndarray
    state: Tensor
    end: Tensor
    velocities: list[Tensor]
    wrong: np.ndarray


class _Run:
    """What one stretch of time needs to know of each system."""

    def __init__(
        self, field: VelocityField, progress: Progress, integrator: Tsit5, start: float, stop: float,
        wanted: np.ndarray, tolerance: np.ndarray | None,
    ) -> None:  # fmt: skip
        systems = len(progress.state)
        factor = np.ones(systems) if tolerance is None else tolerance
        self.field, self.progress, self.integrator, self.stop, self.wanted = field, progress, integrator, stop, wanted
        self.rtol, self.atol = integrator.rtol * factor, integrator.absolute * factor
        self.time, self.before = np.full(systems, float(start)), np.ones(systems)
        self.states = list(progress.state.unbind(0))
        self.velocities = list(field.velocity(start, progress.state, progress.multiplicity).unbind(0))
        self.kept: list[dict[int, Tensor]] = [{} for _ in range(systems)]
        progress.evaluations += 1
        self.step = np.where(np.isnan(progress.next_step), self._first_steps(), progress.next_step)
        self.least = 1e-14 * self.step

    def tried(self, active: list[int]) -> _Tried:
        """A step of every active system, with its error over what is allowed."""
        tableau, progress = self.integrator.tableau, self.progress
        begin, left = self.time[active], self.stop - self.time[active]
        last = self.step[active] >= left * (1 - 1e-12)
        length = np.where(last, left, self.step[active])
        state = torch.stack([self.states[k] for k in active])
        weight = None if progress.multiplicity is None else progress.multiplicity[active]
        at, reach = (torch.as_tensor(one, dtype=state.dtype, device=state.device) for one in (begin, length))
        known = torch.stack([self.velocities[k] for k in active])
        found = stages(self.field, tableau, at, reach, state, weight, known)
        end = self.field.retracted(combined(state, reach, tableau.weights[:-1], found))
        found.append(self.field.velocity(at + reach, end, weight))
        progress.evaluations[active] += len(tableau.nodes) - 1
        wrong = _error(
            state, end, increment(reach, tableau.errors or (), found), weight, self.rtol[active], self.atol[active]
        )
        return _Tried(begin, length, last, state, end, found, wrong)

    def goes_on(self, system: int, row: int, tried: _Tried) -> bool:
        """Accept or reject a system's step; False once it is at the end, or stopped."""
        wrong, length, order = tried.wrong[row], tried.length[row], self.integrator.tableau.order
        if not wrong <= 1.0:
            self.progress.rejected[system] += 1
            shrink = SAFETY * wrong ** (-1.0 / order) if np.isfinite(wrong) else SHRINK
            self.step[system] = length * max(SHRINK, min(SAFETY, shrink))
            return not self._stopped(system)
        self._accept(system, row, tried)
        floor = max(wrong, 1e-10)
        grow = SAFETY * floor ** (-PROPORTIONAL / order) * self.before[system] ** (INTEGRAL / order)
        following = length * min(GROW, max(SHRINK, grow))
        self.step[system] = max(self.step[system], following) if tried.last[row] else following
        self.before[system] = floor
        return not tried.last[row] and not self._stopped(system)

    def kept_or_last(self, system: int, index: int) -> Tensor:
        """The state at a requested time, or where the system stopped before it."""
        found = self.kept[system].get(index)
        return self.progress.spread(system, self.states[system]) if found is None else found

    def _accept(self, system: int, row: int, tried: _Tried) -> None:
        begin, length = tried.begin[row], tried.length[row]
        for index in np.flatnonzero((self.wanted > begin) & (self.wanted <= begin + length)):
            share = (self.wanted[index] - begin) / length
            inner = tried.end[row] if share >= 1 - 1e-14 else self._between(row, tried, share)
            self.kept[system][int(index)] = self.progress.spread(system, inner)
        self.time[system] = self.stop if tried.last[row] else begin + length
        self.states[system], self.velocities[system] = tried.end[row], tried.velocities[-1][row]
        self.progress.steps[system] += 1
        together = self.progress.merge(system, tried.end[row], float(self.time[system]))
        if together is not None and self.progress.multiplicity is not None:
            weight, at = self.progress.multiplicity[system : system + 1], float(self.time[system])
            self.states[system] = together
            self.velocities[system] = self.field.velocity(at, together[None], weight)[0]
            self.progress.evaluations[system] += 1

    def _between(self, row: int, tried: _Tried, share: float) -> Tensor:
        weights = self.integrator.tableau.shares(np.asarray([share]))[0]
        velocities = [one[row : row + 1] for one in tried.velocities]
        inner = combined(tried.state[row : row + 1], float(tried.length[row]), tuple(weights), velocities)
        return self.field.retracted(inner)[0]

    def _stopped(self, system: int) -> bool:
        step, time, steps = self.step[system], float(self.time[system]), int(self.progress.steps[system])
        if not step > max(16 * ROUNDING * abs(time), self.least[system]):
            why = f"the step size fell to {step:.1e}, so the velocity is not smooth there"
        elif steps >= self.integrator.most_steps:
            why = f"after {steps} steps, as many as were allowed"
        elif self._shrunk(system):
            why = "a stream has shrunk to what rounding and tolerance leave of it, and nothing so short has a direction"
        else:
            return False
        self.progress.stopped[system] = (time, f"stopped at s = {time:.6g}: {why}")
        return True

    def _shrunk(self, system: int) -> bool:
        """Whether a row that the field reads the direction of is about as short as its error may be."""
        if self.field.scheme not in ("pre", "peri"):
            return False
        return bool(self.states[system].norm(dim=-1).amin() < 10 * self.atol[system])

    def _first_steps(self) -> np.ndarray:
        """A small part of the time in which a row would move by its own length."""
        size = torch.stack(self.states).norm(dim=-1).amax(-1)
        speed = torch.stack(self.velocities).norm(dim=-1).amax(-1).clamp_min(1e-300)
        found = 0.1 * (size / speed).detach().cpu().double().numpy()
        return np.minimum(found, 0.5) * np.clip((self.rtol + self.atol) ** 0.2 * 4, 1e-3, 1.0)


def _error(
    state: Tensor, end: Tensor, wrong: Tensor, weight: Tensor | None, rtol: np.ndarray, atol: np.ndarray
) -> np.ndarray:
    """Root mean square over the coordinates of a system of the error over what is allowed; above 1 is too much."""
    relative, absolute = (torch.as_tensor(one, dtype=state.dtype, device=state.device) for one in (rtol, atol))
    size = torch.maximum(state.norm(dim=-1, keepdim=True), end.norm(dim=-1, keepdim=True))
    share = (wrong / (absolute[:, None, None] + relative[:, None, None] * size)).square().mean(-1)
    there = torch.ones_like(share) if weight is None else (weight > 0).to(share)
    found = (share * there).sum(-1) / there.sum(-1)
    return np.asarray(found.sqrt().detach().cpu().double().numpy())
