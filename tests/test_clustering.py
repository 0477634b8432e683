"""Grouping rules: what each finds where the others differ, noise that stays noise, and groups followed through depth."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays
from sklearn.metrics import adjusted_rand_score

from armillary import sphere
from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.cloud import Cloud
from armillary.observables.clustering import cluster_count, clustering_order_parameter, group_labels, noise_share
from armillary.observables.distances import AngularDistance, ChordalDistance, Distance
from armillary.observables.group_history import EVENTS, GroupStep, Majority, adjusted_rand_index, followed_groups
from armillary.observables.grouping import (
    HDBSCAN,
    AverageLinkage,
    CompleteLinkage,
    Connected,
    Grouping,
    GroupingRule,
    Groups,
    labels_of,
)

DISTANCES = (AngularDistance(), ChordalDistance())
RULES: dict[str, tuple[GroupingRule, list[int]]] = {
    "connected": (Connected(0.165), [0, 0, 0, 0]),
    "average": (AverageLinkage(0.165), [0, 0, 0, 1]),
    "complete": (CompleteLinkage(0.165), [0, 0, 1, 1]),
    "three groups": (Groups(count=3, linkage="average"), [0, 0, 1, 2]),
    "three groups, complete": (Groups(count=3, linkage="complete"), [0, 0, 1, 2]),
    "HDBSCAN": (HDBSCAN(min_cluster_size=2), [0, 0, -1, -1]),
}
"""Each rule, and what it makes of four vectors in the plane at angles 0, 0.1, 0.205 and 0.365."""
HALF = Majority(share=0.5, least=2)


def on_arc(*angles: float) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


FOUR = on_arc(0.0, 0.1, 0.205, 0.365)
directions = arrays(np.float64, (6, 3), elements=st.floats(-1, 1, width=32)).filter(
    lambda rows: bool((np.linalg.norm(rows, axis=-1) > 0.1).all())
)


@pytest.mark.parametrize("rule", RULES)
def test_four_vectors_in_a_row_tell_the_rules_apart(rule: str) -> None:
    chosen, labels = RULES[rule]
    assert group_labels(FOUR, Grouping(AngularDistance(), chosen)).tolist() == labels


def test_no_two_rules_agree_on_the_four_vectors_unless_they_differ_in_linkage_alone() -> None:
    found = {str(labels) for _, labels in RULES.values()}
    assert len(found) == len(RULES) - 1
    at_two = [
        group_labels(FOUR, Grouping(AngularDistance(), Groups(count=2, linkage=how))).tolist() for how in LINKAGES
    ]
    assert at_two == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]


LINKAGES = ("single", "average", "complete")


@pytest.mark.parametrize("distance", DISTANCES, ids=str)
@given(rows=directions)
def test_a_distance_is_a_metric(distance: Distance, rows: np.ndarray) -> None:
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    d = distance.of(torch.from_numpy(unit @ unit.T)).numpy()
    assert (d >= 0).all()
    assert np.abs(np.diagonal(d)).max() < 1e-7  # arccos(1 - 1e-16) is already 1e-8
    np.testing.assert_allclose(d, d.T, atol=1e-7)
    assert (d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-7).all()
    far = np.linalg.norm(unit[:, None] - unit[None], axis=-1) > 1e-6
    assert (d[far] > 0).all()


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES.values()], ids=str)
@given(order=st.permutations(range(12)), turn=st.floats(0, 2 * math.pi))
def test_groups_depend_neither_on_the_order_of_the_tokens_nor_on_a_rotation(
    rule: GroupingRule, order: list[int], turn: float
) -> None:
    rows = np.concatenate(
        [on_arc(*(turn + c + w * s for w in (0, 0.01, 0.023, 0.05))) for c, s in ((0.0, 1.0), (1.0, 1.1), (2.2, 1.3))]
    )
    grouping = Grouping(AngularDistance(), rule)
    before, after = group_labels(rows, grouping), group_labels(rows[order], grouping)
    assert adjusted_rand_index(before[order].numpy(), after.numpy()) == 1.0
    assert torch.equal(before[order] == -1, after == -1)


@given(rows=arrays(np.float64, (8, 3), elements=st.floats(-1, 1, width=32)), within=st.floats(0.1, 3.0))
def test_complete_linkage_refines_connected_components_and_no_group_is_wider_than_the_threshold(
    rows: np.ndarray, within: float
) -> None:
    rows = rows + np.eye(8, 3) * 3 + np.arange(24).reshape(8, 3) / 10
    d = AngularDistance()
    complete = group_labels(rows, Grouping(d, CompleteLinkage(within))).numpy()
    connected = group_labels(rows, Grouping(d, Connected(within))).numpy()
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    together = complete[:, None] == complete[None, :]
    assert (connected[:, None] == connected[None, :])[together].all()
    assert d.of(torch.from_numpy(unit @ unit.T)).numpy()[together].max() <= within + 1e-7


@pytest.mark.parametrize(
    "rule", [Connected(0.3), AverageLinkage(0.3), CompleteLinkage(0.3), HDBSCAN(min_cluster_size=3)]
)
def test_tight_orthogonal_groups_are_found_by_every_rule(rule: GroupingRule) -> None:
    rows = sphere.orthogonal_groups(5, 3, 4)
    for distance in DISTANCES:
        grouping = Grouping(distance, rule)
        assert cluster_count(grouping).after()(rows) == 3
        assert clustering_order_parameter(grouping).after()(rows) == pytest.approx((25 + 9 + 16) / 144)
    chosen = Grouping(AngularDistance(), Groups(count=3, linkage="complete"))
    assert clustering_order_parameter(chosen).after()(rows) == pytest.approx((25 + 9 + 16) / 144)


@pytest.mark.parametrize(
    "rule", [Connected(0.3), AverageLinkage(0.3), CompleteLinkage(0.3), HDBSCAN(min_cluster_size=3)]
)
def test_consensus_is_one_group_of_everything_under_every_rule(rule: GroupingRule) -> None:
    rows, grouping = np.tile([[0.6, 0.8]], (7, 1)), Grouping(AngularDistance(), rule)
    assert group_labels(rows, grouping).tolist() == [0] * 7
    assert clustering_order_parameter(grouping).after()(rows) == 1.0


def test_noise_is_no_group_and_shares_with_none_in_the_order_parameter() -> None:
    grouping = Grouping(AngularDistance(), HDBSCAN(min_cluster_size=2))
    assert cluster_count(grouping).after()(FOUR) == 1.0
    assert clustering_order_parameter(grouping).after()(FOUR) == pytest.approx((2 / 4) ** 2)
    assert noise_share(grouping).after()(FOUR) == 0.5
    assert "noise" in clustering_order_parameter(grouping).definition
    singles = Grouping(
        AngularDistance(), CompleteLinkage(0.165)
    )  # a rule without noise counts a token alone as a group
    assert clustering_order_parameter(singles).after()(on_arc(0.0, 0.1, 1.0)) == pytest.approx((4 + 1) / 9)


def test_noise_asked_of_a_rule_without_noise_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(ArgumentError, match=r"HDBSCAN\(min_cluster_size=5\).*cluster_count\(grouping\)") as refused:
        noise_share(Grouping(AngularDistance(), Connected(0.3)))
    assert "puts every token into a group" in str(refused.value)
    noise_share(Grouping(AngularDistance(), HDBSCAN(min_cluster_size=5)))
    cluster_count(Grouping(AngularDistance(), Connected(0.3)))


def test_counting_groups_whose_number_is_given_is_refused_and_the_remedy_works() -> None:
    grouping = Grouping(AngularDistance(), Groups(count=2, linkage="average"))
    with pytest.raises(UnsoundError, match="leave the number of groups open") as refused:
        cluster_count(grouping)
    assert "clustering_order_parameter(grouping)" in str(refused.value)
    assert clustering_order_parameter(grouping).after()(FOUR) == pytest.approx((9 + 1) / 16)


def test_fewer_tokens_than_a_rule_needs_leave_its_numbers_undefined_and_labels_refused() -> None:
    for rule in (Groups(count=5, linkage="single"), HDBSCAN(min_cluster_size=5)):
        grouping = Grouping(AngularDistance(), rule)
        assert math.isnan(clustering_order_parameter(grouping).after()(FOUR))
        assert "fewer than 5 tokens" in clustering_order_parameter(grouping).undefined
        with pytest.raises(ArgumentError, match="at least 5 tokens"):
            group_labels(FOUR, grouping)
        group_labels(on_arc(0, 1, 2, 3, 4), grouping)  # the remedy


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (Connected, {"within": 0.0}, "positive distance"),
        (AverageLinkage, {"within": math.inf}, "positive distance"),
        (CompleteLinkage, {"within": -1.0}, "positive distance"),
        (Groups, {"count": 0, "linkage": "single"}, "at least 1"),
        (Groups, {"count": 2, "linkage": "ward"}, "single, average or complete"),
        (HDBSCAN, {"min_cluster_size": 1}, "at least 2"),
        (Majority, {"share": 0.4, "least": 2}, r"within \[1/2, 1\)"),
        (Majority, {"share": 0.5, "least": 1}, "at least 2"),
    ],
)
def test_impossible_choices_are_refused(rule: type, options: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        rule(**options)


def test_a_batch_gives_what_its_members_give_and_labels_are_made_once() -> None:
    rows = torch.stack([sphere.uniform(tokens=12, dim=3, seed=seed) for seed in range(3)])
    for rule in (AverageLinkage(0.8), HDBSCAN(min_cluster_size=2), Groups(count=4, linkage="average")):
        one = clustering_order_parameter(Grouping(ChordalDistance(), rule)).after("normalize")
        assert one(rows).tolist() == [one(member) for member in rows]
    cloud, grouping = Cloud(rows).after("normalize"), Grouping(ChordalDistance(), AverageLinkage(0.8))
    assert labels_of(cloud, grouping) is labels_of(cloud, grouping)


def test_a_rule_says_itself_in_words() -> None:
    said = [str(Grouping(AngularDistance(), rule)) for rule, _ in RULES.values()]
    assert said[0] == "connected components within 0.165 rad of angular distance"
    assert said[3] == "3 groups by average linkage of angular distance"
    assert said[5] == "HDBSCAN (at least 2 tokens a group) of angular distance"


# --- groups followed through depth -----------------------------------------------------------------------------------


def step(before: list[int], after: list[int], by: Majority = HALF) -> GroupStep:
    (one,) = followed_groups([before, after], by=by).steps
    return one


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1], ["continued", "continued"]),
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1], ["continued", "merged"]),
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0], ["merged"]),
        ([0, 0, 0, 0], [0, 0, 1, 1], ["split"]),
        ([0, 1, 2, 3], [0, 0, 1, 2], ["born"]),
        ([0, 0, 0, 0], [0, 1, 2, 3], ["lost"]),
        ([0, 0, 0, 1, 2], [0, 0, 1, 0, 2], ["continued"]),
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 2], ["continued", "continued"]),
        ([0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 1], ["regrouped"]),
        ([-1, -1, -1, -1], [-1, -1, -1, -1], []),
    ],
)
def test_every_fate_of_a_group_has_its_example(before: list[int], after: list[int], kinds: list[str]) -> None:
    assert sorted(event.kind for event in step(before, after).events) == kinds


labelings = st.lists(st.integers(-1, 4), min_size=10, max_size=10)
MIRRORED = {"born": "lost", "lost": "born", "merged": "split", "split": "merged"}


@given(before=labelings, after=labelings)
def test_each_group_has_one_fate_and_one_origin_and_backward_births_are_losses(
    before: list[int], after: list[int]
) -> None:
    forward, backward = step(before, after), step(after, before)
    olds = [group for event in forward.events for group in event.before]
    news = [group for event in forward.events for group in event.after]
    assert sorted(olds) == sorted(g for g in set(before) if g >= 0 and before.count(g) >= 2)
    assert sorted(news) == sorted(g for g in set(after) if g >= 0 and after.count(g) >= 2)
    for kind in EVENTS:
        assert forward.count(kind) == backward.count(MIRRORED.get(kind, kind))
    assert forward.persisting_share == backward.persisting_share
    assert 0 <= forward.persisting_share <= 1
    assert forward.agreement == pytest.approx(backward.agreement)


def test_the_persisting_share_counts_tokens_that_stay_in_a_group_that_continues() -> None:
    one = step([0, 0, 0, 1, 2, 2, 3, 3], [0, 0, 1, 0, 2, 2, 2, 2])
    assert [event.kind for event in one.events] == ["continued", "merged"]
    assert one.persisting_share == 2 / 8


def test_agreement_is_one_for_the_same_groups_and_noise_tokens_stay_apart() -> None:
    assert step([0, 0, 1, 1], [1, 1, 0, 0]).agreement == 1.0
    assert step([0, 0, 1, 1], [0, 1, 0, 1]).agreement == pytest.approx(-0.5)
    assert step([0, 0, -1, -1], [0, 0, 1, 1]).agreement < 1.0
    rng = np.random.default_rng(0)
    chance = [adjusted_rand_index(rng.integers(0, 4, 200), rng.integers(0, 4, 200)) for _ in range(50)]
    assert abs(float(np.mean(chance))) < 0.01


@given(before=labelings, after=labelings)
def test_agreement_is_that_of_scikit_learn(before: list[int], after: list[int]) -> None:
    ones = [[label if label >= 0 else 100 + place for place, label in enumerate(one)] for one in (before, after)]
    found = adjusted_rand_index(np.array(before), np.array(after))
    assert found == pytest.approx(adjusted_rand_score(*ones), abs=1e-12)


def test_a_history_is_tidy_and_keeps_the_numbers_of_layers_and_groups() -> None:
    history = followed_groups(np.array([[0, 0, 1, 1], [0, 0, 0, 0], [7, 7, 7, 7]]), layers=(2, 4, 6), by=HALF)
    assert history.rows() == [
        {"layer": 2, "next_layer": 4, "event": "merged", "groups_before": (0, 1), "groups_after": (0,), "tokens": 4},
        {"layer": 4, "next_layer": 6, "event": "continued", "groups_before": (0,), "groups_after": (7,), "tokens": 4},
    ]


def test_labels_that_are_no_history_are_refused() -> None:
    for wrong in ([0, 1, 2], [[0, 1, 2]], [[0.5, 1.0], [0.0, 1.0]]):
        with pytest.raises(ArgumentError, match=r"group_labels\(rows, grouping\)"):
            followed_groups(wrong, by=HALF)
    with pytest.raises(ArgumentError, match="number the 2 layers"):
        followed_groups([[0, 1], [0, 1]], layers=(1, 2, 3), by=HALF)
