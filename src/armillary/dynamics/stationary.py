"""Where nothing moves: how fast a configuration moves, and what its linearization says when it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.normalization import VelocityField
from armillary.errors import ArgumentError

__all__ = ["Stationarity", "growth_rates", "stationarity"]

STILL = 1e-13
"""A largest speed below this is rounding of unit vectors."""

LARGEST_LINEARIZATION = 400
"""Coordinates (tokens times dim) up to which the Jacobian is taken."""


@dataclass(frozen=True)
class Stationarity:
    """Whether a configuration moves at all, and where a small push would lead.

    Attributes:
        speed: Largest speed of a token.
        stationary: Whether that is rounding.
        fastest: Largest growth rate of the linearization (NaN where it moves, or is too large to linearize).
    """

    speed: float
    stationary: bool
    fastest: float

    @property
    def label(self) -> str:
        """In words: moving, or stationary and stable, neutral, unstable or not examined."""
        if not self.stationary:
            return "moving"
        if self.fastest != self.fastest:
            return "stationary (not linearized: too large)"
        if self.fastest > 1e-6:
            return f"stationary and unstable (a push grows as e^({self.fastest:.4g} s))"
        return "stationary and stable, up to rotations"


def growth_rates(field: VelocityField, configuration: Tensor, *, time: float = 0.0) -> Tensor:
    """Real parts of the eigenvalues of the linearized motion in the tangent space, descending.

    Args:
        field: A field whose state has unit rows.
        configuration: Unit rows, `tokens dim`.
        time: When.

    Returns:
        `tokens (dim - 1)` numbers; rotations of everything give zeros.

    Raises:
        ArgumentError: The field does not live on the sphere, or the configuration is too large.
    """
    tokens, dim = configuration.shape
    if not field.spherical:
        raise ArgumentError("Argument `field` must live on the sphere, but it does not. Linearize on_sphere(...).")
    if tokens * dim > LARGEST_LINEARIZATION:
        raise ArgumentError(
            f"Argument `configuration` must have at most {LARGEST_LINEARIZATION} coordinates to be linearized, but has "
            f"{tokens * dim}. Take fewer tokens."
        )
    now = field.during(time)
    frames = torch.stack([_frame(row) for row in configuration])

    def pulled(flat: Tensor) -> Tensor:
        shift = (frames * flat.reshape(tokens, 1, dim - 1)).sum(-1)
        moved = configuration + shift
        velocity = now.velocity(time, moved / moved.norm(dim=-1, keepdim=True))
        return (frames * velocity[..., None]).sum(-2).reshape(-1)

    at = torch.zeros(tokens * (dim - 1), dtype=configuration.dtype, device=configuration.device)
    jacobian = torch.autograd.functional.jacobian(pulled, at)
    found = np.linalg.eigvals(jacobian.cpu().numpy()).real  # finds those of e^-800 too, where torch gives up
    return torch.from_numpy(np.sort(found)[::-1].copy()).to(configuration)


def stationarity(field: VelocityField, configuration: Tensor, *, time: float = 0.0) -> Stationarity:
    """Whether unit rows `tokens dim` move under a field, and if not, whether they would after a push."""
    speed = float(field.during(time).velocity(time, configuration).norm(dim=-1).max())
    still = speed < STILL
    small = configuration.numel() <= LARGEST_LINEARIZATION
    fastest = float(growth_rates(field, configuration, time=time)[0]) if still and small else float("nan")
    return Stationarity(speed, still, fastest)


def _frame(row: Tensor) -> Tensor:
    """An orthonormal basis of the tangent space at a unit vector, `dim dim-1`."""
    full = torch.eye(len(row), dtype=row.dtype, device=row.device)
    q, _ = torch.linalg.qr(torch.cat([row[:, None], full], dim=1))
    return q[:, 1 : len(row)]
