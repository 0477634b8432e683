"""Drawings as the data a page's script draws from: strict JSON that no document title can break out of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Playback, Rule, Tiles

__all__ = ["embedded_json", "explored"]

DIGITS = 5


def explored(drawings: Mapping[str, Drawing]) -> dict[str, Any]:
    """Every drawing as nested plain data; undefined numbers are null.

    Args:
        drawings: drawings by name.

    Returns:
        For each name its controls, columns, panel height and views (by their choices joined with a bar), or its
        playback.
    """
    return {name: _drawing(drawing) for name, drawing in drawings.items()}


def embedded_json(data: Any) -> str:
    """Strict JSON that may stand inside a script element: `<`, `>`, `&` and line separators are escaped.

    Args:
        data: plain data without NaN.
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _drawing(drawing: Drawing) -> dict[str, Any]:
    if drawing.playback is not None:  # the panels are for print
        return {"playback": _playback(drawing.playback)}
    return {
        "columns": drawing.columns,
        "height": drawing.height,
        "controls": [
            {"name": control.name, "options": list(control.options), "kind": control.kind, "start": control.start}
            for control in drawing.controls
        ],
        "views": {
            "|".join(view.choice): [_panel(panel) for panel in view.panels if panel.drawn] for view in drawing.views
        },
    }


def _playback(playback: Playback) -> dict[str, Any]:
    return {
        "times": list(playback.times),
        "points": [[[round(x, DIGITS - 1) for x in point] for point in frame] for frame in playback.points],
        "colors": list(playback.colors),
        "names": [list(pair) for pair in playback.names],
        "name": playback.name,
        "further": [{**_playback(one), "name": name} for name, one in playback.further],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    tiles = panel.tiles
    colored = {} if tiles is None else {"tiles": _tiles(tiles)}
    return colored | {
        "title": panel.title,
        "note": panel.note,
        "x": _axis(panel.x),
        "y": _axis(panel.y, panel.reach),
        "curves": [_curve(curve) for curve in panel.curves if curve.drawn],
        "rules": [_rule(panel, rule) for rule in panel.rules],
    }


def _rule(panel: Panel, rule: Rule) -> dict[str, Any]:
    end, above = panel.label_place(rule)
    return {"name": rule.name, "x": _number(rule.x), "y": _number(rule.y), "end": end, "above": above}


def _tiles(tiles: Tiles) -> dict[str, Any]:
    return {
        "name": tiles.name,
        "x": _numbers(tiles.x),
        "y": _numbers(tiles.y),
        "values": [_numbers(row) for row in tiles.values],
        "limits": _numbers(tiles.limits),
    }


def _axis(axis: Axis, limits: tuple[float, float] | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"label": axis.label, "scale": axis.scale}
    if axis.ticks:
        result["at"] = [place for place, _ in axis.ticks]
        result["text"] = [text.split("\n") for _, text in axis.ticks]
    if axis.upright:
        result["upright"] = True
    if axis.limits or limits:
        result["limits"] = _numbers(axis.limits or limits or ())
    return result


def _curve(curve: Curve) -> dict[str, Any]:
    style = curve.style
    result: dict[str, Any] = {
        "name": curve.name,
        "shape": curve.shape,
        "color": style.color,
        "dash": style.dash,
        "marker": style.marker,
        "width": style.width,
        "x": _numbers(curve.x),
        "y": _numbers(curve.y),
    }
    if curve.low:
        result["low"], result["high"] = _numbers(curve.low), _numbers(curve.high)
    return result


def _numbers(values: Iterable[float | str]) -> list[Any]:
    return [value if isinstance(value, str) else _number(value) for value in values]


def _number(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e12 else rounded
