"""Documents through a decoder in one condition: a pass that calibrates, and the pass that measures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from armillary.models.anatomy import Decoder
from armillary.models.capture import stream
from armillary.models.documents import Documents, ids_hash
from armillary.observables.cloud import Calibration
from armillary.studies.calibration import CalibrationReader
from armillary.studies.plan import Plan
from armillary.studies.reader import TapReader

__all__ = ["Told", "calibrate", "measure"]

Told = Callable[[int], None]
"""Called after every batch with the number of its documents."""


def calibrate(
    decoder: Decoder, documents: Documents | None, *, plan: Plan, condition: str, batch_size: int, told: Told
) -> dict[int, Calibration]:
    """What is estimated on calibration documents, for each layer.

    Args:
        decoder: In its condition.
        documents: The calibration documents; None gives nothing.
        plan: Massive ratio and number of rogue coordinates.
        condition: Name, for messages.
        batch_size: Documents in one pass.
        told: Hears of every batch.

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
        told(len(batch))
    return reader.result()


def measure(
    decoder: Decoder, documents: Documents, reader: TapReader, *, batch_size: int, told: Told
) -> tuple[np.ndarray, str]:
    """Reduce every document's states, and take the next-token loss on the same pass.

    Args:
        decoder: In its condition.
        documents: The evaluation documents.
        reader: Filled on the way.
        batch_size: Documents in one pass.
        told: Hears of every batch.

    Returns:
        The loss of each document in nats per token, `documents`, and the hash of the ids that went through the decoder.

    Raises:
        NumericalError: If a state is not finite.
    """
    losses, fed, start = [], [], 0
    for batch in documents.batches(batch_size):
        with stream(decoder, reader.at(start)), torch.inference_mode():
            final = decoder.hidden(batch)
            losses.append(decoder.loss(final, batch).numpy())
        fed.append(batch)
        start += len(batch)
        told(len(batch))
    return np.concatenate(losses), ids_hash(torch.cat(fed))
