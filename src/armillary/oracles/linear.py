"""Growth rates near named states: the uniform cloud, consensus, opposed pairs, the simplex, bipolar states."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ive

__all__ = [
    "antipodal_escape",
    "bipolar_rates",
    "causal_consensus_spectrum",
    "consensus_rate",
    "direct_consensus_threshold",
    "fastest_harmonic",
    "fastest_harmonic_switch",
    "harmonic_rate",
    "random_values_exponent_of_flow",
    "random_values_exponents",
    "simplex_rate",
]


def bessel_ratio(order: float, beta: float) -> float:
    """I_{order + 1}(beta) / I_order(beta) by its continued fraction, which does not underflow in any dimension."""
    # I_{v+1} / I_v = 1 / (2 (v + 1) / x + I_{v+2} / I_{v+1})
    found = 0.0
    for k in range(int(40 + 2 * beta), 0, -1):
        found = 1.0 / (2 * (order + k) / beta + found)
    return found


def harmonic_rate(degree: int, *, dim: int, beta: float) -> float:
    """Growth rate of harmonics of degree l around the uniform cloud under softmax.

    sigma_l = l (l + d - 2) I_{l + d/2 - 1}(beta) / (beta I_{d/2 - 1}(beta)); for d = 2: k^2 I_k / (beta I_0).
    """
    ratio, order = 1.0, dim / 2 - 1
    for k in range(degree):
        ratio *= bessel_ratio(order + k, beta)
    return degree * (degree + dim - 2) / beta * ratio


def fastest_harmonic(*, dim: int, beta: float, largest: int = 200) -> int:
    """The degree that grows fastest around the uniform cloud: about sqrt(2 beta) on the circle."""
    return 1 + int(np.argmax([harmonic_rate(degree, dim=dim, beta=beta) for degree in range(1, largest)]))


def fastest_harmonic_switch(degree: int, *, dim: int) -> float:
    """The beta at which degrees l and l + 1 grow alike around the uniform cloud; above it l + 1 grows faster.

    The root of I_{v+1}(beta) / I_v(beta) = l (l + d - 2) / ((l + 1) (l + d - 1)), v = l + d/2 - 1, to 1e-10: the ratio
    rises with beta from 0 to 1, so that there is one.
    """
    share = degree * (degree + dim - 2) / ((degree + 1) * (degree + dim - 1))
    largest = 2.0 * (degree + 1) * (degree + dim) + 10
    order = degree + dim / 2 - 1
    return float(brentq(lambda beta: bessel_ratio(order, beta) - share, 1e-3, largest, xtol=1e-10))


def direct_consensus_threshold(dim: int) -> float:
    """The beta below which the mean direction is the fastest mode: I_{v+2} / I_{v+1} = (d - 1) / (2 d), v = d/2 - 1."""
    return fastest_harmonic_switch(1, dim=dim)


def consensus_rate(*, beta: float, rule: str = "softmax") -> float:
    """Rate at which 1 - c decays near consensus: 2 under softmax, at every beta; 2 e^beta without row normalization."""
    return 2.0 if rule == "softmax" else 2.0 * math.exp(beta)


def causal_consensus_spectrum(tokens: int) -> np.ndarray:
    """Rates of the linearization at consensus under a causal mask: 0 and -(1 - 1/k), k = 2 ... n, descending."""
    return np.asarray([0.0, *(-(1 - 1 / k) for k in range(2, tokens + 1))])


def antipodal_escape(beta: float) -> float:
    """Rate at which the angle of two nearly opposed tokens leaves pi: 2 / (1 + e^{2 beta})."""
    return 2 / (1 + math.exp(2 * beta))


def simplex_rate(*, tokens: int, beta: float) -> float:
    """Rate at which the overlap of a simplex, -1/(n-1), grows: 2 n / (e^{beta n / (n-1)} + n - 1)."""
    return 2 * tokens / (math.exp(beta * tokens / (tokens - 1)) + tokens - 1)


def bipolar_rates(*, beta: float, top: float, second: float) -> tuple[float, float]:
    """Rates of the balanced state, half the tokens at +e1 and half at -e1, under values diag(mu, v2, ..., v2).

    Returns:
        The common tangent mode v2 - mu tanh(beta), unstable where positive, and the odd mode (v2 - mu) tanh(beta).
    """
    return second - top * math.tanh(beta), (second - top) * math.tanh(beta)


def random_values_exponents(*, dim: int, beta: float) -> tuple[float, float]:
    """Lyapunov exponents of two tokens in layers x -> normalize(x + sqrt(h) G A x), G fresh standard Gaussian, h -> 0.

    Per unit of summed h: [(d - 3) - (d - 1) tanh^2 beta] / 2 at c = -1, where opposed tokens attract if it is negative,
    and -(d - 1) / 2 at c = +1.
    """
    return ((dim - 3) - (dim - 1) * math.tanh(beta) ** 2) / 2, -(dim - 1) / 2


def random_values_exponent_of_flow(*, dim: int, beta: float) -> float:
    """The exponent at c = -1 when tokens flow along each G for the time h instead: Stratonovich's limit, not Ito's.

    [(d - 2) - tanh beta - (d - 1) tanh^2 beta] / 2: within a layer the mixed tokens turn while G acts on them. Derived
    for this package: with y = x_1 + x_2 and t = tanh beta, d log |y| = y.G y/|y|^2 - t x.G x in the sense of
    Stratonovich, and the corrections are (d - 2 - t) / 2 and -(d - 1) t^2 / 2.
    """
    t = math.tanh(beta)
    return ((dim - 2) - t - (dim - 1) * t**2) / 2


def circle_rates(beta: float, *, largest: int) -> np.ndarray:
    """k^2 I_k(beta) / (beta I_0(beta)) for k = 1 ... largest, by scaled Bessel functions."""
    k = np.arange(1, largest + 1)
    return np.asarray(k**2 * ive(k, beta) / (beta * ive(0, beta)))
