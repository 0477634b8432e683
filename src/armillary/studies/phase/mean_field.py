"""Particles against their density: the distance over tokens and time, in both orders, and when clouds leave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary.dynamics.engines import LARGEST_PAIR_SYSTEM
from armillary.oracles import linear
from armillary.studies.averaged import averaged
from armillary.studies.densities import Density, carried, distance, draws, gathered
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.starts import attended, from_angles

if TYPE_CHECKING:
    import xarray

__all__ = ["DENSITIES", "LEFT", "PRESET", "expected_growth", "measure"]

UNIFORM, OPPOSED, UNEVEN = "uniform", "two opposed waves", "uneven"
DENSITIES = {
    UNIFORM: Density(),
    OPPOSED: Density(cosines=(0.0, 0.5)),
    UNEVEN: Density(cosines=(0.3,), sines=(0.0, 0.2)),
}
LEFT = {UNIFORM: 0.4, OPPOSED: 1.0, UNEVEN: 1.0}
"""Distance in radians beyond which a cloud has left its density: half of what it comes to, and more than unequal masses
of two opposed clusters make."""

FIXED_AT = 1.0
MANY = 1000  # tokens from which on distances are far from their largest at all times
"""The time at which the power of the number of tokens is read."""

PAUSES = (12.0, 24.0, 48.0, 96.0, 192.0)  # times at which coalesced tokens are put together
TOGETHER = 1e-6  # radians within which they are


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Distance of independent tokens from the density they were drawn from, at every time, and when they left it.

    Args:
        cell: density, tokens, beta, time, nodes (characteristics), rtol.
        seeds: One cloud each.
    """
    density, times = DENSITIES[str(cell["density"])], tuple(float(one) for one in cell["time"])
    beta, tokens = float(cell["beta"]), int(cell["tokens"])
    places, below = carried(density, beta=beta, times=times, nodes=cell["nodes"], rtol=cell["rtol"])
    found = np.zeros((len(seeds), len(times)))
    for row, seed in enumerate(seeds):
        cloud = draws(density, [29, seed, tokens], tokens=tokens)
        for k, (angles, masses) in enumerate(_course(cloud, beta, times, cell["rtol"])):
            found[row, k] = distance(angles, masses, places=places[k], below=below)
    return {
        "distance": found,
        "leaves_at": np.asarray([_leaves(times, one, LEFT[str(cell["density"])]) for one in found]),
    }


