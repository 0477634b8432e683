"""When tokens share a group: grouping rules, each one class; a distance and a rule together are a grouping.

A rule turns the distances of all pairs into one label a token. A token that a rule leaves outside every group is
*noise*, label -1: it is never a group of its own and never silently joins one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from scipy.cluster.hierarchy import cut_tree, fcluster, linkage
from scipy.spatial.distance import squareform

from armillary.errors import ArgumentError
from armillary.observables.cloud import Cloud
from armillary.observables.declaration import as_tensor
from armillary.observables.distances import Distance

__all__ = [
    "HDBSCAN",
    "NOISE",
    "AverageLinkage",
    "CompleteLinkage",
    "Connected",
    "Grouping",
    "GroupingRule",
    "Groups",
    "Linkage",
    "labels_of",
]

NOISE = -1
"""Label of a token outside every group."""

Linkage = Literal["single", "average", "complete"]
"""How far two groups are apart: their nearest pair, the mean over their pairs, or their farthest pair."""


class GroupingRule(Protocol):
    """What a grouping asks of a rule."""

    @property
    def source(self) -> str:
        """Author and year."""
        ...

    @property
    def least(self) -> int:
        """The fewest tokens that it can group; below, everything that depends on it is undefined."""
        ...

    @property
    def leaves_noise(self) -> bool:
        """Whether it may leave tokens outside every group."""
        ...

    @property
    def fixes_count(self) -> bool:
        """Whether the number of groups is a choice rather than a finding."""
        ...

    @property
    def choices(self) -> tuple[tuple[str, float | str], ...]:
        """Its parameters by name."""
        ...

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token from the distances of the pairs i < j, row after row; `NOISE` outside every group."""
        ...


@dataclass(frozen=True)
class _Threshold:
    """A hierarchy of groups cut at a distance: groups are joined while they are at most `within` apart."""

    within: float

    least = 1
    leaves_noise = False
    fixes_count = False
    source = ""

    def __post_init__(self) -> None:
        if not 0 < self.within < float("inf"):
            raise ArgumentError(
                f"Argument `within` must be a positive distance, but it is {self.within}. Use for example 0.3 rad."
            )

    @property
    def choices(self) -> tuple[tuple[str, float | str], ...]:
        """The threshold."""
        return (("within", float(self.within)),)

    def _cut(self, distances: np.ndarray, tokens: int, method: Linkage) -> np.ndarray:
        if tokens < 2:
            return np.zeros(tokens, dtype=np.int64)
        return np.asarray(fcluster(linkage(distances, method), self.within, criterion="distance"))


@dataclass(frozen=True)
class Connected(_Threshold):
    """Connected components: two tokens share a group if a chain of steps of length at most `within` joins them.

    Args:
        within: Threshold in the unit of the distance, positive.

    Raises:
        ArgumentError: If the threshold is not positive and finite.
    """

    source = "connected components = single linkage cut at the threshold; Gower & Ross 1969"

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token; every token has one."""
        return self._cut(distances, tokens, "single")

    def __str__(self) -> str:
        return f"connected components within {self.within:g}"


@dataclass(frozen=True)
class AverageLinkage(_Threshold):
    """Average linkage: the two groups nearest in the mean over their pairs are joined, while that is at most `within`.

    Args:
        within: Threshold in the unit of the distance, positive.

    Raises:
        ArgumentError: If the threshold is not positive and finite.
    """

    source = "average linkage (UPGMA); Sokal & Michener 1958"

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token; every token has one."""
        return self._cut(distances, tokens, "average")

    def __str__(self) -> str:
        return f"average linkage within {self.within:g}"


@dataclass(frozen=True)
class CompleteLinkage(_Threshold):
    """Complete linkage: the two groups whose farthest pair is nearest are joined; no group is wider than `within`.

    Args:
        within: Threshold in the unit of the distance, positive.

    Raises:
        ArgumentError: If the threshold is not positive and finite.
    """

    source = "complete linkage; Sorensen 1948"

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token; every token has one."""
        return self._cut(distances, tokens, "complete")

    def __str__(self) -> str:
        return f"complete linkage within {self.within:g}"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """A number of groups that is given: a hierarchy cut where exactly `count` groups are left.

    The number is then a choice and no finding; what is found is who belongs together. Equal distances are taken in the
    order of the tokens.

    Args:
        count: How many groups, at least 1.
        linkage: Which hierarchy: "single", "average" or "complete".

    Raises:
        ArgumentError: If the number is below 1 or there is no such linkage.
    """

    count: int
    linkage: Linkage

    leaves_noise = False
    fixes_count = True
    source = "hierarchy cut at a number of groups; Gordon 1987"

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ArgumentError(f"Argument `count` must be at least 1, but it is {self.count}. Use for example 2.")
        if self.linkage not in ("single", "average", "complete"):
            raise ArgumentError(
                f"Argument `linkage` must be single, average or complete, but it is {self.linkage!r}. Use 'average'."
            )

    @property
    def least(self) -> int:
        """As many tokens as groups."""
        return self.count

    @property
    def choices(self) -> tuple[tuple[str, float | str], ...]:
        """The number and the linkage."""
        return (("count", float(self.count)), ("linkage", self.linkage))

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token; every token has one."""
        if tokens < 2:
            return np.zeros(tokens, dtype=np.int64)
        return np.asarray(cut_tree(linkage(distances, self.linkage), n_clusters=[self.count]))[:, 0]

    def __str__(self) -> str:
        return f"{self.count} groups by {self.linkage} linkage"


