"""Layers one by one and one after the other: averaging, random values, random features, long contexts."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import off_diagonal
from armillary.dynamics.attention import Causal, Softmax, Uniform
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.normalization import flat
from armillary.dynamics.pushes import MLPDrift
from armillary.observables.alignment import squared_mean_direction
from armillary.observables.rank import participation_rank
from armillary.oracles import layers
from armillary.sphere import equiangular

__all__: list[str] = []


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)


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
    "random features raise overlaps",
    "wide random ReLU layer: [sqrt(1-c^2) + c (pi - arccos c)] / pi; width 20 000, whose own bias is below 2e-5",
    tolerance=0.0,
    status="exact as width grows",
    draws="200",
    seeds="0-199",
)
def _relu(engine: Engine) -> Sides:
    width, expected, got, error = 20_000, [], [], []
    field = flat(MLPDrift(torch.relu, "random features"))
    for c in (0.0, 0.5, -0.5):
        found = []
        for seed in range(200):
            draw = torch.Generator().manual_seed(seed)
            first, second = torch.randn(2, width, generator=draw, dtype=torch.float64)
            rows = torch.stack([first, c * first + math.sqrt(1 - c * c) * second])  # jointly Gaussian pre-activations
            found.append(off_diagonal(_unit(engine.velocity(field, rows)))[0])
        expected.append(layers.relu_kernel(c))
        got.append(float(np.mean(found)))
        error.append(float(np.std(found, ddof=1)) / math.sqrt(len(found)))
    return Sides.of(expected, got, error)


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


PULLED = {0.3: (0.89, 1.0, 1.0, 1.0), 3.0: (0.06, 0.19, 0.98, 1.0), 10.0: (0.03, 0.06, 0.22, 1.0)}
PULLED_AFTER = (1, 2, 5, 40)
"""Mean overlap by spread of the scores after so many layers, one draw each, rounded to two digits."""


@check(
    "random attention layers pull tokens together",
    "fresh random scores of spread s and values, rows normalized, 64 orthonormal tokens in d = 256, no residual: mean "
    "overlap after 1, 2, 5 and 40 layers is 0.89, 1.00, 1, 1 (s = 0.3), 0.06, 0.19, 0.98, 1 (s = 3) and 0.03, 0.06, "
    "0.22, 1 (s = 10), known from one draw to two digits: the spread of a draw and their rounding count",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="8",
    seeds="0-7",
)
def _pulled(engine: Engine) -> Sides:
    got, error = [], []
    for spread in PULLED:
        found = np.array([_overlaps(engine, spread, seed) for seed in range(8)])
        got += list(found.mean(0))
        error += list(np.hypot(found.std(0, ddof=1) * math.sqrt(1 + 1 / len(found)), 0.01 / math.sqrt(12)))
    return Sides.of([one for course in PULLED.values() for one in course], got, error)


def _overlaps(engine: Engine, spread: float, seed: int) -> list[float]:
    """Mean overlap after as many layers as are known."""
    draw, rows, course = torch.Generator().manual_seed(seed), torch.eye(64, 256, dtype=torch.float64), []
    for _ in range(PULLED_AFTER[-1]):
        scores = spread * torch.randn(256, 256, generator=draw, dtype=torch.float64)
        values = torch.randn(256, 256, generator=draw, dtype=torch.float64) / 16
        field = flat(AttentionDrift(Softmax(1.0), heads=Heads.given(scores=scores, values=values)))
        rows = _unit(engine.velocity(field, rows))
        course.append(float(off_diagonal(rows).mean()))
    return [course[layer - 1] for layer in PULLED_AFTER]
