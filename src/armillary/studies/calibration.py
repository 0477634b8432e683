"""What calibration documents are for: at each layer the mean row, and the coordinates that carry the overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.cloud import Calibration
from armillary.observables.drift import massive_tokens
from armillary.studies.finite import require_finite
from armillary.studies.plan import Plan

__all__ = ["CalibrationReader", "as_arrays", "as_calibrations"]


class CalibrationReader:
    """The mean row and the rogue coordinates of every layer, from states of documents that are not measured.

    First and massive tokens, and zero rows, are left out. A coordinate's part in the mean overlap is the square of its
    mean over the unit rows; the rogue ones are those with the largest part.

    Args:
        plan: Massive ratio and number of rogue coordinates.
        condition: Name, for messages.
        titles: Of the calibration documents, for messages.
    """

    def __init__(self, plan: Plan, *, condition: str, titles: Sequence[str]) -> None:
        self.plan, self.condition, self.titles = plan, condition, titles
        self.start = 0
        self._rows: dict[int, Tensor] = {}
        self._directions: dict[int, Tensor] = {}
        self._count: dict[int, int] = {}

    def at(self, start: int) -> CalibrationReader:
        """The reader, told that the next batch begins with document `start`."""
        self.start = start
        return self

    def __call__(self, tap: Tap, residual: Tensor, read: Tensor) -> None:
        """Add one batch of states at one tap."""
        require_finite(residual, tap=tap, condition=self.condition, titles=self.titles[self.start :])
        if tap.place != "block":
            return
        rows = residual.double().cpu()
        norms = rows.norm(dim=-1)
        kept = ~massive_tokens(norms, ratio=self.plan.massive_ratio) & (norms > 0)
        kept[:, 0] = False
        chosen = rows[kept]
        nothing = torch.zeros(rows.shape[-1], dtype=torch.float64)
        self._rows[tap.layer] = self._rows.get(tap.layer, nothing) + chosen.sum(0)
        directions = (chosen / norms[kept][:, None]).sum(0)
        self._directions[tap.layer] = self._directions.get(tap.layer, nothing) + directions
        self._count[tap.layer] = self._count.get(tap.layer, 0) + len(chosen)

    def result(self) -> dict[int, Calibration]:
        """The calibration of each layer."""
        found = {}
        for layer, count in self._count.items():
            part = (self._directions[layer] / count).square()
            top = torch.topk(part, min(self.plan.rogue_coordinates, len(part))).indices.tolist()
            found[layer] = Calibration(mean=self._rows[layer] / count, coordinates=tuple(sorted(top)))
        return found


def as_arrays(found: Mapping[int, Calibration]) -> dict[str, np.ndarray]:
    """The calibration of each layer as arrays that a journal keeps: layers, mean rows, rogue coordinates."""
    return {
        "layers": np.asarray(list(found)),
        "mean": torch.stack([one.mean for one in found.values()]).numpy(),
        "coordinates": np.asarray([one.coordinates for one in found.values()]),
    }


def as_calibrations(arrays: Mapping[str, np.ndarray]) -> dict[int, Calibration]:
    """The calibration of each layer from what `as_arrays` made of it."""
    rows = zip(arrays["layers"].tolist(), arrays["mean"], arrays["coordinates"].tolist(), strict=True)
    return {layer: Calibration(mean=torch.from_numpy(mean), coordinates=tuple(one)) for layer, mean, one in rows}
