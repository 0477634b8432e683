"""How fast tokens gather under each placement of the norm: course, speed at the start and at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from armillary.dynamics.attention import Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.flow import flow
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import VelocityField, mix_norm, ngpt, on_sphere, peri_norm, pre_norm, sqrt_depth
from armillary.oracles import overlap as laws
from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.starts import uniform_starts

if TYPE_CHECKING:
    import xarray

__all__ = ["HALF", "PRESET", "SCHEMES", "fields", "measure"]

SCHEMES = ("post", "pre", "mix", "peri", "ngpt", "sqrt depth")
HALF = 0.5
RESOLVED = 1e-7  # of 1 - c: below it the tolerance of the steps shows
ORTHONORMAL, UNIFORM = "orthonormal", "uniform"


def fields(beta: float, *, alpha: float, switch: float) -> dict[str, VelocityField]:
    """The field of every placement.

    Args:
        beta: Of the softmax.
        alpha: Step ratio of ngpt.
        switch: When mix turns from post to pre.
    """
    drift = AttentionDrift(Softmax(beta))
    return {
        "post": on_sphere(drift), "pre": pre_norm(drift), "mix": mix_norm(drift, switch=switch),
        "peri": peri_norm(drift), "ngpt": ngpt(drift, alpha=alpha), "sqrt depth": sqrt_depth(drift),
    }  # fmt: skip


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Mean overlap of directions at every time, its first rate, the time to half, and the exponent of the end.

    Args:
        cell: scheme, start, beta, tokens, dim, alpha, switch, time, rtol.
        seeds: One start each; orthonormal starts are all alike.
    """
    tokens, times = int(cell["tokens"]), [float(one) for one in cell["time"]]
    field = fields(cell["beta"], alpha=cell["alpha"], switch=cell["switch"])[str(cell["scheme"])]
    if cell["start"] == ORTHONORMAL:
        starts = torch.eye(tokens, dtype=torch.float64)[None]
    else:
        starts = uniform_starts(seeds, tokens=tokens, dim=cell["dim"])
    integrator = Tsit5(rtol=cell["rtol"])
    runs = [flow(field, start, until=times[-1], integrator=integrator, keep=times).states for start in starts]
    apart, radius = _distances(torch.stack(runs))  # one by one, so that no bit depends on what else is in a batch
    halves = np.asarray([_crossing(times, row, 1 - HALF) for row in apart])
    ends = [
        _end_exponent(str(cell["scheme"]), np.asarray(times), *row, cell["alpha"])
        for row in zip(apart, radius, strict=True)
    ]
    first = _initial_speeds(field, starts).numpy()
    found = {"overlap": 1 - apart, "initial_speed": first, "half_time": halves, "end_exponent": np.asarray(ends)}
    return {name: np.repeat(row, len(seeds), axis=0) if len(row) < len(seeds) else row for name, row in found.items()}


def _initial_speeds(field: VelocityField, starts: Float[Tensor, "systems tokens dim"]) -> Float[Tensor, systems]:
    """d/ds of the mean overlap over distinct pairs at s = 0, of unit rows."""
    moved = torch.stack([field.during(0.0).velocity(0.0, start) for start in starts])
    turned = moved - (moved * starts).sum(-1, keepdim=True) * starts
    tokens = starts.shape[-2]
    return 2 * (turned @ starts.mT).sum((-2, -1)) / (tokens * (tokens - 1))


def _distances(states: Float[Tensor, "systems times tokens dim"]) -> tuple[np.ndarray, np.ndarray]:
    """1 - mean overlap over distinct pairs, from differences so that it keeps its digits, and the mean row length."""
    size = states.norm(dim=-1, keepdim=True)
    unit = states / size
    tokens = states.shape[-2]
    middle = unit.mean(-2, keepdim=True)
    # over all pairs 1 - c is on average the mean squared distance from the mean row
    apart = (unit - middle).square().sum((-2, -1)) / (tokens - 1)
    return apart.numpy(), size.mean((-2, -1)).numpy()


def _crossing(times: Sequence[float], apart: Float[np.ndarray, times], level: float) -> float:
    """When 1 - c falls below a level, its logarithm linear between kept times; NaN if it never does."""
    below = np.flatnonzero(apart < level)
    if not len(below) or below[0] == 0:
        return math.nan
    k = int(below[0])
    share = math.log(level / apart[k - 1]) / math.log(apart[k] / apart[k - 1])
    return float(times[k - 1] + share * (times[k] - times[k - 1]))


def _end_exponent(scheme: str, times: np.ndarray, apart: np.ndarray, radius: np.ndarray, alpha: float) -> float:
    """Slope of ln(1 - c) in the clock of the law, between two late kept times at which 1 - c is above `RESOLVED`."""
    k = int(np.flatnonzero(apart > RESOLVED)[-1])
    clock = _clock(scheme, times[k - 1 : k + 1], radius[k - 1 : k + 1], alpha)
    return float(math.log(apart[k] / apart[k - 1]) / (clock[1] - clock[0]))


def _clock(scheme: str, times: np.ndarray, radius: np.ndarray, alpha: float) -> np.ndarray:
    """In what 1 - c falls as a straight line on a logarithmic axis: s, alpha s, sqrt(s + 1), or the log of the norm."""
    if scheme in ("pre", "mix", "peri"):
        return np.log(radius)
    even = {"post": times, "ngpt": alpha * times, "sqrt depth": np.sqrt(times + 1)}[scheme]
    return np.broadcast_to(even, radius.shape)


