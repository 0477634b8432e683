"""A regularizer: a penalty at declared layers with a strength that may warm up, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.training.penalty import Penalty
from armillary.training.tapping import TappedStates, tap

__all__ = ["PenaltyCost", "Regularizer", "penalty_cost"]


@dataclass(frozen=True, kw_only=True)
class Regularizer:
    """What is added to a loss: strength(step) times the mean of a penalty over layers.

    Attributes:
        penalty: What keeps tokens apart.
        layers: Where: 0 for the embedding, l for the stream after block l.
        strength: Its factor once it is warm, not negative; at 0 nothing is computed.
        warm_up: Over how many steps the factor grows from 0 in a straight line.

    Raises:
        ArgumentError: A strength that is negative or not finite, no layer, or a negative warm-up.
    """

    penalty: Penalty
    layers: tuple[int, ...]
    strength: float
    warm_up: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.strength) and self.strength >= 0):
            raise ArgumentError(
                f"Argument `strength` must be finite and not negative, but it is {self.strength}: a negative one would "
                "pull tokens together. Write strength=0.1."
            )
        if not self.layers or self.warm_up < 0:
            raise ArgumentError(
                "Arguments `layers` and `warm_up` must hold a layer and be at least 0, but they are "
                f"{list(self.layers)} and {self.warm_up}. Write layers=(2, 3), warm_up=100."
            )

    def strength_at(self, step: int) -> float:
        """The factor at a step, counted from 0: strength times min(1, step / warm_up).

        Args:
            step: How many optimizer steps were taken before.
        """
        return self.strength * (min(1.0, step / self.warm_up) if self.warm_up else 1.0)

    def tap(self, model: Any) -> AbstractContextManager[TappedStates]:
        """A tap on its layers; see `tap`.

        Args:
            model: The model in training.
        """
        return tap(model, self.layers)

    def __call__(self, states: Tensor | Mapping[int, Tensor], *, step: int, mask: Tensor | None = None) -> Tensor:
        """What is to be added to the loss.

        Args:
            states: Of its layers, as the tap yields them.
            step: How many optimizer steps were taken before.
            mask: `*batch tokens`, not zero where a token takes part.
        """
        factor = self.strength_at(step)
        if factor == 0:
            first = next(iter(states.values())) if isinstance(states, Mapping) else states
            return first.new_zeros(())
        return factor * self.penalty(states, mask=mask)

    def blame(
        self, loss: Tensor, states: Tensor | Mapping[int, Tensor], *, step: int, mask: Tensor | None = None
    ) -> str:
        """Which part of a loss with its penalty is not finite, in words.

        Args:
            loss: Without the penalty.
            states: As for the penalty.
            step: How many optimizer steps were taken before.
            mask: As for the penalty.
        """
        each = states if isinstance(states, Mapping) else {self.layers[0]: states}
        with torch.no_grad():  # at every layer first: a gathered penalty is asked in all processes
            values = {layer: float(self.penalty(rows, mask=mask)) for layer, rows in each.items()}
        plain, bad = float(loss.detach()), [layer for layer, value in values.items() if not math.isfinite(value)]
        if not math.isfinite(plain):
            return f"the loss itself is {plain}"
        if bad:
            places = f"layer{'s' if len(bad) > 1 else ''} {', '.join(map(str, bad))}"
            return f"the penalty {self.penalty} is {values[bad[0]]} at {places} (the loss itself is {plain:.4g})"
        return (
            f"{self.strength_at(step):g} times the penalty {self.penalty} is not finite here or in another process "
            f"(the penalty is {sum(values.values()) / len(values):.4g}, the loss itself {plain:.4g})"
        )

    def __str__(self) -> str:
        layers = ", ".join(map(str, self.layers))
        warm = f", warm after {self.warm_up} steps" if self.warm_up else ""
        return f"{self.strength:g} x {self.penalty} at layer{'s' if len(self.layers) > 1 else ''} {layers}{warm}"


@dataclass(frozen=True)
class PenaltyCost:
    """What a penalty costs at one layer and one step, forward and backward.

    Attributes:
        products: Multiply-adds of matrix products.
        memory: Bytes held at once beyond the states, in float32.
        share: Its products over those of training a decoder of `layers` blocks of this width (36 d^2 + 6 T d a token
            and block), or NaN where no number of blocks was given.
    """

    products: int
    memory: int
    share: float

    def __str__(self) -> str:
        share = "" if math.isnan(self.share) else f", {100 * self.share:.1f} % of a training step's"
        return f"{self.products / 1e6:.3g} million multiply-adds a step and layer{share}, {self.memory / 2**20:.1f} MiB"


def penalty_cost(penalty: Penalty, *, documents: int, tokens: int, dim: int, blocks: int | None = None) -> PenaltyCost:
    """An estimate of what a penalty costs, from its shape alone; `benchmarks/regularizer_cost.py` measures it.

    Pairs cost 3 T^2 d (one product forward, two backward), a fourth where tiles are computed again; a covariance 3 T
    d^2; the mean direction nothing of that order.

    Args:
        penalty: Which.
        documents: In a batch.
        tokens: T of each.
        dim: d.
        blocks: Of the decoder, to tell a share.
    """
    from armillary.training.pair_sums import TILE

    batch, rows = (1, documents * tokens) if penalty.over == "batch" else (documents, tokens)
    small = penalty.name in ("participation_rank", "covariance") and dim <= rows
    held = 0 if penalty.name in ("mean_direction", "variance") else batch * (dim**2 if small else rows**2)
    tiled = not small and held > TILE
    each = rows * dim**2 if small else rows**2 * dim
    products = 0 if not held else batch * each * (4 if tiled else 3)
    whole = 0 if blocks is None else documents * tokens * blocks * (36 * dim**2 + 6 * tokens * dim)
    memory = 4 * (3 * min(held, TILE) + 3 * batch * rows * dim)
    return PenaltyCost(products, memory, products / whole if whole else math.nan)
