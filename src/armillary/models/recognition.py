"""Which row is a model's own: the listed one, by class and configuration, or one inferred from its modules."""

from __future__ import annotations

from typing import Any

from torch import nn

from armillary.errors import UnsupportedModelError
from armillary.models.families import FAMILIES, Family, family_of
from armillary.models.inference import inferred

__all__ = ["causal", "row_of"]


def row_of(model: Any) -> Family:
    """The family of a model of the library.

    Args:
        model: a causal language model in evaluation mode.

    Raises:
        UnsupportedModelError: not such a model; compiled; or no row names it and none can be inferred.
    """
    _require_uncompiled(model)
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "get_output_embeddings"):
        known = ", ".join(sorted({kind for row in FAMILIES.values() for kind in row.architectures}))
        raise UnsupportedModelError(
            f"Argument `model` must be a causal language model of the library ({known}, or another), but is "
            f"{type(model).__name__}. Measure another model."
        )
    rows = (family_of(kind.__name__, config) for kind in type(model).__mro__)
    return next((row for row in rows if row is not None), None) or inferred(model)


def causal(architecture: str) -> bool:
    """Whether a class name is that of one of the library's causal language models."""
    import transformers

    return architecture.endswith(("ForCausalLM", "LMHeadModel")) and hasattr(transformers, architecture)


def _require_uncompiled(model: Any) -> None:
    """A compiled model runs without its modules being called, so that hooks on them would not fire."""
    if not isinstance(model, nn.Module):
        return
    inside = getattr(model, "_orig_mod", None)
    compiled = [
        name or "the whole model"
        for name, module in model.named_modules()
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
    ]
    if compiled:
        remedy = "`model._orig_mod`" if inside is not None else "the model as it was before compiling"
        raise UnsupportedModelError(
            f"Argument `model` must not be compiled, but {compiled[0]} is: hooks on its modules would not fire. "
            f"Give {remedy}."
        )
