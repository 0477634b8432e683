"""What a climb takes, estimated from a few timed pieces of it: seconds of every group of rungs, and memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from armillary.models.capture import Tap
from armillary.studies.resistance.idealized import Idealized
from armillary.studies.resistance.matrix_rungs import NONE, Matrices
from armillary.studies.resistance.numbers import Numbers
from armillary.studies.resistance.rungs import Rung, Workshop
from armillary.studies.station import threads

if TYPE_CHECKING:
    from armillary.studies.resistance.study import Resistance

__all__ = ["cost"]

MIB = 2**20
ATTENTION_SHARE = 0.5
"""Of a pass through the decoder, roughly, that attention takes."""

DRAWING = 0.03
"""Seconds for a million numbers drawn anew."""


def cost(study: Resistance) -> dict[str, Any]:
    """What a run of a study would take; nothing is written.

    Args:
        study: The study.

    Returns:
        Counts, the rungs with their words, those that are left out with the reason, seconds on one core, and MiB of the
        model and beyond it. Seconds are estimated from one document: a pass through the decoder, the numbers of one
        tap, and one idealized flow.
    """
    workshop, facts = study.workshop(), study.decoder.facts
    ids = study.documents.token_ids[:1]
    with threads(1), torch.inference_mode():
        start = workshop.start(ids)
        forward = _seconds(lambda: study.decoder.hidden(ids))
        numbers = Numbers(
            layers=range(facts.layers + 1), documents=1, tokens=study.documents.tokens, width=facts.width,
            calibration=None,
        )  # fmt: skip
        numbers.add(Tap(0), start)
        tap = _seconds(lambda: numbers.add(Tap(1), start + 0.1))
        flow = _flow_seconds(study, workshop)
    passes = len(study.documents) + len(study.calibration)
    parameters = sum(one.numel() for one in study.decoder.model.parameters())
    each = {rung.name: _of(rung, facts.layers, forward, tap, flow) for rung in study.climbed}
    drawn = sum(_draws(rung) for rung in study.climbed) * DRAWING * parameters / 1e6
    tokens, chunk = study.documents.tokens, study.chunk
    beyond = parameters * 4 + chunk * (12 * facts.heads * tokens**2 + 40 * tokens * facts.width + 160 * tokens**2)
    return {
        "model": facts.name,
        "documents": len(study.documents),
        "calibration_documents": len(study.calibration),
        "tokens_each": tokens,
        "layers": len(study.layers or ()),
        "rungs": {rung.name: f"{rung.label} (about {each[rung.name] * passes:.0f} s)" for rung in study.climbed},
        "left_out": study.left_out,
        "document_passes": len(study.climbed) * passes,
        "estimated_seconds_on_one_core": round(sum(each.values()) * passes + drawn),
        "model_mib": math.ceil(parameters * 4 / MIB),
        "beyond_the_model_mib": math.ceil(beyond / MIB) + 100,
    }


def _of(rung: Rung, layers: int, forward: float, tap: float, flow: float) -> float:
    """Seconds for one document."""
    if isinstance(rung, Idealized):
        return flow + (layers + 1) * tap
    if isinstance(rung, Matrices):
        parts = (rung.scores != NONE) * ATTENTION_SHARE + (rung.mlp != NONE) * (1 - ATTENTION_SHARE)
        return parts * forward + (1 + layers * ((rung.scores != NONE) + (rung.mlp != NONE))) * tap
    return forward + 2 * (2 * layers + 1) * tap  # also what is read is measured


def _draws(rung: Rung) -> int:
    """Whether a rung needs weights that are drawn anew."""
    said = rung.as_choices()
    return int(any(str(one).startswith(("gaussian", "initial")) for one in said.values()))


def _flow_seconds(study: Resistance, workshop: Workshop) -> float:
    one = next((rung for rung in study.climbed if isinstance(rung, Idealized) and rung.clock == "unit"), None)
    if one is None:
        return 0.0
    with one.opened(workshop) as (through, _):
        return _seconds(lambda: through(study.documents.token_ids[:1], lambda tap, state, read: None))


def _seconds(work: Callable[[], Any]) -> float:
    """The shorter of two runs: the first one warms up."""
    taken = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)
