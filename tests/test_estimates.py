"""An interval covers as often as it says, rests on documents, and refuses what has no sound answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armillary.errors import ArgumentError, NumericalError, UnsoundError
from armillary.estimates import (
    MINIMUM_MEMBERS,
    UNPAIRED_TOKENS,
    Estimate,
    Intervals,
    Sample,
    contrast,
    estimate,
    intervals,
)

CHOICES = {"level": 0.95, "resamples": 2000, "seed": 0}

POPULATIONS = {
    "normal": (0.0, lambda g, s: g.normal(size=s)),
    "gamma": (4.0, lambda g, s: g.gamma(4.0, size=s)),
    "lognormal": (math.exp(0.125), lambda g, s: g.lognormal(0.0, 0.5, size=s)),
    "overlaps": (0.8, lambda g, s: g.beta(8.0, 2.0, size=s)),
    "near consensus": (20 / 21, lambda g, s: g.beta(20.0, 1.0, size=s)),
}


def coverage(found: Intervals, truth: float) -> float:
    return 100 * float(np.mean((found.low <= truth) & (truth <= found.high)))


def sample(values: list[float], **changes: object) -> Sample:
    fields = {
        "measurement": "mean_overlap",
        "preparation": "normalize",
        "members": tuple("abcdefghijkl"[: len(values)]),
    }
    return Sample(np.array(values, dtype=float), **{**fields, **changes})


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("members", [8, 32, 64])
def test_a_95_percent_interval_covers_within_two_points_from_the_stated_minimum_on(members, population):
    assert members >= MINIMUM_MEMBERS
    truth, draw = POPULATIONS[population]
    found = []
    for seed in range(5):  # 2,000 data sets each; one seed alone leaves 0.6 points of noise
        values = draw(np.random.default_rng([1, seed, members]), (members, 2000))
        found.append(coverage(intervals(values, level=0.95, resamples=2000, seed=seed), truth))
    assert abs(np.mean(found) - 95.0) <= 2.0


@pytest.mark.parametrize("population", POPULATIONS)
def test_four_members_cover_within_four_points_and_are_flagged(population):
    truth, draw = POPULATIONS[population]
    values = draw(np.random.default_rng(1), (4, 2000))
    found = intervals(values, **CHOICES)
    assert abs(coverage(found, truth) - 95.0) <= 4.0
    assert str(MINIMUM_MEMBERS) in found.estimate((0,)).flag


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_other_levels_cover_as_often_as_they_say(level):
    truth, draw = POPULATIONS["gamma"]
    values = draw(np.random.default_rng(3), (16, 2000))
    assert abs(coverage(intervals(values, level=level, resamples=2000, seed=0), truth) - 100 * level) <= 2.0


def test_the_percentile_interval_would_miss_that_promise_at_the_minimum():
    truth, draw = POPULATIONS["gamma"]
    values = draw(np.random.default_rng([1, 8]), (8, 2000))
    counts = np.random.default_rng(0).multinomial(8, np.full(8, 1 / 8), size=2000)
    ends = np.quantile(counts @ values / 8, [0.025, 0.975], axis=0)
    assert 100 * np.mean((ends[0] <= truth) & (truth <= ends[1])) < 90.0


def offset_documents(generator: np.random.Generator) -> tuple[np.ndarray, float]:
    """40 documents of 30 unit tokens in 32 dimensions, each with its own offset: mean overlaps, and the pairs' error."""
    x = generator.normal(size=(40, 30, 32)) + 0.8 * generator.normal(size=(40, 1, 32))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    pairs = (x @ x.transpose(0, 2, 1))[:, *np.triu_indices(30, 1)]
    return pairs.mean(axis=1), float(pairs.std() / math.sqrt(pairs.size))


