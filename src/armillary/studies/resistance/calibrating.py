"""What calibration documents tell of a decoder: the coordinates that carry its overlap, and how far sublayers move."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap
from armillary.observables.drift import massive_tokens, sublayer_update
from armillary.studies.plan import Plan
from armillary.studies.resistance.rungs import Pace

__all__ = ["Reader", "pace_of"]


class Reader:
    """Hears every tap of the calibration documents.

    First and massive tokens are left out of the rogue coordinates, the first of the pace. A coordinate's part in the
    mean overlap at a tap is the square of its mean over unit rows; the rogue ones are those whose part, averaged over
    all taps, is largest. One set for all taps: numbers without them can be subtracted from each other.

    Args:
        count: How many rogue coordinates.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._directions: dict[float, Tensor] = {}
        self._rows: dict[float, int] = {}
        self._moved: dict[float, list[Tensor]] = {}
        self._before: Tensor | None = None

    def next_batch(self) -> None:
        """The next tap is the start of other documents."""
        self._before = None

    def __call__(self, tap: Tap, residual: Tensor, read: Tensor) -> None:
        """Add one batch of states at one tap."""
        rows = residual.double().cpu()
        norms = rows.norm(dim=-1)
        kept = ~massive_tokens(norms, ratio=Plan.massive_ratio) & (norms > 0)
        kept[:, 0] = False
        unit = (rows[kept] / norms[kept][:, None]).sum(0)
        self._directions[tap.depth] = self._directions.get(tap.depth, torch.zeros_like(unit)) + unit
        self._rows[tap.depth] = self._rows.get(tap.depth, 0) + int(kept.sum())
        if self._before is not None:
            update = sublayer_update(self._before, rows)
            self._moved.setdefault(tap.depth, []).append(torch.stack([update.angle, update.norm])[..., 1:].flatten(1))
        self._before = rows

    def arrays(self) -> dict[str, np.ndarray]:
        """Depths, rogue coordinates, alike at all, and mean angle and ratio of the sublayer that ends at each depth."""
        depths = sorted(self._directions)
        parts = torch.stack([(self._directions[one] / max(self._rows[one], 1)).square() for one in depths]).mean(0)
        named = sorted(torch.topk(parts, min(self.count, len(parts))).indices.tolist())
        pace = []
        for depth in depths:
            moved = self._moved.get(depth)
            pace.append([0.0, 0.0] if moved is None else torch.cat(moved, 1).mean(1).tolist())
        return {
            "layers": np.asarray(depths),
            "coordinates": np.asarray([named] * len(depths)),
            "pace": np.asarray(pace),
        }


def pace_of(found: dict[str, np.ndarray], decoder: Decoder) -> Pace:
    """The pace of the decoder's own sublayers.

    Args:
        found: `Reader.arrays` of the decoder as loaded.
        decoder: The decoder; one whose sublayers lie side by side has a pace for both together only.
    """
    by_depth = dict(zip(found["layers"].tolist(), found["pace"].tolist(), strict=True))
    blocks = range(1, decoder.facts.layers + 1)
    nothing = [0.0, 0.0]
    attention = [by_depth.get(layer - 0.5, nothing) for layer in blocks]
    return Pace(
        attention_angle=tuple(one[0] for one in attention),
        mlp_angle=tuple(by_depth[float(layer)][0] for layer in blocks),
        attention_ratio=tuple(one[1] for one in attention),
    )
