"""The words for tensor shapes: one alias for each kind of array that crosses a public signature.

Leading `*batch` axes belong to the framework; an author of an observable writes the last two. The annotations are
enforced in tests only (`make test` runs them through beartype), so users pay nothing for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Float, Int, Shaped

if TYPE_CHECKING:
    from torch import Tensor
else:  # torch takes two seconds to import; the names of the shapes must not
    from typing import Any as Tensor

__all__ = ["Attention", "Configuration", "Overlaps", "Pairs", "Spectrum", "TokenIds", "TokenMask", "Value"]

Configuration = Float[Tensor, "*batch tokens dim"]
"""T vectors at one layer or time, one a row; unit norm only where a preparation says so."""

Overlaps = Float[Tensor, "*batch tokens tokens"]
"""Inner products c_ij of the rows as prepared (the Gram matrix)."""

Attention = Float[Tensor, "*batch heads tokens tokens"]
"""Attention maps: row i holds the weights with which token i attends to every token, zero ahead under a causal mask."""

Pairs = Float[Tensor, "*batch pairs"]
"""Inner products of the unordered pairs i < j, row after row: the upper triangle of `Overlaps`."""

Spectrum = Float[Tensor, "*batch rank"]
"""Singular values of a configuration, descending."""

TokenMask = Shaped[Tensor, "*batch tokens"]
"""True where a token takes part in a statistic."""

TokenIds = Int[Tensor, "documents tokens"]
"""Token ids of documents of one length."""

Value = Float[Tensor, "*batch"]
"""One number for each configuration; NaN means *undefined*."""
