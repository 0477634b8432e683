"""What a tidy table cannot say by itself: the meaning of its columns, definitions, choices and origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from armillary.estimates import METHOD
from armillary.records.storage import plain

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["conventions", "described"]

_MEANING = {
    "condition": "state of the decoder",
    "against": "the condition that was subtracted",
    "layer": "0 is the embedding, l the stream after block l; empty for the loss",
    "tap": "mid is the stream after attention, _read what the next norm hands on, final what the last does; attention "
    "is no place on the stream but the attention of block l",
    "head": "attention head, counted from 0; empty where a number is not that of one head",
    "place": "the tap as the dataset calls it: one curve against depth",
    "measurement": "name of the observable; its definition stands under `definitions`",
    "preparation": "steps in order; as given is none",
    "tokens": "which tokens of a document took part",
    "document": "title of the document",
    "value": "mean over the documents with a number, or the number of one document; empty where undefined",
    "low": f"lower end of the {METHOD} interval over documents; minus infinity where they cannot bound it",
    "high": f"upper end of the {METHOD} interval over documents; plus infinity where they cannot bound it",
    "level": "nominal coverage of the interval",
    "documents": "how many documents have a number",
}
"""What each column of a tidy table means."""


def conventions(study: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What goes into every export of a record, whatever is in it.

    Args:
        study: Every choice.
        provenance: Where the numbers come from; the decoder's name is taken from it.
    """
    model = provenance.get("decoder") or {}
    return dict(plain({"model": model.get("name"), "study": study}, "conventions"))


def described(
    frame: pandas.DataFrame,
    dataset: xarray.Dataset,
    choices: Mapping[str, Any],
    provenance: Mapping[str, Any],
    digest: str,
) -> dict[str, Any]:
    """The conventions of one tidy table, as plain data.

    Args:
        frame: The table.
        dataset: The measurements, whose attributes define them.
        choices: Level, resamples and seed.
        provenance: Where the numbers come from; the hash of the token ids is taken from it.
        digest: Hash of the measurements.
    """
    return {
        "columns": {name: _MEANING[name] for name in frame.columns if name in _MEANING},
        "definitions": {name: plain(dict(dataset[name].attrs), name) for name in dict.fromkeys(frame["measurement"])},
        "choices": plain(choices, "study"),
        "documents": plain(provenance.get("documents") or {}, "documents").get("token_hash"),
        "measurements": digest,
    }
