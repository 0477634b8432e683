"""Weights read from a folder: every tensor from its files and none drawn fresh, none left out, none lost on the way."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.evidence import hands_out_maps
from armillary.models.sources import ModelFolder
from armillary.models.tokenizer import in_one_line

__all__ = ["read_model", "stored_types"]

_REBUILT = re.compile(r"(^|\.)(rotary_emb\.inv_freq|position_ids|(attn|attention)\.(bias|masked_bias))$")
"""Constants that older checkpoints carry and the library computes itself."""

_SHORT = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_model(folder: ModelFolder, dtype: torch.dtype, *, device_map: str | Mapping[str, Any] | None = None) -> Any:
    """The library's model in evaluation mode, with every weight from the files.

    Args:
        folder: Where they lie, and what was permitted.
        dtype: Type to read them in.
        device_map: Where each part goes, as accelerate takes it; None reads everything into main memory.

    Returns:
        The model.

    Raises:
        ArgumentError: Files that are cut, missing, or not those of config.json, by the name of a tensor or file.
        UnsupportedModelError: A class that the library does not know.
    """
    _require_shards(folder)
    kind = _kind(folder)
    options: dict[str, Any] = {"trust_remote_code": True} if folder.remote_code else {}
    options |= {
        "dtype": dtype,
        "use_safetensors": not folder.pickled,
        "weights_only": True,  # a pickle may name tensors and nothing else
        "local_files_only": True,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,  # they are refused below, by name
        "device_map": device_map,
    }
    try:
        with quietly():
            model, report = kind.from_pretrained(folder.path, **options)
            if not hands_out_maps(model):
                model, report = kind.from_pretrained(folder.path, attn_implementation="eager", **options)
    except Exception as trouble:  # a cut file ends in errors of safetensors, the library or torch
        raise _unreadable(folder, trouble) from trouble
    _require_all(folder, report)
    if dtype is torch.float64 and getattr(model.config, "_experts_implementation", None) is not None:
        model.set_experts_implementation("eager")  # the faster ways to run experts know no float64
    return model.eval()


def stored_types(folder: ModelFolder) -> tuple[str, ...]:
    """The types that the safetensors of a folder store their tensors in, told from their headers."""
    from safetensors import safe_open

    found: set[str] = set()
    for file in sorted(folder.path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            kinds = {tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        found |= {_SHORT.get(kind, kind) for kind in kinds}
    return tuple(sorted(found))


@contextmanager
def quietly() -> Iterator[None]:
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


def _kind(folder: ModelFolder) -> Any:
    import transformers

    if folder.remote_code:
        return transformers.AutoModelForCausalLM
    kind = getattr(transformers, folder.architecture, None)
    if kind is None:
        raise UnsupportedModelError(
            f"Argument `source` must be a model of the installed library (transformers {transformers.__version__}), "
            f"but that does not know {folder.architecture}. Install a version that does."
        )
    return kind


def _require_shards(folder: ModelFolder) -> None:
    """Every file that an index names is there; the library's own error names a cache instead."""
    index = folder.path / f"{'pytorch_model.bin' if folder.pickled else 'model.safetensors'}.index.json"
    if not index.is_file():
        return
    try:
        named = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as trouble:
        raise ArgumentError(
            f"Argument `source` must hold an index of its shards, but {index.name} of {folder.name} cannot be read: "
            f"{in_one_line(trouble)}. Fetch it again."
        ) from trouble
    lost = [name for name in named if Path(name).name != name or not (folder.path / name).is_file()]
    if lost:
        raise ArgumentError(
            f"Argument `source` must hold every shard that {index.name} names, but {folder.name} lacks {len(lost)} of "
            f"{len(named)}, the first {lost[0]}. Fetch it again."
        )


def _unreadable(folder: ModelFolder, trouble: Exception) -> ArgumentError:
    if folder.pickled and "weights_only" in str(trouble).lower().replace(" ", "_"):
        return ArgumentError(
            f"Argument `source` must hold tensors and nothing else, but the pickled weights of {folder.name} name "
            f"objects that would run code when they are read ({in_one_line(trouble)[:160]}). Convert them with "
            "`model.save_pretrained(folder)` where you trust the file."
        )
    return ArgumentError(
        f"Argument `source` must be a whole model, but the weights of {folder.name} cannot be read: "
        f"{in_one_line(trouble)}. Fetch them again."
    )


def _require_all(folder: ModelFolder, report: Mapping[str, Any]) -> None:
    """What the files lack is refused, never drawn fresh; what the model has no place for is refused, never dropped."""
    for name, held, wanted in sorted(report["mismatched_keys"]):
        raise ArgumentError(
            f"Argument `source` must hold weights of the shapes of its config.json, but in {folder.name} {name} is "
            f"{list(held)}, not {list(wanted)}. Fetch the files again."
        )
    unused = sorted(name for name in report["unexpected_keys"] if not _REBUILT.search(name))
    if unused:
        raise ArgumentError(
            f"Argument `source` must hold no weights beyond those of its config.json, but {folder.name} holds "
            f"{len(unused)}, the first {unused[0]}: the library would leave them out. Fetch the files again."
        )
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise ArgumentError(
            f"Argument `source` must hold every weight, but {folder.name} lacks {len(lacking)}, the first "
            f"{lacking[0]}: the library would draw it fresh. Fetch the files again."
        )
