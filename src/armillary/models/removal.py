"""A component removed: zeros where it is written into the stream, the proof of it, and every weight put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.positions import position_tensors
from armillary.models.proofs import ConditionProof, differing, fingerprints, kinds, listed, manner, require_same

__all__ = ["Cut", "cuts_of", "removed", "require_silent"]


@dataclass(frozen=True, eq=False)
class Cut:
    """A tensor that a removal touches, and which part of it becomes zero.

    Attributes:
        module: Where the tensor hangs.
        attribute: Under which name there.
        name: Its name in the whole model.
        tensor: The tensor itself.
        where: The part that becomes zero; all of it unless said otherwise.
    """

    module: nn.Module
    attribute: str
    name: str
    tensor: Tensor
    where: tuple[slice, ...] = (slice(None),)


@contextmanager
def removed(model: Any, cuts: Sequence[Cut], *, name: str, label: str) -> Iterator[ConditionProof]:
    """Sets every cut to zero for the length of a `with` block and puts the weights back, whatever ends the block.

    Args:
        model: The model that the cuts belong to, in evaluation mode.
        cuts: What becomes zero.
        name: Of the condition, for messages.
        label: Of the condition, for the proof in words.

    Yields:
        The proof that exactly the cuts changed.

    Raises:
        CheckMissed: Another tensor changed, nothing changed, the part came back before the end, or the weights
            afterwards are not those before.
    """
    before = fingerprints(model)
    saved = [cut.tensor.detach().clone() for cut in cuts]
    try:
        _set_to_zero(cuts)
        changed = _require_only_cuts(model, before, cuts, saved, name)
        yield _proof(model, cuts, saved, changed, len(before), label)
        _require_still_zero(cuts, name)
    finally:
        _put_back(cuts, saved)
    require_same(before, model, f"after {name}")


def cuts_of(
    decoder: Decoder, part: str, *, layers: Sequence[int] | None = None, head: int | None = None
) -> tuple[Cut, ...]:
    """What has to be zero for a part of this decoder to be gone.

    Args:
        decoder: The decoder.
        part: "attention", "mlp", "positions" or "head".
        layers: Blocks from 1; None means all.
        head: For part "head": which, from 0.

    Returns:
        Weight and bias of each output projection, in a mixture those of all experts; for one head its columns of the
        weight; for positions the rotary frequencies or the learned vectors.

    Raises:
        ArgumentError: The decoder has no such block or head.
        UnsupportedModelError: The decoder has no such part, or not in a place where it can be cut.
    """
    if part == "positions":
        return tuple(Cut(*found) for found in position_tensors(decoder))
    total = decoder.facts.layers
    blocks = tuple(layers) if layers is not None else tuple(range(1, total + 1))
    if max(blocks) > total:
        raise ArgumentError(
            f"Argument `layers` must lie between 1 and {total}, the blocks of this decoder, but it holds {max(blocks)}"
            ". Block l is the one whose output is layer l."
        )
    names = {id(module): name for name, module in decoder.model.named_modules()}
    sublayer = "mlp" if part == "mlp" else "attention"
    cuts = []
    for layer in blocks:
        written = decoder.written(sublayer, layer)
        if head is not None:
            written = written[:1]
        else:
            written += _offset_behind(decoder, sublayer, layer, written)
        for module, attribute in written:
            tensor = getattr(module, attribute)
            where = (slice(None),) if head is None else _head_columns(tensor, head, decoder)
            cuts.append(Cut(module, attribute, f"{names[id(module)]}.{attribute}", tensor, where))
    return tuple(cuts)


def _offset_behind(
    decoder: Decoder, sublayer: str, layer: int, written: tuple[tuple[nn.Module, str], ...]
) -> tuple[tuple[nn.Module, str], ...]:
    """The bias of a norm behind a sublayer, which would be added even to nothing."""
    added = decoder.added(sublayer, layer)
    has = isinstance(added._parameters.get("bias"), Tensor)
    return ((added, "bias"),) if has and all(module is not added for module, _ in written) else ()


def require_silent(decoder: Decoder, part: str, layers: Sequence[int] | None, condition: str) -> None:
    """One short pass: every sublayer that was removed must add exactly zero.

    Raises:
        CheckMissed: One adds something: it is written by more than the tensors of the family's row.
    """
    total = decoder.facts.layers
    loud: list[int] = []

    def listening(layer: int) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if bool((output[0] if isinstance(output, tuple) else output).any()):
                loud.append(layer)

        return hook

    blocks = tuple(layers) if layers is not None else tuple(range(1, total + 1))
    hooks = [decoder.added(part, layer).register_forward_hook(listening(layer)) for layer in blocks]
    try:
        decoder.hidden(torch.arange(min(4, decoder.facts.context, decoder.facts.vocabulary))[None])
    finally:
        for hook in hooks:
            hook.remove()
    if loud:
        raise CheckMissed(
            f"Condition {condition} must leave nothing to add, but the {part} of block {loud[0]} still adds something: "
            f"more than {', '.join(decoder.family.mlp_output if part == 'mlp' else decoder.family.attention_output)} "
            "writes its output. Leave this condition out, or correct the family's row."
        )


def _head_columns(weight: Tensor, head: int, decoder: Decoder) -> tuple[slice, ...]:
    """The inputs of the output projection that one head feeds: columns of a Linear, rows of GPT-2's Conv1D."""
    facts, axis = decoder.facts, decoder.family.attention_output_axis
    if head >= facts.heads:
        raise ArgumentError(
            f"Argument `head` must lie between 0 and {facts.heads - 1}, the heads of a block, but it is {head}. "
            "Heads are counted from 0."
        )
    inputs = slice(head * facts.head_dim, (head + 1) * facts.head_dim)
    if weight.ndim != 2 or weight.shape[axis] != facts.heads * facts.head_dim:
        raise UnsupportedModelError(
            f"Argument `decoder` must have an output projection that takes {facts.heads} heads of {facts.head_dim}, "
            f"but its weight has shape {tuple(weight.shape)}. Remove the attention of the whole block instead."
        )
    return (inputs, slice(None)) if axis == 0 else (slice(None), inputs)


