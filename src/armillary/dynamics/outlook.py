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

from armillary.dynamics.attention import Softmax, Uniform, Unnormalized
from armillary.dynamics.drifts import AttentionDrift
from armillary.dynamics.normalization import VelocityField

__all__ = ["Certificate", "hemisphere", "plateau_lifetime", "predicts_consensus"]

ROUNDS = 2000


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
    """An open hemisphere that holds all rows, or None if the search finds none.

    The direction of largest margin lies in the convex hull of the rows; the algorithm of Gilbert moves toward it. None
    is no proof that there is none unless the hull's nearest point is found to be the origin.

    Args:
        configuration: Unit rows, `tokens dim`.

    Returns:
        The certificate, checked by its products, or None.
    """
    rows = configuration.detach().double()
    point = rows.mean(0)
    for _ in range(ROUNDS):
        length = float(point.norm())
        if length < 1e-12:
            return None
        products = rows @ (point / length)
        worst = int(products.argmin())
        if float(products[worst]) > 0:
            return Certificate(point / length, float(products[worst]))
        step = rows[worst] - point
        share = float((-(point @ step) / (step @ step)).clamp(0, 1))
        if share == 0.0:
            return None
        point = point + share * step
    return None


def predicts_consensus(field: VelocityField) -> bool:
    """Whether the hemisphere certificate is a proof here: attention alone, positive weights, identity values."""
    if field.scheme not in ("post", "ngpt", "sqrt depth"):
        return False
    terms = field.drift.terms
    return all(
        factor > 0 and isinstance(term, AttentionDrift) and isinstance(term.rule, Softmax | Uniform | Unnormalized)
        and (term.heads is None or _identity_values(term))
        for factor, term in terms
    )  # fmt: skip


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
