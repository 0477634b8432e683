"""How many directions it takes: numbers of the decoder's states projected on k principal or random directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.alignment import mean_overlap
from armillary.observables.cloud import Cloud
from armillary.observables.rank import participation_rank
from armillary.records.assembly import Variable
from armillary.studies.plan import CENTERED, SPHERE

__all__ = ["KINDS", "Projections", "kept_directions", "projection_variables"]

KINDS = ("principal", "random")
_NUMBERS = {
    "projected_mean_overlap": mean_overlap.after(*SPHERE),
    "projected_participation_rank": participation_rank.after(*CENTERED),
}
_DIMS = ("layer", "projection", "directions", "document")
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def kept_directions(width: int) -> tuple[int, ...]:
    """How many directions are kept: powers of two, and all.

    Args:
        width: Of the stream.
    """
    powers = tuple(2**k for k in range(1, width.bit_length()) if 2**k < width)
    return (*powers, width)


def projection_variables() -> dict[str, Variable]:
    """Variables `layer projection directions document`, of the decoder as loaded."""
    return {
        name: Variable(
            _DIMS,
            {
                "symbol": one.observable.symbol,
                "definition": f"{one.observable.definition}; rows without the first token, projected on the principal "
                "directions of this document at this layer (not centered), or on random orthonormal ones, then "
                f"prepared: {one.preparation}",
                "source": "projection of states; at all directions the number itself",
                "undefined": "at layers other than the first, quarters of the depth and the last",
            },
        )
        for name, one in _NUMBERS.items()
    }


class Projections:
    """Numbers of projected states of one chunk, told the stream after every block.

    Args:
        layers: Measured layers.
        depth: Number of blocks.
        width: Of the stream.
        documents: In the chunk.
        seed: Of the random directions.
    """

    def __init__(self, *, layers: Sequence[int], depth: int, width: int, documents: int, seed: int) -> None:
        wanted = {min(layers, key=lambda layer: abs(layer - share * depth)) for share in _SHARES}
        self.rows = {layer: row for row, layer in enumerate(layers) if layer in wanted}
        self.kept = kept_directions(width)
        shape = (documents, len(layers), len(KINDS), len(self.kept))
        self.arrays = {name: np.full(shape, np.nan) for name in _NUMBERS}
        draw = torch.Generator().manual_seed(seed)
        self._random = torch.linalg.qr(torch.randn(width, width, generator=draw, dtype=torch.float64))[0]

    def add(self, tap: Tap, residual: Tensor) -> None:
        """Project the states of a chosen layer."""
        if tap.place != "block" or tap.layer not in self.rows:
            return
        row = self.rows[tap.layer]
        for document, states in enumerate(residual[:, 1:].double().cpu()):
            axes = torch.linalg.eigh(states.mT @ states)[1].flip(-1)
            for kind, frame in enumerate((axes, self._random)):
                turned = states @ frame
                for place, k in enumerate(self.kept):
                    cloud = Cloud(turned[:, :k])
                    for name, one in _NUMBERS.items():
                        self.arrays[name][document, row, kind, place] = float(one.of(cloud))
