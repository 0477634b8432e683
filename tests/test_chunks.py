"""Chunks of documents: how they are cut, what a collector sees of them, and how its numbers come together again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from armillary.models.conditions import Ablated, Trained
from armillary.models.documents import Documents
from armillary.records.assembly import Part, assembled
from armillary.records.journal import IDS, SECONDS
from armillary.studies import dataset
from armillary.studies.chunk import Chunk, partition
from armillary.studies.collector import Collector, Declared, Setting, Variable
from armillary.studies.collectors import COLLECTORS
from armillary.studies.laboratory import Laboratory
from tiny import tiny_decoder, tiny_ids


def documents(count: int = 5, tokens: int = 12) -> Documents:
    return Documents.from_token_ids(tiny_ids(documents=count, tokens=tokens))


class Lengths(Collector):
    """One number for each document and layer, one sum over documents, one axis and hooks of its own."""

    passes = 0

    @classmethod
    def declared(cls, layout: Any) -> Declared:
        words = {"definition": "of a test"}
        return Declared(
            {
                "length": Variable(("condition", "layer", "document"), words),
                "total": Variable(("condition", "half", "layer"), words),
                "count": Variable(("document", "layer"), words, dtype="int64", fill=0),
            },
            {"half": ["first", "second"]},
        )

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        hook = self.setting.decoder.embedding.register_forward_hook(lambda *_: self.seen())
        try:
            yield
        finally:
            hook.remove()

    def seen(self) -> None:
        Lengths.passes += 1

    def add(self, batch: Any) -> None:
        if batch.tap.place == "block":
            norms = batch.residual.norm(dim=-1).double().numpy()
            self.arrays["length"][:, batch.row] = norms.mean(-1)
            self.arrays["total"][0, batch.row] = norms[:, :6].sum()
            self.arrays["total"][1, batch.row] = norms[:, 6:].sum()
            self.arrays["count"][:, batch.row] = norms.shape[-1]


def test_a_collector_of_ones_own_is_one_class_and_its_numbers_are_put_together_over_chunks_and_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armillary.studies.collectors.COLLECTORS", (*COLLECTORS, Lengths))
    monkeypatch.setattr(Lengths, "passes", 0)
    decoder, chosen = tiny_decoder("llama"), documents()
    study = Laboratory(decoder, chosen, [Trained(), Ablated("mlp")], layers=[0, 3], batch_size=2)
    data = study.run(tmp_path / "record").dataset
    with torch.no_grad():
        states = decoder.model(input_ids=chosen.token_ids, output_hidden_states=True).hidden_states
    norms = torch.stack([states[0], states[3]]).norm(dim=-1).double().numpy()
    np.testing.assert_allclose(data["length"].sel(condition="trained").values, norms.mean(-1), rtol=1e-5)
    assert data["length"].dims == ("condition", "layer", "document")
    halves = np.stack([norms[..., :6].sum(-1), norms[..., 6:].sum(-1)])  # half, layer, document
    np.testing.assert_allclose(data["total"].sel(condition="trained").values, halves.mean(-1), rtol=1e-5)
    assert float(abs(data["total"].sel(layer=3).diff("condition")).min()) > 0
    assert data["count"].dims == ("document", "layer") and (data["count"] == 12).all()
    assert Lengths.passes == 2 * 3 + 2  # and once more in each condition, in the wider type, for the rounding floor
    assert not decoder.embedding._forward_hooks


def test_what_no_part_holds_is_the_fill_and_never_what_memory_held() -> None:
    axes = {"condition": ["a", "b"], "document": ["x", "y"]}
    variables = {
        "number": Variable(("condition", "document"), {}),
        "count": Variable(("condition", "document"), {}, dtype="int64", fill=0),
        "sum": Variable(("condition",), {}),
    }
    held = {"number": np.ones(2), "count": np.ones(2), "sum": np.asarray(6.0)}
    found = assembled(xr.Dataset(coords=axes), variables, [Part(0, 0, held), Part(1, 0, {})])
    assert np.isnan(found["number"].values[1]).all() and found["count"].values.tolist() == [[1, 1], [0, 0]]
    assert found["number"].values[0].tolist() == [1.0, 1.0] and found["sum"].values[0] == 3.0


def test_chunks_cover_every_document_once_in_order() -> None:
    chunks = partition("trained", 5, 2)
    assert chunks == (Chunk("trained", 0, 2), Chunk("trained", 2, 4), Chunk("trained", 4, 5))
    assert [len(one) for one in chunks] == [2, 2, 1]
    assert [len(one) for one in partition("trained", 3, 8)] == [3]


def measured(bench: Any, chosen: Documents, one: Chunk) -> dict[str, np.ndarray]:
    return bench.measure(chosen.token_ids[one.start : one.stop], chosen.titles[one.start : one.stop])


def test_a_chunk_holds_one_row_a_document_and_does_not_depend_on_what_was_measured_before_it() -> None:
    decoder, chosen = tiny_decoder("gpt2"), documents()
    study = Laboratory(decoder, chosen, [Trained()], batch_size=2)
    bench = study.bench(study.conditions[0], decoder, {})
    first, second, last = partition("trained", 5, 2)
    there = {one: measured(bench, chosen, one) for one in (first, second, last)}
    back = {one: measured(bench, chosen, one) for one in (last, second, first)}
    found = dataset.declared(study.layout).variables
    assert set(there[first]) == {*found, IDS, SECONDS}
    for one in (first, second, last):
        for name, array in there[one].items():
            if name == SECONDS:
                continue
            np.testing.assert_array_equal(array, back[one][name], err_msg=name)
            if name == IDS or "document" in found[name].dims:
                assert len(array) == len(one), name
            if name != IDS:
                assert array.dtype == found[name].dtype, name
    assert (there[second][IDS] == chosen.token_ids[2:4].numpy()).all()


def test_only_the_first_condition_carries_the_statement() -> None:
    decoder = tiny_decoder("llama")
    study = Laboratory(decoder, documents(), [Trained(), Ablated("mlp")])
    named = [
        {type(one).__name__ for one in study.bench(condition, decoder, {}).collectors} for condition in study.conditions
    ]
    assert named[0] - named[1] == {"Statement"} and not named[1] - named[0]
    assert Setting(study.layout, decoder, "trained", {}).measurements == study.measurements
