"""Averages over distinct rows: unbiased estimates of a population's squared covariance, from a sample of its rows.

A sample's own moments are biased, because a row meets itself in the double sums. An average over distinct rows (a
U-statistic) has the population's moment as its expectation, for independent rows and any number of them from four on.
Everything here sees a cloud only through differences of rows, so that moving it changes nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.observables.cloud import Cloud
from armillary.shapes import Overlaps, Value

__all__ = ["LEAST_ROWS", "squared_covariance", "squared_variance", "u_centered"]

LEAST_ROWS = 4
"""Two independent differences of rows take four of them."""


def u_centered(cloud: Cloud) -> Overlaps:
    """The Gram matrix as unbiased averages need it: diagonal zero, every row and column summing to zero.

    Off the diagonal A_ij = G_ij - g_i / (T - 2) - g_j / (T - 2) + g / ((T - 1)(T - 2)), with g_i and g the sums of the
    off-diagonal entries. The matrices of two clouds have an inner product, sum_ij A_ij B_ij, which obeys Cauchy and
    Schwarz; over T (T - 3) it estimates their squared covariance without bias.

    Args:
        cloud: At least four rows.

    Returns:
        Tensor `*batch tokens tokens`, computed once for a cloud; NaN for fewer rows.

    Source:
        Szekely & Rizzo 2014, definition 2; Song et al. 2012, equation 5.
    """

    def make() -> Tensor:
        gram, n = _near_its_mean(cloud).gram.clone(), cloud.tokens
        if n < LEAST_ROWS:
            return gram.fill_(math.nan)
        gram.diagonal(dim1=-2, dim2=-1).zero_()
        along = gram.sum(-1) / (n - 2)
        gram -= along[..., :, None] + along[..., None, :]
        gram += along.sum(-1)[..., None, None] / (n - 1)
        gram.diagonal(dim1=-2, dim2=-1).zero_()
        return gram

    return cloud.shared("u-centered", make)


def squared_covariance(cloud: Cloud, other: Cloud) -> Value:
    """Unbiased estimate of |cov(x, y)|_F^2 for paired rows x_i, y_i; with itself, of tr Sigma^2.

    The mean over distinct i, j, k, l of (x_i - x_k).(x_j - x_l) (y_i - y_k).(y_j - y_l) / 4, summed without them as
    sum_ij A_ij B_ij / (T (T - 3)).

    Args:
        cloud: Rows x.
        other: Rows y of the same tokens, of any dimension.

    Returns:
        Tensor `*batch`: with itself not negative, else of either sign; NaN for fewer than four rows.
    """
    inner = (u_centered(cloud) * u_centered(other)).sum((-2, -1))
    return inner / max(cloud.tokens * (cloud.tokens - 3), 1)


def squared_variance(cloud: Cloud) -> Value:
    """Unbiased estimate of (tr Sigma)^2: the mean over distinct i, j, k, l of D_ij D_kl, with D_ij = |x_i - x_j|^2 / 2.

    The sum over distinct rows is (sum D)^2 - 4 sum_i (sum_j D_ij)^2 + 2 sum_ij D_ij^2.

    Args:
        cloud: Rows x.

    Returns:
        Tensor `*batch`, not negative; NaN for fewer than four rows.
    """
    centered, n = _near_its_mean(cloud), cloud.tokens
    if n < LEAST_ROWS:
        return torch.full(cloud.batch, torch.nan, dtype=centered.gram.dtype)
    squares = centered.squared_norms / 2
    halves = squares[..., :, None] + squares[..., None, :] - centered.gram
    of_row = halves.sum(-1)
    total = of_row.sum(-1).square() - 4 * of_row.square().sum(-1) + 2 * halves.square().sum((-2, -1))
    return total / (n * (n - 1) * (n - 2) * (n - 3))


def _near_its_mean(cloud: Cloud) -> Cloud:
    """The cloud moved to its own mean: nothing here depends on where it lies, but digits do."""
    return cloud.after("center")
