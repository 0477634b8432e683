"""The continuity equation that many tokens should follow: spectral solvers on the circle and for zonal clouds.

d mu / ds + div(mu v) = 0, v = grad log Z / beta, Z(x) = integral of e^{beta (x . y - 1)} mu(dy). Both solvers carry
moments and evaluate the weak form, so that mass, the zeroth moment, is conserved to rounding. They hold until clusters
need more moments than there are; `tail` says how much of the density lies in the last tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import eval_gegenbauer, gammaln, ive, roots_gegenbauer

from armillary.oracles.linear import bessel_ratio

__all__ = ["Moments", "circle", "zonal"]


@dataclass(frozen=True, eq=False)
class Moments:
    """A density through time, in moments.

    Attributes:
        at: Times.
        moments: `times modes`; on the circle complex, integral of e^{-i k phi} mu, k = 0, 1, ...; for zonal clouds
            integrals of P_l(e . x), normalized to P_l(1) = 1.
        tail: At each time the largest modulus among the last tenth of the moments over the largest of all.
    """

    at: np.ndarray
    moments: np.ndarray
    tail: np.ndarray


def circle(moments: Sequence[complex], *, beta: float, at: Sequence[float], modes: int) -> Moments:
    """Density on the circle under softmax, pseudo-spectral with twice the nodes that products need.

    Args:
        moments: integral of e^{-i k phi} mu at s = 0 for k = 0 (1), 1, 2, ...; the rest is zero.
        beta: Inverse temperature, positive.
        at: Times, ascending.
        modes: How many moments are carried.

    Returns:
        Moments at these times.
    """
    start = np.zeros(modes, dtype=complex)
    start[: len(moments)] = moments
    k, nodes = np.arange(modes), 4 * modes
    kernel = ive(k, beta)

    def function(spectrum: np.ndarray) -> np.ndarray:
        """Values on the grid of sum over k of spectrum_k e^{i k phi} and its conjugate, over 2 pi."""
        padded = np.zeros(nodes // 2 + 1, dtype=complex)
        padded[:modes] = spectrum
        return np.asarray(np.fft.irfft(padded, n=nodes) * nodes)

    def rate(_: float, packed: np.ndarray) -> np.ndarray:
        mu = packed[:modes] + 1j * packed[modes:]
        smooth, slope, density = function(mu * kernel), function(1j * k * mu * kernel), function(mu)
        current = np.fft.rfft(density * slope / (beta * smooth))[:modes] / nodes
        moved = -1j * k * current
        return np.concatenate([moved.real, moved.imag])

    packed = np.concatenate([start.real, start.imag])
    found = solve_ivp(rate, (0.0, at[-1]), packed, method="DOP853", t_eval=at, rtol=1e-11, atol=1e-13)
    return _with_tail(found.t, (found.y[:modes] + 1j * found.y[modes:]).T)


def zonal(moments: Sequence[float], *, dim: int, beta: float, at: Sequence[float], modes: int) -> Moments:
    """Density on S^{d-1} that depends on u = e . x only, under softmax, in Gegenbauer polynomials.

    With w(u) = (1 - u^2)^{(d-3)/2}, moments obey m_l' = integral of (1 - u^2) f Z' / (beta Z) P_l' w du.

    Args:
        moments: integral of P_l(u) mu at s = 0 for l = 0 (1), 1, 2, ...; the rest is zero.
        dim: d, at least 3.
        beta: Inverse temperature, positive.
        at: Times, ascending.
        modes: How many moments are carried.
    """
    order = dim / 2 - 1
    nodes, weights = roots_gegenbauer(3 * modes, order)
    weights = weights / weights.sum()
    degree = np.arange(modes)
    log_top = gammaln(degree + 2 * order) - gammaln(degree + 1) - gammaln(2 * order)
    values = np.asarray([eval_gegenbauer(n, order, nodes) for n in degree]) / np.exp(log_top)[:, None]
    slopes = np.zeros_like(values)
    slopes[1:] = [2 * order * eval_gegenbauer(n - 1, order + 1, nodes) / np.exp(log_top[n]) for n in range(1, modes)]
    dimension = 1 / (values**2 @ weights)  # of the harmonics of each degree
    ratios = np.cumprod([1.0, *(bessel_ratio(order + n, beta) for n in range(modes - 1))])  # kernel over its l = 0 part
    start = np.zeros(modes)
    start[: len(moments)] = moments

    def rate(_: float, m: np.ndarray) -> np.ndarray:
        density = (dimension * m) @ values
        smooth, slope = (dimension * m * ratios) @ values, (dimension * m * ratios) @ slopes
        return np.asarray(slopes @ (weights * (1 - nodes**2) * density * slope / (beta * smooth)))

    found = solve_ivp(rate, (0.0, at[-1]), start, method="DOP853", t_eval=at, rtol=1e-11, atol=1e-13)
    return _with_tail(found.t, found.y.T)


def _with_tail(at: np.ndarray, moments: np.ndarray) -> Moments:
    size = np.abs(moments)
    last = max(1, size.shape[1] // 10)
    return Moments(np.asarray(at), moments, size[:, -last:].max(1) / size.max(1))
