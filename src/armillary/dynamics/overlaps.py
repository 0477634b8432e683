"""A start that is known by its overlaps only: the matrix of overlaps moves by a law of its own.

With attention weights A of the overlaps C, M = A C and m = diag M, motion on the sphere gives

    C' = M + M^T - (m_i + m_j) C,

in which no coordinate of a token occurs. The diagonal stays 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Mask, RowRule
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.drifts import Drift
from armillary.dynamics.normalization import VelocityField, flat
from armillary.errors import ArgumentError

__all__ = ["OverlapDrift", "overlap_field"]


@dataclass(frozen=True, eq=False)
class OverlapDrift(Drift):
    """How overlaps change under attention on the sphere: C' = M + M^T - (m_i + m_j) C, M = A(C) C.

    Args:
        rule: How overlaps become weights.
        mask: Who may be looked at.
    """

    rule: RowRule
    mask: Mask = field(default_factory=Full)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The rate of change of overlaps `*batch tokens tokens`; weights of tokens are taken as in attention."""
        allowed = self.mask.allowed(rows.shape[-1], rows.device)
        mixed = self.rule.weights(rows, allowed, multiplicity) @ rows
        along = mixed.diagonal(dim1=-2, dim2=-1)
        return mixed + mixed.mT - (along[..., :, None] + along[..., None, :]) * rows

    def check(self, tokens: int, dim: int) -> None:
        """Overlaps are a square matrix."""
        if tokens != dim:
            raise ArgumentError(
                f"Argument `start` must be a matrix of overlaps, tokens by tokens, but has shape [{tokens}, {dim}]. "
                "Give x @ x.mT of unit rows, or move the rows themselves with the field they came with."
            )

    def __str__(self) -> str:
        return f"overlaps under attention ({self.rule}; {self.mask})"


def overlap_field(field: VelocityField) -> VelocityField:
    """The field that moves the matrix of overlaps of tokens which another field moves.

    `flow(overlap_field(field), gram, ...)` gives matrices of overlaps along time.

    Args:
        field: Attention with identity heads on the sphere.

    Returns:
        A field on matrices `*batch tokens tokens`.

    Raises:
        ArgumentError: The field is another one: overlaps alone do not say how its tokens move.

    Example:
        >>> import torch, armillary as am
        >>> field = am.on_sphere(am.AttentionDrift(am.Softmax(beta=1.0)))
        >>> gram = torch.tensor([[1.0, 0.2], [0.2, 1.0]], dtype=torch.float64)
        >>> run = am.flow(am.overlap_field(field), gram, until=1.0, integrator=am.Tsit5(rtol=1e-8))
        >>> round(float(run.last[0, 1]), 4)
        0.7415
    """
    terms = field.drift.terms
    plain = len(terms) == 1 and isinstance(terms[0][1], AttentionDrift)
    attention = terms[0][1] if plain else None
    if field.scheme != "post" or not isinstance(attention, AttentionDrift) or not _identity(attention):
        raise ArgumentError(
            f"Argument `field` must be on_sphere of attention with identity heads and no positions, but it is {field}. "
            "Its tokens move by more than their overlaps; give unit rows with these overlaps to the field itself."
        )
    return flat(terms[0][0] * OverlapDrift(attention.rule, attention.mask))


def _identity(attention: AttentionDrift) -> bool:
    return attention.heads is None and attention.positions is None


def tokens_of(overlaps: Tensor) -> Tensor:
    """Unit rows with given overlaps, by eigenvectors, `*batch tokens tokens`.

    Args:
        overlaps: Symmetric with ones on the diagonal and no negative eigenvalue, `*batch tokens tokens`.

    Raises:
        ArgumentError: No unit rows have these overlaps.
    """
    values, vectors = torch.linalg.eigh(overlaps)
    if float(values.min()) < -1e-9 or float((overlaps.diagonal(dim1=-2, dim2=-1) - 1).abs().max()) > 1e-9:
        raise ArgumentError(
            f"Argument `overlaps` must have ones on the diagonal and no negative eigenvalue, but its smallest one is "
            f"{float(values.min()):.3g}. Take x @ x.mT of unit rows."
        )
    return vectors * values.clamp_min(0).sqrt()[..., None, :]
