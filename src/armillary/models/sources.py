"""Where a decoder comes from: the default, a GGUF file, a folder or a hub id, brought to one folder or refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.families import FAMILIES, Family, family_of
from armillary.models.shelf import DEFAULT_COMMAND, DEFAULT_NAME, DEFAULT_SHA256, RELEASED_SPREAD, default_file, shelved

__all__ = ["ModelFolder", "model_folder"]

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_WANTED = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with config.json and safetensors, judged by its configuration before any weight is read.

    `released_spread` is what the configuration states (or the shelf knows), None if nobody recorded it; `weight_hash`
    is that of a converted file, None where the weights have not been hashed yet.
    """

    path: Path
    name: str
    source: str
    family: Family
    architecture: str
    quantization: str | None
    released_spread: float | None
    weight_hash: str | None


def model_folder(source: str | Path | None) -> ModelFolder:
    """Bring a source to a folder.

    Args:
        source: None for the embedded default, a GGUF file, a folder, or a hub id ("openai-community/gpt2").
    Raises:
        ArgumentError: nothing there, not a model, truncated, pickled weights only, an id that cannot be reached.
        UnsupportedModelError: a model of an unknown family.
    """
    if source is None:
        return _from_gguf(default_file())
    path = Path(source).expanduser()
    if path.is_file():
        return _from_gguf(path)
    if path.is_dir():
        return _from_folder(path, name=path.resolve().name, source=str(path))
    text = str(source)
    if not _HUB_ID.fullmatch(text) or text.endswith(".gguf"):
        raise ArgumentError(
            f"Argument `source` must be a GGUF file, a folder, a hub id or None (the embedded default), but {text} "
            "does not exist. Check the path."
        )
    path = _fetched(text)
    return _from_folder(path, name=text, source=f"hub: {text} at {path.name}")


def _from_gguf(path: Path) -> ModelFolder:
    found = shelved(path)
    is_default = found.sha256 == DEFAULT_SHA256
    name = DEFAULT_NAME if is_default else path.stem
    labeled = name if found.quantization is None else f"{name}, {found.quantization.split(',')[0]}"
    origin = f"GGUF file {path.name}, sha256 {found.sha256}" + (
        f" ({DEFAULT_COMMAND.rsplit(' ', 1)[1]})" if is_default else ""
    )
    config = json.loads((found.folder / "config.json").read_text(encoding="utf-8"))
    return ModelFolder(
        path=found.folder,
        name=labeled,
        source=origin,
        family=FAMILIES[config["model_type"]],
        architecture=config["architectures"][0],
        quantization=found.quantization,
        released_spread=RELEASED_SPREAD.get(found.sha256),
        weight_hash=found.weight_hash,
    )


def _from_folder(path: Path, *, name: str, source: str) -> ModelFolder:
    config = _configuration(path)
    architectures = config.get("architectures")
    known = ", ".join(architecture for row in FAMILIES.values() for architecture in row.architectures)
    if not isinstance(architectures, list) or not architectures:
        raise ArgumentError(
            f"Argument `source` must be a model, but config.json of {name} names no architecture ({architectures!r}). "
            f"Name a folder whose config.json says one of {known}."
        )
    family = family_of(str(architectures[0]))
    if family is None:
        raise UnsupportedModelError(
            f"Argument `source` must be a decoder of a known family ({known}), but {name} is {architectures[0]}. "
            "Measure another model, or add its family (one row of data)."
        )
    if config.get("quantization_config"):
        raise UnsupportedModelError(
            f"Argument `source` must hold unquantized safetensors, but {name} is quantized "
            f"({config['quantization_config'].get('quant_method', 'unknown method')}). Measure the unquantized release."
        )
    if config.get("auto_map"):
        raise UnsupportedModelError(
            f"Argument `source` must be a model of the library itself, but {name} brings its own code, which is never "
            "run. Measure another model."
        )
    _require_weights(path, name)
    spread = config.get("initializer_range")
    return ModelFolder(
        path=path,
        name=name,
        source=source,
        family=family,
        architecture=str(architectures[0]),
        quantization=None,
        released_spread=float(spread) if isinstance(spread, int | float) else None,
        weight_hash=None,
    )


def _configuration(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not file.is_file():
        held = sorted(entry.name for entry in path.glob("*.gguf"))
        remedy = (
            f"Name the file itself: {path / held[0]}."
            if held
            else "Name a folder with config.json and model.safetensors."
        )
        raise ArgumentError(f"Argument `source` must be a model, but the folder {path} holds no config.json. {remedy}")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as trouble:
        raise ArgumentError(
            f"Argument `source` must be a model, but {file} is not JSON: {trouble}. Fetch it again."
        ) from trouble
    if not isinstance(config, dict):
        raise ArgumentError(f"Argument `source` must be a model, but {file} holds no JSON object. Fetch it again.")
    return config


def _require_weights(path: Path, name: str) -> None:
    if any(path.glob("*.safetensors")):
        return
    pickled = sorted(entry.name for entry in path.iterdir() if entry.suffix in _PICKLED)
    if pickled:
        raise ArgumentError(
            f"Argument `source` must hold safetensors, but {name} holds pickled weights only ({pickled[0]}), which "
            "can run code when they are read and are never opened. Convert them with "
            "`model.save_pretrained(folder, safe_serialization=True)` where you trust the file."
        )
    raise ArgumentError(
        f"Argument `source` must hold weights, but {name} holds no .safetensors file. Add model.safetensors."
    )


def _fetched(hub_id: str) -> Path:
    """The files of a hub id on this machine; pickled weights are not asked for."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, allow_patterns=_WANTED))
    except Exception as trouble:  # the hub's client ends in a dozen errors of several libraries
        first_line = str(trouble).strip().splitlines()[0] if str(trouble).strip() else "no reason given"
        raise ArgumentError(
            f"Argument `source` must be a model that can be reached, but {hub_id!r} is no file or folder here and the "
            f"hub does not bring it ({type(trouble).__name__}: {first_line}). Check the name and the connection, name "
            "a folder, or leave `source` out for the embedded default."
        ) from trouble
