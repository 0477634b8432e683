"""Which rows a penalty sees, and how they are prepared: mask, token policy, preparation, documents or batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.cloud import STEPS

__all__ = ["POLICIES", "PREPARABLE", "Rows", "chosen", "prepared"]

PREPARABLE = ("center", "normalize", "remove feature mean")
"""The steps that a penalty knows: those of a measurement that need no other documents."""

POLICIES = ("all", "without_first", "without_first_and_massive")
"""Which tokens take part, as in the laboratory."""

MASSIVE_RATIO = 5.0
"""Norm over the median norm of the document above which a token is massive, as in the laboratory."""

SQUARES = (1e-15, 1e15)
"""Norms between which single precision holds the squares of a row."""

ROUNDINGS = 8
"""A row of which centering leaves no more than so many roundings of its type has no direction left."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Prepared rows of documents that each have at least two.

    Attributes:
        rows: `documents tokens dim`, at least float32; rows that take no part are zero.
        kept: `documents tokens`, True where a row takes part; None where all do.
        counts: `documents`: how many take part, in the type of the rows.
    """

    rows: Tensor
    kept: Tensor | None
    counts: Tensor

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.rows.shape[-1])

    def mean(self, values: Tensor) -> Tensor:
        """Mean of one number a row, `documents tokens`, over the rows that take part."""
        kept = values if self.kept is None else torch.where(self.kept, values, 0)
        return kept.sum(-1) / self.counts


def chosen(states: Tensor, mask: Tensor | None, policy: str) -> tuple[Tensor, Tensor]:
    """Rows as they are, `documents tokens dim`, and which of them mask and policy keep, `documents tokens`.

    Args:
        states: `*batch tokens dim`.
        mask: `*batch tokens`; a row takes part where it is true (not zero). None for all rows.
        policy: One of `POLICIES`; the first token is the first that the mask keeps.

    Raises:
        ArgumentError: States that are no rows, or a mask of another shape.
    """
    if states.ndim < 2 or not states.is_floating_point():
        raise ArgumentError(
            f"Argument `states` must be rows [*batch, tokens, dim], but has shape {list(states.shape)} and type "
            f"{states.dtype}. Give the states of a layer, as `tap` yields them."
        )
    if mask is not None and mask.shape != states.shape[:-1]:
        raise ArgumentError(
            f"Argument `mask` must have one entry a token, shape {list(states.shape[:-1])}, but has shape "
            f"{list(mask.shape)}. Give the attention mask of the same batch."
        )
    tokens, dim = states.shape[-2:]
    rows = states.reshape(-1, tokens, dim)
    if mask is None:
        asked = torch.ones(rows.shape[:-1], dtype=torch.bool, device=states.device)
    else:
        asked = (mask != 0).reshape(-1, tokens).to(states.device)
    return rows, _policed(rows.detach(), asked, policy)


def prepared(rows: Tensor, kept: Tensor, *, steps: Sequence[str]) -> Rows:
    """The rows that take part, prepared, in at least float32; documents with fewer than two of them are left out.

    Args:
        rows: `documents tokens dim`.
        kept: `documents tokens`, True where a row takes part.
        steps: The preparation, in order; names from `PREPARABLE`.
    """
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    if steps[0] != "normalize":  # squares stay within range
        largest = wide.detach().abs().amax((-2, -1), keepdim=True)
        wide = wide / torch.where(largest > 0, largest, 1)
    for step in steps:
        wide, kept = _step(step, wide, kept, torch.finfo(rows.dtype).eps)
    counts = kept.sum(-1)
    enough = counts >= 2
    if bool((~enough).any()):
        wide, kept, counts = wide[enough], kept[enough], counts[enough]
    everything = bool(kept.all())
    if not everything:
        wide = torch.where(kept[..., None], wide, 0)
    return Rows(wide, None if everything else kept, counts.to(wide.dtype))


def _policed(rows: Tensor, asked: Tensor, policy: str) -> Tensor:
    if policy == "all":
        return asked
    later = asked & (asked.cumsum(-1) > 1)
    if policy == "without_first":
        return later
    norms = torch.where(asked, rows.to(torch.promote_types(rows.dtype, torch.float32)).norm(dim=-1), torch.nan)
    typical = torch.nanquantile(norms, 0.5, dim=-1, keepdim=True)
    return later & ~(norms > MASSIVE_RATIO * typical)


def _step(step: str, rows: Tensor, kept: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
    if step == "center":
        inside = torch.where(kept[..., None], rows, 0)
        mean = inside.sum(-2, keepdim=True) / kept.sum(-1).clamp(min=1)[..., None, None]
        return _left(rows, rows - mean, kept, rounding)
    if step == "remove feature mean":
        return _left(rows, rows - rows.mean(-1, keepdim=True), kept, rounding)
    return _unit(rows, kept)


def _unit(rows: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    norms = rows.norm(dim=-1, keepdim=True)
    if bool(((norms.detach() > SQUARES[0]) & (norms.detach() < SQUARES[1])).all()):
        return rows / norms, kept
    lengths = rows.detach().abs().amax(-1, keepdim=True)  # some squares are lost, or rows are zero
    kept = kept & (lengths[..., 0] != 0)  # a row that is not a number stays, and shows
    scaled = rows / torch.where(lengths > 0, lengths, 1)
    return scaled / torch.where(kept[..., None], scaled, 1).norm(dim=-1, keepdim=True), kept


def _left(before: Tensor, after: Tensor, kept: Tensor, rounding: float) -> tuple[Tensor, Tensor]:
    """The rows after a subtraction; those of which only rounding is left take no part."""
    with torch.no_grad():
        there = after.norm(dim=-1) > ROUNDINGS * rounding * before.norm(dim=-1)
    return torch.where(there[..., None], after, 0), kept & there


assert set(PREPARABLE) <= set(STEPS)
