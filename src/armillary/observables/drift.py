"""How far the stream leaves the sphere: row norms, and the radial and tangential part of each sublayer's update."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.observables.claims import BY_INNER_PRODUCTS, FREE_OF_SCALE, WHATEVER_THE_ORDER, Claim
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import observable
from armillary.shapes import Configuration, Value
from armillary.transformations.linear import GeneralLinear
from armillary.transformations.rows import RowScale

__all__ = [
    "SublayerUpdate",
    "massive_tokens",
    "stream_norm_first",
    "stream_norm_mean",
    "stream_norm_median",
    "stream_norm_spread",
    "sublayer_update",
    "zero_rows",
]


def _not_negative(tokens: int, dim: int) -> tuple[float, float]:
    return 0.0, math.inf


_NORMS = "Euclidean norms of the rows of the residual stream"
_LENGTHS = (BY_INNER_PRODUCTS, WHATEVER_THE_ORDER)


@observable(symbol="mean |x|", source=_NORMS, attainable=_not_negative, claims=_LENGTHS)
def stream_norm_mean(cloud: Cloud) -> Value:
    """Mean Euclidean norm of the rows."""
    return cloud.norms.mean(-1)


@observable(
    symbol="sd |x| / mean |x|",
    source=_NORMS,
    undefined="all rows zero",
    attainable=_not_negative,
    claims=(*_LENGTHS, FREE_OF_SCALE),
)
def stream_norm_spread(cloud: Cloud) -> Value:
    """Standard deviation of the row norms over their mean: 0 on a sphere."""
    return cloud.norms.std(-1, correction=0) / cloud.norms.mean(-1)


@observable(symbol="median |x|", source=_NORMS, attainable=_not_negative, claims=_LENGTHS)
def stream_norm_median(cloud: Cloud) -> Value:
    """Median Euclidean norm of the rows."""
    return torch.quantile(cloud.norms, 0.5, dim=-1)


@observable(symbol="|x_0|", source=_NORMS, attainable=_not_negative, claims=(BY_INNER_PRODUCTS,))
def stream_norm_first(cloud: Cloud) -> Value:
    """Euclidean norm of the first row."""
    return cloud.norms[..., 0]


@observable(
    symbol="n_0",
    source="a zero row has no direction, and no overlap",
    attainable=_not_negative,
    claims=(
        Claim(GeneralLinear, "an invertible map takes only the zero row to zero", "docs/audit.md, 6"),
        Claim(RowScale, "a row times a positive factor is zero only if it was", "docs/audit.md, 6"),
        WHATEVER_THE_ORDER,
    ),
)
def zero_rows(cloud: Cloud) -> Value:
    """Number of rows of zero length."""
    return (cloud.norms == 0).sum(-1).to(cloud.norms.dtype)


def massive_tokens(norms: Tensor, *, ratio: float) -> Tensor:
    """Tokens whose norm exceeds `ratio` times the median norm of their document, anywhere in it.

    Args:
        norms: Row norms of the un-normalized stream, `*batch tokens`.
        ratio: How many medians make a token massive; Sun et al. 2024 use far larger ones, the laboratory 5.

    Returns:
        Boolean tensor `*batch tokens`.
    """
    norms = _at_least_single(norms)
    return norms > ratio * torch.quantile(norms, 0.5, dim=-1, keepdim=True)


@dataclass(frozen=True)
class SublayerUpdate:
    """One sublayer's update u = y - x of every row, relative to the length of the row before, `*batch tokens` each.

    Args:
        norm: |u| / |x|.
        radial: u . x / |x|^2, positive outward.
        tangential: length of the part of u orthogonal to x, over |x|.
        angle: Angle between x and y, in radians.
    """

    norm: Tensor
    radial: Tensor
    tangential: Tensor
    angle: Tensor


def sublayer_update(before: Configuration, after: Configuration) -> SublayerUpdate:
    """Radial and tangential part of the step from `before` to `after`, row by row.

    Args:
        before: Stream before the sublayer, `*batch tokens dim`.
        after: Stream after it, same shape.

    Returns:
        Parts relative to the norm before, and the angle atan2(tangential, 1 + radial) moved; NaN for a zero row.
    """
    before, after = _at_least_single(before), _at_least_single(after)
    length = before.norm(dim=-1)
    step = after - before
    radial = (before * step).sum(-1) / length.square()
    tangential = (step - radial[..., None] * before).norm(dim=-1) / length
    return SublayerUpdate(step.norm(dim=-1) / length, radial, tangential, torch.atan2(tangential, 1.0 + radial))


def _at_least_single(rows: Tensor) -> Tensor:
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows
