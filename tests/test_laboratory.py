"""The laboratory on tiny random decoders against plain NumPy on states taken another way."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from armillary.errors import ArgumentError, CheckMissed, NumericalError, UnsoundError
from armillary.models.conditions import Ablated, Initial, Trained
from armillary.models.documents import Documents
from armillary.models.evidence import random_ids
from armillary.observables.clustering import cluster_count
from armillary.observables.distances import AngularDistance
from armillary.observables.grouping import Connected, Grouping
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.studies.laboratory import Laboratory
from armillary.studies.plan import Plan, default_measurements, position_bands, statement_layers
from real_record import real_record
from tiny import tiny_decoder, tiny_ids

TOKENS = 17
DOCUMENTS = 5


def documents(seed: int = 0, count: int = DOCUMENTS, tokens: int = TOKENS) -> Documents:
    titles = [f"set {seed}, document {k}" for k in range(count)]
    return Documents.from_token_ids(tiny_ids(documents=count, tokens=tokens, seed=seed), titles)


def states_by_the_library(decoder: Any, ids: torch.Tensor) -> list[np.ndarray]:
    """Layers 0..L: the library's own list where it is the same tap; the last block by a hook of this test."""
    seen: list[torch.Tensor] = []

    def hook(_: Any, __: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)

    handle = decoder.blocks[-1].register_forward_hook(hook)
    with torch.no_grad():
        listed = decoder.model(input_ids=ids, output_hidden_states=True).hidden_states
    handle.remove()
    return [state.double().numpy() for state in (*listed[:-1], seen[0], listed[-1])]


def spectrum(rows: np.ndarray) -> np.ndarray:
    return np.linalg.svd(rows, compute_uv=False)


def entropy(weights: np.ndarray) -> float:
    p = weights[weights > 0] / weights.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def groups(rows: np.ndarray, threshold: float) -> list[int]:
    """Sizes of connected components by a plain search."""
    near = np.arccos(np.clip(rows @ rows.T, -1, 1)) <= threshold
    left, sizes = set(range(len(rows))), []
    while left:
        front, size = [left.pop()], 0
        while front:
            size += 1
            i = front.pop()
            reached = {j for j in left if near[i, j]}
            left -= reached
            front += reached
        sizes.append(size)
    return sizes


def population_rank(rows: np.ndarray) -> float:
    """(tr S)^2 / tr S^2 of sums over four distinct rows, each sum over all of them less those that share a row."""
    n, d = len(rows), ((rows[:, None] - rows[None]) ** 2).sum(-1) / 2
    above = d.sum() ** 2 - 4 * (d.sum(0) ** 2).sum() + 2 * (d**2).sum()
    k = (rows - rows.mean(0)) @ (rows - rows.mean(0)).T
    np.fill_diagonal(k, 0.0)
    below = (k**2).sum() + k.sum() ** 2 / (n - 1) / (n - 2) - 2 / (n - 2) * (k @ k).sum()
    return float(above / ((n - 1) * (n - 2)) / below)


def repeated(rows: np.ndarray) -> np.ndarray:
    near = np.linalg.norm(rows[:, None] - rows[None], axis=-1) < 1e-6 * np.sqrt(rows.var(0).sum())
    return np.tril(near, -1).any(1)


def two_neighbors(rows: np.ndarray) -> float:
    distances = np.sort(np.linalg.norm(rows[:, None] - rows[None], axis=-1), axis=1)
    ratios, n = np.sort(np.log(distances[:, 2] / distances[:, 1])), len(rows)
    kept = min(int(0.9 * n), n - 1)
    y = -np.log(1 - np.arange(1, kept + 1) / n)
    return float((ratios[:kept] * y).sum() / (ratios[:kept] ** 2).sum())


