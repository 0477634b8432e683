"""The residual stream as it passes: plain hooks on whoever reads it; they return nothing and are gone afterwards."""

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
    attention of block l, l = 1..L. A parallel block, whose attention and MLP read one stream, has no "mid".
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

`read` is the norm's output; after the last block, the final norm's. Where a sublayer has no norm of its own it reads
the stream itself, and `read` is `residual`. Both are the live tensors: never write to them."""


def taps_of(decoder: Decoder) -> tuple[Tap, ...]:
    """Every tap in the order of the pass, one for each of `Decoder.readers`.

    Embedding, mid 1, block 1, mid 2, ..., block L; embedding, block 1, ..., block L for parallel blocks.
    """
    layers = range(decoder.facts.layers)
    places: tuple[Tap, ...] = tuple(Tap(layer) for layer in range(decoder.facts.layers + 1))
    if decoder.family.residual == "sequential":
        places += tuple(Tap(layer + 1, "mid") for layer in layers)
    return tuple(sorted(places, key=lambda tap: tap.depth))


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
    shape: list[torch.Size] = []  # of the stream; some blocks hand their MLP's norm all rows in one list
    with ExitStack() as hooks:
        for tap, (reader, is_norm) in zip(taps_of(decoder), decoder.readers, strict=True):
            hook: Any = _telling(tap, sink, shape)
            if is_norm:
                handle = reader.register_forward_hook(hook, with_kwargs=True)
            else:
                handle = reader.register_forward_pre_hook(hook, with_kwargs=True)
            hooks.callback(handle.remove)
        yield


def _telling(tap: Tap, sink: Sink, shape: list[torch.Size]) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Tensor | None = None) -> None:
        residual = first_tensor(inputs, named).detach()
        if residual.ndim > 2:
            shape[:] = [residual.shape]
        elif shape:
            residual = residual.reshape(shape[0])
        sink(tap, residual, residual if output is None else output.detach().reshape(residual.shape))

    return hook


def first_tensor(inputs: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """The first tensor among a module's arguments: what it reads."""
    tensor: Tensor = next(value for value in (*inputs, *named.values()) if isinstance(value, Tensor))
    return tensor


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
            if tap.place == "mid" and decoder.family.residual == "parallel":
                raise ArgumentError(
                    f"Argument `taps` must hold block taps only, but holds {tap}: attention and MLP of "
                    f"{decoder.facts.name} read one stream, so there is none between them. Ask for block taps."
                )
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
