"""HTML from numbers and plain text: everything that comes from outside is escaped here, once.

`Markup` is text that is already HTML; whatever is a plain string is escaped when it meets it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from armillary.estimates import Estimate

__all__ = [
    "UNDEFINED",
    "NOT_MEASURED",
    "Markup",
    "counted",
    "element",
    "escaped",
    "facts",
    "interval",
    "join",
    "listed",
    "minus",
    "paragraph",
    "ranges",
    "table",
]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


NOT_MEASURED = (math.nan, math.nan, math.nan, -1)
"""Value, low, high and members of what a record does not hold; an undefined number has no members instead."""

UNDEFINED = Markup('<span class="undefined">undefined</span>')


def escaped(text: Any) -> Markup:
    """The text as HTML; `Markup` stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(str(text)))


def join(parts: Iterable[Any], between: str = "") -> Markup:
    """The parts as one piece of HTML; plain strings among them are escaped."""
    return Markup(between.join(escaped(part) for part in parts))


def element(tag: str, *content: Any, **attributes: str) -> Markup:
    """One element; attribute names lose a trailing underscore, others become hyphens."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{written}>{join(content)}</{tag}>")


def listed(words: Sequence[str]) -> str:
    """Words as an enumeration: a, b and c."""
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def counted(number: int, thing: str) -> str:
    """A number of things: one layer, 31 layers."""
    return f"one {thing}" if number == 1 else f"{number} {thing}s"


def ranges(numbers: list[int]) -> str:
    """Sorted whole numbers as ranges: 3–9, 12."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def paragraph(*content: Any) -> Markup:
    """A paragraph of plain strings and HTML."""
    return element("p", *content)


def interval(ends: tuple[float, float, float, int], level: float, documents: int = 0) -> Markup:
    """`0.58 [0.57, 0.59]` with the digits the interval allows; "undefined" where there is no number.

    Args:
        ends: value, low, high, members.
        level: nominal coverage of the interval.
        documents: how many were measured; where fewer have a number, their count is written beside it.
    """
    value, low, high, members = ends
    if members < 0:
        return Markup('<span class="undefined">not measured</span>')
    if not members or math.isnan(value):
        return UNDEFINED
    if math.isnan(low) or math.isnan(high):
        return element("span", f"{value:.4g} [no interval]", class_="num")
    text = str(Estimate(value, low, high, level, members))
    number, _, rest = text.partition(" [")
    ends_text = rest.partition("]")[0]
    if math.isinf(low) and math.isinf(high):
        ends_text = "unbounded"
    part = f' <small class="part">defined in {members} of {documents}</small>' if members < documents else ""
    return Markup(f'<span class="num">{minus(number)} <small>[{minus(ends_text)}]</small></span>{part}')


def table(caption: Any, heads: Sequence[Any], rows: Iterable[Sequence[Any]], class_: str = "") -> Markup:
    """A table with row heads; a row of one entry is a group's title across all columns.

    Args:
        caption: what the table shows.
        heads: column heads.
        rows: each a row head and its entries; entries that are `td` elements already are kept.
        class_: a class for styling.
    """
    head = join(element("th", text, scope="col") for text in heads)
    body = []
    for row in rows:
        if len(row) == 1:
            body.append(
                Markup(f'<tr class="group"><th colspan="{len(heads)}" scope="rowgroup">{escaped(row[0])}</th></tr>')
            )
            continue
        entries = [
            entry if isinstance(entry, Markup) and entry.startswith("<td") else element("td", entry)
            for entry in row[1:]
        ]
        body.append(element("tr", element("th", row[0], scope="row"), *entries))
    inner = join([element("caption", caption), element("thead", element("tr", head)), element("tbody", join(body))])
    return element("div", element("table", inner, **({"class_": class_} if class_ else {})), class_="scroll")


def facts(caption: Any, pairs: Iterable[tuple[Any, Any]]) -> Markup:
    """A two-column table of names and values."""
    rows = join(element("tr", element("th", name, scope="row"), element("td", value)) for name, value in pairs)
    inner = join([element("caption", caption), element("tbody", rows)])
    return element("div", element("table", inner, class_="facts"), class_="scroll")


def minus(text: str) -> str:
    """A number as text, escaped, with a true minus sign."""
    return html.escape(text).replace("-", "−").replace("e−", "e-")
