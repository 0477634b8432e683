"""The ladder from identity matrices to the decoder: matrices that reproduce it, a planted budget that is found, laws."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import armillary as am
import tiny
from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.capture import Tap, taps_of
from armillary.models.matrices import plain_weights, without_plain_form
from armillary.oracles import overlap as laws
from armillary.studies.resistance import reproduction
from armillary.studies.resistance.budget import clustering_budget
from armillary.studies.resistance.climbing import CalibratedStep
from armillary.studies.resistance.decoder_rungs import Real, Saved
from armillary.studies.resistance.heads_at_work import HeadsAtWork
from armillary.studies.resistance.idealized import Idealized
from armillary.studies.resistance.projections import Projections
from armillary.studies.resistance.rungs import Workshop
from armillary.studies.resistance.sources import Sources, same_score_spectrum, same_spectrum
from armillary.studies.resistance.study import Resistance
from armillary.studies.resistance.trial import axis_of, form_numbers, head_table
from armillary.studies.resistance.verdict import verdict
from armillary.terms import LONGEST_STEP

if TYPE_CHECKING:
    from pathlib import Path

REBUILT = ("gpt2", "llama", "gpt_neox_sequential", "qwen2", "mistral")
TOKENS, PAIRS = 6, 12


@pytest.mark.parametrize("family", REBUILT)
def test_the_decoder_rebuilt_from_plain_matrices_has_its_own_states_at_every_tap(family: str) -> None:
    decoder = tiny.tiny_decoder(family)
    found = reproduction.require_reproduced(decoder, plain_weights(decoder), tiny.tiny_ids())
    assert set(found) == set(taps_of(decoder))
    assert max(found.values()) < 2e-5


def test_one_wrong_matrix_is_not_a_reproduction() -> None:
    decoder = tiny.tiny_decoder("llama")
    weights = plain_weights(decoder)
    weights.blocks[2].attention.key[0, 0] *= -1  # a view of the decoder's own: both change alike
    assert max(reproduction.departures(decoder, weights, tiny.tiny_ids()).values()) < 2e-5
    object.__setattr__(weights.blocks[2].attention, "key", -weights.blocks[2].attention.key)
    with pytest.raises(CheckMissed, match="at mid 3"):
        reproduction.require_reproduced(decoder, weights, tiny.tiny_ids())


@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("gpt_neox", "side by side"),
        ("gpt_oss", "sinks"),
        ("gemma2", "soft cap"),
        ("bloom", "alibi"),
        ("qwen3", "pass through norms"),
    ],
)
def test_attention_of_another_form_is_refused_with_the_reason(family: str, why: str) -> None:
    decoder = tiny.tiny_decoder(family)
    assert any(why in reason for reason in without_plain_form(decoder))
    with pytest.raises(UnsupportedModelError, match=why):
        plain_weights(decoder)


@pytest.mark.parametrize("silent", [None, 3])
def test_random_directions_keep_the_singular_values_of_what_every_head_computes_behind_its_gain(silent) -> None:
    own = plain_weights(tiny.tiny_decoder("llama")).blocks[0].attention
    gain = torch.linspace(0.2, 3.0, own.value.shape[-1])
    if silent is not None:
        gain[silent] = 0.0
    drawn = same_spectrum(own, torch.Generator().manual_seed(0), gain=gain)
    scores = same_score_spectrum(own, torch.Generator().manual_seed(0), gain=gain)
    value, key = (one.repeat_interleave(len(own.output) // len(one), 0) for one in (own.value, own.key))
    for head in range(len(own.output)):
        pairs = (
            (own.output[head] @ value[head] * gain, drawn.output[head] @ drawn.value[head] * gain),
            (
                own.scale * gain[:, None] * own.query[head].mT @ key[head] * gain,
                gain[:, None] * scores.query[head].mT @ scores.key[head] * gain,
            ),
        )
        for before, after in pairs:
            expected = torch.linalg.svdvals(before.double())[:6]
            torch.testing.assert_close(torch.linalg.svdvals(after.double())[:6], expected, rtol=1e-4, atol=1e-5)


def planted(*, common: float, attraction: float, repulsion: float, layers: int = 2) -> Any:
    """A GPT-2 in which every number is known: tokens a f_0 + b f_i, attention adds along f_0, the MLP takes away from it.

    f_k is a difference of two coordinates, so that no LayerNorm takes a mean out. Attention is uniform and carries
    f_0 only; the MLP's activation is linear where its bias puts it.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    from armillary.models.decoder import decoder_from_model

    width = 2 * PAIRS
    config = GPT2Config(
        vocab_size=PAIRS - 1, n_embd=width, n_layer=layers, n_head=1, n_positions=32, n_inner=1, bos_token_id=None,
        eos_token_id=None, activation_function="gelu",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).double()
    frame = torch.zeros(PAIRS, width, dtype=torch.float64)
    for pair in range(PAIRS):
        frame[pair, 2 * pair], frame[pair, 2 * pair + 1] = 0.5**0.5, -(0.5**0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, parameter in model.named_parameters():
            if "ln_" in name and name.endswith("weight"):
                parameter.fill_(1.0)
        model.transformer.wte.weight.copy_(common * frame[:1] + math.sqrt(1 - common**2) * frame[1:])
        for block in model.transformer.h:
            block.attn.c_attn.weight[:, 2 * width :] = torch.outer(frame[0], frame[0])
            block.attn.c_proj.weight.copy_(attraction * torch.outer(frame[0], frame[0]))
            block.mlp.c_fc.weight.copy_(frame[:1].mT)
            block.mlp.c_fc.bias.fill_(40.0)
            block.mlp.c_proj.weight.copy_(-repulsion * frame[:1])
            block.mlp.c_proj.bias.copy_(40.0 * repulsion * frame[0])
    return decoder_from_model(model, name="planted")


def known_course(*, common: float, attraction: float, repulsion: float, layers: int, eps: float) -> list[float]:
    """The overlap at every tap: a and b are the parts along f_0 and along a token's own direction."""
    a, b, width = common, math.sqrt(1 - common**2), 2 * PAIRS
    found = [a**2 / (a**2 + b**2)]
    for _ in range(layers):
        for force in (attraction, -repulsion):
            a += force * a / math.sqrt((a**2 + b**2) / width + eps)
            found.append(a**2 / (a**2 + b**2))
    return found


@pytest.fixture(scope="module")
def planted_record(tmp_path_factory: pytest.TempPathFactory) -> am.Record:
    decoder = planted(common=0.6, attraction=0.05, repulsion=0.11)
    draw = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(PAIRS - 1, generator=draw)[:TOKENS] for _ in range(5)])
    study = Resistance(
        decoder, am.Documents.from_token_ids(ids[:3]), am.Documents.from_token_ids(ids[3:], ["c", "d"]), rungs=["trained"]
    )  # fmt: skip
    return study.run(tmp_path_factory.mktemp("planted") / "record")


