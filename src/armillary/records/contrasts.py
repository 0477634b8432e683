"""What may be subtracted from what: two conditions of one record, or of two records on identical documents.

A difference is taken document by document and only between numbers that mean the same: same measurement with the same
definition, same preparation, same place in a decoder of as many blocks, same tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import UNPAIRED_TOKENS
from armillary.records.storage import plain

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["KEYS", "Side", "differences", "same_documents"]

KEYS = ["measurement", "layer", "tap", "place", "tokens", "preparation", "head"]
"""What two numbers must share before one is subtracted from the other."""

_OF_THE_MODEL = ("measured", "lowest", "highest")  # attributes that say where and how large, not what
_CALIBRATED = ("corpus mean", "without rogue coordinates")


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a difference.

    Attributes:
        name: What a refusal calls the record it is from.
        condition: Full name of the condition.
        columns: Every measured combination of the record.
        values: `documents combinations`: the documents' numbers of each.
        dataset: The measurements, for their definitions.
        provenance: Where they come from, for the documents.
    """

    name: str
    condition: str
    columns: pandas.DataFrame
    values: np.ndarray
    dataset: xarray.Dataset
    provenance: Mapping[str, Any]

    def documents(self, kind: str = "documents") -> Mapping[str, Any]:
        """What is known of the measured or of the calibration documents."""
        return self.provenance.get(kind) or {}


def differences(left: Side, right: Side, measurement: str | None = None) -> tuple[pandas.DataFrame, np.ndarray]:
    """Left minus right, document by document, wherever both have the same number.

    Rows of `without_first_and_massive` are left out: which tokens are massive is decided anew in each state. Between
    two records, so is what was defined in another way, or prepared with other calibration documents.

    Args:
        left: What is subtracted from.
        right: What is subtracted.
        measurement: Only this one; None for all.

    Returns:
        One row of `KEYS` for each combination that both sides have, and `documents combinations` differences.

    Raises:
        UnsoundError: The sides are two records of unlike documents, or of decoders with unlike numbers of blocks.
        ArgumentError: Nothing is left to subtract, or not that measurement.
    """
    two = left.dataset is not right.dataset
    if two:
        _require_comparable(left, right)
    tables = []
    for side in (left, right):
        table = side.columns.assign(column=np.arange(len(side.columns)))
        table = table[(table["condition"] == side.condition) & ~table["tokens"].isin(UNPAIRED_TOKENS)]
        tables.append(table)
    both = tables[0].merge(tables[1], on=KEYS, suffixes=("", "_b"))
    if two:
        both = both[[not _unlike(left, right, *row) for row in both[["measurement", "preparation"]].itertuples(False)]]
    chosen = both if measurement is None else both[both["measurement"] == measurement]
    if chosen.empty:
        asked = "anything" if measurement is None else repr(measurement)
        among = ", ".join(sorted(set(both["measurement"])))
        raise ArgumentError(
            f"Argument `measurement` must have been measured in {left.condition!r} and {right.condition!r} on the same "
            f"tokens{' and in the same way' if two else ''}, but {asked} was not. "
            + (f"Ask for one of {among}." if among else "Measure both with the same choices.")
        )
    difference = left.values[:, chosen["column"].to_numpy()] - right.values[:, chosen["column_b"].to_numpy()]
    return chosen[KEYS].reset_index(drop=True), difference


def same_documents(left: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """Why two sets of documents are not the same token ids in the same order; empty where they are.

    Args:
        left: What a provenance says of its documents.
        right: The same of another.
    """
    one, other = left.get("token_hash"), right.get("token_hash")
    if not one or not other:
        return "the hash of the token ids is not recorded"
    if one == other:
        return ""
    texts = [list(side.get("text_hashes") or []) for side in (left, right)]
    if texts[0] and texts[0] == texts[1]:
        return "the texts are the same, but not the tokens that were cut from them"
    titles = [list(side.get("titles") or []) for side in (left, right)]
    shared = len(set(titles[0]) & set(titles[1]))
    return f"{len(titles[0])} and {len(titles[1])} documents share {shared or 'no'} title{'s' if shared != 1 else ''}"


def _require_comparable(left: Side, right: Side) -> None:
    why = same_documents(left.documents(), right.documents())
    if why:
        raise UnsoundError(
            f"Argument `other` must be measured on the documents of {left.name}, but in {right.name} they differ: "
            f"{why}. Measure both on identical documents, or show them side by side with "
            f"`armillary report {left.name} {right.name}`."
        )
    blocks = [side.dataset.attrs.get("layers") for side in (left, right)]
    if blocks[0] != blocks[1]:
        raise UnsoundError(
            f"Argument `other` must be of a decoder with as many blocks, but they are {blocks[0]} and {blocks[1]}: "
            "block for block the two are not at the same depth. Show them side by side with "
            f"`armillary report {left.name} {right.name}`, against the share of depth."
        )


def _unlike(left: Side, right: Side, measurement: str, preparation: str) -> bool:
    """Whether two numbers of one name mean different things in two records."""
    about = [
        {key: plain(value, key) for key, value in side.dataset[measurement].attrs.items() if key not in _OF_THE_MODEL}
        for side in (left, right)
    ]
    if json.dumps(about[0], sort_keys=True) != json.dumps(about[1], sort_keys=True):
        return True
    calibrated = any(step in preparation for step in _CALIBRATED)
    return calibrated and bool(same_documents(left.documents("calibration"), right.documents("calibration")))
