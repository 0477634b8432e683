"""How a sum over all pairs is evaluated: which way is chosen, by size, beta, type, device and the accuracy asked for.

Every way gives the same numbers within an error that it states; what differs is the cost, which a table of measured
times predicts. The choice can be made by name, and is named with its error in the trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Window
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.drifts import Drift, Layered, Scaled, Sum
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.sums.blocks import Rows
from armillary.dynamics.sums.circle import Circle
from armillary.dynamics.sums.costs import seconds
from armillary.dynamics.sums.fused import FusedAttention
from armillary.dynamics.sums.pairs import Pairs
from armillary.dynamics.sums.sphere import Sphere
from armillary.dynamics.sums.task import Evaluator, PairSum
from armillary.dynamics.sums.tiles import Tiles
from armillary.dynamics.sums.uniform import Means
from armillary.errors import ArgumentError

__all__ = ["EVALUATORS", "Choice", "SummedAttention", "chosen_evaluator", "summed"]

EVALUATORS: dict[str, type[Evaluator]] = {
    one.name: one for one in (Means, Pairs, Tiles, FusedAttention, Circle, Sphere, Rows)
}
"""By name, in the order in which they are tried where costs are equal."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The evaluator of a sum, and why no other one.

    Attributes:
        evaluator: What evaluates it.
        passed_over: Evaluators that would have been cheaper, or were asked for, each with the reason against it.
    """

    evaluator: Evaluator
    passed_over: tuple[tuple[str, str], ...]

    @property
    def words(self) -> str:
        """The evaluator with its error, and what was passed over."""
        said = "".join(f"; not {name}: {reason}" for name, reason in self.passed_over)
        return self.evaluator.words + said


def chosen_evaluator(task: PairSum, *, accuracy: float, name: str = "auto") -> Choice:
    """The cheapest evaluator that reaches an accuracy.

    Args:
        task: What is summed.
        accuracy: Largest absolute error of the pull. Evaluators whose error is relative to each token's own pull
            satisfy every accuracy; in single precision nothing finer than its rounding in matrix products is asked.
        name: "auto", or the evaluator that is wanted. If it cannot reach the accuracy, the cheapest one that can takes
            its place, and the words say so.

    Returns:
        The choice.

    Raises:
        ArgumentError: No evaluator has the name, or it cannot do the task at all.
    """
    if name != "auto" and name not in EVALUATORS:
        raise ArgumentError(
            f"Argument `summation` must be 'auto' or one of {list(EVALUATORS)}, but it is {name!r}. Name one."
        )
    if name != "auto" and (obstacle := EVALUATORS[name].obstacle(task)):
        raise ArgumentError(
            f"Argument `summation` must be a way to evaluate this sum, but {name!r} is none: {obstacle}. Take 'auto'."
        )
    able = [one for one in EVALUATORS.values() if one.obstacle(task) is None]
    if task.dtype != torch.float64:
        accuracy = max(accuracy, Rows.attainable(task))
    able.sort(key=lambda one: (one.name != name, seconds(one.name, task)))
    passed: list[tuple[str, str]] = []
    for one in able:
        best = one.attainable(task)
        if one.relative or best <= accuracy or one is Rows:
            return Choice(one(task, accuracy), tuple(passed))
        passed.append((one.name, f"its error {best:.0e} is above {accuracy:.0e}"))
    raise AssertionError("rows take every task")


@dataclass(frozen=True, eq=False)
class SummedAttention(AttentionDrift):
    """Attention whose sum over pairs goes through an evaluator."""

    evaluator: Evaluator | None = None

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output of each token."""
        assert self.evaluator is not None
        return self.evaluator.drift(rows, multiplicity)

    def toward_others(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Its part along the sphere."""
        assert self.evaluator is not None
        return self.evaluator.pull(rows, multiplicity)


def summed(
    field: VelocityField, start: Tensor, *, accuracy: float, name: str = "auto"
) -> tuple[VelocityField, tuple[Choice, ...]]:
    """A field whose attention is evaluated in the cheapest way that reaches an accuracy.

    Args:
        field: What moves the tokens.
        start: `systems tokens dim`.
        accuracy: Largest absolute error of a pull.
        name: "auto", or an evaluator.

    Returns:
        The field, and a choice for each different attention in it that identity heads without positions allow.
    """
    choices: dict[tuple[object, object], Choice] = {}

    def change(term: Drift) -> Drift:
        if type(term) is not AttentionDrift or term.heads is not None or term.positions is not None:
            return term
        if not isinstance(term.mask, Full | Causal | Window):  # given pair by pair: nothing is saved by parts
            return term
        if isinstance(getattr(term.rule, "beta", 0.0), Tensor):  # a derivative with respect to it is wanted
            return term
        key = (term.rule, term.mask)
        if key not in choices:
            task = PairSum(
                tokens=start.shape[-2], dim=start.shape[-1], rule=term.rule, mask=term.mask, dtype=start.dtype,
                device=start.device.type, gradient=start.requires_grad, systems=start.shape[:-2].numel(),
                unit=field.scheme != "flat" and field.read is None,
            )  # fmt: skip
            choices[key] = chosen_evaluator(task, accuracy=accuracy, name=name)
        return SummedAttention(term.rule, term.mask, evaluator=choices[key].evaluator)

    return replace(field, drift=_changed(field.drift, change)), tuple(choices.values())


def _changed(drift: Drift, change: Callable[[Drift], Drift]) -> Drift:
    """The drift with every elementary term changed."""
    if isinstance(drift, Sum):
        return Sum(tuple((factor, _changed(part, change)) for factor, part in drift.parts))
    if isinstance(drift, Scaled):
        return Scaled(_changed(drift.drift, change), drift.factor)
    if isinstance(drift, Layered):
        return Layered(tuple(_changed(one, change) for one in drift.drifts), drift.starts)
    return change(drift)
