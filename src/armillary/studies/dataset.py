"""What the record of a laboratory holds before anything is measured: axes, variables, and what chance alone gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Preparation
from armillary.observables.rank import isotropic_participation_rank, rank_ceiling
from armillary.records.assembly import Variable
from armillary.sphere import uniform
from armillary.studies import collectors
from armillary.studies.axes import with_words
from armillary.studies.collector import Collector, Declared
from armillary.studies.layout import Layout

if TYPE_CHECKING:
    import xarray

__all__ = ["declared", "frame"]

_DRAWS = 4


def frame(layout: Layout, kinds: Sequence[type[Collector]] | None = None) -> xarray.Dataset:
    """The labels of all axes, and what does not come from documents: references and attributes.

    Args:
        layout: Axes and conventions.
        kinds: What will be collected; every collector if None.

    Returns:
        The dataset into which the numbers of chunks are put; its layout is described in docs/architecture.md.
    """
    import xarray as xr

    isotropic, references = _isotropic(layout)
    labels = layout.coordinates | dict(declared(layout, kinds).coordinates) | {"isotropic_measurement": isotropic}
    attrs = {"layers": layout.depth, "width": layout.width, "tokens_per_document": layout.tokens}
    return with_words(xr.Dataset(references | _references(layout), coords=labels, attrs=attrs))


def declared(layout: Layout, kinds: Sequence[type[Collector]] | None = None) -> Declared:
    """What all collectors contribute."""
    variables: dict[str, Variable] = {}
    coordinates: dict[str, Any] = {}
    for kind in collectors.COLLECTORS if kinds is None else kinds:
        one = kind.declared(layout)
        variables |= one.variables
        coordinates |= one.coordinates
    return Declared(variables, coordinates)


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
