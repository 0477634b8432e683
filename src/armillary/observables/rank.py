"""How many directions: the whole family of ranks, each under its own name, with its ceiling and its isotropic value."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.claims import BY_LINEAR_RELATIONS, BY_SINGULAR_VALUES, FREE_OF_SCALE
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable, Preparation, observable
from armillary.shapes import Overlaps, Spectrum, Value

__all__ = [
    "algebraic_rank",
    "entropy_rank",
    "isotropic_participation_rank",
    "nuclear_over_spectral",
    "participation_rank",
    "rank_ceiling",
    "rank_tolerance",
    "squared_entropy_rank",
    "stable_rank",
    "variance_components",
]

_NO_TOLERANCE = 0.1
_AS_GIVEN = Preparation()
_ZERO = "all rows zero, or no spread left after centering"


@observable(
    symbol="R",
    source="participation ratio of the squared singular values; Bell & Dean 1970, Gao et al. 2017",
    definition="(sum l)^2 / sum l^2 over the squared singular values l",
    undefined=_ZERO,
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
)
def participation_rank(gram: Overlaps) -> Value:
    """(sum l)^2 / sum l^2 over the squared singular values l, as (tr G)^2 / |G|_F^2: no spectrum is needed."""
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace.square() / gram.square().sum((-2, -1))


@observable(
    symbol="rank",
    source="number of singular values above max(T, d) eps s_max; numpy.linalg.matrix_rank",
    undefined=f"{_ZERO}, or max(T, d) eps of 0.1 and more (half precision)",
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=BY_LINEAR_RELATIONS,
    undecided=lambda cloud, factor: _near_the_tolerance(cloud, factor),
)
def algebraic_rank(cloud: Cloud) -> Value:
    """Number of singular values above the tolerance max(T, d) eps s_max, eps that of the dtype the rows came in."""
    tolerance = rank_tolerance(cloud.tokens, cloud.dim, cloud.resolution)
    values = _resolved_values(cloud, tolerance)
    if tolerance >= _NO_TOLERANCE:
        return torch.full_like(values[..., 0], torch.nan)
    largest = values[..., :1]
    counted = (values > tolerance * largest).sum(-1).to(values.dtype)
    return torch.where(largest[..., 0] > 0, counted, torch.full_like(counted, torch.nan))


def _resolved_values(cloud: Cloud, tolerance: float) -> Tensor:
    """Singular values; of the rows themselves where the squares from the Gram matrix cannot resolve the tolerance."""
    values = cloud.singular_values
    if tolerance >= 4 * math.sqrt(cloud.tokens * torch.finfo(values.dtype).eps):
        return values

    def make() -> Tensor:
        rows = cloud.rows.double()
        finite = torch.isfinite(rows).all(-1).all(-1)
        found = torch.linalg.svdvals(torch.nan_to_num(rows))
        return torch.where(finite[..., None], found, torch.nan)

    return cloud.shared("singular values of the rows", make)


def _near_the_tolerance(cloud: Cloud, factor: float) -> Value:
    """How many singular values may cross the tolerance when ratios of singular values change by up to `factor`.

    Those that are zero but for rounding count too: a map stretches what rounding has left of them.
    """
    tolerance = rank_tolerance(cloud.tokens, cloud.dim, cloud.resolution)
    values = _resolved_values(cloud, tolerance)
    rounding = torch.finfo(values.dtype).eps / 16
    share = (values / values[..., :1]).clamp(min=rounding)
    return ((share * factor > tolerance) & (share / factor <= tolerance)).sum(-1).to(values.dtype)


def rank_tolerance(tokens: int, dim: int, resolution: float) -> float:
    """Share of the largest singular value below which one counts as zero: max(T, d) eps.

    Args:
        tokens: Number of rows T.
        dim: Their dimension d.
        resolution: eps of the dtype in which the rows were given.

    Returns:
        max(tokens, dim) * resolution.
    """
    return max(tokens, dim) * resolution


@observable(
    symbol="exp H(s)",
    source="exponential of the entropy of s / sum s; Roy & Vetterli 2007, RankMe (Garrido et al. 2023)",
    definition="exp of the entropy of s / sum s over the singular values s",
    undefined=_ZERO,
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
)
def entropy_rank(spectrum: Spectrum) -> Value:
    """Exponential of the Shannon entropy of the singular values s as shares: exp(-sum p log p), p = s / sum s.

    This is the number that RankMe reports: the same formula with 1e-7 added to every share, so that no logarithm is of
    zero. A share of zero counts nothing here instead; the logarithms differ by less than 2e-6 for each share.
    """
    return _exponential_entropy(spectrum)


@observable(
    symbol="exp H(s^2)",
    source="exponential of the entropy of s^2 / sum s^2",
    definition="exp of the entropy of s^2 / sum s^2 over the singular values s",
    undefined=_ZERO,
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
)
def squared_entropy_rank(spectrum: Spectrum) -> Value:
    """Exponential of the Shannon entropy of the squared singular values as shares: p = s^2 / sum s^2."""
    return _exponential_entropy(spectrum.square())


@observable(
    symbol="sum s^2 / max s^2",
    source="Rudelson & Vershynin 2007",
    undefined=_ZERO,
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
)
def stable_rank(spectrum: Spectrum) -> Value:
    """Squared Frobenius norm over squared spectral norm: sum s^2 / max s^2."""
    squares = spectrum.square()
    return squares.sum(-1) / squares.amax(-1)


@observable(
    symbol="sum s / max s",
    source="nuclear norm over spectral norm",
    undefined=_ZERO,
    attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
    claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
)
def nuclear_over_spectral(spectrum: Spectrum) -> Value:
    """Nuclear norm over spectral norm: sum s / max s."""
    return spectrum.sum(-1) / spectrum.amax(-1)


def variance_components(*, share: float) -> Observable:
    """Number of principal components that carry `share` of the summed squared singular values: the smallest such k.

    Variance in the strict sense after "center"; without it, of the squared length of the rows.

    Args:
        share: Of the sum, above 0 and at most 1; 0.95 is usual.

    Returns:
        An observable, 1 ... min(T, d). A share that is reached up to rounding counts as reached.

    Raises:
        ArgumentError: If the share is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise ArgumentError(f"Argument `share` must be above 0 and at most 1, but it is {share}. Use for example 0.95.")

    def components(spectrum: Spectrum) -> Value:
        squares = spectrum.square()
        carried = squares.cumsum(-1) / squares.sum(-1, keepdim=True)
        rounding = 4 * squares.shape[-1] * torch.finfo(squares.dtype).eps
        counted = 1.0 + (carried < share - rounding).sum(-1)
        return torch.where(torch.isfinite(carried).all(-1), counted, torch.nan).to(squares.dtype)

    return Observable(
        name="variance_components",
        symbol=f"k_{share:.0%}",
        definition=f"smallest number of singular values whose squares sum to {share:.0%} of the total",
        source="principal components; Jolliffe 2002, section 6.1.1",
        function=components,
        wants="spectrum",
        undefined=_ZERO,
        needs_unit_rows=False,
        attainable=lambda tokens, dim: (1.0, min(tokens, dim)),
        parameters=(("share", float(share)),),
        claims=(*BY_SINGULAR_VALUES, FREE_OF_SCALE),
    )