def _course(cloud: np.ndarray, beta: float, times: Sequence[float], rtol: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Angles and masses at every time, coalesced tokens put together on the way."""
    masses = np.full(len(cloud), 1 / len(cloud))
    found: list[tuple[np.ndarray, np.ndarray]] = []
    begin, angles = 0.0, cloud
    for end in (*(one for one in PAUSES if one < times[-1]), times[-1]):
        kept = [one for one in times if begin < one <= end or (one == 0.0 == begin)]
        asked = sorted({*(one - begin for one in kept), end - begin})
        if len(angles) == 1:
            states = np.repeat(from_angles(angles).numpy()[None], len(asked), axis=0)
        else:
            run = attended(
                from_angles(angles)[None], rule=beta, times=asked, rtol=rtol, weights=torch.from_numpy(masses)
            )
            states = run.states[0].numpy()
        turned = np.arctan2(states[..., 1], states[..., 0])
        found += [(turned[asked.index(one - begin)], masses) for one in kept]
        begin = end
        angles, masses = gathered(turned[-1], masses, within=TOGETHER)
    return found


def _leaves(times: Sequence[float], apart: np.ndarray, left: float) -> float:
    """When the distance passes a level, ln of it linear between kept times; NaN if it never does, or begins there."""
    over = np.flatnonzero(apart > left)
    if not len(over) or over[0] == 0:
        return math.nan
    k = int(over[0])
    share = math.log(left / apart[k - 1]) / math.log(apart[k] / apart[k - 1])
    return float(times[k - 1] + share * (times[k] - times[k - 1]))


def expected_growth(density: str, *, beta: float) -> float:
    """By how much later a cloud leaves for every factor e in the number of tokens: 1 / (2 rate) of the fastest escape.

    From the uniform density along its fastest mode; from two opposed clusters at the rate at which their angle leaves
    pi. NaN for an uneven density, which is not expected to be left.

    Args:
        density: Its name.
        beta: Of the softmax.
    """
    if density == UNIFORM:
        return 1 / (2 * linear.harmonic_rate(linear.fastest_harmonic(dim=2, beta=beta), dim=2, beta=beta))
    return 1 / (2 * linear.antipodal_escape(beta)) if density == OPPOSED else math.nan


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The power of T at a fixed time, how leaving moves with ln T, and what an uneven cloud does at late times."""
    found: list[Finding] = []
    tokens = dataset["tokens"].values.astype(float)
    for name in dataset["density"].values.tolist():
        apart = dataset["distance"].sel(density=name).transpose("seed", "tokens", "time")
        early = apart.sel(time=FIXED_AT, method="nearest").values
        if len(tokens) > 1:
            slopes = np.polyfit(np.log(tokens), np.log(early).T, 1)[0]
            words = f"power of T in the distance at s = {FIXED_AT:g}, {name}"
            found += averaged(slopes, words, choices, expected=-0.5, source="independent draws")
        leaves = dataset["leaves_at"].sel(density=name).transpose("seed", "tokens").values
        law = expected_growth(name, beta=BETA)
        whole = np.isfinite(leaves).all(0)
        if math.isfinite(law) and whole.sum() > 1:
            growth = np.polyfit(np.log(tokens[whole]), leaves[:, whole].T, 1)[0]
            words = f"time of leaving gained for each factor e in T, {name}"
            found += averaged(growth, words, choices, expected=law, source="1 / (2 rate) of the escape from it")
        many = tokens >= MANY
        if name == UNEVEN and many.sum() > 1:
            most = np.polyfit(np.log(tokens[many]), np.log(apart.max("time").values[:, many]).T, 1)[0]
            words = f"power of T in the largest distance at any time, uneven, from {MANY} tokens on"
            source = "no escape: what is drawn is carried along"
            found += averaged(most, words, choices, expected=-0.5, source=source)
    return found


BETA = 2.0
TIMES = (
    *(0.5 * k for k in range(25)), *(float(k) for k in range(13, 25)), *(float(k) for k in range(26, 48, 3)),
    *(float(k) for k in range(50, 200, 10)), 220.0, 240.0, 260.0, 280.0, 300.0, 350.0, 400.0,
)  # fmt: skip


def _cost(cell: Cell) -> float:
    """Measured: pairs up to where the series of the circle take over, whose cost is linear."""
    tokens = int(cell["tokens"])
    return 0.01 + (3e-7 * tokens**2 if tokens <= LARGEST_PAIR_SYSTEM else 0.3 + 4.5e-5 * tokens)


def _grid(*, tokens: tuple[int, ...], seeds: int, nodes: int) -> Grid:
    return Grid(
        axes=(Axis("density", tuple(DENSITIES), "density", "names"), Axis("tokens", tokens, "tokens T", "log")),
        along=(Axis("time", TIMES, "time s"),),
        seeds=seeds,
        fixed={"beta": BETA, "nodes": nodes, "rtol": 1e-8},
    )


PRESET = Preset(
    name="mean-field",
    title="Particles and their density",
    question="How far are T tokens from the density of infinitely many, and does that distance last?",
    source="the limits of many tokens and of great depth, whose order a course note calls open; Chen, Lin, "
    "Polyanskiy and Rigollet 2025",
    differs=(
        "Published estimates bound the distance by a constant that grows exponentially with time. Here the distance "
        "itself is measured, over tokens and time at once, from three densities.",
        "The distance is Wasserstein's of order 1 on the circle.",
    ),
    method="Independent tokens are drawn from a density and moved; the density is carried by characteristics, "
    "between which its mass is known exactly. Once tokens have coalesced within 1e-6 radians they are moved as one. "
    "A cloud has left when it is 0.4 radians away from the uniform density, or 1 radian from the others.",
    limits=(
        "One beta, and the circle. That limits do not commute is seen from densities that stand still for infinitely "
        "many tokens and not for finitely many; that they do commute from others is measured for one and not proved.",
        "Particles are drawn independently: evenly placed ones are nearer.",
    ),
    full=_grid(tokens=(100, 1000, 10_000, 100_000, 1_000_000), seeds=12, nodes=4096),
    quick=_grid(tokens=(100, 1000, 10_000), seeds=12, nodes=1024),
    results=(
        Result(
            name="distance", dims=("seed", "time"), symbol="W1", units="radians",
            definition="Wasserstein distance of order 1 on the circle between the cloud and the density", lowest=0.0,
            highest=math.pi / 2,
        ),
        Result(
            name="leaves_at", dims=("seed",), symbol="s",
            definition="time at which the distance passes 0.4 radians (uniform) or 1 radian",
            undefined="it does not by the last time, or begins above it", lowest=0.0,
        ),
    ),
    measure=measure,
    cost=_cost,
    findings=findings,
)  # fmt: skip