def plainly(name: str, rows: np.ndarray) -> float:
    """Each observable in a line or two of NumPy, from rows as prepared."""
    tokens = len(rows)
    pairs = np.array([rows[i] @ rows[j] for i in range(tokens) for j in range(i + 1, tokens)])
    s = spectrum(rows)
    sizes = np.array(groups(rows, math.pi / 4)) if name.startswith("cluster") else np.array([tokens])
    return {
        "mean_overlap": pairs.mean(),
        "squared_mean_direction": float((rows.mean(0) ** 2).sum()),
        "smallest_overlap": pairs.min(),
        "exponential_overlap": float(np.exp(4.0 * (rows @ rows.T - 1)).mean()),
        "clustering_order_parameter": float(((sizes / tokens) ** 2).sum()),
        "cluster_count": len(sizes),
        "participation_rank": float((s**2).sum() ** 2 / (s**4).sum()),
        "algebraic_rank": int((s > max(rows.shape) * np.finfo(np.float32).eps * s[0]).sum()),
        "entropy_rank": entropy(s),
        "squared_entropy_rank": entropy(s**2),
        "stable_rank": float((s**2).sum() / s[0] ** 2),
        "nuclear_over_spectral": float(s.sum() / s[0]),
        "variance_components": float((np.cumsum(s**2) < 0.95 * (s**2).sum()).sum() + 1),
        "population_participation_rank": population_rank(rows),
        "intrinsic_dimension": two_neighbors(rows[~repeated(rows)]),
        "duplicate_rows": int(repeated(rows).sum()),
    }[name]


def prepared(rows: np.ndarray, preparation: str, mean: np.ndarray, rogue: list[int]) -> np.ndarray:
    for step in preparation.split(", "):
        if step == "center":
            rows = rows - rows.mean(0)
        elif step == "normalize":
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        elif step == "corpus mean":
            rows = rows - mean
        elif step == "without rogue coordinates":
            rows = np.where(np.isin(np.arange(rows.shape[1]), rogue), 0.0, rows)
    return rows


def calibration_mean(states: np.ndarray) -> np.ndarray:
    rows = states[:, 1:].reshape(-1, states.shape[-1])
    norms = np.linalg.norm(states, axis=-1)
    kept = (norms <= 5 * np.median(norms, axis=1)[:, None])[:, 1:].reshape(-1)
    return rows[kept].mean(0)


