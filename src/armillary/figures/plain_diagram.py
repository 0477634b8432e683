"""The plain figure of a result over its grid: lines with intervals, or colored tiles, whatever its axes are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from armillary.figures.described import told
from armillary.figures.diagram import SEED, DiagramReading, Spread
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Style, Tiles, View
from armillary.figures.palette import SERIES

__all__ = ["plain_figure"]

MOST_LINES = 6
MOST_PANELS = 9
DECADES = 2.5  # a result that spans more is drawn on a logarithmic axis


def plain_figure(reading: DiagramReading, result: str) -> Drawing | None:
    """A result over the grid, as means over seeds; None where nothing is defined or it has no axis.

    Args:
        reading: of the record.
        result: its name.
    """
    found = reading.over_seeds(result)
    dims = [name for name, size in zip(found.dims, found.value.shape, strict=True) if size > 1]
    if not np.isfinite(found.value).any() or not dims:
        return None
    numeric = [name for name in dims if reading.is_numeric(name)] or dims
    across = max(numeric, key=lambda name: len(reading.values_along(name)))
    rest = [name for name in dims if name != across]
    panels = tuple(_panels(reading, result, found, across, rest))
    title = f"{_words(result).capitalize()} over the grid"
    symbol = reading.attribute(result, "symbol")
    whole = math.prod(found.value.shape) == sum(_count(panel) for panel in panels)
    shown = "" if whole else f" The first {MOST_PANELS} panels are shown; the record has all."
    bands = SEED in reading.dataset[result].dims and reading.seeds > 1
    caption = (
        f"{symbol}: {reading.attribute(result, 'definition')}. "
        + (f"Means over {reading.seeds} seeds. " if bands else "")
        + ("Shaded: intervals over seeds. " if bands and any(c.low for p in panels for c in p.curves) else "")
        + shown
    )
    return Drawing(
        f"grid_{result}", title, caption.strip(), told(title, panels), (View((), panels),),
        columns=1 if len(panels) == 1 else 2,
    )  # fmt: skip


def _panels(reading: DiagramReading, result: str, found: Spread, across: str, rest: list[str]) -> Iterator[Panel]:
    """One panel for each setting of the axes beyond two; in each, lines or tiles over the other two."""
    second = max((n for n in rest), key=lambda n: len(reading.values_along(n)), default=None)
    outer = [name for name in rest if name != second]
    sizes = [len(reading.values_along(name)) for name in outer]
    for number in range(min(math.prod(sizes), MOST_PANELS)):
        index = dict(zip(outer, np.unravel_index(number, sizes) if sizes else (), strict=True))
        note = ", ".join(f"{name} {_value(reading.values_along(name)[at])}" for name, at in index.items())
        place = tuple(slice(None) if name in (across, second) else int(index.get(name, 0)) for name in found.dims)
        kept = [name for name in found.dims if name in (across, second)]
        block = [np.asarray(ends[place]) for ends in (found.value, found.low, found.high)]
        if kept and kept[0] != across:
            block = [ends.T for ends in block]
        yield _panel(reading, result, block, across, second, note, found.value)


def _panel(
    reading: DiagramReading, result: str, block: list[np.ndarray], across: str, second: str | None, note: str,
    every: np.ndarray,
) -> Panel:  # fmt: skip
    value, low, high = block
    scale = _scale(every)
    ends = (float(np.nanmin(every)), float(np.nanmax(every)))
    x = reading.values_along(across)
    label = reading.attribute(result, "symbol") or _words(result)
    units = reading.attribute(result, "units")
    y = Axis(
        f"{label} ({units})" if units else label, scale, limits=_room(ends, scale) if value.size < every.size else None
    )
    if second is None:
        return Panel("", _across(reading, across), y, (_line(label, x, value, low, high, SERIES[0]),), note=note)
    others = reading.values_along(second)
    if len(others) > MOST_LINES and reading.is_numeric(second) and reading.is_numeric(across):
        rows = tuple(tuple(float(v) for v in row) for row in value.T)
        tiles = Tiles(label, tuple(map(float, x)), tuple(map(float, others)), rows, ends)
        return Panel("", _across(reading, across), reading.axis_of(second), (), note=note, tiles=tiles)
    curves = tuple(
        _line(f"{second} {_value(other)}", x, value[:, k], low[:, k], high[:, k], SERIES[k % len(SERIES)])
        for k, other in enumerate(others)
    )
    return Panel("", _across(reading, across), y, curves, note=note)


def _across(reading: DiagramReading, name: str) -> Axis:
    if reading.is_numeric(name):
        return reading.axis_of(name)
    words = reading.values_along(name)
    return Axis(reading.label_of(name), ticks=tuple((float(k), str(word)) for k, word in enumerate(words)))


def _line(
    name: str, x: tuple[object, ...], value: np.ndarray, low: np.ndarray, high: np.ndarray, style: Style
) -> Curve:
    at = tuple(float(v) if isinstance(v, int | float) else float(k) for k, v in enumerate(x))
    shown = bool(np.isfinite(low).any())
    ends = [tuple(map(float, end)) if shown else () for end in (low, high)]
    return Curve(name, at, tuple(map(float, value)), ends[0], ends[1], style)


def _scale(value: np.ndarray) -> Literal["linear", "log"]:
    known = value[np.isfinite(value)]
    wide = len(known) and known.min() > 0 and math.log10(known.max() / known.min()) > DECADES
    return "log" if wide else "linear"


def _room(ends: tuple[float, float], scale: str) -> tuple[float, float]:
    """The same axis for all panels of a figure: from the lowest value of any to the highest, with a little room."""
    low, high = ends
    if scale == "log":
        room = (high / low) ** 0.05
        return low / room, high * room
    room = 0.05 * (high - low) or 0.05 * (abs(high) or 1.0)
    return low - room, high + room


def _count(panel: Panel) -> int:
    """How many numbers a panel shows."""
    if panel.tiles is not None:
        return len(panel.tiles.x) * len(panel.tiles.y)
    return sum(len(curve.x) for curve in panel.curves)


def _words(result: str) -> str:
    return result.replace("_", " ")


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
