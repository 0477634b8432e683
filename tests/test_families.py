"""Every family is one row that proves itself; a wrong row is caught by name; what no row names passes the same proof or not."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from typing import Any

import pytest
import torch

import family_table
from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.capture import Tap, capture, hook_count, taps_of
from armillary.models.conditions import Ablated, fingerprints
from armillary.models.contract import prove, require
from armillary.models.decoder import Decoder, decoder_from_model, load_decoder
from armillary.models.evidence import gathered
from armillary.models.families import FAMILIES, family_of
from armillary.models.inference import inferred
from armillary.models.removal import cuts_of
from armillary.models.trials import batching
from tiny import (
    CONTEXT,
    EXPERTS,
    GROUPED,
    LISTED,
    OWN_NAMES,
    USUAL,
    built,
    families,
    randomized,
    saved,
    tiny_decoder,
    tiny_gpt2,
    tiny_ids,
    tiny_llama,
    tiny_model,
)

EVERY = pytest.mark.parametrize("family", families())
OWN = {"vocab_size": 260, "bos_token_id": None, "eos_token_id": None}
GPT = {**OWN, "n_embd": 24, "n_head": 4, "n_positions": CONTEXT}
UNLISTED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "StableLM": ("StableLmConfig", "StableLmForCausalLM", GROUPED, "sequential"),
    "StableLM, parallel": (
        "StableLmConfig",
        "StableLmForCausalLM",
        {**GROUPED, "use_parallel_residual": True},
        "parallel",
    ),
    "Cohere": ("CohereConfig", "CohereForCausalLM", {**GROUPED, "logit_scale": 0.25}, "parallel"),
    "Granite": (
        "GraniteConfig",
        "GraniteForCausalLM",
        {**GROUPED, "residual_multiplier": 0.22, "embedding_multiplier": 12.0, "logits_scaling": 8.0},
        "sequential",
    ),
    "StarCoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", GROUPED, "sequential"),
    "OLMo": ("OlmoConfig", "OlmoForCausalLM", USUAL, "sequential"),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM", {**GROUPED, "head_dim": 6}, "sequential"),
    "GLM-4": ("Glm4Config", "Glm4ForCausalLM", {**GROUPED, "head_dim": 6}, "sequential"),
    "Phi-3": ("Phi3Config", "Phi3ForCausalLM", GROUPED, "sequential"),
    "OLMoE": ("OlmoeConfig", "OlmoeForCausalLM", {**GROUPED, **EXPERTS}, "sequential"),
    "GPT-J": ("GPTJConfig", "GPTJForCausalLM", {**GPT, "rotary_dim": 4}, "parallel"),
    "GPT-Neo": (
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        {
            **OWN,
            "hidden_size": 24,
            "num_layers": 4,
            "num_heads": 4,
            "max_position_embeddings": CONTEXT,
            "attention_types": [[["global", "local"], 2]],
            "window_size": 8,
        },
        "sequential",
    ),
    "GPT-BigCode": ("GPTBigCodeConfig", "GPTBigCodeForCausalLM", GPT, "sequential"),
    "MPT": (
        "MptConfig",
        "MptForCausalLM",
        {"vocab_size": 260, "d_model": 24, "n_heads": 4, "max_seq_len": CONTEXT},
        "sequential",
    ),
}
LAYERS = {"n_layer": ("GPT-J", "GPT-BigCode"), "n_layers": ("MPT",), "num_layers": ("GPT-Neo",)}


def unlisted(name: str) -> Any:
    config, model, fields, _ = UNLISTED[name]
    field = next((field for field, names in LAYERS.items() if name in names), "num_hidden_layers")
    import transformers

    return randomized(getattr(transformers, model)(getattr(transformers, config)(**{**fields, field: 4})), seed=0)


def missed(decoder: Decoder) -> list[str]:
    return [promise.name for promise in prove(decoder) if not promise.passed]


def with_row(family: str, **changed: Any) -> Decoder:
    """A tiny decoder of a family whose row says something else."""
    decoder = tiny_decoder(family)
    return dataclasses.replace(decoder, family=dataclasses.replace(decoder.family, **changed))


# --- listed


@EVERY
def test_a_tiny_decoder_of_every_row_keeps_every_promise(family):
    decoder = tiny_decoder(family)
    assert decoder.family is FAMILIES[family]
    promises = prove(decoder)
    assert [promise for promise in promises if not promise.passed] == []
    assert len({promise.name for promise in promises}) == len(promises) == 21


@EVERY
def test_a_row_says_what_is_seen_in_the_model_itself(family):
    model, row = tiny_model(family), FAMILIES[family]
    found = inferred(model)
    assert found.origin == "inferred"
    same = {"name": row.name, "origin": "listed", "when": row.when, "architectures": row.architectures}
    elsewhere = {  # what this tiny instance has not, or what two names say
        "gemma3": {"logit_cap": row.logit_cap},
        "opt": {"inner": row.inner, "embedding_projection": row.embedding_projection}
        | {"final_projection": row.final_projection},
        "qwen2_moe": {"mlp_output": row.mlp_output},
    }
    assert dataclasses.replace(found, **same, **elsewhere.get(family, {})) == row


def test_one_class_has_a_row_for_each_wiring_and_none_for_a_wiring_that_no_row_describes():
    assert family_of("GPTNeoXForCausalLM", {"use_parallel_residual": True}).residual == "parallel"
    assert family_of("GPTNeoXForCausalLM", {"use_parallel_residual": False}).residual == "sequential"
    assert family_of("OPTForCausalLM", {"do_layer_norm_before": False, "_remove_final_layer_norm": False}) is None
    assert family_of("BertForMaskedLM") is None


@EVERY
def test_states_of_real_tokens_are_the_same_under_padding_on_either_side(family):
    right, (manner, left) = batching(gathered(tiny_decoder(family), 12))
    assert max(right, left) < 1e-5
    assert ("given positions" in manner) == (family != "bloom")


def test_left_padding_without_positions_is_another_number_for_learned_positions():
    decoder = tiny_decoder("gpt2")
    ids = tiny_ids(documents=1, tokens=6)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1)
    mask = torch.tensor([[0] * 3 + [1] * 6])
    with torch.no_grad():
        shifted = decoder.model(padded, attention_mask=mask).logits[:, 3:]
    assert (shifted - decoder.logits(ids)).abs().max() > 0.1


# --- rows that say something wrong


@pytest.mark.parametrize(
    ("family", "changed", "promise"),
    [
        ("gemma2", {"gain": "weight"}, "norms"),
        ("llama", {"gain": "1 + weight"}, "norms"),
        ("gpt2", {"norm": "RMSNorm"}, "norms"),
        ("gemma3", {"embedding_multiplier": None}, "start of the stream"),
        ("llama", {"embedding_multiplier": "sqrt width"}, "start of the stream"),
        ("gpt2", {"position_embedding": None}, "start of the stream"),
        ("bloom", {"embedding_norm": None}, "start of the stream"),
        ("gemma2", {"attention_added": None}, "sublayers"),
        ("olmo2", {"mlp_added": None}, "sublayers"),
        ("bloom", {"attention_added": None, "mlp_added": None}, "sublayers"),
        ("gpt_neox", {"residual": "sequential"}, "sublayers"),
        ("gpt_neox_sequential", {"residual": "parallel"}, "sublayers"),
        ("phi", {"residual": "sequential", "mlp_norm": None}, "sublayers"),
        ("llama", {"residual_multiplier": "rms_norm_eps"}, "sublayers"),
        ("gpt_oss", {"sinks": None}, "attention rows"),
        ("gemma2", {"logit_cap": None}, "head"),
        ("llama", {"logit_divisor": "hidden_size"}, "head"),
        ("llama", {"value_projection": None}, "grouped heads"),
        ("llama", {"value_projection": "self_attn.q_proj"}, "grouped heads"),
        ("llama", {"final_norm": "model.layers.3.input_layernorm"}, "distinct blocks"),
        ("llama", {"mlp_norm": "self_attn"}, "passes"),
    ],
)
def test_a_row_that_says_something_wrong_is_caught_by_the_promise_about_it(family, changed, promise):
    assert promise in missed(with_row(family, **changed))


def test_a_window_that_the_configuration_has_and_the_model_has_not_is_caught():
    decoder = tiny_decoder("llama")
    decoder.model.config.sliding_window = 8
    assert missed(decoder) == ["window"]


def test_a_window_that_the_model_has_and_the_configuration_does_not_tell_is_caught():
    decoder = tiny_decoder("mistral")
    object.__setattr__(decoder, "model", decoder.model)
    blind = type("Blind", (Decoder,), {"window": lambda self, layer: None})
    told = blind(decoder.model, decoder.tokenizer, decoder.family, decoder.facts)
    assert missed(told) == ["window"]


def test_windows_lie_where_the_configuration_puts_them():
    assert [tiny_decoder("gemma3").window(layer) for layer in (1, 2, 3, 4)] == [8, None, 8, None]
    assert [tiny_decoder("mistral").window(layer) for layer in (1, 2, 3, 4)] == [8] * 4
    assert tiny_decoder("qwen2").window(1) is None


def test_heads_in_a_row_read_one_key_value_head():
    decoder = tiny_decoder("llama")
    assert [decoder.key_value_head(head) for head in range(4)] == [0, 0, 1, 1]
    assert [tiny_decoder("gpt2").key_value_head(head) for head in range(4)] == [0, 1, 2, 3]


def test_interleaved_groups_are_caught():
    model = tiny_llama()
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(lambda module, inputs: (inputs[0].roll(6, -1),))
    assert "grouped heads" in missed(decoder_from_model(model))


def test_embedding_and_head_that_are_tied_against_the_configuration_are_caught():
    model = tiny_llama(tied=True)
    model.config.tie_word_embeddings = False
    assert missed(decoder_from_model(model)) == ["tied weights"]


def test_a_stack_without_blocks_or_with_fewer_than_the_configuration_says_is_caught():
    decoder = decoder_from_model(tiny_llama(layers=2))
    del decoder.model.model.layers[1]
    assert missed(decoder) == ["distinct blocks"]
    del decoder.model.model.layers[0]
    promise = prove(decoder)[0]
    assert (promise.name, promise.got, promise.passed) == ("distinct blocks", "0 blocks", False)
    with pytest.raises(UnsupportedModelError, match=r'misses "distinct blocks": .*got 0 blocks'):
        require(decoder, (promise,))


def test_a_norm_that_two_blocks_share_is_caught():
    model = tiny_llama()
    model.model.layers[2].mlp_norm = model.model.layers[2].post_attention_layernorm
    model.model.layers[2].post_attention_layernorm = model.model.layers[1].post_attention_layernorm
    assert missed(decoder_from_model(model)) == ["distinct blocks"]


def test_states_that_depend_on_their_batch_are_caught():
    model = tiny_llama()
    block = model.model.layers[1]
    block.mlp.register_forward_hook(lambda module, inputs, output: output + output.mean(0, keepdim=True))
    assert "batching" in missed(decoder_from_model(model))


# --- sinks and experts


def test_what_is_missing_in_a_row_is_the_mass_of_the_heads_sink():
    decoder = tiny_decoder("gpt_oss")
    seen = gathered(decoder, 12)
    for layer, maps in enumerate(seen.attentions, 1):
        left = 1 - maps.double().sum(-1)
        assert float(left.min()) > -1e-6 and float(left.max()) > 0.01
        sinks = decoder.attention(layer).sinks.detach()
        inputs, named = seen.attention_calls[layer]
        with torch.no_grad():
            decoder.attention(layer).sinks.add_(torch.log(torch.tensor(2.0)))
            doubled = 1 - decoder.attention(layer)(*inputs, **named)[1].double().sum(-1)
            decoder.attention(layer).sinks.copy_(sinks - torch.log(torch.tensor(2.0)))
        exact = 2 * left / (1 + left)  # twice the sink's weight beside the same others
        torch.testing.assert_close(doubled, exact, atol=1e-5, rtol=0)
    assert "learned sink" in decoder.facts.attention_rows


@pytest.mark.parametrize(
    ("family", "written"),
    [
        ("mixtral", ("mlp.experts.down_proj",)),
        ("qwen2_moe", ("mlp.experts.down_proj", "mlp.shared_expert.down_proj.weight")),
        ("gpt_oss", ("mlp.experts.down_proj", "mlp.experts.down_proj_bias")),
    ],
)
def test_all_experts_of_a_mixture_are_removed_together_and_the_router_is_left_alone(family, written):
    decoder = tiny_decoder(family)
    before = fingerprints(decoder.model)
    with Ablated("mlp").applied(decoder) as applied:
        expected = {f"model.layers.{layer}.{name}" for layer in range(4) for name in written}
        assert set(applied.proof.changed) == expected
        assert "all add exactly zero" in applied.proof.sentence
        for layer in (1, 2, 3, 4):
            assert all(not bool(getattr(module, name).any()) for module, name in decoder.written("mlp", layer))
    assert fingerprints(decoder.model) == before


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        ("qwen2_moe", {"mlp_output": ("mlp.experts.down_proj",)}),
        ("gpt_oss", {"mlp_output": ("mlp.experts.down_proj",)}),
        ("mixtral", {"mlp_output": ("mlp.gate",)}),
    ],
)
def test_a_mixture_of_which_a_part_still_writes_is_an_ablation_that_did_not_happen(family, changed):
    decoder = with_row(family, **changed)
    before = fingerprints(decoder.model)
    with pytest.raises(CheckMissed, match=r"the mlp of block 1 still adds something"), Ablated("mlp").applied(decoder):
        pass
    assert fingerprints(decoder.model) == before
    assert hook_count(decoder.model) == 0


def test_a_norm_behind_a_sublayer_that_adds_a_bias_even_to_nothing_loses_it_too():
    decoder = tiny_decoder("olmo2")
    norm = decoder.added("mlp", 2)
    norm.bias = torch.nn.Parameter(torch.ones(24))
    names = [cut.name for cut in cuts_of(decoder, "mlp", layers=(2,))]
    assert names == ["model.layers.1.mlp.down_proj.weight", "model.layers.1.post_feedforward_layernorm.bias"]


# --- alibi


@pytest.mark.parametrize("trouble", [None, RuntimeError, KeyboardInterrupt])
def test_alibi_is_silenced_in_every_attention_and_comes_back_whatever_ends_the_block(trouble):
    decoder, ids = tiny_decoder("bloom"), tiny_ids()
    expected, before = decoder.logits(ids), fingerprints(decoder.model)
    ended = contextlib.nullcontext() if trouble is None else pytest.raises(trouble)
    with ended, Ablated("positions").applied(decoder) as applied:
        assert applied.proof.changed == ()
        assert applied.proof.unchanged == len(before)
        assert "`alibi` set to zero" in applied.proof.sentence
        assert not torch.allclose(decoder.logits(ids), expected, atol=1e-2)
        if trouble is not None:
            raise trouble
    assert hook_count(decoder.model) == 0
    assert fingerprints(decoder.model) == before
    assert torch.equal(decoder.logits(ids), expected)


def test_positions_that_no_attention_is_told_cannot_be_silenced():
    decoder = with_row("bloom", position_argument="rotation")
    with pytest.raises(CheckMissed, match=r"that of block 1 is told none"), Ablated("positions").applied(decoder):
        pass
    assert hook_count(decoder.model) == 0


def test_a_weight_that_changes_while_positions_are_silenced_is_caught():
    decoder = tiny_decoder("bloom")
    with pytest.raises(CheckMissed, match="while positions removed"), Ablated("positions").applied(decoder):
        decoder.model.transformer.ln_f.weight.data[0] += 1


# --- OPT


def test_a_stream_wider_than_its_embedding_starts_and_ends_with_a_projection():
    decoder = decoder_from_model(tiny_model("opt", word_embed_proj_dim=16))
    assert missed(decoder) == []
    states = capture(decoder, tiny_ids(), taps_of(decoder)).states
    assert states.shape[-1] == decoder.facts.width == 24
    assert decoder.hidden(tiny_ids()).shape[-1] == 16
    with Ablated("mlp").applied(decoder) as applied:
        assert "all add exactly zero" in applied.proof.sentence


def test_a_model_that_normalizes_the_stream_itself_is_refused_with_the_reason(tmp_path):
    model = tiny_model("opt", do_layer_norm_before=False)
    with pytest.raises(UnsupportedModelError, match=r"a norm after the last block .* no norm reads") as caught:
        decoder_from_model(model)
    assert caught.value.exit_code == 3
    with pytest.raises(UnsupportedModelError, match=r"a norm after the last block"):
        load_decoder(saved(model, tmp_path / "model"), device="cpu")


# --- what no row names


@pytest.mark.parametrize("name", UNLISTED)
def test_a_family_that_no_row_names_is_inferred_and_keeps_every_promise(name):
    decoder = decoder_from_model(unlisted(name))
    assert missed(decoder) == []
    facts = decoder.facts
    assert (facts.family_origin, facts.residual) == ("inferred", UNLISTED[name][3])
    ids = tiny_ids()
    assert len(capture(decoder, ids).at) == 5
    losses = decoder.loss(decoder.hidden(ids), ids)
    with torch.no_grad():
        library = decoder.model(ids[:1], labels=ids[:1]).loss
    assert losses[0].item() == pytest.approx(library.item(), abs=1e-5)
    for part in ("attention", "mlp"):
        with Ablated(part, (2,)).applied(decoder) as applied:
            assert "1 add exactly zero" in applied.proof.sentence


def test_an_unlisted_family_loads_from_a_folder_and_says_that_it_was_inferred(tmp_path):
    decoder = load_decoder(saved(unlisted("Granite"), tmp_path / "model"), device="cpu")
    assert decoder.facts.family_origin == "inferred"
    assert decoder.multiplier == 0.22
    assert decoder.embedding_multiplier == 12.0


def test_a_class_that_keeps_a_fused_attention_is_loaded_with_the_eager_one(tmp_path):
    """Under the fused attention its maps look ahead, although its output does not."""
    model = built("FalconConfig", "FalconForCausalLM", OWN_NAMES)
    decoder = decoder_from_model(model)
    promise = next(promise for promise in prove(decoder) if not promise.passed)
    assert promise.name == "maps at hand" and 'attn_implementation="eager"' in promise.got
    with torch.no_grad():
        maps = model(tiny_ids(), output_attentions=True).attentions[0]
    assert float(maps.triu(1).max()) > 0.1, "the trigger"
    assert missed(load_decoder(saved(model, tmp_path / "model"), device="cpu")) == []


@pytest.mark.parametrize(
    ("config", "model", "fields", "reason"),
    [
        ("MambaConfig", "MambaForCausalLM", {"hidden_size": 24}, "an attention in every block"),
        ("BertConfig", "BertLMHeadModel", {**USUAL, "is_decoder": True}, "a norm after the last block"),
        (
            "BloomConfig",
            "BloomForCausalLM",
            {**OWN_NAMES, "apply_residual_connection_post_layernorm": True},
            'misses "sublayers"',
        ),
        ("DiffLlamaConfig", "DiffLlamaForCausalLM", GROUPED, 'misses "grouped heads"'),
        ("CTRLConfig", "CTRLLMHeadModel", {**GPT, "dff": 48, "n_layer": 4}, 'misses "start of the stream"'),
    ],
)
def test_a_family_whose_wiring_is_another_stops_with_the_reason(config, model, fields, reason, tmp_path):
    made = built(config, model, fields)

    def proved() -> None:
        decoder = decoder_from_model(made)
        require(decoder, prove(decoder))

    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        proved()
    assert caught.value.exit_code == 3
    assert str(caught.value).count("Argument") == 1
    with pytest.raises(UnsupportedModelError, match=reason):
        load_decoder(saved(made, tmp_path / "model"), device="cpu", prove=False)


# --- compiled


def test_a_compiled_model_is_refused_and_what_it_was_made_from_is_the_remedy():
    model = tiny_llama()
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(UnsupportedModelError, match=r"must not be compiled.* Give `model\._orig_mod`") as caught:
        decoder_from_model(compiled)
    assert caught.value.exit_code == 3
    assert decoder_from_model(compiled._orig_mod).model is model


def test_a_model_with_a_compiled_block_or_compiled_in_place_is_refused():
    model = tiny_gpt2()
    model.transformer.h[1].compile(backend="eager")
    with pytest.raises(UnsupportedModelError, match=r"but transformer\.h\.1 is: hooks"):
        decoder_from_model(model)
    model = tiny_gpt2()
    model.compile(backend="eager")
    with pytest.raises(UnsupportedModelError, match="but the whole model is"):
        decoder_from_model(model)
    assert decoder_from_model(tiny_gpt2()).facts.family == "gpt2"


# --- more


@EVERY
def test_the_last_block_and_the_final_norm_are_two_things(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    with torch.no_grad():
        gain = decoder.final_norm.weight
        gain.copy_(torch.full_like(gain, 2.0 if decoder.family.gain == "1 + weight" else 3.0))
    last = capture(decoder, ids, [Tap(4)]).states[:, 0]
    final = decoder.hidden(ids)
    with torch.no_grad():
        torch.testing.assert_close(decoder.final_norm(last), final, atol=1e-5, rtol=1e-5)
    assert (last - final).abs().max() > 0.1


def test_the_norm_that_reads_after_a_block_hands_over_its_whole_gain():
    gemma = tiny_decoder("gemma2")
    norm = gemma.norm_after(2)
    assert norm is gemma.block(3).input_layernorm
    assert torch.equal(gemma.gain(norm), 1 + norm.weight)
    assert gemma.norm_after(4) is gemma.final_norm
    olmo = tiny_decoder("olmo2")
    assert olmo.norm_after(2) is None
    assert olmo.norm_after(4) is olmo.final_norm
    phi = tiny_decoder("phi")
    assert phi.norm_after(2) is phi.block(3).input_layernorm
    with pytest.raises(ArgumentError, match="a block from 1 to 4"):
        phi.block(5)


def test_a_copy_of_a_listed_row_is_equal_and_every_tiny_instance_has_a_row():
    assert copy.deepcopy(FAMILIES) == FAMILIES
    assert {*LISTED, "llama", "gpt2"} == set(FAMILIES)


def test_the_page_of_families_is_what_the_proofs_say():
    written = family_table.page()
    assert family_table.PAGE.read_text(encoding="utf-8") == written, (
        f"docs/families.md must read as follows; run `python tests/family_table.py`:\n\n{written}"
    )
    assert "missed" not in written.partition("## What is promised")[2]
