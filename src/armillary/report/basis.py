"""The statement: which reported numbers survive which transformation, in words and as the table of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from armillary.figures.reading import Reading
from armillary.invariance.judgment import Audit, Judgment
from armillary.invariance.verdicts import WORDS
from armillary.records.audits import FLOOR, VALUE, groups
from armillary.report.gauge_columns import GaugeColumns
from armillary.report.markup import UNDEFINED, Markup, element, join, listed, minus, paragraph, table
from armillary.report.verdict_cells import MOVED, cell
from armillary.terms import (
    MEASUREMENTS,
    TOKENS,
    layer_words,
    measurement_name,
    measurement_words,
    preparation_words,
)

__all__ = ["admitted", "statement"]

ROTATION, GAIN = "orthogonal", "gain of the next norm"
ADMITTED = {
    "RMSNorm": (ROTATION, "permutation of features", "global scale", GAIN),
    "LayerNorm": ("permutation of features", "global scale", GAIN),
}
"""By a decoder's norm: which transformations a re-parametrization that keeps its function can bring about."""
ONE_NORM = "pre"
"""Where norms must stand for that: a norm behind a sublayer binds its output to its coordinates."""

KEPT = ("proved and survived", "survived")


def admitted(reading: Reading) -> tuple[str, ...]:
    """The transformations that a re-parametrization of this decoder can bring about; none where that is not known."""
    facts = reading.provenance.get("decoder") or {}
    place = str(facts.get("norm_place", ""))
    if place.startswith("pre and post") or not place.startswith(ONE_NORM):
        return ()
    return ADMITTED.get(str(facts.get("norm", "")), ())


def statement(reading: Reading) -> Markup:
    """The statement in words, and the table."""
    found = reading.audits
    gauged = GaugeColumns.of(reading)
    if not found:
        return join(
            [paragraph("This record holds no mapped states, so the statement was not computed."), gauged.words()]
        )
    every = [one for audit in found.values() for one in audit.judgments]
    first, *others = _sentences(reading, every, gauged=bool(gauged))
    gain = (
        "The gain of the next norm can be folded into the matrices that follow it without changing any output of the "
        "network. A number that moves under it belongs to one of several metrics between which the architecture does "
        "not decide, and is to be quoted with its metric."
    )
    return join(
        [
            _refuted(every),
            gauged.words(),
            paragraph(first if gauged else element("strong", first), " ", " ".join(others)),
            paragraph(_how(reading, found)),
            gauged.how(),
            paragraph(gain) if any(one.transformation == GAIN for one in every) else "",
            _tables(reading, found, gauged),
            gauged.elsewhere(),
            _meanings(),
            _reasons(every),
        ]
    )


def _sentences(reading: Reading, every: Sequence[Judgment], *, gauged: bool) -> list[str]:
    """What survives a re-parametrization, what depends on a basis, what nothing moved, and what was not tried."""
    measurements = list(dict.fromkeys(one.measurement for one in every))
    maps = list(dict.fromkeys(one.transformation for one in every))
    possible = [name for name in maps if name in admitted(reading)]
    moved = {m: {t.transformation for t in every if t.measurement == m and _moves(t)} for m in measurements}
    stays = [name for name in measurements if possible and not moved[name].intersection(possible)]
    basis = [name for name in measurements if moved[name].intersection(possible)]
    turning = [name for name in measurements if ROTATION in moved[name]]
    other = [name for name in maps if name != ROTATION]
    told = _numbers
    sentences = (
        (
            "Of the numbers above, these are unmoved by every listed transformation that a re-parametrization of this "
            f"decoder can bring about and that leaves its function unchanged ({listed(possible)}): {{}}."
            if not gauged
            else "Under the transformations that re-parametrizations can bring about in the stream or in what the next "
            f"norm makes of it ({listed(possible)}), these numbers of the stream stay: {{}}.",
            told(stays, measurements) or ("none" if possible else ""),
        ),
        (
            "These depend on a basis or a metric that training happened to choose: {}."
            if not gauged
            else "These would move with such a basis or metric: {}.",
            told(basis, measurements),
        ),
        (
            "Which of these transformations a re-parametrization can bring about is not known for this decoder. Moved "
            "by at least one that is no rotation: {}.",
            "" if possible else told([n for n in measurements if moved[n].intersection(other)], measurements) or "none",
        ),
        (
            "Even an orthogonal map changes {}: these depend on the coordinates themselves, not only on the metric.",
            told(turning, measurements),
        ),
        (
            "No transformation in the table changed {}; one of each kind was tried.",
            told([name for name in measurements if not moved[name]], measurements),
        ),
        ("Nothing is claimed of {}; it was tried like the others.", told(_unclaimed(reading), measurements)),
        ("Reported here but not put to this test: {}.", listed(_untested(reading, measurements))),
    )
    return [sentence.format(names) for sentence, names in sentences if names]


def _moves(one: Judgment) -> bool:
    return one.verdict.word in MOVED


def _unclaimed(reading: Reading) -> list[str]:
    return list(dict.fromkeys(name for audit in reading.audits.values() for name in audit.without_claims))


