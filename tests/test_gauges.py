"""Gauges: other weights and the same function on every family, refusals with their reasons, maps that are wrong on purpose."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import armillary as am
import tiny
from armillary.models.gauges.draws import conditioned, conformal, fixing_ones, generator_of
from armillary.models.gauges.listing import controls, gauges, named_gauges
from armillary.models.gauges.precise import float64_copy, kept_wide
from armillary.models.gauges.rows import INSIDE
from armillary.models.gauges.verification import FLOORS, WITHIN
from armillary.models.gauges.wiring import Wiring
from armillary.models.proofs import fingerprints

KNOWN = tuple(name for name in tiny.families() if name in INSIDE)
IDS = tiny.tiny_ids(documents=2, tokens=12)


def decoder_of(family: str, **options: Any) -> am.Decoder:
    """A tiny decoder with biases wherever its family may have some."""
    return tiny.tiny_decoder(family, **({"attention_bias": True} if family == "llama" else {}), layers=2, **options)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("family", KNOWN)
def test_every_gauge_that_a_family_admits_leaves_its_outputs_unchanged(family: str, tied: bool) -> None:
    decoder = decoder_of(family, tied=tied)
    admitted = am.gauges_of(decoder).admitted
    trial = am.GaugeTrial(decoder, IDS)
    assert len(admitted) >= 9
    for name, gauge in admitted.items():
        under, proof = trial.under(gauge)
        assert proof.difference < 1e-11, (name, str(proof))
        assert proof.narrow_difference <= FLOORS * proof.floor, (name, str(proof))
        assert proof.moved > 0 or name == "neuron-permutation", name  # an exact zero would say that nothing was applied
        assert under.facts.weight_hash != decoder.facts.weight_hash, name
        assert str(proof) in under.facts.notes[-1]


CONTROLS = {
    "rotation-without-folding": "llama",
    "fold-without-biases": "gpt2",
    "head-permutation-across-key-groups": "llama",
    "value-bias-dropped": "qwen2",
    "full-rotation-of-layer-norms": "gpt2",
    "stream-scale-with-eps-kept": "llama",
    "general-query-key-under-rotary": "llama",
    "query-key-without-biases": "gpt2",
    "value-output-transposed": "qwen2",
    "neuron-scaling-of-a-smooth-activation": "gpt_neox",
    "key-bias-under-rotary": "qwen2",
    "feature-mean-of-a-tied-unembedding": "gpt2",
    "unembedding-shift-under-a-cap": "gemma2",
}


def test_each_map_that_is_wrong_on_purpose_is_tried_on_a_family() -> None:
    assert set(CONTROLS) == set(controls())


@pytest.mark.parametrize(("name", "family"), CONTROLS.items())
def test_a_map_that_is_wrong_on_purpose_moves_the_outputs_and_is_refused_with_the_difference(
    name: str, family: str
) -> None:
    decoder = decoder_of(family)
    before = fingerprints(decoder.model)
    trial = am.GaugeTrial(decoder, IDS)
    with pytest.raises(am.CheckMissed, match=rf"Gauge {name} must leave .* moved by") as refused:
        trial.under(controls()[name])
    words = str(refused.value)
    assert float(words.split("moved by ")[1].split(" ")[0]) > 1e-4, words
    assert "left as it was" in words
    assert fingerprints(decoder.model) == before


REFUSALS = [
    ("gemma2", "rotation", "post_attention_layernorm acts on what is written into the stream"),
    ("gemma3", "rotation", "post_attention_layernorm acts on what is written into the stream"),
    ("qwen3", "query-key", "q_norm normalizes each head's vectors"),
    ("gemma3", "query-key", "q_norm normalizes each head's vectors"),
    ("gpt2", "neuron-scaling", "its activation f knows its scale"),
    ("gpt_neox", "neuron-scaling", "its activation f knows its scale"),
    ("gemma2", "unembedding-shift", "logits are capped at 30"),
    ("qwen2", "key-bias", "rotary positions turn a key bias differently"),
    ("qwen2", "value-bias", "its output projection has no bias"),
    ("llama", "remove-feature-mean", "an RMS norm reads the mean"),
    ("llama", "neuron-scaling", "its MLPs are gated"),
    ("gpt2", "up-down-scaling", "its MLPs have no gate"),
    ("gpt2", "query-key-gains", "pass no norm of their own"),
    ("opt", "stream-scale", "no field of its configuration holds eps"),
]


@pytest.mark.parametrize(("family", "name", "why"), REFUSALS)
def test_what_a_model_does_not_admit_is_refused_with_the_reason(family: str, name: str, why: str) -> None:
    decoder = decoder_of(family)
    assert why in am.gauges_of(decoder).refused[name]
    assert f"{name}: refused, " in str(am.gauges_of(decoder))
    with pytest.raises(am.UnsupportedModelError, match=f"{name} is refused"):
        decoder.under(gauges()[name], IDS)


@pytest.mark.parametrize("family", ["gemma2", "qwen3", "gpt2", "qwen2"])
def test_a_refused_gauge_would_have_moved_the_outputs(family: str) -> None:
    """The reasons are not caution: without them each of these maps fails its proof."""
    name = {"gemma2": "rotation", "qwen3": "query-key", "gpt2": "neuron-scaling", "qwen2": "key-bias"}[family]
    gauge = gauges()[name]
    stubborn = type("Stubborn", (type(gauge),), {"refusal": lambda self, wiring: None})
    made = stubborn(**vars(gauge))
    if family == "qwen2":  # it masks what positions turn, so that nothing would be left to add
        made = controls()["key-bias-under-rotary"]
    with pytest.raises(am.CheckMissed, match="moved by"):
        decoder_of(family).under(made, IDS)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "gemma3"])
def test_saving_and_loading_keeps_the_function_and_the_weights(family: str, tmp_path: Path) -> None:
    decoder = decoder_of(family, tied=True)
    trial = am.GaugeTrial(decoder, IDS)
    names = ("fold-gains", "signed-permutation", "stream-scale", "unembedding-shift")
    for name in names:
        if name not in am.gauges_of(decoder).admitted:
            continue
        under, proof = trial.under(gauges()[name])
        loaded = am.load_decoder(tiny.saved(under.model, tmp_path / name))
        assert loaded.facts.tied == under.facts.tied == (not proof.untied)
        assert float((loaded.logits(IDS) - under.logits(IDS)).abs().max()) == 0.0, name
        under.model.tie_weights()  # what is no longer tied stays so when the library is asked to tie
        assert float((loaded.logits(IDS) - under.logits(IDS)).abs().max()) == 0.0, name


def test_a_tie_is_kept_by_signed_permutation_and_scale_and_copied_by_what_needs_it() -> None:
    trial = am.GaugeTrial(decoder_of("llama", tied=True), IDS)
    untied = {name: trial.under(gauge)[1].untied for name, gauge in am.gauges_of(trial.decoder).admitted.items()}
    assert {name for name, copied in untied.items() if copied} == {
        "fold-gains",
        "random-gains",
        "rotation",
        "unembedding-shift",
    }
    assert not untied["signed-permutation"] and not untied["stream-scale"]


def test_untying_can_be_forbidden_and_folding_the_blocks_alone_works_tied() -> None:
    decoder = decoder_of("gpt2", tied=True)
    refused = am.gauges_of(decoder, untie="never").refused
    assert 'and `untie` is "never"' in refused["fold-gains"]
    with pytest.raises(am.UnsupportedModelError, match="never"):
        decoder.under(am.FoldGains("all"), IDS, untie="never")
    under = decoder.under(am.FoldGains("blocks"), IDS, untie="never")
    assert under.facts.tied
    gain = under.gain(under.norms[0])
    assert gain is not None and torch.equal(gain, torch.ones_like(gain))
    with pytest.raises(am.ArgumentError, match='must be "by copy" or "never"'):
        decoder.under(am.FoldGains("all"), IDS, untie="sometimes")  # type: ignore[arg-type]


def test_the_decoder_itself_is_left_alone() -> None:
    decoder = decoder_of("qwen3", tied=True)
    before, epsilon = fingerprints(decoder.model), decoder.model.config.rms_norm_eps
    for gauge in am.gauges_of(decoder).admitted.values():
        decoder.under(gauge, IDS)
    assert fingerprints(decoder.model) == before
    assert decoder.model.config.rms_norm_eps == epsilon
    assert decoder.model.config.tie_word_embeddings
    assert decoder.head.weight is decoder.embedding.weight


def test_half_precision_is_refused_and_float32_is_not() -> None:
    model = tiny.tiny_model("llama", layers=1)
    half = am.decoder_from_model(model.to(torch.bfloat16))
    with pytest.raises(am.ArgumentError, match=r"must be float32 or float64 .* Load the decoder with `dtype` float32"):
        half.under(am.Rotation(0), IDS)
    am.decoder_from_model(model.float()).under(am.Rotation(0), IDS)


def test_a_float64_decoder_is_verified_in_float64_alone() -> None:
    trial = am.GaugeTrial(am.decoder_from_model(tiny.tiny_model("gpt2", layers=1).double()), IDS)
    under, proof = trial.under(am.Rotation(3))
    assert under.facts.dtype == "float64" and under.embedding.weight.dtype is torch.float64
    assert math.isnan(proof.floor) and proof.held and "own type" not in str(proof)


def test_a_family_without_a_row_admits_no_gauge_and_says_so() -> None:
    decoder = tiny.tiny_decoder("mixtral", layers=1)
    table = am.gauges_of(decoder)
    assert not table.admitted and set(table.refused) == set(gauges())
    with pytest.raises(am.UnsupportedModelError, match="no row says where they lie"):
        decoder.under(am.Rotation(0), IDS)


def test_the_library_takes_norms_through_float32_and_the_proof_does_not() -> None:
    """Fold and rotate: in float64 weights the stock norm would show its own rounding in place of the gauge's."""
    decoder = decoder_of("llama")
    trial = am.GaugeTrial(decoder, IDS)
    plain = float64_copy(decoder).logits(IDS)
    with trial.applied(am.Rotation(0)) as applied:
        narrowed = float((applied.logits(IDS) - plain).abs().max())
        with kept_wide():
            wide = float((applied.logits(IDS) - trial.logits).abs().max())
    assert wide < 1e-11 < WITHIN < narrowed
    norm = float64_copy(decoder).norms[0]
    rows = torch.randn(5, decoder.facts.width, dtype=torch.float64, generator=generator_of(0))
    with kept_wide():
        out = norm(rows)
    exact = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight
    torch.testing.assert_close(out, exact, rtol=1e-14, atol=0)


