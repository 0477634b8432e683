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

__all__ = ["Certificate", "hemisphere", "plateau_lifetime", "predicts_consensus"]

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
