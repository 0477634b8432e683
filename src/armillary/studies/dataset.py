"""The labeled numbers of a laboratory: the arrays of all chunks put together in one xarray dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Preparation
from armillary.observables.rank import isotropic_participation_rank, rank_ceiling
from armillary.sphere import uniform
from armillary.studies.collector import Declared, Variable
from armillary.studies.collectors import COLLECTORS
from armillary.studies.layout import Layout

if TYPE_CHECKING:
    import xarray

__all__ = ["as_dataset", "declared"]

_DRAWS = 4

Chunks = Mapping[str, Sequence[Mapping[str, np.ndarray]]]
"""Condition -> the arrays of its chunks, in the order of the documents."""


def as_dataset(layout: Layout, chunks: Chunks) -> xarray.Dataset:
    """All numbers of a run with their labels, definitions and sources; NaN means not measured or undefined.

    Args:
        layout: Axes and conventions.
        chunks: For each condition, what was measured of all documents.

    Returns:
        The dataset of the record; its layout is described in docs/architecture.md.
    """
    import xarray as xr

    contributed = declared(layout)
    labels = layout.coordinates | dict(contributed.coordinates)
    isotropic, references = _isotropic(layout)
    labels["isotropic_measurement"] = isotropic
    variables: dict[str, tuple[Any, ...]] = {
        name: (one.dims, assembled(name, one, layout, chunks), dict(one.attrs))
        for name, one in contributed.variables.items()
    }
    variables |= references | _references(layout)
    attrs = {"layers": layout.depth, "width": layout.width, "tokens_per_document": layout.tokens}
    return xr.Dataset(variables, coords=labels, attrs=attrs)


def declared(layout: Layout) -> Declared:
    """What all collectors contribute."""
    variables: dict[str, Variable] = {}
    coordinates: dict[str, Any] = {}
    for kind in COLLECTORS:
        one = kind.declared(layout)
        variables |= one.variables
        coordinates |= one.coordinates
    return Declared(variables, coordinates)


def assembled(name: str, variable: Variable, layout: Layout, chunks: Chunks) -> np.ndarray:
    """The numbers of one variable, chunk after chunk, with the axes in their declared order."""
    conditions = layout.conditions if "condition" in variable.dims else layout.conditions[:1]
    first = chunks[conditions[0]][0][name]
    inner = [axis for axis in variable.dims if axis not in ("condition", "document")]
    lengths = dict(zip(inner, first.shape[first.ndim - len(inner) :], strict=True))
    lengths |= {"condition": len(conditions), "document": len(layout.titles)}
    numbers = np.empty([lengths[axis] for axis in variable.dims], dtype=variable.dtype)
    outer = [axis for axis in ("condition", "document") if axis in variable.dims]
    held = numbers.transpose([variable.dims.index(axis) for axis in (*outer, *inner)])
    for place, condition in zip(held if "condition" in variable.dims else [held], conditions, strict=True):
        if "document" in variable.dims:
            _side_by_side(place, [one[name] for one in chunks[condition]])
        else:
            place[...] = _total([one[name] for one in chunks[condition]]) / len(layout.titles)
    return numbers


def _side_by_side(place: np.ndarray, parts: Sequence[np.ndarray]) -> None:
    start = 0
    for part in parts:
        place[start : start + len(part)] = part
        start += len(part)


def _total(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Added in the order of the chunks, so that the last bit does not depend on which was measured first."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _isotropic(layout: Layout) -> tuple[list[str], dict[str, tuple[Any, ...]]]:
    """What a cloud of independent uniform directions of the same size gives, for whatever is measured of unit rows."""
    chosen = [one for one in layout.measurements if one.preparation.unit_rows and not one.preparation.needs_calibration]
    draws = [Cloud(uniform(tokens=layout.tokens - 1, dim=layout.width, seed=seed)) for seed in range(_DRAWS)]
    values = [np.mean([float(one.of(draw)) for draw in draws]) for one in chosen]
    spectrum = np.mean([draw.singular_values.numpy() for draw in draws], axis=0)
    padded = np.full(layout.tokens - 1, np.nan)
    padded[: len(spectrum)] = spectrum
    words = f"mean over {_DRAWS} clouds of independent uniform directions, as many rows and coordinates"
    return [str(one) for one in chosen], {
        "isotropic_value": (("isotropic_measurement",), np.asarray(values), {"definition": words}),
        "isotropic_singular_values": (("component",), padded, {"definition": f"singular values, {words}"}),
    }


def _references(layout: Layout) -> dict[str, tuple[Any, ...]]:
    width, preparations = layout.width, layout.preparations
    counts = [layout.tokens, layout.tokens - 1, layout.tokens - 1]
    ceiling = [[rank_ceiling(n, width, Preparation.parse(p)) for p in preparations] for n in counts]
    isotropic = [[isotropic_participation_rank(n, width, Preparation.parse(p)) for p in preparations] for n in counts]
    return {
        "reference_ceiling": (
            ("tokens", "preparation"),
            np.asarray(ceiling, dtype=float),
            {"definition": "largest value any rank can take: min(T, d), or min(T - 1, d) after centering"},
        ),
        "reference_isotropic": (
            ("tokens", "preparation"),
            np.asarray(isotropic),
            {"definition": "participation rank of an isotropic cloud of that size, n d / (n + d - 1), n = T or T - 1"},
        ),
    }
