"""Fixed token sequences of one length, chosen by a stated rule and hashed: what every condition is measured on.

Participation ranks and squared mean directions depend on the number of tokens, so all documents of a study have one
length and none is padded. Which texts were chosen, what the tokenizer put in front of them and which could not be
used is kept in words beside the ids.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, CheckMissed, NothingLeft
from armillary.models import genres, text_files, text_tables
from armillary.models.cutting import Cut, Truncate
from armillary.models.id_tables import given_ids, given_titles, ids_hash
from armillary.models.independence import require_independent, shared
from armillary.models.selection import Rule, select
from armillary.models.start_token import StartRule
from armillary.models.text_files import TEXT_ENDINGS
from armillary.models.text_places import texts_at
from armillary.models.texts import Skipped, Source, given_texts
from armillary.shapes import TokenIds

__all__ = ["TEXT_ENDINGS", "Documents", "NothingLeft", "Skipped", "ids_hash"]

_UNKNOWN_GENRE = "of a kind that was not stated, so intervals speak for texts like these only"
_CUT = Truncate()
_LISTED = 1000  # so many skipped texts are named in a record; all are counted


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Token ids of one length, with their titles, hashes and the rule that chose them.

    Every `from_...` below takes a transformers tokenizer or a `tokenizers.Tokenizer`, and the same four choices:
    `limit`, at most so many documents; `tokens`, the length of each; `offset`, how many fitting documents are passed
    over first (a disjoint calibration set starts where another ends); `cut`, how a text becomes documents of that
    length: `Truncate()`, `Split()` or `Pack(joined_by=...)`. They raise `NothingLeft` where no document is left beyond
    the offset, and `ArgumentError` where no text can be used. `genre` says in words what kind of text it is.

    Attributes:
        token_ids: int64 tensor `documents tokens`; no padding anywhere.
        titles: One a document, all different, in the order of the rows.
        text_hashes: SHA-256 of each whole text (UTF-8) before tokenization; empty where ids were given.
        source: Where the texts come from, in words (for embedded genres with the version of Python).
        rule: How they were selected, in words.
        start_token: What the tokenizer itself puts in front of plain text, in words.
        start_tokens: How many start tokens stand in front of each document; empty where ids were given.
        skipped: Texts that could not be used, with the reason.
        genre: What kind of text this is, in words: an interval over documents speaks for no other.
        texts: The titles of the texts each document is made of, one for a text or a piece of it, more for a pack.
        begins: At which token each of these texts begins.
        counts: What became of the texts that were looked at.
        outcome: The same in words; empty where ids were given.
        hash: SHA-256 of the ids as little-endian int32, row after row.
    """

    token_ids: TokenIds
    titles: tuple[str, ...]
    text_hashes: tuple[str, ...]
    source: str
    rule: str
    start_token: str
    start_tokens: tuple[int, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    genre: str = _UNKNOWN_GENRE
    texts: tuple[tuple[str, ...], ...] = ()
    begins: tuple[tuple[int, ...], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    outcome: str = ""
    hash: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", ids_hash(self.token_ids))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        tokenizer: Any,
        *,
        limit: int,
        tokens: int,
        offset: int = 0,
        cut: Cut = _CUT,
        separator: str | None = None,
        text_column: str = "text",
        id_column: str | None = None,
        genre: str = "",
    ) -> Documents:
        """A folder of text files, a text file with a separator, or a table of texts: whatever lies at the path.

        Args:
            path: A folder, a text file, or a table: JSON lines, CSV, TSV or Parquet, by the ending of its name.
            tokenizer: See above.
            limit: See above.
            tokens: See above.
            offset: See above.
            cut: See above.
            separator: What stands between two documents of a text file.
            text_column: Where the text of a table stands.
            id_column: Where the titles of a table stand; without it rows are called by their number.
            genre: What kind of text this is, in words.

        Raises:
            NothingLeft: No document is left beyond the offset.
            ArgumentError: Nothing is there, it is none of these, or none of it can be used.
        """
        rule = Rule(limit, tokens, offset, cut)
        source = texts_at(Path(path), separator=separator, text_column=text_column, id_column=id_column)
        return cls.of(source, tokenizer, rule, genre=genre)

    @classmethod
    def embedded(
        cls, genre: str, tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, cut: Cut = _CUT
    ) -> Documents:
        """Texts that this Python carries: "reference", the topics of its reference, or "docstrings", of its library.

        The texts differ between versions of Python; `source` names the version and `text_hashes` the texts.
        """
        rule = Rule(limit, tokens, offset, cut)
        return cls.of(genres.embedded(genre), tokenizer, rule)

    @classmethod
    def from_topics(cls, tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, cut: Cut = _CUT) -> Documents:
        """The default documents, `embedded("reference", ...)`; shorter topics are passed over by the rule."""
        return cls.embedded("reference", tokenizer, limit=limit, tokens=tokens, offset=offset, cut=cut)

    @classmethod
    def from_docstrings(cls, tokenizer: Any, *, limit: int, tokens: int, offset: int = 0, cut: Cut = _CUT) -> Documents:
        """Another genre without any download, `embedded("docstrings", ...)`: one document a module."""
        return cls.embedded("docstrings", tokenizer, limit=limit, tokens=tokens, offset=offset, cut=cut)

    @classmethod
    def from_folder(
        cls,
        path: str | os.PathLike[str],
        tokenizer: Any,
        *,
        limit: int,
        tokens: int,
        offset: int = 0,
        cut: Cut = _CUT,
        genre: str = "",
    ) -> Documents:
        """The text files of a folder (not of its subfolders) that end in `TEXT_ENDINGS`, in UTF-8, sorted by name."""
        rule = Rule(limit, tokens, offset, cut)
        return cls.of(text_files.folder(Path(path)), tokenizer, rule, genre=genre)

    @classmethod
    def from_text_file(
        cls,
        path: str | os.PathLike[str],
        tokenizer: Any,
        *,
        separator: str,
        limit: int,
        tokens: int,
        offset: int = 0,
        cut: Cut = _CUT,
        genre: str = "",
    ) -> Documents:
        """The texts of one UTF-8 file between separators, in their order; the file may be compressed with gzip.

        Line ends are read as LF, so an empty line between two documents is the separator of two of them.
        """
        rule = Rule(limit, tokens, offset, cut)
        return cls.of(text_files.separated_file(Path(path), separator), tokenizer, rule, genre=genre)

    @classmethod
    def from_table(
        cls,
        path: str | os.PathLike[str],
        tokenizer: Any,
        *,
        limit: int,
        tokens: int,
        text_column: str,
        id_column: str | None = None,
        offset: int = 0,
        cut: Cut = _CUT,
        genre: str = "",
    ) -> Documents:
        """The rows of a JSONL, CSV, TSV or Parquet file in their order; the first three may be compressed with gzip.

        A row without text is skipped; two rows of one id are refused. Without `id_column` rows are called by number.
        """
        rule = Rule(limit, tokens, offset, cut)
        source = text_tables.table_file(Path(path), text_column=text_column, id_column=id_column)
        return cls.of(source, tokenizer, rule, genre=genre)

    @classmethod
    def from_rows(
        cls,
        rows: Any,
        tokenizer: Any,
        *,
        limit: int,
        tokens: int,
        text_column: str,
        id_column: str | None = None,
        offset: int = 0,
        cut: Cut = _CUT,
        genre: str = "",
    ) -> Documents:
        """The rows of a `datasets.Dataset` or `IterableDataset`, or any mappings in their order, as in `from_table`."""
        rule = Rule(limit, tokens, offset, cut)
        source = text_tables.rows(rows, text_column=text_column, id_column=id_column)
        return cls.of(source, tokenizer, rule, genre=genre)

    @classmethod
    def from_texts(
        cls,
        texts: Mapping[str, str],
        tokenizer: Any,
        *,
        limit: int,
        tokens: int,
        offset: int = 0,
        cut: Cut = _CUT,
        genre: str = "",
    ) -> Documents:
        """Texts by title, sorted by title."""
        return cls.of(given_texts(texts), tokenizer, Rule(limit, tokens, offset, cut), genre=genre)

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
        table = given_ids(ids)
        return cls(
            token_ids=table,
            titles=given_titles(titles, len(table)),
            text_hashes=(),
            source="token ids given by the caller",
            rule=f"all {len(table)} documents given, in the order given, {table.shape[1]} tokens each; no padding",
            start_token="as given: the ids were not made here",
            genre=genre or _UNKNOWN_GENRE,
        )

    @classmethod
    def of(cls, source: Source, tokenizer: Any, rule: Rule, *, genre: str = "") -> Documents:
        """The documents that a rule chooses among the texts of a source.

        Args:
            source: The texts in their order, and the words for them.
            tokenizer: A transformers tokenizer, or a `tokenizers.Tokenizer`.
            rule: Limit, length, offset and cut.
            genre: What kind of text this is, in words, where the source does not know it.

        Returns:
            The documents, with the texts that could not be used in `skipped`.

        Raises:
            NothingLeft: No document is left beyond the offset.
            ArgumentError: No text can be used.

        Warns:
            StartTokenWarning: A text spells out the start token that the tokenizer adds by itself.
        """
        start = StartRule.of(tokenizer)
        chosen = select(source, start, rule)
        pieces = chosen.pieces
        return cls(
            token_ids=torch.tensor([piece.ids for piece in pieces], dtype=torch.int64),
            titles=tuple(piece.title for piece in pieces),
            text_hashes=tuple(piece.text_hash for piece in pieces),
            source=source.origin,
            rule=rule.words(source.order),
            start_token=start.words({piece.title: piece.ids for piece in pieces}),
            start_tokens=tuple(start.starts(piece.ids) for piece in pieces),
            skipped=chosen.skipped,
            genre=genre or source.genre or _UNKNOWN_GENRE,
            texts=tuple(piece.texts for piece in pieces),
            begins=tuple(piece.begins for piece in pieces),
            counts=chosen.counts,
            outcome=chosen.words,
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
        """Raises ArgumentError if `other`, a calibration set, shares a document or a text with these."""
        alike = self.source == other.source  # elsewhere two texts may be called the same by chance
        found = shared(self.token_ids, self.texts if alike else (), other.titles, other.token_ids, other.texts)
        if found:
            raise ArgumentError(
                f"Argument `other` must share no document with these, but {found[0]!r} is in both "
                f"({len(found)} in all). Give it `offset={len(self)}` or more."
            )

    def check_independent(self) -> None:
        """Raises UnsoundError if two documents are copies or pieces of one text: no interval may resample them."""
        require_independent(self.token_ids, self.titles, self.texts)

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
        made_of = [dict(zip(*pair, strict=True)) for pair in zip(self.texts, self.begins, strict=True)]
        packs = {"packs": made_of} if any(len(texts) > 1 for texts in self.texts) else {}
        return packs | {
            "source": self.source,
            "rule": self.rule,
            "genre": self.genre,
            "documents": len(self),
            "tokens": self.tokens,
            "outcome": self.outcome,
            "counts": dict(self.counts),
            "titles": list(self.titles),
            "token_hash": self.hash,
            "texts_hash": self.texts_hash,
            "text_hashes": list(self.text_hashes),
            "start_token": self.start_token,
            "start_tokens": list(self.start_tokens),
            "first_ids": list(self.first_ids),
            "skipped": [{"title": one.title, "reason": one.reason} for one in self.skipped[:_LISTED]],
            "skipped_in_all": len(self.skipped),
        }
