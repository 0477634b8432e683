"""How texts of any length become documents of one length: cut to their beginning, cut into pieces, or packed.

An interval resamples documents as independent members, so each rule says what may count as one. The beginning of a
text is one member. Pieces of one text share author and subject and are not independent: by default one piece is drawn
from each, and documents with several from one text are refused where an interval would be made of them. A pack holds
whole beginnings of several texts, and no text lies in two packs: what does not fit is left out, for a text continued in
the next pack would tie the two together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from armillary.errors import ArgumentError
from armillary.models.start_token import StartRule
from armillary.models.texts import Skipped, Text

__all__ = ["Cut", "Pack", "Piece", "Split", "Tally", "Tokenized", "Truncate", "parse_cut"]


@dataclass(frozen=True)
class Tokenized:
    """A whole text as ids, without what the tokenizer puts in front."""

    title: str
    text_hash: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """A document: its ids, and what it is made of.

    Attributes:
        title: What it is called.
        text_hash: SHA-256 of the whole text; of a pack, over the hashes of its texts, one a line.
        ids: As fed to the decoder.
        texts: The titles of the texts it holds.
        begins: At which token each of them begins.
    """

    title: str
    text_hash: str
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    begins: tuple[int, ...]


@dataclass(eq=False)
class Tally:
    """What became of the texts that were looked at.

    Attributes:
        looked_at: How many texts.
        skipped: Those that could not be used, with the reason.
        unusable: How many had no text, were empty, or could not be read.
        too_short: How many had too few tokens.
        repeated: How many documents equaled an earlier one.
        cut: How many lost their end.
        left_over: How many were too few for a last pack.
        shortest: Tokens of the shortest text, with start tokens.
        longest: Tokens of the longest.
    """

    looked_at: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    unusable: int = 0
    too_short: int = 0
    repeated: int = 0
    cut: int = 0
    left_over: int = 0
    shortest: int = 0
    longest: int = 0

    def tokenized(self, texts: Iterator[Text | Skipped], start: StartRule) -> Iterator[Tokenized]:
        """The texts that can be used, counted and measured on the way."""
        for text in texts:
            self.looked_at += 1
            if isinstance(text, Skipped):
                self.unusable += 1
                self.skipped.append(text)
                continue
            ids = start.ids(text.text)
            self.shortest = min(self.shortest or len(ids), len(ids))
            self.longest = max(self.longest, len(ids))
            digest = hashlib.sha256(text.text.encode("utf-8")).hexdigest()
            yield Tokenized(text.title, digest, ids[len(start.prefix) :])

    def short(self, title: str, tokens: int, needed: int) -> None:
        """Note a text that has too few tokens."""
        self.too_short += 1
        self.skipped.append(Skipped(title, f"too short: {tokens} tokens, {needed} are needed"))


class Cut(Protocol):
    """A rule that turns texts into documents of one length."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def words(self, tokens: int) -> tuple[str, str]:
        """Which texts can be used, and what is made of one; in words."""

    def pieces(self, texts: Iterator[Tokenized], start: StartRule, tokens: int, tally: Tally) -> Iterator[Piece]:
        """The documents, in the order of the texts, each of exactly `tokens` ids."""


