"""What gauges draw, each from a generator of its own: rotations, maps of stated condition number, gains, orders."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.errors import ArgumentError

__all__ = [
    "check_condition_number",
    "conditioned",
    "conformal",
    "fixing_ones",
    "generator_of",
    "orthogonal",
    "stretches",
]


def generator_of(seed: int) -> torch.Generator:
    """A generator of its own; the global random state is not touched."""
    return torch.Generator().manual_seed(seed)


def check_condition_number(condition_number: float) -> None:
    """Refuse what no map can have.

    Raises:
        ArgumentError: it is below one or not finite.
    """
    if not 1.0 <= condition_number < math.inf:
        raise ArgumentError(
            f"Argument `condition_number` must be finite and at least 1 for a map that can be undone, but it is "
            f"{condition_number}. Use for example 10."
        )


def orthogonal(dim: int, generator: torch.Generator) -> Tensor:
    """A matrix from the uniform (Haar) law, `dim dim`, float64 (Stewart 1980)."""
    q, r = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()


def fixing_ones(dim: int, generator: torch.Generator) -> Tensor:
    """An orthogonal matrix with Q 1 = 1, `dim dim`, uniform on the others; 1 is the vector of ones.

    Formula: H diag(1, Q') H with Q' uniform in dim - 1 and H the reflection that exchanges 1/sqrt(dim) and e_1.
    """
    inner = torch.eye(dim, dtype=torch.float64)
    inner[1:, 1:] = orthogonal(dim - 1, generator)
    axis = torch.full((dim,), dim**-0.5, dtype=torch.float64)
    axis[0] -= 1
    reflection = torch.eye(dim, dtype=torch.float64) - 2 * torch.outer(axis, axis) / axis.dot(axis)
    return reflection @ inner @ reflection


def stretches(count: int, condition_number: float, generator: torch.Generator) -> Tensor:
    """Factors from k^(-1/2) to k^(1/2), evenly spaced in their logarithm, in random order; `count`."""
    exponents = (
        torch.linspace(-0.5, 0.5, count, dtype=torch.float64) if count > 1 else torch.zeros(1, dtype=torch.float64)
    )
    return condition_number ** exponents[torch.randperm(count, generator=generator)]


def conditioned(dim: int, condition_number: float, generator: torch.Generator) -> Tensor:
    """U diag(s) V with orthogonal U, V and singular values s of the stated condition number, `dim dim`."""
    stretch = stretches(dim, condition_number, generator)
    return (orthogonal(dim, generator) * stretch) @ orthogonal(dim, generator)


def conformal(turned: int, condition_number: float, generator: torch.Generator) -> Tensor:
    """A map that commutes with every rotation of the pairs (i, i + turned/2): each pair turned and stretched.

    Formula: on pair i the matrix r_i [[cos a_i, -sin a_i], [sin a_i, cos a_i]], a complex number times another.

    Returns:
        `turned turned`, float64; its condition number is the ratio of the largest r to the smallest.
    """
    half = turned // 2
    radii = stretches(half, condition_number, generator)
    angles = 2 * math.pi * torch.rand(half, generator=generator, dtype=torch.float64)
    a, b = torch.diag(radii * angles.cos()), torch.diag(radii * angles.sin())
    return torch.cat([torch.cat([a, -b], 1), torch.cat([b, a], 1)], 0)
