"""The statement: which reported numbers change under a non-orthogonal change of basis, told from the mapped states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from armillary.figures.reading import Numbers, Reading
from armillary.report.markup import UNDEFINED, Markup, element, interval, join, listed, paragraph, table
from armillary.terms import (
    MEASUREMENTS,
    TOKENS,
    layer_words,
    measurement_name,
    measurement_words,
    preparation_words,
)

__all__ = ["Change", "changes", "floor", "statement"]

UNTOUCHED, ROTATION, ALONG = "none", "orthogonal", "statement_measurement"
TINY = 1e-9  # a number below it is compared as if it were that large
ROUNDING = 1e-6  # relative: single-precision states leave no smaller difference to speak of
SAFETY = 10.0  # how many times what a rotation moved a number still counts as rounding
TURNED = 1e-3  # relative: what moves more than this under a rotation depends on the coordinates

Ends = tuple[float, float, float, int]
NOTHING: Ends = (math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Change:
    """One number before and after one map at one layer.

    Args:
        measurement: as the study writes it.
        transformation: the map.
        layer: where it was applied.
        before: value, low, high, documents.
        after: the same after the map.
        difference: after minus before, paired by document.
        moved: largest |after - before| / |before| of any document; infinite where only one of them is defined, NaN
            where neither is.
        threshold: what counts as rounding for this number.
    """

    measurement: str
    transformation: str
    layer: int
    before: Ends
    after: Ends
    difference: Ends
    moved: float
    threshold: float

    @property
    def verdict(self) -> str:
        """One of "unchanged", "changes" and "undefined": a map is fixed, so each document is a proof of its own."""
        if math.isnan(self.moved):
            return "undefined"
        return "unchanged" if self.moved <= self.threshold else "changes"


def changes(reading: Reading) -> tuple[Change, ...]:
    """Every stored before and after, layer by layer, measurement by measurement within a map."""
    if "statement_value" not in reading.dataset:
        return ()
    found, names = [], reading.options(ALONG)
    for layer in (int(value) for value in reading.dataset["statement_layer"].values):
        at = {name: _values(reading, name, layer) for name in reading.options("transformation")}
        if UNTOUCHED not in at:
            continue
        before = at.pop(UNTOUCHED)
        rotated = _moved(before, at[ROTATION]) if ROTATION in at else np.zeros(len(names))
        threshold = np.where(rotated <= TURNED, np.maximum(ROUNDING, SAFETY * rotated), ROUNDING)
        for transformation, after in at.items():
            if np.isnan(after).all():  # a map that this layer has not: no norm with a gain reads the stream there
                continue
            ends = np.array([reading.attainable(measurement_name(name)[0]) for name in names]).T
            spans = (ends[0] - ends[1], ends[1] - ends[0])
            profiles = [reading.summary(before, names, tuple(ends)), reading.summary(after, names, tuple(ends))]
            profiles.append(reading.summary(after - before, names, spans))
            moved = _moved(before, after)
            for place, name in enumerate(names):
                first, then, difference = (NOTHING if one is None else one.at(name) for one in profiles)
                sizes = float(moved[place]), float(threshold[place])
                found.append(Change(name, transformation, layer, first, then, difference, *sizes))
    return tuple(found)


def floor(found: tuple[Change, ...]) -> float:
    """The measured rounding: the largest move under the orthogonal map of a number that a rotation leaves alone."""
    rotated = [change.moved for change in found if change.transformation == ROTATION and change.moved <= TURNED]
    return max(rotated, default=math.nan)


def statement(reading: Reading) -> Markup:
    """The statement in words and as a table."""
    found = changes(reading)
    if not found:
        return paragraph("This record holds no mapped states, so the statement was not computed.")
    first, *others = _sentences(reading, found)
    how = (
        f"Each map was applied to the states of one condition ({reading.mapped_condition}), and the numbers were "
        f"measured again ({_how(reading)}). A map is fixed and nothing in it is random, so each document is a proof of "
        "its own: a number counts as changed if it moved by more than rounding in any document. The interval beside a "
        "change says how large it is over documents like these, not whether it is there."
    )
    gain = (
        "The gain of the next norm can be folded into the matrices that follow it without changing any output of the "
        "network. A number that moves under it belongs to one of several metrics between which the architecture does "
        "not decide, and is to be quoted with its metric."
    )
    return join(
        [
            paragraph(element("strong", first), " ", " ".join(others)),
            paragraph(how, " ", _rounding(found)),
            paragraph(gain),
            _tables(reading, found),
        ]
    )


def _values(reading: Reading, transformation: str, layer: int) -> Numbers:
    """Stored numbers [document, measurement] after one map at one layer."""
    values = reading.values("statement_value", ALONG, transformation=transformation, statement_layer=layer)
    assert values is not None  # the labels were read from the record
    return values


def _moved(before: Numbers, after: Numbers) -> Numbers:
    """For each measurement the largest relative difference of any document; NaN where no document has a number."""
    relative = np.abs(after - before) / np.maximum(np.abs(before), TINY)
    relative[np.isnan(before) != np.isnan(after)] = math.inf
    defined = ~np.isnan(relative).all(axis=0)
    moved = np.full(before.shape[1], math.nan)
    moved[defined] = np.nanmax(relative[:, defined], axis=0)
    return moved


def _sentences(reading: Reading, found: tuple[Change, ...]) -> list[str]:
    """Which numbers change and which do not; what the control does; what was not tried."""
    maps = [name for name in dict.fromkeys(change.transformation for change in found) if name != ROTATION]
    measurements = list(dict.fromkeys(change.measurement for change in found))
    moved = {name: _verdicts(found, name, maps) for name in measurements}
    changing = [name for name in measurements if "changes" in moved[name]]
    fixed = [name for name in measurements if moved[name] == {"unchanged"}]
    undefined = [name for name in measurements if name not in changing and name not in fixed]
    turning = [name for name in measurements if "changes" in _verdicts(found, name, [ROTATION])]
    controlled = any(change.transformation == ROTATION for change in found)
    theorem = any(name.startswith("algebraic_rank") for name in fixed)
    sentences = (
        ("Under a non-orthogonal change of basis these would change: {}.", _numbers(changing, measurements)),
        ("These did not change at these layers under these maps: {}.", _numbers(fixed, measurements)),
        ("One map of each kind was tried; another may change what stayed{}.", _except(theorem) if fixed else ""),
        ("Not defined in any document: {}.", _numbers(undefined, measurements)),
        (
            "Even an orthogonal map changes {}: these depend on the coordinates themselves, not only on the metric.",
            _numbers(turning, measurements),
        ),
        (
            "An orthogonal map, the control, changes none of them beyond rounding.",
            "yes" if controlled and not turning else "",
        ),
        ("Reported here but not put to this test: {}.", listed(_untested(reading, measurements))),
    )
    return [sentence.format(names) for sentence, names in sentences if names]


def _except(theorem: bool) -> str:
    words = ", except for the algebraic rank, which no invertible map changes as long as its tolerance does not decide"
    return words if theorem else ", counts above all"


def _rounding(found: tuple[Change, ...]) -> str:
    """How small a difference is rounding, from what the rotation did."""
    measured = floor(found)
    if math.isnan(measured):
        return f"Rounding: a relative difference of at most {ROUNDING:g}."
    return (
        "How much is rounding was measured: numbers that a rotation leaves alone moved under the orthogonal map by at "
        f"most {measured:.1e} of their value in any document. Called unchanged is what moved by at most {ROUNDING:g} "
        f"or {SAFETY:g} times its own move under that map."
    )


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
    below = [change.verdict]
    if change.verdict == "changes":
        below = ["changes by ", _number(reading, change.difference), _either_way(change)]
    return element("td", _number(reading, change.after), element("small", *below, class_="part"), class_="value")


def _either_way(change: Change) -> str:
    """What a mean difference near zero hides: how far single documents moved, up or down."""
    _, low, high, _ = change.difference
    if low <= 0 <= high and math.isfinite(change.moved):
        return f"; up to {100 * change.moved:.3g}% in a document"
    return "; defined on one side only in a document" if math.isinf(change.moved) else ""


def _number(reading: Reading, ends: Ends) -> Markup:
    return interval(ends, reading.level, len(reading.documents))


def _numbers(names: list[str], everything: list[str]) -> str:
    """Numbers in words, each measurement once; its preparations behind it unless all of them are meant."""
    words = []
    for measurement in dict.fromkeys(name.partition(" | ")[0] for name in names):
        mine, every = ([n for n in some if n.partition(" | ")[0] == measurement] for some in (names, everything))
        preparations = "; ".join(preparation_words(name.partition(" | ")[2]) for name in mine)
        many = f" ({preparations})" if len(mine) < len(every) else " (every preparation)" if len(every) > 1 else ""
        words.append(measurement_words(measurement) + many)
    return listed(words)


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
