"""The upper rungs: the decoder in its conditions, on shuffled tokens, and other states of it read from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from armillary.errors import ArgumentError, ArmillaryError
from armillary.models.anatomy import Decoder, DecoderFacts
from armillary.models.capture import Sink, stream
from armillary.models.conditions import Condition
from armillary.models.decoder import load_decoder
from armillary.studies.resistance.rungs import Pass, Workshop

__all__ = ["Real", "Saved", "Shuffled"]


@dataclass(frozen=True, kw_only=True)
class Real:
    """The decoder itself, in one of its conditions.

    Args:
        condition: As loaded, fresh, or with a part removed.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    condition: Condition
    neighbor: str = ""
    change: str = ""
    level: int = 4

    @property
    def name(self) -> str:
        """That of the condition."""
        return self.condition.name

    @property
    def label(self) -> str:
        """That of the condition."""
        return f"the decoder, {self.condition.label}"

    def lacks(self, decoder: Decoder) -> str:
        """What the condition itself refuses."""
        try:
            self.condition.check_fits(decoder)
        except ArmillaryError as error:
            return str(error)
        return ""

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass through the decoder."""
        with self.condition.applied(workshop.decoder) as applied:

            def through(ids: Tensor, sink: Sink) -> None:
                with stream(applied.decoder, sink):
                    applied.decoder.hidden(ids)

            yield through, applied.proof.sentence

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"condition": self.condition.name}


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Another decoder of the same shape, read from a folder: a checkpoint, at step 0 for instance.

    Here, and nowhere else, trained minus initial is exact: both are states of one decoder.

    Args:
        source: Folder of the checkpoint.
        name: Its label in a record.
        label: It in words.
        neighbor: See `Rung`.
        change: See `Rung`.
    """

    source: str
    name: str
    label: str
    neighbor: str = "trained"
    change: str = "the checkpoint"
    level: int = 5

    def lacks(self, decoder: Decoder) -> str:
        """Nothing, before it is read."""
        return ""

    @cached_property
    def facts(self) -> DecoderFacts:
        """Those of the decoder in the folder.

        Raises:
            ArgumentError: There is no decoder there.
        """
        if not (Path(self.source) / "config.json").is_file():
            raise ArgumentError(
                f"Argument `checkpoints` must be folders with a config.json and weights, but {self.source} holds no "
                "config.json. Name a folder that `armillary train` keeps checkpoints in."
            )
        return load_decoder(self.source, device="cpu", prove=False).facts

    def require_shape(self, decoder: Decoder) -> None:
        """See that the folder holds a decoder of the same shape, before anything is measured.

        Raises:
            ArgumentError: It has another number of blocks, another width or another vocabulary, or is not there.
        """
        for fact in ("layers", "width", "heads", "vocabulary"):
            if getattr(self.facts, fact) != getattr(decoder.facts, fact):
                raise ArgumentError(
                    f"Argument `checkpoints` must hold decoders of the same {fact}, {getattr(decoder.facts, fact)}, "
                    f"but that of {self.source} is {getattr(self.facts, fact)}. Name checkpoints of the same decoder."
                )

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass through the decoder of the folder."""
        own = workshop.decoder
        other = load_decoder(
            self.source, tokenizer=own.tokenizer, device=str(own.device), dtype=own.facts.dtype, prove=True
        )

        def through(ids: Tensor, sink: Sink) -> None:
            with stream(other, sink):
                other.hidden(ids)

        yield through, f"weights of {self.source}, hash {other.facts.weight_hash[:12]}"

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it: the folder and the hash of its weights."""
        return {"source": self.source, "weight_hash": self.facts.weight_hash}


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """The decoder as loaded on the same tokens in another order: a null model of what order does.

    Args:
        seed: Of the order, which is another for each document.
    """

    seed: int
    name: str = "shuffled"
    label: str = "the decoder, trained, tokens of each document in random order"
    level: int = 4
    neighbor: str = "trained"
    change: str = "order of the tokens"

    def lacks(self, decoder: Decoder) -> str:
        """Nothing."""
        return ""

    @contextmanager
    def opened(self, workshop: Workshop) -> Iterator[tuple[Pass, str]]:
        """Documents pass with their tokens in an order that depends on the tokens and the seed alone."""

        def through(ids: Tensor, sink: Sink) -> None:
            with stream(workshop.decoder, sink):
                workshop.decoder.hidden(torch.stack([self._mixed(row) for row in ids]))

        yield through, f"every document's tokens in random order, seed {self.seed}; weights as loaded"

    def _mixed(self, row: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + int(row.sum()))
        return row[torch.randperm(len(row), generator=draw)]

    def as_choices(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {"seed": self.seed}
