"""Pure attention networks layer by layer: how fast rows become one, with and without skip, MLP and norm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis, Cell, Finding, Grid, Preset, Result
from armillary.studies.networks import PARTS, Network

if TYPE_CHECKING:
    import xarray

__all__ = ["PRESET", "measure"]

PURE = "attention"
NETWORKS = tuple(
    " + ".join((PURE, *parts)) for count in range(len(PARTS) + 1) for parts in itertools.combinations(PARTS, count)
)
LEAST = 1e-300  # residual below which rows are one to the last number a computer has


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Residuals after every layer of networks with weights of their own, and the order of one layer.

    Args:
        cell: network, layer, tokens, dim, heads, spread.
        seeds: One network each.
    """
    network = network_of(cell)
    layers = max(cell["layer"])
    plain, composite = np.full((2, len(seeds), layers + 1), math.nan)
    for row, seed in enumerate(seeds):
        for layer, rows in enumerate(network.course(layers, seed=seed)):
            if rows.residual < LEAST:
                break
            plain[row, layer], composite[row, layer] = rows.residual, rows.composite_residual
    kept = list(cell["layer"])
    return {
        "log_residual": np.log10(plain[:, kept]),
        "log_composite_residual": np.log10(composite[:, kept]),
        "order": np.asarray([network.order(seed=seed) for seed in seeds]),
    }


def network_of(cell: Cell) -> Network:
    """The network of a cell."""
    parts = tuple(str(cell["network"]).split(" + ")[1:])
    return Network(
        parts=parts, tokens=cell["tokens"], dim=cell["dim"], heads=cell["heads"], spread=float(cell["spread"])
    )


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """The order of one layer of each network, and what is left of the differences at the last layer."""
    found: list[Finding] = []
    for name in dataset["network"].values.tolist():
        skips = "skip" in name
        source = "a skip connection hands differences on" if skips else "rows that differ by e attend alike to order e²"
        found += averaged(
            dataset["order"].sel(network=name).values, f"order of one layer, {name}", choices,
            expected=1.0 if skips else 3.0, source=source,
        )  # fmt: skip
    for name in (one for one in dataset["network"].values.tolist() if "skip" in one):
        last = dataset["log_residual"].sel(network=name).isel(layer=-1)
        found += averaged(last.values, f"log10 residual after {int(last['layer'])} layers, {name}", choices)
    return found


def _grid(*, layers: int, seeds: int) -> Grid:
    return Grid(
        axes=(Axis("network", NETWORKS, "network", "names"),),
        along=(Axis("layer", tuple(range(layers + 1)), "layer"),),
        seeds=seeds,
        fixed={"tokens": 32, "dim": 64, "heads": 4, "spread": 1.0},
    )


PRESET = Preset(
    name="attention-networks",
    title="Pure attention networks, layer by layer",
    question="How fast do the rows of an attention network become one, and what slows it?",
    source="Dong, Cordonnier and Loukas 2021",
    differs=(
        "Another, discrete architecture than the rest of this package: several heads, weights drawn anew in every "
        "layer, no time and no sphere unless the norm is there.",
        "The paper bounds the residual of attention alone by a power 3^L and draws trained encoders; here the exact "
        "power of one layer is measured for random weights, and residuals are followed far below rounding by carrying "
        "differences of rows.",
        "The residual is taken about the mean row rather than about the best one.",
    ),
    method="Rows are carried as a mean row and deviations, so that their differences keep all digits down to 1e-300. "
    "The residual is the size of the deviations over that of the rows, in the Frobenius and in the paper's composite "
    "norm. The order of a layer is read off two deviations of one shape, one a tenth of the other.",
    limits=(
        "Weights are random, as at initialization; nothing is said of trained networks.",
        "A skip connection takes the third power away, not the approach: residuals may still fall layer by layer.",
        "A causal mask, positions and learned sinks are absent.",
    ),
    full=_grid(layers=48, seeds=64),
    quick=_grid(layers=12, seeds=16),
    results=(
        Result(
            name="log_residual", dims=("seed", "layer"), symbol="log10 |E|/|X|",
            definition="decimal logarithm of the Frobenius norm of the deviations from the mean row over that of the "
            "rows",
            undefined="below 1e-300", highest=0.0,
        ),
        Result(
            name="log_composite_residual", dims=("seed", "layer"), symbol="log10 |E|/|X|, composite",
            definition="the same with the square root of largest column sum times largest row sum as the norm",
            undefined="below 1e-300",
        ),
        Result(
            name="order", dims=("seed",), symbol="p",
            definition="power p with which the residual after one layer follows a small residual before it",
        ),
    ),
    measure=measure,
    cost=lambda cell: 4e-3 * max(cell["layer"]),
    findings=findings,
)  # fmt: skip