@pytest.mark.parametrize("measurement", ["mean_overlap", "squared_mean_direction", "participation_rank"])
def test_a_planted_repulsive_mlp_is_found_with_the_share_that_it_has(
    planted_record: am.Record, measurement: str
) -> None:
    course = known_course(common=0.6, attraction=0.05, repulsion=0.11, layers=2, eps=1e-5)
    number = {
        "mean_overlap": lambda c: c,
        "squared_mean_direction": lambda c: (1 + (TOKENS - 1) * c) / TOKENS,
        "participation_rank": lambda c: TOKENS / (1 + (TOKENS - 1) * c**2),
    }[measurement]
    steps = np.diff([number(c) for c in course])
    budget = clustering_budget(
        planted_record, "trained", measurement=measurement, preparation="normalize", tokens="all"
    )
    for part, first in (("attention", 0), ("mlp", 1)):
        expected = steps[first::2]
        assert np.abs(budget.shares[part] - expected).max() < 1e-6
        assert budget.total(part).value == pytest.approx(expected.sum(), abs=1e-6)
    up = measurement != "participation_rank"
    assert budget.signs("attention") == ((3, 2) if up else (0, 0))
    assert budget.signs("mlp") == ((0, 0) if up else (3, 2))


def test_shares_of_all_sublayers_add_up_to_the_change_from_embedding_to_last_block(planted_record: am.Record) -> None:
    budget = clustering_budget(
        planted_record, "trained", measurement="mean_overlap", preparation="normalize", tokens="without_first"
    )
    where = {"condition": "trained", "tap": "block", "tokens": "without_first", "preparation": "normalize"}
    course = planted_record.dataset["mean_overlap"].sel(where)
    total = sum(budget.shares[part].sum(axis=1) for part in ("attention", "mlp"))
    np.testing.assert_allclose(total, (course.sel(layer=2) - course.sel(layer=0)).values, atol=1e-12)


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_the_idealized_rung_from_an_orthonormal_embedding_follows_the_law_of_the_overlap(mask: str) -> None:
    decoder = planted(common=0.0, attraction=0.0, repulsion=0.0, layers=4)
    workshop = Workshop(decoder, Sources(decoder, 0), tolerance=1e-9)
    rung = Idealized(beta=1.0, mask=mask, clock="unit")
    ids = torch.arange(8)[None].repeat(2, 1)
    overlaps: list[Any] = []
    with rung.opened(workshop) as (through, _):
        through(ids, lambda tap, state, read: overlaps.append((state @ state.mT)[0]))
    expected = laws.equiangular(np.asarray(rung.times(workshop)), tokens=8, overlap=0.0, beta=1.0)
    apart = max(float((found - c).fill_diagonal_(0).abs().max()) for found, c in zip(overlaps, expected, strict=True))
    assert (apart < 1e-7) == (mask == "full")  # under a mask tokens do not stay equiangular


