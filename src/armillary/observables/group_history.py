"""Groups followed through depth: which are born, merge, split and are lost between layers, by a stated rule.

Two groups of neighboring layers are *linked* if a majority of either one's members lies in the other. What hangs
together by links is one event, so that every group has exactly one fate and exactly one origin:

- *continued*: one earlier group linked to one later group;
- *merged*: several earlier groups linked to one later group;
- *split*: one earlier group linked to several later groups;
- *regrouped*: several linked to several;
- *born*: a later group without a link; *lost*: an earlier group without a link.

Read backward, births are losses and mergers are splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from armillary.errors import ArgumentError
from armillary.observables.grouping import NOISE

__all__ = ["EVENTS", "GroupEvent", "GroupHistory", "GroupStep", "Majority", "adjusted_rand_index", "followed_groups"]

EVENTS = ("continued", "born", "merged", "split", "regrouped", "lost")
"""The kinds of event between neighboring layers."""


@dataclass(frozen=True, kw_only=True)
class Majority:
    """When a group of one layer and a group of the next are linked, and how small a group is followed.

    Args:
        share: Linked if more than this share of the members of either group lies in the other; at least 1/2, so that a
            group has one majority at most.
        least: The fewest tokens of a group that is followed; at least 2, since a token alone always stays with itself.

    Raises:
        ArgumentError: If the share lies outside [1/2, 1) or a group of one token would be followed.
    """

    share: float
    least: int

    def __post_init__(self) -> None:
        if not 0.5 <= self.share < 1:
            raise ArgumentError(
                f"Argument `share` must lie within [1/2, 1), but it is {self.share}. Use 0.5: more than half."
            )
        if self.least < 2:
            raise ArgumentError(f"Argument `least` must be at least 2, but it is {self.least}. Use for example 2.")

    def __str__(self) -> str:
        return (
            f"linked if more than {self.share:g} of either group's tokens lie in the other, groups of at least "
            f"{self.least} tokens"
        )


@dataclass(frozen=True)
class GroupEvent:
    """What became of some groups between two layers.

    Attributes:
        kind: One of `EVENTS`.
        before: Labels of the earlier groups.
        after: Labels of the later groups.
        tokens: How many tokens are in both an earlier and a later group of the event.
    """

    kind: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    tokens: int


@dataclass(frozen=True)
class GroupStep:
    """From one layer to the next.

    Attributes:
        start, stop: The layers.
        events: What became of the groups.
        tokens: Tokens in all.
        agreement: Adjusted Rand index of the two groupings.
    """

    start: int
    stop: int
    events: tuple[GroupEvent, ...]
    tokens: int
    agreement: float

    def count(self, kind: str) -> int:
        """How many events of this kind; a merger of three groups is one event, and so is a split into three."""
        return sum(event.kind == kind for event in self.events)

    @property
    def persisting_share(self) -> float:
        """Share of all tokens that stay in a group that continues, 0 ... 1."""
        return sum(event.tokens for event in self.events if event.kind == "continued") / self.tokens


@dataclass(frozen=True)
class GroupHistory:
    """The groups of one document followed through the layers.

    Attributes:
        steps: One for each pair of neighboring layers.
        by: How they were followed.
    """

    steps: tuple[GroupStep, ...]
    by: Majority

    def rows(self) -> list[dict[str, Any]]:
        """One row for each event, tidy: `layer`, `next_layer`, `event`, `groups_before`, `groups_after`, `tokens`."""
        return [
            {
                "layer": step.start,
                "next_layer": step.stop,
                "event": event.kind,
                "groups_before": event.before,
                "groups_after": event.after,
                "tokens": event.tokens,
            }
            for step in self.steps
            for event in step.events
        ]


def followed_groups(labels: Any, *, layers: Sequence[int] | None = None, by: Majority) -> GroupHistory:
    """The history of the groups of one document.

    Args:
        labels: Group labels `layers tokens`, whole numbers, -1 for noise, as `group_labels` gives them layer by layer.
        layers: The number of each layer; 0, 1, 2 ... if None.
        by: When groups are linked.

    Returns:
        The history; labels of the layers keep their numbers in it.

    Raises:
        ArgumentError: If the labels are not whole numbers `layers tokens` with at least two layers and one token.
    """
    table = np.asarray(labels)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 1 or not np.issubdtype(table.dtype, np.integer):
        raise ArgumentError(
            f"Argument `labels` must be whole numbers `layers tokens` of at least two layers, but it has shape "
            f"{table.shape} and type {table.dtype}. Stack group_labels(rows, grouping) of neighboring layers."
        )
    numbers = tuple(range(len(table))) if layers is None else tuple(layers)
    if len(numbers) != len(table):
        raise ArgumentError(
            f"Argument `layers` must number the {len(table)} layers of `labels`, but it has {len(numbers)}. "
            "Give one number a layer, or leave it out."
        )
    steps = tuple(
        GroupStep(start, stop, _events(before, after, by), table.shape[1], adjusted_rand_index(before, after))
        for (start, before), (stop, after) in pairwise(zip(numbers, table, strict=True))
    )
    return GroupHistory(steps, by)


def adjusted_rand_index(before: np.ndarray, after: np.ndarray) -> float:
    """Agreement of two groupings of the same tokens, 1 if they are the same, 0 on average for independent ones.

    The share of pairs of tokens on which both agree, minus its expectation under random labels of the same group sizes,
    over the largest such difference. Each noise token counts as a group of its own here.

    Args:
        before: Labels `tokens`.
        after: Labels `tokens`.

    Returns:
        A number up to 1, may be negative; 1 too if both groupings are trivial in the same way.

    Source: Hubert & Arabie 1985, from counts of pairs of tokens.
    """
    table = _shared_tokens(_alone(before), _alone(after))
    both, pairs = _pairs(table), len(before) * (len(before) - 1) // 2
    earlier, later = _pairs(table.sum(1)), _pairs(table.sum(0))
    only_earlier, only_later = earlier - both, later - both
    if only_earlier == only_later == 0:
        return 1.0
    neither = pairs - earlier - later + both
    return 2.0 * (both * neither - only_earlier * only_later) / (earlier * (pairs - later) + later * (pairs - earlier))


def _pairs(sizes: np.ndarray) -> int:
    """How many pairs of tokens lie in one group, for groups of these sizes; exact, in whole numbers without a limit."""
    return int((sizes * (sizes - 1)).sum()) // 2


def _shared_tokens(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How many tokens each earlier label shares with each later label, both ascending."""
    (olds, i), (news, j) = (np.unique(labels, return_inverse=True) for labels in (before, after))
    return np.bincount(i * len(news) + j, minlength=len(olds) * len(news)).reshape(len(olds), len(news))


