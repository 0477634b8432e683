"""The residual stream as it passes: plain forward hooks on the norms that return nothing and are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.trajectory import Ensemble

__all__ = ["Sink", "Tap", "capture", "hook_count", "stream", "taps_of"]


@dataclass(frozen=True, order=True)
class Tap:
    """One place on the residual stream.

    "block" at layer l is the stream after block l (layer 0: the embedding), "mid" at layer l the stream after the
    attention of block l, l = 1..L.
    """

    layer: int
    place: Literal["block", "mid"] = "block"

    @property
    def name(self) -> str:
        """What the stream is called here: "embedding", "mid" or "block"."""
        return "embedding" if self.layer == 0 else self.place

    @property
    def depth(self) -> float:
        """Where it lies on the axis of depth: l, or l - 1/2 after the attention of block l."""
        return self.layer - 0.5 if self.place == "mid" else float(self.layer)


Sink = Callable[[Tap, Tensor, Tensor], Any]
"""Called as sink(tap, residual, read): the stream [documents, tokens, width] and what the next sublayer reads of it.

`read` is the norm's output; after the last block, the final norm's. Both are the live tensors: never write to them."""


def taps_of(decoder: Decoder) -> tuple[Tap, ...]:
    """Every tap in the order of the pass: embedding, mid 1, block 1, mid 2, ..., block L; one for each norm."""
    layers = range(decoder.facts.layers)
    within = [tap for layer in layers for tap in (Tap(layer, "block"), Tap(layer + 1, "mid"))]
    return (*within, Tap(decoder.facts.layers, "block"))


def hook_count(model: nn.Module) -> int:
    """How many forward and forward-pre hooks hang on a model and all its parts."""
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@contextmanager
def stream(decoder: Decoder, sink: Sink) -> Iterator[None]:
    """While open, every forward pass of the decoder's model calls the sink at each tap.

    The hooks return nothing, whatever the sink returns, so the pass is the one it would be without them. They are
    removed when the context closes, by whatever exception; hooks of others stay.

    Args:
        decoder: whose stream.
        sink: see `Sink`.
    """
    with ExitStack() as hooks:
        for tap, norm in zip(taps_of(decoder), decoder.norms, strict=True):
            hooks.callback(norm.register_forward_hook(_telling(tap, sink)).remove)
        yield


def _telling(tap: Tap, sink: Sink) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        sink(tap, inputs[0].detach(), output.detach())

    return hook


def capture(decoder: Decoder, documents: Any, taps: Sequence[Tap] | None = None, *, batch_size: int = 8) -> Ensemble:
    """Documents through a decoder, states kept: for small jobs; a large one measures inside `stream` and keeps numbers.

    Args:
        decoder: the decoder.
        documents: `Documents`, or token ids [documents, tokens]; no padding.
        taps: which states to keep; None keeps every block tap, layers 0..L.
        batch_size: documents a pass; the states do not depend on it (beyond rounding).
    Returns:
        Ensemble along depth with one member a document, states [documents, taps, tokens, width] on the CPU, in the
        decoder's type; `at` is l for the stream after block l and l - 1/2 after the attention of block l.
    Raises:
        ArgumentError: no such tap; ids outside context or vocabulary; a batch size below 1.
    """
    ids: Tensor = getattr(documents, "token_ids", documents)
    titles = tuple(
        getattr(documents, "titles", None) or (f"document {number}" for number in range(1, ids.shape[0] + 1))
    )
    known = taps_of(decoder)
    chosen = (
        tuple(tap for tap in known if tap.place == "block")
        if taps is None
        else tuple(sorted(taps, key=lambda tap: tap.depth))
    )
    for tap in chosen:
        if tap not in known:
            raise ArgumentError(
                f"Argument `taps` must lie on the stream of {decoder.facts.layers} blocks, but holds {tap}. "
                f"Block taps are layers 0..{decoder.facts.layers}, mid taps layers 1..{decoder.facts.layers}."
            )
    if batch_size < 1:
        raise ArgumentError(
            f"Argument `batch_size` must be at least 1, but is {batch_size}. Give the documents of one pass."
        )
    kept: dict[Tap, list[Tensor]] = {tap: [] for tap in chosen}

    def keep(tap: Tap, residual: Tensor, read: Tensor) -> None:
        if tap in kept:
            kept[tap].append(residual.cpu())

    with stream(decoder, keep):
        for batch in ids.split(batch_size):
            decoder.hidden(batch)
    states = torch.stack([torch.cat(kept[tap]) for tap in chosen], dim=1)
    return Ensemble(states=states, at=tuple(tap.depth for tap in chosen), axis="depth", members=titles)
