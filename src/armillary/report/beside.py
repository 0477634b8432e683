"""The page of two records side by side: what differs in their choices first, then every number and figure in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.figures.beside import Pair
from armillary.figures.drawing import Drawing
from armillary.figures.overlaid import Differences, differences_drawing, headlines_of, overlaid
from armillary.figures.printed import FORMATS, print_drawings
from armillary.records.headlines import Headline, shown_layers
from armillary.report.limits import limits
from armillary.report.markup import Markup, element, join, paragraph, table
from armillary.report.page import figure_plan, interval_note
from armillary.report.provenance import provenance
from armillary.report.tables import definitions, named
from armillary.report.template import NOSCRIPT, Part, Section, assembled, laid_out, written
from armillary.report.unlike import unlike
from armillary.report.words import Facts, courses, direction, flags, methods, opening
from armillary.terms import layer_words

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["pair_names", "write_comparison"]

SHARES = ((0.0, "embedding"), (1 / 6, "a sixth"), (1 / 2, "half"), (2 / 3, "two thirds"), (1.0, "last block"))
"""The depths that tables name where two decoders have unlike numbers of blocks."""

Column = tuple[str, tuple[int, int]]
"""A depth in words, and the layer of each record that stands for it."""


def write_comparison(first: Record, second: Record, folder: str | Path, formats: Sequence[str] = FORMATS) -> Path:
    """Draw two records side by side: `report.html` and `figures/` with PDF, SVG and PNG of every figure.

    Args:
        first: the record that stands left.
        second: the record that stands right.
        folder: where the files go; made if missing.
        formats: of the figures, any of "pdf", "svg" and "png"; empty for the page alone.

    Returns:
        The page.
    """
    from threadpoolctl import threadpool_limits

    target = Path(folder)
    pair = Pair.of(first, second, pair_names(first.path, second.path))
    with threadpool_limits(1):  # many small products: threads would only wait for each other
        found = Differences.between(pair, first, second)
        drawn = {one.name: one for one in (overlaid(pair), differences_drawing(pair, found)) if one is not None}
        drawn |= pair.drawings()
        text = _page(pair, found, drawn)
    source = " and ".join(one.digest for one in pair.readings)
    print_drawings(drawn.values() if formats else (), target / "figures", formats, source=source)
    return written(text, target / "report.html")


def pair_names(first: Path, second: Path) -> tuple[str, str]:
    """What two records are called: A and B with the names of their folders.

    Args:
        first: folder of the record that stands left.
        second: folder of the other.
    """
    names = [path.absolute().name for path in (first, second)]
    if names[0] == names[1]:
        names = [f"{path.absolute().parent.name}/{path.absolute().name}" for path in (first, second)]
    return f"A ({names[0]})", f"B ({names[1]})"


def _page(pair: Pair, found: Differences, drawn: Mapping[str, Drawing]) -> str:
    known = Facts(pair.first), Facts(pair.second)
    sections, links = laid_out(_sections(pair, known, found, drawn))
    body = join([_head(pair, known), sections, interval_note(pair.first)])
    return assembled(f"{pair.names[0]} beside {pair.names[1]}", body, links, drawn)


def _sections(
    pair: Pair, known: tuple[Facts, Facts], found: Differences, drawn: Mapping[str, Drawing]
) -> Iterator[Section]:
    yield "unlike", "What differs", "What differs", [unlike(pair)]
    yield "answer", "Each by itself", "Answers", list(_answers(pair, known))
    numbers: list[Part] = [drawn.get("overlaid"), _headlines(pair, known)]
    yield "numbers", "Headline numbers", "Numbers", [*numbers, drawn.get("differences"), _differences(pair, found)]
    own = [name for name in drawn if name not in ("overlaid", "differences")]
    for anchor, title, short, items in figure_plan({name: drawn[name] for name in own}):
        if anchor == "numbers":
            continue
        figures: list[Part] = [drawn.get(item) for item in items if isinstance(item, str)]
        if anchor == "loss":
            figures.append(_losses(pair, known))
        if any(figures):
            yield anchor, title, short, figures
    yield "limits", "What these numbers do not show", "Limits", [limits(*known)]
    yield "methods", "Methods", "Methods", list(_each(pair, [methods(one) for one in known]))
    yield "definitions", "Definitions", "Definitions", list(_each(pair, [definitions(one) for one in known]))
    yield "provenance", "Provenance", "Provenance", list(_each(pair, [_folded(provenance(one)) for one in known]))


def _head(pair: Pair, known: tuple[Facts, Facts]) -> Markup:
    return element(
        "header",
        element("p", "Laboratory report · two records side by side", class_="kind"),
        element("h1", f"{pair.names[0]} beside {pair.names[1]}"),
        element("p", " · ".join(dict.fromkeys(one.model for one in known)), class_="model"),
        NOSCRIPT,
    )


def _answers(pair: Pair, known: tuple[Facts, Facts]) -> Iterator[Markup]:
    """Each record's headline numbers in sentences, and what warns of them."""
    said = []
    for name, one in zip(pair.names, known, strict=True):
        layers = shown_layers(one.reading.layers)
        few = tuple(dict.fromkeys((layers[0], layers[-2] if len(layers) > 1 else layers[-1], layers[-1])))
        said.append(paragraph(element("strong", f"{name}. "), opening(one), *courses(one, few)))
    yield element("div", *said, paragraph(_footnote(pair)), class_="answer")
    warnings = [flags(one) for one in known]
    if warnings[0] == warnings[1]:
        yield warnings[0]
        return
    for name, shown in zip(pair.names, warnings, strict=True):
        if shown:
            yield join([paragraph(element("strong", name)), shown])


