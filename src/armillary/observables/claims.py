"""What an observable claims of itself: transformations of the rows that cannot change it, each with a reason.

A claim speaks of the rows as the observable sees them, after their preparation; what follows for the rows as given is
found by `armillary.invariance.proofs`. Claims are put on trial: a false one is found by `armillary audit`.
"""

from __future__ import annotations

from dataclasses import dataclass

from armillary.transformations.declaration import Transformation
from armillary.transformations.linear import GeneralLinear, Orthogonal
from armillary.transformations.rows import GlobalScale, RowScale, TokenPermutation, Translation

__all__ = [
    "BY_DIFFERENCES",
    "BY_INNER_PRODUCTS",
    "BY_LINEAR_RELATIONS",
    "BY_SINGULAR_VALUES",
    "FREE_OF_SCALE",
    "WHATEVER_THE_ORDER",
    "Claim",
]


@dataclass(frozen=True)
class Claim:
    """Transformations that leave an observable alone, and why.

    Args:
        transformation: Their kind; what it holds, it holds for (a permutation of features is orthogonal).
        reason: Why the number cannot change.
        source: Where that is proved: a page of the documentation, or author and year.
    """

    transformation: type[Transformation]
    reason: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.source})" if self.source else self.reason


_PAGE = "docs/audit.md"

BY_INNER_PRODUCTS = Claim(
    Orthogonal, "it depends on the inner products of the rows, and these stay: X Q (X Q)^T = X X^T", f"{_PAGE}, 1"
)
WHATEVER_THE_ORDER = Claim(TokenPermutation, "it treats all tokens alike", f"{_PAGE}, 2")
BY_SINGULAR_VALUES = (
    Claim(Orthogonal, "it depends on the singular values, and X Q has those of X", f"{_PAGE}, 1"),
    Claim(TokenPermutation, "it depends on the singular values, and P X has those of X", f"{_PAGE}, 2"),
)
FREE_OF_SCALE = Claim(GlobalScale, "it is a ratio in which the factor cancels", f"{_PAGE}, 3")
BY_DIFFERENCES = Claim(Translation, "it depends on differences of rows only", f"{_PAGE}, 5")
BY_LINEAR_RELATIONS = (
    Claim(GeneralLinear, "rows are linearly dependent after an invertible map if they were before", f"{_PAGE}, 6"),
    Claim(RowScale, "rows are linearly dependent after nonzero factors if they were before", f"{_PAGE}, 6"),
    WHATEVER_THE_ORDER,
)
