"""A small, complete laboratory record with invented numbers: 3 conditions, 4 blocks, 6 documents.

Everything that draws or prints a record is tested against this one, so that no test of a picture needs a model. The
curves are smooth and plausible, never measured; a few entries are undefined on purpose: the centered ranks of the
ablated decoder near consensus (every document), one document's centered rank elsewhere, and whatever was not asked for.
Keys, labels and attributes are those of a real record; `test_report.py` compares them with one that a laboratory wrote.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary.invariance.audit import standard
from armillary.observables.declaration import OBSERVABLES as DECLARED
from armillary.studies.axes import with_words
from armillary.studies.between import Between
from armillary.studies.collector import attainable
from armillary.studies.plan import default_between_layers, default_measurements
from armillary.studies.statement import claimed
from armillary.terms import RANKS
from armillary.transformations.linear import DiagonalGain
from sample_attention import FOLLOWED, LINKED, NUMBERS, attention_variables, group_variables

if TYPE_CHECKING:
    import xarray

CONDITIONS = ("trained", "initial-library-seed0", "ablated-mlp")
BLOCKS = 4
DOCUMENTS = ("assert", "assignment", "<b>bold & brash</b>", "class", "comparisons", "with")
TOKENS_PER_DOCUMENT = 48
WIDTH = 64
HEADS = 4
LAYERS = tuple(range(BLOCKS + 1))
TAPS = ("block", "mid", "block_read", "mid_read")
TOKENS = ("all", "without_first", "without_first_and_massive")
PREPARATIONS = (
    "as given",
    "normalize",
    "center, normalize",
    "center",
    "corpus mean, normalize",
    "without rogue coordinates, normalize",
)
CORE = ("normalize", "center, normalize")
ON_THE_SPHERE = (*CORE, *PREPARATIONS[4:])
WITHIN = 0.785398
GROUPING = f"connected components within {WITHIN} rad of angular distance"
PARAMETERS = {
    "exponential_overlap": "(beta=4)",
    "cluster_count": f"({GROUPING})",
    "clustering_order_parameter": f"({GROUPING})",
}
LIGHT = ("mean_overlap", "squared_mean_direction", "participation_rank")
NORMS = (
    "stream_norm_mean",
    "stream_norm_spread",
    "stream_norm_median",
    "stream_norm_first",
    "massive_tokens",
    "zero_rows",
)
BANDS = ("1-3", "4-15", "16-47")
RULE = "titles sorted, at least 48 tokens, first 6"
THRESHOLDS = np.round(np.arange(0.1, 1.6, 0.1), 10)
EDGES = np.linspace(-1.0, 1.0, 65)
COUNTED = {
    "all": TOKENS_PER_DOCUMENT,
    "without_first": TOKENS_PER_DOCUMENT - 1,
    "without_first_and_massive": TOKENS_PER_DOCUMENT - 1,
}

# name: (symbol, definition, source, undefined when, preparations, trained curve, initial curve, ablated curve, spread)
# a curve is (value at the embedding, value at the last block); ranks are scaled up for centered rows
OBSERVABLES: dict[str, tuple[Any, ...]] = {
    "mean_overlap": (
        "mean c_ij",
        "mean of x_i . x_j over unordered pairs i < j",
        "course note, week 11",
        "fewer than two rows",
        ON_THE_SPHERE,
        (0.10, 0.55),
        (0.05, 0.85),
        (0.10, 0.985),
        0.02,
    ),
    "squared_mean_direction": (
        "|m|^2",
        "squared length of the mean of the rows",
        "course note, week 11",
        "no rows",
        ("normalize",),
        (0.12, 0.56),
        (0.07, 0.86),
        (0.12, 0.986),
        0.02,
    ),
    "participation_rank": (
        "R",
        "(sum l)^2 / sum l^2 of the eigenvalues l of the Gram matrix",
        "course note, week 11",
        "the rows vanish after the preparation",
        PREPARATIONS,
        (12.2, 2.7),
        (14.0, 1.3),
        (12.2, 1.02),
        0.25,
    ),
    "algebraic_rank": (
        "rank",
        "singular values above max(T, d) eps s_1, in float64",
        "Golub and Van Loan",
        "no rows",
        ("normalize",),
        (38.0, 47.0),
        (38.0, 47.0),
        (38.0, 47.0),
        1.0,
    ),
    "entropy_rank": (
        "R_ent(s)",
        "exp of the entropy of s / sum s",
        "Roy and Vetterli 2007",
        "all singular values are zero",
        CORE,
        (30.0, 12.0),
        (32.0, 4.0),
        (30.0, 1.6),
        0.6,
    ),
    "squared_entropy_rank": (
        "R_ent(s^2)",
        "exp of the entropy of s^2 / sum s^2",
        "Roy and Vetterli 2007",
        "all singular values are zero",
        CORE,
        (20.0, 6.0),
        (22.0, 2.0),
        (20.0, 1.2),
        0.5,
    ),
    "stable_rank": (
        "|X|_F^2 / s_1^2",
        "squared Frobenius norm over squared spectral norm",
        "Rudelson and Vershynin 2007",
        "all singular values are zero",
        CORE,
        (6.0, 1.7),
        (7.0, 1.15),
        (6.0, 1.01),
        0.1,
    ),
    "nuclear_over_spectral": (
        "sum s / s_1",
        "nuclear norm over spectral norm",
        "matrix norms",
        "all singular values are zero",
        CORE,
        (14.0, 5.0),
        (15.0, 2.5),
        (14.0, 1.3),
        0.3,
    ),
    "smallest_overlap": (
        "min c",
        "smallest overlap of any pair",
        "consensus: the smallest overlap is 1",
        "fewer than two rows",
        ("normalize",),
        (-0.4, 0.2),
        (-0.1, 0.4),
        (-0.4, 0.9),
        0.02,
    ),
    "exponential_overlap": (
        "mean e^{beta(c-1)}",
        "mean over pairs of exp(beta (c_ij - 1))",
        "Geshkovski et al. 2023",
        "fewer than two rows",
        CORE,
        (0.05, 0.2),
        (0.04, 0.6),
        (0.05, 0.95),
        0.01,
    ),
    "cluster_count": (
        "K",
        f"number of groups under {GROUPING}",
        "course note, week 11",
        "no rows",
        ("center, normalize",),
        (40.0, 12.0),
        (42.0, 3.0),
        (40.0, 1.2),
        1.5,
    ),
    "clustering_order_parameter": (
        "sum (n_k/T)^2",
        f"sum of squared group shares under {GROUPING}",
        "course note, week 11",
        "no rows",
        CORE,
        (0.03, 0.25),
        (0.03, 0.7),
        (0.03, 0.97),
        0.02,
    ),
    "stream_norm_mean": (
        "mean |x|",
        "mean length of the rows",
        "armillary",
        "no rows",
        ("as given",),
        (3.0, 90.0),
        (1.0, 3.0),
        (3.0, 20.0),
        0.5,
    ),
    "stream_norm_spread": (
        "sd |x|",
        "standard deviation of the lengths of the rows",
        "armillary",
        "no rows",
        ("as given",),
        (0.4, 9.0),
        (0.05, 0.2),
        (0.4, 2.0),
        0.05,
    ),
    "stream_norm_median": (
        "median |x|",
        "median length of the rows",
        "armillary",
        "no rows",
        ("as given",),
        (3.0, 85.0),
        (1.0, 3.0),
        (3.0, 20.0),
        0.5,
    ),
    "stream_norm_first": (
        "|x_0|",
        "length of the first token's row",
        "armillary",
        "the first token is left out",
        ("as given",),
        (3.0, 900.0),
        (1.0, 3.0),
        (3.0, 22.0),
        1.0,
    ),
    "massive_tokens": (
        "n_massive",
        "number of tokens whose norm exceeds 5 times the median norm of their document",
        "armillary",
        "never",
        ("as given",),
        (0.0, 2.0),
        (0.0, 0.0),
        (0.0, 0.0),
        0.0,
    ),
    "zero_rows": (
        "n_zero",
        "rows of length zero",
        "armillary",
        "never",
        ("as given",),
        (0.0, 0.0),
        (0.0, 0.0),
        (0.0, 0.0),
        0.0,
    ),
}
FURTHER: dict[str, list[Any]] = {}
"""Whatever else the laboratory measures by default, declared by the package; its curves are invented from its range."""
for _one in default_measurements():
    if _one.name not in OBSERVABLES or _one.name in FURTHER:
        FURTHER.setdefault(_one.name, []).append(_one)


def _invented(lowest: float, highest: float) -> tuple[Any, ...]:
    """Curves of the three conditions, and a spread, somewhere in a range."""
    low, width = (lowest, highest - lowest) if np.isfinite(highest - lowest) else (2.0, 20.0)
    ends = ((0.6, 0.3), (0.65, 0.4), (0.6, 0.2))
    return (*((low + width * a, low + width * b) for a, b in ends), 0.01 * width)


for _name, (_one, *_more) in FURTHER.items():
    _about = _one.observable
    OBSERVABLES[_name] = (
        *(_about.symbol, _about.definition, _about.source, _about.undefined),
        tuple(str(other.preparation) for other in (_one, *_more)),
        *_invented(*_about.attainable(TOKENS_PER_DOCUMENT, WIDTH)),
    )
    PARAMETERS[_name] = _about.words.removeprefix(_name)

STATEMENT_LAYERS = (BLOCKS // 2, BLOCKS)
MAPPED = (
    "mean_overlap | normalize",
    "participation_rank | normalize",
    "participation_rank | center, normalize",
    "algebraic_rank | normalize",
)
TRANSFORMATIONS = tuple(
    str(one) for one in standard(condition_number=4.0, seed=0, gain=DiagonalGain(torch.ones(WIDTH)))
)
FACTORS = {
    "none": (1.0, 1.0, 1.0, 1.0),
    "row scale": (1 + 1e-14, 1 - 1e-14, 0.9, 1),
    "translation": (1.1, 0.8, 1, 1),
    "centering": (0.4, 1.6, 1, 1),
    "general linear, k=4": (1.2, 0.7, 0.6, 1),
    "gain of the next norm": (1.35, 0.55, 0.75, 1),
}
_STATEMENT_AXES = ("transformation", "statement_layer", "statement_measurement", "document")
UPDATES: dict[str, tuple[Any, ...]] = {
    "update_norm": (
        "|dx| / |x|",
        "length of the sublayer's update over the length of the stream before",
        (1.2, 0.3),
        0.05,
    ),
    "update_radial": (
        "dx . x / |x|^2",
        "radial part of the update over the length of the stream before",
        (0.1, 0.05),
        0.02,
    ),
    "update_tangential": (
        "|dx_t| / |x|",
        "tangential part of the update over the length of the stream before",
        (1.1, 0.28),
        0.05,
    ),
    "update_angle": ("angle(x, x + dx)", "angle between the stream before and after, in radians", (0.8, 0.25), 0.03),
}


def _curve(ends: tuple[float, float]) -> np.ndarray:
    depth = np.asarray(LAYERS) / BLOCKS
    return ends[0] + (ends[1] - ends[0]) * depth**0.6


def _scalar(name: str, rng: np.random.Generator) -> tuple[np.ndarray, list[list[str]]]:
    """Values [condition, tap, layer, tokens, preparation, document] and the combinations that were asked for."""
    *_, preparations, trained, initial, ablated, spread = OBSERVABLES[name]
    values = np.full((len(CONDITIONS), len(TAPS), len(LAYERS), len(TOKENS), len(PREPARATIONS), len(DOCUMENTS)), np.nan)
    curves = [_curve(trained), _curve(initial), _curve(ablated)]
    document = rng.normal(size=len(DOCUMENTS))
    asked = []
    for t, tap in enumerate(TAPS):
        for k, tokens in enumerate(TOKENS):
            for p, preparation in enumerate(PREPARATIONS):
                elsewhere = tap == "mid" if name in NORMS else name in LIGHT and preparation in CORE
                if preparation not in preparations or (tap != "block" and not elsewhere):
                    continue
                asked.append([tap, tokens, preparation])
                for c, curve in enumerate(curves):
                    for layer in LAYERS:
                        if tap.startswith("mid") and layer == 0:
                            continue
                        value = curve[layer] * (1.1 if tap.endswith("_read") else 1.0)
                        if name in RANKS and "center" in preparation:
                            value = min(value * (2.5 if c == 0 else 1.6), 30.0)
                        elif "center" in preparation or "corpus" in preparation or "rogue" in preparation:
                            value = value * 0.15
                        noise = 0.6 * document + 0.8 * rng.normal(size=len(DOCUMENTS))
                        row = value + spread * noise * (0.3 + 0.7 * (1 - layer / (BLOCKS + 1)))
                        if name in ("massive_tokens", "zero_rows", "cluster_count", "algebraic_rank"):
                            row = np.maximum(np.round(row), 0.0)
                        if name in ("cluster_count", *RANKS):
                            row = np.maximum(row, 1.0)
                        if name in (
                            "mean_overlap",
                            "squared_mean_direction",
                            "clustering_order_parameter",
                            "exponential_overlap",
                        ):
                            row = np.clip(row, -1.0, 1.0)
                        values[c, t, layer, k, p] = row
    if name == "participation_rank":
        for p, preparation in enumerate(PREPARATIONS):
            if "center" in preparation:
                values[2, :, BLOCKS, :, p, :] = np.nan  # consensus: the centered rows vanish in every document
                values[1, 0, BLOCKS - 1, :, p, 4] = np.nan  # and in one document here
    if name == "stream_norm_first":
        values[:, :, :, 1:] = np.nan
        asked = [a for a in asked if a[1] == "all"]
    return values, asked


def _between_layers(rng: np.random.Generator) -> dict[str, Any]:
    """The laboratory's numbers between layers, as its own collector declares them; nothing at the embedding."""
    found = {}
    layout = SimpleNamespace(
        between=default_between_layers(),
        rows={layer: layer for layer in LAYERS},
        tokens=TOKENS_PER_DOCUMENT,
        width=WIDTH,
    )
    for name, variable in Between.declared(layout).variables.items():  # type: ignore[arg-type]
        values = np.full((len(CONDITIONS), len(LAYERS), len(PREPARATIONS), len(DOCUMENTS)), np.nan)
        ends = (
            ((0.9, 0.97), (0.95, 0.99), (0.9, 0.8))
            if name.endswith("previous")
            else ((0.9, 0.2), (0.97, 0.8), (0.9, 0.1))
        )
        for c, curve in enumerate(map(_curve, ends)):
            for one in layout.between:
                if name.startswith(one.name):
                    noise = 0.01 * rng.normal(size=(len(LAYERS) - 1, len(DOCUMENTS)))
                    values[c, 1:, PREPARATIONS.index(str(one.preparation))] = curve[1:, None] + noise
        found[name] = (variable.dims, values, dict(variable.attrs))
    return found


