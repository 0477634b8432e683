"""Fixed token sequences of one length, chosen by a stated rule and hashed: what every condition is measured on.

Participation ranks and squared mean directions depend on the number of tokens, so all documents of a study have one
length and none is padded. Which texts were chosen, what the tokenizer put in front of them and which could not be
used is kept in words beside the ids.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, CheckMissed, NothingLeft
from armillary.models.selection import (
    TEXT_ENDINGS,
    Chosen,
    Rule,
    Skipped,
    Text,
    select,
    shown,
    text_files,
    texts_in,
    texts_of,
)
from armillary.models.start_token import StartRule
from armillary.shapes import TokenIds

__all__ = ["TEXT_ENDINGS", "Documents", "NothingLeft", "Skipped", "ids_hash"]

_LARGEST_ID = 2**31 - 1  # what the hash can hold
_UNKNOWN_GENRE = "of a kind that was not stated, so intervals speak for texts like these only"
_TOPICS_GENRE = "reference prose of the Python language: one genre, so intervals speak for that genre only"


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Token ids of one length, with their titles, hashes and the rule that chose them.

    Attributes:
        token_ids: int64 tensor `documents tokens`; no padding anywhere.
        titles: One a document, all different, in the order of the rows.
        text_hashes: SHA-256 of each whole text (UTF-8) before tokenization; empty where ids were given.
        source: Where the texts come from, in words (for the default topics with the version of CPython).
        rule: How they were selected, in words.
        start_token: What the tokenizer itself puts in front of plain text, in words.
        skipped: Texts that could not be used, with the reason.
        genre: What kind of text this is, in words: an interval over documents speaks for no other.
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
        object.__setattr__(self, "hash", ids_hash(self.token_ids))

    @classmethod
    def from_topics(cls, tokenizer: Any, *, limit: int, tokens: int, offset: int = 0) -> Documents:
        """The default documents: the topics of Python's own reference, as this interpreter carries them.

        Their text differs between versions of CPython; `source` names the version and `text_hashes` the texts.

        Args:
            tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: At most so many documents.
            tokens: The length of every document; shorter topics are passed over by the rule.
            offset: How many fitting topics are passed over first: a disjoint calibration set starts where another ends.

        Returns:
            The documents.

        Raises:
            NothingLeft: No topic is left beyond the offset.
            ArgumentError: No topic is long enough, or this Python carries no topics.
        """
        rule = Rule(limit, tokens, offset)
        try:
            from pydoc_data.topics import topics
        except ImportError as trouble:
            raise ArgumentError(
                "Argument `documents` must name a folder of text files here, but none is given and this Python carries "
                "no `pydoc_data.topics` to fall back on. Give a folder of text files."
            ) from trouble
        source = f"pydoc_data.topics of {platform.python_implementation()} {platform.python_version()}"
        start = StartRule.of(tokenizer)
        chosen, _ = select((Text(title, topics[title]) for title in sorted(topics)), start, rule, source)
        words = rule.words(f"the {len(topics)} topics of Python's reference, sorted by title")
        return cls._of(chosen, start, source=source, rule=words, genre=_TOPICS_GENRE)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, genre: str = ""
    ) -> Documents:
        """The text files of a folder (not of its subfolders), in UTF-8, sorted by name.

        Args:
            path: The folder; files ending in `TEXT_ENDINGS` are read, in order, until `limit` documents are found.
            tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: At most so many documents.
            tokens: The length of every document; a shorter file is skipped with the reason.
            offset: How many fitting files are passed over first.
            genre: What kind of text this is, in words.

        Returns:
            The documents, with the files that could not be used in `skipped`.

        Raises:
            NothingLeft: No file is left beyond the offset.
            ArgumentError: The folder is missing, holds no text files, or none of them can be used.
        """
        rule, folder = Rule(limit, tokens, offset), Path(path)
        files = text_files(folder)
        start = StartRule.of(tokenizer)
        chosen, skipped = select(texts_in(files), start, rule, f"the folder {folder}")
        words = rule.words(f"the {len(files)} text files ({', '.join(TEXT_ENDINGS)}) of the folder, sorted by name")
        return cls._of(chosen, start, source=f"folder {shown(folder)}", rule=words, genre=genre, skipped=skipped)

    @classmethod
    def from_texts(
        cls, texts: Mapping[str, str], tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, genre: str = ""
    ) -> Documents:
        """Texts by title, sorted by title.

        Args:
            texts: Title -> text.
            tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.
            limit: At most so many documents.
            tokens: The length of every document; a shorter text is skipped with the reason.
            offset: How many fitting texts are passed over first.
            genre: What kind of text this is, in words.

        Returns:
            The documents, with the texts that could not be used in `skipped`.

        Raises:
            NothingLeft: No text is left beyond the offset.
            ArgumentError: There are no texts, one is not text, or none can be used.
        """
        rule = Rule(limit, tokens, offset)
        ordered = texts_of(texts)
        start = StartRule.of(tokenizer)
        chosen, skipped = select(ordered, start, rule, f"the {len(texts)} texts")
        words = rule.words(f"the {len(texts)} texts given by the caller, sorted by title")
        return cls._of(chosen, start, source="texts given by the caller", rule=words, genre=genre, skipped=skipped)

    @classmethod
    def from_token_ids(cls, ids: Any, titles: Sequence[str] | None = None, *, genre: str = "") -> Documents:
        """Token ids as they are: nothing is added, cut or left out.

        Args:
            ids: Whole numbers, `documents tokens`: a tensor, an array or nested lists.
            titles: One a document, all different; without them "document 1", "document 2", ...
            genre: What kind of text this is, in words.

        Returns:
            The documents, on the CPU, with a copy of the ids.

        Raises:
            ArgumentError: The ids are not a table of whole numbers, or titles and rows do not match.

        Example:
            >>> documents = Documents.from_token_ids([[3, 1, 4], [1, 5, 9]])
            >>> documents.titles, documents.tokens, documents.first_ids
            (('document 1', 'document 2'), 3, (3, 1))
        """
        try:
            table = torch.as_tensor(ids)
        except (TypeError, ValueError, RuntimeError) as trouble:
            raise ArgumentError(
                f"Argument `ids` must be a table `documents tokens` of whole numbers, but they form no table "
                f"({trouble}). Cut all documents to one length first."
            ) from trouble
        whole = not (table.is_floating_point() or table.is_complex() or table.dtype == torch.bool)
        table = table.detach().to("cpu", torch.int64, copy=True).contiguous() if whole else table
        lowest, highest = (int(table.min()), int(table.max())) if whole and table.numel() else (0, 0)
        if table.ndim != 2 or table.numel() == 0 or not whole or lowest < 0 or highest > _LARGEST_ID:
            outside = highest if lowest >= 0 else lowest
            kind = f"the id {outside}" if outside else str(table.dtype)
            raise ArgumentError(
                f"Argument `ids` must be a table `documents tokens` of whole numbers from 0 to {_LARGEST_ID}, but got "
                f"shape {tuple(table.shape)} with {kind}. Give one row a document, all of one length."
            )
        names = tuple(titles) if titles is not None else tuple(f"document {n}" for n in range(1, len(table) + 1))
        if len(names) != len(table) or len(set(names)) != len(names):
            raise ArgumentError(
                f"Argument `titles` must name each of the {len(table)} documents differently, but there are "
                f"{len(names)} titles, {len(set(names))} of them different. Give one title a row."
            )
        return cls(
            token_ids=table,
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
        chosen: list[Chosen],
        start: StartRule,
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
            start_token=start.words({document.title: document.ids for document in chosen}),
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
        """The ids in order, at most `size` documents at a time, each `documents tokens`."""
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
        now = ids_hash(self.token_ids)
        if now != self.hash:
            raise CheckMissed(
                f"Token ids must stay those of hash {self.hash[:12]}, but they hash to {now[:12]} now. Make the "
                "documents anew, and change ids in a copy only (`token_ids.clone()`)."
            )

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


def ids_hash(ids: TokenIds) -> str:
    """SHA-256 of token ids as little-endian int32, row after row: the same on any device and in any integer type.

    Hash the ids that a decoder was really given in each condition and compare with `Documents.hash`.

    Args:
        ids: Whole numbers, `documents tokens`.

    Returns:
        64 hexadecimal digits; a table cut into batches hashes to the same once they are put together again.

    Example:
        >>> ids = Documents.from_token_ids([[3, 1, 4], [1, 5, 9]])
        >>> ids_hash(torch.cat(list(ids.batches(1)))) == ids.hash
        True
        >>> ids.hash[:12]
        'f0764f668202'
    """
    return hashlib.sha256(ids.detach().cpu().numpy().astype("<i4").tobytes()).hexdigest()
