"""What a simulation's record says beside its observables: groups along time, how each start ended, and its own law."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Integrator, ResidualLayer, Tsit5
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.outlook import plateau_lifetime
from armillary.observables.clustering import group_labels
from armillary.observables.grouping import NOISE, Grouping
from armillary.oracles import overlap as laws
from armillary.trajectory import Trajectory

__all__ = ["endings", "groups_along_time", "law_of", "terms_of"]

EQUAL = 1e-9
"""Overlaps of a start that differ by less are called one overlap."""

_STEEPEST = 600.0  # beta (1 - c) beyond which the time of a merger overflows


def groups_along_time(states: Tensor, grouping: Grouping) -> Tensor:
    """The group of every token at every time, numbered by first appearance; -1 for tokens in no group.

    Args:
        states: `systems times tokens dim`.
        grouping: Distance and rule.

    Returns:
        int64, `systems times tokens`.
    """
    return torch.stack([torch.stack([group_labels(one, grouping) for one in system]) for system in states])


def endings(run: Trajectory, field: VelocityField, grouping: Grouping) -> list[dict[str, Any]]:
    """What is left of each system at the last kept time.

    Args:
        run: States `systems times tokens dim`.
        field: What moved them.
        grouping: Distance and rule.

    Returns:
        For each system `sizes` of its groups, the largest first. Where two are left also the `overlap` of their mean
        directions, and, where the law of two clusters speaks of this field, `lifetime`: the time until equal ones would
        have merged, e^{beta (1 - c)} / (2 beta (1 - c^2)), and `lifetime_of_these`: the time that these sizes take to
        an overlap of 0.999, by quadrature.
    """
    found = []
    for last in run.last:
        labels = group_labels(last, grouping)
        groups = [last[labels == one] for one in labels.unique() if one != NOISE]
        groups.sort(key=len, reverse=True)
        entry: dict[str, Any] = {"sizes": [len(group) for group in groups]}
        if len(groups) == 2:
            entry |= _two(groups, _plain_softmax(field))
        found.append(entry)
    return found


def _two(groups: list[Tensor], rule: Softmax | None) -> dict[str, float]:
    first, second = (group.double().mean(0) for group in groups)
    overlap = float((first @ second) / (first.norm() * second.norm()))
    said = {"overlap": overlap}
    if rule is not None and rule.beta > 0 and abs(overlap) < 0.999 and rule.beta * (1 - overlap) < _STEEPEST:
        sizes = float(len(groups[0])), float(len(groups[1]))
        weights = sizes[0] / sum(sizes), sizes[1] / sum(sizes)
        said["lifetime"] = plateau_lifetime(rule.beta, overlap)
        said["lifetime_of_these"] = laws.two_clusters_time(overlap, 0.999, beta=rule.beta, weights=weights)
    return said


def law_of(field: VelocityField, starts: Tensor, integrator: Integrator) -> dict[str, Any] | None:
    """The law that this simulation's overlaps must follow, if one is known.

    Args:
        field: What moves the tokens.
        starts: `systems tokens dim`.
        integrator: How time is stepped.

    Returns:
        None, or a `name` ("equiangular", "causal pair", "residual layers" or "scheme") with what its function in
        `oracles.overlap` takes; `overlaps` holds the overlap of each start.
    """
    term = _only_attention(field)
    overlaps = _common_overlaps(starts)
    if term is None or overlaps is None or term.positions is not None:
        return None
    rule, tokens = term.rule, int(starts.shape[1])
    known: dict[str, Any] = {"tokens": tokens, "overlaps": overlaps}
    beta = 0.0 if isinstance(rule, Uniform) else getattr(rule, "beta", math.nan)
    if not isinstance(rule, Softmax | Uniform | Unnormalized):
        return None
    plain = isinstance(rule, Softmax | Uniform) and isinstance(term.mask, Full)
    if isinstance(integrator, ResidualLayer):
        fits = plain and field.scheme == "post"
        return {"name": "residual layers", "beta": beta, "step": integrator.step, **known} if fits else None
    if not isinstance(integrator, Tsit5):
        return None
    if field.scheme == "post" and isinstance(term.mask, Causal) and isinstance(rule, Uniform) and tokens == 2:
        return {"name": "causal pair", **known}
    if field.scheme == "post" and isinstance(term.mask, Full):
        kind = "softmax"
        if isinstance(rule, Unnormalized):
            kind = "shifted" if rule.clock == "shifted" else "unnormalized"
        return {"name": "equiangular", "beta": beta, "rule": kind, **known}
    orthonormal = all(abs(one) < EQUAL for one in overlaps)
    if plain and orthonormal and field.scheme in ("pre", "peri", "ngpt", "sqrt depth", "mix") and field.read is None:
        own = {"ngpt": {"alpha": field.alpha}, "mix": {"switch": field.switch}}.get(field.scheme, {})
        return {"name": "scheme", "scheme": field.scheme, "beta": beta, **own, **known}
    return None


def terms_of(field: VelocityField) -> list[str]:
    """What moves the tokens, part by part, in words."""
    return [str(term) if factor == 1 else f"{factor:g} times {term}" for factor, term in field.drift.terms]


def _only_attention(field: VelocityField) -> AttentionDrift | None:
    """The attention of a field that has nothing else, with identity matrices and the factor 1."""
    terms = field.drift.terms
    if len(terms) != 1 or terms[0][0] != 1 or not isinstance(terms[0][1], AttentionDrift):
        return None
    return terms[0][1] if terms[0][1].heads is None else None


def _plain_softmax(field: VelocityField) -> Softmax | None:
    """The row rule of softmax attention without a mask on the sphere: what the law of two clusters speaks of."""
    term = _only_attention(field)
    fits = term is not None and field.scheme == "post" and isinstance(term.mask, Full) and term.positions is None
    return term.rule if fits and term is not None and isinstance(term.rule, Softmax) else None


def _common_overlaps(starts: Tensor) -> list[float] | None:
    """The one overlap of each start, or None if a start has several."""
    tokens = starts.shape[1]
    unit = starts.double() / starts.double().norm(dim=-1, keepdim=True)
    apart = ~torch.eye(tokens, dtype=torch.bool)
    pairs = (unit @ unit.mT)[:, apart]
    if bool(((pairs.amax(1) - pairs.amin(1)) > EQUAL).any()):
        return None
    return [max(-1.0, min(1.0, float(one))) for one in pairs.mean(1)]
