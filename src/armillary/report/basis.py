"""The statement: which reported numbers change under a non-orthogonal change of basis, told from the mapped states."""

from __future__ import annotations

import math
from dataclasses import dataclass

from armillary.figures.distributions import layer_words
from armillary.figures.reading import Reading
from armillary.figures.terms import MEASUREMENTS, TOKENS, measurement_words, preparation_words
from armillary.report.markup import UNDEFINED, Markup, element, interval, join, paragraph, table

__all__ = ["Change", "changes", "statement"]

UNTOUCHED, ROTATION, ALONG = "none", "orthogonal", "statement_measurement"
ROUNDING = 1e-4
"""Relative change below which a difference is rounding of single-precision states."""

Ends = tuple[float, float, float, int]
NOTHING: Ends = (math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Change:
    """One number before and after one map at one layer, with the paired difference."""

    measurement: str
    transformation: str
    layer: int
    before: Ends
    after: Ends
    difference: Ends

    @property
    def verdict(self) -> str:
        """One of "unchanged", "changes", "not resolved" and "undefined"."""
        value, low, high, members = self.difference
        if not members:
            return "undefined"
        if abs(value) <= ROUNDING * max(abs(self.before[0]), 1e-9):
            return "unchanged"
        return "changes" if low > 0 or high < 0 or low == high else "not resolved"


def changes(reading: Reading) -> tuple[Change, ...]:
    """Every stored before and after, measurement by measurement, layer by layer."""
    if "statement_value" not in reading.dataset:
        return ()
    found = []
    for layer in (int(value) for value in reading.dataset["statement_layer"].values):
        before = reading.values("statement_value", ALONG, transformation=UNTOUCHED, statement_layer=layer)
        for transformation in reading.options("transformation"):
            after = reading.values("statement_value", ALONG, transformation=transformation, statement_layer=layer)
            if transformation != UNTOUCHED and before is not None and after is not None:
                names = reading.options(ALONG)
                bands = [reading.summary(values, names) for values in (before, after, after - before)]
                found += [
                    Change(name, transformation, layer, *(NOTHING if band is None else band.at(name) for band in bands))
                    for name in names
                ]
    return tuple(found)


def statement(reading: Reading) -> Markup:
    """The statement in words and as a table."""
    found = changes(reading)
    if not found:
        return paragraph("This record holds no mapped states, so the statement was not computed.")
    first, *others = _sentences(reading, found)
    how = (
        "Each map was applied to the real states of the trained stream and the numbers were measured again "
        f"({_how(reading)}). The gain of the next norm can be folded into the matrices that follow it without "
        "changing any output of the network, so the numbers that move under it are statements about a metric that "
        "the architecture leaves open, and are to be quoted with that metric named."
    )
    return join([paragraph(element("strong", first), " ", " ".join(others)), paragraph(how), _tables(reading, found)])


def _sentences(reading: Reading, found: tuple[Change, ...]) -> list[str]:
    """Which numbers change, which do not, which are not resolved; what the control does; what was not tried."""
    maps = [name for name in dict.fromkeys(change.transformation for change in found) if name != ROTATION]
    measurements = list(dict.fromkeys(change.measurement for change in found))
    moved = {name: _verdicts(found, name, maps) for name in measurements}
    changing = [name for name in measurements if "changes" in moved[name]]
    fixed = [name for name in measurements if moved[name] == {"unchanged"}]
    unclear = [name for name in measurements if name not in changing and name not in fixed]
    turning = [name for name in measurements if "changes" in _verdicts(found, name, [ROTATION])]
    untested = _untested(reading, measurements)
    sentences = (
        ("Under a non-orthogonal change of basis these would change: {}.", _listed(changing, measurements)),
        ("These would not: {}.", _listed(fixed, measurements)),
        ("Not resolved on these documents: {}.", _listed(unclear, measurements)),
        (
            "Even an orthogonal map changes {}: what a choice of coordinates enters depends on the basis altogether.",
            _listed(turning, measurements),
        ),
        ("An orthogonal map, the control, changes none of them beyond rounding.", "" if turning else "none"),
        ("Reported here but not put to this test: {}.", ", ".join(untested)),
    )
    return [sentence.format(names) for sentence, names in sentences if names]


def _untested(reading: Reading, measurements: list[str]) -> list[str]:
    """Reported scalars of the geometry that no stored map was applied to."""
    tested = {name.partition(" | ")[0].partition("(")[0] for name in measurements}
    return [
        words
        for name, words in MEASUREMENTS.items()
        if name in reading.dataset and name not in tested and "preparation" in reading.dataset[name].dims
    ]


def _verdicts(found: tuple[Change, ...], measurement: str, maps: list[str]) -> set[str]:
    verdicts = {c.verdict for c in found if c.measurement == measurement and c.transformation in maps}
    return verdicts - {"undefined"} if len(verdicts) > 1 else verdicts


def _tables(reading: Reading, found: tuple[Change, ...]) -> Markup:
    """Every number at one layer, and behind a fold the others."""
    layers = list(dict.fromkeys(change.layer for change in found))
    main = layers[(len(layers) - 1) // 2]
    others = [_table(reading, found, layer) for layer in layers if layer != main]
    folded = element("details", element("summary", "The same at the other layers"), *others) if others else ""
    return join([_table(reading, found, main), folded])


def _table(reading: Reading, found: tuple[Change, ...], layer: int) -> Markup:
    here = [change for change in found if change.layer == layer]
    maps = list(dict.fromkeys(change.transformation for change in here))
    rows: list[list[object]] = []
    names = list(dict.fromkeys(change.measurement for change in here))
    titles = [measurement_words(name.partition(" | ")[0]) for name in names]
    for title in dict.fromkeys(titles):
        rows.append([title])
        for name in (name for name, its in zip(names, titles, strict=True) if its == title):
            after = {change.transformation: change for change in here if change.measurement == name}
            cells = [_cell(reading, after[transformation]) for transformation in maps]
            before = element("td", _number(reading, after[maps[0]].before), class_="value")
            rows.append([preparation_words(name.partition(" | ")[2]), before, *cells])
    return table(
        f"{layer_words(layer).capitalize()}: each number before and after each map, and below it the difference, "
        "paired by document.",
        ["", "before", *(f"after: {name}" for name in maps)],
        rows,
    )


def _cell(reading: Reading, change: Change) -> Markup:
    if change.verdict == "undefined":
        return element("td", UNDEFINED)
    difference = {"unchanged": "unchanged", "changes": "changes by ", "not resolved": "not resolved: "}[change.verdict]
    below = "" if change.verdict == "unchanged" else _number(reading, change.difference)
    return element(
        "td", _number(reading, change.after), element("small", difference, below, class_="part"), class_="value"
    )


def _number(reading: Reading, ends: Ends) -> Markup:
    return interval(ends, reading.level, len(reading.documents))


def _listed(names: list[str], everything: list[str]) -> str:
    """Numbers in words, each measurement once; its preparations behind it unless all of them are meant."""
    words = []
    for measurement in dict.fromkeys(name.partition(" | ")[0] for name in names):
        mine, every = ([n for n in some if n.partition(" | ")[0] == measurement] for some in (names, everything))
        preparations = "; ".join(preparation_words(name.partition(" | ")[2]) for name in mine)
        many = f" ({preparations})" if len(mine) < len(every) else " (every preparation)" if len(every) > 1 else ""
        words.append(measurement_words(measurement) + many)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""


def _how(reading: Reading) -> str:
    attributes = reading.dataset["statement_value"].attrs
    parts = []
    if "condition_number" in attributes:
        parts.append(f"the general linear map has condition number {float(attributes['condition_number']):g}")
    if "general_linear_seed" in attributes:
        parts.append(f"seed {attributes['general_linear_seed']}")
    if "tokens" in attributes:
        parts.append(TOKENS.get(str(attributes["tokens"]), str(attributes["tokens"])))
    return ", ".join(parts) or "maps as recorded in the study"
