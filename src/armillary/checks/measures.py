"""What observables must say of configurations whose numbers are known."""

from __future__ import annotations

import math

import numpy as np
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

SIZES = (10.0, 50.0, 300.0)
"""Of a shared coordinate, in standard deviations of the others."""


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
    "iid rows with a shared coordinate a: mean overlap a^2 (E 1/|x|)^2, about a^2 / (a^2 + d - 1): .115, .765, .992 at "
    "a = 10, 50, 300, d = 768",
    tolerance=0.0,
    draws="20",
    seeds="0-19",
)
def _rogue(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for size in SIZES:
        mean, spread = _sampled([float(mean_overlap.after("normalize")(rows)) for rows in _shared(engine, size)])
        expected.append(sampling.rogue_coordinate(size, dim=768)[0])
        got.append(mean)
        error.append(spread)
    return Sides.of(expected, got, error)


@check(
    "participation rank under one rogue coordinate",
    "the same 100 rows: 1/R = (1 + 99 E c^2) / 100, R = 41, 1.69, 1.02 at a = 10, 50, 300; centered and normalized 88, "
    "with E c^2 about 1/(d-1) + 1/99^2",
    tolerance=0.0,
    status="estimate",
    draws="20",
    seeds="0-19",
)
def _outlier(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for size in SIZES:
        squares = {(): sampling.rogue_coordinate(size, dim=768)[1], ("center",): 1 / 767 + 1 / 99**2}
        for before, square in squares.items():
            measured = participation_rank.after(*before, "normalize")
            mean, spread = _sampled([float(measured(rows)) for rows in _shared(engine, size)])
            expected.append(100 / (1 + 99 * square))
            got.append(mean)
            error.append(spread)
    return Sides.of(expected, got, error)


def _shared(engine: Engine, size: float) -> list[torch.Tensor]:
    """Twenty draws of 100 Gaussian rows with one coordinate in common."""
    drawn = []
    for seed in range(20):
        rows = torch.randn(100, 768, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        rows[:, 0] = size
        drawn.append(engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), rows))
    return drawn


def _sampled(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))


@check(
    "uniformity of the uniform law",
    "log E e^{-t |x-y|^2} = log 0F1(; d/2; t^2) - 2t: -2.07978 at d = 3, -3.93753 at d = 128, t = 2; two orthogonal "
    "tokens: -4",
    tolerance=0.0,
    status="exact as T grows",
    draws="20",
    seeds="0-19",
)
def _uniformity(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for dim in (3, 128):
        measured = uniformity(t=2.0).after("normalize")
        mean, spread = _sampled([float(measured(engine.draw(1000, dim, seed))) for seed in range(20)])
        expected.append(sampling.uniformity_of_uniform(dim=dim, t=2.0))
        got.append(mean)
        error.append(spread)
    return Sides.of([*expected, -4.0], [*got, _orthogonal()], [*error, 1e-12])


def _orthogonal() -> float:
    rows = torch.eye(2, dtype=torch.float64)
    return float(uniformity(t=2.0).after("normalize")(rows))
