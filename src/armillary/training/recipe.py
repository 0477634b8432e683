"""A recipe of initialization: a function that writes into the weights of a model and reports what it changed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError, CheckMissed
from armillary.models.anatomy import Decoder
from armillary.models.decoder import decoder_from_model
from armillary.models.proofs import differing, fingerprints, kinds

__all__ = ["LIBRARY", "RECIPES", "Initialized", "Recipe", "drawn", "recipe", "shown"]

RECIPES: dict[str, Callable[..., Initialized]] = {}
"""Every recipe by name; each is called as `recipe(model, seed=..., ...)`."""

LIBRARY = "library"
"""The recipe that leaves a model as its library drew it."""


@dataclass(frozen=True)
class Initialized:
    """What a recipe did to a model.

    Attributes:
        recipe: Its name with its choices.
        seed: Of what it drew.
        changed: Names of the tensors that differ afterwards; a tied pair has both names.
        numbers: What it measured or set, by name; one number a block where there is a list.
        sentence: The same in words.
    """

    recipe: str
    seed: int
    changed: tuple[str, ...]
    numbers: dict[str, Any] = field(default_factory=dict)
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence


def recipe(function: Callable[..., dict[str, Any]]) -> Callable[..., Initialized]:
    """Mark a function `(decoder, *, seed, ...) -> numbers` as a recipe; it then takes a model and returns a report.

    The report comes from comparing every tensor before and after; ties between tensors are proved to be as they were.

    Args:
        function: writes into the decoder's weights in place, draws from `seed` alone, returns what it set or measured.
    """

    @functools.wraps(function)
    def applied(model: Any, *, seed: int, **choices: Any) -> Initialized:
        with _in_hand(model) as decoder:
            before, ties = fingerprints(decoder.model), _ties(decoder.model)
            kept = [p.detach().to("cpu", copy=True) for p in decoder.model.parameters()]
            with torch.no_grad():
                try:
                    numbers = function(decoder, seed=seed, **choices)
                except BaseException:  # a model is written whole or not at all
                    for parameter, weight in zip(decoder.model.parameters(), kept, strict=True):
                        parameter.copy_(weight)
                    raise
            changed = tuple(differing(before, fingerprints(decoder.model)))
            if _ties(decoder.model) != ties:
                raise CheckMissed(
                    "Tied weights must stay tied, but a recipe took some apart. Write into tensors in place."
                )
        given = ",".join(f"{key}={shown(value)}" for key, value in choices.items() if key != "ids")
        name = function.__name__ + (f":{given}" if given else "")
        told = "; ".join(f"{key.replace('_', ' ')} {_summary(value)}" for key, value in numbers.items())
        sentence = f"{name} (seed {seed}) changed {len(changed)} tensors ({kinds(changed)}){'; ' if told else ''}{told}"
        return Initialized(name, seed, changed, numbers, sentence)

    RECIPES[function.__name__] = applied
    return applied


@dataclass(frozen=True)
class Recipe:
    """A recipe with its choices, as a text names it; called with a model and a seed.

    Attributes:
        name: "library", or a name in `RECIPES`.
        choices: By name.
    """

    name: str
    choices: tuple[tuple[str, Any], ...] = ()

    def __call__(self, model: Any, *, seed: int) -> Initialized:
        """Write into the model.

        Args:
            model: A model or decoder.
            seed: Of what is drawn.

        Raises:
            ArgumentError: Choices out of range, or that do not fit the model.
        """
        if self.name == LIBRARY:
            return Initialized(LIBRARY, seed, (), {}, "library: as the library drew it")
        from armillary.training.recipes import RECIPES as every  # in another process nobody has read them yet

        try:
            return every[self.name](model, seed=seed, **dict(self.choices))
        except ArgumentError as trouble:
            said = re.sub(r"^Arguments? ", "", str(trouble))
            raise ArgumentError(f"Argument `recipe` must hold choices that fit, but of {self} {said}") from trouble

    def __str__(self) -> str:
        given = ",".join(f"{key}={shown(value)}" for key, value in self.choices)
        return self.name + (f":{given}" if given else "")


@contextmanager
def _in_hand(model: Any) -> Iterator[Decoder]:
    """A decoder around a model whose modes of training are as before afterwards."""
    if isinstance(model, Decoder):
        yield model
        return
    modes = {module: module.training for module in model.modules()} if hasattr(model, "modules") else {}
    try:
        yield decoder_from_model(model)
    finally:
        for module, training in modes.items():
            module.training = training


def _ties(model: Any) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(parameter.data_ptr(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def shown(value: Any) -> str:
    """A choice as it is written."""
    if isinstance(value, tuple):
        return "/".join(map(shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _summary(value: Any) -> str:
    if isinstance(value, list) and value:
        return f"{value[0]:.4g} to {value[-1]:.4g}" if len(value) > 1 else f"{value[0]:.4g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def drawn(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers drawn on the CPU, in the type and place of another tensor."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(like)
