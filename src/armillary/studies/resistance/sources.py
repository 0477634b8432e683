"""Where the matrices of a rung come from: the decoder, Gaussians matched to it, or a fresh draw by a recipe."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.conditions import Initial, parse_condition
from armillary.models.matrices import PlainAttention, PlainBlock, PlainWeights, plain_weights

__all__ = ["GAUSSIAN", "SPECTRUM", "TRAINED", "Sources", "gaussian_twin", "same_score_spectrum", "same_spectrum"]

TRAINED, GAUSSIAN, SPECTRUM = "trained", "gaussian", "spectrum"
"""Names of sources; a fresh draw is named as its condition, `initial-library-seed0` for instance."""


@dataclass(eq=False)
class Sources:
    """Matrices by the name of their source; the last one that is not the decoder's own is kept.

    Args:
        decoder: The decoder.
        seed: Of everything that is drawn.
    """

    decoder: Decoder
    seed: int
    _kept: dict[str, PlainWeights] = field(default_factory=dict)

    @cached_property
    def trained(self) -> PlainWeights:
        """The decoder's own."""
        return plain_weights(self.decoder)

    def __call__(self, name: str) -> PlainWeights:
        """The matrices of a source.

        Args:
            name: "trained", "gaussian" (every matrix with its own standard deviation), "spectrum" (values and outputs
                with the singular values of each head's own product, the gain it reads through folded in), or the name
                of an initial condition.

        Raises:
            ArgumentError: There is no such source.
        """
        if name == TRAINED:
            return self.trained
        if name not in self._kept:
            self._kept = {name: self._made(name)}
        return self._kept[name]

    def _made(self, name: str) -> PlainWeights:
        if name in (GAUSSIAN, SPECTRUM):
            blocks = tuple(
                replace(
                    block,
                    attention=gaussian_twin(block.attention, self._draw(layer))
                    if name == GAUSSIAN
                    else same_spectrum(block.attention, self._draw(layer), gain=_gain(block)),
                    mlp=_Redrawn(block.mlp, self._draw(-layer)) if name == GAUSSIAN and block.mlp else block.mlp,
                )
                for layer, block in enumerate(self.trained.blocks, 1)
            )
            return replace(self.trained, blocks=blocks)
        condition = parse_condition(name)
        if not isinstance(condition, Initial):
            raise ArgumentError(
                f"Argument `name` must be {TRAINED}, {GAUSSIAN}, {SPECTRUM} or an initial condition, but is {name!r}. "
                "Name one of them."
            )
        with condition.applied(self.decoder) as applied:
            return plain_weights(applied.decoder)

    def random_directions(self) -> PlainWeights:
        """The decoder's matrices with the singular values of both forms of every head kept, and nothing else."""
        drawn = self(SPECTRUM)
        blocks = tuple(
            replace(block, attention=same_score_spectrum(block.attention, self._draw(-layer), gain=_gain(block)))
            for layer, block in enumerate(drawn.blocks, 1)
        )
        return replace(drawn, blocks=blocks)

    def _draw(self, layer: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed * 1_000_003 + 7919 * abs(layer) + (layer < 0))


def gaussian_twin(own: PlainAttention, draw: torch.Generator) -> PlainAttention:
    """Independent Gaussian entries, every matrix and offset with the root mean square of the one it stands for.

    Args:
        own: The decoder's.
        draw: Where the numbers come from.
    """
    names = ("query", "key", "value", "output", "query_offset", "key_offset", "value_offset", "output_offset")
    drawn: dict[str, Any] = {name: _like(tensor, draw) for name in names if (tensor := getattr(own, name)) is not None}
    return replace(own, **drawn)


def same_spectrum(own: PlainAttention, draw: torch.Generator, *, gain: Tensor | None) -> PlainAttention:
    """Each head's W_O W_V G with its own singular values between random orthonormal frames, without offsets.

    G is the diagonal of the gain that the head reads through: what the head computes of a normalized row is W_O W_V G.
    It is divided out of the new values, since a rung reads through the same gain.

    Args:
        own: The decoder's; queries and keys stay.
        draw: Where the frames come from.
        gain: `dim`, or None for ones.
    """
    heads, dim, size = own.output.shape
    factor, there = _divisible(gain, own.value)
    value = own.value.double().cpu().repeat_interleave(heads // len(own.value), 0) * factor * there[:, 0]
    singular = torch.linalg.svdvals(_triangle(own.output) @ _triangle(value.mT).mT)
    left, right = torch.randn(2, heads, dim, size, generator=draw, dtype=torch.float64)
    left, right = torch.linalg.qr(left)[0], torch.linalg.qr(right * there)[0]
    return replace(
        own,
        value=(right.mT / factor).to(own.value),
        output=(left * singular[:, None, :]).to(own.output),
        value_offset=None,
        output_offset=None,
    )


def same_score_spectrum(own: PlainAttention, draw: torch.Generator, *, gain: Tensor | None) -> PlainAttention:
    """Each head's scale G W_Q^T W_K G with its own singular values between random orthonormal frames, without offsets.

    Args:
        own: The decoder's; values and outputs stay.
        draw: Where the frames come from.
        gain: `dim`, the diagonal of G as in `same_spectrum`, or None for ones.
    """
    heads, size, dim = own.query.shape
    factor, there = _divisible(gain, own.query)
    query, key = (
        one.double().cpu() * factor * there[:, 0]
        for one in (own.query, own.key.repeat_interleave(heads // len(own.key), 0))
    )
    singular = own.scale * torch.linalg.svdvals(_triangle(query.mT) @ _triangle(key.mT).mT)
    left, right = torch.linalg.qr(torch.randn(2, heads, dim, size, generator=draw, dtype=torch.float64) * there)[0]
    return replace(
        own,
        query=((left * singular[:, None, :]).mT / factor).to(own.query),
        key=(right.mT / factor).to(own.key),
        scale=1.0,
        query_offset=None,
        key_offset=None,
    )


def _gain(block: PlainBlock) -> Tensor | None:
    return None if block.attention_norm is None else block.attention_norm.gain


def _divisible(gain: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
    """The gain on the processor, one where it is zero; and the coordinates that are read at all, `dim 1` of 0 and 1."""
    factor = torch.ones(like.shape[-1], dtype=torch.float64) if gain is None else gain.double().cpu()
    there = factor != 0
    return torch.where(there, factor, 1.0), there.double()[:, None]


def _triangle(tall: Tensor) -> Tensor:
    """R of the QR decomposition: what decides the singular values of a product."""
    return torch.linalg.qr(tall.double().cpu(), mode="r")[1]


def _like(tensor: Tensor, draw: torch.Generator) -> Tensor:
    size = tensor.double().square().mean().sqrt().float().cpu()  # drawn on the processor whatever the device
    return (size * torch.randn(tensor.shape, generator=draw)).to(tensor)


@dataclass(eq=False)
class _Redrawn:
    """A copy of an MLP, made when it is first called: every tensor Gaussian with the root mean square of its own."""

    mlp: Callable[[Tensor], Tensor]
    draw: torch.Generator

    @cached_property
    def twin(self) -> nn.Module:
        assert isinstance(self.mlp, nn.Module)
        twin = copy.deepcopy(self.mlp)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.copy_(_like(parameter, self.draw))
        return twin

    def __call__(self, rows: Tensor) -> Tensor:
        found: Tensor = self.twin(rows)
        return found
