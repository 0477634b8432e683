"""Whether high dimension changes clustering: consensus time, groups and the edge in beta over dimension and tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import estimate
from armillary.oracles import overlap as laws
from armillary.studies.diagram.declaration import SEED, Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.phase.perspective import boundary, edge

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "measure"]

ENOUGH = 0.95  # of the systems must fall through one half before their mean edge is given
LARGE = 4  # tokens times this many dimensions: from there on orthonormal tokens are a fair law


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Share of pairs that have met, groups and mean overlap at the last time, and when all had met.

    Args:
        cell: beta, dim, tokens; above, within (radians), time, rtol.
        seeds: One uniform start each.
    """
    from armillary.dynamics.pairs import SOFTMAX, Law
    from armillary.dynamics.sweep import sweep, uniform_starts

    tokens, dim, rtol = int(cell["tokens"]), int(cell["dim"]), float(cell["rtol"])
    found = sweep(
        uniform_starts(tokens=tokens, dim=dim, seeds=list(seeds)), law=Law(SOFTMAX, float(cell["beta"]), 1.0, True),
        times=np.asarray([float(cell["until"])]), rtol=rtol, atol=rtol / 10, above=float(cell["above"]),
        within=float(cell["within"]),
    )  # fmt: skip
    met = np.isfinite(found.gathered_at)
    return {
        "share_above": np.where(met, 1.0, found.share_above[:, -1]),
        "groups": np.where(met, 1.0, found.groups[:, -1]),
        "consensus_time": found.gathered_at,
    }


def cost(cell: Cell) -> float:
    """Seconds of one core that one system takes, roughly: pairs times coordinates times evaluations."""
    coordinates = min(int(cell["dim"]), int(cell["tokens"]))
    return 1e-3 + 2.5e-7 * int(cell["tokens"]) ** 2 * (0.3 + coordinates / 32)


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The edge in beta and the time to consensus at small beta, for every dimension and number of tokens."""
    found: list[Finding] = []
    betas, until = dataset["beta"].values, float(FIXED["until"])
    for tokens in dataset["tokens"].values.tolist():
        law = boundary(until, tokens=int(tokens), above=float(FIXED["above"]))
        for dim in dataset["dim"].values.tolist():
            here = dataset.sel(tokens=tokens, dim=dim)
            edges = np.array([edge(betas, one) for one in here["share_above"].transpose(SEED, "beta").values])
            if len(edges) > 1 and np.isfinite(edges).mean() >= ENOUGH:
                orthonormal = dim >= LARGE * tokens
                found.append(
                    Finding.of(
                        estimate(edges, **choices), f"edge in beta at s = {until:g}, d = {dim}, T = {tokens}",
                        expected=law if orthonormal else math.nan,
                        source="quadrature of orthonormal tokens" if orthonormal else "",
                    )
                )  # fmt: skip
            times = here["consensus_time"].isel(beta=0).values
            if len(times) > 1 and np.isfinite(times).all():
                beta = float(betas[0])
                exact = laws.merge_time(tokens=int(tokens), beta=beta, stop=float(FIXED["above"]))
                found.append(
                    Finding.of(
                        estimate(times, **choices), f"time to consensus at beta = {beta:g}, d = {dim}, T = {tokens}",
                        expected=exact if dim >= LARGE * tokens else math.nan,
                        source="quadrature of orthonormal tokens" if dim >= LARGE * tokens else "",
                        note="Random tokens are not orthonormal: their overlaps begin with a spread of 1/sqrt d.",
                    )
                )  # fmt: skip
    return found


FIXED: Mapping[str, Any] = {"above": 0.999, "within": 0.1, "until": 30.0, "rtol": 1e-6}


def _grid(
    *, dims: tuple[int, ...], tokens: tuple[int, ...], betas: tuple[float, ...], seeds: int, heaviest: int
) -> Grid:
    return Grid(
        axes=(
            Axis("tokens", tokens, "tokens T", "log"),
            Axis("beta", betas, "β"),
            Axis("dim", dims, "dimension d", "log"),
        ),
        seeds=seeds,
        fixed={**FIXED, "heaviest": heaviest},
        belongs=_belongs,
    )


def _belongs(cell: Cell) -> bool:
    """Many tokens in many coordinates cost too much: such cells are left out, and said to be."""
    return int(cell["tokens"]) ** 2 * min(int(cell["tokens"]), int(cell["dim"])) <= int(cell["heaviest"])


PRESET = Preset(
    name="dimension",
    title="Does high dimension change clustering?",
    question="How do consensus time, number of groups and the edge in beta depend on dimension and number of tokens?",
    source="an open question of the public discussion: the dimension of the sphere in real models",
    differs=(
        "Nothing was published over this grid.",
        "Cells whose tokens squared times coordinates pass a stated bound are left out.",
    ),
    method=(
        "Independent uniform starts follow softmax attention with identity matrices on the sphere to s = 30, adaptive "
        "steps, without merging. Where dimensions outnumber tokens, tokens move in coordinates of their span. The edge "
        "of a system is the beta at which its share of pairs that have met falls through one half for good."
    ),
    limits=(
        "A uniform start: the embedding directions of a decoder are neither uniform nor as many as dimensions.",
        "A finite time; systems that have not met by then do meet later.",
        "Groups are connected components within 0.1 radians.",
    ),
    full=_grid(
        dims=(2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096), tokens=(8, 16, 32, 64, 128, 256, 512, 1024),
        betas=(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0), seeds=32, heaviest=2**25,
    ),
    quick=_grid(
        dims=(2, 4, 8, 32, 128, 512, 2048), tokens=(8, 32, 128), betas=(0.5, 1.0, 3.0, 5.0, 6.0, 7.0, 8.0, 10.0),
        seeds=12, heaviest=2**22,
    ),
    results=(
        Result(
            name="share_above", dims=(SEED,), symbol="share of c > 0.999",
            definition="share of the pairs of a system whose overlap is above 0.999 at the last time", lowest=0.0,
            highest=1.0,
        ),
        Result(
            name="groups", dims=(SEED,), symbol="k", lowest=1.0,
            definition="connected components of tokens within 0.1 radians at the last time; 1 where all had met",
        ),
        Result(
            name="consensus_time", dims=(SEED,), symbol="s", definition="time at which all pairs had met",
            undefined="not by the last time", lowest=0.0,
        ),
    ),
    measure=measure,
    cost=cost,
    findings=findings,
)  # fmt: skip
"""The article's open question on dimension, for the idealization."""
