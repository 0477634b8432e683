"""A pass overheard at every place a gauge can reach: stream, what is read of it, heads, neurons, attention maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.attention import attention_stream
from armillary.models.capture import Tap, stream
from armillary.models.gauges.parts import Norm, Slots
from armillary.models.gauges.wiring import wiring_of

__all__ = ["PlaceSink", "overheard"]

PlaceSink = Callable[[str, int, Tensor], Any]
"""Called as sink(place, layer, rows), with a place of `PLACES`.

"stream" and "read" at layer l are the stream after block l and what the next norm makes of it, `documents tokens
width`;
"query", "key", "value" and "neuron" at layer l are those of block l, `documents heads tokens head_dim` and `documents
tokens neurons`; "attention" is `documents heads tokens tokens`. All are live: never write to them, never keep them."""


@contextmanager
def overheard(decoder: Decoder, layers: Sequence[int], sink: PlaceSink) -> Iterator[None]:
    """While open, every pass of the decoder's model calls the sink at every place of the chosen layers.

    The pass is an eager one, since no other forms attention maps.

    Args:
        decoder: whose passes.
        layers: 0..L; layer 0, the embedding, has a stream and what is read of it only.
        sink: see `PlaceSink`.

    Raises:
        ArgumentError: a layer that the decoder does not have.
    """
    wiring, chosen = wiring_of(decoder), set(layers)
    strange = sorted(chosen - set(range(decoder.facts.layers + 1)))
    if strange or not chosen:
        raise ArgumentError(
            f"Argument `layers` must lie within 0..{decoder.facts.layers}, the layers of {decoder.facts.name}, but it "
            f"is {list(layers)}. Layer 0 is the embedding."
        )

    def at_tap(tap: Tap, residual: Tensor, read: Tensor) -> None:
        if tap.place == "block" and tap.layer in chosen:
            sink("stream", tap.layer, residual)
            sink("read", tap.layer, read)

    def at_maps(layer: int, maps: Tensor, before: Tensor) -> None:
        if layer in chosen:
            sink("attention", layer, maps)

    with ExitStack() as hooks:
        hooks.enter_context(attention_stream(decoder, at_maps))
        hooks.enter_context(stream(decoder, at_tap))
        for block in wiring.blocks:
            if block.number not in chosen:
                continue
            parts = (
                ("query", block.query, block.query_norm),
                ("key", block.key, block.key_norm),
                ("value", block.value, None),
            )
            for place, slots, norm in parts:
                for remove in _heads(place, block.number, slots, norm, sink):
                    hooks.callback(remove)
            neurons = _neurons(block.number, sink)
            hooks.callback(block.down.module.register_forward_pre_hook(neurons).remove)
        yield


def _heads(place: str, number: int, slots: Slots, norm: Norm | None, sink: PlaceSink) -> Iterator[Callable[[], None]]:
    """Hooks that hand on each head's rows: what the projection writes, or its norm where it has one."""
    written: list[Tensor] = []

    def projected(module: Any, inputs: Any, output: Tensor) -> None:
        rows = output.detach()[..., slots.index.to(output.device)]  # documents tokens heads dim
        if norm is None:
            sink(place, number, rows.transpose(1, 2))
        else:
            written[:] = [rows]

    yield slots.affine.module.register_forward_hook(projected).remove
    if norm is None:
        return

    def normed(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        rows = written.pop()
        tokens_first = inputs[0].shape == rows.shape and torch.equal(inputs[0], rows)
        sink(place, number, output.detach().transpose(1, 2) if tokens_first else output.detach())

    yield norm.module.register_forward_hook(normed).remove


def _neurons(number: int, sink: PlaceSink) -> Callable[[Any, tuple[Tensor, ...]], None]:
    def hook(module: Any, inputs: tuple[Tensor, ...]) -> None:
        sink("neuron", number, inputs[0].detach())

    return hook
