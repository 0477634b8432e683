"""Every collector of the laboratory, in the order of the record's variables: a new one is named here only."""

from __future__ import annotations

from armillary.studies.attention import Attention
from armillary.studies.between import Between
from armillary.studies.collector import Collector
from armillary.studies.distributions import Distributions
from armillary.studies.history import History
from armillary.studies.loss import Loss
from armillary.studies.scalars import Scalars
from armillary.studies.statement import Statement
from armillary.studies.updates import Updates

__all__ = ["COLLECTORS"]

COLLECTORS: tuple[type[Collector], ...] = (
    Scalars,
    Between,
    Updates,
    Distributions,
    History,
    Attention,
    Statement,
    Loss,
)
