"""Softmax of Gaussian scores, of random matrices and of Gaussian keys: averages known at any number of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import off_diagonal
from armillary.dynamics.attention import Allowed, Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import VelocityField, flat
from armillary.oracles import gaussian_scores, layers
from armillary.sphere import equiangular

__all__: list[str] = []

ROUNDING = 1 / math.sqrt(12)
"""Standard deviation of what rounding takes away, in units of the last digit."""


def _random_scores(dim: int, spread: float, seed: int) -> Heads:
    """Scores x . B y of standard deviation `spread` for unit rows, values the tokens themselves."""
    draw = torch.Generator().manual_seed(seed)
    matrix = spread * torch.randn(dim, dim, generator=draw, dtype=torch.float64)
    return Heads.given(scores=matrix, values=torch.eye(dim, dtype=torch.float64))


def _mean(found: np.ndarray | Sequence[float]) -> tuple[float, float]:
    """Mean over draws and its standard error."""
    return float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(len(found))


def _cosine(engine: Engine, rows: torch.Tensor, spread: float, draws: int) -> tuple[float, float]:
    """Mean inner product of two outputs over their mean squared length, and its standard error over draws."""
    above, below = [], []
    for seed in range(draws):
        field = flat(AttentionDrift(Softmax(1.0), heads=_random_scores(rows.shape[1], spread, seed)))
        out = engine.velocity(field, rows)
        above.append(off_diagonal(out).mean())
        below.append(float(out.square().sum(-1).mean()))
    ratio, length = float(np.mean(above) / np.mean(below)), float(np.mean(below))
    return ratio, _mean(np.asarray(above) - ratio * np.asarray(below))[1] / length


def _cosines(engine: Engine, cases: Sequence[tuple[torch.Tensor, float, float]], draws: int) -> Sides:
    """Both sides for cases of equiangular rows, their overlap and the spread of the scores."""
    expected, got, error = [], [], []
    for rows, overlap, spread in cases:
        square, product = gaussian_scores.attention_gram(tokens=len(rows), overlap=overlap, spread=spread)
        found, spread_of_it = _cosine(engine, rows, spread, draws)
        expected.append(product / square)
        got.append(found)
        error.append(spread_of_it)
    return Sides.of(expected, got, error)


@check(
    "random attention on correlated tokens",
    "mean inner product over mean squared length of outputs, n tokens of overlap rho, scores of spread s: exact at any "
    "n, tends to [rho + (1-rho) e^{s^2 rho(1-rho)}/n] / [rho + (1-rho) e^{s^2(1-rho)}/n] for s^2 << (ln n)/2; "
    "(n, rho, s^2) = (200, .5, 1), (200, .2, 1), (200, .2, .25), (400, .2, 3)",
    tolerance=0.0,
    draws="16",
    seeds="0-15",
)
def _correlated(engine: Engine) -> Sides:
    cases = ((200, 0.5, 1.0), (200, 0.2, 1.0), (200, 0.2, 0.5), (400, 0.2, math.sqrt(3)))
    made = [(equiangular(tokens=n, dim=n, overlap=rho), rho, spread) for n, rho, spread in cases]
    return _cosines(engine, made, 16)


@check(
    "random attention on orthogonal tokens",
    "one layer of random scores of spread s = 0.3 and 1, n = 64, d = 256: mean inner product over mean squared length "
    "of outputs is 1 / (n E sum_j A_ij^2), 0.916 and 0.403, which tends to e^{-s^2}",
    tolerance=0.0,
    draws="24",
    seeds="0-23",
)
def _orthogonal(engine: Engine) -> Sides:
    rows = torch.eye(64, 256, dtype=torch.float64)
    return _cosines(engine, [(rows, 0.0, 0.3), (rows, 0.0, 1.0)], 24)


def _softmax(engine: Engine, scores: torch.Tensor) -> torch.Tensor:
    """Attention weights of given scores, every rule of the engine's field with its factor."""
    terms = engine.bend(flat(AttentionDrift(Softmax(1.0)))).drift.terms
    return torch.stack(
        [factor * one.rule.weights(scores, None, None) for factor, one in terms if isinstance(one, AttentionDrift)]
    ).sum(0)


