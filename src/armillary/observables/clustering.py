"""Are there groups: always under a declared distance and a declared grouping rule, never without.

Connected components at a threshold are read off one single-linkage tree, so a whole sweep of thresholds costs what one
does. A merger of groups with shares a and b adds 2 a b to the order parameter, the sum of squared shares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.cluster.hierarchy import linkage
from torch import Tensor

from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.claims import Claim
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import OBSERVABLES, Observable, Range
from armillary.observables.distances import Distance
from armillary.observables.grouping import NOISE, Connected, Grouping, labels_of
from armillary.transformations.linear import Orthogonal
from armillary.transformations.rows import TokenPermutation

__all__ = ["cluster_count", "cluster_sweep", "clustering_order_parameter", "group_labels", "noise_share"]


_BY_DISTANCES = Claim(
    Orthogonal,
    "groups depend on inner products of rows, and these stay: X Q (X Q)^T = X X^T",
    "docs/audit.md, 1",
)
_CONNECTED = Claim(
    TokenPermutation, "connected components do not depend on the order in which tokens are joined", "docs/audit.md, 2"
)
"""Of other rules nothing is claimed under a permutation: equal distances are taken in the order of the tokens."""


def cluster_count(grouping: Grouping) -> Observable:
    """Number of groups under `grouping`, 1 ... T; noise tokens are no groups, so it may be 0 where a rule leaves noise.

    Args:
        grouping: Distance and rule; required.

    Returns:
        An observable of unit rows.

    Raises:
        UnsoundError: If the rule is told the number of groups: then it is no measurement.
    """
    if grouping.rule.fixes_count:
        raise UnsoundError(
            f"Argument `grouping` must leave the number of groups open, but it asks for {grouping.rule} of "
            f"{grouping.distance}. Measure clustering_order_parameter(grouping), or count with another rule."
        )
    least = 0.0 if grouping.rule.leaves_noise else 1.0

    def count(cloud: Cloud) -> Tensor:
        if isinstance(grouping.rule, Connected):
            return cluster_sweep(cloud, grouping.distance, (grouping.rule.within,))[0][..., 0]
        return _reduced(cloud, grouping, lambda sizes, tokens: float(len(sizes)))

    return _declared("cluster_count", "k", "number of groups", count, grouping, lambda tokens, dim: (least, tokens))


def clustering_order_parameter(grouping: Grouping) -> Observable:
    """Sum of squared group shares under `grouping`: the chance that two tokens share a group, from 1/T to 1.

    Shares are of all tokens. A noise token shares a group with none, not even with itself, so that under a rule that
    leaves noise the number lies between 0 (nothing but noise) and 1.

    Args:
        grouping: Distance and rule; required.

    Returns:
        An observable of unit rows.
    """
    noisy = grouping.rule.leaves_noise

    def order(cloud: Cloud) -> Tensor:
        if isinstance(grouping.rule, Connected):
            return cluster_sweep(cloud, grouping.distance, (grouping.rule.within,))[1][..., 0]
        return _reduced(cloud, grouping, lambda sizes, tokens: float((sizes / tokens) @ (sizes / tokens)))

    words = "sum of squared group shares" + (", noise tokens sharing with none" if noisy else "")
    return _declared(
        "clustering_order_parameter",
        "sum w^2",
        words,
        order,
        grouping,
        lambda tokens, dim: (0.0 if noisy else 1.0 / tokens, 1.0),
    )


def noise_share(grouping: Grouping) -> Observable:
    """Share of tokens in no group under `grouping`, from 0 to 1.

    Args:
        grouping: Distance and a rule that leaves noise; required.

    Returns:
        An observable of unit rows.

    Raises:
        ArgumentError: If the rule puts every token into a group.
    """
    if not grouping.rule.leaves_noise:
        raise ArgumentError(
            f"Argument `grouping` must have a rule that leaves noise, but {grouping} puts every token into a group. "
            "Use HDBSCAN(min_cluster_size=5), or measure cluster_count(grouping)."
        )

    def share(cloud: Cloud) -> Tensor:
        return _reduced(cloud, grouping, lambda sizes, tokens: float(tokens - sizes.sum()) / tokens)

    return _declared("noise_share", "noise", "share of tokens in no group", share, grouping, lambda n, d: (0.0, 1.0))


OBSERVABLES["cluster_count"] = cluster_count
OBSERVABLES["clustering_order_parameter"] = clustering_order_parameter
OBSERVABLES["noise_share"] = noise_share


def group_labels(configuration: object, grouping: Grouping) -> Tensor:
    """The group of each token, numbered from 0 in order of first appearance; -1 for noise, a token in no group.

    Args:
        configuration: Rows `tokens dim`; normalized here, since a grouping is one of directions.
        grouping: Distance and rule.

    Returns:
        int64 tensor `tokens`.

    Raises:
        ArgumentError: If a row has zero length, or there are fewer tokens than the rule needs.
    """
    return grouping.labels(configuration)


def cluster_sweep(cloud: Cloud, distance: Distance, thresholds: tuple[float, ...]) -> tuple[Tensor, Tensor]:
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


def _reduced(cloud: Cloud, grouping: Grouping, number: Callable[[np.ndarray, int], float]) -> Tensor:
    """`number(group sizes, tokens)` of each configuration, NaN where there are no labels."""
    values = [
        float("nan") if labels is None else number(np.bincount(labels[labels != NOISE]).astype(float), cloud.tokens)
        for labels in labels_of(cloud, grouping)
    ]
    return torch.tensor(values, dtype=torch.float64).reshape(cloud.batch)


def _trees(cloud: Cloud, distance: Distance) -> list[np.ndarray | None]:
    """One single-linkage tree a configuration; heights in the distance's unit.

    A distance decreases with the overlap, and single linkage only compares, so that the tree is that of 1 - c and
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
    needs = grouping.rule.least
    return Observable(
        name=name,
        symbol=symbol,
        definition=f"{words} under {grouping}",
        source=grouping.rule.source,
        function=function,  # type: ignore[arg-type]
        wants="cloud",
        undefined="a row of zero length" + (f", or fewer than {needs} tokens" if needs > 1 else ""),
        needs_unit_rows=True,
        attainable=attainable,
        parameters=(("grouping", str(grouping)), ("distance", str(grouping.distance)), *grouping.rule.choices),
        claims=(_BY_DISTANCES, _CONNECTED) if isinstance(grouping.rule, Connected) else (_BY_DISTANCES,),
    )
