"""The unit of work: one condition and one batch of documents, measured in one pass and reduced to named arrays."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch

from armillary.models.capture import stream
from armillary.records.journal import IDS, SECONDS
from armillary.shapes import TokenIds
from armillary.studies import collectors
from armillary.studies.collector import Collector, Setting
from armillary.studies.reader import TapReader

__all__ = ["Arrays", "Bench", "Chunk", "partition"]

Arrays = dict[str, np.ndarray]
"""A variable's name -> its numbers, document axis first; a sum over the documents of the chunk where it has none."""


@dataclass(frozen=True, order=True)
class Chunk:
    """Documents `start` to `stop` (not included) in one condition.

    Which documents share a chunk follows from the batch size alone, so a chunk's numbers do not depend on which others
    are measured, when or where.
    """

    condition: str
    start: int
    stop: int

    def __len__(self) -> int:
        """How many documents."""
        return self.stop - self.start


def partition(condition: str, documents: int, batch_size: int) -> tuple[Chunk, ...]:
    """The chunks of a condition in the order of the documents; the last one may be smaller."""
    starts = range(0, documents, batch_size)
    return tuple(Chunk(condition, start, min(start + batch_size, documents)) for start in starts)


class Bench:
    """The collectors of one condition, set up once and used for any of its chunks in any order.

    Args:
        setting: Axes, decoder, condition, calibration.
        kinds: Which collectors; those that belong in this condition.
    """

    def __init__(self, setting: Setting, kinds: Sequence[type[Collector]] | None = None) -> None:
        self.setting = setting
        chosen = collectors.COLLECTORS if kinds is None else kinds
        self.collectors = tuple(kind(setting) for kind in chosen if kind.belongs(setting))

    def measure(self, ids: TokenIds, titles: Sequence[str]) -> Arrays:
        """One pass over the documents of a chunk.

        Args:
            ids: Theirs, `documents tokens`.
            titles: Theirs, for messages.

        Returns:
            What the collectors found, the ids that went through the decoder, and the seconds it took.

        Raises:
            NumericalError: If a state is not finite.
        """
        began = time.perf_counter()
        decoder = self.setting.decoder
        reader = TapReader(self.setting, self.collectors, titles)
        for collector in self.collectors:
            collector.begin(len(ids))
        with ExitStack() as opened, torch.inference_mode():
            for collector in self.collectors:
                opened.enter_context(collector.listening())
            opened.enter_context(stream(decoder, reader))
            final = decoder.hidden(ids)
            for collector in self.collectors:
                collector.finish(final, ids)
        found: Arrays = {IDS: ids.numpy().copy()}
        for collector in self.collectors:
            found |= collector.arrays
            collector.arrays = {}
        return found | {SECONDS: np.asarray(time.perf_counter() - began)}
