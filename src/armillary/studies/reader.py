"""From the states of one pass to numbers: each tap's rows are reduced inside the pass and never kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.cloud import Calibration
from armillary.studies.batch import Grid, TapBatch
from armillary.studies.distributions import Distributions
from armillary.studies.finite import require_finite
from armillary.studies.scalars import Scalars
from armillary.studies.statement import Statement

__all__ = ["TapReader"]


class TapReader:
    """The sink that `stream` calls: hands every tap of every batch of one condition to its statistics.

    Args:
        grid: Layers, documents, tokens, plan.
        scalars: One number for each document.
        distributions: More than one, at the stream after every block.
        statement: Numbers before and after changes of basis.
        calibrations: For each layer, what was estimated on other documents.
        condition: Name, for messages.
        titles: Document titles, for messages.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        scalars: Scalars,
        distributions: Distributions,
        statement: Statement,
        calibrations: Mapping[int, Calibration],
        condition: str,
        titles: Sequence[str],
    ) -> None:
        self.scalars, self.distributions, self.statement = scalars, distributions, statement
        self._rows = {layer: row for row, layer in enumerate(grid.layers)}
        self._plan, self._calibrations = grid.plan, calibrations
        self._condition, self._titles = condition, titles
        self._start = 0
        self._before: Tensor | None = None

    def at(self, start: int) -> TapReader:
        """The reader, told that the next batch begins with document `start`."""
        self._start, self._before = start, None
        return self

    def __call__(self, tap: Tap, residual: Tensor, read: Tensor) -> None:
        """Reduce one batch of states at one tap.

        Raises:
            NumericalError: If a state is not finite, at a measured layer or not.
        """
        before, self._before = self._before, residual
        norms = torch.linalg.vector_norm(
            residual, dim=-1, dtype=torch.promote_types(residual.dtype, torch.float32)
        ).cpu()
        if not bool(torch.isfinite(norms).all()):
            require_finite(residual, tap=tap, condition=self._condition, titles=self._titles[self._start :])
        if tap.layer not in self._rows:
            return
        batch = TapBatch(
            tap,
            row=self._rows[tap.layer],
            start=self._start,
            before=before,
            residual=residual,
            read=read,
            norms=norms,
            calibration=self._calibrations.get(tap.layer),
            plan=self._plan,
        )
        self.scalars.add(batch)
        if tap.place == "block":
            self.distributions.add(batch)
            self.statement.add(batch)
        batch.forget()
