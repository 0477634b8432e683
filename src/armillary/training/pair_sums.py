"""Sums over all pairs of rows, tile by tile: memory grows with tokens and not with pairs, gradient included."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from armillary.training.rows import Rows

__all__ = ["log_mean_exp", "mean_square_above", "nearest_squared_distance", "squared_overlaps"]

TILE = 2**22
"""So many overlaps are held at once; what all pairs of a batch need beyond it is computed again for the gradient."""

PLAIN = 40.0
"""Up to this |beta| e^{beta c} and its sums stay within single precision as they are."""

Shut = Callable[[Tensor, float], None]
"""Overwrites the entries of pairs that do not count."""


def log_mean_exp(rows: Rows, betas: tuple[float, ...]) -> Tensor:
    """Log of the mean of e^{beta (c_ij - 1)} over ordered pairs i != j, for each beta.

    Args:
        rows: Unit rows.
        betas: Any finite numbers.

    Returns:
        `documents betas`.
    """

    def tile(block: Tensor, every: Tensor, shut: Shut) -> Tensor:
        overlap = block @ every.mT
        return torch.stack([_log_sum_exp(shut, beta * overlap, beta) for beta in betas], dim=-1)

    sums = torch.logsumexp(torch.stack(list(_tiled(rows, tile))), dim=0)
    return sums - torch.log(rows.counts * (rows.counts - 1))[:, None] - sums.new_tensor(betas)


def _log_sum_exp(shut: Shut, scores: Tensor, beta: float) -> Tensor:
    low = torch.finfo(scores.dtype).min / 8  # a tile may hold no pair at all; minus infinity would have no gradient
    shut(scores, low)
    if abs(beta) > PLAIN:
        return torch.logsumexp(scores.flatten(-2), dim=-1)
    total = torch.exp(scores).sum((-2, -1))
    empty = total == 0
    return torch.where(empty, low, torch.log(torch.where(empty, 1, total)))


def mean_square_above(rows: Rows, ceiling: float) -> Tensor:
    """Mean of max(0, c_ij - ceiling)^2 over ordered pairs i != j.

    Args:
        rows: Unit rows.
        ceiling: Overlap up to which a pair adds nothing.

    Returns:
        `documents`.
    """

    def tile(block: Tensor, every: Tensor, shut: Shut) -> Tensor:
        overlap = block @ every.mT
        shut(overlap, ceiling)
        return torch.relu(overlap - ceiling).square().sum((-2, -1))

    return torch.stack(list(_tiled(rows, tile))).sum(0) / (rows.counts * (rows.counts - 1))


def squared_overlaps(rows: Rows) -> Tensor:
    """Sum of the squared inner products of all ordered pairs, i = j included: ||X X^T||_F^2 = ||X^T X||_F^2.

    Args:
        rows: Any rows.

    Returns:
        `documents`.
    """
    x = rows.rows
    if rows.dim <= x.shape[-2]:
        return (x.mT @ x).square().sum((-2, -1))

    def tile(block: Tensor, every: Tensor, shut: Shut) -> Tensor:
        return (block @ every.mT).square().sum((-2, -1))

    return torch.stack(list(_tiled(rows, tile))).sum(0)


def nearest_squared_distance(rows: Rows) -> Tensor:
    """Squared distance of each row to the nearest other one, `documents tokens`; taken of differences, so 0 is exact.

    Args:
        rows: Unit rows; the entries of rows that take no part mean nothing.
    """
    with torch.no_grad():

        def tile(block: Tensor, every: Tensor, shut: Shut) -> Tensor:
            overlap = block @ every.mT
            shut(overlap, -torch.inf)
            return overlap.argmax(-1)

        nearest = torch.cat(list(_tiled(rows, tile)), dim=-1)
    neighbors = torch.gather(rows.rows, -2, nearest[..., None].expand(-1, -1, rows.dim))
    return (rows.rows - neighbors).square().sum(-1)


def _tiled(rows: Rows, tile: Callable[[Tensor, Tensor, Shut], Tensor]) -> Iterator[Tensor]:
    """Call `tile(block, every, shut)` for blocks of rows; `shut` overwrites the pairs that do not count."""
    x, kept = rows.rows, rows.kept
    documents, tokens = x.shape[:2]
    height = max(1, min(tokens, TILE // max(1, documents * tokens)))
    again = height < tokens and torch.is_grad_enabled() and x.requires_grad

    def part(every: Tensor, start: int) -> Tensor:
        stop = min(start + height, tokens)

        def shut(numbers: Tensor, value: float) -> None:
            # behind autograd's back: at these values the functions above are flat, so that no gradient comes from here
            hidden = numbers.detach()
            hidden.diagonal(offset=start, dim1=-2, dim2=-1).fill_(value)
            if kept is not None:
                hidden.masked_fill_(~kept[:, start:stop, None] | ~kept[:, None, :], value)

        return tile(every[:, start:stop], every, shut)

    for start in range(0, tokens, height):
        yield checkpoint(part, x, start, use_reentrant=False) if again else part(x, start)
