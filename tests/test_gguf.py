"""A GGUF file gives back the model that was written, row order and tokenizer included, or it is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models import gguf as module
from armillary.models.decoder import decoder_from_model, load_decoder
from armillary.models.gguf import gguf_content, stored_by_llama_cpp, stored_by_transformers
from armillary.models.gguf_tokenizer import PRE_TOKENIZERS, file_tokenizer
from tiny import tiny_gguf, tiny_gpt2, tiny_ids, tiny_llama, tiny_tokenizer
from tiny_gguf_files import library_gguf, tiny_qwen2

DOCUMENTS = json.loads((Path(__file__).parent / "data" / "default_document_tokens.json").read_text())["documents"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path / "cache"))


def documents_of_this_python() -> dict[str, str]:
    """The default documents whose text is that of the committed hashes; the others are counted in the skip's reason."""
    from pydoc_data.topics import topics

    same = {
        title: topics[title]
        for title, known in DOCUMENTS.items()
        if hashlib.sha256(topics.get(title, "").encode()).hexdigest() == known["sha256_text"]
    }
    print(f"{len(DOCUMENTS) - len(same)} of {len(DOCUMENTS)} documents have another text in this Python")
    assert same, "no default document has the text of the committed hashes"
    return same


@pytest.mark.parametrize("tied", [True, False])
def test_an_unquantized_file_gives_back_every_weight_and_every_logit(tied, tmp_path):
    model = tiny_llama(tied=tied)
    decoder = load_decoder(tiny_gguf(model, tmp_path / "tiny.gguf"), device="cpu")
    for name, parameter in model.named_parameters():
        assert torch.equal(decoder.model.get_parameter(name), parameter), name
    assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
    assert (decoder.facts.tied, decoder.facts.quantization, decoder.facts.released_spread) == (tied, None, None)


def test_without_un_permuting_the_same_file_gives_other_logits(tmp_path, monkeypatch):
    model = tiny_llama()
    monkeypatch.setattr(module, "stored_by_transformers", lambda rows, heads: rows)
    decoder = load_decoder(tiny_gguf(model, tmp_path / "tiny.gguf"), device="cpu")
    assert (decoder.logits(tiny_ids()) - decoder_from_model(model).logits(tiny_ids())).abs().max() > 0.1


def test_llama_cpp_stores_the_two_halves_of_a_rotation_side_by_side():
    rows = np.arange(16, dtype=np.float32)[:, None] * np.ones((1, 3), dtype=np.float32)
    stored = stored_by_llama_cpp(rows, heads=2)
    assert stored[:, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]
    assert np.array_equal(stored_by_transformers(stored, heads=2), rows)


def test_a_quantized_file_names_its_bits_and_stays_near_its_weights(tmp_path):
    model = tiny_llama(width=32, heads=4, layers=2)
    decoder = load_decoder(tiny_gguf(model, tmp_path / "tiny.gguf", quantized=True), device="cpu")
    assert decoder.facts.quantization == "4-bit (Q4_1), embedding 8-bit (Q8_0)"
    assert decoder.facts.name == "tiny, 4-bit (Q4_1)"
    apart = (decoder.attention_output(1).weight - model.model.layers[0].self_attn.o_proj.weight).abs().max()
    assert 0 < apart < 0.1


