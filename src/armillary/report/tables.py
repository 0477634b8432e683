"""Tables of the page: headline numbers, paired differences, ranks, token policy, massive tokens, loss, definitions."""

from __future__ import annotations

import math
from typing import Any

from armillary.figures.choices import POLICY
from armillary.figures.reading import DEFAULT_TOKENS
from armillary.records.floors import resolved
from armillary.records.headlines import Headline, shown_layers
from armillary.report.markup import NOT_MEASURED, Markup, counted, element, join, paragraph, ranges, table
from armillary.report.words import UNDEFINED_ENDS, Facts, direction
from armillary.terms import RANKS, TOKENS, isotropic_words, layer_words, measurement_words, preparation_words

__all__ = [
    "definitions",
    "differences",
    "headlines",
    "losses",
    "massive",
    "named",
    "rank_table",
    "token_policy_table",
]

LISTED = 12  # massive tokens named one by one for each condition


def headlines(known: Facts) -> Markup:
    """Headline measurements of every condition at a few layers, with an isotropic cloud beside them."""
    reading = known.reading
    layers = shown_layers(reading.layers)
    if not known.headlines:
        return paragraph("This record holds no measurement of the stream after the block.")
    rows: list[list[Any]] = []
    for headline in known.headlines:
        rows.append([named(headline)])
        for name in reading.conditions:
            rows.append([reading.label(name), *(known.cell(known.at(headline, name, layer)) for layer in layers)])
        isotropic = reading.isotropic(*headline)
        if math.isfinite(isotropic):
            shown = isotropic_words(isotropic) + ("" if len(layers) == 1 else ", at every depth")
            rows.append([element("em", "isotropic cloud"), element("td", shown, colspan=str(len(layers)))])
    cloud = "; the isotropic cloud has as many independent directions, none preferred" * any(
        math.isfinite(reading.isotropic(*headline)) for headline in known.headlines
    )
    return table(
        f"Stream after each block, first token left out; mean over {counted(known.documents, 'document')} and "
        f"{100 * reading.level:g}% interval{cloud}.",
        ["", *(layer_words(layer) for layer in layers)],
        rows,
    )


def rank_table(known: Facts) -> Markup:
    """Every rank of the reference condition beside what an isotropic cloud of the same size gives and its ceiling."""
    reading = known.reading
    few = shown_layers(reading.layers)
    layers = tuple(dict.fromkeys((few[0], *few[-2:])))
    rows: list[list[Any]] = []
    for preparation in ("normalize", "center, normalize"):
        block = []
        for name in RANKS:
            headline = (name, preparation)
            if reading.measured(name, "block", DEFAULT_TOKENS, preparation):
                values = [known.cell(known.at(headline, known.reference, layer)) for layer in layers]
                references = (reading.isotropic(*headline), reading.ceiling(preparation))
                ends = [f"{value:.4g}" if math.isfinite(value) else "not recorded" for value in references]
                block.append([measurement_words(name), *values, *ends])
        rows += [[preparation_words(preparation)], *block] if block else []
    if not rows:
        return Markup("")
    return table(
        f"Condition: {reading.label(known.reference)}. Every rank beside what an isotropic cloud of the same size "
        "gives, and the largest value that this many tokens and coordinates allow.",
        ["", *(layer_words(layer) for layer in layers), "isotropic cloud", "ceiling"],
        rows,
    )


def differences(known: Facts) -> Markup:
    """Trained minus every other condition, paired by document, with the sign in words."""
    reading = known.reading
    layers = [layer for layer in shown_layers(reading.layers) if layer > 0]
    if known.reference != "trained" or len(reading.conditions) < 2 or not layers or not known.headlines:
        return Markup("")
    rows: list[list[Any]] = []
    for headline in known.headlines:
        rows.append([named(headline)])
        for name in reading.conditions:
            if name == "trained":
                continue
            entries = []
            for layer in layers:
                ends = known.difference(headline, name, layer)
                mark = {1: "▲ ", -1: "▼ ", 0: "○ "}[direction(ends)] if ends[3] else ""
                lost = ends[3] and resolved(ends[0], known.floor(headline, name, layer)) is False
                entries.append(element("td", "≈ " if lost else mark, known.words(ends), class_="value"))
            found = [one for layer in layers if not math.isnan(one := known.floor(headline, name, layer))]
            if found:
                entries.append(element("td", f"{max(found):.1g}", class_="value"))
            rows.append([reading.label(name), *entries])
    said = "Trained minus each other condition, paired by document. ▲ trained is higher, ▼ lower, ○ zero is possible."
    heads = ["", *(layer_words(layer) for layer in layers)]
    if any(len(row) > len(heads) for row in rows):
        heads.append("rounding floor, at most")
        said += " ≈ not resolved: no larger than the rounding floor, which is how far rounding alone moves the numbers."
    return table(said, heads, rows)


