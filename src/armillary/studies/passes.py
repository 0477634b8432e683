"""The pass that calibrates: documents that are not measured, through a decoder in one condition."""

from __future__ import annotations

import torch

from armillary.models.anatomy import Decoder
from armillary.models.capture import stream
from armillary.models.documents import Documents
from armillary.observables.cloud import Calibration
from armillary.studies.calibration import CalibrationReader
from armillary.studies.plan import Plan

__all__ = ["calibrate"]


def calibrate(
    decoder: Decoder, documents: Documents | None, *, plan: Plan, condition: str, batch_size: int
) -> dict[int, Calibration]:
    """What is estimated on calibration documents, for each layer.

    Args:
        decoder: In its condition.
        documents: The calibration documents; None gives nothing.
        plan: Massive ratio and number of rogue coordinates.
        condition: Name, for messages.
        batch_size: Documents in one pass.

    Returns:
        Layer -> calibration.

    Raises:
        NumericalError: If a state is not finite.
    """
    if documents is None:
        return {}
    reader, start = CalibrationReader(plan, condition=condition, titles=documents.titles), 0
    for batch in documents.batches(batch_size):
        with stream(decoder, reader.at(start)), torch.inference_mode():
            decoder.hidden(batch)
        start += len(batch)
    return reader.result()
