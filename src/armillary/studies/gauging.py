"""Numbers before and after each gauge of a decoder, paired by document: which belong to a basis that training chose."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.gauges.controls import KeptEpsilon
from armillary.models.gauges.declaration import Gauge
from armillary.models.gauges.listing import gauges_of
from armillary.models.gauges.places import overheard
from armillary.models.gauges.scale import StreamScale
from armillary.models.gauges.verification import GaugeTrial, Untie, require_held
from armillary.observables.declaration import Measurement
from armillary.records.gauged import GaugedNumbers, UnderGauge
from armillary.studies.placed import Ledger, reason_for
from armillary.studies.plan import check_measurements

__all__ = ["Failing", "numbers_under"]

Failing = Literal["stop", "told"]
"""What a gauge that moves the outputs does to the others: ends the study, or stands as failed beside them."""

LEAST = 1024 * torch.finfo(torch.float64).eps
"""The floor below which none goes, relative to the largest value that a number took."""


def numbers_under(
    decoder: Decoder,
    documents: Any,
    gauges: Mapping[str, Gauge] | None = None,
    *,
    layers: Sequence[int],
    measurements: Sequence[Measurement] | None = None,
    untie: Untie = "by copy",
    failing: Failing = "stop",
) -> GaugedNumbers:
    """Verify each gauge on the documents and measure the same numbers before and after it, in float64.

    Args:
        decoder: float32 or float64; left alone.
        documents: `Documents`, or ids [documents, tokens] with at least three tokens; a few short documents do.
        gauges: by name; None takes every gauge that the decoder admits. Those that it does not are listed as refused.
        layers: where, 0..L.
        measurements: of the stream; None takes the laboratory's own. Those of them that a laboratory takes at other
            taps are taken after the norm, of queries, keys, values and neurons too.
        untie: "by copy" or "never", see `GaugeTrial`.
        failing: what a gauge that moves the outputs does, see `Failing`.

    Returns:
        Numbers before and after, with floors, reasons and the proof of every gauge.

    Raises:
        ArgumentError: half precision, too few tokens, a layer that is not there; a measurement that has no preparation,
            comes twice or needs calibration.
        UnsupportedModelError: a family whose parts are not known well enough.
        CheckMissed: a gauge moves the outputs and `failing` is "stop": nothing is measured further, and the message
            carries the difference.
    """
    _require_uncalibrated(measurements)
    dtype = next(decoder.model.parameters()).dtype
    heard: list[Ledger] = []

    def watch(one: Decoder) -> AbstractContextManager[None]:
        first: Literal["measured", "none"] = "none" if heard else "measured"
        eps = torch.finfo(dtype).eps
        heard.append(Ledger(measurements, norm=decoder.family.norm, resolution=eps, floors=first))
        return overheard(one, layers, heard[-1].hear)

    ids = decoder.checked(getattr(documents, "token_ids", documents))
    if ids.shape[1] < 3:
        raise ArgumentError(
            f"Argument `documents` must have at least 3 tokens, since the first is left out, but they have "
            f"{ids.shape[1]}. Give longer ones."
        )
    trial = GaugeTrial(decoder, ids, untie=untie, watch=watch)
    names, before = heard[-1].table()
    chosen = gauges_of(decoder, untie=untie).admitted if gauges is None else gauges
    steepest = max((getattr(one, "condition_number", 1.0) for one in chosen.values()), default=1.0)
    narrow, share = (decoder, 1.0) if dtype is torch.float32 else (_narrowed(decoder), 2.0**-29 * steepest)
    with watch(narrow):
        narrow.hidden(trial.ids)
    floor = np.maximum(_floors(before.numpy(), heard[-1].table()[1].numpy(), share), heard[0].floor(names).numpy())
    under, refused, failed = {}, {}, {}
    for name, gauge in chosen.items():
        why = trial.refusal(gauge)
        if why is not None:
            refused[name] = why
            continue
        del heard[1:]  # of the others only what came out of them is kept
        proof = trial.proof(gauge)
        if failing == "told" and not proof.held:
            failed[name] = str(proof)
            continue
        require_held(proof)
        after, words = heard[-1].table()[1].numpy(), str(proof)
        if isinstance(gauge, StreamScale):
            words += f"; with eps kept they would move by {trial.proof(KeptEpsilon(0, gauge.factor)).difference:.1e}"
        under[name] = UnderGauge(
            label=gauge.label,
            proof=words,
            difference=proof.difference,
            narrow_difference=proof.narrow_difference,
            output_floor=proof.floor,
            after=after,
            reasons=tuple(reason_for(gauge, number, heard[0].measurements.get(number)) for number in names),
        )
    if gauges is None:
        refused = dict(gauges_of(decoder, untie=untie).refused)
    titles = getattr(documents, "titles", None) or tuple(f"document {k}" for k in range(1, len(trial.ids) + 1))
    return GaugedNumbers(
        decoder.facts.name, tuple(titles), names, before.numpy(), floor, under, refused, failed, ids.shape[1]
    )


def _narrowed(decoder: Decoder) -> Decoder:
    return replace(decoder, model=copy.deepcopy(decoder.model).float(), loading=None)


def _floors(wide: np.ndarray, narrow: np.ndarray, share: float) -> np.ndarray:
    """The largest distance of any document, never below the rounding of float64 itself; NaN where never defined."""
    apart = share * np.abs(wide - narrow)
    apart[np.isnan(wide) != np.isnan(narrow)] = math.inf
    nowhere = np.isnan(apart).all(axis=0)
    largest = np.where(np.isnan(apart), 0.0, apart).max(axis=0)
    size = np.where(np.isnan(wide), 0.0, np.abs(wide)).max(axis=0)
    return np.where(nowhere, np.nan, np.maximum(largest, LEAST * size))


def _require_uncalibrated(measurements: Sequence[Measurement] | None) -> None:
    check_measurements(measurements or (), (), calibrated=True)
    for one in measurements or ():
        if one.preparation.needs_calibration:
            raise ArgumentError(
                f"Argument `measurements` must need no calibration documents under a gauge, but {one} does. "
                "Leave it out."
            )