def test_fresh_models_would_let_wrong_maps_pass() -> None:
    """Why all gains and biases are random here: with gains of one a rotation without folding is no mistake."""
    model = tiny.tiny_model("llama", layers=2)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data.fill_(1.0)
    decoder = am.decoder_from_model(model)
    decoder.under(controls()["rotation-without-folding"], IDS)


def test_condition_numbers_that_no_map_can_have_or_the_type_cannot_resolve_are_refused() -> None:
    for number in (0.5, math.inf, math.nan):
        with pytest.raises(am.ArgumentError, match="at least 1 for a map that can be undone"):
            am.ValueOutput(number, seed=0)
    decoder = decoder_of("llama")
    with pytest.raises(am.UnsupportedModelError, match="more than float32 can resolve"):
        decoder.under(am.ValueOutput(1e5, seed=0), IDS)
    decoder.under(am.ValueOutput(10.0, seed=0), IDS)


def test_a_gauge_that_float32_cannot_carry_is_refused_and_float64_carries_it() -> None:
    """A condition number that float64 resolves moves float32 by many floors: the copy would not be the decoder."""
    gauge = am.ValueOutput(8000.0, seed=0)
    with pytest.raises(am.CheckMissed, match=r"within 10 rounding floors .* load it with `dtype` float64") as refused:
        decoder_of("llama").under(gauge, IDS)
    assert "in float64 by" in str(refused.value)
    wide = am.decoder_from_model(tiny.tiny_model("llama", attention_bias=True, layers=2).double())
    wide.under(gauge, IDS)