def _footnote(pair: Pair) -> Markup:
    mark = element("sup", Markup('<a href="#note-interval" id="back-interval">1</a>'), class_="note")
    levels = dict.fromkeys(f"{100 * one.level:g}%" for one in pair.readings)
    words = f"Brackets are {' and '.join(levels)} intervals from resampling documents."
    return join([words, mark])


def _columns(pair: Pair) -> list[Column]:
    """The depths that tables name: the same layers, or the nearest to the same shares of the blocks."""
    if pair.same_depth:
        both = [layer for layer in pair.first.layers if layer in pair.second.layers]
        return [(layer_words(layer), (layer, layer)) for layer in shown_layers(both)] if both else []
    found = []
    for share, words in SHARES:
        nearest = [
            min(reading.layers, key=lambda layer: abs(layer / blocks - share))
            for reading, blocks in zip(pair.readings, pair.blocks, strict=True)
        ]
        found.append((words, (nearest[0], nearest[1])))
    return list({layers: (words, layers) for words, layers in found}.values())


def _headlines(pair: Pair, known: tuple[Facts, Facts]) -> Markup:
    """Headline measurements of every condition, one record below the other."""
    columns = _columns(pair)
    rows: list[list[Any]] = []
    for headline in headlines_of(pair):
        rows.append([named(headline)])
        for condition in dict.fromkeys((*pair.first.conditions, *pair.second.conditions)):
            for which, one in enumerate(known):
                if condition in one.reading.conditions:
                    cells = [_cell(pair, one, headline, condition, layers[which]) for _, layers in columns]
                    rows.append([f"{one.reading.label(condition)}, {pair.names[which][0]}", *cells])
    if not rows or not columns:
        return paragraph("The two records share no measurement of the stream after the block.")
    depth = "" if pair.same_depth else " Columns are shares of the blocks passed; the layer stands below each number."
    return table(
        "Stream after each block, first token left out; mean over the documents of each record with its interval. "
        f"A is {pair.names[0][3:-1]}, B is {pair.names[1][3:-1]}.{depth}",
        ["", *(words for words, _ in columns)],
        rows,
    )


def _cell(pair: Pair, one: Facts, headline: Headline, condition: str, layer: int) -> Markup:
    number = one.words(one.at(headline, condition, layer))
    below = "" if pair.same_depth else element("small", layer_words(layer), class_="part")
    return element("td", number, below, class_="value")


def _differences(pair: Pair, found: Differences) -> Markup:
    """First minus second, paired by document, or why there is no such difference."""
    if found.refusal:
        return paragraph(_refusal_words(pair, found))
    layers = sorted({int(layer) for profile in found.profiles.values() for layer in profile.x})
    shown = shown_layers(layers)
    first = Facts(pair.first)
    rows: list[list[Any]] = []
    for headline in headlines_of(pair):
        its = [condition for condition in pair.conditions if (headline, condition) in found.profiles]
        rows += [[named(headline)]] if its else []
        for condition in its:
            ends = [found.profiles[headline, condition].at(layer) for layer in shown]
            marks = [{1: "▲ ", -1: "▼ ", 0: "○ "}[direction(end)] if end[3] else "" for end in ends]
            cells = [
                element("td", mark, first.words(end), class_="value") for mark, end in zip(marks, ends, strict=True)
            ]
            rows.append([pair.first.label(condition), *cells])
    return table(
        f"{pair.names[0]} minus {pair.names[1]}, paired by document. ▲ the first is higher, ▼ lower, ○ the interval "
        "holds zero: not resolved.",
        ["", *(layer_words(layer) for layer in shown)],
        rows,
    )


def _refusal_words(pair: Pair, found: Differences) -> str:
    """Why there is no difference, as a page says it."""
    if not pair.same_depth and "blocks" in found.refusal:
        return (
            f"The decoders have {pair.blocks[0]} and {pair.blocks[1]} blocks, so that no layer of one is the same "
            "place as a layer of the other: no difference is printed."
        )
    return "No difference between the two records is printed: see what differs."


def _losses(pair: Pair, known: tuple[Facts, Facts]) -> Markup:
    rows = [
        [pair.first.label(name), *(one.cell(one.reading.one("loss", condition=name)) for one in known)]
        for name in dict.fromkeys((*pair.first.conditions, *pair.second.conditions))
        if all(name in one.reading.conditions for one in known)
    ]
    if not rows or not all("loss" in one.reading.dataset for one in known):
        return Markup("")
    return table(
        "Next-token cross entropy in nats per token, each record on its own documents. Two tokenizers cut a text into "
        "unlike tokens, and their losses are then not on one scale.",
        ["", *pair.names],
        rows,
    )


def _each(pair: Pair, parts: Sequence[Markup]) -> Iterator[Markup]:
    """The same section of each record under its name; once where both say the same."""
    if len(set(parts)) == 1:
        yield parts[0]
        return
    for name, part in zip(pair.names, parts, strict=True):
        yield join([element("h3", name), part])


def _folded(part: Markup) -> Markup:
    return element("details", element("summary", "Decoder, conditions, documents, versions and every choice"), part)
