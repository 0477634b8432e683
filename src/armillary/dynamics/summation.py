"""How a sum over all pairs is evaluated: which way is chosen, by size, beta, type, device and the accuracy asked for.

Every way gives the same numbers within an error that it states; what differs is the cost, which a table of measured
times predicts. The choice can be made by name, and is named with its error in the trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Softmax, Window
from armillary.dynamics.attention_drift import AttentionDrift, carried
from armillary.dynamics.circuits import CircuitDrift
from armillary.dynamics.drifts import Drift, Layered, Scaled, Sum
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.sums.blocks import Rows
from armillary.dynamics.sums.circle import Circle
from armillary.dynamics.sums.costs import seconds
from armillary.dynamics.sums.fused import FusedAttention, attended
from armillary.dynamics.sums.pairs import Pairs
from armillary.dynamics.sums.sphere import Sphere
from armillary.dynamics.sums.task import Evaluator, PairSum
from armillary.dynamics.sums.tiles import Tiles
from armillary.dynamics.sums.uniform import Means
from armillary.errors import ArgumentError

__all__ = ["EVALUATORS", "Choice", "FusedHeads", "SummedAttention", "chosen_evaluator", "require_evaluator", "summed"]

EVALUATORS: dict[str, type[Evaluator]] = {
    one.name: one for one in (Means, Pairs, Tiles, FusedAttention, Circle, Sphere, Rows)
}
"""By name, in the order in which they are tried where costs are equal."""

LARGEST_AT_ONCE = 2048
"""Tokens up to which the weights of given heads are held all at once."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The evaluator of a sum, and why no other one.

    Attributes:
        evaluator: What evaluates it.
        passed_over: Evaluators that would have been cheaper, or were asked for, each with the reason against it.
        missed: The accuracy that was asked for, if no evaluator reaches it: this one comes closest.
    """

    evaluator: Evaluator
    passed_over: tuple[tuple[str, str], ...]
    missed: float | None = None

    @property
    def words(self) -> str:
        """The evaluator with its error, and what was passed over."""
        said = "".join(f"; not {name}: {reason}" for name, reason in self.passed_over)
        missed = "" if self.missed is None else f"; {self.missed:.0e} was asked for, which none reaches"
        return self.evaluator.words + said + missed


def chosen_evaluator(task: PairSum, *, accuracy: float, name: str = "auto") -> Choice:
    """The cheapest evaluator that reaches an accuracy.

    Args:
        task: What is summed.
        accuracy: Largest absolute error of the pull. Evaluators whose error is relative to each token's own pull
            satisfy every accuracy; in single precision nothing finer than its rounding in matrix products is asked.
        name: "auto", or the evaluator that is wanted. If it cannot reach the accuracy, the cheapest one that can takes
            its place, and the words say so; where none can, the most exact one.

    Returns:
        The choice.

    Raises:
        ArgumentError: No evaluator has the name, or it cannot do the task at all.
    """
    require_evaluator(name)
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
        if one.relative or best <= accuracy:
            return Choice(one(task, accuracy), tuple(passed))
        passed.append((one.name, f"its error {best:.0e} is above {accuracy:.0e}"))
    most_exact = min(able, key=lambda one: one.attainable(task))
    return Choice(most_exact(task, accuracy), tuple(passed[: able.index(most_exact)]), missed=accuracy)


def require_evaluator(name: str) -> None:
    """Refuse a name that is neither "auto" nor that of an evaluator.

    Args:
        name: What was asked for.

    Raises:
        ArgumentError: No evaluator has it.
    """
    if name != "auto" and name not in EVALUATORS:
        raise ArgumentError(
            f"Argument `summation` must be 'auto' or one of {list(EVALUATORS)}, but it is {name!r}. Name one."
        )


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


@dataclass(frozen=True, eq=False)
class FusedHeads(AttentionDrift):
    """Attention of given heads, each through the attention kernel: no head's weights are held at once."""

    task: PairSum | None = None

    def __call__(self, rows: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The attention output of each token."""
        assert self.heads is not None
        assert self.task is not None
        heads = self.heads.to(rows)
        counted = None if multiplicity is None else multiplicity[..., None, :]
        mixed = attended(*self.compared(rows, heads), carried(rows, heads), self.task, counted)
        return (mixed @ heads.output.mT).sum(-3)


def summed(
    field: VelocityField, start: Tensor, *, accuracy: float, name: str = "auto"
) -> tuple[VelocityField, tuple[Choice | str, ...]]:
    """A field whose attention is evaluated in the cheapest way that reaches an accuracy.

    Args:
        field: What moves the tokens.
        start: `systems tokens dim`.
        accuracy: Largest absolute error of a pull.
        name: "auto", or an evaluator.

    Returns:
        The field, and for each different attention in it a choice, or in words what is done where none can be made.

    Raises:
        ArgumentError: No evaluator has the name, or nothing in the field leaves a choice.
    """
    require_evaluator(name)
    choices: dict[object, Choice | str] = {}

    def change(term: Drift) -> Drift:
        if isinstance(term, CircuitDrift):
            said = "all pairs at once (given circuits)"
            choices[said] = said
        if type(term) is not AttentionDrift:
            return term
        task = PairSum(
            tokens=start.shape[-2], dim=start.shape[-1], rule=term.rule, mask=term.mask, dtype=start.dtype,
            device=start.device.type, gradient=start.requires_grad, systems=start.shape[:-2].numel(),
            unit=field.scheme != "flat" and field.read is None,
        )  # fmt: skip
        if reason := _without_choice(term):
            fused = _is_fused(term, task, name)
            said = f"sdpa, each head by itself, {_ROUNDED}" if fused else f"all pairs at once ({reason})"
            choices[said] = said
            return FusedHeads(term.rule, term.mask, term.heads, term.positions, task) if fused else term
        key = (term.rule, term.mask)
        if key not in choices:
            choices[key] = chosen_evaluator(task, accuracy=accuracy, name=name)
        chosen = choices[key]
        assert isinstance(chosen, Choice)
        return SummedAttention(term.rule, term.mask, evaluator=chosen.evaluator)

    changed = replace(field, drift=_changed(field.drift, change))
    if name != "auto" and not any(isinstance(one, Choice) or one.startswith(name) for one in choices.values()):
        why = "; ".join(str(one) for one in choices.values()) or "no sum over pairs"
        raise ArgumentError(
            f"Argument `summation` must be 'auto' where there is no choice, but it is {name!r}, and this field has "
            f"{why}. Leave it out."
        )
    return changed, tuple(choices.values())


_ROUNDED = "rounding of scores and of sums"


def _without_choice(term: AttentionDrift) -> str | None:
    """Why an attention is not summed by an evaluator, in words; None if it is."""
    if term.heads is not None:
        return "given heads"
    if term.positions is not None:
        return "positions"
    if not isinstance(term.mask, Full | Causal | Window):
        return "a mask given pair by pair"
    if isinstance(getattr(term.rule, "beta", 0.0), Tensor):
        return "a beta whose derivative is wanted"
    return None


def _is_fused(term: AttentionDrift, task: PairSum, name: str) -> bool:
    """Whether the attention kernel takes an attention of given heads: from many tokens on, or where asked for."""
    heads = term.heads
    plain = isinstance(term.rule, Softmax) and isinstance(term.mask, Full | Causal | Window)
    if heads is None or not plain or isinstance(getattr(term.rule, "beta", 0.0), Tensor):
        return False
    width = heads.query.shape[1]
    aligned = task.device == "cpu" or width % 8 == 0  # kernels of graphics cards take no other widths
    able = width == heads.value.shape[1] and aligned and FusedAttention.obstacle(task) is None
    return able and (name == FusedAttention.name or (name == "auto" and task.tokens > LARGEST_AT_ONCE))


def _changed(drift: Drift, change: Callable[[Drift], Drift]) -> Drift:
    """The drift with every elementary term changed."""
    if isinstance(drift, Sum):
        return Sum(tuple((factor, _changed(part, change)) for factor, part in drift.parts))
    if isinstance(drift, Scaled):
        return Scaled(_changed(drift.drift, change), drift.factor)
    if isinstance(drift, Layered):
        return Layered(tuple(_changed(one, change) for one in drift.drifts), drift.starts)
    return change(drift)
