"""Numbers of two configurations with the same tokens: declared like an observable, after one preparation of both.

An author writes the mathematics of a pair, and what each of the two is reduced to before they meet: `configuration`,
`gram`, `pairs` or `spectrum`, named by the first parameter as for an observable of one configuration, or the tensor
that `of` makes of a cloud. The second parameter is the same of the other configuration. While a batch goes through a
decoder, that tensor is all that is kept of an earlier layer. Batching, labels and the laboratory's comparisons follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.claims import Claim
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.declaration import (
    Preparation,
    Range,
    anything,
    as_tensor,
    refuse_other_rows,
    require_finite_rows,
    said,
    seen,
    wanted,
)
from armillary.observables.travel import by_name

__all__ = ["BETWEEN_LAYERS", "BetweenLayers", "BetweenMeasurement", "between_layers"]

Level = Callable[[int, int], float]
"""What two independent clouds would give, given the numbers of tokens and of coordinates."""

BETWEEN_LAYERS: dict[str, BetweenLayers | Callable[..., BetweenLayers]] = {}
"""Every declared number of two configurations by name; those that need a parameter are functions returning one."""


@dataclass(frozen=True)
class BetweenLayers:
    """One named number of two configurations with the same tokens, with its definition and source.

    Not callable by itself: `linear_cka.after("normalize")` is a `BetweenMeasurement` and is.
    """

    name: str
    symbol: str
    definition: str
    source: str
    of: Callable[[Cloud], Tensor] = field(repr=False, compare=False)
    function: Callable[[Tensor, Tensor], Tensor] = field(repr=False, compare=False)
    undefined: str
    needs_unit_rows: bool
    attainable: Range = field(default=anything, repr=False, compare=False)
    independent: Level = field(default=lambda tokens, dim: float("nan"), repr=False, compare=False)
    parameters: tuple[tuple[str, float | str], ...] = ()
    claims: tuple[Claim, ...] = field(default=(), repr=False, compare=False)

    @property
    def words(self) -> str:
        """Name and parameters, `neighbor_overlap(k=10)`."""
        shown = ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in self.parameters
        )
        return f"{self.name}({shown})" if shown else self.name

    def after(self, *steps: str) -> BetweenMeasurement:
        """This number of two configurations that both went through `steps`, in order; none means rows as given."""
        return BetweenMeasurement(self, Preparation(tuple(steps)))

    def __reduce__(self) -> Any:
        """To another process it goes by name where it has one, and as a whole otherwise."""
        return by_name(self, getattr(self.function, "__module__", ""))

    def __call__(self, *_: object, **__: object) -> Any:
        """Refuse: a number without its preparation is not reported.

        Raises:
            UnsoundError: Always.
        """
        raise UnsoundError(
            f"Argument `preparation` must be declared before {self.name} is measured, but it was not. "
            f"Write {self.name}.after('normalize')(rows, other), or {self.name}.after()(rows, other) for rows as given."
        )


@dataclass(frozen=True)
class BetweenMeasurement:
    """A number of two configurations together with the preparation of both; call it with their rows."""

    observable: BetweenLayers
    preparation: Preparation

    def __str__(self) -> str:
        return f"{self.observable.words} | {self.preparation}"

    @property
    def name(self) -> str:
        """The observable's name."""
        return self.observable.name

    def reduced(self, cloud: Cloud) -> Tensor:
        """What this number needs of one configuration.

        Args:
            cloud: Rows as given.

        Returns:
            A tensor with the batch axes first.

        Raises:
            UnsoundError: If the number is defined for unit rows only and the rows as prepared are not.
        """
        prepared = cloud.prepared(self.preparation.steps)
        if self.observable.needs_unit_rows and not self.preparation.unit_rows:
            refuse_other_rows(prepared, self.name, self.preparation)
        return self.observable.of(prepared)

    def compared(self, reduced: Tensor, other: Tensor, batch: tuple[int, ...]) -> Tensor:
        """The number of each pair, from what each configuration was reduced to.

        Args:
            reduced: Of the one, as `reduced` returns it.
            other: Of the other.
            batch: The batch axes.

        Returns:
            Tensor `*batch`, NaN where undefined.

        Raises:
            ArgumentError: If the function does not return one number for each pair.
        """
        value = torch.as_tensor(self.observable.function(reduced, other))
        if tuple(value.shape) != batch:
            raise ArgumentError(
                f"Argument `function` of {self.name} must return one number for each pair, shape {batch}, but it "
                f"returned shape {tuple(value.shape)}. Reduce over tokens and coordinates, and keep the leading axes."
            )
        return value

    def of(self, cloud: Cloud, other: Cloud) -> Tensor:
        """The number of each pair of configurations.

        Args:
            cloud: Rows as given.
            other: The other rows as given, of the same tokens; of any dimension where the number allows it.

        Returns:
            Tensor `*batch`, NaN where undefined.

        Raises:
            ArgumentError: If the clouds differ in batch or tokens, or the function does not return one number a pair.
            UnsoundError: If the number is defined for unit rows only and the rows as prepared are not.
        """
        if (cloud.batch, cloud.tokens) != (other.batch, other.tokens):
            raise ArgumentError(
                f"Argument `other` must hold the same tokens, shape {(*cloud.batch, cloud.tokens)}, but it holds "
                f"{(*other.batch, other.tokens)}. Compare two layers of the same documents."
            )
        return self.compared(self.reduced(cloud), self.reduced(other), cloud.batch)

    def __call__(
        self,
        configuration: Any,
        other: Any,
        *,
        calibrations: Sequence[Calibration | None] = (None, None),
    ) -> Tensor | float:
        """The number of each pair, in float64.

        Args:
            configuration: Rows, NumPy array or tensor `*batch tokens dim`.
            other: The other rows of the same tokens.
            calibrations: One for each of the two, for the steps that subtract what was estimated on other documents.

        Returns:
            A float for one pair, else a tensor `*batch`; NaN where undefined.

        Raises:
            ArgumentError: If the rows hold NaN or infinities, or shapes disagree.
        """
        clouds = []
        for rows, calibration in zip((configuration, other), calibrations, strict=True):
            tensor = as_tensor(rows)
            require_finite_rows(tensor)
            clouds.append(Cloud(tensor, accumulate=torch.float64, calibration=calibration))
        value = self.of(*clouds)
        return float(value) if value.ndim == 0 else value


