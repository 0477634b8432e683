"""A simulation's record as its figures see it: kept times, starts, and the law that the overlaps must follow."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from armillary.figures.drawing import Axis, Curve, Style
from armillary.figures.palette import SERIES
from armillary.figures.reading import Numbers, Profile, Reading, curve_of
from armillary.oracles import overlap as laws

__all__ = ["MOST_STARTS", "OVERLAP", "Run", "time_words"]

OVERLAP = "mean_overlap after normalize"
EVEN = 3.0  # times whose steps in log s differ by no more were spaced in log s
FINE = 241  # points of a law's curve
MOST_STARTS = 6  # that are drawn one by one
NEAR = 1e-9  # distance from consensus below which a law's curve stands at 1

MEAN = Style("#1b1b1b", "solid", "none", 2.2)
LAW = Style("#D55E00", "dash", "none", 2.0)


class Run(Reading):
    """The record of a simulation, as a reading.

    Args:
        record: an opened record whose study is of the kind "simulation".
    """

    @cached_property
    def times(self) -> Numbers:
        """The kept times, or layers."""
        return np.asarray(self.dataset["time"].values, dtype=np.float64)

    @property
    def starts(self) -> int:
        """How many independent starts."""
        return int(self.dataset.sizes["system"])

    @property
    def discrete(self) -> bool:
        """Whether it is a network of layers."""
        return str(self.dataset["time"].attrs.get("units")) == "layers"

    @cached_property
    def logarithmic(self) -> bool:
        """Whether times were kept evenly in log s."""
        steps = np.diff(np.log(self.times[self.times > 0]))
        return len(steps) > 4 and float(steps.max()) < EVEN * float(steps.min())

    def when(self, time: float) -> str:
        """A kept time as a page names it: s = 200, or layer 3.

        Args:
            time: the time, or the layer.
        """
        return f"layer {time:g}" if self.discrete else f"s = {time_words(time)}"

    @property
    def time_axis(self) -> Axis:
        """The axis of time."""
        label = "layer" if self.discrete else "time s"
        if not self.logarithmic:
            return Axis(label)
        later = self.times[self.times > 0]
        return Axis(label, "log", limits=(float(later[0]), float(later[-1])))

    def shown(self, name: str) -> Numbers | None:
        """A number of every start at every drawn time, `system time`; None where the record has none."""
        if name not in self.dataset or self.dataset[name].dims != ("system", "time"):
            return None
        return np.asarray(self.dataset[name].values, dtype=np.float64)[:, self._drawn]

    @cached_property
    def _drawn(self) -> Any:
        """Which kept times an axis can show: all, or those after 0 where it is logarithmic."""
        return self.times > 0 if self.logarithmic else np.full(len(self.times), True)

    @property
    def drawn_times(self) -> tuple[float, ...]:
        """The kept times that an axis can show."""
        return tuple(self.times[self._drawn].tolist())

    def course(self, name: str) -> Profile | None:
        """The mean over starts against time, with its interval from two starts on; None where nothing is defined."""
        values = self.shown(name)
        return None if values is None else self.summary(values, self.drawn_times, self.attainable(name))

    def mean_curve(self, name: str) -> Curve | None:
        """The mean over starts as a line."""
        return curve_of(self.course(name), "mean over starts" if self.starts > 1 else self.start_name(0), MEAN)

    def start_name(self, place: int) -> str:
        """What one start is called, counted from 1.

        Args:
            place: its number from 0.
        """
        return f"start {place + 1}" if self.starts > 1 else "the start"

    def start_style(self, place: int) -> Style:
        """How one start of several looks: thin, told apart by color and dash.

        Args:
            place: its number from 0.
        """
        look = SERIES[1 + place % (len(SERIES) - 1)]
        return Style(look.color, look.dash, "none", 1.1) if self.starts > 1 else MEAN

    @property
    def law(self) -> dict[str, Any] | None:
        """The law that the overlaps must follow, as the study found it."""
        return self.study.get("law")

    @cached_property
    def law_times(self) -> Numbers:
        """Times at which a law's curve is drawn; whole layers for a network of layers."""
        first, last = self.drawn_times[0], self.drawn_times[-1]
        if self.discrete:
            return np.arange(int(first), int(last) + 1, dtype=np.float64)
        return np.geomspace(first, last, FINE) if self.logarithmic else np.linspace(first, last, FINE)

    def law_overlap(self, at: Numbers) -> Numbers | None:
        """What the law says of the overlap of each start, `system time`; None where no law is known.

        Args:
            at: times, ascending.
        """
        law = self.law
        return None if law is None else np.stack([_followed(law, float(one), at) for one in law["overlaps"]])


def time_words(time: float) -> str:
    """A time to four digits, written out up to a million.

    Args:
        time: the time.
    """
    rounded = float(f"{time:.4g}")
    return f"{rounded:.0f}" if rounded.is_integer() and abs(rounded) < 1e6 else f"{rounded:.4g}".replace("e+", "e")


def _followed(law: dict[str, Any], start: float, at: Numbers) -> Numbers:
    """One start's overlap under a law."""
    name, tokens = law["name"], int(law["tokens"])
    if name == "causal pair":
        return laws.causal_pair(at, overlap=start)
    if name == "scheme":
        own = {key: law[key] for key in ("scheme", "beta", "alpha", "switch") if key in law}
        return laws.scheme_overlap(at, tokens=tokens, **own)
    beta = float(law["beta"])
    if name == "residual layers":
        layers = round(float(at[-1]))
        every = laws.residual_layers(tokens=tokens, beta=beta, step=float(law["step"]), layers=layers, overlap=start)
        return every[np.rint(at).astype(int)]
    rule = str(law["rule"])
    rate = laws.equiangular_rate(start, tokens=tokens, beta=beta, rule=rule)
    if rate == 0 or start > 1 - NEAR or start < -1 / (tokens - 1) + NEAR:
        return np.full_like(at, start)
    there = laws.time_between(start, 1 - NEAR, lambda c: laws.equiangular_rate(c, tokens=tokens, beta=beta, rule=rule))
    found, before = np.ones_like(at), at < there
    if before.any():
        grid = np.concatenate([[0.0], at[before]]) if at[0] > 0 else at[before]
        values = laws.equiangular(grid, tokens=tokens, overlap=start, beta=beta, rule=rule)
        found[before] = values[-int(before.sum()) :]
    return found
