"""Figures of whole distributions: overlap histograms, spectra, the threshold sweep, and overlap by position band."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Control, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import DEFAULT_TOKENS, Numbers, Reading
from armillary.figures.registry import figure
from armillary.terms import TOKENS, layer_words, preparation_words

__all__ = ["overlap_by_band", "overlap_histograms", "spectra", "threshold_sweep"]

CLOUD = Style("#7a7a7a", "dot", "none", 2.0)
SPECTRUM_POINTS = 48
SPIKE = 2.5  # times the highest bin of the first condition: where a histogram's axis ends


@figure
def overlap_histograms(reading: Reading) -> Drawing | None:
    """Histograms of pair overlaps at each layer, conditions overlaid, uncentered or centered."""
    if "overlap_histogram" not in reading.dataset:
        return None
    edges = _edges(reading)
    centers = tuple(((edges[1:] + edges[:-1]) / 2).tolist())
    preparations = reading.options("histogram_preparation")
    tokens = _tokens(reading, "histogram_tokens")

    def panels(layer: int, preparation: str) -> tuple[Panel, ...]:
        curves = []
        for condition in reading.conditions:
            counts = reading.values(
                "overlap_histogram",
                "bin",
                condition=condition,
                layer=layer,
                histogram_tokens=tokens,
                histogram_preparation=preparation,
            )
            share = None if counts is None else _mean_share(counts)
            if share is not None:
                curves.append(
                    Curve(reading.label(condition), centers, share, style=reading.style(condition), shape="steps")
                )
        x = Axis("overlap of two token directions, c", limits=(-1.0, 1.0))
        y = Axis("share of pairs in a bin", limits=_histogram_limits(curves))
        return (Panel(layer_words(layer), x, y, tuple(curves), note=preparation_words(preparation)),)

    printed_layers = _spread_out(reading.layers, 3)
    return _by_layer(
        reading,
        "overlap_histograms",
        "Overlap histograms by layer",
        preparations,
        panels,
        caption="Exact counts over all unordered pairs of different tokens within a document, as shares, averaged "
        f"over documents ({len(centers)} bins, last bin closed); "
        f"{TOKENS.get(tokens, tokens)}. Uncentered, the whole histogram may sit "
        "at an offset that all tokens share; centering removes that offset. A spike higher than the panel is cut. A "
        "histogram of overlaps in one model records alignments in one basis; it is not a distribution over "
        "an ensemble.",
        alt="Histograms of overlaps between token directions from minus one to one, one outline for each "
        "condition, at a layer that can be chosen, for normalized rows or for rows centered then normalized. "
        + _shifts(reading, tokens, preparations),
        printed=tuple((layer_words(layer), preparation) for preparation in preparations for layer in printed_layers),
        columns=3,
    )


@figure
def spectra(reading: Reading) -> Drawing | None:
    """Share of each squared singular value at each layer, conditions overlaid, with ceiling and isotropic cloud."""
    if "singular_values" not in reading.dataset:
        return None
    cloud = _isotropic_spectrum(reading)
    preparations = reading.options("spectrum_preparation")

    def panels(layer: int, preparation: str) -> tuple[Panel, ...]:
        curves = []
        for condition in reading.conditions:
            values = reading.values(
                "singular_values", "component", condition=condition, layer=layer, spectrum_preparation=preparation
            )
            share = None if values is None else _mean_share(values**2)
            if share is not None:
                curves.append(_spectrum_curve(reading.label(condition), share, reading.style(condition)))
        if cloud is not None and curves and preparation == "normalize":
            curves.append(_spectrum_curve("isotropic cloud", cloud, CLOUD))
        ceiling = reading.ceiling(preparation)
        rules = (Rule(f"ceiling {ceiling:.4g}", x=ceiling),) if math.isfinite(ceiling) else ()
        axes = (
            Axis("singular direction, largest first", "log"),
            Axis("share of squared values", "log", limits=(1e-6, 1.2)),
        )
        return (Panel(layer_words(layer), *axes, tuple(curves), rules, preparation_words(preparation)),)

    printed_layers = _spread_out(reading.layers, 3)
    return _by_layer(
        reading,
        "spectra",
        "Singular-value spectra by layer",
        preparations,
        panels,
        caption="Squared singular values of the rows as shares of their sum, averaged over documents; both axes "
        "logarithmic; first token left out; shares below 10⁻⁶ lie outside the panel. The vertical rule is the "
        "ceiling, the largest number of directions this many tokens and coordinates can have."
        + " The gray curve is an isotropic cloud of the same size: independent directions, none preferred."
        * (cloud is not None),
        alt="Share of the squared singular values against the order of the direction, both axes logarithmic, one curve "
        "for each condition at a layer that can be chosen. "
        + _largest_shares(reading, preparations[0])
        + (f" Isotropic cloud: {cloud[0]:.2g}." if cloud else ""),
        printed=tuple((layer_words(layer), preparation) for preparation in preparations for layer in printed_layers),
        columns=3,
    )


@figure
def threshold_sweep(reading: Reading) -> Drawing | None:
    """Order parameter and number of groups against the grouping threshold, at each layer."""
    if "order_parameter_sweep" not in reading.dataset:
        return None
    chosen = _declared_threshold(reading)
    rules = (Rule(f"declared threshold {chosen:.3g}", x=chosen),) if math.isfinite(chosen) else ()

    def panels(layer: int, _: str) -> tuple[Panel, ...]:
        result = []
        for name, label, scale in (
            ("order_parameter_sweep", "order parameter", "linear"),
            ("cluster_count_sweep", "groups", "log"),
        ):
            curves = reading.by_condition(name, "threshold", layer=layer)
            if curves:
                y = Axis(label, "log") if scale == "log" else Axis(label, limits=(0.0, 1.02))
                result.append(Panel(label, Axis("threshold, radians"), y, curves, rules, layer_words(layer)))
        return tuple(result)

    middle = reading.layers[len(reading.layers) // 2]
    return _by_layer(
        reading,
        "threshold_sweep",
        "Threshold sweep of the order parameter",
        ("",),
        panels,
        caption="Groups are connected components of tokens nearer than the threshold in angle; rows centered, then "
        "normalized; first token left out. Where a curve is steep at the declared threshold, another threshold "
        "would give another order parameter. Shaded: document-bootstrap intervals.",
        alt=told(
            f"Order parameter and number of groups against the grouping threshold, at {layer_words(middle)}",
            panels(middle, ""),
        ),
        printed=tuple((layer_words(layer),) for layer in _spread_out(reading.layers, 3)),
        columns=2,
    )


@figure
def overlap_by_band(reading: Reading) -> Drawing | None:
    """Mean overlap of the pairs inside a band of positions, against depth."""
    if "overlap_by_band" not in reading.dataset:
        return None
    views = []
    for condition in reading.conditions:
        curves = tuple(
            curve
            for band, style in zip(reading.options("band"), SERIES, strict=False)
            if (
                curve := reading.curve(
                    f"positions {band.replace('-', '–')}", style, "overlap_by_band", condition=condition, band=band
                )
            )
        )
        if curves:
            panel = Panel(reading.label(condition), reading.depth_axis(), Axis("mean overlap within the band"), curves)
            views.append(View((reading.label(condition),), (panel,)))
    if not views:
        return None
    options = tuple(view.choice[0] for view in views)
    return Drawing(
        "overlap_by_band",
        "Mean overlap by position band",
        "Mean overlap of pairs whose two tokens both lie in one band of positions; rows normalized. If bands "
        "differ, a mean over all pairs mixes positions. First token left out. Shaded: document-bootstrap intervals.",
        told("Mean overlap by position band", views[0].panels),
        tuple(views),
        (Control("condition", options, "choice", options[0]),),
        columns=2,
        printed=tuple((option,) for option in options[:4]),
        height=0.5,
    )


def _by_layer(
    reading: Reading,
    name: str,
    title: str,
    preparations: tuple[str, ...],
    panels: Callable[[int, str], tuple[Panel, ...]],
    *,
    caption: str,
    alt: str,
    printed: tuple[tuple[str, ...], ...],
    columns: int,
) -> Drawing | None:
    """A drawing with a layer slider and, where there are several preparations, a choice among them."""
    several = len(preparations) > 1
    views = tuple(
        View((layer_words(layer), preparation) if several else (layer_words(layer),), panels(layer, preparation))
        for layer in reading.layers
        for preparation in preparations
    )
    if not any(panel.drawn for view in views for panel in view.panels):
        return None
    layers = tuple(layer_words(layer) for layer in reading.layers)
    controls: tuple[Control, ...] = (Control("layer", layers, "slider", layers[len(layers) // 2]),)
    if several:
        controls += (Control("rows", preparations, "choice", preparations[0]),)
    choices = printed if several else tuple((choice[0],) for choice in printed)
    return Drawing(name, title, caption, alt, views, controls, columns=columns, printed=choices, height=0.6)


def _histogram_limits(curves: list[Curve]) -> tuple[float, float] | None:
    """From zero to the highest bin, or to a few times the first curve's, so that a spike does not flatten it."""
    peaks = [max(float(y) for y in curve.y) for curve in curves]
    return (0.0, 1.05 * min(max(peaks), SPIKE * peaks[0])) if peaks else None


