"""The page of a training: did a start or a term help, by how much, at what cost, and what that does not show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armillary.figures.members import TrainingReading
from armillary.figures.registry import drawings
from armillary.figures.trained import cells, combinations, differences, given_up, name_of
from armillary.report.markup import Markup, counted, element, facts, interval, join, paragraph, table
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import assembled, laid_out, with_answer

__all__ = ["training_page"]

COLUMNS = (
    ("final_loss", "final loss"),
    ("steps_to_loss", "steps to the baseline's loss"),
    ("mean_overlap", "mean overlap"),
    ("participation_rank", "participation rank"),
    ("seconds", "seconds a step"),
    ("skipped", "steps given up"),
)
EXTRA = (
    ("input_noise_loss", "loss under input noise"),
    ("state_noise_loss", "loss under state noise"),
    ("linear_probe", "linear probe"),
)


def training_page(reading: TrainingReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    drawn = drawings(reading)
    loss = [drawn.get("loss_through_steps"), _ends(reading, COLUMNS, "At the end of every run."), _paired(reading)]
    shape = [drawn.get("geometry_through_steps"), drawn.get("geometry_through_depth")]
    sections, links = laid_out(
        [
            ("loss", "Held-out loss", "Loss", loss),
            ("geometry", "Geometry", "Geometry", shape),
            ("robust", "Under noise, and read by a linear map", "Noise", [_robust(reading)]),
            ("rates", "Learning rates", "Rates", [_rates(reading)]),
            ("limits", "What these numbers do not show", "Limits", [_limits(reading)]),
            ("methods", "Methods", "Methods", [_methods(reading), _definitions(reading)]),
            ("provenance", "Provenance", "Provenance", [_provenance(reading)]),
        ]
    )
    contents = with_answer(links)
    title = f"{counted(len(reading.options('recipe')), 'start')}, {counted(len(reading.options('term')), 'loss term')}"
    return assembled(f"Training: {title}", join([_head(reading), sections]), contents, drawn)


def _head(reading: TrainingReading) -> Markup:
    shape = reading.study["shape"]
    size = (
        f"{shape['architecture']} · {counted(shape['blocks'], 'block')}, width {shape['width']} · "
        f"{shape['documents']} documents of {shape['tokens']} bytes a step, {shape['steps']} steps"
    )
    header = element(
        "header",
        element("p", "Training report · does a geometric start or a geometric term help?", class_="kind"),
        element("h1", f"{counted(reading.members, 'paired seed')}, each combination at its best learning rate"),
        element("p", size, class_="model"),
    )
    said = [paragraph(*_baseline(reading)), *(paragraph(*one) for one in _answers(reading))]
    return join([header, element("section", element("div", *said, class_="answer"), _flag(reading), id="answer")])


def _baseline(reading: TrainingReading) -> list[Any]:
    recipe, term, numbers = next(cells(reading))
    return [
        "The baseline, ", element("b", name_of(recipe, term)), ", ends at a held-out loss of ",
        _mean(reading, numbers["final_loss"], "loss"), " nats per byte with a mean overlap of ",
        _mean(reading, numbers["mean_overlap"], "mean_overlap"), ".",
    ]  # fmt: skip


def _answers(reading: TrainingReading) -> list[list[Any]]:
    ended = {(recipe, term): numbers for recipe, term, numbers in cells(reading)}
    said = []
    for recipe, term, ends in differences(reading):
        numbers = ended[recipe, term]
        verdict = "no difference is established"
        if math.isfinite(ends[1]) and math.isfinite(ends[2]) and (ends[1] > 0 or ends[2] < 0):
            verdict = "higher" if ends[1] > 0 else "lower"
        said.append([
            element("b", name_of(recipe, term)), ": final loss minus the baseline's ",
            interval((*ends, reading.members), reading.level), f" ({verdict}); mean overlap ",
            _mean(reading, numbers["mean_overlap"], "mean_overlap"), ".",
        ])  # fmt: skip
    return said


def _flag(reading: TrainingReading) -> Markup:
    said = [element("p", sentence, class_="flag") for sentence in given_up(reading)]
    if reading.members < 5:
        few = f"{counted(reading.members, 'seed')} are too few to conclude from. Intervals: {reading.method}."
        said.append(element("p", few, class_="flag"))
    return join(said)


def _mean(reading: TrainingReading, values: list[float], name: str) -> Markup:
    ends = reading.attainable(name)
    return interval(reading.mean_of(np.array(values), ends).at(0), reading.level, reading.members)


def _ends(reading: TrainingReading, columns: tuple[tuple[str, str], ...], caption: str) -> Markup:
    rows = []
    for recipe, term, numbers in cells(reading):
        data = [element("td", _mean(reading, numbers[name], name), class_="value") for name, _ in columns]
        rows.append([name_of(recipe, term), *data])
    return table(f"{caption} Means over seeds with intervals.", ["", *(words for _, words in columns)], rows)


def _paired(reading: TrainingReading) -> Markup:
    """Differences from the baseline at a quarter, half and the end: one final value could hide a crossing."""
    first = next(combinations(reading))
    steps = reading.dataset["step"].values.tolist()
    places = sorted({max(1, len(steps) // 4), max(1, len(steps) // 2), len(steps) - 1})
    base = reading.rows("loss", "step", recipe=first[0], term=first[1])
    rows = []
    for recipe, term, _ in list(combinations(reading))[1:]:
        apart = reading.rows("loss", "step", recipe=recipe, term=term) - base
        cells_ = [
            element("td", interval(reading.mean_of(apart[:, place]).at(0), reading.level), class_="value")
            for place in places
        ]
        rows.append([name_of(recipe, term), *cells_])
    if not rows:
        return Markup("")
    heads = ["", *(f"step {steps[place]}" for place in places)]
    return table("Held-out loss minus the baseline's, paired by seed.", heads, rows)


def _robust(reading: TrainingReading) -> Markup:
    words = [f"{name}: {reading.dataset[key].attrs['definition']}" for key, name in EXTRA]
    return join([_ends(reading, EXTRA, "What noise costs, and what can be read."), paragraph("; ".join(words) + ".")])


def _rates(reading: TrainingReading) -> Markup:
    data = reading.dataset
    if "sweep_loss" not in data:
        return paragraph(f"One learning rate, {reading.study['rates'][0]:g}: no sweep was made.")
    rows = []
    for recipe, term, _ in combinations(reading):
        losses = data["sweep_loss"].sel(recipe=recipe, term=term).mean("sweep_seed").values
        best = float(data["best_rate"].sel(recipe=recipe, term=term))
        rows.append([name_of(recipe, term), *(f"{value:.3f}" for value in losses), f"{best:g}"])
    heads = ["", *(f"{rate:g}" for rate in data["rate"].values), "taken"]
    seeds = counted(int(data.sizes["sweep_seed"]), "seed")
    ends = data["rate"].values[[0, -1]]
    edge = [row[0] for row in rows if float(row[-1]) in ends]
    note = (
        paragraph(f"Taken at an end of the sweep, so that a better rate may lie beyond it: {'; '.join(edge)}.")
        if edge
        else Markup("")
    )
    return join([table(f"Final held-out loss of the sweep, {seeds} that the grid does not use.", heads, rows), note])


def _limits(reading: TrainingReading) -> Markup:
    shape = reading.study["shape"]
    said = [
        f"A decoder of {counted(shape['blocks'], 'block')} and width {shape['width']} after {shape['steps']} steps on "
        "one genre of text: neither a larger model nor a longer run need follow it.",
        "Learning rates were compared at few points with few seeds; strengths and layers of a term were not tuned.",
        "A lower loss may come from any of a term's effects on the gradient; that tokens are farther apart is "
        "measured, and that this is the reason is not.",
        "Held-out documents are the same for all runs; intervals are over seeds and say nothing of other documents.",
        "The linear probe reads one property of one layer: it is no measure of how well people can interpret a model.",
    ]
    return element("ul", *(element("li", text) for text in said))


def _methods(reading: TrainingReading) -> Markup:
    study, texts = reading.study, reading.provenance["texts"]
    return paragraph(
        f"Texts: {texts['source']}, {texts['texts']} of them ({texts['bytes']} bytes) to train on and "
        f"{len(texts['held_out'])} held out whole. Stopping rule: {study['stopping']}. Runs of one seed share the draw "
        "of the weights before the recipe, and every batch. A term acts at every layer after a block and warms up over "
        "a tenth of the steps. The baseline is the first recipe with the loss alone. Intervals are at "
        f"{100 * reading.level:g}%: {reading.method}."
    )


def _definitions(reading: TrainingReading) -> Markup:
    rows = [
        [str(name).replace("_", " "), str(reading.dataset[name].attrs.get("definition", ""))]
        for name in reading.dataset.data_vars
    ]
    return element("details", element("summary", "Definitions"), table("", ["number", "definition"], rows))


def _provenance(reading: TrainingReading) -> Markup:
    origin = {k: v for k, v in reading.provenance.items() if k not in ("versions", "texts")}
    titles = ", ".join(str(title) for title in reading.provenance["texts"]["held_out"])
    return join(
        [
            facts("Record", flattened({**origin, "hash of the measurements": reading.digest})),
            facts("Texts", flattened({**reading.provenance["texts"], "held_out": titles})),
            facts("Versions", flattened(reading.provenance.get("versions") or {})),
            every_choice(reading.study),
        ]
    )
