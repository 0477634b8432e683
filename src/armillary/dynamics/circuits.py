"""Attention as two circuits, each identity or given matrices: what the scores are made of, and what is carried."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Mask
from armillary.dynamics.attention_drift import RotaryPositions
from armillary.dynamics.drifts import Drift
from armillary.dynamics.normalization import LayerNorm, RMSNorm
from armillary.errors import ArgumentError

__all__ = ["CircuitDrift", "GivenScores", "GivenValues", "IdentityScores", "IdentityValues"]


@dataclass(frozen=True)
class IdentityScores:
    """One head whose scores are beta x_i . x_j.

    Args:
        beta: Inverse temperature.
    """

    beta: float

    def scores(self, rows: Tensor) -> Tensor:
        """`*batch 1 tokens tokens`."""
        return self.beta * (rows @ rows.mT)[..., None, :, :]

    def __str__(self) -> str:
        return f"identity scores, beta = {self.beta:g}"


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Scores scale (W_Q x_i + b_Q) . (W_K x_j + b_K) of several heads; queries and keys may be rotated by position.

    Args:
        query: `heads head_dim dim`.
        key: `key_value_heads head_dim dim`; each serves the heads that follow each other.
        scale: Factor of the scores.
        query_offset: b_Q, `heads head_dim`, or None.
        key_offset: b_K, `key_value_heads head_dim`, or None.
        positions: Rotary positions, or None.
        read: The norm through which rows are read; None for the rows themselves.
    """

    query: Tensor
    key: Tensor
    scale: float
    query_offset: Tensor | None = None
    key_offset: Tensor | None = None
    positions: RotaryPositions | None = None
    read: RMSNorm | LayerNorm | None = None

    def __post_init__(self) -> None:
        if self.query.ndim != 3 or self.key.ndim != 3 or self.query.shape[0] % self.key.shape[0]:
            raise ArgumentError(
                "Arguments `query` and `key` must be [heads, head_dim, dim] with a whole number of heads for each key, "
                f"but they are {list(self.query.shape)} and {list(self.key.shape)}. Add the axis of heads."
            )

    def scores(self, rows: Tensor) -> Tensor:
        """`*batch heads tokens tokens`."""
        rows = rows if self.read is None else self.read(rows)
        queries = _projected(rows, self.query, self.query_offset)
        keys = _projected(rows, self.key, self.key_offset)
        if self.positions is not None:
            queries, keys = self.positions.rotated(queries), self.positions.rotated(keys)
        keys = keys.repeat_interleave(len(self.query) // len(self.key), -3)
        return self.scale * (queries @ keys.mT)

    def __str__(self) -> str:
        return f"given scores of {len(self.query)} heads" + ("" if self.positions is None else ", rotary positions")


@dataclass(frozen=True)
class IdentityValues:
    """Tokens themselves are carried; heads are averaged."""

    def carried(self, weights: Tensor, rows: Tensor) -> Tensor:
        """`*batch tokens dim` from weights `*batch heads tokens tokens`."""
        return weights.mean(-3) @ rows

    def __str__(self) -> str:
        return "identity values"


@dataclass(frozen=True, eq=False)
class GivenValues:
    """Head h carries W_O (W_V x_j + b_V); heads are summed, and b_O is added once.

    Args:
        value: `key_value_heads value_dim dim`.
        output: `heads dim value_dim`.
        value_offset: b_V, `key_value_heads value_dim`, or None.
        output_offset: b_O, `dim`, or None.
        read: The norm through which rows are read; None for the rows themselves.
    """

    value: Tensor
    output: Tensor
    value_offset: Tensor | None = None
    output_offset: Tensor | None = None
    read: RMSNorm | LayerNorm | None = None

    def __post_init__(self) -> None:
        if self.value.ndim != 3 or self.output.ndim != 3 or len(self.output) % len(self.value):
            raise ArgumentError(
                "Arguments `value` and `output` must be [heads, value_dim, dim] and [heads, dim, value_dim] with a "
                f"whole number of heads for each value, but they are {list(self.value.shape)} and "
                f"{list(self.output.shape)}. Add the axis of heads."
            )

    def carried(self, weights: Tensor, rows: Tensor) -> Tensor:
        """`*batch tokens dim` from weights `*batch heads tokens tokens`; one map serves all heads."""
        rows = rows if self.read is None else self.read(rows)
        values = _projected(rows, self.value, self.value_offset)
        mixed = weights @ values.repeat_interleave(len(self.output) // len(self.value), -3)
        joined = mixed.transpose(-3, -2).flatten(-2)
        written = joined @ self.output.to(rows).transpose(-2, -1).flatten(0, 1)
        return written if self.output_offset is None else written + self.output_offset.to(rows)

    def __str__(self) -> str:
        return f"given values of {len(self.output)} heads"


@dataclass(frozen=True, eq=False)
class CircuitDrift(Drift):
    """Softmax attention from a circuit of scores and a circuit of values.

    Args:
        scores: Who looks at whom.
        values: What is carried.
        mask: Who may be looked at.
    """

    scores: IdentityScores | GivenScores
    values: IdentityValues | GivenValues
    mask: Mask = field(default_factory=Full)

    def weights(self, rows: Tensor) -> Tensor:
        """Attention weights, `*batch heads tokens tokens`."""
        scores = self.scores.scores(rows)
        allowed = self.mask.allowed(rows.shape[-2], rows.device)
        return torch.softmax(scores if allowed is None else scores.masked_fill(~allowed, -math.inf), dim=-1)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """What attention proposes to add to each token."""
        if multiplicity is not None:
            raise ArgumentError("Argument `multiplicity` must be None here: each row stands for one token.")
        return self.values.carried(self.weights(rows), rows)

    def __str__(self) -> str:
        return f"attention ({self.scores}; {self.values}; {self.mask})"


def _projected(rows: Tensor, matrices: Tensor, offset: Tensor | None) -> Tensor:
    """W x of several matrices at once, `*batch heads tokens head_dim`, with an offset for each if there is one."""
    heads, size, dim = matrices.shape
    found = (rows @ matrices.to(rows).reshape(heads * size, dim).mT).unflatten(-1, (heads, size)).transpose(-3, -2)
    return found if offset is None else found + offset.to(rows)[:, None, :]
