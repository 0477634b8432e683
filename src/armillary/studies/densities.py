"""Densities on the circle, carried by characteristics, and how far a cloud of particles is from one.

Between two characteristics the mass never changes, so that the cumulative distribution is known exactly wherever one
of them is, at any time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float

from armillary.studies.starts import attended, from_angles

__all__ = ["Density", "carried", "distance", "draws", "gathered"]

Angles = Float[np.ndarray, "tokens"]
Nodes = Float[np.ndarray, "nodes"]
Groups = Float[np.ndarray, "groups"]

BACK = 1e-6  # radians that a characteristic may seem to be behind the one before it
FINE = 1 << 16  # nodes by which a cumulative distribution is inverted


@dataclass(frozen=True)
class Density:
    """1 + sum_k (a_k cos k phi + b_k sin k phi), over 2 pi: positive everywhere.

    Args:
        cosines: a_1, a_2, ...
        sines: b_1, b_2, ...
    """

    cosines: tuple[float, ...] = ()
    sines: tuple[float, ...] = ()

    def value(self, angles: Angles) -> Angles:
        """The density times 2 pi."""
        found = np.ones_like(angles)
        for k, a in enumerate(self.cosines, start=1):
            found = found + a * np.cos(k * angles)
        for k, b in enumerate(self.sines, start=1):
            found = found + b * np.sin(k * angles)
        return found

    def below(self, angles: Angles) -> Angles:
        """The mass from 0 up to each angle."""
        found = angles.copy()
        for k, a in enumerate(self.cosines, start=1):
            found = found + a * np.sin(k * angles) / k
        for k, b in enumerate(self.sines, start=1):
            found = found + b * (1 - np.cos(k * angles)) / k
        return found / (2 * np.pi)

    @property
    def moments(self) -> tuple[complex, ...]:
        """Integral of e^{-i k phi} for k = 0, 1, 2, ..."""
        size = max(len(self.cosines), len(self.sines))
        pair = [(*self.cosines, *[0.0] * size)[:size], (*self.sines, *[0.0] * size)[:size]]
        return (1.0, *(complex(a, -b) / 2 for a, b in zip(*pair, strict=True)))


def draws(density: Density, seed: Sequence[int], *, tokens: int) -> Angles:
    """Independent angles with that density.

    Args:
        density: Which.
        seed: One or more numbers.
        tokens: How many.
    """
    nodes = np.linspace(0, 2 * np.pi, FINE + 1)
    return np.interp(np.random.default_rng(list(seed)).uniform(size=tokens), density.below(nodes), nodes)


@cache
def carried(
    density: Density, *, beta: float, times: tuple[float, ...], nodes: int, rtol: float
) -> tuple[tuple[Nodes, ...], Nodes]:
    """Where characteristics of the continuity equation are at each time.

    Args:
        density: At s = 0.
        beta: Of the softmax.
        times: Ascending.
        nodes: How many characteristics, evenly spaced at s = 0.
        rtol: Of the steps.

    Returns:
        At each time the angles, ascending from somewhere in one turn on, and the mass that lies below each of them,
        which is the same at all times.
    """
    angles = 2 * np.pi * (np.arange(nodes) + 0.5) / nodes  # none where waves of the density have their nodes
    if not density.cosines and not density.sines:  # it stands still, but rounding would grow until it did not
        return (angles,) * len(times), density.below(angles)
    weights = torch.from_numpy(density.value(angles) / nodes)
    run = attended(from_angles(angles)[None], rule=beta, times=times, rtol=rtol, weights=weights)
    return tuple(_in_order(rows) for rows in run.states[0].numpy()), density.below(angles)


def _in_order(rows: Float[np.ndarray, "nodes 2"]) -> Nodes:
    """Angles that ascend within one turn, of rows that have kept their order around the circle."""
    around = np.arctan2(rows[:, 1], rows[:, 0])
    steps = np.diff(around) % (2 * np.pi)
    steps[steps > 2 * np.pi - BACK] = 0.0  # rounding among tokens that have met
    return around[0] + np.concatenate([[0.0], np.cumsum(steps)])


def distance(cloud: Angles, masses: Angles | None, *, places: Nodes, below: Nodes) -> float:
    """Wasserstein distance of order 1 on the circle, in radians, of a cloud from a density given by characteristics.

    The least over constants a of the integral of |F - G - a|: F steps at the tokens, G is known at the
    characteristics and taken to be linear between them.

    Args:
        cloud: Angles of the tokens.
        masses: What each carries, adding up to 1; None for the same.
        places: Angles of the characteristics, ascending within one turn.
        below: Mass below each of them.
    """
    base = places[0]
    turned = (cloud - base) % (2 * np.pi)
    order = np.argsort(turned, kind="stable")
    steps = np.concatenate([[0.0], np.cumsum(np.full(len(cloud), 1 / len(cloud)) if masses is None else masses[order])])
    edges = np.concatenate([places - base, [2 * np.pi]])
    mass = np.concatenate([below - below[0], [1.0]])
    points = np.sort(np.concatenate([turned, edges]))
    middle, length = (points[1:] + points[:-1]) / 2, np.diff(points)
    apart = steps[np.searchsorted(turned[order], middle)] - np.interp(middle, edges, mass)
    ranked = np.argsort(apart)
    half = int(np.searchsorted(np.cumsum(length[ranked]), math.pi))
    return float((np.abs(apart - apart[ranked[min(half, len(ranked) - 1)]]) * length).sum())


def gathered(angles: Angles, masses: Angles, *, within: float) -> tuple[Groups, Groups]:
    """Coalesced tokens as one: chains of neighbors within a small angle, each at its mean with its mass.

    Args:
        angles: Of the tokens.
        masses: What each carries.
        within: Angle in radians.
    """
    order = np.argsort(angles % (2 * np.pi))
    around, carried_mass = angles[order] % (2 * np.pi), masses[order]
    gaps = np.diff(around, append=around[0] + 2 * np.pi)
    first = (int(np.argmax(gaps)) + 1) % len(around)  # begin behind the widest gap, so that no chain is cut
    around = np.concatenate([around[first:], around[:first] + 2 * np.pi])
    carried_mass, gaps = np.roll(carried_mass, -first), np.roll(gaps, -first)
    chain = np.concatenate([[0], np.cumsum(gaps[:-1] > within)])
    mass = np.bincount(chain, weights=carried_mass)
    return np.bincount(chain, weights=carried_mass * around) / mass, mass
