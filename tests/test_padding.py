"""Neither padding nor the composition of a batch changes a number: G08, G09 and the laboratory's own batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import armillary as am
from armillary.errors import ArgumentError
from armillary.models.capture import Tap, capture
from armillary.models.documents import Documents
from armillary.models.padding import capture_padded, without_padding
from armillary.records.floors import is_floor
from tiny import families, tiny_decoder, tiny_ids

SIDES = st.sampled_from(["left", "right", "both"])


def padded(rows: list[torch.Tensor], sides: list[str], *, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows filled up with `pad` to the longest of them and two more, and the mask."""
    width = max(map(len, rows)) + 2
    ids, mask = torch.full((len(rows), width), pad), torch.zeros(len(rows), width, dtype=torch.int64)
    for place, (row, side) in enumerate(zip(rows, sides, strict=True)):
        free = width - len(row)
        begin = {"left": free, "right": 0, "both": free // 2}[side]
        ids[place, begin : begin + len(row)] = row
        mask[place, begin : begin + len(row)] = 1
    return ids, mask


@pytest.mark.parametrize("family", families())
def test_real_tokens_have_the_states_they_have_alone_in_every_family(family: str) -> None:
    decoder = tiny_decoder(family)
    rows = [tiny_ids(documents=1, tokens=n, seed=n)[0] for n in (6, 3, 6, 11)]
    ids, mask = padded(rows, ["left", "right", "both", "left"], pad=258)
    found = capture_padded(decoder, ids, mask)
    assert [one.members for one in found] == [(f"document {n}",) for n in (1, 2, 3, 4)]
    for row, one in zip(rows, found, strict=True):
        alone = capture(decoder, row[None])
        assert one.at == alone.at
        off = (one.states - alone.states).norm(dim=-1) / alone.states.norm(dim=-1)
        assert float(off.max()) < 1e-5, "a row is as long as rounding is relative to"


@settings(max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    sides=st.lists(SIDES, min_size=6, max_size=6),
    pad=st.integers(0, 259),
    batch_size=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_no_composition_of_a_padded_batch_changes_a_state(
    lengths: list[int], sides: list[str], pad: int, batch_size: int, seed: int
) -> None:
    decoder = SHARED["gpt2"]
    rows = [tiny_ids(documents=1, tokens=n, seed=seed + place)[0] for place, n in enumerate(lengths)]
    ids, mask = padded(rows, sides[: len(rows)], pad=pad)
    taps = [Tap(2, "mid"), Tap(4)]
    for row, one in zip(rows, capture_padded(decoder, ids, mask, taps, batch_size=batch_size), strict=True):
        torch.testing.assert_close(one.states, capture(decoder, row[None], taps).states, rtol=1e-5, atol=1e-5)


SHARED = {"gpt2": tiny_decoder("gpt2"), "llama": tiny_decoder("llama")}


def test_the_library_with_a_mask_alone_gets_left_pads_wrong_where_positions_are_learned() -> None:
    """What the above would miss were pads fed with a mask and nothing else: the test can fail."""
    decoder = SHARED["gpt2"]
    row = tiny_ids(documents=1, tokens=6)
    ids, mask = padded([row[0]], ["left"], pad=258)
    with torch.no_grad():
        fed = decoder.inner(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[:, -6:]
    assert float((fed - decoder.hidden(row)).abs().max()) > 0.1


@pytest.mark.parametrize("side", ["left", "right"])
def test_pads_take_no_part_in_a_mean_overlap(side: str) -> None:
    decoder, row = SHARED["llama"], tiny_ids(documents=1, tokens=4)[0]
    filler = tiny_ids(documents=1, tokens=14, seed=5)[0]
    ids, mask = padded([row, filler], [side, "right"], pad=258)
    measure = am.mean_overlap.after("normalize")
    alone = float(measure(capture(decoder, row[None]).where(2))[0])
    assert float(measure(capture_padded(decoder, ids, mask)[0].where(2))[0]) == pytest.approx(alone, abs=1e-6)
    fed = capture(decoder, ids[:1]).where(2)
    assert abs(float(measure(fed)[0]) - alone) > 1e-3, "with pads in it, it would be another number"


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[1, 0, 1], [1, 1, 1]], "in document 1 one stands between tokens 0 and 2"),
        ([[1, 1, 1], [0, 0, 0]], "document 2 has none. Leave it out"),
        ([[1, 1], [1, 1]], r"has shape \[2, 2\]"),
        ([[1, 1, 2], [1, 1, 1]], "holds other numbers"),
        ([[1, 1, -1], [1, 1, 1]], "holds other numbers"),
    ],
)
def test_a_mask_that_tells_no_documents_is_refused(mask: Any, message: str) -> None:
    ids = torch.arange(6).reshape(2, 3)
    with pytest.raises(ArgumentError, match=message):
        without_padding.__wrapped__(ids, torch.tensor(mask))
    assert len(without_padding(ids, torch.tensor([[1, 1, 0], [True, 1, 1]]))) == 2


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_neither_the_order_of_documents_nor_the_batch_size_changes_a_number_of_the_laboratory(
    family: str, tmp_path: Path
) -> None:
    decoder, ids = SHARED[family], tiny_ids(documents=5, tokens=9)
    titles = [f"text {n}" for n in range(5)]
    records = []
    for number, (order, batch_size) in enumerate([([0, 1, 2, 3, 4], 5), ([3, 1, 4, 0, 2], 2), ([4, 3, 2, 1, 0], 1)]):
        documents = Documents.from_token_ids(ids[order], [titles[place] for place in order])
        study = am.Laboratory(
            decoder, documents, [am.Trained(), am.Ablated("mlp")], layers=[0, 2], batch_size=batch_size, gauges=()
        )  # gauges are tried on the documents that come first
        records.append(study.run(tmp_path / str(number)).dataset.sel(document=titles))
    for other in records[1:]:
        for name, variable in records[0].data_vars.items():
            of_the_first = is_floor(str(name)) or str(name) == "statement_floor"  # of the documents that come first
            if variable.dtype.kind == "f" and not of_the_first:
                np.testing.assert_allclose(other[name].values, variable.values, rtol=1e-5, atol=1e-5, err_msg=str(name))


def test_documents_of_one_repeated_token_are_measured_and_what_has_no_direction_is_undefined(tmp_path: Path) -> None:
    documents = Documents.from_token_ids([[7] * 9, [8] * 9], ["sevens", "eights"])
    for family, decoder in SHARED.items():
        study = am.Laboratory(decoder, documents, [am.Trained()], layers=[0, 2])
        record = study.run(tmp_path / family)
        where = {"condition": "trained", "layer": 0, "tap": "block", "tokens": "all"}
        aligned = record.sample("mean_overlap", **where, preparation="normalize").values
        centered = record.sample("mean_overlap", **where, preparation="center, normalize").values
        if decoder.facts.positions.startswith("rotary"):
            np.testing.assert_allclose(aligned, 1.0, atol=1e-6)
            assert np.isnan(centered).all(), "rows that are all their mean have no direction once it is taken away"
        else:
            assert (aligned < 1.0).all() and np.isfinite(centered).all(), "positions tell the tokens apart"
