"""A cell of moving tokens: the ingredients it names, one flow a seed, and what is read of where tokens have gone.

Plain attention runs in one compiled call for all seeds of a cell; whatever has a mask, heads, or another place of the
norm runs on the general engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from armillary.studies.diagram.declaration import SEED, Cell, Result

__all__ = ["RESULTS", "flow_cost", "measure_flow", "require_possible"]

_LATER = "a system that had gathered and was not followed further"

RESULTS = (
    Result(
        name="share_above", dims=(SEED,), symbol="share of c above",
        definition="share of the pairs of a system whose overlap is above the threshold at the last time",
        undefined="a system that stopped before", lowest=0.0, highest=1.0,
    ),
    Result(
        name="together", dims=(SEED,), symbol="all together",
        definition="1 where every pair of a system is above the threshold at the last time, else 0",
        undefined="a system that stopped before", lowest=0.0, highest=1.0,
    ),
    Result(
        name="groups", dims=(SEED,), symbol="groups",
        definition="connected components of tokens within the angle at the last time",
        undefined=f"a system that stopped before; {_LATER}, where the angle is narrower than the threshold", lowest=1.0,
    ),
    Result(
        name="gathered_at", dims=(SEED,), symbol="s", units="units of time s",
        definition="when all pairs of a system were above the threshold",
        undefined="they were not by the last time, stop is never, or a cell has a mask, heads or another norm",
        lowest=0.0,
    ),
    Result(
        name="share_above_in_time", dims=("time",), symbol="share of c above",
        definition="share of pairs above the threshold at each time, mean over systems",
        undefined="a system stopped before", lowest=0.0, highest=1.0,
    ),
    Result(
        name="groups_in_time", dims=("time",), symbol="groups",
        definition="connected components of tokens within the angle at each time, mean over systems",
        undefined="as the number at the last time, for any system", lowest=1.0,
    ),
    Result(
        name="mean_overlap_in_time", dims=("time",), symbol="mean c",
        definition="mean overlap over pairs at each time, mean over systems that are still followed",
        undefined=f"no system is followed so far: {_LATER}", lowest=-1.0, highest=1.0,
    ),
)  # fmt: skip
"""What is read of every cell of moving tokens."""


def measure_flow(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Follow the systems of a cell and read them.

    Args:
        cell: beta, dim, tokens, mask, heads, norm, start; rule, rtol, steps, above, within, merge, stop, time.
        seeds: Of starts and of random heads.
    """
    share, groups, mean, gathered = (_plainly if _is_plain(cell) else _generally)(cell, seeds)
    together = np.where(np.isnan(share[:, -1]), np.nan, share[:, -1] == 1.0)
    return {
        "share_above": share[:, -1],
        "together": together,
        "groups": groups[:, -1],
        "gathered_at": gathered,
        "share_above_in_time": share.mean(axis=0),
        "groups_in_time": groups.mean(axis=0),
        "mean_overlap_in_time": _mean_of_known(mean),
    }


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """Means over the systems that have a number, NaN where none has."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


Read = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Share above, groups and mean overlap, `systems times`; when each system had gathered."""


def _is_plain(cell: Cell) -> bool:
    own = (cell["mask"], cell["heads"], cell["norm"])
    return own == ("full", "identity", "post") and cell["rule"] in ("softmax", "unnormalized", "uniform")


def _start(cell: Cell, seed: int) -> np.ndarray:
    """The start of one seed, the same whichever engine moves it, `tokens dim`."""
    from armillary.dynamics.sweep import uniform_start
    from armillary.studies.spelled import spelled_start

    tokens, dim, start = int(cell["tokens"]), int(cell["dim"]), str(cell["start"])
    if start == "uniform":
        return uniform_start(tokens=tokens, dim=dim, seed=seed)
    return np.asarray(spelled_start(start, tokens=tokens, dim=dim, seed=seed).numpy())


