"""Named configurations that separate: what a generic cloud leaves alone by accident, one of these moves.

A generic cloud has full rank, so that a number that counts directions looks blind to a translation; its rows have like
lengths, its overlaps are small. Each witness takes one of these accidents away.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.invariance.floors import stretch
from armillary.observables.cloud import Calibration
from armillary.sphere import opposed_pairs
from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import DiagonalGain, GeneralLinear, Linear

__all__ = ["RESOLUTION", "WITNESSES", "Witness", "for_witness"]

_TOKENS, _DIM = 16, 6
RESOLUTION = torch.finfo(torch.float32).eps
"""Tolerances on witnesses are those of states in single precision, far above what rounding does in double."""


@dataclass(frozen=True, eq=False)
class Witness:
    """One named configuration.

    Args:
        name: What to call it.
        shows: What it takes away.
        rows: `tokens dim`, float64.
    """

    name: str
    shows: str
    rows: Tensor

    @property
    def calibration(self) -> Calibration:
        """A mean row and a coordinate for the steps that take these from other documents."""
        return Calibration(0.5 * self.rows.mean(0) + 0.25 * self.rows[0], (0,))


def _drawn(seed: int, tokens: int = _TOKENS, dim: int = _DIM) -> Tensor:
    return torch.randn(tokens, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _rank_deficient() -> Tensor:
    return _drawn(1, dim=3) @ _drawn(2, tokens=3)


def _far_token() -> Tensor:
    rows = _drawn(3)
    rows[5] *= 100.0
    return rows


def _aligned() -> Tensor:
    return 0.3 * _drawn(4) + torch.tensor([4.0, 3.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)


WITNESSES = (
    Witness("opposed pairs", "two groups, rank one, mean direction zero; all lengths equal", opposed_pairs()),
    Witness("rank-deficient cloud", "16 rows in three of six dimensions: a translation adds one", _rank_deficient()),
    Witness("one far token", "one row is a hundred times as long as the others", _far_token()),
    Witness("aligned cloud", "overlaps near one: a mean direction carries nearly everything", _aligned()),
    Witness("identity", "I_2, which diag(2, 1) takes from participation rank 2 to 25/17", torch.eye(2).double()),
)
"""The package's own."""


def for_witness(transformation: Transformation, dim: int) -> Transformation:
    """The transformation in the dimension of a witness; one of the same kind where it was given for another.

    Args:
        transformation: As it is applied to states.
        dim: Of the witness.

    Returns:
        It; for gains those that fall evenly from 2 to 1 (on I_2: diag(2, 1)); for a given matrix a general one of its
        condition number.
    """
    if isinstance(transformation, DiagonalGain):
        return DiagonalGain(torch.logspace(1, 0, dim, base=2.0, dtype=torch.float64), name=str(transformation))
    if isinstance(transformation, Linear):
        return GeneralLinear(max(1.0, stretch(transformation, 1, len(transformation.given))), 0)
    return transformation
