"""Patterns of many tokens: the edge of the phase diagram, plateaus, the staircase, Renyi centers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import attention, off_diagonal
from armillary.dynamics.integrators import Tsit5
from armillary.observables.clustering import cluster_count
from armillary.observables.distances import AngularDistance
from armillary.observables.grouping import Connected, Grouping
from armillary.oracles import sampling

__all__: list[str] = []

LOOSE = Tsit5(rtol=1e-6)


@check(
    "edge of consensus in high dimension",
    "d = 128, n = 32, s = 30: all pairs above 0.999 at beta 6, none at 8; the law's edge is 6.9",
    tolerance=0.05,
    cost="all",
    status="estimate",
    draws="8",
    seeds="0-7",
)
def _edge(engine: Engine) -> Sides:
    got = []
    for beta in (6.0, 6.5, 7.3, 8.0):
        starts = torch.stack([engine.draw(32, 128, seed) for seed in range(8)])
        run = engine.flow(attention(beta), starts, until=30.0, integrator=LOOSE)
        got.append(float((off_diagonal(run.last) > 0.999).mean()))
    return Sides.of([1.0, 1.0, 0.0, 0.0], [got[0], float(got[1] > 0.5), float(got[2] > 0.5), got[3]])


@check(
    "ring with noise gathers at the fastest mode",
    "beta = 5 and 1 % noise: three groups",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="1",
    seeds="0",
)
def _ring(engine: Engine) -> Sides:
    angles = torch.arange(120, dtype=torch.float64) * (2 * math.pi / 120)
    shift = 0.01 * torch.randn(120, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = torch.stack([(angles + shift).cos(), (angles + shift).sin()], dim=1)
    run = engine.flow(attention(5.0), rows, until=25.0, integrator=LOOSE)
    groups = cluster_count(Grouping(AngularDistance(), Connected(within=0.2)))
    return Sides.of(3.0, float(groups.after("normalize")(run.last)))


@check(
    "groups of a random start on the circle",
    "beta = 25, s = 20: sqrt(1.5 beta) = 6.1 groups on average, within 1",
    tolerance=1.0,
    cost="all",
    status="estimate",
    draws="10",
    seeds="0-9",
)
def _plateau(engine: Engine) -> Sides:
    groups = cluster_count(Grouping(AngularDistance(), Connected(within=0.03)))
    starts = torch.stack([engine.draw(200, 2, seed) for seed in range(10)])
    run = engine.flow(attention(25.0), starts, until=20.0, integrator=LOOSE)
    return Sides.of(math.sqrt(1.5 * 25), float(torch.as_tensor(groups.after("normalize")(run.last)).mean()))


@check(
    "staircase",
    "well separated clusters of shares w: mean of e^{beta (c-1)} = sum w^2; 13/25 on the plateau of five tokens",
    tolerance=1e-3,
    status="estimate",
)
def _staircase(engine: Engine) -> Sides:
    angles = torch.tensor([0.0622, 0.2143, 1.8191, 2.9111, 3.1879], dtype=torch.float64)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    run = engine.flow(attention(4.0), rows, until=400.0, integrator=Tsit5(rtol=1e-9), keep=[0.0, 20.0, 400.0])
    got = [float(torch.exp(4.0 * (state @ state.mT - 1)).mean()) for state in run.states]
    return Sides.of([0.360, 13 / 25, 1.0], got)


@check(
    "Renyi centers, kept greedily",
    "circle: (2 pi / r) (0.7476 - 0.3152 2 pi / (n r)) of them",
    tolerance=0.0,
    status="estimate",
    draws="60",
    seeds="0-59",
)
def _greedy(engine: Engine) -> Sides:
    return _counted(engine, sampling.greedy_centers, ((1200, 0.05), (300, 0.2)), greedy=True)


@check(
    "strong Renyi centers",
    "farther than r from all earlier tokens: [1 - (1-p)^n] / p, p = r / pi on the circle",
    tolerance=0.0,
    draws="60",
    seeds="0-59",
)
def _strong(engine: Engine) -> Sides:
    return _counted(engine, sampling.strong_centers, ((300, 0.2), (1200, 0.05)), greedy=False)


def _counted(engine: Engine, law: Callable[..., float], cases: Sequence[tuple[int, float]], *, greedy: bool) -> Sides:
    expected, got, error = [], [], []
    for tokens, radius in cases:
        counts = [_centers(engine.draw(tokens, 2, seed), radius, greedy=greedy) for seed in range(60)]
        expected.append(law(tokens=tokens, radius=radius))
        got.append(float(np.mean(counts)))
        error.append(float(np.std(counts, ddof=1)) / math.sqrt(60))
    return Sides.of(expected, got, error)


def _centers(rows: torch.Tensor, radius: float, *, greedy: bool) -> int:
    near = (rows @ rows.mT).numpy() >= math.cos(radius)
    if not greedy:
        return int((~np.tril(near, -1).any(1)).sum())
    kept: list[int] = []
    for i in range(len(rows)):
        if not near[i, kept].any():
            kept.append(i)
    return len(kept)
