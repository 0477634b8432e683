"""A record whose members are draws of weights or seeds of training, as its figures see it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from armillary.figures.drawing import Curve, Style
from armillary.figures.reading import Numbers, Profile, Reading, curve_of

__all__ = ["DiagnosisReading", "MembersReading", "TrainingReading"]

BOOTSTRAP = 5
"""From so many members on the bootstrap can bound an interval at 95 %; fewer have Student's t, and are told so."""


class MembersReading(Reading):
    """A reading whose intervals are over draws or seeds.

    Attributes:
        member: What a member is: the axis of the dataset.
    """

    member: ClassVar[str]

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

    @property
    def method(self) -> str:
        """How intervals come about, in words."""
        if self.members >= BOOTSTRAP:
            return f"studentized bootstrap over {self.members} {self.member}s"
        return f"Student's t over {self.members} {self.member}s, which takes them as normal: so few bound no bootstrap"

    def summary(
        self,
        values: Numbers,
        x: tuple[float | str, ...],
        ends: tuple[ArrayLike, ArrayLike] = (-math.inf, math.inf),
    ) -> Profile | None:
        """Values `members x` with intervals cut at `ends`; by Student's t where members are few.

        Args:
            values: one row a member; NaN where it has no number.
            x: positions.
            ends: lowest and highest attainable.
        """
        if not 2 <= values.shape[0] < BOOTSTRAP:
            return super().summary(values, x, ends)
        from scipy import stats

        known = np.isfinite(values)
        members = known.sum(axis=0)
        if not members.any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            filled = np.where(known, values, 0.0)
            mean = np.where(members > 0, filled.sum(0) / members, np.nan)
            apart = np.where(known, values - mean, 0.0)
            error = np.sqrt((apart**2).sum(0) / np.maximum(members - 1, 1) / np.maximum(members, 1))
            half = np.where(members > 1, stats.t.ppf(0.5 + self.level / 2, np.maximum(members - 1, 1)) * error, np.nan)
        low, high = np.maximum(mean - half, ends[0]), np.minimum(mean + half, ends[1])
        return Profile(x, mean, low, high, members)

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


class DiagnosisReading(MembersReading):
    """The record of a diagnosis, as a reading: members are draws of weights.

    Args:
        record: an opened record whose study is of the kind "diagnosis".
    """

    member = "draw"


class TrainingReading(MembersReading):
    """The record of a training, as a reading: members are seeds.

    Args:
        record: an opened record whose study is of the kind "training".
    """

    member = "seed"
