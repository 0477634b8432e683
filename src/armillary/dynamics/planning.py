"""Before a run: in which coordinates, by which engine and with which sum over pairs it goes, and how that is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from armillary.dynamics.engines import Engine, chosen_engine, compiled_obstacle
from armillary.dynamics.integrators import Integrator, Tsit5
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.summation import Choice, require_evaluator, summed
from armillary.dynamics.sums.pairs import Pairs
from armillary.dynamics.sums.span import in_span, out_of_span
from armillary.errors import ArgumentError

__all__ = ["COMPILED", "Plan", "planned"]

COMPILED = f"{Pairs.name}, in the compiled engine, relative error 1e-13"

SHARE = 0.1
"""Of the tolerance, what errors of the velocity may add up to over the whole run."""

UNTOLD = 1e-9
"""The tolerance of integrators that have none."""


@dataclass(frozen=True, eq=False)
class Plan:
    """How a run goes.

    Attributes:
        field: The field, its attention evaluated in the chosen way.
        start: `systems tokens dim`, in the coordinates of the run.
        basis: Of these coordinates, `systems dim tokens`, where they are those of the span of the start; or None.
        engine: "general" or "compiled".
        choices: Of evaluators, or what is done where there is no choice, one for each different attention.
        dim: Of the start as it was given.
    """

    field: VelocityField
    start: Tensor
    basis: Tensor | None
    engine: Literal["general", "compiled"]
    choices: tuple[Choice | str, ...]
    dim: int

    def back(self, states: Tensor) -> Tensor:
        """States `systems times tokens dim` of the run in the space of the start."""
        return out_of_span(states, self.basis)

    @property
    def words(self) -> str:
        """How sums over pairs were evaluated and how exactly, as it stands in a record; after the run."""
        if self.engine == "compiled":
            said = COMPILED
        elif self.choices:
            said = "; ".join(one if isinstance(one, str) else one.words for one in self.choices)
        else:
            said = "no sum over pairs"
        if self.basis is not None:
            said += f"; in the span of the start, {self.basis.shape[-1]} of {self.dim} dimensions, exactly"
        return said


def planned(
    field: VelocityField, start: Tensor, integrator: Integrator, *, until: float, engine: Engine, summation: str,
    tightened: float = 1.0,
) -> Plan:  # fmt: skip
    """The plan of a run.

    An error of the velocity moves a token by no more than that error times the time of the run, so that a tenth of the
    tolerance over that time is what a sum over pairs must reach. Where the cheapest sum is that over pairs one by one,
    the compiled engine takes it, however many tokens there are: it has the same loops and less around them.

    Args:
        field: What moves the tokens.
        start: `systems tokens dim`.
        integrator: How time is stepped.
        until: Time to reach.
        engine: What was asked for.
        summation: "auto", or an evaluator.
        tightened: A factor on the tolerance.

    Returns:
        The plan.

    Raises:
        ArgumentError: What was asked for cannot do this, or contradicts itself.
    """
    require_evaluator(summation)
    other = summation not in ("auto", Pairs.name)
    if other and engine == "compiled":
        raise ArgumentError(
            f"Argument `engine` must be 'general' to sum by {summation!r}, but it is 'compiled', which sums pairs. "
            "Leave one of them out."
        )
    first, basis = in_span(field, start)
    runs_on = chosen_engine("general" if other and engine == "auto" else engine, field, first, integrator)
    choices: tuple[Choice | str, ...] = ()
    if runs_on == "general":
        tolerance = integrator.rtol if isinstance(integrator, Tsit5) else UNTOLD
        accuracy = SHARE * tolerance * tightened / max(1.0, until)
        summing, choices = summed(field, first, accuracy=accuracy, name=summation)
        free = engine == "auto" and summation == "auto" and not compiled_obstacle(field, first, integrator)
        if free and choices and all(isinstance(one, Choice) and isinstance(one.evaluator, Pairs) for one in choices):
            runs_on, choices = "compiled", ()
        else:
            field = summing
    return Plan(field, first, basis, runs_on, choices, start.shape[-1])