def token_policy_table(known: Facts) -> Markup:
    """The same numbers for the three token sets, side by side."""
    reading = known.reading
    sets = [name for name in reading.options("tokens") if name in TOKENS]
    rows: list[list[Any]] = []
    for measurement, preparation in reading.chosen(*POLICY):
        rows.append([named((measurement, preparation))])
        for layer in shown_layers(reading.layers):
            entries = []
            for tokens in sets:
                where = {"tap": "block", "tokens": tokens, "preparation": preparation}
                profile = reading.profile(measurement, condition=known.reference, **where)
                asked = reading.measured(measurement, "block", tokens, preparation)
                entries.append(known.cell(profile.at(layer) if profile else UNDEFINED_ENDS if asked else NOT_MEASURED))
            rows.append([layer_words(layer), *entries])
    if not rows:
        return Markup("")
    return table(
        f"Condition: {reading.label(known.reference)}. {counted(len(sets), 'token set').capitalize()} side by side.",
        ["", *(TOKENS[name] for name in sets)],
        rows,
    )


def massive(known: Facts) -> Markup:
    """Massive tokens counted for each condition, and the ones that are not first tokens listed."""
    reading = known.reading
    if "massive_token_mask" not in reading.dataset:
        return paragraph("Massive tokens were not recorded.")
    mask = reading.dataset["massive_token_mask"].transpose("condition", "layer", "document", "position").values > 0
    rows, listed = [], []
    for place, name in enumerate(reading.conditions):
        here = mask[place]
        layers = [layer for layer, any_there in zip(reading.layers, here.any(axis=(1, 2)), strict=True) if any_there]
        first, later = int(here[:, :, 0].sum()), int(here[:, :, 1:].sum())
        rows.append(
            [
                reading.label(name),
                f"{int(here.sum())} of {here.size}",
                str(first),
                str(later),
                ranges(layers) or "none",
            ]
        )
        listed += _listed(known, here, reading.label(name))
    definition = reading.attribute(
        "massive_token_mask", "definition", "rows far longer than the median of their document"
    )
    counted = table(
        f"Massive tokens, counted over all layers and documents. The flag is {definition}.",
        ["", "rows flagged", "at the first position", "elsewhere", "layers with any"],
        rows,
    )
    if not listed:
        return join([counted, paragraph("No massive token lies elsewhere than at a first position.")])
    return join(
        [
            counted,
            element(
                "details",
                element("summary", "Massive tokens that are not first tokens, listed"),
                element("ul", *listed),
            ),
        ]
    )


def losses(known: Facts) -> Markup:
    """Loss of every condition on the measured documents."""
    reading = known.reading
    if "loss" not in reading.dataset:
        return Markup("")
    rows = [[reading.label(name), known.cell(reading.one("loss", condition=name))] for name in reading.conditions]
    return table(
        "Next-token cross entropy on these documents. Nothing shows that they lie outside the training data.",
        ["", "nats per token"],
        rows,
    )


def definitions(known: Facts) -> Markup:
    """Every measurement by name: symbol, definition, when it is undefined, source."""
    dataset = known.reading.dataset
    rows = []
    for name in map(str, dataset.data_vars):
        about = dataset[name].attrs
        if "symbol" in about:
            entries = (str(about.get(key, "")) for key in ("symbol", "definition", "undefined", "source"))
            rows.append([measurement_words(name), *entries])
    heads = ["measurement", "symbol", "definition", "undefined when", "source"]
    return element("details", element("summary", "Definitions of all measurements"), table("", heads, rows))


def named(headline: Headline) -> str:
    """A measurement with its preparation, in words.

    Args:
        headline: name and preparation.
    """
    return f"{measurement_words(headline[0])}, {preparation_words(headline[1])}"


def _listed(known: Facts, here: Any, label: str) -> list[Markup]:
    """The flagged rows that are not first tokens, one line for each document and position."""
    import numpy as np

    layers = np.asarray(known.reading.layers)
    places = np.argwhere(here[:, :, 1:].any(axis=0))
    lines = [
        element(
            "li",
            f"{label}: {known.reading.documents[document]}, position {position + 1}, layers "
            f"{ranges(layers[here[:, document, position + 1]].tolist())}",
        )
        for document, position in places[:LISTED]
    ]
    if len(places) > LISTED:
        lines.append(element("li", f"{label}: {len(places) - LISTED} more"))
    return lines
