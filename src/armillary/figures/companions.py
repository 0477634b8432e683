"""Figures of who is with whom in a simulation: overlaps in order of groups, the staircase of groups, angles in time."""

from __future__ import annotations

import math

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Style, Tiles, View
from armillary.figures.moving import shaded
from armillary.figures.palette import SERIES
from armillary.figures.reading import Numbers
from armillary.figures.registry import figure_of
from armillary.figures.run import MOST_STARTS, OVERLAP, Run

__all__ = [
    "angles_in_time",
    "coloring",
    "final_groups",
    "group_staircase",
    "has_states",
    "one_start",
    "overlap_maps",
    "shown_starts",
    "states_of",
    "telling_times",
]

MOST_TOKENS = 96
MOST_GROUPS = 7
COUNT, ORDER = "cluster_count after normalize", "clustering_order_parameter after normalize"


@figure_of(Run)
def overlap_maps(run: Run) -> Drawing | None:
    """The overlaps of a start at four times, tokens in the order of the groups that they end in."""
    if not has_states(run):
        return None
    starts = shown_starts(run)
    views = [View(choice, _maps(run, start)) for start, choice in starts]
    tokens = int(run.dataset.sizes["token"])
    fewer = f" Shown are {MOST_TOKENS} of {tokens} tokens, evenly through that order." * (tokens > MOST_TOKENS)
    return Drawing(
        "overlap_maps",
        "Overlaps of all pairs of tokens at four times",
        f"{one_start(starts)} Tokens stand in the order of the groups that they end in, so that groups are blocks."
        f"{fewer} The times are the first and the last kept one, and those at which the mean overlap had gone a third "
        "and two thirds of its way.",
        told("Overlaps of all pairs of tokens of one start", views[0].panels),
        tuple(views),
        controls=start_control(starts),
        height=0.9,
    )


def _maps(run: Run, start: int) -> tuple[Panel, ...]:
    states, times = states_of(run, start), telling_times(run, start)
    order = _together(run, times, start)
    kept = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_TOKENS)).astype(int))]
    places = tuple(float(place) for place in range(len(kept)))
    ticks = tuple((place, f"{place + 1:g}") for place in places[:: max(1, math.ceil(len(places) / 6))])
    axis = Axis("token", ticks=ticks)
    panels = []
    for time in times:
        rows = states[time, kept]
        rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        values = tuple(tuple(row) for row in np.clip(rows @ rows.T, -1, 1).tolist())
        title = run.when(run.times[time])
        panels.append(Panel(title, axis, axis, (), tiles=Tiles("overlap", places, places, values, (-1.0, 1.0))))
    return tuple(panels)


@figure_of(Run)
def group_staircase(run: Run) -> Drawing | None:
    """The number of groups and the sum of squared group shares against time, start by start and on average."""
    panels = []
    for name, title, label, scale in (
        (COUNT, "number of groups", "groups", "log"),
        (ORDER, "clustering order parameter", "sum of squared group shares", "linear"),
    ):
        values, mean = run.shown(name), run.mean_curve(name)
        if values is None or mean is None:
            continue
        each = [
            Curve(run.start_name(place), *_stairs(run.drawn_times, row), style=run.start_style(place))
            for place, row in enumerate(values[:MOST_STARTS])
        ]
        curves = (*each, mean) if run.starts > 1 else tuple(each)
        panels.append(Panel(title, run.time_axis, Axis(label, "log" if scale == "log" else "linear"), curves))
    if not panels:
        return None
    some = f" The first {MOST_STARTS} starts are drawn one by one." if run.starts > MOST_STARTS else ""
    return Drawing(
        "group_staircase",
        "The staircase of groups",
        f"Groups: {run.attribute(COUNT, 'grouping') or run.study.get('grouping', 'as recorded')}. A step says that a "
        "group had merged, or come apart, by that kept time; a long tread is a plateau, which ends when the next "
        f"clusters meet.{some} {shaded(run)}".strip(),
        told("Groups against time", tuple(panels)),
        (View((), tuple(panels)),),
    )


@figure_of(Run)
def angles_in_time(run: Run) -> Drawing | None:
    """The space-time diagram on the circle: the angle of every token of a start against time."""
    if not has_states(run) or run.dataset.sizes["coordinate"] != 2:
        return None
    starts = shown_starts(run)
    groups = final_groups(run)
    sizes = np.sort(np.bincount(groups[groups >= 0]))[::-1] if (groups >= 0).any() else np.array([], dtype=int)
    return Drawing(
        "angles_in_time",
        "Angles of all tokens against time",
        f"{one_start(starts)} On the circle, one line for each token, colored by the group that it ends in. The top "
        "edge is the bottom edge. Lines that join are tokens that have come to agree.",
        f"Angle of each of {len(groups)} tokens against time, from {run.when(run.drawn_times[0])} to "
        f"{run.when(run.drawn_times[-1])}. At the end the tokens of the first start stand in groups of "
        f"{', '.join(map(str, sizes))}.",
        tuple(View(choice, (_angles(run, start),)) for start, choice in starts),
        controls=start_control(starts),
        columns=1,
        height=0.62,
    )


