"""Curves read from a record: per-document values in, value and document-bootstrap interval out.

Nothing is measured here. A reading selects stored numbers by their labels and asks `estimates` for intervals over
documents; what the record lacks is None, and what is undefined stays NaN.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import UNPAIRED_TOKENS, intervals
from armillary.figures.drawing import Axis, Curve, Style
from armillary.figures.palette import condition_style
from armillary.records.audits import audits
from armillary.records.floors import floor_name
from armillary.records.methods import grouping_words
from armillary.terms import condition_label, measurement_name

if TYPE_CHECKING:
    from armillary.invariance.judgment import Audit
    from armillary.records.record import Record

__all__ = ["DEFAULT_TOKENS", "Numbers", "Profile", "Reading", "curve_of"]

Numbers = NDArray[np.float64]

DEFAULT_TOKENS = "without_first"


@dataclass(frozen=True)
class Profile:
    """Values with intervals along one labeled axis; NaN where undefined."""

    x: tuple[float | str, ...]
    value: Numbers
    low: Numbers
    high: Numbers
    members: NDArray[np.int64]

    def at(self, x: float | str) -> tuple[float, float, float, int]:
        """Value, low, high and number of documents at one position; NaN and 0 where it was not measured."""
        if x not in self.x:
            return math.nan, math.nan, math.nan, 0
        place = self.x.index(x)
        return float(self.value[place]), float(self.low[place]), float(self.high[place]), int(self.members[place])


class Reading:
    """A record as a figure sees it: conditions, layers, and profiles of any stored variable.

    Args:
        record: an opened record; only its dataset, study, provenance and hash are read.
        among: every condition that is shown beside its own, so that each keeps one look; empty for its own.

    Raises:
        ArgumentError: its study lacks the level, resamples or seed of the intervals.
    """

    def __init__(self, record: Record, *, among: tuple[str, ...] = ()) -> None:
        self.dataset = record.dataset
        self.study = record.study
        self.provenance = record.provenance
        missing = [key for key in ("level", "resamples", "seed") if key not in self.study]
        if missing:
            raise ArgumentError(
                f"Argument `record` must have a study with level, resamples and seed, but its study has no "
                f"{' and no '.join(missing)}, so no interval can be computed. Name a record that `armillary lab` wrote."
            )
        self.level, self.resamples, self.seed = (self.study[key] for key in ("level", "resamples", "seed"))
        self.digest = str(getattr(record, "measurements_hash", "not recorded"))
        self._among = among or self.conditions
        self._profiles: dict[tuple[Any, ...], Profile | None] = {}

    @classmethod
    def of(cls, source: Record | Reading) -> Reading:
        """A reading of a record; a reading is handed on as it is, so page and print share its intervals."""
        return source if isinstance(source, cls) else cls(source)  # type: ignore[arg-type]

    @cached_property
    def audits(self) -> dict[int, Audit]:
        """Which of the numbers survived which transformation, by layer; empty where that was not tried."""
        return audits(self.dataset, level=self.level, resamples=self.resamples, seed=self.seed)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the conditions, in the record's order; none in a simulation."""
        if "condition" not in self.dataset:
            return ()
        return tuple(str(name) for name in self.dataset["condition"].values)

    @property
    def layers(self) -> tuple[int, ...]:
        """Measured layers; 0 is the embedding."""
        return tuple(int(layer) for layer in self.dataset["layer"].values)

    @property
    def documents(self) -> tuple[str, ...]:
        """Titles of the documents."""
        return tuple(str(title) for title in self.dataset["document"].values)

    def label(self, condition: str) -> str:
        """The condition in words."""
        return condition_label(condition)

    def style(self, condition: str) -> Style:
        """The condition's look."""
        return condition_style(condition, self._among)

    def options(self, coordinate: str) -> tuple[str, ...]:
        """The labels of a coordinate, in order; empty where the record has none."""
        if coordinate not in self.dataset.coords:
            return ()
        return tuple(str(value) for value in self.dataset[coordinate].values)

    def attribute(self, variable: str, name: str, otherwise: str = "") -> str:
        """An attribute of a variable as text."""
        return str(self.dataset[variable].attrs.get(name, otherwise)) if variable in self.dataset else otherwise

    @property
    def grouping(self) -> str:
        """The declared grouping in words; empty where the record has none."""
        return grouping_words(self.dataset)

    @property
    def mapped_condition(self) -> str:
        """The condition whose states the statement mapped, in words."""
        return self.label(self.attribute("statement_value", "condition") or self.conditions[0])

    def measured(self, variable: str, tap: str, tokens: str, preparation: str) -> bool:
        """Whether the record says that a combination was asked for; a missing number there is undefined."""
        if variable not in self.dataset:
            return False
        asked = self.dataset[variable].attrs.get("measured")
        if asked is None:
            return (
                self.values(variable, condition=self.conditions[0], tap=tap, tokens=tokens, preparation=preparation)
                is not None
            )
        return [tap, tokens, preparation] in (json.loads(asked) if isinstance(asked, str) else asked)

    def chosen(self, *wanted: tuple[str, str]) -> tuple[tuple[str, str], ...]:
        """As many measurements as wanted: those of them that the record has, then its own in the study's order.

        Args:
            wanted: (measurement, preparation) each, at the stream after the block without the first token.
        """
        own = (measurement_name(str(text)) for text in self.study.get("measurements", ()))
        has = [one for one in dict.fromkeys((*wanted, *own)) if self.measured(one[0], "block", DEFAULT_TOKENS, one[1])]
        return tuple(has[: len(wanted)])

    def values(self, variable: str, along: str | None = "layer", **labels: Any) -> Numbers | None:
        """Stored values [document, along] (or [document]) at the given labels; None where the record has none.

        Args:
            variable: name in the dataset.
            along: the axis that is kept beside documents, or None.
            labels: a label for every other dimension; those the variable lacks are ignored.
        """
        if variable not in self.dataset:
            return None
        array = self.dataset[variable]
        chosen = {name: label for name, label in labels.items() if name in array.dims}
        for name, label in chosen.items():
            if name in array.coords and label not in array[name].values:
                return None
        array = array.sel(chosen)
        kept = ("document",) if along is None else ("document", along)
        if set(array.dims) != set(kept):
            return None
        return np.asarray(array.transpose(*kept).values, dtype=np.float64)

    def profile(self, variable: str, along: str = "layer", **labels: Any) -> Profile | None:
        """Value and interval along an axis; None where the record has nothing defined there."""
        key = (variable, along, *sorted(labels.items()))
        if key not in self._profiles:
            together = (
                labels if labels.get("condition") not in self.conditions else {**labels, "condition": self.conditions}
            )
            self._read(variable, along, together)
        return self._profiles.get(key)

    def contrast(self, variable: str, first: str, second: str, along: str = "layer", **labels: Any) -> Profile | None:
        """Paired difference, condition `first` minus condition `second`, document by document, along an axis."""
        if labels.get("tokens") in UNPAIRED_TOKENS:
            raise UnsoundError(
                f"Argument `tokens` must be a set that is the same in both conditions, but {labels['tokens']!r} is "
                "chosen anew in every state. Use 'without_first' or 'all'."
            )
        key = (variable, first, second, along, *sorted(labels.items()))
        if key not in self._profiles:
            one = self.values(variable, along, condition=first, **labels)
            other = self.values(variable, along, condition=second, **labels)
            if one is None or other is None:
                self._profiles[key] = None
            else:
                lowest, highest = self.attainable(variable)
                ends = (lowest - highest, highest - lowest)
                self._profiles[key] = self.summary(one - other, self._positions(along), ends)
        return self._profiles[key]

    def floor(self, variable: str, first: str, second: str, layer: int, **labels: Any) -> float:
        """How far rounding alone moves the difference of two conditions at a layer; NaN where that was not measured.

        Args:
            variable: name in the dataset.
            first: the condition that is subtracted from.
            second: the condition that is subtracted.
            layer: where.
            labels: a label for every other dimension.
        """
        held = self.dataset.get(floor_name(variable))
        if held is None:
            return math.nan
        where = {name: label for name, label in {**labels, "layer": layer}.items() if name in held.dims}
        return float(sum(held.sel(where | {"condition": name}).item() for name in (first, second)))

    def one(self, variable: str, **labels: Any) -> tuple[float, float, float, int]:
        """Value, low, high and number of documents of a variable that has only documents left."""
        values = self.values(variable, None, **labels)
        if values is None:
            return math.nan, math.nan, math.nan, 0
        profile = self.summary(values[:, None], (0,), self.attainable(variable))
        return (math.nan, math.nan, math.nan, 0) if profile is None else profile.at(0)

    def isotropic(self, measurement: str, preparation: str) -> float:
        """What a cloud of independent uniform directions of the same size gives (first token left out); NaN if unknown.

        Args:
            measurement: name of the variable.
            preparation: ordered steps.
        """
        for place, text in enumerate(self.options("isotropic_measurement")):
            if measurement_name(text) == (measurement, preparation):
                return float(self.dataset["isotropic_value"].values[place])
        return self._reference("reference_isotropic", preparation) if measurement == "participation_rank" else math.nan

    def ceiling(self, preparation: str) -> float:
        """The largest value any rank can take (first token left out); NaN if unknown."""
        return self._reference("reference_ceiling", preparation)

    def _reference(self, variable: str, preparation: str) -> float:
        if variable not in self.dataset:
            return math.nan
        array = self.dataset[variable]
        where = {"tokens": DEFAULT_TOKENS, "preparation": preparation}
        known = all(label in array[name].values for name, label in where.items() if name in array.coords)
        return float(array.sel(where)) if known else math.nan

    def attainable(self, variable: str) -> tuple[float, float]:
        """Lowest and highest value that a variable can take, as its attributes state them."""
        attrs = self.dataset[variable].attrs if variable in self.dataset else {}
        return float(attrs.get("lowest", -math.inf)), float(attrs.get("highest", math.inf))

    def summary(
        self,
        values: Numbers,
        x: tuple[float | str, ...],
        ends: tuple[ArrayLike, ArrayLike] = (-math.inf, math.inf),
    ) -> Profile | None:
        """Values [document, x] with intervals cut at `ends`; None where nothing is defined."""
        defined = np.isfinite(values).any(axis=0)
        if not defined.any():
            return None
        value, low, high = (np.full(len(x), np.nan) for _ in range(3))
        members = np.isfinite(values).sum(axis=0)
        if values.shape[0] < 2:
            value[defined] = values[0, defined]
        else:
            result = intervals(values[:, defined], level=self.level, resamples=self.resamples, seed=self.seed)
            result = result.within(*(np.broadcast_to(end, len(x))[defined] for end in ends))
            value[defined], low[defined], high[defined] = result.value, result.low, result.high
        return Profile(x, value, low, high, members)

    def curve(self, name: str, style: Style, variable: str, along: str = "layer", **labels: Any) -> Curve | None:
        """A profile as a line; None where there is nothing to draw."""
        return curve_of(self.profile(variable, along, **labels), name, style)

    def by_condition(self, variable: str, along: str = "layer", **labels: Any) -> tuple[Curve, ...]:
        """One line for each condition that has the variable at these labels."""
        curves = (
            self.curve(self.label(name), self.style(name), variable, along, condition=name, **labels)
            for name in self.conditions
        )
        return tuple(curve for curve in curves if curve is not None)

    def depth_axis(self, last: str = "") -> Axis:
        """The layer axis, from "embed" to the last block (which `last` may name otherwise)."""
        layers = self.layers
        top = layers[-1]
        step = 1 if top <= 8 else 2 if top <= 16 else 5 if top <= 40 else 10
        shown = [layer for layer in layers if layer % step == 0] if len(layers) > 8 else list(layers)
        if top not in shown:
            shown = [layer for layer in shown if top - layer >= step / 2] + [top]
        names = {0: "embed"} | ({top: last} if last else {})
        return Axis("layer", ticks=tuple((float(layer), names.get(layer, str(layer))) for layer in shown))

    def _read(self, variable: str, along: str, labels: dict[str, Any]) -> None:
        """Read a profile; where `labels` names several conditions, all of them with one call for their intervals."""
        several = labels.get("condition")
        conditions = several if isinstance(several, tuple) else (several,)
        x = self._positions(along)
        blocks = {
            name: values
            for name in conditions
            if (values := self.values(variable, along, **{**labels, **({} if name is None else {"condition": name})}))
            is not None
        }
        ends = self.attainable(variable)
        whole = self.summary(np.concatenate(list(blocks.values()), axis=1), x * len(blocks), ends) if blocks else None
        for place, name in enumerate(blocks):
            part = slice(place * len(x), (place + 1) * len(x))
            key = (variable, along, *sorted({**labels, **({} if name is None else {"condition": name})}.items()))
            if whole is None or not whole.members[part].any():
                self._profiles[key] = None
            else:
                self._profiles[key] = Profile(
                    x, whole.value[part], whole.low[part], whole.high[part], whole.members[part]
                )

    def _positions(self, along: str) -> tuple[float | str, ...]:
        if along not in self.dataset.coords:
            return tuple(range(self.dataset.sizes[along]))
        return tuple(
            item if isinstance(item, (int, float)) else str(item) for item in self.dataset[along].values.tolist()
        )


def curve_of(profile: Profile | None, name: str, style: Style) -> Curve | None:
    """A profile as a line, or None."""
    if profile is None:
        return None
    value, low, high = (tuple(ends.tolist()) for ends in (profile.value, profile.low, profile.high))
    return Curve(name, profile.x, value, low, high, style)
