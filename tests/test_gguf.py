"""A GGUF file gives back the model that was written, row order and tokenizer included, or it is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models import gguf as module
from armillary.models.decoder import decoder_from_model, load_decoder
from armillary.models.gguf import gguf_content, stored_by_llama_cpp, stored_by_transformers
from tiny import tiny_gguf, tiny_ids, tiny_llama

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
    assert json.loads(vocabulary.tokenizer)["pre_tokenizer"]["pretokenizers"][0]["type"] == "ByteLevel"
    assert len(tokenizer) == 260


def test_an_unknown_pre_tokenizer_is_refused_by_name(tmp_path):
    file = tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf", pre_tokenizer="llama-bpe")
    with pytest.raises(UnsupportedModelError, match=r"\(gpt-2, smollm, of kind gpt2\), but tiny.gguf uses 'llama-bpe'"):
        load_decoder(file)


def test_another_architecture_or_scaled_positions_are_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="says 'qwen2'"):
        load_decoder(tiny_gguf(tiny_llama(), tmp_path / "a.gguf", general_architecture="qwen2"))
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
