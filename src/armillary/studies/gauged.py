"""The laboratory's own gauges: a few short documents, the statement's layers, before and after each of them.

They are measured last and in this process, whatever the backend: what they give rests in the journal as one unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.documents import Documents
from armillary.models.gauges.listing import named_gauges
from armillary.records.gauge_unit import as_arrays
from armillary.studies.gauging import numbers_under
from armillary.studies.plan import statement_layers

if TYPE_CHECKING:
    from armillary.studies.laboratory import Laboratory

__all__ = ["bytes_under_gauges", "memory_of_gauges", "under_gauges"]

_DOUBLE = 8
_MIB = 2**20
_LOGITS = 6
"""Tables of logits alive at once: before in both types, after, and what comes and goes while they are compared."""


def under_gauges(study: Laboratory) -> dict[str, np.ndarray]:
    """The unit of a journal: numbers before and after every gauge, or why there are none.

    A decoder whose parts are not known, or whose type hides what a gauge does, has none; neither has a run whose limit
    of memory does not take a copy in float64. A gauge that moves the outputs stands as failed beside the others.

    Args:
        study: With threads settled.
    """
    limit, need = study.memory_limit, memory_of_gauges(study)
    if limit is not None and need > limit:
        return as_arrays(
            f"a copy of the decoder in float64 takes about {-(-need // _MIB)}MiB, and `memory_limit` allows "
            f"{limit // _MIB}MiB"
        )
    plan, documents = study.plan, study.documents
    ids = documents.token_ids[: plan.gauge_documents, : plan.gauge_tokens]
    few = Documents.from_token_ids(ids.clone(), documents.titles[: len(ids)])
    chosen = named_gauges(tuple(study.gauges), seed=study.seed, condition_number=plan.gauge_condition)
    plain = [one for one in study.measurements or () if not one.preparation.needs_calibration]
    try:
        found = numbers_under(
            study.decoder, few, chosen, layers=statement_layers(study.layers or ()), measurements=plain, failing="told"
        )
    except (ArgumentError, UnsupportedModelError) as trouble:
        return as_arrays(str(trouble))
    return as_arrays(found)


def memory_of_gauges(study: Laboratory) -> int:
    """About what gauges take beyond the model, in bytes: its copy in float64, an unembedding of its own, and logits.

    Args:
        study: Any; zero if it asks for none.
    """
    if not study.gauges:
        return 0
    plan, documents = study.plan, study.documents
    rows = min(plan.gauge_documents, len(documents)) * min(plan.gauge_tokens, documents.tokens)
    return bytes_under_gauges(study.decoder, rows)


def bytes_under_gauges(decoder: Decoder, tokens: int) -> int:
    """The same for a decoder and so many tokens of all documents together.

    Args:
        decoder: Any.
        tokens: Documents times tokens of each.
    """
    facts = decoder.facts
    weights = sum(one.numel() for one in decoder.model.parameters()) + facts.vocabulary * facts.width
    return _DOUBLE * (weights + _LOGITS * tokens * facts.vocabulary)
