"""What a figure is made of: curves in panels, panels in views; page and print draw the same declaration.

A figure function never plots. It returns a `Drawing`: plain data that the page turns into an explorable plot and the
printer into PDF, SVG and PNG. So both always show the same numbers, and a new figure is one function.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from armillary.errors import ArgumentError

__all__ = ["Axis", "Control", "Curve", "Drawing", "Panel", "Playback", "Rule", "Style", "Tiles", "View"]

SHORTEST_ALT = 40
HEAD_ROOM = 0.14  # of the range: what the name of a rule near an end needs beyond it
LABEL_HEIGHT = 0.09  # of a panel: what the name of a rule takes
LETTER_SHARE = 0.022  # of a panel's width: what a letter of it takes
TRACED = 6  # points between two of a curve that are looked at for room
INTERVAL_SHARE = 0.3  # of the values' range: how far an interval may widen an axis


@dataclass(frozen=True)
class Style:
    """How a curve looks: color, dash and marker each tell it apart alone.

    Args:
        color: `#rrggbb`.
        dash: "solid", "dash", "dot", "dashdot", "longdash" or "longdashdot".
        marker: "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star" or "none".
        width: line width in points.
    """

    color: str = "#222222"
    dash: str = "solid"
    marker: str = "none"
    width: float = 1.6


@dataclass(frozen=True)
class Curve:
    """One line, one row of dots or one stepped outline, with its interval where it has one.

    Args:
        name: what the legend says.
        x: positions; strings on an axis of names.
        y: values; NaN is *undefined* and leaves a gap.
        low: lower interval ends, as long as `y`, or empty.
        high: upper interval ends, as long as `y`, or empty.
        style: how it looks.
        shape: "line", "dots" (interval as a bar; horizontal where the y axis has names), "steps", "points" (markers
            without a line), or "mark": open markers without a line, named like the curve whose reference they are and
            not listed in a legend.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: Style = field(default_factory=Style)
    shape: Literal["line", "dots", "steps", "points", "mark"] = "line"

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y)} | ({len(self.low), len(self.high)} if self.low or self.high else set())
        if len(lengths) != 1:
            raise ArgumentError(
                f"Argument `y` must be as long as `x` and the interval ends, but the curve {self.name!r} has "
                f"{len(self.x)}, {len(self.y)}, {len(self.low)} and {len(self.high)} points. Cut them to one length."
            )

    @property
    def drawn(self) -> bool:
        """Whether anything of it is defined."""
        values = self.x if self.y and isinstance(self.y[0], str) else self.y
        return any(isinstance(value, (int, float)) and math.isfinite(value) for value in values)


@dataclass(frozen=True)
class Rule:
    """A reference line across a panel: horizontal at `y` or vertical at `x`, named in words."""

    name: str
    y: float | None = None
    x: float | None = None


