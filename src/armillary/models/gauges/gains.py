"""Gains of norms moved into the weights that read them, and other gains in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.draws import generator_of
from armillary.models.gauges.parts import Norm
from armillary.models.gauges.wiring import Wiring
from armillary.transformations.linear import DiagonalGain
from armillary.transformations.rows import Translation

__all__ = ["FoldGains", "RandomGains", "fold"]

WHICH = ("all", "blocks")


@dataclass(frozen=True)
class FoldGains(Gauge):
    """Every norm's gain, and its bias where the readers have one, moved into the weights that read the norm.

    Formula: W (g * n + b) + c = (W diag(g)) n + (W b + c), with n the normalized row. Where a reader has no c to hold
    W b, the norm keeps b / g as its bias, which asks for no gain of zero.

    Args:
        norms: "all", or "blocks", which leaves the final norm alone: a tied unembedding then stays tied.
    """

    norms: Literal["all", "blocks"]
    name: ClassVar[str] = "fold-gains"
    reach: ClassVar[dict[str, Reach]] = {
        "read": Reach(
            "a bias taken off, each coordinate divided by the gain", (DiagonalGain(torch.ones(1)), Translation(1.0, 0))
        )
    }

    def __post_init__(self) -> None:
        _check_which(self.norms)

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> FoldGains:
        """All norms."""
        return cls("all")

    @property
    def label(self) -> str:
        """In words."""
        return "gains folded into the weights that read them" + ("" if self.norms == "all" else ", in the blocks only")

    def refusal(self, wiring: Wiring) -> str | None:
        """Norms without gain, or one whose bias can neither be folded nor kept."""
        norms = tuple(chosen(wiring, self.norms))
        if all(norm.gain is None for norm in norms):
            return "its norms have no gain to fold"
        stuck = next((norm.name for norm in norms if _keeps_bias(norm) and _has_zero(norm)), None)
        return None if stuck is None else f"{stuck} has a gain of zero and a bias that no reader can hold"

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The final gain goes into the unembedding alone."""
        return self.norms == "all"

    def apply(self, wiring: Wiring) -> None:
        """Fold."""
        for norm in chosen(wiring, self.norms):
            fold(norm)


@dataclass(frozen=True)
class RandomGains(Gauge):
    """Every norm's output multiplied by random gains, which the weights that read it divide out again.

    Formula: W (g * n + b) = (W diag(1/r)) (r * g * n + r * b), with log r normal.

    Args:
        spread: standard deviation of log r.
        seed: of the draw.
        norms: "all", or "blocks", which leaves the final norm alone: a tied unembedding then stays tied.
    """

    spread: float
    seed: int
    norms: Literal["all", "blocks"] = "all"
    name: ClassVar[str] = "random-gains"
    reach: ClassVar[dict[str, Reach]] = {
        "read": Reach("each coordinate times a random positive number", (DiagonalGain(torch.ones(1)),))
    }

    def __post_init__(self) -> None:
        _check_which(self.norms)
        if not 0 < self.spread < 10:
            raise ArgumentError(f"Argument `spread` must lie in (0, 10), but it is {self.spread}. Use for example 0.5.")

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> RandomGains:
        """Spread 1/2 at all norms."""
        return cls(0.5, seed)

    @property
    def label(self) -> str:
        """In words."""
        where = "" if self.norms == "all" else ", in the blocks only"
        return f"gains times random ones of log-spread {self.spread:g}{where}, seed {self.seed}"

    def refusal(self, wiring: Wiring) -> str | None:
        """Norms without gain."""
        bare = next((norm.name for norm in chosen(wiring, self.norms) if norm.gain is None), None)
        return None if bare is None else f"{bare} has no gain that could hold another"

    def needs_own_head(self, wiring: Wiring) -> bool:
        """The final gain is divided out in the unembedding alone."""
        return self.norms == "all"

    def apply(self, wiring: Wiring) -> None:
        """Multiply here, divide there."""
        generator = generator_of(self.seed)
        for norm in chosen(wiring, self.norms):
            gain = norm.gain
            assert gain is not None  # refused otherwise
            noise = torch.randn(gain.shape, generator=generator, dtype=torch.float64).to(gain.device)
            factor = (self.spread * noise).exp()
            norm.put_gain(gain * factor)
            if norm.bias is not None:
                norm.bias.mul_(factor)
            for reader in norm.readers:
                reader.map_rows(lambda rows, factor=factor: rows / factor)  # type: ignore[misc]


def fold(norm: Norm) -> None:
    """One norm's gain, and its bias where all readers have one, into the weights that read it; gain one remains."""
    gain = norm.gain
    if gain is None:
        return
    bias = norm.bias
    if bias is not None:
        if _keeps_bias(norm):
            bias.div_(gain)
        else:
            for reader in norm.readers:
                assert reader.bias is not None  # what `_keeps_bias` asks
                reader.bias.add_(reader.matrix @ bias)
            bias.zero_()
    for reader in norm.readers:
        reader.map_rows(lambda rows: rows * gain)
    norm.put_gain(torch.ones_like(gain))


def chosen(wiring: Wiring, norms: str) -> Iterator[Norm]:
    """All norms that are read, or those of the blocks."""
    return (norm for norm in wiring.norms if norms == "all" or norm is not wiring.final_norm)


def _keeps_bias(norm: Norm) -> bool:
    return norm.bias is not None and any(reader.bias is None for reader in norm.readers)


def _has_zero(norm: Norm) -> bool:
    return norm.gain is not None and bool((norm.gain == 0).any())


def _check_which(norms: str) -> None:
    if norms not in WHICH:
        raise ArgumentError(f'Argument `norms` must be "all" or "blocks", but it is {norms!r}. Name one of them.')
