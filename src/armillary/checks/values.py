"""Value matrices, injections and repulsion: where consensus is not the end."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import brentq

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, off_diagonal
from armillary.dynamics.attention import Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.normalization import VelocityField, on_sphere
from armillary.dynamics.pushes import Injection
from armillary.oracles import circle, linear

__all__: list[str] = []


def _anisotropic(beta: float, top: float, dim: int) -> VelocityField:
    values = torch.eye(dim, dtype=torch.float64)
    values[0, 0] = top
    return on_sphere(
        AttentionDrift(Softmax(beta), heads=Heads.given(scores=torch.eye(dim, dtype=torch.float64), values=values))
    )


@check(
    "bipolar states",
    "values diag(mu, v2, ...): half at +e1, half at -e1 is stable iff tanh beta > v2/mu; rates v2 - mu tanh beta and "
    "(v2 - mu) tanh beta",
    tolerance=1e-8,
)
def _bipolar(engine: Engine) -> Sides:
    rows = torch.zeros(6, 3, dtype=torch.float64)
    rows[:, 0] = torch.tensor([1.0, 1, 1, -1, -1, -1])
    expected, got = [], []
    for top in (1.0, 1.2, 1.4):
        rates = engine.rates(_anisotropic(1.0, top, 3), rows)
        for rate in linear.bipolar_rates(beta=1.0, top=top, second=1.0):
            expected.append(rate)
            got.append(rates[np.argmin(np.abs(rates - rate))])
    return Sides.of(expected, got)


@check(
    "injection prevents consensus",
    "two tokens, z_i = kappa x_i(0): 0.5 sin 2phi = kappa sin(pi/4 - phi), c = cos 2phi",
    tolerance=1e-8,
)
def _injection(engine: Engine) -> Sides:
    rows = torch.eye(2, dtype=torch.float64)
    expected, got = [], []
    for kappa in (0.05, 0.2, 1.0):
        phi = brentq(lambda p, k=kappa: 0.5 * math.sin(2 * p) - k * math.sin(math.pi / 4 - p), 0, math.pi / 4)
        field = on_sphere(AttentionDrift(Uniform()) + Injection(kappa * rows))
        run = engine.flow(field, rows, until=60.0, integrator=TIGHT)
        expected.append(math.cos(2 * phi))
        got.append(off_diagonal(run.last)[0])
    return Sides.of(expected, got)


@check(
    "triangle at negative beta",
    "three tokens on the circle: rate (1/2 + 3 beta/4) e^{-beta/2}, zero at beta = -2/3",
    tolerance=1e-8,
)
def _triangle(engine: Engine) -> Sides:
    angles = torch.arange(3, dtype=torch.float64) * (2 * math.pi / 3)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    expected, got = [], []
    for beta in (-0.7, -2 / 3, -0.6, 0.0):
        rates = engine.rates(on_sphere(AttentionDrift(Unnormalized(beta))), rows)
        expected.append(circle.triangle_rate(beta))
        got.append(rates[np.argmin(np.abs(rates - expected[-1]))])
    return Sides.of(expected, got)
