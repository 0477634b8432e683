"""The methods paragraph of a record: what was measured, on what and how, ready to be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from armillary.estimates import METHOD
from armillary.terms import condition_label

if TYPE_CHECKING:
    import xarray

__all__ = ["grouping_words", "methods_paragraph", "recipe_words"]


def methods_paragraph(study: Mapping[str, Any], provenance: Mapping[str, Any], dataset: xarray.Dataset) -> str:
    """The paragraph, generated from what the record holds.

    Args:
        study: Every choice, level, resamples and seed among them.
        provenance: Decoder and documents.
        dataset: The measurements.
    """
    d, source = provenance.get("decoder") or {}, provenance.get("documents") or {}
    tokens = int(dataset.attrs.get("tokens_per_document") or dataset.sizes.get("position", 0))
    conditions = [str(name) for name in dataset["condition"].values]
    grouping = grouping_words(dataset)
    sentences = [
        _decoder(d),
        f"The documents were {dataset.sizes['document']} sequences of {tokens} tokens from "
        f"{source.get('source', 'an unnamed source')} ({source.get('rule', 'selection not recorded')}; start token: "
        f"{source.get('start_token', 'not recorded')}){_ids(source)}.",
        f"Conditions: {'; '.join(map(condition_label, conditions))}.{recipe_words(d, conditions)}",
        "At the embedding (layer 0) and after every block we read the residual stream before the final norm, and "
        "where said the stream after attention and the output of the norm that reads it. Unless stated otherwise "
        "rows were normalized to unit length and the first token of each document was left out. Overlaps run over "
        "all unordered pairs of different tokens within a document. The participation rank is (Σλ)²/Σλ² of the "
        "squared singular values; centered means that the document's mean row was subtracted before normalizing.",
        f"Groups: {grouping}; the order parameter is the sum of squared group shares." if grouping else "",
        f"Every number is a mean over documents with a {100 * study['level']:g}% {METHOD} interval from "
        f"{study['resamples']} resamples of whole documents (seed {study['seed']}); differences between conditions are "
        "paired by document.",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _decoder(d: Mapping[str, Any]) -> str:
    """What was measured; states captured elsewhere come without a decoder's facts."""
    if "architecture" not in d:
        return f"We measured {d.get('name', 'unnamed decoder')} (width {d.get('width', '?')}, {d.get('dtype', '?')})."
    return (
        f"We measured {d.get('name', 'unnamed decoder')} ({d['architecture']}; "
        f"{d.get('layers', '?')} layers, {d.get('heads', '?')} heads, {d.get('key_value_heads', '?')} key-value heads, "
        f"width {d.get('width', '?')}, vocabulary {d.get('vocabulary', '?')}, context {d.get('context', '?')}; weights "
        f"{d.get('quantization') or 'not quantized'}, computed in {d.get('dtype', '?')})."
    )


def _ids(source: Mapping[str, Any]) -> str:
    """That every condition saw the same token ids, where the ids are known."""
    found = source.get("token_hash")
    return f", the same token ids in every condition (SHA-256 {str(found)[:16]}…)" if found else ""


def grouping_words(dataset: xarray.Dataset) -> str:
    """The declared grouping in words; empty where the record has none."""
    for name in ("clustering_order_parameter", "cluster_count"):
        if name in dataset and dataset[name].attrs.get("grouping"):
            return str(dataset[name].attrs["grouping"])
    return ""


def recipe_words(decoder: Mapping[str, Any], conditions: Sequence[str]) -> str:
    """What the named initialization recipes are, where the decoder's facts say."""
    known = (
        ("released", "released_spread", "the released configuration's own standard deviation"),
        ("library", "library_spread", "the library's default standard deviation"),
    )
    said = [
        f"“{recipe}” is {words}, {decoder[key]:.4g}"
        for recipe, key, words in known
        if isinstance(decoder.get(key), float) and any(one.startswith(f"initial-{recipe}") for one in conditions)
    ]
    return f" Of the initialization recipes, {', and '.join(said)}." if said else ""
