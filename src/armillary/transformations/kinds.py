"""Which kinds of transformation hold which: what a larger family cannot change, a smaller one cannot either."""

from __future__ import annotations

from armillary.transformations.linear import DiagonalGain, FeaturePermutation, GeneralLinear, Linear, Orthogonal
from armillary.transformations.rows import Centering, GlobalScale, RowScale, Shift, Translation

__all__ = ["kinds_with"]

_WITHIN: dict[type, tuple[type, ...]] = {
    Orthogonal: (GeneralLinear,),
    FeaturePermutation: (Orthogonal, GeneralLinear),
    Linear: (GeneralLinear,),
    DiagonalGain: (GeneralLinear,),
    GlobalScale: (RowScale, DiagonalGain, GeneralLinear),
    Centering: (Translation,),
    Shift: (Translation,),
}
"""Kind -> kinds that hold it: what a member of a larger family cannot change, one of a smaller cannot either."""


def kinds_with(kind: type) -> tuple[type, ...]:
    """The kinds of transformation that hold every one of this kind, itself first.

    Args:
        kind: A class of transformations.
    """
    return (kind, *_WITHIN.get(kind, ()))
