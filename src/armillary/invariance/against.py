"""A number between two layers on trial: the other layer is transformed in the same way, by one change of basis."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from armillary.invariance.moved import moved
from armillary.observables.between import BetweenMeasurement
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import Measurement, Observable
from armillary.transformations.declaration import Transformation

__all__ = ["Against", "against"]


@dataclass(frozen=True, eq=False)
class Against(Measurement):
    """A number of a configuration and of another one with the same tokens, which is held here.

    Args:
        observable: The number as one of a single configuration.
        preparation: Of both.
        between: The number.
        other: The other configurations, rows as given.
    """

    between: BetweenMeasurement
    other: Cloud

    def of(self, cloud: Cloud) -> Tensor:
        """The number of each pair; of the first pairs, where `cloud` holds only the first configurations."""
        return self.between.of(cloud, self.other.first(cloud.batch[0]))

    def under(self, transformation: Transformation) -> Against:
        """The same against the other configurations after a transformation."""
        return Against(self.observable, self.preparation, self.between, moved(self.other, transformation))


def against(between: BetweenMeasurement, other: Cloud, reference: str) -> Against:
    """A number between layers as one of the later layer.

    Args:
        between: The number with its preparation.
        other: The other layer's rows as given.
        reference: What that layer is called, "embedding" for example.
    """
    one = between.observable
    seen = Observable(
        name=f"{one.name}_to_{reference}",
        symbol=one.symbol,
        definition=one.definition,
        source=one.source,
        function=one.function,
        wants="cloud",
        undefined=one.undefined,
        needs_unit_rows=one.needs_unit_rows,
        attainable=one.attainable,
        parameters=one.parameters,
        claims=one.claims,
    )
    return Against(seen, between.preparation, between, other)
