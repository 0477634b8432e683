"""How sharp a head is in the units of the idealization: the beta of a softmax over overlaps that resembles its map.

The idealization attends by softmax(beta c_ij) over the overlaps c_ij of unit rows. A trained head does not, so two
numbers say how far it resembles that, and both give beta back, exactly, on a map that was made so:

- *effective beta* matches the mean row entropy: as sharp as, whomever it attends to;
- *overlap slope* is the slope of ln A_ij against c_ij within rows: whether attention follows overlap, with a sign.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from armillary.observables.attention_declaration import Maps, map_number

__all__ = ["attention_effective_beta", "attention_overlap_slope"]

_LARGEST = 2.0**13
_NODES = (0.0, *(2.0**k for k in range(-4, 14)))
_ROUNDS = 60


@map_number(
    symbol="beta_eff",
    definition="the beta >= 0 at which softmax(beta c_ij) over the tokens that a row can see, c_ij the overlaps of the "
    "stream before the block, has the same mean row entropy as the map (rows 2 ... T)",
    source="entropy matched to the idealized attention",
    undefined=f"no beta up to {_LARGEST:g} is as sharp, a zero row, or a row without mass",
    attainable=lambda tokens: (0.0, math.inf),
    needs_overlaps=True,
)
def attention_effective_beta(maps: Maps) -> Tensor:
    """The beta that is as sharp.

    The mean row entropy h(beta) of softmax(beta c) falls with beta, h'(beta) = -beta mean_i Var_i(c), and all heads of
    a sublayer share it: it is tabulated once, inverted by interpolation, and polished by Newton's method in beta^2.
    """
    wanted = maps.row_entropies.mean(-1).reshape(-1, maps.heads[-1])
    matrices = maps.overlaps.reshape(-1, maps.tokens, maps.tokens)
    found = [_matched(heads, matrix) for heads, matrix in zip(wanted, matrices, strict=True)]
    return torch.stack(found).reshape(maps.heads)


@map_number(
    symbol="d ln A / d c",
    definition="slope of ln A_ij against the overlap c_ij of the stream before the block, within rows and weighted by "
    "attention: sum_i Cov_i(ln A, c) / sum_i Var_i(c) over rows 2 ... T",
    source="ln of softmax(beta c) has slope beta in c",
    undefined="overlaps that do not vary where attention lies, a zero row, or a row without mass",
    attainable=lambda tokens: (-math.inf, math.inf),
    needs_overlaps=True,
)
def attention_overlap_slope(maps: Maps) -> Tensor:
    """How strongly a head prefers tokens that agree: beta for softmax(beta c), 0 for even rows, negative if not."""
    weights = maps.maps[..., 1:, :]
    mass = maps.row_sums
    log = torch.xlogy(weights, weights)
    c = maps.overlaps.tril()
    reach = torch.arange(1, maps.tokens + 1, dtype=c.dtype, device=c.device)
    c = (c - c.sum(-1, keepdim=True) / reach[:, None])[..., None, 1:, :]  # a row's own mean out: keeps digits
    mean = (weights * c).sum(-1) / mass
    off = c - mean[..., None]
    spread = ((weights * off * off).sum(-1) / mass).sum(-1)
    together = ((log * off).sum(-1) / mass).sum(-1)
    rounding = (8 * torch.finfo(c.dtype).eps) ** 2 * (maps.tokens - 1)
    return torch.where(spread > rounding, together / spread, torch.nan)


def _matched(wanted: Tensor, overlaps: Tensor) -> Tensor:
    """For each entropy of `wanted` (`heads`) the beta at which rows of softmax(beta overlaps) have it in the mean."""
    c = overlaps - 1.0  # the largest entry of a row is its own, 1, so that no exponential overflows
    nodes = torch.tensor(_NODES, dtype=c.dtype, device=c.device)
    table = torch.stack([_entropy(c, node[None]) for node in nodes])[..., 0]  # node, (entropy, slope in beta^2)
    entropies, slopes = table[:, 0], table[:, 1]
    rounding = 4 * torch.finfo(c.dtype).eps * max(1.0, math.log(len(c)))
    u = torch.full_like(wanted, torch.nan)
    for head, target in enumerate(wanted):
        above = int((entropies > target).sum())
        if target >= entropies[0] - rounding:
            u[head] = 0.0
        elif 0 < above < len(nodes) and bool(torch.isfinite(entropies).all()):
            u[head] = _between(target, above, nodes.square(), entropies, slopes)
    _polish(u, wanted, c, rounding)
    return u.sqrt()


def _between(target: Tensor, k: int, u: Tensor, h: Tensor, slope: Tensor) -> Tensor:
    """Cubic interpolation of u = beta^2 against entropy between nodes k - 1 and k; the chord if it leaves them."""
    span = h[k] - h[k - 1]
    t = (target - h[k - 1]) / span
    low, high = u[k - 1], u[k]
    chord = low + t * (high - low)
    first, last = span / slope[k - 1], span / slope[k]
    cubic = (
        (1 + 2 * t) * (1 - t) ** 2 * low + t * (1 - t) ** 2 * first + t**2 * (3 - 2 * t) * high - t**2 * (1 - t) * last
    )
    return cubic if bool(torch.isfinite(cubic) & (cubic > low) & (cubic < high)) else chord


def _polish(u: Tensor, wanted: Tensor, c: Tensor, rounding: float) -> None:
    """Newton's method in u = beta^2 for every head at once, halving or doubling at most in a round."""
    open_heads = torch.isfinite(u) & (u > 0)
    enough = math.sqrt(torch.finfo(c.dtype).eps)
    for _ in range(_ROUNDS):
        if not bool(open_heads.any()):
            return
        here = u[open_heads]
        h, slope = _entropy(c, here.sqrt())
        off = h - wanted[open_heads]
        there = torch.clamp(here - off / slope, here / 2, here * 2)
        u[open_heads] = there
        done = ((there - here).abs() <= enough * here) | (off.abs() <= rounding)
        open_heads[open_heads.clone()] = ~done


def _entropy(c: Tensor, beta: Tensor) -> Tensor:
    """Mean entropy over rows 2 ... T of softmax(beta c) and its derivative in beta^2, `2 betas`."""
    weights = torch.exp(beta[:, None, None] * c[1:]).tril(1)
    mass = weights.sum(-1)
    weighted = weights * c[1:]
    mean = weighted.sum(-1) / mass
    spread = (weighted * c[1:]).sum(-1) / mass - mean.square()
    entropy = mass.log() - beta[:, None] * mean
    return torch.stack([entropy.mean(-1), -0.5 * spread.mean(-1)])
