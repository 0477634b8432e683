"""A decoder before any training: what the architecture alone does to tokens, without data and without learning."""

from __future__ import annotations

from typing import Any

import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.dynamics.normalization import flat
from armillary.dynamics.pushes import MLPDrift
from armillary.models.configurations import configuration, drawn
from armillary.observables.alignment import mean_overlap
from armillary.sphere import normalize

__all__: list[str] = []


@check(
    "an untrained GPT-2 is not isotropic",
    "width 768, 64 distinct tokens: mean overlap 0.170 +- 0.015 after block 1, 0.565 +- 0.05 after block 12",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="1",
    seeds="0",
)
def _untrained(engine: Engine) -> Sides:
    model, kept = drawn(configuration("gpt2"), seed=0), []

    def keep(block: Any, given: Any, out: Any) -> None:
        kept.append((out[0] if isinstance(out, tuple) else out).reshape(64, -1).double())

    for block in (model.transformer.h[0], model.transformer.h[-1]):
        block.register_forward_hook(keep)
    ids = torch.randperm(model.config.vocab_size, generator=torch.Generator().manual_seed(0))[None, :64]
    with torch.no_grad():
        model(ids)
    small = [0.01 * normalize(rows) for rows in kept]  # of any length; a push of the engine's own shows on short ones
    seen = [engine.velocity(flat(MLPDrift(lambda x: x, "as it is")), rows) for rows in small]
    got = [float(mean_overlap.after("normalize")(rows)) for rows in seen]
    return Sides.of([0.170, 0.565], got, [0.015 / 3, 0.05 / 3])
