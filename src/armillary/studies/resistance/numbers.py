"""What is measured of every rung at every tap: the same numbers, of the same token sets, prepared alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.alignment import mean_overlap, squared_mean_direction
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.clustering import cluster_count, clustering_order_parameter
from armillary.observables.declaration import Measurement
from armillary.observables.drift import sublayer_update
from armillary.observables.rank import participation_rank
from armillary.records.assembly import Variable
from armillary.studies.plan import CENTERED, GROUPS, ROGUE, SPHERE, TAPS
from armillary.terms import CALIBRATED, LONGEST_STEP

__all__ = ["AFTER_BLOCKS", "EVERYWHERE", "PREPARATIONS", "TOKENS", "Numbers", "variables"]

TOKENS = ("all", "without_first")
"""Token sets: the first token of a trained decoder can be unlike all others."""

EVERYWHERE: tuple[Measurement, ...] = (
    mean_overlap.after(*SPHERE),
    mean_overlap.after(*ROGUE),
    squared_mean_direction.after(*SPHERE),
    squared_mean_direction.after(*ROGUE),
    participation_rank.after(*SPHERE),
    participation_rank.after(*CENTERED),
    participation_rank.after(*ROGUE),
)
"""At every tap: what the budget of each sublayer is made of."""

AFTER_BLOCKS: tuple[Measurement, ...] = (
    mean_overlap.after(*CENTERED),
    clustering_order_parameter(GROUPS).after(*CENTERED),
    cluster_count(GROUPS).after(*CENTERED),
)
"""After every block besides, without the first token."""

READ: tuple[Measurement, ...] = (
    mean_overlap.after(*SPHERE),
    squared_mean_direction.after(*SPHERE),
    participation_rank.after(*SPHERE),
    participation_rank.after(*CENTERED),
)
"""Of what the next sublayer reads, where that is known: what a norm makes of the stream."""

PREPARATIONS = tuple(dict.fromkeys(["as given", *(str(one.preparation) for one in (*EVERYWHERE, *AFTER_BLOCKS))]))

UPDATES = {
    "update_norm": ("|u| / |x|", "length of the sublayer's update over the length of the stream before it", 0.0),
    "update_radial": ("u.x / |x|^2", "radial part of the update over the length before, positive outward", -math.inf),
    "update_tangential": ("|u_t| / |x|", "part of the update orthogonal to the stream, over the length before", 0.0),
    "update_angle": ("angle(x, x + u)", "angle in radians by which the sublayer turns a token", 0.0),
}
STEPS = dict(
    zip(
        CALIBRATED,
        (
            ("eta", "length of the step that a sublayer makes, over that of a unit row"),
            ("a", "angle in radians by which this sublayer of the decoder turns tokens, which the step should realize"),
            ("angle(x, x + eta u)", "angle in radians by which the step does turn tokens"),
        ),
        strict=True,
    )
)
_FULL = ("condition", "tap", "layer", "tokens", "preparation", "document")
_UPDATE = ("condition", "tap", "layer", "tokens", "document")
_STEP = ("condition", "tap", "layer", "document")
_COURSE = ("condition", "layer", "document")


def variables(tokens: int, width: int) -> dict[str, Variable]:
    """Every variable of the record, before anything is measured.

    Args:
        tokens: In each document.
        width: Of the stream.
    """
    found: dict[str, Variable] = {}
    for one in (*EVERYWHERE, *AFTER_BLOCKS):
        lowest, highest = one.observable.attainable(tokens, width)
        attrs: dict[str, Any] = {
            "symbol": one.observable.symbol, "definition": one.observable.definition,
            "source": one.observable.source, "undefined": one.observable.undefined,
            **dict(one.observable.parameters),
        }  # fmt: skip
        attrs |= {key: float(end) for key, end in (("lowest", lowest), ("highest", highest)) if math.isfinite(end)}
        found[one.name] = Variable(_FULL, attrs)
    for name, (symbol, words, lowest) in UPDATES.items():
        attrs = {
            "symbol": symbol,
            "definition": f"{words}, mean over tokens; tap mid: attention's update, tap block: the MLP's",
            "source": "u = y - x between neighboring taps",
            "undefined": "at the embedding, and for a sublayer that is left out",
        }
        attrs |= {"lowest": lowest} if math.isfinite(lowest) else {}
        found[name] = Variable(_UPDATE, attrs)
    for name, (symbol, words) in STEPS.items():
        attrs = {
            "symbol": symbol,
            "definition": f"{words}, on the calibration documents, mean over tokens without the first",
            "source": f"x becomes unit(x + eta u / rms u); eta by bisection up to {LONGEST_STEP:g}",
            "undefined": "in rungs whose steps do not follow the decoder's pace, and for a sublayer that is left out",
            "lowest": 0.0,
        }
        found[name] = Variable(_STEP, attrs)
    found["path_length"] = Variable(
        _COURSE,
        {
            "symbol": "arc",
            "definition": "angle in radians that a token has turned by sublayer after sublayer since the embedding, "
            "mean over tokens without the first",
            "source": "sum of the angles of all sublayers",
            "undefined": "never",
            "lowest": 0.0,
        },
    )
    found["path_straightness"] = Variable(
        _COURSE,
        {
            "symbol": "angle(x_0, x_l) / arc",
            "definition": "angle between a token's direction now and at the embedding, over the angle it has turned by "
            "on the way: 1 on a great circle; mean over tokens without the first",
            "source": "geodesic distance over length of the path",
            "undefined": "at the embedding",
            "lowest": 0.0,
            "highest": 1.0,
        },
    )
    found["matched_time"] = Variable(
        _COURSE,
        {
            "symbol": "s",
            "definition": "time of the idealized flow that a layer is matched to, in rungs that follow the flow",
            "source": "see `clock` in the label of the rung",
            "undefined": "in all other rungs",
            "lowest": 0.0,
        },
    )
    return found


class Numbers:
    """The numbers of one chunk of documents in one rung; told the state at every tap in order.

    Args:
        layers: Measured layers, ascending.
        depth: Number of blocks.
        documents: In the chunk.
        tokens: In each document.
        width: Of the stream.
        calibration: The rogue coordinates, alike at every tap and on every rung; None where there are none.
    """

    def __init__(
        self,
        *,
        layers: Sequence[int],
        documents: int,
        tokens: int,
        width: int,
        calibration: Calibration | None,
    ) -> None:
        self.rows = {layer: row for row, layer in enumerate(layers)}
        self.calibration = calibration
        sizes = {
            "tap": len(TAPS), "layer": len(layers), "tokens": len(TOKENS), "preparation": len(PREPARATIONS),
            "document": documents,
        }  # fmt: skip
        self.arrays = {
            name: np.full([documents, *(sizes[axis] for axis in one.inner)], np.nan)
            for name, one in variables(tokens, width).items()
        }
        self._before: Tensor | None = None
        self._first: Tensor | None = None
        self._arc: Tensor | None = None

    def add(self, tap: Tap, residual: Tensor, read: Tensor | None = None) -> None:
        """Take the numbers of one tap.

        Args:
            tap: Where.
            residual: The stream, or unit rows, `documents tokens dim`.
            read: What the next sublayer reads of it; None where there is none or it is not known.
        """
        self._move(tap, residual)
        if tap.layer not in self.rows:
            return
        cloud = Cloud(residual, calibration=self.calibration)
        sets = (cloud, cloud.without_tokens(1))
        for one in EVERYWHERE:
            if one.preparation.needs_calibration and cloud.calibration is None:
                continue
            for place, tokens in enumerate(sets):
                self._put(one, tap.place, tap.layer, place, one.of(tokens))
        if tap.place == "block":
            for one in AFTER_BLOCKS:
                self._put(one, "block", tap.layer, 1, one.of(sets[1]))
        cloud.forget()
        if read is not None and read is not residual:
            seen = Cloud(read)
            for one in READ:
                for place, tokens in enumerate((seen, seen.without_tokens(1))):
                    self._put(one, f"{tap.place}_read", tap.layer, place, one.of(tokens))
            seen.forget()

    def at_time(self, layer: int, time: float) -> None:
        """The time of the flow that a layer is matched to."""
        if layer in self.rows:
            self.arrays["matched_time"][:, self.rows[layer]] = time

    def with_steps(self, steps: Mapping[str, np.ndarray]) -> None:
        """The steps of a paced rung, as `Matrices.calibrated` found them."""
        for name, values in steps.items():
            for part, tap in enumerate(("mid", "block")):
                for layer, row in self.rows.items():
                    if layer:
                        self.arrays[name][:, TAPS.index(tap), row] = values[part, layer - 1]

    def _put(self, one: Measurement, tap: str, layer: int, tokens: int, values: Tensor) -> None:
        where = (TAPS.index(tap), self.rows[layer], tokens, PREPARATIONS.index(str(one.preparation)))
        self.arrays[one.name][(slice(None), *where)] = values.double().cpu().numpy()

    def _move(self, tap: Tap, residual: Tensor) -> None:
        """How far tokens went since the tap before, and since the embedding."""
        if self._before is None:
            self._before = self._first = residual
            self._arc = torch.zeros(residual.shape[:-1], dtype=torch.float64)
            self._course(tap, residual)
            return
        assert self._arc is not None
        if residual is not self._before:  # a sublayer that is left out hands the same tensor on
            update = sublayer_update(self._before, residual)
            self._arc += torch.nan_to_num(update.angle).double().cpu()
            if tap.layer in self.rows:
                for name in UPDATES:
                    part = getattr(update, name.removeprefix("update_")).double().cpu()
                    means = torch.stack([part.mean(-1), part[:, 1:].mean(-1)], -1)
                    self.arrays[name][:, TAPS.index(tap.place), self.rows[tap.layer]] = means.numpy()
        self._before = residual
        if tap.place == "block":
            self._course(tap, residual)

    def _course(self, tap: Tap, residual: Tensor) -> None:
        if tap.layer not in self.rows:
            return
        assert self._arc is not None
        assert self._first is not None
        row, arc = self.rows[tap.layer], self._arc[:, 1:]
        self.arrays["path_length"][:, row] = arc.mean(-1).numpy()
        if tap.layer:
            across = sublayer_update(self._first, residual).angle[:, 1:].double().cpu()
            self.arrays["path_straightness"][:, row] = (across / arc).mean(-1).clamp(max=1.0).numpy()
