"""Named sizes of a laboratory: which conditions, how many documents and tokens; options given beside a name win."""

from __future__ import annotations

from dataclasses import dataclass

from armillary.errors import ArgumentError

__all__ = ["DEFAULT_PRESET", "PRESETS", "Preset"]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One row of choices that `armillary lab` starts from.

    Attributes:
        name: what `--preset` is given, and what the record keeps.
        purpose: what it is for and how long it takes, in words.
        conditions: names of the states the decoder is measured in; the first one carries the statement.
        documents: how many.
        tokens: of every document.
    """

    name: str
    purpose: str
    conditions: tuple[str, ...]
    documents: int
    tokens: int

    @classmethod
    def named(cls, name: str) -> Preset:
        """The preset of that name.

        Raises:
            ArgumentError: There is none.
        """
        if name not in PRESETS:
            raise ArgumentError(
                f"Argument `preset` must be one of {', '.join(PRESETS)}, but it is {name!r}. Leave it out for "
                f"{DEFAULT_PRESET}."
            )
        return PRESETS[name]

    def but(self, *options: str) -> str:
        """Its name for the record, and which of its choices were made otherwise."""
        return f"{self.name}, except {', '.join(options)}" if options else self.name


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="full",
            purpose="every condition of the default report; about four minutes on two cores",
            conditions=(
                "trained",
                "initial-released-seed0",
                "initial-library-seed0",
                "ablated-mlp",
                "ablated-attention",
                "ablated-positions",
            ),
            documents=32,
            tokens=256,
        ),
        Preset(
            name="class",
            purpose="trained, fresh under two recipes, and without MLPs; about two minutes on two cores",
            conditions=("trained", "initial-released-seed0", "initial-library-seed0", "ablated-mlp"),
            documents=16,
            tokens=128,
        ),
    )
}

DEFAULT_PRESET = "full"
