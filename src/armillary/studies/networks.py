"""Attention networks of random weights, carried as a mean row and deviations, so that differences keep their digits.

These are the discrete networks of the literature on signal propagation: several heads with matrices drawn anew in every
layer, and, where named, a skip connection, an MLP, a norm. They share nothing with the flow on the sphere but the word
attention. Without skips their rows agree to sixteen digits after three layers; rows written as m + e_i, with every
difference taken before it is rounded, follow the deviations e down to the smallest numbers there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from armillary.errors import ArgumentError

__all__ = ["PARTS", "Network", "Rows", "after_attention", "after_mlp", "normalized"]

PARTS = ("skip", "mlp", "norm")
"""What a network may have beside attention."""

SMALL = 0.5
"""Scores of deviations with each other below which rows are told apart by series; above it, rounding takes nothing."""

Matrix = Float[np.ndarray, "tokens dim"]
Vector = Float[np.ndarray, "dim"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows m + e_i.

    Attributes:
        mean: m, `dim`.
        apart: e_i, `tokens dim`; their mean is zero to rounding.
    """

    mean: Vector
    apart: Matrix

    @classmethod
    def of(cls, rows: Matrix) -> Rows:
        """Rows taken apart."""
        return cls(rows.mean(0), rows - rows.mean(0)).centered()

    @property
    def whole(self) -> Matrix:
        """The rows themselves."""
        return self.mean + self.apart

    def centered(self) -> Rows:
        """The same rows with the mean of the deviations moved into the mean row."""
        off = self.apart.mean(0)
        return Rows(self.mean + off, self.apart - off)

    def plus(self, other: Rows) -> Rows:
        """Row by row sum."""
        return Rows(self.mean + other.mean, self.apart + other.apart)

    @property
    def residual(self) -> float:
        """|E|_F / |X|_F, deviations over rows; 0 where all rows agree."""
        return _size(self.apart) / _size(self.whole)

    @property
    def composite_residual(self) -> float:
        """sqrt(|E|_1 |E|_inf) over the same of the rows: largest column sum times largest row sum."""
        return _composite(self.apart) / _composite(self.whole)


def _size(matrix: Matrix) -> float:
    """Frobenius norm, also of entries whose squares underflow."""
    largest = float(np.abs(matrix).max())
    return largest * float(np.linalg.norm(matrix / largest)) if largest > 0 else 0.0


def _composite(matrix: Matrix) -> float:
    absolute = np.abs(matrix)
    return math.sqrt(float(absolute.sum(0).max())) * math.sqrt(float(absolute.sum(1).max()))


def after_attention(
    x: Rows, *, scores: Float[np.ndarray, "heads dim dim"], values: Float[np.ndarray, "heads dim dim"]
) -> Rows:
    """Sum over heads of softmax(x_i . B x_j) x_j V, deviations first.

    With p_j = softmax of m . B e_j, t_ij = e_i . B e_j and N_i = sum_j p_j e^{t_ij}, row i attends to j with
    p_j e^{t_ij} / N_i: rows differ by what t does alone, which is of second order, so that their outputs differ by
    third.

    Args:
        x: The rows.
        scores: B of every head; the factor 1 / sqrt(d_k) belongs to it.
        values: V of every head, the output matrix included.
    """
    mean, apart = np.zeros_like(x.mean), np.zeros_like(x.apart)
    for score, value in zip(scores, values, strict=True):
        p, unlike = _weights(x.apart @ (x.mean @ score), x.apart @ score @ x.apart.T)
        mean += (x.mean + p @ x.apart) @ value
        apart += (unlike @ x.apart) @ value
    return Rows(mean, apart).centered()


def _weights(common: Vector, own: Matrix) -> tuple[Vector, Matrix]:
    """What every row attends to alike, softmax of `common`, and by how much each row differs from it."""
    p = np.exp(common - common.max())
    p /= p.sum()
    if np.abs(own).max() < SMALL:
        over = np.expm1(own)
        gained = (over @ p)[:, None]
        return p, p * (over - gained) / (1 + gained)
    full = np.exp(common + own - (common + own).max(1, keepdims=True))
    return p, full / full.sum(1, keepdims=True) - p


def after_mlp(x: Rows, *, inner: Float[np.ndarray, "dim width"], outer: Float[np.ndarray, "width dim"]) -> Rows:
    """relu(x W1) W2, deviations first: relu(a + b) - relu(a) is b where both are positive, 0 where neither is."""
    at, off = x.mean @ inner, x.apart @ inner
    both, neither = (at > 0) & (at + off > 0), (at <= 0) & (at + off <= 0)
    moved = np.where(both, off, np.where(neither, 0.0, np.maximum(at + off, 0) - np.maximum(at, 0)))
    return Rows(np.maximum(at, 0) @ outer, moved @ outer).centered()


