"""Up to which beta the mean direction is what grows fastest from a uniform cloud: beta_c(d), which tends to 2 d / 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from armillary import sphere
from armillary.oracles import linear
from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "extrapolated", "measure", "response"]

SMALL = 1e-4  # of the weights: how far the cloud is taken out of balance
DIRECTIONS = 4  # along which each cloud is probed


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Growth rates of the first two degrees at each share of the threshold, and where they cross.

    Args:
        cell: dim, tokens, relative (beta over the threshold of infinitely many tokens), degree.
        seeds: One cloud each, the same at every beta.
    """
    from armillary.dynamics.planning import COMPILED
    from armillary.dynamics.sums.told import tell

    tell(COMPILED)
    dim, shares = int(cell["dim"]), [float(one) for one in cell["relative"]]
    threshold = linear.direct_consensus_threshold(dim)
    rates = np.zeros((len(seeds), len(shares), len(cell["degree"])))
    for row, seed in enumerate(seeds):
        rows = sphere.uniform(tokens=cell["tokens"], dim=dim, seed=seed).numpy()
        for k, share in enumerate(shares):
            for m, degree in enumerate(cell["degree"]):
                rates[row, k, m] = response(rows, beta=share * threshold, degree=int(degree), seed=seed)
    first, second = (list(cell["degree"]).index(degree) for degree in (1, 2))
    lead = rates[:, :, first] - rates[:, :, second]
    return {"rate": rates, "crossing": np.asarray([_zero(shares, one) for one in lead])}


def response(rows: Float[np.ndarray, "tokens dim"], *, beta: float, degree: int, seed: int) -> float:
    """The growth rate of a small imbalance of degree 1 or 2, as the velocity of the compiled engine has it.

    Tokens are weighed by 1 +- a f(x), f = e . x or (e . x)^2 - 1/d, and the rate is the change of the mean of f by the
    motion over the mean itself, each as the difference of the two signs, so that what the cloud does anyway drops out.

    Args:
        rows: The cloud, unit rows.
        beta: Of the softmax.
        degree: 1 or 2.
        seed: Of the directions e.
    """
    from armillary.dynamics.pairs import SOFTMAX, Law, pair_velocity

    tokens, dim = rows.shape
    draw, law = np.random.default_rng([19, seed]), Law(SOFTMAX, beta, 1.0, False)
    total = 0.0
    for _ in range(DIRECTIONS):
        e = draw.standard_normal(dim)
        height = rows @ (e / np.linalg.norm(e))
        f, slope = (height, np.ones(tokens)) if degree == 1 else (height**2 - 1 / dim, 2 * height)
        moved = []
        for weights in (1 + SMALL * f, 1 - SMALL * f):
            velocity = pair_velocity(rows, law=law, weights=weights) @ (e / np.linalg.norm(e))
            moved.append(np.asarray([weights @ (slope * velocity), weights @ f]) / weights.sum())
        change = moved[0] - moved[1]
        total += change[0] / change[1]
    return total / DIRECTIONS


def _zero(x: Sequence[float], y: Float[np.ndarray, points]) -> float:
    """Where a falling row of numbers crosses zero, linear between points; NaN where it does not."""
    after = np.flatnonzero((y[:-1] > 0) & (y[1:] <= 0))
    if not len(after):
        return math.nan
    k = int(after[0])
    return float(x[k] + (x[k + 1] - x[k]) * y[k] / (y[k] - y[k + 1]))


def extrapolated(
    tokens: Float[np.ndarray, tokens], crossings: Float[np.ndarray, "seeds tokens"]
) -> Float[np.ndarray, seeds]:
    """Each seed's crossing continued to infinitely many tokens, linear in one over their number.

    Args:
        tokens: How many.
        crossings: For each seed and number of tokens; at least two numbers.
    """
    return np.asarray(np.polyfit(1 / tokens, crossings.T, 1)[-1])


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Where the lead changes, for the largest cloud and continued to infinitely many tokens, beside the law."""
    found: list[Finding] = []
    tokens = dataset["tokens"].values
    for dim in dataset["dim"].values.tolist():
        law = linear.direct_consensus_threshold(dim)
        crossings = law * dataset["crossing"].sel(dim=dim).transpose("seed", "tokens").values
        source = f"root of a ratio of Bessel functions; {law / dim:.4f} d"
        words = f"beta at which degree 2 overtakes degree 1, dim {dim}"
        largest = f"{words}, {int(tokens[-1])} tokens"
        found += averaged(crossings[:, -1], largest, choices, expected=law, source=source)
        if len(tokens) > 1 and np.isfinite(crossings).all():
            limit = extrapolated(tokens, crossings)
            found += averaged(limit, f"{words}, continued in 1/T", choices, expected=law, source=source)
    return found


def _grid(*, dims: tuple[int, ...], tokens: tuple[int, ...], shares: tuple[float, ...], seeds: int) -> Grid:
    return Grid(
        axes=(Axis("dim", dims, "dimension", "log"), Axis("tokens", tokens, "tokens", "log")),
        along=(Axis("relative", shares, "β / β_c"), Axis("degree", (1, 2), "degree")),
        seeds=seeds,
    )


PRESET = Preset(
    name="direct-consensus",
    title="Direct consensus and its threshold",
    question="Up to which beta is the mean direction what grows fastest from a uniform cloud?",
    source="growth rates around the uniform state (Funk and Hecke's formula); Bruno, Pasqualotto and Agazzi 2025",
    differs=(
        "The published statement is about infinitely many tokens. Here the rates are read off the engine's velocity on "
        "finite clouds, and continued to infinitely many.",
    ),
    method="A uniform cloud is weighed by 1 + a f and by 1 - a f, f of degree 1 or 2 along a random direction, and the "
    "difference of what the engine moves is the rate of that degree. The threshold is where the two rates are equal.",
    limits=(
        "A token attends to itself with e^β: a cloud of T tokens is far from the limit unless T is far above e^β over "
        "the mean of e^{β u}. At the threshold 2 d / 3 that number grows exponentially with d, so no cloud that a "
        "computer holds shows the threshold in high dimension; there the edge of nearly orthogonal tokens comes first.",
        "Rates at the uniform state say what starts to grow, and not where it ends.",
    ),
    full=_grid(dims=(2, 3, 4, 6, 8), tokens=(1024, 2048, 4096, 8192), shares=(0.8, 0.9, 1.0, 1.1, 1.2, 1.3), seeds=24),
    quick=_grid(dims=(2, 3, 4, 8), tokens=(512, 1024), shares=(0.8, 0.95, 1.1, 1.3), seeds=10),
    results=(
        Result(
            name="rate", dims=("seed", "relative", "degree"), symbol="σ",
            definition="growth rate of a small imbalance of that degree",
        ),
        Result(
            name="crossing", dims=("seed",), symbol="β / β_c",
            definition="beta at which both degrees grow alike, over the threshold of infinitely many tokens",
            undefined="no crossing within the grid", lowest=0.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 1.6e-8 * cell["tokens"] ** 2 * len(cell["relative"]),
    findings=findings,
)  # fmt: skip
