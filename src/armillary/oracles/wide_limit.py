"""Layers of random weights in the limit of great width: what a whole decoder does to the Gram matrix of its tokens.

At initialization every coordinate of the stream is a sum of many independent terms, so that tokens are Gaussian and
their Gram matrix K_ij (mean product of coordinates) follows a recursion of its own. A norm divides it, attention
averages it over the tokens that each token sees, a feed-forward layer passes it through the kernel of its activation,
and the residual stream adds. Nothing here knows a model: matrices enter by the variance that they pass on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.special import erf, expit

__all__ = [
    "ACTIVATIONS",
    "Averaging",
    "Block",
    "FeedForward",
    "activation_gram",
    "averaged_gram",
    "embedding_gram",
    "mean_overlap",
    "normalized_gram",
    "participation_rank",
    "root_mean_square",
    "stream_grams",
]

Matrix = NDArray[np.float64]

ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "gelu": lambda u: u * 0.5 * (1 + erf(u / math.sqrt(2))),
    "gelu_new": lambda u: 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))),
    "relu": lambda u: np.maximum(u, 0),
    "silu": lambda u: u * expit(u),
    "tanh": np.tanh,
    "identity": lambda u: u,
}
"""Activations by the library's names; `gelu_new` is the approximation by a hyperbolic tangent."""

NODES, TERMS, FITTED = 121, 40, 9
"""Points of the quadrature, terms of the Hermite series, and slopes at which weighted averages are taken."""


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Attention of random weights.

    Attributes:
        value: Variance that a value has of a row of unit variance: width times the variance of the value weights.
        output: Variance that the output projection passes on: its inputs times the variance of its weights.
        score_spread: Standard deviation of the scores of unit rows; 0 averages evenly.
        window: How many tokens each token sees, itself included; None for all that came before.
    """

    value: float
    output: float
    score_spread: float = 0.0
    window: int | None = None


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """A feed-forward layer of random weights.

    Attributes:
        into: Variance of what the activation sees of a row of unit variance.
        gate: Of a gated layer, the variance of the factor beside the activation; None for a plain layer.
        out: Variance that the last projection passes on: hidden units times the variance of its weights.
        activation: One of `ACTIVATIONS`.
    """

    into: float
    out: float
    activation: str
    gate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block: what it adds to the stream, each part read through a norm.

    Attributes:
        attention: The attention, or None where it is removed.
        feed_forward: The feed-forward layer, or None where it is removed.
        epsilon: What the norms add under their root.
        parallel: True where both parts read the block's input.
        scale: What everything that the block adds is multiplied by.
    """

    attention: Averaging | None
    feed_forward: FeedForward | None
    epsilon: float
    parallel: bool = False
    scale: float = 1.0


def embedding_gram(ids: Sequence[int], *, token: float, position: float = 0.0) -> Matrix:
    """Gram matrix of random embeddings, for each coordinate: equal ids share a vector, positions add their own.

    Args:
        ids: Token ids of one document, T of them.
        token: Variance of a coordinate of the token embedding.
        position: Variance of a coordinate of the position embedding; 0 where there is none.

    Returns:
        Matrix `tokens tokens`.
    """
    row = np.asarray(ids)
    return token * (row[:, None] == row[None, :]) + position * np.eye(len(row))


def normalized_gram(gram: Matrix, epsilon: float) -> Matrix:
    """What a norm makes of it: K_ij / sqrt((K_ii + eps) (K_jj + eps)).

    LayerNorm and RMSNorm agree here: the mean over many independent coordinates of mean zero vanishes.
    """
    root = np.sqrt(np.diagonal(gram) + epsilon)
    return np.asarray(gram / np.outer(root, root))


def averaged_gram(gram: Matrix, *, score_spread: float = 0.0, window: int | None = None) -> Matrix:
    """Gram matrix of the averages that random attention takes of unit rows.

    Each token averages over itself and what came before. With random queries and keys the scores are Gaussian of
    spread s, and two weights multiply to exp(s^2 K_ij K_ab) on average (numerator and denominator averaged apart):
    sum_ab exp(s^2 K_ij K_ab) K_ab / sum_ab exp(s^2 K_ij K_ab), a up to i and b up to j. Positions do not turn scores
    here, so that rotary ones are left out; they matter where s is not small.

    Args:
        gram: K of normalized rows, `tokens tokens`.
        score_spread: s.
        window: How many tokens each sees, itself included; None for all before.

    Returns:
        Matrix `tokens tokens`.

    Source:
        Noci et al. 2022 (even averages); Cowsik et al. 2024 for weighted ones.
    """
    tokens = len(gram)
    sees = np.tril(np.ones((tokens, tokens)))
    if window is not None:
        sees -= np.tril(sees, -window)
    slopes = score_spread**2 * gram
    low, high = float(slopes.min()), float(slopes.max())
    middle, half = (low + high) / 2, (high - low) / 2
    if half <= 1e-12:
        return _weighted(gram, middle, sees)
    angles = (2 * np.arange(FITTED) + 1) * math.pi / (2 * FITTED)
    at = np.stack([_weighted(gram, middle + half * math.cos(angle), sees) for angle in angles])
    # the averages are smooth in their slope: a Chebyshev series through a few of them, read off at each pair's own
    modes = np.cos(np.outer(np.arange(FITTED), angles)) * (2 / FITTED)
    modes[0] /= 2
    series = np.einsum("ma,aij->mij", modes, at)
    place = np.arccos(np.clip((slopes - middle) / half, -1, 1))
    return np.asarray(sum(series[m] * np.cos(m * place) for m in range(FITTED)))


