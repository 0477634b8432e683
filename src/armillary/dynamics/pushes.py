"""What moves a token besides attention: an MLP, a perceptron, an injected vector, a natural frequency, noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.drifts import Drift
from armillary.errors import ArgumentError

__all__ = ["Frequencies", "Injection", "MLPDrift", "Noise", "Perceptron"]


@dataclass(frozen=True, eq=False)
class MLPDrift(Drift):
    """A map applied to each token by itself.

    Args:
        function: `*batch tokens dim` to the same shape: any callable, a torch module for instance.
        name: What it is called in words.
        dim: Dimension of the tokens that it is made for; None for any.
    """

    function: Callable[[Tensor], Tensor]
    name: str = "MLP"
    dim: int | None = None

    @classmethod
    def of_weights(cls, up: Tensor, down: Tensor, *, activation: Callable[[Tensor], Tensor] = torch.relu) -> MLPDrift:
        """X -> down activation(up x), with `up` `hidden dim` and `down` `dim hidden`.

        Raises:
            ArgumentError: The shapes do not fit together.
        """
        if up.ndim != 2 or down.ndim != 2 or up.shape != down.mT.shape:
            raise ArgumentError(
                f"Arguments `up` and `down` must be [hidden, dim] and [dim, hidden], but are {list(up.shape)} and "
                f"{list(down.shape)}. Transpose one of them."
            )
        return cls(lambda rows: activation(rows @ up.to(rows).mT) @ down.to(rows).mT, dim=int(up.shape[1]))

    def check(self, tokens: int, dim: int) -> None:
        """The weights are made for tokens of one dimension."""
        if self.dim not in (None, dim):
            raise ArgumentError(
                f"Argument `up` must be [hidden, {dim}] for tokens in dimension {dim}, but has {self.dim} columns. "
                "Take weights of the dimension of the tokens."
            )

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
class Perceptron(Drift):
    """An MLP that is a gradient: sum_k a_k relu(w_k . x) w_k, of the potential sum_k a_k relu(w_k . x)^2 / 2.

    Up and down matrices are tied, so that beside attention of constant mobility an energy remains.

    Args:
        directions: w, `hidden dim`.
        amplitudes: a, `hidden`, of any sign.

    Raises:
        ArgumentError: There is not one finite amplitude for each direction.

    Source: Alvarez-Lopez, Geshkovski, Ruiz-Balet 2026.
    """

    directions: Tensor
    amplitudes: Tensor

    def __post_init__(self) -> None:
        fits = self.directions.ndim == 2 and tuple(self.amplitudes.shape) == (len(self.directions),)
        if not fits or not bool(torch.isfinite(self.directions).all() and torch.isfinite(self.amplitudes).all()):
            raise ArgumentError(
                f"Arguments `directions` and `amplitudes` must be finite [hidden, dim] and [hidden], but are "
                f"{list(self.directions.shape)} and {list(self.amplitudes.shape)}. Give one amplitude a direction."
            )

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The gradient of the potential at each token."""
        w, a = self.directions.to(rows), self.amplitudes.to(rows)
        return (a * torch.relu(rows @ w.mT)) @ w

    def potential(self, rows: Tensor) -> Tensor:
        """The potential of each token, `*batch tokens`."""
        w, a = self.directions.to(rows), self.amplitudes.to(rows)
        return (a * torch.relu(rows @ w.mT).square()).sum(-1) / 2

    def check(self, tokens: int, dim: int) -> None:
        """Directions live where the tokens do."""
        if self.directions.shape[1] != dim:
            raise ArgumentError(
                f"Argument `directions` must be [hidden, {dim}], but has shape {list(self.directions.shape)}. Give one "
                "row a neuron, in the dimension of the tokens."
            )

    def __str__(self) -> str:
        return f"perceptron of {len(self.directions)} neurons"


@dataclass(frozen=True, eq=False)
class Injection(Drift):
    """The same vector is added to each token at all times: the gradient of z_i . x_i.

    Args:
        vectors: z, `tokens dim`.
    """

    vectors: Tensor

    def potential(self, rows: Tensor) -> Tensor:
        """z_i . x_i, `*batch tokens`."""
        return (self.vectors.to(rows) * rows).sum(-1)

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
