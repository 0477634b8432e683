"""The same decoder in the next wider type: each part's weights are widened while it runs, and put back afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from armillary.models.anatomy import Decoder

__all__ = ["WIDER", "wider_type", "widened"]

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
"""The type in which every number of the first is exact, and whose own rounding is small beside it."""

Kept = list[tuple[nn.Module, str, nn.Parameter]]


def wider_type(decoder: Decoder) -> torch.dtype | None:
    """The type that `widened` computes in; None where there is none, as for float64, and for float32 on "mps"."""
    wide = WIDER.get(next(decoder.model.parameters()).dtype)
    return None if wide is torch.float64 and decoder.device.type == "mps" else wide


@contextmanager
def widened(decoder: Decoder) -> Iterator[None]:
    """While open, every forward pass computes in the next wider type on exactly the same weights.

    A number of a narrow type is a number of the wider one, so what differs is rounding alone. One block at a time is
    held in the wider type; embedding, norms and head, which stand outside the blocks, each by itself. Rotations, the
    statistics of RMS norms and the eager softmax stay in float32 where the library takes them there.

    Args:
        decoder: Of a type that has a wider one (`wider_type`).

    Raises:
        KeyError: Its type has none.
    """
    wide = WIDER[next(decoder.model.parameters()).dtype]
    blocks = decoder.blocks
    inside = {id(module) for block in blocks for module in block.modules()}
    parts: list[tuple[nn.Module, list[nn.Module]]] = [(block, list(block.modules())) for block in blocks]
    parts += [(module, [module]) for module in decoder.model.modules() if id(module) not in inside and _held(module)]
    with ExitStack() as hooks:
        experts = getattr(decoder.model.config, "_experts_implementation", None)
        if experts is not None and wide is torch.float64:  # the faster ways to run experts know no float64
            hooks.callback(decoder.model.set_experts_implementation, experts)
            decoder.model.set_experts_implementation("eager")
        for part, owners in parts:
            kept: Kept = []
            hooks.callback(_put_back, kept)
            hooks.callback(part.register_forward_pre_hook(_widening(owners, kept, wide), prepend=True).remove)
            hooks.callback(part.register_forward_hook(_restoring(kept), always_call=True).remove)
        yield


def _held(module: nn.Module) -> bool:
    return any(one is not None for one in module._parameters.values())


def _widening(owners: list[nn.Module], kept: Kept, wide: torch.dtype) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: Any) -> None:
        for owner in owners:
            for name, weight in owner._parameters.items():
                if weight is not None and weight.is_floating_point() and weight.dtype is not wide:
                    kept.append((owner, name, weight))
        for owner, name, narrow in kept:
            owner._parameters[name] = nn.Parameter(narrow.detach().to(wide), requires_grad=False)

    return hook


def _restoring(kept: Kept) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        _put_back(kept)

    return hook


def _put_back(kept: Kept) -> None:
    while kept:
        owner, name, weight = kept.pop()
        owner._parameters[name] = weight
