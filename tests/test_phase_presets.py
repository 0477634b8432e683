"""What each preset of `armillary phase` measures, on tiny cells, against the law that stands beside it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from armillary.dynamics import sweep
from armillary.dynamics.pairs import SOFTMAX, Law
from armillary.oracles import linear, overlap, sampling
from armillary.sphere import orthogonal_groups, uniform
from armillary.studies.averaged import averaged
from armillary.studies.diagram.declaration import Axis
from armillary.studies.diagram.registry import preset_named
from armillary.studies.diagram.run import Diagram
from armillary.studies.phase import (
    attention_networks,
    consensus_times,
    direct_consensus,
    group_count,
    lifetimes,
    mean_field,
    negative_beta,
    perspective,
    speeds,
    staircase,
)
from armillary.studies.starts import from_angles, groups_on_circle, jittered_ring

CHOICES = {"level": 0.95, "resamples": 2000, "seed": 0}


def _cell(preset, **values):
    """The first quick cell with some values changed."""
    return {**next(iter(preset.quick.cells.values())), **values}


def test_groups_on_the_circle_are_gaps_wider_than_the_angle():
    rows = from_angles(np.array([[0.0, 0.05, 1.0, 1.05, 6.25], [0.0, 0.09, 0.18, 0.27, 0.36]])).numpy()
    assert groups_on_circle(rows, within=0.1).tolist() == [2.0, 1.0]  # 6.25 is near 0, around the back
    assert groups_on_circle(rows, within=0.03).tolist() == [5.0, 5.0]


def test_a_ring_without_noise_is_even():
    angles = np.arctan2(*jittered_ring([3], tokens=8, noise=0.0)[0].numpy().T[::-1]) % (2 * np.pi)
    np.testing.assert_allclose(np.diff(np.sort(angles)), 2 * np.pi / 8, atol=1e-12)


def test_a_ring_gathers_at_its_fastest_mode():
    found = group_count.measure(_cell(group_count.PRESET, beta=5.0, start="ring", tokens=120, time=(20.0,)), range(3))
    assert found["groups"][:, 0].tolist() == [linear.fastest_harmonic(dim=2, beta=5.0)] * 3


def test_a_random_start_gathers_at_the_maxima_of_its_kernel_density():
    cell = _cell(group_count.PRESET, beta=25.0, start="random", tokens=150, time=(20.0,))
    found = group_count.measure(cell, range(12))["groups"].mean()
    assert found == pytest.approx(sampling.kernel_density_modes(25.0), abs=1.0)


@pytest.mark.parametrize(("beta", "angle", "first"), [(9.0, 90.0, 8), (25.0, 60.0, 4), (81.0, 45.0, 8)])
def test_a_lifetime_is_that_of_the_law_from_the_overlap_of_the_settled_clusters(beta, angle, first):
    found = lifetimes.measure(_cell(lifetimes.PRESET, beta=beta, angle=angle, first=first), range(2))
    np.testing.assert_allclose(found["ratio"], 1, atol=3e-4)
    law = lifetimes.lifetime_by_law(beta, angle, share=first / 16, merging=1e-5)
    assert found["lifetime"] == pytest.approx(law, rel=0.7)  # the angle of scattered clusters is only about the angle


def test_the_time_to_meet_is_continued_to_overlaps_where_quadrature_has_no_digits():
    whole = overlap.two_clusters_time(0.2, 1 - 1e-5, beta=6.0, weights=(0.5, 0.5))
    assert lifetimes.time_to_meet(0.2, 1 - 1e-7, beta=6.0, weights=(0.5, 0.5)) == pytest.approx(
        whole + 0.5 * math.log(100), abs=1e-4
    )


def test_squared_weights_are_those_of_orthogonal_groups():
    states = orthogonal_groups(3, 2, 1)[None, None]
    shares, groups = staircase.squared_weights(states, within=0.1)
    assert shares.item() == pytest.approx(14 / 36)
    assert groups.item() == 3


def test_the_published_example_waits_at_thirteen_twenty_fifths():
    cell = next(c for c in staircase.PRESET.quick.cells.values() if c["system"] == staircase.EXAMPLE)
    found = staircase.measure({**cell, "time": (0.1, 20.0, 1e3)}, [0, 1])
    assert found["energy"][0] == pytest.approx([0.36, 13 / 25, 1.0], abs=2e-2)
    np.testing.assert_array_equal(found["energy"][0], found["energy"][1])
    assert 320 < found["last_merger"][0] < 350


@pytest.mark.parametrize("scheme", speeds.SCHEMES)
def test_orthonormal_tokens_follow_the_equations_of_each_placement(scheme):
    cell = _cell(speeds.PRESET, scheme=scheme, start=speeds.ORTHONORMAL, beta=2.0)
    found = speeds.measure(cell, [0])
    law = overlap.scheme_overlap(cell["time"], scheme=scheme, tokens=16, beta=2.0, alpha=1.0, switch=1.0)
    np.testing.assert_allclose(found["overlap"][0], law, atol=1e-6)
    assert found["initial_speed"][0] == pytest.approx(
        overlap.scheme_rate(scheme, tokens=16, beta=2.0, alpha=1.0), rel=1e-12
    )
    assert found["half_time"][0] == pytest.approx(speeds.half_time(scheme, beta=2.0), abs=2e-3)
    assert found["end_exponent"][0] == pytest.approx(speeds.END[scheme], rel=4e-3)


@pytest.mark.parametrize(
    ("scheme", "speed"), [("post", 0.13899), ("sqrt depth", 0.13899), ("peri", 0.25483), ("ngpt", 0.25483)]
)
def test_eight_orthonormal_tokens_start_at_the_speed_of_their_placement(scheme, speed):
    cell = _cell(speeds.PRESET, scheme=scheme, start=speeds.ORTHONORMAL, beta=2.0, tokens=8, time=(0.0, 8.0, 16.0))
    assert speeds.measure(cell, [0])["initial_speed"][0] == pytest.approx(speed, abs=1e-5)


def test_two_tokens_meet_when_their_law_says():
    cell = _cell(consensus_times.PRESET, beta=4.0, dim=2, tokens=2)
    start = uniform(tokens=2, dim=2, seed=3)
    law = overlap.time_between(float(start[0] @ start[1]), 0.999, lambda c: overlap.two_tokens_rate(c, beta=4.0))
    found = consensus_times.measure(cell, [3])
    assert 10 ** found["log_time"][0] == pytest.approx(law, rel=1e-5)
    assert found["met"][0] == 1


@pytest.mark.parametrize(("beta", "dim"), [(0.1, 128), (1.0, 32), (1.0, 2), (4.0, 8)])
def test_times_of_consensus_are_those_of_a_finer_run_without_merging(beta, dim):
    cell = _cell(consensus_times.PRESET, beta=beta, dim=dim, until=1e3)
    found = 10 ** consensus_times.measure(cell, range(16))["log_time"]
    starts = np.stack([sweep.in_their_span(uniform(tokens=32, dim=dim, seed=seed).numpy()) for seed in range(16)])
    exact = sweep.sweep(
        starts,
        law=Law(SOFTMAX, beta, 1.0, True),
        times=np.array([1e3]),
        rtol=1e-9,
        atol=1e-10,
        above=0.999,
        within=None,
    )
    np.testing.assert_allclose(found, exact.gathered_at, rtol=3e-4)
    assert np.median(found) == pytest.approx(np.median(exact.gathered_at), rel=5e-5)


def test_what_is_not_met_by_the_last_time_is_undefined_and_the_median_knows():
    cell = _cell(consensus_times.PRESET, beta=24.0, dim=2, until=10.0)
    found = consensus_times.measure(cell, [0])
    assert math.isnan(found["log_time"][0])
    assert (found["met"][0], found["left"][0]) == (0, 0)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_an_even_ring_answers_with_the_rate_of_its_harmonic(degree, beta):
    rows = from_angles(2 * np.pi * np.arange(96) / 96).numpy()
    found = direct_consensus.response(rows, beta=beta, degree=degree, seed=0)
    assert found == pytest.approx(linear.harmonic_rate(degree, dim=2, beta=beta), rel=1e-6)


def test_the_lead_changes_near_the_threshold_and_is_continued_in_the_number_of_tokens():
    found = direct_consensus.measure(_cell(direct_consensus.PRESET, dim=3, tokens=512), range(4))
    assert found["crossing"].mean() == pytest.approx(1, abs=0.08)
    tokens = np.array([100.0, 200.0])
    assert direct_consensus.extrapolated(tokens, np.array([[1.04, 1.02]])) == pytest.approx(1.0)


def test_three_tokens_lock_below_minus_two_thirds_and_meet_above():
    cell = _cell(negative_beta.PRESET, tokens=3)
    below = negative_beta.measure({**cell, "beta": -1.5}, range(40))
    above = negative_beta.measure({**cell, "beta": -0.6}, range(40))
    assert 0 < below["locked"].sum() < 40
    assert np.nanmax(below["release"]) == pytest.approx(-2 / 3, abs=1e-6)
    assert above["met"].tolist() == [1.0] * 40
    assert np.isnan(above["release"]).all()


def test_networks_measure_an_order_of_three_without_a_skip_and_one_with_it():
    cell = _cell(attention_networks.PRESET, tokens=12, dim=24, heads=2, layer=(0, 1, 5))
    pure = attention_networks.measure({**cell, "network": "attention"}, range(3))
    skip = attention_networks.measure({**cell, "network": "attention + skip"}, range(3))
    assert pure["order"].mean() == pytest.approx(3, abs=1e-3)
    assert skip["order"].mean() == pytest.approx(1, abs=1e-3)
    assert pure["log_residual"][:, 2].max() < -20
    assert skip["log_residual"][:, 2].min() > -2


def test_what_a_cloud_costs_is_said_to_grow_as_the_sum_that_it_takes_does():
    def cost(tokens):
        return mean_field.PRESET.cost(_cell(mean_field.PRESET, tokens=tokens))

    assert cost(1000) / cost(100) == pytest.approx(24, rel=0.1)  # pairs
    assert cost(10**6) / cost(10**5) == pytest.approx(10, rel=0.1)  # series


def test_a_mean_over_one_seed_has_no_interval_and_over_none_is_no_finding():
    (alone,) = averaged(np.array([2.0, math.nan]), "words", CHOICES, expected=1.0, source="a law")
    assert (alone.value, alone.members, alone.expected) == (2.0, 1, 1.0)
    assert math.isnan(alone.low)
    assert averaged(np.array([math.nan]), "words", CHOICES) == []
    (both,) = averaged(np.array([1.0, 2.0, 3.0]), "words", CHOICES)
    assert both.low < 2 < both.high


CIRCLE = 3.17  # where the two statistics differ most


def test_the_edge_in_high_dimension_is_that_of_orthonormal_tokens_and_both_statistics_are_given_on_the_circle(tmp_path):
    def found(beta, dim, seeds):
        axes = (Axis("beta", beta, "beta"), Axis("dim", dim, "dimension d"))
        grid = replace(perspective.PRESET.quick, axes=axes, seeds=seeds, along=(Axis("time", (30.0,), "time s"),))
        record = Diagram(preset=perspective.PRESET, grid=grid, size="small").run(tmp_path / f"dim-{dim[0]}")
        return {one["words"]: one for one in record.provenance["findings"]}

    assert perspective.boundary(30.0) == pytest.approx(6.9, abs=0.05)
    assert overlap.merge_time(tokens=32, beta=perspective.boundary(30.0), stop=0.999) == pytest.approx(30.0)
    high = found(tuple(np.linspace(6.0, 8.0, 9).tolist()), (128,), 32)
    edge = high["beta at which the share of a system falls through 1/2, d = 128"]
    assert edge["value"] == pytest.approx(6.9, abs=0.4)
    assert edge["expected"] == pytest.approx(perspective.boundary(30.0))
    assert edge["low"] < edge["value"] < edge["high"]
    low = found((CIRCLE,), (2,), 128)
    share, together = (
        low[f"share of {what}, d = 2, beta = 3.17"]
        for what in ("pairs that have met", "systems that have met as a whole")
    )
    assert share["value"] == pytest.approx(0.594, abs=0.03)
    assert together["value"] == pytest.approx(0.133, abs=0.03)


def test_a_share_falls_through_one_half_between_two_values_or_has_no_edge():
    betas = np.array([1.0, 2.0, 3.0, 4.0])
    assert perspective.edge(betas, np.array([1.0, 0.8, 0.2, 0.0])) == pytest.approx(2.5)
    assert perspective.edge(betas, np.array([1.0, 0.4, 0.9, 0.4])) == pytest.approx(3.8)  # for good
    assert math.isnan(perspective.edge(betas, np.ones(4)))
    assert math.isnan(perspective.edge(betas, np.zeros(4)))


def test_a_system_without_a_number_is_not_counted_as_apart(monkeypatch):
    plain = sweep.sweep
    monkeypatch.setattr(sweep, "sweep", lambda *args, **options: plain(*args, **options, most=3))
    found = perspective.measure(_cell(perspective.PRESET, beta=5.0, dim=2, time=(1e-3, 30.0)), range(2))
    assert np.isnan(found["together"]).all()
    assert np.isnan(found["share_above"]).all()
    assert found["together_in_time"][0] == 0
    assert math.isnan(found["together_in_time"][1])


TINY = {
    "perspective": {"beta": (3.0, 6.5, 7.0, 7.5), "dim": (2, 128)},
    "attention-networks": {"network": ("attention", "attention + skip")},
    "group-count": {"beta": (9.0, 16.0, 25.0), "tokens": (60,)},
    "lifetimes": {"beta": (9.0, 12.0), "angle": (90.0,), "first": (8,)},
    "staircase": {"system": ("five tokens", "uniform, d = 2"), "beta": (4.0, 9.0)},
    "speeds": {"scheme": ("post", "ngpt")},
    "consensus-times": {"beta": (1.0, 4.0), "dim": (2, 32)},
    "direct-consensus": {"dim": (2,), "tokens": (128, 256)},
    "mean-field": {"tokens": (64, 256)},
    "negative-beta": {"beta": (-1.5, -0.5, -0.1), "tokens": (3,)},
}


@pytest.mark.parametrize("name", sorted(TINY))
def test_the_findings_of_a_tiny_diagram_are_numbers_with_intervals_beside_what_was_expected(name, tmp_path):
    preset = preset_named(name)
    axes = tuple(replace(axis, values=TINY[name].get(axis.name, axis.values)) for axis in preset.quick.axes)
    grid = replace(preset.quick, axes=axes, seeds=3)
    record = Diagram(preset=preset, grid=grid, size="quick").run(tmp_path / "record")
    found = record.provenance["findings"]
    assert found
    for one in found:
        value, low, high = (math.nan if one[end] is None else float(one[end]) for end in ("value", "low", "high"))
        assert math.isfinite(value)
        assert math.isnan(low) or low <= value <= high
