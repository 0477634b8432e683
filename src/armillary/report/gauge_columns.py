"""Re-parametrizations as columns beside transformations: heads, cells, the table of other places, and the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from armillary.figures.reading import Reading
from armillary.invariance.judgment import Judgment
from armillary.records.gauge_summary import number_words, part_by_place
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers, PlacedNumber
from armillary.report.markup import Markup, counted, element, join, minus, paragraph, table
from armillary.report.verdict_cells import cell

__all__ = ["GaugeColumns"]


@dataclass(frozen=True, eq=False)
class GaugeColumns:
    """What a table of verdicts takes from gauges; nothing, and false, where a record holds none.

    Attributes:
        numbers: of a record; None if it holds none.
        judged: a judgment for each number and gauge.
        choices: level, resamples and seed.
        in_table: numbers of the stream that have a row in the table of transformations.
    """

    numbers: GaugedNumbers | None
    judged: Mapping[tuple[PlacedNumber, str], Judgment]
    choices: Mapping[str, float]
    in_table: frozenset[str]

    @classmethod
    def of(cls, reading: Reading) -> GaugeColumns:
        """All of them.

        Args:
            reading: of a record.
        """
        found = GaugedNumbers.of(reading.dataset)
        choices = {"level": float(reading.level), "resamples": int(reading.resamples), "seed": int(reading.seed)}
        if found is None or not found.under:
            return cls(None, {}, choices, frozenset())
        judged = {
            (number, gauge): Judgment(number.number, gauge, verdict, None, number.layer)
            for gauge in found.under
            for number, verdict in zip(
                found.numbers,
                found.verdicts(
                    gauge, level=choices["level"], resamples=int(choices["resamples"]), seed=int(choices["seed"])
                ),
                strict=True,
            )
        }
        rows = {name for audit in reading.audits.values() for name in audit.measurements}
        return cls(found, judged, choices, frozenset(rows))

    def __bool__(self) -> bool:
        return self.numbers is not None

    @property
    def gauges(self) -> tuple[str, ...]:
        """Names of the verified ones."""
        return () if self.numbers is None else tuple(self.numbers.under)

    def words(self) -> Markup:
        """What every gauge leaves and what belongs to a basis, in one paragraph."""
        if self.numbers is None:
            return Markup("")
        still, moved = part_by_place(
            self.numbers,
            level=self.choices["level"],
            resamples=int(self.choices["resamples"]),
            seed=int(self.choices["seed"]),
        )
        said = (
            "Of the numbers above, and of those of heads and neurons in the tables below, these are unmoved by every "
            f"listed re-parametrization that leaves the function unchanged: {'; '.join(still) or 'none'}. These depend "
            f"on a basis that training happened to choose: {'; '.join(moved) or 'none'}."
        )
        return paragraph(element("strong", said))

    def heads(self) -> list[object]:
        """One for each gauge."""
        small = element("small", "leaves the function unchanged", class_="part")
        return [] if self.numbers is None else [self._head(name, small) for name in self.gauges]

    def cells(self, measurement: str, layer: int) -> list[Markup]:
        """The verdicts on a number of the stream, one for each gauge."""
        number = PlacedNumber("stream", measurement, layer)
        return [
            cell(self.judged[number, gauge]) if (number, gauge) in self.judged else element("td", "not tried")
            for gauge in self.gauges
        ]

    def how(self) -> Markup:
        """On what these columns stand, in a paragraph."""
        if self.numbers is None:
            return Markup("")
        return paragraph(
            "Columns that leave the function unchanged are re-parametrizations of the trained decoder, verified on "
            f"{self._documents()} of {self._tokens()} and measured there in float64, before and after; the value "
            "before in the first table is that of the transformations. Behind it stands what transformations of the "
            "stream do not reach: what the next norm hands on, heads (of attention the first), neurons."
        )

    def elsewhere(self) -> Markup:
        """The table of what transformations of the stream do not reach: what is read, heads, neurons, attention."""
        if self.numbers is None:
            return Markup("")
        layers = list(dict.fromkeys(one.layer for one in self.numbers.numbers))
        main = layers[(len(layers) - 1) // 2]
        others = [self._elsewhere(layer) for layer in layers if layer != main]
        folded = element("details", element("summary", "The same at the other layers"), *others) if others else ""
        return join([self._elsewhere(main), folded])

    def _elsewhere(self, layer: int) -> Markup:
        found = self.numbers
        assert found is not None
        rows: list[list[object]] = []
        for place, words in PLACE_WORDS.items():
            here = [(k, one) for k, one in enumerate(found.numbers) if self._belongs(one, place, layer)]
            rows += [[words]] if here else []
            for k, one in here:
                mean = float(found.before[:, k].mean())
                value = "undefined" if mean != mean else minus(f"{mean:.4g}")
                shown = element("td", element("span", value, class_="num"), class_="value")
                cells = [cell(self.judged[one, gauge]) for gauge in self.gauges]
                rows.append([number_words(one.number), shown, *cells])
        return table(
            f"Layer or block {layer}: numbers elsewhere than in the stream, under each re-parametrization.",
            ["", "before", *(self._head(name, "") for name in self.gauges)],
            rows,
            class_="verdicts",
        )

    def _belongs(self, one: PlacedNumber, place: str, layer: int) -> bool:
        shown = not (place == "stream" and one.number in self.in_table) and one.head in (None, 0)
        return one.place == place and one.layer == layer and shown

    def _head(self, name: str, below: object) -> Markup:
        assert self.numbers is not None
        return join([element("span", name, title=self.numbers.under[name].label), below])

    def _documents(self) -> str:
        assert self.numbers is not None
        return counted(len(self.numbers.titles), "document")

    def _tokens(self) -> str:
        assert self.numbers is not None
        return counted(self.numbers.tokens, "token") if self.numbers.tokens else "the same tokens"
