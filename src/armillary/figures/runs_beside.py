"""Two simulations side by side: every figure that both have, on the same axes; spheres each by itself, to be turned."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from armillary.figures.beside import Pair, beside
from armillary.figures.drawing import Axis, Drawing
from armillary.figures.run import Run

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["PLAYBACK", "RunPair"]

PLAYBACK = "playback"


class RunPair(Pair):
    """Readings of two simulations that are shown together."""

    @classmethod
    def of(cls, first: Record, second: Record, names: tuple[str, str]) -> RunPair:
        """Readings of two records of simulations."""
        return cls(Run(first), Run(second), names)

    @property
    def runs(self) -> tuple[Run, Run]:
        """Both, left first."""
        assert isinstance(self.first, Run)
        assert isinstance(self.second, Run)
        return self.first, self.second

    @property
    def same_depth(self) -> bool:
        """Times stand where they are: no axis of either is counted in shares."""
        return True

    def depth_axis(self) -> Axis:
        """The axis of layers that two discrete networks share."""
        last = max(float(run.times[-1]) for run in self.runs)
        return Axis("layer", limits=(-0.02 * last, 1.02 * last))

    @cached_property
    def same_starts(self) -> bool:
        """Whether both begin with the same states, so that what differs later comes from the dynamics."""
        held = [run.dataset["states"].values[:, 0] if "states" in run.dataset else None for run in self.runs]
        if held[0] is None or held[1] is None or self.runs[0].times[0] != 0 or self.runs[1].times[0] != 0:
            return False
        return held[0].shape == held[1].shape and bool(np.array_equal(held[0], held[1]))

    def drawings(self) -> dict[str, Drawing]:
        """Every figure that both have, and each one's tokens on the sphere, by name."""
        drawn = self.drawn
        found = {name: beside(self, drawn[0][name], drawn[1][name]) for name in drawn[0] if name in drawn[1]}
        found.pop(PLAYBACK, None)
        for side, letter, name in zip(drawn, ("left", "right"), self.names, strict=True):
            if PLAYBACK in side:
                own = side[PLAYBACK]
                found[f"{PLAYBACK}_{letter}"] = replace(own, name=f"{PLAYBACK}_{letter}", title=f"{own.title}: {name}")
        return found
