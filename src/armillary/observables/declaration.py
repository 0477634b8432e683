"""What a reported number is: an observable, measured after an ordered, declared preparation of the rows.

An author writes the mathematics of one configuration and names, by the first parameter, what it is a function of:
`configuration` (the rows as prepared, `*batch tokens dim`), `gram` (their inner products, `*batch tokens tokens`),
`pairs` (the inner products of unordered pairs i < j, `*batch pairs`), `spectrum` (their singular values, `*batch rank`)
or `cloud` (all of them, see `Cloud`). Batching, sharing, preparation and the labels of a record follow from it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.claims import Claim
from armillary.observables.cloud import STEPS, Calibration, Cloud
from armillary.observables.travel import by_name

__all__ = ["OBSERVABLES", "Measurement", "Observable", "Preparation", "as_tensor", "observable"]

Input = Literal["configuration", "gram", "pairs", "spectrum", "cloud"]
Range = Callable[[int, int], tuple[float, float]]
"""Lowest and highest value that a number can take, given the numbers of tokens and of coordinates."""

_ALIASES = {"x": "configuration"}
_UNIT_TOLERANCE = 1e-4

OBSERVABLES: dict[str, Observable | Callable[..., Observable]] = {}
"""Every declared observable by name; those that need a parameter (a grouping, beta) are functions returning one."""


def anything(tokens: int, dim: int) -> tuple[float, float]:
    """The range of a number that is bounded by nothing."""
    return -math.inf, math.inf


@dataclass(frozen=True)
class Preparation:
    """An ordered declaration of what was done to the rows before an observable saw them.

    Args:
        steps: Names from `STEPS`, in order; empty means rows as given.

    Raises:
        ArgumentError: If a step is unknown or directly repeated.
    """

    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for step in self.steps:
            if step not in STEPS:
                raise ArgumentError(
                    f"Argument `steps` must name steps among {', '.join(map(repr, STEPS))}, but it has {step!r}. "
                    "Write for example .after('center', 'normalize')."
                )
        if any(a == b for a, b in zip(self.steps, self.steps[1:], strict=False)):
            raise ArgumentError(
                f"Argument `steps` must not repeat a step at once, but it is {self.steps}. Leave one of them out."
            )

    def __str__(self) -> str:
        return ", ".join(self.steps) if self.steps else "as given"

    @classmethod
    def parse(cls, text: str) -> Preparation:
        """The preparation whose `str` is `text`."""
        return cls(() if text == "as given" else tuple(step.strip() for step in text.split(",")))

    @property
    def unit_rows(self) -> bool:
        """Whether the rows have unit length afterwards."""
        return bool(self.steps) and self.steps[-1] == "normalize"

    @property
    def needs_calibration(self) -> bool:
        """Whether a step subtracts something estimated on other documents."""
        return any(step in ("corpus mean", "without rogue coordinates") for step in self.steps)


@dataclass(frozen=True)
class Observable:
    """One named number of a configuration, with its definition and source.

    Not callable by itself: `observable.after("center", "normalize")` is a `Measurement` and is; `.after()` means rows
    as given.
    """

    name: str
    symbol: str
    definition: str
    source: str
    function: Callable[..., Any] = field(repr=False, compare=False)
    wants: Input
    undefined: str
    needs_unit_rows: bool
    attainable: Range = field(default=anything, repr=False, compare=False)
    parameters: tuple[tuple[str, float | str], ...] = ()
    claims: tuple[Claim, ...] = field(default=(), repr=False, compare=False)
    undecided: Callable[[Cloud, float], Tensor] | None = field(default=None, repr=False, compare=False)

    @property
    def words(self) -> str:
        """Name and parameters, `exponential_overlap(beta=4)`."""
        given = dict(self.parameters)
        shown = given.get("grouping") or ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in given.items()
        )
        return f"{self.name}({shown})" if shown else self.name

    def after(self, *steps: str) -> Measurement:
        """This observable of rows that went through `steps`, in order; none means rows as given."""
        return Measurement(self, Preparation(tuple(steps)))

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
            f"Write {self.name}.after('normalize')(rows), or {self.name}.after()(rows) for rows as given."
        )


@dataclass(frozen=True)
class Measurement:
    """An observable together with its preparation; call it with rows to get numbers."""

    observable: Observable
    preparation: Preparation

    def __str__(self) -> str:
        return f"{self.observable.words} | {self.preparation}"

    @property
    def name(self) -> str:
        """The observable's name."""
        return self.observable.name

    def of(self, cloud: Cloud) -> Tensor:
        """The number of each configuration of `cloud`, which holds rows as given; shares what the cloud has already.

        Returns:
            Tensor `*batch`, NaN where undefined.

        Raises:
            UnsoundError: If the observable is defined for unit rows only and the rows as prepared are not.
            ArgumentError: If its function does not return one number for each configuration.
        """
        prepared = cloud.prepared(self.preparation.steps)
        if self.observable.needs_unit_rows and not self.preparation.unit_rows:
            refuse_other_rows(prepared, self.name, self.preparation)
        value = torch.as_tensor(self.observable.function(seen(prepared, self.observable.wants)))
        if tuple(value.shape) != cloud.batch:
            raise ArgumentError(
                f"Argument `function` of {self.name} must return one number for each configuration, shape "
                f"{cloud.batch}, but it returned shape {tuple(value.shape)}. Reduce over tokens and coordinates, and "
                "keep the leading axes."
            )
        return value

    def __call__(
        self, configuration: Any, *, tokens: Any = None, calibration: Calibration | None = None
    ) -> Tensor | float:
        """The number of each configuration, in float64.

        Args:
            configuration: Rows, NumPy array or tensor `*batch tokens dim`.
            tokens: Boolean `*batch tokens`, True where a token takes part (padding never does); all if None.
            calibration: For the steps that subtract what was estimated on other documents.

        Returns:
            A float for one configuration, else a tensor `*batch`; NaN where undefined.

        Raises:
            ArgumentError: If the rows hold NaN or infinities, or shapes disagree.
        """
        rows = as_tensor(configuration)
        require_finite_rows(rows)
        if tokens is None:
            value = self.of(Cloud(rows, accumulate=torch.float64, calibration=calibration))
            return float(value) if value.ndim == 0 else value
        mask = torch.as_tensor(tokens).bool()
        if mask.shape != rows.shape[:-1]:
            raise ArgumentError(
                f"Argument `tokens` must have shape {tuple(rows.shape[:-1])}, but it has {tuple(mask.shape)}. "
                "Pass one boolean a token."
            )
        flat, flat_mask = rows.flatten(end_dim=-3) if rows.ndim > 2 else rows[None], mask.reshape(-1, mask.shape[-1])
        values = [
            self.of(Cloud(one[chosen], accumulate=torch.float64, calibration=calibration))
            if bool(chosen.any())
            else torch.tensor(torch.nan, dtype=torch.float64)
            for one, chosen in zip(flat, flat_mask, strict=True)
        ]
        value = torch.stack(values).reshape(mask.shape[:-1])
        return float(value) if value.ndim == 0 else value


