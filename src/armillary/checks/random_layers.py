"""Layers of random weights: attention of random scores, averaging, random features, long contexts."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import off_diagonal
from armillary.dynamics.attention import Causal, Softmax, Uniform
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import flat, on_sphere
from armillary.dynamics.pushes import MLPDrift
from armillary.observables.alignment import squared_mean_direction
from armillary.observables.rank import participation_rank
from armillary.oracles import layers
from armillary.sphere import equiangular

__all__: list[str] = []


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)


def _random_scores(dim: int, spread: float, seed: int) -> Heads:
    """Scores x . B y of standard deviation `spread` for unit rows, values the tokens themselves."""
    draw = torch.Generator().manual_seed(seed)
    matrix = spread * torch.randn(dim, dim, generator=draw, dtype=torch.float64)
    return Heads.given(scores=matrix, values=torch.eye(dim, dtype=torch.float64))


@check(
    "random attention on correlated tokens",
    "cosine [rho + (1-rho) e^{s^2 rho(1-rho)}/n] / [rho + (1-rho) e^{s^2(1-rho)}/n]",
    tolerance=3e-3,
    status="estimate",
    draws="8",
    seeds="0-7",
)
def _cosine(engine: Engine) -> Sides:
    expected, got = [], []
    for rho, s in ((0.5, 1.0), (0.2, 1.0), (0.2, 0.5)):
        rows = equiangular(tokens=200, dim=200, overlap=rho)
        found = []
        for seed in range(8):
            field = flat(AttentionDrift(Softmax(1.0), heads=_random_scores(200, s, seed)))
            found.append(off_diagonal(_unit(engine.velocity(field, rows))).mean())
        expected.append(layers.random_attention_cosine(tokens=200, overlap=rho, spread=s))
        got.append(float(np.mean(found)))
    return Sides.of(expected, got)


@check(
    "bulk of random attention",
    "mean bulk singular value times sqrt T = 8 sigma / (3 pi), sigma^2 = e^{s^2} - 1; stable rank e^{s^2}",
    tolerance=0.03,
    relative=True,
    status="exact as T grows",
    draws="1",
    seeds="1",
)
def _bulk(engine: Engine) -> Sides:
    rows = torch.eye(700, dtype=torch.float64)
    expected, got = [], []
    for s in (0.5, 1.0):
        drift = engine.bend(flat(AttentionDrift(Softmax(1.0), heads=_random_scores(700, s, 1)))).drift
        weights = next(term for _, term in drift.terms if isinstance(term, AttentionDrift)).weights(rows)[0]
        values = np.linalg.svd(
            (sum(f for f, t in drift.terms if isinstance(t, AttentionDrift)) * weights).numpy(), compute_uv=False
        )
        expected += [layers.random_attention_bulk(s), layers.random_attention_stable_rank(s)]
        got += [float(values[1:].mean() * math.sqrt(700)), float((values**2).sum() / values[0] ** 2)]
    return Sides.of(expected, got)


@check(
    "uniform attention with random values",
    "Gram matrix: q and p gain ((1 + a^2)^L - 1) (q + (n-1) p) / n",
    tolerance=0.0,
    draws="24",
    seeds="0-23",
)
def _uniform(engine: Engine) -> Sides:
    tokens, dim, alpha, depth, diagonal, off = 16, 200, 0.5, 10, [], []
    for seed in range(24):
        rows = torch.eye(tokens, dim, dtype=torch.float64)
        draw = torch.Generator().manual_seed(seed)
        for _ in range(depth):
            values = torch.randn(dim, dim, generator=draw, dtype=torch.float64) / math.sqrt(dim)
            heads = Heads.given(scores=torch.eye(dim, dtype=torch.float64), values=values)
            rows = rows + alpha * engine.velocity(flat(AttentionDrift(Uniform(), heads=heads)), rows)
        diagonal.append(float(rows.square().sum(-1).mean()))
        off.append(off_diagonal(rows).mean())
    law = layers.uniform_attention_gram(tokens=tokens, layers=depth, residual=alpha)
    error = [float(np.std(one, ddof=1)) / math.sqrt(24) for one in (diagonal, off)]
    return Sides.of(law, [float(np.mean(diagonal)), float(np.mean(off))], error)


@check(
    "residual to consensus is cubed",
    "pure attention, no skip: slope of log residual per layer 3, rows normalized or not; with a skip 1",
    tolerance=1e-3,
    status="exact to leading order",
)
def _cubed(engine: Engine) -> Sides:
    dim, tokens = 24, 12
    draw = torch.Generator().manual_seed(3)
    mean = torch.randn(dim, generator=draw, dtype=torch.float64)
    noise = torch.randn(tokens, dim, generator=draw, dtype=torch.float64)
    noise = noise - noise.mean(0)
    square = torch.randn(dim, dim, generator=draw, dtype=torch.float64) / dim**0.5
    heads = Heads.given(scores=square, values=torch.eye(dim, dtype=torch.float64))
    plain, skip, normalized, sizes = [], [], [], (2e-3, 1e-3, 5e-4)
    field = flat(AttentionDrift(Softmax(1.0), heads=heads))
    for size in sizes:
        rows = mean + size * noise
        out = engine.velocity(field, rows)
        plain.append(_residual(out))
        skip.append(_residual(rows + out))
        normalized.append(_residual(_unit(engine.velocity(field, _unit(rows)))))
    logs = np.log(sizes)
    return Sides.of([3.0, 1.0, 3.0], [np.polyfit(logs, np.log(one), 1)[0] for one in (plain, skip, normalized)])


def _residual(rows: torch.Tensor) -> float:
    return float((rows - rows.mean(0)).norm())


@check(
    "causal averaging alone",
    "orthonormal tokens, one flat causal layer: cos = sqrt(i/j), R = 2n/(n+1)",
    tolerance=1e-9,
)
def _averaging(engine: Engine) -> Sides:
    rows = torch.eye(64, dtype=torch.float64)
    means = engine.velocity(flat(AttentionDrift(Uniform(), mask=Causal())), rows)
    unit = _unit(means)
    got = [float(participation_rank.after("normalize")(means)), float(unit[8] @ unit[35])]
    return Sides.of([layers.causal_average_rank(64), layers.causal_average_cosine(9, 36)], got)


@check(
    "mean direction of causal averaging",
    "|mean|^2 = mean over i, j of sqrt(min / max): 0.6690846568 at n = 256, which tends to 2/3",
    tolerance=1e-9,
)
def _two_thirds(engine: Engine) -> Sides:
    means = engine.velocity(flat(AttentionDrift(Uniform(), mask=Causal())), torch.eye(256, dtype=torch.float64))
    law = np.mean([layers.causal_average_cosine(i, j) for i in range(1, 257) for j in range(1, 257)])
    return Sides.of(float(law), float(squared_mean_direction.after("normalize")(means)))


@check(
    "random attention on orthogonal tokens",
    "one layer of random scores of spread s, n = 64, d = 256: mean cosine e^{-s^2}",
    tolerance=3e-3,
    status="exact as T grows",
    draws="8",
    seeds="0-7",
)
def _orthogonal(engine: Engine) -> Sides:
    rows, found = torch.eye(64, 256, dtype=torch.float64), []
    for seed in range(8):
        field = flat(AttentionDrift(Softmax(1.0), heads=_random_scores(256, 0.3, seed)))
        found.append(off_diagonal(_unit(engine.velocity(field, rows))).mean())
    return Sides.of(layers.orthogonal_after_attention(0.3), float(np.mean(found)))


@check(
    "random features raise overlaps",
    "wide random ReLU layer: [sqrt(1-c^2) + c (pi - arccos c)] / pi",
    tolerance=0.01,
    status="exact as width grows",
    draws="1",
    seeds="1",
)
def _relu(engine: Engine) -> Sides:
    expected, got = [], []
    for c in (0.0, 0.5, -0.5):
        rows = torch.zeros(2, 20_000, dtype=torch.float64)
        draw = torch.Generator().manual_seed(1)
        first, second = torch.randn(2, 20_000, generator=draw, dtype=torch.float64)
        rows[0], rows[1] = first, c * first + math.sqrt(1 - c * c) * second  # two jointly Gaussian pre-activations
        expected.append(layers.relu_kernel(c))
        hidden = engine.velocity(flat(MLPDrift(torch.relu, "random features")), rows)
        got.append(off_diagonal(_unit(hidden))[0])
    return Sides.of(expected, got)


@check(
    "long context",
    "one softmax layer at beta = gamma ln n on equiangular tokens: 4 rho / (1 + 3 rho) at gamma = 1/(1-rho)",
    tolerance=1e-9,
)
def _context(engine: Engine) -> Sides:
    expected, got = [], []
    for tokens, rho, gamma in ((100, 0.2, 1.25), (400, 0.5, 2.0), (100, 0.2, 0.7)):
        rows = equiangular(tokens=tokens, dim=tokens, overlap=rho)
        out = engine.velocity(flat(AttentionDrift(Softmax(gamma * math.log(tokens)))), rows)
        expected.append(layers.long_context_overlap(tokens=tokens, overlap=rho, gamma=gamma))
        got.append(off_diagonal(_unit(out)).mean())
    return Sides.of(expected, got)


@check(
    "random attention layers pull tokens together",
    "fresh random scores of spread s and values, rows normalized, 64 orthonormal tokens in d = 256, no residual: mean "
    "overlap after 1, 2 and 5 layers is 0.89, 1.00, 1 (s = 0.3) and 0.06, 0.19, 0.98 (s = 3)",
    tolerance=0.05,
    status="estimate",
    draws="6",
    seeds="0-5",
)
def _pulled(engine: Engine) -> Sides:
    known, got = {0.3: (0.89, 1.0, 1.0), 3.0: (0.06, 0.19, 0.98)}, []
    for spread in known:
        found = []
        for seed in range(6):
            draw, rows, course = torch.Generator().manual_seed(seed), torch.eye(64, 256, dtype=torch.float64), []
            for _ in range(5):
                scores = spread * torch.randn(256, 256, generator=draw, dtype=torch.float64)
                values = torch.randn(256, 256, generator=draw, dtype=torch.float64) / 16
                field = flat(AttentionDrift(Softmax(1.0), heads=Heads.given(scores=scores, values=values)))
                rows = _unit(engine.velocity(field, rows))
                course.append(off_diagonal(rows).mean())
            found.append(course)
        mean = np.mean(found, axis=0)
        got += [mean[0], mean[1], mean[4]]
    return Sides.of([one for course in known.values() for one in course], got)


@check(
    "random energy picture",
    "row entropy over ln T = 1 - f^2 at scores of spread f sqrt(2 ln T): 0.91 at f = 0.3, 0.75 at 0.5",
    tolerance=0.005,
    status="exact as T grows",
    draws="1",
    seeds="0",
)
def _entropy(engine: Engine) -> Sides:
    tokens, expected, got = 50_000, [], []
    bent = engine.bend(on_sphere(AttentionDrift(Softmax(1.0)))).drift
    factor, term = next((f, t) for f, t in bent.terms if isinstance(t, AttentionDrift))
    for f in (0.3, 0.5):
        draw = torch.Generator().manual_seed(0)
        scores = f * math.sqrt(2 * math.log(tokens)) * torch.randn(16, tokens, generator=draw, dtype=torch.float64)
        weights = factor * term.rule.weights(scores, None, None)
        entropy = -(weights * weights.log()).sum(-1).mean()
        expected.append(layers.random_energy_entropy(f))
        got.append(float(entropy) / math.log(tokens))
    return Sides.of(expected, got)


@check(
    "Gaussian clouds without a norm",
    "values +-1, no norm: variance s0 / (1 -+ 2 s0 s) in each direction",
    tolerance=0.0,
    cost="all",
    status="exact as T grows",
    draws="6",
    seeds="0-5",
)
def _gaussian(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for sign, variance, time in ((1, 0.05, 2.0), (-1, 0.5, 2.0)):
        found = []
        for seed in range(6):
            draw = torch.Generator().manual_seed(seed)
            rows = math.sqrt(variance) * torch.randn(1500, 2, generator=draw, dtype=torch.float64)
            field = flat(float(sign) * AttentionDrift(Softmax(1.0)))
            run = engine.flow(field, rows, until=time, integrator=Tsit5(rtol=1e-6))
            found.append(float(run.last.var(0).mean()))
        expected.append(float(layers.gaussian_variance(time, variance=variance, sign=sign)))
        got.append(float(np.mean(found)))
        error.append(float(np.std(found, ddof=1)) / math.sqrt(6) + 2e-3 * expected[-1])
    return Sides.of(expected, got, error)
