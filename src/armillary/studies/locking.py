"""How tokens on the circle end: certain to meet, locked apart in a state that is stable, or not yet told.

On the circle attention under full weights climbs the energy sum_ij w_i w_j e^{beta cos(phi_i - phi_j)} / (2 beta), with
row normalization or without: the two differ by a positive mobility of each token. So both have the same stationary
states, and one linearization tells for both whether a state is stable: that of the pull
f(t) = e^{beta cos t} sin t between tokens t apart.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import root

__all__ = ["LOCKED", "MET", "UNTOLD", "outcome", "pull", "released_at", "slowest_rate", "uneven"]

MET, LOCKED, UNTOLD = 0.0, 1.0, np.nan
"""What `outcome` says: all tokens in an open half circle; stationary and stable elsewhere; neither yet."""

STILL = 1e-9  # largest pull on a token of a stationary state, over e^-|beta|
NEAR = 0.05  # radians from the last state of a run to the stationary one next to it
AWAY = 0.2  # radians between the stationary states of two neighboring betas
LEAST = 1e-9  # decay that a followed state still has
STABLE = 1e-6  # decay, over e^-|beta|, below which a stationary state is not called stable

Angles = Float[np.ndarray, "tokens"]


def pull(apart: Float[np.ndarray, "*shape"], *, beta: float) -> Float[np.ndarray, "*shape"]:
    """e^{beta cos t - |beta|} sin t: how strongly two tokens an angle t apart pull each other together."""
    return np.exp(beta * np.cos(apart) - abs(beta)) * np.sin(apart)


def uneven(angles: Angles, *, beta: float) -> Angles:
    """Mean pull on every token."""
    return pull(angles[None, :] - angles[:, None], beta=beta).mean(1)


def _linear(angles: Angles, beta: float) -> Float[np.ndarray, "tokens tokens"]:
    apart = angles[None, :] - angles[:, None]
    weight = np.exp(beta * np.cos(apart) - abs(beta)) * (np.cos(apart) - beta * np.sin(apart) ** 2) / len(angles)
    np.fill_diagonal(weight, 0.0)
    return weight - np.diag(weight.sum(1))


def slowest_rate(angles: Angles, *, beta: float) -> float:
    """The largest growth rate of a stationary state apart from turning it as a whole; stable where it is negative."""
    turned = np.ones((len(angles), len(angles))) / len(angles)
    size = 10.0 * (1 + abs(beta))
    return float(np.linalg.eigvalsh(_linear(angles, beta) - size * turned)[-1])


def outcome(angles: Angles, *, beta: float) -> float:
    """How a configuration will end, as far as it can be said for certain.

    Tokens in an open half circle meet: under positive weights the arc that holds them can only shrink. Elsewhere a
    state that stands still and whose every mode decays stays apart for ever.

    Args:
        angles: In radians.
        beta: Of the weights, any sign.

    Returns:
        `MET`, `LOCKED` or `UNTOLD`.
    """
    around = np.sort(angles % (2 * np.pi))
    if np.diff(around, append=around[0] + 2 * np.pi).max() > np.pi:
        return MET
    settled = _settled(angles, beta, reach=NEAR)
    if settled is not None and slowest_rate(settled, beta=beta) < -STABLE * np.exp(-abs(beta)):
        return LOCKED
    return UNTOLD


def _settled(angles: Angles, beta: float, *, reach: float) -> Angles | None:
    """The stationary state next to a configuration, no token farther than `reach`; None if Newton finds none."""
    turned = np.ones((len(angles), len(angles))) / len(angles)  # holds the mean angle

    def pulled(x: Angles) -> Angles:
        return uneven(x, beta=beta) - (x - angles).mean()

    def slope(x: Angles) -> np.ndarray:
        return _linear(x, beta) - turned

    found: Angles = root(pulled, angles, jac=slope, tol=1e-13).x
    near = np.abs(found - angles).max() < reach
    return found if near and np.abs(uneven(found, beta=beta)).max() < STILL * np.exp(-abs(beta)) else None


def released_at(angles: Angles, *, beta: float, highest: float = 0.0, step: float = 0.02) -> float:
    """The beta up to which a locked state, followed as beta rises, stays locked.

    Args:
        angles: A locked state at `beta`.
        beta: Where it is locked.
        highest: Where to stop following.
        step: First step in beta; halved down to 1e-7 at the end.

    Returns:
        The largest beta at which the followed state was stable; `highest` if it never was released.
    """
    held, state = beta, angles
    while step > 1e-7 and held < highest:
        to = min(held + step, highest)
        found = _settled(state, to, reach=AWAY)
        if found is not None and slowest_rate(found, beta=to) < -LEAST:
            held, state = to, found
        else:
            step /= 2
    return held
