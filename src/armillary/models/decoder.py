"""From a name to a proved decoder: found, loaded in a declared type on a declared device, and put to the proof."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder, DecoderFacts
from armillary.models.contract import Promise, prove, require
from armillary.models.facts import facts_of
from armillary.models.families import Family
from armillary.models.placement import placed, placement, require_everywhere
from armillary.models.recognition import row_of
from armillary.models.soundness import require_sound
from armillary.models.sources import ModelFolder, model_folder, tokenizer_folder
from armillary.models.tokenizer import folder_tokenizer, require_fit, require_tokens
from armillary.models.weights import quietly, read_model, stored_types

__all__ = ["DTYPES", "Decoder", "DecoderFacts", "Promise", "decoder_from_model", "load_decoder", "prove", "require"]

DTYPES = ("float32", "float64", "bfloat16", "float16")
"""Types a decoder can be loaded in; statistics are accumulated in at least float32 whichever it is."""

HALF = ("bfloat16", "float16")
_EXACT = {(narrow, wide) for narrow in HALF for wide in ("float32", "float64")} | {("float32", "float64")}

_prove = prove  # `load_decoder` has an option of the same name


def load_decoder(
    source: str | Path | None = None,
    *,
    revision: str | None = None,
    tokenizer: Any = None,
    device: str | Mapping[str, Any] = "auto",
    dtype: str = "float32",
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
    prove: bool = True,
) -> Decoder:
    """Load a decoder and let it prove its contract.

    Args:
        source: None for the embedded default, a GGUF file, a folder with safetensors, or a hub id.
        revision: branch, tag or commit of a hub id; the commit is recorded.
        tokenizer: a folder, a hub id, or the library's tokenizer, in place of the source's own.
        device: "auto" (an accelerator if there is one), "cpu", "cuda", "mps", "map" (layers spread over all
            accelerators), or a device map as accelerate takes it.
        dtype: one of `DTYPES`.
        allow_pickle: read pickled weights where there are no safetensors: a format that can carry code, from which
            nothing but tensors is taken. Recorded.
        trust_remote_code: run the code that the source brings, which may do anything on this machine. Recorded.
        prove: whether the contract is put to the proof now (`armillary check` prints it).

    Returns:
        The decoder in evaluation mode.

    Raises:
        ArgumentError: a source, device or type that cannot be used.
        UnsupportedModelError: an unknown family, a tokenizer that cannot be rebuilt, a promise missed.
        NumericalError: states that are NaN or infinite already in the proof.
    """
    where, kind = placement(device), _dtype(dtype)
    if where.target is not None and where.target.type == "mps" and kind is torch.float64:
        raise ArgumentError('Argument `dtype` must be one that "mps" knows, but is "float64". Use device="cpu".')
    folder = model_folder(
        source,
        revision=revision,
        own_tokenizer=tokenizer is None,
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )
    words = _tokenizer(folder, tokenizer)
    model = read_model(folder, kind, device_map=where.device_map)
    family = row_of(model)
    notes = (*_precision(folder, model, dtype), *require_sound(model, family, name=folder.name))
    known_hash = folder.weight_hash if kind is torch.float32 else None
    facts = facts_of(
        model,
        family,
        words,
        name=folder.name,
        source=folder.source,
        quantization=folder.quantization,
        released_spread=folder.released_spread,
        known_hash=known_hash,
    )
    notes += require_fit(words, rows=facts.vocabulary, name=folder.name)
    facts = replace(facts, revision=folder.revision, permitted=folder.permitted, notes=notes)
    loading = {
        "source": str(Path(source).resolve()) if source is not None and Path(source).exists() else source,
        "revision": folder.revision or revision,
        "tokenizer": tokenizer,
        "device": device if where.device_map is not None else str(where.target),
        "dtype": dtype,
        "allow_pickle": allow_pickle,
        "trust_remote_code": trust_remote_code,
    }
    decoder = Decoder(placed(model, where), words, family, facts, loading)
    if where.device_map is not None:
        require_everywhere(decoder)
    if prove or family.origin != "listed":
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
        model: the library's causal language model.
        tokenizer: its tokenizer, or None.
        name: recorded; None takes what the configuration says.
        source: recorded, where it came from in words.
        quantization: recorded, "4-bit (Q4_1)" for instance, or None.

    Returns:
        The decoder, not yet proved: `prove(decoder)` says what it keeps.

    Raises:
        UnsupportedModelError: no row names it and none can be inferred, or a part of its row that the model lacks.
    """
    family = row_of(model.eval() if hasattr(model, "eval") else model)
    notes = require_sound(model, family, name=name or type(model).__name__)
    facts = facts_of(
        model,
        family,
        tokenizer,
        name=name or model.config.name_or_path or type(model).__name__,
        source=source,
        quantization=quantization,
        released_spread=_released_spread(model, family),
        known_hash=None,
    )
    notes += require_fit(tokenizer, rows=facts.vocabulary, name=facts.name)
    return Decoder(model, tokenizer, family, replace(facts, notes=notes))


def _released_spread(model: Any, family: Family) -> float | None:
    """The spread that a model object was released with; None where only the library's default stands there.

    A configuration that was read from somewhere has a name; one that was made on the spot says what the library fills
    in where nobody gave a number, and that is nobody's recipe.
    """
    config = model.config
    spread = getattr(config, family.spread, None)
    if not config.name_or_path and spread == getattr(type(config)(), family.spread, None):
        return None
    return None if spread is None else float(spread)


def _tokenizer(folder: ModelFolder, given: Any) -> Any:
    """The source's own tokenizer, or the one named beside it; what a GGUF file lists it must have, id by id."""
    with quietly():
        if given is None:
            return folder_tokenizer(folder.path, remote_code=folder.remote_code)
        found = folder_tokenizer(tokenizer_folder(given)) if isinstance(given, str | Path) else given
    if folder.tokens:
        require_tokens(found, folder.tokens, spare=folder.spare, name=folder.name)
    return found


def _precision(folder: ModelFolder, model: Any, dtype: str) -> tuple[str, ...]:
    """What the types of the stored and the loaded weights mean for the numbers."""
    stored = stored_types(folder)
    notes = []
    if folder.quantization is None and stored and any(kind != dtype for kind in stored):
        exact = all(kind == dtype or (kind, dtype) in _EXACT for kind in stored)
        notes.append(
            f"Weights are stored in {' and '.join(stored)} and read in {dtype}"
            + (", which changes none of them." if exact else ", which rounds them.")
        )
    if dtype in HALF:
        sentence = (
            f"Weights and states are {dtype}, half precision: statistics are accumulated in at least float32, but the "
            "states themselves are rounded; see the rounding floor."
        )
        warnings.warn(sentence, stacklevel=3)
        notes.append(sentence)
    return tuple(notes)


def _dtype(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        raise ArgumentError(f'Argument `dtype` must be one of {", ".join(DTYPES)}, but is {dtype!r}. Use "float32".')
    kind: torch.dtype = getattr(torch, dtype)
    return kind
