"""Trials of single claims about a decoder: learned sinks, grouped heads, padding; each changes one thing and looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from armillary.models.anatomy import Decoder, DecoderFacts
from armillary.models.capture import Tap
from armillary.models.evidence import Evidence, difference, largest, padded_states, takes_positions

__all__ = ["batching", "grouped_heads", "sinks"]

LOWEST = -1e4
"""The logarithm of a sink that takes nothing."""


@contextmanager
def _eager(decoder: Decoder) -> Iterator[None]:
    implementation = decoder.model.config._attn_implementation
    if implementation == "eager":
        yield
        return
    decoder.model.set_attn_implementation("eager")
    try:
        yield
    finally:
        decoder.model.set_attn_implementation(implementation)


def sinks(seen: Evidence) -> tuple[float, float, float]:
    """Every attention again on the same input without its sinks.

    Returns:
        The largest departure of (row with sink) from (row without) times (its sum), the least and the largest mass that
        the sinks take.
    """
    decoder, path = seen.decoder, str(seen.decoder.family.sinks)
    owner, _, name = path.rpartition(".")
    apart, masses = 0.0, []
    with _eager(decoder), torch.no_grad():
        for layer, maps in enumerate(seen.attentions, 1):
            logarithms: Tensor = getattr(decoder.block(layer).get_submodule(owner), name)
            held = logarithms.detach().clone()
            inputs, named = seen.attention_calls[layer]
            try:
                logarithms.fill_(LOWEST)
                without = decoder.attention(layer)(*inputs, **named)[1].double()
            finally:
                logarithms.copy_(held)
            kept = maps.double().sum(-1, keepdim=True)
            apart = max(apart, float((maps.double() - without * kept).abs().max()))
            apart = max(apart, float((without.sum(-1) - 1).abs().max()))
            masses += [float((1 - kept).min()), float((1 - kept).max())]
    return apart, min(masses), max(masses)


def grouped_heads(seen: Evidence) -> tuple[bool, str]:
    """The attention of block 1 again with other values in one key-value head: whose heads hand on something else?"""
    decoder, facts = seen.decoder, seen.decoder.facts
    path = decoder.family.value_projection
    if path is None:
        return False, "no module of the family's row holds the values"
    inputs, named = seen.attention_calls[1]
    handed: list[Tensor] = []
    projection, values = decoder.attention_output(1), decoder.block(1).get_submodule(path)
    with _eager(decoder), torch.no_grad():
        for group in (None, *range(facts.key_value_heads)):
            hooks = (
                values.register_forward_hook(_raised(group, facts)),
                projection.register_forward_pre_hook(lambda module, arguments: handed.append(arguments[0])),
            )
            try:
                decoder.attention(1)(*inputs, **named)
            finally:
                for hook in hooks:
                    hook.remove()
    by_head = [states.unflatten(-1, (facts.heads, -1)) for states in handed]
    wrong = []
    for group, states in enumerate(by_head[1:]):
        moved = [head for head in range(facts.heads) if not torch.equal(states[..., head, :], by_head[0][..., head, :])]
        if moved != [head for head in range(facts.heads) if decoder.key_value_head(head) == group]:
            wrong.append(f"key-value head {group} moves heads {', '.join(map(str, moved)) or 'none'}")
    return not wrong, "; ".join(wrong) or "each key-value head moves its own heads alone"


def _raised(group: int | None, facts: DecoderFacts) -> Callable[..., Tensor]:
    """Values of one key-value head raised by one; they are the last columns of what the module writes."""

    def hook(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
        other = output.clone()
        if group is not None:
            start = output.shape[-1] + (group - facts.key_value_heads) * facts.head_dim
            other[..., start : start + facts.head_dim] += 1
        return other

    return hook


def batching(seen: Evidence) -> tuple[float, tuple[str, float]]:
    """A short document beside a long one, padded on the right and on the left, against each of them alone.

    Returns:
        The largest departure at a token of a document, relative to the largest entry of its state: with right padding,
        and with left padding, which is said in words.
    """
    decoder, tokens = seen.decoder, seen.ids.shape[1]
    short = max(1, tokens - 4)
    long_ids, short_ids = seen.ids[1:2], seen.ids[0:1, :short]
    positions = takes_positions(decoder)
    alone = [padded_states(decoder, ids, torch.ones_like(ids), positions=False) for ids in (long_ids, short_ids)]
    padding = torch.zeros(1, tokens - short, dtype=short_ids.dtype)
    ones = torch.ones_like(short_ids)
    found = []
    for side in ("right", "left"):
        order = (short_ids, padding) if side == "right" else (padding, short_ids)
        marks = (ones, padding) if side == "right" else (padding, ones)
        batch = torch.cat([long_ids, torch.cat(order, 1)])
        mask = torch.cat([torch.ones_like(long_ids), torch.cat(marks, 1)])
        together = padded_states(decoder, batch, mask, positions=positions and side == "left")
        place = slice(0, short) if side == "right" else slice(tokens - short, tokens)
        found.append(largest(_apart(together, alone, place)))
    return found[0], ("left padding" + " and given positions" * positions, found[1])


def _apart(together: dict[Tap, Tensor], alone: list[dict[Tap, Tensor]], place: slice) -> Iterator[float]:
    for tap, states in together.items():
        yield difference(states[0:1], alone[0][tap])
        yield difference(states[1:2, place], alone[1][tap])
