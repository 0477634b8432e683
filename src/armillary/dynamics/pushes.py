"""What moves a token besides attention: an MLP, an injected vector, a natural frequency, noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.drifts import Drift
from armillary.errors import ArgumentError

__all__ = ["Frequencies", "Injection", "MLPDrift", "Noise"]


@dataclass(frozen=True, eq=False)
class MLPDrift(Drift):
    """A map applied to each token by itself.

    Args:
        function: `*batch tokens dim` to the same shape: any callable, a torch module for instance.
        name: What it is called in words.
    """

    function: Callable[[Tensor], Tensor]
    name: str = "MLP"

    @classmethod
    def of_weights(cls, up: Tensor, down: Tensor, *, activation: Callable[[Tensor], Tensor] = torch.relu) -> MLPDrift:
        """X -> down activation(up x), with `up` `hidden dim` and `down` `dim hidden`."""
        return cls(lambda rows: activation(rows @ up.to(rows).mT) @ down.to(rows).mT)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The function's value at each token."""
        found = self.function(rows)
        if found.shape != rows.shape:
            raise ArgumentError(
                f"Argument `function` must return the shape {list(rows.shape)} that it is given, but returns "
                f"{list(found.shape)}. A drift moves every token in its own space."
            )
        return found

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Injection(Drift):
    """The same vector is added to each token at all times.

    Args:
        vectors: z, `tokens dim`.
    """

    vectors: Tensor

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """z, whatever the rows are."""
        return self.vectors.to(rows).expand_as(rows)

    def check(self, tokens: int, dim: int) -> None:
        """One vector a token."""
        if tuple(self.vectors.shape[-2:]) != (tokens, dim):
            raise ArgumentError(
                f"Argument `vectors` must be [{tokens}, {dim}], one vector a token, but has shape "
                f"{list(self.vectors.shape)}. Give one for each."
            )

    def __str__(self) -> str:
        return "injection"


@dataclass(frozen=True, eq=False)
class Frequencies(Drift):
    """Every token turns by a generator of its own: x_i' = Omega_i x_i with Omega_i antisymmetric (natural frequencies).

    Args:
        generators: `tokens dim dim`, antisymmetric.
    """

    generators: Tensor

    def __post_init__(self) -> None:
        if self.generators.ndim != 3 or float((self.generators + self.generators.mT).abs().max()) > 1e-12:
            raise ArgumentError(
                "Argument `generators` must be antisymmetric, [tokens, dim, dim], but it is not. Take "
                "Frequencies.on_circle(rates) in two dimensions, or (M - M^T) / 2."
            )

    @classmethod
    def on_circle(cls, rates: Tensor) -> Frequencies:
        """Angular velocities on the circle, one a token (radians per unit of time)."""
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
        return cls(rates.double()[:, None, None] * turn)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Omega_i x_i."""
        return (self.generators.to(rows) @ rows[..., None])[..., 0]

    def check(self, tokens: int, dim: int) -> None:
        """One generator a token."""
        if tuple(self.generators.shape) != (tokens, dim, dim):
            raise ArgumentError(
                f"Argument `generators` must be [{tokens}, {dim}, {dim}], but has shape {list(self.generators.shape)}. "
                "Give one a token."
            )

    def __str__(self) -> str:
        return "natural frequencies"


@dataclass(frozen=True, eq=False)
class Noise(Drift):
    """Tangential noise sqrt(2 strength) P_i dW_i in the sense of Stratonovich: Brownian motion on the sphere.

    In the sense of Ito the same process has the further drift -(d - 1) strength x_i.

    Args:
        strength: Diffusion constant, at least 0.
    """

    strength: float

    def __post_init__(self) -> None:
        if not self.strength >= 0 or not math.isfinite(self.strength):
            raise ArgumentError(
                f"Argument `strength` must be at least 0 and finite, but it is {self.strength}. Take 0.1."
            )

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Zero: noise has no mean velocity in the sense of Stratonovich."""
        return torch.zeros_like(rows)

    @property
    def noise(self) -> float:
        """sqrt(2 strength), what multiplies the increments of Brownian motion."""
        return math.sqrt(2.0 * self.strength)

    def __str__(self) -> str:
        return f"noise of strength {self.strength:g}"
