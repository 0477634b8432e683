"""Are there groups: always under a declared distance and a declared grouping rule, never without.

Connected components at a threshold are read off one single-linkage tree, so a whole sweep of thresholds costs what one
does. A merger of groups with shares a and b adds 2 a b to the order parameter, the sum of squared shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable, Range, as_tensor

__all__ = [
    "AngularDistance",
    "ChordalDistance",
    "Connected",
    "Grouping",
    "cluster_count",
    "cluster_sweep",
    "clustering_order_parameter",
    "group_labels",
]


@dataclass(frozen=True)
class AngularDistance:
    """Angle between directions, arccos c_ij, in radians within [0, pi]."""

    unit = "rad"

    def of(self, overlaps: Tensor) -> Tensor:
        """Distances from overlaps of unit rows, of the same shape, in float64."""
        return torch.arccos(overlaps.double().clamp(-1.0, 1.0))

    def __str__(self) -> str:
        return "angular distance"


@dataclass(frozen=True)
class ChordalDistance:
    """Straight distance between unit vectors, sqrt(2 - 2 c_ij), within [0, 2]."""

    unit = ""

    def of(self, overlaps: Tensor) -> Tensor:
        """Distances from overlaps of unit rows, of the same shape, in float64."""
        return torch.sqrt((2.0 - 2.0 * overlaps.double()).clamp(min=0.0))

    def __str__(self) -> str:
        return "chordal distance"


@dataclass(frozen=True)
class Connected:
    """Connected components: two tokens share a group if a chain of steps of length at most `within` joins them.

    Args:
        within: Threshold in the unit of the distance, positive.

    Raises:
        ArgumentError: If the threshold is not positive and finite.
    """

    within: float

    def __post_init__(self) -> None:
        if not 0 < self.within < float("inf"):
            raise ArgumentError(
                f"Argument `within` must be a positive distance, but it is {self.within}. Use for example 0.3 rad."
            )

    def __str__(self) -> str:
        return f"connected components within {self.within:g}"


@dataclass(frozen=True)
class Grouping:
    """A distance and a rule: what makes a statement about groups a statement.

    Args:
        distance: `AngularDistance()` or `ChordalDistance()`.
        rule: `Connected(within=...)`.
    """

    distance: AngularDistance | ChordalDistance
    rule: Connected

    def __str__(self) -> str:
        return f"{self.rule} {self.distance.unit}".rstrip() + f" of {self.distance}"


def cluster_count(grouping: Grouping) -> Observable:
    """Number of groups under `grouping`, 1 ... T.

    Args:
        grouping: Distance and rule; required.

    Returns:
        An observable of unit rows.
    """

    def count(cloud: Cloud) -> Tensor:
        counts, _ = cluster_sweep(cloud, grouping.distance, (grouping.rule.within,))
        return counts[..., 0]

    return _declared("cluster_count", "k", "number of groups", count, grouping, lambda tokens, dim: (1.0, tokens))


def clustering_order_parameter(grouping: Grouping) -> Observable:
    """Sum of squared group shares under `grouping`: the chance that two tokens share one, from 1/T to 1.

    Args:
        grouping: Distance and rule; required.

    Returns:
        An observable of unit rows.
    """

    def order(cloud: Cloud) -> Tensor:
        _, orders = cluster_sweep(cloud, grouping.distance, (grouping.rule.within,))
        return orders[..., 0]

    words = "sum of squared group shares"
    return _declared(
        "clustering_order_parameter", "sum w^2", words, order, grouping, lambda tokens, dim: (1.0 / tokens, 1.0)
    )


OBSERVABLES["cluster_count"] = cluster_count
OBSERVABLES["clustering_order_parameter"] = clustering_order_parameter


def group_labels(configuration: object, grouping: Grouping) -> Tensor:
    """The group of each token, numbered from 0 in order of first appearance.

    Args:
        configuration: Rows `tokens dim`; normalized here, since a grouping is one of directions.
        grouping: Distance and rule.

    Returns:
        int64 tensor `tokens`.

    Raises:
        ArgumentError: If a row has zero length.
    """
    cloud = Cloud(as_tensor(configuration), accumulate=torch.float64).after("normalize")
    tree = _trees(cloud, grouping.distance)[0]
    if tree is None:
        raise ArgumentError("Argument `configuration` must have no zero row, but it has one. Leave that token out.")
    if len(tree) == 0:
        return torch.zeros(cloud.tokens, dtype=torch.int64)
    raw = fcluster(tree, grouping.rule.within, criterion="distance")
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return torch.as_tensor(np.argsort(np.argsort(first))[inverse])


def cluster_sweep(
    cloud: Cloud, distance: AngularDistance | ChordalDistance, thresholds: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """Group count and order parameter of connected components at many thresholds, from one single-linkage tree.

    Args:
        cloud: Unit rows.
        distance: The distance.
        thresholds: In its unit, ascending.

    Returns:
        Two float64 tensors `*batch thresholds`: counts, and sums of squared shares; NaN where a row is undefined.
    """
    tokens = cloud.tokens
    counts, orders = [], []
    for tree in _trees(cloud, distance):
        if tree is None:
            counts.append(np.full(len(thresholds), np.nan))
            orders.append(np.full(len(thresholds), np.nan))
            continue
        merged = np.searchsorted(tree[:, 2], thresholds, side="right") if len(tree) else np.zeros(len(thresholds), int)
        sizes = np.concatenate([np.ones(tokens), tree[:, 3]])
        gained = 2.0 * sizes[tree[:, 0].astype(int)] * sizes[tree[:, 1].astype(int)]
        squares = tokens + np.concatenate([[0.0], np.cumsum(gained)])
        counts.append((tokens - merged).astype(float))
        orders.append(squares[merged] / tokens**2)
    shape = (*cloud.batch, len(thresholds))
    return torch.as_tensor(np.array(counts)).reshape(shape), torch.as_tensor(np.array(orders)).reshape(shape)


def _trees(cloud: Cloud, distance: AngularDistance | ChordalDistance) -> list[np.ndarray | None]:
    """One single-linkage tree a configuration; heights in the distance's unit.

    Both distances decrease with the overlap, and single linkage only compares, so that the tree is that of 1 - c and
    T - 1 heights are converted instead of T (T - 1) / 2 pairs.
    """

    def make() -> list[np.ndarray | None]:
        pairs = cloud.pairs.reshape(-1, cloud.pairs.shape[-1]).double().numpy()
        return [_single_linkage(1.0 - one, cloud.tokens) for one in pairs]

    found = []
    for tree in cloud.shared("single linkage", make):
        if tree is not None:
            tree = tree.copy()
            tree[:, 2] = distance.of(torch.from_numpy(1.0 - tree[:, 2])).numpy()
        found.append(tree)
    return found


def _single_linkage(condensed: np.ndarray, tokens: int) -> np.ndarray | None:
    if np.isnan(condensed).any():
        return None
    if tokens < 2:
        return np.empty((0, 4))
    return np.asarray(linkage(condensed, "single"))


def _declared(
    name: str, symbol: str, words: str, function: object, grouping: Grouping, attainable: Range
) -> Observable:
    return Observable(
        name=name,
        symbol=symbol,
        definition=f"{words} under {grouping}",
        source="connected components = single linkage cut at the threshold; Gower & Ross 1969",
        function=function,  # type: ignore[arg-type]
        wants="cloud",
        undefined="a row of zero length",
        needs_unit_rows=True,
        attainable=attainable,
        parameters=(
            ("grouping", str(grouping)),
            ("distance", str(grouping.distance)),
            ("within", float(grouping.rule.within)),
        ),
    )
