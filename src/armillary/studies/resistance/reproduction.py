"""The proof of the ladder's matrices: the decoder rebuilt from them must have the decoder's own states at every tap."""

from __future__ import annotations

import torch
from torch import Tensor

from armillary.errors import CheckMissed
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, capture, taps_of
from armillary.models.matrices import PlainWeights
from armillary.studies.resistance.climbing import OwnStep, climb
from armillary.studies.resistance.sublayers import Sublayers, attention_drift, mlp_drift

__all__ = ["CLOSE", "departures", "own_blocks", "require_reproduced"]

CLOSE = 1e-4
"""Largest relative departure of a row at any tap."""


def departures(decoder: Decoder, weights: PlainWeights, ids: Tensor) -> dict[Tap, float]:
    """How far the states rebuilt from plain matrices are from the decoder's own.

    Args:
        decoder: The decoder.
        weights: Its matrices.
        ids: `documents tokens`.

    Returns:
        For each tap the largest over rows of |rebuilt - own| / |own|.
    """
    own = capture(decoder, ids, taps_of(decoder)).states
    blocks = [lambda at=at: own_blocks(weights, at) for at in range(len(weights.blocks))]
    found = {}
    with torch.inference_mode():
        start = own[:, 0].to(decoder.device)
        for place, (tap, rebuilt) in enumerate(climb(start, blocks, OwnStep(weights.multiplier))):
            there = own[:, place].double()
            apart = (rebuilt.cpu().double() - there).norm(dim=-1) / there.norm(dim=-1)
            found[tap] = float(apart.max())
    return found


def require_reproduced(decoder: Decoder, weights: PlainWeights, ids: Tensor) -> dict[Tap, float]:
    """`departures`, each of which must be small.

    Raises:
        CheckMissed: A row is further from the decoder's than `CLOSE` of its length.
    """
    found = departures(decoder, weights, ids)
    far = next((tap for tap, apart in found.items() if not apart <= CLOSE), None)
    if far is not None:
        dtype = decoder.facts.dtype
        remedy = (
            f"A decoder in {dtype} rounds more than that: measure it in float32 (--dtype float32)."
            if dtype in ("float16", "bfloat16")
            else "Leave out the rungs built from matrices (--rungs idealized,decoder): this decoder computes something "
            "that they do not hold."
        )
        raise CheckMissed(
            f"The decoder rebuilt from its matrices must agree with {decoder.facts.name} within {CLOSE:g} of each row, "
            f"but at {far.name} {far.layer} it is {found[far]:.2g} apart. {remedy}"
        )
    return found


def own_blocks(weights: PlainWeights, at: int) -> Sublayers:
    """Attention and MLP of a block as the decoder itself has them.

    Args:
        weights: The matrices.
        at: Place of the block, from 0.
    """
    block = weights.blocks[at]
    choices = {"reading": "trained gains", "positions": "own", "mask": "causal"}
    attention = attention_drift(block, scores=weights, values=block.attention, at=at, **choices)
    return attention, None if block.mlp is None else mlp_drift(block, block.mlp, reading="trained gains")
