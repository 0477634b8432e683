"""Which engine runs: the compiled one for plain flows of small systems, the general one for everything.

Both step with the same tableau, controller and merging; tests hold them to each other. The choice is named in the
trajectory, and can be made by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.attention import Full, RowRule, Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Integrator, Tsit5
from armillary.dynamics.merging import Merger, Merging
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.progress import Progress
from armillary.errors import ArgumentError, NumericalError

if TYPE_CHECKING:
    from armillary.dynamics.pairs import Law

__all__ = ["LARGEST_PAIR_SYSTEM", "Engine", "advanced_by_pairs", "chosen_engine", "compiled_obstacle", "speeds"]

Engine = Literal["auto", "general", "compiled"]

LARGEST_PAIR_SYSTEM = 1024
"""Tokens up to which each pair once, in compiled loops, is faster than matrix products (dimension up to 16 or so)."""

_CODES: dict[type[RowRule], int] = {Softmax: 0, Unnormalized: 1, Uniform: 2}


def chosen_engine(
    engine: Engine, field: VelocityField, start: Tensor, integrator: Integrator
) -> Literal["general", "compiled"]:
    """The engine that runs.

    Args:
        engine: What was asked for.
        field: The field.
        start: `*batch tokens dim`.
        integrator: How time is stepped.

    Raises:
        ArgumentError: The compiled engine was asked for and cannot do this.
    """
    obstacle = compiled_obstacle(field, start, integrator)
    if engine == "compiled" and obstacle:
        raise ArgumentError(
            f"Argument `engine` must be 'general' for {obstacle}, but it is 'compiled'. Leave it out: the engine "
            "that can is chosen."
        )
    if engine not in ("auto", "general", "compiled"):
        raise ArgumentError(
            f"Argument `engine` must be 'auto', 'general' or 'compiled', but it is {engine!r}. Name one."
        )
    if engine == "general" or obstacle:
        return "general"
    small = start.shape[-2] <= LARGEST_PAIR_SYSTEM and start.shape[-2] * start.shape[-1] <= 16 * LARGEST_PAIR_SYSTEM
    return "compiled" if engine == "compiled" or small else "general"


def advanced_by_pairs(
    field: VelocityField, progress: Progress, integrator: Tsit5, *, times: list[float], until: float,
    tolerance: np.ndarray | None, merging: Merging | None,
) -> list[Tensor]:  # fmt: skip
    """Bring every system to `until` with the compiled engine.

    Args:
        field: A plain field.
        progress: Changed on the way.
        integrator: Tolerances and the largest number of steps.
        times: When states are wanted, ascending, from 0 on.
        until: Time to reach.
        tolerance: For each system a factor on the tolerances.
        merging: When tokens count as one.

    Returns:
        One state `systems tokens dim` for each of `times`.
    """
    from armillary.dynamics import pairs

    scale = np.ones(len(progress.state)) if tolerance is None else tolerance
    wanted = times if times and times[-1] == until else [*times, until]
    found = pairs.compiled_flow(
        progress.state.numpy(), law=_law(field), times=np.asarray(wanted),
        rtol=integrator.rtol * scale, atol=integrator.absolute * scale, angle=merging.angle if merging else 0.0,
        most=integrator.most_steps, weights=None if progress.multiplicity is None else progress.multiplicity.numpy(),
    )  # fmt: skip
    progress.steps, progress.rejected, progress.evaluations = found.steps, found.rejected, found.evaluations
    for system, (end, time) in enumerate(zip(found.ends, found.times, strict=True)):
        if end == pairs.TOO_SMALL:
            progress.stopped[system] = (
                float(time),
                f"stopped at s = {time:.6g}: the step size fell below rounding, so the velocity is not smooth there",
            )
        elif end == pairs.TOO_MANY:
            progress.stopped[system] = (
                float(time),
                f"stopped at s = {time:.6g}: after {found.steps[system]} steps, as many as were allowed",
            )
    progress.mergers = _log(found.mergers, progress.holder)
    states = torch.from_numpy(found.states)
    progress.state = states[:, -1]
    return list(states[:, : len(times)].unbind(1))


def speeds(field: VelocityField, state: Tensor, engine: Literal["general", "compiled"]) -> np.ndarray:
    """The largest speed of a token at time 0, each system, by the engine that will run.

    Args:
        field: The field.
        state: `systems tokens dim`.
        engine: Which.

    Raises:
        NumericalError: A velocity is not finite.
    """
    if engine == "compiled":
        from armillary.dynamics.pairs import pair_velocity

        found = torch.stack([torch.from_numpy(pair_velocity(one.numpy(), law=_law(field))) for one in state])
    else:
        with torch.no_grad():
            found = field.during(0.0).velocity(0.0, state)
    speed = found.norm(dim=-1)
    if not bool(torch.isfinite(speed).all()):
        system, token = (~torch.isfinite(speed)).nonzero()[0].tolist()
        raise NumericalError(
            f"Velocities must be finite, but at s = 0 that of token {token} of system {system} is not. Check the "
            "matrices, functions and vectors of the field."
        )
    return np.asarray(speed.amax(-1).cpu().double().numpy())


def _law(field: VelocityField) -> Law:
    """What the compiled engine is told of a plain field."""
    from armillary.dynamics.pairs import Law

    factor, term = _attention(field)
    rule = term.rule
    beta = rule.beta if isinstance(rule, Softmax | Unnormalized) else 0.0
    shifted = isinstance(rule, Unnormalized) and rule.clock == "shifted"
    return Law(_CODES[type(rule)], beta, factor, shifted)


def _log(mergers: list[tuple[int, float, int, int, float, float, float]], holder: Tensor) -> list[Merger]:
    """The log with every merger's original tokens; the holders of the systems are brought along."""
    found = []
    for system, time, kept, other, first, second, overlap in mergers:
        row = holder[system]
        row[row == other] = kept
        tokens = tuple((row == kept).nonzero().flatten().tolist())
        found.append(Merger(time, system, tokens, (first, second), overlap))
    return found


def _attention(field: VelocityField) -> tuple[float, AttentionDrift]:
    factor, term = field.drift.terms[0]
    assert isinstance(term, AttentionDrift)
    return factor, term


def compiled_obstacle(field: VelocityField, start: Tensor, integrator: Integrator) -> str | None:
    """What of a run the compiled engine cannot do, in words."""
    if not isinstance(integrator, Tsit5):
        return f"{integrator}"
    if field.scheme != "post":
        return f"the scheme {field.scheme}"
    if len(field.drift.terms) != 1 or not isinstance(field.drift.terms[0][1], AttentionDrift):
        return "drifts beside attention"
    term = field.drift.terms[0][1]
    if not isinstance(term.mask, Full) or term.heads is not None or term.positions is not None:
        return "masks, heads and positions"
    if type(term.rule) not in _CODES:
        return f"{term.rule}"
    wanted = start.requires_grad or isinstance(getattr(term.rule, "beta", 0.0), Tensor)
    if start.dtype != torch.float64 or start.device.type != "cpu" or wanted:
        return "single precision, other devices and gradients"
    return None
