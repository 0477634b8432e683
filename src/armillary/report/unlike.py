"""What differs between the choices of two records, listed before any of their numbers; the rest behind a fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from armillary.figures.beside import Pair
from armillary.figures.reading import Reading
from armillary.records.contrasts import same_documents
from armillary.report.markup import Markup, counted, element, join, listed, paragraph, table

__all__ = ["flat_choices", "plain_value", "shown_values", "unlike"]

_LEFT_OUT = {
    "decoder": ("source",),
    "documents": ("titles", "first_ids", "text_hashes", "skipped"),
    "calibration": ("titles", "rogue_coordinates", "skipped"),
    "versions": (),
}
_STUDY_LEFT_OUT = ("model", "documents", "calibration", "kind")
_TITLES = {"decoder": "Decoder", "documents": "Documents", "calibration": "Calibration", "versions": "Versions"}
_MOST = 8  # entries of a list that only one side has, named one by one
_LONG = 28  # characters from which a hash is cut


def unlike(pair: Pair) -> Markup:
    """The choices that differ, decoder and documents first, and behind a fold those that are the same.

    Args:
        pair: the two records.
    """
    differing: list[list[Any]] = []
    same: list[list[Any]] = []
    for title, first, second in _groups(pair):
        rows: dict[bool, list[list[Any]]] = {False: [], True: []}
        for name in dict.fromkeys([*first, *second]):
            one, other = (side.get(name, "not recorded") for side in (first, second))
            rows[one == other].append([name, *(shown_values(one, other) if one != other else [plain_value(one)])])
        differing += [[title], *rows[False]] if rows[False] else []
        same += [[title], *rows[True]] if rows[True] else []
    heads = ["", *pair.names]
    parts = [paragraph(_documents_sentence(pair))]
    if differing:
        parts.append(table("Where the two records differ in what was chosen or given.", heads, differing))
    else:
        parts.append(paragraph("The two records do not differ in any recorded choice."))
    parts += [paragraph(said) for said in _only_once(pair)]
    if same:
        listing = table("", ["", "both"], same)
        parts.append(element("details", element("summary", "What is the same in both"), listing))
    return join(parts)


def _documents_sentence(pair: Pair) -> str:
    """Whether the documents are the same, and what follows for differences."""
    sources = [reading.provenance.get("documents") or {} for reading in pair.readings]
    why = same_documents(*sources)
    if not why:
        return (
            "Both records hold the same token ids, document by document, so their numbers are paired: a difference is "
            "taken within each document before anything is averaged."
        )
    return (
        f"The documents differ: {why}. No difference between the two records is printed, since nothing pairs a "
        "document of one with a document of the other. Each number stands with its own interval, which speaks for "
        "documents like its own."
    )


def _groups(pair: Pair) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Titled choices of both, flat, by name in words."""
    for key, title in _TITLES.items():
        sides = [flat_choices(reading.provenance.get(key) or {}, _LEFT_OUT[key]) for reading in pair.readings]
        if key == "documents":
            for side, reading in zip(sides, pair.readings, strict=True):
                side["number"] = len(reading.documents)
        yield title, sides[0], sides[1]
    first, second = (flat_choices(reading.study, _STUDY_LEFT_OUT) for reading in pair.readings)
    yield "Choices of the study", first, second


def flat_choices(tree: Mapping[str, Any], left_out: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    """Choices in one level, by name in words.

    Args:
        tree: nested choices.
        left_out: names that are not shown.
        prefix: what stands before every name.
    """
    found: dict[str, Any] = {}
    for name, value in tree.items():
        words = f"{prefix}{str(name).replace('_', ' ')}"
        if name in left_out:
            continue
        if isinstance(value, Mapping):
            found |= flat_choices(value, (), f"{words}: ")
        else:
            found[words] = value
    return found


def shown_values(one: Any, other: Any) -> list[Any]:
    """Two values that differ; of two lists, what only either has."""
    if isinstance(one, list) and isinstance(other, list):
        sides = [[str(item) for item in mine if item not in theirs] for mine, theirs in ((one, other), (other, one))]
        if any(sides):
            return [_some(side, len(mine)) for side, mine in zip(sides, (one, other), strict=True)]
        return ["the same, in this order", "the same, in another order"]
    return [plain_value(one), plain_value(other)]


def _some(alone: list[str], number: int) -> str:
    if not alone:
        return f"{counted(number, 'entry').replace('entrys', 'entries')}, none that the other lacks"
    more = f" and {len(alone) - _MOST} more" if len(alone) > _MOST else ""
    return f"only here: {'; '.join(alone[:_MOST])}{more}"


def plain_value(value: Any) -> Any:
    """A choice as a table shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none recorded"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"{'; '.join(str(item) for item in value[:_MOST])}{' …' if len(value) > _MOST else ''}" or "none"
    text = str(value)
    hashed = len(text) > _LONG and " " not in text and "/" not in text
    return element("span", f"{text[:16]}…", class_="hash", title=text) if hashed else text


def _only_once(pair: Pair) -> Iterator[str]:
    """What one record has and the other lacks: conditions and figures, which are not shown side by side."""
    for name, reading, other in zip(pair.names, pair.readings, pair.readings[::-1], strict=True):
        lacking = [reading.label(one) for one in _lacking(reading, other)]
        if lacking:
            yield f"Only {name} has {'the condition' if len(lacking) == 1 else 'the conditions'} {listed(lacking)}."
    for name, titles in zip(pair.names, pair.alone, strict=True):
        if titles:
            words = listed([f"“{title}”" for title in titles])
            yield f"Only {name} has numbers for {words}; see its own page."


def _lacking(reading: Reading, other: Reading) -> list[str]:
    return [name for name in reading.conditions if name not in other.conditions]