@dataclass(frozen=True, kw_only=True)
class HDBSCAN:
    """Groups that persist over a wide range of densities, and noise: tokens in no group.

    Hierarchical density-based clustering on the given distances (scikit-learn). The neighborhood of a token reaches to
    its `min_cluster_size`-th nearest token, itself counted; one group that holds everything is allowed, since without
    it a cloud at consensus would be all noise.

    Args:
        min_cluster_size: The fewest tokens that make a group, at least 2.

    Raises:
        ArgumentError: If the size is below 2.
    """

    min_cluster_size: int

    leaves_noise = True
    fixes_count = False
    source = "HDBSCAN; Campello, Moulavi & Sander 2013"

    def __post_init__(self) -> None:
        if self.min_cluster_size < 2:
            raise ArgumentError(
                f"Argument `min_cluster_size` must be at least 2, but it is {self.min_cluster_size}. Use for example 5."
            )

    @property
    def least(self) -> int:
        """As many tokens as make a group."""
        return self.min_cluster_size

    @property
    def choices(self) -> tuple[tuple[str, float | str], ...]:
        """The size."""
        return (("min_cluster_size", float(self.min_cluster_size)),)

    def labels(self, distances: np.ndarray, tokens: int) -> np.ndarray:
        """One label a token, `NOISE` outside every group."""
        from sklearn.cluster import HDBSCAN as Hierarchical  # takes a second to import

        fitted = Hierarchical(
            min_cluster_size=self.min_cluster_size,
            min_samples=self.min_cluster_size,
            metric="precomputed",
            allow_single_cluster=True,
            copy=True,
        ).fit(squareform(distances))
        return np.asarray(fitted.labels_, dtype=np.int64)

    def __str__(self) -> str:
        return f"HDBSCAN (at least {self.min_cluster_size} tokens a group)"


@dataclass(frozen=True)
class Grouping:
    """A distance and a rule: what makes a statement about groups a statement.

    Args:
        distance: `AngularDistance()` or `ChordalDistance()`.
        rule: `Connected(within=...)`, `AverageLinkage(within=...)`, `CompleteLinkage(within=...)`,
            `Groups(count=..., linkage=...)` or `HDBSCAN(min_cluster_size=...)`.
    """

    distance: Distance
    rule: GroupingRule

    def labels(self, configuration: object) -> torch.Tensor:
        """The group of each token, numbered from 0 in order of first appearance; -1 for noise, a token in no group.

        Args:
            configuration: Rows `tokens dim`; normalized here, since a grouping is one of directions.

        Returns:
            int64 tensor `tokens`.

        Raises:
            ArgumentError: If a row has zero length, or there are fewer tokens than the rule needs.
        """
        cloud = Cloud(as_tensor(configuration), accumulate=torch.float64).after("normalize")
        if cloud.tokens < self.rule.least:
            raise ArgumentError(
                f"Argument `configuration` must have at least {self.rule.least} tokens for {self}, but it has "
                f"{cloud.tokens}. Give more tokens, or choose another rule."
            )
        labels = labels_of(cloud, self)[0]
        if labels is None:
            raise ArgumentError("Argument `configuration` must have no zero row, but it has one. Leave that token out.")
        return torch.as_tensor(labels)

    def __str__(self) -> str:
        unit = self.distance.unit if isinstance(self.rule, _Threshold) else ""
        return f"{self.rule} {unit}".rstrip() + f" of {self.distance}"


def labels_of(cloud: Cloud, grouping: Grouping) -> list[np.ndarray | None]:
    """The labels of each configuration of a cloud of unit rows, made once for each grouping.

    Args:
        cloud: Unit rows.
        grouping: Distance and rule.

    Returns:
        One int64 array `tokens` a configuration, numbered from 0 in order of first appearance, `NOISE` outside every
        group; None where a row is undefined or there are fewer tokens than the rule needs.
    """

    def make() -> list[np.ndarray | None]:
        pairs = cloud.pairs.reshape(-1, cloud.pairs.shape[-1])
        return [_labels(one, grouping, cloud.tokens) for one in pairs]

    return cloud.shared(("labels", grouping), make)


def _labels(pairs: torch.Tensor, grouping: Grouping, tokens: int) -> np.ndarray | None:
    if tokens < grouping.rule.least or bool(torch.isnan(pairs).any()):
        return None
    return in_order_of_appearance(grouping.rule.labels(grouping.distance.of(pairs).cpu().numpy(), tokens))


def in_order_of_appearance(labels: np.ndarray) -> np.ndarray:
    """The same groups, numbered from 0 as their first members come; noise stays noise."""
    found = np.full(len(labels), NOISE, dtype=np.int64)
    grouped = np.flatnonzero(labels != NOISE)
    _, first, inverse = np.unique(labels[grouped], return_index=True, return_inverse=True)
    found[grouped] = np.argsort(np.argsort(first))[inverse]
    return found
