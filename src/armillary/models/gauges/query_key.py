"""Queries and keys in other coordinates, which their inner products cannot tell; and key biases that softmax cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import check_condition_number, conditioned, conformal, generator_of, stretches
from armillary.models.gauges.wiring import Wiring
from armillary.transformations.linear import DiagonalGain, GeneralLinear
from armillary.transformations.rows import Translation

__all__ = ["KeyBias", "QueryKeyGains", "QueryKeyMaps", "mapped_queries_and_keys"]


@dataclass(frozen=True)
class QueryKeyMaps(Gauge):
    """Each key head's keys times M, the queries of all heads that read it times M^-T.

    Formula: (M^-T q) . (M k) = q . k. Without rotary positions M is any invertible matrix. With them it must commute
    with the rotation of each pair of coordinates: a rotation and a stretch of the pair; the coordinates that are not
    turned take any M.

    Args:
        condition_number: of M.
        seed: of the draws.
    """

    condition_number: float
    seed: int
    name: ClassVar[str] = "query-key"
    reach: ClassVar[dict[str, Reach]] = {
        "query": Reach("an invertible map, one for each key-value head", (GeneralLinear(2.0, 0),)),
        "key": Reach("an invertible map, one for each head", (GeneralLinear(2.0, 0),)),
    }

    def __post_init__(self) -> None:
        check_condition_number(self.condition_number)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> QueryKeyMaps:
        """As asked."""
        return cls(condition_number, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"keys times M and queries times its inverse transposed, k={self.condition_number:g}, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """Norms of queries and keys."""
        normed = next(wiring.head_norms, None)
        return (
            None if normed is None else f"{normed.name} normalizes each head's vectors, which a map before it changes"
        )

    def apply(self, wiring: Wiring) -> None:
        """Map queries and keys of every block."""
        generator = generator_of(self.seed)
        dim, turned = wiring.decoder.facts.head_dim, wiring.turned
        for block in wiring.blocks:
            maps = torch.zeros(len(block.key.index), dim, dim, dtype=torch.float64)
            for one in maps:
                if turned:
                    one[:turned, :turned] = conformal(turned, self.condition_number, generator)
                if turned < dim:
                    one[turned:, turned:] = conditioned(dim - turned, self.condition_number, generator)
            mapped_queries_and_keys(wiring, block.number, maps)


@dataclass(frozen=True)
class QueryKeyGains(Gauge):
    """Where each head's query and key pass a norm: the gain of one stretched by pairs, that of the other shrunk.

    Formula: g_q,i -> r_i g_q,i and g_k,i -> g_k,i / r_i, with one r for both coordinates of a pair that positions turn.

    Args:
        condition_number: ratio of the largest r to the smallest.
        seed: of the draws.
    """

    condition_number: float
    seed: int
    name: ClassVar[str] = "query-key-gains"
    reach: ClassVar[dict[str, Reach]] = {
        "query": Reach("each pair of coordinates times a number", (DiagonalGain(torch.ones(1)),)),
        "key": Reach("each pair of coordinates divided by that number", (DiagonalGain(torch.ones(1)),)),
    }

    def __post_init__(self) -> None:
        check_condition_number(self.condition_number)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> QueryKeyGains:
        """As asked."""
        return cls(condition_number, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"gains of query and key norms times r and 1/r by pairs, k={self.condition_number:g}, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """No such norms."""
        if any(block.query_norm is None or block.key_norm is None for block in wiring.blocks):
            return "its queries and keys pass no norm of their own, whose gains could hold the factors"
        return None

    def apply(self, wiring: Wiring) -> None:
        """Stretch and shrink."""
        generator, turned, dim = generator_of(self.seed), wiring.turned, wiring.decoder.facts.head_dim
        for block in wiring.blocks:
            pairs = stretches(turned // 2, self.condition_number, generator)
            rest = stretches(dim - turned, self.condition_number, generator) if turned < dim else pairs[:0]
            factor = torch.cat([pairs, pairs, rest])
            for norm, by in ((block.query_norm, factor), (block.key_norm, 1 / factor)):
                assert norm is not None  # refused otherwise
                assert norm.gain is not None
                norm.put_gain(norm.gain * by.to(norm.gain))


@dataclass(frozen=True)
class KeyBias(Gauge):
    """A random vector added to the key bias of every head, where softmax cannot see it.

    Formula: q_i . (k_j + b) = q_i . k_j + q_i . b, one number for the whole row i. Rotary positions turn b differently
    at every j; so only coordinates that are not turned take one.

    Args:
        size: standard deviation of the vector's entries.
        seed: of the draws.
    """

    size: float
    seed: int
    name: ClassVar[str] = "key-bias"
    reach: ClassVar[dict[str, Reach]] = {"key": Reach("one vector added to all rows of a head", (Translation(1.0, 0),))}

    def __post_init__(self) -> None:
        if not 0 < self.size < 1e6:
            raise ArgumentError(f"Argument `size` must lie in (0, 1e6), but it is {self.size}. Use for example 1.")

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> KeyBias:
        """Entries of order one."""
        return cls(1.0, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"random vector of size {self.size:g} added to the key bias of each head, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """No bias, or coordinates that positions turn."""
        if next(wiring.head_norms, None) is not None:
            return "its keys pass a norm, which a bias before it changes"
        if wiring.turned >= wiring.decoder.facts.head_dim:
            return "rotary positions turn a key bias differently at every position, so that softmax sees it"
        if getattr(wiring.decoder.model.config, "attn_logit_softcapping", None) is not None:
            return "scores are capped before softmax, which then sees what all of a row have in common"
        if wiring.blocks[0].key.bias is None:
            return "its keys have no bias"
        return None

    def apply(self, wiring: Wiring) -> None:
        """Add."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            bias = block.key.bias
            assert bias is not None  # refused otherwise
            noise = torch.randn(bias.shape, generator=generator, dtype=torch.float64).to(bias)
            noise[:, : wiring.turned] = 0
            block.key.put(block.key.matrix, bias + self.size * noise)


def mapped_queries_and_keys(wiring: Wiring, number: int, maps: Tensor) -> None:
    """The keys of a block times M, its queries times M^-T of the key head they read.

    Args:
        wiring: of the decoder.
        number: of the block, from 1.
        maps: M, `key_value_heads head_dim head_dim`.
    """
    block = wiring.blocks[number - 1]
    given = maps.to(block.key.affine.matrix)
    block.key.map_heads(given)
    block.query.map_heads(torch.linalg.inv(given).mT.repeat_interleave(wiring.group, 0))
