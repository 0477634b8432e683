"""Local rates, invariants and monotone quantities, at any configuration."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, attention, off_diagonal
from armillary.dynamics.attention import Causal, Full, Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.energy import energy_of
from armillary.dynamics.heads import Heads
from armillary.dynamics.integrators import RK4
from armillary.dynamics.normalization import on_sphere
from armillary.dynamics.outlook import hemisphere
from armillary.dynamics.pushes import Frequencies
from armillary.errors import NumericalError
from armillary.observables.rank import algebraic_rank
from armillary.oracles import circle, linear, sampling

__all__: list[str] = []


def _aligned(tokens: int, dim: int) -> torch.Tensor:
    rows = torch.zeros(tokens, dim, dtype=torch.float64)
    rows[:, 0] = 1.0
    return rows


@check("norms are conserved", "|x_i| = 1 for any run length", tolerance=4e-16)
def _norms(engine: Engine) -> Sides:
    run = engine.flow(attention(9.0), engine.draw(16, 3, 0), until=300.0, integrator=TIGHT)
    return Sides.of(np.ones(16), run.last.norm(dim=-1).tolist())


@check("tangency", "x_i . x_i' = 0", tolerance=1e-15)
def _tangent(engine: Engine) -> Sides:
    rows = engine.draw(16, 5, 1)
    fields = [attention(b, mask=mask) for b in (0.0, 4.0, -3.0) for mask in (Full(), Causal())]
    return Sides.of([0.0] * 6, [float((engine.velocity(f, rows) * rows).sum(-1).abs().max()) for f in fields])


@check(
    "consensus rate",
    "1 - c decays at 2 under softmax at every beta, at 2 e^beta without row normalization",
    tolerance=1e-8,
    relative=True,
)
def _consensus(engine: Engine) -> Sides:
    rows = _aligned(7, 5)
    got = [-2 * engine.rates(attention(beta), rows)[-1] for beta in (0.0, 1.0, 3.0)]
    got += [-2 * engine.rates(on_sphere(AttentionDrift(Unnormalized(beta))), rows)[-1] for beta in (1.0, 3.0)]
    return Sides.of([2.0] * 3 + [linear.consensus_rate(beta=b, rule="unnormalized") for b in (1.0, 3.0)], got)


@check("causal spectrum", "rates at consensus under a causal mask: 0 and -(1 - 1/k)", tolerance=1e-9)
def _causal(engine: Engine) -> Sides:
    found = engine.rates(attention(2.0, mask=Causal()), _aligned(6, 2))
    return Sides.of(linear.causal_consensus_spectrum(6), found)


@check(
    "Liouville identity",
    "ln det G(s) - ln det G(0) = 2 integral of sum_i (A_ii - x_i . m_i), m = A X, both masks",
    tolerance=1e-6,
)
def _liouville(engine: Engine) -> Sides:
    start, expected, got = engine.draw(8, 12, 0), [], []
    for mask in (Full(), Causal()):
        run = engine.flow(attention(2.0, mask=mask), start, until=4.0, integrator=TIGHT, keep=401)
        x = run.states.numpy()
        scores = np.exp(2.0 * (x @ np.swapaxes(x, 1, 2) - 1))
        if isinstance(mask, Causal):
            scores = np.tril(scores)
        weights = scores / scores.sum(-1, keepdims=True)
        rate = np.trace(weights, axis1=1, axis2=2) - (x * (weights @ x)).sum((1, 2))
        expected.append(2 * _simpson(rate, 4.0 / 400))
        logs = np.linalg.slogdet(x @ np.swapaxes(x, 1, 2))[1]
        got.append(logs[-1] - logs[0])
    return Sides.of(expected, got)


def _simpson(values: np.ndarray, step: float) -> float:
    return float(step / 3 * (values[0] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum() + values[-1]))


@check(
    "energy rate",
    "dPhi/ds = sum_i |P_i grad_i Phi|^2 / Z_i",
    tolerance=1e-6,
    relative=True,
    status="model-specific",
)
def _energy(engine: Engine) -> Sides:
    expected, got = [], []
    for beta in (0.5, 3.0, -2.0, 12.0):
        field, start = attention(beta), engine.draw(8, 3, 3)
        step = 1e-3
        run = engine.flow(field, start, until=2 * step, integrator=RK4(step=step / 4), keep=[0.0, step, 2 * step])
        logs = np.asarray([_log_energy(state.numpy(), beta) for state in run.states])
        slope = (logs[2] - logs[0]) / (2 * step)  # of log |Phi|
        energy = energy_of(field)
        expected.append(float(energy.rate(run.states[1]) / energy.value(run.states[1])))
        got.append(slope)
    return Sides.of(expected, got)


def _log_energy(rows: np.ndarray, beta: float) -> float:
    scores = beta * (rows @ rows.T)
    return float(scores.max() + math.log(np.exp(scores - scores.max()).sum()) - math.log(2 * abs(beta)))


@check(
    "energy never decreases",
    "any beta, full mask, values equal keys: no negative rate in random states",
    tolerance=0.0,
    status="model-specific",
    draws="50",
    seeds="0-49",
)
def _monotone(engine: Engine) -> Sides:
    found = []
    for beta in (0.5, 1.0, 5.0, -1.0):
        for seed in range(50):
            rows = engine.draw(8, 3, seed)
            velocity = engine.velocity(attention(beta), rows)
            gradient = torch.exp(beta * (rows @ rows.mT - 1)) @ rows
            found.append(float((gradient * velocity).sum()) < -1e-12)
    return Sides.of(0.0, float(sum(found)))


@check(
    "energy with tied symmetric matrices",
    "scores B symmetric, of either signature: under values B the energy falls in 0 of 500 states, under -B in 500",
    tolerance=0.0,
    status="model-specific",
    draws="500",
    seeds="0-499",
)
def _tied(engine: Engine) -> Sides:
    falling = {1: 0, -1: 0}
    for seed in range(500):
        square = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        b = (square + square.mT) / 2
        rows = engine.draw(8, 3, seed)
        gradient = torch.exp(rows @ b @ rows.mT) @ rows @ b
        for sign in falling:
            field = on_sphere(AttentionDrift(Softmax(1.0), heads=Heads.given(scores=b, values=sign * b)))
            falling[sign] += float((gradient * engine.velocity(field, rows)).sum()) < -1e-12
    return Sides.of([0.0, 500.0], list(falling.values()))


@check("Moebius invariants", "uniform weights conserve cross-ratios of chords in any dimension", tolerance=1e-8)
def _moebius(engine: Engine) -> Sides:
    expected, got = [], []
    for dim in (2, 3, 10):
        start = engine.draw(6, dim, 5)
        expected.append(circle.cross_ratio(start.numpy()))
        got.append(circle.cross_ratio(engine.flow(attention(0), start, until=3.0, integrator=TIGHT).last.numpy()))
    return Sides.of(expected, got)


@check("Poisson kernel", "r(s)^2 = r0^2 e^s / (1 - r0^2 + r0^2 e^s) on the circle at uniform weights", tolerance=1e-8)
def _poisson(engine: Engine) -> Sides:
    tokens, r0 = 200, 0.2
    even = 2 * np.pi * np.arange(tokens) / tokens
    angles = 2 * np.arctan((1 - r0) / (1 + r0) * np.tan(even / 2))
    start = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    run = engine.flow(attention(0), start, until=4.0, integrator=TIGHT, keep=[0.0, 2.0, 4.0])
    got = [float(state.mean(0).norm()) for state in run.states]
    return Sides.of(circle.poisson_order(np.asarray([0.0, 2.0, 4.0]), order=r0), got)


@check(
    "Kuramoto with Lorentzian frequencies",
    "r = sqrt(1 - 2 gamma / K) above K = 2 gamma, below it by random phases alone, sqrt(pi / (4 T (1 - K / 2 gamma))): "
    "400 tokens at s = 60, K / 2 gamma = 2, 4, 1/2",
    tolerance=0.0,
    cost="all",
    status="exact as T grows",
    draws="12",
    seeds="0-11",
)
def _kuramoto(engine: Engine) -> Sides:
    tokens, width, draws = 400, 0.25, 12
    quantiles = (torch.arange(tokens, dtype=torch.float64) + 0.5) / tokens  # drawn ones would spread r ten times as far
    rates = (width * torch.tan(math.pi * (quantiles - 0.5))).clamp(-5, 5)  # far ones turn freely at any speed
    starts = torch.stack([engine.draw(tokens, 2, seed) for seed in range(draws)])
    expected, got, error = [], [], []
    for coupling in (1.0, 2.0, 0.25):
        drift = coupling * attention(0).drift + Frequencies.on_circle(rates)
        order = engine.flow(on_sphere(drift), starts, until=60.0, integrator=RK4(step=0.2)).last.mean(-2).norm(dim=-1)
        ordered = circle.lorentzian_order(coupling, width=width)
        expected.append(ordered or circle.lorentzian_disorder(coupling, width=width, tokens=tokens))
        got.append(float(order.mean()))
        error.append(float(order.std()) / math.sqrt(draws))
    return Sides.of(expected, got, error)


@check("hemisphere", "min_i w . x_i never decreases once it is positive, both masks", tolerance=1e-12)
def _hemisphere(engine: Engine) -> Sides:
    start = engine.draw(5, 6, 0)
    found = hemisphere(start)
    if found is None:
        raise NumericalError("Five tokens in six dimensions must lie within a hemisphere, but none was found.")
    worst = []
    for mask in (Full(), Causal()):
        run = engine.flow(attention(3.0, mask=mask), start, until=20.0, integrator=TIGHT, keep=101)
        least = (run.states @ found.direction).amin(-1)
        worst.append(float((least[:-1] - least[1:]).clamp_min(0).max()))
    return Sides.of([0.0, 0.0], worst)


@check(
    "chance of a hemisphere",
    "2^{1-n} sum_{k<d} C(n-1, k) for uniform tokens",
    tolerance=0.0,
    draws="400",
    seeds="0-399",
)
def _wendel(engine: Engine) -> Sides:
    expected, got, error, draws = [], [], [], 400
    for tokens, dim in ((8, 3), (6, 4), (12, 4)):
        p = sampling.hemisphere_probability(tokens=tokens, dim=dim)
        hits = sum(hemisphere(engine.draw(tokens, dim, seed)) is not None for seed in range(draws))
        expected.append(p)
        got.append(hits / draws)
        error.append(math.sqrt(p * (1 - p) / draws))
    return Sides.of(expected, got, error)


@check("first token leads under a causal mask", "x_1 stays, and every token ends at x_1(0)", tolerance=1e-8)
def _leader(engine: Engine) -> Sides:
    start = engine.draw(6, 4, 1)
    run = engine.flow(attention(1.0, mask=Causal()), start, until=60.0, integrator=TIGHT)
    return Sides.of(np.ones(6), (run.last @ start[0]).tolist())


@check("first token stays under a causal mask", "|x_1(s) - x_1(0)| = 0 at beta 0, 1, 9", tolerance=1e-15)
def _first(engine: Engine) -> Sides:
    start, moved = engine.draw(6, 4, 1), []
    for beta in (0.0, 1.0, 9.0):
        run = engine.flow(attention(beta, mask=Causal()), start, until=40.0, integrator=TIGHT)
        moved.append(float((run.last[0] - start[0]).norm()))
    return Sides.of([0.0] * 3, moved)


@check(
    "angular equation",
    "on the circle phi_i' = sum_j A_ij sin(phi_j - phi_i), A the softmax of beta cos(phi_j - phi_i)",
    tolerance=1e-12,
)
def _angular(engine: Engine) -> Sides:
    expected, got = [], []
    for beta in (0.0, 1.0, 9.0, -3.0):
        rows = engine.draw(12, 2, 4)
        turning = engine.velocity(attention(beta), rows) @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        expected += list(circle.angular_velocity(torch.atan2(rows[:, 1], rows[:, 0]).numpy(), beta=beta))
        got += (-(turning * rows).sum(-1)).tolist()
    return Sides.of(expected, got)


@check("repulsion ends at the simplex", "values -1, n <= d + 1: all overlaps -1/(n-1)", tolerance=1e-4)
def _repulsive(engine: Engine) -> Sides:
    expected, got = [], []
    for tokens, dim in ((4, 3), (3, 2), (6, 5)):
        field = on_sphere(-1.0 * AttentionDrift(Softmax(1.0)))
        run = engine.flow(field, engine.draw(tokens, dim, 2), until=80.0, integrator=TIGHT)
        expected += [-1 / (tokens - 1)] * 2
        got += [float(off_diagonal(run.last).min()), float(off_diagonal(run.last).max())]
    return Sides.of(expected, got)


@check(
    "rank is conserved by identity values and may rise by others",
    "values 1: algebraic rank and span of 4 tokens in d = 6 stay to s = 20; rows (v, v, -v) under random G: 1 -> 2",
    tolerance=1e-13,  # rounding of the 419 steps, each off by some 1e-16
)
def _span(engine: Engine) -> Sides:
    start = engine.draw(4, 6, 3)
    last = engine.flow(attention(2.0), start, until=20.0, integrator=TIGHT).last
    basis = torch.linalg.qr(start.mT).Q
    leaked = float((last - last @ basis @ basis.mT).norm())
    v = start[0]
    square = torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    heads = Heads.given(scores=torch.eye(6, dtype=torch.float64), values=square)
    rows = torch.stack([v, v, -v])
    field = on_sphere(AttentionDrift(Softmax(1.0), heads=heads))
    risen = engine.flow(field, rows, until=0.5, integrator=TIGHT).last
    ranks = [float(algebraic_rank.after("normalize")(one)) for one in (last, rows, risen)]
    return Sides.of([0.0, 4.0, 1.0, 2.0], [leaked, *ranks])
