"""How time is stepped: Runge-Kutta tableaus whose every step ends on the sphere, discrete layers, and noise.

The right side is evaluated at normalized rows (see `VelocityField.velocity`). So the artificial radial mode of the
surrounding space is absent, trial stages cannot overflow, and the last stage of an accepted step stays the first stage
of the next one after the rows are put back on the sphere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from armillary.errors import ArgumentError

__all__ = ["RK4", "Euler", "Integrator", "ResidualLayer", "StratonovichHeun", "Tableau", "Tsit5"]


@dataclass(frozen=True, eq=False)
class Tableau:
    """An explicit Runge-Kutta method.

    Attributes:
        name: What it is called.
        order: Order of the solution that is carried on.
        nodes: c_i, the times of the stages as shares of the step.
        stages: Rows a_ij, one a stage after the first.
        weights: b_i.
        errors: b_i minus those of the embedded method, or None.
        interpolant: Coefficients r_ik with b_i(theta) = sum_k r_ik theta^(k + 1), or None without dense output.
        source: Where the coefficients are from.
    """

    name: str
    order: int
    nodes: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    errors: tuple[float, ...] | None
    interpolant: tuple[tuple[float, ...], ...] | None
    source: str

    @cached_property
    def first_same_as_last(self) -> bool:
        """Whether the last stage is the velocity at the end of the step."""
        return self.nodes[-1] == 1.0 and self.weights[-1] == 0.0 and self.stages[-1] == self.weights[:-1]

    def shares(self, theta: np.ndarray) -> np.ndarray:
        """b_i(theta) at shares theta of the step, `theta stages`."""
        if self.interpolant is None:
            raise ArgumentError(
                f"Argument `keep` must ask for the ends of steps only, but {self.name} has no dense output. Take "
                f"Tsit5, "
                "or times that are multiples of the step."
            )
        powers = theta[:, None] ** np.arange(1, len(self.interpolant[0]) + 1)
        return np.asarray(powers @ np.asarray(self.interpolant).T)


CLASSICAL = Tableau(
    name="RK4",
    order=4,
    nodes=(0.0, 0.5, 0.5, 1.0),
    stages=((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    errors=None,
    interpolant=None,
    source="Kutta 1901",
)

TSITOURAS = Tableau(
    name="Tsit5",
    order=5,
    nodes=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    stages=(
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        (
            0.09646076681806523,
            0.01,
            0.4798896504144996,
            1.379008574103742,
            -3.290069515436081,
            2.324710524099774,
        ),
    ),
    weights=(
        0.09646076681806523,
        0.01,
        0.4798896504144996,
        1.379008574103742,
        -3.290069515436081,
        2.324710524099774,
        0.0,
    ),
    errors=(
        -0.00178001105222577714,
        -0.0008164344596567469,
        0.007880878010261995,
        -0.1447110071732629,
        0.5823571654525552,
        -0.45808210592918697,
        0.015151515151515152,
    ),
    interpolant=(
        (1.0, -2.763706197274826, 2.9132554618219126, -1.0530884977290216),
        (0.0, 0.13169999999999998, -0.2234, 0.1017),
        (0.0, 3.9302962368947516, -5.941033872131505, 2.490627285651253),
        (0.0, -12.411077166933676, 30.33818863028232, -16.548102889244902),
        (0.0, 37.50931341651104, -88.1789048947664, 47.37952196281928),
        (0.0, -27.896526289197286, 65.09189467479366, -34.87065786149661),
        (0.0, 1.5, -4.0, 2.5),
    ),
    source="Tsitouras 2011",
)


@dataclass(frozen=True)
class RK4:
    """The classical method of order 4 with a fixed step, rows put back on the sphere after each.

    Args:
        step: Length of a step; the last one before a requested time is shortened to end there.
    """

    step: float

    def __post_init__(self) -> None:
        _require_step(self.step)

    @property
    def tableau(self) -> Tableau:
        """Its coefficients."""
        return CLASSICAL

    def __str__(self) -> str:
        return f"RK4 of step {self.step:g}"


@dataclass(frozen=True)
class Tsit5:
    """An embedded pair of orders 5 and 4 with a proportional-integral controller, each system with its own steps.

    Args:
        rtol: Error allowed in one step relative to the rows.
        atol: Absolute error allowed in one step; a hundredth of `rtol` unless given.
        most_steps: After so many a system stops where it is, and its status says so.
    """

    rtol: float
    atol: float | None = None
    most_steps: int = 1_000_000

    def __post_init__(self) -> None:
        if self.most_steps < 1:
            raise ArgumentError(f"Argument `most_steps` must be at least 1, but it is {self.most_steps}. Take more.")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not 1e-15 <= value < 1:
                raise ArgumentError(
                    f"Argument `{name}` must lie between 1e-15 and 1, but it is {value}. Take 1e-8, for instance."
                )

    @property
    def absolute(self) -> float:
        """The absolute tolerance in force."""
        return self.rtol / 100 if self.atol is None else self.atol

    @property
    def tableau(self) -> Tableau:
        """Its coefficients."""
        return TSITOURAS

    def __str__(self) -> str:
        return f"Tsit5 at rtol {self.rtol:g}, atol {self.absolute:g}"


@dataclass(frozen=True)
class Euler:
    """The scheme of the papers, x -> normalize(x + h A x): a discrete model of its own, with its own clock.

    On a token with a = x . A x the direction advances by about h / (1 + h a) rather than h, so its time is 6 to 10 %
    slow at h = 0.1. It is here to reproduce published pictures; it is no approximation of the flow that this package
    recommends.

    Args:
        step: h.
    """

    step: float

    def __post_init__(self) -> None:
        _require_step(self.step)

    def __str__(self) -> str:
        return f"the papers' Euler scheme of step {self.step:g}"


@dataclass(frozen=True)
class ResidualLayer:
    """The exact discrete network: one residual layer after another; `until` and `keep` count layers.

    Near consensus one post-norm layer of step h corresponds to the time ln(1 + h) of the flow.

    Args:
        step: h, the weight of the branch beside the stream.
    """

    step: float

    def __post_init__(self) -> None:
        _require_step(self.step)

    @property
    def time(self) -> float:
        """Time of the flow that one post-norm layer corresponds to near consensus, ln(1 + h)."""
        return math.log1p(self.step)

    def __str__(self) -> str:
        return f"residual layers of step {self.step:g}"


@dataclass(frozen=True)
class StratonovichHeun:
    """Heun's predictor and corrector for Stratonovich noise, rows put back on the sphere after each step.

    Strong order 1/2 and weak order 1 for independent noises on many tokens; order 2 without noise. Of noise of strength
    D on the circle a step h loses a share of about 7 D h / 2: with D = 1 and h = 0.01, 3.5 %.

    Args:
        step: Length of a step.
        seed: Of the Brownian increments.
    """

    step: float
    seed: int

    def __post_init__(self) -> None:
        _require_step(self.step)
        if not 0 <= self.seed < 2**63:
            raise ArgumentError(f"Argument `seed` must lie within 0 and 2^63 - 1, but it is {self.seed}. Take 0.")

    def __str__(self) -> str:
        return f"Stratonovich-Heun of step {self.step:g}, seed {self.seed}"


Integrator = RK4 | Tsit5 | Euler | ResidualLayer | StratonovichHeun


def _require_step(step: float) -> None:
    if not 0 < step < math.inf:
        raise ArgumentError(f"Argument `step` must be positive and finite, but it is {step}. Take 0.01, for instance.")