def between_layers(
    *,
    symbol: str,
    source: str,
    definition: str = "",
    of: Callable[[Cloud], Tensor] | None = None,
    undefined: str = "never",
    needs_unit_rows: bool = False,
    attainable: Range = anything,
    independent: Level = lambda tokens, dim: float("nan"),
    claims: Sequence[Claim] = (),
) -> Callable[[Callable[[Tensor, Tensor], Tensor]], BetweenLayers]:
    """Declare a function of two configurations with the same tokens.

    Args:
        symbol: The letter or word under which the field knows it.
        source: Author, year, equation.
        definition: The formula in words; the first line of the docstring if empty.
        of: What a configuration is reduced to; by the name of the function's first parameter if None.
        undefined: When its value is NaN.
        needs_unit_rows: Whether it is defined for rows of unit length only.
        attainable: The lowest and the highest value it can take, given the numbers of tokens and coordinates; ends of
            intervals are cut there.
        independent: What it gives on average for two clouds that have nothing to do with each other; NaN if unknown.
        claims: What cannot change it, and why: a transformation of either configuration, or one order of tokens in
            both.

    Returns:
        A decorator that turns the function into a `BetweenLayers` and enters it under its name.

    Raises:
        ArgumentError: If neither `of` nor the function's first parameter says what it is a function of, if nothing says
            what the number is, or if its name is taken.
    """

    def declare(function: Callable[[Tensor, Tensor], Tensor]) -> BetweenLayers:
        words, name = said(function, definition), function.__name__
        reduction = of or partial(seen, wants=wanted(function))
        if name in BETWEEN_LAYERS:
            raise ArgumentError(
                f"Argument `function` must have a name of its own, but {name!r} is taken. Choose another name, or "
                f"forget the earlier one: del am.BETWEEN_LAYERS[{name!r}]."
            )
        made = BetweenLayers(
            name=name,
            symbol=symbol,
            definition=words,
            source=source,
            of=reduction,
            function=function,
            undefined=undefined,
            needs_unit_rows=needs_unit_rows,
            attainable=attainable,
            independent=independent,
            claims=tuple(claims),
        )
        BETWEEN_LAYERS[name] = made
        return made

    return declare