def test_digits_stand_alone_and_no_space_is_put_before_the_text(tmp_path):
    tokenizer = load_decoder(tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf"), device="cpu").tokenizer
    assert tokenizer.tokenize("a12 a") == ["a", "1", "2", "Ġa"]  # "1 2" is a merge, but digits never meet
    assert tokenizer.decode(tokenizer("\n   3.14 é")["input_ids"]) == "\n   3.14 é"
    assert tokenizer("<start>a")["input_ids"][0] == 256


def test_the_plain_pre_tokenizer_lets_digits_meet(tmp_path):
    tokenizer = load_decoder(
        tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf", pre_tokenizer="gpt-2"), device="cpu"
    ).tokenizer
    vocabulary = gguf_content(tmp_path / "tiny.gguf")
    assert json.loads(vocabulary.tokenizer.rule)["pre_tokenizer"]["pretokenizers"][0]["type"] == "ByteLevel"
    assert len(tokenizer) == 260


def test_an_unknown_pre_tokenizer_is_refused_by_name(tmp_path):
    file = tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf", pre_tokenizer="tekken")
    known = r"\(gpt-2, llama-bpe, llama3, olmo, qwen2, smollm, of kind gpt2\)"
    with pytest.raises(UnsupportedModelError, match=known + r", but tiny.gguf uses 'tekken'"):
        load_decoder(file)


@pytest.fixture
def qwen2(monkeypatch):
    """The architecture as a family, wherever it is not one yet."""
    from dataclasses import replace

    from armillary.models import families

    row = replace(families.FAMILIES["llama"], name="qwen2", architectures=("Qwen2ForCausalLM",))
    monkeypatch.setitem(families.FAMILIES, "qwen2", families.FAMILIES.get("qwen2", row))


@pytest.mark.parametrize("tied", [True, False])
def test_an_architecture_that_the_library_reads_gives_back_every_weight_and_every_logit(tied, tmp_path, qwen2):
    for model, architecture, rule in (
        (tiny_qwen2(tied=tied), "qwen2", "qwen2"),
        (tiny_gpt2(tied=tied), "gpt2", "gpt-2"),
    ):
        file = library_gguf(model, tmp_path / f"{architecture}.gguf", architecture=architecture, pre_tokenizer=rule)
        decoder = load_decoder(file, device="cpu")
        for name, parameter in model.named_parameters():
            assert torch.equal(decoder.model.get_parameter(name), parameter), name
        assert torch.equal(decoder.logits(tiny_ids()), decoder_from_model(model).logits(tiny_ids()))
        facts = decoder.facts
        assert (facts.family, facts.tied, facts.released_spread, facts.context) == (architecture, tied, None, 64)
        assert decoder.tokenizer("a 12")["input_ids"] == tiny_tokenizer()("a 12")["input_ids"]


@pytest.mark.parametrize(("kind", "bits", "near"), [("F16", None, 2e-3), ("Q8_0", "8-bit (Q8_0)", 0.02)])
def test_a_file_of_halves_or_of_blocks_stays_near_its_weights(kind, bits, near, tmp_path, qwen2):
    model = tiny_qwen2(width=32)
    decoder = load_decoder(library_gguf(model, tmp_path / "a.gguf", architecture="qwen2", kind=kind), device="cpu")
    assert decoder.facts.quantization == bits
    for name, parameter in model.named_parameters():
        apart = (decoder.model.get_parameter(name) - parameter).abs().max()
        assert apart <= near and (parameter.ndim == 1 or apart > 0), name


def test_tensors_that_the_library_would_pass_over_are_refused(tmp_path, qwen2):
    more = {"rope_freqs.weight": np.ones(3, dtype=np.float32)}
    file = library_gguf(tiny_qwen2(), tmp_path / "a.gguf", architecture="qwen2", more=more)
    with pytest.raises(UnsupportedModelError, match=r"must be read whole, but a.gguf holds \d+ numbers"):
        load_decoder(file)


@pytest.mark.parametrize("name", ["qwen2", "gpt-2"])
def test_text_is_cut_as_the_models_own_tokenizer_cuts_it(name):
    from transformers import GPT2Tokenizer, Qwen2Tokenizer

    vocabulary = {token: index for index, token in enumerate(tiny_tokenizer().get_vocab())}
    fields = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": list(vocabulary),
        "tokenizer.ggml.merges": [],
    }
    rebuilt = Tokenizer.from_str(
        file_tokenizer(Path("x.gguf"), lambda key, *default: fields.get(key, *default), required=True).rule
    )
    library = {"qwen2": Qwen2Tokenizer, "gpt-2": GPT2Tokenizer}[name](vocab=vocabulary, merges=[]).backend_tokenizer
    for text in (
        "I'll say: it's 2,048\u2009times\n\n  worse -- don't",
        "caf\u00e9 cafe\u0301 \u4f60\u597d 3.14",
        "\t\tx = [1, 22, 333]\r\n",
    ):
        normal = [one.normalizer.normalize_str(text) if one.normalizer else text for one in (rebuilt, library)]
        cut = [one.pre_tokenizer.pre_tokenize_str(part) for one, part in zip((rebuilt, library), normal, strict=True)]
        assert cut[0] == cut[1]


@pytest.mark.parametrize(("name", "numbers"), [("llama-bpe", ["123", "45"]), ("qwen2", ["1", "2", "3", "4", "5"])])
def test_as_many_digits_meet_as_the_named_rule_lets(name, numbers):
    from tokenizers import Regex, pre_tokenizers

    cut = pre_tokenizers.Split(Regex(PRE_TOKENIZERS[name].steps[0]), behavior="isolated")
    assert [part for part, _ in cut.pre_tokenize_str("12345 it's")] == [*numbers, " it", "'s"]


