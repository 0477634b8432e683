"""From plain matrices to what moves tokens: the attention and the MLP of every block as drifts of the dynamics."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Mask, Window
from armillary.dynamics.circuits import CircuitDrift, GivenScores, GivenValues, IdentityScores, IdentityValues
from armillary.dynamics.normalization import LayerNorm, RMSNorm
from armillary.dynamics.pushes import MLPDrift
from armillary.dynamics.rotary import GivenRotations
from armillary.errors import ArgumentError
from armillary.models.matrices import PlainAttention, PlainBlock, PlainNorm, PlainWeights

__all__ = ["READINGS", "Sublayers", "attention_drift", "mlp_drift", "norm_of"]

READINGS = ("trained gains", "unit gains", "no norm")
"""How a sublayer reads a direction: through its norm, through the norm without gain and offset, or as it is."""

Sublayers = tuple[Callable[[Tensor], Tensor] | None, Callable[[Tensor], Tensor] | None]
"""Attention and MLP of one block; None for one that is left out."""


def norm_of(plain: PlainNorm | None, *, reading: str) -> RMSNorm | LayerNorm | None:
    """The norm of the dynamics for a norm given as numbers.

    Args:
        plain: The numbers; None for a sublayer that reads the stream itself.
        reading: One of `READINGS`.

    Raises:
        ArgumentError: Another reading.
    """
    if reading not in READINGS:
        raise ArgumentError(f"Argument `reading` must be one of {', '.join(READINGS)}, but is {reading!r}. Name one.")
    if plain is None or reading == "no norm":
        return None
    gain, offset = (plain.gain, plain.offset) if reading == "trained gains" else (None, None)
    if plain.kind == "RMSNorm":
        return RMSNorm(gain, plain.eps)
    return LayerNorm(gain, offset, plain.eps)


def attention_drift(
    block: PlainBlock,
    *,
    scores: IdentityScores | PlainWeights,
    values: PlainAttention | None,
    at: int,
    reading: str,
    positions: str,
    mask: str,
) -> CircuitDrift:
    """The attention of one block from a source of scores and a source of values.

    Args:
        block: The decoder's own block: its norm is what both circuits read through.
        scores: Identity scores, or the weights whose queries and keys are taken.
        values: Whose values and outputs are taken; None carries the tokens themselves.
        at: Place of the block, from 0.
        reading: One of `READINGS`.
        positions: "own" rotates queries and keys, "none" does not.
        mask: "causal" (within the block's window, if it has one) or "full".
    """
    read = norm_of(block.attention_norm, reading=reading)
    who = scores if isinstance(scores, IdentityScores) else _scores(scores, at, read, positions)
    what = IdentityValues() if values is None else _values(values, read)
    return CircuitDrift(who, what, _mask(block.attention, mask))


def mlp_drift(block: PlainBlock, function: Callable[[Tensor], Tensor], *, reading: str) -> MLPDrift:
    """A function of rows as the MLP of a block, read through the block's own norm.

    Args:
        block: The decoder's own block.
        function: `*batch tokens dim` to the same shape.
        reading: One of `READINGS`.
    """
    read = norm_of(block.mlp_norm, reading=reading)
    return MLPDrift(function if read is None else lambda rows: function(read(rows)))


def _scores(weights: PlainWeights, at: int, read: RMSNorm | LayerNorm | None, positions: str) -> GivenScores:
    own = weights.blocks[at].attention
    rotary = None
    if weights.frequencies is not None and positions == "own":
        rotary = GivenRotations(frequencies=weights.frequencies, factor=weights.rotation_factor)
    return GivenScores(
        own.query, own.key, own.scale, query_offset=own.query_offset, key_offset=own.key_offset, positions=rotary,
        read=read,
    )  # fmt: skip


def _values(own: PlainAttention, read: RMSNorm | LayerNorm | None) -> GivenValues:
    return GivenValues(own.value, own.output, value_offset=own.value_offset, output_offset=own.output_offset, read=read)


def _mask(own: PlainAttention, mask: str) -> Mask:
    if mask not in ("causal", "full"):
        raise ArgumentError(f"Argument `mask` must be 'causal' or 'full', but is {mask!r}. Name one of them.")
    if mask == "full":
        return Full()
    return Causal() if own.window is None else Window(own.window - 1, "back")
