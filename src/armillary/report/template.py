"""A page from its parts: sections with their links, figures numbered, one file that asks nothing of any network."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from string import Template

from armillary.figures.drawing import Drawing
from armillary.report.explored import embedded_json, explored
from armillary.report.markup import Markup, element, escaped, join

__all__ = ["NOSCRIPT", "Part", "Section", "assembled", "laid_out", "with_answer", "written"]

Part = Markup | Drawing | None
"""What stands in a section: markup, a figure, or nothing."""

Section = tuple[str, str, str, Iterable[Part]]
"""Anchor, title, short title for the contents, and what stands in it."""


NOSCRIPT = Markup(
    "<noscript><p>The figures of this page are drawn by a script inside it; without scripts read the "
    "tables.</p></noscript>"
)


def laid_out(sections: Iterable[Section]) -> tuple[Markup, Markup]:
    """The sections that have anything in them, figures numbered in order, and the links of the contents.

    Args:
        sections: in the order of the page.
    """
    done, links, number = [], [], 0
    for anchor, title, short, parts in sections:
        shown = []
        for part in parts:
            if isinstance(part, Drawing):
                number += 1
                shown.append(_figure(part, number))
            elif part:
                shown.append(part)
        if shown:
            done.append(element("section", element("h2", title), *shown, id=anchor))
            links.append(element("li", element("a", short, href=f"#{anchor}")))
    return join(done), join(links)


def with_answer(links: Markup, words: str = "Answer") -> Markup:
    """The links of the contents after one to what the page begins with.

    Args:
        links: of the sections.
        words: what that link is called.
    """
    return join([element("li", element("a", words, href="#answer")), links])


def assembled(title: str, body: Markup, links: Markup, drawn: Mapping[str, Drawing]) -> str:
    """The whole page as HTML.

    Args:
        title: of the window.
        body: what stands in it.
        links: the contents.
        drawn: every figure on it, by name.
    """
    import plotly.offline

    import armillary

    here = resources.files("armillary.report")
    template = Template((here / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escaped(title),
        version=escaped(getattr(armillary, "__version__", "")),
        css=(here / "page.css").read_text(encoding="utf-8"),
        contents=links,
        body=body,
        data=embedded_json(explored(drawn)),
        plotly=plotly.offline.get_plotlyjs(),
        script="".join((here / name).read_text(encoding="utf-8") for name in ("playback.js", "page.js")),
    )


def written(text: str, path: str | Path) -> Path:
    """Write a page, whole or not at all.

    Args:
        text: its HTML.
        path: the file.

    Returns:
        The file.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).chmod(0o644)
        Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return target


def _figure(drawing: Drawing, number: int) -> Markup:
    words = element("details", element("summary", "This figure in words"), element("p", drawing.alt))
    caption = element("figcaption", element("b", f"Figure {number}. "), drawing.caption, words)
    return element(
        "figure",
        element("h3", drawing.title),
        element("div", class_="controls"),
        element("div", class_="legend"),
        element("div", class_="plot", role="img", aria_label=drawing.alt),
        caption,
        id=f"figure-{drawing.name}",
        data_figure=drawing.name,
    )
