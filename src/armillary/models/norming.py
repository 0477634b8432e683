"""What a norm computes, by its formula: how a row of data is judged, and how an unlisted norm is recognized."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["epsilon_of", "gain_of", "judged_norm", "normalized"]

Kind = Literal["RMSNorm", "LayerNorm"]
Gain = Literal["weight", "1 + weight", "none"]

UNSTATED = 1e-5
"""What keeps the division finite in a norm that does not say: the default of torch."""

_CLOSE = {torch.float16: 1e-2, torch.bfloat16: 5e-2}


def gain_of(norm: Any, gain: Gain) -> Tensor | None:
    """What a norm multiplies its normalized rows by, [width]; None for a norm without a gain."""
    weight: Any = getattr(norm, "weight", None)
    if weight is None or gain == "none":
        return None
    held: Tensor = weight.detach()
    return 1 + held if gain == "1 + weight" else held


def epsilon_of(norm: Any) -> float:
    """What a norm adds to the mean square or the variance."""
    names = ("eps", "variance_epsilon", "epsilon")
    return float(next((getattr(norm, name) for name in names if hasattr(norm, name)), UNSTATED))


def normalized(states: Tensor, norm: Any, *, kind: Kind, gain: Gain) -> Tensor:
    """Rows as a norm should leave them, in float64.

    Formula: x / sqrt(mean x^2 + eps) times the gain, plus a bias where there is one; a LayerNorm takes the mean out
    first.
    """
    x = states.detach().double()
    epsilon = epsilon_of(norm)
    if kind == "LayerNorm":
        x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt()
    factor, bias = gain_of(norm, gain), getattr(norm, "bias", None)
    x = x if factor is None else x * factor.double()
    return x if bias is None else x + bias.detach().double()


def judged_norm(norm: Any, read: Tensor | None, wrote: Tensor | None) -> tuple[Kind, Gain] | None:
    """The formula that turns what a norm read into what it wrote, or None if it is none of those known."""
    if read is None or wrote is None:
        return None
    tolerance = _CLOSE.get(wrote.dtype, 1e-4) * float(wrote.abs().max())
    kinds: tuple[Kind, ...] = ("RMSNorm", "LayerNorm")
    gains: tuple[Gain, ...] = ("weight", "1 + weight", "none")
    for kind in kinds:
        for gain in gains:
            if (gain == "none") == (getattr(norm, "weight", None) is not None):
                continue
            if float((normalized(read, norm, kind=kind, gain=gain) - wrote.double()).abs().max()) <= tolerance:
                return kind, gain
    return None
