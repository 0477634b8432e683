"""Ranks and isotropy of the population behind a sample, against closed forms, plain sums and averages over draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import hyp0f1

from armillary import sphere
from armillary.errors import ArgumentError
from armillary.observables.alignment import exponential_overlap
from armillary.observables.cloud import Cloud
from armillary.observables.isotropy import isotropy_score, uniformity
from armillary.observables.population import (
    both_ways_participation_rank,
    population_participation_rank,
    population_participation_rank_about_zero,
)
from armillary.observables.rank import entropy_rank, participation_rank, variance_components
from armillary.observables.unbiased import squared_covariance, squared_variance


def gaussian(tokens: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, dim))


def power_law(dim: int) -> np.ndarray:
    return np.arange(1, dim + 1) ** -0.5


def plainly(rows: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Means over all ordered quadruples of distinct rows: of the squared covariance and of the squared variance."""
    covariance, variance = [], []
    for i, j, k, m in itertools.permutations(range(len(rows)), 4):
        a, b = rows[i] - rows[k], rows[j] - rows[m]
        covariance.append((a @ b) * ((other[i] - other[k]) @ (other[j] - other[m])) / 4)
        variance.append((a @ a) * (b @ b) / 4)
    return float(np.mean(covariance)), float(np.mean(variance))


def test_averages_over_distinct_rows_equal_the_plain_fourfold_sums() -> None:
    rows, other = gaussian(7, 3, seed=1) + 2.0, gaussian(7, 5, seed=2)
    x, y = (Cloud(torch.tensor(one)) for one in (rows, other))
    covariance, variance = plainly(rows, other)
    assert float(squared_covariance(x, y)) == pytest.approx(covariance, rel=1e-10)
    assert float(squared_variance(x)) == pytest.approx(variance, rel=1e-10)
    assert float(squared_covariance(x, x)) == pytest.approx(plainly(rows, rows)[0], rel=1e-10)
    assert float(squared_covariance(x, x)) > 0


def test_the_corrected_participation_ranks_equal_their_plain_sums_over_distinct_rows_and_columns() -> None:
    rows = gaussian(6, 4, seed=3) + 1.0
    below, above = plainly(rows, rows)
    assert population_participation_rank.after()(rows) == pytest.approx(above / below, rel=1e-10)
    one_column = [plainly(rows[:, [c]], rows[:, [c]]) for c in range(4)]
    met = sum(below for below, _ in one_column)
    assert met == pytest.approx(sum(above for _, above in one_column), rel=1e-12)  # of one column they are one number
    assert both_ways_participation_rank.after()(rows) == pytest.approx((above - met) / (below - met), rel=1e-9)
    gram = rows @ rows.T
    pairs = list(itertools.permutations(range(6), 2))
    expected = np.mean([gram[i, i] * gram[j, j] for i, j in pairs]) / np.mean([gram[i, j] ** 2 for i, j in pairs])
    assert population_participation_rank_about_zero.after()(rows) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("spread", [np.ones(20), power_law(60)], ids=["isotropic", "power law"])
def test_corrected_for_rows_the_mean_is_flat_in_their_number_where_the_plain_rank_grows(spread: np.ndarray) -> None:
    population = (spread**2).sum() ** 2 / (spread**4).sum()
    plain, corrected = [], []
    for tokens in (16, 64, 128):
        draws = torch.tensor(np.stack([gaussian(tokens, len(spread), seed=s) * spread for s in range(400)])) + 3.0
        cloud = Cloud(draws)
        above, below = squared_variance(cloud), squared_covariance(cloud, cloud)
        for moment, exact in ((above, (spread**2).sum() ** 2), (below, (spread**4).sum())):
            assert abs(float(moment.mean()) - exact) < 4 * float(moment.std()) / 20  # each average is without bias
        plain.append(float(participation_rank.after("center").of(cloud).mean()))
        corrected.append(float(population_participation_rank.after().of(cloud).mean()))
    assert plain[0] < 0.6 * population < 0.8 * plain[2]
    assert plain[0] < plain[1] < plain[2] < 0.95 * population
    assert corrected[1:] == pytest.approx([population] * 2, rel=0.05)
    assert population < corrected[0] < 1.2 * population  # the ratio's own bias at 16 rows; the plain rank loses half


