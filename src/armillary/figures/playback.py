"""The figure of a simulation on the sphere of three dimensions: turned and played on the page, three views in print."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armillary.figures.companions import (
    coloring,
    final_groups,
    has_states,
    one_start,
    shown_starts,
    states_of,
    telling_times,
)
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Playback, Style, View
from armillary.figures.reading import Numbers
from armillary.figures.registry import figure_of
from armillary.figures.run import Run

__all__ = ["playback"]

MOST_FRAMES = 121
MOST_TOKENS = 400
MOST_NUMBERS = 400_000
TURN, TILT = 35.0, 25.0  # degrees: where the printed views are seen from, and where the page begins
FAINT = Style("#cfcbc2", "solid", "none", 0.7)
EDGE = Style("#8a8a8a", "solid", "none", 0.9)


@figure_of(Run)
def playback(run: Run) -> Drawing | None:
    """Tokens of a start on the sphere: a playback to be turned, and three views of the first for print."""
    if not has_states(run) or run.dataset.sizes["coordinate"] != 3:
        return None
    starts = _affordable(run)
    states, parts, kept = _start(run, 0)
    times = telling_times(run)
    chosen = [times[0], times[len(times) // 2], times[-1]] if len(times) > 2 else times
    panels = tuple(_view(run.when(run.times[time]), states[time], parts) for time in chosen)
    groups, tokens = final_groups(run), int(run.dataset.sizes["token"])
    sizes = ", ".join(str(int((groups == one).sum())) for one in range(int(groups.max(initial=-1)) + 1))
    fewer = "" if kept == tokens else f" {kept} of {tokens} tokens are shown."
    further = tuple((choice[0], _played(run, *_start(run, place)[:2])) for place, choice in starts[1:])
    return Drawing(
        "playback",
        "Tokens on the sphere",
        f"{one_start(starts)} Each token is a point, colored by the group that it ends in. On the page: drag to turn, "
        f"move the slider or press play to run through the kept times. Points behind the sphere are faint.{fewer}",
        f"Playback of {tokens} tokens on the unit sphere from {run.when(run.times[0])} to "
        f"{run.when(run.times[-1])}. At the end those of the first start stand in groups of {sizes or 'no'} tokens.",
        (View((), panels),),
        columns=3,
        height=0.9,
        playback=replace(_played(run, states, parts), name=run.start_name(0), further=further),
    )


def _affordable(run: Run) -> list[tuple[int, tuple[str, ...]]]:
    """The starts that a page has room for."""
    starts = shown_starts(run)
    tokens, times = int(run.dataset.sizes["token"]), len(run.times)
    each = 3 * min(tokens, MOST_TOKENS) * min(times, MOST_FRAMES)
    return starts[: max(1, MOST_NUMBERS // each)]


def _start(run: Run, place: int) -> tuple[Numbers, list[tuple[str, np.ndarray, Style]], int]:
    """Directions of a start, `time token 3`, groups of its tokens with their looks, and how many tokens are shown."""
    states = states_of(run, place)
    states = states / np.linalg.norm(states, axis=-1, keepdims=True)
    kept = np.unique(np.linspace(0, states.shape[1] - 1, min(states.shape[1], MOST_TOKENS)).astype(int))
    return states[:, kept], coloring(final_groups(run, place)[kept]), len(kept)


def _played(run: Run, states: Numbers, parts: list[tuple[str, np.ndarray, Style]]) -> Playback:
    frames = np.unique(np.linspace(0, len(states) - 1, min(len(states), MOST_FRAMES)).astype(int))
    colors = [""] * states.shape[1]
    for _, members, style in parts:
        for member in members:
            colors[int(member)] = style.color
    points = tuple(tuple((float(x), float(y), float(z)) for x, y, z in states[frame]) for frame in frames)
    names = tuple((style.color, words) for words, _, style in parts)
    return Playback(tuple(run.when(run.times[frame]) for frame in frames), points, tuple(colors), names)


def _view(title: str, rows: Numbers, parts: list[tuple[str, np.ndarray, Style]]) -> Panel:
    """The sphere from one side: its outline, some circles, and the tokens; those behind are faint."""
    seen = rows @ _camera().T
    around = np.linspace(0, 2 * np.pi, 73)
    ring = np.stack([np.cos(around), np.sin(around), np.zeros_like(around)], axis=1)
    circles = [ring, ring[:, [0, 2, 1]], ring[:, [2, 0, 1]]]
    curves = [_line(circle @ _camera().T, FAINT) for circle in circles] + [_line(ring, EDGE)]
    behind = np.zeros(len(rows), dtype=bool)
    behind[seen[:, 2] < 0] = True
    for words, members, style in parts:
        curves.append(Curve(words, (), (), style=Style(style.color, marker="circle"), shape="points"))  # for the legend
        for hidden, color in ((True, _faded(style.color)), (False, style.color)):
            some = members[behind[members] == hidden]
            if len(some):
                x, y = (tuple(seen[some, axis].tolist()) for axis in (0, 1))
                curves.append(Curve("", x, y, style=Style(color, marker="circle"), shape="points"))
    limits = (-1.06, 1.06)
    return Panel(title, Axis("", limits=limits), Axis("", limits=limits), tuple(curves), frame="picture")


def _line(rows: Numbers, style: Style) -> Curve:
    x, y = (tuple(rows[:, axis].tolist()) for axis in (0, 1))
    return Curve("", x, y, style=style)


def _camera() -> Numbers:
    """Rows: right, up, toward the eye."""
    a, b = np.radians(TURN), np.radians(TILT)
    toward = np.array([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])
    right = np.array([-np.sin(a), np.cos(a), 0.0])
    return np.stack([right, np.cross(toward, right), toward])


def _faded(color: str) -> str:
    """A color two thirds of the way to white."""
    parts = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) / 3):02x}" for part in parts)