def _histogram(rng: np.random.Generator) -> np.ndarray:
    pairs = {k: n * (n - 1) // 2 for k, n in COUNTED.items()}
    shape = (len(CONDITIONS), len(LAYERS), len(TOKENS), len(CORE), len(DOCUMENTS), len(EDGES) - 1)
    counts = np.zeros(shape, dtype=np.int64)
    ends = [OBSERVABLES["mean_overlap"][i] for i in (5, 6, 7)]
    for index in np.ndindex(*shape[:-1]):
        c, layer, k, p, _ = index
        mean = _curve(ends[c])[layer] * (1.0 if p == 0 else 0.0)
        width = 0.25 * (1 - 0.9 * mean)
        sample = np.clip(rng.normal(mean, width, size=pairs[TOKENS[k]]), -1.0, 1.0)
        counts[index] = np.histogram(sample, bins=EDGES)[0]
    return counts


def _spectrum() -> np.ndarray:
    components = min(TOKENS_PER_DOCUMENT - 1, WIDTH)
    index = np.arange(components)
    out = np.zeros((len(CONDITIONS), len(LAYERS), len(CORE), len(DOCUMENTS), components), dtype=np.float32)
    for c, layer, p, d in np.ndindex(*out.shape[:-1]):
        rate = 0.03 + (0.02, 0.15, 0.5)[c] * layer / BLOCKS * (1.0 if p == 0 else 0.4) + 0.001 * d
        decay = np.exp(-rate * index)
        out[c, layer, p, d] = decay * np.sqrt((TOKENS_PER_DOCUMENT - 1) / np.sum(decay**2))
    return out


_OVERLAPS = ("mean_overlap", "smallest_overlap", "overlap_by_band")
_SHARES = ("exponential_overlap", "clustering_order_parameter", "order_parameter_sweep")
_COUNTS = ("cluster_count", "cluster_count_sweep", *RANKS)
_SIZES = (
    *("stream_norm_mean", "stream_norm_spread", "stream_norm_median", "stream_norm_first"),
    *("zero_rows", "massive_tokens", "update_norm", "update_tangential", "loss"),
)
ENDS: dict[str, dict[str, float]] = {
    **{name: {"lowest": -1.0, "highest": 1.0} for name in _OVERLAPS},
    **{name: {"lowest": 1 / TOKENS_PER_DOCUMENT, "highest": 1.0} for name in _SHARES},
    "squared_mean_direction": {"lowest": 0.0, "highest": 1.0},
    **{name: {"lowest": 1.0, "highest": float(TOKENS_PER_DOCUMENT)} for name in _COUNTS},
    **{name: {"lowest": 0.0} for name in _SIZES},
    "update_angle": {"lowest": 0.0, "highest": float(np.pi)},
}
"""The attainable range of each variable, where it has one."""


def sample_dataset() -> xarray.Dataset:
    """The measurements, with every variable and coordinate a laboratory record has."""
    import xarray as xr

    rng = np.random.default_rng(11)
    dims = ("condition", "tap", "layer", "tokens", "preparation", "document")
    variables: dict[str, Any] = {}
    for name, (symbol, definition, source, undefined, *_) in OBSERVABLES.items():
        values, asked = _scalar(name, rng)
        attrs: dict[str, Any] = {
            "symbol": symbol,
            "definition": definition,
            "source": source,
            "undefined": undefined,
            "measured": json.dumps(asked),
        }
        if name == "exponential_overlap":
            attrs["beta"] = 4.0
        if name in ("cluster_count", "clustering_order_parameter"):
            attrs |= {"grouping": GROUPING, "within": WITHIN, "distance": "angular distance"}
        if name == "algebraic_rank":
            attrs["tolerance"] = "max(T, d) eps s_max, at most 7.63e-06 s_max; eigenvalues in float64"
        if name in FURTHER:
            attrs |= dict(FURTHER[name][0].observable.parameters)
        variables[name] = (dims, values, attrs)
    variables.update(_between_layers(rng))
    sublayer = ("condition", "tap", "layer", "tokens", "document")
    for name, (symbol, definition, ends, spread) in UPDATES.items():
        values = np.full((3, len(TAPS), len(LAYERS), len(TOKENS), len(DOCUMENTS)), np.nan)
        values[:, :2, 1:] = _curve(ends)[1:, None, None] + spread * rng.normal(
            size=(3, 2, BLOCKS, len(TOKENS), len(DOCUMENTS))
        )
        values[2, 0, 1:] = 0.0  # the MLP is removed: its update vanishes
        variables[name] = (
            sublayer,
            values,
            {
                "symbol": symbol,
                "definition": definition,
                "source": "armillary",
                "undefined": "a zero stream",
                "measured": json.dumps([[t, k] for t in TAPS[:2] for k in TOKENS]),
            },
        )
    variables["overlap_histogram"] = (
        ("condition", "layer", "histogram_tokens", "histogram_preparation", "document", "bin"),
        _histogram(rng),
        {"definition": "exact counts of x_i . x_j over unordered pairs i < j; last bin closed", "tap": "block"},
    )
    spectrum = _spectrum()
    variables["singular_values"] = (
        ("condition", "layer", "spectrum_preparation", "document", "component"),
        spectrum,
        {"definition": "singular values of the rows, descending", "tap": "block", "tokens": "without_first"},
    )
    share = 1 / (1 + np.exp(-(THRESHOLDS - 0.8) * 6))
    lift = np.array([0.3, 0.8, 1.0])[:, None, None, None] * (np.asarray(LAYERS)[None, :, None, None] + 1) / (BLOCKS + 1)
    order = np.clip(
        share[None, None, :, None] * lift + 0.02 + 0.01 * rng.random((3, len(LAYERS), len(THRESHOLDS), 6)), 0, 1
    )
    sweep = ("condition", "layer", "threshold", "document")
    swept = {"tap": "block", "tokens": "without_first", "preparation": "center, normalize"}
    variables["order_parameter_sweep"] = (
        sweep,
        order,
        {"definition": OBSERVABLES["clustering_order_parameter"][1], **swept},
    )
    variables["cluster_count_sweep"] = (
        sweep,
        np.maximum(1.0, np.round(1 / order)),
        {"definition": OBSERVABLES["cluster_count"][1], **swept},
    )
    overlap = variables["mean_overlap"][1][:, 0, :, 1, 2]
    variables["overlap_by_band"] = (
        ("condition", "layer", "band", "document"),
        overlap[:, :, None, :] + np.array([0.03, 0.0, -0.02])[None, None, :, None],
        {
            "definition": "mean overlap of the pairs whose positions both lie in the band",
            "tap": "block",
            "tokens": "without_first",
            "preparation": "normalize",
        },
    )
    mask = np.zeros((3, len(LAYERS), 6, TOKENS_PER_DOCUMENT), dtype=np.int8)
    mask[0, 2:, :, 0] = 1
    mask[0, 3, 2, 5] = 1
    variables["massive_token_mask"] = (
        ("condition", "layer", "document", "position"),
        mask,
        {"definition": "1 where a norm exceeds 5 medians of the document", "tap": "block"},
    )
    variables["loss"] = (
        ("condition", "document"),
        np.array([2.9, 10.9, 30.5])[:, None] + 0.2 * rng.normal(size=(3, 6)),
        {
            "symbol": "loss",
            "definition": "next-token cross entropy, nats per token",
            "source": "the decoder's own head",
            "undefined": "never",
            "units": "nats per token",
        },
    )
    for name, (one, *_) in FURTHER.items():
        variables[name][2].update(attainable(*one.observable.attainable(TOKENS_PER_DOCUMENT, WIDTH)))
    for name, ends in ENDS.items():
        if name in variables:
            variables[name][2].update(ends)
    variables.update(_references())
    isotropic, found = _isotropic()
    variables.update(found)
    variables["mean_direction"] = _mean_direction(variables["squared_mean_direction"][1])
    variables["statement_value"] = _statement(variables)
    variables |= attention_variables(len(CONDITIONS), len(LAYERS), HEADS, len(DOCUMENTS))
    variables |= group_variables(len(CONDITIONS), len(LAYERS), len(DOCUMENTS))
    coordinates = {
        "condition": list(CONDITIONS),
        "layer": np.asarray(LAYERS),
        "tap": list(TAPS),
        "tokens": list(TOKENS),
        "preparation": list(PREPARATIONS),
        "document": list(DOCUMENTS),
        "bin": ("bin", (EDGES[:-1] + EDGES[1:]) / 2, {"edges": EDGES}),
        "threshold": ("threshold", THRESHOLDS, {"units": "radians"}),
        "band": list(BANDS),
        "component": np.arange(spectrum.shape[-1]),
        "position": np.arange(TOKENS_PER_DOCUMENT),
        "histogram_tokens": list(TOKENS),
        "histogram_preparation": list(CORE),
        "spectrum_preparation": list(CORE),
        "transformation": ["none", *TRANSFORMATIONS],
        "statement_layer": np.array(STATEMENT_LAYERS),
        "statement_measurement": list(MAPPED),
        "coordinate": np.arange(WIDTH),
        "head": np.arange(HEADS),
        "isotropic_measurement": isotropic,
    }
    attrs = {"layers": BLOCKS, "width": WIDTH, "tokens_per_document": TOKENS_PER_DOCUMENT}
    dataset = with_words(xr.Dataset(variables, coords=coordinates, attrs=attrs))
    return dataset.assign(
        {f"{name}_rounding": _floor(dataset[name]) for name in dataset.data_vars if _judged(dataset[name])}
    )


def _judged(numbers: xarray.DataArray) -> bool:
    axes = {"condition", "tap", "layer", "tokens", "preparation", "document"}
    return {"condition", "document"} <= set(numbers.dims) <= axes and numbers.dtype == np.float64


def _floor(numbers: xarray.DataArray) -> tuple[Any, ...]:
    """A floor far below every difference of the sample."""
    known = numbers.notnull().any("document")
    attrs = {"definition": f"largest change of {numbers.name} by rounding alone", "measured_by": "invented"}
    return known.dims, np.where(known.values, 1e-7, np.nan), attrs


def _references() -> dict[str, Any]:
    ceiling = np.array([[min(n - ("center" in p), WIDTH) for p in PREPARATIONS] for n in COUNTED.values()], dtype=float)
    rows = np.array([[n - ("center" in p) for p in PREPARATIONS] for n in COUNTED.values()], dtype=float)
    isotropic = rows * WIDTH / (rows + WIDTH - 1)
    return {
        "reference_ceiling": (
            ("tokens", "preparation"),
            ceiling,
            {"definition": "the largest value any rank can take: min(T, d), T - 1 after centering"},
        ),
        "reference_isotropic": (
            ("tokens", "preparation"),
            isotropic,
            {"definition": "participation rank of an isotropic cloud of the same size, n d / (n + d - 1)"},
        ),
    }


def _isotropic() -> tuple[list[str], dict[str, Any]]:
    """Measurements of unit rows that need no calibration, and what a cloud of the same size would give."""
    measured = {
        "participation_rank | normalize": 27.2,
        "participation_rank | center, normalize": 26.8,
        "mean_overlap | normalize": 4e-5,
        "squared_mean_direction | normalize": 0.021,
        f"clustering_order_parameter({GROUPING}) | center, normalize": 0.0213,
        f"cluster_count({GROUPING}) | center, normalize": 47.0,
        "exponential_overlap(beta=4) | normalize": 0.03,
        "entropy_rank | normalize": 43.0,
        "squared_entropy_rank | normalize": 36.0,
        "stable_rank | normalize": 15.0,
        "nuclear_over_spectral | normalize": 24.0,
        "algebraic_rank | normalize": 47.0,
    }
    words = "mean over 4 clouds of independent uniform directions, as many rows and coordinates"
    spectrum = np.linspace(1.8, 0.2, TOKENS_PER_DOCUMENT - 1)
    for one in (one for several in FURTHER.values() for one in several if one.preparation.unit_rows):
        low, high = _invented(*one.observable.attainable(TOKENS_PER_DOCUMENT, WIDTH))[0]
        measured[str(one)] = (low + high) / 2
    return list(measured), {
        "isotropic_value": (("isotropic_measurement",), np.array(list(measured.values())), {"definition": words}),
        "isotropic_singular_values": (("component",), spectrum, {"definition": f"singular values, {words}"}),
    }


def _mean_direction(squared: np.ndarray) -> tuple[Any, ...]:
    """A mean over documents whose squared length is nine tenths of the mean squared length within a document."""
    within = squared[:, 0, :, 1, PREPARATIONS.index("normalize")].mean(axis=-1)
    values = np.zeros((len(CONDITIONS), len(LAYERS), WIDTH))
    values[..., 0] = np.sqrt(0.9 * within)
    words = {
        "definition": "mean over documents of the mean of the unit rows",
        "tap": "block",
        "tokens": "without_first",
    }
    return ("condition", "layer", "coordinate"), values, words


def _statement(variables: dict[str, Any]) -> tuple[Any, ...]:
    mapped = [name.split(" | ") for name in MAPPED]
    none = np.stack(
        [
            variables[name][1][0, 0, list(STATEMENT_LAYERS), 1, PREPARATIONS.index(preparation)]
            for name, preparation in mapped
        ],
        axis=1,
    )
    factor = np.array([FACTORS.get(name, (1 + 1e-14, 1 - 1e-14, 1, 1)) for name in ("none", *TRANSFORMATIONS)])
    values = none[None] * factor[:, None, :, None]
    measurements = [DECLARED[name].after(*preparation.split(", ")) for name, preparation in mapped]
    chosen = standard(condition_number=4.0, seed=0, gain=DiagonalGain(torch.ones(WIDTH)))
    variables["statement_floor"] = (
        _STATEMENT_AXES,
        np.broadcast_to(np.where(np.arange(values.shape[-1]) < 2, 1e-11, np.nan), values.shape),
        {"definition": "how far rounding alone moves the difference of a document"},
    )
    return (
        _STATEMENT_AXES,
        values,
        {
            "definition": "each measurement of the stream before and after a transformation",
            "condition": CONDITIONS[0],
            "tap": "block",
            "tokens": "without_first",
            "seed": 0,
            "general_linear_seed": 0,
            "condition_number": 4.0,
            "documents": len(DOCUMENTS),
            **claimed(measurements, chosen),
        },
    )


def older_statement(dataset: xarray.Dataset) -> xarray.Dataset:
    """The statement as records held it before verdicts had floors, reasons and witnesses."""
    made = dataset.drop_vars("statement_floor")
    kept = ["none", "orthogonal", "general linear, k=4", "gain of the next norm"]
    made = made.sel(transformation=kept)
    values = made["statement_value"].copy(deep=True)
    for newer in ("groups", "reasons", "claims", "without_claims", "witnesses", "documents"):
        del values.attrs[newer]
    return made.assign(statement_value=values)


def sample_study() -> dict[str, Any]:
    """Every choice, as the laboratory declares it."""
    measurements = [
        f"{name}{PARAMETERS.get(name, '')} | {preparation}"
        for name, (*_, preparations, _, _, _, _) in OBSERVABLES.items()
        for preparation in preparations
        if name not in NORMS
    ]
    return {
        "kind": "laboratory",
        "preset": "none",
        "threads": 2,
        "memory_limit": "none",
        "model": {"name": "tiny <invented> decoder", "source": "tests"},
        "conditions": list(CONDITIONS),
        "layers": list(LAYERS),
        "level": 0.95,
        "resamples": 2000,
        "seed": 0,
        "batch_size": 4,
        "dtype": "float32",
        "device": "cpu",
        "measurements": measurements,
        "measurements_between_layers": [str(one) for one in default_between_layers()],
        "measurements_at_other_taps": [
            f"{name} | {p}" for name in LIGHT for p in CORE if name != LIGHT[1] or p == CORE[0]
        ],
        "preparation_steps": {
            "center": "subtract the mean over the tokens",
            "normalize": "divide each row by its norm",
        },
        "documents": {
            "source": "invented",
            "genre": "reference prose, one genre",
            "rule": RULE,
            "count": len(DOCUMENTS),
            "tokens": TOKENS_PER_DOCUMENT,
        },
        "calibration": {"rule": "the next 2 of them", "count": 2},
        "gauges": [],
        "plan": {
            "bins": len(EDGES) - 1,
            "thresholds": THRESHOLDS.tolist(),
            "massive_ratio": 5.0,
            "rogue_coordinates": 3,
            "condition_number": 4.0,
            "audit_documents": 8,
            "bands": len(BANDS),
            "rounding_documents": 2,
            "gauge_documents": 2,
            "gauge_tokens": 48,
            "gauge_condition": 10.0,
            "attention": list(NUMBERS),
            "followed": FOLLOWED,
            "majority": LINKED,
        },
    }


def sample_provenance() -> dict[str, Any]:
    """Where the numbers would have come from."""
    digest = hashlib.sha256(b"invented").hexdigest()
    return {
        "created": "2026-01-01T00:00:00+00:00",
        "versions": {
            "armillary": "0.1.0",
            "python": "3.11.7",
            "torch": "2.13.0",
            "transformers": "5.24.0",
            "numpy": "2.4.6",
        },
        "decoder": {
            "name": "tiny <invented> decoder",
            "source": "tests",
            "architecture": "LlamaForCausalLM",
            "family": "llama",
            "layers": BLOCKS,
            "heads": HEADS,
            "key_value_heads": 2,
            "head_dim": WIDTH // HEADS,
            "width": WIDTH,
            "vocabulary": 256,
            "context": 512,
            "norm": "RMSNorm",
            "norm_place": "pre",
            "residual": "sequential",
            "positions": "rotary",
            "start_of_stream": "the token embedding, unscaled",
            "tied": True,
            "dtype": "float32",
            "quantization": "4-bit (Q4_1)",
            "weight_hash": digest,
            "tokenizer": "byte level",
            "library_spread": 0.02,
            "released_spread": None,
            "revision": None,
            "permitted": [],
            "family_origin": "listed",
            "attention_rows": "sum to one",
            "notes": [],
        },
        "rounding": "the first 2 documents of each condition once more in float64, on the same weights; the largest "
        "difference from float32",
        "promises": [
            {"name": "attention rows sum to one", "expected": "1 within 1e-5", "got": "1 within 2e-7", "passed": True}
        ],
        "conditions": [
            {
                "name": "trained",
                "label": "trained",
                "token_hash": digest,
                "changed": [],
                "unchanged": 38,
                "spreads": {},
                "constants": [],
                "sentence": "No tensor changed.",
            },
            {
                "name": "initial-library-seed0",
                "label": "initial, library recipe, seed 0",
                "token_hash": digest,
                "changed": ["model.embed_tokens.weight"],
                "unchanged": 9,
                "spreads": {"model.embed_tokens.weight": 0.02},
                "constants": [],
                "sentence": "29 of 38 tensors are fresh; the 9 that agree are norm gains, 1 in both recipes.",
            },
            {
                "name": "ablated-mlp",
                "label": "without MLP",
                "token_hash": digest,
                "changed": [f"model.layers.{i}.mlp.down_proj.weight" for i in range(BLOCKS)],
                "unchanged": 34,
                "spreads": {},
                "constants": [],
                "sentence": "Exactly the 4 MLP output projections are zero.",
            },
        ],
        "documents": {
            "titles": list(DOCUMENTS),
            "token_hash": digest,
            "texts_hash": digest,
            "source": "invented",
            "genre": "reference prose, one genre",
            "rule": RULE,
            "documents": len(DOCUMENTS),
            "tokens": TOKENS_PER_DOCUMENT,
            "text_hashes": [digest] * len(DOCUMENTS),
            "start_token": "none added: the tokenizer adds none to plain text",
            "first_ids": [17, 4, 99, 4, 17, 20],
            "start_tokens": [],
            "counts": {},
            "outcome": "",
            "skipped_in_all": 1,
            "skipped": [{"title": "broken.txt", "reason": "not UTF-8"}],
        },
        "calibration": {
            "titles": ["del", "if"],
            "skipped": [],
            "token_hash": digest,
            "rule": "the next 2 of them",
            "rogue_coordinates": {name: {str(layer): [7, 31, 60] for layer in LAYERS} for name in CONDITIONS},
        },
        "timings": {"trained": 0.5, "initial-library-seed0": 0.4, "ablated-mlp": 0.4},
    }


def sample_record(path: str | Path) -> Path:
    """Write the record into the new folder `path`; returns the folder."""
    from armillary.records.record import Record

    return Record.write(path, sample_study(), sample_provenance(), sample_dataset()).path
