"""Softmax of Gaussian scores: what its rows give on average over the draws, exactly at any number of tokens.

A row of n scores a_j has weights A_j = e^{a_j} / Z, Z = sum_j e^{a_j}. With 1 / Z = int_0^inf e^{-u Z} du averages over
independent scores become integrals over u of one score's average to the power n: nothing is expanded in 1 / n. All
integrals are trapezoids in ln u and in the score, where the integrands are smooth and die at both ends: 1e-9 relative.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "attention_gram",
    "attention_on_gaussian_keys",
    "entropy",
    "shared_weight",
    "top_singular_value",
]

STEP = 0.05
REACH = 12.0
"""Scores in units of their spread run from -REACH to REACH in steps of STEP."""

LOG_STEP = 0.2
"""Of ln u."""


def shared_weight(*, tokens: int, spread: float, correlation: float = 1.0) -> float:
    """E sum_j A_j B_j of two softmax rows over the same tokens, scores N(0, s^2) and independent from token to token.

    Scores of one token in the two rows have the given correlation; 1 is one row: E sum_j A_j^2. It tends to
    e^{correlation s^2} / n for s^2 well below (ln n) / 2, and is 1 / n exactly at correlation 0. By the integral,
    n int int du dv E[e^{a+b} e^{-u e^a - v e^b}] E[e^{-u e^a - v e^b}]^{n-1}; for one row
    n int u du E[e^{2a} e^{-u e^a}] E[e^{-u e^a}]^{n-1}.

    Args:
        tokens: n, from 2 up.
        spread: s.
        correlation: From 0 to 0.99, or 1.
    """
    places, density = _scores()
    at, weighted = _at(tokens, spread), np.exp(spread * places)
    exponent = np.exp(at)[:, None] * weighted
    if correlation == 1:
        average = (exponent**2 * np.exp(-exponent)) @ density
        return float(tokens * LOG_STEP * (average * _power(-np.expm1(-exponent) @ density, tokens - 1)).sum())
    share = 1 - correlation**2
    square = places[:, None] ** 2 + places**2 - 2 * correlation * places[:, None] * places
    joint = np.exp(-square / (2 * share))
    joint /= joint.sum()
    taken, lost = exponent * np.exp(-exponent), -np.expm1(-exponent)
    alone = lost @ joint.sum(0)
    both = alone[:, None] + alone - lost @ joint @ lost.T
    return float(tokens * LOG_STEP**2 * ((taken @ joint @ taken.T) * _power(both, tokens - 1)).sum())


def entropy(*, tokens: int, spread: float) -> float:
    """Expected entropy of a softmax row of n independent N(0, s^2) scores, in nats: E ln Z - s^2 (1 - E sum_j A_j^2).

    The last term is E sum_j A_j a_j by Gaussian integration by parts; E ln Z = int (e^{-u} - E[e^{-u e^a}]^n) du / u.
    At s = f sqrt(2 ln n) and f < 1 it tends to (1 - f^2) ln n, the random energy model, as n grows.
    """
    places, density = _scores()
    at = _at(tokens, spread)
    lost = -np.expm1(-np.exp(at)[:, None] * np.exp(spread * places)) @ density
    log_sum = LOG_STEP * float((np.exp(-np.exp(at)) - _power(lost, tokens)).sum())
    return log_sum - spread**2 * (1 - shared_weight(tokens=tokens, spread=spread))


def attention_gram(*, tokens: int, overlap: float, spread: float) -> tuple[float, float]:
    """Expected squared length q and inner product p of outputs of one attention layer, scores x . B y, values x.

    B has independent N(0, s^2) entries and the n inputs are unit vectors of overlap rho. What is common to a row's
    scores drops out of the softmax; the rest has spread s sqrt(1 - rho) and correlation rho between rows, so that
    q, p = rho + (1 - rho) E sum_j A_j B_j of one row and of two. p / q tends to `layers.random_attention_cosine`.
    """
    left = spread * math.sqrt(1 - overlap)
    found = (shared_weight(tokens=tokens, spread=left, correlation=one) for one in (1.0, overlap))
    diagonal, off_diagonal = (overlap + (1 - overlap) * one for one in found)
    return diagonal, off_diagonal


def top_singular_value(*, tokens: int, spread: float) -> float:
    """Largest singular value of a softmax of n x n independent N(0, s^2) scores: 1 / sqrt(1 - v), v = E sum A^2 - 1/n.

    Rows sum to one, so that A A^T = 1 1^T / n + E E^T with E = A - 1 1^T / n, whose rows are independent and whose
    entries have variance v / n: a spike of size one on a Wishart matrix. Its equation u^T (z - E E^T)^{-1} u = 1 with
    the Marchenko-Pastur law, v z G^2 - z G + 1 = 0, gives z = 1 / (1 - v) for the square. Error O(1 / n^2).
    """
    return 1 / math.sqrt(1 - shared_weight(tokens=tokens, spread=spread) + 1 / tokens)


def attention_on_gaussian_keys(
    query: np.ndarray, *, mean: np.ndarray, covariance: np.ndarray, scores: np.ndarray, keys: int | None = None
) -> np.ndarray:
    """What a query takes of independent Gaussian keys N(m, Sigma) with scores x . B y and values y: m + Sigma B^T x.

    With n keys it is m + (1 - E sum_j A_j^2) Sigma B^T x on average, by Gaussian integration by parts; the scores'
    spread is sqrt(x . B Sigma B^T x). The query is none of the keys.

    Args:
        query: x, `dim`.
        mean: m, `dim`.
        covariance: Sigma, `dim dim`.
        scores: B, `dim dim`.
        keys: n; None for many.

    Returns:
        The expected output, `dim`.

    Source:
        Castin, Ablin, Carrillo & Peyre 2025 for many keys.
    """
    tilt = scores.T @ query
    spread = math.sqrt(float(tilt @ covariance @ tilt))
    kept = 1.0 if keys is None else 1 - shared_weight(tokens=keys, spread=spread)
    return np.asarray(mean + kept * covariance @ tilt)


def _scores() -> tuple[np.ndarray, np.ndarray]:
    """Standard normal scores and their weights."""
    places = np.arange(-REACH, REACH + STEP / 2, STEP)
    density = np.exp(-(places**2) / 2)
    return places, density / density.sum()


def _at(tokens: int, spread: float) -> np.ndarray:
    """Logarithms of u, from where n e^{s^2 / 2} u is nothing to where even the smallest of two weights says no."""
    low = -math.log(tokens) - spread**2 / 2 - 25
    return np.arange(low, REACH * spread + 5, LOG_STEP)


def _power(lost: np.ndarray, exponent: int) -> np.ndarray:
    """(1 - lost)^exponent; a tiny loss keeps its digits, and a loss of all leaves nothing."""
    return np.asarray(np.exp(exponent * np.log1p(-np.minimum(lost, 1 - 1e-16))))
