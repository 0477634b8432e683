"""Where a laboratory's numbers come from: decoder, promises, proofs, documents, versions, as provenance.json has it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from armillary.models.anatomy import Decoder
from armillary.models.contract import Promise
from armillary.models.documents import Documents
from armillary.observables.cloud import Calibration

__all__ = ["origin"]

_LIBRARIES = ("armillary", "torch", "transformers", "tokenizers", "numpy", "scipy", "xarray")


def origin(
    decoder: Decoder,
    documents: Documents,
    *,
    promises: Sequence[Promise],
    conditions: Sequence[Mapping[str, Any]],
    calibration: Documents | None,
    calibrations: Mapping[str, Mapping[int, Calibration]],
    timings: Mapping[str, float],
) -> dict[str, Any]:
    """Everything that is needed to say what the numbers are about, ready for strict JSON.

    Args:
        decoder: The trained decoder.
        documents: The evaluation documents.
        promises: What the decoder promised, kept.
        conditions: For each condition its name, label, the hash of the ids it saw and the proof of what it changed.
        calibration: The calibration documents, or None.
        calibrations: For each condition and layer, what was estimated on them.
        timings: Seconds that each condition took.

    Returns:
        Keys created, versions, decoder, promises, conditions, documents, calibration, timings.
    """
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
        "decoder": asdict(decoder.facts),
        "promises": [asdict(one) for one in promises],
        "conditions": list(conditions),
        "documents": documents.provenance(),
        "calibration": _calibration(calibration, calibrations),
        "timings": dict(timings),
    }


def _calibration(documents: Documents | None, calibrations: Mapping[str, Mapping[int, Calibration]]) -> dict[str, Any]:
    if documents is None:
        return {"titles": [], "token_hash": None, "rogue_coordinates": {}}
    return {
        "titles": list(documents.titles),
        "token_hash": documents.hash,
        "rule": documents.rule,
        "skipped": documents.provenance()["skipped"],
        "rogue_coordinates": {
            name: {str(layer): list(one.coordinates) for layer, one in found.items()}
            for name, found in calibrations.items()
        },
    }
