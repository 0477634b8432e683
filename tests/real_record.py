"""Records that a real laboratory wrote on a tiny decoder, each made once in a test session.

Their numbers mean nothing; their keys, labels, attributes and gaps are the ones that figures and page have to cope with.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from armillary.models.conditions import Ablated, Initial, Trained
from armillary.models.documents import Documents
from armillary.observables.clustering import cluster_count
from armillary.observables.distances import ChordalDistance
from armillary.observables.grouping import Connected, Grouping
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.studies.laboratory import Laboratory
from tiny import tiny_decoder, tiny_ids

KINDS = ("usual", "long", "custom")
"""`usual`: three conditions, eight documents, calibrated, the laboratory's own measurements. `long`: more tokens than
coordinates, two documents, some layers, fresh weights first. `custom`: two measurements of its own and one condition."""

_FOLDER = tempfile.TemporaryDirectory(prefix="armillary-real-")


def documents(count: int, tokens: int, seed: int = 0) -> Documents:
    """Random ids under readable titles."""
    titles = [f"set {seed}, document {k}" for k in range(count)]
    return Documents.from_token_ids(tiny_ids(documents=count, tokens=tokens, seed=seed), titles)


def _choices(kind: str) -> dict[str, Any]:
    fresh = Initial(seed=0, recipe="library")
    if kind == "usual":
        conditions = [Trained(), fresh, Ablated("mlp")]
        return {"documents": documents(8, 17), "conditions": conditions, "calibration": documents(3, 17, seed=1)}
    if kind == "long":
        return {"documents": documents(2, 40), "conditions": [fresh, Trained()], "layers": (0, 2, 4)}
    groups = Grouping(ChordalDistance(), Connected(within=0.9))
    measurements = [participation_rank.after("normalize"), cluster_count(groups).after("center", "normalize")]
    return {
        "documents": documents(2, 12),
        "conditions": [Ablated("mlp")],
        "layers": (3,),
        "measurements": measurements,
    }


@functools.cache
def real_record(kind: str) -> Record:
    """The record of one of `KINDS`; gauges have tests of their own."""
    return Laboratory(tiny_decoder(), gauges=(), **_choices(kind)).run(Path(_FOLDER.name) / kind)
