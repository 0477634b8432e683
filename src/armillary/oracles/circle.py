"""Laws on the circle: the angular equation, what uniform weights conserve, the Poisson kernel, natural frequencies."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "angular_velocity",
    "cross_ratio",
    "kuramoto_order",
    "lorentzian_disorder",
    "lorentzian_order",
    "poisson_order",
    "three_clusters_release",
    "triangle_rate",
]


def angular_velocity(angles: np.ndarray, *, beta: float) -> np.ndarray:
    """phi_i' = sum_j A_ij sin(phi_j - phi_i) under softmax of beta cos(phi_j - phi_i)."""
    apart = angles[None, :] - angles[:, None]
    weights = np.exp(beta * (np.cos(apart) - 1))
    return np.asarray((weights * np.sin(apart)).sum(1) / weights.sum(1))


def kuramoto_order(angles: np.ndarray) -> float:
    """|mean of e^{i phi}|."""
    return float(abs(np.exp(1j * np.asarray(angles)).mean()))


def cross_ratio(rows: np.ndarray) -> float:
    """|x1 - x2| |x3 - x4| / (|x1 - x3| |x2 - x4|) of the first four rows: conserved at uniform weights, any dimension.

    All tokens then share one field, and its flow acts on the sphere by Moebius maps.
    """
    x = np.asarray(rows)[:4]
    chord = np.linalg.norm
    return float(chord(x[0] - x[1]) * chord(x[2] - x[3]) / (chord(x[0] - x[2]) * chord(x[1] - x[3])))


def poisson_order(at: np.ndarray | float, *, order: float) -> np.ndarray:
    """Order parameter r(s) of a Poisson-kernel density at uniform weights: r^2 = r0^2 e^s / (1 - r0^2 + r0^2 e^s)."""
    grown = order**2 * np.exp(np.asarray(at, dtype=float))
    return np.sqrt(grown / (1 - order**2 + grown))


def lorentzian_order(coupling: float, *, width: float) -> float:
    """Order parameter of Kuramoto's model, Lorentzian frequencies: sqrt(1 - 2 gamma / K) above K = 2 gamma, else 0."""
    return math.sqrt(max(0.0, 1 - 2 * width / coupling))


def lorentzian_disorder(coupling: float, *, width: float, tokens: int) -> float:
    """Mean order parameter of finitely many oscillators below K = 2 gamma, long after random phases.

    The first moment of free ones is Gaussian noise with correlations e^{-gamma |s|} / tokens; coupled, it responds to
    itself, and E r^2 = 1 / (tokens (1 - K / 2 gamma)) to leading order: the mean of r is sqrt(pi / 4) of the root.
    """
    return math.sqrt(math.pi / (4 * tokens * (1 - coupling / (2 * width))))


def triangle_rate(beta: float) -> float:
    """Largest rate of the equilateral triangle of three tokens on the circle without row normalization, weights over n.

    (1/2 + 3 beta / 4) e^{-beta / 2}, zero at beta = -2/3: below it three tokens lock in a triangle.
    """
    return (0.5 + 0.75 * beta) * math.exp(-beta / 2)


def three_clusters_release(first: float, second: float) -> float:
    """The beta up to which three clusters that stand still on the circle are stable, as the arcs between them say.

    Weights are free: clusters with arcs a, b and c = 2 pi - a - b between them, each below pi, stand still for the
    weights f(b), f(c), f(a), f(t) = e^{beta cos t} sin t. With g = f' / f = cot t - beta sin t the second variation of
    the energy is that of a triangle of springs proportional to g(a), g(b), g(c), which holds exactly if their sum and
    the sum of their products in pairs are positive. The latter is quadratic in beta, and its constant is 1, since the
    arcs add up to a multiple of pi; where the sum vanishes it is not positive, so that its larger root decides. The
    sum is positive only for beta < (cot a + cot b + cot c) / (sin a + sin b + sin c), which is never above -2/3: on
    triangles of one circle the cotangents add up to at most -sqrt 3 and the sines to at most 3 sqrt 3 / 2. So no three
    clusters, of whatever weights, hold above -2/3. Derived for this package.

    Args:
        first: a, within (0, pi).
        second: b, within (0, pi), with a + b above pi.

    Returns:
        Beta, at most -2/3; the arcs stay as they are, so that weights change with beta.
    """
    arcs = np.asarray([first, second, 2 * math.pi - first - second])
    cot, sin = 1 / np.tan(arcs), np.sin(arcs)
    pairs = ((0, 1), (1, 2), (2, 0))
    linear = float(sum(cot[i] * sin[j] + cot[j] * sin[i] for i, j in pairs))
    square = float(sum(sin[i] * sin[j] for i, j in pairs))
    return (linear - math.sqrt(max(0.0, linear**2 - 4 * square))) / (2 * square)
