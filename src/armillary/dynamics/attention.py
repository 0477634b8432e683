"""Who looks at whom, and how much: row rules and masks turn scores into attention weights.

Scores are inner products of queries and keys; a row rule turns row i of them into the weights A_ij with which token i
takes up the others. Weighted tokens (several merged into one) enter as multiplicities w_j, so that two tokens at one
place and one token of weight 2 are the same thing to everybody else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError

__all__ = [
    "Allowed",
    "Causal",
    "Full",
    "Hardmax",
    "Mask",
    "RowRule",
    "Softmax",
    "Uniform",
    "Unnormalized",
    "Window",
    "require_rows",
]

LARGEST_EXPONENT = 340.0
"""Above it the squares of speeds of size e^beta overflow in float64."""


@dataclass(frozen=True)
class Full:
    """Every token attends to every token, itself included."""

    symmetric: ClassVar[bool] = True

    def allowed(self, tokens: int, device: torch.device) -> Tensor | None:
        """None: nothing is forbidden."""
        return None

    def __str__(self) -> str:
        return "no mask"


@dataclass(frozen=True)
class Causal:
    """Token i attends to tokens 1 ... i."""

    symmetric: ClassVar[bool] = False

    def allowed(self, tokens: int, device: torch.device) -> Tensor | None:
        """True where row i may attend to column j, `tokens tokens`."""
        return torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()

    def __str__(self) -> str:
        return "causal mask"


@dataclass(frozen=True)
class Window:
    """Tokens attend to neighbors in the sequence.

    Args:
        reach: How many positions away, from 0 up (0: only oneself).
        direction: "back" for the last `reach` tokens (causal, as in sliding-window attention), "both" for either side:
            a symmetric mask, under which the energy of the allowed pairs is still monotone.
    """

    reach: int
    direction: str

    def __post_init__(self) -> None:
        if not isinstance(self.reach, int) or self.reach < 0:
            raise ArgumentError(
                f"Argument `reach` must be a whole number from 0 up, but it is {self.reach}. 0 is only oneself."
            )
        if self.direction not in ("back", "both"):
            raise ArgumentError(
                f"Argument `direction` must be 'back' or 'both', but it is {self.direction!r}. Sliding-window "
                f"attention "
                "looks back."
            )

    @property
    def symmetric(self) -> bool:
        """Whether i attends to j exactly when j attends to i."""
        return self.direction == "both" or self.reach == 0

    def allowed(self, tokens: int, device: torch.device) -> Tensor | None:
        """True where row i may attend to column j, `tokens tokens`."""
        place = torch.arange(tokens, device=device)
        back = place[:, None] - place[None, :]
        near = back.abs() <= self.reach
        return near if self.direction == "both" else near & (back >= 0)

    def __str__(self) -> str:
        return f"window of {self.reach} {'back' if self.direction == 'back' else 'on both sides'}"


@dataclass(frozen=True, eq=False)
class Allowed:
    """Token i attends to token j exactly where a matrix says so.

    Args:
        pairs: Boolean, `tokens tokens`; row i is what token i may look at, and none of them is empty.

    Raises:
        ArgumentError: It is no square boolean matrix, or a row is empty.
    """

    pairs: Tensor

    def __post_init__(self) -> None:
        require_rows(self.pairs, len(self.pairs))

    @property
    def symmetric(self) -> bool:
        """Whether i attends to j exactly when j attends to i."""
        return bool(torch.equal(self.pairs, self.pairs.mT))

    def allowed(self, tokens: int, device: torch.device) -> Tensor | None:
        """The matrix."""
        return self.pairs.to(device)

    def __str__(self) -> str:
        return f"given mask ({int(self.pairs.sum())} of {self.pairs.numel()} pairs)"


Mask = Full | Causal | Window | Allowed


def require_rows(allowed: Tensor, tokens: int) -> None:
    """Refuse a mask that does not say of every pair whether it is allowed, or leaves a token with nobody to look at.

    Args:
        allowed: What should be boolean, `tokens tokens`.
        tokens: How many there are.
    """
    if allowed.dtype != torch.bool or tuple(allowed.shape) != (tokens, tokens):
        raise ArgumentError(
            f"Argument `mask` must be boolean [{tokens}, {tokens}] for {tokens} tokens, but it is {allowed.dtype} "
            f"{list(allowed.shape)}. Give one row a token, True where it may look."
        )
    empty = ~allowed.any(-1)
    if bool(empty.any()):
        raise ArgumentError(
            f"Argument `mask` must let every token look at one at least, but row {int(empty.nonzero()[0])} is empty. "
            "Let it look at itself."
        )


@dataclass(frozen=True)
class Softmax:
    """A_ij = w_j e^{beta s_ij} / sum_k w_k e^{beta s_ik}: rows sum to one.

    Args:
        beta: Inverse temperature, of any sign; each row is shifted by its own maximum, so nothing overflows. A tensor
            of no dimension where a derivative with respect to it is wanted.
    """

    beta: float

    def __post_init__(self) -> None:
        _require_finite(self.beta)

    def weights(self, scores: Tensor, allowed: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """Attention weights of the scores, same shape.

        Args:
            scores: `*batch tokens tokens`.
            allowed: True where row i may attend to column j; None for everywhere.
            multiplicity: w_j, `*batch tokens`, or None for ones.
        """
        logits = self.beta * scores
        if multiplicity is not None:
            logits = logits + multiplicity.log()[..., None, :]
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -math.inf)
        return torch.softmax(logits, dim=-1)

    def __str__(self) -> str:
        return f"softmax, beta = {self.beta:g}"


@dataclass(frozen=True)
class Unnormalized:
    """A_ij = w_j e^{beta s_ij} / n, or with the shifted clock w_j e^{beta s_ij - |beta|} / n; n is the sum of the w_j.

    The two clocks differ by the factor e^{|beta|}; papers print both.

    Args:
        beta: Inverse temperature, of any sign; a tensor of no dimension where a derivative is wanted.
        clock: "plain", or "shifted", which is finite at any beta for unit vectors.
    """

    beta: float
    clock: str = "plain"

    def __post_init__(self) -> None:
        _require_finite(self.beta)
        if self.clock not in ("plain", "shifted"):
            raise ArgumentError(f"Argument `clock` must be 'plain' or 'shifted', but it is {self.clock!r}. Name one.")
        if self.clock == "plain" and abs(self.beta) > LARGEST_EXPONENT:
            raise ArgumentError(
                f"Argument `beta` must be at most {LARGEST_EXPONENT:g} in size with the plain clock, but it is "
                f"{self.beta:g}: speeds of e^beta overflow. Take clock='shifted' and time in units of e^-beta."
            )

    def weights(self, scores: Tensor, allowed: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """Weights of the scores, same shape; rows do not sum to one."""
        shift = abs(self.beta) if self.clock == "shifted" else 0.0
        found = torch.exp(self.beta * scores - shift)
        total = torch.as_tensor(scores.shape[-1], dtype=scores.dtype, device=scores.device)
        if multiplicity is not None:
            found = found * multiplicity[..., None, :]
            total = multiplicity.sum(-1)[..., None, None]
        if allowed is not None:
            found = found.masked_fill(~allowed, 0.0)
        return found / total

    def __str__(self) -> str:
        return f"unnormalized, beta = {self.beta:g}" + (", shifted clock" if self.clock == "shifted" else "")


@dataclass(frozen=True)
class Uniform:
    """A_ij = w_j / sum of the w_k that i may attend to: scores play no part."""

    def weights(self, scores: Tensor, allowed: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """Weights of the shape of the scores, whose values are not looked at."""
        found = torch.ones_like(scores)
        if multiplicity is not None:
            found = found * multiplicity[..., None, :]
        if allowed is not None:
            found = found.masked_fill(~allowed, 0.0)
        return found / found.sum(-1, keepdim=True)

    def __str__(self) -> str:
        return "uniform weights"


@dataclass(frozen=True)
class Hardmax:
    """All weight on the largest score of a row, shared equally (by multiplicity) among ties.

    Args:
        tie: Scores within this distance of the largest count as equal to it.
    """

    tie: float

    def __post_init__(self) -> None:
        if not self.tie >= 0 or not math.isfinite(self.tie):
            raise ArgumentError(f"Argument `tie` must be at least 0 and finite, but it is {self.tie}. Take 1e-12.")

    def weights(self, scores: Tensor, allowed: Tensor | None, multiplicity: Tensor | None) -> Tensor:
        """Weights of the scores, same shape."""
        seen = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
        found = (seen >= seen.amax(-1, keepdim=True) - self.tie).to(scores.dtype)
        if multiplicity is not None:
            found = found * multiplicity[..., None, :]
        return found / found.sum(-1, keepdim=True)

    def __str__(self) -> str:
        return "hardmax"


RowRule = Softmax | Unnormalized | Uniform | Hardmax


def _require_finite(beta: float) -> None:
    number = beta.detach() if isinstance(beta, Tensor) else beta
    if isinstance(number, Tensor) and number.ndim:
        raise ArgumentError(
            f"Argument `beta` must be one number, but it is a tensor of shape {list(number.shape)}. Run one after the "
            "other."
        )
    if not isinstance(number, Real | Tensor) or not math.isfinite(number):
        raise ArgumentError(
            f"Argument `beta` must be finite, but it is {beta!r}. Hardmax is the rule of infinite beta."
        )