def climbed(decoder: Any, path: Path, *rungs: str, tokens: int = 10) -> am.Record:
    ids = tiny.tiny_ids(documents=5, tokens=tokens)
    documents, calibration = am.Documents.from_token_ids(ids[:3]), am.Documents.from_token_ids(ids[3:], ["c", "d"])
    return Resistance(decoder, documents, calibration, rungs=rungs, chunk=2).run(path)


def test_paced_steps_turn_calibration_documents_by_the_mean_angle_of_the_decoder_where_that_can_be(tmp_path) -> None:
    data = climbed(tiny.tiny_decoder("llama"), tmp_path / "record", "identity", "trained-qkvo-mlp").dataset
    reached = 0
    for name in ("identity", "trained-qkvo-mlp"):
        here = data.sel(condition=name, document=data["document"][0])
        length, wanted, realized = (here[one].values for one in ("step_length", "angle_wanted", "angle_realized"))
        assert (realized <= wanted * 1.01)[np.isfinite(wanted)].all()
        short = realized < wanted * 0.99
        assert (length[short] == 100).all()
        reached += int((~short & np.isfinite(wanted)).sum())
    assert reached >= 6


def test_an_angle_that_no_step_reaches_keeps_the_longest_step_and_one_that_is_reached_is_reached() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(3, 9, 12, generator=draw, dtype=torch.float64), dim=-1)
    update = rows + 0.5 * torch.randn(3, 9, 12, generator=draw, dtype=torch.float64)  # far from tangent
    step = CalibratedStep((0.4,), (3.1,))
    moved = step.moved(rows, update, Tap(1, "mid"))
    angle = torch.acos((rows * moved).sum(-1).clamp(-1, 1))[:, 1:].mean()
    assert float(angle) == pytest.approx(0.4, rel=1e-6)
    step.moved(rows, update, Tap(1))
    length, wanted, realized = step.found[Tap(1)]
    assert (length, wanted) == (LONGEST_STEP, 3.1)
    assert realized < 3.1


