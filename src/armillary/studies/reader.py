"""From the states of one pass to numbers: each tap's rows are reduced inside the pass and never kept."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Setting
from armillary.studies.finite import require_finite

__all__ = ["TapReader"]


class TapReader:
    """The sink that `stream` calls: hands every tap of one pass to the collectors.

    Args:
        setting: Layers, calibration, plan.
        collectors: What takes numbers.
        titles: Of the documents of this pass, for messages.
    """

    def __init__(self, setting: Setting, collectors: Sequence[Collector], titles: Sequence[str]) -> None:
        self._setting, self._collectors, self._titles = setting, tuple(collectors), titles
        self._before: Tensor | None = None

    def __call__(self, tap: Tap, residual: Tensor, read: Tensor | None) -> None:
        """Reduce the states at one tap.

        Raises:
            NumericalError: If a state is not finite, at a measured layer or not.
        """
        before, self._before = self._before, residual
        setting = self._setting
        norms = torch.linalg.vector_norm(
            residual, dim=-1, dtype=torch.promote_types(residual.dtype, torch.float32)
        ).cpu()
        if not bool(torch.isfinite(norms).all()):
            require_finite(residual, tap=tap, condition=setting.condition, titles=self._titles)
        if tap.layer not in setting.layout.rows:
            return
        batch = TapBatch(
            tap,
            row=setting.layout.rows[tap.layer],
            before=before,
            residual=residual,
            read=read,
            norms=norms,
            calibration=setting.calibrations.get(tap.layer),
            plan=setting.layout.plan,
            resolution=setting.layout.resolution,
            titles=self._titles[: len(residual)],
        )
        for collector in self._collectors:
            collector.add(batch)
        batch.forget()
