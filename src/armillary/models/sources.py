"""Where a decoder comes from: the default, a GGUF file, a folder or a hub id, brought to one folder or refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.families import FAMILIES
from armillary.models.recognition import causal
from armillary.models.shelf import DEFAULT_COMMAND, DEFAULT_NAME, DEFAULT_SHA256, RELEASED_SPREAD, default_file, shelved
from armillary.models.tokenizer import TOKENIZER_FILES

__all__ = ["ModelFolder", "model_folder", "tokenizer_folder"]

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_REVISION = re.compile(r"[\w.\-/]+")
_TOKENIZER = ["tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json"]
_WANTED = ["*.json", "*.safetensors", "*.txt", "tokenizer.model"]


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with config.json and safetensors, judged by its configuration before any weight is read.

    `released_spread` is what the configuration states (or the shelf knows), None if nobody recorded it; `weight_hash`
    is that of a converted file, None where the weights have not been hashed yet; `revision` is the commit of a hub id.
    `pickled` says that the weights are read from a pickle, `remote_code` that the folder's own code builds the model,
    `permitted` what of this was permitted and used, in words. `tokens` are those that a GGUF
    file lists, where a tokenizer given beside it must have the same, and `spare` their unused ids.
    """

    path: Path
    name: str
    source: str
    architecture: str
    quantization: str | None
    released_spread: float | None
    weight_hash: str | None
    revision: str | None = None
    pickled: bool = False
    remote_code: bool = False
    permitted: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    spare: tuple[int, ...] = ()


def model_folder(
    source: str | Path | None,
    *,
    revision: str | None = None,
    own_tokenizer: bool = True,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
) -> ModelFolder:
    """Bring a source to a folder.

    Args:
        source: None for the embedded default, a GGUF file, a folder, or a hub id ("openai-community/gpt2").
        revision: Branch, tag or commit of a hub id; None for its main branch.
        own_tokenizer: Whether the source's own tokenizer will be used; a GGUF file whose own cannot be proved is then
            refused.
        allow_pickle: Whether pickled weights may be read, where there are no safetensors.
        trust_remote_code: Whether code that the source brings may be run.

    Raises:
        ArgumentError: nothing there, not a model, truncated, pickled weights only, an id that cannot be reached.
        UnsupportedModelError: a model of an unknown family, of its own code, or quantized.
    """
    path = None if source is None else Path(source).expanduser()
    if path is None or path.exists():
        if revision is not None:
            raise ArgumentError(
                f"Argument `revision` must belong to a hub id, but {source or 'the embedded default'} lies on this "
                "machine as it is. Leave `revision` out."
            )
        if path is None or path.is_file():
            return _from_gguf(default_file() if path is None else path, own_tokenizer=own_tokenizer)
        return _from_folder(
            path,
            name=path.resolve().name,
            source=str(path),
            allow_pickle=allow_pickle,
            trust_remote_code=trust_remote_code,
        )
    text = str(source)
    if not _HUB_ID.fullmatch(text) or text.endswith(".gguf"):
        raise ArgumentError(
            f"Argument `source` must be a GGUF file, a folder, a hub id or None (the embedded default), but {text} "
            "does not exist. Check the path."
        )
    wanted = [*_WANTED, *(["*.bin"] if allow_pickle else []), *(["*.py"] if trust_remote_code else [])]
    path = _fetched(text, revision, wanted)
    found = _from_folder(
        path,
        name=text,
        source=f"hub: {text} at {path.name}",
        allow_pickle=allow_pickle,
        trust_remote_code=trust_remote_code,
    )
    return replace(found, revision=path.name)


def tokenizer_folder(source: str | Path) -> Path:
    """The folder of a tokenizer that was named beside a model.

    Args:
        source: A folder, a file tokenizer.json, or a hub id.

    Raises:
        ArgumentError: Nothing there, or no tokenizer in it.
    """
    path = Path(source).expanduser()
    if path.is_file():
        path = path.parent
    if not path.is_dir():
        if not _HUB_ID.fullmatch(str(source)):
            raise ArgumentError(
                f"Argument `tokenizer` must be a folder or a hub id, but {source} does not exist. Check the path."
            )
        path = _fetched(str(source), None, [*_TOKENIZER, "config.json"], argument="tokenizer")
    if not any((path / name).is_file() for name in TOKENIZER_FILES):
        raise ArgumentError(
            f"Argument `tokenizer` must hold one of {', '.join(TOKENIZER_FILES)}, but {source} holds none. Name the "
            "folder that the tokenizer was saved in."
        )
    return path


def _from_gguf(path: Path, *, own_tokenizer: bool) -> ModelFolder:
    found = shelved(path, own_tokenizer=own_tokenizer)
    is_default = found.sha256 == DEFAULT_SHA256
    name = DEFAULT_NAME if is_default else path.stem
    labeled = name if found.quantization is None else f"{name}, {found.quantization.split(',')[0]}"
    origin = f"GGUF file {path.name}, sha256 {found.sha256}" + (
        f" ({DEFAULT_COMMAND.rsplit(' ', 1)[1]})" if is_default else ""
    )
    config = json.loads((found.folder / "config.json").read_text(encoding="utf-8"))
    listed = {} if own_tokenizer else json.loads((found.folder / "tokens.json").read_text(encoding="utf-8"))
    return ModelFolder(
        path=found.folder,
        name=labeled,
        source=origin,
        architecture=config["architectures"][0],
        quantization=found.quantization,
        released_spread=RELEASED_SPREAD.get(found.sha256),
        weight_hash=found.weight_hash,
        tokens=tuple(listed.get("tokens", ())),
        spare=tuple(listed.get("spare", ())),
    )


