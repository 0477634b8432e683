"""Attention as it passes: the map of one sublayer at a time, handed on inside an eager pass and then forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import CheckMissed
from armillary.models.anatomy import Decoder
from armillary.models.contract import left_as_found
from armillary.models.evidence import ROUNDING
from armillary.shapes import TokenIds

__all__ = ["AttentionSink", "attention_stream", "require_same_logits"]

AttentionSink = Callable[[int, Tensor, Tensor], Any]
"""Called as sink(layer, maps, stream): the attention maps of block `layer` [documents, heads, tokens, tokens] and the
stream before that block [documents, tokens, width]. Both are the live tensors: never write to them, never keep them."""

_JUDGED = 64  # tokens whose logits are compared with and without capture


@contextmanager
def attention_stream(decoder: Decoder, sink: AttentionSink) -> Iterator[None]:
    """While open, every forward pass of the decoder's model hands each sublayer's attention maps to the sink.

    The model computes with the library's eager implementation for that time, since no other forms the maps; afterwards
    model, hooks and implementation are those of before, by whatever exception. Hooks return nothing, and maps are not
    kept: at any moment the maps of one sublayer exist.

    Args:
        decoder: whose attention.
        sink: see `AttentionSink`.

    Raises:
        CheckMissed: a sublayer hands out no map, from inside the pass.
    """
    streams: dict[int, Tensor] = {}
    with left_as_found(decoder.model), ExitStack() as hooks:
        decoder.model.set_attn_implementation("eager")
        for layer in range(1, decoder.facts.layers + 1):
            block, attention = decoder.block(layer), decoder.attention(layer)
            hooks.callback(block.register_forward_pre_hook(_noting(layer, streams), with_kwargs=True).remove)
            hooks.callback(attention.register_forward_hook(_telling(decoder, layer, streams, sink)).remove)
        yield


def require_same_logits(decoder: Decoder, ids: TokenIds) -> float:
    """Compare the logits of the first tokens with and without attention capture.

    Args:
        decoder: the decoder.
        ids: [documents, tokens]; of the first document the first 64 tokens are taken.

    Returns:
        The largest departure, relative to the largest logit.

    Raises:
        CheckMissed: the departure exceeds what rounding in the decoder's type explains.
    """
    short = ids[:1, :_JUDGED]
    plain = decoder.logits(short)
    with attention_stream(decoder, lambda layer, maps, stream: None):
        captured = decoder.logits(short)
    apart = float((captured - plain).abs().max() / plain.abs().max().clamp(min=torch.finfo(plain.dtype).tiny))
    tolerance = 10 * ROUNDING.get(next(decoder.model.parameters()).dtype, 1e-5)
    if not apart <= tolerance:
        raise CheckMissed(
            f"Logits with and without attention capture must agree within {tolerance:g} of the largest, but they are "
            f"{apart:.2g} apart. Measure without attention, or in float32: the maps are not those of the attention in "
            "use."
        )
    return apart


def _noting(layer: int, streams: dict[int, Tensor]) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        streams[layer] = inputs[0] if inputs else named["hidden_states"]

    return hook


def _telling(decoder: Decoder, layer: int, streams: dict[int, Tensor], sink: AttentionSink) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        stream = streams.pop(layer)
        documents, tokens = stream.shape[:2]
        expected = (documents, decoder.facts.heads, tokens, tokens)
        parts = output if isinstance(output, tuple) else (output,)
        maps = next((part for part in parts if isinstance(part, Tensor) and tuple(part.shape) == expected), None)
        if maps is None:
            shapes = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
            raise CheckMissed(
                f"The attention of block {layer} must hand out maps of shape {expected}, but it handed out {shapes}. "
                "Measure without attention."
            )
        sink(layer, maps.detach(), stream.detach())

    return hook
