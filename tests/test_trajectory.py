"""An ensemble keeps members apart along one axis and refuses names that do not fit its states."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import armillary as am
from armillary.errors import ArgumentError
from armillary.trajectory import Ensemble


def ensemble(**changes: Any) -> Ensemble:
    states = torch.arange(2 * 3 * 5 * 4, dtype=torch.float32).reshape(2, 3, 5, 4)
    return Ensemble(**{"states": states, "at": (0, 0.5, 1), "axis": "depth", "members": ("a", "b"), **changes})


def test_the_states_of_one_place_are_those_of_every_member_there() -> None:
    one = ensemble()
    assert len(one) == 2
    assert torch.equal(one.where(0.5), one.states[:, 1])
    with pytest.raises(ArgumentError, match=r"one of \[0, 0.5, 1\], but is 2"):
        one.where(2)


def test_some_members_keep_their_states_names_and_places_in_the_order_asked_for() -> None:
    one = ensemble()
    turned = one.only([1, 0])
    assert turned.members == ("b", "a") and turned.at == one.at
    assert torch.equal(turned.states[0], one.states[1])


@pytest.mark.parametrize("index", [2, -1])
def test_a_member_that_does_not_exist_is_refused_and_the_last_one_is_not(index: int) -> None:
    with pytest.raises(ArgumentError, match=f"from 0 to 1, but holds {index}"):
        ensemble().only([0, index])
    assert ensemble().only([1]).members == ("b",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": torch.zeros(2, 3, 5)}, r"\[members, times, tokens, dim\], but has shape \[2, 3, 5\]"),
        ({"members": ("a",)}, "name 2 members and 3 times, but name 1 and 3"),
        ({"at": (0, 1)}, "name 2 members and 3 times, but name 2 and 2"),
        ({"at": (0, 2, 1)}, "must increase"),
    ],
)
def test_states_that_do_not_fit_their_names_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ensemble(**changes)


def test_events_under_a_grouping_are_changes_of_groups_consensus_and_standing_still() -> None:
    angles = torch.tensor([0.0, 0.02, 1.2, 2.6], dtype=torch.float64)
    start = torch.stack([angles.cos(), angles.sin()], dim=1)
    field = am.on_sphere(am.AttentionDrift(am.Softmax(4.0)))
    at = [0.0, 1.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 101.0]
    run = am.flow(
        field, torch.stack([start, start[:1].expand(4, -1)]), until=101.0, integrator=am.Tsit5(rtol=1e-9), keep=at
    )
    found = run.events(am.Grouping(am.AngularDistance(), am.Connected(within=0.1)))
    kinds = [(event.kind, event.groups) for event in found if event.system == 0]
    counts = [groups for kind, groups in kinds if kind == "groups"]
    assert counts[0] == 3 and counts[-1] == 1 and ("consensus", 1) in kinds and ("still", 1) in kinds
    overlap = {time: float((one @ one.mT).min()) for time, one in zip(run.at, run.states[0], strict=True)}
    (met,) = [event.at for event in found if event.system == 0 and event.kind == "consensus"]
    assert all((value > 0.999) == (time >= met) for time, value in overlap.items())
    assert [(event.at, event.kind, event.groups) for event in found if event.system == 1] == [
        (0.0, "groups", 1), (0.0, "consensus", 1), (0.0, "still", 1),
    ]  # fmt: skip
