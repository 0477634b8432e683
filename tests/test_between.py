"""Numbers between layers in the laboratory, against plain NumPy on the library's states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from armillary.errors import ArgumentError
from armillary.models.conditions import Trained
from armillary.models.documents import Documents
from armillary.observables.between import BETWEEN_LAYERS, between_layers
from armillary.observables.correspondence import linear_cka, neighbor_overlap
from armillary.observables.rank import participation_rank
from armillary.studies.between import Between
from armillary.studies.laboratory import Laboratory
from armillary.studies.plan import default_between_layers
from test_laboratory import states_by_the_library
from tiny import tiny_decoder, tiny_ids

TOKENS, DOCUMENTS, K = 16, 5, 3
BETWEEN = (linear_cka.after(), linear_cka.after("normalize"), neighbor_overlap(k=K).after("normalize"))
FEW = (participation_rank.after("normalize"),)


def documents() -> Documents:
    return Documents.from_token_ids(tiny_ids(documents=DOCUMENTS, tokens=TOKENS))


def cka(x: np.ndarray, y: np.ndarray) -> float:
    """Every average over distinct tokens spelled out: two differences of rows each, multiplied."""

    def product(a: np.ndarray, b: np.ndarray) -> float:
        n = len(a)
        k, m = (one @ one.T * (1 - np.eye(n)) for one in (a, b))
        total = (k * m).sum() + k.sum() * m.sum() / (n - 1) / (n - 2) - 2 / (n - 2) * (k @ m).sum()
        return float(total)

    x, y = x - x.mean(0), y - y.mean(0)
    return product(x, y) / np.sqrt(product(x, x) * product(y, y))


def kept(x: np.ndarray, y: np.ndarray) -> float:
    """Share of the k nearest neighbors kept, where no two are equally far."""
    nearest = []
    for rows in (x, y):
        distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
        np.fill_diagonal(distances, np.inf)
        nearest.append([set(np.argsort(row)[:K].tolist()) for row in distances])
    return float(np.mean([len(a & b) / K for a, b in zip(*nearest, strict=True)]))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_every_layer_is_set_against_the_one_before_and_the_embedding_as_plain_numpy_does(
    family: str, tmp_path: Path
) -> None:
    decoder, chosen = tiny_decoder(family), documents()
    study = Laboratory(decoder, chosen, [Trained()], measurements=FEW, between=BETWEEN, batch_size=2)
    data = study.run(tmp_path / "record").dataset.sel(condition="trained")
    states = states_by_the_library(decoder, chosen.token_ids)
    compared = 0
    for one in BETWEEN:
        for reference in ("previous", "embedding"):
            values = data[f"{one.name}_to_{reference}"].sel(preparation=str(one.preparation))
            assert np.isnan(values.sel(layer=0)).all()
            for layer in range(1, decoder.facts.layers + 1):
                other = layer - 1 if reference == "previous" else 0
                for document in range(DOCUMENTS):
                    x, y = (states[index][document, 1:] for index in (layer, other))
                    if one.preparation.steps:
                        x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
                    if one.name == "neighbor_overlap" and len(np.unique(y, axis=0)) < len(y):
                        continue  # repeated tokens have ties at the embedding, which the plain search does not share
                    expected = (cka if one.name == "linear_cka" else kept)(x, y)
                    assert float(values.sel(layer=layer)[document]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
                    compared += 1
    assert compared > 2 * DOCUMENTS * decoder.facts.layers * 2


def test_with_some_layers_left_out_the_layer_before_is_the_measured_one_and_without_the_embedding_nothing_is_to_it(
    tmp_path: Path,
) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    data = (
        Laboratory(decoder, chosen, [Trained()], measurements=FEW, between=BETWEEN[1:2], layers=[1, 3])
        .run(tmp_path / "record")
        .dataset
    )
    states = states_by_the_library(decoder, chosen.token_ids)
    rows = [states[layer][0, 1:] for layer in (3, 1)]
    expected = cka(*(one / np.linalg.norm(one, axis=1, keepdims=True) for one in rows))
    found = data["linear_cka_to_previous"].sel(condition="trained", preparation="normalize", layer=3)
    assert float(found[0]) == pytest.approx(expected, rel=1e-5)
    assert "linear_cka_to_embedding" not in data
    assert data["linear_cka_to_previous"].attrs["compared_with"] == "the measured layer before"


def test_numbers_between_layers_are_rows_of_the_tables_with_intervals_and_paired_differences(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    record = Laboratory(decoder, chosen, [Trained()], measurements=FEW, between=BETWEEN[1:]).run(tmp_path / "record")
    rows = [row for row in record.rows() if row["measurement"] == "neighbor_overlap_to_previous"]
    assert [row["layer"] for row in rows] == list(range(1, decoder.facts.layers + 1))
    assert all(0 <= row["low"] <= row["value"] <= row["high"] <= 1 for row in rows)
    assert {(row["tap"], row["tokens"], row["preparation"]) for row in rows} == {
        ("block", "without_first", "normalize")
    }
    one = record.estimate("linear_cka_to_embedding", condition="trained", layer=2)
    assert one.members == DOCUMENTS
    assert record.study["measurements_between_layers"] == [
        "linear_cka | normalize",
        "neighbor_overlap(k=3) | normalize",
    ]
    about = record.dataset["neighbor_overlap_to_previous"].attrs
    assert about["independent"] == pytest.approx(K / (TOKENS - 2))


def test_of_earlier_layers_two_are_kept_and_after_the_pass_none(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    study = Laboratory(decoder, chosen, [Trained()], measurements=FEW, between=BETWEEN)
    bench = study.bench(study.conditions[0], decoder, {})
    between = next(one for one in bench.collectors if isinstance(one, Between))
    sizes = []
    finish = between.finish

    def told(final: torch.Tensor, ids: torch.Tensor) -> None:
        distinct = {tensor.data_ptr(): tensor.nbytes for tensor in between._kept.values()}
        sizes.append(sum(distinct.values()))
        finish(final, ids)

    monkeypatch.setattr(between, "finish", told)
    bench.measure(chosen.token_ids[:3], chosen.titles[:3])
    assert between._kept == {}
    assert 0 < sizes[0] <= 3 * Between.held(study.layout)


def test_a_list_that_cannot_be_reported_is_refused_and_each_remedy_works(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    for wrong, remedy in (
        ([participation_rank.after("normalize")], r"linear_cka\.after"),
        ([linear_cka.after("normalize")] * 2, "Leave one out"),
        ([linear_cka.after("corpus mean")], "Pass calibration="),
    ):
        with pytest.raises(ArgumentError, match=remedy):
            Laboratory(decoder, chosen, [Trained()], between=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"participation_rank\.after"):
        Laboratory(decoder, chosen, [Trained()], measurements=[linear_cka.after("normalize")])  # type: ignore[list-item]
    others = Documents.from_token_ids(tiny_ids(documents=2, tokens=TOKENS, seed=9), ["a", "b"])
    study = Laboratory(
        decoder, chosen, [Trained()], measurements=FEW, between=[linear_cka.after("corpus mean")], calibration=others
    )
    found = study.run(tmp_path / "record").dataset["linear_cka_to_previous"]
    assert np.isfinite(found.sel(condition="trained", preparation="corpus mean", layer=2)).all()
    assert Laboratory(decoder, chosen, [Trained()]).between == default_between_layers()
    assert Laboratory(decoder, chosen, [Trained()], between=[]).between == ()


def test_a_number_between_layers_of_ones_own_is_measured_without_any_other_change(tmp_path: Path) -> None:
    @between_layers(symbol="cos", source="this test", needs_unit_rows=True, attainable=lambda tokens, dim: (-1.0, 1.0))
    def mean_cosine(configuration: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Mean overlap of each token with itself in the other layer."""
        return (configuration * other).sum(-1).mean(-1)

    try:
        decoder, chosen = tiny_decoder("llama"), documents()
        study = Laboratory(decoder, chosen, [Trained()], measurements=FEW, between=[mean_cosine.after("normalize")])
        data = study.run(tmp_path / "record").dataset.sel(condition="trained", preparation="normalize", layer=4)
        states = [
            one / np.linalg.norm(one, axis=-1, keepdims=True)
            for one in states_by_the_library(decoder, chosen.token_ids)
        ]
        for reference, layer in (("previous", 3), ("embedding", 0)):
            expected = (states[4] * states[layer])[:, 1:].sum(-1).mean(-1)
            np.testing.assert_allclose(data[f"mean_cosine_to_{reference}"].values, expected, rtol=1e-5, atol=1e-6)
    finally:
        del BETWEEN_LAYERS["mean_cosine"]


def test_repeated_rows_are_equally_far_so_that_the_order_of_tokens_keeps_the_neighbors() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(12, 16, generator=generator, dtype=torch.float64)[torch.arange(60) % 12] * 3.7
    later = rows + 0.3 * torch.randn(60, 16, generator=generator, dtype=torch.float64)
    number = neighbor_overlap(k=3).after("normalize")
    order = torch.randperm(60, generator=generator)
    assert number(rows[order], later[order]) == pytest.approx(number(rows, later), abs=1e-12)
