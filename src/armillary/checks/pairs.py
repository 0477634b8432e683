"""Laws of two tokens, and of two clusters."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from armillary.checks.declaration import Engine, Sides, check
from armillary.dynamics.attention import Causal, Softmax, Uniform
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import VelocityField, on_sphere
from armillary.observables.rank import participation_rank
from armillary.oracles import linear, overlap
from armillary.sphere import equiangular

__all__ = ["attention", "off_diagonal", "pair"]

TIGHT = Tsit5(rtol=1e-12)
ORTHOGONAL, HALF = 0.0, -0.5


def attention(beta: float, **options: object) -> VelocityField:
    """The idealized dynamics at an inverse temperature; uniform weights at 0."""
    rule = Uniform() if beta == 0 else Softmax(beta)
    return on_sphere(AttentionDrift(rule, **options))  # type: ignore[arg-type]


def pair(c: float) -> Tensor:
    """Two unit vectors with overlap c in three dimensions."""
    return equiangular(tokens=2, dim=3, overlap=c)


def off_diagonal(configuration: Tensor) -> np.ndarray:
    """Overlaps of the pairs i < j."""
    gram = configuration @ configuration.mT
    first, second = torch.triu_indices(gram.shape[-1], gram.shape[-1], 1)
    return np.asarray(gram[..., first, second].numpy())


@check("tanh law", "two tokens, uniform weights: c(s) = tanh(s + artanh c(0))", tolerance=1e-9)
def _tanh(engine: Engine) -> Sides:
    times = [0.5, 1.0, 0.5 * math.log(19)]
    run = engine.flow(attention(0), pair(ORTHOGONAL), until=2.0, integrator=TIGHT, keep=times)
    return Sides.of(overlap.two_tokens(times, overlap=ORTHOGONAL), off_diagonal(run.states)[:, 0])


@check(
    "merge clock",
    "time from c = 0 to 0.9: integral of (1 + e^{beta (1-c)}) / (2 (1 - c^2))",
    tolerance=1e-7,
    relative=True,
)
def _clock(engine: Engine) -> Sides:
    expected, got = [], []
    for beta in (0.0, 1.0, 4.0, 8.0):
        time = overlap.time_between(0.0, 0.9, lambda c, beta=beta: overlap.two_tokens_rate(c, beta=beta))  # type: ignore[misc]
        run = engine.flow(attention(beta), pair(0.0), until=time, integrator=TIGHT)
        late = (off_diagonal(run.last)[0] - 0.9) / overlap.two_tokens_rate(0.9, beta=beta)
        expected.append(time)
        got.append(time - late)
    return Sides.of(expected, got)


@check(
    "participation rank of a pair",
    "R = 2 / (1 + c^2): from c = -1/2 it rises from 1.6 to 2 at s = artanh(1/2), then falls",
    tolerance=1e-9,
)
def _rank(engine: Engine) -> Sides:
    times = [0.0, math.atanh(0.5), 2.0]
    run = engine.flow(attention(0), pair(HALF), until=2.0, integrator=TIGHT, keep=times)
    expected = [overlap.participation_rank_of_pair(c) for c in overlap.two_tokens(times, overlap=HALF)]
    return Sides.of(expected, run.measure(participation_rank.after("normalize")).tolist())


@check("opposed pair stays", "an exactly opposed pair has velocity 0", tolerance=0.0)
def _opposed(engine: Engine) -> Sides:
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    return Sides.of([0.0] * 3, [float(engine.velocity(attention(b), rows).abs().max()) for b in (0.0, 1.0, 9.0)])


@check(
    "antipodal escape",
    "the angle of a nearly opposed pair leaves pi at the rate 2 / (1 + e^{2 beta})",
    tolerance=1e-8,
)
def _escape(engine: Engine) -> Sides:
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    betas = (0.0, 1.0, 2.0)
    return Sides.of([linear.antipodal_escape(b) for b in betas], [engine.rates(attention(b), rows)[0] for b in betas])


@check("near-antipodal start", "c = -1 + 1e-12 reaches 0 at s = -artanh c = 14.162 at uniform weights", tolerance=1e-6)
def _near(engine: Engine) -> Sides:
    c = -1 + 1e-12
    rows = torch.tensor([[1.0, 0.0], [c, math.sqrt((1 - c) * (1 + c))]], dtype=torch.float64)
    run = engine.flow(attention(0), rows, until=-math.atanh(c), integrator=TIGHT)
    return Sides.of(0.0, off_diagonal(run.last)[0])


@check("causal pair", "first token sees only itself: c(s) = tanh(s/2 + artanh c(0))", tolerance=1e-9)
def _causal(engine: Engine) -> Sides:
    run = engine.flow(attention(0, mask=Causal()), pair(ORTHOGONAL), until=2.0, integrator=TIGHT, keep=[1.0, 2.0])
    return Sides.of(overlap.causal_pair([1.0, 2.0], overlap=ORTHOGONAL), off_diagonal(run.states)[:, 0])


@check("two weighted clusters", "c' = (1-c^2) [w2/(w1 e^{b(1-c)} + w2) + w1/(w2 e^{b(1-c)} + w1)]", tolerance=1e-8)
def _clusters(engine: Engine) -> Sides:
    expected, got = [], []
    for weights in ((1.0, 1.0), (3.0, 1.0), (1.0, 7.0)):
        run = engine.flow(attention(6.0), pair(0.2), until=8.0, integrator=TIGHT, weights=torch.tensor(weights))
        expected.append(overlap.two_clusters(8.0, overlap=0.2, beta=6.0, weights=weights))
        got.append(off_diagonal(run.last)[0])
    return Sides.of(expected, got)


@check(
    "plateau lifetime",
    "two clusters at large beta merge in about e^{beta (1-c)} / (2 beta (1-c^2)); from 0.2 to 0.9 it is 0.925, 0.973, "
    "0.988 of the time at beta 10, 20, 40",
    tolerance=5e-4,
    status="estimate",
)
def _lifetime(engine: Engine) -> Sides:
    from armillary.dynamics.outlook import plateau_lifetime

    nodes, weights = np.polynomial.legendre.leggauss(96)
    overlaps, expected, got = 0.2 + 0.35 * (1 + nodes), [], []
    for beta, share in ((10.0, 0.925), (20.0, 0.973), (40.0, 0.988)):
        rates = [_rate(engine, attention(beta), pair(float(c))) for c in overlaps]
        time = float(0.35 * (weights / np.asarray(rates)).sum())  # of the engine's own speeds, from 0.2 to 0.9
        exact = overlap.time_between(0.2, 0.9, lambda c, beta=beta: overlap.two_tokens_rate(c, beta=beta))  # type: ignore[misc]
        expected += [share, 1.0]
        got += [plateau_lifetime(beta, 0.2) / time, time / exact]
    return Sides.of(expected, got)


def _rate(engine: Engine, field: VelocityField, rows: Tensor) -> float:
    """dc/ds of a pair."""
    velocity = engine.velocity(field, rows)
    return float(velocity[0] @ rows[1] + velocity[1] @ rows[0])