INITIAL = ("orthonormal tokens: 2 / (e^β + n - 1)", "orthonormal tokens: 2 / sqrt(e^{2 β} + n - 1), times α for ngpt")
END = {"post": -2.0, "ngpt": -2.0, "sqrt depth": -4.0, "pre": -2.0, "mix": -2.0, "peri": -2.0}
CLOCK = {"post": "s", "ngpt": "alpha s", "sqrt depth": "sqrt(s + 1)", "pre": "ln r", "mix": "ln r", "peri": "ln r"}


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Speed at the start and time to half beside the laws of orthonormal starts, and the exponent of the end."""
    found: list[Finding] = []
    beta = float(dataset["beta"].values[0])
    for scheme in dataset["scheme"].values.tolist():
        for start in dataset["start"].values.tolist():
            here = dataset["half_time"].sel(scheme=scheme, start=start, beta=beta).values
            law = half_time(scheme, beta=beta)
            words, source = f"time to overlap 1/2, {scheme}, {start} start", "the equation of orthonormal tokens"
            if start == ORTHONORMAL:
                found.append(Finding(words=words, value=float(here[0]), expected=law, source=source))
            else:
                found += averaged(here, words, choices, expected=law, source=source)
        first = dataset["initial_speed"].sel(scheme=scheme, start=UNIFORM, beta=beta).values
        rate = laws.scheme_rate(scheme, tokens=FIXED["tokens"], beta=beta, alpha=FIXED["alpha"])
        words = f"speed of the overlap at the start, {scheme}, {UNIFORM} start"
        found += averaged(first, words, choices, expected=rate, source=INITIAL[scheme in ("peri", "ngpt")])
        end = dataset["end_exponent"].sel(scheme=scheme, start=UNIFORM, beta=beta).values
        words = f"exponent of 1 - c in {CLOCK[scheme]} at the end, {scheme}"
        found += averaged(end, words, choices, expected=END[scheme], source="the same")
    return found


def half_time(scheme: str, *, beta: float) -> float:
    """The law's time to overlap 1/2 of orthonormal tokens, as many and as placed as in the grid."""
    times = np.linspace(0.0, 40.0, 4001)
    course = laws.scheme_overlap(
        times, scheme=scheme, tokens=FIXED["tokens"], beta=beta, alpha=FIXED["alpha"], switch=FIXED["switch"]
    )
    return float(np.interp(HALF, course, times))


FIXED: dict[str, Any] = {"tokens": 16, "dim": 256, "alpha": 1.0, "switch": 1.0, "rtol": 1e-8}


def _grid(*, betas: tuple[float, ...], seeds: int) -> Grid:
    times = (0.0, *(round(0.1 * k, 1) for k in range(1, 61)), *(0.5 * k for k in range(13, 25)), 15.0, 16.0)
    return Grid(
        axes=(
            Axis("scheme", SCHEMES, "placement of the norm", "names"),
            Axis("start", (ORTHONORMAL, UNIFORM), "start", "names"),
            Axis("beta", betas, "β"),
        ),
        along=(Axis("time", times, "time s"),),
        seeds=seeds,
        fixed=FIXED,
    )


PRESET = Preset(
    name="speeds",
    title="Speed under each placement of the norm",
    question="Where the norm is restored, how fast do tokens start to gather, and how fast do they finish?",
    source="Karagodin, Ge, Polyanskiy and Rigollet 2025",
    differs=(
        "The paper tabulates speeds at the start and at the end; here are whole courses of random starts in high "
        "dimension with intervals, beside the equations that orthonormal tokens obey exactly.",
        "The table's entry of the end for ngpt is read with its step ratio, e^{-2 α s}.",
    ),
    method="16 tokens, adaptive steps. Distances from consensus are taken from differences of directions, so that they "
    "keep their digits. The exponent of the end is the slope of ln(1 - c) between two late kept times, in the "
    "clock in which the law is a straight line.",
    limits=(
        "A discrete network of these placements follows such a course only for small steps.",
        "Uniform starts in 256 dimensions are nearly orthonormal; in few dimensions courses stop on plateaus.",
    ),
    full=_grid(betas=(2.0, 0.5, 1.0, 4.0), seeds=64),
    quick=_grid(betas=(2.0,), seeds=12),
    results=(
        Result(
            name="overlap", dims=("seed", "time"), symbol="c", definition="mean overlap over distinct pairs of "
            "directions",
            lowest=-1.0, highest=1.0,
        ),
        Result(
            name="initial_speed", dims=("seed",), symbol="c'(0)", definition="d/ds of the mean overlap at s = 0",
        ),
        Result(
            name="half_time", dims=("seed",), symbol="s(1/2)", definition="time at which the mean overlap passes 1/2",
            undefined="not passed by the last time", lowest=0.0,
        ),
        Result(
            name="end_exponent", dims=("seed",), symbol="p",
            definition="slope of ln(1 - c) between two late times in the clock of the law (s, alpha s, sqrt(s + "
            "1), or the logarithm of the mean row length)",
        ),
    ),
    measure=measure,
    cost=lambda cell: 0.1,
    findings=findings,
)  # fmt: skip
