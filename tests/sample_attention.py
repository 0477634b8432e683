"""Attention numbers and groups followed through depth of the invented record: smooth, plausible, never measured."""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS = {
    "attention_effective_beta": ("beta_eff", "normalize", (2.0, 14.0), {"lowest": 0.0}),
    "attention_overlap_slope": ("d ln A / d c", "normalize", (0.5, -4.0), {}),
    "attention_entropy": ("H", "as given", (2.6, 1.4), {"lowest": 0.0, "highest": 2.93}),
    "attention_relative_entropy": ("H / ln i", "as given", (0.8, 0.4), {"lowest": 0.0, "highest": 1.0}),
    "attention_first_mass": ("A_1", "as given", (0.05, 0.6), {"lowest": 0.0, "highest": 1.0}),
    "attention_largest_mass_elsewhere": ("max A_j", "as given", (0.04, 0.2), {"lowest": 0.0, "highest": 1.0}),
    "attention_sink_mass": ("1 - sum A", "as given", (0.0, 0.0), {"highest": 1.0}),
    "attention_distance": ("i - j", "as given", (9.0, 16.0), {"lowest": 0.0, "highest": 24.0}),
    "attention_antisymmetric_share": ("|A - A^T|^2 / 4|A|^2", "as given", (0.3, 0.48), {"lowest": 0.0, "highest": 0.5}),
    "attention_participation_rank": ("R_A", "as given", (14.0, 2.0), {"lowest": 1.0, "highest": 48.0}),
}
"""Symbol, preparation, value at the first and at the last block of the trained decoder, and the range."""

EVENTS = {
    "groups_continued": ("continued", (7.0, 10.0)),
    "groups_born": ("born", (3.0, 1.0)),
    "groups_merged": ("merged", (2.0, 0.0)),
    "groups_split": ("split", (0.0, 1.0)),
    "groups_regrouped": ("regrouped", (0.0, 0.0)),
    "groups_lost": ("lost", (1.0, 2.0)),
}
FOLLOWED = "connected components within 0.785398 rad of angular distance"
LINKED = "linked if more than 0.5 of either group's tokens lie in the other, groups of at least 2 tokens"


def attention_variables(conditions: int, layers: int, heads: int, documents: int) -> dict[str, Any]:
    """Two variables a number: one value a head, and the mean over heads; nothing at the embedding."""
    rng = np.random.default_rng(11)
    found: dict[str, Any] = {}
    for name, (symbol, preparation, (first, last), ends) in NUMBERS.items():
        course = np.full((conditions, layers), np.nan)
        course[:, 1:] = np.linspace(first, last, layers - 1)[None] * np.array([1.0, 0.8, 0.9])[:, None]
        spread = 1 + 0.1 * (np.arange(heads) - (heads - 1) / 2)[:, None] + 0.02 * rng.normal(size=(heads, documents))
        values = course[:, :, None, None] * spread
        if name == "attention_sink_mass":
            values = values + 1e-8
        attrs = {
            "symbol": symbol,
            "definition": f"{name.replace('_', ' ')} of the map, mean over rows 2 ... T",
            "source": "invented",
            "undefined": "a row without mass; at the embedding, which no attention comes before",
            "tap": "attention",
            "tokens": "all",
            "preparation": preparation,
            **ends,
        }
        mean = {**attrs, "definition": f"{attrs['definition']}; mean over the heads where it is defined"}
        found[name] = (("condition", "layer", "head", "document"), values, attrs)
        found[f"{name}_head_mean"] = (("condition", "layer", "document"), values.mean(2), mean)
    return found


def group_variables(conditions: int, layers: int, documents: int) -> dict[str, Any]:
    """Events since the layer before, the share of tokens that stay, and the agreement; nothing at the embedding."""
    rng = np.random.default_rng(12)
    about = {
        "source": "groups linked by a majority of their members",
        "undefined": "a row of zero length, and at the first measured layer",
        "tap": "block",
        "tokens": "without_first",
        "preparation": "center, normalize",
        "grouping": FOLLOWED,
        "linked": LINKED,
    }
    dims, how = ("condition", "layer", "document"), f"since the measured layer before, under {FOLLOWED}, {LINKED}"
    found: dict[str, Any] = {}
    for name, (kind, (first, last)) in EVENTS.items():
        course = np.full((conditions, layers, documents), np.nan)
        noise = rng.integers(0, 2, size=(conditions, layers - 1, documents))
        course[:, 1:] = np.round(np.linspace(first, last, layers - 1))[None, :, None] + noise * (first + last > 0)
        attrs = {"symbol": kind, "definition": f"number of events: {kind} {how}", **about, "lowest": 0.0}
        found[name] = (dims, course, {**attrs, "highest": 23.0})
    for name, symbol, ends in (
        ("group_persisting_share", "stay", {"lowest": 0.0, "highest": 1.0}),
        ("group_agreement", "ARI", {"lowest": -1.0, "highest": 1.0}),
    ):
        course = np.full((conditions, layers, documents), np.nan)
        course[:, 1:] = np.linspace(0.4, 0.8, layers - 1)[None, :, None]
        course[:, 1:] += 0.05 * rng.random((conditions, layers - 1, documents))
        found[name] = (dims, course, {"symbol": symbol, "definition": f"{symbol} {how}", **about, **ends})
    return found