def test_a_share_without_rogue_coordinates_leaves_the_same_ones_out_on_both_sides_of_a_sublayer(tmp_path) -> None:
    decoder = planted(common=0.6, attraction=0.05, repulsion=0.11)
    last = decoder.model.transformer.h[1].mlp
    with torch.no_grad():
        last.c_proj.bias[20:23] += torch.tensor([9.0, -5.0, 3.0], dtype=torch.float64)  # rogue from here on only
    draw = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(PAIRS - 1, generator=draw)[:TOKENS] for _ in range(5)])
    documents, calibration = am.Documents.from_token_ids(ids[:3]), am.Documents.from_token_ids(ids[3:], ["c", "d"])
    record = Resistance(decoder, documents, calibration, rungs=["trained"]).run(tmp_path / "record")
    sets = {tuple(one) for one in record.provenance["calibration"]["rogue_coordinates"]["trained"].values()}
    assert len(sets) == 1
    kept = [one for one in range(2 * PAIRS) if one not in next(iter(sets))]
    states = am.models.capture.capture(decoder, ids[:3], taps_of(decoder)).states[..., kept].double()
    course = am.mean_overlap.after("normalize")(states.flatten(0, 1)).reshape(3, -1).numpy()
    budget = clustering_budget(
        record, "trained", measurement="mean_overlap", preparation="without rogue coordinates, normalize", tokens="all"
    )
    np.testing.assert_allclose(budget.shares["mlp"][:, 1], course[:, -1] - course[:, -2], atol=1e-6)
    assert np.abs(budget.shares["mlp"][:, 1]).min() > 0.01


def test_attention_that_does_nothing_takes_no_time_of_the_flow_and_a_rung_that_fails_leaves_the_others(
    tmp_path,
) -> None:
    decoder = tiny.tiny_decoder("llama")
    with torch.no_grad():
        decoder.model.model.layers[1].self_attn.o_proj.weight.zero_()
    record = climbed(decoder, tmp_path / "record", "idealized-beta1-causal-ratio", "trained-qkvo", "gaussian-all")
    failed = {one["name"]: one["failed"] for one in record.provenance["conditions"] if "failed" in one}
    assert set(failed) == {"trained-qkvo", "gaussian-all"}
    assert "attention of block 2" in failed["trained-qkvo"]
    course = record.dataset["mean_overlap"].sel(tap="block", tokens="all", preparation="normalize")
    assert np.isnan(course.sel(condition="trained-qkvo").values).all()
    flowed = course.sel(condition="idealized-beta1-causal-ratio").values
    assert np.isfinite(flowed).all()
    assert (flowed[..., 1, :] == flowed[..., 2, :]).all() or (flowed[1] == flowed[2]).all()


def test_a_token_without_a_direction_is_named_before_the_run_and_the_decoder_alone_takes_it(tmp_path: Path) -> None:
    decoder = tiny.tiny_decoder("llama")
    token = int(tiny.tiny_ids(documents=5, tokens=10)[1, 4])
    with torch.no_grad():
        decoder.model.model.embed_tokens.weight[token] = 0
    with pytest.raises(ArgumentError, match=f"token {token}.* of document .* zero embedding.*--rungs decoder"):
        climbed(decoder, tmp_path / "none", "trained-qk")
    record = climbed(decoder, tmp_path / "record", "decoder")
    path = record.dataset["token_path"].isel(document=1)
    assert np.isnan(path.sel(layer=0, position=4).values).all()
    assert np.isfinite(path.sel(layer=0, position=3).values).all()
    assert verdict(record)


def test_where_matrices_do_not_rebuild_the_decoder_the_remedy_can_be_typed_and_runs(tmp_path: Path) -> None:
    def other(half: bool) -> Any:
        decoder = tiny.tiny_decoder("llama")
        facts = dataclasses.replace(decoder.facts, dtype="bfloat16") if half else decoder.facts
        return dataclasses.replace(decoder, facts=facts)

    wrong = plain_weights(tiny.tiny_decoder("llama", seed=3))
    ids = tiny.tiny_ids(documents=4, tokens=8)
    with pytest.raises(CheckMissed, match=r"\(--rungs idealized,decoder\)"):
        reproduction.require_reproduced(other(False), wrong, ids)
    with pytest.raises(CheckMissed, match=r"measure it in float32 \(--dtype float32\)"):
        reproduction.require_reproduced(other(True), wrong, ids)
    record = climbed(tiny.tiny_decoder("llama"), tmp_path / "record", *["idealized", "decoder"])
    assert "no rung is built from matrices" in record.provenance["reproduction"]["rebuilt"]