def observable(
    *,
    symbol: str,
    source: str,
    definition: str = "",
    undefined: str = "never",
    needs_unit_rows: bool = False,
    attainable: Range = anything,
    claims: tuple[Claim, ...] | list[Claim] = (),
    undecided: Callable[[Cloud, float], Tensor] | None = None,
) -> Callable[[Callable[..., Any]], Observable]:
    """Declare a function of one configuration as an observable.

    Args:
        symbol: The letter or word under which the field knows it.
        source: Author, year, equation.
        definition: The formula in words; the first line of the docstring if empty.
        undefined: When its value is NaN.
        needs_unit_rows: Whether it is defined for rows of unit length only.
        attainable: The lowest and the highest value it can take, given the numbers of tokens and coordinates; ends of
            intervals are cut there.
        claims: What cannot change it, and why; put on trial by `audit`.
        undecided: For a number with a tolerance: how far it depends on the tolerance for rows as prepared whose
            singular values may change by the factor that is given beside them.

    Returns:
        A decorator that turns the function into an `Observable` and enters it under its name.

    Raises:
        ArgumentError: If the function's first parameter is not configuration, gram, pairs, spectrum or cloud, if
            nothing says what the number is, or if its name is taken.
    """

    def declare(function: Callable[..., Any]) -> Observable:
        wants, words, name = wanted(function), said(function, definition), function.__name__
        if name in OBSERVABLES:
            raise ArgumentError(
                f"Argument `function` must have a name of its own, but {name!r} is taken. Choose another name, or "
                f"forget the earlier one: del am.OBSERVABLES[{name!r}]."
            )
        made = Observable(
            name=name,
            symbol=symbol,
            definition=words,
            source=source,
            function=function,
            wants=wants,
            undefined=undefined,
            needs_unit_rows=needs_unit_rows,
            attainable=attainable,
            claims=tuple(claims),
            undecided=undecided,
        )
        OBSERVABLES[made.name] = made
        return made

    return declare


