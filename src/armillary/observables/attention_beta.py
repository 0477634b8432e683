"""How sharp a head is in the units of the idealization: the beta of a softmax over overlaps that resembles its map.

The idealization attends by softmax(beta c_ij) over the overlaps c_ij of unit rows. A trained head does not, so two
numbers say how far it resembles that, and both give beta back, exactly, on a map that was made so:

- *effective beta* matches the mean row entropy: as sharp as, whomever it attends to;
- *overlap slope* is the slope of ln A_ij against c_ij within rows: whether attention follows overlap, with a sign.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from armillary.observables.attention_declaration import Maps, map_number

__all__ = ["attention_effective_beta", "attention_overlap_slope"]

_LARGEST = 2.0**13
_NODES = (0.0, *(2.0**k for k in range(-4, 14)))
_AT_ONCE = 5
_ROUNDS = 60
_ROWS = 64


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
    a sublayer share it: it is tabulated once, as far as the sharpest head asks, inverted by interpolation, and polished
    by Halley's method in beta^2.
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
    c = maps.overlaps.tril()
    reach = torch.arange(1, maps.tokens + 1, dtype=c.dtype, device=c.device)
    c = (c - c.sum(-1, keepdim=True) / reach[:, None])[..., None, 1:, :]  # a row's own mean out: keeps digits
    mean = (weights * c).sum(-1) / mass
    off = c - mean[..., None]
    spread = ((off.square().mul_(weights)).sum(-1) / mass).sum(-1)
    together = ((maps.weighted_logs[..., 1:, :] * off).sum(-1) / mass).sum(-1)
    rounding = (8 * torch.finfo(c.dtype).eps) ** 2 * (maps.tokens - 1)
    return torch.where(spread > rounding, together / spread, torch.nan)


def _matched(wanted: Tensor, overlaps: Tensor) -> Tensor:
    """For each entropy of `wanted` (`heads`) the beta at which rows of softmax(beta overlaps) have it in the mean."""
    curve = _Curve(overlaps)
    beta, table = _tabulated(curve, wanted)
    entropies, slopes = table[0], table[1]
    rounding = 4 * torch.finfo(overlaps.dtype).eps * max(1.0, math.log(len(overlaps)))
    above = (entropies > wanted[:, None]).sum(-1)
    reached = (above > 0) & (above < len(beta)) & torch.isfinite(entropies).all()
    k = above.clamp(1, len(beta) - 1)
    u = torch.where(reached, _between(wanted, k, beta.square(), entropies, slopes), torch.nan)
    u = torch.where(wanted >= entropies[0] - rounding, 0.0, u)
    return _polished(u, wanted, curve, rounding).sqrt()


def _tabulated(curve: _Curve, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes of beta, and the curve there; no further than the lowest entropy asks."""
    found: list[Tensor] = []
    lowest = wanted.nan_to_num(math.inf).min()
    nodes = torch.tensor(_NODES, dtype=wanted.dtype, device=wanted.device)
    for some in nodes.split(_AT_ONCE):
        found.append(curve.at(some))
        if not bool(found[-1][0, -1] > lowest):  # reached, or undefined
            break
    table = torch.cat(found, -1)
    return nodes[: table.shape[-1]], table


def _between(target: Tensor, k: Tensor, u: Tensor, h: Tensor, slope: Tensor) -> Tensor:
    """Cubic interpolation of ln beta^2 against entropy between nodes k - 1 and k; the chord if it leaves them.

    Before the first node, which is zero, entropy is linear in u = beta^2.
    """
    span = h[k] - h[k - 1]
    t = (target - h[k - 1]) / span
    low, high = u.log()[k - 1], u.log()[k]
    chord = low + t * (high - low)
    first, last = (span / (slope[end] * u[end]) for end in (k - 1, k))
    cubic = (
        (1 + 2 * t) * (1 - t) ** 2 * low + t * (1 - t) ** 2 * first + t**2 * (3 - 2 * t) * high - t**2 * (1 - t) * last
    )
    between = torch.where((cubic > low) & (cubic < high), cubic, chord).exp()
    return torch.where(k > 1, between, t * u[k])


def _polished(u: Tensor, wanted: Tensor, curve: _Curve, rounding: float) -> Tensor:
    """Halley's method in u = beta^2 for every head at once, halving or doubling at most in a round."""
    open_heads = (torch.isfinite(u) & (u > 0)).nonzero().flatten()
    enough = torch.finfo(u.dtype).eps ** (1 / 3)  # the error left is a step's third power
    for _ in range(_ROUNDS):
        if not len(open_heads):
            break
        here = u[open_heads]
        h, slope, bend = curve.at(here.sqrt())
        off = h - wanted[open_heads]
        newton = off / slope
        there = (here - newton / (1 - 0.5 * newton * bend / slope).clamp(min=0.5)).clamp(here / 2, here * 2)
        u = u.index_copy(0, open_heads, there)
        open_heads = open_heads[((there - here).abs() > enough * here) & (off.abs() > rounding)]
    return u


class _Curve:
    """The mean row entropy of softmax(beta c) over rows 2 ... T, as a function of beta.

    Args:
        overlaps: `tokens tokens`.
    """

    def __init__(self, overlaps: Tensor) -> None:
        c = (overlaps - 1.0).tril()  # the largest entry of a row is its own, 1, so that no exponential overflows
        square = c.square()
        powers = torch.stack([torch.ones_like(c).tril(), c, square, square * c], -1)
        edges = [*range(1, len(c), _ROWS), len(c)]  # rows in bands, since the first see little
        self._bands = [(c[i:j, None, :j], powers[i:j, :j]) for i, j in pairwise(edges)]

    def at(self, beta: Tensor) -> Tensor:
        """Entropy, and its first and second derivative in beta^2, `3 betas`."""
        sums = [torch.exp(beta[None, :, None] * c) @ powers for c, powers in self._bands]
        mass, first, second, third = torch.cat(sums).unbind(-1)
        mean, square, cube = first / mass, second / mass, third / mass
        spread = square - mean.square()
        skew = cube - 3 * mean * square + 2 * mean**3
        entropy = mass.log() - beta * mean
        return torch.stack([entropy.mean(0), -0.5 * spread.mean(0), -0.25 * skew.mean(0) / beta])
