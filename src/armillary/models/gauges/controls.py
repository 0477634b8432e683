"""Maps that are wrong on purpose: each forgets one thing that a gauge needs, and must move the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from armillary.models.gauges.declaration import Gauge
from armillary.models.gauges.draws import conditioned, generator_of, orthogonal
from armillary.models.gauges.feature_mean import read_by_layer_norms_only
from armillary.models.gauges.gains import fold
from armillary.models.gauges.neurons import inhomogeneity, scaled_neurons
from armillary.models.gauges.query_key import mapped_queries_and_keys
from armillary.models.gauges.rotations import rotated_stream
from armillary.models.gauges.scale import scaled_stream
from armillary.models.gauges.wiring import Wiring

__all__ = [
    "CappedShift",
    "CenteredTie",
    "DroppedValueBias",
    "ForgottenBias",
    "FullRotation",
    "GeneralUnderPositions",
    "KeptEpsilon",
    "KnowingNeurons",
    "UnfoldedRotation",
    "UngroupedHeads",
    "UnmovedBiases",
    "UnturnedOutputs",
    "VisibleKeyBias",
]


@dataclass(frozen=True)
class _Control(Gauge):
    seed: int

    @property
    def label(self) -> str:
        """In words."""
        return f"wrong on purpose: {self.control}, seed {self.seed}"

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> Self:
        """One draw."""
        return cls(seed)


@dataclass(frozen=True)
class _ConditionedControl(_Control):
    condition_number: float

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> Self:
        """Maps of the condition number that is asked for."""
        return cls(seed, condition_number)

    def maps(self, heads: int, dim: int, generator: torch.Generator) -> Tensor:
        """One map a head, `heads dim dim`, float64."""
        return torch.stack([conditioned(dim, self.condition_number, generator) for _ in range(heads)])


@dataclass(frozen=True)
class UnfoldedRotation(_Control):
    """The stream rotated while the gains stay where they are."""

    name: ClassVar[str] = "rotation-without-folding"
    control: ClassVar[str] = "the stream rotated, gains left unfolded"

    def needs_own_head(self, wiring: Wiring) -> bool:
        """As the rotation does."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Rotate."""
        rotated_stream(wiring, orthogonal(wiring.decoder.facts.width, generator_of(self.seed)))


@dataclass(frozen=True)
class ForgottenBias(_Control):
    """Gains folded while the norms' biases are lost."""

    name: ClassVar[str] = "fold-without-biases"
    control: ClassVar[str] = "gains folded into their readers, biases of the norms forgotten"

    def refusal(self, wiring: Wiring) -> str | None:
        """No biases."""
        return "its norms have no bias" if all(norm.bias is None for norm in wiring.norms) else None

    def needs_own_head(self, wiring: Wiring) -> bool:
        """As the fold does."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Forget, then fold."""
        for norm in wiring.norms:
            if norm.bias is not None:
                norm.bias.zero_()
            fold(norm)


@dataclass(frozen=True)
class FullRotation(_Control):
    """Any rotation of a stream that LayerNorms read."""

    name: ClassVar[str] = "full-rotation-of-layer-norms"
    control: ClassVar[str] = "a rotation that moves the vector of ones, under LayerNorms"

    def refusal(self, wiring: Wiring) -> str | None:
        """RMS norms allow it."""
        return None if wiring.decoder.family.norm == "LayerNorm" else "RMS norms allow every rotation"

    def needs_own_head(self, wiring: Wiring) -> bool:
        """As the rotation does."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Fold, then rotate."""
        for norm in wiring.norms:
            fold(norm)
        rotated_stream(wiring, orthogonal(wiring.decoder.facts.width, generator_of(self.seed)))


