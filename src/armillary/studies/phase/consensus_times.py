"""When all tokens have met, over twelve decades of time: the median over starts against beta and dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary import sphere
from armillary.oracles import overlap as laws
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.order_statistics import median_interval

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "law_in_high_dimension", "measure", "medians"]


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """The time at which the smallest overlap passes the level.

    Args:
        cell: beta, dim, tokens, level, until, rtol, merging (radians).
        seeds: One uniform start each.
    """
    from armillary.dynamics.pairs import SOFTMAX, Law
    from armillary.dynamics.sweep import in_their_span, sweep

    drawn = [sphere.uniform(tokens=cell["tokens"], dim=cell["dim"], seed=seed).numpy() for seed in seeds]
    found = sweep(
        np.stack([in_their_span(rows) for rows in drawn]), law=Law(SOFTMAX, float(cell["beta"]), 1.0, True),
        times=np.asarray([float(cell["until"])]), rtol=cell["rtol"], atol=cell["rtol"] / 10, above=cell["level"],
        within=cell["merging"], angle=cell["merging"],
    )  # fmt: skip
    return {
        "log_time": np.log10(found.gathered_at),
        "met": np.isfinite(found.gathered_at).astype(float),
        "left": found.unfinished.astype(float),
    }


def law_in_high_dimension(beta: float, *, tokens: int, level: float) -> float:
    """The time of orthonormal tokens, which uniform starts follow as the dimension grows."""
    return laws.merge_time(tokens=tokens, beta=beta, stop=level)


def medians(dataset: xarray.Dataset, beta: float, dim: int, *, level: float) -> tuple[float, float, float]:
    """Median time of a cell and its interval between order statistics; infinity beyond the last time."""
    times = dataset["log_time"].sel(beta=beta, dim=dim).values
    value, low, high = median_interval(np.where(np.isnan(times), np.inf, times), level=level)
    return 10.0**value, 10.0**low, 10.0**high


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The median time of every second beta in every dimension, and the law of high dimension beside the highest."""
    found, level = [], float(choices["level"])
    highest = int(dataset["dim"].values[-1])
    for dim in dataset["dim"].values.tolist():
        for beta in dataset["beta"].values.tolist():
            value, low, high = medians(dataset, beta, dim, level=level)
            if not math.isfinite(value):
                continue
            law = law_in_high_dimension(beta, tokens=FIXED["tokens"], level=FIXED["level"])
            found.append(
                Finding(
                    words=f"median consensus time, beta {beta:g}, dim {dim}", value=value, low=low, high=high,
                    level=level, members=int(dataset.sizes["seed"]), expected=law if dim == highest else math.nan,
                    source="orthonormal tokens, the limit of high dimension" if dim == highest else "",
                )
            )  # fmt: skip
    return found


FIXED: dict[str, Any] = {"tokens": 32, "level": 0.999, "until": 1e12, "rtol": 1e-6, "merging": 1e-4}


def _cost(cell: Cell) -> float:
    """Measured: more steps the more plateaus there are, and more per step the more dimensions."""
    return 2e-4 * (1 + float(cell["beta"])) * (1 + min(int(cell["dim"]), int(cell["tokens"])) / 8)


def _grid(*, betas: tuple[float, ...], dims: tuple[int, ...], seeds: int) -> Grid:
    return Grid(
        axes=(Axis("beta", betas, "β", "log"), Axis("dim", dims, "dimension", "log")), seeds=seeds, fixed=FIXED,
    )  # fmt: skip


PRESET = Preset(
    name="consensus-times",
    title="The time to consensus",
    question="How long does it take until all tokens have met, at every beta and in every dimension?",
    source="Geshkovski, Letrouit, Polyanskiy and Rigollet 2025, for consensus without a time",
    differs=(
        "Theorems say that tokens meet; published runs end at s = 30. Here systems run to s = 1e12, by merging "
        "coalesced tokens, and the time itself is measured.",
        "Medians come with intervals between order statistics, since times spread over decades and some lie beyond the "
        "last one.",
    ),
    method="32 uniform tokens, adaptive steps, merging at 1e-4 radians; the time at which the smallest overlap passes "
    "0.999. In dimensions beyond 32 tokens move in the span of their start.",
    limits=(
        "The times are those of 32 tokens; with more tokens there are more clusters on the way.",
        "A median beyond 1e12 is not known.",
    ),
    full=_grid(betas=(0.1, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0), dims=(2, 3, 4, 8, 16, 32, 64, 128, 256),
               seeds=128),
    quick=_grid(betas=(0.1, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0), dims=(2, 3, 8, 32, 128), seeds=64),
    results=(
        Result(
            name="log_time", dims=("seed",), symbol="log10 s", definition="decimal logarithm of the time of consensus",
            undefined="no consensus by the last time",
        ),
        Result(
            name="met", dims=("seed",), symbol="met", definition="1 if consensus came by the last time, else 0",
            lowest=0.0, highest=1.0,
        ),
        Result(
            name="left", dims=("seed",), symbol="left", definition="1 where steps ended before the last time, else 0",
            lowest=0.0, highest=1.0,
        ),
    ),
    measure=measure,
    cost=_cost,
    findings=findings,
)  # fmt: skip
