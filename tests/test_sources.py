"""Every way a decoder comes in: hub id and revision, shards, pickles and code by permission, tokenizers that must fit."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.decoder import decoder_from_model, load_decoder, prove
from armillary.models.weights import stored_types
from tiny import saved, tiny_gpt2, tiny_ids, tiny_llama, tiny_tokenizer

COMMIT, OTHER = "0" * 39 + "1", "0" * 39 + "2"


def hub_cache(
    root: Path, model: object, *, hub_id: str = "some-org/tiny", commit: str = COMMIT, ref: str = "main"
) -> Path:
    """A folder laid out as the hub's client keeps what it fetched: references that name commits, and one folder each."""
    repository = root / ("models--" + hub_id.replace("/", "--"))
    saved(model, repository / "snapshots" / commit)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / ref).write_text(commit)
    return root


def without_safetensors(folder: Path) -> Path:
    """The same weights as a pickled checkpoint of the old kind."""
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


# the hub ---------------------------------------------------------------------------------------------------------------


def test_a_hub_id_loads_the_revision_asked_for_and_records_its_commit(tmp_path, monkeypatch):
    first, second = tiny_llama(seed=1), tiny_llama(seed=2)
    hub_cache(tmp_path, first)
    hub_cache(tmp_path, second, commit=OTHER, ref="v2")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    for revision, model, commit in ((None, first, COMMIT), ("v2", second, OTHER), (OTHER, second, OTHER)):
        decoder = load_decoder("some-org/tiny", revision=revision, device="cpu")
        assert (decoder.facts.revision, decoder.facts.name) == (commit, "some-org/tiny")
        assert decoder.facts.source == f"hub: some-org/tiny at {commit}"
        assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    with pytest.raises(ArgumentError, match="'some-org/tiny' at 'v3' is no file or folder here"):
        load_decoder("some-org/tiny", revision="v3")


def test_the_hubs_own_variables_are_obeyed(tmp_path):
    hub_cache(tmp_path, tiny_llama())
    code = (
        "from armillary.models.decoder import load_decoder; "
        "print(load_decoder('some-org/tiny', device='cpu', prove=False).facts.revision)"
    )
    import os

    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == COMMIT


def test_pickles_and_code_are_not_even_fetched_unless_permitted(tmp_path, monkeypatch):
    folder, asked = saved(tiny_llama(), tmp_path / COMMIT), []

    def fetched(hub_id, *, revision, allow_patterns):
        asked.append((hub_id, revision, set(allow_patterns)))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    load_decoder("a/b", device="cpu", prove=False)
    load_decoder("a/b", revision="main", allow_pickle=True, trust_remote_code=True, device="cpu", prove=False)
    (_, _, plain), (_, revision, more) = asked
    assert not {"*.bin", "*.py"} & plain and {"*.bin", "*.py"} <= more and revision == "main"


