"""States that are not finite: named by condition, layer, document and token before any number is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from armillary.errors import NumericalError
from armillary.models.capture import Tap

__all__ = ["require_finite"]


def require_finite(states: Tensor, *, tap: Tap, condition: str, titles: Sequence[str]) -> None:
    """Refuse states that hold NaN or infinities.

    Args:
        states: One batch, `documents tokens dim`.
        tap: Where they were taken.
        condition: In which condition.
        titles: Of the documents of this batch.

    Raises:
        NumericalError: With the first place where a coordinate is not finite.
    """
    if bool(torch.isfinite(states).all()):
        return
    document, token, coordinate = (~torch.isfinite(states)).nonzero()[0].tolist()
    kind = "NaN" if bool(torch.isnan(states[document, token, coordinate])) else "infinite"
    raise NumericalError(
        f"States must be finite, but a coordinate is {kind} in condition {condition}, layer {tap.layer} ({tap.place}), "
        f"document {titles[document]!r}, token {token}. Check the weights, or use --dtype float32."
    )
