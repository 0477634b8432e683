"""Directions carried from block to block: what a sublayer proposes, and how large a step is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from armillary.errors import ArgumentError, NumericalError
from armillary.models.capture import Tap
from armillary.studies.resistance.sublayers import Sublayers
from armillary.terms import LONGEST_STEP

__all__ = ["CalibratedStep", "EqualStep", "OwnStep", "PacedStep", "Step", "climb"]

BISECTIONS = 50


@dataclass(frozen=True)
class OwnStep:
    """The stream adds what a sublayer writes, times a factor of the decoder: x + factor u, with no sphere.

    Args:
        factor: The decoder's own multiplier.
    """

    factor: float = 1.0

    def moved(self, rows: Tensor, update: Tensor, tap: Tap) -> Tensor:
        """The stream after the sublayer."""
        return rows + self.factor * update

    def __str__(self) -> str:
        return "the sublayer's own step, off the sphere"


@dataclass(frozen=True)
class EqualStep:
    """Every sublayer adds a vector of one root mean square length, then rows are normalized: unit(x + eta u / rms u).

    Args:
        length: eta.
    """

    length: float

    def moved(self, rows: Tensor, update: Tensor, tap: Tap) -> Tensor:
        """Unit rows after the sublayer."""
        return _unit(rows + self.length * _of_unit_length(update, tap))

    def __str__(self) -> str:
        return f"equal steps of length {self.length:g}"


@dataclass(frozen=True)
class PacedStep:
    """Steps that turn tokens as far as the decoder does: unit(x + eta u / rms u), one eta a sublayer.

    Args:
        attention: eta of each block's attention, as `CalibratedStep` found it.
        mlp: That of each block's MLP.
    """

    attention: tuple[float, ...]
    mlp: tuple[float, ...]

    def moved(self, rows: Tensor, update: Tensor, tap: Tap) -> Tensor:
        """Unit rows after the sublayer."""
        length = (self.attention if tap.place == "mid" else self.mlp)[tap.layer - 1]
        return _unit(rows + length * _of_unit_length(update, tap))


@dataclass(eq=False)
class CalibratedStep:
    """Finds the lengths of `PacedStep` on the way up, on the rows that it is given: all calibration documents at once.

    The angle between x and x + eta u grows with eta up to that between x and u, so the eta at which its mean is the
    wanted one is found by bisection. Where even `LONGEST_STEP` turns tokens less, `LONGEST_STEP` is kept.

    Args:
        attention: Wanted mean angle of each block's attention, radians, over tokens without the first.
        mlp: That of each block's MLP.
        found: For each tap the length, the wanted angle and the realized one.
    """

    attention: tuple[float, ...]
    mlp: tuple[float, ...]
    found: dict[Tap, tuple[float, float, float]] = field(default_factory=dict)

    def moved(self, rows: Tensor, update: Tensor, tap: Tap) -> Tensor:
        """Unit rows after the sublayer, whose length is kept in `found`."""
        wanted = (self.attention if tap.place == "mid" else self.mlp)[tap.layer - 1]
        direction = _of_unit_length(update, tap)
        x, u = (one[:, 1:].double() for one in (rows, direction))
        along = (x * u).sum(-1)
        across = (u - along[..., None] * x).norm(dim=-1)

        def mean_angle(length: float) -> float:
            return float(torch.atan2(length * across, 1 + length * along).mean())

        low, high = 0.0, LONGEST_STEP
        if mean_angle(high) > wanted:
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                low, high = (middle, high) if mean_angle(middle) < wanted else (low, middle)
        self.found[tap] = (high, wanted, mean_angle(high))
        return _unit(rows + high * direction)


Step = OwnStep | EqualStep | PacedStep | CalibratedStep


def climb(start: Tensor, blocks: Sequence[Callable[[], Sublayers]], step: Step) -> Iterator[tuple[Tap, Tensor]]:
    """The states at every tap, from the start through all blocks.

    Args:
        start: `documents tokens dim`: unit rows, or with `OwnStep` the stream.
        blocks: One for each block: makes its sublayers when the climb arrives there.
        step: How large steps are.

    Yields:
        A tap and the state there: the start at layer 0, then after each attention and each MLP; a sublayer that is left
        out leaves the state as it was.

    Raises:
        ArgumentError: There is no block.
        NumericalError: A state is not finite, or a sublayer proposes nothing at all.
    """
    if not blocks:
        raise ArgumentError("Argument `blocks` must hold at least one block, but it is empty. Give the decoder's.")
    state = start
    yield Tap(0), state
    for layer, made in enumerate(blocks, 1):
        attention, mlp = made()
        for tap, drift in ((Tap(layer, "mid"), attention), (Tap(layer), mlp)):
            if drift is not None:
                state = step.moved(state, drift(state), tap)
                _require_finite(state, tap)
            yield tap, state


def _of_unit_length(update: Tensor, tap: Tap) -> Tensor:
    """The update over the root mean square length of its rows, document by document."""
    length = update.square().sum(-1).mean(-1).sqrt()
    if not bool((length > 0).all()):
        part = "attention" if tap.place == "mid" else "MLP"
        raise NumericalError(
            f"The {part} of block {tap.layer} must propose a motion to be given a length, but the root mean square "
            f"length of its update is {float(length.min())}. Leave this rung out."
        )
    return update / length[..., None, None]


def _require_finite(state: Tensor, tap: Tap) -> None:
    if not bool(torch.isfinite(state).all()):
        document, token, _ = (~torch.isfinite(state)).nonzero()[0].tolist()
        raise NumericalError(
            f"States must be finite, but after the {'attention' if tap.place == 'mid' else 'MLP'} of block "
            f"{tap.layer} token {token} of document {document} of the chunk is not. Leave this rung out."
        )


def _unit(rows: Tensor) -> Tensor:
    return rows / rows.norm(dim=-1, keepdim=True)