def wanted(function: Callable[..., Any]) -> Input:
    """What a function is a function of, by the name of its first parameter.

    Raises:
        ArgumentError: If that name is not configuration, gram, pairs, spectrum or cloud.
    """
    first = next(iter(inspect.signature(function).parameters), "")
    wants = _ALIASES.get(first, first)
    if wants not in get_args(Input):
        raise ArgumentError(
            f"Argument `{first}` of {function.__name__} must be named configuration, gram, pairs, spectrum or "
            "cloud, but it is not. Name the first parameter after what the observable is a function of."
        )
    return wants  # type: ignore[return-value]


def said(function: Callable[..., Any], definition: str) -> str:
    """The definition, or else the first line of the function's docstring.

    Raises:
        ArgumentError: If there is neither.
    """
    words = definition or (inspect.getdoc(function) or "").split("\n")[0]
    if not words:
        raise ArgumentError(
            f"Argument `definition` of {function.__name__} must say what the number is, but there is none. Give it, or "
            "write a docstring."
        )
    return words


def seen(cloud: Cloud, wants: Input) -> Any:
    """What an observable is given of a cloud."""
    if wants == "configuration":
        return cloud.rows
    if wants == "gram":
        return cloud.gram
    if wants == "pairs":
        return cloud.pairs
    return cloud.singular_values if wants == "spectrum" else cloud


def as_tensor(configuration: Any) -> Tensor:
    """Rows as a floating-point tensor, from a NumPy array, nested lists or a tensor.

    Raises:
        ArgumentError: If they are not numbers in rows.
    """
    rows = torch.as_tensor(configuration)
    if not rows.is_floating_point():
        rows = rows.double()
    if rows.ndim < 2:
        raise ArgumentError(
            f"Argument `configuration` must have shape `*batch tokens dim`, but it has {tuple(rows.shape)}. "
            "Put one token vector in each row."
        )
    return rows


def require_finite_rows(rows: Tensor) -> None:
    """Refuse rows that hold NaN or infinities.

    Raises:
        ArgumentError: Naming the first entry that is not finite.
    """
    if not bool(torch.isfinite(rows).all()):
        where = (~torch.isfinite(rows)).nonzero()[0].tolist()
        raise ArgumentError(
            f"Argument `configuration` must be finite, but entry {where} is not. Find out what made it so."
        )


def refuse_other_rows(cloud: Cloud, name: str, preparation: Preparation) -> None:
    """Refuse rows that are not of unit length.

    Args:
        cloud: Rows as prepared.
        name: Of what is measured.
        preparation: What was declared.

    Raises:
        UnsoundError: Saying by how much a squared norm is off.
    """
    off = (cloud.squared_norms - 1).abs()
    worst = float(torch.nan_to_num(off, nan=0.0).max())
    if worst > _UNIT_TOLERANCE:
        raise UnsoundError(
            f"Argument `preparation` of {name} must end in unit rows, but it is {preparation} "
            f"and a squared norm is off by {worst:.3g}. Add 'normalize' as the last step."
        )
