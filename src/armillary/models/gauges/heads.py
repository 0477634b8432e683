"""The heads of a block in another order, within the groups that share keys and values, and the groups themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import generator_of
from armillary.models.gauges.wiring import Wiring

__all__ = ["HeadPermutation"]


@dataclass(frozen=True)
class HeadPermutation(Gauge):
    """Heads renumbered: query heads within each group that shares keys and values, and the groups.

    Formula: the sum over heads in sum_h O_h (A_h V_h) does not know their order.

    Args:
        seed: of the draws.
    """

    seed: int
    name: ClassVar[str] = "head-permutation"
    reach: ClassVar[dict[str, Reach]] = {
        "query": Reach("heads in another order", heads_only=True),
        "key": Reach("heads in another order", heads_only=True),
        "value": Reach("heads in another order", heads_only=True),
        "attention": Reach("heads in another order", heads_only=True),
    }

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> HeadPermutation:
        """One draw."""
        return cls(seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"heads in another order, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """One head only."""
        return "a block has one head" if wiring.decoder.facts.heads < 2 else None

    def apply(self, wiring: Wiring) -> None:
        """Permute queries, keys, values and the columns that read them."""
        generator, facts = generator_of(self.seed), wiring.decoder.facts
        for block in wiring.blocks:
            groups = torch.randperm(facts.key_value_heads, generator=generator)
            within = torch.stack([torch.randperm(wiring.group, generator=generator) for _ in groups])
            heads = (groups[:, None] * wiring.group + within).flatten()
            for slots, order in ((block.query, heads), (block.key, groups), (block.value, groups)):
                bias = slots.bias
                slots.put(slots.matrix[order], None if bias is None else bias[order])
            columns, out = wiring.columns(block), block.attention_output.matrix
            out[:, columns.flatten()] = out[:, columns[heads].flatten()]
