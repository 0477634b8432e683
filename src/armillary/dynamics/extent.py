"""How far apart tokens are at most, without all pairs: whether every overlap is above a level, exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["all_overlaps_above"]

_DENSE = 2048
"""Tokens up to which all overlaps are taken at once."""


def all_overlaps_above(rows: Tensor, level: float) -> bool:
    """Whether every two of many unit rows overlap by more than a level.

    Two sweeps show most configurations to be wider. If all rows lie within half the angle of their mean direction they
    are not; what neither decides is left to the pairs of rows whose angles to the mean direction add up to enough.

    Args:
        rows: Unit rows, `tokens dim`.
        level: Within (-1, 1).
    """
    if len(rows) <= _DENSE:
        return bool((rows @ rows.mT).min() > level)
    far = int((rows @ rows[0]).argmin())
    if float((rows @ rows[far]).min()) <= level:
        return False
    middle = rows.mean(0)
    middle = middle / middle.norm()
    away = 2 * torch.asin(((rows - middle).norm(dim=-1) / 2).clamp(max=1.0))
    outer = rows[away + float(away.max()) >= math.acos(level) - 1e-9]
    if not len(outer):
        return True
    return all(bool((part @ outer.mT).min() > level) for part in outer.split(_DENSE))
