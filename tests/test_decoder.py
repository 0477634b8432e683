"""The decoder's contract on tiny random models of each family, sabotage that must be caught, and what bad sources get."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from armillary.errors import ArgumentError, NumericalError, UnsupportedModelError
from armillary.models.anatomy import NO_LIMIT
from armillary.models.contract import require
from armillary.models.decoder import decoder_from_model, load_decoder, prove
from tiny import (
    CONTEXT,
    VOCABULARY,
    families,
    saved,
    tiny_decoder,
    tiny_gpt2,
    tiny_ids,
    tiny_llama,
    tiny_model,
    tiny_tokenizer,
)

FAMILIES = families()
MODELS = {
    "llama, grouped heads, untied": lambda: tiny_llama(),
    "llama, grouped heads, tied": lambda: tiny_llama(tied=True),
    "llama, one key-value head a head, biases": lambda: tiny_llama(key_value_heads=4, attention_bias=True),
    "gpt2, tied": lambda: tiny_gpt2(),
    "gpt2, untied": lambda: tiny_gpt2(tied=False),
}


def missed(model) -> list[str]:
    return [promise.name for promise in prove(decoder_from_model(model)) if not promise.passed]


@pytest.mark.parametrize("which", MODELS)
def test_tiny_models_of_each_family_keep_every_promise(which):
    promises = prove(decoder_from_model(MODELS[which]()))
    assert [promise for promise in promises if not promise.passed] == []
    assert len({promise.name for promise in promises}) == len(promises) == 21


@pytest.mark.parametrize("family", FAMILIES)
def test_the_proof_leaves_hooks_mode_and_attention_implementation_as_found(family):
    decoder = tiny_decoder(family)
    fired = []
    decoder.block(2).register_forward_hook(lambda *_: fired.append(1))
    before = {name: len(module._forward_hooks) for name, module in decoder.model.named_modules()}
    implementation = decoder.model.config._attn_implementation
    prove(decoder)
    assert {name: len(module._forward_hooks) for name, module in decoder.model.named_modules()} == before
    assert decoder.model.config._attn_implementation == implementation
    assert not decoder.model.training
    fired.clear()
    decoder.hidden(tiny_ids())
    assert fired == [1]


def test_the_library_records_hidden_states_again_after_the_proof_took_its_hooks_away():
    decoder = tiny_decoder()
    prove(decoder)
    listed = decoder.model(tiny_ids(), output_hidden_states=True).hidden_states
    assert len(listed) == decoder.facts.layers + 1


def test_a_block_that_drops_its_mlp_is_caught():
    model = tiny_llama()
    block = model.model.layers[1]

    def forward(hidden_states, **options):
        after = hidden_states + block.self_attn(block.input_layernorm(hidden_states), **options)[0]
        block.mlp(block.post_attention_layernorm(after))
        return after

    block.forward = forward
    assert "sublayers" in missed(model)


def test_a_block_whose_mlp_reads_the_stream_before_attention_is_caught():
    model = tiny_llama()
    block = model.model.layers[2]

    def forward(hidden_states, **options):
        attention = block.self_attn(block.input_layernorm(hidden_states), **options)[0]
        return hidden_states + attention + block.mlp(block.post_attention_layernorm(hidden_states))

    block.forward = forward
    assert "sublayers" in missed(model)


def test_a_mask_that_is_not_causal_is_caught():
    model = tiny_llama()
    for layer in model.model.layers:
        forward = layer.self_attn.forward
        layer.self_attn.is_causal = False

        def blind(*arguments, forward=forward, **options):
            options["attention_mask"] = torch.zeros(
                1, 1, *2 * [arguments[0].shape[1] if arguments else options["hidden_states"].shape[1]]
            )
            return forward(*arguments, **options)

        layer.self_attn.forward = blind
    assert missed(model)[0] == "causal"


def test_an_attention_without_effect_is_caught():
    model = tiny_gpt2()
    for block in model.transformer.h:
        torch.nn.init.zeros_(block.attn.c_proj.weight)
        torch.nn.init.zeros_(block.attn.c_proj.bias)
    assert missed(model) == ["attention matters"]


def test_attention_rows_that_do_not_sum_to_one_are_caught():
    model = tiny_gpt2()
    for block in model.transformer.h:
        block.attn.register_forward_hook(
            lambda module, inputs, output: (output[0], None if output[1] is None else output[1] * 0.9)
        )
    assert missed(model) == ["attention rows"]


def test_a_model_that_answers_differently_each_time_is_caught():
    model = tiny_gpt2()
    model.transformer.h[0].mlp.register_forward_hook(lambda module, inputs, output: output + torch.randn(()))
    assert {"capture", "repetition"} <= set(missed(model))


def test_a_model_in_training_mode_is_caught():
    decoder = tiny_decoder("gpt2")
    decoder.model.train()
    names = {promise.name for promise in prove(decoder) if not promise.passed}
    assert {"evaluation mode", "repetition"} <= names
    assert decoder_from_model(decoder.model).model.training is False


def test_a_final_norm_that_is_not_the_last_word_is_caught():
    model = tiny_llama()
    inner = model.model.forward

    def twice(*arguments, **options):
        output = inner(*arguments, **options)
        output.last_hidden_state = model.model.norm(output.last_hidden_state)
        return output

    model.model.forward = twice
    assert missed(model)


def test_a_missed_promise_is_refused_by_name_with_what_was_expected_and_got():
    decoder = tiny_decoder()
    promises = [SimpleNamespace(name="causal", expected="no light", got="light", passed=False)]
    with pytest.raises(UnsupportedModelError, match='misses "causal": expected no light; got light') as caught:
        require(decoder, tuple(promises))
    assert caught.value.exit_code == 3


def test_attention_maps_are_missing_under_the_default_implementation_and_come_for_every_block_in_the_proof():
    decoder = tiny_decoder()
    decoder.model.config.output_attentions = False
    rows = next(promise for promise in prove(decoder) if promise.name == "attention rows")
    assert rows.passed
    assert rows.got.startswith("4 such maps of 4")


@pytest.mark.parametrize("family", FAMILIES)
def test_facts_say_what_the_configuration_says(family):
    decoder = tiny_decoder(family)
    facts, config = decoder.facts, decoder.model.config
    assert (facts.family, facts.family_origin) == (family, "listed")
    assert facts.key_value_heads == (getattr(config, "num_key_value_heads", None) or 4)
    assert facts.tied == config.tie_word_embeddings
    assert (facts.layers, facts.heads, facts.head_dim, facts.width) == (4, 4, 6, 24)
    assert (facts.vocabulary, facts.dtype, facts.quantization) == (VOCABULARY, "float32", None)
    assert facts.context == (NO_LIMIT if family == "bloom" else CONTEXT)
    assert (facts.library_spread, facts.released_spread) == (0.02, None)


def test_the_weight_hash_changes_with_one_weight_and_not_with_a_copy():
    model = tiny_llama()
    first = decoder_from_model(model).facts.weight_hash
    assert decoder_from_model(tiny_llama()).facts.weight_hash == first
    with torch.no_grad():
        model.model.layers[3].mlp.down_proj.weight[0, 0] += 1e-6
    assert decoder_from_model(model).facts.weight_hash != first


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_is_the_next_token_cross_entropy_of_each_document(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    losses = decoder.loss(decoder.hidden(ids), ids)
    for document in range(len(ids)):
        with torch.no_grad():
            library = decoder.model(ids[document : document + 1], labels=ids[document : document + 1]).loss
        assert losses[document].item() == pytest.approx(library.item(), abs=1e-5)
    assert losses.dtype == torch.float64


def test_the_loss_of_a_document_of_one_token_is_undefined():
    decoder, ids = tiny_decoder(), tiny_ids(tokens=1)
    assert decoder.loss(decoder.hidden(ids), ids).isnan().all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_saved_folder_loads_in_the_type_asked_for_and_keeps_its_contract(family, dtype, tmp_path):
    model = tiny_model(family)
    folder = saved(model.to(torch.bfloat16), tmp_path / "model")
    decoder = load_decoder(folder, dtype=dtype, device="cpu")
    assert decoder.facts.dtype == dtype
    assert {parameter.dtype for parameter in decoder.model.parameters()} == {getattr(torch, dtype)}
    assert decoder.tokenizer("a 12\n")["input_ids"] == tiny_tokenizer()("a 12\n")["input_ids"]


def test_a_loaded_folder_has_the_weights_and_frequencies_of_the_model_that_was_saved(tmp_path):
    model = tiny_llama()
    decoder = load_decoder(saved(model, tmp_path / "model"), device="cpu")
    assert torch.equal(decoder.model.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)
    assert all(not tensor.is_meta for tensor in (*decoder.model.parameters(), *decoder.model.buffers()))
    assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    assert decoder.facts.weight_hash == decoder_from_model(model).facts.weight_hash


def test_zeroing_a_loaded_weight_leaves_its_file_alone(tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    before = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    decoder = load_decoder(folder, device="cpu", prove=False)
    with torch.no_grad():
        for parameter in decoder.model.parameters():
            parameter.zero_()
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == before


def test_a_model_of_another_architecture_is_unsupported_and_says_which(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertModel"], "model_type": "bert"}))
    with pytest.raises(UnsupportedModelError, match="BertModel"):
        load_decoder(tmp_path)
    with pytest.raises(UnsupportedModelError, match="Linear"):
        decoder_from_model(torch.nn.Linear(2, 2))


def test_a_folder_that_is_not_a_model_says_what_is_missing(tmp_path):
    with pytest.raises(ArgumentError, match=r"holds no config.json") as caught:
        load_decoder(tmp_path)
    assert caught.value.exit_code == 2
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(ArgumentError, match="is not JSON"):
        load_decoder(tmp_path)


def test_a_folder_with_a_gguf_file_in_it_is_told_to_name_the_file(tmp_path):
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    with pytest.raises(ArgumentError, match=r"Name the file itself: .*some\.gguf"):
        load_decoder(tmp_path)


def test_pickled_weights_are_never_opened(tmp_path):
    folder = saved(tiny_gpt2(), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ArgumentError, match=r"pickled weights only \(pytorch_model.bin\)"):
        load_decoder(folder)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_truncated_safetensors_file_is_refused(share, tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ArgumentError, match="must be a whole model"):
        load_decoder(folder)


def test_a_weight_that_is_missing_is_refused_and_not_drawn_fresh(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = saved(tiny_llama(), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ArgumentError, match=r"lacks 1, the first model.layers.2.mlp.up_proj.weight"):
        load_decoder(folder)


def test_a_weight_of_another_shape_is_refused(tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 50}))
    with pytest.raises(ArgumentError, match=r"layers.0.mlp.down_proj.weight is \[24, 48\], not \[24, 50\]"):
        load_decoder(folder)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_blocks_that_the_configuration_leaves_out_are_refused_and_not_dropped(family, tmp_path):
    folder = saved(tiny_model(family), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    name = "num_hidden_layers" if family == "llama" else "n_layer"
    (folder / "config.json").write_text(json.dumps(config | {name: 3}))
    with pytest.raises(ArgumentError, match=r"the first .*\.3\..*: the library would leave them out"):
        load_decoder(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_states_that_are_not_finite_are_told_from_a_broken_contract(value, tmp_path):
    model = tiny_llama()
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[3] = value
    promise = next(one for one in prove(decoder_from_model(model)) if one.name == "finite")
    assert not promise.passed and promise.got.startswith("layer 2 (mid), document 1 of the proof's random ids, token 0")
    with pytest.raises(NumericalError, match=r"condition trained, layer 2 .* weight model.layers.1.self_attn.o_proj"):
        load_decoder(saved(model, tmp_path / "model"))


def test_an_id_that_cannot_be_reached_gets_one_sentence(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ArgumentError, match="cannot-exist/really") as caught:
        load_decoder("cannot-exist/really")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["./nowhere", "/nowhere/at/all", "missing.gguf", "a/b/c"])
def test_a_path_that_does_not_exist_is_not_taken_for_an_id(source):
    with pytest.raises(ArgumentError, match="does not exist"):
        load_decoder(source)


def test_a_device_or_type_that_cannot_be_used_is_refused():
    with pytest.raises(ArgumentError, match="`device` must be auto, cpu, cuda, mps or map"):
        load_decoder(device="tpu")
    with pytest.raises(ArgumentError, match="`dtype` must be one of float32"):
        load_decoder(dtype="int8")
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="'cuda' is not available"):
            load_decoder(device="cuda")


def test_more_tokens_than_the_context_or_ids_outside_the_vocabulary_are_refused():
    decoder = tiny_decoder()
    with pytest.raises(ArgumentError, match=f"at most {CONTEXT} tokens .* holds {CONTEXT + 1}"):
        decoder.hidden(tiny_ids(tokens=CONTEXT + 1))
    with pytest.raises(ArgumentError, match=f"vocabulary 0..{VOCABULARY - 1}, but reaches from 0 to {VOCABULARY}"):
        decoder.logits(torch.tensor([[0, VOCABULARY]]))
    with pytest.raises(ArgumentError, match=r"shape \[5\]"):
        decoder.hidden(torch.arange(5))


def test_blocks_are_counted_from_one():
    decoder = tiny_decoder()
    assert decoder.attention(1) is decoder.model.model.layers[0].self_attn
    assert decoder.mlp_output(4) is decoder.model.model.layers[3].mlp.down_proj
    for layer in (0, 5):
        with pytest.raises(ArgumentError, match=f"a block from 1 to 4, but is {layer}"):
            decoder.block(layer)
    assert Path(decoder.facts.source) == Path("a model object")