OBSERVABLES["variance_components"] = variance_components


def rank_ceiling(tokens: int, dim: int, preparation: Preparation) -> int:
    """The largest value any of these ranks can take: min(T, d), or min(T - 1, d) once the token mean is gone.

    Args:
        tokens: Number of rows T.
        dim: Their dimension d.
        preparation: What was done to the rows.

    Returns:
        The ceiling.
    """
    return min(_dimensions_left(tokens, preparation), dim)


def isotropic_participation_rank(tokens: int, dim: int, preparation: Preparation = _AS_GIVEN) -> float:
    """Participation rank of T independent uniform directions in dimension d: T d / (T + d - 1), T - 1 if centered.

    Args:
        tokens: Number of rows T.
        dim: Their dimension d.
        preparation: What was done to the rows.

    Returns:
        1 / E[mean of c_ij^2], the ratio of expectations; within about 1 % of the mean over draws.
    """
    left = _dimensions_left(tokens, preparation)
    return left * dim / (left + dim - 1)


def _dimensions_left(tokens: int, preparation: Preparation) -> int:
    return tokens - 1 if "center" in preparation.steps else tokens


def _exponential_entropy(weights: Tensor) -> Tensor:
    shares = weights / weights.sum(-1, keepdim=True)
    return torch.exp(torch.special.entr(shares).sum(-1))