@dataclass(frozen=True)
class Tiles:
    """A number at every crossing of two axes, shown as a color.

    Args:
        name: quantity and unit, for the scale of colors.
        x: positions across.
        y: positions upward.
        values: one row for each of `y`; NaN is *undefined* and leaves a gap.
        limits: the values at both ends of the scale of colors.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    limits: tuple[float, float]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.y) or any(len(row) != len(self.x) for row in self.values):
            raise ArgumentError(
                f"Argument `values` must hold {len(self.y)} rows of {len(self.x)}, one for each of `y` and `x`, but "
                f"the tiles {self.name!r} have {len(self.values)} rows of {sorted({len(row) for row in self.values})}. "
                "Transpose them."
            )

    @property
    def drawn(self) -> bool:
        """Whether any of them is defined."""
        return any(math.isfinite(value) for row in self.values for value in row)


@dataclass(frozen=True)
class Playback:
    """Tokens on the unit sphere of three dimensions, time after time: what a page lets a reader turn and play.

    Args:
        times: what each time is called.
        points: unit vectors, `times tokens 3`.
        colors: `#rrggbb` of each token.
        names: for each color what it stands for, in the order of the legend.
        name: what this start is called, where there are further ones.
        further: further starts by name, which a reader can choose instead.
    """

    times: tuple[str, ...]
    points: tuple[tuple[tuple[float, float, float], ...], ...]
    colors: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    name: str = ""
    further: tuple[tuple[str, Playback], ...] = ()

    def __post_init__(self) -> None:
        tokens = {len(frame) for frame in self.points}
        if len(self.points) != len(self.times) or tokens != {len(self.colors)}:
            raise ArgumentError(
                f"Argument `points` must hold {len(self.times)} times of {len(self.colors)} tokens, one for each of "
                f"`times` and `colors`, but holds {len(self.points)} times of {sorted(tokens)}. Transpose them."
            )


@dataclass(frozen=True)
class Axis:
    """An axis: its label, scale, and the ticks that have names.

    Args:
        label: quantity and unit.
        scale: "linear", "log" or "names".
        ticks: (position, text) pairs; empty lets the renderer choose.
        limits: (low, high) in data units, or None.
        upright: whether the names of ticks stand upright, for many columns.
    """

    label: str
    scale: Literal["linear", "log", "names"] = "linear"
    ticks: tuple[tuple[float, str], ...] = ()
    limits: tuple[float, float] | None = None
    upright: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its curves and reference lines; `note` (the preparation, say) stands below the title.

    Curves of a panel of `tiles` lie over them; one whose `frame` is "picture" has no axes, and equal units both ways.
    """

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    rules: tuple[Rule, ...] = ()
    note: str = ""
    tiles: Tiles | None = None
    frame: Literal["axes", "picture"] = "axes"

    @property
    def drawn(self) -> bool:
        """Whether anything in it is defined anywhere, and positive where a logarithmic axis asks for it."""
        if self.tiles is not None and self.tiles.drawn:
            return True
        positive = self.y.scale != "log" or any(isinstance(y, float) and y > 0 for c in self.curves for y in c.y)
        return positive and any(curve.drawn for curve in self.curves)

    @property
    def reach(self) -> tuple[float, float] | None:
        """Limits of the y axis: as declared, or so that all values and all but outsized intervals are inside.

        The values of all curves and the rules span a range; intervals widen it by at most `INTERVAL_SHARE` of it at
        each end, so that one unbounded interval does not flatten every curve.
        """
        if self.y.limits is not None or self.y.scale == "names":
            return self.y.limits
        logarithmic = self.y.scale == "log"

        def places(values: Iterable[object]) -> list[float]:
            numbers = (float(v) for v in values if isinstance(v, int | float) and math.isfinite(v))
            return [math.log10(v) for v in numbers if v > 0] if logarithmic else list(numbers)

        inside = places([*(v for c in self.curves for v in c.y), *(r.y for r in self.rules if r.y is not None)])
        if not inside:
            return None
        low, high = min(inside), max(inside)
        room = (high - low) or 0.1 * (abs(high) or 1.0)
        ends = places(v for c in self.curves for v in (*c.low, *c.high))
        low = min([low, *(max(end, low - INTERVAL_SHARE * room) for end in ends)])
        high = max([high, *(min(end, high + INTERVAL_SHARE * room) for end in ends)])
        size = (high - low) or room
        rules = places(r.y for r in self.rules if r.y is not None)
        top, bottom = (any(abs(place - end) < HEAD_ROOM * size for place in rules) for end in (high, low))
        limits = (low - (HEAD_ROOM if bottom else 0.05) * size, high + (HEAD_ROOM if top else 0.05) * size)
        return (10.0 ** limits[0], 10.0 ** limits[1]) if logarithmic else limits

    def label_place(self, rule: Rule) -> tuple[Literal["left", "right"], bool]:
        """At which end the name of a horizontal rule stands, and whether above its line: where it covers least.

        Of four places the first that hides no piece of a curve, no other rule, and does not leave the panel.
        """
        reach, width = self.reach, min(0.9, LETTER_SHARE * len(rule.name))
        if rule.y is None or reach is None:
            return "right", True
        at = _share(rule.y, reach, self.y.scale)
        others = [_share(r.y, reach, self.y.scale) for r in self.rules if r.y is not None and r is not rule]
        traced = [point for curve in self.curves if curve.shape == "line" for point in self._traced(curve, reach)]
        first = at > 0.25 and all(at > other for other in others)
        places: list[tuple[float, int, Literal["left", "right"], bool]] = []
        ends: tuple[Literal["left", "right"], ...] = ("right", "left")
        for order, (end, above) in enumerate(itertools.product(ends, (first, not first))):
            left, bottom = (1 - width if end == "right" else 0.0), (at if above else at - LABEL_HEIGHT)
            outside = bottom < -0.01 or bottom + LABEL_HEIGHT > 1.01
            hidden = sum(left <= x <= left + width and bottom <= y <= bottom + LABEL_HEIGHT for x, y in traced)
            crossed = sum(bottom <= other <= bottom + LABEL_HEIGHT for other in others)
            places.append((1000.0 * outside + 20.0 * crossed + hidden, order, end, above))
        _, _, end, above = min(places)
        return end, above

    def _traced(self, curve: Curve, reach: tuple[float, float]) -> Iterator[tuple[float, float]]:
        """Points along a drawn line as shares of the panel's width and height."""
        everywhere = [x for c in self.curves for x in c.x if isinstance(x, int | float)]
        across = self.x.limits or (min(everywhere, default=0.0), max(everywhere, default=1.0))
        shares = [
            (_share(x, across, self.x.scale), _share(y, reach, self.y.scale))
            for x, y in zip(curve.x, curve.y, strict=True)
            if isinstance(x, int | float) and isinstance(y, int | float)
        ]
        for (x, y), (further, higher) in itertools.pairwise(shares):
            for step in range(TRACED):
                part = step / TRACED
                yield x + part * (further - x), y + part * (higher - y)
        yield from shares[-1:]


