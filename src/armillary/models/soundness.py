"""Weights judged as they lie, before any pass: what is zero, on no device, packed or repeated is found and named."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.families import Family

__all__ = ["require_own_blocks", "require_sound"]


def require_sound(model: nn.Module, family: Family, *, name: str) -> tuple[str, ...]:
    """Refuse weights that nothing can be measured with.

    A block whose matrices are all zero leaves the stream as it is, so that every number behind it looks plausible; a
    parameter on the device "meta" has a shape and no values; integers are packed weights.

    Args:
        model: The library's model.
        family: Where its parts lie.
        name: Of the model, for messages.

    Returns:
        Sentences worth recording: weights that are not finite, single matrices of zeros, weights that blocks share.

    Raises:
        ArgumentError: A weight without values, a block or an embedding of zeros.
        UnsupportedModelError: Packed weights, or one module standing at two layers.
    """
    blocks = require_own_blocks(model, family, name=name)
    for weight_name, weight in model.named_parameters():
        if weight.is_meta:
            raise ArgumentError(
                f"Argument `source` must have every weight in memory, but in {name} {weight_name} lies on no device "
                '(meta): it was left out or moved aside when the layers were spread. Load with device="cpu", or in a '
                "smaller dtype."
            )
        if not weight.is_floating_point():
            raise UnsupportedModelError(
                f"Argument `source` must hold plain weights, but in {name} {weight_name} is {_type(weight)}, packed by "
                "a quantization. Measure the unquantized release."
            )
    embedding = model.get_submodule(family.embedding)
    dark = {number for number, block in enumerate(blocks, 1) if not any(_lit(weight) for _, weight in _matrices(block))}
    if dark and len(dark) == len(blocks):
        raise ArgumentError(
            f"Argument `source` must hold trained or drawn weights, but in {name} every block is zero. Fetch the files "
            "again."
        )
    if dark:
        raise ArgumentError(
            f"Argument `source` must hold no block of zeros, but in {name} every matrix of block {min(dark)} is zero: "
            "the layer was lost on the way. Fetch the files again, or load on one device."
        )
    if not any(_lit(weight) for weight in embedding.parameters()):
        raise ArgumentError(
            f"Argument `source` must hold an embedding, but that of {name} is all zeros. Fetch the files again."
        )
    return (*_unfinite(model), *_zeros(blocks), *_shared(blocks))


def require_own_blocks(model: nn.Module, family: Family, *, name: str) -> tuple[nn.Module, ...]:
    """The blocks 1..L, each a module of its own.

    Args:
        model: The library's model.
        family: Where its blocks lie.
        name: Of the model, for messages.

    Returns:
        The blocks in order.

    Raises:
        UnsupportedModelError: One module stands at two layers: a hook on it would answer for both.
    """
    stack = model.get_submodule(family.blocks)
    seen: dict[int, int] = {}
    for number, block in enumerate(stack._modules.values(), 1):
        if id(block) in seen:
            raise UnsupportedModelError(
                f"Argument `model` must have a module of its own at every layer, but blocks {seen[id(block)]} and "
                f"{number} of {name} are one object, and what is read at one would be told of both. Put "
                "`copy.deepcopy(block, {id(model.config): model.config})` in place of the repetition."
            )
        seen[id(block)] = number
    return tuple(block for block in stack._modules.values() if block is not None)


def _unfinite(model: nn.Module) -> Iterator[str]:
    """Weights with entries that are NaN or infinite; what reaches a state is refused there, by place."""
    for name, weight in model.named_parameters():
        low, high = torch.aminmax(weight.detach())
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            wrong = int((~torch.isfinite(weight)).sum())
            kind = "NaN" if bool(torch.isnan(weight).any()) else "infinite"
            yield f"{wrong} of {weight.numel()} entries of {name} are not finite ({kind})."


def _matrices(block: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Gains and biases may rightly be zero; matrices make the layer."""
    yield from ((name, weight) for name, weight in block.named_parameters() if weight.ndim > 1)


def _lit(weight: Tensor) -> bool:
    low, high = torch.aminmax(weight.detach())
    return not bool((low == 0) & (high == 0))  # NaN is not zero


def _zeros(blocks: tuple[nn.Module, ...]) -> Iterator[str]:
    for number, block in enumerate(blocks, 1):
        for name, weight in _matrices(block):
            if not _lit(weight):
                yield f"Block {number}: every entry of {name} is zero."


def _shared(blocks: tuple[nn.Module, ...]) -> Iterator[str]:
    owner: dict[int, tuple[int, str]] = {}
    for number, block in enumerate(blocks, 1):
        for name, weight in block.named_parameters():
            first, first_name = owner.setdefault(id(weight), (number, name))
            if first != number:
                yield f"Blocks {first} and {number} share one weight ({first_name}): a change of one changes both."


def _type(weight: Tensor) -> str:
    return str(weight.dtype).removeprefix("torch.")
