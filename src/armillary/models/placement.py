"""Where the layers of a decoder lie: on one device or spread over several, and the proof that none was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, stream

__all__ = ["Placement", "placed", "placement", "require_everywhere"]

_NOWHERE = ("disk", "meta")


@dataclass(frozen=True)
class Placement:
    """One device, or a device map as accelerate takes it; exactly one of the two."""

    target: torch.device | None
    device_map: str | Mapping[str, Any] | None = None


def placement(device: str | Mapping[str, Any]) -> Placement:
    """What a word or a device map asks for.

    Args:
        device: "auto" (an accelerator if there is one), "cpu", "cuda", "mps", "map", or a device map.

    Raises:
        ArgumentError: No such device here, or a map that leaves a part on no device.
    """
    if not isinstance(device, str):
        for part, place in device.items():
            if str(place) in _NOWHERE:
                raise ArgumentError(
                    f"Argument `device` must put every part on a device, but {part} goes to {place}: conditions could "
                    "not change its weights. Put it on a device, or use a smaller dtype."
                )
        return Placement(None, dict(device))
    usable = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "map":
        return Placement(None, "auto")
    if device == "auto":
        return Placement(torch.device(next(kind for kind in ("cuda", "mps", "cpu") if usable[kind])))
    if device not in usable:
        raise ArgumentError(f'Argument `device` must be auto, cpu, cuda, mps or map, but is {device!r}. Use "auto".')
    if not usable[device]:
        raise ArgumentError(
            f'Argument `device` must be one this machine has, but {device!r} is not available. Use "cpu".'
        )
    return Placement(torch.device(device))


def placed(model: Any, where: Placement) -> Any:
    """The model on its one device; one that was spread while it was read stays as it is."""
    return model if where.target is None else model.to(where.target)


def require_everywhere(decoder: Decoder, *, tokens: int = 4) -> None:
    """Refuse a decoder of which a layer does not arrive: one short pass, in which no state may be zero throughout.

    Args:
        decoder: Spread over devices.
        tokens: Length of the pass.

    Raises:
        UnsupportedModelError: Names the first layer whose states came back as zeros, and its device.
    """
    dark: list[Tap] = []

    def look(tap: Tap, residual: Tensor, read: Tensor) -> None:
        if not bool(residual.any()):
            dark.append(tap)

    count = min(tokens, decoder.facts.context, decoder.facts.vocabulary)
    with stream(decoder, look):
        decoder.hidden(torch.arange(count)[None])
    if dark:
        first = dark[0]
        spot = decoder.embedding if first.layer == 0 else decoder.block(first.layer)
        device = next(spot.parameters()).device
        raise UnsupportedModelError(
            f"Argument `device` must keep every layer, but the states after layer {first.layer} ({first.name}, on "
            f"{device}) of {decoder.facts.name} came back as zeros. Use one device, or a smaller dtype."
        )
