"""A component removed for the length of a block: zeros where it is written into the stream, proved and taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.proofs import ConditionProof, differing, fingerprints, kinds, listed, manner, require_same

__all__ = ["Cut", "cuts_of", "removed"]


@dataclass(frozen=True)
class Cut:
    """A tensor by name, where it hangs, and which part of it is set to zero."""

    module: nn.Module
    attribute: str
    name: str
    tensor: Tensor
    where: tuple[slice, ...] = field(default=(slice(None),))


def cuts_of(ablated: Ablated, decoder: Decoder) -> list[Cut]:
    """What an ablation sets to zero in this decoder."""
    if ablated.part == "positions":
        return _position_cuts(decoder)
    total = decoder.facts.layers
    layers = ablated.layers or tuple(range(1, total + 1))
    if layers[-1] > total:
        raise ArgumentError(
            f"Argument `layers` must lie between 1 and {total}, the blocks of this decoder, but it holds {layers[-1]}. "
            "Block l is the one whose output is layer l."
        )
    names = {id(module): name for name, module in decoder.model.named_modules()}
    cuts = []
    for layer in layers:
        projection = decoder.mlp_output(layer) if ablated.part == "mlp" else decoder.attention_output(layer)
        where = _head_columns(projection, ablated.head, decoder) if ablated.head is not None else (slice(None),)
        for attribute in ("weight", "bias") if ablated.head is None else ("weight",):
            tensor = getattr(projection, attribute, None)
            if tensor is not None:
                cuts.append(Cut(projection, attribute, f"{names[id(projection)]}.{attribute}", tensor, where))
    return cuts


def _head_columns(projection: nn.Module, head: int, decoder: Decoder) -> tuple[slice, ...]:
    """The inputs of the output projection that one head feeds: columns of a Linear, rows of GPT-2's Conv1D."""
    facts, axis = decoder.facts, decoder.family.attention_output_axis
    if head >= facts.heads:
        raise ArgumentError(
            f"Argument `head` must lie between 0 and {facts.heads - 1}, the heads of a block, but it is {head}. "
            "Heads are counted from 0."
        )
    inputs = slice(head * facts.head_dim, (head + 1) * facts.head_dim)
    weight: Any = projection.weight
    if weight.ndim != 2 or weight.shape[axis] != facts.heads * facts.head_dim:
        raise UnsupportedModelError(
            f"The attention's output projection must take {facts.heads} heads of {facts.head_dim}, "
            f"but its weight has shape {tuple(weight.shape)}, so no single head can be removed."
        )
    return (inputs, slice(None)) if axis == 0 else (slice(None), inputs)


def _position_cuts(decoder: Decoder) -> list[Cut]:
    learned = decoder.family.position_embedding
    if learned is not None:
        embedding: Any = decoder.part(learned)
        return [Cut(embedding, "weight", f"{learned}.weight", embedding.weight)]
    cuts = [
        Cut(module, attribute, f"{name}.{attribute}", buffer)
        for name, module in decoder.model.named_modules()
        for attribute, buffer in module.named_buffers(recurse=False)
        if attribute in ("inv_freq", "original_inv_freq")  # the second is what a long context restores the first from
    ]
    if not cuts:
        raise UnsupportedModelError(f"{type(decoder.model).__name__} has no rotary frequencies to set to zero.")
    return cuts


def _remove(cuts: list[Cut]) -> None:
    with torch.no_grad():
        for cut in cuts:
            cut.tensor[cut.where].zero_()


def _restore(cuts: list[Cut], saved: list[Tensor]) -> None:
    with torch.no_grad():
        for cut, value in zip(cuts, saved, strict=True):
            cut.tensor.copy_(value)
            if cut.attribute in cut.module._buffers:  # a rotary module may have put another buffer there meanwhile
                cut.module._buffers[cut.attribute] = cut.tensor


def _removal(
    ablated: Ablated, model: Any, before: dict[str, bytes], cuts: list[Cut], saved: list[Tensor]
) -> ConditionProof:
    """Proves that exactly the named part is zero now; raises CheckMissed naming what else changed."""
    named = [cut.name for cut in cuts]
    changed = differing(before, fingerprints(model))
    strangers = [name for name in changed if name not in named]
    if strangers:
        raise CheckMissed(f"{ablated.name} must change only {listed(named)}, but {listed(strangers)} changed too.")
    if not changed:
        raise CheckMissed(f"{ablated.name} must change the decoder, but {listed(named)} were zero before.")
    for cut, value in zip(cuts, saved, strict=True):
        expected = value.clone()
        expected[cut.where] = 0
        if not torch.equal(cut.tensor, expected):
            raise CheckMissed(f"{ablated.name} must set only its part of {cut.name} to zero, but another part changed.")
    idle = len(named) - len(changed)
    part = "" if ablated.head is None else f" in the {saved[0][cuts[0].where].numel()} entries that the head feeds"
    sentence = (
        f"{ablated.label}: {kinds(named)} set to zero{part}{f' ({idle} of them zero before)' if idle else ''}; "
        f"the other {len(before) - len(named)} tensors are unchanged; {manner(model)}"
    )
    return ConditionProof(changed, len(before) - len(changed), {}, sentence)


def _still_removed(ablated: Ablated, cuts: list[Cut]) -> None:
    """The part must be gone at the end too: a model may rebuild its position frequencies while it runs."""
    for cut in cuts:
        now = getattr(cut.module, cut.attribute)
        if bool(now[cut.where].any()):
            raise CheckMissed(
                f"{ablated.name} must hold to the end of the measurement, but {cut.name} is zero no more."
            )
