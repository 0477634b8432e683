"""Where the norm is restored: each placement of a normalization turns a drift into a velocity field, or into layers.

With directions theta = y / |y| of the stream y and the drift A_i at theta, every scheme moves
theta_i' = P_i A_i / s_i and r_i' as listed (P_i projects on the tangent space at theta_i):

    scheme      state   s_i                r_i'               one layer of step h
    post        theta   1                  0                  normalize(theta + h A)
    pre         y       r                  theta . A          y + h A
    mix         both    1, then r          0, then theta . A  post, then pre from a declared time on
    peri        y       r |A|              theta . A / |A|    y + h A / |A|
    ngpt        theta   |A| / alpha        0                  normalize(theta + h alpha (A / |A| - theta))
    sqrt depth  theta   sqrt(s + 1)        0                  normalize(theta + h A / sqrt(s + 1))
    flat        y       no norm: y' = A(y), the rescaled dynamics of the clustering papers

Source: Karagodin, Ge, Polyanskiy, Rigollet 2025 for the table; Loshchilov et al. 2024 for ngpt's layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from armillary.dynamics.drifts import Drift
from armillary.errors import ArgumentError

__all__ = [
    "LayerNorm",
    "RMSNorm",
    "Scheme",
    "VelocityField",
    "flat",
    "mix_norm",
    "ngpt",
    "on_sphere",
    "peri_norm",
    "pre_norm",
    "sqrt_depth",
]

Scheme = Literal["post", "pre", "mix", "peri", "ngpt", "sqrt depth", "flat"]


def _require_length(name: str, given: Tensor | None, rows: Tensor) -> None:
    """Refuse a gain or bias that does not have one number for each coordinate of the rows."""
    if given is not None and tuple(given.shape) != (rows.shape[-1],):
        raise ArgumentError(
            f"Argument `{name}` must have one number for each of the {rows.shape[-1]} coordinates of a row, but has "
            f"shape {list(given.shape)}. Give {rows.shape[-1]} numbers, or leave it out."
        )


@dataclass(frozen=True, eq=False)
class RMSNorm:
    """x -> gain * x / sqrt(mean(x^2) + eps); with gain 1 and eps 0 rows of length sqrt(dim).

    Args:
        gain: `dim`, or None for ones.
        eps: Added to the mean square.
    """

    gain: Tensor | None = None
    eps: float = 0.0

    def __call__(self, rows: Tensor) -> Tensor:
        """The normalized rows, same shape."""
        _require_length("gain", self.gain, rows)
        found = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + self.eps)
        return found if self.gain is None else found * self.gain.to(rows)


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """x -> gain * (x - mean) / sqrt(variance + eps) + bias: the sphere of radius sqrt(dim) in the hyperplane of mean 0.

    Args:
        gain: `dim`, or None for ones.
        bias: `dim`, or None for zeros.
        eps: Added to the variance.
    """

    gain: Tensor | None = None
    bias: Tensor | None = None
    eps: float = 0.0

    def __call__(self, rows: Tensor) -> Tensor:
        """The normalized rows, same shape."""
        _require_length("gain", self.gain, rows)
        _require_length("bias", self.bias, rows)
        mean_free = rows - rows.mean(-1, keepdim=True)
        found = mean_free * torch.rsqrt(mean_free.square().mean(-1, keepdim=True) + self.eps)
        found = found if self.gain is None else found * self.gain.to(rows)
        return found if self.bias is None else found + self.bias.to(rows)


@dataclass(frozen=True, eq=False)
class VelocityField:
    """(s, x) -> velocity: a drift under one placement of the norm.

    Made by `on_sphere`, `pre_norm`, `mix_norm`, `peri_norm`, `ngpt`, `sqrt_depth` or `flat`.

    Attributes:
        drift: What proposes the motion.
        scheme: Where the norm is restored.
        alpha: Step ratio of ngpt.
        switch: When mix turns from post to pre.
        read: What the drift reads of the direction instead of the direction itself: an RMSNorm or LayerNorm; it applies
            to pre, peri and mix after the switch, where layers read through a norm of their own.
    """

    drift: Drift
    scheme: Scheme
    alpha: float = 1.0
    switch: float = math.inf
    read: RMSNorm | LayerNorm | None = None

    @property
    def spherical(self) -> bool:
        """Whether the state has unit rows."""
        return self.scheme in ("post", "ngpt", "sqrt depth", "mix")

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Times at which the field changes: a step must end there."""
        own = {self.switch} if self.scheme == "mix" else set()
        return tuple(sorted({*own, *self.drift.breakpoints}))

    def during(self, start: float) -> VelocityField:
        """The field from time `start` on, until the next breakpoint."""
        scheme = self.scheme
        if scheme == "mix":
            scheme = "post" if start < self.switch else "pre"
        return replace(self, scheme=scheme, drift=self.drift.during(start))

    def velocity(self, time: Tensor | float, state: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """The velocity of the state.

        Args:
            time: One number, or one a system, `*batch`.
            state: `*batch tokens dim`: unit rows for spherical schemes, the stream for the others.
            multiplicity: How many original tokens a row stands for, `*batch tokens`.

        Returns:
            `*batch tokens dim`; tangent to the sphere for spherical schemes, evaluated at the normalized rows.
        """
        if self.scheme == "flat":
            return self.drift(state, multiplicity)
        if self.scheme == "mix":
            raise ArgumentError("A mixed field must be asked `during(start)` first. `flow` does so.")
        radius = state.norm(dim=-1, keepdim=True)
        direction = state / radius
        if not self.spherical:
            return self.proposed(time, state, multiplicity)
        if self.scheme == "ngpt":
            pulled = self.proposed(time, state, multiplicity)
        else:
            pulled = self._paced(time, state, self.drift.toward_others(direction, multiplicity))
        return self.tangential(direction, pulled)

    def proposed(self, time: Tensor | float, state: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """What the scheme makes of the drift, before any projection: A, A / |A|, alpha A / |A| or A / sqrt(s + 1)."""
        if self.scheme == "flat":
            return self.drift(state, multiplicity)
        direction = state / state.norm(dim=-1, keepdim=True)
        read = direction if self.read is None or self.spherical else self.read(state)
        drift = self.drift(read, multiplicity)
        if self.scheme in ("peri", "ngpt"):
            drift = self.alpha * drift / drift.norm(dim=-1, keepdim=True)
        return self._paced(time, state, drift)

    def retracted(self, state: Tensor) -> Tensor:
        """The state with its rows put back on the sphere, where the scheme has them there."""
        return _unit(state) if self.spherical else state

    def tangential(self, state: Tensor, vectors: Tensor) -> Tensor:
        """The part of vectors along the sphere at the rows of the state; all of it where nothing is on the sphere."""
        direction = _unit(state)
        along = (vectors * direction).sum(-1, keepdim=True) * direction
        return vectors - along if self.spherical else vectors

    def _paced(self, time: Tensor | float, state: Tensor, drift: Tensor) -> Tensor:
        if self.scheme != "sqrt depth":
            return drift
        scale = torch.as_tensor(time, dtype=state.dtype, device=state.device) + 1.0
        return drift * torch.rsqrt(scale)[..., None, None]

    def layer(self, time: float, state: Tensor, step: float, multiplicity: Tensor | None = None) -> Tensor:
        """One exact residual layer of step h, of which the field is the limit as h goes to 0.

        Args:
            time: When the layer acts.
            state: `*batch tokens dim`.
            step: h.
            multiplicity: How many original tokens a row stands for, `*batch tokens`.

        Returns:
            The next state, `*batch tokens dim`; unit rows for spherical schemes.
        """
        moved = self.proposed(time, state, multiplicity)
        if self.scheme == "ngpt":
            return _unit(state + step * (moved - self.alpha * state))
        return _unit(state + step * moved) if self.spherical else state + step * moved

    def __str__(self) -> str:
        return f"{self.scheme}: {self.drift}"


def on_sphere(drift: Drift) -> VelocityField:
    """Post-norm: theta' = P A, the idealized dynamics."""
    return VelocityField(drift, "post")


def pre_norm(drift: Drift, *, read: RMSNorm | LayerNorm | None = None) -> VelocityField:
    """Pre-norm: the stream y moves freely by what the drift makes of its direction, y' = A(y / |y|), or A(read(y))."""
    return VelocityField(drift, "pre", read=read)


def mix_norm(drift: Drift, *, switch: float, read: RMSNorm | LayerNorm | None = None) -> VelocityField:
    """Post-norm until time `switch`, pre-norm from then on.

    Raises:
        ArgumentError: The switch is not at a positive time.
    """
    if not switch > 0:
        raise ArgumentError(f"Argument `switch` must be positive, but it is {switch}. From 0 on it is pre_norm.")
    return VelocityField(drift, "mix", switch=float(switch), read=read)


def peri_norm(drift: Drift, *, read: RMSNorm | LayerNorm | None = None) -> VelocityField:
    """Peri-norm: what is added to the stream is normalized too, y' = A / |A|."""
    return VelocityField(drift, "peri", read=read)


def ngpt(drift: Drift, *, alpha: float) -> VelocityField:
    """nGPT: theta' = alpha P A / |A|.

    Raises:
        ArgumentError: alpha is not positive and finite.
    """
    if not 0 < alpha < math.inf:
        raise ArgumentError(f"Argument `alpha` must be positive and finite, but it is {alpha}. Take 1.")
    return VelocityField(drift, "ngpt", alpha=float(alpha))


def sqrt_depth(drift: Drift) -> VelocityField:
    """Post-norm whose residual branch shrinks with depth: theta' = P A / sqrt(s + 1)."""
    return VelocityField(drift, "sqrt depth")


def flat(drift: Drift) -> VelocityField:
    """No norm at all: y' = A(y)."""
    return VelocityField(drift, "flat")


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)