def test_about_zero_the_mean_of_the_rows_counts_as_a_direction() -> None:
    mean = np.array([3.0, *[0.0] * 9])
    second = np.ones(10) + mean**2
    expected = second.sum() ** 2 / (second**2).sum()
    values = [population_participation_rank_about_zero.after()(gaussian(40, 10, seed=s) + mean) for s in range(300)]
    assert np.mean(values) == pytest.approx(expected, rel=0.02)
    assert np.mean(values) < 4 < 9 < population_participation_rank.after()(gaussian(400, 10) + mean)


def test_corrected_both_ways_a_part_of_the_columns_tells_the_rank_of_all() -> None:
    latent, width = 5, 4000
    generator = np.random.default_rng(0)
    loadings = generator.standard_normal((latent, width))  # of many columns each row sees a few
    variances = np.linalg.eigvalsh(loadings @ loadings.T / width)
    population = variances.sum() ** 2 / (variances**2).sum()
    values, rows_only = [], []
    for _ in range(200):
        columns = generator.choice(width, 25, replace=False)
        rows = generator.standard_normal((60, latent)) @ loadings[:, columns]
        values.append(both_ways_participation_rank.after()(rows))
        rows_only.append(population_participation_rank.after()(rows))
    assert np.mean(values) == pytest.approx(population, rel=0.05)
    assert np.mean(rows_only) < 0.9 * population


def test_moving_turning_and_scaling_a_cloud_leave_the_corrected_rank_alone() -> None:
    rows = gaussian(30, 8)
    turn, _ = np.linalg.qr(gaussian(8, 8, seed=5))
    expected = population_participation_rank.after()(rows)
    assert population_participation_rank.after()(7.0 * rows @ turn - 40.0) == pytest.approx(expected, rel=1e-9)
    assert population_participation_rank.after("center")(rows) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "one", [population_participation_rank, both_ways_participation_rank, population_participation_rank_about_zero]
)
def test_a_corrected_rank_of_too_few_or_equal_rows_is_undefined(one: object) -> None:
    assert math.isnan(one.after()(gaussian(1, 5)))  # type: ignore[attr-defined]
    if one is not population_participation_rank_about_zero:
        assert math.isnan(one.after()(gaussian(3, 5)))  # type: ignore[attr-defined]
        assert math.isnan(one.after()(np.ones((6, 5))))  # type: ignore[attr-defined]


def isoscore_as_published(points: np.ndarray) -> float:
    """The algorithm step by step: principal axes, normalized variances, isotropy defect, two rescalings."""
    d = points.shape[1]
    _, axes = np.linalg.eigh(np.cov(points.T))
    variances = np.var((points - points.mean(0)) @ axes, axis=0, ddof=1)
    normalized = math.sqrt(d) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(normalized - np.ones(d)) / math.sqrt(2 * (d - math.sqrt(d)))
    used = (d - defect**2 * (d - math.sqrt(d))) ** 2 / d**2
    return float((d * used - 1) / (d - 1))


@pytest.mark.parametrize(("tokens", "dim"), [(40, 6), (300, 3), (50, 2)])
def test_the_isotropy_score_is_the_published_algorithm(tokens: int, dim: int) -> None:
    rows = gaussian(tokens, dim, seed=tokens) * np.arange(1, dim + 1) + 5.0
    assert isotropy_score.after()(rows) == pytest.approx(isoscore_as_published(rows), rel=1e-10)
    rank = participation_rank.after("center")(rows)
    assert isotropy_score.after("center")(rows) == pytest.approx((rank - 1) / (dim - 1), rel=1e-12)


def test_the_isotropy_score_is_one_for_equal_variances_and_zero_along_a_line() -> None:
    cross = np.concatenate([np.eye(5), -np.eye(5)]) + 2.0
    assert isotropy_score.after()(cross) == pytest.approx(1.0, abs=1e-12)
    line = np.linspace(-1, 3, 9)[:, None] * np.array([1.0, -2.0, 0.5])
    assert isotropy_score.after()(line) == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(isotropy_score.after()(np.ones((4, 3))))
    assert math.isnan(isotropy_score.after()(np.arange(4.0)[:, None]))
    few = gaussian(6, 40)
    assert isotropy_score.after()(few) <= (6 - 2) / (40 - 1)


