"""From a name to a proved decoder: found, loaded in a declared type on a declared device, and put to the proof."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.anatomy import Decoder, DecoderFacts, weight_hash
from armillary.models.contract import Promise, prove, require
from armillary.models.families import FAMILIES, Family, family_of
from armillary.models.sources import ModelFolder, model_folder

__all__ = ["DTYPES", "Decoder", "DecoderFacts", "Promise", "decoder_from_model", "load_decoder", "prove", "require"]

DTYPES = ("float32", "float64", "bfloat16", "float16")
"""Types a decoder can be loaded in; statistics are accumulated in at least float32 whichever it is."""

_prove = prove  # `load_decoder` has an option of the same name


def load_decoder(
    source: str | Path | None = None, *, device: str = "auto", dtype: str = "float32", prove: bool = True
) -> Decoder:
    """Load a decoder and let it prove its contract.

    Args:
        source: None for the embedded default, a GGUF file, a folder with safetensors, or a hub id.
        device: "auto" (an accelerator if there is one), "cpu", "cuda" or "mps".
        dtype: one of `DTYPES`.
        prove: whether the contract is put to the proof now (`armillary check` prints it).
    Returns:
        The decoder in evaluation mode.
    Raises:
        ArgumentError: a source, device or type that cannot be used.
        UnsupportedModelError: an unknown family, a tokenizer that cannot be rebuilt, a promise missed.
        NumericalError: states that are NaN or infinite already in the proof.
    """
    target, kind = _device(device), _dtype(dtype)
    if target.type == "mps" and kind is torch.float64:
        raise ArgumentError('Argument `dtype` must be one that "mps" knows, but is "float64". Use device="cpu".')
    folder = model_folder(source)
    with _quietly():
        model, tokenizer = _model(folder, kind), _tokenizer(folder.path)
    known_hash = folder.weight_hash if kind is torch.float32 else None
    decoder = Decoder(
        model.to(target),
        tokenizer,
        folder.family,
        _facts(
            model,
            folder.family,
            tokenizer,
            name=folder.name,
            source=folder.source,
            quantization=folder.quantization,
            released_spread=folder.released_spread,
            known_hash=known_hash,
        ),
    )
    if prove:
        require(decoder, _prove(decoder))
    return decoder


def decoder_from_model(
    model: Any,
    tokenizer: Any = None,
    *,
    name: str | None = None,
    source: str = "a model object",
    quantization: str | None = None,
) -> Decoder:
    """A decoder around a model that is loaded already; it is set to evaluation mode and otherwise left alone.

    Args:
        model: the library's causal language model of a known family.
        tokenizer: its tokenizer, or None.
        name: recorded; None takes what the configuration says.
        source: recorded, where it came from in words.
        quantization: recorded, "4-bit (Q4_1)" for instance, or None.
    Returns:
        The decoder, not yet proved: `prove(decoder)` says what it keeps.
    Raises:
        UnsupportedModelError: an unknown family, or a part of the family that the model lacks.
    """
    architecture = type(model).__name__
    family = family_of(architecture) or next(
        (family_of(kind.__name__) for kind in type(model).__mro__ if family_of(kind.__name__)), None
    )
    if family is None:
        known = ", ".join(kind for row in FAMILIES.values() for kind in row.architectures)
        raise UnsupportedModelError(
            f"Argument `model` must be a decoder of a known family ({known}), but is {architecture}. "
            "Measure another model, or add its family (one row of data)."
        )
    facts = _facts(
        model.eval(),
        family,
        tokenizer,
        name=name or model.config.name_or_path or architecture,
        source=source,
        quantization=quantization,
        released_spread=getattr(model.config, "initializer_range", None),
        known_hash=None,
    )
    return Decoder(model, tokenizer, family, facts)


def _device(device: str) -> torch.device:
    usable = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if usable[kind]))
    if device not in usable:
        raise ArgumentError(f'Argument `device` must be auto, cpu, cuda or mps, but is {device!r}. Use "auto".')
    if not usable[device]:
        raise ArgumentError(
            f'Argument `device` must be one this machine has, but {device!r} is not available. Use "cpu".'
        )
    return torch.device(device)


def _dtype(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        raise ArgumentError(f'Argument `dtype` must be one of {", ".join(DTYPES)}, but is {dtype!r}. Use "float32".')
    kind: torch.dtype = getattr(torch, dtype)
    return kind


@contextmanager
def _quietly() -> Iterator[None]:
    """The library's own progress bar and load report stay silent: what they would say is checked here."""
    from transformers.utils import logging as library

    bar, level = library.is_progress_bar_enabled(), library.get_verbosity()
    library.disable_progress_bar()
    library.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bar:
            library.enable_progress_bar()


