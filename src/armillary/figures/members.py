"""A record whose members are draws of weights or seeds of training, as its figures see it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armillary.figures.drawing import Curve, Style
from armillary.figures.reading import Numbers, Profile, Reading, curve_of

__all__ = ["MembersReading"]

MEMBERS = {"diagnosis": "draw", "training": "seed"}


class MembersReading(Reading):
    """The record of a diagnosis or of a training, as a reading: intervals are over draws or seeds.

    Args:
        record: an opened record whose study is of the kind "diagnosis" or "training".
    """

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return str(self.study["kind"])

    @property
    def member(self) -> str:
        """What a member is: the axis of the dataset."""
        return MEMBERS[self.kind]

    @property
    def members(self) -> int:
        """How many members each value has."""
        return int(self.dataset.sizes[self.member])

    def rows(self, variable: str, along: str, **labels: Any) -> Numbers:
        """Stored values, `members along`, at labels.

        Args:
            variable: in the dataset.
            along: the axis that is kept.
            labels: one for every other axis.
        """
        array = self.dataset[variable].sel(labels)
        return np.asarray(array.transpose(self.member, along).values, dtype=np.float64)

    def course(self, variable: str, along: str, **labels: Any) -> Profile | None:
        """Mean over members with its interval along an axis; None where nothing is defined.

        Args:
            variable: in the dataset.
            along: the axis.
            labels: one for every other axis.
        """
        if variable not in self.dataset:
            return None
        x = tuple(self.dataset[along].values.tolist())
        return self.summary(self.rows(variable, along, **labels), x, self.attainable(variable))

    def line(self, name: str, style: Style, variable: str, along: str, **labels: Any) -> Curve | None:
        """The same as a curve.

        Args:
            name: in the legend.
            style: how it looks.
            variable: in the dataset.
            along: the axis.
            labels: one for every other axis.
        """
        return curve_of(self.course(variable, along, **labels), name, style)

    def reach(self, name: str, style: Style, variable: str, along: str, **labels: Any) -> Curve | None:
        """Mean over members with the lowest and the highest of them: for few members, whom no interval fits.

        Args:
            name: in the legend.
            style: how it looks.
            variable: in the dataset.
            along: the axis.
            labels: one for every other axis.
        """
        if variable not in self.dataset:
            return None
        rows = self.rows(variable, along, **labels)
        x = tuple(self.dataset[along].values.tolist())
        mean, low, high = (tuple(one.tolist()) for one in (rows.mean(0), rows.min(0), rows.max(0)))
        return Curve(name, x, mean, low, high, style) if np.isfinite(rows).any() else None

    def mean_of(self, values: Numbers, ends: tuple[float, float] = (-math.inf, math.inf)) -> Profile:
        """Mean of one number a member with its interval; NaN where nothing is defined.

        Args:
            values: one a member.
            ends: lowest and highest attainable.
        """
        found = self.summary(np.asarray(values, dtype=np.float64)[:, None], (0,), ends)
        if found is None:
            nothing = np.array([math.nan])
            return Profile((0,), nothing, nothing, nothing, np.array([0]))
        return found
