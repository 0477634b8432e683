"""What a source of documents gives: texts in a fixed order, each fit to be tokenized or set aside with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from armillary.errors import ArgumentError

__all__ = ["Skipped", "Source", "Text", "checked", "given_texts"]


@dataclass(frozen=True)
class Text:
    """A text that can be tokenized."""

    title: str
    text: str


@dataclass(frozen=True)
class Skipped:
    """A text that was looked at and could not be used, and why; a text that the stated rule passes over is not one."""

    title: str
    reason: str


@dataclass(frozen=True)
class Source:
    """Texts and the words for them; the texts are read as they are asked for, so that no more is read than is used.

    Attributes:
        texts: In their order, each looked at once.
        origin: Where they come from, as a record says it.
        order: Which texts, in which order: how the sentence of the rule begins.
        where: What they are called in a message.
        genre: What kind of text this is, where the source knows it.
        embedded: Whether the texts are those that Python carries: then nobody could mend one, and none is listed as
            skipped.
    """

    texts: Iterable[Text | Skipped]
    origin: str
    order: str
    where: str
    genre: str = ""
    embedded: bool = False


def checked(title: str, text: str) -> Text | Skipped:
    """The text, or why it cannot be tokenized: it is empty, binary, or holds half a character.

    Args:
        title: What it is called.
        text: As decoded.
    """
    if not text.strip():
        return Skipped(title, "empty")
    if "\0" in text:
        return Skipped(title, f"binary: character {text.index(chr(0))} is NUL")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as trouble:
        return Skipped(title, f"not Unicode: character {trouble.start} is half a surrogate pair")
    return Text(title, text)


def given_texts(texts: Any) -> Source:
    """Texts by title, sorted by title.

    Args:
        texts: Title -> text.

    Raises:
        ArgumentError: It is no mapping of titles to texts, or an empty one.
    """
    if not isinstance(texts, Mapping) or not texts:
        got = "it is empty" if isinstance(texts, Mapping) else f"it is of type {type(texts).__name__}"
        raise ArgumentError(f"Argument `texts` must map titles to texts, but {got}. Give {{title: text, ...}}.")
    for title, text in texts.items():
        if not isinstance(title, str) or not isinstance(text, str):
            raise ArgumentError(
                f"Argument `texts` must map titles to texts, but {title!r} maps to {type(text).__name__}. "
                "Decode bytes first, and give titles as str."
            )
    words = f"the {len(texts)} texts"
    return Source(_sorted(texts), "texts given by the caller", f"{words} given by the caller, sorted by title", words)


def _sorted(texts: Mapping[str, str]) -> Iterator[Text | Skipped]:
    return (checked(title, texts[title]) for title in sorted(texts))
