"""How long two clusters stay apart: simulated lifetimes beside the quadrature of their law."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary import sphere
from armillary.oracles import overlap as laws
from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.starts import attended

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "lifetime_by_law", "measure", "time_to_meet"]

SETTLED = 4.0
"""When tokens of a cluster have gathered, e^-4 of their first distance apart, and the clock of the lifetime starts."""

LONGEST, SHORTEST = 1e11, 20.0
NEAR = 1e-6  # of 1 - c, from which on two clusters approach each other at the rate 2 whatever beta is
FIXED = {"tokens": 16, "dim": 3, "spread": 0.02, "rtol": 1e-7, "merging": 1e-5, "until": 1e12}


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """From the settled clusters to their meeting: the time it took, and what the law makes of the overlap they had.

    Args:
        cell: beta, angle (degrees), tokens, first (tokens of the first cluster), dim, spread (radians), rtol, merging
            (radians), until.
        seeds: One system each.
    """
    first, tokens, beta = int(cell["first"]), int(cell["tokens"]), float(cell["beta"])
    starts = torch.stack([_clusters(cell, seed) for seed in seeds])
    times = [0.0, SETTLED, float(cell["until"])]
    run = attended(starts, rule=beta, times=times, rtol=cell["rtol"], angle=cell["merging"])
    weights = (first / tokens, 1 - first / tokens)
    lifetime, law = np.full((2, len(seeds)), math.nan)
    for row, state in enumerate(run.states[:, 1]):
        last = next((one for one in run.mergers if one.system == row and len(one.tokens) == tokens), None)
        if last is None:
            continue
        one, two = state[:first].mean(0), state[first:].mean(0)
        apart = float((one @ two) / (one.norm() * two.norm()))
        lifetime[row] = last.time - SETTLED
        law[row] = time_to_meet(apart, last.overlap, beta=beta, weights=weights)
    return {"lifetime": lifetime, "ratio": lifetime / law}


def _clusters(cell: Cell, seed: int) -> torch.Tensor:
    """Two clusters at the angle, tokens scattered about their centers, as the seed draws them."""
    draw = torch.Generator().manual_seed(seed)
    tokens, dim, angle = int(cell["tokens"]), int(cell["dim"]), math.radians(float(cell["angle"]))
    centers = torch.zeros(2, dim, dtype=torch.float64)
    centers[:, 0], centers[:, 1] = torch.tensor([1.0, math.cos(angle)]), torch.tensor([0.0, math.sin(angle)])
    sizes = torch.tensor([int(cell["first"]), tokens - int(cell["first"])])
    scatter = float(cell["spread"]) * torch.randn(tokens, dim, generator=draw, dtype=torch.float64)
    return sphere.normalize(centers.repeat_interleave(sizes, dim=0) + scatter)


def time_to_meet(start: float, stop: float, *, beta: float, weights: tuple[float, float]) -> float:
    """The time that two tight clusters take from one overlap to another close to 1, to about 1e-6 of a unit.

    By quadrature to where 1 - c is 1e-6, and from there on by the rate 2 (1 - c), which all clusters have in the end.

    Args:
        start: Overlap at the beginning.
        stop: At the end, above 1 - 1e-6.
        beta: Inverse temperature.
        weights: Shares of the two clusters.
    """
    near = 1 - NEAR
    return laws.two_clusters_time(start, near, beta=beta, weights=weights) + 0.5 * math.log(NEAR / (1 - stop))


def lifetime_by_law(beta: float, degrees: float, *, share: float, merging: float) -> float:
    """The law beside the lifetimes: from the angle between two tight clusters to that of their merger.

    Args:
        beta: Inverse temperature.
        degrees: Angle between them.
        share: Of the first cluster among all tokens.
        merging: Angle in radians at which they are merged.
    """
    apart, met = math.cos(math.radians(degrees)), 1 - merging**2 / 2
    return time_to_meet(apart, met, beta=beta, weights=(share, 1 - share))


def _lasts(cell: Cell) -> bool:
    """Clusters that outlive their own gathering, and that the run can see meet."""
    return SHORTEST < _law(cell, float(cell["beta"]), float(cell["angle"])) < LONGEST


def _law(cell: Cell, beta: float, degrees: float) -> float:
    share = cell["first"] / cell["tokens"]
    return lifetime_by_law(beta, degrees, share=share, merging=cell["merging"])


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Simulated over law, all cells together and at the largest beta; growth of the logarithm with beta."""
    ratio = dataset["ratio"]
    others = [dim for dim in ratio.dims if dim != "seed"]
    found = averaged(
        ratio.mean(others).values, "simulated lifetime over that of the law, all cells", choices,
        expected=1.0, source="quadrature of the equation of two weighted clusters",
    )  # fmt: skip
    first = dataset["first"].values[0]
    for angle in dataset["angle"].values.tolist():
        times = dataset["lifetime"].sel(angle=angle, first=first).transpose("seed", "beta").values
        known = np.isfinite(times).all(0)
        if known.sum() < 2:
            continue
        betas, logs = dataset["beta"].values[known][-2:], np.log(times[:, known][:, -2:])
        slope = (logs[:, 1] - logs[:, 0]) / (betas[1] - betas[0])
        late, early = (_law({**FIXED, "first": first}, float(beta), angle) for beta in betas[::-1])
        law = math.log(late / early) / (betas[1] - betas[0])
        words = f"growth of ln lifetime with beta between {betas[0]:g} and {betas[1]:g}, {angle:g} degrees"
        source = f"the law between the same two; 1 - c = {1 - math.cos(math.radians(angle)):.4g} as beta grows"
        found += averaged(slope, words, choices, expected=law, source=source)
    return found


