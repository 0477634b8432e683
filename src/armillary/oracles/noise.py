"""Where order sets in under noise: thresholds of the uniform state, and whether the transition is continuous."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import gammaln, ive

__all__ = ["continuous_up_to", "critical_coupling", "linear_threshold"]


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
