"""The labeled numbers of a laboratory: one xarray dataset with a value for each document, condition, tap and layer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.observables.alignment import histogram_edges
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Measurement, Preparation
from armillary.observables.rank import isotropic_participation_rank, rank_ceiling, rank_tolerance
from armillary.sphere import uniform
from armillary.studies.distributions import PREPARATIONS
from armillary.studies.plan import CENTERED, TAPS, TOKEN_SETS, Plan, position_bands
from armillary.studies.reader import TapReader
from armillary.studies.scalars import UPDATES

if TYPE_CHECKING:
    import xarray

__all__ = ["Layout", "as_dataset"]

_DRAWS = 4
_UPDATE_WORDS = {
    "norm": (
        "|u| / |x|",
        "length of the sublayer's update over the length of the stream before it, mean over tokens",
    ),
    "radial": ("u.x / |x|^2", "radial part of the update over the length before, positive outward, mean over tokens"),
    "tangential": (
        "|u_t| / |x|",
        "part of the update orthogonal to the stream, over the length before, mean over tokens",
    ),
    "angle": ("angle(x, x + u)", "angle in radians between the stream before and after the sublayer, mean over tokens"),
}
_UPDATE_RANGES = {
    "norm": {"lowest": 0.0},
    "radial": {},
    "tangential": {"lowest": 0.0},
    "angle": {"lowest": 0.0, "highest": math.pi},
}
_SCALAR = ("condition", "tap", "layer", "tokens", "preparation", "document")


@dataclass(frozen=True)
class Layout:
    """The axes of a laboratory's numbers, and what their attributes say.

    Args:
        layers: Measured layers, ascending.
        measurements: At the stream after every block.
        titles: Of the documents.
        tokens: Tokens in each document.
        depth: Number of blocks of the decoder.
        width: Coordinates of its stream.
        resolution: eps of the dtype of its states.
        plan: The laboratory's further choices.
        transformations: Names of the maps of the statement, in order.
        seed: Of the statement's maps.
    """

    layers: tuple[int, ...]
    measurements: tuple[Measurement, ...]
    titles: tuple[str, ...]
    tokens: int
    depth: int
    width: int
    resolution: float
    plan: Plan
    transformations: tuple[str, ...]
    seed: int


def as_dataset(layout: Layout, readers: Mapping[str, TapReader], losses: Mapping[str, np.ndarray]) -> xarray.Dataset:
    """All numbers of a run with their labels, definitions and sources; NaN means not measured or undefined.

    Args:
        layout: Axes and conventions.
        readers: For each condition, what was read.
        losses: For each condition, the next-token loss of each document, `documents`.

    Returns:
        The dataset of the record; its layout is described in docs/architecture.md.
    """
    import xarray as xr

    conditions, plan = list(readers), layout.plan
    preparations = list(dict.fromkeys(["as given", *(str(m.preparation) for m in layout.measurements)]))
    variables = _scalars(layout, readers, preparations)
    variables |= _updates(readers)
    variables |= _pictures(layout, readers)
    variables |= _references(layout, preparations)
    isotropic, found = _isotropic(layout)
    variables |= found
    variables["loss"] = (
        ("condition", "document"),
        np.stack([losses[name] for name in conditions]),
        {
            "symbol": "loss",
            "definition": "next-token cross entropy on the same tokens, nats per token",
            "source": "the decoder's own head",
            "undefined": "never",
            "units": "nats per token",
            "lowest": 0.0,
        },
    )
    bands = position_bands(layout.tokens, plan.bands)
    edges = histogram_edges(plan.bins).numpy()
    steps = [", ".join(one) for one in PREPARATIONS]
    coordinates: dict[str, Any] = {
        "condition": conditions,
        "layer": np.asarray(layout.layers),
        "tap": list(TAPS),
        "tokens": list(TOKEN_SETS),
        "preparation": preparations,
        "document": list(layout.titles),
        "bin": ("bin", (edges[:-1] + edges[1:]) / 2, {"edges": edges}),
        "threshold": ("threshold", np.asarray(plan.thresholds), {"units": "radians"}),
        "band": [f"{start}-{stop - 1}" for start, stop in bands],
        "component": np.arange(layout.tokens - 1),
        "position": np.arange(layout.tokens),
        "coordinate": np.arange(layout.width),
        "histogram_tokens": list(TOKEN_SETS),
        "histogram_preparation": steps,
        "spectrum_preparation": steps,
        "isotropic_measurement": isotropic,
    }
    statement = next(iter(readers.values())).statement.values
    if statement:
        coordinates |= {
            "transformation": ["none", *layout.transformations],
            "statement_layer": np.asarray(list(statement)),
            "statement_measurement": [str(one) for one in layout.measurements],
        }
        variables["statement_value"] = (
            ("transformation", "statement_layer", "statement_measurement", "document"),
            np.stack([statement[layer] for layer in statement], axis=1),
            {
                "definition": "each measurement of the stream before and after a change of basis x -> x M",
                "condition": conditions[0],
                "tap": "block",
                "tokens": "without_first",
                "seed": layout.seed,
                "general_linear_seed": layout.seed,
                "condition_number": plan.condition_number,
            },
        )
    attrs = {"layers": layout.depth, "width": layout.width, "tokens_per_document": layout.tokens}
    return xr.Dataset(variables, coords=coordinates, attrs=attrs)


def _scalars(layout: Layout, readers: Mapping[str, TapReader], preparations: list[str]) -> dict[str, tuple[Any, ...]]:
    shape = (
        len(readers),
        len(TAPS),
        len(layout.layers),
        len(TOKEN_SETS),
        len(preparations),
        len(layout.titles),
    )
    found: dict[str, tuple[Any, ...]] = {}
    asked: dict[str, list[list[str]]] = {}
    for c, reader in enumerate(readers.values()):
        blocks: list[tuple[str, str, str, Measurement | None, np.ndarray]]
        blocks = [(place, m.name, str(m.preparation), m, block) for (place, m), block in reader.scalars.values.items()]
        blocks += [
            (place, "massive_tokens", "as given", None, block) for place, block in reader.scalars.massive.items()
        ]
        for place, name, preparation, measurement, block in blocks:
            if name not in found:
                attrs = _massive(layout) if measurement is None else _attributes(layout, measurement)
                found[name], asked[name] = (_SCALAR, np.full(shape, np.nan), attrs), []
            found[name][1][c, TAPS.index(place), :, :, preparations.index(preparation)] = block
            sets = TOKEN_SETS[:1] if name == "stream_norm_first" else TOKEN_SETS
            asked[name] += [[place, tokens, preparation] for tokens in sets if c == 0]
    for name, (_, _, attrs) in found.items():
        attrs["measured"] = json.dumps(asked[name])
    return found


def _range(lowest: float, highest: float) -> dict[str, float]:
    """The attainable range as attributes: ends of intervals are cut there."""
    return {k: float(v) for k, v in (("lowest", lowest), ("highest", highest)) if math.isfinite(v)}


def _massive(layout: Layout) -> dict[str, Any]:
    ratio = layout.plan.massive_ratio
    words = f"number of tokens whose norm exceeds {ratio:g} times the median norm of their document"
    return {
        "symbol": "n_massive",
        "definition": words,
        "source": "Sun et al. 2024",
        "undefined": "never",
        "lowest": 0.0,
    }


def _attributes(layout: Layout, measurement: Measurement) -> dict[str, Any]:
    one = measurement.observable
    attrs: dict[str, Any] = {
        "symbol": one.symbol,
        "definition": one.definition,
        "source": one.source,
        "undefined": one.undefined,
        **dict(one.parameters),
        **_range(*one.attainable(layout.tokens, layout.width)),
    }
    if one.name == "algebraic_rank":
        share = rank_tolerance(layout.tokens, layout.width, layout.resolution)
        attrs["tolerance"] = f"max(T, d) eps s_max, at most {share:.2e} s_max; eigenvalues in float64"
    return attrs


def _updates(readers: Mapping[str, TapReader]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for part in UPDATES:
        blocks = []
        for reader in readers.values():
            block = np.stack([reader.scalars.updates[(place, part)] for place in ("block", "mid")])
            blocks.append(np.concatenate([block, np.full_like(block, np.nan)]))
        symbol, words = _UPDATE_WORDS[part]
        measured = [[place, tokens] for place in ("block", "mid") for tokens in TOKEN_SETS]
        found[f"update_{part}"] = (
            ("condition", "tap", "layer", "tokens", "document"),
            np.stack(blocks),
            {
                "symbol": symbol,
                "definition": f"{words}; tap mid: attention's update, tap block: the MLP's",
                "source": "u = y - x between neighboring taps",
                "undefined": "a zero row, and at the embedding",
                "measured": json.dumps(measured),
                **_UPDATE_RANGES[part],
            },
        )
    return found


def _pictures(layout: Layout, readers: Mapping[str, TapReader]) -> dict[str, tuple[Any, ...]]:
    every, width = readers.values(), layout.width
    count = len(layout.titles)
    swept = {"tap": "block", "tokens": "without_first", "preparation": ", ".join(CENTERED)}
    sweep = ("condition", "layer", "threshold", "document")
    blank, rows = np.full(width, np.nan), range(len(layout.layers))
    directions = [[reader.distributions.mean_direction.get(row, blank) for row in rows] for reader in every]
    return {
        "overlap_histogram": (
            ("condition", "layer", "histogram_tokens", "histogram_preparation", "document", "bin"),
            np.stack([reader.distributions.histogram for reader in every]),
            {
                "definition": "exact counts of overlaps over unordered pairs i < j, no self-pair; bins half open, the "
                "last closed, rounding beyond +-1 counted in the end bins; all zero = undefined",
                "tap": "block",
            },
        ),
        "singular_values": (
            ("condition", "layer", "spectrum_preparation", "document", "component"),
            np.stack([reader.distributions.singular_values for reader in every]),
            {"definition": "singular values of the rows, descending", "tap": "block", "tokens": "without_first"},
        ),
        "order_parameter_sweep": (
            sweep,
            np.stack([reader.distributions.orders for reader in every]),
            {
                "definition": "sum of squared shares of groups connected within the threshold angle",
                **swept,
                **_range(1.0 / layout.tokens, 1.0),
            },
        ),
        "cluster_count_sweep": (
            sweep,
            np.stack([reader.distributions.counts for reader in every]),
            {
                "definition": "number of groups, connected components within the threshold angle",
                **swept,
                **_range(1.0, layout.tokens),
            },
        ),
        "overlap_by_band": (
            ("condition", "layer", "band", "document"),
            np.stack([reader.distributions.by_band for reader in every]),
            {
                "definition": "mean overlap of the pairs whose positions both lie in the band",
                "tap": "block",
                "tokens": "without_first",
                "preparation": "normalize",
                **_range(-1.0, 1.0),
            },
        ),
        "massive_token_mask": (
            ("condition", "layer", "document", "position"),
            np.stack([reader.distributions.massive for reader in every]),
            {
                "definition": f"1 where a norm exceeds {layout.plan.massive_ratio:g} medians of the document",
                "tap": "block",
            },
        ),
        "mean_direction": (
            ("condition", "layer", "coordinate"),
            np.asarray(directions) / count,
            {
                "definition": "mean over documents of the mean of the unit rows",
                "tap": "block",
                "tokens": "without_first",
            },
        ),
    }


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


def _references(layout: Layout, preparations: list[str]) -> dict[str, tuple[Any, ...]]:
    width = layout.width
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