def _edges(reading: Reading) -> Numbers:
    edges = reading.dataset["bin"].attrs.get("edges")
    if edges is not None and np.size(edges) == reading.dataset.sizes["bin"] + 1:
        return np.asarray(edges, dtype=np.float64)
    centers = reading.dataset["bin"].values.astype(np.float64)
    half = (centers[1] - centers[0]) / 2
    return np.append(centers - half, centers[-1] + half)


def _mean_share(values: Numbers) -> tuple[float, ...] | None:
    """Rows [document, x] as shares of their sums, averaged over the documents whose sum is positive.

    A spectrum is padded with NaN behind its last value, which is min(tokens, dimensions) long; the padding stays.
    """
    total = np.nansum(values, axis=1, keepdims=True)
    kept = total[:, 0] > 0
    if not kept.any():
        return None
    return tuple((values[kept] / total[kept]).mean(axis=0).tolist())


def _isotropic_spectrum(reading: Reading) -> tuple[float, ...] | None:
    """Shares of an isotropic cloud of the same size, where the record has its singular values."""
    if "isotropic_singular_values" not in reading.dataset:
        return None
    return _mean_share(np.asarray(reading.dataset["isotropic_singular_values"].values, dtype=np.float64)[None] ** 2)


def _spectrum_curve(name: str, share: tuple[float, ...], style: Style) -> Curve:
    """A spectrum at directions evenly spread over its logarithmic axis; nothing is drawn where a share vanishes."""
    size = max(place + 1 for place, value in enumerate(share) if math.isfinite(value))
    picked = np.unique(np.round(np.geomspace(1, size, SPECTRUM_POINTS)).astype(int)) - 1
    y = tuple(share[place] if share[place] > 1e-12 else math.nan for place in picked)
    return Curve(name, tuple((picked + 1.0).tolist()), y, style=style)


