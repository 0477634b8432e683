"""Heads at work on real states: how sharp their scores are in units of overlap, and who opposes along their axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.models.matrices import PlainWeights
from armillary.records.assembly import Variable
from armillary.studies.resistance.sublayers import attention_drift
from armillary.studies.resistance.trial import axis_of

__all__ = ["HeadsAtWork", "head_variables"]

_DIMS = ("condition", "layer", "head", "document")

_WORDS = {
    "score_slope": (
        "beta",
        "slope of a head's scores against overlaps of the stream before the block, within rows: sum_i Cov_i(s, c) / "
        "sum_i Var_i(c) over the tokens that row i sees; beta for scores beta c_ij",
        {},
    ),
    "score_spread": (
        "sd(s)",
        "standard deviation of a head's scores over the tokens that a row sees, mean over rows from the third on",
        {"lowest": 0.0},
    ),
    "score_explained": (
        "R^2",
        "share of the variance of scores within rows that overlaps account for: 1 for scores beta c_ij",
        {"lowest": 0.0, "highest": 1.0},
    ),
    "axis_strength": (
        "d <p^2>",
        "mean square of the tokens' unit rows along the head's most attractive axis, times the width: 1 in an "
        "isotropic cloud",
        {"lowest": 0.0},
    ),
    "axis_minority": (
        "minority",
        "share of tokens on the less crowded side of the head's most attractive axis: 1/2 for balanced sides",
        {"lowest": 0.0, "highest": 0.5},
    ),
    "axis_two_points": (
        "<|p|>^2 / <p^2>",
        "how far tokens stand at two opposed points of the axis: 1 if all |p| are equal, 2/pi for a normal cloud",
        {"lowest": 0.0, "highest": 1.0},
    ),
}


def head_variables() -> dict[str, Variable]:
    """Variables `condition layer head document`, at the layer whose attention is meant."""
    return {
        name: Variable(
            _DIMS,
            {
                "symbol": symbol,
                "definition": words,
                "source": "least squares within rows; the axis is the top eigenvector of the symmetric part of W_O W_V",
                "undefined": "in rungs other than the decoder as loaded, and at the embedding",
                "tap": "attention",
                "tokens": "all" if name.startswith("score") else "without_first",
                "preparation": "normalize",
                **ends,
            },
        )
        for name, (symbol, words, ends) in _WORDS.items()
    }


class HeadsAtWork:
    """Numbers of every head on the states that it reads, told the stream after every block.

    Args:
        weights: The decoder's matrices.
        layers: Measured layers.
        documents: In the chunk.
    """

    def __init__(self, weights: PlainWeights, *, layers: Sequence[int], documents: int) -> None:
        self.weights = weights
        self.rows = {layer: row for row, layer in enumerate(layers)}
        heads = len(weights.blocks[0].attention.query)
        self.arrays = {name: np.full((documents, len(layers), heads), np.nan) for name in _WORDS}
        self._axes: dict[int, Tensor] = {}

    def add(self, tap: Tap, residual: Tensor) -> None:
        """Take the heads of the block that reads this state, if there is one."""
        layer = tap.layer + 1
        if tap.place != "block" or layer > len(self.weights.blocks) or layer not in self.rows:
            return
        unit = residual / residual.norm(dim=-1, keepdim=True)
        row = self.rows[layer]
        for name, values in {**self._scores(layer, residual, unit), **self._axis(layer, unit)}.items():
            self.arrays[name][:, row] = values.double().cpu().numpy()

    def _scores(self, layer: int, residual: Tensor, unit: Tensor) -> dict[str, Tensor]:
        block = self.weights.blocks[layer - 1]
        drift = attention_drift(
            block, scores=self.weights, values=None, at=layer - 1, reading="trained gains", positions="own",
            mask="causal",
        )  # fmt: skip
        scores = drift.scores.scores(residual).double()
        overlaps = (unit @ unit.mT).double()[:, None]
        seen = drift.mask.allowed(unit.shape[-2], unit.device)
        assert seen is not None
        seen = seen[2:].double()  # the first two rows see too little to have a slope
        s, c = (_within(one[..., 2:, :], seen) for one in (scores, overlaps))
        count = seen.sum(-1)
        both, of_c, of_s = ((a * b).sum((-2, -1)) for a, b in ((s, c), (c, c), (s, s)))
        spread = ((s * s).sum(-1) / count).sqrt().mean(-1)
        return {"score_slope": both / of_c, "score_spread": spread, "score_explained": both**2 / (of_c * of_s)}

    def _axis(self, layer: int, unit: Tensor) -> dict[str, Tensor]:
        if layer not in self._axes:
            block = self.weights.blocks[layer - 1]
            heads = range(len(block.attention.query))
            self._axes[layer] = torch.stack([axis_of(block, head) for head in heads])
        along = (unit[:, 1:].double() @ self._axes[layer].to(unit.device).mT).mT  # documents heads tokens
        square, positive = along.square().mean(-1), (along > 0).double().mean(-1)
        return {
            "axis_strength": unit.shape[-1] * square,
            "axis_minority": torch.minimum(positive, 1 - positive),
            "axis_two_points": along.abs().mean(-1).square() / square,
        }


def _within(values: Tensor, seen: Tensor) -> Tensor:
    """Values less their mean over what each row sees; zero where nothing is seen."""
    mean = (values * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)
    return (values - mean) * seen
