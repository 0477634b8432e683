"""Which texts become documents: read in order, checked one by one, and chosen by a rule that can be said in words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError, NothingLeft
from armillary.models.start_token import StartRule

__all__ = ["TEXT_ENDINGS", "Chosen", "Rule", "Skipped", "Text", "select", "shown", "text_files", "texts_of", "texts_in"]

TEXT_ENDINGS = (".md", ".rst", ".text", ".txt")
"""What the name of a file ends in (in either case) for a folder's text to be read."""


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
class Chosen:
    """A document: the title and the SHA-256 of its whole text, and its ids, cut to the length of all."""

    title: str
    text_hash: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """Among the texts with at least `tokens` tokens, in order: pass over `offset`, take `limit`."""

    limit: int
    tokens: int
    offset: int

    def __post_init__(self) -> None:
        for name, least in (("limit", 1), ("tokens", 1), ("offset", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(
                    f"Argument `{name}` must be a whole number of at least {least}, but it is {value!r}. "
                    f"Give {name}={max(least, 32)}, for instance."
                )

    def words(self, order: str) -> str:
        """The rule in words, after the texts and their order."""
        passed = f"the first {self.offset} of them passed over, " if self.offset else ""
        return (
            f"{order}; tokenized without truncation; those with at least {self.tokens} tokens and not equal to an "
            f"earlier one; {passed}the first {self.limit} taken; each cut to its first {self.tokens} tokens; no padding"
        )


def text_files(folder: Path) -> list[Path]:
    """The text files of a folder (not of its subfolders), sorted by name.

    Args:
        folder: Where they lie.

    Returns:
        Files whose names end in `TEXT_ENDINGS`.

    Raises:
        ArgumentError: The folder is missing, or holds none.
    """
    if not folder.is_dir():
        got = "is a file" if folder.exists() else "does not exist"
        raise ArgumentError(
            f"Argument `documents` must be a folder of text files, but {folder} {got}. Give the folder that holds them."
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in TEXT_ENDINGS and file.is_file())
    if not files:
        count = sum(1 for _ in folder.iterdir())
        raise ArgumentError(
            f"Argument `documents` must be a folder of text files, but none of the {count} entries of {folder} is a "
            f"file ending in {', '.join(TEXT_ENDINGS)}. Put the texts there as UTF-8 files with such names."
        )
    return files


def texts_in(files: Iterable[Path]) -> Iterator[Text | Skipped]:
    """The files' texts, each read when its turn comes; what is not UTF-8, empty or unreadable is skipped."""
    for file in files:
        title = shown(Path(file.name))
        try:
            yield _checked(title, file.read_bytes().decode("utf-8-sig"))  # a byte order mark is not text
        except UnicodeDecodeError as trouble:
            yield Skipped(title, f"not UTF-8: byte {trouble.start} is 0x{trouble.object[trouble.start]:02x}")
        except OSError as trouble:
            yield Skipped(title, f"cannot be read: {trouble.strerror}")


def texts_of(texts: Any) -> Iterator[Text | Skipped]:
    """Texts by title, sorted by title; an empty one is skipped.

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
    return (_checked(title, texts[title]) for title in sorted(texts))


def select(
    texts: Iterable[Text | Skipped], start: StartRule, rule: Rule, where: str
) -> tuple[list[Chosen], tuple[Skipped, ...]]:
    """The documents that a rule chooses; reading stops at the last of them, and what lies beyond is never looked at.

    Args:
        texts: In order.
        start: How they are tokenized.
        rule: Length, limit and offset.
        where: What they are called in a message.

    Returns:
        The documents, and the texts that were looked at and could not be used.

    Raises:
        NothingLeft: Texts fit, but no more than the rule passes over.
        ArgumentError: No text fits.
    """
    fitting: dict[tuple[int, ...], Chosen] = {}
    skipped: list[Skipped] = []
    longest = 0
    for text in texts:
        if isinstance(text, Skipped):
            skipped.append(text)
            continue
        ids = start.ids(text.text)
        longest = max(longest, len(ids))
        if len(ids) < rule.tokens:
            skipped.append(Skipped(text.title, f"too short: {len(ids)} tokens, {rule.tokens} are needed"))
            continue
        ids = ids[: rule.tokens]
        if ids in fitting:
            skipped.append(Skipped(text.title, f"the same first {rule.tokens} tokens as {fitting[ids].title!r}"))
            continue
        fitting[ids] = Chosen(text.title, hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest(), ids)
        if len(fitting) == rule.offset + rule.limit:
            break
    chosen = list(fitting.values())[rule.offset :]
    if not chosen:
        raise _trouble(len(fitting), skipped, longest, rule, where)
    return chosen, tuple(skipped)


def shown(path: Path) -> str:
    """A file name that can be written as UTF-8, whatever bytes it was made of."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _checked(title: str, text: str) -> Text | Skipped:
    return Text(title, text) if text.strip() else Skipped(title, "empty")


def _trouble(fitting: int, skipped: list[Skipped], longest: int, rule: Rule, where: str) -> ArgumentError:
    """Why no document is left."""
    if fitting:
        return NothingLeft(
            f"Argument `offset` must be below {fitting}, the number of documents of {where} with at least "
            f"{rule.tokens} tokens, but it is {rule.offset}. Lower it or give more documents."
        )
    if longest:
        return ArgumentError(
            f"Argument `tokens` must leave at least one document, but of {where} none has {rule.tokens} tokens "
            f"(the longest has {longest}). Ask for {longest} tokens or fewer, or give longer texts."
        )
    return ArgumentError(
        f"Argument `documents` must hold at least one text that can be used, but of {where} none can: "
        f"{skipped[0].title!r} is {skipped[0].reason}. Give UTF-8 texts that are not empty."
    )
