"""The diagram of the perspective paper: which share of pairs has met by a fixed time, over beta and dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import estimate, intervals
from armillary.oracles.overlap import merge_time
from armillary.studies.diagram.declaration import SEED, Axis, Cell, Finding, Grid, Preset, Result

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "measure"]

HALF = 0.5
CROSSED = 0.95  # of the systems must fall through one half before their mean edge is given
HIGH = 128  # from this dimension on the law of orthonormal tokens is set beside the edge
NAMED = 3.2  # a beta at which the two statistics differ most on the circle
RANDOM = (
    "Random tokens are not orthonormal: their overlaps begin with a spread of {spread:.2g}, and they meet a little "
    "sooner."
)


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
        times=np.asarray(cell["time"]), rtol=rtol, atol=rtol / 10, above=float(cell["above"]), within=None,
    ).share_above  # fmt: skip
    together = np.where(np.isnan(share), np.nan, share == 1.0)
    return {
        "share_above": share[:, -1],
        "together": together[:, -1],
        "share_above_in_time": share.mean(axis=0),
        "together_in_time": together.mean(axis=0),
    }


def cost(cell: Cell) -> float:
    """Seconds of one core that one system takes, as measured on a core of a server."""
    tokens, dim = int(cell["tokens"]), int(cell["dim"])
    return 1e-3 * (0.8 if dim >= tokens else 0.45 + 0.04 * dim) + 1e-6 * dim


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Where the share falls through one half in each dimension, beside the law; both statistics where they differ."""
    found = _both_statistics(dataset, choices)
    betas, last = dataset["beta"].values, float(dataset["time"].values[-1])
    for dim in dataset["dim"].values.tolist():
        shares = dataset["share_above"].sel(dim=dim).transpose(SEED, "beta").values
        edges = np.array([edge(betas, share) for share in shares])
        if len(edges) > 1 and np.isfinite(edges).mean() >= CROSSED:
            high = dim >= HIGH
            found.append(
                Finding.of(
                    estimate(edges, **choices), f"beta at which the share of a system falls through 1/2, d = {dim}",
                    expected=boundary(last) if high else math.nan,
                    source="quadrature of orthonormal tokens" if high else "",
                    note=RANDOM.format(spread=dim**-0.5) if high else "",
                )
            )  # fmt: skip
    return found


def _both_statistics(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Share of pairs and systems all together, in the lowest dimension at the beta nearest to 3.2."""
    dim = int(dataset["dim"].values.min())
    place = int(np.abs(dataset["beta"].values - NAMED).argmin())
    beta = float(dataset["beta"].values[place])
    words = {"share_above": "share of pairs that have met", "together": "share of systems that have met as a whole"}
    found = []
    for name, said in words.items():
        values = dataset[name].sel(dim=dim).isel(beta=place).values
        if len(values) > 1 and np.isfinite(values).all():
            share = intervals(values, **choices).within(0.0, 1.0).estimate(unit="systems")
            found.append(Finding.of(share, f"{said}, d = {dim}, beta = {beta:.3g}"))
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
FIXED: Mapping[str, Any] = {"tokens": 32, "above": 0.999, "rtol": 1e-5}

PRESET = Preset(
    name="perspective",
    title="Which pairs of tokens have met by a fixed time",
    question="Up to which beta do random tokens on the sphere meet by s = 30, and how does that depend on dimension?",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, A mathematical perspective on transformers",
    differs=(
        "Published systems take Euler steps of 0.1 with renormalization, whose clock is several percent slow: its edge "
        "lies at a smaller beta. Here each system takes adaptive steps of its own at a stated tolerance.",
        "The published color is the share of pairs above the threshold, which does not say that a system has met as a "
        "whole; both are shown here, the share of pairs first.",
        "The published curve is the law of 128 orthonormal tokens; here it has as many tokens as the systems.",
        "The same seeds, and so the same starts, are used at every beta.",
        "Where a space has at least as many dimensions as there are tokens, their overlaps are moved instead of them, "
        "by an equation of their own: the same motion.",
        "The quick size has 30 values of beta, four dimensions, 128 systems a cell in the place of 90, six and 2,048.",
    ),
    method=(
        "Independent uniform starts follow the flow of softmax attention with identity matrices on the sphere, by "
        "Tsitouras' method of order 5(4) with dense output. A system whose pairs have all met is not followed "
        "further: tokens that share a cap never part again. The edge of a system is the beta, between two values of "
        "the grid, at which its share of pairs falls through one half for good."
    ),
    limits=(
        "An edge at 32 tokens and a finite time: it moves with both, and in low dimension it is no edge at all but a "
        "slow descent through plateaus of a few groups.",
        "Two tokens count as met at an overlap of 0.999. Systems that have not met by the last time do meet later.",
    ),
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
        seeds=128,
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
            undefined="the system took too many steps",
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
