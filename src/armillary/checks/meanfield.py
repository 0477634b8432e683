"""The continuity equation: weighted characteristics and particles against spectral solvers that never import them."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, attention
from armillary.dynamics.integrators import Tsit5
from armillary.oracles import meanfield

__all__: list[str] = []

LOOSE = Tsit5(rtol=1e-6)
"""Where the spread of draws is far above the error of a step."""


@check(
    "continuity equation on the circle",
    "weighted characteristics and the pseudo-spectral solver give the same first three moments",
    tolerance=1e-8,
)
def _circle(engine: Engine) -> Sides:
    angles = 2 * np.pi * np.arange(256) / 256
    density = (1 + 0.3 * np.cos(angles) + 0.2 * np.sin(2 * angles)) / 256
    rows = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    times = [1.0, 2.0, 3.0]
    run = engine.flow(attention(5.0), rows, until=3.0, integrator=TIGHT, keep=times, weights=torch.tensor(density))
    law = meanfield.circle([1.0, 0.15, 0.1j * -1], beta=5.0, at=[0.0, *times], modes=192).moments[1:]
    expected, got = [], []
    for state, moments in zip(run.states.numpy(), law, strict=True):
        turned = state[:, 0] - 1j * state[:, 1]
        for k in (1, 2, 3):
            found = (density * turned**k).sum()
            expected += [moments[k].real, moments[k].imag]
            got += [found.real, found.imag]
    return Sides.of(expected, got)


@check(
    "continuity equation on S^2",
    "weighted characteristics and the zonal solver give the same moments",
    tolerance=1e-7,
)
def _zonal(engine: Engine) -> Sides:
    heights, shares = np.polynomial.legendre.leggauss(28)
    around = 2 * np.pi * np.arange(16) / 16
    u, phi = (one.ravel() for one in np.meshgrid(heights, around, indexing="ij"))
    rows = torch.tensor(np.stack([np.sqrt(1 - u**2) * np.cos(phi), np.sqrt(1 - u**2) * np.sin(phi), u], axis=1))
    mass = np.repeat(shares, 16) * (1 + 0.9 * u)
    mass = mass / mass.sum()
    run = engine.flow(attention(2.0), rows, until=1.0, integrator=TIGHT, weights=torch.tensor(mass), keep=[0.5, 1.0])
    law = meanfield.zonal([1.0, 0.3], dim=3, beta=2.0, at=[0.0, 0.5, 1.0], modes=48).moments[1:]
    expected, got = [], []
    for state, moments in zip(run.states.numpy(), law, strict=True):
        height = state[:, 2]
        expected += [moments[1], moments[2]]
        got += [float((mass * height).sum()), float((mass * (3 * height**2 - 1) / 2).sum())]
    return Sides.of(expected, got)


@check(
    "particles approach the density as T^{-1/2}",
    "independent tokens, T = 64, 256, 1024: root mean square of the error of the first moment, slope over log T",
    tolerance=0.0,
    cost="all",
    status="exact as T grows",
    draws="128",
    seeds="64000-64127, 256000-256127, 1024000-1024127",
)
def _particles(engine: Engine) -> Sides:
    law = meanfield.circle([1.0, 0.15], beta=2.0, at=[0.0, 2.0], modes=128).moments[-1, 1].real
    counts, logs, variances, draws = (64, 256, 1024), [], [], 128
    for tokens in counts:
        starts = torch.stack([_drawn(tokens, 1000 * tokens + seed) for seed in range(draws)])
        last = engine.flow(attention(2.0), starts, until=2.0, integrator=LOOSE).last
        squares = np.square(last[..., 0].mean(-1).numpy() - law)
        logs.append(math.log(squares.mean()) / 2)
        variances.append(squares.var(ddof=1) / draws / (2 * squares.mean()) ** 2)  # of the logarithm, by propagation
    along = np.log(counts) - np.log(counts).mean()
    share = along / np.square(along).sum()
    return Sides.of(-0.5, float(share @ logs), math.sqrt(np.square(share) @ variances))


def _drawn(tokens: int, seed: int) -> torch.Tensor:
    """Independent tokens on the circle of density (1 + 0.3 cos phi) / 2 pi."""
    grid, draw = np.linspace(0, 2 * np.pi, 4001), torch.Generator().manual_seed(seed)
    uniform = torch.rand(tokens, generator=draw, dtype=torch.float64).numpy()
    angles = np.interp(uniform, (grid + 0.3 * np.sin(grid)) / (2 * np.pi), grid)
    return torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
