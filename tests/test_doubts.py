"""A record that measured something else than was meant says so, and others do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray

from armillary.report.doubts import doubts


def losses(*values: float, condition: str = "trained") -> xarray.Dataset:
    return xarray.Dataset({"loss": (("condition", "document"), np.array([values]))}, {"condition": [condition]})


def origin(vocabulary: int = 1000, start_token: str = "none added") -> dict[str, Any]:
    return {"decoder": {"vocabulary": vocabulary}, "documents": {"start_token": start_token}}


def test_a_trained_decoder_that_guesses_blindly_is_doubted() -> None:
    chance = math.log(1000)
    (said,) = doubts(origin(), losses(chance, chance + 0.2))
    assert "7.0 nats a token, where guessing among 1000 tokens costs 6.9" in said
    assert doubts(origin(), losses(chance - 1.1, chance - 1.1)) == []
    assert doubts(origin(), losses(chance, chance, condition="initial-library-seed0")) == [], "it is meant to guess"
    assert doubts(origin(), losses(math.nan, math.nan)) == []


def test_a_start_token_twice_is_told_from_the_record() -> None:
    (said,) = doubts(
        origin(start_token="added ...: <s> (id 1); WARNING: twice in 3 documents, first in 'b'"), losses(1.0)
    )
    assert said.startswith("A start token stands in front of documents twice in 3 documents, first in 'b'")


@pytest.mark.decoder
def test_the_default_decoder_is_doubted_with_another_tokenizers_ids_only() -> None:
    from armillary.models.decoder import load_decoder
    from armillary.models.documents import Documents

    decoder = load_decoder()
    ids = Documents.from_topics(decoder.tokenizer, limit=3, tokens=64).token_ids
    known = {"decoder": {"vocabulary": decoder.facts.vocabulary}}
    for fed, doubted in ((ids, 0), (ids + 1, 1)):
        found = decoder.loss(decoder.hidden(fed), fed)
        assert len(doubts(known, losses(*found.tolist()))) == doubted
