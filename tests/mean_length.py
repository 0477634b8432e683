"""A small diagram for tests: the squared mean direction of independent uniform tokens, whose mean is 1/T."""

import numpy as np

from armillary.estimates import estimate
from armillary.studies.diagram.declaration import SEED, Axis, Finding, Grid, Preset, Result


def measure(cell, seeds):
    lengths = np.empty((len(seeds), len(cell["share"])))
    for k, seed in enumerate(seeds):
        rows = np.random.default_rng([seed, cell["tokens"], cell["dim"]]).standard_normal((cell["tokens"], cell["dim"]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        counts = [max(1, round(share * len(rows))) for share in cell["share"]]
        lengths[k] = [(rows[:count].mean(axis=0) ** 2).sum() for count in counts]
    return {"squared_mean": lengths[:, -1], "in_share": lengths.mean(axis=0)}


def findings(dataset, choices):
    values = dataset["squared_mean"].sel(tokens=64, dim=3).values
    return [Finding.of(estimate(values, **choices), "64 tokens", expected=1 / 64, source="independent draws")]


GRID = Grid(
    axes=(Axis("tokens", (4, 16, 64), "tokens T", "log"), Axis("dim", (3, 5), "dimension d")),
    seeds=20,
    along=(Axis("share", (0.25, 0.5, 1.0), "share of the tokens"),),
)

PRESET = Preset(
    name="mean-length",
    title="The mean direction of random tokens",
    question="How long is the mean of independent uniform tokens?",
    source="a law of independent draws",
    differs=("Nothing was published.",),
    method="Tokens are drawn; nothing moves.",
    limits=("Real tokens are not independent.",),
    full=GRID,
    quick=GRID,
    results=(
        Result(
            name="squared_mean",
            dims=(SEED,),
            symbol="|mean|^2",
            definition="squared length of the mean token",
            lowest=0.0,
            highest=1.0,
        ),
        Result(name="in_share", dims=("share",), symbol="mean", definition="mean over systems of the same of a share"),
    ),
    measure=measure,
    cost=lambda cell: 1e-5 * cell["tokens"],
    findings=findings,
)
