"""Densities on the circle: exact distances between simple clouds, characteristics against the spectral solver."""

import math

import numpy as np
import pytest

from armillary.oracles import linear, meanfield
from armillary.studies.densities import Density, _in_order, carried, distance, draws, gathered
from armillary.studies.phase import mean_field
from armillary.studies.starts import from_angles

WAVES = Density(cosines=(0.3,), sines=(0.0, 0.2))


def _even(nodes):
    return 2 * np.pi * np.arange(nodes) / nodes, np.arange(nodes) / nodes


def test_equal_tokens_at_equal_distances_are_a_quarter_gap_from_the_uniform_density():
    places, below = _even(4000)
    for tokens in (2, 5, 8):
        cloud = 0.3 + 2 * np.pi * np.arange(tokens) / tokens
        assert distance(cloud, None, places=places, below=below) == pytest.approx(math.pi / (2 * tokens), rel=1e-4)


def test_one_point_is_a_right_angle_from_the_uniform_density():
    places, below = _even(4000)
    found = distance(np.array([5.0]), np.array([1.0]), places=places, below=below)
    assert found == pytest.approx(math.pi / 2, rel=1e-4)


def test_a_shift_of_narrow_clusters_is_its_angle_and_goes_around_the_back():
    places = 3.0 + np.array([-1e-9, 1e-9])  # all mass between two characteristics
    below = np.array([0.0, 1.0])
    for shift in (0.2, -0.7, 3.0, 2 * np.pi - 0.4):
        nearest = abs((shift + np.pi) % (2 * np.pi) - np.pi)
        found = distance(np.array([3.0 + shift]), None, places=places, below=below)
        assert found == pytest.approx(nearest, abs=1e-7)


def test_draws_follow_their_density():
    angles = draws(WAVES, [3], tokens=200_000)
    moments = [np.exp(-1j * k * angles).mean() for k in range(3)]
    np.testing.assert_allclose(moments, WAVES.moments, atol=5 / math.sqrt(200_000))
    assert WAVES.below(np.array([2 * np.pi])) == pytest.approx(1.0)


def test_characteristics_agree_with_the_spectral_solver_that_knows_none():
    places, below = carried(WAVES, beta=2.0, times=(0.0, 2.0), nodes=256, rtol=1e-10)
    law = meanfield.circle(list(WAVES.moments), beta=2.0, at=[0.0, 2.0], modes=128).moments[-1]
    weights = WAVES.value(places[0]) / 256
    for k in (1, 2, 3):
        assert (weights * np.exp(-1j * k * places[1])).sum() == pytest.approx(law[k], abs=1e-8)
    assert np.all(np.diff(places[1]) > 0)
    steps = np.diff(np.concatenate([below, [1.0 + below[0]]]))
    assert steps.sum() == pytest.approx(1)


def test_characteristics_that_have_met_are_one_point_even_if_some_went_more_than_half_around():
    density = mean_field.DENSITIES["uneven"]
    places, below = carried(density, beta=2.0, times=(0.0, 12.0, 20.0), nodes=256, rtol=1e-8)
    for there in places[1:]:
        assert 0 <= there[-1] - there[0] < 2 * np.pi
        middle = np.angle((np.exp(1j * there) * np.diff(np.append(below, 1 + below[0]))).sum())
        spread = 1e-2 if there is places[2] else 0.25
        assert distance(np.array([middle]), None, places=there, below=below) < spread


def test_a_density_without_waves_stands_still():
    places, _ = carried(Density(), beta=2.0, times=(0.0, 400.0), nodes=64, rtol=1e-8)
    np.testing.assert_array_equal(places[0], places[1])


def test_two_opposed_waves_stay_opposed_for_as_long_as_they_are_followed():
    places, below = carried(
        mean_field.DENSITIES["two opposed waves"], beta=2.0, times=(0.0, 300.0), nodes=64, rtol=1e-8
    )
    two = np.array([np.angle(np.exp(1j * places[1])[below < 0.2].mean()), np.pi])
    assert distance(two, None, places=places[1], below=below) < 1e-3


def test_coalesced_tokens_become_one_with_their_mass_also_around_the_back():
    angles = np.array([0.1, 2 * np.pi - 1e-8, 1.0, 1e-8, 1.0 + 1e-7])
    found, masses = gathered(angles, np.array([0.1, 0.2, 0.3, 0.2, 0.2]), within=1e-6)
    around = {round(mass, 6): math.remainder(angle, 2 * math.pi) for angle, mass in zip(found, masses, strict=True)}
    assert around == pytest.approx({0.1: 0.1, 0.4: 0.0, 0.5: 1.0}, abs=1e-6)


def test_the_distance_of_independent_draws_falls_as_the_root_of_their_number():
    places, below = _even(512)
    sizes, means = (64, 256, 1024), []
    for tokens in sizes:
        clouds = (draws(Density(), [1, seed, tokens], tokens=tokens) for seed in range(60))
        means.append(np.mean([distance(cloud, None, places=places, below=below) for cloud in clouds]))
    assert np.polyfit(np.log(sizes), np.log(means), 1)[0] == pytest.approx(-0.5, abs=0.08)


def test_larger_clouds_leave_the_uniform_density_later():
    base = next(iter(mean_field.PRESET.quick.cells.values()))
    cell = {**base, "density": "uniform", "time": (0.0, 2.0, 4.0, 6.0, 8.0), "nodes": 64}
    few, many = (mean_field.measure({**cell, "tokens": count}, range(4))["leaves_at"] for count in (64, 1024))
    assert np.nanmean(few) + 1 < np.nanmean(many)


def test_the_law_of_leaving_is_half_the_reciprocal_of_the_fastest_escape():
    rates = [linear.harmonic_rate(k, dim=2, beta=2.0) for k in (1, 2, 3)]
    assert mean_field.expected_growth("uniform", beta=2.0) == pytest.approx(1 / (2 * max(rates)))
    assert mean_field.expected_growth("two opposed waves", beta=2.0) == pytest.approx((1 + math.exp(4)) / 4)
    assert math.isnan(mean_field.expected_growth("uneven", beta=2.0))


def test_rounding_among_characteristics_that_have_met_turns_none_of_them_around():
    places = _in_order(from_angles(np.array([0.0, 1.0, 1.0 - 1e-12, 4.5, 6.0])).numpy())
    np.testing.assert_allclose(places, [0.0, 1.0, 1.0, 4.5, 6.0], atol=1e-9)