@pytest.mark.parametrize(("dim", "expected"), [(3, -2.07978), (128, -3.93753)])
def test_uniformity_of_uniform_directions_is_its_closed_form(dim: int, expected: float) -> None:
    exact = math.log(hyp0f1(dim / 2, 2.0**2)) - 2 * 2.0
    assert exact == pytest.approx(expected, abs=5e-6)
    values = [uniformity(t=2.0).after()(sphere.uniform(tokens=500, dim=dim, seed=s)) for s in range(8)]
    assert np.mean(values) == pytest.approx(exact, abs=4 * np.std(values) / math.sqrt(8) + 1e-4)


def test_uniformity_counts_no_self_pairs_and_the_exponential_overlap_counts_them() -> None:
    assert uniformity(t=2.0).after()(np.eye(2)) == pytest.approx(-4.0, abs=1e-12)  # one pair at squared distance 2
    assert uniformity(t=2.0).after()(np.ones((5, 1))) == pytest.approx(0.0, abs=1e-12)
    rows, tokens = sphere.uniform(tokens=12, dim=4, seed=1), 12
    energy = exponential_overlap(beta=4.0).after()(rows)
    pairs = math.exp(uniformity(t=2.0).after()(rows))
    assert energy == pytest.approx(1 / tokens + (1 - 1 / tokens) * pairs, rel=1e-12)
    assert uniformity(t=2.0).after()(sphere.equiangular(tokens=4, dim=3, overlap=-1 / 3)) == pytest.approx(-16 / 3)
    assert math.isnan(uniformity(t=2.0).after()(np.ones((1, 1))))


def test_a_kernel_width_that_is_not_positive_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(ArgumentError, match=r"t=2\.0"):
        uniformity(t=0.0)
    assert uniformity(t=2.0).words == "uniformity(t=2)"


def test_components_to_95_percent_of_the_variance_are_counted_with_the_one_that_reaches_it() -> None:
    rows = np.diag([4.0, 2.0, 1.0, 1.0])
    assert variance_components(share=0.95).after()(rows) == 3.0  # 16, 20, 21 of 22
    assert variance_components(share=20 / 22).after()(rows) == 2.0
    assert variance_components(share=0.95).after()(np.eye(20)) == 19.0  # reached exactly, but for rounding
    assert variance_components(share=1.0).after()(rows) == 4.0
    assert variance_components(share=0.95).after("center")(np.ones((3, 2)) * [[1], [2], [3]]) == 1.0
    assert math.isnan(variance_components(share=0.95).after()(np.zeros((3, 2))))
    values = [variance_components(share=s).after()(gaussian(20, 9)) for s in np.linspace(0.01, 1.0, 40)]
    assert values == sorted(values)
    assert values[0] == 1.0
    assert values[-1] == 9.0


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_of_the_variance_outside_0_to_1_is_refused_and_the_remedy_works(share: float) -> None:
    with pytest.raises(ArgumentError, match=r"0\.95"):
        variance_components(share=share)
    assert variance_components(share=0.95).words == "variance_components(share=0.95)"


def test_rankme_is_the_entropy_rank_up_to_its_epsilon() -> None:
    for rows in (
        gaussian(100, 40),
        np.diag([4.0, 2.0, 1.0, 1.0]),
        np.eye(50)[:, :30],
        gaussian(80, 3) @ gaussian(3, 60),
    ):
        s = np.linalg.svd(rows, compute_uv=False)
        shares = s / s.sum() + 1e-7
        rankme = math.exp(-(shares * np.log(shares)).sum())
        difference = abs(math.log(rankme) - math.log(entropy_rank.after()(rows)))
        assert difference < 2e-6 * len(s)


def test_a_population_rank_whose_denominator_is_not_positive_is_undefined():
    orthogonal = 3.0 * np.eye(5)  # all products of different rows are zero, so nothing is estimated of sum l^2
    assert math.isnan(population_participation_rank_about_zero.after()(orthogonal))
    assert math.isnan(population_participation_rank_about_zero.after("normalize")(orthogonal))
