"""Many steps: from a start to a trajectory, with requested times, merging, early ends, and a sentence that says why.

Small velocity is never taken for an end. A run reaches its time, or is stopped before it by its step size, by the
number of its steps or by a step that is not finite, and its status says which. A plateau is called one, with the time
that its closest groups would stand still for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.asked import readable_start, requested_times, token_weights
from armillary.dynamics.engines import Engine, advanced_by_pairs, speeds
from armillary.dynamics.extent import all_overlaps_above
from armillary.dynamics.integrators import Integrator, ResidualLayer, StratonovichHeun, Tsit5
from armillary.dynamics.merging import Merging
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.outlook import hemisphere, plateau_of, predicts_consensus
from armillary.dynamics.planning import planned
from armillary.dynamics.progress import Progress
from armillary.dynamics.stationary import STILL, stationarity
from armillary.dynamics.stepping import advance
from armillary.dynamics.sums.told import tell
from armillary.errors import NumericalError
from armillary.trajectory import Trajectory

__all__ = ["CONSENSUS", "flow"]

CONSENSUS = 0.999
"""All overlaps above this are called consensus."""

UNSEEN = 1e-6
"""Growth rates below this do not tell a stable state from a plateau."""

LARGEST_DENSE = 2048
"""Tokens up to which the field itself, all pairs at once, judges where a run begins and ends."""

_FINEST = 1e-13
_SHARE = 1e-3  # of the smallest initial speed that the tolerance may be


def flow(
    field: VelocityField,
    start: Tensor,
    *,
    until: float,
    integrator: Integrator,
    keep: int | Sequence[float] = 2,
    merging: Merging | None = None,
    weights: Tensor | None = None,
    engine: Engine = "auto",
    summation: str = "auto",
) -> Trajectory:
    """Move a configuration, or a batch of independent ones, along a field.

    Args:
        field: What moves the tokens.
        start: `*batch tokens dim`, float64 (or float32, up to time 100 and without merging); unit rows.
        until: Time to reach, positive; with `ResidualLayer` the number of layers.
        integrator: How time is stepped.
        keep: How many states to keep, evenly spaced from 0 to `until`, or the times themselves, ascending.
        merging: When tokens count as one; None never merges.
        weights: Positive weights of the tokens, `*batch tokens` or `tokens`: how many each stands for, or, over their
            sum, the mass that a characteristic of the mean-field equation carries. None: one each.
        engine: "auto" takes the compiled engine for plain flows of small systems and the general one otherwise; the
            trajectory names it.
        summation: How sums over all pairs are evaluated: "auto" takes the cheapest way that is exact enough for the
            tolerance and the time, or "pairs", "tiles", "sdpa", "circle", "sphere", "means", "rows"; the trajectory
            names the way and its error.

    Returns:
        The trajectory, with what the run took and, in words, how each system ended.

    Raises:
        ArgumentError: Rows that are not unit vectors, one token, one dimension, a time that is not positive, and
            choices that contradict each other.
        NumericalError: A velocity that is not finite at the start.
    """
    times = requested_times(until, keep, integrator)
    start = readable_start(field, start, integrator, merging, until)
    batch, (tokens, dim) = start.shape[:-2], start.shape[-2:]
    first = start.reshape(-1, tokens, dim)
    first = first / first.norm(dim=-1, keepdim=True) if field.spherical else first
    plan = planned(field, first, integrator, until=until, engine=engine, summation=summation)
    judged = field if tokens <= LARGEST_DENSE else plan.field
    speed = speeds(judged, first if judged is field else plan.start, plan.engine)
    factors, remarks = _tolerances(speed, integrator)
    if factors is not None and factors.min() < 1:
        plan = planned(
            field, first, integrator, until=until, engine=engine, summation=summation, tightened=float(factors.min())
        )
    mass = token_weights(weights, start)
    progress = Progress.start(plan.start, merging, mass)
    random = torch.Generator().manual_seed(integrator.seed) if isinstance(integrator, StratonovichHeun) else None
    if plan.engine == "compiled" and isinstance(integrator, Tsit5):
        kept = advanced_by_pairs(
            field, progress, integrator, times=times, until=float(until), tolerance=factors, merging=merging
        )
    else:
        kept = [plan.start] if times[0] == 0 else []
        for begin, end in _stretches(field, float(until)):
            kept += advance(
                plan.field.during(begin), progress, integrator,
                start=begin, stop=end, keep=[time for time in times if begin < time <= end],
                tolerance=factors, random=random,
            )  # fmt: skip
    states = plan.back(torch.stack(kept, dim=1))
    if not bool(torch.isfinite(states).all()):
        where = (~torch.isfinite(states)).nonzero()[0].tolist()
        raise NumericalError(
            f"States must be finite, but at s = {times[where[1]]:g} token {where[2]} of system {where[0]} is not. "
            f"Take a "
            "smaller step, or a field whose velocity stays finite."
        )

    tell(plan.words)

    def ending(system: int) -> str:
        own = None if mass is None else mass[system]
        return _sentence(judged, states[system, -1], progress, system, until, integrator, remarks[system], own)

    return Trajectory(
        states=states.reshape(*batch, len(times), tokens, dim),
        at=tuple(times),
        axis="time" if not isinstance(integrator, ResidualLayer) else "depth",
        ending=ending,
        steps=tuple(progress.steps.tolist()),
        rejected=tuple(progress.rejected.tolist()),
        evaluations=tuple(progress.evaluations.tolist()),
        mergers=tuple(progress.mergers),
        engine=plan.engine,
        summation=plan.words,
        stopped_at={system: time for system, (time, _) in progress.stopped.items()},
    )


def _stretches(field: VelocityField, until: float) -> list[tuple[float, float]]:
    """Parts of the time axis within which the field does not change."""
    return list(pairwise([0.0, *(time for time in field.breakpoints if 0 < time < until), until]))


def _tolerances(speed: np.ndarray, integrator: Integrator) -> tuple[np.ndarray | None, list[str]]:
    """A start that hardly moves (near an unstable stationary state) needs tolerances below its own speed."""
    remarks = [""] * len(speed)
    if not isinstance(integrator, Tsit5):
        return None, remarks
    factors, coarser = np.ones(len(speed)), max(integrator.rtol, integrator.absolute)
    for k, fast in enumerate(speed):
        if STILL < fast < coarser / _SHARE:
            factors[k] = max(_SHARE * fast, _FINEST) / coarser
            remarks[k] = (
                f"; tolerances were tightened by {factors[k]:.1e}, since the start moves at {fast:.1e} only and an "
                "error of that size would hide where it goes"
            )
    return np.minimum(factors, 1.0), remarks


def _sentence(
    field: VelocityField,
    last: Tensor,
    progress: Progress,
    system: int,
    until: float,
    integrator: Integrator,
    remark: str,
    weights: Tensor | None,
) -> str:
    steps = int(progress.steps[system])
    if system in progress.stopped:
        return progress.stopped[system][1] + remark
    unit = "layers" if isinstance(integrator, ResidualLayer) else "steps"
    reached = f"reached {'layer' if unit == 'layers' else 's ='} {until:g} in {steps} {unit}"
    return reached + _outcome(field, last.detach(), until, weights) + remark


def _outcome(field: VelocityField, last: Tensor, until: float, weights: Tensor | None) -> str:
    if not field.spherical:
        return ""
    unit = last / last.norm(dim=-1, keepdim=True)
    if all_overlaps_above(unit, CONSENSUS):
        return f": consensus (every overlap above {CONSENSUS})"
    if field.drift.noise:
        return ""
    found = stationarity(field, unit, time=until)
    proved = predicts_consensus(field)
    unseen = found.stationary and found.fastest <= UNSEEN and proved
    if found.stationary and not unseen:
        return f": {found.label}"
    said = [f"still to rounding, no push grows faster than e^({UNSEEN:g} s), and a plateau looks the same"] * unseen
    if proved and (proof := hemisphere(unit)) is not None:
        margin = f"all tokens within a hemisphere, margin {proof.margin:.3g}"
        said.append(f"consensus is certain ({margin}) and not reached yet")
    plateau = None
    if len(unit) <= LARGEST_DENSE:
        plateau = plateau_of(field, unit, speed=found.speed, weights=weights)
    said += [] if plateau is None else [str(plateau)]
    return f": {'; '.join(said)}" if said else ""
