"""Two records side by side: every figure that both have, its panels in pairs on the same axes.

A figure need not know of it: whatever it draws of one record is drawn of both and put together here. Depth is counted
in blocks where both decoders have as many, and otherwise as the share of the blocks passed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, View
from armillary.figures.reading import Reading
from armillary.figures.registry import drawings
from armillary.terms import layer_words

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["DEPTH_SHARE", "Pair", "beside"]

DEPTH = "layer"
"""The label of an axis against depth."""

DEPTH_SHARE = "depth, share of the blocks passed"
_SHARES = ((0.0, "embed"), (0.25, "¼"), (0.5, "½"), (0.75, "¾"), (1.0, "last"))

Option = tuple[str, tuple[str | None, str | None]]
"""What a control offers: its words, and the option of each record's own control that it stands for."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two readings that are shown together: each condition looks the same in both.

    Args:
        first: The record that stands left.
        second: The record that stands right.
        names: What each is called in titles and legends.
    """

    first: Reading
    second: Reading
    names: tuple[str, str] = ("A", "B")

    @classmethod
    def of(cls, first: Record, second: Record, names: tuple[str, str]) -> Pair:
        """Readings of two records whose conditions share their looks."""
        among = tuple(dict.fromkeys(str(c) for one in (first, second) for c in one.dataset["condition"].values))
        return cls(Reading(first, among=among), Reading(second, among=among), names)

    @property
    def readings(self) -> tuple[Reading, Reading]:
        """Both, left first."""
        return self.first, self.second

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that both have, in the order of the first."""
        return tuple(name for name in self.first.conditions if name in self.second.conditions)

    @property
    def blocks(self) -> tuple[int, int]:
        """How many blocks each decoder has; its last measured layer where that is not recorded."""
        first, second = (int(one.dataset.attrs.get("layers", one.layers[-1])) for one in self.readings)
        return first, second

    @property
    def same_depth(self) -> bool:
        """Whether both decoders have as many blocks, so that one layer is the same place in both."""
        return self.blocks[0] == self.blocks[1]

    @cached_property
    def drawn(self) -> tuple[dict[str, Drawing], dict[str, Drawing]]:
        """The figures of each record by itself."""
        return drawings(self.first), drawings(self.second)

    @property
    def alone(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Titles of the figures that only one of them has."""
        first, second = self.drawn
        return (
            tuple(drawing.title for name, drawing in first.items() if name not in second),
            tuple(drawing.title for name, drawing in second.items() if name not in first),
        )

    def drawings(self) -> dict[str, Drawing]:
        """Every figure that both records have, by name."""
        first, second = self.drawn
        return {name: beside(self, first[name], second[name]) for name in first if name in second}

    def place(self, which: int, layer: float) -> float:
        """Where a layer stands on the axis of depth that both share.

        Args:
            which: 0 for the first record, 1 for the second.
            layer: 0 is the embedding.
        """
        return layer if self.same_depth else layer / self.blocks[which]

    def depth_axis(self) -> Axis:
        """The axis of depth that both share."""
        if not self.same_depth:
            return Axis(DEPTH_SHARE, ticks=_SHARES, limits=(-0.02, 1.02))
        longer = max(self.readings, key=lambda one: (one.layers[-1], len(one.layers)))
        layers = [layer for one in self.readings for layer in one.layers]
        room = 0.02 * ((max(layers) - min(layers)) or 1)
        return replace(longer.depth_axis(), limits=(min(layers) - room, max(layers) + room))


def beside(pair: Pair, first: Drawing, second: Drawing) -> Drawing:
    """Two drawings of one figure as one: a row of two panels for each panel, on the same axes.

    Args:
        pair: The two records.
        first: The figure of the first.
        second: The figure of the second.
    """
    controls, settings = _controls(pair, first, second)
    views = []
    for chosen in itertools.product(*(options for _, options in settings)):
        shown = []
        for which, drawing in enumerate((first, second)):
            own = {name: option[1][which] for (name, _), option in zip(settings, chosen, strict=True)}
            choice = tuple(own.get(control.name) for control in drawing.controls)
            shown.append(drawing.view(tuple(map(str, choice))).panels if None not in choice else ())
        views.append(View(tuple(words for words, _ in chosen), tuple(_paired(pair, *shown))))
    captions = list(dict.fromkeys((first.caption, second.caption)))
    if len(captions) > 1:
        captions = [f"{name}: {text}" for name, text in zip(pair.names, captions, strict=True)]
    depth = (
        "" if pair.same_depth else " Depth is the share of the blocks passed, since the decoders have unlike numbers."
    )
    opening = f"Left {pair.names[0]}, right {pair.names[1]}, each pair of panels on the same axes.{depth}"
    return replace(
        first,
        caption=" ".join([opening, *captions]),
        alt=f"{first.title}, two records side by side. {pair.names[0]}: {first.alt} {pair.names[1]}: {second.alt}",
        views=tuple(views),
        controls=tuple(controls),
        columns=2,
        printed=_printed(first, settings),
        height=min(max(first.height, 0.5), 0.72),
    )


def _controls(pair: Pair, first: Drawing, second: Drawing) -> tuple[list[Control], list[tuple[str, list[Option]]]]:
    """The controls of both, and what every option of theirs means to each drawing."""
    own = [{control.name: control for control in drawing.controls} for drawing in (first, second)]
    controls, settings = [], []
    for name in dict.fromkeys([*own[0], *own[1]]):
        one, other = (side.get(name) for side in own)
        if one is None or other is None:
            control = one or other
            assert control is not None  # the name is one of theirs
            options: list[Option] = [(text, (text, text)) for text in control.options]
        else:
            control, options = one, _options(pair, one, other)
        start = next((words for words, (mine, _) in options if mine == control.start), options[0][0])
        controls.append(replace(control, options=tuple(words for words, _ in options), start=start))
        settings.append((name, options))
    return controls, settings


def _options(pair: Pair, one: Control, other: Control) -> list[Option]:
    """What two controls of one name offer together: by name, or layers of unlike decoders by the share of depth."""
    both = [text for text in one.options if text in other.options]
    if one.kind == "slider" and pair.same_depth and both:
        return [(text, (text, text)) for text in both]
    if one.options == other.options or one.kind == "choice":
        every = dict.fromkeys((*one.options, *other.options))
        return [
            (text, (text if text in one.options else None, text if text in other.options else None)) for text in every
        ]
    shares = [
        {text: _share(pair, which, control, text) for text in control.options}
        for which, control in enumerate((one, other))
    ]
    few, many = (0, 1) if len(one.options) <= len(other.options) else (1, 0)
    found: list[Option] = []
    for text, share in shares[few].items():
        match = min(shares[many], key=lambda word: abs(shares[many][word] - share))
        mine, theirs = (text, match) if few == 0 else (match, text)
        found.append((mine if mine == theirs else f"{mine} | {theirs}", (mine, theirs)))
    return found


def _share(pair: Pair, which: int, control: Control, text: str) -> float:
    """How deep a layer in words lies; the share of the way along a slider of anything else."""
    if text == layer_words(0):
        return 0.0
    _, _, number = text.rpartition(" ")
    if number.isdecimal() and text == layer_words(int(number)):
        return int(number) / pair.blocks[which]
    return control.options.index(text) / max(len(control.options) - 1, 1)


def _printed(first: Drawing, settings: Sequence[tuple[str, list[Option]]]) -> tuple[tuple[str, ...], ...]:
    """The settings that go into print, in the words of the shared controls."""
    names = [control.name for control in first.controls]
    chosen = []
    for choice in first.printed:
        own = dict(zip(names, choice, strict=True))
        words = []
        for name, options in settings:
            fits = [text for text, (mine, _) in options if mine == own.get(name, mine)]
            nearest = fits or [text for text, _ in options[:: max(len(options) - 1, 1)]]
            words.append(nearest[0])
        chosen.append(tuple(words))
    return tuple(dict.fromkeys(chosen))


def _paired(pair: Pair, first: tuple[Panel, ...], second: tuple[Panel, ...]) -> Iterator[Panel]:
    """Panels in pairs; one without a partner comes after them, alone."""
    keys = [[(panel.title, panel.note, panel.y.label) for panel in side] for side in (first, second)]
    if len(first) == len(second) and not set(keys[0]) & set(keys[1]):
        partners = list(enumerate(range(len(second))))
    else:
        partners = [(place, keys[1].index(key)) for place, key in enumerate(keys[0]) if key in keys[1]]
    partners = [(i, j) for i, j in partners if first[i].drawn and second[j].drawn]
    for i, j in partners:
        yield from _same_axes(_named(pair, 0, first[i]), _named(pair, 1, second[j]))
    for which, side in enumerate((first, second)):
        taken = {places[which] for places in partners}
        yield from (
            _named(pair, which, panel) for place, panel in enumerate(side) if place not in taken and panel.drawn
        )


def _named(pair: Pair, which: int, panel: Panel) -> Panel:
    """A panel that says which record it is of, against the depth that both share."""
    note = f"{panel.note}: {pair.names[which]}" if panel.note else pair.names[which]
    if panel.x.label != DEPTH:
        return replace(panel, note=note)
    axis = pair.depth_axis()
    assert axis.limits is not None  # a shared axis of depth always has them
    low, high = axis.limits
    aside = high + 0.05 * (high - low)  # where a cloud has its marks, behind the last block
    curves = tuple(
        replace(curve, x=(aside,) * len(curve.x)) if curve.shape == "mark" else _moved(pair, which, curve)
        for curve in panel.curves
    )
    if any(curve.shape == "mark" for curve in curves):
        words = panel.x.ticks[-1][1] if panel.x.ticks else ""
        axis = replace(axis, ticks=(*axis.ticks, (aside, words)), limits=(low, aside + 0.03 * (high - low)))
    return replace(panel, note=note, x=axis, curves=curves)


def _moved(pair: Pair, which: int, curve: Curve) -> Curve:
    return replace(curve, x=tuple(x if isinstance(x, str) else pair.place(which, x) for x in curve.x))


def _same_axes(first: Panel, second: Panel) -> tuple[Panel, Panel]:
    """Two panels with the limits that hold both."""
    if first.y.scale == "names" or second.y.scale == "names":
        ends = [_reach_of_dots(panel) for panel in (first, second)]
        return tuple(replace(one, x=replace(one.x, limits=_union(ends))) for one in (first, second))  # type: ignore[return-value]
    reach = _union([first.reach, second.reach]) if first.y.scale == second.y.scale else None
    across = None
    if first.x.scale == second.x.scale:  # limits of one kind of axis mean nothing on the other
        across = _union([first.x.limits or _extent(first), second.x.limits or _extent(second)])
    one, other = (
        replace(
            panel,
            y=replace(panel.y, limits=reach or panel.y.limits),
            x=replace(panel.x, limits=across or panel.x.limits),
        )
        for panel in (first, second)
    )
    return one, other


def _union(ends: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [one for one in ends if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _extent(panel: Panel) -> tuple[float, float] | None:
    values = [x for c in panel.curves for x in c.x if isinstance(x, int | float) and math.isfinite(x)]
    values += [rule.x for rule in panel.rules if rule.x is not None]
    values = [x for x in values if x > 0] if panel.x.scale == "log" else values
    return (min(values), max(values)) if values else None


def _reach_of_dots(panel: Panel) -> tuple[float, float] | None:
    """From the lowest to the highest end of any interval, with some room."""
    values = [
        v for c in panel.curves for v in (*c.x, *c.low, *c.high) if isinstance(v, int | float) and math.isfinite(v)
    ]
    values = [v for v in values if v > 0] if panel.x.scale == "log" else values
    if not values:
        return None
    low, high = min(values), max(values)
    if panel.x.scale == "log":
        factor = (high / low) ** 0.08 if high > low else 1.2
        return low / factor, high * factor
    room = 0.08 * ((high - low) or abs(high) or 1.0)
    return low - room, high + room
