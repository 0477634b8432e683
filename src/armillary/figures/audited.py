"""The record of an audit as its figures see it: layers that were tried, and no course through depth."""

from __future__ import annotations

from armillary.figures.reading import Reading

__all__ = ["AuditReading"]


class AuditReading(Reading):
    """The record of an audit, as a reading.

    Args:
        record: an opened record whose study is of the kind "audit".
    """

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers that were tried; 0 is the embedding."""
        return tuple(int(layer) for layer in self.dataset["statement_layer"].values)
