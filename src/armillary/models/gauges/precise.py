"""What is computed in float64 stays in float64: the library's way through float32 is closed while a gauge is judged."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from armillary.models.anatomy import Decoder

__all__ = ["float64_copy", "kept_wide", "narrowed"]


class _KeepWide(TorchFunctionMode):
    """Casts of float64 tensors to float32 are left out, and so is float32 as the type a softmax computes in."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if args and isinstance(args[0], Tensor) and args[0].dtype is torch.float64:
            if func is Tensor.float:
                return args[0]
            if func is Tensor.to:
                args = tuple(torch.float64 if one is torch.float32 else one for one in args)
            if named.get("dtype") is torch.float32:
                named["dtype"] = torch.float64
        return func(*args, **named)


@contextmanager
def kept_wide() -> Iterator[None]:
    """While open, nothing that is float64 is cast to float32 on its way.

    RMS norms of the library compute in float32 whatever the weights are, and so does the eager softmax. A difference
    between two decoders in float64 would then be rounding in float32, 1e-5 where 1e-13 is meant, or an exact zero that
    says nothing. Tables of rotary angles are made in float32 and widened; they are the same in both decoders.
    """
    with _KeepWide():
        yield


def float64_copy(decoder: Decoder) -> Decoder:
    """A decoder around a copy of the model with every parameter in float64, where it lies ("mps": on the CPU).

    Args:
        decoder: left alone; a tied pair stays tied in the copy.
    """
    model = copy.deepcopy(decoder.model)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(_able(parameter), torch.float64)
    for name, buffer in model.named_buffers():
        narrow = torch.float32 if name.endswith("inv_freq") else buffer.dtype
        buffer.data = buffer.data.to(_able(buffer), narrow)
    return replace(decoder, model=model.eval(), loading=None)


def narrowed(wide: Decoder, like: Decoder) -> None:
    """Take every tensor of a float64 copy to the type and the place of its namesake, in place.

    Args:
        wide: from `float64_copy`; an unembedding that was untied since goes where the tied one lay.
        like: the decoder it was copied from.
    """
    originals = dict(like.model.named_parameters(remove_duplicate=False)) | dict(like.model.named_buffers())
    for name, tensor in (*wide.model.named_parameters(), *wide.model.named_buffers()):
        tensor.data = tensor.data.to(originals[name].device, originals[name].dtype)


def _able(tensor: Tensor) -> torch.device:
    """Where a tensor can be float64: where it lies, or on the CPU for one on "mps"."""
    return torch.device("cpu") if tensor.device.type == "mps" else tensor.device
