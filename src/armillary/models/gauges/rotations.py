"""The residual stream in another basis: rotations that the norms cannot tell, and signed permutations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import fixing_ones, generator_of, orthogonal
from armillary.models.gauges.gains import FoldGains, fold
from armillary.models.gauges.wiring import Wiring
from armillary.transformations.linear import DiagonalGain, Orthogonal
from armillary.transformations.rows import Translation

__all__ = ["Rotation", "SignedPermutation", "rotated_stream"]


@dataclass(frozen=True)
class Rotation(Gauge):
    """The stream multiplied by a random orthogonal matrix, after every gain is folded.

    Formula: what writes the stream is multiplied by Q, what reads it by Q^T. An RMS norm without gain has
    N(Q x) = Q N(x). A LayerNorm has it for those Q that fix the vector of ones; then Q is drawn among these.

    Args:
        seed: of the draw.
    """

    seed: int
    name: ClassVar[str] = "rotation"
    reach: ClassVar[dict[str, Reach]] = {
        "stream": Reach("a rotation of all rows", (Orthogonal(0),)),
        "read": Reach(
            "a bias taken off, each coordinate divided by the gain, then a rotation of all rows",
            (DiagonalGain(torch.ones(1)), Translation(1.0, 0), Orthogonal(0)),
        ),
    }

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> Rotation:
        """One draw."""
        return cls(seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"gains folded, then the stream rotated at random, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """Norms behind a sublayer, whose gains stand in the basis and have nobody to be folded into."""
        behind = next(wiring.norms_behind, None)
        if behind is not None:
            return (
                f"the gain of {behind.name} acts on what is written into the stream, in the basis that training chose"
            )
        return None if all(norm.gain is None for norm in wiring.norms) else FoldGains("all").refusal(wiring)

    def needs_own_head(self, wiring: Wiring) -> bool:
        """Folding the final gain separates the unembedding from the embedding."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Fold, then rotate."""
        for norm in wiring.norms:
            fold(norm)
        width, generator = wiring.decoder.facts.width, generator_of(self.seed)
        layered = wiring.decoder.family.norm == "LayerNorm"
        rotated_stream(wiring, (fixing_ones if layered else orthogonal)(width, generator))


@dataclass(frozen=True)
class SignedPermutation(Gauge):
    """The coordinates of the stream in another order, each with a sign: gains go along, and a tied unembedding stays.

    Formula: x'_i = s_i x_p(i), g'_i = g_p(i), W'_{ji} = s_i W_{j p(i)}. A LayerNorm, which takes the mean over the
    coordinates out, allows one sign for all of them.

    Args:
        seed: of the draw.
    """

    seed: int
    name: ClassVar[str] = "signed-permutation"
    reach: ClassVar[dict[str, Reach]] = {
        "stream": Reach("coordinates in another order, with other signs", (Orthogonal(0),)),
        "read": Reach("coordinates in another order, with other signs", (Orthogonal(0),)),
    }

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> SignedPermutation:
        """One draw."""
        return cls(seed)

    @property
    def label(self) -> str:
        """In words."""
        return f"coordinates of the stream in another order and with other signs, seed {self.seed}"

    def apply(self, wiring: Wiring) -> None:
        """Permute everything that has an axis of the stream."""
        generator, width = generator_of(self.seed), wiring.decoder.facts.width
        device = wiring.tables[0].module.weight.device
        order = torch.randperm(width, generator=generator).to(device)
        layered = wiring.decoder.family.norm == "LayerNorm"
        flips = torch.randint(0, 2, (width,), generator=generator, dtype=torch.float64).to(device)
        signs = -torch.ones_like(flips) if layered else 1 - 2 * flips

        def moved(rows: Tensor) -> Tensor:
            return rows[..., order] * signs

        for writer in wiring.writers:
            writer.map_outputs(moved)
        for norm in (*wiring.norms, *wiring.norms_behind):
            gain = norm.gain
            if gain is not None:
                norm.put_gain(gain[order])
            if norm.bias is not None:
                norm.bias.copy_(moved(norm.bias))
        for reader in {reader: None for norm in wiring.norms for reader in norm.readers}:
            if reader is not wiring.head or not wiring.tied:
                reader.map_rows(moved)


def rotated_stream(wiring: Wiring, matrix: Tensor) -> None:
    """Every row of the stream x becomes x Q, in all that writes it and all that reads it; kept biases go along.

    Args:
        wiring: whose gains are folded already.
        matrix: Q, `width width`.
    """
    q = matrix.to(wiring.tables[0].module.weight)

    def turned(rows: Tensor) -> Tensor:
        return rows @ q

    for writer in wiring.writers:
        writer.map_outputs(turned)
    for norm in wiring.norms:
        if norm.bias is not None:
            norm.bias.copy_(turned(norm.bias))
    for reader in {reader: None for norm in wiring.norms for reader in norm.readers}:
        reader.map_rows(turned)
