"""A record of the ladder as its figures see it: rungs by group, their words and looks, and the budget of each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from armillary.errors import ArmillaryError
from armillary.figures.drawing import Curve, Style
from armillary.figures.palette import SERIES, TRAINED
from armillary.figures.reading import Reading
from armillary.studies.resistance.budget import Budget, clustering_budget

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["MAIN", "LadderReading"]

MAIN = (
    "idealized-beta1-causal-ratio",
    "trained-qk",
    "trained-vo",
    "trained-qkvo",
    "gaussian",
    "trained-qkvo-mlp",
    "trained",
    "ablated-mlp",
    "initial-released-seed0",
    "initial-library-seed0",
)
"""The rungs of the first view, where the record has them."""

GROUPS = (
    ("main rungs", ""),
    ("identity matrices, ln 2 a block", "idealized unit"),
    ("identity matrices, measured ratio a block", "idealized ratio"),
    ("attention matrices", "attention"),
    ("with MLPs", "mlp"),
    ("equal steps", "equal"),
    ("the decoder", "decoder"),
)
"""Views of the ladder: words, and the group of rungs."""

_LOOKS = (*SERIES[1:], *(Style(one.color, "dash", "star", 1.3) for one in SERIES[1:]))


_NULLS = tuple(Style(color, "dot", "none", 1.0) for color in ("#6b6b6b", "#D55E00", "#009E73"))


class LadderReading(Reading):
    """The record of a climb, as a reading.

    Args:
        record: an opened record whose study is of the kind "resistance".
    """

    def __init__(self, record: Record, *, among: tuple[str, ...] = ()) -> None:
        super().__init__(record, among=among)
        self.record = record

    @property
    def rungs(self) -> dict[str, dict[str, Any]]:
        """What the study says of each rung, by name."""
        return cast("dict[str, dict[str, Any]]", self.study["rungs"])

    def label(self, condition: str) -> str:
        """The rung in words."""
        return str(self.rungs[condition]["label"]) if condition in self.rungs else super().label(condition)

    def short(self, condition: str) -> str:
        """The rung in a few words, for a legend."""
        rung = self.rungs.get(condition, {})
        if "clock" in rung:
            clock = "ln 2" if rung["clock"] == "unit" else "measured time"
            return f"identity flow, β {rung['beta']:.3g}, {rung['mask']}, {clock}"
        if "scores" not in rung:
            return {"trained": "the decoder", "shuffled": "shuffled tokens"}.get(condition, super().label(condition))
        scores, values, mlp = (_source(str(rung[name])) for name in ("scores", "values", "mlp"))
        circuits = f"QK {scores} · {'V' if values == 'identity' else 'VO'} {values}" if scores != "none" else ""
        parts = [circuits, f"MLP {mlp}" if mlp != "none" else ""]
        parts += ["no positions" if rung["positions"] == "none" else "", "no mask" if rung["mask"] == "full" else ""]
        parts += ["" if rung["reading"] == "trained gains" else str(rung["reading"])]
        return " · ".join(part for part in parts if part)

    @cached_property
    def groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The views that the record has rungs for: words and names."""
        found = []
        for words, group in GROUPS:
            names = tuple(
                name
                for name in self.conditions
                if (name in MAIN if not group else _group(name, self.rungs[name]) == group)
            )
            if len(names) > 1 or (names and not group):
                found.append((words, names))
        return tuple(found)

    def look(self, condition: str, among: tuple[str, ...]) -> Style:
        """How a rung looks among those of a view: the decoder always alike.

        Args:
            condition: its name.
            among: the rungs of the view.
        """
        if condition == "trained":
            return TRAINED
        others = [name for name in among if name != "trained"]
        return _LOOKS[others.index(condition) % len(_LOOKS)]

    def predicted(self, measurement: str) -> tuple[Curve, ...]:
        """What the wide-limit recursion gives for random matrices, one curve a null model.

        Args:
            measurement: "mean_overlap" or "participation_rank".
        """
        name = f"null_{measurement}"
        if name not in self.dataset:
            return ()
        found = []
        for null, look in zip(self.options("null"), _NULLS, strict=False):
            values = np.asarray(self.dataset[name].sel(null=null).mean("document").values, dtype=np.float64)
            x = tuple(float(layer) for layer in self.layers)
            found.append(Curve(f"predicted, {null}", x, tuple(values.tolist()), style=look))
        return tuple(found)

    def budget(self, condition: str, measurement: str, preparation: str, tokens: str) -> Budget | None:
        """The budget of a number in one condition; None where the record has none."""
        try:
            return clustering_budget(
                self.record, condition, measurement=measurement, preparation=preparation, tokens=tokens
            )
        except ArmillaryError:
            return None


def _source(text: str) -> str:
    """Where matrices come from, in a word or two."""
    return f"fresh ({text.split('-')[1]})" if text.startswith("initial-") else text


def _group(name: str, rung: dict[str, Any]) -> str:
    """The group of a rung, from what the study says of it."""
    level = int(rung["level"])
    if level == 1:
        return f"idealized {rung['clock']}"
    if level >= 4:
        return "decoder"
    if name.endswith("-equal"):
        return "equal"
    return "attention" if level == 2 else "mlp"