def _plainly(cell: Cell, seeds: Sequence[int]) -> Read:
    from armillary.dynamics.pairs import SOFTMAX, UNIFORM, UNNORMALIZED, Law
    from armillary.dynamics.sweep import in_their_span, sweep

    beta, rule, rtol = float(cell["beta"]), str(cell["rule"]), float(cell["rtol"])
    code = {"softmax": SOFTMAX, "unnormalized": UNNORMALIZED, "uniform": UNIFORM}[rule]
    starts = np.stack([in_their_span(_start(cell, int(seed))) for seed in seeds])
    found = sweep(
        starts, law=Law(UNIFORM if beta == 0 else code, beta, 1.0, True), times=np.asarray(cell["time"]),
        rtol=rtol, atol=rtol / 100, above=float(cell["above"]), within=float(cell["within"]),
        angle=float(cell["merge"]), most=int(cell["steps"]), stop=bool(cell["stop"]),
    )  # fmt: skip
    return found.share_above, found.groups, found.mean_overlap, found.gathered_at


def _generally(cell: Cell, seeds: Sequence[int]) -> Read:
    """One flow a seed: random heads are those of its own seed."""
    import torch

    from armillary.dynamics.attention_drift import AttentionDrift
    from armillary.dynamics.flow import flow
    from armillary.dynamics.integrators import Tsit5
    from armillary.dynamics.merging import Merging
    from armillary.dynamics.sweep import observed
    from armillary.studies.spelled import spelled_field, spelled_heads, spelled_mask, spelled_rule

    dim, times = int(cell["dim"]), np.asarray(cell["time"], dtype=float)
    rule, mask = spelled_rule(str(cell["rule"]), float(cell["beta"])), spelled_mask(str(cell["mask"]))
    merging = Merging(float(cell["merge"])) if cell["merge"] else None
    read = []
    for seed in seeds:
        heads = spelled_heads(str(cell["heads"]), dim=dim, seed=int(seed))
        field = spelled_field(str(cell["norm"]), AttentionDrift(rule, mask=mask, heads=heads))
        start = torch.from_numpy(_start(cell, int(seed)))
        integrator = Tsit5(rtol=float(cell["rtol"]), most_steps=int(cell["steps"]))
        run = flow(
            field, start, until=float(times[-1]), integrator=integrator, keep=times.tolist(), merging=merging,
        )  # fmt: skip
        rows = torch.nn.functional.normalize(run.states, dim=-1).numpy()
        found = observed(rows, above=float(cell["above"]), within=float(cell["within"]))
        found[:, times > run.stopped_at.get(0, math.inf)] = np.nan
        read.append(found)
    share, groups, mean, _ = np.stack(read, axis=1)
    return share, groups, mean, np.full(len(seeds), math.nan)


def flow_cost(cell: Cell) -> float:
    """Seconds of one core that one seed takes, roughly.

    Args:
        cell: What `measure_flow` takes.
    """
    tokens, dim = int(cell["tokens"]), int(cell["dim"])
    pairs = tokens**2 * (2 + min(tokens, dim)) * 1e-9
    time = float(cell["time"][-1])
    evaluations = 100 + 12 * (time if not cell["merge"] else 20 * math.log1p(time))
    return pairs * (evaluations + len(cell["time"])) if _is_plain(cell) else (2e-4 + 3 * pairs) * evaluations


def require_possible(cell: Cell) -> None:
    """Refuse a cell that cannot be, before anything runs.

    Args:
        cell: What `measure_flow` takes.

    Raises:
        ArgumentError: No such rule, mask, heads, norm or start, none of that kind with so many tokens in that
            dimension, or merging where it would change the motion.
    """
    from armillary.dynamics.asked import require_mergeable
    from armillary.dynamics.attention_drift import AttentionDrift
    from armillary.dynamics.integrators import Tsit5
    from armillary.dynamics.merging import Merging
    from armillary.studies.spelled import spelled_field, spelled_heads, spelled_mask, spelled_rule, spelled_start

    tokens, dim = int(cell["tokens"]), int(cell["dim"])
    heads: Any = spelled_heads(str(cell["heads"]), dim=dim, seed=0)
    drift = AttentionDrift(
        spelled_rule(str(cell["rule"]), float(cell["beta"])), mask=spelled_mask(str(cell["mask"])), heads=heads
    )
    field = spelled_field(str(cell["norm"]), drift)
    if cell["merge"]:
        require_mergeable(field, Tsit5(rtol=float(cell["rtol"])), Merging(float(cell["merge"])))
    spelled_start(str(cell["start"]), tokens=tokens, dim=dim, seed=0)
