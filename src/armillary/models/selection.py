"""Which texts become documents: looked at in order, cut by a rule, and chosen by one that can be said in words."""

from __future__ import annotations

from dataclasses import dataclass, field

from armillary.errors import ArgumentError, NothingLeft
from armillary.models.cutting import Cut, Piece, Tally, Truncate
from armillary.models.start_token import StartRule
from armillary.models.texts import Skipped, Source

__all__ = ["Chosen", "Rule", "select"]

_ONE_LENGTH = "all documents have one length, since ranks and mean directions depend on the number of tokens"
_SAID = {
    "texts_cut": "lost a part",
    "texts_too_short": "were too short",
    "texts_unusable": "could not be used",
    "texts_left_over": "were too few for another pack",
}


@dataclass(frozen=True)
class Rule:
    """Among the documents that the texts give, in order: pass over `offset`, take `limit`."""

    limit: int
    tokens: int
    offset: int
    cut: Cut = field(default_factory=Truncate)

    def __post_init__(self) -> None:
        for name, least in (("limit", 1), ("tokens", 1), ("offset", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(
                    f"Argument `{name}` must be a whole number of at least {least}, but it is {value!r}. "
                    f"Give {name}={max(least, 32)}, for instance."
                )
        if not hasattr(self.cut, "pieces"):
            raise ArgumentError(
                f"Argument `cut` must be a rule that cuts texts, but it is {self.cut!r}. Give am.Truncate(), "
                "am.Split() or am.Pack(joined_by=...)."
            )

    def words(self, order: str) -> str:
        """The rule in words, after the texts and their order."""
        fitting, made = self.cut.words(self.tokens)
        passed = f"the first {self.offset} of them passed over, " if self.offset else ""
        return (
            f"{order}; tokenized without truncation; {fitting} and not equal to an earlier one; {made}; "
            f"{passed}the first {self.limit} taken; no padding"
        )


@dataclass(frozen=True)
class Chosen:
    """What a rule chose.

    Attributes:
        pieces: The documents.
        skipped: Texts that were looked at and could not be used.
        counts: What became of the texts that were looked at, by name.
        keeps_all: The largest number of tokens that every one of them has.
    """

    pieces: tuple[Piece, ...]
    skipped: tuple[Skipped, ...]
    counts: dict[str, int]
    keeps_all: int

    @property
    def words(self) -> str:
        """What became of the texts, in words."""
        counts = self.counts
        told = [f"{counts['texts_looked_at']} texts looked at, {counts['texts_in_documents']} of them in documents"]
        told += [f"{counts[name]} {said}" for name, said in _SAID.items() if counts[name]]
        if counts["texts_too_short"]:
            told.append(f"{self.keeps_all} tokens would have kept every text; {_ONE_LENGTH}")
        return "; ".join(told)


def select(source: Source, start: StartRule, rule: Rule) -> Chosen:
    """The documents that a rule chooses; reading stops at the last of them, and what lies beyond is never looked at.

    A text of which a piece was passed over by the offset gives no document: two sets of documents share no text.

    Args:
        source: The texts in order.
        start: How they are tokenized.
        rule: Length, cut, limit and offset.

    Returns:
        The documents, and what became of the other texts.

    Raises:
        NothingLeft: Texts fit, but no more than the rule passes over.
        ArgumentError: No text fits.
    """
    tally = Tally()
    fitting: dict[tuple[int, ...], Piece] = {}
    passed: set[str] = set()
    texts = tally.tokenized(iter(source.texts), start)
    for piece in rule.cut.pieces(texts, start, rule.tokens, tally):
        if piece.ids in fitting:
            tally.repeated += 1
            same = f"the same first {rule.tokens} tokens as" if isinstance(rule.cut, Truncate) else "the same tokens as"
            tally.skipped.append(Skipped(piece.title, f"{same} {fitting[piece.ids].title!r}"))
            continue
        if len(fitting) >= rule.offset and passed.intersection(piece.texts):
            continue
        if len(fitting) < rule.offset:
            passed.update(piece.texts)
        fitting[piece.ids] = piece
        if len(fitting) == rule.offset + rule.limit:
            break
    chosen = tuple(fitting.values())[rule.offset :]
    if not chosen:
        raise _trouble(len(fitting), tally, rule, source.where)
    skipped = () if source.embedded else tuple(tally.skipped)
    return Chosen(chosen, skipped, _counts(tally, chosen), tally.shortest)


def _counts(tally: Tally, chosen: tuple[Piece, ...]) -> dict[str, int]:
    return {
        "documents": len(chosen),
        "texts_in_documents": len({title for piece in chosen for title in piece.texts}),
        "texts_looked_at": tally.looked_at,
        "texts_cut": tally.cut,
        "texts_too_short": tally.too_short,
        "texts_unusable": tally.unusable,
        "texts_left_over": tally.left_over,
        "documents_equal_to_an_earlier_one": tally.repeated,
    }


def _trouble(fitting: int, tally: Tally, rule: Rule, where: str) -> ArgumentError:
    """Why no document is left."""
    if fitting:
        return NothingLeft(
            f"Argument `offset` must be below {fitting}, the number of documents of {where} with at least "
            f"{rule.tokens} tokens, but it is {rule.offset}. Lower it or give more documents."
        )
    if tally.left_over:
        return ArgumentError(
            f"Argument `tokens` must leave at least one document, but the {tally.left_over} texts of {where} do not "
            f"fill one pack of {rule.tokens} tokens. Ask for fewer tokens, or give more texts."
        )
    if tally.longest:
        every = f" ({tally.shortest} would keep every text)" if tally.shortest < tally.longest else ""
        return ArgumentError(
            f"Argument `tokens` must leave at least one document, but of {where} none has {rule.tokens} tokens "
            f"(the longest has {tally.longest}). Ask for {tally.longest} tokens or fewer{every}, give longer texts, or "
            f"pack short ones: {_ONE_LENGTH}."
        )
    first = f"{tally.skipped[0].title!r}: {tally.skipped[0].reason}" if tally.skipped else "there is no text in it"
    return ArgumentError(
        f"Argument `documents` must hold at least one text that can be used, but of {where} none can ({first}). "
        "Give UTF-8 texts that are not empty."
    )
