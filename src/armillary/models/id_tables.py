"""Tables of token ids, whole numbers `documents tokens`: taken as given or refused, and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from armillary.errors import ArgumentError
from armillary.shapes import TokenIds

__all__ = ["copies", "given_ids", "given_titles", "ids_hash"]

_LARGEST_ID = 2**31 - 1  # what the hash can hold


def given_ids(ids: Any) -> TokenIds:
    """A copy of the ids on the CPU, as int64.

    Args:
        ids: Whole numbers, `documents tokens`: a tensor, an array or nested lists.

    Raises:
        ArgumentError: They are not a table of whole numbers from 0 to 2^31 - 1.
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
    return table


def given_titles(titles: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """One title a document; "document 1", "document 2", ... where none are given.

    Raises:
        ArgumentError: Titles and documents do not match, or two are called alike.
    """
    names = tuple(titles) if titles is not None else tuple(f"document {n}" for n in range(1, count + 1))
    if len(names) != count or len(set(names)) != len(names):
        raise ArgumentError(
            f"Argument `titles` must name each of the {count} documents differently, but there are "
            f"{len(names)} titles, {len(set(names))} of them different. Give one title a row."
        )
    return names


def copies(ids: TokenIds) -> list[tuple[int, int]]:
    """Pairs of rows with identical ids: each repeated row after the first row it equals.

    Args:
        ids: `documents tokens`.

    Example:
        >>> copies(torch.tensor([[1, 2], [3, 4], [1, 2], [1, 2]]))
        [(0, 2), (0, 3)]
    """
    first: dict[tuple[int, ...], int] = {}
    rows = [tuple(row) for row in ids.tolist()]
    return [(first[row], place) for place, row in enumerate(rows) if first.setdefault(row, place) != place]


def ids_hash(ids: TokenIds) -> str:
    """SHA-256 of token ids as little-endian int32, row after row: the same on any device and in any integer type.

    Hash the ids that a decoder was really given in each condition and compare with `Documents.hash`.

    Args:
        ids: Whole numbers, `documents tokens`.

    Returns:
        64 hexadecimal digits; a table cut into batches hashes to the same once they are put together again.

    Example:
        >>> ids = torch.tensor([[3, 1, 4], [1, 5, 9]])
        >>> ids_hash(torch.cat(list(ids.split(1)))) == ids_hash(ids.int())
        True
        >>> ids_hash(ids)[:12]
        'f0764f668202'
    """
    return hashlib.sha256(ids.detach().cpu().numpy().astype("<i4").tobytes()).hexdigest()
