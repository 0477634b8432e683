"""The sum over all pairs by matrix products, a block of rows at a time: any dimension, rule, mask and device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from armillary.dynamics.attention import Allowed, Causal, Full, Mask, Unnormalized, Window
from armillary.dynamics.sums.task import Evaluator, PairSum, tangential

__all__ = ["Rows", "allowed_within", "stretches"]

PAIRS = 2**21
"""Entries of one block of scores."""

LEAST = 64
"""Rows of a block under a narrow window."""


class Rows(Evaluator):
    """Blocks of rows of the attention matrix; what each token takes of itself is left out of its pull."""

    name = "rows"

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """None: it does everything."""
        return None

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """Rounding of the scores, beta times that of an overlap, and of sums of T terms."""
        size = 0.0 if math.isinf(task.beta) else abs(task.beta)
        return task.scale * (8 + size) * task.rounding * math.sqrt(max(task.tokens, 16))

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Block by block, without the diagonal."""
        return self._each(rows, weights, self._pull)

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Block by block."""
        return self._each(rows, weights, self._drift)

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Block by block; not for hardmax, whose weights are no exponentials."""
        whole = torch.empty_like(rows[..., 0])
        for first, last, seen in stretches(self.task.mask, rows):
            logits = self.task.beta * (rows[..., first:last, :] @ rows[..., seen, :].mT)
            if weights is not None:
                logits = logits + weights[..., None, seen].log()
            allowed = allowed_within(self.task.mask, first, last, seen, rows.device)
            found = torch.logsumexp(logits if allowed is None else logits.masked_fill(~allowed, -math.inf), -1)
            if rows.requires_grad:
                whole = whole.slice_scatter(found, dim=-1, start=first, end=last)
            else:
                whole[..., first:last] = found
        return whole

    def _each(self, rows: Tensor, weights: Tensor | None, made: Callable[..., Tensor]) -> Tensor:
        parts = list(stretches(self.task.mask, rows))
        if len(parts) == 1:
            return made(rows, weights, *parts[0])
        if rows.requires_grad:  # what a block needs for its derivative is made again when that is asked for
            return torch.cat([checkpoint(made, rows, weights, *part, use_reentrant=False) for part in parts], dim=-2)
        whole = torch.empty_like(rows)  # small results, kept one by one between large blocks, would hold their memory
        for first, last, seen in parts:
            whole[..., first:last, :] = made(rows, weights, first, last, seen)
        return whole

    def _pull(self, rows: Tensor, weights: Tensor | None, first: int, last: int, seen: slice) -> Tensor:
        found = self._weights(rows, weights, first, last, seen)
        others = torch.ones(found.shape[-2:], dtype=torch.bool, device=rows.device)
        others.diagonal(first - seen.start).fill_(False)
        return tangential(rows[..., first:last, :], found.masked_fill(~others, 0) @ rows[..., seen, :])

    def _drift(self, rows: Tensor, weights: Tensor | None, first: int, last: int, seen: slice) -> Tensor:
        return self._weights(rows, weights, first, last, seen) @ rows[..., seen, :]

    def _weights(self, rows: Tensor, weights: Tensor | None, first: int, last: int, seen: slice) -> Tensor:
        """Rows `first` to `last` of the attention matrix, for the tokens `seen`."""
        scores = rows[..., first:last, :] @ rows[..., seen, :].mT
        allowed = allowed_within(self.task.mask, first, last, seen, rows.device)
        multiplicity = None if weights is None else weights[..., seen]
        found = self.task.rule.weights(scores, allowed, multiplicity)
        if isinstance(self.task.rule, Unnormalized) and found.shape[-1] < rows.shape[-2]:
            # the rule divides by the weight of what it is shown; the sum is over all
            shown = found.shape[-1] if multiplicity is None else multiplicity.sum(-1)[..., None, None]
            found = found * (shown / (rows.shape[-2] if weights is None else weights.sum(-1)[..., None, None]))
        return found


def stretches(mask: Mask, rows: Tensor) -> Iterator[tuple[int, int, slice]]:
    """Blocks of rows, first to last, and the tokens that they may look at."""
    tokens = rows.shape[-2]
    batch = rows[..., 0, 0].numel()
    height = max(1, min(tokens, PAIRS // (tokens * batch)))
    if isinstance(mask, Window):  # rows as many as each sees to either side: no more than 2/3 of a block is masked
        height = max(1, min(max(mask.reach, LEAST), PAIRS // (3 * max(mask.reach, LEAST) * batch)))
    for first in range(0, tokens, height):
        last = min(first + height, tokens)
        if isinstance(mask, Full):
            yield first, last, slice(0, tokens)
        elif isinstance(mask, Causal):
            yield first, last, slice(0, last)
        elif isinstance(mask, Allowed):
            yield first, last, slice(0, tokens)
        else:
            after = last if mask.direction == "back" else min(tokens, last + mask.reach)
            yield first, last, slice(max(0, first - mask.reach), after)


def allowed_within(mask: Mask, first: int, last: int, seen: slice, device: torch.device) -> Tensor | None:
    """True where a row of the block may look at a token it is shown, `rows seen`; None for everywhere."""
    if isinstance(mask, Full):
        return None
    if isinstance(mask, Allowed):
        return mask.pairs.to(device)[first:last, seen]
    back = torch.arange(first, last, device=device)[:, None] - torch.arange(seen.start, seen.stop, device=device)
    if isinstance(mask, Causal):
        return back >= 0
    near = back.abs() <= mask.reach
    return near if mask.direction == "both" else near & (back >= 0)