def test_a_run_that_is_stopped_goes_on_from_its_rungs_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    decoder = tiny.tiny_decoder("llama")
    ids = tiny.tiny_ids(documents=5, tokens=8)
    documents, calibration = am.Documents.from_token_ids(ids[:3]), am.Documents.from_token_ids(ids[3:], ["c", "d"])
    rungs = ["trained", "trained-qkvo", "gaussian", "trained-mlp-only"]
    study = Resistance(decoder, documents, calibration, rungs=rungs, chunk=2)
    whole = study.run(tmp_path / "whole")

    class Stopped(Exception):
        pass

    def stop(sentence: str, done: int, total: int) -> None:
        if done == 7:
            raise Stopped

    with pytest.raises(Stopped):
        study.run(tmp_path / "parts", progress=stop)
    told: list[str] = []
    resumed = study.run(tmp_path / "parts", notice=told.append)
    assert "passes are finished" in told[0]
    assert resumed.measurements_hash == whole.measurements_hash


def test_rungs_climbed_side_by_side_in_other_processes_and_resumed_there_give_the_same_bits(tmp_path: Path) -> None:
    decoder = tiny.tiny_decoder("llama")
    ids = tiny.tiny_ids(documents=5, tokens=8)
    documents, calibration = am.Documents.from_token_ids(ids[:3]), am.Documents.from_token_ids(ids[3:], ["c", "d"])
    rungs = ["trained", "ablated-mlp", "trained-qkvo", "gaussian", "idealized-beta1-full-ratio"]
    study = Resistance(decoder, documents, calibration, rungs=rungs, chunk=2)
    here = study.run(tmp_path / "here")

    class Stopped(Exception):
        pass

    def stop(sentence: str, done: int, total: int) -> None:
        if done == 6:  # in the middle of the second rung
            raise Stopped

    with pytest.raises(Stopped):
        study.run(tmp_path / "there", progress=stop)
    told: list[tuple[int, int]] = []
    side_by_side = am.Backend("processes", 2)
    there = study.run(
        tmp_path / "there", backend=side_by_side, progress=lambda _, done, total: told.append((done, total))
    )
    assert there.measurements_hash == here.measurements_hash
    assert there.provenance["conditions"] == here.provenance["conditions"]
    assert told[-1][0] == told[-1][1]


def test_an_unknown_rung_is_refused_with_the_names_there_are() -> None:
    decoder = tiny.tiny_decoder("llama")
    ids = tiny.tiny_ids(documents=4, tokens=8)
    study = Resistance(
        decoder, am.Documents.from_token_ids(ids[:2]), am.Documents.from_token_ids(ids[2:], ["c", "d"]), rungs=["none"]
    )  # fmt: skip
    with pytest.raises(ArgumentError, match="Groups are idealized, attention"):
        _ = study.climbed


def test_rungs_that_do_not_apply_are_listed_with_the_reason_and_the_rest_remain() -> None:
    decoder = tiny.tiny_decoder("gpt_neox")
    ids = tiny.tiny_ids(documents=4, tokens=8)
    study = Resistance(
        decoder, am.Documents.from_token_ids(ids[:2]), am.Documents.from_token_ids(ids[2:], ["c", "d"])
    )  # fmt: skip
    assert "side by side" in study.left_out["trained-qkvo"]
    assert {"trained", "ablated-mlp", "idealized-beta1-full-unit"} <= {rung.name for rung in study.climbed}


def test_rungs_with_mlps_are_listed_as_left_out_where_the_mlp_is_no_module_of_its_own() -> None:
    ids = tiny.tiny_ids(documents=4, tokens=8)
    study = Resistance(
        tiny.tiny_decoder("opt"), am.Documents.from_token_ids(ids[:2]), am.Documents.from_token_ids(ids[2:], ["c", "d"])
    )  # fmt: skip
    assert "the MLP of block 1 lies in no module" in study.left_out["trained-mlp-only"]
    climbed = {rung.name for rung in study.climbed}
    assert "trained-qkvo" in climbed
    assert not any("mlp" in name for name in climbed if not name.startswith("ablated"))