def rogue_coordinates(states: np.ndarray) -> list[int]:
    norms = np.linalg.norm(states, axis=-1, keepdims=True)
    kept = (norms[..., 0] <= 5 * np.median(norms[..., 0], axis=1)[:, None])[:, 1:].reshape(-1)
    unit = (states / norms)[:, 1:].reshape(-1, states.shape[-1])[kept]
    return sorted(np.argsort(-(unit.mean(0) ** 2))[:3].tolist())


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_every_observable_at_every_layer_equals_plain_numpy_on_the_librarys_states(family: str, tmp_path: Path) -> None:
    decoder, chosen, others = tiny_decoder(family), documents(), documents(seed=9, count=3)
    record = Laboratory(decoder, chosen, [Trained()], calibration=others).run(tmp_path / "record")
    states = states_by_the_library(decoder, chosen.token_ids)
    calibration = states_by_the_library(decoder, others.token_ids)
    layers = decoder.facts.layers
    compared = 0
    for measurement in default_measurements():
        values = record.dataset[measurement.name].sel(condition="trained", preparation=str(measurement.preparation))
        for layer in range(layers + 1):
            mean = calibration_mean(calibration[layer])
            rogue = rogue_coordinates(calibration[layer])
            assert rogue == record.provenance["calibration"]["rogue_coordinates"]["trained"][str(layer)]
            for tokens, start in (("all", 0), ("without_first", 1)):
                found = values.sel(tap="block", layer=layer, tokens=tokens).values
                rows = [prepared(one, str(measurement.preparation), mean, rogue)[start:] for one in states[layer]]
                if "center" in measurement.preparation.steps:  # centering is over the tokens that take part
                    rows = [prepared(one[start:], str(measurement.preparation), mean, rogue) for one in states[layer]]
                expected = [plainly(measurement.name, one) for one in rows]
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{measurement} {layer}")
                compared += len(expected)
    assert compared == len(default_measurements()) * (layers + 1) * 2 * DOCUMENTS


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_after_attention_and_as_read_equal_plain_numpy_on_states_of_other_hooks(family: str, tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder(family), documents()
    record = Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record")
    seen: dict[int, list[np.ndarray]] = {}

    def hook(place: int) -> Any:
        return lambda _, inputs, output: seen.update({place: [inputs[0].double().numpy(), output.double().numpy()]})

    handles = [norm.register_forward_hook(hook(k)) for k, norm in enumerate(decoder.norms)]
    decoder.hidden(chosen.token_ids)
    for handle in handles:
        handle.remove()
    compared = 0
    for row in record.rows():
        if row["tap"] in ("block", "embedding", "logits") or row["tokens"] == "without_first_and_massive":
            continue
        if row["measurement"] not in ("mean_overlap", "squared_mean_direction", "participation_rank"):
            continue
        mid, read = row["tap"].startswith("mid"), row["tap"] in ("final", "embedding_read", "block_read", "mid_read")
        states = seen[2 * row["layer"] - 1 if mid else 2 * row["layer"]][int(read)]
        rows = [one[int(row["tokens"] == "without_first") :] for one in states]
        expected = [plainly(row["measurement"], prepared(one, row["preparation"], one[0], [])) for one in rows]
        assert row["value"] == pytest.approx(np.mean(expected), rel=1e-5, abs=1e-6), row
        compared += 1
    assert compared == (4 + 5 + 4) * 2 * 5  # 13 taps, two token sets, five measurements


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_final_is_the_librarys_last_state_and_the_last_block_is_not_in_its_list(family: str, tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder(family), documents()
    record = Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record")
    states = states_by_the_library(decoder, chosen.token_ids)
    last = decoder.facts.layers
    rank = record.dataset["participation_rank"].sel(
        condition="trained", layer=last, tokens="all", preparation="normalize"
    )
    for tap, rows in (("block", states[last]), ("block_read", states[last + 1])):
        expected = [plainly("participation_rank", prepared(one, "normalize", rows[0, 0], [])) for one in rows]
        np.testing.assert_allclose(rank.sel(tap=tap).values, expected, rtol=1e-5)
    names = {row["tap"] for row in record.rows() if row["layer"] == last}
    assert {"block", "final", "mid", "mid_read", "attention"} == names


def test_histogram_and_spectrum_and_sweep_equal_plain_numpy(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    data = Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record").dataset.sel(condition="trained")
    states = states_by_the_library(decoder, chosen.token_ids)
    edges = np.linspace(-1, 1, 65)
    upper = np.triu_indices(TOKENS - 1, 1)
    for layer in range(decoder.facts.layers + 1):
        for k, one in enumerate(states[layer]):
            centered = prepared(one[1:], "center, normalize", one[0], [])
            counts = data["overlap_histogram"].sel(
                layer=layer, histogram_tokens="without_first", histogram_preparation="center, normalize"
            )
            assert int(counts[k].sum()) == (TOKENS - 1) * (TOKENS - 2) // 2
            expected = np.histogram((centered @ centered.T)[upper], bins=edges)[0]
            assert np.abs(counts[k].values - expected).sum() <= 2  # a pair within rounding of an edge may change sides
            singular = data["singular_values"].sel(layer=layer, spectrum_preparation="center, normalize")[k].values
            np.testing.assert_allclose(singular[: TOKENS - 2], spectrum(centered)[: TOKENS - 2], rtol=1e-4, atol=1e-6)
            for threshold in (0.5, 1.0, 1.5):
                sizes = np.array(groups(centered, threshold))
                swept = data.sel(layer=layer, threshold=threshold)
                assert swept["cluster_count_sweep"][k] == len(sizes)
                assert float(swept["order_parameter_sweep"][k]) == pytest.approx(((sizes / sizes.sum()) ** 2).sum())


def test_what_each_sublayer_adds_is_split_into_radial_and_tangential_part(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    data = Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record").dataset.sel(condition="trained")
    outputs: dict[str, np.ndarray] = {}
    states = states_by_the_library(decoder, chosen.token_ids)
    handle = decoder.attention(2).register_forward_hook(lambda _, __, out: outputs.update(u=out[0].double().numpy()))
    decoder.hidden(chosen.token_ids)
    handle.remove()
    x, u = states[1][:, 1:], outputs["u"][:, 1:]
    squared = (x**2).sum(-1)
    radial = ((x * u).sum(-1) / squared).mean(-1)
    found = data.sel(tap="mid", layer=2, tokens="without_first")
    np.testing.assert_allclose(found["update_radial"].values, radial, rtol=1e-4, atol=1e-6)
    cosine = ((x + u) * x).sum(-1) / np.linalg.norm(x + u, axis=-1) / np.sqrt(squared)
    np.testing.assert_allclose(found["update_angle"].values, np.arccos(cosine).mean(-1), rtol=1e-4)
    lengths = np.linalg.norm(u, axis=-1) / np.sqrt(squared)
    np.testing.assert_allclose(found["update_norm"].values, lengths.mean(-1), rtol=1e-4)


def test_a_massive_token_is_found_anywhere_counted_and_left_out_of_the_third_token_set(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    giant = int(chosen.token_ids[2, 7])
    with torch.no_grad():
        decoder.embedding.weight[giant] *= 200.0
    data = Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record").dataset.sel(condition="trained")
    places = (chosen.token_ids == giant).numpy()
    mask = data["massive_token_mask"].sel(layer=0).values.astype(bool)
    assert (mask == places).all()
    assert (
        data["massive_tokens"].sel(tap="block", layer=0, tokens="all", preparation="as given").values.tolist()
        == places.sum(1).tolist()
    )
    embedding = states_by_the_library(decoder, chosen.token_ids)[0]
    rank = data["participation_rank"].sel(tap="block", layer=0, preparation="as given")
    for k, one in enumerate(embedding):
        keep = ~places[k] & (np.arange(TOKENS) > 0)
        expected = plainly("participation_rank", one[keep])
        assert float(rank.sel(tokens="without_first_and_massive")[k]) == pytest.approx(expected, rel=1e-5)
    assert float(rank.sel(tokens="without_first")[2]) < 1.2 < float(rank.sel(tokens="without_first_and_massive")[2])


def test_two_runs_are_equal_bit_for_bit_and_the_batch_size_changes_nothing(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("gpt2"), documents()
    conditions = [Trained(), Initial(seed=1, recipe="library"), Ablated("mlp")]
    runs = [
        Laboratory(decoder, chosen, conditions, batch_size=size).run(tmp_path / f"{k}").dataset
        for k, size in enumerate((4, 4, 1))
    ]
    xr.testing.assert_identical(runs[0], runs[1])
    for name in ("mean_overlap", "participation_rank", "entropy_rank", "loss", "update_angle"):
        np.testing.assert_allclose(runs[2][name].values, runs[0][name].values, rtol=1e-5, atol=1e-6)


def test_conditions_differ_on_identical_tokens_and_each_says_what_it_changed(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    conditions = [Trained(), Initial(seed=0, recipe=0.02), Ablated("attention"), Ablated("mlp"), Ablated("positions")]
    record = Laboratory(decoder, chosen, conditions, level=0.9).run(tmp_path / "record")
    assert record.provenance["documents"]["token_hash"] == chosen.hash
    assert {proof["token_hash"] for proof in record.provenance["conditions"]} == {chosen.hash}
    overlap = (
        record.dataset["mean_overlap"].sel(tap="block", layer=4, tokens="all", preparation="normalize").mean("document")
    )
    assert len({round(float(value), 6) for value in overlap}) == len(conditions)
    for proof in record.provenance["conditions"]:
        assert bool(proof["changed"]) == (proof["name"] != "trained")
        assert proof["sentence"]
    update = record.dataset["update_norm"].sel(layer=2, tokens="all")
    assert float(update.sel(condition="ablated-mlp", tap="block").max()) == 0.0
    assert float(update.sel(condition="ablated-attention", tap="mid").max()) == 0.0
    frame = record.contrast("trained", "ablated-mlp")
    assert (frame["level"] == 0.9).all()


def test_the_statement_shows_numbers_before_and_after_and_an_orthogonal_map_moves_none_but_coordinates(
    tmp_path: Path,
) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    usual = Plan(attention=())  # the pass that the library makes unasked, so that its states compare to the last digits
    record = Laboratory(decoder, chosen, [Trained()], calibration=documents(seed=9, count=3), plan=usual).run(
        tmp_path / "record"
    )
    table = record.dataset["statement_value"]
    before, turned = table.sel(transformation="none"), table.sel(transformation="orthogonal")
    bound = table["statement_measurement"].str.contains("rogue coordinates").values
    difference = np.abs(turned - before).max(("statement_layer", "document")).values
    assert difference[~bound].max() < 1e-6 * float(np.abs(before).max())
    assert difference[bound].min() > 1e-4
    general = (
        np.abs(table.sel(transformation="general linear, k=4") - before).mean(("statement_layer", "document")).values
    )
    rank = np.array([str(name).startswith("algebraic_rank") for name in table["statement_measurement"].values])
    counted = table["statement_measurement"].str.contains("cluster|duplicate").values
    assert general[rank].max() == 0.0
    assert general[~rank & ~counted].min() > 1e-4
    gain = decoder.norms[2 * 4].weight.detach().double().numpy()
    rows = [
        prepared(one[1:] * gain, "normalize", one[0], []) for one in states_by_the_library(decoder, chosen.token_ids)[4]
    ]
    found = table.sel(
        transformation="gain of the next norm", statement_layer=4, statement_measurement="mean_overlap | normalize"
    )
    np.testing.assert_allclose(found.values, [plainly("mean_overlap", one) for one in rows], rtol=1e-5)


def test_what_an_isotropic_cloud_of_the_same_size_gives_stands_beside_each_rank(tmp_path: Path) -> None:
    decoder = tiny_decoder("llama")
    data = Laboratory(decoder, documents(), [Trained()]).run(tmp_path / "record").dataset
    names = [str(name) for name in data["isotropic_measurement"].values]
    for rank in ("participation_rank", "algebraic_rank", "entropy_rank", "stable_rank", "nuclear_over_spectral"):
        assert f"{rank} | normalize" in names
    value = float(data["isotropic_value"].sel(isotropic_measurement="participation_rank | normalize"))
    ceiling = data["reference_ceiling"].sel(tokens="without_first", preparation="center, normalize")
    assert float(ceiling) == TOKENS - 2
    formula = data["reference_isotropic"].sel(tokens="without_first", preparation="normalize")
    assert value == pytest.approx(float(formula), rel=0.05)
    rows = np.random.default_rng(0).standard_normal((200, TOKENS - 1, 24))
    plain = [plainly("entropy_rank", prepared(one, "normalize", one[0], [])) for one in rows]
    found = float(data["isotropic_value"].sel(isotropic_measurement="entropy_rank | normalize"))
    assert found == pytest.approx(np.mean(plain), abs=4 * np.std(plain) / 2)


def test_rows_of_the_json_name_every_choice(tmp_path: Path) -> None:
    decoder = tiny_decoder("llama")
    rows = (
        Laboratory(decoder, documents(), [Trained(), Ablated("mlp")], layers=[0, 2, 4]).run(tmp_path / "record").rows()
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    keys = [
        "condition",
        "layer",
        "tap",
        "measurement",
        "preparation",
        "tokens",
        "head",
        "value",
        "low",
        "high",
        "level",
        "documents",
    ]
    assert all(list(row) == keys for row in rows)
    assert {row["layer"] for row in rows} == {0, 2, 4, None}
    assert {row["tap"] for row in rows if row["layer"] == 0} == {"embedding", "embedding_read"}
    assert {row["head"] for row in rows if row["tap"] == "attention"} == {None, 0, 1, 2, 3}
    assert any(row["measurement"] == "loss" for row in rows)


def test_no_interval_leaves_the_range_that_its_number_can_take(tmp_path: Path) -> None:
    record = Laboratory(tiny_decoder("llama"), documents(count=3), [Trained(), Ablated("mlp")]).run(tmp_path / "record")
    rows = [row for row in record.rows() if row["low"] is not None and row["high"] is not None]
    for row in rows:
        attrs = record.dataset[row["measurement"]].attrs
        assert attrs.get("lowest", -math.inf) <= row["low"] <= row["high"] <= attrs.get("highest", math.inf), row
    assert record.dataset["mean_overlap"].attrs["highest"] == 1.0
    assert record.dataset["participation_rank"].attrs["lowest"] == 1.0
    frame = record.contrast("trained", "ablated-mlp", "mean_overlap")
    bounded = frame["high"][np.isfinite(frame["high"].to_numpy())]
    assert len(bounded) and bounded.max() <= 2.0


def test_users_own_measurements_replace_the_laboratorys_list(tmp_path: Path) -> None:
    wide = Grouping(AngularDistance(), Connected(within=1.2))
    chosen = [participation_rank.after("normalize"), cluster_count(wide).after("center", "normalize")]
    record = Laboratory(tiny_decoder("llama"), documents(), [Trained()], chosen).run(tmp_path / "record")
    assert record.study["measurements"] == [str(one) for one in chosen]
    assert "mean_overlap" not in record.dataset
    assert record.dataset["cluster_count"].attrs["grouping"] == str(wide)
    assert Record.open(tmp_path / "record").measurements_hash == record.measurements_hash


def test_one_document_gives_no_interval_and_is_refused_with_the_reason() -> None:
    with pytest.raises(UnsoundError, match="dependent"):
        Laboratory(tiny_decoder("llama"), documents(count=1), [Trained()])


@pytest.mark.parametrize(("bad", "kind"), [(float("nan"), "NaN"), (float("inf"), "infinite")])
def test_states_that_are_not_finite_are_named_by_condition_layer_document_and_token(
    bad: float, kind: str, tmp_path: Path
) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    # a token that the proof's own ids do not hold, so that the decoder proves itself and the documents break it
    giant = next(int(token) for token in chosen.token_ids[3, 1:] if token not in random_ids(decoder, 12))
    with torch.no_grad():
        decoder.embedding.weight[giant] = bad
    where = (chosen.token_ids == giant).nonzero()[0].tolist()
    message = rf"{kind}.*condition trained, layer 0.*document 'set 0, document {where[0]}', token {where[1]}"
    with pytest.raises(NumericalError, match=message):
        Laboratory(decoder, chosen, [Trained()]).run(tmp_path / "record")
    assert list(tmp_path.iterdir()) == []
    assert all(not norm._forward_hooks for norm in decoder.norms)


def test_contradictory_choices_are_refused_before_anything_runs(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()
    with pytest.raises(ArgumentError, match="layers"):
        Laboratory(decoder, chosen, [Trained()], layers=[5])
    with pytest.raises(ArgumentError, match="conditions"):
        Laboratory(decoder, chosen, [Trained(), Trained()])
    with pytest.raises(ArgumentError, match="calibration"):
        Laboratory(decoder, chosen, [Trained()], [participation_rank.after("corpus mean", "normalize")])
    with pytest.raises(ArgumentError, match="twice"):
        Laboratory(decoder, chosen, [Trained()], [participation_rank.after(), participation_rank.after()])
    with pytest.raises(ArgumentError, match="declared preparation"):
        Laboratory(decoder, chosen, [Trained()], [participation_rank])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="context"):
        Laboratory(decoder, documents(tokens=65), [Trained()])
    with pytest.raises(ArgumentError, match="document"):
        Laboratory(decoder, chosen, [Trained()], calibration=chosen)
    with pytest.raises(ArgumentError, match="99"):
        Laboratory(decoder, chosen, [Trained(), Ablated("mlp", layers=[99])])
    for bad in ({"level": 95.0}, {"level": float("nan")}, {"resamples": 3}, {"seed": -1}, {"batch_size": 0}):
        with pytest.raises(ArgumentError, match=next(iter(bad))):
            Laboratory(decoder, chosen, [Trained()], **bad)


def test_documents_that_change_while_a_laboratory_runs_stop_it(tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder("llama"), documents()

    def meddle(sentence: str, done: int, total: int) -> None:
        chosen.token_ids[0, 3] = (chosen.token_ids[0, 3] + 1) % 200

    with pytest.raises(CheckMissed, match="hash"):
        Laboratory(decoder, chosen, [Trained(), Ablated("mlp")]).run(tmp_path / "record", progress=meddle)
    assert [path.name for path in tmp_path.iterdir()] == ["record.partial"]  # what was finished before is right


def test_an_existing_record_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    with pytest.raises(ArgumentError, match="record"):
        Laboratory(tiny_decoder("llama"), documents(), [Trained()]).run(tmp_path / "record")


def test_position_bands_cover_every_position_but_the_first() -> None:
    assert position_bands(256, 4) == ((1, 65), (65, 129), (129, 192), (192, 256))
    assert position_bands(5, 4) == ((1, 3), (3, 5))
    assert statement_layers(range(31)) == (15, 30)
    assert statement_layers([3]) == (3,)


def test_the_cost_is_estimated_without_writing_anything(tmp_path: Path) -> None:
    study = Laboratory(
        tiny_decoder("llama"), documents(), [Trained(), Ablated("mlp")], calibration=documents(seed=9, count=3)
    )
    cost = study.cost()
    assert cost["document_passes"] == 2 * (DOCUMENTS + 3)
    assert cost["estimated_seconds"] >= 0
    json.dumps(cost, allow_nan=False)


@pytest.mark.parametrize("family", ["phi", "olmo2", "gemma2"])
def test_a_laboratory_measures_what_a_wiring_has_and_leaves_the_rest_unmeasured(family: str, tmp_path: Path) -> None:
    decoder, chosen = tiny_decoder(family), documents()
    measurement = participation_rank.after("normalize")
    record = Laboratory(decoder, chosen, [Trained(), Ablated("mlp")], [measurement]).run(tmp_path / "record")
    data, mids = record.dataset, ["mid", "mid_read"]
    middle = data["participation_rank"].sel(tap=mids, condition="trained", layer=[1, 2, 3, 4], tokens="all")
    middle = middle.sel(preparation="normalize")
    parallel = family == "phi"
    assert bool(np.isnan(middle).all() if parallel else np.isfinite(middle).all())
    assert {row["tap"] for row in record.rows() if row["measurement"] == "participation_rank"} & set(mids) == (
        set() if parallel else set(mids)
    )
    states = states_by_the_library(decoder, chosen.token_ids)
    for layer in range(5):
        found = data["participation_rank"].sel(tap="block", condition="trained", layer=layer, tokens="all")
        rows = [state / np.linalg.norm(state, axis=1, keepdims=True) for state in states[layer]]
        exact = [plainly("participation_rank", unit) for unit in rows]
        np.testing.assert_allclose(found.sel(preparation="normalize"), exact, rtol=1e-4)
    update = data["update_norm"].sel(condition="ablated-mlp", tokens="all")
    assert bool((update.sel(tap="block", layer=[1, 2, 3, 4]) == 0).all()) != parallel
    assert ("both together" in update.attrs["definition"]) == parallel
    moved = data["statement_value"].sel(transformation=[str(one) for one in data["transformation"].values][-1])
    gains = [decoder.norm_after(int(layer)) is not None for layer in data["statement_layer"].values]
    assert [bool(np.isfinite(moved.sel(statement_layer=n)).all()) for n in data["statement_layer"].values] == gains
    assert all(gains) == (family != "olmo2")


def test_every_axis_of_a_record_says_what_it_counts() -> None:
    dataset = real_record("usual").dataset
    silent = [name for name in dataset.coords if not dataset[name].attrs.get("long_name")]
    assert silent == [], "a word in studies/axes.py is missing"
    assert set(dataset.dims) <= set(dataset.coords)
