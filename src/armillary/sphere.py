"""The unit sphere: normalizing rows, random directions, and the named configurations that separate observables."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.shapes import Configuration

__all__ = ["equiangular", "jitter", "mean_free_basis", "normalize", "opposed_pairs", "orthogonal_groups", "uniform"]


def normalize(configuration: Configuration) -> Configuration:
    """Rows divided by their Euclidean norms.

    Args:
        configuration: Rows, `*batch tokens dim`.

    Returns:
        Unit rows of the same shape.

    Raises:
        ArgumentError: If a row has zero length or is not finite: it has no direction.
    """
    norms = configuration.norm(dim=-1, keepdim=True)
    if not bool(torch.isfinite(norms).all()):
        row = (~torch.isfinite(norms[..., 0])).nonzero()[0].tolist()
        raise ArgumentError(
            f"Argument `configuration` must have finite rows of finite length, but row {row} is not. Check where it "
            "comes from."
        )
    if bool((norms == 0).any()):
        row = (norms[..., 0] == 0).nonzero()[0].tolist()
        raise ArgumentError(f"Argument `configuration` must have no zero row, but row {row} is zero. Leave it out.")
    return configuration / norms


def uniform(*, tokens: int, dim: int, seed: int) -> Tensor:
    """Independent uniform directions: normalized Gaussian rows, `tokens dim`, float64.

    Args:
        tokens: Number of rows T >= 1.
        dim: Dimension d >= 1.
        seed: Seed of a generator of its own; the global random state is not touched.

    Returns:
        Tensor `tokens dim`; mean overlap 0 with variance 1/d.
    """
    _check_size(tokens, dim)
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(tokens, dim, generator=generator, dtype=torch.float64))


def equiangular(*, tokens: int, dim: int, overlap: float) -> Tensor:
    """Unit rows that all have the same pairwise overlap: 0 is orthonormal, -1/(T-1) the simplex, 1 consensus.

    Args:
        tokens: Number of rows T.
        dim: Dimension d; at least T, or T - 1 for the simplex.
        overlap: Common overlap within [-1/(T-1), 1].

    Returns:
        Tensor `tokens dim`, float64.

    Raises:
        ArgumentError: If no such configuration exists in this dimension.
    """
    _check_size(tokens, dim)
    lowest = -1.0 if tokens == 1 else -1.0 / (tokens - 1)
    if not lowest <= overlap <= 1.0:
        raise ArgumentError(
            f"Argument `overlap` must lie within [{lowest:.6g}, 1] for {tokens} tokens, but it is {overlap}. "
            "Fewer tokens allow a more negative one."
        )
    gram = torch.full((tokens, tokens), float(overlap), dtype=torch.float64).fill_diagonal_(1.0)
    values, vectors = torch.linalg.eigh(gram)
    kept = values > 1e-12
    if int(kept.sum()) > dim:
        raise ArgumentError(
            f"Argument `dim` must be at least {int(kept.sum())} for {tokens} tokens at overlap {overlap}, but it is "
            f"{dim}. Take a larger dimension or fewer tokens."
        )
    rows = torch.zeros(tokens, dim, dtype=torch.float64)
    rows[:, : int(kept.sum())] = vectors[:, kept] * values[kept].sqrt()
    return normalize(rows)


def jitter(configuration: Configuration, *, angle: float, seed: int) -> Configuration:
    """Every row turned by a random angle in a random direction, to leave states that rounding alone never leaves.

    Opposed, simplex and polygon states are stationary, and floating point respects their symmetry: without a push they
    stay for ever. The push is never made unasked.

    Args:
        configuration: Unit rows, `*batch tokens dim`, dim at least 2.
        angle: Root mean square of the angle in radians for angles well below 1, positive.
        seed: Of a generator of its own.

    Returns:
        Unit rows of the same shape.

    Raises:
        ArgumentError: The angle is not positive and finite.
    """
    if not 0 < angle < math.inf:
        raise ArgumentError(
            f"Argument `angle` must be positive and finite, but it is {angle}. Take 1e-6, for instance."
        )
    dim = configuration.shape[-1]
    if dim < 2:
        raise ArgumentError(
            f"Argument `configuration` must be in two dimensions at least, but is in {dim}. None can turn."
        )
    generator = torch.Generator().manual_seed(seed)
    push = torch.randn(configuration.shape, generator=generator, dtype=torch.float64).to(configuration)
    push = push - (push * configuration).sum(-1, keepdim=True) * configuration
    return normalize(configuration + angle / math.sqrt(dim - 1) * push)


def mean_free_basis(dim: int) -> Tensor:
    """An orthonormal basis of the hyperplane of rows of mean 0, on which a LayerNorm holds its tokens.

    The coordinates x basis^T of a mean-free row x have its length and its overlaps. So the tokens of a LayerNorm
    without gain are rows of length sqrt(dim) on the sphere S^{dim-2}, and whatever moves them there is a flow on the
    unit sphere in one dimension less.

    Args:
        dim: Dimension d >= 2 of the rows.

    Returns:
        `dim-1 dim`, float64: row k compares coordinate k + 1 with the mean of those before it (Helmert).

    Raises:
        ArgumentError: d is below 2: nothing is left of a row without its mean.

    Example:
        >>> basis = mean_free_basis(4)
        >>> float((basis.sum(1)).abs().max()) < 1e-15
        True
    """
    if dim < 2:
        raise ArgumentError(
            f"Argument `dim` must be 2 or more, but it is {dim}. A row of one number has only its mean."
        )
    rows = torch.tril(torch.ones(dim - 1, dim, dtype=torch.float64))
    index = torch.arange(1, dim, dtype=torch.float64)
    rows[torch.arange(dim - 1), torch.arange(1, dim)] = -index
    return rows * torch.rsqrt(index * (index + 1))[:, None]


def opposed_pairs() -> Tensor:
    """The four-vector example (u, u, -u, -u): two separated groups, rank one, mean direction zero; `4 2`."""
    direction = torch.tensor([0.6, 0.8], dtype=torch.float64)
    return torch.stack([direction, direction, -direction, -direction])


def orthogonal_groups(*sizes: int) -> Tensor:
    """Groups of identical unit rows along orthogonal axes, one group a size.

    Args:
        *sizes: Group sizes, each at least 1.

    Returns:
        Tensor `sum(sizes) len(sizes)`, float64; participation rank T^2 / sum s^2, squared mean sum s^2 / T^2.
    """
    if not sizes or min(sizes) < 1:
        raise ArgumentError(f"Argument `sizes` must be positive, but it is {sizes}. Give one size for each group.")
    axes = torch.eye(len(sizes), dtype=torch.float64)
    return torch.cat([axes[k].expand(size, -1) for k, size in enumerate(sizes)]).clone()


def _check_size(tokens: int, dim: int) -> None:
    if tokens < 1 or dim < 1 or not math.isfinite(tokens * dim):
        raise ArgumentError(
            f"Arguments `tokens` and `dim` must be positive, but they are {tokens} and {dim}. Take at least one each."
        )
