"""Where tokens would move if nothing held them to the sphere: attention, MLP, injection, frequencies, and their sums.

A drift maps time and directions to a velocity in the surrounding space, row by row of the same shape. Drifts are added
with `+` and scaled by numbers; what holds tokens to the sphere is the business of `normalization`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from armillary.dynamics.attention import Full, Mask, RowRule
from armillary.dynamics.heads import Heads
from armillary.errors import ArgumentError

__all__ = [
    "AdditivePositions",
    "AttentionDrift",
    "Drift",
    "Frequencies",
    "Injection",
    "Layered",
    "MLPDrift",
    "Noise",
    "RotaryPositions",
    "Scaled",
    "Sum",
]


class Drift:
    """What every drift can do: be evaluated, added, scaled, and say what it is."""

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The proposed velocity.

        Args:
            rows: What the drift reads, `*batch tokens dim`: directions, wherever a norm is part of the field.
            multiplicity: How many original tokens each row stands for, `*batch tokens`; None for one each.

        Returns:
            `*batch tokens dim`.
        """
        raise NotImplementedError

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The drift up to multiples of each row itself: all that matters for a motion along the sphere."""
        return self(rows, multiplicity)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Times at which the drift changes."""
        return ()

    def during(self, start: float) -> Drift:
        """The drift from time `start` on, until the next breakpoint."""
        return self

    @property
    def terms(self) -> tuple[tuple[float, Drift], ...]:
        """Factors and elementary drifts whose sum this is."""
        return ((1.0, self),)

    @property
    def noise(self) -> float:
        """Strength of the noise that belongs to the drift; 0 for none."""
        return 0.0

    def check(self, tokens: int, dim: int) -> None:
        """Refuse configurations that the drift does not fit.

        Raises:
            ArgumentError: Wrong number of tokens or dimension.
        """

    def __add__(self, other: Drift) -> Drift:
        return Sum((*self.terms, *other.terms))

    def __mul__(self, factor: float) -> Drift:
        return Scaled(self, float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> Drift:
        return Scaled(self, -1.0)

    def __sub__(self, other: Drift) -> Drift:
        return self + (-other)


@dataclass(frozen=True, eq=False)
class Sum(Drift):
    """A sum of drifts with factors."""

    parts: tuple[tuple[float, Drift], ...]

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The sum of the parts."""
        total = torch.zeros_like(rows)
        for factor, part in self.parts:
            total = total + factor * part(rows, multiplicity)
        return total

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The sum of those of the parts."""
        total = torch.zeros_like(rows)
        for factor, part in self.parts:
            total = total + factor * part.toward_others(rows, multiplicity)
        return total

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Those of all parts."""
        return tuple(sorted({time for _, part in self.parts for time in part.breakpoints}))

    def during(self, start: float) -> Drift:
        """The sum of what the parts are from `start` on."""
        return Sum(tuple((factor, part.during(start)) for factor, part in self.parts))

    @property
    def terms(self) -> tuple[tuple[float, Drift], ...]:
        """All elementary parts."""
        return tuple((outer * inner, term) for outer, part in self.parts for inner, term in part.terms)

    @property
    def noise(self) -> float:
        """Independent noises add in square."""
        return math.sqrt(sum((factor * part.noise) ** 2 for factor, part in self.parts))

    def check(self, tokens: int, dim: int) -> None:
        """Every part must fit."""
        for _, part in self.parts:
            part.check(tokens, dim)

    def __str__(self) -> str:
        return " + ".join(f"{factor:g} x ({part})" if factor != 1 else str(part) for factor, part in self.parts)


@dataclass(frozen=True, eq=False)
class Scaled(Drift):
    """A drift times a number: negative numbers turn attraction into repulsion."""

    drift: Drift
    factor: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor):
            raise ArgumentError(f"A drift's factor must be finite, but it is {self.factor}. Take a finite number.")

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The drift times the factor."""
        return self.factor * self.drift(rows, multiplicity)

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """That of the drift, times the factor."""
        return self.factor * self.drift.toward_others(rows, multiplicity)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Those of the drift."""
        return self.drift.breakpoints

    def during(self, start: float) -> Drift:
        """The same multiple of what the drift is from `start` on."""
        return Scaled(self.drift.during(start), self.factor)

    @property
    def terms(self) -> tuple[tuple[float, Drift], ...]:
        """Those of the drift, scaled."""
        return tuple((self.factor * inner, term) for inner, term in self.drift.terms)

    @property
    def noise(self) -> float:
        """That of the drift, scaled."""
        return abs(self.factor) * self.drift.noise

    def check(self, tokens: int, dim: int) -> None:
        """The drift must fit."""
        self.drift.check(tokens, dim)

    def __str__(self) -> str:
        return f"{self.factor:g} x ({self.drift})"


@dataclass(frozen=True)
class RotaryPositions:
    """Queries and keys are rotated, pair of coordinates by pair, by position times base^(-2k / head_dim).

    Source: Su et al. 2021; the half-split layout of the Llama family.
    """

    base: float = 10_000.0

    def rotated(self, rows: Tensor) -> Tensor:
        """Rows `... tokens head_dim` rotated by their positions 0, 1, 2, ..."""
        half = rows.shape[-1] // 2
        if rows.shape[-1] % 2:
            raise ArgumentError(
                f"Argument `heads` must have an even head dimension under rotary positions, but it is "
                f"{rows.shape[-1]}. "
                "Take an even one."
            )
        place = torch.arange(rows.shape[-2], dtype=rows.dtype, device=rows.device)
        pace = self.base ** (-torch.arange(half, dtype=rows.dtype, device=rows.device) / half)
        angle = place[:, None] * pace
        first, second = rows[..., :half], rows[..., half:]
        return torch.cat(
            [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], dim=-1
        )


@dataclass(frozen=True, eq=False)
class AdditivePositions:
    """Queries and keys read x_i + p_i; values read x_i.

    Args:
        vectors: p, `tokens dim`.
    """

    vectors: Tensor


@dataclass(frozen=True, eq=False)
class AttentionDrift(Drift):
    """Attention: drift_i = sum over heads of W_O sum_j A_ij W_V x_j, A from the scores x_i . W_Q^T W_K x_j.

    Args:
        rule: How scores become weights.
        mask: Who may be looked at.
        heads: The matrices; None means identity ones: scores are overlaps, values the tokens themselves.
        positions: Rotary or additive; None for none.
    """

    rule: RowRule
    mask: Mask = field(default_factory=Full)
    heads: Heads | None = None
    positions: RotaryPositions | AdditivePositions | None = None

    def weights(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Attention weights.

        Args:
            rows: `*batch tokens dim`.
            multiplicity: `*batch tokens`, or None.

        Returns:
            `*batch tokens tokens` without heads, `*batch heads tokens tokens` with them.
        """
        allowed = self.mask.allowed(rows.shape[-2], rows.device)
        heads = None if self.heads is None else self.heads.to(rows)
        if heads is not None and multiplicity is not None:
            multiplicity = multiplicity[..., None, :]
        return self.rule.weights(self._scores(rows, heads), allowed, multiplicity)

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output of each token."""
        weights = self.weights(rows, multiplicity)
        if self.heads is None:
            return weights @ rows
        heads = self.heads.to(rows)
        repeated = heads.value.repeat_interleave(heads.count // len(heads.value), 0)
        mixed = weights @ (rows[..., None, :, :] @ repeated.mT)
        return (mixed @ heads.output.mT).sum(-3)

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output without what a token takes of itself, which has no part along the sphere.

        At large beta a lone token gives itself nearly all its weight; left out, what others pull with keeps its digits.
        """
        if self.heads is not None:
            return self(rows, multiplicity)
        weights = self.weights(rows, multiplicity)
        return (weights - torch.diag_embed(weights.diagonal(dim1=-2, dim2=-1))) @ rows

    def check(self, tokens: int, dim: int) -> None:
        """Heads and positions must be made for rows of this size."""
        if self.heads is not None and self.heads.dim != dim:
            raise ArgumentError(
                f"Argument `heads` must act on dimension {dim}, but it acts on {self.heads.dim}. Make heads of the "
                "dimension of the tokens."
            )
        if isinstance(self.positions, AdditivePositions) and tuple(self.positions.vectors.shape) != (tokens, dim):
            raise ArgumentError(
                f"Argument `positions` must hold one vector for each of {tokens} tokens in dimension {dim}, but has "
                f"shape {list(self.positions.vectors.shape)}. Give [tokens, dim]."
            )

    def _scores(self, rows: Tensor, heads: Heads | None) -> Tensor:
        read = rows + self.positions.vectors.to(rows) if isinstance(self.positions, AdditivePositions) else rows
        if heads is None:
            queries = keys = read
        else:
            queries = read[..., None, :, :] @ heads.query.mT
            keys = read[..., None, :, :] @ heads.key.mT
            keys = keys.repeat_interleave(heads.count // len(heads.key), -3)
        if isinstance(self.positions, RotaryPositions):
            queries, keys = self.positions.rotated(queries), self.positions.rotated(keys)
        return queries @ keys.mT

    def __str__(self) -> str:
        heads = "identity" if self.heads is None else f"{self.heads.count} given"
        more = "" if self.positions is None else f", {type(self.positions).__name__}"
        return f"attention ({self.rule}; {self.mask}; {heads} heads{more})"


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


@dataclass(frozen=True, eq=False)
class Layered(Drift):
    """A drift that changes layer by layer: drift k acts from starts[k] until starts[k + 1].

    Args:
        drifts: One a layer.
        starts: When each begins, ascending, the first at 0.
    """

    drifts: Sequence[Drift]
    starts: Sequence[float]

    def __post_init__(self) -> None:
        ascending = all(later > earlier for earlier, later in pairwise(self.starts))
        if len(self.drifts) != len(self.starts) or not self.drifts or self.starts[0] != 0 or not ascending:
            raise ArgumentError(
                f"Arguments `drifts` and `starts` must be equally long, with starts ascending from 0, but there are "
                f"{len(self.drifts)} drifts and starts {list(self.starts)}. Give one start a drift."
            )

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Refused: which drift acts depends on the time; `during` names it."""
        raise ArgumentError("A layered drift must be asked `during(start)` first. `flow` does so.")

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where the next layer begins."""
        inner = {time for drift in self.drifts for time in drift.breakpoints}
        return tuple(sorted({*self.starts[1:], *inner}))

    def during(self, start: float) -> Drift:
        """The drift of the layer that acts from `start` on."""
        index = max(k for k, begin in enumerate(self.starts) if begin <= start)
        return self.drifts[index].during(start)

    def check(self, tokens: int, dim: int) -> None:
        """Every layer must fit."""
        for drift in self.drifts:
            drift.check(tokens, dim)

    def __str__(self) -> str:
        return f"{len(self.drifts)} layers of drifts"
