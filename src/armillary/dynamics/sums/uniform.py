"""Uniform weights need no pairs: every sum is a mean over a stretch of the sequence, from running sums."""

from __future__ import annotations

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Mask, Uniform, Window
from armillary.dynamics.sums.task import Evaluator, PairSum, tangential

__all__ = ["Means"]


class Means(Evaluator):
    """Means of all tokens, of the earlier ones, or of a window; exact, at cost T d."""

    name = "means"

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """Weights that depend on overlaps."""
        uniform = isinstance(task.rule, Uniform) or task.beta == 0
        return None if uniform else f"its weights are uniform, not {task.rule}"

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """Rounding of running sums over T tokens; relative to nothing smaller than 1."""
        return 4 * task.rounding * max(1.0, task.tokens**0.5)

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The part of the mean along the sphere."""
        return tangential(rows, self.drift(rows, weights))

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Sums of tokens over sums of weights; without a mask one mean for everybody."""
        shift = getattr(self.task.rule, "clock", "softmax")
        w = torch.ones_like(rows[..., 0]) if weights is None else weights.expand(rows.shape[:-1])
        above = _stretch(w[..., None] * rows, self.task.mask)
        below = _stretch(w[..., None], self.task.mask) if shift == "softmax" else w.sum(-1)[..., None, None]
        return (above / below).expand_as(rows)

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Logarithm of the sum of the weights that are seen."""
        w = torch.ones_like(rows[..., 0]) if weights is None else weights.expand(rows.shape[:-1])
        return _stretch(w[..., None], self.task.mask)[..., 0].expand(rows.shape[:-1]).log()


def _stretch(values: Tensor, mask: Mask) -> Tensor:
    """For each token the sum over what it may look at, `*batch tokens k`."""
    if isinstance(mask, Causal):
        return values.cumsum(-2)
    if isinstance(mask, Window):
        tokens = values.shape[-2]
        zero = torch.zeros_like(values[..., :1, :])
        running = torch.cat([zero, values.cumsum(-2)], dim=-2)
        place = torch.arange(tokens, device=values.device)
        last = (place + (mask.reach if mask.direction == "both" else 0)).clamp(max=tokens - 1)
        return running[..., last + 1, :] - running[..., (place - mask.reach).clamp(min=0), :]
    return values.sum(-2, keepdim=True)
