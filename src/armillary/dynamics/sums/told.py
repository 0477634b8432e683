"""Which sums over pairs ran while a block lasted: what evaluated them says so, each way once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["listened", "tell"]

_COUNTS = re.compile(r" and at most \S+: in \d+ evaluations [^;]* were summed directly")
"""What a series says of one run: no other way of summing, and another number in every run."""

_heard: ContextVar[set[str] | None] = ContextVar("heard", default=None)


def tell(words: str) -> None:
    """Say how a sum over pairs was evaluated, to whoever listens.

    Args:
        words: As they stand in a record.
    """
    heard = _heard.get()
    if heard is not None:
        heard.add(_COUNTS.sub("", words))


@contextmanager
def listened() -> Iterator[set[str]]:
    """What is told while the block lasts, without the counts of single runs.

    Yields:
        The sentences, filled as they come.
    """
    found: set[str] = set()
    before = _heard.set(found)
    try:
        yield found
    finally:
        _heard.reset(before)
