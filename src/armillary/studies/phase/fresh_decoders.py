"""Fresh decoders of many sizes: what depth, width and heads do to alignment before any training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import estimate
from armillary.oracles import wide_limit
from armillary.studies.diagram.declaration import SEED, Axis, Cell, Finding, Grid, Preset, Result

if TYPE_CHECKING:
    import xarray

    from armillary.oracles.wide_limit import Block

__all__ = ["PRESET", "measure", "predicted"]

EPSILON = 1e-5
HIDDEN = 4  # hidden units of the MLP over the width


def measure(cell: Cell, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Mean overlap and participation rank after the last block of a decoder drawn afresh, on different random tokens.

    Args:
        cell: width, layers, heads, recipe; tokens.
        seeds: One decoder each.
    """
    import torch

    from armillary.observables.alignment import mean_overlap
    from armillary.observables.rank import participation_rank
    from armillary.studies.resistance.climbing import OwnStep, climb

    found: dict[str, list[float]] = {"mean_overlap": [], "participation_rank": []}
    for seed in seeds:
        draw = torch.Generator().manual_seed(int(seed))
        spread = _spread(cell)
        start = spread * torch.randn(1, int(cell["tokens"]), int(cell["width"]), generator=draw)
        blocks = [partial(_as_is, _block(cell, draw)) for _ in range(int(cell["layers"]))]
        with torch.inference_mode():
            *_, (_, last) = climb(start, blocks, OwnStep())
        found["mean_overlap"].append(float(mean_overlap.after("normalize")(last[0])))
        found["participation_rank"].append(float(participation_rank.after("normalize")(last[0])))
    return {name: np.asarray(values) for name, values in found.items()}


def predicted(*, width: int, layers: int, spread: float, tokens: int, scores: float) -> tuple[float, float]:
    """Overlap and participation rank that the wide-limit recursion gives for such a decoder.

    Args:
        width: Of the stream.
        layers: Blocks.
        spread: Standard deviation of all matrices.
        tokens: In the document, all different.
        scores: Standard deviation of the scores.
    """
    gain = width * spread**2
    block: Block = wide_limit.Block(
        attention=wide_limit.Averaging(value=gain, output=gain, score_spread=scores),
        feed_forward=wide_limit.FeedForward(into=gain, out=HIDDEN * gain, activation="gelu"),
        epsilon=EPSILON,
    )
    grams = wide_limit.stream_grams(wide_limit.embedding_gram(range(tokens), token=spread**2), [block] * layers)
    return wide_limit.mean_overlap(grams[-1]), wide_limit.participation_rank(grams[-1], width)


def _spread(cell: Cell) -> float:
    return float(cell["width"]) ** -0.5 if cell["recipe"] == "1/sqrt width" else 0.02


def _as_is(one: Any) -> Any:
    """Blocks are made before the climb."""
    return one


def _block(cell: Cell, draw: Any) -> tuple[Any, Any]:
    import torch

    from armillary.dynamics.attention import Causal
    from armillary.dynamics.circuits import CircuitDrift, GivenScores, GivenValues
    from armillary.dynamics.normalization import RMSNorm
    from armillary.dynamics.pushes import MLPDrift

    width, heads, spread, read = int(cell["width"]), int(cell["heads"]), _spread(cell), RMSNorm(eps=EPSILON)
    size = width // heads

    def drawn(*shape: int) -> Any:
        return spread * torch.randn(*shape, generator=draw)

    scores = GivenScores(drawn(heads, size, width), drawn(heads, size, width), size**-0.5, read=read)
    values = GivenValues(drawn(heads, size, width), drawn(heads, width, size), read=read)
    mlp = MLPDrift.of_weights(
        drawn(HIDDEN * width, width), drawn(width, HIDDEN * width), activation=torch.nn.functional.gelu
    )
    return CircuitDrift(scores, values, Causal()), MLPDrift(lambda rows: mlp(read(rows)))


def findings(dataset: xarray.Dataset, choices: Mapping[str, Any]) -> list[Finding]:
    """Mean overlap of the largest width for every depth and recipe, beside the wide-limit recursion."""
    found, width = [], int(dataset["width"].values[-1])
    heads = int(dataset["heads"].values[0])
    for recipe in dataset["recipe"].values.tolist():
        for layers in dataset["layers"].values.tolist():
            values = dataset["mean_overlap"].sel(width=width, heads=heads, recipe=recipe, layers=layers).values
            if len(values) < 2 or not np.isfinite(values).all():
                continue
            spread = _spread({"width": width, "recipe": recipe})
            gain = width * spread**2
            law, _ = predicted(width=width, layers=layers, spread=spread, tokens=TOKENS, scores=gain)
            found.append(
                Finding.of(
                    estimate(values, **choices),
                    f"mean overlap after {layers} blocks, width {width}, {heads} heads, spread {recipe}",
                    expected=law if math.isfinite(law) else math.nan, source="wide-limit recursion",
                    note="A finite width departs from the limit.",
                )
            )  # fmt: skip
    return found


TOKENS = 64


def _grid(*, widths: tuple[int, ...], layers: tuple[int, ...], heads: tuple[int, ...], seeds: int) -> Grid:
    return Grid(
        axes=(
            Axis("recipe", ("0.02", "1/sqrt width"), "spread of all matrices", "names"),
            Axis("layers", layers, "blocks"),
            Axis("heads", heads, "heads"),
            Axis("width", widths, "width", "log"),
        ),
        seeds=seeds,
        fixed={"tokens": TOKENS},
        belongs=lambda cell: int(cell["width"]) % int(cell["heads"]) == 0,
    )


PRESET = Preset(
    name="fresh-decoders",
    title="Fresh decoders of many sizes",
    question="How do width, depth and number of heads change the alignment of tokens before any training?",
    source="an open question of the public discussion: varying architectural scales",
    differs=("Nothing was published over this grid.",),
    method=(
        "Decoders are drawn afresh as plain matrices: pre-norm blocks, causal attention without positions, an MLP of "
        "four times the width with GELU, every matrix Gaussian of one spread. Different random tokens pass; numbers "
        "are those after the last block, rows normalized."
    ),
    limits=(
        "No positions, no gains, one document of different tokens: a family of decoders, and none in particular.",
        "Residual projections are not scaled down with depth.",
    ),
    full=_grid(widths=(64, 128, 256, 512, 1024), layers=(2, 6, 12, 24), heads=(1, 4, 16), seeds=12),
    quick=_grid(widths=(64, 256), layers=(2, 12), heads=(1, 4), seeds=6),
    results=(
        Result(
            name="mean_overlap", dims=(SEED,), symbol="c", definition="mean overlap over all pairs of tokens",
            lowest=-1.0, highest=1.0,
        ),
        Result(
            name="participation_rank", dims=(SEED,), symbol="R",
            definition="participation rank of the normalized rows", lowest=1.0,
        ),
    ),
    measure=measure,
    cost=lambda cell: 4e-9 * int(cell["layers"]) * int(cell["width"]) ** 2 * 12 + 0.01,
    findings=findings,
)  # fmt: skip
"""The article's open question on architectural scales."""
