"""The residual stream times a constant, with what keeps the norms finite scaled along."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from armillary.errors import ArgumentError
from armillary.models.gauges.declaration import Gauge, Reach
from armillary.models.gauges.wiring import Wiring
from armillary.transformations.rows import GlobalScale

__all__ = ["StreamScale", "scaled_stream"]


@dataclass(frozen=True)
class StreamScale(Gauge):
    """Every row of the stream times a positive constant, and eps of every norm times its square.

    Formula: a x / sqrt(mean (a x)^2 + a^2 eps) = x / sqrt(mean x^2 + eps). One field of the configuration holds eps for
    all norms: so what is written through a norm of its own, and queries and keys that pass one, are scaled along. A
    tied unembedding is scaled with the embedding, and the final gain divides it out.

    Args:
        factor: a.
    """

    factor: float
    name: ClassVar[str] = "stream-scale"
    reach: ClassVar[dict[str, Reach]] = {"stream": Reach("all rows times one number", (GlobalScale(1.0),))}

    def __post_init__(self) -> None:
        if not 0 < self.factor < math.inf:
            raise ArgumentError(f"Argument `factor` must be positive and finite, but it is {self.factor}. Use 10.")

    @classmethod
    def standard(cls, *, seed: int, condition_number: float) -> StreamScale:
        """Ten times."""
        return cls(10.0)

    @property
    def label(self) -> str:
        """In words."""
        return f"stream times {self.factor:g}, eps of the norms times {self.factor**2:g}"

    def refusal(self, wiring: Wiring) -> str | None:
        """An eps that no configuration holds, or a tied head whose norm cannot divide the factor out."""
        if wiring.inside.epsilon is None:
            return "no field of its configuration holds eps of the norms, so that a saved copy would lose it"
        if any(norm.gain is None for norm in wiring.norms_behind):
            return "a norm without gain writes into the stream, so that nothing can scale it"
        if wiring.tied and wiring.final_norm.gain is None:
            return "the unembedding is tied and the final norm has no gain that could divide the factor out"
        return None

    def apply(self, wiring: Wiring) -> None:
        """Scale the stream and eps."""
        scaled_stream(wiring, self.factor)
        for norm in (*wiring.norms, *wiring.norms_behind, *wiring.head_norms):
            name = norm.epsilon_name
            assert name is not None  # the configuration holds it
            setattr(norm.module, name, getattr(norm.module, name) * self.factor**2)
        config, field = wiring.decoder.model.config, wiring.inside.epsilon
        assert field is not None  # refused otherwise
        setattr(config, field, getattr(config, field) * self.factor**2)
        for block in wiring.blocks:
            for slots, behind in ((block.query, block.query_norm), (block.key, block.key_norm)):
                if behind is not None:
                    bias = slots.bias
                    slots.put(slots.matrix * self.factor, None if bias is None else bias * self.factor)


def scaled_stream(wiring: Wiring, factor: float) -> None:
    """All that writes the stream times a factor, through norms behind sublayers too; eps is left alone."""
    for writer in wiring.writers:
        writer.map_outputs(lambda rows: rows * factor)
    for norm in wiring.norms_behind:
        gain = norm.gain
        assert gain is not None  # refused otherwise
        norm.put_gain(gain * factor)
    if wiring.tied:
        final = wiring.final_norm
        assert final.gain is not None  # refused otherwise
        final.put_gain(final.gain / factor)
        if final.bias is not None:
            final.bias.div_(factor)