@check(
    "bulk of random attention",
    "softmax of T x T scores N(0, s^2), s = 0.5 and 1: s_1 = 1 / sqrt(1-v), v = E sum A^2 - 1/T, and stable rank "
    "(1-v) T E sum A^2 at T = 1500, which tend to 1 and e^{s^2}; mean bulk singular value times sqrt T tends to "
    "8 sigma / (3 pi), sigma^2 = e^{s^2} - 1, from T = 500 and 1500 without its 1/T; s_2 sqrt T = 1.064 at s = 0.5 and "
    "that mean 1.106 at s = 1, both known at T = 1500 from one draw, to the last digit",
    tolerance=0.0,
    cost="all",
    draws="6",
    seeds="0-5",
)
def _bulk(engine: Engine) -> Sides:
    size, spreads = 1500, (0.5, 1.0)
    expected, got, error = [], [], []
    found = {spread: [_spectrum(engine, spread, size, seed) for seed in range(6)] for spread in spreads}
    for spread in spreads:
        top, _, bulk, rank = np.transpose(found[spread])
        small = [_spectrum(engine, spread, size // 3, seed)[2] for seed in range(6)]
        first = gaussian_scores.top_singular_value(tokens=size, spread=spread)
        shared = gaussian_scores.shared_weight(tokens=size, spread=spread)
        expected += [first, size * shared / first**2, layers.random_attention_bulk(spread)]
        for mean, its_error in map(_mean, (top, rank, 1.5 * bulk - 0.5 * np.asarray(small))):
            got.append(mean)
            error.append(its_error)
    for known, one in ((1.064, np.transpose(found[0.5])[1]), (1.106, np.transpose(found[1.0])[2])):
        expected.append(known)
        got.append(float(one.mean()))
        error.append(math.hypot(float(one.std(ddof=1)) * math.sqrt(1 + 1 / len(one)), 1e-3 * ROUNDING))
    return Sides.of(expected, got, error)


def _spectrum(engine: Engine, spread: float, size: int, seed: int) -> tuple[float, float, float, float]:
    """Largest singular value, second times sqrt T, mean of all but the first times sqrt T, stable rank."""
    draw = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(size, size, generator=draw, dtype=torch.float64)
    values = torch.linalg.svdvals(_softmax(engine, scores)).numpy()
    root, square = math.sqrt(size), float((values**2).sum())
    return float(values[0]), float(values[1]) * root, float(values[1:].mean()) * root, square / float(values[0]) ** 2


@check(
    "random energy picture",
    "scores of spread s = f sqrt(2 ln T), T = 1e5, f = 0.3, 0.5, 0.7: row entropy over ln T is 0.910, 0.751, 0.541, "
    "exact at this T, and tends to 1 - f^2; sum A^2 over e^{s^2}/T is 0.999, 0.755, 0.044: that law is one of f < 1/2",
    tolerance=0.0,
    draws="64",
    seeds="0-63",
)
def _entropy(engine: Engine) -> Sides:
    tokens, expected, got, error = 100_000, [], [], []
    for share in (0.3, 0.5, 0.7):
        spread = share * math.sqrt(2 * math.log(tokens))
        entropies, shared = [], []
        for seed in range(64):
            draw = torch.Generator().manual_seed(seed)
            weights = _softmax(engine, spread * torch.randn(1, tokens, generator=draw, dtype=torch.float64))
            entropies.append(-float(torch.special.xlogy(weights, weights).sum()) / math.log(tokens))
            shared.append(float(weights.square().sum()) * tokens / math.exp(spread**2))
        expected.append(gaussian_scores.entropy(tokens=tokens, spread=spread) / math.log(tokens))
        expected.append(gaussian_scores.shared_weight(tokens=tokens, spread=spread) * tokens / math.exp(spread**2))
        for mean, its_error in map(_mean, (entropies, shared)):
            got.append(mean)
            error.append(its_error)
    return Sides.of(expected, got, error)


@check(
    "attention on Gaussian keys",
    "a query x takes of n keys N(m, Sigma), scores x . B y: m + (1 - E sum A^2) Sigma B^T x, exact at any n, which "
    "tends to m + Sigma B^T x; n = 1000, B not symmetric, m not zero",
    tolerance=0.0,
    draws="60",
    seeds="0-59",
)
def _gaussian_keys(engine: Engine) -> Sides:
    keys = 1000
    mean = torch.tensor([0.4, -0.3], dtype=torch.float64)
    root = torch.tensor([[0.8, 0.0], [0.3, 0.5]], dtype=torch.float64)
    scores = torch.tensor([[0.5, 0.9], [-0.4, 0.7]], dtype=torch.float64)
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]], dtype=torch.float64)
    # nobody looks at the queries, so that every query's keys are independent of it
    pairs = (torch.arange(len(queries) + keys) >= len(queries)).expand(len(queries) + keys, -1)
    heads = Heads.given(scores=scores, values=torch.eye(2, dtype=torch.float64))
    field = flat(AttentionDrift(Softmax(1.0), mask=Allowed(pairs), heads=heads))
    found = []
    for seed in range(60):
        draw = torch.Generator().manual_seed(seed)
        cloud = mean + torch.randn(keys, 2, generator=draw, dtype=torch.float64) @ root.mT
        found.append(engine.velocity(field, torch.cat([queries, cloud]))[: len(queries)].flatten().numpy())
    expected = [
        gaussian_scores.attention_on_gaussian_keys(
            query.numpy(), mean=mean.numpy(), covariance=(root @ root.mT).numpy(), scores=scores.numpy(), keys=keys
        )
        for query in queries
    ]
    error = np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
    return Sides.of(np.concatenate(expected), np.mean(found, axis=0), error)


