"""Tokens that lock apart on the circle at negative beta: closed forms of the triangle, and what must be called untold."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from armillary.oracles import circle
from armillary.studies.locking import LOCKED, MET, outcome, pull, released_at, slowest_rate, uneven
from armillary.studies.starts import attended, from_angles, uniform_starts

TRIANGLE = 2 * np.pi * np.arange(3) / 3


@pytest.mark.parametrize("beta", [-1.0, -0.7, -0.6, 0.5])
def test_the_slowest_mode_of_the_triangle_has_its_closed_form(beta):
    scaled = circle.triangle_rate(beta) * math.exp(-abs(beta))
    assert slowest_rate(TRIANGLE, beta=beta) == pytest.approx(scaled, rel=1e-12)


def test_the_triangle_is_released_at_minus_two_thirds():
    assert released_at(TRIANGLE, beta=-2.0) == pytest.approx(-2 / 3, abs=2e-7)


def test_nine_tokens_in_three_clusters_are_released_like_three():
    assert released_at(np.repeat(TRIANGLE, 3), beta=-1.5) == pytest.approx(-2 / 3, abs=2e-7)


def test_uneven_clusters_are_released_where_their_arcs_say():
    start = np.repeat(TRIANGLE + np.array([0.0, 0.1, -0.1]), [3, 3, 2])
    run = attended(from_angles(start)[None], rule=-2.0, times=[0.0, 200.0], rtol=1e-8).last[0].numpy()
    ends = np.arctan2(run[:, 1], run[:, 0])
    assert outcome(ends, beta=-2.0) == LOCKED
    beta = released_at(ends, beta=-2.0)
    still = attended(from_angles(ends)[None], rule=beta, times=[0.0, 2000.0], rtol=1e-9).last[0].numpy()
    around = np.sort(np.arctan2(still[:, 1], still[:, 0]))
    arcs = np.diff(around, append=around[0] + 2 * np.pi)
    first, second, _ = arcs[arcs > 0.5]
    assert beta < -1
    assert circle.three_clusters_release(first, second) == pytest.approx(beta, abs=5e-3)


@given(st.floats(0.02, math.pi - 0.02), st.floats(0.02, math.pi - 0.02))
def test_no_three_clusters_hold_above_minus_two_thirds(first, second):
    assume(first + second > math.pi + 1e-3)
    beta = circle.three_clusters_release(first, second)
    assert beta <= -2 / 3 + 1e-7
    arcs = (first, second, 2 * math.pi - first - second)
    around = np.array([0.0, arcs[0], arcs[0] + arcs[1]])
    weights = pull(np.array(arcs)[[1, 2, 0]], beta=beta)
    pulls = weights[None, :] * pull(around[None, :] - around[:, None], beta=beta)
    assert np.abs(pulls.sum(1)).max() < 1e-12 * np.abs(pulls).max()  # they stand still under these weights


def test_tokens_in_a_half_circle_are_told_to_meet_and_a_saddle_is_not_told():
    assert outcome(np.array([0.0, 1.0, 3.0]), beta=-2.0) == MET
    assert outcome(TRIANGLE, beta=-1.0) == LOCKED
    assert math.isnan(outcome(TRIANGLE, beta=-0.5))  # stands still, and would leave if it were touched
    assert math.isnan(outcome(np.array([0.0, 2.0, 3.5]), beta=-1.0))  # still on its way


def test_the_mean_pull_is_the_velocity_that_the_engine_gives_without_row_normalization():
    from armillary.dynamics.pairs import UNNORMALIZED, Law, pair_velocity

    rows = uniform_starts([5], tokens=7, dim=2)[0].numpy()
    angles = np.arctan2(rows[:, 1], rows[:, 0])
    velocity = pair_velocity(rows, law=Law(UNNORMALIZED, -0.9, 1.0, True))
    turned = rows[:, 0] * velocity[:, 1] - rows[:, 1] * velocity[:, 0]
    np.testing.assert_allclose(uneven(angles, beta=-0.9), turned, atol=1e-14)


def test_softmax_and_unnormalized_weights_leave_the_same_states_standing():
    from armillary.dynamics.pairs import SOFTMAX, Law, pair_velocity

    rows = from_angles(np.repeat(TRIANGLE, 2)).numpy()
    assert np.abs(pair_velocity(rows, law=Law(SOFTMAX, -1.0, 1.0, True))).max() < 1e-15
    assert np.abs(uneven(np.repeat(TRIANGLE, 2), beta=-1.0)).max() < 1e-15
