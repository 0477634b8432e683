"""Negative beta on the circle: from random starts, how often do tokens lock apart instead of meeting?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.dynamics.attention import Softmax, Unnormalized
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.locking import LOCKED, MET, outcome, released_at
from armillary.studies.order_statistics import share_interval
from armillary.studies.starts import attended, from_angles

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "PROVED", "TRIANGLE", "measure"]

TRIANGLE = -2 / 3
"""Below it the equilateral triangle is stable, so that tokens need not meet."""

PROVED = -0.16
"""From it on almost all starts are proved to meet (Polyanskiy, Rigollet and Yao 2025)."""

SOFTMAX, UNNORMALIZED = "softmax", "unnormalized"


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """How each start ends, and up to which beta a locked state would hold.

    Args:
        cell: beta, tokens, rule, until, rtol, merging (radians).
        seeds: One uniform start each.
    """
    beta = float(cell["beta"])
    rule = Softmax(beta) if cell["rule"] == SOFTMAX else Unnormalized(beta)
    starts = from_angles(np.stack([_angles(cell, seed) for seed in seeds]))
    times = [0.0, float(cell["until"])]
    last = attended(starts, rule=rule, times=times, rtol=cell["rtol"], angle=cell["merging"]).last.numpy()
    ends = np.arctan2(last[..., 1], last[..., 0])
    found = np.asarray([outcome(one, beta=beta) for one in ends])
    releases = [released_at(a, beta=beta) if end == LOCKED else math.nan for a, end in zip(ends, found, strict=True)]
    return {"locked": (found == LOCKED).astype(float), "untold": np.isnan(found).astype(float),
            "met": (found == MET).astype(float), "release": np.asarray(releases)}  # fmt: skip


def _angles(cell: Cell, seed: int) -> np.ndarray:
    """Independent uniform angles, others in every cell, so that cells may be counted together."""
    draw = np.random.default_rng([23, seed, int(cell["tokens"]), round(-1e6 * float(cell["beta"]))])
    return draw.uniform(0, 2 * np.pi, int(cell["tokens"]))


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Locking on both sides of the triangle's release, how often within the open window, and the largest release."""
    level, found = float(choices["level"]), list[Finding]()
    beta = dataset["beta"].values
    locked = dataset["locked"].transpose("beta", "tokens", "rule", "seed").values
    untold = dataset["untold"].transpose("beta", "tokens", "rule", "seed").values
    named = (
        (f"share of starts that lock, beta below {TRIANGLE:.3f}", beta < TRIANGLE - 1e-9),
        (f"share of starts that lock, beta within ({TRIANGLE:.3f}, {PROVED})", (beta > TRIANGLE) & (beta < PROVED)),
        (f"share of starts that lock, beta from {PROVED} on", beta >= PROVED),
    )
    for words, where in named:
        if not where.any():
            continue
        value, low, high = share_interval(int(locked[where].sum()), locked[where].size, level=level)
        note = f"{int(untold[where].sum())} starts were not told by the last time."
        inside = "within" in words
        note += (
            " None locked is no proof: rarer locking, or with other numbers of tokens, is not excluded."
            if inside
            else ""
        )
        found.append(
            Finding(
                words=words, value=value, low=low, high=high, level=level, members=locked[where].size,
                expected=math.nan if inside or "below" in words else 0.0,
                source="" if inside or "below" in words else "Polyanskiy, Rigollet and Yao 2025", note=note,
            )
        )  # fmt: skip
    where = beta[locked.any((1, 2, 3))]
    if len(where):
        found.append(Finding(words="largest beta of the grid at which a start locked", value=float(where.max())))
    releases = dataset["release"].values
    if np.isfinite(releases).any():
        found.append(
            Finding(
                words="largest beta up to which any locked state that was found holds",
                value=float(np.nanmax(releases)), expected=TRIANGLE,
                source="release of the equilateral triangle; three clusters of any weights release no later",
                note=f"Over {int(np.isfinite(releases).sum())} locked states, each followed as beta rises.",
            )
        )  # fmt: skip
    return found


def _grid(*, betas: tuple[float, ...], tokens: tuple[int, ...], rules: tuple[str, ...], seeds: int) -> Grid:
    return Grid(
        axes=(
            Axis("beta", betas, "β"), Axis("tokens", tokens, "tokens", "log"), Axis("rule", rules, "weights", "names"),
        ),
        seeds=seeds,
        fixed={"until": 300.0, "rtol": 1e-7, "merging": 1e-5},
    )  # fmt: skip


PRESET = Preset(
    name="negative-beta",
    title="Meeting at negative beta on the circle",
    question="Between beta = -2/3 and -0.16, where nothing is proved, do tokens on the circle meet?",
    source="Polyanskiy, Rigollet and Yao 2025",
    differs=(
        "The paper proves that almost all starts meet from -0.16 on and that they need not below -2/3; nothing is "
        "published of what lies between. Here random starts are run there, and states that lock deeper down are "
        "followed upward until they let go.",
    ),
    method="Uniform starts, drawn anew in every cell, run to s = 300. An end is told for certain or not at all: "
    "tokens in an open half circle meet; a state that Newton's method finds next to the last one, and whose every "
    "mode decays, is locked. Each locked state is followed in steps of beta until its slowest mode stops decaying.",
    limits=(
        "Random starts find wide basins: a locked state with a tiny one would be missed. The interval bounds the "
        "chance of a uniform start and nothing else.",
        "Numbers of tokens that are not in the grid, unequal masses beyond those that clusters of equal tokens make, "
        "and continuous densities are not covered.",
        "For three clusters of any weights it is derived here that none holds above -2/3; for four and more it is only "
        "measured.",
    ),
    full=_grid(betas=(-3.0, -2.5, -2.0, -1.5, -1.25, -1.0, -0.9, -0.8, -0.75, -0.7, -0.65, -0.6, -0.55, -0.5, -0.45,
                      -0.4, -0.35, -0.3, -0.25, -0.2, -0.15, -0.1, -0.05),
               tokens=(3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32), rules=(SOFTMAX, UNNORMALIZED), seeds=2048),
    quick=_grid(betas=(-2.5, -1.5, -1.0, -0.8, -0.7, -0.65, -0.55, -0.45, -0.35, -0.25, -0.2, -0.1),
                tokens=(3, 5, 6, 9, 16), rules=(SOFTMAX,), seeds=200),
    results=(
        Result(
            name="locked", dims=("seed",), symbol="locked", definition="1 where the end is a stable state apart from "
            "consensus, else 0", lowest=0.0, highest=1.0,
        ),
        Result(
            name="met", dims=("seed",), symbol="met", definition="1 where all tokens are in an open half circle at the "
            "end",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="untold", dims=("seed",), symbol="untold", definition="1 where neither could be told by the last time",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="release", dims=("seed",), symbol="β", definition="beta up to which the locked state holds, followed "
            "as beta rises", undefined="the start did not lock", highest=0.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 2e-4 + 2e-5 * cell["tokens"] + (2e-3 if cell["beta"] < TRIANGLE else 0.0),
    findings=findings,
)  # fmt: skip
