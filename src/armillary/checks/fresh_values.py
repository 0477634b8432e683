"""Opposed tokens in layers whose values are drawn anew each time: two limits, each with its own exponent.

The logarithm by which a layer of step h widens the small angle of a pair has a mean of order h and a spread of order
sqrt(h), so that its average over layers says little. But to second order in sqrt(h) it is a polynomial in a few numbers
of the layer's own matrix whose means are known, since the matrix is independent of the state. Regressed on them, with
their means taken off, its intercept is the same average with hardly any spread: an exponent to three digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.dynamics.attention import Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.integrators import RK4, ResidualLayer
from armillary.dynamics.normalization import on_sphere
from armillary.oracles import linear

__all__: list[str] = []

STEP = 1e-4
"""h: what is left of its first order is below the standard errors."""

LAYERS = 3000
SMALL = 1e-6
CASES = ((4, 0.4), (4, 1.0), (8, 1.239), (8, 0.8), (8, 2.0))


@check(
    "fresh random values each layer",
    "Lyapunov exponent at c = -1 of residual layers with sqrt(h) G: [(d-3) - (d-1) tanh^2 beta] / 2",
    tolerance=0.0,
    cost="all",
    status="exact as h falls",
    draws="3000",
    seeds="0-4",
)
def _layers(engine: Engine) -> Sides:
    expected = [linear.random_values_exponents(dim=dim, beta=beta)[0] for dim, beta in CASES]
    return _exponents(engine, ResidualLayer(STEP), 1.0, expected)


@check(
    "flow along fresh random values",
    "the same, flowing along each G for the time h: [(d-2) - tanh beta - (d-1) tanh^2 beta] / 2",
    tolerance=0.0,
    cost="all",
    status="exact as h falls",
    draws="3000",
    seeds="0-4",
)
def _flow(engine: Engine) -> Sides:
    expected = [linear.random_values_exponent_of_flow(dim=dim, beta=beta) for dim, beta in CASES]
    return _exponents(engine, RK4(step=STEP), STEP, expected)


@check(
    "fresh random values at an aligned pair",
    "Lyapunov exponent at c = +1 of the same layers: -(d-1) / 2",
    tolerance=0.0,
    cost="all",
    status="exact as h falls",
    draws="3000",
    seeds="0",
)
def _aligned(engine: Engine) -> Sides:
    expected = [linear.random_values_exponents(dim=dim, beta=beta)[1] for dim, beta in CASES[-1:]]
    return _exponents(engine, ResidualLayer(STEP), 1.0, expected, cases=CASES[-1:], side=1.0)


def _exponents(
    engine: Engine, integrator: RK4 | ResidualLayer, until: float, expected: Sequence[float],
    *, cases: Sequence[tuple[int, float]] = CASES, side: float = -1.0,
) -> Sides:  # fmt: skip
    """Exponents at a pair, opposed (side -1) or aligned (+1), from a stack of layers; the small angle is put back."""
    got, spread = [], []
    for seed, (dim, beta) in enumerate(cases):
        draw = torch.Generator().manual_seed(seed)
        state, grown, known = torch.zeros(2, dim, dtype=torch.float64), [], []
        state[0, 0], state[1, 0], state[1, 1] = 1.0, side, SMALL
        for _ in range(LAYERS):
            state = state / state.norm(dim=-1, keepdim=True)
            square = torch.randn(dim, dim, generator=draw, dtype=torch.float64)
            before = state[1] - side * state[0]
            known.append(_of_known_mean(square.numpy(), before.numpy(), state[0].numpy()))
            heads = Heads.given(scores=torch.eye(dim, dtype=torch.float64), values=square / math.sqrt(STEP))
            field = on_sphere(AttentionDrift(Softmax(beta), heads=heads))
            moved = engine.flow(field, state, until=until, integrator=integrator, keep=1).last
            away = moved[1] - side * moved[0]
            grown.append(math.log(float(away.norm() / before.norm())))
            state = torch.stack([moved[0], side * moved[0] + away * (SMALL / float(away.norm()))])
        mean, error = _intercept(np.asarray(grown) / STEP, np.asarray(known))
        got.append(mean)
        spread.append(error)
    return Sides.of(expected, got, spread)


def _of_known_mean(square: np.ndarray, away: np.ndarray, x: np.ndarray) -> list[float]:
    """Numbers of a Gaussian matrix G along an independent pair, of first and second order, less their means.

    With u the direction of what is small, x_2 + x_1 or x_2 - x_1, and x = x_1: u.Gu, x.Gx, |Gu|^2, |Gx|^2, products of
    the entries of G along u and x, u.GGu and x.GGx.
    """
    u = away / np.linalg.norm(away)
    gu, gx, along = square @ u, square @ x, float(u @ x)
    uu, xx, xu, ux = float(u @ gu), float(x @ gx), float(x @ gu), float(u @ gx)
    dim = len(u)
    return [
        uu, xx, gu @ gu - dim, gx @ gx - dim, uu * uu - 1, xx * xx - 1, xu * xu - 1, ux * ux - 1,
        uu * xx - along**2, xu * ux - along**2, u @ square @ gu - 1, x @ square @ gx - 1,
    ]  # fmt: skip


def _intercept(values: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """The mean of values at the known means of what they are regressed on, and its standard error."""
    design = np.column_stack([np.ones(len(values)), known])
    found = np.linalg.lstsq(design, values, rcond=None)[0]
    left = values - design @ found
    variance = float(left @ left) / (len(values) - design.shape[1])
    return float(found[0]), math.sqrt(variance * float(np.linalg.inv(design.T @ design)[0, 0]))
