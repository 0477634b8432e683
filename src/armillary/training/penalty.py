"""What a penalty is: a differentiable number of the rows of each document, declared with what it does at consensus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.training.gathered import gathered
from armillary.training.rows import POLICIES, PREPARABLE, Rows, chosen, prepared

__all__ = ["PENALTIES", "Penalty", "penalty"]

PENALTIES: dict[str, Callable[..., Penalty]] = {}
"""Every penalty of the package by name: what makes one from its choices."""

Factory = TypeVar("Factory", bound=Callable[..., "Penalty"])


def penalty(factory: Factory) -> Factory:
    """Mark a function that makes a penalty: it is known by the name of its penalties, its own without `_penalty`.

    Args:
        factory: takes choices by keyword and returns a `Penalty`.
    """
    PENALTIES[factory.__name__.removesuffix("_penalty")] = factory
    return factory


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """A number to be added to a loss, times a strength: the smaller, the farther tokens keep apart in its own sense.

    It is called with the states of a layer, or of several as `tap` yields them, and gives one scalar: the mean over
    documents that have at least two rows, and over layers. What it computes can be changed by `after`, `of_tokens`,
    `pooled` and `gathered`, each of which returns another penalty; `str` says all of it.

    Statistics are taken in at least float32, whatever type the states have and whether or not autocast is on. A row of
    zero length has no direction and takes no part, as if the mask left it out.

    Attributes:
        name: As in `PENALTIES`.
        definition: Formula, in words.
        source: Author and year.
        at_consensus: Its value and gradient where all rows are equal, in words.
        function: From `Rows` to one number a document.
        parameters: Choices of its own, by name.
        preparation: Steps that the rows go through first.
        tokens: Which tokens take part: "all", "without_first" or "without_first_and_massive".
        over: "document": one number a document, then their mean; "batch": all rows of the batch as one document.
        among: "one process", or "all processes" of a process group.
    """

    name: str
    definition: str
    source: str
    at_consensus: str
    function: Callable[[Rows], Tensor] = field(repr=False, compare=False)
    parameters: tuple[tuple[str, Any], ...] = ()
    preparation: tuple[str, ...] = ("normalize",)
    tokens: str = "all"
    over: Literal["document", "batch"] = "document"
    among: Literal["one process", "all processes"] = "one process"

    def after(self, *steps: str) -> Penalty:
        """The same after another preparation; the last step must be "normalize".

        Near consensus "center" leaves rows whose direction is that of small differences. Of exact duplicates nothing
        is left: a batch of nothing else has no value, which is NaN, and whoever trains is told so.

        Args:
            *steps: Among "center" (over the rows of a document), "remove feature mean" and "normalize".

        Raises:
            ArgumentError: Other steps, or none that ends in unit rows.
        """
        unknown = [step for step in steps if step not in PREPARABLE]
        if unknown or not steps or steps[-1] != "normalize":
            raise ArgumentError(
                f"Argument `steps` must be among {', '.join(map(repr, PREPARABLE))} and end with 'normalize', but they "
                f"are {steps}. Write .after('center', 'normalize')."
            )
        return replace(self, preparation=tuple(steps))

    def of_tokens(self, policy: str) -> Penalty:
        """The same of fewer tokens.

        Args:
            policy: "all"; "without_first": without the first token that the mask keeps; "without_first_and_massive":
                also without those whose norm exceeds five medians of their document.

        Raises:
            ArgumentError: Another word.
        """
        if policy not in POLICIES:
            raise ArgumentError(
                f"Argument `policy` must be one of {', '.join(POLICIES)}, but it is {policy!r}. Write "
                ".of_tokens('without_first')."
            )
        return replace(self, tokens=policy)

    def pooled(self) -> Penalty:
        """The same of all rows of a batch together, tokens of unlike documents included."""
        return replace(self, over="batch")

    def gathered(self) -> Penalty:
        """The same over all processes of a process group: every process has the value that one would have.

        Gradients are right after the average over processes that data-parallel training takes.
        """
        return replace(self, among="all processes")

    def __call__(self, states: Tensor | Mapping[int, Tensor], *, mask: Tensor | None = None) -> Tensor:
        """The scalar.

        Args:
            states: `*batch tokens dim`, or tapped states, layer -> rows.
            mask: `*batch tokens`, not zero where a token takes part; None for all.

        Raises:
            ArgumentError: A mask of another shape, one that keeps fewer than two tokens everywhere, or T = 1.
        """
        if isinstance(states, Mapping):
            if not states:
                raise ArgumentError(
                    "Argument `states` must hold the states of a layer, but no pass went through the tap. Call the "
                    "model inside the `with` block."
                )
            return torch.stack([self(rows, mask=mask) for rows in states.values()]).mean()
        with torch.autocast(states.device.type, enabled=False):
            return self._value(states, mask)

    def _value(self, states: Tensor, mask: Tensor | None) -> Tensor:
        rows, kept = chosen(states, mask, self.tokens)
        tokens, everywhere = kept.sum(-1), self.among == "all processes"
        if self.over == "batch":
            own = rows[kept]
            own = gathered(own) if everywhere else own
            rows, kept = own[None], torch.ones(1, len(own), dtype=torch.bool, device=own.device)
            tokens = kept.sum(-1)
        found = prepared(rows, kept, steps=self.preparation)
        values = self.function(found) if len(found.rows) else found.rows.new_zeros(0)
        if everywhere and self.over == "document":
            values, tokens = gathered(values), gathered(tokens)
        if len(values):
            return values.mean()
        if bool((tokens >= 2).any()):  # tokens enough, of which too few have a direction: undefined
            return states.float().sum() * torch.nan
        raise _too_few(tokens, self.tokens)

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value}" for key, value in self.parameters)
        words = f"{self.name}({given}) after {', '.join(self.preparation)}"
        words += "" if self.tokens == "all" else f", {self.tokens.replace('_', ' ')}"
        words += ", over the batch" if self.over == "batch" else ""
        return words + (", gathered" if self.among == "all processes" else "")


def _too_few(tokens: Tensor, policy: str) -> ArgumentError:
    most = int(tokens.max()) if len(tokens) else 0
    left = "" if policy == "all" else f" (tokens: {policy})"
    return ArgumentError(
        f"Argument `mask` must keep at least two tokens of some document, but the most that it keeps is {most}{left}: "
        "one token has no pair. Give longer documents, or another mask."
    )
