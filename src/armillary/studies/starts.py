"""Independent starts by seed, and plain flows of many of them: what presets of `armillary phase` share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from armillary import sphere
from armillary.dynamics.attention import RowRule, Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.flow import flow
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.merging import Merging
from armillary.dynamics.normalization import on_sphere
from armillary.trajectory import Trajectory

__all__ = ["attended", "from_angles", "groups_on_circle", "jittered_ring", "uniform_starts"]


def uniform_starts(seeds: Sequence[int], *, tokens: int, dim: int) -> Float[Tensor, "systems tokens dim"]:
    """Independent uniform directions, one system for each seed.

    Args:
        seeds: One number a system.
        tokens: How many tokens each has.
        dim: Of the space they are unit vectors in.
    """
    return torch.stack([sphere.uniform(tokens=tokens, dim=dim, seed=seed) for seed in seeds])


def from_angles(angles: Float[np.ndarray, "*batch tokens"]) -> Float[Tensor, "*batch tokens 2"]:
    """Unit vectors of the plane at the given angles in radians."""
    return torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=-1))


def jittered_ring(seeds: Sequence[int], *, tokens: int, noise: float) -> Float[Tensor, "systems tokens 2"]:
    """Tokens at equal distances on the circle, each shifted by an independent normal angle.

    Args:
        seeds: One number a system.
        tokens: How many tokens.
        noise: Standard deviation of the shift in radians.
    """
    even = 2 * np.pi * np.arange(tokens) / tokens
    shifts = [np.random.default_rng([7, seed]).standard_normal(tokens) for seed in seeds]
    return from_angles(even + noise * np.asarray(shifts))


def attended(
    starts: Float[Tensor, "systems tokens dim"],
    *,
    rule: RowRule | float,
    times: Sequence[float],
    rtol: float,
    angle: float | None = None,
    weights: Tensor | None = None,
) -> Trajectory:
    """Tokens under full attention on the sphere, kept at the given times; every system has steps of its own.

    Args:
        starts: Unit rows.
        rule: How scores become weights; a number is the beta of a softmax.
        times: Ascending, from 0 on; the last one is where the run ends.
        rtol: Relative tolerance of Tsitouras' method.
        angle: Below which tokens are merged; None never merges.
        weights: Mass of each token, None for one each.
    """
    field = on_sphere(AttentionDrift(Softmax(float(rule)) if isinstance(rule, int | float) else rule))
    merging = None if angle is None else Merging(angle)
    return flow(
        field, starts, until=float(times[-1]), integrator=Tsit5(rtol=rtol), keep=list(times), merging=merging,
        weights=weights,
    )  # fmt: skip


def groups_on_circle(rows: Float[np.ndarray, "*batch tokens 2"], *, within: float) -> Float[np.ndarray, "*batch"]:
    """How many groups tokens on the circle form when neighbors within an angle belong together.

    As many as there are gaps wider than the angle; one where no gap is.

    Args:
        rows: Unit vectors of the plane.
        within: Angle in radians.
    """
    angles = np.sort(np.arctan2(rows[..., 1], rows[..., 0]) % (2 * np.pi), axis=-1)
    gaps = np.diff(angles, axis=-1, append=angles[..., :1] + 2 * np.pi)
    return np.maximum((gaps > within).sum(-1), 1).astype(float)
