"""The audit that a record holds: numbers before and after each transformation, judged again without a decoder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.invariance.judgment import Audit, Finding, Tried, judged

if TYPE_CHECKING:
    import xarray

__all__ = ["FLOOR", "UNTOUCHED", "VALUE", "audits", "groups"]

VALUE, FLOOR, UNTOUCHED = "statement_value", "statement_floor", "none"
_ROTATION = "orthogonal"
_ROUNDING = 1e-6
_SAFETY = 10.0
_TURNED = 1e-3
_TINY = 1e-9
_AXES = ("transformation", "statement_layer", "statement_measurement", "document")


def audits(dataset: xarray.Dataset, *, level: float, resamples: int, seed: int) -> dict[int, Audit]:
    """The judgments at every layer of the statement.

    A record from before floors were stored is judged by the floors of its time: what moves a number by less than a
    millionth, or ten times what a rotation moves it by, is rounding.

    Args:
        dataset: The measurements of a record.
        level: Nominal coverage of the intervals.
        resamples: How often documents are resampled.
        seed: Of the resampling.

    Returns:
        By layer; empty where the record holds no statement.
    """
    if VALUE not in dataset:
        return {}
    stored = dataset[VALUE]
    numbers = stored.transpose(*_AXES)
    labels = {axis: [str(one) for one in numbers[axis].values] for axis in _AXES}
    if UNTOUCHED not in labels["transformation"]:
        return {}
    first = labels["transformation"].index(UNTOUCHED)
    documents = int(stored.attrs.get("documents", numbers.sizes["document"]))
    floors = dataset[FLOOR].transpose(*_AXES).values if FLOOR in dataset else None
    said = _said(stored.attrs)
    found = {}
    for place, layer in enumerate(numbers["statement_layer"].values):
        values = np.asarray(numbers.values[:, place, :, :documents], dtype=np.float64)
        tried = [t for t in range(len(values)) if t != first and not np.isnan(values[t]).all()]
        names = [labels["transformation"][t] for t in tried]
        before = values[first].T
        after = np.moveaxis(values[tried], 1, 2)
        floor = _older(before, after, names) if floors is None else _largest(floors[tried, place])
        found[int(layer)] = judged(
            Tried(before, after, floor[:, None]),
            measurements=labels["statement_measurement"], transformations=names, reasons=said["reasons"],
            findings=said["findings"], without_claims=said["without_claims"], level=level, resamples=resamples,
            seed=seed, layer=int(layer),
        )  # fmt: skip
    return found


def groups(dataset: xarray.Dataset) -> dict[str, str]:
    """The group of each transformation, in words; empty in records that do not say."""
    found: dict[str, str] = json.loads(dataset[VALUE].attrs.get("groups", "{}")) if VALUE in dataset else {}
    return found


def _said(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside the numbers: reasons by pair, witnesses that moved, and who claims nothing."""
    texts, claims = (json.loads(attrs.get(name, empty)) for name, empty in (("reasons", "[]"), ("claims", "{}")))
    witnesses = json.loads(attrs.get("witnesses", "[]"))
    return {
        "reasons": {(m, t): texts[index] for m, by_map in claims.items() for t, index in by_map.items()},
        "findings": [
            Finding(**{**one, "after": math.nan if one["after"] is None else one["after"]}) for one in witnesses
        ],
        "without_claims": json.loads(attrs.get("without_claims", "[]")),
    }


def _largest(floors: np.ndarray) -> np.ndarray:
    """The largest floor of any document, `transformations measurements`; NaN where none was measured."""
    known = ~np.isnan(floors)
    return np.where(known.any(axis=-1), np.where(known, floors, -np.inf).max(axis=-1), np.nan)


def _older(before: np.ndarray, after: np.ndarray, names: list[str]) -> np.ndarray:
    """Floors of a record that stored none, `transformations measurements`."""
    size = np.where(np.isnan(before), 0.0, np.abs(before)).max(axis=0).clip(min=_TINY)
    share = np.full(before.shape[1], _ROUNDING)
    if _ROTATION in names:
        apart = np.abs(after[names.index(_ROTATION)] - before)
        turned = np.where(np.isnan(apart), 0.0, apart).max(axis=0) / size
        share = np.where(turned <= _TURNED, np.maximum(_ROUNDING, _SAFETY * turned), _ROUNDING)
    floors: np.ndarray = np.tile(share * size, (len(names), 1))
    return floors
