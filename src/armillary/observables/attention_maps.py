"""Where a head looks: entropy, received mass, sinks, distance, asymmetry and participation rank of attention maps.

On the uniform causal map (weights 1/i in row i) they are known: entropy mean ln i, distance T/4, mass on the first
position (H_T - 1) / (T - 1) with the harmonic number H_T = 1 + 1/2 + ... + 1/T.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from armillary.observables.attention_declaration import Maps, map_number
from armillary.shapes import Attention

__all__ = [
    "attention_antisymmetric_share",
    "attention_distance",
    "attention_entropy",
    "attention_first_mass",
    "attention_largest_mass_elsewhere",
    "attention_participation_rank",
    "attention_relative_entropy",
    "attention_sink_mass",
    "received_mass",
]


def received_mass(maps: Attention) -> Float[Tensor, "*batch heads tokens"]:
    """The mean mass that each position receives from rows 2 ... T: r_j = 1/(T-1) sum_{i>=2} A_ij.

    Positions sum to one where rows do. A position near the end receives little because few rows can see it.

    Args:
        maps: Attention maps `*batch heads tokens tokens`, causal.

    Returns:
        `*batch heads tokens`.

    Raises:
        ArgumentError: If these are no maps.
    """
    return Maps(maps).received


@map_number(
    symbol="H",
    definition="entropy in nats of a row of the attention map, taken to mass one, mean over rows 2 ... T",
    source="Clark et al. 2019",
    undefined="a row without mass",
    attainable=lambda tokens: (0.0, math.lgamma(tokens + 1) / (tokens - 1)),
)
def attention_entropy(maps: Maps) -> Tensor:
    """Mean row entropy; for uniform rows ln(T!) / (T - 1)."""
    return maps.row_entropies.mean(-1)


@map_number(
    symbol="H / ln i",
    definition="entropy of row i over ln i, its value if the row spread evenly over all it can see; mean over rows "
    "2 ... T",
    source="entropy over its ceiling",
    undefined="a row without mass",
    attainable=lambda tokens: (0.0, 1.0),
)
def attention_relative_entropy(maps: Maps) -> Tensor:
    """Mean over rows of the entropy relative to its ceiling, 0 (one position) ... 1 (evenly over all)."""
    reach = torch.arange(2, maps.tokens + 1, device=maps.maps.device, dtype=maps.maps.dtype)
    return (maps.row_entropies / reach.log()).mean(-1)


@map_number(
    symbol="A_1",
    definition="mass on the first position, mean over rows 2 ... T",
    source="attention sink; Xiao et al. 2024",
    undefined="never",
    attainable=lambda tokens: (0.0, 1.0),
)
def attention_first_mass(maps: Maps) -> Tensor:
    """The mass that the first position receives; for uniform rows (H_T - 1) / (T - 1)."""
    return maps.received[..., 0]


@map_number(
    symbol="max A_j",
    definition="largest mass on one position after the first, mean over rows 2 ... T; rows that cannot see it count as "
    "zero",
    source="attention sink elsewhere; Sun et al. 2024",
    undefined="never",
    attainable=lambda tokens: (0.0, 1.0),
)
def attention_largest_mass_elsewhere(maps: Maps) -> Tensor:
    """The largest mass that a position after the first receives; for uniform rows the second's."""
    return maps.received[..., 1:].amax(-1)


@map_number(
    symbol="1 - sum A",
    definition="1 minus the sum of a row, mean over rows 2 ... T: attention that goes to no token; rounding where rows "
    "sum to one",
    source="learned sinks; Agarwal et al. 2025",
    undefined="never",
    attainable=lambda tokens: (-math.inf, 1.0),
)
def attention_sink_mass(maps: Maps) -> Tensor:
    """The mass that no token receives."""
    return 1.0 - maps.row_sums.mean(-1)


@map_number(
    symbol="i - j",
    definition="how many tokens back a row looks, weighted by its attention taken to mass one; mean over rows 2 ... T",
    source="Vig & Belinkov 2019",
    undefined="a row without mass",
    attainable=lambda tokens: (0.0, tokens / 2),
)
def attention_distance(maps: Maps) -> Tensor:
    """Mean distance looked back, in tokens; for uniform rows T / 4, for a head that looks at the first token T / 2."""
    position = torch.arange(maps.tokens, device=maps.maps.device, dtype=maps.maps.dtype)
    looked_at = (maps.maps @ position)[..., 1:] / maps.row_sums
    return (position[1:] - looked_at).mean(-1)


@map_number(
    symbol="|A - A^T|^2 / 4|A|^2",
    definition="share of the squared norm of the whole map in its antisymmetric part; under a causal mask half of the "
    "share off the diagonal, so 0 if tokens attend to themselves and 1/2 if they never do",
    source="A = symmetric + antisymmetric part",
    undefined="a map without mass",
    attainable=lambda tokens: (0.0, 0.5),
)
def attention_antisymmetric_share(maps: Maps) -> Tensor:
    """Share of the antisymmetric part: 1/2 (1 - sum_ij A_ij A_ji / sum_ij A_ij^2); of A_ij A_ji only i = j is left."""
    return 0.5 * (1.0 - maps.maps.diagonal(dim1=-2, dim2=-1).square().sum(-1) / maps.square)


@map_number(
    symbol="R_A",
    definition="participation rank of the whole map: (sum s^2)^2 / sum s^4 of its singular values s",
    source="participation ratio of squared singular values",
    undefined="a map without mass",
    attainable=lambda tokens: (1.0, float(tokens)),
)
def attention_participation_rank(maps: Maps) -> Tensor:
    """How many directions the map passes: |A|_F^4 / |A A^T|_F^2; T for the identity, 1 if all rows were the same.

    With A = (a 0; b c), half of the rows each, the products of zeros are left out: A A^T = (aa' ab'; ba' bb' + cc').
    """
    half = maps.tokens // 2
    left, c = maps.maps[..., :half], maps.maps[..., half:, half:]
    a, b = left[..., :half, :], left[..., half:, :]
    across, early = a @ b.mT, a @ a.mT
    late = b @ b.mT + c @ c.mT
    inner = early.square().sum((-2, -1)) + 2 * across.square().sum((-2, -1)) + late.square().sum((-2, -1))
    return maps.square.square() / inner
