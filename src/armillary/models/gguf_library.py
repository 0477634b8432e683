"""A GGUF file of an architecture that is left to the library's reader: read there, and every number accounted for."""

from __future__ import annotations

import json
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.tokenizer import in_one_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["through_library"]


def through_library(path: Path, reader: Any) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    """Configuration and weights of a GGUF file as the library reads them.

    The library passes over tensors whose names it does not know, so the numbers in the file are counted against those
    in the model.

    Args:
        path: The file.
        reader: The open file.

    Returns:
        A config.json and float32 tensors under the names of the library's modules.

    Raises:
        UnsupportedModelError: An architecture that the library cannot read, or of which a part is left unread.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from armillary.models.weights import quietly

    said = reader.fields["general.architecture"].contents()
    try:
        with quietly(), redirect_stderr(StringIO()):  # its bar of this reader asks nobody
            config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
            _complete(config, reader, said)
            model, report = AutoModelForCausalLM.from_pretrained(
                path.parent,
                gguf_file=path.name,
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                output_loading_info=True,
            )
    except Exception as trouble:  # the library's reader ends in a dozen errors
        raise UnsupportedModelError(
            f"Argument `source` must be a GGUF file that can be read, but {path.name} says {said!r} and the library "
            f"does not bring it: {in_one_line(trouble)}. Load the model's safetensors instead."
        ) from trouble
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise ArgumentError(
            f"Argument `source` must hold every weight, but {path.name} lacks {len(lacking)}, the first {lacking[0]}: "
            "the library would draw it fresh. Load the model's safetensors instead."
        )
    held = sum(int(tensor.n_elements) for tensor in reader.tensors)
    taken = sum(weight.numel() for weight in model.parameters())
    if held != taken:
        raise UnsupportedModelError(
            f"Argument `source` must be read whole, but {path.name} holds {held} numbers and the library's "
            f"{type(model).__name__} takes {taken} of them. Load the model's safetensors instead."
        )
    return _settings(model), {name: weight.detach().contiguous().numpy() for name, weight in model.named_parameters()}


def _complete(config: Any, reader: Any, architecture: str) -> None:
    """The context that the file states, where the library leaves its own number (GPT-2)."""
    field = reader.fields.get(f"{architecture}.context_length")
    if field is not None and hasattr(config, "max_position_embeddings"):
        config.max_position_embeddings = int(field.contents())


def _settings(model: Any) -> dict[str, Any]:
    """A config.json; what a file keeps in float32 in its shortest decimals, 1e-05 for 9.999999747378752e-06."""
    import numpy as np

    settings: dict[str, Any] = json.loads(model.config.to_json_string(use_diff=False))
    for name, number in settings.items():
        if isinstance(number, float) and float(np.float32(number)) == number:
            settings[name] = float(str(np.float32(number)))
    settings |= {"architectures": [type(model).__name__], "dtype": "float32"}
    settings.pop("initializer_range", None)  # the file carries none: nobody gave one
    settings.pop("quantization_config", None)  # what is written are plain weights
    return settings
