"""What rounding alone does to the numbers of a condition: the first documents once more, in the next wider type."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from armillary.models.anatomy import Decoder
from armillary.models.widened import widened, wider_type
from armillary.records.floors import judged, moved
from armillary.shapes import TokenIds
from armillary.studies import collectors
from armillary.studies.chunk import Bench
from armillary.studies.collector import Setting

__all__ = ["rounding", "rounding_words"]


def rounding(
    setting: Setting, ids: TokenIds, titles: tuple[str, ...], narrow: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The floors of one condition.

    Args:
        setting: Axes, and the decoder in this condition.
        ids: The documents to repeat, `documents tokens`.
        titles: Theirs, for messages.
        narrow: What the run measured of a chunk that begins with them.

    Returns:
        Floors by the name of their variable.
    """
    layout = setting.layout
    every = {kind: kind.declared(layout).variables for kind in collectors.COLLECTORS}
    bench = Bench(setting, [kind for kind, variables in every.items() if judged(variables)])
    with widened(setting.decoder):
        wide = bench.measure(ids, titles)
    known = {name: one for variables in every.values() for name, one in variables.items() if name in wide}
    chosen = {name: known[name] for name in judged(known)}
    return moved({name: narrow[name][: len(ids)] for name in chosen}, wide, chosen, layout.layers)


def rounding_words(decoder: Decoder, documents: int) -> str:
    """How the floors are measured, in words; what stands in the way where they are not."""
    wide, narrow = wider_type(decoder), decoder.facts.dtype
    if wide is None:
        return f"not measured: {narrow} on {decoder.device.type} has no wider type to compare with"
    if documents < 1:
        return "not measured: no document was asked for"
    which = "the first document" if documents == 1 else f"the first {documents} documents"
    return (
        f"{which} of each condition once more in {str(wide).removeprefix('torch.')}, on the same weights; the largest "
        f"difference from {narrow}"
    )
