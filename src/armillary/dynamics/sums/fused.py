"""The sum over all pairs as an attention kernel: queries, keys and values are the tokens, and beta is the scale.

Kernels that hold a few tiles of the scores at a time come with torch for CPUs, in single and double precision, and for
graphics cards. What they return is the whole attention output, so that the pull is off by rounding of numbers near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from armillary.dynamics.attention import Causal, Full, Unnormalized
from armillary.dynamics.sums.blocks import Rows, allowed_within, stretches
from armillary.dynamics.sums.task import Evaluator, PairSum, tangential

__all__ = ["FusedAttention", "attended"]

_TILED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
"""Every kernel but the one that holds all scores at once."""


class FusedAttention(Evaluator):
    """`torch.nn.functional.scaled_dot_product_attention` with q = k = v = X."""

    name = "sdpa"

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """Rules that are no exponentials; double precision where no kernel has it."""
        if not task.exponential:
            return f"its weights are exponentials, not {task.rule}"
        if task.device != "cpu" and task.dtype == torch.float64:
            return "graphics cards have no kernel of it in double precision"
        return None

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """Rounding of the scores, beta times that of an overlap, and of sums near 1."""
        return task.scale * (8 + abs(task.beta)) * task.rounding * 4

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The part of the output along the sphere."""
        return tangential(rows, self.drift(rows, weights))

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The output; for weights that do not sum to one, times Z_i over their common divisor."""
        found = attended(rows, rows, rows, self.task, weights)
        if isinstance(self.task.rule, Unnormalized):
            shift = abs(self.task.beta) if self.task.rule.clock == "shifted" else 0.0
            total = rows.shape[-2] if weights is None else weights.sum(-1)[..., None]
            found = found * ((self.log_partition(rows, weights) - shift).exp() / total)[..., None]
        return found

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """From the kernel where it hands them out; else one more pass in blocks."""
        whole = isinstance(self.task.mask, Full | Causal) and (weights is None or isinstance(self.task.mask, Full))
        if whole and rows.device.type == "cpu" and not rows.requires_grad and (kernel := _telling_kernel()) is not None:
            one = rows.reshape(-1, 1, *rows.shape[-2:])
            query, scale = (one, self.task.beta) if self.task.beta > 0 else (-one, -self.task.beta)
            mask = None if weights is None else _log(weights, rows)
            causal = isinstance(self.task.mask, Causal)
            return kernel(query, one, one, 0.0, causal, attn_mask=mask, scale=scale)[1].reshape(rows.shape[:-1])
        return Rows(self.task, self.accuracy).log_partition(rows, weights)


def attended(query: Tensor, key: Tensor, value: Tensor, task: PairSum, weights: Tensor | None) -> Tensor:
    """Softmax attention of any queries, keys and values, `*batch tokens head_dim`, without all scores at once.

    Args:
        query: What is compared.
        key: With what.
        value: What is mixed.
        task: Rule and mask.
        weights: How many tokens each key stands for, `*batch tokens`, or None.

    Returns:
        `*batch tokens value_dim`.
    """
    q, k, v = (one.reshape(-1, 1, *one.shape[-2:]) for one in (query, key, value))
    q, scale = (q, task.beta) if task.beta > 0 else (-q, -task.beta)  # kernels look for the largest score times scale
    mask = None if weights is None else _log(weights, query)
    with sdpa_kernel(_TILED):
        if isinstance(task.mask, Full):
            found = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        elif isinstance(task.mask, Causal) and mask is None:
            found = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        else:
            parts = []
            for first, last, seen in stretches(task.mask, q):
                allowed = allowed_within(task.mask, first, last, seen, q.device)
                assert allowed is not None
                bias = torch.zeros(allowed.shape, dtype=q.dtype, device=q.device).masked_fill(~allowed, -math.inf)
                bias = bias if mask is None else bias + mask[..., seen]
                parts.append(
                    scaled_dot_product_attention(
                        q[..., first:last, :], k[..., seen, :], v[..., seen, :], attn_mask=bias, scale=scale
                    )
                )
            found = torch.cat(parts, dim=-2)
    return found.reshape(*query.shape[:-1], value.shape[-1])


def _log(weights: Tensor, rows: Tensor) -> Tensor:
    """Logarithms of the weights as what is added to the scores, `systems 1 1 tokens`."""
    return weights.expand(rows.shape[:-1]).reshape(-1, 1, 1, rows.shape[-2]).log()


@cache
def _telling_kernel() -> Callable[..., tuple[Tensor, Tensor]] | None:
    """The kernel behind the function, which also returns log Z; None where this torch has none that does so right.

    It is no public function, so that it is put to the proof before it is believed.
    """
    kernel = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
    if kernel is None:
        return None
    rows = torch.eye(3, dtype=torch.float64)[None, None]
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).log()[None, None, None]
    try:
        found = kernel(rows, rows, rows, 0.0, False, attn_mask=weight, scale=2.0)[1].reshape(3)
    except (RuntimeError, TypeError, IndexError):
        return None
    known = torch.logsumexp(2.0 * rows[0, 0] + weight[0, 0], dim=-1)
    return kernel if torch.allclose(found, known, rtol=1e-12, atol=1e-12) else None
