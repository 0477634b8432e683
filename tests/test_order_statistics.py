"""Medians between order statistics and shares by the exact binomial: closed forms, coverage, and what is refused."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from armillary.errors import ArgumentError, UnsoundError
from armillary.studies.order_statistics import median_interval, share_interval


def test_six_members_are_the_fewest_that_bound_a_median_at_95_percent():
    assert median_interval([5.0, 1.0, 3.0, 2.0, 4.0], level=0.95) == (3.0, -math.inf, math.inf)
    assert median_interval([6.0, 5.0, 1.0, 3.0, 2.0, 4.0], level=0.95) == (3.5, 1.0, 6.0)  # 2 / 2^6 is left out


def test_members_beyond_the_last_time_count_and_may_leave_the_median_open():
    values = [1.0, 2.0, 3.0, *[math.inf] * 9]
    value, low, high = median_interval(values, level=0.95)
    assert (value, low, high) == (math.inf, 3.0, math.inf)


def test_the_interval_of_a_median_covers_it_at_least_as_often_as_it_says():
    draw = np.random.default_rng(0)
    hits = 0
    for values in draw.exponential(size=(2000, 16)):
        _, low, high = median_interval(values, level=0.95)
        hits += low <= math.log(2) <= high
    assert hits / 2000 >= 0.94


def test_a_share_has_the_interval_of_the_exact_binomial():
    for hits, trials in ((0, 400), (3, 17), (17, 17)):
        value, low, high = share_interval(hits, trials, level=0.95)
        other = binomtest(hits, trials).proportion_ci(0.95, "exact")
        assert (value, low, high) == pytest.approx((hits / trials, other.low, other.high), abs=1e-12)
    assert share_interval(0, 400, level=0.95)[2] == pytest.approx(1 - 0.025 ** (1 / 400))


def test_what_gives_no_interval_is_refused_and_the_remedy_works():
    with pytest.raises(UnsoundError, match="at least two"):
        median_interval([1.0], level=0.95)
    with pytest.raises(ArgumentError, match="Write infinity"):
        median_interval([1.0, math.nan], level=0.95)
    assert median_interval([1.0, math.inf], level=0.95)[0] == math.inf
    with pytest.raises(UnsoundError, match="no member"):
        share_interval(0, 0, level=0.95)
