"""What tells a decoder the order of its tokens, and how each kind of it is taken away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import CheckMissed, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.proofs import ConditionProof, fingerprints, manner, require_same

__all__ = ["position_tensors", "positions_silenced"]


def position_tensors(decoder: Decoder) -> tuple[tuple[nn.Module, str, str, Tensor], ...]:
    """The tensors that are zero once positions are gone, as (module, attribute, name in the model, tensor).

    Learned position vectors, or every rotary frequency: also those from which a long context restores the others, and
    those of each kind of attention where a family has two.

    Raises:
        UnsupportedModelError: The decoder holds its positions in no such tensor.
    """
    learned = decoder.family.position_embedding
    if learned is not None:
        embedding: Any = decoder.part(learned)
        return ((embedding, "weight", f"{learned}.weight", embedding.weight),)
    found = tuple(
        (module, attribute, f"{name}.{attribute}", buffer)
        for name, module in decoder.model.named_modules()
        for attribute, buffer in module.named_buffers(recurse=False)
        if attribute.endswith("inv_freq")
    )
    if not found:
        raise UnsupportedModelError(
            f"Argument `decoder` must have rotary frequencies or position vectors for its positions to be removed, but "
            f"{type(decoder.model).__name__} has none. Leave out this condition."
        )
    return found


@contextmanager
def positions_silenced(decoder: Decoder, argument: str, *, label: str) -> Iterator[ConditionProof]:
    """Zeros in place of the argument by which positions reach every attention, for the length of a `with` block.

    Alibi is made anew in each pass and lies in no tensor of the model; so every attention is called with zeros instead,
    by hooks that are gone afterwards. No tensor changes.

    Args:
        decoder: The decoder.
        argument: The name of that argument.
        label: Of the condition, for the proof in words.

    Raises:
        CheckMissed: An attention is not called with it, it was zero anyway, or a tensor changed meanwhile.
    """
    model = decoder.model
    before = fingerprints(model)
    told: dict[int, bool] = {}

    def silence(layer: int) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
            held = named.get(argument)
            if isinstance(held, Tensor):
                told[layer] = told.get(layer, False) or bool(held.any())
                named = {**named, argument: torch.zeros_like(held)}
            return inputs, named

        return hook

    layers = range(1, decoder.facts.layers + 1)
    with ExitStack() as hooks:
        for layer in layers:
            handle = decoder.attention(layer).register_forward_pre_hook(silence(layer), with_kwargs=True)
            hooks.callback(handle.remove)
        decoder.hidden(torch.zeros(1, 2, dtype=torch.long))
        deaf = [layer for layer in layers if not told.get(layer)]
        if deaf:
            raise CheckMissed(
                f"Condition {label} must keep positions from every attention, but that of block {deaf[0]} is told "
                f"none by `{argument}`. Leave this condition out."
            )
        sentence = (
            f"{label}: every attention is called with `{argument}` set to zero, which no tensor holds; all "
            f"{len(before)} tensors are unchanged; {manner(model)}"
        )
        yield ConditionProof((), len(before), {}, sentence)
    require_same(before, model, f"while {label}")
