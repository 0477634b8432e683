"""Numbers at every place of a pass that a re-parametrization can reach, with the reason why one cannot move there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from armillary.invariance.floors import floors
from armillary.invariance.proofs import proof
from armillary.models.gauges.declaration import Gauge
from armillary.observables.alignment import mean_overlap
from armillary.observables.attention_declaration import Maps, map_numbers
from armillary.observables.cloud import Cloud
from armillary.observables.coordinates import coordinate_kurtosis, largest_coordinate_share
from armillary.observables.declaration import Measurement
from armillary.observables.rank import participation_rank
from armillary.records.gauged import PLACE_WORDS, PlacedNumber
from armillary.studies.plan import at_other_taps, default_measurements

__all__ = ["ATTENTION", "COORDINATES", "Ledger", "reason_for"]

ATTENTION = ("attention_entropy", "attention_first_mass")
"""Numbers of attention maps that are taken of every head."""

WITHOUT_FEATURE_MEAN = tuple(
    one.after("remove feature mean", "normalize") for one in (mean_overlap, participation_rank)
)
"""Numbers of what a LayerNorm sees of the stream: each row without the mean of its own coordinates."""

COORDINATES = (largest_coordinate_share.after(), coordinate_kurtosis.after())
"""Numbers of the coordinates themselves, taken of the stream and of its first token."""

_BY_HEAD = ("query", "key", "value")


class Ledger:
    """Hears one pass, and measures afterwards what it heard, one number a document.

    The first token, where many decoders put a vector of its own size, is left out and stands alone as a place.

    Args:
        measurements: of the stream; None takes the laboratory's own that need no calibration.
        norm: "LayerNorm" or "RMSNorm": what a LayerNorm sees of the stream is measured where one reads it.
        resolution: eps of the type that tolerances refer to: that of the states as the laboratory would see them.
        attention: numbers of attention maps, by name.
        floors: "measured", to learn besides how far rounding in float64 moves each number of these rows; or "none".
    """

    def __init__(
        self,
        measurements: Sequence[Measurement] | None,
        *,
        norm: str,
        resolution: float,
        attention: Sequence[str] = ATTENTION,
        floors: Literal["measured", "none"] = "none",
    ) -> None:
        chosen = default_measurements(calibrated=False) if measurements is None else tuple(measurements)
        self.of_stream = tuple(
            dict.fromkeys((*chosen, *(WITHOUT_FEATURE_MEAN if norm == "LayerNorm" else ()), *COORDINATES))
        )
        self.elsewhere = at_other_taps(chosen) or chosen
        self.resolution, self.attention = resolution, tuple(attention)
        self.values: dict[PlacedNumber, Tensor] = {}
        self.floors: dict[PlacedNumber, Tensor] = {}
        self.measurements: dict[PlacedNumber, Measurement] = {}
        self._with_floors = floors == "measured"
        self._heard: list[tuple[str, int, Tensor]] = []

    def hear(self, place: str, layer: int, rows: Tensor) -> None:
        """Keep a copy of what passes; see `PlaceSink`."""
        self._heard.append((place, layer, rows.cpu().clone()))

    def table(self) -> tuple[tuple[PlacedNumber, ...], Tensor]:
        """What was heard: the numbers' names, and float64 `documents numbers`."""
        while self._heard:
            place, layer, rows = self._heard.pop()
            if place == "attention":
                self._maps(layer, rows)
                continue
            if place == "stream":
                self._measure("first", layer, rows[..., :1, :], COORDINATES)
            self._measure(place, layer, rows[..., 1:, :], self.of_stream if place == "stream" else self.elsewhere)
        names = sorted(self.values, key=lambda one: (list(PLACE_WORDS).index(one.place), one.layer))  # stable
        return tuple(names), torch.stack([self.values[name].cpu() for name in names], dim=-1)

    def floor(self, names: Sequence[PlacedNumber]) -> Tensor:
        """The floors of these numbers, float64 `numbers`, the largest of any document; zero where none was measured."""
        return torch.stack([self.floors.get(name, torch.zeros(1)).double().max().cpu() for name in names])

    def _measure(self, place: str, layer: int, rows: Tensor, measurements: Sequence[Measurement]) -> None:
        cloud = Cloud(rows, accumulate=torch.float64, resolution=self.resolution)
        values = [one.of(cloud).double() for one in measurements]
        rounding = floors(cloud, None, measurements, values) if self._with_floors else [None] * len(values)
        for one, value, floor in zip(measurements, values, rounding, strict=True):
            number = PlacedNumber(place, str(one), layer)
            self.measurements[number] = one
            self.values[number] = value.mean(-1) if place in _BY_HEAD else value
            if floor is not None:
                self.floors[number] = floor
        cloud.forget()

    def _maps(self, layer: int, rows: Tensor) -> None:
        maps, known = Maps(rows), map_numbers()
        for name in self.attention:
            by_head = known[name].of(maps).double()
            self.values[PlacedNumber("attention", f"{name}, mean over heads", layer)] = by_head.mean(-1)
            for head in range(by_head.shape[-1]):
                self.values[PlacedNumber("attention", f"{name}, head {head}", layer, head=head)] = by_head[..., head]


def reason_for(gauge: Gauge, number: PlacedNumber, measurement: Measurement | None) -> str | None:
    """Why a gauge cannot move a number, as a theorem; None where nothing says so.

    Args:
        gauge: what is done to the weights.
        number: at its place.
        measurement: behind it; None for a number of attention maps.
    """
    reach = gauge.reach.get("stream" if number.place == "first" else number.place)
    if reach is None:
        return "the weights before this place are changed only in ways that cancel before it"
    if reach.heads_only:
        return "a mean over heads does not know their order" if number.head is None else None
    if measurement is None:
        return None
    if reach.undone_by is not None and _undone(measurement.preparation.steps, reach.undone_by):
        return f"{reach.words}; the preparation takes that away"
    reasons = [proof(measurement, kind) for kind in reach.kinds]
    known = [one for one in reasons if one is not None]
    return f"{reach.words}; {'; '.join(known)}" if reasons and len(known) == len(reasons) else None


def _undone(steps: tuple[str, ...], step: str) -> bool:
    """Whether a step comes while what was added to each row's coordinates is still one number for all of them."""
    return step in steps and all(one in ("center", "corpus mean") for one in steps[: steps.index(step)])
