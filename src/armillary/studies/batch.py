"""One batch of documents at one tap, as every statistic sees it: clouds, token sets, and the row of its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.drift import massive_tokens
from armillary.studies.plan import Plan

__all__ = ["TapBatch", "TokenSets"]


@dataclass(frozen=True, eq=False)
class TokenSets:
    """A batch with all tokens and without the first; and alone, by number, each document with massive tokens later.

    Args:
        shared: The clouds with all tokens and without the first.
        alone: Documents that hold massive tokens after the first, without those and without the first.
    """

    shared: tuple[Cloud, Cloud]
    alone: Mapping[int, Cloud]

    @classmethod
    def of(cls, cloud: Cloud, massive: Tensor) -> TokenSets:
        """The token sets of `cloud`, where `massive` (`documents tokens`) is true at massive tokens."""
        later = massive.clone()
        later[:, 0] = False
        alone = {}
        for document in later.any(-1).nonzero().flatten().tolist():
            kept = ~later[document]
            kept[0] = False
            alone[document] = cloud.member(document, kept)
        return cls((cloud, cloud.without_tokens(1)), alone)

    def __iter__(self) -> Iterator[Cloud]:
        yield self.shared[0]
        yield from self.alone.values()


class TapBatch:
    """States of one batch at one tap.

    Args:
        tap: Where.
        row: Index of the layer in the arrays.
        before: The stream at the tap before, None at the embedding, `documents tokens dim`.
        residual: The stream, same shape.
        read: What the next sublayer reads of it, same shape; None where that is not known.
        norms: Row norms of the stream, `documents tokens`.
        calibration: What was estimated on other documents.
        plan: The laboratory's further choices.
        resolution: eps of the type that definitions refer to; that of the states if None.
        titles: Of its documents.
    """

    def __init__(
        self,
        tap: Tap,
        *,
        row: int,
        before: Tensor | None,
        residual: Tensor,
        read: Tensor | None,
        norms: Tensor,
        calibration: Calibration | None,
        plan: Plan,
        resolution: float | None = None,
        titles: Sequence[str] = (),
    ) -> None:
        self.tap, self.row, self.titles = tap, row, tuple(titles)
        self.before = None if before is None else before.cpu()
        self.residual = residual.cpu()
        self.massive = massive_tokens(norms, ratio=plan.massive_ratio)
        accumulate = torch.float64 if tap.place == "block" else None
        self._stream = Cloud(self.residual, accumulate=accumulate, calibration=calibration, resolution=resolution)
        self._read = None if read is None else Cloud(read.cpu(), resolution=resolution)

    @cached_property
    def stream(self) -> TokenSets:
        """The residual stream in its token sets; in float64 after a block, where spectra are taken."""
        return TokenSets.of(self._stream, self.massive)

    @cached_property
    def read(self) -> TokenSets | None:
        """What the next sublayer reads, in its token sets; None where that is not known."""
        return None if self._read is None else TokenSets.of(self._read, self.massive)

    def forget(self) -> None:
        """Give the memory of everything derived from this batch back at once."""
        for cloud in (*self.stream, *(self.read or ())):
            cloud.forget()
