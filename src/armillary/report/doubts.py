"""What in a record gives reason to doubt that it measured what was meant: start tokens twice, a loss like guessing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

__all__ = ["doubts"]

NEAR_CHANCE = 1.0
"""So many nats below the logarithm of the vocabulary a loss still looks like guessing: measured with the default model,
its own tokenizer gives 1.7 to 3.9 nats, ids moved by one 9.1 to 10.5, permuted ids 11.6 to 13.0; a blind guess 10.8."""


def doubts(provenance: Mapping[str, Any], dataset: xarray.Dataset) -> list[str]:
    """Sentences on what a reader should look into before reading on; none for most records.

    Args:
        provenance: Of the record.
        dataset: Its measurements.
    """
    found = []
    warned = str((provenance.get("documents") or {}).get("start_token", "")).partition("WARNING: ")[2]
    if warned:
        found.append(
            f"A start token stands in front of documents {warned.partition(';')[0]}: their text spells out what the "
            "tokenizer adds by itself."
        )
    vocabulary = (provenance.get("decoder") or {}).get("vocabulary")
    if vocabulary and "loss" in dataset and "trained" in dataset["condition"].values:
        losses = np.asarray(dataset["loss"].sel(condition="trained").values, dtype=np.float64)
        mean, chance = float(np.nanmean(losses)) if np.isfinite(losses).any() else math.nan, math.log(vocabulary)
        if mean > chance - NEAR_CHANCE:
            found.append(
                f"The decoder predicts these documents hardly better than a blind guess: {mean:.1f} nats a token, "
                f"where guessing among {vocabulary} tokens costs {chance:.1f}. So does a decoder with another model's "
                "tokenizer, or one that was never trained."
            )
    return found
