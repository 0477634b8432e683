"""What observables must say of configurations whose numbers are known."""

from __future__ import annotations

import math

import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.dynamics.normalization import flat
from armillary.dynamics.pushes import MLPDrift
from armillary.observables.alignment import mean_overlap, squared_mean_direction
from armillary.observables.isotropy import uniformity
from armillary.observables.rank import algebraic_rank, participation_rank
from armillary.oracles import sampling
from armillary.sphere import opposed_pairs, orthogonal_groups

__all__: list[str] = []


@check("groups along orthogonal axes", "sizes s: R = n^2 / sum s^2, |mean|^2 = sum s^2 / n^2", tolerance=1e-12)
def _groups(engine: Engine) -> Sides:
    expected, got = [], []
    for sizes in ((2, 2), (3, 1), (10, 1, 1)):
        rows, n, squares = orthogonal_groups(*sizes), sum(sizes), sum(s * s for s in sizes)
        seen = engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), rows)
        expected += [n**2 / squares, squares / n**2]
        got += [float(one.after()(seen)) for one in (participation_rank, squared_mean_direction)]
    return Sides.of(expected, got)


@check(
    "a change of basis moves participation rank and not algebraic rank",
    "diag(2, 1) on I_2: 2 -> 25/17, 2 -> 2",
    tolerance=1e-12,
)
def _basis(engine: Engine) -> Sides:
    gain = torch.tensor([2.0, 1.0], dtype=torch.float64)
    rows = engine.velocity(flat(MLPDrift(lambda x: x * gain, "diag(2, 1)")), torch.eye(2, dtype=torch.float64))
    return Sides.of([25 / 17, 2.0], [float(participation_rank.after()(rows)), float(algebraic_rank.after()(rows))])


@check("rank one is not consensus", "(u, u, -u, -u): R = 1 and mean 0; (u, u, u, u): R = 1 and mean 1", tolerance=1e-12)
def _four(engine: Engine) -> Sides:
    pairs = engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), opposed_pairs())
    aligned = pairs.abs()
    got = [
        float(one.after()(rows)) for rows in (pairs, aligned) for one in (participation_rank, squared_mean_direction)
    ]
    return Sides.of([1.0, 0.0, 1.0, 1.0], got)


@check(
    "one rogue coordinate",
    "iid rows with a shared coordinate a: mean overlap about a^2 / (a^2 + d - 1)",
    tolerance=0.01,
    status="estimate",
    draws="1",
    seeds="0",
)
def _rogue(engine: Engine) -> Sides:
    expected, got = [], []
    for a in (10.0, 50.0, 300.0):
        rows = torch.randn(100, 768, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        rows[:, 0] = a
        rows = engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), rows)
        expected.append(a**2 / (a**2 + 767))
        got.append(float(mean_overlap.after("normalize")(rows)))
    return Sides.of(expected, got)


@check(
    "participation rank under one rogue coordinate",
    "the same rows: R = 41, 1.69, 1.02 at a = 10, 50, 300, and 88 at each once centered and normalized",
    tolerance=0.05,
    relative=True,
    status="estimate",
    draws="1",
    seeds="0",
)
def _outlier(engine: Engine) -> Sides:
    got, restored = [], []
    for a in (10.0, 50.0, 300.0):
        rows = torch.randn(100, 768, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        rows[:, 0] = a
        rows = engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), rows)
        got.append(float(participation_rank.after("normalize")(rows)))
        restored.append(float(participation_rank.after("center", "normalize")(rows)))
    return Sides.of([41.0, 1.69, 1.02, 88.0, 88.0, 88.0], [*got, *restored])


@check(
    "uniformity of the uniform law",
    "log E e^{-t |x-y|^2} = log 0F1(; d/2; t^2) - 2t: -2.07978 at d = 3, t = 2",
    tolerance=0.02,
    status="exact as T grows",
    draws="1",
    seeds="0",
)
def _uniformity(engine: Engine) -> Sides:
    expected, got = [], []
    for dim in (3, 128):
        expected.append(sampling.uniformity_of_uniform(dim=dim, t=2.0))
        got.append(float(uniformity(t=2.0).after("normalize")(engine.draw(1500, dim, 0))))
    return Sides.of([*expected, -2.07978, -4.0], [*got, sampling.uniformity_of_uniform(dim=3, t=2.0), _orthogonal()])


def _orthogonal() -> float:
    rows = torch.eye(2, dtype=torch.float64)
    return float(uniformity(t=2.0).after("normalize")(rows)) if math.isfinite(2.0) else math.nan
