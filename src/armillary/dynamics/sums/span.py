"""Fewer tokens than dimensions: the motion stays in the span of the start, and is the same in coordinates of it."""

from __future__ import annotations

import torch
from torch import Tensor

from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.drifts import Drift, Layered
from armillary.dynamics.normalization import VelocityField

__all__ = ["in_span", "out_of_span", "stays_in_span"]


def stays_in_span(field: VelocityField) -> bool:
    """Whether a field moves tokens within their span, whatever the basis: attention with identity heads."""
    return field.read is None and _plain(field.drift)


def in_span(field: VelocityField, start: Tensor) -> tuple[Tensor, Tensor | None]:
    """The start in an orthonormal basis of its span, by X^T = Q R: rows of R^T, with the same overlaps.

    Args:
        field: What will move the tokens.
        start: `systems tokens dim`.

    Returns:
        `systems tokens tokens` and the basis Q, `systems dim tokens`; or the start itself and None where there is
        nothing to gain, derivatives are wanted, or the field does not stay in the span.
    """
    tokens, dim = start.shape[-2:]
    if tokens >= dim or tokens < 2 or start.requires_grad or not stays_in_span(field):
        return start, None
    basis, coordinates = torch.linalg.qr(start.mT)
    return coordinates.mT.contiguous(), basis


def out_of_span(states: Tensor, basis: Tensor | None) -> Tensor:
    """States `systems times tokens tokens` back in the space of the start, `systems times tokens dim`."""
    return states if basis is None else states @ basis.mT[:, None]


def _plain(drift: Drift) -> bool:
    return all(
        all(_plain(layer) for layer in term.drifts)
        if isinstance(term, Layered)
        else isinstance(term, AttentionDrift) and term.heads is None and term.positions is None
        for _, term in drift.terms
    )