@check(
    "Gaussian clouds without a norm",
    "values +-1, no norm: variance s0 / (1 -+ 2 s0 t) in each direction, at t = 1, 2, 3 (+1, s0 = 0.05) and 2 (-1, "
    "s0 = 0.5); clouds of mean 0 and covariance s0 at the start, extrapolated from 200 and 400 tokens to none of 1/n",
    tolerance=0.0,
    cost="all",
    status="exact as T grows",
    draws="24",
    seeds="0-23",
)
def _gaussian(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for sign, variance, times in ((1, 0.05, [1.0, 2.0, 3.0]), (-1, 0.5, [2.0])):
        field = flat(float(sign) * AttentionDrift(Softmax(1.0)))
        few, many = (
            np.array([_variances(engine, field, _cloud(tokens, variance, seed), times) for seed in range(24)])
            for tokens in (200, 400)
        )
        expected += list(layers.gaussian_variance(np.array(times), variance=variance, sign=sign))
        for mean, its_error in map(_mean, (2 * many - few).T):
            got.append(mean)
            error.append(its_error)
    return Sides.of(expected, got, error)


def _cloud(tokens: int, variance: float, seed: int) -> torch.Tensor:
    """Gaussian rows `tokens 2`, shifted and mapped so that their own mean is 0 and their own covariance s0 exactly."""
    rows = torch.randn(tokens, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = rows - rows.mean(0)
    root = torch.linalg.cholesky(rows.mT @ rows / tokens)
    return math.sqrt(variance) * torch.linalg.solve_triangular(root, rows.mT, upper=False).mT


def _variances(engine: Engine, field: VelocityField, rows: torch.Tensor, times: list[float]) -> np.ndarray:
    """Mean variance of a coordinate at the times."""
    states = engine.flow(field, rows, until=times[-1], integrator=Tsit5(rtol=1e-6), keep=times).states
    return states.var(-2, correction=0).mean(-1).numpy()