@dataclass(frozen=True)
class View:
    """The panels that are seen together for one setting of a drawing's controls."""

    choice: tuple[str, ...]
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Control:
    """What a reader can turn: a slider (ordered options) or a choice (a few named ones).

    Args:
        name: what is chosen, in a word ("layer").
        options: every setting, in order.
        kind: "slider" or "choice".
        start: the setting a page opens with.
    """

    name: str
    options: tuple[str, ...]
    kind: Literal["slider", "choice"]
    start: str

    def __post_init__(self) -> None:
        if self.start not in self.options:
            raise ArgumentError(
                f"Argument `start` must be one of {list(self.options)}, but {self.start!r} came. Start with an option."
            )


@dataclass(frozen=True)
class Drawing:
    """A whole figure as data.

    Args:
        name: file name and anchor.
        title: a short noun phrase.
        caption: what is drawn, with preparation, tokens and definitions named.
        alt: the same for somebody who cannot see it, with what the curves do; required.
        views: one for each combination of the controls' options; one view where there are no controls.
        controls: what the reader can turn.
        columns: panels in a row.
        printed: the choices that go into print; empty prints the starting view.
        height: panel height relative to its width.
        playback: what the page shows in the place of the panels, which then are for print; or None.
    """

    name: str
    title: str
    caption: str
    alt: str
    views: tuple[View, ...]
    controls: tuple[Control, ...] = ()
    columns: int = 2
    printed: tuple[tuple[str, ...], ...] = ()
    height: float = 0.72
    playback: Playback | None = None

    def __post_init__(self) -> None:
        if len(self.alt.strip()) < SHORTEST_ALT:
            raise ArgumentError(
                f"Argument `alt` must say in words what the figure {self.name!r} shows (at least {SHORTEST_ALT} "
                f"characters), but {self.alt!r} came. Describe the axes and what the curves do."
            )
        expected = set(itertools.product(*(control.options for control in self.controls)))
        if {view.choice for view in self.views} != expected or len(self.views) != len(expected):
            raise ArgumentError(
                f"Argument `views` must hold one view for each of the {len(expected)} settings of the controls of "
                f"{self.name!r}, but {len(self.views)} came. Declare each combination once."
            )

    @property
    def opening(self) -> View:
        """The view a page opens with."""
        return self.view(tuple(control.start for control in self.controls))

    def view(self, choice: tuple[str, ...]) -> View:
        """The view of one setting of the controls."""
        return next(view for view in self.views if view.choice == choice)

    def panels_in_print(self) -> Iterator[tuple[tuple[str, ...], Panel]]:
        """The panels that are printed, each with the choice it belongs to."""
        choices: Sequence[tuple[str, ...]] = self.printed or (self.opening.choice,)
        for choice in choices:
            for panel in self.view(choice).panels:
                if panel.drawn:
                    yield choice, panel


def _share(value: float, ends: tuple[float, float], scale: str) -> float:
    """How far a value lies on the way from one end of an axis to the other; NaN where it is not on it."""
    low, high = ends
    if scale == "log":
        if not (value > 0 and low > 0 and high > low):
            return math.nan
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5
