"""What can be said of where a configuration is going: consensus reached, consensus certain, or a plateau and how long.

A small velocity is no sign of an end: at large beta clusters stand still for e^(beta gap) units of time and then merge.
So consensus is declared by overlaps, or proved from a hemisphere: if some w has w . x_i > 0 for all i, the smallest of
these products can only grow under positive weights and identity values, and all tokens meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Full, Mask, Softmax, Uniform, Unnormalized, Window
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.normalization import VelocityField

__all__ = ["Certificate", "Plateau", "hemisphere", "plateau_lifetime", "plateau_of", "predicts_consensus"]

WITHIN = 0.1
"""Angle in radians that connects tokens to a group of a plateau."""

SLOW = 0.01
"""Radians a unit of time that no token of a plateau moves by."""

MET = 0.999
"""Overlap at which two clusters count as merged."""

_TOGETHER = 512
"""Rows that enter a linear program at once."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A direction that all tokens lie on one side of.

    Attributes:
        direction: w, a unit vector, `dim`.
        margin: min over i of w . x_i, positive.
    """

    direction: Tensor
    margin: float


def hemisphere(configuration: Tensor) -> Certificate | None:
    """An open hemisphere that holds all rows, or None if there is none.

    A linear program: the largest m with x_i . w >= m for all i and no entry of w beyond +-1; there is a hemisphere
    exactly if m > 0. Of many rows only those that matter enter it, and any hemisphere that holds all rows will do.

    Args:
        configuration: Unit rows, `tokens dim`.

    Returns:
        The certificate, checked by its products, or None.
    """
    rows = configuration.detach().cpu().double()
    if len(rows) <= _TOGETHER:
        direction = _direction(rows)
    else:  # a few rows decide: those on the wrong side of what the others allow are added until there are none
        some = (rows @ rows.mean(0)).argsort()[:_TOGETHER]
        while (direction := _direction(rows[some])) is not None:
            products = rows @ direction
            if float(products.min()) > 0:
                break
            some = torch.unique(torch.cat([some, products.argsort()[:_TOGETHER]]))
    if direction is None:
        return None
    margin = float((rows @ direction).min())
    return Certificate(direction.to(configuration), margin) if margin > 0 else None


def _direction(rows: Tensor) -> Tensor | None:
    """The direction of the largest smallest product with the rows, if that is positive."""
    import numpy as np
    from scipy.optimize import linprog

    tokens, dim = rows.shape
    found = linprog(
        np.r_[np.zeros(dim), -1.0],
        A_ub=np.c_[-rows.numpy(), np.ones(tokens)],
        b_ub=np.zeros(tokens),
        bounds=[(-1, 1)] * dim + [(None, None)],
    )
    if not found.success or found.x is None or found.x[-1] <= 0:
        return None
    direction = torch.tensor(found.x[:-1])
    return direction / direction.norm()


def predicts_consensus(field: VelocityField) -> bool:
    """Whether the hemisphere certificate is a proof here: attention alone, positive weights, identity values.

    A mask must not keep tokens apart for good.
    """
    if field.scheme not in ("post", "ngpt", "sqrt depth"):
        return False
    terms = field.drift.terms
    return all(
        factor > 0 and isinstance(term, AttentionDrift) and isinstance(term.rule, Softmax | Uniform | Unnormalized)
        and _connects(term.mask) and (term.heads is None or _identity_values(term))
        for factor, term in terms
    )  # fmt: skip


def _connects(mask: Mask) -> bool:
    """Whether under this mask one token at least is heard by all, directly or through others, for sure."""
    return isinstance(mask, Full | Causal) or (isinstance(mask, Window) and mask.reach > 0)


def _identity_values(term: AttentionDrift) -> bool:
    assert term.heads is not None
    eye = torch.eye(term.heads.dim, dtype=term.heads.value.dtype, device=term.heads.value.device)
    return bool((term.heads.value_matrices == eye).all())


def plateau_lifetime(beta: float, overlap: float) -> float:
    """Time in which two equal clusters at an overlap merge, for large beta: e^{beta (1 - c)} / (2 beta (1 - c^2)).

    Args:
        beta: Inverse temperature of the softmax, positive.
        overlap: c of the two clusters, within (-1, 1).

    Returns:
        Units of time; exponentially sensitive to c, so a measured overlap belongs in it. It is inf where it overflows.
    """
    exponent = beta * (1 - overlap)
    return math.inf if exponent > 700 else math.exp(exponent) / (2 * beta * (1 - overlap**2))


@dataclass(frozen=True)
class Plateau:
    """Groups that stand still for a while, and how long the closest two of them would.

    Attributes:
        groups: How many: connected components within `WITHIN` radians.
        overlap: Of the mean directions of the closest two.
        weights: Of these two.
        lifetime: Units of time in which these two alone would merge; inf where it overflows.
    """

    groups: int
    overlap: float
    weights: tuple[float, float]
    lifetime: float

    def __str__(self) -> str:
        when = "in about " + format(self.lifetime, ".4g") if math.isfinite(self.lifetime) else "after more than 1e300"
        return (
            f"a plateau of {self.groups} groups (connected within {WITHIN:g} rad), no end; its closest pair (overlap "
            f"{self.overlap:.4g}, weights {self.weights[0]:g}, {self.weights[1]:g}) would merge {when} units"
        )


def plateau_of(
    field: VelocityField, configuration: Tensor, *, speed: float, weights: Tensor | None = None
) -> Plateau | None:
    """The plateau that a configuration stands on, or None: under plain softmax attention at positive beta only.

    Args:
        field: What moves the tokens.
        configuration: Unit rows, `tokens dim`.
        speed: The largest speed of a token; a plateau is slower than `SLOW`.
        weights: Of the tokens; None for one each.

    Returns:
        Its groups and the time that its closest two would need, by the law of two weighted clusters.
    """
    factor, term = field.drift.terms[0]
    plain = len(field.drift.terms) == 1 and isinstance(term, AttentionDrift) and field.scheme == "post" and factor > 0
    if not plain or not isinstance(term, AttentionDrift) or not isinstance(term.rule, Softmax) or term.rule.beta <= 0:
        return None
    if not isinstance(term.mask, Full) or term.heads is not None or term.positions is not None or speed > SLOW:
        return None
    from scipy.sparse.csgraph import connected_components

    rows = configuration.detach().cpu().double()
    count, labels = connected_components((rows @ rows.mT > math.cos(WITHIN)).numpy(), directed=False)
    if count == 1:
        return None
    mass = torch.ones(len(rows), dtype=rows.dtype) if weights is None else weights.cpu().double()
    member = torch.nn.functional.one_hot(torch.as_tensor(labels).long(), count).to(rows.dtype) * mass[:, None]
    centers = member.mT @ rows
    centers = centers / centers.norm(dim=-1, keepdim=True)
    overlaps = (centers @ centers.mT).fill_diagonal_(-math.inf)
    first, second = sorted(divmod(int(overlaps.argmax()), count))
    overlap, sizes = float(overlaps[first, second]), member.sum(0)
    pair = float(sizes[first]), float(sizes[second])
    return Plateau(count, overlap, pair, merge_time(float(term.rule.beta), overlap, weights=pair) / float(factor))


def merge_time(beta: float, overlap: float, *, weights: tuple[float, float]) -> float:
    """Time in which two weighted clusters go from an overlap to `MET`, by quadrature of 1 / (dc/ds).

    dc/ds = (1 - c^2) [w2 / (w1 e^{beta (1-c)} + w2) + w1 / (w2 e^{beta (1-c)} + w1)].

    Args:
        beta: Inverse temperature of the softmax.
        overlap: c of the two clusters, above -1.
        weights: w1 and w2.

    Returns:
        Units of time; inf where it overflows, 0 from an overlap above `MET` on.
    """
    from scipy.integrate import quad

    if overlap >= MET:
        return 0.0
    if overlap <= -1 or beta * (1 - overlap) > 690:
        return math.inf
    one, other = weights

    def slowness(c: float) -> float:
        gap = math.exp(beta * (1 - c))
        return 1 / ((1 - c * c) * (other / (one * gap + other) + one / (other * gap + one)))

    return float(quad(slowness, overlap, MET, epsrel=1e-8, limit=200)[0])
