"""Residual branches scaled so that the overlap follows a declared profile through depth: predicted, then corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.capture import capture
from armillary.observables.alignment import mean_overlap
from armillary.oracles import wide_limit
from armillary.training.prediction import WideDecoder, wide_decoder
from armillary.training.recipe import recipe

__all__ = ["overlap_profile", "overlap_sequence", "scales_for"]

SMALLEST, LARGEST = 1e-3, 1e3
"""Between which factors a branch's scale is looked for."""

SWEEPS = 6
CLOSE = 0.01
"""So many corrections at most, until every layer's mean overlap is so near the profile."""


@recipe
def overlap_profile(
    decoder: Decoder, *, first: float, last: float, seed: int, ids: Tensor | None = None
) -> dict[str, Any]:
    """Branches of every block scaled so that the mean overlap rises in a straight line from block 1 to block L.

    The scales that the recursion of wide layers predicts are applied, then corrected by what is measured on the ids: a
    few passes, no gradient. Output projections are multiplied; nothing else changes.

    Args:
        decoder: A model or decoder.
        first: Mean overlap after block 1, at least that of the embedding.
        last: Mean overlap after block L, not below `first`, below 1.
        seed: Of the ids, where none are given.
        ids: `documents tokens` to measure on; 4 documents of 64 different random tokens if None.

    Returns:
        A report: `scale` of each block, `predicted`, `measured` and `aimed` overlap after each, `furthest`.

    Raises:
        ArgumentError: A profile that the blocks cannot follow; the message says what they can.
        UnsupportedModelError: The recursion does not speak of the decoder.
    """
    if not -1 < first <= last < 1:
        raise ArgumentError(
            f"Arguments `first` and `last` must be overlaps below 1 that do not fall, but they are {first} and {last}. "
            "Write first=0.05, last=0.3."
        )
    return _followed(decoder, np.linspace(first, last, decoder.facts.layers), seed=seed, ids=ids)


@recipe
def overlap_sequence(
    decoder: Decoder, *, profile: tuple[float, ...], seed: int, ids: Tensor | None = None
) -> dict[str, Any]:
    """Branches of every block scaled so that the mean overlap follows a declared sequence, one number a block.

    As `overlap_profile` otherwise.

    Args:
        decoder: A model or decoder.
        profile: Mean overlap after each block, below 1, each above the one before it.
        seed: Of the ids, where none are given.
        ids: `documents tokens` to measure on; 4 documents of 64 different random tokens if None.

    Returns:
        A report as that of `overlap_profile`.

    Raises:
        ArgumentError: Another number of overlaps than of blocks, or a profile that the blocks cannot follow.
        UnsupportedModelError: The recursion does not speak of the decoder.
    """
    aimed, depth = np.asarray(profile, dtype=float), decoder.facts.layers
    if len(aimed) != depth or not (np.abs(aimed) < 1).all() or (np.diff(aimed) <= 0).any():
        raise ArgumentError(
            f"Argument `profile` must hold {depth} overlaps below 1 that rise, one a block, but it is "
            f"{'/'.join(f'{one:g}' for one in aimed)}. Write "
            f"profile={'/'.join(f'{one:.3g}' for one in np.linspace(0.05, 0.3, depth))}."
        )
    return _followed(decoder, aimed, seed=seed, ids=ids)


def _followed(decoder: Decoder, aimed: np.ndarray, *, seed: int, ids: Tensor | None) -> dict[str, Any]:
    """Scales predicted, then corrected by what is measured."""
    depth = len(aimed)
    tokens = _distinct(decoder, seed) if ids is None else decoder.checked(ids).cpu()
    wide = wide_decoder(decoder)
    starts = [wide.start(row.tolist()) for row in tokens]
    applied = np.ones(depth)
    wanted, best = aimed.copy(), (np.inf, applied)
    predicted = measured = aimed
    for sweep in range(SWEEPS):
        try:
            scales, predicted = scales_for(wide, starts, wanted)
        except ArgumentError:
            if sweep == 0:
                raise
            break  # a correction asks for more than blocks can give: the best so far stands
        _apply(decoder, scales / applied)
        applied = scales
        measured = _measured(decoder, tokens)
        furthest = float(np.abs(measured - aimed).max())
        if furthest < best[0]:
            best = (furthest, scales)
        if furthest < CLOSE:
            break
        wanted = np.maximum.accumulate(predicted + aimed - measured)
    _apply(decoder, best[1] / applied)
    measured = _measured(decoder, tokens)
    return {
        "scale": best[1].tolist(), "predicted": predicted.tolist(), "measured": measured.tolist(),
        "aimed": aimed.tolist(), "furthest": float(np.abs(measured - aimed).max()),
    }  # fmt: skip


def scales_for(wide: WideDecoder, starts: Sequence[np.ndarray], wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale of each block with which the recursion gives the wanted overlap after it, and what it then gives.

    Args:
        wide: The decoder.
        starts: Gram matrices of the embedding, one a document.
        wanted: Mean overlap after each block, mean over documents.

    Raises:
        ArgumentError: A block cannot give it.
    """
    grams, scales, given = list(starts), [], []

    def after(scale: float, layer: int) -> list[np.ndarray]:
        block = replace(wide.blocks[layer], scale=wide.blocks[layer].scale * scale)
        return [wide_limit.stream_grams(gram, [block])[1] for gram in grams]

    for layer, aim in enumerate(wanted):

        def above(log: float, layer: int = layer, aim: float = float(aim)) -> float:
            return _overlap(after(float(np.exp(log)), layer)) - aim

        ends = (float(np.log(SMALLEST)), float(np.log(LARGEST)))
        low, high = above(ends[0]), above(ends[1])
        if low > 0 or high < 0:
            raise ArgumentError(
                f"Argument `profile` must be one that the blocks can follow, but block {layer + 1} can give overlaps "
                f"from {aim + low:.3f} to {aim + high:.3f}, not {aim:.3f}. Choose others."
            )
        scale = float(np.exp(brentq(above, *ends, xtol=1e-4)))
        grams = after(scale, layer)
        scales.append(scale)
        given.append(_overlap(grams))
    return np.array(scales), np.array(given)


def _overlap(grams: Sequence[np.ndarray]) -> float:
    return float(np.mean([wide_limit.mean_overlap(gram) for gram in grams]))


def _measured(decoder: Decoder, tokens: Tensor) -> np.ndarray:
    states = capture(decoder, tokens, batch_size=len(tokens)).states
    overlaps = torch.as_tensor(mean_overlap.after("normalize")(states))
    return np.asarray(overlaps.mean(0)[1:], dtype=float)


def _apply(decoder: Decoder, factors: np.ndarray) -> None:
    for layer, factor in enumerate(factors, start=1):
        for sublayer in ("attention", "mlp"):
            for module, name in decoder.written(sublayer, layer):
                weight: Any = getattr(module, name)
                weight.mul_(float(factor))


def _distinct(decoder: Decoder, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    tokens = min(64, decoder.facts.context, decoder.facts.vocabulary)
    return torch.stack([torch.randperm(decoder.facts.vocabulary, generator=generator)[:tokens] for _ in range(4)])
