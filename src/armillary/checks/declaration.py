"""What a check is: a law with its formula, what it expects, what the engine gives, and how far apart they may be.

A check is a function of an `Engine`, the simulator under judgment. Tests hand it an engine that is wrong on purpose and
demand that the check misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from armillary.dynamics.flow import flow
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.stationary import growth_rates
from armillary.errors import ArgumentError, ArmillaryError
from armillary.sphere import uniform
from armillary.trajectory import Trajectory

__all__ = ["CHECKS", "Check", "Engine", "Sides", "Verdict", "check", "run_checks"]

Cost = Literal["fast", "all"]


@dataclass(frozen=True, eq=False)
class Engine:
    """The simulator under judgment.

    Attributes:
        bend: Applied to each field before it is used; the identity for the real engine.
        draw: Where independent uniform directions come from: (tokens, dim, seed) -> `tokens dim`.
    """

    bend: Callable[[VelocityField], VelocityField] = field(default=lambda given: given)
    draw: Callable[[int, int, int], Tensor] = field(
        default=lambda tokens, dim, seed: uniform(tokens=tokens, dim=dim, seed=seed)
    )

    def flow(self, given: VelocityField, start: Tensor, **options: Any) -> Trajectory:
        """A run of the bent field."""
        return flow(self.bend(given), start, **options)

    def velocity(self, given: VelocityField, configuration: Tensor) -> Tensor:
        """The velocity of the bent field at time 0."""
        return self.bend(given).during(0.0).velocity(0.0, configuration)

    def rates(self, given: VelocityField, configuration: Tensor) -> np.ndarray:
        """Growth rates of the bent field's linearization, descending."""
        return np.asarray(growth_rates(self.bend(given), configuration).numpy())


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a law.

    Attributes:
        expected: What the law says.
        got: What the engine gives, as many numbers.
        error: Standard errors where the numbers are sampled: the tolerance is then three of them.
    """

    expected: np.ndarray
    got: np.ndarray
    error: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        expected: Iterable[float] | float,
        got: Iterable[float] | float,
        error: Iterable[float] | float | None = None,
    ) -> Sides:
        """From numbers or sequences of them."""
        return cls(_array(expected), _array(got), None if error is None else _array(error))


def _array(numbers: Iterable[float] | float) -> np.ndarray:
    return np.atleast_1d(np.asarray(numbers, dtype=float))


@dataclass(frozen=True)
class Verdict:
    """One line of `armillary check`.

    Attributes:
        name: Of the law.
        formula: The law.
        expected: What it says, where the two sides are farthest apart.
        got: What the engine gave there.
        error: Their distance: absolute, or relative to what is expected, as the check declares.
        tolerance: What is allowed.
        passed: Whether the error is within it everywhere.
        count: How many numbers were compared.
        draws: How many independent draws a sampled number is a mean over, in words; empty where nothing is drawn.
        seeds: Of these draws, in words.
        raised: What the engine raised instead of an answer; empty where it answered.
    """

    name: str
    formula: str
    expected: float
    got: float
    error: float
    tolerance: float
    passed: bool
    count: int
    draws: str = ""
    seeds: str = ""
    raised: str = ""


@dataclass(frozen=True, eq=False)
class Check:
    """A declared check.

    Attributes:
        name: Of the law.
        formula: The law.
        tolerance: Allowed error; three standard errors where the sides carry them.
        relative: Whether the error is relative to what is expected.
        cost: "fast", or "all" for those that take longer.
        sides: Gives both sides.
        status: Of the law: exact, model-specific, estimate or candidate.
        draws: How many independent draws a sampled number is a mean over, in words; empty where nothing is drawn.
        seeds: Of these draws, in words.
    """

    name: str
    formula: str
    tolerance: float
    relative: bool
    cost: Cost
    sides: Callable[[Engine], Sides]
    status: str
    draws: str = ""
    seeds: str = ""

    def judged(self, engine: Engine) -> Verdict:
        """The verdict on an engine; what it raises, or makes the arithmetic raise, is a miss with infinite error."""
        try:
            sides = self.sides(engine)
        except (ArmillaryError, ArithmeticError, ValueError) as error:
            sides = Sides.of(math.nan, math.nan)
            return replace(self._verdict(sides), raised=str(error))
        return self._verdict(sides)

    def _verdict(self, sides: Sides) -> Verdict:
        if sides.expected.shape != sides.got.shape:
            raise ArgumentError(
                f"A check must compare as many numbers as it expects, but {self.name} expects {sides.expected.shape} "
                f"and "
                f"got {sides.got.shape}. Mend the check."
            )
        apart = np.abs(sides.got - sides.expected)
        if self.relative:
            apart = apart / np.abs(sides.expected)
        allowed = np.full_like(apart, self.tolerance) if sides.error is None else 3 * sides.error
        apart = np.where(np.isfinite(apart), apart, math.inf)
        share = np.where(allowed > 0, apart / np.where(allowed > 0, allowed, 1.0), np.where(apart > 0, math.inf, 0.0))
        worst = int(np.argmax(share))
        return Verdict(
            name=self.name,
            formula=self.formula,
            expected=float(sides.expected[worst]),
            got=float(sides.got[worst]),
            error=float(apart[worst]),
            tolerance=float(allowed[worst]),
            passed=bool((share <= 1).all()),
            count=int(apart.size),
            draws=self.draws,
            seeds=self.seeds,
        )


CHECKS: dict[str, Check] = {}
"""Every declared check by name, in the order of declaration."""


def check(
    name: str, formula: str, *, tolerance: float, cost: Cost = "fast", relative: bool = False, status: str = "exact",
    draws: str = "", seeds: str = "",
) -> Callable[[Callable[[Engine], Sides]], Check]:  # fmt: skip
    """Declares a function of an engine as a check.

    Args:
        name: Of the law, unique.
        formula: The law in one line.
        tolerance: Allowed error; where the sides carry standard errors, three of them count instead.
        cost: "fast", or "all" for what takes longer than a few seconds.
        relative: Whether the error is relative to what is expected.
        status: Of the law.
        draws: How many independent draws a sampled number is a mean over, in words.
        seeds: Of these draws, in words.
    """

    def declared(sides: Callable[[Engine], Sides]) -> Check:
        if name in CHECKS:
            raise ArgumentError(f"Argument `name` must be new, but there is a check {name!r}. Name it otherwise.")
        CHECKS[name] = Check(name, formula, tolerance, relative, cost, sides, status, draws, seeds)
        return CHECKS[name]

    return declared


def run_checks(
    *, cost: Cost, engine: Engine | None = None, told: Callable[[Verdict], None] | None = None
) -> list[Verdict]:
    """Put the laws to an engine.

    Args:
        cost: "fast" for the quick ones, "all" for every one.
        engine: The simulator under judgment; the real one if None.
        told: Hears of each verdict.

    Returns:
        The verdicts in order.
    """
    judged, found = engine or Engine(), []
    for one in CHECKS.values():
        if cost == "all" or one.cost == "fast":
            found.append(one.judged(judged))
            if told is not None:
                told(found[-1])
    return found
