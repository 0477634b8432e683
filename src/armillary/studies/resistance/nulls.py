"""Null models: what random matrices of a decoder's sizes would do to random embeddings of the same token ids."""

from __future__ import annotations

import numpy as np

from armillary.models.anatomy import Decoder
from armillary.models.conditions import Initial
from armillary.models.documents import Documents
from armillary.training.prediction import unpredictable, wide_decoder

__all__ = ["NULLS", "PREDICTED", "null_variables"]

PREDICTED = 4
"""Documents whose ids the recursion is run on: the first ones."""

NULLS = {
    "sizes as trained": "mean squares of the trained matrices and gains",
    "released": "a fresh draw of the released recipe",
    "library": "a fresh draw of the library's recipe",
}
"""Null models by name, and whose sizes they have."""

_WORDS = {
    "null_mean_overlap": ("c", "mean overlap", "mean_overlap"),
    "null_participation_rank": ("R", "participation rank of unit rows", "participation_rank"),
}


def null_variables(
    decoder: Decoder, documents: Documents, layers: tuple[int, ...], recipes: tuple[str, ...]
) -> tuple[dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]], dict[str, list[str]]]:
    """The wide-limit recursion on the first documents, without their first token, as variables `null layer document`.

    Args:
        decoder: The decoder.
        documents: Whose ids are taken.
        layers: Measured layers.
        recipes: Recipes of fresh decoders whose spread is known.

    Returns:
        Variables and their axis; nothing where the recursion does not speak of the decoder.
    """
    if unpredictable(decoder):
        return {}, {}
    names = ("sizes as trained", *recipes)
    found = {name: np.full((len(names), len(layers), len(documents)), np.nan) for name in _WORDS}
    for place, name in enumerate(names):
        if name == "sizes as trained":
            wide = wide_decoder(decoder)
        else:
            with Initial(0, name).applied(decoder) as applied:
                wide = wide_decoder(applied.decoder)
        for document, ids in enumerate(documents.token_ids[:PREDICTED]):
            numbers = wide.numbers(ids.tolist(), skipped=1)
            for variable, (_, _, key) in _WORDS.items():
                found[variable][place, :, document] = numbers[key][list(layers)]
    return {
        variable: (
            ("null", "layer", "document"),
            values,
            {
                "symbol": symbol,
                "definition": f"{words} that independent random matrices of the same sizes give random embeddings of "
                f"the same ids, first token left out; of the first {PREDICTED} documents",
                "source": "wide-limit recursion",
                "undefined": "of further documents",
            },
        )
        for (variable, (symbol, words, _)), values in zip(_WORDS.items(), found.values(), strict=True)
    }, {"null": list(names)}
