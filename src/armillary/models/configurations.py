"""A configuration of the library, from a type of model, a file, a folder or a hub id, and a model drawn from it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.sources import model_folder
from armillary.models.weights import quietly

__all__ = ["configuration", "drawn", "require_drawable"]

_REFUSALS = (ArithmeticError, KeyError, TypeError, ValueError)
"""What the library raises where a value of a configuration does not fit."""


def configuration(source: str | Path | None, changes: Mapping[str, str] | None = None) -> Any:
    """The configuration that a text names, with fields changed.

    Args:
        source: A type of model ("gpt2", "llama": the library's defaults), a config.json, a folder that holds one, a hub
            id; None for the embedded default's, with the spread that its release states.
        changes: Field -> value as text; a value has the type of the field's own.

    Returns:
        The library's configuration, a copy.

    Raises:
        ArgumentError: Nothing is found there, a field does not exist, a value is of another type or out of range.
        UnsupportedModelError: It is no causal language model's.
    """
    config = _named(source)
    if not changes:
        return config
    fields = config.to_dict()
    for field, text in changes.items():
        if not hasattr(config, field):
            raise ArgumentError(
                f"Argument `changes` must name fields of {type(config).__name__}, but {field!r} is none. Look them up "
                "in its config.json."
            )
        fields[field] = _like(getattr(config, field), field, text)
    if "head_dim" not in changes and fields.get("head_dim") == config.hidden_size // config.num_attention_heads:
        del fields["head_dim"]  # it followed from the others, and follows again
    from huggingface_hub.errors import StrictDataclassError

    try:
        with quietly():  # it says which special tokens lie beyond a smaller vocabulary; none is used here
            made = type(config).from_dict(fields)
    except (StrictDataclassError, *_REFUSALS) as trouble:
        raise _unfit(config, trouble) from trouble
    if made.num_hidden_layers < 1:
        field = type(config).attribute_map.get("num_hidden_layers", "num_hidden_layers")
        raise ArgumentError(
            f"Argument `changes` must leave one block at least, but {field} is {made.num_hidden_layers}. Write "
            f"`changes` {field}=2."
        )
    spread = getattr(made, "initializer_range", None)
    if spread is not None and not spread > 0:
        raise ArgumentError(
            f"Argument `changes` must leave weights a positive spread, but initializer_range is {spread:g}. Write "
            "`changes` initializer_range=0.02."
        )
    return made


def require_drawable(config: Any) -> None:
    """Refuse a configuration of which the library can draw no model, without drawing one.

    Args:
        config: Its configuration.

    Raises:
        ArgumentError: Values that do not fit one another.
        UnsupportedModelError: The library has no causal language model for it.
    """
    try:
        with torch.device("meta"):
            model = _built(copy.deepcopy(config))
    except RuntimeError as trouble:
        raise _unfit(config, trouble) from trouble
    empty = [name for name, weight in model.named_parameters() if not weight.numel()]
    if empty:
        raise _unfit(config, ValueError(f"{empty[0]} would be empty"))


def drawn(config: Any, *, seed: int) -> Any:
    """A causal language model with fresh weights, float32, in evaluation mode; torch's random state is as before.

    Args:
        config: Its configuration; a copy is used.
        seed: Of the draw, on the CPU.

    Raises:
        ArgumentError: Values that do not fit one another.
        UnsupportedModelError: The library has no causal language model for it.
    """
    config = copy.deepcopy(config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return _built(config).eval()


def _built(config: Any) -> Any:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

    try:
        with quietly():
            return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except _REFUSALS as trouble:
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            raise _unfit(config, trouble) from trouble
        raise UnsupportedModelError(
            f"Argument `source` must be a causal language model's configuration, but {type(config).__name__} gives "
            f"none ({str(trouble).splitlines()[0]}). Name another."
        ) from trouble


def _unfit(config: Any, trouble: Exception) -> ArgumentError:
    said = " ".join(str(trouble).split()).rstrip(".")
    kind = "" if isinstance(trouble, ValueError) else f"{type(trouble).__name__}: "
    return ArgumentError(
        f"Argument `changes` must give values of which a {type(config).__name__} makes a model, but the library says "
        f"{kind}{said}. Change that value."
    )


def _named(source: str | Path | None) -> Any:
    from transformers import CONFIG_MAPPING, AutoConfig

    if source is not None and not Path(source).exists() and str(source) in CONFIG_MAPPING:
        return CONFIG_MAPPING[str(source)]()
    if source is not None and Path(source).is_file() and Path(source).suffix == ".json":
        return _read(Path(source))
    folder = model_folder(source, own_tokenizer=False)
    config = AutoConfig.from_pretrained(folder.path)
    if folder.released_spread is not None and hasattr(config, "initializer_range"):
        config.initializer_range = folder.released_spread
    return config


def _read(path: Path) -> Any:
    from transformers import CONFIG_MAPPING

    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return CONFIG_MAPPING[fields["model_type"]].from_dict(fields)
    except (OSError, ValueError, KeyError, TypeError) as trouble:
        raise ArgumentError(
            f"Argument `source` must be a config.json with a model type that the library knows, but {path} is not "
            f"({type(trouble).__name__}: {trouble}). Check the file."
        ) from trouble


def _like(old: Any, field: str, text: str) -> Any:
    """A text as a value of the type that the field has."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if type(old) is float and type(value) is int:
        value = float(value)
    if old is not None and type(value) is not type(old):
        raise ArgumentError(
            f"Argument `changes` must give {field} a value like {old!r}, but gives {text!r}. Write "
            f"`changes` {field}={old!r}."
        )
    return value