def _largest_shares(reading: Reading, preparation: str) -> str:
    """What the first direction carries at the first and last layer, in words."""
    parts = []
    for condition in reading.conditions:
        shares = []
        for layer in (reading.layers[0], reading.layers[-1]):
            values = reading.values(
                "singular_values", "component", condition=condition, layer=layer, spectrum_preparation=preparation
            )
            share = None if values is None else _mean_share(values**2)
            shares += [] if share is None else [f"{share[0]:.2g} at the {layer_words(layer)}"]
        if shares:
            parts.append(f"{reading.label(condition)}, " + ", ".join(dict.fromkeys(shares)))
    return f"The first direction of {preparation_words(preparation)} carries: {'; '.join(parts)}."


def _tokens(reading: Reading, coordinate: str) -> str:
    options = reading.options(coordinate)
    return DEFAULT_TOKENS if DEFAULT_TOKENS in options or not options else options[0]


def _spread_out(layers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The first layer, the last, and others between them, `count` in all where there are that many."""
    if len(layers) <= count:
        return layers
    return tuple(layers[round(place * (len(layers) - 1) / (count - 1))] for place in range(count))


def _declared_threshold(reading: Reading) -> float:
    """The threshold of the declared grouping where it is an angle, as the axis of the sweep is; NaN otherwise."""
    for name in ("clustering_order_parameter", "cluster_count"):
        declared = reading.dataset[name].attrs if name in reading.dataset else {}
        if "within" in declared and str(declared.get("distance", "")).startswith("angular"):
            return float(declared["within"])
    return math.nan


def _shifts(reading: Reading, tokens: str, preparations: tuple[str, ...]) -> str:
    """Where the bulk of each condition's histogram lies at the first and last layer, in words."""
    centers = (_edges(reading)[1:] + _edges(reading)[:-1]) / 2
    parts = []
    for condition in reading.conditions:
        places = []
        for layer in (reading.layers[0], reading.layers[-1]):
            counts = reading.values(
                "overlap_histogram",
                "bin",
                condition=condition,
                layer=layer,
                histogram_tokens=tokens,
                histogram_preparation=preparations[0],
            )
            share = None if counts is None else _mean_share(counts)
            if share is not None:
                median = centers[int(np.searchsorted(np.cumsum(share), 0.5).clip(0, len(centers) - 1))]
                places.append(f"{median:.2f}")
        if len(places) == 2:
            where = [f"the {layer_words(layer)}" for layer in (reading.layers[0], reading.layers[-1])]
            said = (f"{place} at {at}" for place, at in zip(places, where, strict=True))
            parts.append(f"{reading.label(condition)}: half of the pairs lie below " + ", ".join(dict.fromkeys(said)))
    return "; ".join(parts) + "." if parts else ""
