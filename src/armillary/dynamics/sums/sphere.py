"""The sum over all pairs on the sphere in three dimensions: Funk-Hecke and spherical harmonics at arbitrary points.

    e^{beta (t - 1)} = sum_l (2 l + 1) a_l P_l(t),      a_l = sqrt(pi / 2 beta) e^{-beta} I_{l + 1/2}(beta),

and P_l(x_i . x_j) is a sum over the harmonics of degree l: one transform of the weights to harmonics, a product with
4 pi a_l, and transforms back give Z_i and, differentiated, its gradient along the sphere.
"""

from __future__ import annotations

from functools import cached_property

import ducc0
import numpy as np
from scipy.special import ive

from armillary.dynamics.sums.passes import along_sphere, places_of
from armillary.dynamics.sums.series import Series, orders

__all__ = ["Sphere"]


class Sphere(Series):
    """Harmonics by the transforms of ducc0 at arbitrary points (Reinecke, Belkner, Carron 2023)."""

    name = "sphere"
    dimension = 3

    @cached_property
    def _spectrum(self) -> np.ndarray:
        """a_l of orders 0 ... L + 1, with the sign that negative beta brings."""
        beta, degree = self.task.beta, np.arange(orders(self.task.beta, self.epsilon) + 2)
        found = np.sqrt(np.pi / 2 / abs(beta)) * ive(degree + 0.5, abs(beta))
        share = found * (2 * degree + 1) * np.maximum(degree, 1)
        last = int(np.flatnonzero(share > 0.01 * self.epsilon)[-1]) + 1
        return found[: last + 2] * (1.0 if beta > 0 else (-1.0) ** degree[: last + 2])

    @property
    def modes(self) -> int:
        """L."""
        return len(self._spectrum) - 2

    @cached_property
    def _degree(self) -> np.ndarray:
        """The degree of each coefficient as ducc0 lays them out: order by order, degrees ascending."""
        return np.concatenate([np.arange(order, self.modes + 1) for order in range(self.modes + 1)])

    def transformed(self, x: np.ndarray, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
        """Z, and its gradient over beta Z from the derivatives along colatitude and longitude."""
        places = places_of(x)
        harmonics = self._harmonics(places, w, self._spectrum[:-1])
        z = self._back(harmonics, places, 0, "STANDARD")[0]
        pull = np.empty_like(x)
        slopes = self._back(harmonics, places, 1, "DERIV1")
        return z, pull, along_sphere(z, slopes, x, float(self.task.beta), pull)

    def radial(self, x: np.ndarray, w: np.ndarray | None) -> np.ndarray:
        """The sum with c_ij: (l a_{l-1} + (l+1) a_{l+1}) / (2 l + 1) in the place of a_l."""
        places = places_of(x)
        a, degree = self._spectrum, np.arange(self.modes + 1)
        below = np.concatenate([[0.0], a[:-2]])
        mixed = (degree * below + (degree + 1) * a[1:]) / (2 * degree + 1)
        return self._back(self._harmonics(places, w, mixed), places, 0, "STANDARD")[0]

    def _harmonics(self, places: np.ndarray, w: np.ndarray | None, factors: np.ndarray) -> np.ndarray:
        ones = np.ones((1, len(places))) if w is None else np.ascontiguousarray(w[None], dtype=float)
        found = ducc0.sht.adjoint_synthesis_general(
            map=ones, spin=0, lmax=self.modes, loc=places, epsilon=self.epsilon, nthreads=1
        )
        return found * (4 * np.pi * factors[self._degree])

    def _back(self, harmonics: np.ndarray, places: np.ndarray, spin: int, mode: str) -> np.ndarray:
        return ducc0.sht.synthesis_general(
            alm=harmonics, spin=spin, lmax=self.modes, loc=places, epsilon=self.epsilon, nthreads=1, mode=mode
        )
