"""The page of two simulations side by side: what differs in their choices first, then numbers and figures in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.figures.drawing import Drawing
from armillary.figures.printed import FORMATS, print_drawings
from armillary.figures.run import Run
from armillary.figures.runs_beside import RunPair
from armillary.report.beside import pair_names
from armillary.report.endings import endings_table
from armillary.report.markup import Markup, element, join, listed, paragraph, table
from armillary.report.moved import against_the_law, answer, definitions, energy_words, flags, limits, methods, numbers
from armillary.report.provenance import flattened
from armillary.report.template import Section, assembled, laid_out, written
from armillary.report.unlike import flat_choices, plain_value, shown_values

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["write_run_comparison"]

_LEFT_OUT = ("at", "kind", "law", "choices", "dynamics")
_PLACES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("tokens", "The tokens", ("playback_left", "playback_right", "angles_in_time")),
    ("order", "Order parameters", ("directions_in_time", "ranks_in_time")),
    ("law", "Against the law", ("two_token_portrait",)),
    ("energy", "The energy", ("energy",)),
    ("groups", "Groups", ("group_staircase", "overlap_maps")),
)


def write_run_comparison(first: Record, second: Record, folder: str | Path, formats: Sequence[str] = FORMATS) -> Path:
    """Draw two simulations side by side: `report.html` and `figures/` with PDF, SVG and PNG of every figure.

    Args:
        first: the record that stands left.
        second: the record that stands right.
        folder: where the files go; made if missing.
        formats: of the figures, any of "pdf", "svg" and "png"; empty for the page alone.

    Returns:
        The page.
    """
    target = Path(folder)
    pair = RunPair.of(first, second, pair_names(first.path, second.path))
    drawn = pair.drawings()
    sections, links = laid_out(_sections(pair, drawn))
    text = assembled(f"{pair.names[0]} beside {pair.names[1]}", join([_head(pair), sections]), links, drawn)
    source = " and ".join(run.digest for run in pair.runs)
    print_drawings(drawn.values() if formats else (), target / "figures", formats, source=source)
    return written(text, target / "report.html")


def _sections(pair: RunPair, drawn: Mapping[str, Drawing]) -> Iterator[Section]:
    yield "unlike", "What differs", "What differs", [_unlike(pair)]
    yield "answer", "Each by itself", "Answers", list(_each(pair, lambda run: join([answer(run), flags(run)])))
    words: dict[str, Callable[[Run], Markup]] = {
        "order": numbers,
        "law": against_the_law,
        "energy": energy_words,
        "groups": endings_table,
    }
    for anchor, title, names in _PLACES:
        more = list(_each(pair, words[anchor])) if anchor in words else []
        yield anchor, title, title.removeprefix("The ").capitalize(), [*(drawn.get(name) for name in names), *more]
    placed = {name for _, _, names in _PLACES for name in names}
    yield "further", "Further figures", "Further", [drawn[name] for name in drawn if name not in placed]
    yield "limits", "What these numbers do not show", "Limits", list(_each(pair, limits))
    yield "methods", "Methods", "Methods", list(_each(pair, methods))
    yield "definitions", "Definitions", "Definitions", list(_each(pair, definitions))
    yield "provenance", "Provenance", "Provenance", list(_each(pair, _provenance))


def _head(pair: RunPair) -> Markup:
    noscript = Markup(
        "<noscript><p>The figures of this page are drawn by a script inside it; without scripts read the "
        "tables.</p></noscript>"
    )
    dynamics = dict.fromkeys(str(run.study["dynamics"]) for run in pair.runs)
    return element(
        "header",
        element("p", "Simulation report · two records side by side", class_="kind"),
        element("h1", f"{pair.names[0]} beside {pair.names[1]}"),
        element("p", " · ".join(dynamics), class_="model"),
        noscript,
    )


def _unlike(pair: RunPair) -> Markup:
    """The choices that differ, whether the starts are the same, and behind a fold what is the same in both."""
    sides = [flat_choices(run.study, _LEFT_OUT) for run in pair.runs]
    differing: list[list[Any]] = []
    same: list[list[Any]] = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(name, "not recorded") for side in sides)
        if one == other:
            same.append([name, plain_value(one)])
        else:
            differing.append([name, *shown_values(one, other)])
    starts = (
        "Both begin with the same states, so that what differs later comes from the dynamics; still, no difference is "
        "printed: each number stands with its own interval over starts."
        if pair.same_starts
        else "They begin with different states. No difference between the two is printed: each number stands with its "
        "own interval over starts."
    )
    parts = [paragraph(starts)]
    if differing:
        parts.append(table("Where the two simulations differ in what was chosen.", ["", *pair.names], differing))
    else:
        parts.append(paragraph("The two simulations do not differ in any recorded choice."))
    for name, titles in zip(pair.names, pair.alone, strict=True):
        if titles:
            said = listed([f"“{title}”" for title in titles])
            parts.append(paragraph(f"Only {name} has numbers for {said}; see its own page."))
    listing = table("", ["", "both"], same)
    parts.append(element("details", element("summary", "What is the same in both"), listing))
    return join(parts)


def _each(pair: RunPair, made: Callable[[Run], Markup]) -> Iterator[Markup]:
    """The same part of each record under its name; once where both say the same."""
    parts = [made(run) for run in pair.runs]
    if parts[0] == parts[1]:
        yield parts[0]
        return
    for name, part in zip(pair.names, parts, strict=True):
        if part:
            yield join([element("h3", name), part])


def _provenance(run: Run) -> Markup:
    told = ("statuses", "endings", "mergers", "energy", "steps", "rejected", "evaluations")
    kept = {name: value for name, value in run.provenance.items() if name not in told}
    rows = [[name, str(value)] for name, value in flattened({**kept, "hash of the measurements": run.digest})]
    return element("details", element("summary", "Versions and what the run took"), table("", ["", ""], rows))
