"""The clustering budget: by how much each sublayer's step changes a number, document by document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArgumentError
from armillary.estimates import Estimate, Intervals, estimate, intervals

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["COUNTED", "PARTS", "Budget", "clustering_budget"]

PARTS = ("attention", "mlp")
"""Sublayers of a block, in the order in which they act."""

COUNTED: tuple[tuple[str, str, str, str], ...] = (
    ("mean_overlap", "normalize", "all", "mean overlap"),
    ("mean_overlap", "normalize", "without_first", "mean overlap, without the first token"),
    (
        "mean_overlap",
        "without rogue coordinates, normalize",
        "without_first",
        "mean overlap, without the first token and rogue coordinates",
    ),
    ("squared_mean_direction", "normalize", "without_first", "squared mean direction"),
    ("participation_rank", "normalize", "without_first", "participation rank"),
    ("participation_rank", "center, normalize", "without_first", "participation rank, centered"),
)
"""What is counted: measurement, preparation, tokens, and words."""


@dataclass(frozen=True, eq=False)
class Budget:
    """Shares of one number in one condition.

    A sublayer's share is the number after it minus the number before it. Shares of all sublayers add up to the number
    after the last block minus that of the embedding. What a norm makes of the stream on the way into a sublayer is no
    step of the stream; `read` is the number of what is read minus that of the stream it was read from.

    Attributes:
        condition: Its name.
        measurement: Name of the number.
        preparation: Of the rows.
        tokens: Which took part.
        layers: Blocks whose shares are known: they and the block before were measured.
        shares: "attention" and "mlp", `documents layers` each.
        read: The same for what attention and MLP read; NaN where that is not known.
        level: Nominal coverage.
        resamples: Of the documents.
        seed: Of the resampling.
    """

    condition: str
    measurement: str
    preparation: str
    tokens: str
    layers: tuple[int, ...]
    shares: Mapping[str, np.ndarray]
    read: Mapping[str, np.ndarray]
    level: float
    resamples: int
    seed: int

    def by_layer(self, part: str) -> Intervals:
        """The share of one kind of sublayer at every layer, with its intervals over documents.

        Args:
            part: "attention" or "mlp".
        """
        return intervals(self.shares[_known(part)], level=self.level, resamples=self.resamples, seed=self.seed)

    def total(self, part: str, *, layers: range | None = None) -> Estimate:
        """The share of one kind of sublayer summed over layers, with its interval over documents.

        Args:
            part: "attention" or "mlp".
            layers: Which blocks; all if None.
        """
        chosen = [place for place, layer in enumerate(self.layers) if layers is None or layer in layers]
        values = self.shares[_known(part)][:, chosen].sum(axis=1)
        return estimate(values, level=self.level, resamples=self.resamples, seed=self.seed)

    def signs(self, part: str) -> tuple[int, int]:
        """In how many documents the summed share is positive, and of how many blocks the mean share is.

        Args:
            part: "attention" or "mlp".
        """
        values = self.shares[_known(part)]
        return int((values.sum(axis=1) > 0).sum()), int((values.mean(axis=0) > 0).sum())


def clustering_budget(record: Record, condition: str, *, measurement: str, preparation: str, tokens: str) -> Budget:
    """The budget of one number in one condition of a record of `armillary resist`.

    Args:
        record: The record.
        condition: Its name, or a beginning that only one has.
        measurement: "mean_overlap", "squared_mean_direction" or "participation_rank".
        preparation: "normalize", for instance.
        tokens: "all" or "without_first".

    Returns:
        Shares of attention and MLP by document and block; a sublayer that is left out has shares of zero.

    Raises:
        ArgumentError: Nothing was measured there, or no two neighboring layers.
    """
    name = record.condition(condition)
    data = record.dataset
    if measurement not in data or "mid" not in data["tap"].values:
        raise ArgumentError(
            f"Argument `measurement` must have been measured after attention, but {measurement!r} was not. Name one of "
            f"{', '.join(dict.fromkeys(one[0] for one in COUNTED))}."
        )
    values = data[measurement].sel(condition=name, tokens=tokens, preparation=preparation)
    by_tap = {str(tap): values.sel(tap=tap).transpose("document", "layer").values for tap in data["tap"].values}
    layers = [int(layer) for layer in data["layer"].values]
    places = [place for place, layer in enumerate(layers) if place and layers[place - 1] == layer - 1]
    if not places or not np.isfinite(by_tap["mid"][:, places]).any():
        raise ArgumentError(
            f"Argument `record` must hold neighboring layers and the stream between sublayers, but for {name} it does "
            "not. Measure all layers of a decoder whose sublayers act one after the other."
        )
    before = by_tap["block"][:, [place - 1 for place in places]]
    mid, after = by_tap["mid"][:, places], by_tap["block"][:, places]
    read = {
        "attention": by_tap["block_read"][:, [place - 1 for place in places]] - before,
        "mlp": by_tap["mid_read"][:, places] - mid,
    }
    study = record.study
    return Budget(
        name, measurement, preparation, tokens, tuple(layers[place] for place in places),
        {"attention": mid - before, "mlp": after - mid}, read,
        study["level"], study["resamples"], study["seed"],
    )  # fmt: skip


def _known(part: str) -> str:
    if part not in PARTS:
        raise ArgumentError(f"Argument `part` must be {' or '.join(PARTS)}, but is {part!r}. Name one of them.")
    return part