def _refuted(every: Sequence[Judgment]) -> Markup | str:
    """What must not be: a claim that the trial refuted."""
    found = [one for one in every if one.verdict.word == "claim refuted"]
    if not found:
        return ""
    told = [
        element("p", element("strong", "A claim was refuted. "), f"{one.measurement}, {one.transformation}: {one}")
        for one in found
    ]
    return element("div", *told, class_="flag", role="note")


def _how(reading: Reading, found: Mapping[int, Audit]) -> str:
    """On what the trial was made, what counts as rounding, and what a witness is."""
    attributes = reading.dataset[VALUE].attrs
    parts = [f"condition number {float(attributes['condition_number']):g}"] if "condition_number" in attributes else []
    parts += [f"seed {attributes['general_linear_seed']}"] if "general_linear_seed" in attributes else []
    parts += [TOKENS.get(str(attributes["tokens"]), str(attributes["tokens"]))] if "tokens" in attributes else []
    documents = max((audit.documents for audit in found.values()), default=0)
    rounding = (
        "How far rounding alone moves a number was measured for each number and transformation; below it a difference "
        "is not resolved."
        if FLOOR in reading.dataset
        else "This record is older than measured floors: what moves a number by less than a millionth, or ten times "
        "what a rotation moves it by, counts as rounding."
    )
    return (
        f"Each transformation was applied to the states of one condition ({reading.mapped_condition}) on the first "
        f"{documents} documents, and the numbers were measured again ({', '.join(parts) or 'as recorded'}). A "
        "transformation is fixed and nothing in it is random, so each document is a proof of its own: a number counts "
        "as changed if it moved by more than rounding in any document. The interval beside a change says how large it "
        f"is over documents like these, not whether it is there. {rounding} Where a number stayed by accident, a "
        "witness says so: a named configuration on which it moves."
    )


def _untested(reading: Reading, measurements: list[str]) -> list[str]:
    """Reported scalars of the geometry that no stored map was applied to."""
    tested = {name.partition(" | ")[0].partition("(")[0] for name in measurements}
    return [
        words
        for name, words in MEASUREMENTS.items()
        if name in reading.dataset and name not in tested and "preparation" in reading.dataset[name].dims
    ]


def _tables(reading: Reading, found: Mapping[int, Audit], gauged: GaugeColumns) -> Markup:
    """Every number at one layer, and behind a fold the others."""
    layers = list(found)
    main = layers[(len(layers) - 1) // 2]
    others = [_table(reading, found[layer], layer, gauged) for layer in layers if layer != main]
    folded = element("details", element("summary", "The same at the other layers"), *others) if others else ""
    return join([_table(reading, found[main], main, gauged), folded])


def _table(reading: Reading, audit: Audit, layer: int, gauged: GaugeColumns) -> Markup:
    named = groups(reading.dataset)
    heads: list[object] = ["", "before"]
    for name in audit.transformations:
        under = [element("small", named[name], class_="part")] if name in named else []
        heads.append(join([name, *under]))
    heads += gauged.heads()
    rows: list[list[object]] = []
    titles = {name: measurement_words(measurement_name(name)[0]) for name in audit.measurements}
    for title in dict.fromkeys(titles.values()):
        rows.append([title])
        for name in (name for name, its in titles.items() if its == title):
            judgments = [audit.of(name, transformation) for transformation in audit.transformations]
            before = judgments[0].verdict.before
            shown = UNDEFINED if before != before else element("span", minus(f"{before:.4g}"), class_="num")
            preparation = preparation_words(name.partition(" | ")[2])
            rows.append(
                [
                    preparation,
                    element("td", shown, class_="value"),
                    *(cell(one) for one in judgments),
                    *gauged.cells(name, layer),
                ]
            )
    return table(
        f"{layer_words(layer).capitalize()}: the verdict on each number under each transformation; where it changes, "
        "by how much, paired by document.",
        heads,
        rows,
        class_="verdicts",
    )


def _meanings() -> Markup:
    items = [element("li", element("strong", word), f": {said}.") for word, said in WORDS.items()]
    return element("details", element("summary", "What the verdicts mean"), element("ul", *items))


def _reasons(every: Sequence[Judgment]) -> Markup | str:
    """Each reason once, with the numbers that it proves."""
    proved: dict[tuple[str, str], list[str]] = {}
    for one in every:
        if one.verdict.reason is not None:
            proved.setdefault((one.transformation, one.verdict.reason), []).append(one.measurement)
    if not proved:
        return ""
    measurements = list(dict.fromkeys(one.measurement for one in every))
    rows = [
        [transformation, reason, _numbers(list(dict.fromkeys(names)), measurements)]
        for (transformation, reason), names in proved.items()
    ]
    shown = table("Why a number cannot change.", ["transformation", "reason", "numbers"], rows)
    return element("details", element("summary", "The theorems behind “proved”"), shown)


def _numbers(names: Sequence[str], everything: Sequence[str]) -> str:
    """Numbers in words, each measurement once; its preparations behind it unless all of them are meant."""
    words = []
    for measurement in dict.fromkeys(name.partition(" | ")[0] for name in names):
        mine, every = ([n for n in some if n.partition(" | ")[0] == measurement] for some in (names, everything))
        preparations = "; ".join(preparation_words(name.partition(" | ")[2]) for name in mine)
        many = f" ({preparations})" if len(mine) < len(every) else " (every preparation)" if len(every) > 1 else ""
        words.append(measurement_words(measurement) + many)
    return listed(words)