def normalized(x: Rows) -> Rows:
    """Every row scaled to the length sqrt(dim), deviations first."""
    size = math.sqrt(len(x.mean))
    whole, middle = np.linalg.norm(x.whole, axis=1), float(np.linalg.norm(x.mean))
    shorter = -(2 * x.apart @ x.mean + (x.apart**2).sum(1)) / (whole * middle * (whole + middle))
    return Rows(size * x.mean / middle, size * (x.apart / whole[:, None] + np.outer(shorter, x.mean))).centered()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network of random weights: attention, and what else is named.

    Entries of every matrix are independent and normal, so that a score of two independent rows of length sqrt(dim) has
    the standard deviation `spread`, values keep the length of a row, and the MLP, of width 4 dim with ReLU, too.

    Args:
        parts: Some of `PARTS`. "skip" adds what goes in to what comes out of each sublayer, "mlp" puts an MLP behind
            every attention, "norm" scales rows to the length sqrt(dim) behind every sublayer.
        tokens: Rows.
        dim: Width.
        heads: Of every attention, dividing `dim`.
        spread: Standard deviation of a score at the start.
    """

    parts: tuple[str, ...]
    tokens: int
    dim: int
    heads: int
    spread: float

    def __post_init__(self) -> None:
        unknown = sorted(set(self.parts) - set(PARTS))
        if unknown:
            raise ArgumentError(
                f"Argument `parts` must name some of {', '.join(PARTS)}, but names {', '.join(unknown)}. Leave it out."
            )
        if self.dim % self.heads:
            raise ArgumentError(
                f"Argument `heads` must divide the width {self.dim}, but is {self.heads}. Take a divisor."
            )

    def start(self, draw: np.random.Generator) -> Rows:
        """Independent uniform directions of length sqrt(dim)."""
        rows = draw.standard_normal((self.tokens, self.dim))
        return Rows.of(rows / np.linalg.norm(rows, axis=1, keepdims=True) * math.sqrt(self.dim))

    def layer(self, x: Rows, draw: np.random.Generator) -> Rows:
        """One layer with weights of its own.

        Args:
            x: What goes in.
            draw: Where the weights come from.
        """
        x = self._joined(x, after_attention(x, **self._attention(draw)))
        if "mlp" not in self.parts:
            return x
        inner = draw.standard_normal((self.dim, 4 * self.dim)) * math.sqrt(2 / self.dim)
        outer = draw.standard_normal((4 * self.dim, self.dim)) / math.sqrt(4 * self.dim)
        return self._joined(x, after_mlp(x, inner=inner, outer=outer))

    def _joined(self, x: Rows, added: Rows) -> Rows:
        y = x.plus(added) if "skip" in self.parts else added
        return normalized(y) if "norm" in self.parts else y

    def _attention(self, draw: np.random.Generator) -> dict[str, np.ndarray]:
        width, shape = self.dim // self.heads, (self.heads, self.dim, self.dim // self.heads)
        query, key = draw.standard_normal(shape), draw.standard_normal(shape)
        scores = query @ key.transpose(0, 2, 1) * (self.spread / (self.dim * math.sqrt(width)))
        value, output = draw.standard_normal(shape), draw.standard_normal((self.heads, width, self.dim))
        return {"scores": scores, "values": value @ output / self.dim}

    def course(self, layers: int, *, seed: int) -> Iterator[Rows]:
        """The rows at the start and after every layer.

        Args:
            layers: How many.
            seed: Of start and weights.
        """
        draw = np.random.default_rng([11, seed])
        x = self.start(draw)
        yield x
        for _ in range(layers):
            x = self.layer(x, draw)
            yield x

    def order(self, *, seed: int, small: float = 1e-3) -> float:
        """By what power of it one layer shrinks a small deviation: ln of the ratio of what two deviations become.

        The same layer is put to the rows m + a e and m + a e / 10 about the mean of a start.

        Args:
            seed: Of start and weights.
            small: a relative to the mean row's length.
        """
        draw = np.random.default_rng([13, seed])
        x = self.start(draw)
        mean = x.mean / np.linalg.norm(x.mean) * math.sqrt(self.dim)
        found = [
            self.layer(Rows(mean, size * x.apart), np.random.default_rng([17, seed])).residual
            for size in (small, small / 10)
        ]
        return math.log10(found[0] / found[1])