def _angles(run: Run, start: int) -> Panel:
    states = states_of(run, start)
    shown = run.times > 0 if run.logarithmic else np.full(len(run.times), True)
    angles = np.degrees(np.arctan2(states[shown, :, 1], states[shown, :, 0]))
    parts = coloring(final_groups(run, start))
    curves = [_paths(name, run.drawn_times, angles[:, members], style) for name, members, style in parts]
    ticks = tuple((float(one), f"{one}°".replace("-", "−")) for one in (-180, -90, 0, 90, 180))
    return Panel("", run.time_axis, Axis("angle", ticks=ticks, limits=(-186.0, 186.0)), tuple(curves))


def shown_starts(run: Run) -> list[tuple[int, tuple[str, ...]]]:
    """The starts whose states are drawn, each with the setting that shows it; the first alone has no setting."""
    number = min(int(run.dataset.sizes["shown"]), MOST_STARTS)
    return [(place, (run.start_name(place),) if number > 1 else ()) for place in range(number)]


def start_control(starts: list[tuple[int, tuple[str, ...]]]) -> tuple[Control, ...]:
    """What chooses among starts, where there are several.

    Args:
        starts: as `shown_starts` gives them.
    """
    names = tuple(choice[0] for _, choice in starts if choice)
    return (Control("start", names, "choice", names[0]),) if names else ()


def one_start(starts: list[tuple[int, tuple[str, ...]]]) -> str:
    """How a caption begins.

    Args:
        starts: as `shown_starts` gives them.
    """
    return "One start." if len(starts) == 1 else f"One of the first {len(starts)} starts at a time."


def final_groups(run: Run, start: int = 0) -> np.ndarray:
    """The group of each token of a start at the last kept time, by size: 0 is the largest, -1 is none."""
    if "group" not in run.dataset:
        return np.zeros(int(run.dataset.sizes["token"]), dtype=int)
    labels = np.asarray(run.dataset["group"].values[start, -1], dtype=int)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    by_size = np.argsort(-sizes, kind="stable")
    number = np.empty_like(by_size)
    number[by_size] = np.arange(len(by_size))
    return np.where(labels >= 0, number[np.maximum(labels, 0)], -1)


def _together(run: Run, times: list[int], start: int) -> np.ndarray:
    """Tokens of a start in order of the groups that they end in, and within these of their earlier groups."""
    if "group" not in run.dataset:
        return np.arange(int(run.dataset.sizes["token"]))
    labels = np.asarray(run.dataset["group"].values[start], dtype=int)
    return np.lexsort([*(labels[time] for time in times[:-1]), final_groups(run, start)])


def coloring(groups: np.ndarray) -> list[tuple[str, np.ndarray, Style]]:
    """Groups with a name, their members and a look each; beyond the largest few they share one.

    Args:
        groups: the group of each token, by size; -1 for none.
    """
    count = int(groups.max(initial=-1)) + 1
    own = min(count, MOST_GROUPS)
    found = []
    for number in range(own):
        members = (groups == number).nonzero()[0]
        look = SERIES[number % len(SERIES)]
        words = f"group {number + 1}: {len(members)} token{'s' if len(members) > 1 else ''}"
        found.append((words, members, Style(look.color, "solid", "none", 1.1)))
    rest = (groups >= own).nonzero()[0]
    if len(rest):
        found.append((f"{count - own} smaller groups", rest, Style("#9a9a9a", "solid", "none", 0.8)))
    alone = (groups < 0).nonzero()[0]
    if len(alone):
        found.append(("in no group", alone, Style("#bbbbbb", "dot", "none", 0.8)))
    return found


def telling_times(run: Run, start: int = 0) -> list[int]:
    """Places of four kept times: the first, the last, and where the mean overlap had gone a third and two thirds."""
    values = np.asarray(run.dataset[OVERLAP].values[start], dtype=np.float64)
    last = len(values) - 1
    if last < 3 or abs(values[-1] - values[0]) < 1e-9:
        return sorted({0, last})
    way = (values - values[0]) / (values[-1] - values[0])
    passed = [int(np.argmax(way >= share)) for share in (1 / 3, 2 / 3)]
    return sorted({0, last, *passed})


def has_states(run: Run) -> bool:
    """Whether states were kept, and the overlaps that tell which times to show."""
    return "states" in run.dataset and OVERLAP in run.dataset


def states_of(run: Run, start: int) -> Numbers:
    """States of a start, `time token coordinate`."""
    return np.asarray(run.dataset["states"].values[start], dtype=np.float64)


def _stairs(times: tuple[float, ...], values: Numbers) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A course as treads and risers: it changes at the kept time at which it was seen changed."""
    x, y = [times[0]], [float(values[0])]
    for time, before, after in zip(times[1:], values[:-1], values[1:], strict=True):
        if before != after:
            x.append(time)
            y.append(float(before))
        x.append(time)
        y.append(float(after))
    return tuple(x), tuple(y)


def _paths(name: str, times: tuple[float, ...], angles: Numbers, style: Style) -> Curve:
    """Paths of several tokens as one curve, parted where a path leaves one edge and comes back at the other."""
    x: list[float] = []
    y: list[float] = []
    for path in angles.T:
        for place, (time, angle) in enumerate(zip(times, path, strict=True)):
            if place and abs(angle - path[place - 1]) > 180:
                x.append(time)
                y.append(math.nan)
            x.append(time)
            y.append(float(angle))
        x.append(times[-1])
        y.append(math.nan)
    return Curve(name, tuple(x), tuple(y), style=style)
