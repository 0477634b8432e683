"""A record made of cells as its figures see it: axes with their labels, and each result as means over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError
from armillary.estimates import intervals
from armillary.figures.drawing import Axis, Curve, Style
from armillary.figures.reading import Numbers, Reading

if TYPE_CHECKING:
    import xarray

__all__ = ["SEED", "DiagramReading", "Spread"]

SEED = "seed"


@dataclass(frozen=True, eq=False)
class Spread:
    """Means over seeds with their intervals, along named axes; NaN where undefined, and where there is no interval.

    Attributes:
        dims: Names of the axes.
        value: Means.
        low: Lower ends.
        high: Upper ends.
    """

    dims: tuple[str, ...]
    value: Numbers
    low: Numbers
    high: Numbers


class DiagramReading(Reading):
    """The record of a diagram, as a reading.

    Args:
        record: an opened record whose study is of the kind "phase".
    """

    @property
    def preset(self) -> str:
        """The name of the preset it was made with."""
        return str(self.study["preset"])

    @property
    def seeds(self) -> int:
        """How many independent systems each cell has."""
        return int(self.study["seeds"])

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes that differ between cells, in order."""
        return tuple(self.study["grid"]["axes"])

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results, in the order in which the preset declares them."""
        return tuple(self.study["results"])

    def fixed(self, name: str) -> Any:
        """What is the same in every cell.

        Args:
            name: of the choice.
        """
        return self.study["grid"]["fixed"][name]

    def values_along(self, axis: str) -> tuple[Any, ...]:
        """The values of an axis.

        Args:
            axis: its name.
        """
        return tuple(self.dataset[axis].values.tolist())

    def label_of(self, axis: str) -> str:
        """Quantity and unit of an axis.

        Args:
            axis: its name.
        """
        return str(self.dataset[axis].attrs.get("long_name", axis))

    def is_numeric(self, axis: str) -> bool:
        """Whether an axis holds numbers rather than words.

        Args:
            axis: its name.
        """
        return all(isinstance(value, int | float) for value in self.values_along(axis))

    def axis_of(self, name: str) -> Axis:
        """An axis as a panel has it, reaching from its first value to its last.

        Args:
            name: its name.
        """
        grid = self.study["grid"]
        declared = {**grid["axes"], **grid["along"]}[name]
        values = self.values_along(name)
        if declared["scale"] == "log" and min(values) > 0:
            return Axis(self.label_of(name), "log", limits=(float(min(values)), float(max(values))))
        return Axis(self.label_of(name))

    def numbers(self, name: str, **labels: Any) -> xarray.DataArray:
        """A result with its named axes, those of the seeds included.

        Args:
            name: of the result.
            labels: a value of every axis that is to be fixed.

        Raises:
            ArgumentError: The record has no such result, or an axis no such value.
        """
        if name not in self.dataset.data_vars:
            raise ArgumentError(
                f"Argument `name` must be one of {', '.join(self.results)}, but it is {name!r}. Name a result."
            )
        try:
            return self.dataset[name].sel(labels)
        except KeyError as error:
            raise ArgumentError(
                f"Argument `labels` must hold values that the axes have, but {error} is none. Name one that is there."
            ) from None

    def over_seeds(self, name: str, **labels: Any) -> Spread:
        """A result as means over seeds with their intervals.

        Args:
            name: of the result.
            labels: a value of every axis that is to be fixed.
        """
        key = (name, *sorted(labels.items()))
        if key not in self._spreads:
            self._spreads[key] = self._spread(name, labels)
        return self._spreads[key]

    @cached_property
    def _spreads(self) -> dict[Any, Spread]:
        return {}

    def _spread(self, name: str, labels: dict[str, Any]) -> Spread:
        array = self.numbers(name, **labels)
        dims = tuple(str(axis) for axis in array.dims if axis != SEED)
        if SEED not in array.dims or array.sizes[SEED] < 2:
            value = array.isel({SEED: 0}).values if SEED in array.dims else array.values
            nothing = np.full(np.shape(value), math.nan)
            return Spread(dims, np.asarray(value, dtype=np.float64), nothing, nothing)
        values = array.transpose(SEED, *dims).values.astype(np.float64)
        found = intervals(values, level=self.level, resamples=self.resamples, seed=self.seed)
        found = found.within(*self.attainable(name))
        return Spread(dims, found.value, found.low, found.high)

    def line(self, name: str, along: str, called: str, style: Style, **labels: Any) -> Curve:
        """A result along one axis as a line with its interval.

        Args:
            name: of the result.
            along: the axis.
            called: what the legend says.
            style: how it looks.
            labels: a value of every other axis.
        """
        found = self.over_seeds(name, **labels)
        if found.dims != (along,):
            raise ArgumentError(
                f"Argument `labels` must leave the axis {along!r} alone, but leaves {list(found.dims)}. Fix the others."
            )
        value, low, high = (tuple(float(x) for x in ends) for ends in (found.value, found.low, found.high))
        shown = any(math.isfinite(end) for end in low)
        x = tuple(float(v) for v in self.values_along(along))
        return Curve(called, x, value, low if shown else (), high if shown else (), style)
