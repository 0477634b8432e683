"""What both fast series have in common: a stated absolute error, and direct sums for the tokens it would drown.

A series knows every Z_i to about eps times the largest Z, whatever Z_i itself is. The pull of token i divides by Z_i,
so that its error is

    e_i = eps (max Z) / Z_i (1 / sqrt(1 + beta) + 2 |pull_i|),

the first part from the gradient, the second one from Z_i itself (measured: 0.3 and 0.9 in the places of 1 and 2). It is
small in a cloud and large for a token that stands alone while others crowd. Tokens with e_i above what was asked for
are summed directly, from differences; how many they were is counted. Repulsive weights are largest opposite to a crowd,
where no token need be: the sum of all weights, which no Z exceeds, then takes the place of max Z.
"""

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from armillary.dynamics.attention import Unnormalized
from armillary.dynamics.sums.pairs import direct_rows, divisor, unsuited
from armillary.dynamics.sums.task import Evaluator, PairSum

__all__ = ["Series", "orders"]

FINEST = 3e-13
"""The transforms of ducc0 are asked for no less."""

COARSEST = 1e-9

WORST = 3.0
"""1 / sqrt(1 + beta) + 2 |pull| is never larger."""

ROOM = 1e6
"""Z may be smaller than the largest one by about this factor before a token is summed directly."""


class Series(Evaluator):
    """A sum over all pairs by transforms: O(T + K log K) instead of O(T^2).

    Attributes:
        alone: How many tokens were summed directly since the start, because they stand too far from the others.
        evaluations: How many configurations were summed.
    """

    dimension: int

    def __init__(self, task: PairSum, accuracy: float) -> None:
        super().__init__(task, accuracy)
        self.epsilon = min(COARSEST, max(FINEST, accuracy / task.scale / WORST / ROOM))
        self.alone, self.evaluations = 0, 0

    @classmethod
    def obstacle(cls, task: PairSum) -> str | None:
        """Another dimension, masks, other weights, rows that are no unit vectors, other devices and derivatives."""
        if task.dim != cls.dimension:
            return f"it is made for dimension {cls.dimension}, not {task.dim}"
        return unsuited(task, "it knows directions only, and these rows are no unit vectors")

    @classmethod
    def attainable(cls, task: PairSum) -> float:
        """The finest transform at its worst, where Z_i is a tenth of the largest; or the rounding of the type."""
        return task.scale * max(10 * WORST * FINEST, task.rounding)

    @property
    def error(self) -> float:
        """The transform's own at its worst, or the rounding of the type: where Z_i is the largest one."""
        return self.task.scale * max(WORST * self.epsilon, self.task.rounding)

    @property
    def words(self) -> str:
        """Which series, how many modes, and its error in terms of the partition sums."""
        largest = "max Z" if self.task.beta >= 0 else "(sum of weights)"
        said = f"{self.name} with {self.modes} modes, absolute error {self.error:.0e} x {largest} / Z_i"
        if self.evaluations:
            said += f" and at most {self.accuracy:.0e}: in {self.evaluations} evaluations {self.alone} pulls"
            said += " of tokens apart from the others were summed directly"
        return said

    @property
    @abstractmethod
    def modes(self) -> int:
        """Order of the last mode."""

    @abstractmethod
    def transformed(self, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
        """Scaled partition sums Z, the gradient along the sphere of log Z / beta, and the extremes of Z."""

    @abstractmethod
    def radial(self, x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
        """Scaled sums of w_j e^{beta c_ij} c_ij, `tokens`, float64."""

    def pull(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Gradient of log Z over beta; for weights that do not sum to one, of Z."""
        return self._each(rows, weights, self._pull)

    def drift(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """The pull, and what a token takes along its own direction."""

        def made(x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
            z, found, far, p = self._summed(x, w)
            along = self.radial(x, w) / z
            along[far] = 1 + np.einsum("ij,ij->i", p, x[far]) / z[far]
            found += along[:, None] * x
            return self._weighed(found, z, x, w)

        return self._each(rows, weights, made)

    def log_partition(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Log Z_i, of tokens that stand alone by direct sums."""

        def made(x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
            z, _, (_, high) = self.transformed(x, w)
            far = np.flatnonzero(z < self.epsilon / self.accuracy * self._largest(high, x, w))
            if len(far):
                z[far] = direct_rows(self.task.beta, x[far], x, w)[1]
            return np.log(z) + abs(self.task.beta)

        return self._each(rows, weights, made)

    def _pull(self, x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
        z, found, _, _ = self._summed(x, w)
        return self._weighed(found, z, x, w)

    def _weighed(self, found: np.ndarray, z: np.ndarray, x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
        """Means over the softmax as the row rule weighs them."""
        if isinstance(self.task.rule, Unnormalized):
            found *= (z / divisor(self.task, z, _total(x, w)))[:, None]
        return found

    def _summed(self, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Z and the pull under softmax; which tokens were summed directly, and their sums of differences."""
        z, pull, (low, high) = self.transformed(x, w)
        self.evaluations += 1
        far = self._far(z, pull, low, self._largest(high, x, w))
        if not len(far):
            return z, pull, far, np.empty((0, x.shape[1]))
        p, z[far] = direct_rows(self.task.beta, x[far], x, w)
        pull[far] = (p - np.einsum("ij,ij->i", p, x[far])[:, None] * x[far]) / z[far, None]
        self.alone += len(far)
        return z, pull, far, p

    def _largest(self, high: float, x: np.ndarray, w: np.ndarray | None) -> float:
        """The largest Z anywhere, not at the tokens alone: repulsive weights are large only opposite to a crowd."""
        return high if self.task.beta > 0 else _total(x, w)

    def _far(self, z: np.ndarray, pull: np.ndarray, low: float, high: float) -> np.ndarray:
        """Where the series is less exact than asked for."""
        if isinstance(self.task.rule, Unnormalized):  # all are divided by one number: no error grows
            return np.flatnonzero(z == 0) if low <= 0 else np.empty(0, dtype=np.int64)
        unit = self.epsilon / self.accuracy * high
        if low >= WORST * unit:
            return np.empty(0, dtype=np.int64)
        few = np.flatnonzero(z < WORST * unit)
        size = np.fmin(np.linalg.norm(pull[few], axis=1), 1.0)  # no pull is longer than 1
        return few[z[few] < unit * (1 / math.sqrt(1 + abs(self.task.beta)) + 2 * size)]

    def _each(
        self, rows: Tensor, weights: Tensor | None, made: Callable[[np.ndarray, np.ndarray | None], np.ndarray]
    ) -> Tensor:
        flat = rows.detach().reshape(-1, *rows.shape[-2:]).double().numpy()
        ws = [None] * len(flat) if weights is None else list(weights.expand(rows.shape[:-1]).reshape(len(flat), -1))
        found = [made(x, None if w is None else w.double().numpy()) for x, w in zip(flat, ws, strict=True)]
        one = found[0][None] if len(found) == 1 else np.stack(found)
        return torch.from_numpy(one).reshape(*rows.shape[:-1], *found[0].shape[1:]).to(rows.dtype)


def orders(beta: float, epsilon: float) -> int:
    """An upper bound for how many modes e^{beta (c - 1)} has above eps: beyond sqrt(2 beta ln 1/eps) they vanish."""
    return int(math.sqrt(2 * abs(beta) * math.log(1e3 / epsilon)) + math.log(1e3 / epsilon)) + 8


def _total(x: np.ndarray, w: np.ndarray | None) -> float:
    return float(len(x) if w is None else w.sum())