def test_a_gain_of_zero_with_a_bias_that_nobody_can_hold_is_not_folded() -> None:
    model = tiny.tiny_model("gpt2", layers=1)
    model.transformer.ln_f.weight.data[3] = 0.0
    decoder = am.decoder_from_model(model)
    assert "gain of zero and a bias" in am.gauges_of(decoder).refused["fold-gains"]
    decoder.under(am.FoldGains("blocks"), IDS)


def test_rotary_frequencies_cast_with_the_whole_model_change_nothing() -> None:
    """`model.double()` casts them too; the library takes them back to float32 in every pass, and so does the copy."""
    model = tiny.tiny_model("llama", layers=1)
    plain = am.GaugeTrial(am.decoder_from_model(model), IDS).logits
    wide = am.GaugeTrial(am.decoder_from_model(model.double()), IDS).logits
    torch.testing.assert_close(wide, plain, rtol=0, atol=1e-12)


def test_several_gauges_at_once_are_one_gauge() -> None:
    decoder = decoder_of("llama", tied=True)
    every = am.Composition(tuple(am.gauges_of(decoder).admitted.values()))
    _, proof = am.GaugeTrial(decoder, IDS).under(every)
    assert proof.difference < 1e-11 and proof.compared == "log-probabilities"
    assert set(every.reach) >= {"stream", "read", "query", "key", "value", "neuron", "attention"}
    wrong = am.Composition((am.NeuronPermutation(0), am.NeuronScaling(0.5, 0)))
    assert (
        wrong.refusal(am.GaugeTrial(decoder, IDS).wiring) == "neuron-scaling: its MLPs are gated: see up-down-scaling"
    )