def test_resampled_documents_agree_with_independent_data_sets_and_pairs_are_eight_times_too_narrow():
    generator = np.random.default_rng(16)
    overlaps, errors = zip(*(offset_documents(generator) for _ in range(400)), strict=True)
    true = np.std([o.mean() for o in overlaps], ddof=1)
    assert true == pytest.approx(0.0104, rel=0.1)
    found = intervals(np.stack(overlaps, axis=1), **CHOICES)
    documents = np.median(found.high - found.low) / (2 * 1.96)
    assert documents == pytest.approx(0.0104, rel=0.2)
    assert np.mean(errors) == pytest.approx(0.0012, abs=0.0001)


def test_one_document_is_refused_with_the_reason_and_two_are_not():
    for call in (lambda: estimate([0.5], **CHOICES), lambda: intervals(np.ones((1, 3)), **CHOICES)):
        with pytest.raises(UnsoundError, match=r"the spread over .* is what an interval is made of"):
            call()
    assert estimate([0.5, 0.7], **CHOICES).members == 2  # the remedy, followed


def test_one_defined_document_among_undefined_ones_is_refused_too():
    with pytest.raises(UnsoundError, match="holds 1"):
        estimate([0.5, math.nan, math.nan], **CHOICES)


def test_fewer_than_two_defined_members_of_a_column_leave_the_interval_undefined():
    values = np.array([[1.0, math.nan], [math.nan, math.nan], [math.nan, math.nan]])
    found = intervals(values, **CHOICES)
    assert found.value[0] == 1.0 and np.isnan(found.value[1])
    assert np.isnan([found.low, found.high]).all()
    assert found.members.tolist() == [1, 0]


def test_equal_values_give_an_interval_without_width_that_says_so():
    found = estimate([0.1] * 7, **CHOICES)
    assert (found.low, found.value, found.high) == (0.1, 0.1, 0.1)
    assert "no width" in found.flag
    assert (
        str(found)
        == "0.1 [0.1, 0.1] 95% over 7 documents (all 7 documents give the same value, so the interval has no width)"
    )


def test_a_count_seen_in_a_single_document_has_no_upper_end():
    found = estimate([0.0] * 9 + [1.0], **CHOICES)
    assert found.high == math.inf and math.isfinite(found.low)
    assert "cannot bound" in found.flag and "unbounded]" in str(found)


