"""The diagram of the perspective paper: which share of pairs has met by a fixed time, over beta and dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import estimate
from armillary.oracles.overlap import merge_time
from armillary.studies.diagram.declaration import SEED, Axis, Cell, Finding, Grid, Preset, Result

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "measure"]

HALF = 0.5
WITHIN = 0.1  # radians: groups are counted and not kept here
CROSSED = 0.95  # of the systems must fall through one half before their mean edge is given


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Shares of pairs above the threshold of many systems, at every time and at the last one.

    Args:
        cell: beta, dim; tokens, above, rtol, time.
        seeds: of the starts.
    """
    from armillary.dynamics.pairs import SOFTMAX, Law
    from armillary.dynamics.sweep import sweep, uniform_starts

    tokens, dim, rtol = int(cell["tokens"]), int(cell["dim"]), float(cell["rtol"])
    share = sweep(
        uniform_starts(tokens=tokens, dim=dim, seeds=list(seeds)), law=Law(SOFTMAX, float(cell["beta"]), 1.0, True),
        times=np.asarray(cell["time"]), rtol=rtol, atol=rtol / 10, above=float(cell["above"]), within=WITHIN,
    ).share_above  # fmt: skip
    return {
        "share_above": share[:, -1],
        "together": (share[:, -1] == 1.0).astype(float),
        "share_above_in_time": share.mean(axis=0),
        "together_in_time": (share == 1.0).mean(axis=0),
    }


def cost(cell: Cell) -> float:
    """Seconds of one core that one system takes."""
    return 1e-3 * (1.0 + 0.05 * min(int(cell["dim"]), int(cell["tokens"])))


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The mean beta at which systems of each dimension fall through one half, beside the law of orthonormal tokens."""
    found = []
    betas = dataset["beta"].values
    for dim in dataset["dim"].values.tolist():
        shares = dataset["share_above"].sel(dim=dim).transpose(SEED, "beta").values
        edges = np.array([edge(betas, share) for share in shares])
        if len(edges) > 1 and np.isfinite(edges).mean() >= CROSSED:
            law = float(boundary(30.0)) if dim >= 128 else math.nan
            found.append(
                Finding.of(
                    estimate(edges, **choices),
                    f"beta at which the share falls through 1/2, dim = {dim}",
                    expected=law,
                    source="quadrature of orthonormal tokens" if dim >= 128 else "",
                )
            )
    return found


def edge(betas: np.ndarray, share: np.ndarray) -> float:
    """The beta at which a system's share falls through one half for good, between two values of the grid.

    Args:
        betas: ascending.
        share: at each of them.

    Returns:
        NaN where it ends above one half, or begins below.
    """
    above = np.flatnonzero(share >= HALF)
    if len(above) == 0 or above[-1] == len(share) - 1:
        return math.nan
    k = int(above[-1])
    return float(betas[k] + (betas[k + 1] - betas[k]) * (share[k] - HALF) / (share[k] - share[k + 1]))


def boundary(time: float, *, tokens: int = 32, above: float = 0.999) -> float:
    """The beta at which orthonormal tokens reach an overlap at a time, by quadrature and bisection.

    Args:
        time: s.
        tokens: n.
        above: the overlap.

    Returns:
        NaN where even uniform weights take longer.
    """
    from scipy.optimize import brentq

    def late(beta: float) -> float:
        return merge_time(tokens=tokens, beta=beta, stop=above) - time

    return math.nan if late(0.0) > 0 else float(brentq(late, 0.0, 60.0))


TIMES = Axis("time", tuple(np.linspace(0.15, 30.0, 200).tolist()), "time s")
BETA = "inverse temperature beta"
FIXED: Mapping[str, Any] = {"tokens": 32, "above": 0.999, "rtol": 1e-6}

PRESET = Preset(
    name="perspective",
    title="Which pairs of tokens have met by a fixed time",
    question="Up to which beta do random tokens on the sphere meet by s = 30, and how does that depend on dimension?",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, A mathematical perspective on transformers",
    differs=("Time is stepped adaptively.",),
    method="Independent uniform starts follow the flow of softmax attention with identity matrices on the sphere.",
    limits=("A finite number of tokens and a finite time: the edge moves with both.",),
    full=Grid(
        axes=(
            Axis("beta", tuple(np.linspace(0.1, 9.0, 90).tolist()), BETA),
            Axis("dim", (2, 8, 32, 128, 512, 1024), "dimension d", "log"),
        ),
        seeds=2048,
        along=(TIMES,),
        fixed=FIXED,
    ),
    quick=Grid(
        axes=(
            Axis("beta", tuple(np.linspace(0.1, 9.0, 30).tolist()), BETA),
            Axis("dim", (2, 8, 32, 128), "dimension d", "log"),
        ),
        seeds=32,
        along=(TIMES,),
        fixed=FIXED,
    ),
    results=(
        Result(
            name="share_above", dims=(SEED,), symbol="share of c > 0.999",
            definition="share of the pairs of a system whose overlap is above the threshold at the last time",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="together", dims=(SEED,), symbol="all together",
            definition="1 where every pair of a system is above the threshold at the last time, else 0",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="share_above_in_time", dims=("time",), symbol="share of c > 0.999",
            definition="share of pairs above the threshold at each time, mean over systems",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="together_in_time", dims=("time",), symbol="all together",
            definition="share of systems all of whose pairs are above the threshold at each time",
            lowest=0.0, highest=1.0,
        ),
    ),
    measure=measure,
    cost=cost,
    findings=findings,
)  # fmt: skip
"""The published diagram."""