def _model(folder: ModelFolder, dtype: torch.dtype) -> Any:
    """The library's model with every weight from the file: what the file lacks is refused, never drawn fresh."""
    import transformers

    try:
        model, report = getattr(transformers, folder.architecture).from_pretrained(
            folder.path,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
        )
    except Exception as trouble:  # a cut file ends in errors of safetensors, the library or torch
        raise ArgumentError(
            f"Argument `source` must be a whole model, but the weights of {folder.name} cannot be read: "
            f"{_in_one_line(trouble)}. Fetch them again."
        ) from trouble
    for name, held, wanted in sorted(report["mismatched_keys"]):
        raise ArgumentError(
            f"Argument `source` must hold weights of the shapes of its config.json, but in {folder.name} {name} is "
            f"{list(held)}, not {list(wanted)}. Fetch the files again."
        )
    stack = folder.family.blocks.rsplit(".", 1)[-1]
    unused = sorted(name for name in report["unexpected_keys"] if re.search(rf"(^|\.){stack}\.\d+\.", name))
    if unused:
        raise ArgumentError(
            f"Argument `source` must hold no block weights beyond those of its config.json, but {folder.name} holds "
            f"{len(unused)}, the first {unused[0]}: the library would leave them out. Fetch the files again."
        )
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise ArgumentError(
            f"Argument `source` must hold every weight, but {folder.name} lacks {len(lacking)}, the first "
            f"{lacking[0]}: the library would draw it fresh. Fetch the files again."
        )
    return model.eval()


def _tokenizer(path: Path) -> Any:
    """The folder's tokenizer; tokenizer.json is taken as written where it exists: no class rebuilds it."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((path / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        return None
    kind = PreTrainedTokenizerFast if (path / "tokenizer.json").is_file() else AutoTokenizer
    try:
        return kind.from_pretrained(path, local_files_only=True)
    except Exception as trouble:  # whatever a damaged tokenizer file ends in
        raise ArgumentError(
            f"Argument `source` must hold a tokenizer that can be read, but that of {path} cannot: "
            f"{_in_one_line(trouble)}. Fetch it again."
        ) from trouble


def _in_one_line(trouble: Exception) -> str:
    """What a library's error says: its kind and the first two lines that say anything."""
    lines = [line.strip() for line in str(trouble).splitlines() if line.strip()][:2] or ["no reason given"]
    return f"{type(trouble).__name__}: {' '.join(lines).rstrip('.!')}"


def _facts(
    model: Any,
    family: Family,
    tokenizer: Any,
    *,
    name: str,
    source: str,
    quantization: str | None,
    released_spread: float | None,
    known_hash: str | None,
) -> DecoderFacts:
    config = model.config
    heads = config.num_attention_heads
    parts = (family.embedding, family.head, family.final_norm, family.blocks)
    try:
        embedding, head, _, blocks = (model.get_submodule(path) for path in parts)
        for block in blocks.children():
            for path in (family.attention, family.mlp, family.attention_norm, family.mlp_norm):
                block.get_submodule(path)
    except AttributeError as trouble:
        raise UnsupportedModelError(
            f"Argument `model` must have the parts of the family {family.name}, but {trouble}. Correct the family's "
            "row."
        ) from trouble
    return DecoderFacts(
        name=name,
        source=source,
        architecture=type(model).__name__,
        family=family.name,
        layers=len(tuple(blocks.children())),
        heads=heads,
        key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        width=config.hidden_size,
        vocabulary=embedding.num_embeddings,
        context=config.max_position_embeddings,
        norm=family.norm,
        norm_place=family.norm_place,
        residual=family.residual,
        positions=family.positions,
        start_of_stream=family.start_of_stream,
        tied=head.weight is embedding.weight,
        dtype=str(embedding.weight.dtype).removeprefix("torch."),
        quantization=quantization,
        weight_hash=known_hash or weight_hash(model),
        tokenizer=_tokenizer_words(tokenizer),
        library_spread=type(config)().initializer_range,
        released_spread=released_spread,
    )


def _tokenizer_words(tokenizer: Any) -> str:
    """The tokenizer in one line: kind, size, and a hash over its whole rule where it can be written down."""
    import hashlib

    if tokenizer is None:
        return "none: give token ids"
    words = f"{type(tokenizer).__name__} of {len(tokenizer)} tokens"
    rule = getattr(tokenizer, "backend_tokenizer", None)
    return (
        words if rule is None else f"{words}, sha256 {hashlib.sha256(rule.to_str().encode('utf-8')).hexdigest()[:16]}"
    )
