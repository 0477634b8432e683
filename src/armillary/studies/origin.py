"""Where a laboratory's numbers come from: decoder, promises, proofs, documents, versions, as provenance.json has it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from armillary.models.anatomy import Decoder
from armillary.models.contract import Promise
from armillary.models.documents import Documents

__all__ = ["origin", "processor", "versions"]

_LIBRARIES = ("armillary", "torch", "transformers", "tokenizers", "numpy", "scipy", "xarray")


def origin(
    decoder: Decoder, documents: Documents, *, promises: Sequence[Promise], calibration: Documents | None
) -> dict[str, Any]:
    """What is known before anything is measured of what the numbers are about, ready for strict JSON.

    Args:
        decoder: The trained decoder.
        documents: The evaluation documents.
        promises: What the decoder promised, kept.
        calibration: The calibration documents, or None.

    Returns:
        Keys created, versions, decoder, promises, documents, calibration.
    """
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "decoder": asdict(decoder.facts),
        "promises": [asdict(one) for one in promises],
        "documents": documents.provenance(),
        "calibration": _calibration(calibration),
    }


def versions() -> dict[str, str]:
    """Of Python and of the libraries that numbers can depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def processor() -> str:
    """What the last bits of a number depend on beside the versions: kind of processor and its vector instructions."""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _calibration(documents: Documents | None) -> dict[str, Any]:
    if documents is None:
        return {"titles": [], "token_hash": None, "rogue_coordinates": {}}
    return {
        "titles": list(documents.titles),
        "token_hash": documents.hash,
        "rule": documents.rule,
        "skipped": documents.provenance()["skipped"],
    }
