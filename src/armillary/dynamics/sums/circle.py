"""The sum over all pairs on the circle: Jacobi-Anger modes and non-uniform Fourier transforms.

With angles theta_i,

    e^{beta cos(theta_i - theta_j)} = sum_k I_k(beta) e^{i k (theta_i - theta_j)},

so that one transform of the weights to modes, a product with scaled Bessel functions, and one transform back give every
Z_i; its derivative is packed into the imaginary part of the same transform.
"""

from __future__ import annotations

from functools import cached_property

import ducc0
import numpy as np
from scipy.special import ive

from armillary.dynamics.sums.passes import along_circle, angles_of
from armillary.dynamics.sums.series import Series, orders

__all__ = ["Circle"]


class Circle(Series):
    """Jacobi-Anger modes by the non-uniform transforms of ducc0 (Reinecke, Arras 2022 and the authors of ducc)."""

    name = "circle"
    dimension = 2

    @cached_property
    def _spectrum(self) -> np.ndarray:
        """Scaled Bessel functions of orders -K - 1 ... K + 1, with the sign that negative beta brings."""
        beta, k = self.task.beta, np.arange(orders(self.task.beta, self.epsilon) + 2)
        found = ive(k, abs(beta))
        last = int(np.flatnonzero(found * np.maximum(k, 1) > 0.01 * self.epsilon * found[0])[-1]) + 1
        found = found[: last + 2] * (1.0 if beta > 0 else (-1.0) ** k[: last + 2])
        return np.concatenate([found[:0:-1], found])

    @property
    def modes(self) -> int:
        """K."""
        return len(self._spectrum) // 2 - 1

    def transformed(self, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
        """Z and Z' / (beta Z) along (-y, x), both from one transform back."""
        k = np.arange(-self.modes, self.modes + 1)
        found = self._back(x, w, self._spectrum[1:-1] * (1 - k / self.task.beta))
        z, pull = np.empty(len(x)), np.empty_like(x)
        return z, pull, along_circle(found, x, z, pull)

    def radial(self, x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
        """The derivative with respect to beta: (I_{k-1} + I_{k+1}) / 2 in the place of I_k."""
        return self._back(x, w, (self._spectrum[:-2] + self._spectrum[2:]) / 2).real.copy()

    def _back(self, x: np.ndarray, w: np.ndarray | None, factors: np.ndarray) -> np.ndarray:
        plan = ducc0.nufft.plan(
            nu2u=True, coord=angles_of(x), grid_shape=(len(factors),), epsilon=self.epsilon, nthreads=1
        )
        ones = np.ones(len(x), dtype=complex) if w is None else w.astype(complex)
        return plan.u2nu(forward=False, grid=plan.nu2u(forward=True, points=ones) * factors)
