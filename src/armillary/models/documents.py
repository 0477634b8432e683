"""Fixed token sequences of one length, chosen by a stated rule and hashed: what every condition is measured on.

Participation ranks and squared mean directions depend on the number of tokens, so all documents of a study have one
length and none is padded. Which texts were chosen, what the tokenizer put in front of them and which could not be
used is kept in words beside the ids.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, CheckMissed
from armillary.shapes import TokenIds

__all__ = ["TEXT_ENDINGS", "Documents", "Skipped"]

TEXT_ENDINGS = (".md", ".rst", ".text", ".txt")
"""What the name of a file ends in (in either case) for a folder's text to be read."""

_PROBE = "text"
_UNKNOWN_GENRE = "not stated by the caller; intervals speak for texts like these only"
_TOPICS_GENRE = "reference prose of the Python language: one genre, so intervals speak for that genre only"


@dataclass(frozen=True)
class Skipped:
    """A text that was looked at and could not be used, and why; a text that the stated rule passes over is not one."""

    title: str
    reason: str


@dataclass(frozen=True)
class _Text:
    title: str
    text: str


@dataclass(frozen=True)
class _Chosen:
    title: str
    text_hash: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class _Rule:
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
        passed = f"the first {self.offset} of them passed over, " if self.offset else ""
        return (
            f"{order}; tokenized without truncation; those with at least {self.tokens} tokens and not equal to an "
            f"earlier one; {passed}the first {self.limit} taken; each cut to its first {self.tokens} tokens; no padding"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Token ids [documents, tokens] of one length, with their titles, hashes and the rule that chose them.

    Attributes:
        token_ids: int64 tensor [documents, tokens]; no padding anywhere.
        titles: one a document, all different, in the order of the rows.
        text_hashes: SHA-256 of each whole text (UTF-8) before tokenization; empty where ids were given.
        source: where the texts come from, in words (for the default topics with the version of CPython).
        rule: how they were selected, in words.
        start_token: what the tokenizer itself puts in front of plain text, in words.
        skipped: texts that could not be used, with the reason.
        genre: what kind of text this is, in words: an interval over documents speaks for no other.
        hash: SHA-256 of the ids as little-endian int32, row after row.
    """

    token_ids: TokenIds
    titles: tuple[str, ...]
    text_hashes: tuple[str, ...]
    source: str
    rule: str
    start_token: str
    skipped: tuple[Skipped, ...] = ()
    genre: str = _UNKNOWN_GENRE
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", _ids_hash(self.token_ids))

    @classmethod
    def from_topics(cls, tokenizer: Any, *, limit: int, tokens: int, offset: int = 0) -> Documents:
        """The default documents: the topics of Python's own reference, as this interpreter carries them.

        Their text differs between versions of CPython; `source` names the version and `text_hashes` the texts.

        Args:
            tokenizer: a transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: at most so many documents.
            tokens: the length of every document; shorter topics are passed over by the rule.
            offset: how many fitting topics are passed over first: a disjoint calibration set starts where another ends.

        Raises:
            ArgumentError: if no topic is left, or this Python carries no topics.
        """
        rule = _Rule(limit, tokens, offset)
        try:
            from pydoc_data.topics import topics
        except ImportError as trouble:
            raise ArgumentError(
                "Argument `documents` must name a folder of text files here, but none is given and this Python carries "
                "no `pydoc_data.topics` to fall back on. Give a folder of text files."
            ) from trouble
        source = f"pydoc_data.topics of {platform.python_implementation()} {platform.python_version()}"
        start = _StartRule.of(tokenizer)
        chosen, _ = _select((_Text(title, topics[title]) for title in sorted(topics)), start, rule, source)
        words = rule.words(f"the {len(topics)} topics of Python's reference, sorted by title")
        return cls._of(chosen, start, source=source, rule=words, genre=_TOPICS_GENRE)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, genre: str = ""
    ) -> Documents:
        """The text files of a folder (not of its subfolders), in UTF-8, sorted by name.

        Args:
            path: the folder; files ending in `TEXT_ENDINGS` are read, in order, until `limit` documents are found.
            tokenizer: a transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: at most so many documents.
            tokens: the length of every document; a shorter file is skipped with the reason.
            offset: how many fitting files are passed over first.
            genre: what kind of text this is, in words.

        Raises:
            ArgumentError: if the folder is missing, holds no text files, or none of them can be used.
        """
        rule, folder = _Rule(limit, tokens, offset), Path(path)
        files = _text_files(folder)
        start = _StartRule.of(tokenizer)
        chosen, skipped = _select((_read(file) for file in files), start, rule, f"the folder {folder}")
        words = rule.words(f"the {len(files)} text files ({', '.join(TEXT_ENDINGS)}) of the folder, sorted by name")
        return cls._of(chosen, start, source=f"folder {_shown(folder)}", rule=words, genre=genre, skipped=skipped)

    @classmethod
    def from_texts(
        cls, texts: Mapping[str, str], tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, genre: str = ""
    ) -> Documents:
        """Texts by title, sorted by title.

        Args:
            texts: title -> text.
            tokenizer: a transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: at most so many documents.
            tokens: the length of every document; a shorter text is skipped with the reason.
            offset: how many fitting texts are passed over first.
            genre: what kind of text this is, in words.

        Raises:
            ArgumentError: if there are no texts, one is not text, or none can be used.
        """
        rule = _Rule(limit, tokens, offset)
        if not isinstance(texts, Mapping) or not texts:
            got = "it is empty" if isinstance(texts, Mapping) else f"it is of type {type(texts).__name__}"
            raise ArgumentError(f"Argument `texts` must map titles to texts, but {got}. Give {{title: text, ...}}.")
        for title, text in texts.items():
            if not isinstance(title, str) or not isinstance(text, str):
                raise ArgumentError(
                    f"Argument `texts` must map titles to texts, but {title!r} maps to {type(text).__name__}. "
                    "Decode bytes first, and give titles as str."
                )
        start = _StartRule.of(tokenizer)
        ordered = (_checked(title, texts[title]) for title in sorted(texts))
        chosen, skipped = _select(ordered, start, rule, f"the {len(texts)} texts")
        words = rule.words(f"the {len(texts)} texts given by the caller, sorted by title")
        return cls._of(chosen, start, source="texts given by the caller", rule=words, genre=genre, skipped=skipped)

    @classmethod
    def from_token_ids(cls, ids: Any, titles: Sequence[str] | None = None, *, genre: str = "") -> Documents:
        """Token ids as they are: nothing is added, cut or left out.

        Args:
            ids: whole numbers [documents, tokens]: a tensor, an array or nested lists.
            titles: one a document, all different; without them "document 1", "document 2", ...
            genre: what kind of text this is, in words.

        Raises:
            ArgumentError: if the ids are not a table of whole numbers, or titles and rows do not match.
        """
        try:
            table = torch.as_tensor(ids)
        except (TypeError, ValueError, RuntimeError) as trouble:
            raise ArgumentError(
                f"Argument `ids` must be whole numbers [documents, tokens], but they form no table ({trouble}). "
                "Cut all documents to one length first."
            ) from trouble
        whole = not (table.is_floating_point() or table.is_complex() or table.dtype == torch.bool)
        if table.ndim != 2 or table.numel() == 0 or not whole or int(table.min()) < 0:
            kind = "a negative id" if whole and table.numel() and int(table.min()) < 0 else str(table.dtype)
            raise ArgumentError(
                "Argument `ids` must be whole numbers from 0 up, [documents, tokens], but got "
                f"shape {tuple(table.shape)} with {kind}. Give one row a document, all of one length."
            )
        names = tuple(titles) if titles is not None else tuple(f"document {n}" for n in range(1, len(table) + 1))
        if len(names) != len(table) or len(set(names)) != len(names):
            raise ArgumentError(
                f"Argument `titles` must name each of the {len(table)} documents differently, but there are "
                f"{len(names)} titles, {len(set(names))} of them different. Give one title a row."
            )
        return cls(
            token_ids=table.detach().to("cpu", torch.int64, copy=True).contiguous(),
            titles=names,
            text_hashes=(),
            source="token ids given by the caller",
            rule=f"all {len(table)} documents given, in the order given, {table.shape[1]} tokens each; no padding",
            start_token="as given: the ids were not made here",
            genre=genre or _UNKNOWN_GENRE,
        )

    @classmethod
    def _of(
        cls,
        chosen: list[_Chosen],
        start: _StartRule,
        *,
        source: str,
        rule: str,
        genre: str,
        skipped: tuple[Skipped, ...] = (),
    ) -> Documents:
        return cls(
            token_ids=torch.tensor([document.ids for document in chosen], dtype=torch.int64),
            titles=tuple(document.title for document in chosen),
            text_hashes=tuple(document.text_hash for document in chosen),
            source=source,
            rule=rule,
            start_token=start.words(chosen),
            skipped=skipped,
            genre=genre or _UNKNOWN_GENRE,
        )

    def __len__(self) -> int:
        return len(self.titles)

    @property
    def tokens(self) -> int:
        """The length of every document."""
        return int(self.token_ids.shape[1])

    @property
    def first_ids(self) -> tuple[int, ...]:
        """The first token id of every document, as fed to the decoder."""
        return tuple(int(first) for first in self.token_ids[:, 0])

    @property
    def texts_hash(self) -> str | None:
        """One SHA-256 for all texts (over their hashes, one a line); None where ids were given."""
        return hashlib.sha256("\n".join(self.text_hashes).encode()).hexdigest() if self.text_hashes else None

    def batches(self, size: int) -> Iterator[TokenIds]:
        """The ids in order, at most `size` documents at a time, each [documents, tokens]."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError(f"Argument `size` must be a whole number from 1 up, but it is {size!r}. Give size=4.")
        return iter(torch.split(self.token_ids, size))

    def check_context(self, limit: int) -> None:
        """Raises ArgumentError if a document is longer than the decoder's context of `limit` tokens.

        A decoder with rotary positions gives no error beyond its context, only numbers nobody trained.
        """
        if self.tokens > limit:
            raise ArgumentError(
                f"Argument `tokens` must be at most {limit}, the context of this decoder, but it is {self.tokens}. "
                f"Ask for {limit} tokens or fewer."
            )

    def check_vocabulary(self, size: int) -> None:
        """Raises ArgumentError if an id lies outside a vocabulary of `size`: the ids were made by another tokenizer."""
        largest = int(self.token_ids.max())
        if largest >= size:
            where = self.titles[int((self.token_ids == largest).any(1).nonzero()[0])]
            raise ArgumentError(
                f"Argument `documents` must hold ids below {size}, the vocabulary of this decoder, but {where!r} holds "
                f"{largest}. Tokenize with the decoder's own tokenizer."
            )

    def check_disjoint(self, other: Documents) -> None:
        """Raises ArgumentError if `other`, a calibration set, shares a document with these."""
        rows = {tuple(row): title for title, row in zip(self.titles, self.token_ids.tolist(), strict=True)}
        shared = [rows[tuple(row)] for row in other.token_ids.tolist() if tuple(row) in rows]
        if shared:
            raise ArgumentError(
                f"Argument `other` must share no document with these, but {shared[0]!r} is in both "
                f"({len(shared)} in all). Give it `offset={len(self)}` or more."
            )

    def check_unchanged(self) -> None:
        """Raises CheckMissed if the ids are no longer those that were hashed: conditions must see identical tokens."""
        now = _ids_hash(self.token_ids)
        if now != self.hash:
            raise CheckMissed(f"Token ids must stay those of hash {self.hash[:12]}, but they hash to {now[:12]} now.")

    def provenance(self) -> dict[str, Any]:
        """What a record keeps of the documents: everything but the ids, as strict JSON."""
        return {
            "source": self.source,
            "rule": self.rule,
            "genre": self.genre,
            "documents": len(self),
            "tokens": self.tokens,
            "titles": list(self.titles),
            "token_hash": self.hash,
            "texts_hash": self.texts_hash,
            "text_hashes": list(self.text_hashes),
            "start_token": self.start_token,
            "first_ids": list(self.first_ids),
            "skipped": [{"title": skipped.title, "reason": skipped.reason} for skipped in self.skipped],
        }


@dataclass(frozen=True)
class _StartRule:
    """What a tokenizer itself puts around plain text; only what it puts in front is kept."""

    tokenizer: Any
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> _StartRule:
        if not (callable(tokenizer) or hasattr(tokenizer, "encode_batch")):
            raise ArgumentError(
                f"Argument `tokenizer` must turn text into ids, but it is {tokenizer!r}. "
                "Give the decoder's tokenizer, or token ids through `Documents.from_token_ids`."
            )
        whole, plain = _encoded(tokenizer, _PROBE, "as for plain text"), _encoded(tokenizer, _PROBE, "bare")
        for start in range(len(whole) - len(plain) + 1):
            if plain and whole[start : start + len(plain)] == plain:
                return cls(tokenizer, whole[:start], whole[start + len(plain) :])
        raise ArgumentError(
            f"Argument `tokenizer` must only add tokens around a text, but {_PROBE!r} becomes {whole} with and {plain} "
            "without its additions. Give token ids through `Documents.from_token_ids`."
        )

    def ids(self, text: str) -> tuple[int, ...]:
        ids = _encoded(self.tokenizer, text, "as for plain text")
        return ids[: len(ids) - len(self.suffix)]

    def words(self, chosen: list[_Chosen]) -> str:
        return self._front(chosen) + self._spelled_out(chosen)

    def _spelled_out(self, chosen: list[_Chosen]) -> str:
        """Texts that spell a special token out, which the tokenizer reads as that token and not as its letters."""
        special = set(getattr(self.tokenizer, "all_special_ids", ()))
        held = [document.title for document in chosen if special & set(document.ids[len(self.prefix) :])]
        return f"; special tokens spelled out in {len(held)} documents, first in {held[0]!r}" if held else ""

    def _front(self, chosen: list[_Chosen]) -> str:
        if not self.prefix:
            return "none added: the tokenizer itself adds no start token to plain text"
        translate = getattr(self.tokenizer, "convert_ids_to_tokens", None) or (
            lambda ids: [self.tokenizer.id_to_token(number) for number in ids]
        )
        words = zip(translate(list(self.prefix)), self.prefix, strict=True)
        named = ", ".join(f"{word} (id {number})" for word, number in words)
        twice = [document.title for document in chosen if document.ids[: 2 * len(self.prefix)] == 2 * self.prefix]
        warning = f"; WARNING: twice in {len(twice)} documents, first in {twice[0]!r}" if twice else ""
        return f"added by the tokenizer itself in front of every text: {named}{warning}"


def _encoded(tokenizer: Any, text: str, additions: str) -> tuple[int, ...]:
    special = additions == "as for plain text"
    if callable(tokenizer):
        call: Any = tokenizer
        given = call(text, add_special_tokens=special, truncation=False, padding=False, verbose=False)
        return tuple(given["input_ids"])
    if tokenizer.truncation is not None or tokenizer.padding is not None:
        raise ArgumentError(
            "Argument `tokenizer` must neither cut nor pad, but its truncation or padding is switched on. "
            "Call its `no_truncation()` and `no_padding()` first."
        )
    return tuple(tokenizer.encode(text, add_special_tokens=special).ids)


def _ids_hash(ids: TokenIds) -> str:
    return hashlib.sha256(ids.numpy().astype("<i4").tobytes()).hexdigest()


def _shown(path: Path) -> str:
    """A file name that can be written as UTF-8, whatever bytes it was made of."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _text_files(folder: Path) -> list[Path]:
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


def _read(file: Path) -> _Text | Skipped:
    title = _shown(Path(file.name))
    try:
        return _checked(title, file.read_bytes().decode("utf-8-sig"))  # a byte order mark is not text
    except UnicodeDecodeError as trouble:
        return Skipped(title, f"not UTF-8: byte {trouble.start} is 0x{trouble.object[trouble.start]:02x}")
    except OSError as trouble:
        return Skipped(title, f"cannot be read: {trouble.strerror}")


def _checked(title: str, text: str) -> _Text | Skipped:
    return _Text(title, text) if text.strip() else Skipped(title, "empty")


def _select(
    texts: Iterable[_Text | Skipped], start: _StartRule, rule: _Rule, where: str
) -> tuple[list[_Chosen], tuple[Skipped, ...]]:
    """Reads in order until `limit` documents are found; what lies beyond is never looked at."""
    fitting: dict[tuple[int, ...], _Chosen] = {}
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
        fitting[ids] = _Chosen(text.title, hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest(), ids)
        if len(fitting) == rule.offset + rule.limit:
            break
    chosen = list(fitting.values())[rule.offset :]
    if chosen:
        return chosen, tuple(skipped)
    if fitting:
        raise ArgumentError(
            f"Argument `offset` must be below {len(fitting)}, the number of documents of {where} with at least "
            f"{rule.tokens} tokens, but it is {rule.offset}. Lower it or give more documents."
        )
    if longest:
        raise ArgumentError(
            f"Argument `tokens` must leave at least one document, but of {where} none has {rule.tokens} tokens "
            f"(the longest has {longest}). Ask for {longest} tokens or fewer, or give longer texts."
        )
    raise ArgumentError(
        f"Argument `documents` must hold at least one text that can be used, but of {where} none can: "
        f"{skipped[0].title!r} is {skipped[0].reason}. Give UTF-8 texts that are not empty."
    )
