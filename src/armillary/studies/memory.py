"""How much memory a chunk takes beyond the loaded model: a model of it, and the batch size that keeps to a limit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from armillary.errors import ArgumentError
from armillary.models.conditions import Condition, Initial, Trained
from armillary.models.decoder import Decoder
from armillary.models.widened import wider_type
from armillary.studies import collectors
from armillary.studies.collector import Declared, Variable
from armillary.studies.dataset import declared
from armillary.studies.layout import Layout
from armillary.studies.plan import CENTERED, SPHERE

__all__ = ["MIB", "MemoryNeed", "bytes_of", "in_words", "largest_batch"]

MIB = 2**20
_UNITS = {
    "": MIB,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 2**10,
    "mib": MIB,
    "gib": 2**30,
    "tib": 2**40,
}
_DOUBLE = 8
_LIBRARIES = 72 * MIB
"""What is imported, and what allocators keep in reserve, once measuring begins."""
_OF_A_CLOUD = 3.0
"""Matrices `tokens tokens` alive for each preparation and token set: overlaps, pairs of them, one in the making."""
_IN_PASSING = 10.0
"""Further ones that come and go: spectrum, thresholds, histogram."""


@dataclass(frozen=True)
class MemoryNeed:
    """What a run takes, in bytes.

    Args:
        model: The weights.
        batch_size: Documents in one pass.
        document: For each of them, while the pass is measured.
        again: How many of them pass once more in the next wider type.
        wider: For each of those, beyond `document`.
        block: The block that passes in the wider type.
        fixed: Whatever the batch size: libraries, logits of one document.
        record: The numbers of all documents, before they are compressed.
    """

    model: int
    batch_size: int
    document: int
    again: int
    wider: int
    block: int
    fixed: int
    record: int

    @property
    def beyond(self) -> int:
        """The most beyond the model: while a chunk is measured, in either type, or while all are put together."""
        again = min(self.again, self.batch_size)
        rounding = again * (self.document + self.wider) + self.block if again else 0
        return self.fixed + max(self.batch_size * self.document, rounding, round(1.5 * self.record))

    @classmethod
    def of(cls, layout: Layout, decoder: Decoder, conditions: Sequence[Condition], batch_size: int) -> MemoryNeed:
        """The need of a laboratory with these axes.

        Args:
            layout: Axes and choices.
            decoder: Whose pass it is.
            conditions: A fresh model stands beside the trained one, and what is removed is kept to be put back.
            batch_size: Documents in one pass.
        """
        tokens, width = layout.tokens, layout.width
        steps = {SPHERE, CENTERED, *(one.preparation.steps for one in layout.measurements)}
        clouds = len({one[:length] for one in steps for length in range(len(one) + 1)})
        squares = clouds * 2 * _OF_A_CLOUD / 2 + clouds * _OF_A_CLOUD / 2 + _IN_PASSING
        size = next(decoder.model.parameters()).element_size()
        inner = max((max(p.shape) for p in decoder.blocks[0].parameters() if p.ndim == 2), default=4 * width)
        pass_ = tokens * (8 * width + 3 * inner) * size
        rows = (4 + clouds) * tokens * width * _DOUBLE
        held = sum(kind.held(layout) for kind in collectors.COLLECTORS)
        arrays = _size(layout, declared(layout), documents=1, conditions=1)
        document = round(squares * tokens**2 * _DOUBLE) + pass_ + rows + held + 2 * arrays
        maps = 3 * width**2 * _DOUBLE
        again = 0 if wider_type(decoder) is None else layout.plan.rounding_documents
        block = 2 * sum(p.numel() * p.element_size() for p in decoder.blocks[0].parameters())
        model = sum(p.numel() * p.element_size() for p in decoder.model.parameters())
        removed = layout.depth * width * inner * size
        beside = max(
            (model if isinstance(one, Initial) else removed for one in conditions if one != Trained()), default=0
        )
        fixed = _LIBRARIES + 3 * tokens * decoder.facts.vocabulary * 4 + maps + beside
        record = _size(layout, declared(layout), documents=len(layout.titles), conditions=len(layout.conditions))
        return cls(model, batch_size, document, again, pass_, block, fixed, record)


def largest_batch(need: MemoryNeed, limit: int) -> int:
    """The most documents of one pass, up to those asked for, that keep to a limit.

    Args:
        need: With the batch size asked for.
        limit: Bytes beyond the loaded model.

    Raises:
        ArgumentError: Not even one document at a time fits; the message says what would.
    """
    least = replace(need, batch_size=1).beyond
    if least > limit:
        raise ArgumentError(
            f"Argument `memory_limit` must be at least {in_words(least)} for these documents and measurements, one "
            f"document at a time, but is {in_words(limit, down=True)}. Allow {in_words(least)}, or ask for fewer "
            "tokens, documents or measurements."
        )
    return max(size for size in range(1, need.batch_size + 1) if replace(need, batch_size=size).beyond <= limit)


def bytes_of(text: str | int) -> int:
    """The bytes that a text such as 300, 300MiB or 2 GiB names; a bare number is in MiB.

    Raises:
        ArgumentError: It names none.

    Example:
        >>> bytes_of("300") == bytes_of("300MiB") == 300 * 2**20
        True
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(text))
    if match is None or match[2].lower() not in _UNITS or float(match[1]) == 0:
        raise ArgumentError(
            f"Argument `memory_limit` must be a size such as 300MiB or 2GiB, but is {str(text)!r}. A bare number is in "
            "MiB."
        )
    return round(float(match[1]) * _UNITS[match[2].lower()])


def in_words(size: int, *, down: bool = False) -> str:
    """So many MiB, rounded up, or down."""
    return f"{math.floor(size / MIB) if down else math.ceil(size / MIB)}MiB"


def _size(layout: Layout, contributed: Declared, *, documents: int, conditions: int) -> int:
    labels = layout.coordinates | dict(contributed.coordinates)
    lengths = {axis: len(one[1] if isinstance(one, tuple) else one) for axis, one in labels.items()}
    lengths |= {"document": documents, "condition": conditions}

    def size(one: Variable) -> int:
        return int(math.prod(lengths[axis] for axis in one.dims)) * np.dtype(one.dtype).itemsize

    return sum(size(one) for one in contributed.variables.values())