def test_a_tokenizer_that_cannot_be_proved_is_loaded_only_with_one_that_is_named_and_has_its_tokens(tmp_path):
    file = tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf", pre_tokenizer="tekken")
    own = load_decoder(tiny_gguf(tiny_llama(), tmp_path / "known.gguf"), device="cpu").tokenizer
    own.save_pretrained(tmp_path / "own")
    with pytest.raises(UnsupportedModelError, match="Name the model's own tokenizer with `tokenizer`"):
        load_decoder(file)
    decoder = load_decoder(file, tokenizer=tmp_path / "own", device="cpu")
    assert decoder.tokenizer("a 12")["input_ids"] == own("a 12")["input_ids"]
    with pytest.raises(UnsupportedModelError, match="uses 'tekken'"):  # the cache does not make it known
        load_decoder(file)
    with pytest.raises(UnsupportedModelError, match=r"id 254 is '.+' there and '12' in the file"):
        load_decoder(file, tokenizer=tiny_tokenizer())


def test_a_list_that_names_a_token_twice_is_refused():
    fields = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ["a", "b", "a"],
        "tokenizer.ggml.merges": [],
    }
    with pytest.raises(
        UnsupportedModelError, match=r"must list each token once, but x\.gguf lists 3 and 2 of them differ"
    ):
        file_tokenizer(Path("x.gguf"), lambda key, *default: fields.get(key, *default), required=True)


def test_an_architecture_of_no_family_or_scaled_positions_are_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="says 'bert'"):
        load_decoder(tiny_gguf(tiny_llama(), tmp_path / "a.gguf", general_architecture="bert"))
    with pytest.raises(UnsupportedModelError, match=r"llama.rope.scaling.type = 'yarn'"):
        load_decoder(tiny_gguf(tiny_llama(), tmp_path / "b.gguf", llama__rope__scaling__type="yarn"))


@pytest.mark.parametrize("share", [0.0001, 0.02, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_and_leaves_nothing_behind(share, tmp_path):
    whole = tiny_gguf(tiny_llama(), tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ArgumentError, match="GGUF file") as caught:
        load_decoder(cut)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").glob("*"))


def test_a_file_without_a_field_it_needs_is_refused_by_the_fields_name(tmp_path):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "empty.gguf", "llama")
    writer.add_embedding_length(24)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ArgumentError, match=r"empty.gguf holds no field llama.attention.head_count"):
        load_decoder(tmp_path / "empty.gguf")


def test_a_file_that_is_no_gguf_file_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ArgumentError, match="starts with b'hell'"):
        load_decoder(tmp_path / "notes.txt")


@pytest.mark.decoder
def test_the_default_tokenizer_gives_the_ids_of_llama_cpp_for_every_default_document(monkeypatch):
    monkeypatch.delenv("ARMILLARY_CACHE")
    tokenizer = load_decoder(prove=False).tokenizer
    for title, text in documents_of_this_python().items():
        ids = np.array(tokenizer(text)["input_ids"], dtype="<i4")
        assert len(ids) == DOCUMENTS[title]["tokens"], title
        assert hashlib.sha256(ids.tobytes()).hexdigest() == DOCUMENTS[title]["sha256_ids_int32_le"], title


@pytest.mark.decoder
def test_the_perplexity_of_the_default_is_that_of_a_model_that_reads_and_only_with_its_rows_in_order(monkeypatch):
    monkeypatch.delenv("ARMILLARY_CACHE")
    decoder = load_decoder(prove=False, device="cpu")
    from pydoc_data.topics import topics

    ids = torch.tensor([decoder.tokenizer(topics["assert"])["input_ids"][:200]])
    assert decoder.loss(decoder.hidden(ids), ids).exp().item() < 25
    heads = {"q_proj": decoder.facts.heads, "k_proj": decoder.facts.key_value_heads}
    with torch.no_grad():
        for name, parameter in decoder.model.named_parameters():
            if (part := name.split(".")[-2]) in heads:
                parameter.copy_(torch.from_numpy(stored_by_llama_cpp(parameter.numpy(), heads[part])))
    assert decoder.loss(decoder.hidden(ids), ids).exp().item() > 60
