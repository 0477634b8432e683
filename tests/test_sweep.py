"""Many systems in one compiled call: the numbers are those of the states that a flow keeps, of each system by itself."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components

import armillary as am
from armillary.dynamics.pairs import SOFTMAX, UNIFORM, UNNORMALIZED, Law, compiled_flow
from armillary.dynamics.sweep import in_their_span, observed, sweep, uniform_starts
from armillary.errors import ArgumentError
from armillary.oracles.overlap import merge_time

TIMES = np.linspace(0.0, 12.0, 13)


def _law(beta, rule=SOFTMAX):
    return Law(rule, beta, 1.0, shifted=True)


def _swept(starts, beta=4.0, rule=SOFTMAX, **options):
    given = {"times": TIMES, "rtol": 1e-8, "atol": 1e-9, "above": 0.999, "within": 0.1, **options}
    return sweep(starts, law=_law(beta, rule), **given)


def _numbers(states, above, within):
    """Share, groups, mean and smallest overlap by the longest way."""
    i, j = np.triu_indices(states.shape[-2], 1)
    found = []
    for state in states.reshape(-1, *states.shape[-2:]):
        overlaps = state @ state.T
        groups, _ = connected_components(overlaps >= np.cos(within))
        found.append([(overlaps[i, j] > above).mean(), groups, overlaps[i, j].mean(), overlaps[i, j].min()])
    return np.array(found).T.reshape(4, *states.shape[:-2])


@pytest.mark.parametrize(("dim", "beta"), [(2, 9.0), (3, 4.0), (8, 1.0), (9, 6.0)])
def test_what_a_sweep_reads_is_what_the_kept_states_of_a_flow_say(dim, beta):
    starts = uniform_starts(tokens=9, dim=dim, seeds=range(5))
    found = _swept(starts, beta, stop=False)
    field = am.on_sphere(am.AttentionDrift(am.Softmax(beta)))
    run = am.flow(
        field,
        torch.from_numpy(starts),
        until=12.0,
        integrator=am.Tsit5(rtol=1e-8),
        keep=TIMES.tolist(),
        engine="general",
    )
    assert found.moved == ("overlaps" if dim >= 9 else "tokens")
    share, groups, mean, smallest = _numbers(run.states.numpy(), 0.999, 0.1)
    np.testing.assert_array_equal(found.share_above, share)
    np.testing.assert_array_equal(found.groups, groups)
    np.testing.assert_allclose(found.mean_overlap, mean, atol=1e-6)
    np.testing.assert_allclose(found.smallest_overlap, smallest, atol=1e-6)


@pytest.mark.parametrize("beta", [0.0, 2.0, 6.0])
def test_orthonormal_tokens_have_gathered_when_the_quadrature_says(beta):
    starts = np.eye(16)[None]
    found = _swept(starts, beta, UNIFORM if beta == 0 else SOFTMAX, times=np.array([40.0]))
    assert found.gathered_at[0] == pytest.approx(merge_time(tokens=16, beta=beta, stop=0.999), rel=2e-7)


def test_what_has_gathered_stays_together_so_that_an_early_end_loses_nothing():
    starts = uniform_starts(tokens=12, dim=3, seeds=range(8))
    early, late = _swept(starts, 1.0), _swept(starts, 1.0, stop=False)
    assert np.isfinite(early.gathered_at).all()
    np.testing.assert_array_equal(early.share_above, late.share_above)
    np.testing.assert_array_equal(early.groups, late.groups)
    assert early.evaluations.sum() < late.evaluations.sum()
    after = early.gathered_at[:, None] < TIMES
    assert after.any() and np.isnan(early.mean_overlap[after]).all()
    np.testing.assert_array_equal(early.mean_overlap[~after], late.mean_overlap[~after])


def test_the_number_of_groups_is_not_claimed_where_the_angle_is_narrower_than_what_ended_the_run():
    found = _swept(uniform_starts(tokens=6, dim=3, seeds=[0]), 1.0, within=0.01)
    assert found.share_above[0, -1] == 1.0 and np.isnan(found.groups[0, -1])


def test_tokens_in_the_coordinates_of_their_span_keep_their_overlaps():
    rows = np.random.default_rng(0).standard_normal((5, 40))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    reduced = in_their_span(rows)
    assert reduced.shape == (5, 5)
    np.testing.assert_allclose(reduced @ reduced.T, rows @ rows.T, atol=1e-15)
    whole, less = _swept(rows[None], stop=False), _swept(reduced[None], stop=False)
    np.testing.assert_allclose(less.mean_overlap, whole.mean_overlap, atol=1e-7)


def test_a_start_depends_on_its_own_seed_alone():
    several = uniform_starts(tokens=4, dim=7, seeds=range(3, 6))
    np.testing.assert_array_equal(several[1], uniform_starts(tokens=4, dim=7, seeds=[4])[0])
    rows = uniform_starts(tokens=200, dim=3, seeds=[0])[0]
    assert np.abs(rows.mean(axis=0)).max() < 4 / np.sqrt(3 * 200)


def test_a_system_is_the_same_whichever_others_are_swept_with_it():
    starts = uniform_starts(tokens=10, dim=3, seeds=range(6))
    together = _swept(starts, 6.0, angle=1e-3, times=np.geomspace(1, 1e4, 9))
    for k in (0, 4):
        alone = _swept(starts[k : k + 1], 6.0, angle=1e-3, times=np.geomspace(1, 1e4, 9))
        for name in ("share_above", "groups", "mean_overlap", "gathered_at", "evaluations"):
            np.testing.assert_array_equal(getattr(together, name)[k], getattr(alone, name)[0])


def test_merging_does_not_change_when_a_system_has_gathered():
    starts = uniform_starts(tokens=8, dim=3, seeds=range(6))
    options = {"times": np.array([3e3]), "above": 0.99}
    plain, merged = _swept(starts, 6.0, **options), _swept(starts, 6.0, angle=1e-4, **options)
    np.testing.assert_allclose(merged.gathered_at, plain.gathered_at, rtol=1e-6)
    assert np.isfinite(merged.gathered_at).sum() >= 3
    assert merged.evaluations.sum() < plain.evaluations.sum()


def test_a_system_that_may_take_no_more_steps_says_where_it_stands():
    found = _swept(uniform_starts(tokens=6, dim=3, seeds=[1]), 4.0, most=5)
    assert found.unfinished.tolist() == [True]
    later = found.stood_at[0] < TIMES
    assert (
        later.any() and np.isnan(found.share_above[0, later]).all() and np.isfinite(found.share_above[0, ~later]).all()
    )


def test_repulsion_is_followed_to_the_end_and_never_called_gathered():
    starts = uniform_starts(tokens=4, dim=3, seeds=[0])
    law = Law(UNNORMALIZED, 1.0, -1.0, shifted=True)
    with pytest.raises(ArgumentError, match="stop=False"):
        sweep(starts, law=law, times=TIMES, rtol=1e-8, atol=1e-9, above=0.999, within=0.1)
    found = sweep(
        starts, law=law, times=np.array([0.0, 80.0]), rtol=1e-8, atol=1e-9, above=0.999, within=0.1, stop=False
    )
    assert found.smallest_overlap[0, -1] == pytest.approx(-1 / 3, abs=1e-5)


def test_observed_reads_states_that_something_else_has_moved():
    states = np.random.default_rng(0).standard_normal((3, 2, 7, 3))
    states /= np.linalg.norm(states, axis=-1, keepdims=True)
    np.testing.assert_allclose(observed(states, above=0.5, within=0.9), _numbers(states, 0.5, 0.9), atol=1e-14)


def test_starts_times_and_thresholds_out_of_range_are_refused():
    starts = uniform_starts(tokens=4, dim=3, seeds=[0])
    for wrong, words in (
        ({"above": 1.0}, "must lie in"), ({"within": 4.0}, "must lie in"), ({"times": np.array([2.0, 1.0])}, "Sort"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=words):
            _swept(starts, **wrong)
    with pytest.raises(ArgumentError, match=r"starts\[None\]"):
        _swept(starts[0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_starts_are_left_as_they_were_however_they_lie_in_memory(order):
    starts = uniform_starts(tokens=6, dim=6, seeds=[0])
    given = starts.copy() if order == "C" else np.ascontiguousarray(starts.swapaxes(1, 2)).swapaxes(1, 2)
    tolerance = np.array([1e-8])
    run = compiled_flow(given, law=_law(2.0), times=TIMES[1:], rtol=tolerance, atol=tolerance, angle=0.0, most=1000)
    _swept(given, 2.0)
    np.testing.assert_array_equal(given, starts)
    again = compiled_flow(given, law=_law(2.0), times=TIMES[1:], rtol=tolerance, atol=tolerance, angle=0.0, most=1000)
    np.testing.assert_array_equal(run.states, again.states)


@pytest.mark.parametrize(
    ("rule", "beta", "factor"), [(SOFTMAX, 3.0, 1.0), (UNNORMALIZED, -2.0, 1.0), (UNIFORM, 0.0, 0.5)]
)
def test_overlaps_that_move_by_themselves_are_those_of_moving_tokens(rule, beta, factor):
    starts = uniform_starts(tokens=7, dim=20, seeds=range(3))
    law = Law(rule, beta, factor, shifted=False)
    options = {"times": TIMES[:5], "rtol": 1e-9, "atol": 1e-10, "above": 0.9, "within": 0.3, "stop": False}
    overlaps, tokens = sweep(starts, law=law, **options), sweep(starts, law=law, angle=1e-8, **options)
    assert (overlaps.moved, tokens.moved) == ("overlaps", "tokens")
    np.testing.assert_allclose(overlaps.mean_overlap, tokens.mean_overlap, atol=1e-8)
    np.testing.assert_allclose(overlaps.smallest_overlap, tokens.smallest_overlap, atol=1e-8)
    np.testing.assert_array_equal(overlaps.groups, tokens.groups)


def test_no_groups_are_counted_where_no_angle_is_given():
    found = _swept(uniform_starts(tokens=6, dim=3, seeds=[0]), 4.0, within=None)
    assert np.isnan(found.groups).all() and np.isfinite(found.share_above).all()
