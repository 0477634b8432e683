"""What each sublayer adds to the stream: length, radial and tangential part, and angle, mean over tokens."""

from __future__ import annotations

import json
import math

import torch

from armillary.observables.drift import sublayer_update
from armillary.studies.batch import TapBatch
from armillary.studies.collector import Collector, Declared, Variable
from armillary.studies.layout import Layout
from armillary.studies.plan import TAPS, TOKEN_SETS

__all__ = ["UPDATES", "Updates"]

_PLACES = TAPS[:2]
_WORDS = {
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
_RANGES = {
    "norm": {"lowest": 0.0},
    "radial": {},
    "tangential": {"lowest": 0.0},
    "angle": {"lowest": 0.0, "highest": math.pi},
}

UPDATES = tuple(_WORDS)
"""The parts of a sublayer's update."""


class Updates(Collector):
    """Variables `update_norm`, `update_radial`, `update_tangential` and `update_angle`."""

    @classmethod
    def declared(cls, layout: Layout) -> Declared:
        """One variable for each part."""
        places = [place for place in _PLACES if place in layout.taps]
        measured = json.dumps([[place, tokens] for place in places for tokens in TOKEN_SETS])
        whose = "tap mid: attention's update, tap block: the MLP's"
        if layout.residual == "parallel":
            whose = "attention and MLP read one stream side by side, and the update is that of both together"
        found = {}
        for part, (symbol, words) in _WORDS.items():
            attrs = {
                "symbol": symbol,
                "definition": f"{words}; {whose}",
                "source": "u = y - x between neighboring taps",
                "undefined": "a zero row, and at the embedding",
                "measured": measured,
                **_RANGES[part],
            }
            found[f"update_{part}"] = Variable(("condition", "tap", "layer", "tokens", "document"), attrs)
        return Declared(found)

    def add(self, batch: TapBatch) -> None:
        """The update since the tap before; there is none at the embedding."""
        if batch.before is None or batch.tap.layer == 0:
            return
        update = sublayer_update(batch.before, batch.residual)
        everything = torch.ones_like(batch.massive)
        chosen = torch.stack([everything, everything, ~batch.massive])
        chosen[1:, :, 0] = False
        for part in UPDATES:
            value = torch.where(chosen, getattr(update, part).double(), 0.0)
            mean = value.sum(-1) / chosen.sum(-1)
            self.arrays[f"update_{part}"][:, TAPS.index(batch.tap.place), batch.row] = mean.numpy().T
