"""The page of a training."""

from __future__ import annotations

from armillary.figures.members import MembersReading

__all__ = ["training_page"]


def training_page(reading: MembersReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    raise NotImplementedError