def test_a_revision_of_what_lies_on_this_machine_is_refused_and_without_it_loads(tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    with pytest.raises(ArgumentError, match="`revision` must belong to a hub id"):
        load_decoder(folder, revision="main")
    assert load_decoder(folder, device="cpu").facts.revision is None
    with pytest.raises(ArgumentError, match="`revision` must be a branch"):
        load_decoder("some-org/tiny", revision="a b")


# folders ---------------------------------------------------------------------------------------------------------------


def test_a_folder_of_shards_gives_every_weight_and_a_lost_shard_is_named(tmp_path):
    model = tiny_llama()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    decoder = load_decoder(tmp_path, device="cpu")
    assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    shards[1].unlink()
    with pytest.raises(ArgumentError, match=rf"lacks 1 of {len(shards)}, the first {shards[1].name}"):
        load_decoder(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ArgumentError, match="an index of its shards"):
        load_decoder(tmp_path)


def test_weights_under_another_name_are_told_from_none(tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    with pytest.raises(ArgumentError, match=r"only consolidated.safetensors. Add model.safetensors"):
        load_decoder(folder)
    (folder / "consolidated.safetensors").rename(folder / "model.safetensors")
    assert load_decoder(folder, device="cpu").facts.layers == 4


def test_a_weight_that_the_model_has_no_place_for_is_refused_by_name(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = saved(tiny_llama(), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    kept = {"model.rotary_emb.inv_freq": torch.ones(3)}  # older checkpoints carry it, and the library makes it itself
    save_file(tensors | kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert load_decoder(folder, device="cpu").facts.layers == 4
    save_file(tensors | {"value_head.weight": torch.ones(3)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ArgumentError, match=r"holds 1, the first value_head.weight: the library would leave them out"):
        load_decoder(folder)


def test_a_folder_with_an_adapter_is_refused(tmp_path):
    folder = saved(tiny_llama(), tmp_path / "model")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedModelError, match="holds an adapter"):
        load_decoder(folder)


# by permission ---------------------------------------------------------------------------------------------------------


def test_a_pickled_checkpoint_is_read_when_that_is_permitted_and_the_record_says_so(tmp_path):
    model = tiny_gpt2(tied=False)
    folder = without_safetensors(saved(model, tmp_path / "model"))
    with pytest.raises(ArgumentError, match=r"pass `allow_pickle=True`: then nothing but tensors"):
        load_decoder(folder)
    decoder = load_decoder(folder, allow_pickle=True, device="cpu")
    assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    assert decoder.facts.permitted == ("pickled weights: read as permitted, tensors and nothing else",)


def test_safetensors_are_preferred_and_then_nothing_was_permitted(tmp_path):
    folder = saved(tiny_gpt2(), tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(b"no pickle at all")
    assert load_decoder(folder, allow_pickle=True, device="cpu").facts.permitted == ()


def test_a_pickle_that_would_run_code_is_refused_even_when_pickles_are_permitted(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    folder = without_safetensors(saved(tiny_gpt2(), tmp_path / "model"))
    torch.save({"transformer.wte.weight": Trap()}, folder / "pytorch_model.bin")
    with pytest.raises(ArgumentError, match="would run code when they are read") as caught:
        load_decoder(folder, allow_pickle=True)
    assert "\n" not in str(caught.value) and not (tmp_path / "sprung").exists()


def remote(folder: Path) -> Path:
    """A folder whose configuration names a class of its own, which leaves a mark when it is read."""
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["TinyForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_tiny.TinyForCausalLM"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_tiny.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaForCausalLM\n"
        f"Path({str(folder / 'was run')!r}).touch()\n"
        "class TinyForCausalLM(LlamaForCausalLM):\n    pass\n"
    )
    return folder


def test_code_that_a_model_brings_is_run_only_when_that_is_permitted_and_the_record_names_its_files(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    model = tiny_llama()
    folder = remote(saved(model, tmp_path / "model"))
    with pytest.raises(UnsupportedModelError, match=r"may do anything .* pass `trust_remote_code=True`"):
        load_decoder(folder)
    assert not (folder / "was run").exists()
    decoder = load_decoder(folder, trust_remote_code=True, device="cpu")
    assert (folder / "was run").exists() and decoder.facts.architecture == "TinyForCausalLM"
    assert decoder.facts.permitted[0].startswith(
        "remote code: its own classes were run, as permitted (modeling_tiny.py"
    )
    assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))


# tokenizers ------------------------------------------------------------------------------------------------------------


def test_a_tokenizer_named_beside_the_model_takes_the_place_of_its_own(tmp_path):
    model, other = tiny_llama(), tmp_path / "tokenizer"
    model.save_pretrained(tmp_path / "model")
    assert load_decoder(tmp_path / "model", device="cpu").tokenizer is None
    tiny_tokenizer().save_pretrained(other)
    for named in (other, str(other), other / "tokenizer.json", tiny_tokenizer()):
        decoder = load_decoder(tmp_path / "model", tokenizer=named, device="cpu", prove=False)
        assert decoder.tokenizer("ab")["input_ids"] == tiny_tokenizer()("ab")["input_ids"]
    with pytest.raises(ArgumentError, match="`tokenizer` must hold one of tokenizer"):
        load_decoder(tmp_path / "model", tokenizer=tmp_path / "model")
    with pytest.raises(ArgumentError, match="`tokenizer` must be a folder or a hub id"):
        load_decoder(tmp_path / "model", tokenizer="./nowhere")


def test_a_tokenizer_with_ids_beyond_the_embedding_is_refused_and_a_smaller_one_is_told(tmp_path):
    with pytest.raises(ArgumentError, match=r"ids reach to 259 \('<unknown>'\) and .* has 250 rows"):
        load_decoder(saved(tiny_llama(vocabulary=250), tmp_path / "small"))
    with pytest.raises(ArgumentError, match="`tokenizer` must have an embedding row for each of its ids"):
        decoder_from_model(tiny_llama(vocabulary=250), tiny_tokenizer())
    decoder = load_decoder(saved(tiny_llama(vocabulary=300), tmp_path / "large"), device="cpu")
    assert decoder.facts.notes == ("The tokenizer has 260 ids for 300 embedding rows; the rest is never fed.",)


# what the weights are ---------------------------------------------------------------------------------------------------


def test_a_block_that_came_back_as_zeros_is_named_and_gains_and_biases_may_be_zero(tmp_path):
    model = tiny_llama()
    with torch.no_grad():
        for parameter in model.model.layers[2].parameters():
            parameter.zero_()
    with pytest.raises(ArgumentError, match="every matrix of block 3 is zero"):
        load_decoder(saved(model, tmp_path / "model"))
    with pytest.raises(ArgumentError, match="every matrix of block 3 is zero"):
        decoder_from_model(model)
    quiet = tiny_gpt2()
    with torch.no_grad():
        for name, parameter in quiet.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    assert decoder_from_model(quiet).facts.notes == ()


def test_a_model_of_zeros_is_refused_and_a_single_matrix_of_zeros_is_told():
    model = tiny_llama()
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.zero_()
    assert decoder_from_model(model).facts.notes == ("Block 2: every entry of mlp.down_proj.weight is zero.",)
    with torch.no_grad():
        model.model.embed_tokens.weight.zero_()
    with pytest.raises(ArgumentError, match="is all zeros"):
        decoder_from_model(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    with pytest.raises(ArgumentError, match="every block is zero"):
        decoder_from_model(model)


def test_a_layer_on_no_device_is_named():
    model = tiny_llama()
    model.model.layers[1].mlp.to("meta")
    with pytest.raises(ArgumentError, match=r"model.layers.1.mlp.gate_proj.weight lies on no device \(meta\)"):
        decoder_from_model(model)


def test_weights_that_are_not_finite_are_told_by_name_and_number():
    model = tiny_llama()
    with torch.no_grad():
        model.model.embed_tokens.weight[7] = float("nan")
    notes = decoder_from_model(model).facts.notes
    assert notes == ("24 of 6240 entries of model.embed_tokens.weight are not finite (NaN).",)


def test_one_block_at_two_layers_is_refused_and_a_copy_of_it_is_not():
    model = tiny_llama()
    model.model.layers[3] = model.model.layers[1]
    with pytest.raises(UnsupportedModelError, match=r"blocks 2 and 4 of .* are one object.*copy.deepcopy"):
        decoder_from_model(model)
    model.model.layers[3] = copy.deepcopy(model.model.layers[1], {id(model.config): model.config})
    for index, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = index
    assert all(promise.passed for promise in prove(decoder_from_model(model)))


def test_blocks_that_share_a_weight_are_told():
    model = tiny_llama()
    model.model.layers[2].mlp.up_proj.weight = model.model.layers[0].mlp.up_proj.weight
    assert decoder_from_model(model).facts.notes == (
        "Blocks 1 and 3 share one weight (mlp.up_proj.weight): a change of one changes both.",
    )


def test_packed_weights_of_a_model_object_are_refused():
    model = tiny_llama()
    packed = torch.nn.Parameter(torch.ones(4, 4, dtype=torch.int8), requires_grad=False)
    model.model.layers[0].mlp.up_proj.weight = packed
    with pytest.raises(UnsupportedModelError, match=r"layers.0.mlp.up_proj.weight is int8, packed"):
        decoder_from_model(model)


# precision -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_warned_about_and_recorded_and_stored_types_are_told(dtype, tmp_path):
    folder = saved(tiny_llama().to(getattr(torch, dtype)), tmp_path / "model")
    wide = load_decoder(folder, device="cpu")
    assert wide.facts.dtype == "float32"
    assert wide.facts.notes == (f"Weights are stored in {dtype} and read in float32, which changes none of them.",)
    with pytest.warns(UserWarning, match=f"states are {dtype}, half precision"):
        narrow = load_decoder(folder, device="cpu", dtype=dtype)
    assert narrow.facts.dtype == dtype and "half precision" in narrow.facts.notes[0]
    with pytest.warns(UserWarning, match="half precision"):
        rounded = load_decoder(saved(tiny_llama(), tmp_path / "wide"), device="cpu", dtype=dtype)
    assert rounded.facts.notes[0] == f"Weights are stored in float32 and read in {dtype}, which rounds them."


# who released the spread ----------------------------------------------------------------------------------------------


def test_the_librarys_own_spread_is_nobodys_recipe_unless_a_file_states_it(tmp_path):
    from transformers import LlamaForCausalLM

    model = tiny_llama()
    assert decoder_from_model(model).facts.released_spread is None
    model.config.initializer_range = 0.05
    assert decoder_from_model(model).facts.released_spread == 0.05
    folder = saved(tiny_llama(), tmp_path / "model")
    assert load_decoder(folder, device="cpu").facts.released_spread == 0.02  # its config.json says so
    assert decoder_from_model(LlamaForCausalLM.from_pretrained(folder)).facts.released_spread == 0.02
    config = json.loads((folder / "config.json").read_text())
    del config["initializer_range"]
    (folder / "config.json").write_text(json.dumps(config))
    assert load_decoder(folder, device="cpu").facts.released_spread is None


# spread over devices ---------------------------------------------------------------------------------------------------


def test_a_device_map_gives_the_same_decoder_and_leaves_no_layer_aside(tmp_path):
    model = tiny_llama()
    folder = saved(model, tmp_path / "model")
    for device in ("map", {"": "cpu"}):
        decoder = load_decoder(folder, device=device)
        assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    with pytest.raises(ArgumentError, match=r"model.layers.3 goes to disk"):
        load_decoder(folder, device={"": "cpu", "model.layers.3": "disk"})


def test_a_layer_whose_states_come_back_as_zeros_is_named(tmp_path, monkeypatch):
    from armillary.models.placement import require_everywhere

    decoder = load_decoder(saved(tiny_llama(), tmp_path / "model"), device="map")
    require_everywhere(decoder)
    decoder.block(2).register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
    with pytest.raises(UnsupportedModelError, match=r"after layer 2 \(block, on cpu\) .* came back as zeros"):
        require_everywhere(decoder)


def test_a_layer_moved_aside_by_accelerate_is_found_before_anything_is_measured(tmp_path):
    from accelerate import cpu_offload

    model = cpu_offload(tiny_llama(), execution_device=torch.device("cpu"))
    with pytest.raises(ArgumentError, match=r"lies on no device \(meta\)"):
        decoder_from_model(model)


def test_the_types_stored_are_read_from_the_headers(tmp_path):
    from types import SimpleNamespace

    folder = saved(tiny_llama().to(torch.bfloat16), tmp_path / "model")
    assert stored_types(SimpleNamespace(path=folder)) == ("bfloat16",)
