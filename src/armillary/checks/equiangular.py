"""Laws of equiangular tokens: one overlap, one equation, and the exact residual layer."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from scipy.optimize import brentq

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, attention, off_diagonal
from armillary.dynamics.attention import Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Euler, ResidualLayer, Tsit5
from armillary.dynamics.normalization import on_sphere
from armillary.observables.alignment import squared_mean_direction
from armillary.observables.rank import participation_rank
from armillary.oracles import linear, overlap
from armillary.sphere import equiangular

__all__: list[str] = []

EXACT = Tsit5(rtol=1e-10)


def _eye(tokens: int) -> torch.Tensor:
    return torch.eye(tokens, dtype=torch.float64)


@check("equiangular law", "softmax: g' = 2 (1-g)((n-1)g+1) / (e^{beta(1-g)} + n-1)", tolerance=1e-8)
def _softmax(engine: Engine) -> Sides:
    cases = [(8, 1.0, 1.0), (32, 1.0, 2.0), (32, 4.0, 5.0), (16, 9.0, 200.0)]
    expected = [overlap.equiangular([time], tokens=n, overlap=0.0, beta=beta)[0] for n, beta, time in cases]
    runs = [engine.flow(attention(beta), _eye(n), until=time, integrator=TIGHT) for n, beta, time in cases]
    return Sides.of(expected, [off_diagonal(run.last).mean() for run in runs])


@check("equiangular tokens stay so", "all overlaps of an orthonormal start remain equal", tolerance=1e-13)
def _equal(engine: Engine) -> Sides:
    run = engine.flow(attention(4.0), _eye(12), until=5.0, integrator=TIGHT)
    found = off_diagonal(run.last)
    return Sides.of(0.0, float(found.max() - found.min()))


@check("equiangular law, unnormalized", "g' = (2/n) e^{beta g} (1-g)((n-1)g+1)", tolerance=1e-8)
def _unnormalized(engine: Engine) -> Sides:
    field = on_sphere(AttentionDrift(Unnormalized(3.0)))
    run = engine.flow(field, _eye(8), until=0.5, integrator=TIGHT)
    expected = overlap.equiangular([0.5], tokens=8, overlap=0.0, beta=3.0, rule="unnormalized")
    return Sides.of(expected, off_diagonal(run.last).mean())


@check(
    "equiangular closed form",
    "uniform weights: g = (1 - e^{-2s}) / (1 + (n-1) e^{-2s}); R = n/(1+(n-1)g^2); |mean|^2 = (1+(n-1)g)/n",
    tolerance=1e-9,
)
def _closed(engine: Engine) -> Sides:
    run = engine.flow(attention(0), _eye(8), until=1.0, integrator=TIGHT)
    g = float(overlap.equiangular_uniform([1.0], tokens=8)[0])
    rank = overlap.participation_rank_of_equiangular(g, tokens=8)
    got = [
        off_diagonal(run.last).mean(),
        float(participation_rank.after("normalize")(run.last)),
        float(squared_mean_direction.after("normalize")(run.last)),
    ]
    return Sides.of([g, rank, (1 + 7 * g) / 8], got)


@check("consensus boundary", "time of orthonormal tokens to overlap 0.999 by quadrature", tolerance=1e-6, relative=True)
def _boundary(engine: Engine) -> Sides:
    expected, got = [], []
    for beta in (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 9.0):
        time = overlap.merge_time(tokens=32, beta=beta, stop=0.999)
        run = engine.flow(attention(beta), _eye(32), until=time, integrator=TIGHT)
        rate = overlap.equiangular_rate(0.999, tokens=32, beta=beta)
        expected.append(time)
        got.append(time - (off_diagonal(run.last).mean() - 0.999) / rate)
    return Sides.of(expected, got)


@check(
    "consensus boundary in beta",
    "largest beta at which orthonormal tokens reach 0.999 by s = 6, 10, 20, 30: where the quadrature gives that time",
    tolerance=1e-6,
)
def _beta(engine: Engine) -> Sides:
    expected, got, step = [], [], 1e-4
    for tokens, time in ((n, s) for n in (32, 128) for s in (6.0, 10.0, 20.0, 30.0)):
        law = partial(_time_to_consensus, tokens)
        beta = float(brentq(lambda b, law=law, time=time: law(b) - time, 0.1, 9.0, xtol=1e-10))
        run = engine.flow(attention(beta), _eye(tokens), until=time, integrator=EXACT)
        early = (off_diagonal(run.last).mean() - 0.999) / overlap.equiangular_rate(0.999, tokens=tokens, beta=beta)
        expected.append(beta)
        got.append(beta + early * 2 * step / (law(beta + step) - law(beta - step)))
    return Sides.of(expected, got)


def _time_to_consensus(tokens: int, beta: float) -> float:
    return overlap.merge_time(tokens=tokens, beta=beta, stop=0.999)


@check("simplex stays", "overlaps -1/(n-1): velocity 0 at every beta", tolerance=1e-14)
def _simplex(engine: Engine) -> Sides:
    rows = equiangular(tokens=4, dim=3, overlap=-1 / 3)
    return Sides.of([0.0] * 3, [float(engine.velocity(attention(b), rows).abs().max()) for b in (0.0, 2.0, 20.0)])


@check(
    "simplex is unstable",
    "it opens into a new dimension; its overlap, a square, grows at 2 n / (e^{beta n/(n-1)} + n - 1)",
    tolerance=1e-8,
)
def _instability(engine: Engine) -> Sides:
    rates = engine.rates(attention(2.0), equiangular(tokens=4, dim=4, overlap=-1 / 3))
    expected = linear.simplex_rate(tokens=4, beta=2.0)
    return Sides.of(expected, 2 * rates[np.argmin(np.abs(rates - expected / 2))])


@check(
    "residual layers",
    "post-norm layer: 1-g' = u^2 (1-g) / (u^2 + 2uv sigma + v^2 n sigma), layer by layer",
    tolerance=1e-13,
)
def _layers(engine: Engine) -> Sides:
    run = engine.flow(
        on_sphere(AttentionDrift(Softmax(4.0))), _eye(12), until=12, integrator=ResidualLayer(1.0), keep=13
    )
    return Sides.of(overlap.residual_layers(tokens=12, beta=4.0, step=1.0, layers=12), off_diagonal(run.states)[:, 0])


@check(
    "the papers' Euler scheme",
    "normalize(x + 0.1 A x) twenty times is a layer map of its own (0.5408), not the flow (0.5898)",
    tolerance=1e-12,
)
def _euler(engine: Engine) -> Sides:
    run = engine.flow(attention(1.0), _eye(32), until=2.0, integrator=Euler(step=0.1))
    return Sides.of(overlap.residual_layers(tokens=32, beta=1.0, step=0.1, layers=20)[-1], off_diagonal(run.last)[0])
