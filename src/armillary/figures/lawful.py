"""Curves of laws beside what was measured: dashed, thin, and in the color of what they belong to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from armillary.figures.drawing import Curve, Style

__all__ = ["beside", "bounded", "evenly", "interval_curve", "points_curve"]

FINE = 121


def beside(name: str, x: Iterable[float], law: Callable[[float], float], style: Style) -> Curve:
    """A law as a dashed line.

    Args:
        name: what the legend says.
        x: where it is evaluated.
        law: its value at one x; NaN leaves a gap.
        style: of the measured curve it belongs to; its color is kept.
    """
    places = tuple(float(one) for one in x)
    return Curve(name, places, tuple(float(law(one)) for one in places), style=Style(style.color, "dash", "none", 1.2))


def bounded(curve: Curve) -> Curve:
    """The curve behind zero, for a logarithmic axis, without intervals that the members could not bound.

    Args:
        curve: a line with intervals.
    """
    kept = [k for k, x in enumerate(curve.x) if isinstance(x, int | float) and x > 0]
    ends = [(float(curve.low[k]), float(curve.high[k])) if curve.low else (math.nan, math.nan) for k in kept]
    ends = [one if all(map(math.isfinite, one)) else (math.nan, math.nan) for one in ends]
    shown = any(math.isfinite(low) for low, _ in ends)
    return replace(
        curve, x=tuple(curve.x[k] for k in kept), y=tuple(curve.y[k] for k in kept),
        low=tuple(low for low, _ in ends) if shown else (), high=tuple(high for _, high in ends) if shown else (),
    )  # fmt: skip


def evenly(values: Sequence[float], *, scale: str = "linear") -> tuple[float, ...]:
    """Many places from the first of some values to the last.

    Args:
        values: ascending.
        scale: "linear" or "log".
    """
    low, high = float(min(values)), float(max(values))
    return tuple((np.geomspace if scale == "log" else np.linspace)(low, high, FINE).tolist())


def interval_curve(
    name: str, x: Sequence[float], ends: Sequence[tuple[float, float, float]], style: Style, *, shape: str = "line"
) -> Curve:
    """Values with intervals of their own, where a mean over seeds is not what is shown.

    Args:
        name: what the legend says.
        x: places.
        ends: value, lower and upper end at each of them; infinite ones are left out as undefined.
        style: how it looks.
        shape: "line" or "points".
    """
    value, low, high = np.asarray(ends, dtype=float).T
    drawn = [tuple(float(v) if np.isfinite(v) else float("nan") for v in one) for one in (value, low, high)]
    places = tuple(float(one) for one in x)
    return Curve(name, places, drawn[0], drawn[1], drawn[2], style, "points" if shape == "points" else "line")


def points_curve(name: str, x: Sequence[float], y: Sequence[float], style: Style) -> Curve:
    """Markers without a line.

    Args:
        name: what the legend says.
        x: places.
        y: values.
        style: how it looks.
    """
    return Curve(name, tuple(map(float, x)), tuple(map(float, y)), style=style, shape="points")
