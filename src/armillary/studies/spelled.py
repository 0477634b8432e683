"""A dynamics and its starts from words, as the command line and study files write them: `window:3`, `gaussian:4:8`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from armillary.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

    from armillary.dynamics.attention import Mask, RowRule
    from armillary.dynamics.drifts import Drift
    from armillary.dynamics.heads import Heads
    from armillary.dynamics.normalization import VelocityField

__all__ = [
    "HEADS",
    "MASKS",
    "NORMS",
    "RULES",
    "STARTS",
    "spelled_field",
    "spelled_heads",
    "spelled_mask",
    "spelled_rule",
    "spelled_start",
]

RULES = ("softmax", "unnormalized", "uniform", "hardmax")
MASKS = "full, causal, window:N or window:N:both"
HEADS = "identity, gaussian:HEADS:HEAD_DIM, orthogonal, goe, orthogonal:HEADS or goe:HEADS"
NORMS = "post, pre, mix:TIME, peri, ngpt:ALPHA, sqrt-depth or flat"
STARTS = "uniform, equiangular:C, orthonormal, ring or antipodal"

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TIE = 1e-12
JITTER = 0.01  # of a ring


def spelled_rule(text: str, beta: float) -> RowRule:
    """A row rule by its name.

    Args:
        text: One of `RULES`.
        beta: Factor of the scores; softmax at 0 is uniform.
    """
    from armillary.dynamics.attention import Hardmax, Softmax, Uniform, Unnormalized

    if text not in RULES:
        raise ArgumentError(f"Argument `rule` must be one of {', '.join(RULES)}, but it is {text!r}. Name one of them.")
    if text == "uniform" or (text == "softmax" and beta == 0):
        return Uniform()
    return Hardmax(tie=TIE) if text == "hardmax" else {"softmax": Softmax, "unnormalized": Unnormalized}[text](beta)


def spelled_mask(text: str) -> Mask:
    """A mask by its name.

    Args:
        text: As `MASKS` has it.
    """
    from armillary.dynamics.attention import Causal, Full, Window

    window = re.fullmatch(r"window:([0-9]+)(:both)?", text)
    if window:
        return Window(int(window[1]), "both" if window[2] else "back")
    if text in ("full", "causal"):
        return Full() if text == "full" else Causal()
    raise ArgumentError(f"Argument `mask` must be {MASKS}, but it is {text!r}. Write causal.")


def spelled_heads(text: str, *, dim: int, seed: int) -> Heads | None:
    """Heads by their name; None for the identity.

    Args:
        text: As `HEADS` has it.
        dim: Of the tokens.
        seed: Of what is drawn.
    """
    from armillary.dynamics.heads import Heads

    gaussian = re.fullmatch(r"gaussian:([0-9]+):([0-9]+)", text)
    if text == "identity":
        return None
    if gaussian and int(gaussian[1]) and int(gaussian[2]):
        return Heads.gaussian(dim=dim, heads=int(gaussian[1]), head_dim=int(gaussian[2]), seed=seed)
    square = re.fullmatch(r"(orthogonal|goe)(?::([0-9]+))?", text)
    if square and square[2] != "0":
        drawn = Heads.orthogonal if square[1] == "orthogonal" else Heads.goe
        return drawn(dim=dim, seed=seed, heads=int(square[2] or 1))
    raise ArgumentError(f"Argument `heads` must be {HEADS}, but it is {text!r}. Write gaussian:4:8.")


def spelled_field(text: str, drift: Drift) -> VelocityField:
    """Where the norm is restored, by name.

    Args:
        text: As `NORMS` has it.
        drift: What moves the tokens.
    """
    from armillary.dynamics import normalization as norms

    plain: dict[str, Any] = {
        "post": norms.on_sphere, "pre": norms.pre_norm, "peri": norms.peri_norm, "sqrt-depth": norms.sqrt_depth,
        "flat": norms.flat,
    }  # fmt: skip
    if text in plain:
        made: VelocityField = plain[text](drift)
        return made
    with_number = re.fullmatch(rf"(mix|ngpt):({NUMBER})", text)
    if with_number is None:
        raise ArgumentError(f"Argument `norm` must be {NORMS}, but it is {text!r}. Write pre.")
    number = float(with_number[2])
    return norms.mix_norm(drift, switch=number) if with_number[1] == "mix" else norms.ngpt(drift, alpha=number)


def spelled_start(text: str, *, tokens: int, dim: int, seed: int) -> Tensor:
    """One start by its name, `tokens dim`.

    Args:
        text: As `STARTS` has it; `equiangular:0.3` for a common overlap.
        tokens: T.
        dim: d.
        seed: Of what is drawn: uniform directions, and the jitter of a ring.

    Raises:
        ArgumentError: No such start, or none of that kind with so many tokens in that dimension.
    """
    import torch

    from armillary import sphere

    if text == "uniform":
        return sphere.uniform(tokens=tokens, dim=dim, seed=seed)
    if text == "ring":
        if dim != 2:
            raise ArgumentError(f"Argument `start` must go with dim 2 for a ring, but dim is {dim}. Take dim 2.")
        angles = torch.arange(tokens, dtype=torch.float64) * (2 * torch.pi / tokens)
        draw = torch.Generator().manual_seed(seed)
        ring = torch.stack([angles.cos(), angles.sin()], dim=1)
        return sphere.normalize(ring + JITTER * torch.randn(ring.shape, generator=draw, dtype=torch.float64))
    if text == "antipodal":
        row = torch.zeros(tokens, dim, dtype=torch.float64)
        row[:, 0] = torch.tensor([1.0, -1.0] * ((tokens + 1) // 2))[:tokens]
        return row
    match = re.fullmatch(rf"(equiangular):({NUMBER})|orthonormal", text)
    if match:
        return sphere.equiangular(tokens=tokens, dim=dim, overlap=float(match[2]) if match[1] else 0.0)
    raise ArgumentError(f"Argument `start` must be {STARTS}, but it is {text!r}. Write uniform.")