def _grid(*, betas: tuple[float, ...], angles: tuple[float, ...], first: tuple[int, ...], seeds: int) -> Grid:
    return Grid(
        axes=(
            Axis("beta", betas, "β"),
            Axis("angle", angles, "angle between the clusters (degrees)"),
            Axis("first", first, "tokens of the first cluster, of 16"),
        ),
        seeds=seeds,
        fixed=FIXED,
        belongs=_lasts,
    )


PRESET = Preset(
    name="lifetimes",
    title="Lifetimes of two clusters",
    question="How long do two clusters stay apart at a given beta and angle?",
    source="Geshkovski, Koubbi, Polyanskiy and Rigollet 2024; the equation of two clusters",
    differs=(
        "The paper bounds the time from below; here it is the equation of two weighted clusters, solved by quadrature, "
        "beside simulated clusters of many tokens.",
    ),
    method="Two clusters of scattered tokens at a stated angle; the clock starts when each has gathered, at s = 4, "
    "with the overlap that is measured then, since the time depends on it exponentially. It ends at the merger of the "
    "two, at 1e-5 radians.",
    limits=(
        "Two clusters alone: with others around, the nearest pair meets first and is drawn by the rest.",
        "Cells whose clusters would meet before they gather, or beyond s = 1e11, are left out.",
    ),
    full=_grid(betas=tuple(float(b) for b in range(4, 85, 4)), angles=(30.0, 45.0, 60.0, 90.0, 120.0), first=(8, 4, 1),
               seeds=32),
    quick=_grid(betas=(4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0, 81.0), angles=(45.0, 60.0, 90.0), first=(8, 4), seeds=8),
    results=(
        Result(
            name="lifetime", dims=("seed",), symbol="s", definition="time from settled clusters to their merger",
            undefined="not met by the last time", lowest=0.0,
        ),
        Result(
            name="ratio", dims=("seed",), symbol="simulated / law",
            definition="that time over the quadrature from the overlap of the settled clusters to that of the merger",
            undefined="not met by the last time", lowest=0.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 5e-3,
    findings=findings,
)  # fmt: skip