def _alone(labels: np.ndarray) -> np.ndarray:
    """Noise tokens each with a label of their own."""
    found = labels.copy()
    noise = np.flatnonzero(labels == NOISE)
    found[noise] = labels.max() + 1 + np.arange(len(noise))
    return found


def _events(before: np.ndarray, after: np.ndarray, by: Majority) -> tuple[GroupEvent, ...]:
    table = _shared_tokens(before, after)
    old_labels, new_labels = np.unique(before), np.unique(after)
    old_sizes, new_sizes = table.sum(1), table.sum(0)
    i, j = _followed(old_labels, old_sizes, by.least), _followed(new_labels, new_sizes, by.least)
    olds, news, shared = old_labels[i].tolist(), new_labels[j].tolist(), table[np.ix_(i, j)]
    if not olds and not news:
        return ()
    linked = (shared > by.share * old_sizes[i][:, None]) | (shared > by.share * new_sizes[j][None, :])
    left, right = np.nonzero(linked)
    count = len(olds) + len(news)
    graph = coo_array((np.ones(len(left)), (left, len(olds) + right)), shape=(count, count))
    number, part = connected_components(graph, directed=False)
    members: list[tuple[list[int], list[int]]] = [([], []) for _ in range(number)]
    for place, one in enumerate(part.tolist()):
        side = place >= len(olds)
        members[one][side].append(place - len(olds) * side)
    return tuple(
        GroupEvent(
            _KINDS[min(len(mine), 2), min(len(others), 2)],
            tuple(olds[k] for k in mine),
            tuple(news[k] for k in others),
            int(shared[np.ix_(mine, others)].sum()) if mine and others else 0,
        )
        for mine, others in members
    )


_KINDS = {(1, 1): "continued", (2, 1): "merged", (1, 2): "split", (2, 2): "regrouped", (0, 1): "born", (1, 0): "lost"}


def _followed(labels: np.ndarray, sizes: np.ndarray, least: int) -> np.ndarray:
    """Places of the groups that are followed: no noise, and large enough."""
    return np.flatnonzero((labels != NOISE) & (sizes >= least))
