"""Is every direction used alike: the isotropy score of a covariance, and the uniformity of directions."""

from __future__ import annotations

import math

import torch

from armillary.errors import ArgumentError
from armillary.observables.claims import (
    BY_DIFFERENCES,
    BY_INNER_PRODUCTS,
    BY_SINGULAR_VALUES,
    FREE_OF_SCALE,
    WHATEVER_THE_ORDER,
)
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable, observable
from armillary.shapes import Pairs, Value

__all__ = ["isotropy_score", "uniformity"]


@observable(
    symbol="IsoScore",
    source="Rudman, Gillman, Rayne & Eickhoff 2022, algorithm 1, in closed form",
    definition="(R - 1) / (d - 1), R the participation rank of the covariance in d dimensions",
    undefined="fewer than two coordinates, or no spread about the mean",
    attainable=lambda tokens, dim: (0.0, 1.0),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE, BY_DIFFERENCES),
)
def isotropy_score(cloud: Cloud) -> Value:
    """IsoScore: 0 if all variance lies along one direction, 1 if the covariance is a multiple of the identity.

    The published steps (turn to principal axes, scale the variances to length sqrt(d), distance from the vector of
    ones, rescale twice) come to (R - 1) / (d - 1), with R = (sum l)^2 / sum l^2 over the variances l along the
    principal axes: the participation rank of centered rows, on another scale. It subtracts the mean itself; T rows
    reach (T - 2) / (d - 1) at most.
    """
    gram = cloud.after("center").gram
    above = gram.diagonal(dim1=-2, dim2=-1).sum(-1).square()
    rank = above / gram.square().sum((-2, -1))
    return (rank - 1) / (cloud.dim - 1) if cloud.dim > 1 else torch.full_like(rank, torch.nan)


def uniformity(*, t: float) -> Observable:
    """Logarithm of the mean of e^{-t |x_i - x_j|^2} over pairs i < j, self-pairs excluded; lower is more uniform.

    With |x_i - x_j|^2 = 2 - 2 c_ij it is `exponential_overlap` at beta = 2 t in another form: that one, self-pairs
    included, is 1/T + (1 - 1/T) e^uniformity. 0 at consensus; log 0F1(; d/2; t^2) - 2t for uniform directions
    (d = 3, t = 2: -2.07978); T rows reach -2 t T / (T - 1) at least, where T <= d + 1.

    Args:
        t: Inverse squared width of the kernel, positive and finite; Wang & Isola use 2.

    Returns:
        An observable of unit rows.

    Raises:
        ArgumentError: If t is not positive and finite.
    """
    if not 0 < t < math.inf:
        raise ArgumentError(f"Argument `t` must be positive and finite, but it is {t}. Use for example t=2.0.")

    def log_mean(pairs: Pairs) -> Value:
        count = pairs.shape[-1]
        if count == 0:
            return torch.full(pairs.shape[:-1], torch.nan, dtype=pairs.dtype)
        return torch.logsumexp(2.0 * t * (pairs - 1.0), dim=-1) - math.log(count)

    return Observable(
        name="uniformity",
        symbol="log <e^{-t|x-y|^2}>",
        definition=f"log of the mean over pairs i < j, self-pairs excluded, of exp(-t |x_i - x_j|^2) at t = {t:g}",
        source="Wang & Isola 2020, equation 2",
        function=log_mean,
        wants="pairs",
        undefined="fewer than two rows, or a row of zero length",
        needs_unit_rows=True,
        attainable=lambda tokens, dim: (-2.0 * t * tokens / (tokens - 1), 0.0),
        parameters=(("t", float(t)),),
        claims=(BY_INNER_PRODUCTS, WHATEVER_THE_ORDER),
    )


OBSERVABLES["uniformity"] = uniformity
