"""The neurons of the MLPs in another order or at another scale, where the activation allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import generator_of
from armillary.models.gauges.parts import Affine
from armillary.models.gauges.wiring import BlockWiring, Wiring
from armillary.transformations.linear import DiagonalGain, FeaturePermutation

__all__ = ["NeuronPermutation", "NeuronScaling", "UpDownScaling", "scaled_neurons"]


@dataclass(frozen=True)
class NeuronPermutation(Gauge):
    """Neurons renumbered: rows of what writes them, columns of what reads them.

    Args:
        seed: of the draws.
    """

    seed: int
    name: ClassVar[str] = "neuron-permutation"
    reach: ClassVar[dict[str, Reach]] = {"neuron": Reach("coordinates in another order", (FeaturePermutation(0),))}

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> NeuronPermutation:
        """One draw."""
        return cls(seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"neurons in another order, seed {self.seed}"

    def apply(self, wiring: Wiring) -> None:
        """Permute."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            order = torch.randperm(len(block.up.matrix), generator=generator).to(block.up.matrix.device)
            for affine in (block.up, block.gate):
                if affine is not None:
                    affine.map_outputs(lambda rows, order=order: rows[..., order])  # type: ignore[misc]
            block.down.map_rows(lambda rows, order=order: rows[..., order])  # type: ignore[misc]


@dataclass(frozen=True)
class NeuronScaling(Gauge):
    """What enters each neuron times a positive number, what leaves it divided by that number.

    Formula: f(r z) / r = f(z) for r > 0, which the activation must have, as relu does; it is tried on numbers.

    Args:
        spread: standard deviation of log r.
        seed: of the draws.
    """

    spread: float
    seed: int
    name: ClassVar[str] = "neuron-scaling"
    reach: ClassVar[dict[str, Reach]] = {
        "neuron": Reach("each coordinate times a positive number", (DiagonalGain(torch.ones(1)),))
    }

    def __post_init__(self) -> None:
        _check_spread(self.spread)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> NeuronScaling:
        """Spread 1/2."""
        return cls(0.5, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"neurons times positive numbers of log-spread {self.spread:g}, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """A gate, or an activation that knows its scale."""
        if wiring.blocks[0].gate is not None:
            return "its MLPs are gated: see up-down-scaling"
        off = inhomogeneity(wiring.blocks[0].activation)
        return None if off < 1e-12 else f"its activation f knows its scale: f(2z) and 2 f(z) are up to {off:.2g} apart"

    def apply(self, wiring: Wiring) -> None:
        """Scale."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            noise = torch.randn(len(block.up.matrix), generator=generator, dtype=torch.float64)
            scaled_neurons(block, (self.spread * noise).exp())


@dataclass(frozen=True)
class UpDownScaling(Gauge):
    """In a gated MLP: what the gate multiplies times a number of any sign, what leaves the neuron divided by it.

    Formula: (f(g) * (r u)) / r = f(g) * u.

    Args:
        spread: standard deviation of log |r|; signs are random.
        seed: of the draws.
    """

    spread: float
    seed: int
    name: ClassVar[str] = "up-down-scaling"
    reach: ClassVar[dict[str, Reach]] = {
        "neuron": Reach("each coordinate times a number of either sign", (DiagonalGain(torch.ones(1)),))
    }

    def __post_init__(self) -> None:
        _check_spread(self.spread)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> UpDownScaling:
        """Spread 1/2."""
        return cls(0.5, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"neurons behind the gate times numbers of either sign and log-spread {self.spread:g}, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """No gate."""
        return "its MLPs have no gate" if wiring.blocks[0].gate is None else None

    def apply(self, wiring: Wiring) -> None:
        """Scale."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            noise = torch.randn(2, len(block.up.matrix), generator=generator, dtype=torch.float64)
            scaled_neurons(block, (self.spread * noise[0]).exp() * noise[1].sign())


def inhomogeneity(activation: Callable[[Tensor], Tensor]) -> float:
    """Largest departure of f(2z) from 2 f(z) for z within [-4, 4]; zero for relu and its leaky kin."""
    z = torch.linspace(-4, 4, 801, dtype=torch.float64)
    return float((activation(2 * z) - 2 * activation(z)).abs().max())


def scaled_neurons(block: BlockWiring, factor: Tensor) -> None:
    """Rows of `up` times the factor, columns of `down` divided by it; `neurons`."""
    by = factor.to(block.up.matrix)
    up: Affine = block.up
    up.map_outputs(lambda rows: rows * by)
    block.down.map_rows(lambda rows: rows / by)


def _check_spread(spread: float) -> None:
    if not 0 < spread < 10:
        raise ArgumentError(f"Argument `spread` must lie in (0, 10), but it is {spread}. Use for example 0.5.")
