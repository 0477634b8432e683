"""Representation drift: neighbors kept, groups born, merged and lost between layers, and paths of tokens in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from armillary.models.capture import Tap
from armillary.observables.cloud import Cloud
from armillary.observables.correspondence import neighbor_overlap
from armillary.observables.group_history import followed_groups
from armillary.observables.grouping import labels_of
from armillary.records.assembly import Variable
from armillary.studies.plan import CENTERED, GROUPS, MAJORITY, SPHERE

__all__ = ["AXES", "KINDS", "Wandering", "wandering_variables"]

KINDS = ("born", "merged", "split", "lost")
"""Events between neighboring measured layers that are counted."""

AXES = 2
NEIGHBORS = neighbor_overlap(k=10).after(*SPHERE)
_COURSE = ("condition", "layer", "document")
_PERSISTING = "group_persisting_share"


def wandering_variables() -> dict[str, Variable]:
    """What drift adds to a record: `condition layer document`, and the paths of tokens."""
    undefined = "at the first measured layer, and in rungs built from matrices"
    about = {"tap": "block", "tokens": "without_first"}
    groups = {
        "source": "groups linked by a majority of their members", "undefined": undefined,
        "grouping": str(GROUPS), "linked": str(MAJORITY), "preparation": ", ".join(CENTERED), **about,
    }  # fmt: skip
    found = {
        f"{NEIGHBORS.name}_to_{reference}": Variable(
            _COURSE,
            {
                "symbol": NEIGHBORS.observable.symbol,
                "definition": f"{NEIGHBORS.observable.definition}; against {words}",
                "source": NEIGHBORS.observable.source,
                "undefined": undefined,
                "preparation": ", ".join(SPHERE),
                "lowest": 0.0,
                "highest": 1.0,
                **about,
            },
        )
        for reference, words in (("previous", "the measured layer before"), ("embedding", "the embedding"))
    }
    for kind in KINDS:
        attrs: dict[str, Any] = {"symbol": kind, "definition": f"number of group events of the kind {kind!r}", **groups}
        found[f"groups_{kind}"] = Variable(_COURSE, attrs | {"lowest": 0.0})
    attrs = {"symbol": "stay", "definition": "share of all tokens that stay in a group that continues", **groups}
    found[_PERSISTING] = Variable(_COURSE, attrs | {"lowest": 0.0, "highest": 1.0})
    found["token_path"] = Variable(
        ("layer", "position", "path_axis", "document"),
        {
            "symbol": "x . e",
            "definition": "unit rows of the decoder as loaded along the two principal directions of this document's "
            "unit rows at all measured layers together, less their mean",
            "source": "principal components",
            "undefined": "a token whose row is zero",
        },
    )
    return found


class Wandering:
    """Drift of one chunk, told the stream after every block.

    Args:
        layers: Measured layers.
        documents: In the chunk.
        tokens: In each document.
        paths: Whether the paths of tokens are kept: those of the decoder as loaded.
    """

    def __init__(self, *, layers: Sequence[int], documents: int, tokens: int, paths: bool) -> None:
        self.rows = {layer: row for row, layer in enumerate(layers)}
        names = [name for name, one in wandering_variables().items() if one.dims == _COURSE]
        self.arrays = {name: np.full((documents, len(layers)), np.nan) for name in names}
        self._size = (documents, len(layers), tokens, AXES)
        self._kept: dict[str, Tensor] = {}
        self._labels: list[Any] | None = None
        self._states: list[Tensor] | None = [] if paths else None

    def add(self, tap: Tap, residual: Tensor) -> None:
        """Compare a measured layer with the one before it and with the embedding."""
        if tap.place != "block" or tap.layer not in self.rows:
            return
        row = self.rows[tap.layer]
        cloud = Cloud(residual.cpu()).without_tokens(1)
        reduced = NEIGHBORS.reduced(cloud)
        for reference, other in self._kept.items():
            values = NEIGHBORS.compared(reduced, other, cloud.batch)
            self.arrays[f"{NEIGHBORS.name}_to_{reference}"][:, row] = values.double().numpy()
        self._kept["previous"] = reduced
        if tap.layer == 0:
            self._kept["embedding"] = reduced
        self._follow(row, labels_of(cloud.prepared(CENTERED), GROUPS))
        if self._states is not None:
            self._states.append((residual / residual.norm(dim=-1, keepdim=True)).cpu().float())

    def finish(self) -> dict[str, np.ndarray]:
        """All arrays; the paths of tokens among them where they were kept."""
        if not self._states:
            return self.arrays
        states = torch.stack(self._states, dim=1)  # documents layers tokens dim
        found = np.full(self._size, np.nan)
        for document, rows in enumerate(states):
            flat = rows.flatten(0, 1).double()
            there = flat[flat.isfinite().all(-1)]  # a row of zeros has no direction, and its path a gap
            if len(there) <= AXES:
                continue
            mean = there.mean(0)
            axes = torch.linalg.eigh((there - mean).mT @ (there - mean))[1][:, -AXES:].flip(-1)
            flat = flat - mean
            found[document] = (flat @ axes).reshape(self._size[1:]).numpy()
        return self.arrays | {"token_path": found}

    def _follow(self, row: int, labels: list[Any]) -> None:
        for document, (before, after) in enumerate(zip(self._labels or [], labels, strict=bool(self._labels))):
            if before is None or after is None:
                continue
            step = followed_groups(np.stack([before, after]), by=MAJORITY).steps[0]
            for kind in KINDS:
                self.arrays[f"groups_{kind}"][document, row] = step.count(kind)
            self.arrays[_PERSISTING][document, row] = step.persisting_share
        self._labels = labels
