"""The package's conscience: every law that the simulator must obey, put to it and judged at a stated tolerance."""

from armillary.checks import (
    equiangular,
    events,
    fresh_values,
    initial,
    local,
    meanfield,
    measures,
    noise,
    norms,
    pairs,
    phases,
    random_layers,
    random_scores,
    starts,
    values,
)

__all__ = [
    "equiangular",
    "events",
    "fresh_values",
    "initial",
    "local",
    "meanfield",
    "measures",
    "noise",
    "norms",
    "pairs",
    "phases",
    "random_layers",
    "random_scores",
    "starts",
    "values",
]
