"""Numbers before and after a gauge: where it reaches they may move, elsewhere they do not, and what is proved stays proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import xarray as xr

import armillary as am
import tiny
from armillary.models.gauges.declaration import Reach
from armillary.models.gauges.draws import generator_of, orthogonal
from armillary.models.gauges.listing import controls, gauges
from armillary.models.gauges.places import overheard
from armillary.models.gauges.precise import float64_copy, kept_wide
from armillary.models.gauges.wiring import wiring_of
from armillary.studies.placed import Ledger

IDS = tiny.tiny_ids(documents=3, tokens=10)
SMALL = (am.mean_overlap.after("normalize"), am.participation_rank.after("center", "normalize"))


def decoder_of(family: str) -> am.Decoder:
    return tiny.tiny_decoder(family, **({"attention_bias": True} if family == "llama" else {}), layers=2)


def judged(found: am.GaugedNumbers, gauge: str) -> list[tuple[str, str, str]]:
    """Place, number and word of every verdict."""
    made = found.verdicts(gauge, level=0.95, resamples=200, seed=0)
    return [(number.place, number.number, one.word) for number, one in zip(found.numbers, made, strict=True)]


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gpt_neox"])
def test_a_gauge_moves_numbers_only_where_it_says_so_and_no_theorem_is_refuted(family: str) -> None:
    decoder = decoder_of(family)
    found = am.numbers_under(decoder, IDS, layers=(0, 1, 2), measurements=SMALL)
    assert set(found.under) | set(found.refused) == set(gauges()) and not set(found.under) & set(found.refused)
    for name in found.under:
        words = judged(found, name)
        assert not [entry for entry in words if entry[2] in ("claim refuted", "not resolved")], name
        moved, reach = {place for place, _, word in words if word == "changes"}, gauges()[name].reach
        assert moved <= {"first" if p == "stream" else p for p in reach} | set(reach), name
    moving = {"fold-gains": "read", "value-output": "value", "head-permutation": "attention", "rotation": "stream"}
    for name, place in moving.items():
        assert any(entry[0] == place and entry[2] == "changes" for entry in judged(found, name)), name


def test_stream_numbers_of_an_rms_decoder_survive_every_gauge_and_coordinate_numbers_do_not() -> None:
    found = am.numbers_under(decoder_of("llama"), IDS, layers=(0, 2))
    coordinates = ("largest_coordinate_share", "coordinate_kurtosis")
    for name in found.under:
        for place, number, word in judged(found, name):
            if place == "stream" and not number.startswith(coordinates):
                assert word == "proved and survived", (name, number, word)
    moved = {number for place, number, word in judged(found, "rotation") if place == "stream" and word == "changes"}
    assert moved == {f"{one} | as given" for one in coordinates}


def test_the_proof_of_a_scaled_stream_says_what_keeping_eps_would_have_moved() -> None:
    decoder = decoder_of("llama")
    found = am.numbers_under(decoder, IDS, {"s": am.StreamScale(10.0)}, layers=(1,), measurements=SMALL)
    kept = am.GaugeTrial(decoder, IDS).proof(controls()["stream-scale-with-eps-kept"]).difference
    assert found.under["s"].proof.endswith(f"; with eps kept they would move by {kept:.1e}") and kept > 1e-4
    assert not [entry for entry in judged(found, "s") if entry[2] != "proved and survived"]


def test_the_stream_under_a_rotation_is_the_stream_times_that_matrix() -> None:
    decoder = decoder_of("llama")
    trial = am.GaugeTrial(decoder, IDS)
    q = orthogonal(decoder.facts.width, generator_of(4))
    with trial.applied(am.Rotation(4)) as applied, kept_wide():
        after = am.capture(applied, IDS).states
        before = am.capture(float64_copy(decoder), IDS).states
    torch.testing.assert_close(after, before @ q, rtol=0, atol=1e-11)


def test_a_layer_norm_stream_can_be_given_another_overlap_and_what_layer_norm_sees_of_it_stays() -> None:
    found = am.numbers_under(
        decoder_of("gpt2"), IDS, {"add": am.AddFeatureMean(3.0, 0)}, layers=(0, 2), measurements=SMALL
    )
    words = {number: word for place, number, word in judged(found, "add") if place == "stream"}
    assert words["mean_overlap | normalize"] == "changes"
    assert words["mean_overlap | remove feature mean, normalize"] == "proved and survived"
    column = [str(one) for one in found.numbers].index("stream: mean_overlap | normalize, layer 2")
    assert np.abs(found.under["add"].after[:, column] - found.before[:, column]).min() > 0.01


def test_a_false_reach_is_refuted() -> None:
    @dataclass(frozen=True)
    class Boastful(am.FoldGains):
        """Folds, and says that it moves nothing."""

        reach: ClassVar[dict[str, Reach]] = {}

    found = am.numbers_under(decoder_of("llama"), IDS, {"boast": Boastful("all")}, layers=(1,), measurements=SMALL)
    assert {place for place, _, word in judged(found, "boast") if word == "claim refuted"} == {"read"}


def test_a_map_that_does_not_verify_stops_the_study_with_the_difference() -> None:
    wrong = {"wrong": controls()["rotation-without-folding"]}
    with pytest.raises(am.CheckMissed, match="one moved by"):
        am.numbers_under(decoder_of("llama"), IDS, wrong, layers=(1,), measurements=SMALL)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "qwen3", "gemma3", "llama"])
def test_heads_are_overheard_as_a_plain_computation_of_the_block_gives_them(family: str) -> None:
    """Scores from the queries and keys that were heard, turned by positions where the family does, give the maps heard."""
    decoder = float64_copy(decoder_of(family))
    heard: dict[str, torch.Tensor] = {}
    with kept_wide(), overheard(decoder, (1,), lambda place, layer, rows: heard.__setitem__(place, rows.clone())):
        decoder.hidden(IDS)
    block, facts = wiring_of(decoder).blocks[0], decoder.facts
    q, k, v = heard["query"], heard["key"], heard["value"]
    assert q.shape == (3, facts.heads, 10, facts.head_dim) and k.shape == v.shape == (
        3,
        facts.key_value_heads,
        10,
        facts.head_dim,
    )
    n = decoder.blocks[0].get_submodule(str(decoder.family.attention_norm))
    with kept_wide():
        states = am.capture(decoder, IDS, [am.Tap(0)]).states[:, 0]
        read = n(states)
    plain = torch.einsum("hio,dto->dhti", block.value.matrix, read)
    plain = plain if block.value.bias is None else plain + block.value.bias[:, None]
    torch.testing.assert_close(v, plain, rtol=0, atol=1e-12)
    if family == "gpt2":
        scores = (q @ k.mT / facts.head_dim**0.5).masked_fill(torch.ones(10, 10).triu(1).bool(), -torch.inf)
        torch.testing.assert_close(heard["attention"], scores.softmax(-1), rtol=0, atol=1e-12)
    if family in ("qwen3", "gemma3"):  # unit mean square before the gain
        for rows, norm in ((q, block.query_norm), (k, block.key_norm)):
            assert norm is not None and norm.gain is not None
            square = (rows / norm.gain).square().mean(-1)
            torch.testing.assert_close(square, torch.ones_like(square), rtol=0, atol=1e-2)
    mixed = heard["attention"] @ v.repeat_interleave(facts.heads // facts.key_value_heads, 1)
    written: list[torch.Tensor] = []
    handle = block.attention_output.module.register_forward_pre_hook(lambda module, inputs: written.append(inputs[0]))
    with kept_wide():
        decoder.hidden(IDS)
    handle.remove()
    torch.testing.assert_close(written[0], mixed.transpose(1, 2).flatten(2), rtol=0, atol=1e-9)


def test_permuted_heads_have_permuted_entropies() -> None:
    found = am.numbers_under(decoder_of("gpt2"), IDS, {"p": am.HeadPermutation(1)}, layers=(1,), measurements=SMALL)
    columns = [k for k, one in enumerate(found.numbers) if one.head is not None and "entropy" in one.number]
    before, after = found.before[:, columns], found.under["p"].after[:, columns]
    assert np.abs(before - after).max() > 0.01
    np.testing.assert_allclose(np.sort(before, 1), np.sort(after, 1), atol=1e-12)


def test_a_float64_decoder_has_floors_of_its_own() -> None:
    wide = am.decoder_from_model(tiny.tiny_model("llama", layers=1).double())
    found = am.numbers_under(wide, IDS, {"r": am.Rotation(0)}, layers=(1,), measurements=SMALL)
    assert not [entry for entry in judged(found, "r") if entry[2] == "claim refuted"]
    assert 0 < found.floor.max() < 1e-9


def test_one_document_has_a_verdict_without_an_interval() -> None:
    found = am.numbers_under(decoder_of("llama"), IDS[:1], {"f": am.FoldGains("all")}, layers=(1,), measurements=SMALL)
    one = next(v for v in found.verdicts("f", level=0.95, resamples=200, seed=0) if v.word == "changes")
    assert np.isnan(one.low) and "one document: no interval" in str(one)


def test_what_cannot_be_measured_is_refused_and_the_remedy_works() -> None:
    decoder = decoder_of("llama")
    with pytest.raises(am.ArgumentError, match=r"must lie within 0..2, .* but it is \[5\]"):
        am.numbers_under(decoder, IDS, {}, layers=(5,))
    with pytest.raises(am.ArgumentError, match="at least 3 tokens"):
        am.numbers_under(decoder, IDS[:, :2], {}, layers=(1,))
    with pytest.raises(am.ArgumentError, match="must need no calibration"):
        am.numbers_under(decoder, IDS, {}, layers=(1,), measurements=[am.mean_overlap.after("corpus mean")])
    with pytest.raises(am.ArgumentError, match="a declared preparation"):
        am.numbers_under(decoder, IDS, {}, layers=(1,), measurements=[am.mean_overlap])
    found = am.numbers_under(decoder, IDS, {"k": am.KeyBias(1.0, 0)}, layers=(1,), measurements=SMALL)
    assert "rotary positions" in found.refused["k"]
    with pytest.raises(am.ArgumentError, match=r"was not \(rotary positions .*Applied: none"):
        found.verdicts("k", level=0.95, resamples=200, seed=0)


def test_a_dataset_holds_all_of_it_and_judges_alike(tmp_path: Path) -> None:
    chosen = {"f": am.FoldGains("all"), "b": am.ValueBias(), "k": am.KeyBias(1.0, 0)}
    found = am.numbers_under(decoder_of("llama"), IDS, chosen, layers=(1,), measurements=SMALL)
    found.dataset().to_netcdf(tmp_path / "held.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "held.nc", engine="h5netcdf") as data:
        again = am.GaugedNumbers.of(data.load())
    assert again is not None and again.numbers == found.numbers and again.titles == found.titles
    assert again.refused == found.refused and list(again.under) == ["f", "b"]
    choices = {"level": 0.95, "resamples": 200, "seed": 0}
    assert again.rows(**choices) == found.rows(**choices)
    assert {row["verdict"] for row in again.rows(**choices)} == {"changes", "proved and survived"}
    assert again.under["f"].proof == found.under["f"].proof and "float64" in again.under["f"].proof
    assert am.GaugedNumbers.of(data.drop_vars("gauge_after")) is None


def test_coordinate_numbers_have_their_closed_forms() -> None:
    ones, basis = torch.ones(1, 5), torch.eye(5)[:2]
    assert am.largest_coordinate_share.after()(ones) == pytest.approx(0.2)
    assert am.largest_coordinate_share.after()(basis) == am.largest_coordinate_share.after()(3 * basis) == 1.0
    assert am.coordinate_kurtosis.after()(ones) == pytest.approx(1.0)
    assert am.coordinate_kurtosis.after()(basis) == pytest.approx(5.0)
    rows = torch.randn(2000, 8, dtype=torch.float64, generator=generator_of(0))
    assert am.coordinate_kurtosis.after()(rows) == pytest.approx(3 * 8 / 10, rel=0.02)
    assert np.isnan(am.coordinate_kurtosis.after()(torch.zeros(1, 4)))


def test_a_ledger_leaves_the_first_token_out_and_keeps_it_apart() -> None:
    ledger = Ledger(SMALL, norm="RMSNorm", resolution=1e-7)
    rows = torch.eye(6, dtype=torch.float64)[None].clone()
    rows[0, 0] = 7.0
    ledger.hear("stream", 3, rows)
    names, values = ledger.table()
    held = dict(zip(map(str, names), values[0].tolist(), strict=True))
    assert held["stream: mean_overlap | normalize, layer 3"] == 0.0  # the basis vectors alone
    assert held["stream, first token: largest_coordinate_share | as given, layer 3"] == pytest.approx(1 / 6)


@pytest.mark.decoder
def test_every_gauge_of_the_default_decoder_is_verified_and_moves_numbers_where_it_should() -> None:
    decoder = am.load_decoder(prove=False)
    words = decoder.tokenizer("The residual stream of a decoder is read through norms. " * 8).input_ids
    ids = torch.tensor([words[:24], words[24:48]])
    measurements = (*SMALL, am.participation_rank.after("normalize"))
    found = am.numbers_under(decoder, ids, layers=(12,), measurements=measurements)
    assert set(found.under) == set(am.gauges_of(decoder).admitted) and len(found.under) >= 11
    names = [str(one) for one in found.numbers]
    for name, one in found.under.items():
        assert one.difference < 1e-9, one.proof
        assert one.narrow_difference < 10 * one.output_floor, one.proof
        for place, number, word in judged(found, name):
            assert word not in ("claim refuted", "not resolved"), (name, place, number)
            if place == "stream" and not number.startswith(("largest_coordinate_share", "coordinate_kurtosis")):
                assert word == "proved and survived", (name, number)
    share = names.index("stream, first token: largest_coordinate_share | as given, layer 12")
    assert found.before[:, share].min() > 0.9 and found.under["rotation"].after[:, share].max() < 0.1
    read = names.index("after the next norm: mean_overlap | normalize, layer 12")
    for name, least in (("fold-gains", 0.1), ("random-gains", 0.05)):  # seen: 0.86 before, down by 0.24 and by 0.08
        assert (found.before[:, read] - found.under[name].after[:, read]).min() > least, name
