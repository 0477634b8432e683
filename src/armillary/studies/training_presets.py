"""Named sizes of a training study: what is trained, on how much, under which grid; options given beside a name win."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from armillary.errors import ArgumentError

__all__ = ["TRAINING_PRESETS", "TrainingPreset", "training_preset"]


@dataclass(frozen=True, kw_only=True)
class TrainingPreset:
    """One named grid.

    Attributes:
        shape: Arguments of `Shape`.
        recipes: Recipes of initialization as texts; the first is the baseline.
        terms: Terms beside the loss as texts; the loss alone is always the first.
        seeds: Paired seeds.
        rates: Learning rates of the sweep.
        sweep_seeds: Seeds of the sweep, other ones than those of the grid.
        held_out: Documents held out.
        words: What it is for.
    """

    shape: Mapping[str, Any]
    recipes: tuple[str, ...]
    terms: tuple[str, ...]
    seeds: int
    rates: tuple[float, ...]
    sweep_seeds: int
    held_out: int
    words: str


TRAINING_PRESETS: Mapping[str, TrainingPreset] = MappingProxyType(
    {
        "quick": TrainingPreset(
            shape={"architecture": "gpt2", "width": 64, "blocks": 3, "heads": 4, "tokens": 64, "documents": 8,
                   "steps": 240, "every": 24},
            recipes=("library", "fan_in_scaled"),
            terms=("uniformity:beta=4@0.1",),
            seeds=3,
            rates=(1e-3, 3e-3, 1e-2),
            sweep_seeds=1,
            held_out=16,
            words="a toy, in minutes: what the full one does, too small and too short to conclude from",
        ),
        "full": TrainingPreset(
            shape={"architecture": "gpt2", "width": 128, "blocks": 4, "heads": 4, "tokens": 128, "documents": 8,
                   "steps": 600, "every": 50},
            recipes=("library", "overlap_profile:first=0.1,last=0.5",
                     "mimetic_value_output:sign=repulsive,share=0.5"),
            terms=("uniformity:beta=4@0.1", "uniformity:beta=4@1"),
            seeds=5,
            rates=(1e-3, 3e-3, 1e-2),
            sweep_seeds=1,
            held_out=24,
            words="a decoder of 0.9 million parameters on Python's reference, about an hour on two cores",
        ),
    }
)  # fmt: skip
"""The presets by name."""


def training_preset(name: str) -> TrainingPreset:
    """A preset by name.

    Args:
        name: One of `TRAINING_PRESETS`.

    Raises:
        ArgumentError: No preset of that name.
    """
    if name not in TRAINING_PRESETS:
        raise ArgumentError(
            f"Argument `preset` must be one of {', '.join(TRAINING_PRESETS)}, but it is {name!r}. Name one of them."
        )
    return TRAINING_PRESETS[name]