def test_the_interval_equals_a_plain_loop_over_the_same_resamples():
    values = np.random.default_rng(2).gamma(3.0, size=9)
    counts = np.random.default_rng([0, 9]).multinomial(9, np.full(9, 1 / 9), size=2000)
    ts = []
    for row in counts:
        drawn = np.repeat(values, row)
        spread = drawn.std(ddof=1)
        ts.append((drawn.mean() - values.mean()) / (spread / 3.0) if spread > 0 else math.inf)
    ts.sort()
    error = values.std(ddof=1) / 3.0
    found = estimate(values, **CHOICES)  # floor(2001 * 0.025) = 50: the 50th from either end
    assert found.low == pytest.approx(values.mean() - ts[-50] * error, rel=1e-12)
    assert found.high == pytest.approx(values.mean() - ts[49] * error, rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(shift=st.floats(-5, 5), scale=st.floats(0.1, 10), flip=st.sampled_from([-1.0, 1.0]), seed=st.integers(0, 99))
def test_the_interval_follows_a_change_of_units(shift, scale, flip, seed):
    values = np.random.default_rng(seed).gamma(2.0, size=10)
    before = estimate(values, **CHOICES)
    after = estimate(shift + flip * scale * values, **CHOICES)
    ends = sorted(shift + flip * scale * end for end in (before.low, before.high))
    assert [after.low, after.high] == pytest.approx(ends, rel=1e-8, abs=1e-8)


def test_undefined_members_are_left_out_and_counted_in_words():
    found = estimate([1.0, 2.0, math.nan, 4.0, 3.5, 2.5, 2.2, 1.9, 3.1, math.nan], **CHOICES)
    kept = estimate([1.0, 2.0, 4.0, 3.5, 2.5, 2.2, 1.9, 3.1], **CHOICES)
    assert (found.value, found.low, found.high, found.members) == (kept.value, kept.low, kept.high, 8)
    assert str(found).endswith("95% over 8 documents, undefined for 2 more")


def test_a_columns_interval_does_not_depend_on_its_neighbors():
    values = np.random.default_rng(4).normal(size=(12, 5, 700))  # more columns than one chunk holds
    values[3, 2, 5] = math.nan
    whole = intervals(values, **CHOICES)
    for index in ((0, 0), (2, 5), (4, 699)):
        alone = estimate(values[:, *index], **CHOICES)
        assert [whole.low[index], whole.high[index]] == pytest.approx([alone.low, alone.high], rel=1e-12)
    assert whole.value.shape == (5, 700)


def test_equal_columns_get_equal_intervals_since_the_same_documents_are_drawn_for_all():
    column = np.random.default_rng(5).normal(size=20)
    found = intervals(np.stack([column, column + 1.0], axis=1), **CHOICES)
    assert found.low[1] - found.low[0] == pytest.approx(1.0, abs=1e-9)


def test_a_seed_fixes_the_interval_and_the_global_random_state_is_left_alone():
    values = np.random.default_rng(6).normal(size=9)
    state = np.random.get_state()[1].copy()
    first, second = estimate(values, **CHOICES), estimate(values, **CHOICES)
    other = estimate(values, level=0.95, resamples=2000, seed=1)
    assert first == second and first.low != other.low
    assert (np.random.get_state()[1] == state).all()


def test_an_infinite_value_is_named_by_its_place():
    values = np.zeros((4, 3))
    values[2, 1] = math.inf
    with pytest.raises(NumericalError, match=r"member 2 is inf at \(1,\)"):
        intervals(values, **CHOICES)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"level": 95}, {"level": 0.95}),
        ({"resamples": 100}, {"resamples": 2000}),
        ({"level": 0.999}, {"resamples": 10000}),
    ],
)
def test_choices_out_of_range_are_refused_and_the_remedy_works(changes, remedy):
    with pytest.raises(ArgumentError, match=next(iter(changes))) as caught:
        estimate([1.0, 2.0, 3.0], **{**CHOICES, **changes})
    assert str(next(iter(remedy.values()))) in str(caught.value)
    estimate([1.0, 2.0, 3.0], **{**CHOICES, **changes, **remedy})


def test_a_paired_difference_is_narrower_than_the_documents_spread_suggests():
    document = np.random.default_rng(7).normal(0.0, 1.0, size=16)
    effect = 0.002 + np.random.default_rng(8).normal(0.0, 0.0005, size=16)
    names = tuple(str(i) for i in range(16))
    a, b = (Sample(v, names, "mean_overlap", "normalize") for v in (document + effect, document))
    found = contrast(a, b, **CHOICES)
    assert 0.0 < found.low < 0.002 < found.high < 0.003
    assert contrast(b, a, **CHOICES).low == pytest.approx(-found.high, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"members": ("a", "b", "x")}, "'c' against 'x'"),
        ({"source": "other ids"}, "unequal contents"),
        ({"preparation": "center, normalize"}, "preparation"),
        ({"measurement": "participation_rank"}, "measurement"),
        ({"tokens": "without_first"}, "tokens"),
        ({"metric": "read"}, "metric"),
    ],
)
def test_a_difference_of_unlike_numbers_is_refused(changes, reason):
    a = sample([0.1, 0.2, 0.4])
    contrast(a, sample([0.1, 0.2, 0.3]), **CHOICES)
    with pytest.raises(UnsoundError, match=reason):
        contrast(a, sample([0.1, 0.2, 0.3], **changes), **CHOICES)


def test_a_difference_over_tokens_that_each_state_chooses_anew_is_refused():
    for tokens in UNPAIRED_TOKENS:
        with pytest.raises(UnsoundError, match="unlike tokens"):
            contrast(sample([0.1, 0.2, 0.4], tokens=tokens), sample([0.1, 0.2, 0.3], tokens=tokens), **CHOICES)


