"""The proof of a gauge: outputs before and after in float64, then in the decoder's own type beside its rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from armillary.errors import ArgumentError, CheckMissed, UnsupportedModelError
from armillary.models.anatomy import Decoder, weight_hash
from armillary.models.gauges.declaration import Gauge
from armillary.models.gauges.precise import float64_copy, kept_wide, narrowed
from armillary.models.gauges.ties import untied
from armillary.models.gauges.wiring import Wiring, wiring_of
from armillary.models.proofs import fingerprints, require_same

__all__ = ["FLOORS", "WITHIN", "GaugeProof", "GaugeTrial", "require_held", "under"]

WITHIN = 1e-9
"""How far outputs may move in float64. On small models rounding stays below 1e-11, on the embedded default below 1e-11
for most gauges and below 1e-9 for all."""

FLOORS = 10.0
"""How many rounding floors outputs may move in the decoder's own type."""

RESOLVED = 1e-3
"""The most that a condition number times the spacing of the decoder's own type may be."""

Untie = Literal["by copy", "never"]


@dataclass(frozen=True)
class GaugeProof:
    """What a gauge did to the outputs of a decoder.

    Attributes:
        gauge: its name; label: with its choices.
        compared: "logits" or "log-probabilities".
        difference: largest difference of an output in float64.
        narrow_difference: the same in the decoder's own type; NaN where that is float64.
        floor: largest difference between the outputs of the decoder as it was in its own type and in float64; NaN where
            its own type is float64.
        largest: largest output, in absolute value.
        moved: largest logit difference in float64, also where log-probabilities are compared.
        untied: whether a tied unembedding was copied.
        documents, tokens: on how many.
    """

    gauge: str
    label: str
    compared: str
    difference: float
    narrow_difference: float
    floor: float
    largest: float
    moved: float
    untied: bool
    documents: int
    tokens: int

    @property
    def held(self) -> bool:
        """Whether the function is unchanged, as far as these documents tell."""
        narrow = self.narrow_difference <= FLOORS * self.floor or self.floor != self.floor
        return self.difference <= WITHIN and narrow

    def __str__(self) -> str:
        words = f"{self.gauge}: {self.compared} move by {self.difference:.1e} in float64"
        if self.floor == self.floor:
            words += f", by {self.narrow_difference:.1e} in the decoder's own type (rounding floor {self.floor:.1e})"
        many = f"{self.documents} document{'s' * (self.documents != 1)}"
        words += f"; {many} of {self.tokens} tokens, largest {self.largest:.3g}"
        return words + ("; the unembedding was untied by copy" if self.untied else "")


