"""How much of one layer is kept in another: linear CKA without its bias, and the overlap of nearest neighbors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.between import BETWEEN_LAYERS, BetweenLayers, between_layers
from armillary.observables.claims import (
    BY_DIFFERENCES,
    BY_INNER_PRODUCTS,
    FREE_OF_SCALE,
    WHATEVER_THE_ORDER,
)
from armillary.observables.cloud import Cloud
from armillary.observables.neighbors import squared_distances
from armillary.observables.unbiased import u_centered
from armillary.shapes import Value

__all__ = ["linear_cka", "neighbor_overlap"]

# Distances that differ by less than this share of the larger are equal: rounding decides nothing.
_TIED = 1e-6
# Squared distances below this share of their mean are zero but for rounding: the rows repeat, and are equally far.
_REPEATED = 1e-14


def _aligned(cloud: Cloud) -> Tensor:
    """The centered overlaps as unbiased averages need them, scaled to length 1; NaN without spread."""
    inner = u_centered(cloud)
    length = inner.square().sum((-2, -1), keepdim=True).sqrt()
    return torch.where(length > 0, inner / length, torch.nan)


@between_layers(
    symbol="CKA",
    source="Kornblith et al. 2019; without bias: Song et al. 2012, equation 5, Nguyen et al. 2021, Murphy et al. 2024",
    definition="|cov(x, y)|^2 / (|cov(x)| |cov(y)|), each squared norm an unbiased average over distinct tokens",
    of=_aligned,
    undefined="fewer than four rows, or rows of one cloud without spread",
    attainable=lambda tokens, dim: (-1.0, 1.0),
    independent=lambda tokens, dim: 0.0,
    claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER, FREE_OF_SCALE, BY_DIFFERENCES),
)
def linear_cka(aligned: Tensor, other: Tensor) -> Value:
    """Linear centered kernel alignment from unbiased averages: HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)).

    1 if one cloud is the other rotated, moved and scaled; about 0 for independent clouds, whatever their numbers of
    tokens and coordinates, where the biased form tends to 1 as coordinates outnumber tokens. It can be slightly
    negative, and never leaves [-1, 1]. It subtracts means itself, so that "center" before it changes nothing. Rows as
    given weigh by their length: a massive token can carry all of it.
    """
    return (aligned * other).sum((-2, -1)).clamp(-1.0, 1.0)  # within by Cauchy and Schwarz, but for rounding


def _kept(membership: Tensor, other: Tensor, *, k: int) -> Tensor:
    return torch.minimum(membership, other).sum((-2, -1), dtype=torch.float64) / (k * membership.shape[-1])


def neighbor_overlap(*, k: int) -> BetweenLayers:
    """Share of each token's k nearest neighbors that it keeps, averaged over tokens: k / (T - 1) by chance, 1 if all.

    Neighbors are nearest in Euclidean distance of the rows as prepared (after "normalize" that is: in angle), the token
    itself excluded. Where several tokens are equally far at the k-th place, repeated tokens at the embedding for
    example, they share the places left, and of two shares of one token the smaller counts as kept.

    Args:
        k: How many neighbors, at least 1.

    Returns:
        A number of two configurations, in [0, 1].

    Raises:
        ArgumentError: If k is not a positive whole number.
    """
    if k < 1 or int(k) != k:
        raise ArgumentError(f"Argument `k` must be a whole number from 1 up, but it is {k}. Use for example k=10.")

    return BetweenLayers(
        name="neighbor_overlap",
        symbol=f"N_{k}",
        definition=f"share of each token's {k} nearest neighbors that are among its {k} nearest in the other layer, "
        "mean over tokens; tokens equally far at the last place share what is left of it",
        source="mutual nearest neighbors; Doimo et al. 2020, Huh et al. 2024",
        of=partial(_membership, k=k),
        function=partial(_kept, k=k),
        undefined=f"fewer than {k + 2} rows, or a row of zero length that was normalized",
        needs_unit_rows=False,
        attainable=lambda tokens, dim: (0.0, 1.0),
        independent=lambda tokens, dim: k / (tokens - 1) if tokens > k + 1 else math.nan,
        parameters=(("k", float(k)),),
        claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER, FREE_OF_SCALE, BY_DIFFERENCES),
    )


BETWEEN_LAYERS["neighbor_overlap"] = neighbor_overlap


def _membership(cloud: Cloud, *, k: int) -> Tensor:
    """How far each token (column) is among the k nearest of each token (row): 1, 0, or a share of the last places."""
    if cloud.tokens < k + 2:
        return torch.full((*cloud.batch, cloud.tokens, cloud.tokens), torch.nan)
    squares = squared_distances(cloud)
    undefined = torch.isnan(squares.sum((-2, -1)))
    squares = torch.where(squares <= _REPEATED * squares.mean((-2, -1), keepdim=True), 0.0, squares)
    squares = squares.diagonal_scatter(torch.full_like(squares[..., 0], math.inf), dim1=-2, dim2=-1)
    nearest = np.partition(squares.cpu().numpy(), k - 1, axis=-1)  # several times as fast as a selection by torch
    last = torch.from_numpy(nearest[..., k - 1 : k].copy()).to(squares.device)
    nearer, within = squares < (1.0 - _TIED) * last, squares <= (1.0 + _TIED) * last
    tied = within & ~nearer
    share = (k - nearer.sum(-1, keepdim=True)).float() / tied.sum(-1, keepdim=True)
    return torch.where(undefined[..., None, None], torch.nan, nearer + tied * share)
