"""The pull of attention: weights from scores, values mixed by them, for one head or many, with positions or without."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Mask, RowRule, require_rows
from armillary.dynamics.drifts import Drift
from armillary.dynamics.heads import Heads
from armillary.errors import ArgumentError

__all__ = ["AdditivePositions", "AttentionDrift", "RotaryPositions", "carried"]


@dataclass(frozen=True)
class RotaryPositions:
    """Queries and keys are rotated, pair of coordinates by pair, by position times base^(-2k / head_dim).

    Source: Su et al. 2021; the half-split layout of the Llama family.
    """

    base: float = 10_000.0

    def rotated(self, rows: Tensor) -> Tensor:
        """Rows `... tokens head_dim` rotated by their positions 0, 1, 2, ..."""
        half = rows.shape[-1] // 2
        if rows.shape[-1] % 2:
            raise ArgumentError(
                f"Argument `heads` must have an even head dimension under rotary positions, but it is "
                f"{rows.shape[-1]}. "
                "Take an even one."
            )
        place = torch.arange(rows.shape[-2], dtype=rows.dtype, device=rows.device)
        pace = self.base ** (-torch.arange(half, dtype=rows.dtype, device=rows.device) / half)
        angle = place[:, None] * pace
        first, second = rows[..., :half], rows[..., half:]
        return torch.cat(
            [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], dim=-1
        )


@dataclass(frozen=True, eq=False)
class AdditivePositions:
    """Queries and keys read x_i + p_i; values read x_i.

    Args:
        vectors: p, `tokens dim`.
    """

    vectors: Tensor


@dataclass(frozen=True, eq=False)
class AttentionDrift(Drift):
    """Attention: drift_i = sum over heads of W_O sum_j A_ij W_V x_j, A from the scores x_i . W_Q^T W_K x_j.

    Args:
        rule: How scores become weights.
        mask: Who may be looked at.
        heads: The matrices; None means identity ones: scores are overlaps, values the tokens themselves.
        positions: Rotary or additive; None for none.
    """

    rule: RowRule
    mask: Mask = field(default_factory=Full)
    heads: Heads | None = None
    positions: RotaryPositions | AdditivePositions | None = None

    def weights(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Attention weights.

        Args:
            rows: `*batch tokens dim`.
            multiplicity: `*batch tokens`, or None.

        Returns:
            `*batch tokens tokens` without heads, `*batch heads tokens tokens` with them.
        """
        allowed = self.mask.allowed(rows.shape[-2], rows.device)
        heads = None if self.heads is None else self.heads.to(rows)
        if heads is not None and multiplicity is not None:
            multiplicity = multiplicity[..., None, :]
        return self.rule.weights(self._scores(rows, heads), allowed, multiplicity)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output of each token."""
        weights = self.weights(rows, multiplicity)
        if self.heads is None:
            return weights @ rows
        heads = self.heads.to(rows)
        return ((weights @ carried(rows, heads)) @ heads.output.mT).sum(-3)

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output without what a token takes of itself, which has no part along the sphere.

        At large beta a lone token gives itself nearly all its weight; left out, what others pull with keeps its digits.
        """
        if self.heads is not None:
            return self(rows, multiplicity)
        weights = self.weights(rows, multiplicity)
        return (weights - torch.diag_embed(weights.diagonal(dim1=-2, dim2=-1))) @ rows

    def check(self, tokens: int, dim: int) -> None:
        """Mask, heads and positions must be made for rows of this size."""
        allowed = self.mask.allowed(tokens, torch.device("cpu"))
        if allowed is not None:
            require_rows(allowed, tokens)
        if self.heads is not None and self.heads.dim != dim:
            raise ArgumentError(
                f"Argument `heads` must act on dimension {dim}, but it acts on {self.heads.dim}. Make heads of the "
                "dimension of the tokens."
            )
        if isinstance(self.positions, AdditivePositions) and tuple(self.positions.vectors.shape) != (tokens, dim):
            raise ArgumentError(
                f"Argument `positions` must hold one vector for each of {tokens} tokens in dimension {dim}, but has "
                f"shape {list(self.positions.vectors.shape)}. Give [tokens, dim]."
            )

    def _scores(self, rows: Tensor, heads: Heads | None) -> Tensor:
        queries, keys = self.compared(rows, heads)
        return queries @ keys.mT

    def compared(self, rows: Tensor, heads: Heads | None) -> tuple[Tensor, Tensor]:
        """Queries and keys, `*batch tokens dim` without heads, `*batch heads tokens head_dim` with them.

        Args:
            rows: `*batch tokens dim`.
            heads: The matrices, in the type of the rows.
        """
        read = rows + self.positions.vectors.to(rows) if isinstance(self.positions, AdditivePositions) else rows
        if heads is None:
            queries = keys = read
        else:
            queries = read[..., None, :, :] @ heads.query.mT
            keys = read[..., None, :, :] @ heads.key.mT
            keys = keys.repeat_interleave(heads.count // len(heads.key), -3)
        if isinstance(self.positions, RotaryPositions):
            queries, keys = self.positions.rotated(queries), self.positions.rotated(keys)
        return queries, keys

    def __str__(self) -> str:
        heads = "identity" if self.heads is None else f"{self.heads.count} given"
        more = "" if self.positions is None else f", {type(self.positions).__name__}"
        return f"attention ({self.rule}; {self.mask}; {heads} heads{more})"


def carried(rows: Tensor, heads: Heads) -> Tensor:
    """The values of every head, `*batch heads tokens value_dim`.

    Args:
        rows: `*batch tokens dim`.
        heads: The matrices, in the type of the rows.
    """
    repeated = heads.value.repeat_interleave(heads.count // len(heads.value), 0)
    return rows[..., None, :, :] @ repeated.mT
