"""Each pair of tokens once, in compiled loops, from differences: exact for every token by itself, at cost T^2 / 2."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Softmax, Unnormalized
from armillary.dynamics.sums import kernels
from armillary.dynamics.sums.task import Evaluator, PairSum

__all__ = ["LOWEST", "Pairs", "direct_rows", "divisor", "unsuited"]

_SHORT, _LONG, _FEW = 64, 128, 256
"""Tokens in a block of the compiled loops, and up to how many tokens the short one is faster."""

LOWEST = {torch.float64: -300.0, torch.float32: -40.0}
"""Below these repulsive weights, compared with that of an opposed token, may all be less than a number can be."""


class Pairs(Evaluator):
    """Compiled loops over pairs, each once; see `kernels`."""

    name = "pairs"
    relative = True

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """Masks, weights that are no exponentials, rows that are no unit vectors, other devices and derivatives."""
        return unsuited(task, "it takes overlaps from distances, which needs unit vectors")

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """Rounding of T terms, of both signs, relative to their sum of sizes."""
        return task.scale * 8 * task.rounding * math.sqrt(max(task.tokens, 16))

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """P_i p_i / Z_i."""
        return self._each(rows, weights, self._pull)

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """p_i / Z_i + x_i, times the row sum of the weights."""
        return self._each(rows, weights, self._drift)

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Log Z_i + |beta|."""
        return self._each(rows, weights, lambda x, p, z, total: np.log(z) + np.asarray(abs(self.task.beta), x.dtype))

    def _pull(self, x: np.ndarray, p: np.ndarray, z: np.ndarray, total: float) -> np.ndarray:
        p = p - np.einsum("ij,ij->i", p, x)[:, None] * x
        p /= self._divisor(z, total)[:, None]
        return p

    def _drift(self, x: np.ndarray, p: np.ndarray, z: np.ndarray, total: float) -> np.ndarray:
        return (p + z[:, None] * x) / self._divisor(z, total)[:, None]

    def _divisor(self, z: np.ndarray, total: float) -> np.ndarray:
        return divisor(self.task, z, total)

    def _each(self, rows: Tensor, weights: Tensor | None, made: Callable[..., np.ndarray]) -> Tensor:
        flat = rows.detach().reshape(-1, *rows.shape[-2:]).numpy()
        ws = [None] * len(flat) if weights is None else list(weights.expand(rows.shape[:-1]).reshape(len(flat), -1))
        found = [
            made(x, *_sums(self.task.beta, x, None if w is None else w.numpy())) for x, w in zip(flat, ws, strict=True)
        ]
        return torch.from_numpy(np.stack(found)).reshape(*rows.shape[:-1], *found[0].shape[1:])


def unsuited(task: PairSum, without_unit_rows: str) -> str | None:
    """What of the task keeps an evaluator from scaled exponentials of unit rows on CPUs, in words; None if nothing.

    Args:
        task: What is summed.
        without_unit_rows: What is said where rows are no unit vectors.
    """
    if not isinstance(task.mask, Full):
        return f"it knows no {task.mask}"
    if not task.exponential:
        return f"its weights are exponentials, not {task.rule}"
    lowest = LOWEST.get(task.dtype, LOWEST[torch.float32])
    if isinstance(task.rule, Softmax) and task.beta < lowest:
        return f"it compares weights with that of an opposed token: below beta = {lowest:g} all may vanish"
    if not task.unit:
        return without_unit_rows
    if task.device != "cpu" or task.gradient:
        return "it runs on CPUs and gives no derivatives"
    return None


def divisor(task: PairSum, z: np.ndarray, total: float) -> np.ndarray:
    """What sums of e^{beta x_i . x_j - |beta|} are divided by under the row rule."""
    if isinstance(task.rule, Unnormalized):
        shift = 0.0 if task.rule.clock == "shifted" else abs(task.rule.beta)
        return np.full_like(z, total * math.exp(-shift))
    return z


def _sums(beta: float, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """The sums p, Z of differences, scaled by e^{-|beta|}, and the sum of the weights."""
    tokens, dim = x.shape
    length = _SHORT if tokens <= _FEW else _LONG
    blocks = kernels.packed(x, w, length)
    found = np.zeros_like(blocks)
    kernels.symmetric_kernel(dim, length)(blocks, found, len(blocks), *_rates(beta, x.dtype))
    sums = kernels.unpacked(found, tokens)
    return sums[:, :dim], sums[:, dim], float(tokens if w is None else w.sum())


def direct_rows(beta: float, some: np.ndarray, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The sums p, Z of some rows over all tokens, `some dim` and `some`."""
    blocks, dim = kernels.packed(x, w, _LONG), x.shape[1]
    found = np.zeros((len(some), dim + 1), dtype=x.dtype)
    kernels.row_kernel(_LONG)(np.ascontiguousarray(some), blocks, found, *_rates(beta, x.dtype))
    return found[:, :dim], found[:, dim]


def _rates(beta: float, kind: np.dtype) -> tuple[np.floating, np.floating]:
    return kind.type(-beta / 2), kind.type(beta - abs(beta))