class GaugeTrial:
    """A decoder and documents on which gauges are verified; what the decoder itself says is computed once.

    Args:
        decoder: float32 or float64; it is never changed.
        documents: `Documents`, or ids [documents, tokens].
        untie: "by copy": a tied unembedding is copied where a gauge needs it of its own; "never": such a gauge is
            refused.
        watch: opened around every pass in float64, with the decoder that makes it: before and after a gauge.

    Raises:
        ArgumentError: half precision; ids that the decoder does not take.
        UnsupportedModelError: a family whose parts are not known well enough.
    """

    def __init__(
        self,
        decoder: Decoder,
        documents: Any,
        *,
        untie: Untie = "by copy",
        watch: Callable[[Decoder], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.decoder, self.untie, self.watch = decoder, _checked_untie(untie), watch
        self.dtype = next(decoder.model.parameters()).dtype
        if self.dtype not in (torch.float32, torch.float64):
            raise ArgumentError(
                f"Argument `dtype` must be float32 or float64 for a gauge to be verified, but it is "
                f"{decoder.facts.dtype}, whose own rounding hides any difference. Load the decoder with `dtype` "
                "float32."
            )
        self.wiring = wiring_of(decoder)
        self.ids: Tensor = decoder.checked(getattr(documents, "token_ids", documents))
        self._before = fingerprints(decoder.model)
        self.logits = self._pass(float64_copy(decoder))
        self.narrow_logits = None if self.dtype is torch.float64 else decoder.logits(self.ids)

    def refusal(self, gauge: Gauge) -> str | None:
        """Why the decoder does not admit a gauge, as the end of a sentence; None if it does."""
        why, number = refusal_of(gauge, self.wiring, untie=self.untie), getattr(gauge, "condition_number", 1.0)
        if why is None and number * torch.finfo(self.dtype).eps > RESOLVED:
            return f"a condition number of {number:g} is more than {self.decoder.facts.dtype} can resolve"
        return why

    @contextmanager
    def applied(self, gauge: Gauge) -> Iterator[Decoder]:
        """A float64 copy of the decoder with the gauge applied, not verified; the decoder itself is checked afterwards.

        Raises:
            UnsupportedModelError: the decoder does not admit it.
            CheckMissed: the decoder itself was changed.
        """
        why = self.refusal(gauge)
        if why is not None:
            raise UnsupportedModelError(
                f"Argument `gauge` must be one that {self.decoder.facts.name} admits, but {gauge.name} is refused: "
                f"{why}. am.gauges_of(decoder) lists those that are admitted."
            )
        copied = float64_copy(self.decoder)
        with torch.no_grad():
            if self.wiring.tied and gauge.needs_own_head(self.wiring):
                untied(copied)
            gauge.apply(wiring_of(copied))
        yield copied
        require_same(self._before, self.decoder.model, f"while {gauge.name} was applied to a copy")

    def verified(self, gauge: Gauge, applied: Decoder, logits: Tensor) -> tuple[GaugeProof, Decoder]:
        """GaugeTrial a copy to which a gauge was applied.

        Args:
            gauge: which.
            applied: the float64 copy; afterwards it is in the decoder's own type.
            logits: its logits of the documents in float64, no float32 on the way.

        Returns:
            The verification and the decoder under the gauge.
        """
        verification = self._compared(gauge, applied, logits)
        return verification, _named(self.decoder, applied, verification)

    def _compared(self, gauge: Gauge, applied: Decoder, logits: Tensor) -> GaugeProof:
        """What a gauge did to the outputs; its copy is in the decoder's own type afterwards."""
        difference, largest = _apart(self.logits, logits, gauge.compared)
        moved, _ = _apart(self.logits, logits, "logits")
        tied = applied.head.weight is applied.embedding.weight
        narrow = floor = float("nan")
        narrowed(applied, self.decoder)
        if self.narrow_logits is not None:
            narrow, _ = _apart(self.narrow_logits, applied.logits(self.ids), gauge.compared)
            floor, _ = _apart(self.logits, self.narrow_logits, gauge.compared)
        return GaugeProof(
            gauge=gauge.name,
            label=gauge.label,
            compared=gauge.compared,
            difference=difference,
            narrow_difference=narrow,
            floor=floor,
            largest=largest,
            moved=moved,
            untied=self.wiring.tied and not tied,
            documents=self.ids.shape[0],
            tokens=self.ids.shape[1],
        )

    def _pass(self, wide: Decoder) -> Tensor:
        """Logits of the documents, all in float64.

        Raises:
            UnsupportedModelError: an operation of the decoder knows no float64, or has no memory for it.
        """
        try:
            with kept_wide(), self.watch(wide):
                return wide.logits(self.ids)
        except RuntimeError as trouble:
            raise UnsupportedModelError(
                f"Argument `decoder` must run in float64 for a gauge to be verified, but {self.decoder.facts.name} "
                f"stops there ({trouble}). Leave gauges out: the numbers themselves need no wider type."
            ) from trouble

    def under(self, gauge: Gauge) -> tuple[Decoder, GaugeProof]:
        """The decoder under a gauge that was verified.

        Raises:
            UnsupportedModelError: the decoder does not admit it.
            CheckMissed: it moves the outputs; the message carries the difference.
        """
        with self.applied(gauge) as applied:
            verification, decoder = self.verified(gauge, applied, self._pass(applied))
        require_held(verification)
        return decoder, verification

    def proof(self, gauge: Gauge) -> GaugeProof:
        """What a gauge does to the outputs, whether or not it leaves them.

        Raises:
            UnsupportedModelError: the decoder does not admit it.
        """
        with self.applied(gauge) as applied:
            return self._compared(gauge, applied, self._pass(applied))


def under(decoder: Decoder, gauge: Gauge, documents: Any, *, untie: Untie = "by copy") -> Decoder:
    """A copy of a decoder under a gauge, verified on documents; the decoder itself is left alone.

    The gauge is applied to the weights in float64 and outputs are compared there; then the copy is cast to the
    decoder's own type and compared again. What was found stands in `facts.notes`.

    Args:
        decoder: float32 or float64.
        gauge: which; `gauges_of(decoder)` lists those admitted.
        documents: `Documents`, or ids [documents, tokens]; a few short ones do.
        untie: "by copy" or "never", see `GaugeTrial`.

    Returns:
        A decoder with the same function and other weights. Saving and loading it keeps both.

    Raises:
        ArgumentError: half precision, or ids that the decoder does not take.
        UnsupportedModelError: the decoder does not admit the gauge; the message says why.
        CheckMissed: it was applied and moved the outputs; the message carries the difference.
    """
    return GaugeTrial(decoder, documents, untie=untie).under(gauge)[0]


def require_held(verification: GaugeProof) -> None:
    """Refuse what is no gauge of this decoder.

    Raises:
        CheckMissed: with the difference.
    """
    if verification.held:
        return
    if not verification.difference <= WITHIN:
        raise CheckMissed(
            f"Gauge {verification.gauge} must leave all {verification.compared} within {WITHIN:g} in float64, but one "
            f"moved by {verification.difference:.3g} (largest {verification.largest:.3g}). It is no gauge of this "
            "decoder, which is left as it was: correct the gauge, or the row of its family."
        )
    raise CheckMissed(
        f"Gauge {verification.gauge} must leave all {verification.compared} within {FLOORS:g} rounding floors of "
        f"{verification.floor:.3g}, but in the decoder's own type one moved by {verification.narrow_difference:.3g}, "
        f"in float64 by {verification.difference:.3g}. The decoder is left as it was: load it with `dtype` float64, or "
        "take maps of a smaller condition number."
    )


def refusal_of(gauge: Gauge, wiring: Wiring, *, untie: Untie = "by copy") -> str | None:
    """Why a decoder does not admit a gauge; None if it does."""
    why = gauge.refusal(wiring)
    if why is None and untie == "never" and wiring.tied and gauge.needs_own_head(wiring):
        return 'its unembedding is the embedding, the gauge needs it to be a tensor of its own, and `untie` is "never"'
    return why


def _named(decoder: Decoder, applied: Decoder, verification: GaugeProof) -> Decoder:
    facts = replace(
        decoder.facts,
        name=f"{decoder.facts.name} under {verification.gauge}",
        tied=applied.head.weight is applied.embedding.weight,
        quantization=None,
        weight_hash=weight_hash(applied.model),
        notes=(*decoder.facts.notes, f"Re-parametrized, {verification.label}. {verification}."),
    )
    return replace(applied, facts=facts, loading=None)


def _apart(one: Tensor, other: Tensor, compared: str) -> tuple[float, float]:
    """Largest difference and largest output, one document at a time."""
    apart = largest = 0.0
    for a, b in zip(one, other, strict=True):
        a, b = a.double(), b.double().to(a.device)
        if compared == "log-probabilities":
            a, b = a.log_softmax(-1), b.log_softmax(-1)
        worst = float((a - b).abs().max())
        apart = worst if worst != worst else max(apart, worst)
        largest = max(largest, float(a.abs().max()))
        if apart != apart:
            break
    return apart, largest


def _checked_untie(untie: Untie) -> Untie:
    if untie not in ("by copy", "never"):
        raise ArgumentError(f'Argument `untie` must be "by copy" or "never", but it is {untie!r}. Name one of them.')
    return untie
