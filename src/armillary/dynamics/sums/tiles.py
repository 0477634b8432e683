"""The sum over all pairs in square tiles of the attention matrix, each tile used twice: for its rows and its columns.

Weights before they are divided are symmetric, so that a tile of them, once made, pulls its rows to its columns and its
columns to its rows. That takes T^2 d operations for overlaps, 2 T^2 d for pulls and T^2 / 2 exponentials, where rows by
themselves take 2 T^2 d, 2 T^2 d and T^2. Matrix products are the library's, the exponential is the compiled one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.machine_code import compiled
from armillary.dynamics.sums.kernels import exponential
from armillary.dynamics.sums.pairs import divisor, unsuited
from armillary.dynamics.sums.task import Evaluator, PairSum

__all__ = ["Tiles"]

_SIDE = 256
"""Tokens along a side: a tile of them stays near the processor."""


class Tiles(Evaluator):
    """Matrix products over symmetric tiles; what each token takes of itself is left out of its pull."""

    name = "tiles"

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """Masks, weights that are no exponentials, rows that are no unit vectors, other devices and derivatives."""
        return unsuited(task, "no weight may exceed that of a token for itself, which needs unit vectors")

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """Rounding of the scores, beta times that of an overlap, and of sums of T terms."""
        return task.scale * (8 + abs(task.beta)) * task.rounding * math.sqrt(max(task.tokens, 16))

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Without the diagonal."""
        return self._each(rows, weights, self._pull)

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """With the diagonal."""
        return self._each(rows, weights, self._drift)

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Log Z_i + |beta|, without the products that pull."""
        return self._each(rows, weights, self._log_partition)

    def _pull(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        found, z = self._sums(x, w, diagonal=False)
        found -= np.einsum("ij,ij->i", found, x)[:, None] * x
        found /= divisor(self.task, z, float(w.sum()))[:, None]
        return found

    def _drift(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        found, z = self._sums(x, w, diagonal=True)
        found /= divisor(self.task, z, float(w.sum()))[:, None]
        return found

    def _log_partition(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        _, z = self._sums(x, w, diagonal=True, pulling=False)
        return np.log(z) + np.asarray(abs(self.task.beta), x.dtype)

    def _sums(
        self, x: np.ndarray, w: np.ndarray, *, diagonal: bool, pulling: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scaled sums of w_j e^{beta c_ij} x_j and of w_j e^{beta c_ij}."""
        tokens, dim = x.shape
        rate, shift = x.dtype.type(self.task.beta), x.dtype.type(-abs(self.task.beta))
        z, found, heavy = np.zeros_like(w), np.zeros_like(x), x * w[:, None]
        room, moved = np.empty(min(_SIDE, tokens) ** 2, x.dtype), np.empty((min(_SIDE, tokens), dim), x.dtype)
        parts = [slice(first, min(first + _SIDE, tokens)) for first in range(0, tokens, _SIDE)]
        for index, here in enumerate(parts):
            for there in parts[index:]:
                high, wide = here.stop - here.start, there.stop - there.start
                tile = np.matmul(x[here], x[there].T, out=room[: high * wide].reshape(high, wide))
                own = here is there
                _weigh(tile, rate, shift, w[here], w[there], z[here], z[there], not own)
                if not pulling:
                    continue
                if own and not diagonal:
                    np.fill_diagonal(tile, 0)
                found[here] += np.matmul(tile, heavy[there], out=moved[:high])
                if not own:
                    found[there] += np.matmul(tile.T, heavy[here], out=moved[:wide])
        return found, z

    def _each(
        self, rows: Tensor, weights: Tensor | None, made: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> Tensor:
        flat = rows.detach().reshape(-1, *rows.shape[-2:]).numpy()
        ws = torch.ones_like(rows[..., 0]) if weights is None else weights.to(rows).expand(rows.shape[:-1])
        found = [made(x, w) for x, w in zip(flat, ws.reshape(len(flat), -1).numpy(), strict=True)]
        one = found[0][None] if len(found) == 1 else np.stack(found)
        return torch.from_numpy(one).reshape(*rows.shape[:-1], *found[0].shape[1:])


@compiled(fastmath=True)
def _weigh(tile, rate, shift, w_here, w_there, z_here, z_there, both):  # type: ignore[no-untyped-def]
    """Overlaps become e^{beta c - |beta|} in place; weighted sums go to the rows, and to the columns if `both`."""
    nothing = rate - rate
    for i in range(tile.shape[0]):
        total, own = nothing, w_here[i] if both else nothing
        for j in range(tile.shape[1]):
            e = exponential(min(rate * tile[i, j] + shift, nothing))
            tile[i, j] = e
            total += e * w_there[j]
            z_there[j] += e * own
        z_here[i] += total
