"""What a record holds of gauges: numbers before and after each, their floors and reasons, judged without a decoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError
from armillary.invariance.verdicts import Verdict, verdicts

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["PLACE_WORDS", "GaugedNumbers", "PlacedNumber", "UnderGauge"]

PLACE_WORDS = {
    "stream": "stream",
    "first": "stream, first token",
    "read": "after the next norm",
    "query": "queries, mean over heads",
    "key": "keys, mean over heads",
    "value": "values, mean over heads",
    "neuron": "neurons",
    "attention": "attention",
}
"""What places are called; "first" is the first token of the stream alone."""

_PROOF = ("difference", "narrow_difference", "output_floor")


@dataclass(frozen=True, order=True)
class PlacedNumber:
    """One number at one place and layer.

    Args:
        place: a key of `PLACE_WORDS`.
        number: a measurement as a study writes it, or a number of attention maps with its head.
        layer: of the stream, or of the block that queries, keys, values, neurons and maps belong to.
        head: of an attention map, from 0; None for a mean over heads and for everything else.
    """

    place: str
    number: str
    layer: int
    head: int | None = None

    def __str__(self) -> str:
        return f"{PLACE_WORDS[self.place]}: {self.number}, layer {self.layer}"


@dataclass(frozen=True, eq=False)
class UnderGauge:
    """One gauge: what its proof found, and every number after it.

    Attributes:
        label: the gauge with its choices, in words.
        proof: the sentence of its proof.
        difference: how far outputs moved in float64.
        narrow_difference: how far in the decoder's own type; NaN where that is float64.
        output_floor: rounding of the outputs in that type; NaN likewise.
        after: float64 `documents numbers`.
        reasons: why a number cannot move, one for each; None where nothing says so.
    """

    label: str
    proof: str
    difference: float
    narrow_difference: float
    output_floor: float
    after: np.ndarray
    reasons: tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class GaugedNumbers:
    """Numbers of a decoder on documents before and after gauges, in float64 throughout.

    Attributes:
        decoder: its name.
        titles: of the documents.
        numbers: names of the columns.
        before: float64 `documents numbers`.
        floor: `numbers`: how far the same number is from that of a pass in float32, the type a laboratory takes it in
            (for a decoder in float64, that distance times 2^-29, the ratio of the two types' roundings, and times the
            largest condition number of the gauges), or how far rounding of these states in float64 moves it, where
            that is more: a singular value of zero shows as one of 1e-8.
        under: gauges that were verified, by name.
        refused: gauges that the decoder does not admit, with the reason.
        failed: gauges that were applied and moved the outputs, with the difference in words; nothing else is known of
            them.
        tokens: of each document, the first one included; 0 where a record does not say.
    """

    decoder: str
    titles: tuple[str, ...]
    numbers: tuple[PlacedNumber, ...]
    before: np.ndarray
    floor: np.ndarray
    under: Mapping[str, UnderGauge]
    refused: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 0

    def verdicts(self, gauge: str, *, level: float, resamples: int, seed: int) -> list[Verdict]:
        """A verdict on every number under one gauge, in the order of `numbers`.

        Args:
            gauge: its name.
            level: nominal coverage of the intervals.
            resamples: how often documents are resampled.
            seed: of the resampling.

        Raises:
            ArgumentError: the gauge was not applied.
        """
        if gauge not in self.under:
            raise ArgumentError(
                f"Argument `gauge` must be one that was applied, but {gauge!r} was not"
                + (f" ({self.refused[gauge]})" if gauge in self.refused else "")
                + f". Applied: {', '.join(self.under) or 'none'}."
            )
        one = self.under[gauge]
        return verdicts(
            self.before,
            one.after,
            floors=self.floor,
            reasons=list(one.reasons),
            level=level,
            resamples=resamples,
            seed=seed,
        )

    def rows(self, *, level: float, resamples: int, seed: int) -> list[dict[str, Any]]:
        """Every verdict as plain data for strict JSON: gauge, place, measurement, layer, head, what a verdict holds.

        Args:
            level: nominal coverage of the intervals.
            resamples: how often documents are resampled.
            seed: of the resampling.
        """
        return [
            {
                "gauge": gauge,
                "place": number.place,
                "measurement": number.number,
                "layer": number.layer,
                "head": number.head,
                **one.row(),
            }
            for gauge in self.under
            for number, one in zip(
                self.numbers, self.verdicts(gauge, level=level, resamples=resamples, seed=seed), strict=True
            )
        ]

    def proofs(self) -> dict[str, dict[str, Any]]:
        """What verified each gauge as plain data for strict JSON; None where the decoder is float64 itself."""
        return {
            name: {
                "label": one.label,
                **{word: None if (value := getattr(one, word)) != value else value for word in _PROOF},
                "proof": one.proof,
            }
            for name, one in self.under.items()
        }

    def dataset(self) -> xr.Dataset:
        """All of it as a labeled dataset over gauge, number and document, with axes of its own."""
        import xarray as xr

        shape = (len(self.under), *self.before.shape)
        gauges = list(self.under.values())
        after = np.stack([one.after for one in gauges]) if gauges else np.empty(shape)
        texts = list(dict.fromkeys(text for one in gauges for text in one.reasons if text is not None))
        places = {text: place for place, text in enumerate(texts)}
        reasons = [[-1 if text is None else places[text] for text in one.reasons] for one in gauges]
        attrs = {
            "definition": "each number before and after a re-parametrization that leaves the function unchanged",
            "decoder": self.decoder,
            "tokens": "without_first",
            "refused": json.dumps(dict(self.refused)),
            "failed": json.dumps(dict(self.failed)),
            "tokens_each": self.tokens,
            "labels": json.dumps({name: one.label for name, one in self.under.items()}),
            "proofs": json.dumps({name: one.proof for name, one in self.under.items()}),
            "reasons": json.dumps(texts),
        }
        numbers = "gauged_number"
        return xr.Dataset(
            {
                "gauge_before": (("gauge_document", numbers), self.before),
                "gauge_after": (("gauge", "gauge_document", numbers), after, attrs),
                "gauge_floor": ((numbers,), self.floor, {"definition": "how far rounding alone moves a number"}),
                "gauge_reason": (("gauge", numbers), np.array(reasons, dtype=np.int32).reshape(shape[::2])),
                **{f"gauge_{name}": (("gauge",), [getattr(one, name) for one in gauges]) for name in _PROOF},
            },
            coords={
                "gauge": list(self.under),
                "gauge_document": list(self.titles),
                numbers: np.arange(len(self.numbers)),
                "gauged_place": (numbers, [one.place for one in self.numbers]),
                "gauged_measurement": (numbers, [one.number for one in self.numbers]),
                "gauged_layer": (numbers, [one.layer for one in self.numbers]),
                "gauged_head": (numbers, [-1 if one.head is None else one.head for one in self.numbers]),
            },
        )

    @classmethod
    def of(cls, dataset: xr.Dataset) -> GaugedNumbers | None:
        """What a record holds of gauges; None where it holds nothing.

        Args:
            dataset: the measurements of a record.
        """
        if "gauge_after" not in dataset:
            return None
        attrs = dataset["gauge_after"].attrs
        held = {name: json.loads(str(attrs[name])) for name in ("refused", "labels", "proofs", "reasons")}
        after = dataset["gauge_after"].transpose("gauge", "gauge_document", "gauged_number").values
        reasons = dataset["gauge_reason"].transpose("gauge", "gauged_number").values
        labels = zip(
            dataset["gauged_place"].values,
            dataset["gauged_measurement"].values,
            dataset["gauged_layer"].values,
            dataset["gauged_head"].values,
            strict=True,
        )
        return cls(
            decoder=str(attrs["decoder"]),
            titles=tuple(map(str, dataset["gauge_document"].values)),
            numbers=tuple(
                PlacedNumber(str(place), str(number), int(layer), None if head < 0 else int(head))
                for place, number, layer, head in labels
            ),
            before=dataset["gauge_before"].transpose("gauge_document", "gauged_number").values,
            floor=dataset["gauge_floor"].values,
            under={
                str(name): UnderGauge(
                    label=held["labels"][str(name)],
                    proof=held["proofs"][str(name)],
                    **{one: float(dataset[f"gauge_{one}"].values[g]) for one in _PROOF},
                    after=after[g],
                    reasons=tuple(None if index < 0 else held["reasons"][index] for index in reasons[g]),
                )
                for g, name in enumerate(dataset["gauge"].values)
            },
            refused=held["refused"],
            failed=json.loads(str(attrs.get("failed", "{}"))),
            tokens=int(attrs.get("tokens_each", 0)),
        )