@dataclass(frozen=True)
class KeptEpsilon(_Control):
    """The stream times a constant while eps stays."""

    factor: float
    name: ClassVar[str] = "stream-scale-with-eps-kept"
    control: ClassVar[str] = "the stream times ten, eps of the norms kept"

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> KeptEpsilon:
        """Ten times."""
        return cls(seed, 10.0)

    def apply(self, wiring: Wiring) -> None:
        """Scale what writes, and nothing else."""
        scaled_stream(wiring, self.factor)


@dataclass(frozen=True)
class GeneralUnderPositions(_ConditionedControl):
    """Any invertible map of queries and keys that positions turn."""

    name: ClassVar[str] = "general-query-key-under-rotary"
    control: ClassVar[str] = "queries and keys mapped by a matrix that does not commute with rotary positions"

    def refusal(self, wiring: Wiring) -> str | None:
        """Nothing is turned."""
        return None if wiring.turned else "its positions turn nothing"

    def apply(self, wiring: Wiring) -> None:
        """Map."""
        generator, facts = generator_of(self.seed), wiring.decoder.facts
        for block in wiring.blocks:
            maps = self.maps(len(block.key.index), facts.head_dim, generator)
            mapped_queries_and_keys(wiring, block.number, maps)


@dataclass(frozen=True)
class UnmovedBiases(_ConditionedControl):
    """Queries and keys mapped, their biases left behind."""

    name: ClassVar[str] = "query-key-without-biases"
    control: ClassVar[str] = "queries and keys mapped, their biases left as they were"

    def refusal(self, wiring: Wiring) -> str | None:
        """No biases, or positions that allow no general map."""
        if wiring.turned:
            return "its positions allow no general map"
        return "its queries and keys have no bias" if wiring.blocks[0].key.bias is None else None

    def apply(self, wiring: Wiring) -> None:
        """Map the weights only."""
        generator, facts = generator_of(self.seed), wiring.decoder.facts
        for block in wiring.blocks:
            kept = block.query.bias, block.key.bias
            maps = self.maps(len(block.key.index), facts.head_dim, generator)
            mapped_queries_and_keys(wiring, block.number, maps)
            for slots, bias in zip((block.query, block.key), kept, strict=True):
                slots.put(slots.matrix, bias)


@dataclass(frozen=True)
class UnturnedOutputs(_ConditionedControl):
    """Values mapped, the output projection multiplied by the transpose in place of the inverse."""

    name: ClassVar[str] = "value-output-transposed"
    control: ClassVar[str] = "values times M, outputs times M transposed in place of its inverse"

    def apply(self, wiring: Wiring) -> None:
        """Map."""
        generator, facts = generator_of(self.seed), wiring.decoder.facts
        for block in wiring.blocks:
            out = block.attention_output.matrix
            given = self.maps(len(block.value.index), facts.head_dim, generator).to(out)
            block.value.map_heads(given)
            for head, map_ in zip(wiring.columns(block), given.repeat_interleave(wiring.group, 0), strict=True):
                out[:, head] = out[:, head] @ map_.T


@dataclass(frozen=True)
class DroppedValueBias(_Control):
    """Value biases taken away and put nowhere."""

    name: ClassVar[str] = "value-bias-dropped"
    control: ClassVar[str] = "value biases set to zero, output biases left as they were"

    def refusal(self, wiring: Wiring) -> str | None:
        """No bias."""
        return "its values have no bias" if wiring.blocks[0].value.bias is None else None

    def apply(self, wiring: Wiring) -> None:
        """Drop."""
        for block in wiring.blocks:
            bias = block.value.bias
            assert bias is not None  # refused otherwise
            block.value.put(block.value.matrix, torch.zeros_like(bias))