def _set_to_zero(cuts: Sequence[Cut]) -> None:
    with torch.no_grad():
        for cut in cuts:
            cut.tensor[cut.where].zero_()


def _put_back(cuts: Sequence[Cut], saved: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for cut, value in zip(cuts, saved, strict=True):
            cut.tensor.copy_(value)
            if cut.attribute in cut.module._buffers:  # a rotary module may have put another buffer there meanwhile
                cut.module._buffers[cut.attribute] = cut.tensor


def _require_only_cuts(
    model: Any, before: dict[str, bytes], cuts: Sequence[Cut], saved: Sequence[Tensor], condition: str
) -> tuple[str, ...]:
    """The names of the tensors that changed; CheckMissed, with what else did, unless exactly the cuts are zero now."""
    named = [cut.name for cut in cuts]
    changed = differing(before, fingerprints(model))
    strangers = [name for name in changed if name not in named]
    if strangers:
        raise CheckMissed(
            f"Condition {condition} must change only {listed(named)}, but {listed(strangers)} changed too. "
            "Reload the decoder, and keep other code from changing it while it is measured."
        )
    if not changed:
        raise CheckMissed(
            f"Condition {condition} must change the decoder, but {listed(named)} were zero before. Leave it out: it "
            "would measure the trained decoder twice."
        )
    for cut, value in zip(cuts, saved, strict=True):
        expected = value.clone()
        expected[cut.where] = 0
        if not torch.equal(cut.tensor, expected):
            raise CheckMissed(
                f"Condition {condition} must set only its part of {cut.name} to zero, but another part changed. "
                "Reload the decoder: other code may share the memory of this tensor."
            )
    return changed


def _proof(
    model: Any, cuts: Sequence[Cut], saved: Sequence[Tensor], changed: tuple[str, ...], tensors: int, label: str
) -> ConditionProof:
    named = [cut.name for cut in cuts]
    idle = len(named) - len(changed)
    cut, value = cuts[0], saved[0]
    part = "" if cut.where == (slice(None),) else f" in the {value[cut.where].numel()} entries that the head feeds"
    sentence = (
        f"{label}: {kinds(named)} set to zero{part}{f' ({idle} of them zero before)' if idle else ''}; "
        f"the other {tensors - len(named)} tensors are unchanged; {manner(model)}"
    )
    return ConditionProof(changed, tensors - len(changed), {}, sentence)


def _require_still_zero(cuts: Sequence[Cut], condition: str) -> None:
    """The part must be gone at the end too: a model may rebuild its position frequencies while it runs."""
    for cut in cuts:
        now = getattr(cut.module, cut.attribute)
        if bool(now[cut.where].any()):
            raise CheckMissed(
                f"Condition {condition} must hold to the end of the measurement, but {cut.name} is zero no more. "
                "Give documents of fewer tokens if the model rebuilds it for long ones, or leave this condition out."
            )
