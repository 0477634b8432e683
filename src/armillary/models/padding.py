"""A padded batch taken apart: every document is fed without its pads, so that padding never reaches the decoder.

A mask alone leaves positions wrong where pads stand on the left, and pads that are fed come back as rows that look like
tokens. Right pads with stated positions would be sound for causal decoders, but would depend on each family to take
positions and mask alike. Rows without pads need neither: documents of one length share a pass, and what comes back has
real tokens only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, capture
from armillary.trajectory import Ensemble

__all__ = ["capture_padded", "without_padding"]

PaddedIds = Int[Tensor, "documents padded"]
"""Token ids of documents of several lengths, filled up with any ids."""

PaddingMask = Shaped[Tensor, "documents padded"]
"""1 or True where a token is real."""


def without_padding(ids: PaddedIds, mask: PaddingMask) -> tuple[Tensor, ...]:
    """The real tokens of every document.

    Args:
        ids: `documents padded`; what stands at a pad is never looked at.
        mask: `documents padded`, 1 for a real token and 0 for a pad on either side, as tokenizers return it.

    Returns:
        One row of ids a document, of its own length.

    Raises:
        ArgumentError: The shapes differ, the mask holds other values, a document has no real token, or a pad stands
            between two.

    Example:
        >>> ids = torch.tensor([[9, 9, 5, 6], [7, 8, 1, 9]])
        >>> [row.tolist() for row in without_padding(ids, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]))]
        [[5, 6], [7, 8, 1]]
    """
    if mask.shape != ids.shape or not bool(((mask == 0) | (mask == 1)).all()):
        shown = f"has shape {list(mask.shape)}" if mask.shape != ids.shape else "holds other numbers"
        raise ArgumentError(
            f"Argument `mask` must be 0 or 1 for each of the ids {list(ids.shape)}, but {shown}. Give the tokenizer's "
            "attention_mask."
        )
    rows = []
    for number, (row, real) in enumerate(zip(ids, mask.bool(), strict=True), start=1):
        places = real.nonzero().flatten()
        if len(places) == 0:
            raise ArgumentError(
                f"Argument `mask` must leave every document a token, but document {number} has none. Leave it out."
            )
        first, last = int(places[0]), int(places[-1])
        if len(places) != last - first + 1:
            raise ArgumentError(
                f"Argument `mask` must have its pads in front or behind, but in document {number} one stands between "
                f"tokens {first} and {last}. Give such texts apart: what attends across a gap is no document."
            )
        rows.append(row[first : last + 1])
    return tuple(rows)


def capture_padded(
    decoder: Decoder, ids: PaddedIds, mask: PaddingMask, taps: Sequence[Tap] | None = None, *, batch_size: int = 8
) -> tuple[Ensemble, ...]:
    """The states of a padded batch: those of each document alone, whatever it was padded with, on whichever side.

    Args:
        decoder: The decoder.
        ids: `documents padded`.
        mask: `documents padded`, 1 for a real token and 0 for a pad.
        taps: Which states to keep; None keeps every block tap.
        batch_size: Documents a pass, at most: those of one length go together.

    Returns:
        One ensemble a document, in the order of the rows, with its real tokens only. Lengths differ, so that numbers
        which depend on the number of tokens are not to be compared between them.

    Raises:
        ArgumentError: See `without_padding` and `capture`.
    """
    rows = without_padding(ids, mask)
    found: dict[int, Ensemble] = {}
    for length in dict.fromkeys(len(row) for row in rows):
        places = [place for place, row in enumerate(rows) if len(row) == length]
        together = capture(decoder, torch.stack([rows[place] for place in places]), taps, batch_size=batch_size)
        for within, place in enumerate(places):
            alone = together.only([within])
            named = (f"document {place + 1}",)
            found[place] = Ensemble(states=alone.states, at=alone.at, axis="depth", members=named)
    return tuple(found[place] for place in range(len(rows)))
