"""Values in other coordinates, which the output projection undoes; and value biases handed on to the output bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import check_condition_number, conditioned, generator_of
from armillary.models.gauges.wiring import Wiring
from armillary.transformations.linear import GeneralLinear
from armillary.transformations.rows import Translation

__all__ = ["ValueBias", "ValueOutput"]


@dataclass(frozen=True)
class ValueOutput(Gauge):
    """Each key-value head's values times M, the output projection of all heads that read them times M^-1.

    Formula: (O M^-1) sum_j a_ij M v_j = O sum_j a_ij v_j, for every invertible M.

    Args:
        condition_number: of M.
        seed: of the draws.
    """

    condition_number: float
    seed: int
    name: ClassVar[str] = "value-output"
    reach: ClassVar[dict[str, Reach]] = {
        "value": Reach("an invertible map, one for each head", (GeneralLinear(2.0, 0),))
    }

    def __post_init__(self) -> None:
        check_condition_number(self.condition_number)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> ValueOutput:
        """As asked."""
        return cls(condition_number, seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"values times M and outputs times its inverse, k={self.condition_number:g}, seed {self.seed}"

    def apply(self, wiring: Wiring) -> None:
        """Map values and what reads them."""
        generator, dim = generator_of(self.seed), wiring.decoder.facts.head_dim
        for block in wiring.blocks:
            out = block.attention_output.matrix
            maps = torch.stack([conditioned(dim, self.condition_number, generator) for _ in block.value.index]).to(out)
            block.value.map_heads(maps)
            inverse = torch.linalg.inv(maps).repeat_interleave(wiring.group, 0)
            columns = wiring.columns(block).to(out.device)
            for head, undo in zip(columns, inverse, strict=True):
                out[:, head] = out[:, head] @ undo


@dataclass(frozen=True)
class ValueBias(Gauge):
    """The value bias moved into the bias of the output projection.

    Formula: O sum_j a_ij (v_j + b) + c = O sum_j a_ij v_j + (O b + c), since each row of an attention map sums to one.
    """

    name: ClassVar[str] = "value-bias"
    reach: ClassVar[dict[str, Reach]] = {
        "value": Reach("one vector taken from all rows of a head", (Translation(1.0, 0),))
    }

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> ValueBias:
        """There is nothing to choose."""
        return cls()

    @property
    def label(self) -> str:
        """In words."""
        return "value bias moved into the output bias"

    def refusal(self, wiring: Wiring) -> str | None:
        """Rows that do not sum to one, no bias to move, or none to move it into."""
        if wiring.decoder.family.sinks is not None:
            return "a learned sink takes its share of every attention row, which then does not sum to one"
        if wiring.blocks[0].value.bias is None:
            return "its values have no bias"
        if wiring.blocks[0].attention_output.bias is None:
            return "its output projection has no bias that could hold it, and no field of its configuration adds one"
        return None

    def apply(self, wiring: Wiring) -> None:
        """Move."""
        for block in wiring.blocks:
            bias, out = block.value.bias, block.attention_output
            assert bias is not None  # refused otherwise
            assert out.bias is not None
            out.bias.add_(out.matrix @ bias.repeat_interleave(wiring.group, 0).flatten())
            block.value.put(block.value.matrix, torch.zeros_like(bias))
