"""The matrices of attention: queries, keys, values and outputs of one or many heads, given or drawn with a seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.errors import ArgumentError

__all__ = ["Heads"]


@dataclass(frozen=True, eq=False)
class Heads:
    """Query, key and value matrices of H heads, and what maps each head's value back into the stream.

    Head h reads q = W_Q x, k = W_K x and writes W_O sum_j A_ij W_V x_j; heads are summed. With fewer key-value heads
    than query heads (grouped heads) each key-value head serves the H / G query heads that follow each other.

    Args:
        query: `heads head_dim dim`.
        key: `key_value_heads head_dim dim`.
        value: `key_value_heads value_dim dim`.
        output: `heads dim value_dim`.

    Raises:
        ArgumentError: The shapes do not fit together, or an entry is not finite.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    def __post_init__(self) -> None:
        for name in ("query", "key", "value", "output"):
            matrix = getattr(self, name)
            if matrix.ndim != 3:
                raise ArgumentError(
                    f"Argument `{name}` must be [heads, rows, columns], but has shape {list(matrix.shape)}. Add the "
                    f"axis "
                    "of heads."
                )
            if not bool(torch.isfinite(matrix).all()):
                raise ArgumentError(f"Argument `{name}` must be finite, but an entry is not. Check the matrix.")
        heads, groups, dim = self.query.shape[0], self.key.shape[0], self.query.shape[2]
        fits = (
            self.key.shape[1:] == self.query.shape[1:]
            and self.value.shape[0] == groups
            and self.value.shape[2] == dim
            and tuple(self.output.shape) == (heads, dim, self.value.shape[1])
            and heads % groups == 0
        )
        if not fits:
            raise ArgumentError(
                "Arguments `query`, `key`, `value`, `output` must fit together as [H, k, d], [G, k, d], [G, v, d], "
                f"[H, d, v] with H a multiple of G, but they are {list(self.query.shape)}, {list(self.key.shape)}, "
                f"{list(self.value.shape)}, {list(self.output.shape)}. Transpose or repeat them."
            )

    @property
    def count(self) -> int:
        """Number of query heads."""
        return int(self.query.shape[0])

    @property
    def dim(self) -> int:
        """Dimension of the stream."""
        return int(self.query.shape[2])

    @property
    def score_matrices(self) -> Tensor:
        """B with s_ij = x_i . B x_j, one a query head: W_Q^T W_K, `heads dim dim`."""
        return self.query.mT @ self.key.repeat_interleave(self.count // len(self.key), 0)

    @property
    def value_matrices(self) -> Tensor:
        """V with y_i = sum_j A_ij V x_j, one a query head: W_O W_V, `heads dim dim`."""
        return self.output @ self.value.repeat_interleave(self.count // len(self.value), 0)

    @classmethod
    def identity(cls, dim: int) -> Heads:
        """One head of identity matrices: scores are overlaps and values are the tokens themselves."""
        eye = torch.eye(dim, dtype=torch.float64)[None]
        return cls(eye, eye, eye, eye)

    @classmethod
    def given(cls, *, scores: Tensor, values: Tensor) -> Heads:
        """Heads from B (s_ij = x_i . B x_j) and V, each `dim dim` or `heads dim dim`."""
        scores, values = (one if one.ndim == 3 else one[None] for one in (scores, values))
        eye = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device).expand_as(scores)
        return cls(eye, scores, values, eye)

    @classmethod
    def gaussian(cls, *, dim: int, heads: int, head_dim: int, seed: int) -> Heads:
        """Independent Gaussian entries of variance 1/dim (queries, keys, values) and 1/(heads head_dim) (output)."""
        draw = torch.Generator().manual_seed(seed)
        made = [torch.randn(heads, head_dim, dim, generator=draw, dtype=torch.float64) / dim**0.5 for _ in range(3)]
        output = torch.randn(heads, dim, head_dim, generator=draw, dtype=torch.float64) / (heads * head_dim) ** 0.5
        query, key, value = made
        return cls(query, key, value, output)

    @classmethod
    def orthogonal(cls, *, dim: int, seed: int, heads: int = 1) -> Heads:
        """Heads of four independent uniformly distributed orthogonal matrices each, outputs divided by sqrt(heads)."""
        _require_heads(heads)
        draw = torch.Generator().manual_seed(seed)
        made = [[_orthogonal(dim, draw) for _ in range(4)] for _ in range(heads)]
        query, key, value, output = (torch.stack(matrices) for matrices in zip(*made, strict=True))
        return cls(query, key, value, output / heads**0.5)

    @classmethod
    def goe(cls, *, dim: int, seed: int, heads: int = 1) -> Heads:
        """Identity scores and symmetric Gaussian values divided by sqrt(heads); spectrum of the sum within +-sqrt 2."""
        _require_heads(heads)
        draw = torch.Generator().manual_seed(seed)
        square = torch.randn(heads, dim, dim, generator=draw, dtype=torch.float64) / dim**0.5
        eye = torch.eye(dim, dtype=torch.float64).expand(heads, dim, dim)
        return cls.given(scores=eye, values=(square + square.mT) / (2 * heads**0.5))

    def restricted(self, basis: Tensor) -> Heads:
        """What these heads do to tokens of a subspace, in its own coordinates: y = x basis^T instead of x.

        What values carry out of the subspace is projected back. With `sphere.mean_free_basis` this is attention between
        tokens that a LayerNorm without gain holds on the sphere of the hyperplane of mean 0.

        Args:
            basis: Orthonormal rows that span the subspace, `subspace dim`.

        Returns:
            Heads of the dimension of the subspace.

        Raises:
            ArgumentError: The rows are not orthonormal, or not of this dimension.

        Example:
            >>> from armillary import sphere
            >>> Heads.orthogonal(dim=5, seed=0).restricted(sphere.mean_free_basis(5)).dim
            4
        """
        basis = basis.to(self.query)
        if basis.ndim != 2 or basis.shape[1] != self.dim:
            raise ArgumentError(
                f"Argument `basis` must have rows of dimension {self.dim}, but has shape {list(basis.shape)}. "
                "Transpose it, or take that of another space."
            )
        off = float((basis @ basis.mT - torch.eye(len(basis)).to(basis)).abs().max())
        if not off <= 1e-6:
            raise ArgumentError(
                f"Argument `basis` must have orthonormal rows, but their Gram matrix is off by {off:.3g}. Take "
                "torch.linalg.qr(basis.mT).Q.mT."
            )
        return Heads(self.query @ basis.mT, self.key @ basis.mT, self.value @ basis.mT, basis @ self.output)

    def to(self, like: Tensor) -> Heads:
        """The same matrices in the type and on the device of `like`."""
        return Heads(self.query.to(like), self.key.to(like), self.value.to(like), self.output.to(like))


def _require_heads(heads: int) -> None:
    if heads < 1:
        raise ArgumentError(f"Argument `heads` must be 1 or more, but it is {heads}. Take 1.")


def _orthogonal(dim: int, draw: torch.Generator) -> Tensor:
    """Uniform on the orthogonal group: QR of a Gaussian matrix with the signs of R's diagonal taken out."""
    q, r = torch.linalg.qr(torch.randn(dim, dim, generator=draw, dtype=torch.float64))
    return q * r.diagonal().sign()
