"""The staircase of the energy: plateaus at the sum of squared cluster weights, and a step at every merger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.starts import attended, from_angles, uniform_starts

if TYPE_CHECKING:
    import xarray

__all__ = ["FIVE", "PRESET", "measure", "squared_weights"]

FIVE = (0.0622, 0.2143, 1.8191, 2.9111, 3.1879)
"""Angles of the published example of five tokens on the circle, in radians."""

EXAMPLE = "five tokens"
SYSTEMS = {"uniform, d = 2": 2, "uniform, d = 3": 3}

NEAR = 0.01  # of the largest energy: a plateau is where energy and squared weights differ by less


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Energy and squared cluster weights at every time, and when the last two clusters met.

    Args:
        cell: system, beta, tokens (of uniform starts), time, within (radians), rtol, merging (radians).
        seeds: One start each; the published example is the same for all.
    """
    if cell["system"] == EXAMPLE:
        starts = from_angles(np.asarray(FIVE))[None]
    else:
        starts = uniform_starts(seeds, tokens=cell["tokens"], dim=SYSTEMS[str(cell["system"])])
    run = attended(starts, rule=cell["beta"], times=cell["time"], rtol=cell["rtol"], angle=cell["merging"])
    energy = torch.exp(cell["beta"] * (run.states @ run.states.mT - 1)).mean((-2, -1))
    shares, groups = squared_weights(run.states, within=cell["within"])
    last = {one.system: one.time for one in run.mergers if len(one.tokens) == starts.shape[1]}
    met = np.asarray([last.get(row, math.nan) for row in range(len(starts))])
    found = {"energy": energy.numpy(), "squared_weights": shares, "groups": groups, "last_merger": met}
    return {name: np.repeat(row, len(seeds), axis=0) if len(row) < len(seeds) else row for name, row in found.items()}


def squared_weights(
    states: Float[Tensor, "systems times tokens dim"], *, within: float
) -> tuple[Float[np.ndarray, "systems times"], Float[np.ndarray, "systems times"]]:
    """The sum of squared shares of all groups, and how many groups there are.

    Args:
        states: Unit rows.
        within: Angle in radians; groups are chains of tokens closer than this.
    """
    near = ((states @ states.mT) > math.cos(within)).numpy()
    shares, groups = np.zeros((2, *states.shape[:2]))
    for place in np.ndindex(*states.shape[:2]):
        count, labels = connected_components(csr_matrix(near[place]), directed=False)
        shares[place] = (np.bincount(labels) ** 2).sum() / states.shape[2] ** 2
        groups[place] = count
    return shares, groups


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The published example, and how much of the logarithm of time random systems spend on plateaus."""
    found: list[Finding] = []
    times = dataset["time"].values
    if EXAMPLE in dataset["system"].values:
        here = dataset.sel(system=EXAMPLE, beta=4.0).isel(seed=0)
        plateau = float(here["energy"].sel(time=20.0, method="nearest"))
        source = "clusters of two and three tokens far apart: (4 + 9) / 25"
        words = "share of the largest energy at s = 20, published example"
        found += [
            Finding(words=words, value=plateau, expected=13 / 25, source=source),
            Finding(words="time of the last merger, published example", value=float(here["last_merger"])),
        ]
    late = dataset.isel(time=times >= 10.0)
    off = abs(late["energy"] - late["squared_weights"])
    for system in (one for one in dataset["system"].values.tolist() if one != EXAMPLE):
        for beta in (one for one in dataset["beta"].values.tolist() if one != 4.0):
            near = off.sel(system=system, beta=beta).transpose("seed", "time").values < NEAR
            words = f"share of ln s from 10 on within {NEAR} of the law, {system}, beta {beta:g}"
            found += averaged(near.mean(1), words, choices, within=(0.0, 1.0))
    return found


def _known(cell: Cell) -> bool:
    """The published example has its own beta."""
    return (cell["system"] == EXAMPLE) == (float(cell["beta"]) == 4.0)


def _grid(*, betas: tuple[float, ...], seeds: int, times: int) -> Grid:
    kept = sorted({float(f"{s:.5g}") for s in (*np.geomspace(0.1, 1e12, times), 20.0)})
    return Grid(
        axes=(Axis("system", (EXAMPLE, *SYSTEMS), "system", "names"), Axis("beta", (4.0, *betas), "β")),
        along=(Axis("time", tuple(kept), "time s", "log"),),
        seeds=seeds,
        fixed={"tokens": 32, "within": 0.1, "rtol": 1e-7, "merging": 1e-5},
        belongs=_known,
    )


PRESET = Preset(
    name="staircase",
    title="The staircase of the energy",
    question="Does the energy wait on plateaus, and are they where the cluster weights say?",
    source="Geshkovski, Koubbi, Polyanskiy and Rigollet 2024",
    differs=(
        "The paper rescales time by the norm of the gradient; here it is the logarithm of time itself, over twelve "
        "decades, so that the lengths of the plateaus can be read.",
        "Beside the published five tokens there are random starts, and the law of the plateaus is drawn with them.",
    ),
    method="Adaptive steps with merging at 1e-5 radians. The energy is the mean of e^{β(c - 1)} over all pairs, self "
    "included, which is its share of the largest. Groups are chains of tokens within 0.1 radians.",
    limits=(
        "The law of the plateaus leaves out what far clusters add to each other, e^{β(c - 1)}: at small β it is not "
        "small.",
        "A plateau is no end. By 1e12 units some systems still stand on one.",
    ),
    full=_grid(betas=(9.0, 16.0, 25.0, 49.0, 81.0), seeds=64, times=241),
    quick=_grid(betas=(9.0, 25.0, 81.0), seeds=8, times=241),
    results=(
        Result(
            name="energy", dims=("seed", "time"), symbol="Φ / Φ max",
            definition="mean of e^{beta (c - 1)} over all pairs of tokens, self included", lowest=0.0, highest=1.0,
        ),
        Result(
            name="squared_weights", dims=("seed", "time"), symbol="Σ w²",
            definition="sum over groups of the squared share of tokens", lowest=0.0, highest=1.0,
        ),
        Result(name="groups", dims=("seed", "time"), symbol="groups", definition="number of groups", lowest=1.0),
        Result(
            name="last_merger", dims=("seed",), symbol="s", definition="time at which the last two clusters merged",
            undefined="not by the last time", lowest=0.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 0.25,
    findings=findings,
)  # fmt: skip
