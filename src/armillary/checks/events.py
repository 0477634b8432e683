"""How often something happens among many independent states: energies that fall, triangles that lock, pairs that met.

The frequencies are known from sampling, so both sides have standard errors: that of the known one comes from its number
of draws, or from the last digit that it is known to.
"""

from __future__ import annotations

import math

import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import attention, off_diagonal
from armillary.dynamics.attention import Causal, Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import on_sphere

__all__: list[str] = []

LOOSE = Tsit5(rtol=1e-6)
KNOWN_PHASE = {
    2: (1.0, 0.57, 0.42, 0.42, 0.39, 0.36, 0.35),
    8: (1.0, 1.0, 0.60, 0.42, 0.32, 0.24, 0.22),
    32: (1.0, 1.0, 1.0, 0.86, 0.47, 0.11, 0.03),
}
PHASE_BETAS = (1.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0)
"""Share of pairs above 0.999 at s = 30 for 32 tokens, from 8 to 24 starts, to two digits."""


def _binomial(p: float, draws: int, known_from: float = math.inf) -> float:
    """Standard error of a share seen among our draws less one that is known from so many; inf where it is exact."""
    return math.sqrt(max(p, 1 / draws) * (1 - p) * (1 / draws + 1 / known_from))


def _share_falling(engine: Engine, field: object, dim: int, draws: int) -> float:
    """Share of states of 8 tokens in which the energy at beta = 1 falls."""
    rows = torch.stack([engine.draw(8, dim, 10_000 + seed) for seed in range(draws)])
    velocity = engine.velocity(field, rows)  # type: ignore[arg-type]
    rate = (torch.exp(rows @ rows.mT) @ rows * velocity).sum((-1, -2))
    return float((rate < -1e-12).double().mean())


@check(
    "energy falls under a causal mask",
    "share of random states of 8 tokens at beta = 1 with dPhi/ds < 0: 5.5 % (d = 2), 2.2 % (d = 3), 0.05 % (d = 8)",
    tolerance=0.0,
    status="estimate",
    draws="4000",
    seeds="10000-13999",
)
def _causal(engine: Engine) -> Sides:
    field, draws = attention(1.0, mask=Causal()), 4000
    known = {2: 0.055, 3: 0.022, 8: 0.0005}
    got = [_share_falling(engine, field, dim, draws) for dim in known]
    return Sides.of(list(known.values()), got, [_binomial(p, draws, draws) for p in known.values()])


@check(
    "energy under values of their own",
    "identity scores, values G: dPhi/ds is linear in G, so that it falls for G or for -G, and for random G in half of "
    "all states: 46 % of 500 are known to",
    tolerance=0.0,
    draws="500",
    seeds="0-499",
)
def _values(engine: Engine) -> Sides:
    falling, draws = {1: 0, -1: 0}, 500
    eye = torch.eye(3, dtype=torch.float64)
    for seed in range(draws):
        square = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        rows = engine.draw(8, 3, seed)
        for sign in falling:
            field = on_sphere(AttentionDrift(Softmax(1.0), heads=Heads.given(scores=eye, values=sign * square)))
            falling[sign] += float((torch.exp(rows @ rows.mT) @ rows * engine.velocity(field, rows)).sum()) < 0
    both, alone = sum(falling.values()) / (2 * draws), falling[1] / draws
    return Sides.of([0.5, 0.5, 0.46], [both, alone, alone], [0, _binomial(0.5, draws), _binomial(0.46, draws, 500)])


@check(
    "triangles lock at negative beta",
    "three tokens on the circle, no row normalization: 7.8 % of starts end in the triangle at beta = -1, 2.8 % at "
    "-0.8 (of 400), none at -0.5, -0.16 and 1, where no triangle is stable",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="400",
    seeds="0-399",
)
def _locked(engine: Engine) -> Sides:
    known, draws, got = {-1.0: 0.078, -0.8: 0.028, -0.5: 0.0, -0.16: 0.0, 1.0: 0.0}, 400, []
    for beta in known:
        starts = torch.stack([engine.draw(3, 2, seed) for seed in range(draws)])
        run = engine.flow(on_sphere(AttentionDrift(Unnormalized(beta))), starts, until=200.0, integrator=LOOSE)
        got.append(float((off_diagonal(run.last).max(-1) < 0).mean()))
    return Sides.of(list(known.values()), got, [_binomial(p, draws, 400) if p else 0.0 for p in known.values()])


@check(
    "anisotropic values end bipolar",
    "n = 16, d = 4: 86 % of starts end in two opposed groups at beta = 3, mu = 1.5; 53 % at mu = 1.1; 0.5 % at beta = "
    "1, mu = 1.5",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="200",
    seeds="0-199",
)
def _bipolar(engine: Engine) -> Sides:
    known, draws, got = {(3.0, 1.5): 0.86, (3.0, 1.1): 0.53, (1.0, 1.5): 0.005}, 200, []
    for beta, top in known:
        values = torch.eye(4, dtype=torch.float64)
        values[0, 0] = top
        heads = Heads.given(scores=torch.eye(4, dtype=torch.float64), values=values)
        starts = torch.stack([engine.draw(16, 4, seed) for seed in range(draws)])
        field = on_sphere(AttentionDrift(Softmax(beta), heads=heads))
        run = engine.flow(field, starts, until=60.0, integrator=LOOSE)
        got.append(float((off_diagonal(run.last).min(-1) < -0.9).mean()))
    return Sides.of(list(known.values()), got, [_binomial(p, draws, 200.0) for p in known.values()])


@check(
    "pairs that have met in low dimension",
    "32 tokens at s = 30: share of pairs above 0.999 at beta 1, 3, 5 ... 9 in d = 2, 8, 32: no sharp edge for d = 2, 8",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="48",
    seeds="0-47",
)
def _met(engine: Engine) -> Sides:
    expected, got, error, draws = [], [], [], 48
    for dim, shares in KNOWN_PHASE.items():
        starts = torch.stack([engine.draw(32, dim, seed) for seed in range(draws)])
        for beta, share in zip(PHASE_BETAS, shares, strict=True):
            run = engine.flow(attention(beta), starts, until=30.0, integrator=LOOSE)
            each = (off_diagonal(run.last) > 0.999).mean(-1)
            expected.append(share)
            got.append(float(each.mean()))
            spread = float(each.std(ddof=1))
            error.append(math.hypot(spread / math.sqrt(draws), spread / math.sqrt(16), 0.01 / math.sqrt(12)))
    return Sides.of(expected, got, error)
