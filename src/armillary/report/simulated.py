"""The page of a simulation: its sections in order, with the figures and tables that stand in each."""

from __future__ import annotations

from collections.abc import Callable

from armillary.figures.registry import drawings
from armillary.figures.run import Run
from armillary.report.endings import changes_table, endings_table, mergers_table
from armillary.report.markup import Markup, element, facts, join
from armillary.report.moved import (
    against_the_law,
    answer,
    definitions,
    energy_words,
    flags,
    limits,
    methods,
    numbers,
)
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import NOSCRIPT, assembled, laid_out, with_answer

__all__ = ["simulation_page"]

Content = Callable[[Run], Markup]

SECTIONS: tuple[tuple[str, str, str, tuple[str | Content, ...]], ...] = (
    ("tokens", "The tokens", "Tokens", ("playback", "angles_in_time")),
    ("order", "Order parameters", "Order", ("directions_in_time", "ranks_in_time", numbers)),
    ("law", "Against the law", "Law", (against_the_law, "two_token_portrait")),
    ("energy", "The energy", "Energy", (energy_words, "energy")),
    ("groups", "Groups", "Groups", ("group_staircase", endings_table, changes_table, mergers_table, "overlap_maps")),
    ("limits", "What these numbers do not show", "Limits", (limits,)),
    ("methods", "Methods", "Methods", (methods, definitions)),
    ("provenance", "Provenance", "Provenance", (lambda run: _provenance(run),)),
)


def simulation_page(run: Run) -> str:
    """The page as HTML.

    Args:
        run: the record's reading.
    """
    drawn = drawings(run)
    placed = {item for *_, items in SECTIONS for item in items if isinstance(item, str)}
    plan = (*SECTIONS[:-3], ("further", "Further figures", "Further", tuple(set(drawn) - placed)), *SECTIONS[-3:])
    sections, links = laid_out(
        (anchor, title, short, [drawn.get(item) if isinstance(item, str) else item(run) for item in items])
        for anchor, title, short, items in plan
    )
    contents = with_answer(links)
    title = f"{run.study['tokens']} tokens in dimension {run.study['dim']}"
    return assembled(f"Simulation: {title}", join([_head(run, title), sections]), contents, drawn)


def _head(run: Run, title: str) -> Markup:
    header = element(
        "header",
        element("p", "Simulation report · tokens as unit vectors that move each other", class_="kind"),
        element("h1", title),
        element("p", str(run.study["dynamics"]), class_="model"),
    )
    content = element("div", answer(run), class_="answer")
    return join([header, element("section", content, flags(run), NOSCRIPT, id="answer")])


def _provenance(run: Run) -> Markup:
    """Versions, what the run took, the hash of the numbers, and every choice."""
    origin = dict(run.provenance)
    told = ("statuses", "endings", "mergers", "versions", "energy")
    single = {name: value for name, value in origin.items() if name not in told}
    return join(
        [
            facts("Record", flattened({**single, "hash of the measurements": run.digest})),
            facts("Versions", flattened(origin.get("versions") or {})),
            every_choice({k: v for k, v in run.study.items() if k != "at"}),
        ]
    )
