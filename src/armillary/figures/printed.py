"""Figures for print: every drawing of a record as PDF, SVG and PNG, by matplotlib."""

from __future__ import annotations

import html
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, Tiles
from armillary.figures.palette import INK
from armillary.figures.reading import Reading
from armillary.figures.registry import drawings, reading_of

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["FORMATS", "print_drawing", "print_drawings", "write_figures"]

FORMATS = ("pdf", "svg", "png")
PNG_DPI = 300
TALLER = 6  # how often a page may grow by 1.4
COLUMN_WIDTH = 7.2  # inches: the text width of a page

DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dot": (0, (1.2, 1.6)),
    "dashdot": (0, (6, 1.6, 1.2, 1.6)),
    "longdash": (0, (9, 2.5)),
    "longdashdot": (0, (10, 2, 1.2, 2)),
}
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "star": "*",
    "none": "",
}
SETTINGS: Any = {
    "font.family": "serif",
    "font.serif": ["Liberation Serif", "Times New Roman", "Nimbus Roman", "STIXGeneral", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.titlelocation": "left",
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "armillary",
    "figure.dpi": 100,
    "text.usetex": False,
    "text.parse_math": False,
}


def write_figures(record: Record | Reading, folder: str | Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Draw every figure that a record has numbers for, in each format.

    Args:
        record: an opened record, or a reading of it.
        folder: where the files go; made if missing. Each is called by its figure's name.
        formats: any of "pdf", "svg", "png" (300 dots per inch).

    Returns:
        The written files, in the order of the figures' names.

    Raises:
        ArgumentError: a format is none of the three.
    """
    from threadpoolctl import threadpool_limits

    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ArgumentError(
            f"Argument `formats` must be of {list(FORMATS)}, but {unknown} came. Leave it out for all three."
        )
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        reading = reading_of(record)
        drawn = drawings(reading)
    return print_drawings(drawn.values(), Path(folder), formats, source=reading.digest)


def print_drawings(
    drawn: Iterable[Drawing], folder: Path, formats: Sequence[str] = FORMATS, *, source: str
) -> tuple[Path, ...]:
    """Draw figures into `folder`, made if missing; the hash `source` of the records travels with each."""
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(file for one in drawn for file in print_drawing(one, folder, formats, source=source))


def _with_room(page: Any) -> None:
    """Make a page taller until labels leave its panels some room."""
    for _ in range(TALLER):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            page.draw_without_rendering()
        if not any("constrained_layout not applied" in str(one.message) for one in told):
            return
        width, height = page.get_size_inches()
        page.set_size_inches(width, 1.4 * height)


def print_drawing(drawing: Drawing, folder: Path, formats: Sequence[str] = FORMATS, *, source: str = "") -> list[Path]:
    """Draw one figure into `folder`; alt text and the record's hash `source` travel in each file's metadata."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(drawing.panels_in_print())
    columns = min(drawing.columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(SETTINGS):
        height = (
            COLUMN_WIDTH / columns * min(max(drawing.height, 0.3), 1.0)
            if columns > 1
            else COLUMN_WIDTH * drawing.height
        )
        page = Figure(figsize=(COLUMN_WIDTH, rows * (height + 0.5) + 0.55), layout="constrained")
        FigureCanvasAgg(page)
        axes = page.subplots(rows, columns, squeeze=False).ravel()
        for axis, (_, panel) in zip(axes, panels, strict=False):
            _panel(axis, panel)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        _legend(page, list(axes[: len(panels)]))
        _with_room(page)
        paths = []
        for name in formats:
            path = folder / f"{drawing.name}.{name}"
            page.savefig(path, dpi=PNG_DPI if name == "png" else None, metadata=_metadata(drawing, name, source))
            if name == "svg":
                path.write_text(_spoken(path.read_text(encoding="utf-8"), drawing), encoding="utf-8")
            paths.append(path)
    return paths


def _panel(axes: Any, panel: Panel) -> None:
    title = "\n".join(part for part in (panel.title, panel.note) if part)
    if title:
        axes.set_title(title, linespacing=1.15)
    if panel.tiles is not None:
        _tiles(axes, panel.tiles)
    for curve in panel.curves:
        if curve.shape == "dots":
            _dots(axes, curve)
        elif curve.shape == "points":
            look = {"ls": "", "marker": MARKERS[curve.style.marker] or "o", "ms": 3.6, "mew": 0.15, "mec": "white"}
            axes.plot(curve.x, curve.y, color=curve.style.color, label=curve.name, **look)
        elif curve.shape == "mark":
            look = {"ls": "", "marker": MARKERS[curve.style.marker] or "o", "ms": 4.2, "mfc": "white", "mew": 1.0}
            axes.plot(curve.x, curve.y, color=curve.style.color, **look)
        elif curve.shape == "steps":
            axes.step(
                curve.x,
                curve.y,
                where="mid",
                color=curve.style.color,
                lw=curve.style.width * 0.7,
                ls=DASHES[curve.style.dash],
                label=curve.name,
            )
        else:
            _line(axes, curve)
    if panel.frame == "picture":
        axes.set_aspect("equal")
        axes.set_axis_off()
        return
    for rule in panel.rules:
        _rule(axes, rule, *panel.label_place(rule))
    _axis(axes, panel.x, "x", panel.x.limits)
    _axis(axes, panel.y, "y", panel.reach)


def _tiles(axes: Any, tiles: Tiles) -> None:
    values = np.ma.masked_invalid(np.asarray(tiles.values, dtype=float))
    low, high = tiles.limits
    mesh = axes.pcolormesh(
        tiles.x, tiles.y, values, cmap="cividis", vmin=low, vmax=high, shading="nearest", rasterized=True
    )
    axes.grid(visible=False)
    axes.figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06).set_label(tiles.name)


def _line(axes: Any, curve: Curve) -> None:
    style = curve.style
    every = max(1, len(curve.x) // 6)
    x = np.asarray(curve.x, dtype=float)
    axes.plot(
        x,
        curve.y,
        color=style.color,
        ls=DASHES[style.dash],
        lw=style.width * 0.75,
        marker=MARKERS[style.marker],
        ms=3.4,
        markevery=every,
        mew=0.3,
        mec="white",
        label=curve.name,
    )
    if curve.low:
        axes.fill_between(x, curve.low, curve.high, color=style.color, alpha=0.16, lw=0)


def _dots(axes: Any, curve: Curve) -> None:
    value, low, high = (
        float(curve.x[0]),
        curve.low[0] if curve.low else math.nan,
        curve.high[0] if curve.high else math.nan,
    )
    reach = [[value - low], [high - value]] if math.isfinite(low) and math.isfinite(high) else None
    axes.errorbar(
        [value],
        [curve.y[0]],
        xerr=reach,
        fmt=MARKERS[curve.style.marker] or "o",
        ms=4.5,
        color=curve.style.color,
        elinewidth=1.1,
        capsize=2.5,
    )
    axes.margins(x=0.12)


def _rule(axes: Any, rule: Rule, end: str, above: bool) -> None:
    from matplotlib.patheffects import withStroke

    look = {"color": "#777777", "lw": 0.8, "ls": (0, (2, 2)), "zorder": 1.5}
    text: Any = {"color": "#666666", "fontsize": 7.0, "path_effects": [withStroke(linewidth=2.0, foreground="white")]}
    text["annotation_clip"] = True  # a rule beyond its axis has no name, which would push all panels together
    if rule.y is not None:
        axes.axhline(rule.y, **look)
        place = ((1.0 if end == "right" else 0.0), rule.y)
        axes.annotate(
            rule.name,
            place,
            xycoords=("axes fraction", "data"),
            ha=end,
            va="bottom" if above else "top",
            **text,
        )
    if rule.x is not None:
        axes.axvline(rule.x, **look)
        place = (rule.x, 0.02)
        axes.annotate(
            rule.name, place, xycoords=("data", "axes fraction"), ha="right", va="bottom", rotation=90, **text
        )


def _plain(value: float, _: int) -> str:
    """A tick of a logarithmic axis as a plain number, or a power of ten where that would be long."""
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}e{int(power)}"


def _axis(axes: Any, axis: Axis, which: str, limits: tuple[float, float] | None) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    getattr(axes, f"set_{which}label")(axis.label)
    if axis.scale == "log":
        getattr(axes, f"set_{which}scale")("log")
    if axis.scale == "names":
        axes.invert_yaxis()
        axes.margins(y=0.2)
    if axis.ticks:
        getattr(axes, f"set_{which}ticks")([place for place, _ in axis.ticks], [text for _, text in axis.ticks])
        if axis.upright:
            axes.tick_params(which, rotation=90)
    if limits:
        getattr(axes, f"set_{which}lim")(*limits)
    if axis.scale == "log":
        ruler = getattr(axes, f"{which}axis")
        ruler.set_major_locator(FixedLocator(_log_ticks(*getattr(axes, f"get_{which}lim")())))
        ruler.set_major_formatter(FuncFormatter(_plain))
        ruler.set_minor_locator(NullLocator())


def _log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2, 5 within about two decades, otherwise powers of ten, thinned."""
    span = math.log10(high / low)
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0) if span < 0.7 else (1.0, 2.0, 5.0) if span < 2.2 else (1.0,)
    every = 1 if len(steps) > 1 else max(1, math.ceil(span / 6))
    powers = (
        power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) if power % every == 0
    )
    return [tick for power in powers for step in steps if low <= (tick := step * 10.0**power) <= high]


def _legend(page: Any, axes: Sequence[Any]) -> None:
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        page.legend(
            entries.values(),
            entries.keys(),
            loc="outside upper left",
            ncols=min(3, len(entries)),
            frameon=False,
            labelcolor=INK,
            handlelength=3.4,
            columnspacing=1.6,
        )


def _spoken(svg: str, drawing: Drawing) -> str:
    """The SVG with title and description where screen readers look for them; its metadata are for catalogs."""
    words = {"title": drawing.title, "desc": drawing.alt}
    inside = "".join(f"<{tag}>{html.escape(text)}</{tag}>" for tag, text in words.items())
    return re.sub(r"(<svg\b[^>]*)>", lambda found: f'{found[1]} role="img">\n {inside}', svg, count=1)


def _metadata(drawing: Drawing, name: str, source: str) -> dict[str, Any]:
    """Title, alt text and source under the keys each format knows; undated, so the same numbers give the same file."""
    if name == "pdf":
        subject = {"Title": drawing.title, "Subject": drawing.alt, "Keywords": f"record {source}"}
        return {**subject, "Creator": "armillary", "CreationDate": None}
    about = {"Title": drawing.title, "Description": drawing.alt, "Source": f"record {source}"}
    return {**about, "Creator": "armillary", "Date": None} if name == "svg" else {**about, "Software": "armillary"}