@dataclass(frozen=True)
class Truncate:
    """Each text to its first tokens; a shorter one is passed over."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return "truncate"

    def words(self, tokens: int) -> tuple[str, str]:
        """Which texts can be used, and what is made of one; in words."""
        return f"those with at least {tokens} tokens", f"each cut to its first {tokens} tokens"

    def pieces(self, texts: Iterator[Tokenized], start: StartRule, tokens: int, tally: Tally) -> Iterator[Piece]:
        """One document a text."""
        for text in texts:
            ids = start.prefix + text.ids
            if len(ids) < tokens:
                tally.short(text.title, len(ids), tokens)
                continue
            tally.cut += len(ids) > tokens
            yield Piece(text.title, text.text_hash, ids[:tokens], (text.title,), (0,))


@dataclass(frozen=True)
class Split:
    """Each text cut into consecutive pieces, and some of them drawn; a rest that is too short is left out.

    Args:
        pieces_per_text: At most so many of each text. More than one are not independent.
        seed: Of the draw. Which pieces of a text are drawn depends on the seed and that text alone.
    """

    pieces_per_text: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("pieces_per_text", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(
                    f"Argument `{name}` must be a whole number from {least} up, but it is {value!r}. Give {least}."
                )

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"split:{self.pieces_per_text}:{self.seed}"

    def words(self, tokens: int) -> tuple[str, str]:
        """Which texts can be used, and what is made of one; in words."""
        many = "one piece" if self.pieces_per_text == 1 else f"at most {self.pieces_per_text} pieces"
        return (
            f"those with at least {tokens} tokens",
            f"each cut into consecutive pieces of {tokens} tokens (start tokens in front of each, a shorter rest left "
            f"out) and {many} of each text drawn with seed {self.seed}",
        )

    def pieces(self, texts: Iterator[Tokenized], start: StartRule, tokens: int, tally: Tally) -> Iterator[Piece]:
        """The drawn pieces of each text, in the order in which they stand there."""
        room = _room(start, tokens)
        for text in texts:
            count = len(text.ids) // room
            if not count:
                tally.short(text.title, len(start.prefix) + len(text.ids), tokens)
                continue
            tally.cut += count > self.pieces_per_text or len(text.ids) > count * room
            lots = sorted(range(count), key=lambda place: _lot(self.seed, text.text_hash, place))
            for place in sorted(lots[: self.pieces_per_text]):
                ids = start.prefix + text.ids[place * room : (place + 1) * room]
                title = f"{text.title}, piece {place + 1} of {count}"
                yield Piece(title, text.text_hash, ids, (text.title,), (0,))


@dataclass(frozen=True)
class Pack:
    """Texts joined in their order until the length is reached; what of the last one does not fit is left out.

    No text lies in two packs. Start tokens stand once, in front of the pack. Nothing keeps a token from attending to
    the earlier texts of its pack.

    Args:
        joined_by: The token between two texts, as the tokenizer spells it.
    """

    joined_by: str

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"pack:{self.joined_by}"

    def words(self, tokens: int) -> tuple[str, str]:
        """Which texts can be used, and what is made of one; in words."""
        return (
            "all of them, short or long",
            f"packed: joined in this order with the token {self.joined_by!r} between two until {tokens} tokens are "
            "reached, the end of the last text left out, no text in two packs, attention across the boundaries",
        )

    def pieces(self, texts: Iterator[Tokenized], start: StartRule, tokens: int, tally: Tally) -> Iterator[Piece]:
        """The packs, each as soon as it is full."""
        _room(start, tokens)
        between = start.separator(self.joined_by)
        ids = list(start.prefix)
        held: list[Tokenized] = []
        begins: list[int] = []
        for text in texts:
            if held:
                ids.append(between)
            held.append(text)
            begins.append(len(ids))
            ids.extend(text.ids)
            if len(ids) >= tokens:
                tally.cut += len(ids) > tokens
                yield _pack(tuple(ids[:tokens]), held, begins)
                ids, held, begins = list(start.prefix), [], []
        tally.left_over = len(held)


def parse_cut(text: str) -> Cut:
    """The rule that a text names: truncate, split, split:4, split:4:1 (pieces of each text, seed) or pack:TOKEN.

    Raises:
        ArgumentError: It names none.
    """
    kind, _, rest = text.partition(":")
    numbers = rest.split(":") if rest else []
    if kind == "truncate" and not rest:
        return Truncate()
    if kind == "split" and len(numbers) <= 2 and all(number.isdecimal() for number in numbers):
        if numbers and int(numbers[0]) < 1:
            raise ArgumentError(f"Argument `cut` must take at least one piece, but it is {text!r}. Write split:1.")
        return Split(*map(int, numbers))
    if kind == "pack" and rest:
        return Pack(rest)
    raise ArgumentError(
        f"Argument `cut` must be truncate, split, split:PIECES, split:PIECES:SEED or pack:TOKEN, but it is {text!r}. "
        "Write pack:<|endoftext|>, for instance, with a token of the tokenizer."
    )


def _pack(ids: tuple[int, ...], held: list[Tokenized], begins: list[int]) -> Piece:
    inside = [(text, begin) for text, begin in zip(held, begins, strict=True) if begin < len(ids)]
    more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
    digest = hashlib.sha256("\n".join(text.text_hash for text, _ in inside).encode()).hexdigest()
    return Piece(
        f"{inside[0][0].title}{more}",
        digest,
        ids,
        tuple(text.title for text, _ in inside),
        tuple(begin for _, begin in inside),
    )


def _room(start: StartRule, tokens: int) -> int:
    room = tokens - len(start.prefix)
    if room < 1:
        raise ArgumentError(
            f"Argument `tokens` must be more than the {len(start.prefix)} start tokens that the tokenizer adds, but it "
            f"is {tokens}. Ask for more tokens."
        )
    return room


def _lot(seed: int, text_hash: str, place: int) -> bytes:
    """A number that stands for a draw: the same on every machine and for every version of Python."""
    return hashlib.sha256(f"{seed} {text_hash} {place}".encode()).digest()
