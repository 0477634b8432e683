"""How many groups tokens on the circle gather into, against beta, from a random start and from a ring with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.oracles import linear, sampling
from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.starts import attended, groups_on_circle, jittered_ring, uniform_starts

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "measure"]

RANDOM, RING = "random", "ring"
READ_AT = 20.0
"""The time at which the count is compared with its laws: clusters have formed and hardly any have met."""


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Groups at every time.

    Args:
        cell: beta, start, tokens, time, noise (of the ring, radians), within and finer (radians), rtol, merging
            (radians).
        seeds: One system each.
    """
    tokens = int(cell["tokens"])
    if cell["start"] == RING:
        starts = jittered_ring(seeds, tokens=tokens, noise=cell["noise"])
    else:
        starts = uniform_starts(seeds, tokens=tokens, dim=2)
    run = attended(starts, rule=cell["beta"], times=cell["time"], rtol=cell["rtol"], angle=cell["merging"])
    states = run.states.numpy()
    return {
        "groups": groups_on_circle(states, within=cell["within"]),
        "groups_finer": groups_on_circle(states, within=cell["finer"]),
    }


def expected(beta: float, start: str) -> float:
    """The law beside a count: maxima of the kernel density of a random start, the fastest mode of a ring."""
    return sampling.kernel_density_modes(beta) if start == RANDOM else float(linear.fastest_harmonic(dim=2, beta=beta))


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Counts at `READ_AT` beside their laws, and the power with which they grow."""
    found: list[Finding] = []
    tokens = int(dataset["tokens"].values[-1])
    at = dataset["groups"].sel(time=READ_AT, tokens=tokens)
    betas = dataset["beta"].values
    for start in dataset["start"].values.tolist():
        counts = at.sel(start=start).transpose("seed", "beta").values
        for k in (0, len(betas) // 2, len(betas) - 1):
            law = expected(float(betas[k]), start)
            source = "maxima of the kernel density (Kac and Rice)" if start == RANDOM else "fastest growing mode"
            words = f"groups at s = {READ_AT:g}, {start} start of {tokens}, beta {betas[k]:.3g}"
            found += averaged(counts[:, k], words, choices, expected=law, source=source, within=(1.0, math.inf))
        high = betas >= 9
        if high.sum() > 2:
            slopes = np.polyfit(np.log(betas[high]), np.log(counts[:, high]).T, 1)[0]
            words = f"power of beta with which the count grows from beta 9 on, {start} start"
            found += averaged(slopes, words, choices, expected=0.5, source="both laws grow as the square root of beta")
    return found


def _grid(*, betas: int, tokens: tuple[int, ...], seeds: int) -> Grid:
    return Grid(
        axes=(
            Axis("beta", tuple(float(f"{b:.4g}") for b in np.geomspace(1, 200, betas)), "β", "log"),
            Axis("start", (RANDOM, RING), "start", "names"),
            Axis("tokens", tokens, "tokens", "log"),
        ),
        along=(Axis("time", (5.0, 10.0, 20.0, 50.0, 200.0, 1000.0), "time s", "log"),),
        seeds=seeds,
        fixed={"noise": 0.01, "within": 0.1, "finer": 0.03, "rtol": 1e-6, "merging": 1e-4},
    )


PRESET = Preset(
    name="group-count",
    title="Groups on the circle against beta",
    question="Into how many groups do tokens on the circle gather before they slowly meet, and what decides the "
    "number?",
    source="Geshkovski, Letrouit, Polyanskiy and Rigollet 2025; Bruno, Pasqualotto and Agazzi 2025",
    differs=(
        "Published pictures show one run from a perturbed ring; here are both starts with intervals over seeds, and "
        "two laws beside them: the number of maxima of the kernel density of a random start, and the fastest mode of a "
        "ring.",
        "Groups are counted at stated times by a stated rule, since the number keeps falling as groups meet.",
    ),
    method="Adaptive steps with merging of tokens closer than 1e-4 radians; a group is a chain of neighbors within 0.1 "
    "radians (and, to see what the rule does, 0.03).",
    limits=(
        "There is no time at which the count is the number of clusters: slow mergers go on, and the time of reading is "
        "a choice.",
        "Below beta of about 3 few clusters form before all tokens meet, and neither law speaks.",
        "The circle only; in higher dimension neither number is known to hold.",
    ),
    full=_grid(betas=16, tokens=(100, 300, 1000), seeds=128),
    quick=_grid(betas=8, tokens=(200,), seeds=24),
    results=(
        Result(
            name="groups", dims=("seed", "time"), symbol="groups",
            definition="number of groups, chains of neighbors within 0.1 radians", lowest=1.0,
        ),
        Result(
            name="groups_finer", dims=("seed", "time"), symbol="groups, finer",
            definition="number of groups, chains of neighbors within 0.03 radians", lowest=1.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 1e-2 + 7e-7 * cell["tokens"] ** 2,
    findings=findings,
)  # fmt: skip