def test_the_trace_of_a_projection_is_one_of_minus_one_and_zero_for_a_rotation() -> None:
    frame = torch.linalg.qr(torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    for sign in (1.0, -1.0):
        found = form_numbers(sign * frame, frame)
        assert found["trace"] == pytest.approx(sign, abs=1e-12)
        assert found["positive_share"] == pytest.approx((1 + sign) / 2, abs=1e-12)
        assert found["antisymmetric_share"] == pytest.approx(0.0, abs=1e-12)
    turned = frame[:, :2] @ torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    found = form_numbers(turned, frame[:, :2])
    assert found["trace"] == pytest.approx(0.0, abs=1e-12)
    assert found["antisymmetric_share"] == pytest.approx(1.0, abs=1e-12)


def test_numbers_of_a_head_are_those_of_its_dense_matrix() -> None:
    draw = torch.Generator().manual_seed(3)
    left, right = (torch.randn(10, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    dense = left @ right.mT
    values = torch.linalg.eigvalsh((dense + dense.mT) / 2)
    found = form_numbers(left, right)
    assert found["top"] == pytest.approx(float(values[-1]))
    assert found["second"] == pytest.approx(float(values[-2]))
    assert found["bottom"] == pytest.approx(float(values[0]))
    assert found["trace"] == pytest.approx(float(dense.trace() / (dense.norm() * 3**0.5)))


def test_folding_the_gain_into_the_matrices_leaves_the_numbers_of_a_head_as_they_are() -> None:
    weights = plain_weights(tiny.tiny_decoder("llama"))
    block = weights.blocks[1]
    assert block.attention_norm is not None
    gain = block.attention_norm.gain
    folded = {name: getattr(block.attention, name) * gain for name in ("query", "key", "value")}
    norm = dataclasses.replace(block.attention_norm, gain=torch.ones_like(gain))
    other = dataclasses.replace(
        block, attention=dataclasses.replace(block.attention, **folded), attention_norm=norm
    )  # fmt: skip
    blocks = (weights.blocks[0], other, *weights.blocks[2:])
    before, after = (head_table(one, gain="folded") for one in (weights, dataclasses.replace(weights, blocks=blocks)))
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, rtol=1e-5, atol=1e-7)


def test_identity_scores_have_their_beta_for_a_slope_and_are_explained_by_overlaps() -> None:
    dim, beta = 24, 3.0
    decoder = tiny.tiny_decoder("gpt2", width=dim, heads=1)
    weights = plain_weights(decoder)
    eye = torch.eye(dim)[None]
    blocks = tuple(
        dataclasses.replace(
            block,
            attention=dataclasses.replace(
                block.attention, query=eye, key=eye, query_offset=None, key_offset=None, scale=beta
            ),
            attention_norm=None,
        )
        for block in weights.blocks
    )
    heads = HeadsAtWork(dataclasses.replace(weights, blocks=blocks), layers=(0, 1, 2), documents=2)
    rows = torch.nn.functional.normalize(
        torch.randn(2, 9, dim, generator=torch.Generator().manual_seed(0)), dim=-1
    )  # fmt: skip
    heads.add(Tap(0), rows)
    assert heads.arrays["score_slope"][:, 1] == pytest.approx(beta, abs=1e-5)
    assert heads.arrays["score_explained"][:, 1] == pytest.approx(1.0, abs=1e-5)


def test_tokens_at_two_opposed_points_of_an_axis_are_seen_as_bipolar() -> None:
    weights = plain_weights(tiny.tiny_decoder("llama"))
    axis = axis_of(weights.blocks[0], 1).float()
    rows = torch.stack([axis, axis, -axis, axis, -axis, -axis, axis])[None]
    heads = HeadsAtWork(weights, layers=(0, 1), documents=1)
    heads.add(Tap(0), rows)
    assert heads.arrays["axis_two_points"][0, 1, 1] == pytest.approx(1.0, abs=1e-5)
    assert heads.arrays["axis_minority"][0, 1, 1] == pytest.approx(0.5, abs=1e-6)
    assert heads.arrays["axis_strength"][0, 1, 1] == pytest.approx(24.0, rel=1e-5)


def test_states_of_three_directions_need_no_more_than_these_and_all_directions_give_the_number_itself() -> None:
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(2, 20, 3, generator=draw) @ torch.randn(3, 16, generator=draw)
    found = Projections(layers=(0, 1), depth=1, width=16, documents=2, seed=0)
    found.add(Tap(0), states)
    whole = am.mean_overlap.after("normalize")(states[:, 1:]).numpy()
    principal, random = found.arrays["projected_mean_overlap"][:, 0].transpose(1, 0, 2)
    assert found.kept == (2, 4, 8, 16)
    for place in (1, 2, 3):
        np.testing.assert_allclose(principal[:, place], whole, atol=1e-6)
    np.testing.assert_allclose(random[:, -1], whole, atol=1e-9)
    assert np.abs(random[:, 1] - whole).max() > 1e-3


def test_a_checkpoint_of_the_same_decoder_is_a_rung_and_another_shape_is_refused(tmp_path: Path) -> None:
    folder = tiny.saved(tiny.tiny_llama(layers=2, seed=5), tmp_path / "step-0")
    other = tiny.saved(tiny.tiny_llama(layers=3), tmp_path / "other")
    decoder = tiny.tiny_decoder("llama", layers=2)
    ids = tiny.tiny_ids(documents=4, tokens=8)
    documents, calibration = am.Documents.from_token_ids(ids[:2]), am.Documents.from_token_ids(ids[2:], ["c", "d"])
    start = Saved(source=str(folder), name="step-0", label="step 0")
    record = Resistance(decoder, documents, calibration, rungs=["trained"], further=[start]).run(tmp_path / "record")
    assert [str(name) for name in record.dataset["condition"].values] == ["trained", "step-0"]
    found = record.contrast("trained", "step-0", "mean_overlap")
    assert float(found["value"].abs().max()) > 0
    wrong = Saved(source=str(other), name="other", label="another")
    missing = Saved(source=str(tmp_path / "nowhere"), name="none", label="none")
    for rung, why in ((wrong, "same layers"), (missing, "holds no config.json")):
        with pytest.raises(ArgumentError, match=why):
            _ = Resistance(decoder, documents, calibration, rungs=["trained"], further=[rung]).climbed


@pytest.mark.decoder
def test_the_default_decoder_rebuilt_from_its_matrices_is_itself_at_every_layer() -> None:
    decoder = am.load_decoder(prove=False)
    ids = am.Documents.from_topics(decoder.tokenizer, limit=1, tokens=32).token_ids
    found = reproduction.require_reproduced(decoder, plain_weights(decoder), ids)
    assert len(found) == 61
    assert max(found.values()) < 1e-4


def test_fresh_gpt2_of_the_small_size_has_the_overlaps_of_the_wide_limit_within_the_spread_of_its_seeds() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from armillary.models.decoder import decoder_from_model
    from armillary.training.prediction import wide_decoder

    config = GPT2Config(vocab_size=400, n_positions=64, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(0)
    decoder = decoder_from_model(GPT2LMHeadModel(config).eval(), name="gpt2 small")
    workshop = Workshop(decoder, Sources(decoder, 0), tolerance=1e-6)
    ids = torch.stack([torch.randperm(400, generator=torch.Generator().manual_seed(seed))[:64] for seed in range(2)])
    overlap = am.mean_overlap.after("normalize")
    found: dict[int, list[float]] = {1: [], 12: []}
    for seed in (1, 2, 3):
        with Real(condition=am.Initial(seed, "library")).opened(workshop) as (through, _):
            through(
                ids,
                lambda tap, state, read: (
                    found[tap.layer].append(float(overlap(state).mean()))
                    if tap.place == "block" and tap.layer in found
                    else None
                ),
            )
    with am.Initial(1, "library").applied(decoder) as applied:
        law = wide_decoder(applied.decoder).numbers(ids[0].tolist(), skipped=0)["mean_overlap"]
    for layer, low, high in ((1, 0.160, 0.175), (12, 0.535, 0.606)):  # spread of six seeds
        mean = float(np.mean(found[layer]))
        assert low <= mean <= high
        assert abs(mean - law[layer]) <= (high - low) / 2