def test_draws_are_what_they_are_called() -> None:
    generator = generator_of(1)
    ones = torch.ones(7, dtype=torch.float64)
    q = fixing_ones(7, generator)
    torch.testing.assert_close(q @ ones, ones, rtol=0, atol=1e-14)
    torch.testing.assert_close(q @ q.T, torch.eye(7, dtype=torch.float64), rtol=0, atol=1e-14)
    assert float(torch.linalg.cond(conditioned(6, 30.0, generator))) == pytest.approx(30.0)
    m = conformal(6, 30.0, generator)
    assert float(torch.linalg.cond(m)) == pytest.approx(30.0)
    angles = torch.rand(3, generator=generator, dtype=torch.float64)
    c, s = torch.diag(angles.cos()), torch.diag(angles.sin())
    turn = torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])
    torch.testing.assert_close(m @ turn, turn @ m, rtol=0, atol=1e-13)


def test_a_gauge_of_ones_own_is_verified_like_the_others() -> None:
    class NegatedValues(am.Gauge):
        name = "negated-values"
        label = "values and outputs times minus one"
        forgets = False

        def apply(self, wiring: Wiring) -> None:
            for block in wiring.blocks:
                bias = block.value.bias
                block.value.put(-block.value.matrix, None if bias is None else -bias)
                if not self.forgets:
                    block.attention_output.matrix.neg_()

    decoder = decoder_of("qwen2")
    assert "negated-values: logits move by" in decoder.under(NegatedValues(), IDS).facts.notes[-1]
    NegatedValues.forgets = True
    with pytest.raises(am.CheckMissed, match="negated-values"):
        decoder.under(NegatedValues(), IDS)


def test_names_are_found_and_unknown_ones_are_refused_with_the_list() -> None:
    assert list(named_gauges(("rotation", "query-key"))) == ["rotation", "query-key"]
    assert named_gauges(("all",)) == gauges()
    with pytest.raises(am.ArgumentError, match=r"there is no 'rotations'. Choose among .*rotation.*, or all"):
        named_gauges(("rotations",))
    assert gauges(seed=3)["rotation"] == am.Rotation(3)
    assert gauges(condition_number=5.0)["query-key"] == am.QueryKeyMaps(5.0, 0)