def test_a_difference_over_unequally_many_members_is_refused():
    with pytest.raises(UnsoundError, match="3 and 2 of them"):
        contrast(sample([1.0, 2.0, 3.0]), sample([1.0, 2.0]), **CHOICES)
    with pytest.raises(UnsoundError, match="identical documents"):
        contrast([1.0, 2.0, 3.0], [1.0, 2.0], **CHOICES)


def test_a_sample_has_one_number_for_each_member():
    with pytest.raises(ArgumentError, match="each of the 3 members"):
        sample([1.0, 2.0], members=("a", "b", "c"))


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (11.4193, 10.88, 12.01, "11.42 [10.9, 12.0]"),
        (0.51236, 0.50931, 0.51544, "0.5124 [0.5093, 0.5154]"),
        (23190.7, 22864.0, 23561.0, "23190 [22860, 23560]"),
        (-0.0001, -0.31, 0.29, "0.00 [-0.31, 0.29]"),
        (2.5e-11, 1.2e-11, 3.9e-11, "2.5e-11 [1.2e-11, 3.9e-11]"),
        (1.0, 0.99999999995, 1.00000000004, "1.000000000000 [0.999999999950, 1.000000000040]"),
    ],
)
def test_an_estimate_prints_the_digits_its_interval_allows(value, low, high, text):
    assert str(Estimate(value, low, high, 0.95, 64)) == f"{text} 95% over 64 documents"


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.0640625, 0.0615109, math.inf, "0.0641 [0.0615, unbounded]"),
        (0.1, -math.inf, 0.3123, "0.10 [unbounded, 0.31]"),
        (0.1, -math.inf, math.inf, "0.1 [unbounded, unbounded]"),
    ],
)
def test_where_an_end_is_unbounded_the_other_decides_the_digits(value, low, high, text):
    assert str(Estimate(value, low, high, 0.95, 9)).startswith(f"{text} 95% over 9 documents")


def test_an_end_may_lie_outside_what_the_measurement_can_be():
    found = estimate([0.999, 0.98, 0.999, 0.9, 0.998, 0.999, 0.999, 0.995, 0.999], **CHOICES)
    assert found.value < 1.0 < found.high
    assert "outside the attainable range" in Estimate.__doc__


def test_an_estimate_below_the_minimum_prints_its_flag():
    below, at = (str(Estimate(1.0, 0.5, 1.5, 0.9, m)) for m in (MINIMUM_MEMBERS - 1, MINIMUM_MEMBERS))
    assert "fewer than 8 documents the interval may cover less often than 90%" in below
    assert at == "1.00 [0.5, 1.5] 90% over 8 documents"


def test_ends_are_cut_at_the_attainable_range_and_the_value_stays():
    values = np.array([0.01, 0.0, 0.02, 0.01, 0.0, 0.01, 0.02, 0.95])  # one document far from the others
    plain = intervals(values, level=0.95, resamples=2000, seed=0)
    assert float(plain.high) > 1.0, "a studentized bootstrap knows no range"
    cut = plain.within(-1.0, 1.0)
    assert float(cut.high) == 1.0
    assert float(cut.low) == float(plain.low)
    assert float(cut.value) == float(plain.value)
    equal = intervals(np.array([1.0] * 7 + [0.5]), level=0.95, resamples=2000, seed=0)
    assert np.isinf(equal.low) and np.isinf(equal.within(0.0, 1.0).low), "what documents cannot bound, a range does not"
    names = tuple("abcdefgh")
    overlap = Sample(values, names, "mean_overlap", "normalize", lowest=-1.0, highest=1.0)
    assert estimate(overlap, level=0.95, resamples=2000, seed=0).high == 1.0
    other = Sample(-values, names, "mean_overlap", "normalize", lowest=-1.0, highest=1.0)
    difference = contrast(overlap, other, level=0.95, resamples=2000, seed=0)
    assert difference.high == 2.0, "a difference of two overlaps reaches 2"
