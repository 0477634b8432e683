"""What independent uniform tokens give on average: overlaps, energy, attention output, hemispheres, centers, modes."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import comb, gammaln, ive
from scipy.stats import chi2

__all__ = [
    "attention_output",
    "expected_energy",
    "expected_kernel",
    "hemisphere_probability",
    "kernel_density_modes",
    "participation_rank_of_uniform",
    "rogue_coordinate",
    "strong_centers",
    "uniformity_of_uniform",
]

PARKING = 0.7475979202
"""Renyi's constant: the share of a line that cars of unit length, parked at random, cover."""


def expected_kernel(beta: float, *, dim: int) -> float:
    """Log E e^{beta u_1}, u uniform on the sphere: log of Gamma(d/2) (2/beta)^{d/2-1} I_{d/2-1}(beta)."""
    order = dim / 2 - 1
    if beta == 0:
        return 0.0
    size = abs(beta)
    scaled = ive(order, size)
    if scaled > 1e-290:
        return float(gammaln(dim / 2) + order * math.log(2 / size) + math.log(scaled) + size)
    return _kernel_series(size, dim)


def _kernel_series(beta: float, dim: int) -> float:
    """0F1(; d/2; beta^2 / 4) term by term in logarithms, where Bessel functions of high order underflow."""
    k = np.arange(0, int(200 + 3 * beta))
    terms = 2 * k * math.log(beta / 2) - gammaln(k + 1) - (gammaln(dim / 2 + k) - gammaln(dim / 2))
    return float(np.logaddexp.reduce(terms))


def participation_rank_of_uniform(*, tokens: int, dim: int) -> float:
    """N d / (n + d - 1), the reciprocal of the expected mean squared overlap over all pairs."""
    return tokens * dim / (tokens + dim - 1)


def expected_energy(*, tokens: int, dim: int, beta: float) -> float:
    """E Phi = [n e^beta + n (n - 1) E e^{beta u_1}] / (2 beta)."""
    pairs = tokens * (tokens - 1) * math.exp(expected_kernel(beta, dim=dim))
    return (tokens * math.exp(beta) + pairs) / (2 * beta)


def attention_output(*, dim: int, beta: float) -> float:
    """Length along the query of its mean attention output over many uniform keys: I_{d/2}(beta) / I_{d/2-1}(beta)."""
    return float(ive(dim / 2, beta) / ive(dim / 2 - 1, beta))


def hemisphere_probability(*, tokens: int, dim: int) -> float:
    """Chance that uniform tokens lie in one hemisphere: 2^{1-n} sum_{k<d} C(n-1, k). Source: Wendel 1962."""
    return float(sum(comb(tokens - 1, k, exact=True) for k in range(dim)) / 2 ** (tokens - 1))


def kernel_density_modes(beta: float) -> float:
    """Expected number of maxima of sum_j e^{beta cos(phi - phi_j)} for many uniform angles.

    sqrt(sum k^4 I_k^2 / sum k^2 I_k^2) by Kac and Rice's formula; about sqrt(3 beta / 2). Tokens on the circle gather
    into as many groups.
    """
    k = np.arange(1, int(60 + 12 * math.sqrt(beta)))
    weights = ive(k, beta) ** 2
    return float(math.sqrt((k**4 * weights).sum() / (k**2 * weights).sum()))


def strong_centers(*, tokens: int, radius: float) -> float:
    """Expected number of tokens on the circle farther than `radius` from all earlier ones: [1 - (1-p)^n] / p."""
    p = radius / math.pi
    return (1 - (1 - p) ** tokens) / p


def greedy_centers(*, tokens: int, radius: float) -> float:
    """Expected number of centers kept greedily on the circle: (2 pi / r) (C - 0.3152 2 pi / (n r)), separation r."""
    around = 2 * math.pi / radius
    return around * (PARKING - 0.3152 * around / tokens)


def uniformity_of_uniform(*, dim: int, t: float) -> float:
    """Log E e^{-t |x - y|^2} of two independent uniform directions: log E e^{2 t u_1} - 2 t."""
    return expected_kernel(2 * t, dim=dim) - 2 * t


def rogue_coordinate(size: float, *, dim: int) -> tuple[float, float]:
    """Mean of the overlap c of two Gaussian rows with one shared coordinate, and of its square.

    With |x|^2 = a^2 + chi^2_{d-1}: E c = a^2 (E 1/|x|)^2, about a^2 / (a^2 + d - 1), and with q = E 1/|x|^2
    E c^2 = a^4 q^2 + (1 - a^2 q)^2 / (d - 1).

    Args:
        size: a, in standard deviations of the other coordinates.
        dim: d.
    """
    rest = chi2(dim - 1)
    inverse = float(rest.expect(lambda square: (size**2 + square) ** -0.5))
    q = float(rest.expect(lambda square: 1 / (size**2 + square)))
    return size**2 * inverse**2, size**4 * q**2 + (1 - size**2 * q) ** 2 / (dim - 1)
