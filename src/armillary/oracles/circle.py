"""Laws on the circle: the angular equation, what uniform weights conserve, the Poisson kernel, natural frequencies."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "angular_velocity",
    "cross_ratio",
    "kuramoto_order",
    "lorentzian_order",
    "poisson_order",
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


def triangle_rate(beta: float) -> float:
    """Largest rate of the equilateral triangle of three tokens on the circle without row normalization, weights over n.

    (1/2 + 3 beta / 4) e^{-beta / 2}, zero at beta = -2/3: below it three tokens lock in a triangle.
    """
    return (0.5 + 0.75 * beta) * math.exp(-beta / 2)
