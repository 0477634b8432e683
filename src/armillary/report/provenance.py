"""Where the numbers come from: decoder, what each condition changed, documents, calibration, versions, every choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from armillary.report.markup import Markup, counted, element, facts, join, paragraph, ranges, table
from armillary.report.words import Facts

__all__ = ["conditions_table", "every_choice", "flattened", "provenance"]


_LISTED = ("titles", "first_ids", "start_tokens", "text_hashes", "packs")  # one entry a document: told in its table


def provenance(known: Facts) -> Markup:
    """Decoder facts, documents, versions, promises and everything else the record says of its origin."""
    origin = known.reading.provenance
    parts = [facts("Decoder", flattened(known.decoder)), conditions_table(known)]
    parts.append(
        facts(
            "Documents",
            flattened({k: v for k, v in known.source.items() if k not in _LISTED}),
        )
    )
    parts.append(_documents(known))
    promises = [item for item in origin.get("promises") or [] if isinstance(item, Mapping)]
    if promises:
        rows = [
            [str(p.get("name")), str(p.get("expected")), str(p.get("got")), "kept" if p.get("passed") else "MISSED"]
            for p in promises
        ]
        parts.append(table("What the decoder proved when it was loaded.", ["promise", "expected", "got", ""], rows))
    parts.append(_calibration(known, origin.get("calibration") or {}))
    told = ("decoder", "conditions", "documents", "promises", "calibration")
    rest = {name: value for name, value in origin.items() if name not in told}
    for name, value in rest.items():
        if isinstance(value, Mapping):
            parts.append(facts(name.replace("_", " ").capitalize(), flattened(value)))
    single = {name: value for name, value in rest.items() if not isinstance(value, Mapping)}
    parts.append(facts("Record", flattened({**single, "hash of the measurements": known.reading.digest})))
    return join([*parts, every_choice(known.reading.study)])


def every_choice(study: Mapping[str, Any]) -> Markup:
    """The choices of a study as JSON, folded away.

    Args:
        study: of the record.
    """
    choices = json.dumps(study, indent=1, ensure_ascii=False, default=str)
    return element("details", element("summary", "Every choice of the study"), element("pre", choices))


def conditions_table(known: Facts) -> Markup:
    """Every condition with the proof of what it changed."""
    rows = []
    for proof in known.reading.provenance.get("conditions") or []:
        if not isinstance(proof, Mapping):
            continue
        changed = [str(name) for name in proof.get("changed") or []]
        spreads = proof.get("spreads") or {}
        detail: list[Any] = []
        if changed:
            detail.append(
                element(
                    "details",
                    element("summary", f"{len(changed)} tensor{'s' if len(changed) > 1 else ''}"),
                    element("span", ", ".join(changed), class_="hash"),
                )
            )
        else:
            detail.append("none")
        measured = ", ".join(f"{name} {value:.4g}" for name, value in list(spreads.items())[:6]) if spreads else "—"
        label = str(proof.get("label") or known.reading.label(str(proof.get("name", ""))))
        rows.append(
            [
                f"{proof.get('name', '')}: {label}",
                join(detail),
                str(proof.get("unchanged", "")),
                measured,
                str(proof.get("sentence", "")),
            ]
        )
    if not rows:
        return paragraph("No condition proofs are recorded.")
    return table(
        "What each condition changed, and nothing else.",
        ["condition", "changed", "unchanged", "measured spreads", "proof"],
        rows,
    )


def _documents(known: Facts) -> Markup:
    columns = [known.source.get(name) or [] for name in ("first_ids", "start_tokens", "text_hashes")]
    rows = []
    for place, title in enumerate(known.reading.documents):
        first, starts, digest = (str(one[place]) if place < len(one) else "not recorded" for one in columns)
        rows.append([title, first, starts, element("span", digest, class_="hash")])
    listing = table("", ["document", "first token id", "start tokens", "hash of its text"], rows)
    summary = f"{counted(known.documents, 'document').capitalize()}, with the first id of each"
    return element("details", element("summary", summary), listing)


def _calibration(known: Facts, origin: Mapping[str, Any]) -> Markup:
    """The calibration documents, and behind a fold the rogue coordinates that they named."""
    if not origin.get("titles"):
        return Markup("")
    plain = facts(
        "Calibration", flattened({name: value for name, value in origin.items() if name != "rogue_coordinates"})
    )
    rows = []
    for condition, by_layer in (origin.get("rogue_coordinates") or {}).items():
        alike: dict[str, list[int]] = {}
        for layer, coordinates in by_layer.items():
            alike.setdefault(", ".join(map(str, coordinates)), []).append(int(layer))
        rows += [[known.reading.label(condition), ranges(layers), coordinates] for coordinates, layers in alike.items()]
    if not rows:
        return plain
    listing = table(
        "At each layer the coordinates with the largest part in the mean overlap of the calibration documents.",
        ["condition", "layers", "coordinates"],
        rows,
    )
    return join([plain, element("details", element("summary", "Rogue coordinates by condition and layer"), listing)])


def flattened(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of nested data, names of what holds them in front.

    Args:
        tree: mappings within mappings.
        prefix: of every name.
    """
    for name, value in tree.items():
        words = f"{prefix}{str(name).replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from flattened(value, f"{words}: ")
        else:
            yield words, _plain(value)


def _plain(value: Any) -> Any:
    if value is None:
        return "none recorded"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return (
            ", ".join(
                "; ".join(f"{k}: {v}" for k, v in item.items()) if isinstance(item, Mapping) else str(item)
                for item in value
            )
            or "none"
        )
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return element("span", text, class_="hash") if len(text) >= 32 and " " not in text else text
