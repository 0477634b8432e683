"""What a number of an attention map is: a function of one head's map, declared with definition, source and range.

A map has one row a token: row i holds the weights with which token i attends to tokens 1 ... i, and zeros ahead. Its
rows sum to one, or to less where a family lets a part of the attention go nowhere (a learned sink). The first row has
no choice: it attends to itself. Means over rows therefore run over rows 2 ... T, and say so.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.claims import Claim
from armillary.observables.travel import by_name
from armillary.transformations.linear import GeneralLinear, Orthogonal
from armillary.transformations.rows import RowScale

__all__ = ["MapNumber", "Maps", "map_number", "map_numbers"]

Ends = Callable[[int], tuple[float, float]]
"""Lowest and highest value that a number can take, given the number of tokens."""

_NUMBERS: dict[str, MapNumber] = {}

_STAYS = "it depends on the map alone, which a change of basis that the weights follow leaves as it is"
_OF_THE_MAP = (Claim(GeneralLinear, _STAYS, "docs/audit.md, 7"), Claim(RowScale, _STAYS, "docs/audit.md, 7"))
_OF_DIRECTIONS = (
    Claim(Orthogonal, "it depends on the map and on overlaps, which a rotation leaves as they are", "docs/audit.md, 1"),
    Claim(RowScale, "it depends on the map and on directions of the stream, not on lengths", "docs/audit.md, 4"),
)


class Maps:
    """Attention maps, and the overlaps of the rows they act on, with what several numbers share computed once.

    Args:
        maps: Tensor `*batch heads tokens tokens`, causal; half precision is taken to float32.
        overlaps: Tensor `*batch tokens tokens` of the unit rows before the block; None if no number needs them.

    Raises:
        ArgumentError: If shapes do not fit or there are fewer than two tokens.
    """

    def __init__(self, maps: Tensor, overlaps: Tensor | None = None) -> None:
        if not maps.is_floating_point() or maps.ndim < 3 or maps.shape[-1] != maps.shape[-2] or maps.shape[-1] < 2:
            raise ArgumentError(
                f"Argument `maps` must be floating-point attention maps `*batch heads tokens tokens` of at least two "
                f"tokens, but it has shape {tuple(maps.shape)} and type {maps.dtype}. Give one square map a head."
            )
        if maps.dtype in (torch.float16, torch.bfloat16):
            maps = maps.float()
        self.maps, self.tokens = maps, maps.shape[-1]
        self.heads = tuple(maps.shape[:-2])
        expected = (*self.heads[:-1], self.tokens, self.tokens)
        if overlaps is not None and tuple(overlaps.shape) != expected:
            raise ArgumentError(
                f"Argument `overlaps` must have shape {expected}, one matrix for all heads, but it has "
                f"{tuple(overlaps.shape)}. Give the overlaps of the tokens that these maps act on."
            )
        self._overlaps = overlaps

    @property
    def overlaps(self) -> Tensor:
        """The overlaps, `*batch tokens tokens`, in the type of the maps.

        Raises:
            ArgumentError: If there are none.
        """
        if self._overlaps is None:
            raise ArgumentError(
                "Argument `overlaps` must be given for a number that compares attention with overlap, but it is not. "
                "Give am.overlaps(rows) of the rows before the sublayer."
            )
        return self._overlaps.to(self.maps)

    @cached_property
    def row_sums(self) -> Tensor:
        """Mass of each row from the second on, `*batch heads tokens-1`."""
        return self.maps[..., 1:, :].sum(-1)

    @cached_property
    def row_entropies(self) -> Tensor:
        """Entropy in nats of each row from the second on, taken to mass one, `*batch heads tokens-1`.

        H(p) with p = a / s is ln s - (1/s) sum_j a_j ln a_j.
        """
        return self.row_sums.log() - self.weighted_logs.sum(-1)[..., 1:] / self.row_sums

    @cached_property
    def weighted_logs(self) -> Tensor:
        """Each weight times its logarithm, a ln a, zero for a weight of zero, `*batch heads tokens tokens`."""
        return self.maps.clamp(min=torch.finfo(self.maps.dtype).tiny).log_().mul_(self.maps)

    @cached_property
    def received(self) -> Tensor:
        """Mean over rows 2 ... T of the mass on each position, `*batch heads tokens`."""
        return self.maps[..., 1:, :].mean(-2)

    @cached_property
    def square(self) -> Tensor:
        """Sum of squared weights, `*batch heads`."""
        flat = self.maps.flatten(-2)
        return (flat * flat).sum(-1)


@dataclass(frozen=True)
class MapNumber:
    """One number of an attention map, one value a head; call it with maps."""

    name: str
    symbol: str
    definition: str
    source: str
    undefined: str
    needs_overlaps: bool
    attainable: Ends = field(repr=False, compare=False)
    function: Callable[[Maps], Tensor] = field(repr=False, compare=False)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What cannot change it: changes of the stream's basis that the weights follow, so that the map stays."""
        return _OF_DIRECTIONS if self.needs_overlaps else _OF_THE_MAP

    def __reduce__(self) -> Any:
        """To another process it goes by name where it has one, and as a whole otherwise."""
        return by_name(self, getattr(self.function, "__module__", ""))

    def of(self, maps: Maps) -> Tensor:
        """The number of each head, `*batch heads`, NaN where undefined; shares what the maps have already."""
        return self.function(maps)

    def __call__(self, maps: Any, *, overlaps: Any = None) -> Tensor:
        """The number of each head.

        Args:
            maps: Attention maps, NumPy array or tensor `*batch heads tokens tokens`, causal.
            overlaps: Overlaps of the tokens before the sublayer, `*batch tokens tokens`, where the number compares the
                two.

        Returns:
            Tensor `*batch heads`, NaN where undefined.

        Raises:
            ArgumentError: If shapes do not fit, weights are not finite, a token attends ahead, or overlaps are missing.
        """
        given = torch.as_tensor(maps)
        held = Maps(given, None if overlaps is None else torch.as_tensor(overlaps))
        if not bool(torch.isfinite(given).all()):
            raise ArgumentError("Argument `maps` must be finite, but a weight is not. Find out what made it so.")
        if bool(given.triu(1).any()):
            raise ArgumentError(
                "Argument `maps` must be causal, but a token attends to a later one. Set the weights ahead to zero."
            )
        return self.of(held)


def map_number(
    *, symbol: str, definition: str, source: str, undefined: str, attainable: Ends, needs_overlaps: bool = False
) -> Callable[[Callable[[Maps], Tensor]], MapNumber]:
    """Declare a function of maps as a number of an attention map, under its own name.

    Args:
        symbol: The letter or word under which the field knows it.
        definition: The formula in words, with the rows it is taken over.
        source: Author, year.
        undefined: When it is NaN.
        attainable: Lowest and highest value for so many tokens.
        needs_overlaps: Whether it compares the map with the overlaps of the tokens.

    Returns:
        A decorator that turns the function into a `MapNumber` and enters it into `map_numbers`.
    """

    def declare(function: Callable[[Maps], Tensor]) -> MapNumber:
        made = MapNumber(
            name=function.__name__,
            symbol=symbol,
            definition=definition,
            source=source,
            undefined=undefined,
            needs_overlaps=needs_overlaps,
            attainable=attainable,
            function=function,
        )
        _NUMBERS[made.name] = made
        return made

    return declare


def map_numbers() -> dict[str, MapNumber]:
    """Every declared number of an attention map by name: those of the modules `attention_*` here, and your own."""
    package = importlib.import_module("armillary.observables")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("attention_"):
            importlib.import_module(f"armillary.observables.{module.name}")
    return dict(_NUMBERS)
