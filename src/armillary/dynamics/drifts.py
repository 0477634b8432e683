"""Where tokens would move if nothing held them to the sphere: what every drift can do, sums, multiples, layers.

A drift maps directions to a velocity in the surrounding space, row by row of the same shape. Drifts are added with `+`
and scaled by numbers; what holds tokens to the sphere is the business of `normalization`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from armillary.errors import ArgumentError

__all__ = ["Drift", "Layered", "Scaled", "Sum"]


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
