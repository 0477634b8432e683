"""What is asked of a run, read before anything moves: times, start and weights; what contradicts itself is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, get_args

import torch
from torch import Tensor

from armillary.dynamics.integrators import Euler, Integrator, ResidualLayer, StratonovichHeun, Tsit5
from armillary.dynamics.merging import Merging
from armillary.dynamics.normalization import VelocityField
from armillary.errors import ArgumentError

__all__ = ["readable_start", "requested_times", "require_mergeable", "token_weights"]

_UNIT = {torch.float64: 1e-9, torch.float32: 1e-5}
_LONGEST = 100.0
_LOOSEST = {torch.float64: 0.0, torch.float32: 1e-6}


def requested_times(until: float, keep: int | Sequence[float], integrator: Integrator) -> list[float]:
    """The times at which states are kept, ascending.

    Args:
        until: Time to reach.
        keep: How many states, or the times themselves.
        integrator: A discrete one has states at its own layers only.

    Raises:
        ArgumentError: Times that do not run forward from 0 to `until`, or lie between two layers.
    """
    if not isinstance(until, Real) or not 0 < until < math.inf:
        raise ArgumentError(f"Argument `until` must be positive and finite, but it is {until!r}. Time runs forward.")
    if isinstance(keep, Integral):
        if keep < 1:
            raise ArgumentError(f"Argument `keep` must be at least 1, but it is {keep}. 1 keeps the last state only.")
        times = [float(until)] if keep == 1 else [float(until) * k / (int(keep) - 1) for k in range(int(keep))]
    elif isinstance(keep, Real | str):
        raise ArgumentError(
            f"Argument `keep` must be a number of states or a list of times, but it is {keep!r}. Write keep=[{keep}] "
            "for one time."
        )
    else:
        times = [float(time) for time in keep]
    ascending = all(earlier < later for earlier, later in pairwise(times))
    if not times or not ascending or not 0 <= times[0] <= times[-1] <= until:
        raise ArgumentError(
            f"Argument `keep` must ascend within 0 and {until:g}, but it is {times[:6]}. Sort the times and take each "
            "once, or give a number of states."
        )
    _check_layers(times, until, integrator)
    return times


def _check_layers(times: list[float], until: float, integrator: Integrator) -> None:
    if not isinstance(integrator, Euler | ResidualLayer):
        return
    pace = integrator.step if isinstance(integrator, Euler) else 1.0
    off = next((t for t in [*times, until] if abs(t / pace - round(t / pace)) > 1e-6), None)
    if off is not None:
        raise ArgumentError(
            f"Argument `keep` must ask for whole layers of {integrator}, but it asks for {off:g}. A discrete model "
            "has no state between two layers."
        )


def token_weights(weights: Any, start: Tensor) -> Tensor | None:
    """Weights of the tokens, one row a system, `systems tokens`; None for one each.

    Args:
        weights: `*batch tokens` or `tokens`.
        start: `*batch tokens dim`.

    Raises:
        ArgumentError: They are not one positive number for each token.
    """
    if weights is None:
        return None
    weights = torch.as_tensor(weights)
    fits = weights.shape[-1:] == start.shape[-2:-1] and weights.ndim in (1, start.ndim - 1)
    if not fits or not bool((weights > 0).all()) or not bool(torch.isfinite(weights).all()):
        raise ArgumentError(
            f"Argument `weights` must be one positive number for each of {start.shape[-2]} tokens, but has shape "
            f"{list(weights.shape)} and smallest entry {float(weights.min()) if weights.numel() else math.nan:g}. "
            f"Leave tokens without weight out."
        )
    return weights.to(start).expand(start.shape[:-1]).reshape(-1, start.shape[-2])


def readable_start(
    field: VelocityField, start: Any, integrator: Integrator, merging: Merging | None, until: float
) -> Tensor:
    """The start, once nothing speaks against moving it by this field with this integrator.

    Args:
        field: What moves the tokens.
        start: `*batch tokens dim`.
        integrator: How time is stepped.
        merging: When tokens count as one, or None.
        until: Time to reach.

    Raises:
        ArgumentError: Rows that are no unit vectors, one token, one dimension, and choices that contradict each other.
    """
    if not isinstance(field, VelocityField):
        raise ArgumentError(
            f"Argument `field` must say where the norm is restored, but it is a {type(field).__name__}. Take "
            "on_sphere(drift)."
        )
    if not isinstance(integrator, get_args(Integrator)):
        raise ArgumentError(
            f"Argument `integrator` must be one of {', '.join(one.__name__ for one in get_args(Integrator))}, but it "
            f"is {integrator!r}. Take Tsit5(rtol=1e-8)."
        )
    start = _configuration(start)
    field.drift.check(start.shape[-2], start.shape[-1])
    _check_rows(field, start)
    _check_precision(start, integrator, merging, until)
    if field.drift.noise and not isinstance(integrator, StratonovichHeun):
        raise ArgumentError(
            f"Argument `integrator` must be StratonovichHeun for a field with noise, but it is {integrator}. "
            "Take StratonovichHeun(step=0.01, seed=0)."
        )
    if merging is not None:
        require_mergeable(field, integrator, merging)
    return start


def _configuration(start: Any) -> Tensor:
    if not isinstance(start, Tensor):
        raise ArgumentError(
            f"Argument `start` must be a tensor, but it is a {type(start).__name__}. Take torch.as_tensor(start)."
        )
    if start.ndim < 2 or not start.is_floating_point() or not math.prod(start.shape[:-2]):
        raise ArgumentError(
            f"Argument `start` must be real [..., tokens, dim], but has shape {list(start.shape)} and type "
            f"{start.dtype}. Take sphere.uniform(tokens=..., dim=..., seed=...)."
        )
    tokens, dim = start.shape[-2:]
    if tokens < 2 or dim < 2:
        raise ArgumentError(
            f"Argument `start` must hold at least two tokens in at least two dimensions, but holds {tokens} in {dim}. "
            + ("One token attends to itself and stays." if tokens < 2 else "In one dimension nothing can turn.")
        )
    if not bool(torch.isfinite(start).all()):
        where = (~torch.isfinite(start)).nonzero()[0].tolist()
        raise ArgumentError(f"Argument `start` must be finite, but entry {where} is not. Check where it comes from.")
    if start.dtype not in _UNIT:
        raise ArgumentError(f"Argument `start` must be float64 or float32, but is {start.dtype}. Take start.double().")
    return start


def _check_rows(field: VelocityField, start: Tensor) -> None:
    norms = start.norm(dim=-1)
    far = (norms - 1).abs() > _UNIT[start.dtype] if field.spherical or field.scheme == "mix" else norms == 0
    if bool(far.any()) and field.scheme != "flat":
        where = far.nonzero()[0].tolist()
        wanted = "unit rows" if field.spherical or field.scheme == "mix" else "rows with a direction"
        raise ArgumentError(
            f"Argument `start` must have {wanted}, but row {where} has norm {float(norms[tuple(where)]):.12g}. "
            + ("Take sphere.normalize(start)." if float(norms[tuple(where)]) else "Leave it out.")
        )


def _check_precision(start: Tensor, integrator: Integrator, merging: Merging | None, until: float) -> None:
    if start.dtype == torch.float32 and (merging is not None or until > _LONGEST):
        raise ArgumentError(
            f"Argument `start` must be float64 for merging and for times beyond {_LONGEST:g}, but is float32, in which "
            "slow motion freezes. Take start.double()."
        )
    if isinstance(integrator, Tsit5) and integrator.rtol < _LOOSEST[start.dtype]:
        raise ArgumentError(
            f"Argument `rtol` must be at least {_LOOSEST[start.dtype]:g} for a start in {start.dtype}, whose rounding "
            f"would be taken for an error, but it is {integrator.rtol:g}. Take start.double()."
        )


def require_mergeable(field: VelocityField, integrator: Integrator, merging: Merging) -> None:
    """Refuse merging where it would change the motion.

    Args:
        field: What moves the tokens.
        integrator: How time is stepped.
        merging: When tokens count as one.

    Raises:
        ArgumentError: Fixed steps, an angle that the tolerance blurs, or a field that tells tokens at one place apart.
    """
    from armillary.dynamics.ingredients import mergeable

    if not isinstance(integrator, Tsit5):
        raise ArgumentError(f"Argument `merging` needs Tsit5, but the integrator is {integrator}. Take Tsit5.")
    merging.check(integrator.rtol)
    if not mergeable(field):
        raise ArgumentError(
            "Argument `merging` must go with tokens that are moved alike wherever they are alike (attention on the "
            "sphere without a mask, positions or vectors of their own), but this field tells tokens apart. Leave it "
            "out."
        )
