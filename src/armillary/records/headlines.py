"""The numbers that a record leads with, at a few depths of every condition: a table in text, Markdown, LaTeX or HTML.

Everything is of the stream after the block with the first token left out, as the page of the record has it.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.estimates import Estimate
from armillary.terms import condition_label, layer_words, measurement_name, measurement_words, preparation_words

if TYPE_CHECKING:
    import pandas

__all__ = [
    "HEADLINES",
    "ORDER",
    "OVERLAP",
    "RANK",
    "Headline",
    "HeadlineTable",
    "chosen",
    "leading",
    "shown_layers",
    "tabled",
]

Headline = tuple[str, str]
"""Name and preparation of a measurement."""

OVERLAP: Headline = ("mean_overlap", "normalize")
ORDER: Headline = ("clustering_order_parameter", "center, normalize")
RANK: Headline = ("participation_rank", "center, normalize")
HEADLINES = (OVERLAP, ORDER, RANK)
"""What a record leads with where it has them."""

PLACE, TOKENS = "block", "without_first"


@dataclass(frozen=True)
class HeadlineTable:
    """A table of estimates: a group for each measurement, a row for each condition, a column for each depth.

    Attributes:
        caption: What it shows.
        heads: The depths in words.
        groups: Title, and rows of a condition in words with one entry a depth.
    """

    caption: str
    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]

    def __str__(self) -> str:
        """The table in columns of plain text."""
        rows = [("", *self.heads)]
        for title, its in self.groups:
            rows += [(title,), *((f"  {label}", *cells) for label, cells in its)]
        columns = range(len(self.heads) + 1)
        widths = [max((len(row[k]) for row in rows if len(row) > 1), default=0) for k in columns]
        return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip()
                         for row in rows)  # fmt: skip

    def markdown(self) -> str:
        """The table in Markdown, its caption as the last line."""
        lines = [_piped(["", *self.heads]), "|" + " --- |" * (len(self.heads) + 1)]
        for title, its in self.groups:
            lines.append(_piped([f"**{_marked(title)}**", *[""] * len(self.heads)]))
            lines += [_piped([_marked(label), *cells]) for label, cells in its]
        return "\n".join([*lines, "", _marked(self.caption), ""])

    def latex(self) -> str:
        r"""The table in LaTeX: one `table` environment that needs `\usepackage{booktabs}`."""
        span = len(self.heads) + 1
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(self.caption)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'l' * len(self.heads)}}}", r"\toprule"]
        lines.append(" & ".join(["", *map(_tex, self.heads)]) + r" \\")
        for title, its in self.groups:
            lines += [r"\midrule", rf"\multicolumn{{{span}}}{{l}}{{\emph{{{_tex(title)}}}}} \\"]
            lines += [" & ".join([_tex(label), *map(_tex_number, cells)]) + r" \\" for label, cells in its]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def html(self) -> str:
        """The table as an HTML element without style of its own."""
        heads = "".join(f"<th>{html.escape(text)}</th>" for text in ("", *self.heads))
        rows, left = [], 'style="text-align:left"'
        for title, its in self.groups:
            rows.append(f'<tr><th colspan="{len(self.heads) + 1}" {left}>{html.escape(title)}</th></tr>')
            for label, cells in its:
                entries = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
                rows.append(f"<tr><td {left}>{html.escape(label)}</td>{entries}</tr>")
        caption = f"<caption {left}>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def shown_layers(layers: Sequence[int]) -> tuple[int, ...]:
    """The few layers that sentences and tables name: embedding, a sixth, half, two thirds, last."""
    top = layers[-1]
    wanted = (layers[0], top / 6, top / 2, top * 2 / 3, top)
    return tuple(sorted({min(layers, key=lambda layer: abs(layer - place)) for place in wanted}))


def chosen(columns: pandas.DataFrame, measurements: Iterable[str]) -> tuple[Headline, ...]:
    """The measurements that a record leads with: those of `HEADLINES` it has, then its own, three in all.

    Args:
        columns: Every measured combination.
        measurements: What the study names, in its order.
    """
    here = columns[(columns["place"] == PLACE) & (columns["tokens"] == TOKENS)]
    has = set(zip(here["measurement"], here["preparation"], strict=True))
    wanted = dict.fromkeys((*HEADLINES, *(measurement_name(str(text)) for text in measurements)))
    return tuple(one for one in wanted if one in has)[: len(HEADLINES)]


def leading(columns: pandas.DataFrame, headlines: Sequence[Headline]) -> np.ndarray:
    """Which combinations stand in the table: these measurements at the layers that are shown."""
    here = (columns["place"] == PLACE) & (columns["tokens"] == TOKENS)
    layers = sorted({int(layer) for layer in columns["layer"][here].dropna()})
    wanted = [one in headlines for one in zip(columns["measurement"], columns["preparation"], strict=True)]
    shown = here & columns["layer"].isin(shown_layers(layers) if layers else ())
    return shown.to_numpy(dtype=bool) & np.array(wanted, dtype=bool)


def tabled(frame: pandas.DataFrame, headlines: Sequence[Headline], *, about: str, asked: int) -> HeadlineTable:
    """The table of estimated rows.

    Args:
        frame: Rows with value, low, high, level and documents.
        headlines: Their measurements, in order.
        about: What was measured, for the caption.
        asked: How many documents were measured.
    """
    layers = sorted({int(layer) for layer in frame["layer"]})
    groups = []
    for measurement, preparation in headlines:
        its = frame[(frame["measurement"] == measurement) & (frame["preparation"] == preparation)]
        rows = []
        for condition in dict.fromkeys(its["condition"]):
            at = {int(row["layer"]): row for row in its[its["condition"] == condition].to_dict("records")}
            rows.append((condition_label(condition), tuple(_cell(at.get(layer), asked) for layer in layers)))
        groups.append((f"{measurement_words(measurement)}, {preparation_words(preparation)}", tuple(rows)))
    level = f" and {100 * float(frame['level'].iloc[0]):g}% interval" if len(frame) else ""
    caption = f"{about}: stream after each block, first token left out; mean over documents{level}."
    return HeadlineTable(caption, tuple(layer_words(layer) for layer in layers), tuple(groups))


def _cell(row: Mapping[str, Any] | None, asked: int) -> str:
    """An estimate as text; an undefined one says so, and one from fewer documents says from how many."""
    if row is None:
        return "not measured"
    if math.isnan(row["value"]):
        return "undefined"
    part = f" ({row['documents']} of {asked} documents)" if row["documents"] < asked else ""
    if math.isnan(row["low"]) or math.isnan(row["high"]):
        return f"{row['value']:.4g}{part}"
    found = Estimate(row["value"], row["low"], row["high"], row["level"], row["documents"])
    return str(found).partition("]")[0] + "]" + part


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _marked(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#])", r"\\\1", text)


def _tex(text: str) -> str:
    """Text that LaTeX leaves as it is."""
    spelled = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
               ">": r"\textgreater{}", "−": "$-$"}  # fmt: skip
    return "".join(spelled.get(one, f"\\{one}" if one in "&%$#_{}" else one) for one in text)


def _tex_number(text: str) -> str:
    """A number with its interval; a minus sign is one."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", _tex(text))
