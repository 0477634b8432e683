"""Several gauges one after the other, which is a gauge again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.wiring import Wiring

__all__ = ["Composition"]


@dataclass(frozen=True)
class Composition(Gauge):
    """Gauges applied in the order given.

    Args:
        gauges: at least one.
    """

    gauges: tuple[Gauge, ...]
    name: ClassVar[str] = "all-at-once"

    def __post_init__(self) -> None:
        if not self.gauges:
            raise ArgumentError("Argument `gauges` must hold at least one gauge, but it is empty. Name one.")

    @property
    def label(self) -> str:
        """In words."""
        return "; then ".join(gauge.label for gauge in self.gauges)

    @property
    def reach(self) -> dict[str, Reach]:  # type: ignore[override]
        """What all of them do, place by place."""
        places = dict.fromkeys(place for gauge in self.gauges for place in gauge.reach)
        return {place: _joined([one.reach[place] for one in self.gauges if place in one.reach]) for place in places}

    @property
    def compared(self) -> str:  # type: ignore[override]
        """Log-probabilities, if one of them moves all logits together."""
        words = [gauge.compared for gauge in self.gauges]
        return "log-probabilities" if "log-probabilities" in words else "logits"

    @property
    def control(self) -> str:  # type: ignore[override]
        """What the wrong ones among them forget."""
        return "; ".join(gauge.control for gauge in self.gauges if gauge.control)

    def refusal(self, wiring: Wiring) -> str | None:
        """The first refusal among them."""
        return next((f"{one.name}: {words}" for one in self.gauges if (words := one.refusal(wiring)) is not None), None)

    def needs_own_head(self, wiring: Wiring) -> bool:
        """Whether one of them does."""
        return any(gauge.needs_own_head(wiring) for gauge in self.gauges)

    def apply(self, wiring: Wiring) -> None:
        """One after the other."""
        for gauge in self.gauges:
            gauge.apply(wiring)


def _joined(several: list[Reach]) -> Reach:
    """One after the other: kinds are known where each one's are."""
    if len(several) == 1:
        return several[0]
    known = all(one.kinds or one.heads_only for one in several)
    return Reach(
        ", then ".join(one.words for one in several),
        tuple(kind for one in several for kind in one.kinds) if known else (),
        heads_only=all(one.heads_only for one in several),
    )
