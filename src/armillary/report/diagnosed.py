"""The page of a diagnosis: what each recipe of initialization does to tokens through depth, measured and predicted."""

from __future__ import annotations

from typing import Any

import numpy as np

from armillary.figures.members import DiagnosisReading
from armillary.figures.registry import drawings
from armillary.records.crossings import crossings
from armillary.report.markup import Markup, counted, element, facts, join, minus, paragraph, table
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import assembled, laid_out, with_answer

__all__ = ["diagnosis_page"]

LIMITS = (
    "Weights are random and tokens are what the texts say: nothing here tells how a model trains, or where it ends.",
    "The recursion takes every matrix as independent and Gaussian, of its measured size. What a recipe writes besides "
    "(an identity, signs, a spectrum) is measured; what is predicted beside it is the null model.",
    "It averages attention as if scores were small and not turned by positions, which holds up to a standard deviation "
    "of the scores of about one.",
    "Overlaps of one draw scatter: a draw has one set of random features, common to all its tokens.",
)


def diagnosis_page(reading: DiagnosisReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    drawn = drawings(reading)
    sections, links = laid_out(
        [
            ("picture", "Through depth", "Through depth", list(drawn.values())),
            ("numbers", "Numbers", "Numbers", [_numbers(reading)]),
            ("recipes", "Recipes", "Recipes", [_recipes(reading)]),
            ("limits", "What these numbers do not show", "Limits",
             [element("ul", *(element("li", text) for text in LIMITS))]),
            ("provenance", "Provenance", "Provenance", [_provenance(reading)]),
        ]
    )  # fmt: skip
    contents = with_answer(links)
    title = str(reading.study["source"])
    return assembled(f"Diagnosis: {title}", join([_head(reading, title), sections]), contents, drawn)


def _head(reading: DiagnosisReading, title: str) -> Markup:
    decoder = reading.provenance["decoder"]
    size = f"{decoder['architecture']} · {counted(decoder['layers'], 'block')}, width {decoder['width']}"
    header = element(
        "header",
        element("p", "Diagnosis · a decoder before any training", class_="kind"),
        element("h1", title),
        element("p", size, class_="model"),
    )
    said = [paragraph(_sentence(reading, recipe)) for recipe in reading.options("recipe")]
    told = str(reading.provenance["prediction"])
    said += [paragraph(f"No prediction: {told.removeprefix('none: ')}.")] if told.startswith("none") else []
    return join([header, element("section", element("div", *said, class_="answer"), id="answer")])


def _sentence(reading: DiagnosisReading, recipe: str) -> Markup:
    last = reading.layers[-1]
    measured = _cell(reading, "mean_overlap", recipe, last)
    beside = ""
    if "predicted_mean_overlap" in reading.dataset:
        beside = f", predicted {reading.rows('predicted_mean_overlap', 'layer', recipe=recipe)[:, -1].mean():.3f}"
    threshold = float(reading.study["threshold"])

    def passed(name: str) -> str:
        return crossings(np.array(reading.layers), reading.rows(name, "layer", recipe=recipe), threshold)

    found = passed("mean_overlap")
    depth = f"it stays below {threshold:g}" if found == "none" else f"it passes {threshold:g} at layer {found}"
    if beside:
        depth += f" (predicted {passed('predicted_mean_overlap')})"
    return join([element("b", recipe), ": mean overlap after the last block ", measured, f"{beside}; {depth}."])


def _numbers(reading: DiagnosisReading) -> Markup:
    layers = sorted({0, 1, 2, len(reading.layers) // 2, len(reading.layers) - 1} & set(range(len(reading.layers))))
    names = [str(name) for name in reading.dataset.data_vars]
    rows: list[list[Any]] = []
    for recipe in reading.options("recipe"):
        rows.append([recipe])
        for name in names:
            cells = [
                element("td", _cell(reading, name, recipe, reading.layers[place]), class_="value") for place in layers
            ]
            rows.append([name.replace("_", " "), *cells])
    heads = ["", *("embedding" if place == 0 else f"layer {reading.layers[place]}" for place in layers)]
    return table(f"Means over {counted(reading.members, 'draw')}, in brackets the lowest and the highest.", heads, rows)


def _cell(reading: DiagnosisReading, name: str, recipe: str, layer: int) -> Markup:
    values = reading.rows(name, "layer", recipe=recipe)[:, reading.layers.index(layer)]
    reach = f" ({values.min():.4g} to {values.max():.4g})" if values.max() > values.min() else ""
    return element("span", minus(f"{values.mean():.4g}"), element("small", minus(reach)), class_="num")


def _recipes(reading: DiagnosisReading) -> Markup:
    return element("ul", *(element("li", one["sentence"]) for one in reading.provenance["recipes"]))


def _provenance(reading: DiagnosisReading) -> Markup:
    origin = {k: v for k, v in reading.provenance.items() if k not in ("versions", "recipes")}
    return join(
        [
            facts("Record", flattened({**origin, "hash of the measurements": reading.digest})),
            facts("Versions", flattened(reading.provenance.get("versions") or {})),
            every_choice(reading.study),
        ]
    )