def _weighted(gram: Matrix, slope: float, sees: Matrix) -> Matrix:
    weights = np.exp(slope * gram)
    return np.asarray((sees @ (weights * gram) @ sees.T) / (sees @ weights @ sees.T))


def activation_gram(gram: Matrix, activation: str) -> Matrix:
    """E[f(u_i) f(u_j)] of Gaussian u with this Gram matrix, by the Hermite series of f at each token's own spread.

    The coefficients come from Gauss-Hermite quadrature; what is left of E[f^2] after the last term goes to the next
    power, so that the diagonal is that of the quadrature. The corner of "relu" has a closed form instead.

    Args:
        gram: Covariances of the inputs, `tokens tokens`.
        activation: One of `ACTIVATIONS`.

    Returns:
        Matrix `tokens tokens`.
    """
    if activation == "relu":
        return _rectified(gram)
    nodes, weights = hermegauss(NODES)
    weights = weights / weights.sum()
    spread = np.sqrt(np.diagonal(gram))
    values = ACTIVATIONS[activation](spread[:, None] * nodes)
    basis = np.empty((TERMS, NODES))
    basis[0], basis[1] = 1.0, nodes
    for n in range(2, TERMS):  # normalized Hermite polynomials
        basis[n] = (nodes * basis[n - 1] - math.sqrt(n - 1) * basis[n - 2]) / math.sqrt(n)
    found = (values * weights) @ basis.T
    left = np.sqrt(np.maximum((values**2) @ weights - (found**2).sum(1), 0))
    lengths = np.outer(spread, spread)
    correlation = np.clip(np.divide(gram, lengths, out=np.zeros_like(gram), where=lengths > 0), -1, 1)
    power, total = np.ones_like(gram), np.zeros_like(gram)
    for n in range(TERMS):
        total += np.outer(found[:, n], found[:, n]) * power
        power = power * correlation
    return np.asarray(total + np.outer(left, left) * power)


def _rectified(gram: Matrix) -> Matrix:
    """The arc-cosine kernel: sqrt(q_i q_j) [sqrt(1 - c^2) + c (pi - arccos c)] / (2 pi). Source: Cho & Saul 2009."""
    lengths = np.sqrt(np.outer(np.diagonal(gram), np.diagonal(gram)))
    c = np.clip(np.divide(gram, lengths, out=np.zeros_like(gram), where=lengths > 0), -1, 1)
    return np.asarray(lengths * (np.sqrt(1 - c**2) + c * (math.pi - np.arccos(c))) / (2 * math.pi))


def _fed_forward(gram: Matrix, layer: FeedForward) -> Matrix:
    kernel = activation_gram(layer.into * gram, layer.activation)
    return layer.out * (kernel if layer.gate is None else kernel * layer.gate * gram)


def _attended(gram: Matrix, attention: Averaging) -> Matrix:
    mixed = averaged_gram(gram, score_spread=attention.score_spread, window=attention.window)
    return attention.output * attention.value * mixed


def stream_grams(start: Matrix, blocks: Sequence[Block]) -> list[Matrix]:
    """Gram matrix of the stream at the embedding and after every block.

    Args:
        start: That of the embedding, `tokens tokens`.
        blocks: In the order of the pass.

    Returns:
        One matrix more than there are blocks.
    """
    grams = [start]
    for block in blocks:
        stream = read = grams[-1]
        if block.attention is not None:
            added = _attended(normalized_gram(read, block.epsilon), block.attention)
            stream = stream + block.scale**2 * added
        if block.feed_forward is not None:
            read = read if block.parallel else stream
            stream = stream + block.scale**2 * _fed_forward(normalized_gram(read, block.epsilon), block.feed_forward)
        grams.append(stream)
    return grams


def mean_overlap(gram: Matrix) -> float:
    """Mean of K_ij / sqrt(K_ii K_jj) over pairs i < j: the mean overlap at infinite width."""
    cosines = _cosines(gram)
    tokens = len(cosines)
    return float((cosines.sum() - np.trace(cosines)) / (tokens * (tokens - 1)))


def participation_rank(gram: Matrix, width: int) -> float:
    """Participation rank of unit rows in `width` coordinates: T^2 / (T + sum over i != j of c^2 + (1 - c^2)^2 / d).

    The last term is what overlaps of c scatter by in d coordinates.
    """
    squares = _cosines(gram) ** 2
    scattered = squares + (1 - squares) ** 2 / width
    np.fill_diagonal(scattered, 1.0)
    return float(len(gram) ** 2 / scattered.sum())


def root_mean_square(gram: Matrix) -> float:
    """Root mean square of a coordinate of the stream, over all tokens."""
    return float(np.sqrt(np.diagonal(gram).mean()))


def _cosines(gram: Matrix) -> Matrix:
    return normalized_gram(gram, 0.0)