@dataclass(frozen=True)
class UngroupedHeads(_Control):
    """Query heads moved on by one, across the groups that share keys and values."""

    name: ClassVar[str] = "head-permutation-across-key-groups"
    control: ClassVar[str] = "query heads in another order, the keys and values that they share left where they were"

    def refusal(self, wiring: Wiring) -> str | None:
        """Nothing is shared, or everything is."""
        if wiring.group == 1:
            return "every head has keys of its own"
        return "all heads share their keys" if wiring.decoder.facts.key_value_heads == 1 else None

    def apply(self, wiring: Wiring) -> None:
        """Move queries on, and the columns that read the heads."""
        for block in wiring.blocks:
            bias, columns, out = block.query.bias, wiring.columns(block), block.attention_output.matrix
            block.query.put(block.query.matrix.roll(1, 0), None if bias is None else bias.roll(1, 0))
            out[:, columns.flatten()] = out[:, columns.roll(1, 0).flatten()]


@dataclass(frozen=True)
class KnowingNeurons(_Control):
    """Neurons scaled although the activation knows their scale."""

    name: ClassVar[str] = "neuron-scaling-of-a-smooth-activation"
    control: ClassVar[str] = "neurons scaled by positive numbers although the activation knows its scale"

    def refusal(self, wiring: Wiring) -> str | None:
        """A gate, or an activation that allows it."""
        if wiring.blocks[0].gate is not None:
            return "its MLPs are gated"
        return None if inhomogeneity(wiring.blocks[0].activation) > 1e-12 else "its activation allows it"

    def apply(self, wiring: Wiring) -> None:
        """Scale."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            noise = torch.randn(len(block.up.matrix), generator=generator, dtype=torch.float64)
            scaled_neurons(block, (0.5 * noise).exp())


@dataclass(frozen=True)
class VisibleKeyBias(_Control):
    """A key bias where positions turn it."""

    name: ClassVar[str] = "key-bias-under-rotary"
    control: ClassVar[str] = "a vector added to the key bias where rotary positions turn it"

    def refusal(self, wiring: Wiring) -> str | None:
        """Nothing is turned, or there is no bias."""
        if not wiring.turned:
            return "its positions turn nothing"
        return "its keys have no bias" if wiring.blocks[0].key.bias is None else None

    def apply(self, wiring: Wiring) -> None:
        """Add."""
        generator = generator_of(self.seed)
        for block in wiring.blocks:
            bias = block.key.bias
            assert bias is not None  # refused otherwise
            noise = torch.randn(bias.shape, generator=generator, dtype=torch.float64).to(bias)
            block.key.put(block.key.matrix, bias + noise)


@dataclass(frozen=True)
class CenteredTie(_Control):
    """The mean over coordinates removed from an embedding that is the unembedding too."""

    name: ClassVar[str] = "feature-mean-of-a-tied-unembedding"
    control: ClassVar[str] = "the mean over coordinates removed from the unembedding with the embedding it is tied to"

    def refusal(self, wiring: Wiring) -> str | None:
        """No tie, or norms that read the mean."""
        return read_by_layer_norms_only(wiring) or (None if wiring.tied else "its unembedding is a tensor of its own")

    def apply(self, wiring: Wiring) -> None:
        """Center what the tie holds."""
        for writer in wiring.writers:
            writer.map_outputs(lambda rows: rows - rows.mean(-1, keepdim=True))


@dataclass(frozen=True)
class CappedShift(_Control):
    """One vector added to the unembedding below a cap."""

    name: ClassVar[str] = "unembedding-shift-under-a-cap"
    control: ClassVar[str] = "a vector added to the unembedding rows although logits are capped"
    compared: ClassVar = "log-probabilities"

    def refusal(self, wiring: Wiring) -> str | None:
        """No cap."""
        row, config = wiring.decoder.family, wiring.decoder.model.config
        cap = getattr(config, row.logit_cap, None) if row.logit_cap else None
        return "its logits are not capped" if cap is None else None

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The embedding stays."""
        return True

    def apply(self, wiring: Wiring) -> None:
        """Add."""
        matrix = wiring.head.matrix
        noise = torch.randn(matrix.shape[1], generator=generator_of(self.seed), dtype=torch.float64).to(matrix)
        matrix.add_(matrix.square().mean().sqrt() * noise)
