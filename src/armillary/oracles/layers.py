"""Layers of random weights: what attention, averaging and random features do to overlaps before any training."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "causal_average_cosine",
    "causal_average_rank",
    "gaussian_variance",
    "long_context_overlap",
    "orthogonal_after_attention",
    "random_attention_bulk",
    "random_attention_cosine",
    "random_attention_stable_rank",
    "random_energy_entropy",
    "relu_kernel",
    "uniform_attention_gram",
]


def random_attention_cosine(*, tokens: int, overlap: float, spread: float) -> float:
    """Cosine of two outputs of one attention layer with random Gaussian scores of standard deviation s, no residual.

    [rho + (1 - rho) e^{s^2 rho (1 - rho)} / n] / [rho + (1 - rho) e^{s^2 (1 - rho)} / n] for equiangular inputs of
    overlap rho; holds for s^2 well below (ln n) / 2.
    """
    off, rest, square = overlap, 1 - overlap, spread**2
    return (off + rest * math.exp(square * off * rest) / tokens) / (off + rest * math.exp(square * rest) / tokens)


def orthogonal_after_attention(spread: float) -> float:
    """The same for orthogonal tokens: e^{-s^2}."""
    return math.exp(-(spread**2))


def random_attention_bulk(spread: float) -> float:
    """Mean singular value of the bulk of a softmax of independent N(0, s^2) scores, times sqrt(T): 8 sigma / (3 pi).

    sigma = sqrt(e^{s^2} - 1); the largest singular value tends to 1.
    """
    return 8 * math.sqrt(math.exp(spread**2) - 1) / (3 * math.pi)


def random_attention_stable_rank(spread: float) -> float:
    """Stable rank of the same matrix: e^{s^2}."""
    return math.exp(spread**2)


def random_energy_entropy(share: float) -> float:
    """Row entropy over ln T of softmax rows of scores of spread f sqrt(2 ln T), large T: 1 - f^2 for f < 1, else 0.

    The random energy model.
    """
    return max(0.0, 1 - share**2)


def uniform_attention_gram(
    *, tokens: int, layers: int, residual: float, diagonal: float = 1.0, off_diagonal: float = 0.0
) -> tuple[float, float]:
    """Expected diagonal q and off-diagonal p of the Gram matrix after layers x + alpha mean(V x) with random V.

    Both gain F m, F = (1 + alpha^2)^L - 1, m = (q + (n - 1) p) / n. Source: Noci et al. 2022.
    """
    mean = (diagonal + (tokens - 1) * off_diagonal) / tokens
    gained = ((1 + residual**2) ** layers - 1) * mean
    return diagonal + gained, off_diagonal + gained


def causal_average_cosine(first: int, second: int) -> float:
    """Cosine of the means of the first i and first j of orthonormal tokens: sqrt(i / j), i <= j."""
    return math.sqrt(min(first, second) / max(first, second))


def causal_average_rank(tokens: int) -> float:
    """Participation rank of all running means of n orthonormal tokens, rows normalized: 2 n / (n + 1)."""
    return 2 * tokens / (tokens + 1)


def relu_kernel(overlap: float) -> float:
    """Cosine after a wide random ReLU layer: [sqrt(1 - c^2) + c (pi - arccos c)] / pi. Source: Cho & Saul 2009."""
    return (math.sqrt(1 - overlap**2) + overlap * (math.pi - math.acos(overlap))) / math.pi


def long_context_overlap(*, tokens: int, overlap: float, gamma: float) -> float:
    """Overlap of two outputs of one softmax layer on equiangular tokens at beta = gamma ln n, exactly at finite n.

    The limit is 1 below, 4 rho / (1 + 3 rho) at and rho above gamma = 1 / (1 - rho).
    """
    own = 1 / (1 + (tokens - 1) * math.exp(-gamma * math.log(tokens) * (1 - overlap)))
    other = (1 - own) / (tokens - 1)
    # output_i = (own - other) x_i + other sum_j x_j
    u, total = own - other, 1 + (tokens - 1) * overlap
    norm = u**2 + 2 * u * other * total + other**2 * tokens * total
    cross = u**2 * overlap + 2 * u * other * total + other**2 * tokens * total
    return cross / norm


def gaussian_variance(at: float | np.ndarray, *, variance: float, sign: int = 1) -> np.ndarray:
    """Variance of a Gaussian cloud moved by attention without a norm, values +-1: s0 / (1 -+ 2 s0 t).

    It blows up at t = 1 / (2 s0) for attractive values; particles follow until their number cuts it off.
    """
    return np.asarray(variance / (1 - sign * 2 * variance * np.asarray(at, dtype=float)))
