"""The judges themselves: known values, limits, and agreement between laws that were derived apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.oracles import circle, gaussian_scores, layers, linear, meanfield, noise, overlap, sampling


def test_the_closed_form_of_equiangular_tokens_is_the_tanh_law_for_two() -> None:
    times = np.linspace(0, 3, 7)
    assert overlap.equiangular_uniform(times, tokens=2, overlap=-0.4) == pytest.approx(
        overlap.two_tokens(times, overlap=-0.4), abs=1e-14
    )


def test_the_equation_at_a_small_beta_tends_to_the_closed_form() -> None:
    times = [0.0, 0.5, 1.0, 2.0]
    near = overlap.equiangular(times, tokens=8, overlap=0.1, beta=1e-9)
    assert near == pytest.approx(overlap.equiangular_uniform(times, tokens=8, overlap=0.1), abs=1e-8)


def test_two_equal_clusters_obey_the_law_of_two_tokens() -> None:
    rates = [(overlap.two_clusters_rate(c, beta=7.0, weights=(3.0, 3.0)), c) for c in (-0.5, 0.0, 0.9)]
    assert all(rate == pytest.approx(overlap.two_tokens_rate(c, beta=7.0), rel=1e-13) for rate, c in rates)


@pytest.mark.parametrize(
    ("beta", "time"),
    [(0.0, 5.186), (1.0, 5.270), (2.0, 5.458), (4.0, 6.954), (6.0, 15.995), (8.0, 73.446), (9.0, 178.73)],
)
def test_the_consensus_boundary_of_thirty_two_tokens(beta: float, time: float) -> None:
    assert overlap.merge_time(tokens=32, beta=beta, stop=1 - 1e-3) == pytest.approx(time, abs=0.006)


def test_residual_layers_near_consensus_contract_by_the_square_of_one_plus_the_step() -> None:
    found = 1 - overlap.residual_layers(tokens=5, beta=2.0, step=1.0, layers=2, overlap=1 - 1e-9)
    assert found[1] / found[0] == pytest.approx(0.25, rel=1e-4)


def test_the_layer_map_tends_to_the_flow_as_the_step_shrinks() -> None:
    small = overlap.residual_layers(tokens=8, beta=2.0, step=1e-4, layers=10_000)[-1]
    assert small == pytest.approx(overlap.equiangular([1.0], tokens=8, overlap=0.0, beta=2.0)[0], abs=1e-4)


def test_growth_rates_of_the_circle_agree_with_those_of_any_dimension() -> None:
    for beta in (0.5, 5.0, 80.0):
        general = [linear.harmonic_rate(k, dim=2, beta=beta) for k in range(1, 7)]
        assert general == pytest.approx(linear.circle_rates(beta, largest=6), rel=1e-11)
    assert linear.circle_rates(5.0, largest=6) == pytest.approx(
        [0.178677, 0.514117, 0.682678, 0.600089, 0.396106, 0.209416], abs=1e-6
    )


def test_direct_consensus_is_the_fastest_mode_below_about_two_thirds_of_the_dimension() -> None:
    known = {2: 1.044, 3: 1.816, 4: 2.529, 8: 5.251, 16: 10.61, 32: 21.28, 128: 85.29, 768: 511.96}
    for dim, beta in known.items():
        threshold = linear.direct_consensus_threshold(dim)
        assert threshold == pytest.approx(beta, rel=1e-3)
        assert linear.fastest_harmonic(dim=dim, beta=0.98 * threshold, largest=6) == 1
        assert linear.fastest_harmonic(dim=dim, beta=1.02 * threshold, largest=6) == 2


def test_the_fastest_mode_on_the_circle_is_about_the_root_of_twice_beta() -> None:
    assert [linear.fastest_harmonic(dim=2, beta=beta) for beta in (5.0, 25.0, 50.0, 200.0, 1000.0)] == [
        3,
        7,
        10,
        20,
        45,
    ]


def test_the_fastest_mode_on_the_circle_switches_at_the_known_betas() -> None:
    known = [1.044, 3.165, 6.211, 10.228, 15.236, 21.240, 28.243]
    found = [linear.fastest_harmonic_switch(degree, dim=2) for degree in range(1, 8)]
    assert found == pytest.approx(known, abs=5e-4)
    for dim in (2, 3, 64):
        for degree in (1, 4, 12):
            beta = linear.fastest_harmonic_switch(degree, dim=dim)
            rates = [linear.harmonic_rate(one, dim=dim, beta=beta) for one in (degree, degree + 1)]
            assert rates[0] == pytest.approx(rates[1], rel=1e-9)
            assert linear.fastest_harmonic(dim=dim, beta=1.01 * beta, largest=degree + 3) == degree + 1


def test_the_transition_is_continuous_up_to_the_known_beta_and_sets_in_at_twice_the_coupling() -> None:
    known = {2: 2.44692, 3: 1.81615, 4: 1.57526, 8: 1.26655, 32: 1.06348}
    assert [noise.continuous_up_to(dim) for dim in known] == pytest.approx(list(known.values()), abs=1e-5)
    assert noise.linear_threshold(1.0, dim=2) == pytest.approx(1.7694, abs=1e-4)


def test_order_under_noise_is_there_above_the_threshold_and_below_it_where_the_transition_is_not_continuous() -> None:
    cosines = np.cos(2 * np.pi * np.arange(256) / 256)
    known = {(1.0, 0.95): 0.0, (1.0, 1.1): 0.490, (1.0, 1.4): 0.776, (6.0, 0.95): 0.890, (6.0, 0.8): 0.0}
    for (beta, share), order in known.items():
        mass = noise.stationary_density(beta, coupling=share * noise.linear_threshold(beta, dim=2))
        assert mass.sum() == pytest.approx(1.0) and mass @ cosines == pytest.approx(order, abs=5e-4)


def test_order_without_coupling_stays_that_of_independent_tokens_and_grows_towards_the_threshold() -> None:
    free = [noise.order_of_disorder(time, share=0.0, tokens=100) for time in (0.0, 3.0)]
    assert free == pytest.approx([math.sqrt(math.pi / 400)] * 2)
    assert noise.order_of_disorder(1e3, share=0.8, tokens=2000) == pytest.approx(math.sqrt(math.pi / 1600))


@pytest.mark.parametrize("dim", [3, 8])
def test_the_zonal_solver_grows_harmonics_at_their_linear_rates_and_keeps_mass(dim: int) -> None:
    start = [1.0, 1e-8, 1e-8, 0.0, 1e-8]
    found = meanfield.zonal(start, dim=dim, beta=4.0, at=[0.0, 1.0], modes=24).moments
    assert found[-1, 0] == 1.0
    for degree in (1, 2):
        rate = math.log(found[-1, degree] / found[0, degree])
        assert rate == pytest.approx(linear.harmonic_rate(degree, dim=dim, beta=4.0), rel=1e-6)


def test_the_circle_solver_grows_modes_at_their_linear_rates_keeps_mass_and_says_when_it_loses_resolution() -> None:
    found = meanfield.circle([1.0, 1e-7, 1e-7, 1e-7], beta=5.0, at=[0.0, 1.0], modes=48)
    for k in (1, 2, 3):
        rate = math.log(abs(found.moments[1, k] / found.moments[0, k]))
        assert rate == pytest.approx(linear.circle_rates(5.0, largest=3)[k - 1], rel=1e-6)
    assert found.moments[-1, 0] == 1.0
    late = meanfield.circle([1.0, 0.15, -0.1j], beta=5.0, at=[0.0, 3.0, 6.5], modes=96)
    assert late.tail[1] < 1e-4 < late.tail[2]


@pytest.mark.parametrize(("dim", "t", "value"), [(3, 2.0, -2.07978), (128, 2.0, -3.93753)])
def test_uniformity_of_the_uniform_law(dim: int, t: float, value: float) -> None:
    assert sampling.uniformity_of_uniform(dim=dim, t=t) == pytest.approx(value, abs=1e-5)


def test_the_kernel_series_takes_over_where_bessel_functions_underflow_without_a_step() -> None:
    for dim in (300, 420, 700):
        near = [sampling.expected_kernel(3.0, dim=d) for d in (dim, dim + 1)]
        assert 0 < near[1] < near[0] < 9 / (2 * dim) * 1.01


def test_numbers_of_random_layers() -> None:
    assert layers.random_attention_cosine(tokens=200, overlap=0.5, spread=1.0) == pytest.approx(0.99819, abs=1e-5)
    assert layers.relu_kernel(0.0) == pytest.approx(1 / math.pi)
    assert layers.causal_average_rank(64) == pytest.approx(1.9692307692, abs=1e-9)
    assert layers.gaussian_variance([1, 2, 3], variance=0.05) == pytest.approx([0.0555, 0.0625, 0.0714], abs=1e-4)
    assert layers.long_context_overlap(tokens=10**8, overlap=0.2, gamma=1.25) == pytest.approx(0.5, abs=1e-4)


def test_softmax_of_gaussian_scores_has_its_averages_at_few_tokens() -> None:
    draw, draws = np.random.default_rng(0), 400_000
    first, apart = draw.standard_normal((2, draws, 3))
    weights = [np.exp(2 * one) for one in (first, 0.5 * first + math.sqrt(0.75) * apart)]
    first, second = (one / one.sum(1, keepdims=True) for one in weights)
    sampled = {
        gaussian_scores.shared_weight(tokens=3, spread=2.0): (first**2).sum(1),
        gaussian_scores.shared_weight(tokens=3, spread=2.0, correlation=0.5): (first * second).sum(1),
        gaussian_scores.entropy(tokens=3, spread=2.0): -(first * np.log(first)).sum(1),
    }
    for law, found in sampled.items():
        assert found.mean() == pytest.approx(law, abs=3 * found.std() / math.sqrt(draws))
    assert gaussian_scores.shared_weight(tokens=50, spread=1.3, correlation=0.0) == pytest.approx(1 / 50, rel=1e-9)


def test_quadratures_of_softmax_do_not_depend_on_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[float]:
        cases = [(2, 1.0), (64, 0.3), (1500, 1.0), (10**5, 3.4)]
        return [
            number
            for tokens, spread in cases
            for number in (
                gaussian_scores.shared_weight(tokens=tokens, spread=spread),
                gaussian_scores.shared_weight(tokens=tokens, spread=spread, correlation=0.6),
                gaussian_scores.entropy(tokens=tokens, spread=spread),
            )
        ]

    coarse = found()
    monkeypatch.setattr(gaussian_scores, "STEP", gaussian_scores.STEP / 2)
    monkeypatch.setattr(gaussian_scores, "LOG_STEP", gaussian_scores.LOG_STEP / 2)
    assert found() == pytest.approx(coarse, rel=1e-9)


def test_random_attention_at_finite_size_tends_to_its_estimates() -> None:
    for rho, spread in ((0.5, 1.0), (0.2, 1.0), (0.0, 1.0)):
        apart = []
        for tokens in (10**4, 10**5):
            square, product = gaussian_scores.attention_gram(tokens=tokens, overlap=rho, spread=spread)
            estimate = layers.random_attention_cosine(tokens=tokens, overlap=rho, spread=spread)
            apart.append(abs(product / square - estimate) / (1 - estimate))
        assert apart[1] < apart[0] / 8 and apart[0] < 0.01
    size = 10**6
    assert gaussian_scores.top_singular_value(tokens=size, spread=1.0) == pytest.approx(1, abs=1e-6)
    shared = gaussian_scores.shared_weight(tokens=size, spread=1.0)
    assert size * shared == pytest.approx(layers.random_attention_stable_rank(1.0), rel=1e-4)
    for share in (0.3, 0.5, 0.7):
        ratios = [
            gaussian_scores.entropy(tokens=n, spread=share * math.sqrt(2 * math.log(n))) / math.log(n)
            for n in (10**5, 10**9, 10**13)
        ]
        law = layers.random_energy_entropy(share)
        assert ratios[0] > ratios[1] > ratios[2] >= law - 1e-9 and ratios[2] - law < 0.003
    assert [round(one, 3) for one in (_ratio_of_entropy(0.3), _ratio_of_entropy(0.5))] == [0.910, 0.751]


def _ratio_of_entropy(share: float) -> float:
    tokens = 10**5
    return gaussian_scores.entropy(tokens=tokens, spread=share * math.sqrt(2 * math.log(tokens))) / math.log(tokens)


def test_the_map_on_gaussian_keys_is_that_of_many_keys_but_for_the_share_of_the_largest() -> None:
    mean, covariance = np.array([0.4, -0.3]), np.array([[0.64, 0.24], [0.24, 0.34]])
    scores, query = np.array([[0.5, 0.9], [-0.4, 0.7]]), np.array([0.6, 0.8])
    given = {"mean": mean, "covariance": covariance, "scores": scores}
    many = gaussian_scores.attention_on_gaussian_keys(query, **given)
    assert many == pytest.approx(mean + covariance @ scores.T @ query)
    draw = np.random.default_rng(1)
    keys = mean + draw.standard_normal((200_000, 5, 2)) @ np.linalg.cholesky(covariance).T
    weights = np.exp(keys @ (scores.T @ query))
    found = np.einsum("sk,skd->sd", weights / weights.sum(1, keepdims=True), keys)
    few = gaussian_scores.attention_on_gaussian_keys(query, **given, keys=5)
    assert np.abs(found.mean(0) - few).max() < 3 * found.std(0).max() / math.sqrt(200_000)
    assert np.abs(few - many).max() > 0.05


def test_the_triangle_loses_stability_at_minus_two_thirds() -> None:
    assert circle.triangle_rate(-2 / 3) == pytest.approx(0.0, abs=1e-15)
    assert circle.triangle_rate(-0.7) == pytest.approx(-0.03548, abs=1e-5)
    assert circle.triangle_rate(-0.6) == pytest.approx(0.06749, abs=1e-5)


def test_numbers_of_equiangular_tokens_and_of_a_pair() -> None:
    known = {
        (8, 1.0, 1.0): 0.362586880,
        (32, 1.0, 2.0): 0.589772823,
        (32, 4.0, 5.0): 0.9527748497,
        (16, 9.0, 200.0): 0.13086877,
    }
    for (tokens, beta, time), value in known.items():
        found = overlap.equiangular([time], tokens=tokens, overlap=0.0, beta=beta)[0]
        assert found == pytest.approx(value, abs=1e-9)
    times = [
        overlap.time_between(0, 0.9, lambda c, b=b: overlap.two_tokens_rate(c, beta=b)) for b in (0.0, 1.0, 4.0, 8.0)
    ]
    assert times == pytest.approx([1.472219, 1.917028, 8.390296, 194.134994], abs=6e-7)
    assert overlap.equiangular_uniform([1.0], tokens=8)[0] == pytest.approx(0.444021905, abs=1e-9)
    assert overlap.participation_rank_of_equiangular(0.444021905, tokens=8) == pytest.approx(3.361220, abs=1e-6)
    deep = overlap.residual_layers(tokens=12, beta=4.0, step=1.0, layers=12)[-1]
    assert deep == pytest.approx(0.98293709420, abs=5e-12)


def test_numbers_of_the_placements_of_the_norm_and_of_the_consensus_boundary() -> None:
    late = {"pre": 0.9786, "peri": 0.9842, "mix": 0.9898, "sqrt depth": 0.9989}
    for scheme, value in late.items():
        found = overlap.scheme_overlap([0.0, 12.0], scheme=scheme, tokens=16, beta=2.0, switch=1.0)[-1]
        assert found == pytest.approx(value, abs=6e-5)
    edges = {32: (3.146, 5.110, 6.345, 6.906), 128: (2.187, 5.912, 7.220, 7.785)}
    for tokens, betas in edges.items():
        times = [overlap.merge_time(tokens=tokens, beta=beta, stop=0.999) for beta in betas]
        assert times == pytest.approx([6, 10, 20, 30], rel=1.5e-3)


def test_numbers_of_uniform_starts_bipolar_states_and_causal_averages() -> None:
    energies = [
        sampling.expected_energy(tokens=n, dim=d, beta=b) for n, d, b in ((64, 3, 1), (64, 16, 4), (32, 128, 9))
    ]
    assert energies == pytest.approx([2456.19, 1256.98, 14481.0], rel=4e-6)
    assert linear.bipolar_rates(beta=1.0, top=1.4, second=1.0) == pytest.approx((-0.066232, -0.30463766), abs=5e-7)
    means = [layers.causal_average_cosine(i, j) for i in range(1, 257) for j in range(1, 257)]
    assert np.mean(means) == pytest.approx(0.6690846568, abs=1e-10)
    assert layers.orthogonal_after_attention(0.3) == pytest.approx(0.9139, abs=5e-5)


def test_oscillators_below_the_threshold_have_the_order_of_free_ones_and_more_towards_it() -> None:
    assert circle.lorentzian_disorder(0.0, width=0.25, tokens=400) == pytest.approx(math.sqrt(math.pi) / 40)
    assert circle.lorentzian_disorder(0.375, width=0.25, tokens=400) == pytest.approx(math.sqrt(math.pi) / 20)


@pytest.mark.parametrize(("size", "overlap", "rank"), [(10.0, 0.115, 41), (50.0, 0.765, 1.69), (300.0, 0.9915, 1.02)])
def test_one_shared_coordinate_fixes_the_overlap_and_the_participation_rank(
    size: float, overlap: float, rank: float
) -> None:
    mean, square = sampling.rogue_coordinate(size, dim=768)
    assert mean == pytest.approx(overlap, abs=6e-4)
    assert 100 / (1 + 99 * square) == pytest.approx(rank, rel=0.01)
