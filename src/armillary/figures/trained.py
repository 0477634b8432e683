"""Figures of a training: held-out loss through steps and beside the baseline, geometry through steps and depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.members import TrainingReading
from armillary.figures.palette import SERIES
from armillary.figures.reading import Numbers, curve_of
from armillary.figures.registry import figure_of

__all__ = [
    "cells",
    "differences",
    "geometry_through_depth",
    "geometry_through_steps",
    "given_up",
    "loss_through_steps",
]

STEP = Axis("step")
ZERO = Rule("no difference", y=0.0)
GEOMETRY = (
    ("mean_overlap", "mean overlap", "c", "linear"),
    ("participation_rank", "participation rank", "R", "log"),
    ("participation_rank_centered", "participation rank, centered", "R", "log"),
    ("stream_norm_mean", "norm of a row", "|x|", "log"),
)


def combinations(reading: TrainingReading) -> Iterator[tuple[str, str, Style]]:
    """Recipe, term and look of every combination, in order; the first is the baseline.

    Args:
        reading: of a training.
    """
    looks = iter(SERIES * 9)
    for recipe in reading.options("recipe"):
        for term in reading.options("term"):
            yield recipe, term, next(looks)


def name_of(recipe: str, term: str) -> str:
    """What a combination is called in a legend."""
    short = term.replace(" after normalize", "")
    return recipe if term == "none" else f"{recipe} + {short}"


def cells(reading: Any) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """What every combination ended with, one number a seed.

    Args:
        reading: of a training.
    """
    data = reading.dataset
    for recipe, term, _ in combinations(reading):
        one = data.sel(recipe=recipe, term=term)
        last = one.isel(step=-1)
        numbers = {"final_loss": last["loss"].values, "steps_to_loss": one["steps_to_loss"].values}
        numbers["mean_overlap"] = last["mean_overlap"].isel(layer=slice(1, None)).mean("layer").values
        numbers["participation_rank"] = last["participation_rank"].isel(layer=slice(1, None)).mean("layer").values
        for name in ("input_noise_loss", "state_noise_loss", "linear_probe", "seconds", "skipped"):
            numbers[name] = one[name].values
        yield recipe, term, {key: [float(value) for value in values] for key, values in numbers.items()}


def given_up(reading: Any) -> Iterator[str]:
    """A sentence for every combination in which steps were given up.

    Args:
        reading: of a training.
    """
    for recipe, term, numbers in cells(reading):
        lost, steps = int(sum(numbers["skipped"])), int(reading.study["shape"]["steps"]) * len(numbers["skipped"])
        if lost:
            what, remedy = ("this term", "its strength") if term != "none" else ("no term", "the learning rates")
            yield (
                f"{lost} of {steps} steps were given up in {name_of(recipe, term)}: the loss with {what}, or its "
                f"gradient, was not finite, so that weights stayed as they were. Lower {remedy}."
            )


def differences(reading: Any) -> Iterator[tuple[str, str, tuple[float, float, float]]]:
    """Final held-out loss minus the baseline's, paired by seed, with its interval; NaN ends for one seed.

    Args:
        reading: of a training.
    """
    first = next(combinations(reading))
    base = reading.rows("loss", "step", recipe=first[0], term=first[1])[:, -1]
    for recipe, term, _ in list(combinations(reading))[1:]:
        rows = reading.rows("loss", "step", recipe=recipe, term=term)[:, -1]
        found = reading.mean_of(rows - base).at(0)
        yield recipe, term, (found[0], found[1], found[2])


@figure_of(TrainingReading)
def loss_through_steps(reading: TrainingReading) -> Drawing | None:
    """Held-out loss of every combination against steps, and its paired difference from the baseline."""
    curves, apart = [], []
    baseline: Numbers | None = None
    steps = tuple(reading.dataset["step"].values.tolist())
    for recipe, term, style in combinations(reading):
        rows = reading.rows("loss", "step", recipe=recipe, term=term)
        curve = curve_of(reading.summary(rows, steps), name_of(recipe, term), style)
        curves += [curve] if curve else []
        if baseline is None:
            baseline = rows
            continue
        curve = curve_of(reading.summary(rows - baseline, steps), name_of(recipe, term), style)
        apart += [curve] if curve else []
    panels = [Panel("held-out loss", STEP, Axis("nats per byte"), tuple(curves))]
    if apart:
        panels.append(Panel("minus the baseline, paired by seed", STEP, Axis("nats per byte"), tuple(apart), (ZERO,)))
    caption = (
        "Next-token loss on held-out documents, without any term. Each combination runs at its own best learning rate. "
        f"The baseline is {name_of(*next(combinations(reading))[:2])}. {_shaded(reading)}"
    )
    return _drawing("loss_through_steps", "Held-out loss through the steps", caption, panels)


@figure_of(TrainingReading)
def geometry_through_steps(reading: TrainingReading) -> Drawing | None:
    """Overlap, ranks and norm against steps, mean over the layers after a block."""
    steps = tuple(reading.dataset["step"].values.tolist())
    panels = []
    for variable, title, label, scale in GEOMETRY:
        curves = []
        for recipe, term, style in combinations(reading):
            array = reading.dataset[variable].sel(recipe=recipe, term=term).isel(layer=slice(1, None)).mean("layer")
            rows = np.asarray(array.transpose("seed", "step").values, dtype=np.float64)
            curve = curve_of(reading.summary(rows, steps, reading.attainable(variable)), name_of(recipe, term), style)
            curves += [curve] if curve else []
        panels.append(Panel(title, STEP, Axis(label, "log" if scale == "log" else "linear"), tuple(curves)))
    caption = (
        "Held-out documents, rows normalized (the norm as it is), first token left out, mean over the layers after "
        f"each block. {_shaded(reading)}"
    )
    return _drawing("geometry_through_steps", "Geometry through the steps", caption, panels)


@figure_of(TrainingReading)
def geometry_through_depth(reading: TrainingReading) -> Drawing | None:
    """Overlap and ranks against depth at a step that the reader chooses."""
    steps = [str(step) for step in reading.dataset["step"].values.tolist()]
    views = []
    for step in steps:
        panels = []
        for variable, title, label, scale in GEOMETRY[:3]:
            curves: list[Curve] = []
            for recipe, term, style in combinations(reading):
                curve = reading.line(
                    name_of(recipe, term), style, variable, "layer", recipe=recipe, term=term, step=int(step)
                )
                curves += [curve] if curve else []
            axis = Axis(label, "log" if scale == "log" else "linear")
            panels.append(Panel(title, reading.depth_axis(), axis, tuple(curves), note=f"step {step}"))
        views.append(View((step,), tuple(panels)))
    caption = (
        "Stream after each block on held-out documents, rows normalized, first token left out; the slider chooses the "
        f"step. {_shaded(reading)}"
    )
    title = "Geometry through depth"
    control = Control("step", tuple(steps), "slider", steps[-1])
    printed = tuple(dict.fromkeys([(steps[0],), (steps[-1],)]))
    return Drawing(
        "geometry_through_depth", title, caption, told(title, views[-1].panels), tuple(views), (control,), columns=3,
        printed=printed,
    )  # fmt: skip


def _shaded(reading: TrainingReading) -> str:
    if reading.members < 2:
        return ""
    return f"Shaded: {100 * reading.level:g}% intervals ({reading.method})."


def _drawing(name: str, title: str, caption: str, panels: list[Panel]) -> Drawing | None:
    shown = tuple(panel for panel in panels if panel.drawn)
    return Drawing(name, title, caption, told(title, shown), (View((), shown),)) if shown else None
