"""Which documents may count as independent members of an interval: no copies, no two pieces of one text."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from armillary.errors import UnsoundError
from armillary.models.id_tables import copies
from armillary.shapes import TokenIds

__all__ = ["require_independent", "shared"]

OtherIds = Int[Tensor, "others their_tokens"]
"""Token ids of another set of documents."""


def require_independent(ids: TokenIds, titles: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Refuses documents that an interval must not resample as independent.

    Copies add no knowledge and would narrow the interval; pieces of one text share author and subject.

    Args:
        ids: `documents tokens`.
        titles: One a document.
        texts: The titles of the texts each document is made of; empty where that is not known.

    Raises:
        UnsoundError: Two documents are copies, or hold pieces of one text.
    """
    for first, again in copies(ids):
        raise UnsoundError(
            f"Argument `documents` must hold independent documents, but {titles[again]!r} has the token ids of "
            f"{titles[first]!r}: an interval over copies would be too narrow. Leave one of them out."
        )
    held: dict[str, str] = {}
    for title, inside in zip(titles, texts, strict=bool(texts)):
        for text in inside:
            if text in held:
                raise UnsoundError(
                    f"Argument `documents` must hold independent documents, but {held[text]!r} and {title!r} are "
                    "pieces of one text: an interval over them would be too narrow. Take one piece of each text "
                    "with Split(pieces_per_text=1) or --cut split, or give more texts."
                )
            held[text] = title


def shared(
    ids: TokenIds,
    texts: Sequence[Sequence[str]],
    titles: Sequence[str],
    others: OtherIds,
    of_others: Sequence[Sequence[str]],
) -> list[str]:
    """The documents of another set that are copies of documents here, or are made of the same texts.

    Args:
        ids: `documents tokens`.
        texts: The titles of the texts each document is made of; empty where titles say nothing.
        titles: One for each document of the other set.
        others: The ids of the other set, `others their_tokens`.
        of_others: The titles of their texts.

    Returns:
        Titles of the other set.
    """
    rows = {tuple(row) for row in ids.tolist()}
    held = {title for inside in texts for title in inside}
    made_of: Sequence[Sequence[str]] = of_others or [()] * len(titles)
    return [
        title
        for title, row, inside in zip(titles, others.tolist(), made_of, strict=True)
        if tuple(row) in rows or held.intersection(inside)
    ]