def _from_folder(path: Path, *, name: str, source: str, allow_pickle: bool, trust_remote_code: bool) -> ModelFolder:
    config = _configuration(path)
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures:
        raise ArgumentError(
            f"Argument `source` must be a model, but config.json of {name} names no architecture ({architectures!r}). "
            f"Name a folder whose config.json says one of {_known()}."
        )
    remote = _remote_code(path, config, name, trusted=trust_remote_code)
    if remote is None:
        _require_known(str(architectures[0]), name)
    if config.get("quantization_config"):
        method = config["quantization_config"]
        method = method.get("quant_method", "unknown method") if isinstance(method, dict) else method
        raise UnsupportedModelError(
            f"Argument `source` must hold unquantized safetensors, but {name} is quantized ({method}). Measure the "
            "unquantized release."
        )
    if (path / "adapter_config.json").is_file():
        raise UnsupportedModelError(
            f"Argument `source` must be a model of its own, but {name} holds an adapter (adapter_config.json), which "
            "the library would lay over the weights. Save the merged model and name its folder."
        )
    pickle = _pickle(path, name, allowed=allow_pickle)
    spread = config.get("initializer_range", config.get("init_std"))
    return ModelFolder(
        path=path,
        name=name,
        source=source,
        architecture=str(architectures[0]),
        quantization=None,
        released_spread=float(spread) if isinstance(spread, int | float) else None,
        weight_hash=None,
        pickled=pickle is not None,
        remote_code=remote is not None,
        permitted=tuple(words for words in (pickle, remote) if words is not None),
    )


def _known() -> str:
    return ", ".join(architecture for row in FAMILIES.values() for architecture in row.architectures)


def _require_known(architecture: str, name: str) -> None:
    if not causal(architecture):
        raise UnsupportedModelError(
            f"Argument `source` must be a causal language model of the library ({_known()} or another), but {name} is "
            f"{architecture}. Measure another model."
        )


def _remote_code(path: Path, config: dict[str, Any], name: str, *, trusted: bool) -> str | None:
    """What is run where the configuration names code of its own, in words; refused unless it was asked for."""
    if not config.get("auto_map"):
        return None
    if not trusted:
        raise UnsupportedModelError(
            f"Argument `source` must be a model of the library itself, but {name} brings its own code, which may do "
            "anything on this machine. Measure another model, or read the code and pass `trust_remote_code=True`."
        )
    brought = sorted(path.glob("*.py"))
    hashes = ", ".join(f"{file.name} sha256 {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}" for file in brought)
    return f"remote code: its own classes were run, as permitted ({hashes or 'from another place'})"


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


def _pickle(path: Path, name: str, *, allowed: bool) -> str | None:
    """What is read where there are no safetensors, in words; a pickle is refused unless it was asked for."""
    whole = ("model.safetensors", "model.safetensors.index.json")
    if any((path / file).is_file() for file in whole):
        return None
    pickled = sorted(entry.name for entry in path.iterdir() if entry.suffix in _PICKLED)
    if pickled and not allowed:
        raise ArgumentError(
            f"Argument `source` must hold safetensors, but {name} holds pickled weights only ({pickled[0]}), a format "
            "that can carry code. Convert them with `model.save_pretrained(folder)` where you trust the file, or pass "
            "`allow_pickle=True`: then nothing but tensors is read from it."
        )
    if any((path / file).is_file() for file in ("pytorch_model.bin", "pytorch_model.bin.index.json")):
        return "pickled weights: read as permitted, tensors and nothing else"
    others = sorted(entry.name for entry in (*path.glob("*.safetensors"), *path.glob("*.bin")))
    held = f"only {others[0]}" if others else "no .safetensors file"
    raise ArgumentError(f"Argument `source` must hold weights, but {name} holds {held}. Add model.safetensors.")


def _fetched(hub_id: str, revision: str | None, wanted: list[str], *, argument: str = "source") -> Path:
    """The files of a hub id on this machine, at one commit; pickled weights and code come only if permitted."""
    from huggingface_hub import snapshot_download

    if revision is not None and not _REVISION.fullmatch(revision):
        raise ArgumentError(
            f"Argument `revision` must be a branch, a tag or a commit, but is {revision!r}. Copy it from the hub."
        )
    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=wanted))
    except Exception as trouble:  # the hub's client ends in a dozen errors of several libraries
        first_line = str(trouble).strip().splitlines()[0] if str(trouble).strip() else "no reason given"
        at = "" if revision is None else f" at {revision!r}"
        raise ArgumentError(
            f"Argument `{argument}` must be a model that can be reached, but {hub_id!r}{at} is no file or folder here "
            f"and the hub does not bring it ({type(trouble).__name__}: {first_line.rstrip('.')}). Check the name and "
            f"the connection, name a folder, or leave `{argument}` out."
        ) from trouble
