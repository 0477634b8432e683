"""Where order sets in under noise: thresholds of the uniform state, and whether the transition is continuous."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, iv, ive

__all__ = ["continuous_up_to", "critical_coupling", "linear_threshold", "order_of_disorder", "stationary_density"]


def critical_coupling(beta: float, *, dim: int) -> float:
    """K_# = beta^{d/2} / (2^{d/2} Gamma(d/2) I_{d/2}(beta)) for attention without row normalization and Brownian noise.

    Up to it the uniform law is the only minimizer of the free energy where the transition is continuous.
    """
    bessel = math.log(ive(dim / 2, beta)) + beta
    return math.exp(dim / 2 * math.log(beta / 2) - float(gammaln(dim / 2)) - bessel)


def linear_threshold(beta: float, *, dim: int) -> float:
    """Coupling K at which the uniform state loses stability in dx = K field ds + sqrt(2) dW: twice K_#.

    For d = 2 it is beta / I_1(beta).
    """
    return 2 * critical_coupling(beta, dim=dim)


def continuous_up_to(dim: int) -> float:
    """beta_*: the transition is continuous up to it; I_{d/2+1}(beta_*) / I_{d/2}(beta_*) = 1 / d."""
    return float(brentq(lambda beta: ive(dim / 2 + 1, beta) / ive(dim / 2, beta) - 1 / dim, 1e-6, 50.0, xtol=1e-12))


def stationary_density(beta: float, *, coupling: float, nodes: int = 256) -> np.ndarray:
    """The most ordered stationary density of dx = K field ds + sqrt(2) dW on the circle, without row normalization.

    It has no current, d log rho / d phi = K v, so that rho is proportional to exp(K / beta times the integral of
    e^{beta cos(phi - psi)} rho(psi)). Iterated from consensus at phi = 0; the uniform density where no order is left.

    Args:
        beta: Inverse temperature, positive.
        coupling: K.
        nodes: Of the grid 2 pi k / nodes.

    Returns:
        Masses of the nodes, `nodes`, of sum 1.
    """
    kernel = iv(np.minimum(np.arange(nodes), nodes - np.arange(nodes)), beta)
    mass = np.zeros(nodes)
    mass[0] = 1.0
    for _ in range(100_000):
        pull = coupling / beta * nodes * np.fft.ifft(kernel * np.fft.fft(mass)).real
        pull = np.exp(pull - pull.max())
        before, mass = mass, (mass + pull / pull.sum()) / 2
        if np.abs(mass - before).sum() < 1e-14:
            break
    return mass


def order_of_disorder(time: float, *, share: float, tokens: int) -> float:
    """Mean order parameter |mean of e^{i phi}| of independent uniform tokens that noise keeps apart.

    Below the threshold, at a share of it, the first moment is Gaussian to leading order in 1 / tokens, and its mean
    square times tokens follows m' = 2 - 2 (1 - share) m from m = 1: the mean modulus is sqrt(pi m / (4 tokens)).

    Args:
        time: Since the tokens were independent; the strength of the noise is 1.
        share: K over its linear threshold, below 1.
        tokens: How many.
    """
    rest = 1 / (1 - share)
    m = rest + (1 - rest) * math.exp(-2 * (1 - share) * time)
    return math.sqrt(math.pi * m / (4 * tokens))
