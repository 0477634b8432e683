"""Numbers of attention maps against closed forms: the uniform causal map, identity, two blocks, and softmax(beta c)."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from armillary import sphere
from armillary.errors import ArgumentError
from armillary.observables.alignment import overlaps
from armillary.observables.attention_beta import attention_effective_beta, attention_overlap_slope
from armillary.observables.attention_declaration import MapNumber, map_numbers
from armillary.observables.attention_maps import (
    attention_antisymmetric_share,
    attention_distance,
    attention_entropy,
    attention_first_mass,
    attention_largest_mass_elsewhere,
    attention_participation_rank,
    attention_relative_entropy,
    attention_sink_mass,
    received_mass,
)

T = 24
HARMONIC = sum(1 / i for i in range(1, T + 1))


def uniform_map(tokens: int = T) -> torch.Tensor:
    """Row i spreads evenly over tokens 1 ... i."""
    lower = torch.ones(tokens, tokens, dtype=torch.float64).tril()
    return lower / lower.sum(-1, keepdim=True)


def softmax_map(beta: float, c: torch.Tensor) -> torch.Tensor:
    ahead = torch.ones_like(c).triu(1).bool()
    return torch.softmax((beta * c).masked_fill(ahead, -math.inf), dim=-1)


def cloud(seed: int = 0, tokens: int = T) -> torch.Tensor:
    return overlaps(sphere.uniform(tokens=tokens, dim=5, seed=seed))


def value(number: MapNumber, one: torch.Tensor, c: torch.Tensor | None = None) -> float:
    return float(number(one[None], overlaps=c)[0])


def test_the_uniform_causal_map_has_its_closed_forms() -> None:
    a = uniform_map()
    assert value(attention_entropy, a) == pytest.approx(sum(math.log(i) for i in range(2, T + 1)) / (T - 1), abs=1e-12)
    assert value(attention_entropy, a) == pytest.approx(attention_entropy.attainable(T)[1], abs=1e-12)
    assert value(attention_relative_entropy, a) == pytest.approx(1.0, abs=1e-12)
    assert value(attention_first_mass, a) == pytest.approx((HARMONIC - 1) / (T - 1), abs=1e-12)
    assert value(attention_largest_mass_elsewhere, a) == pytest.approx((HARMONIC - 1) / (T - 1), abs=1e-12)
    assert value(attention_distance, a) == pytest.approx(T / 4, abs=1e-12)
    assert value(attention_sink_mass, a) == pytest.approx(0.0, abs=1e-12)
    diagonal = sum(1 / i**2 for i in range(1, T + 1))
    assert value(attention_antisymmetric_share, a) == pytest.approx(0.5 * (1 - diagonal / HARMONIC), abs=1e-12)


def test_the_mass_that_a_position_receives_from_uniform_rows_is_a_difference_of_harmonic_numbers() -> None:
    partial = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, T + 1))])
    expected = np.array([partial[T] - max(partial[j], 1.0) for j in range(T)]) / (T - 1)
    expected[0] = (partial[T] - 1) / (T - 1)
    np.testing.assert_allclose(received_mass(uniform_map()[None])[0].numpy(), expected, atol=1e-12)


def test_a_map_of_tokens_that_attend_to_themselves_is_the_identity() -> None:
    a = torch.eye(T, dtype=torch.float64)
    expected = {
        attention_entropy: 0.0,
        attention_relative_entropy: 0.0,
        attention_first_mass: 0.0,
        attention_largest_mass_elsewhere: 1 / (T - 1),
        attention_distance: 0.0,
        attention_antisymmetric_share: 0.0,
        attention_participation_rank: float(T),
        attention_sink_mass: 0.0,
    }
    assert {number.name: value(number, a) for number in expected} == {n.name: x for n, x in expected.items()}


def test_a_head_that_looks_at_the_first_token_only_is_a_sink_of_participation_rank_one() -> None:
    a = torch.zeros(T, T, dtype=torch.float64)
    a[:, 0] = 1.0
    assert value(attention_first_mass, a) == 1.0
    assert value(attention_largest_mass_elsewhere, a) == 0.0
    assert value(attention_distance, a) == T / 2
    assert value(attention_participation_rank, a) == pytest.approx(1.0, abs=1e-12)
    assert value(attention_antisymmetric_share, a) == pytest.approx(0.5 * (1 - 1 / T), abs=1e-12)


def test_two_blocks_that_each_look_at_their_first_token_have_participation_rank_two_and_a_sink_elsewhere() -> None:
    a = torch.zeros(T, T, dtype=torch.float64)
    a[: T // 2, 0] = 1.0
    a[T // 2 :, T // 2] = 1.0
    assert value(attention_participation_rank, a) == pytest.approx(2.0, abs=1e-12)
    assert value(attention_first_mass, a) == pytest.approx((T / 2 - 1) / (T - 1), abs=1e-12)
    assert value(attention_largest_mass_elsewhere, a) == pytest.approx(T / 2 / (T - 1), abs=1e-12)


def test_two_uniform_blocks_have_the_entropy_and_distance_of_their_length() -> None:
    half, a = T // 2, torch.zeros(T, T, dtype=torch.float64)
    a[:half, :half] = a[half:, half:] = uniform_map(half)
    assert value(attention_entropy, a) == pytest.approx(2 * math.lgamma(half + 1) / (T - 1), abs=1e-12)
    assert value(attention_distance, a) == pytest.approx(2 * half * (half - 1) / 4 / (T - 1), abs=1e-12)


def test_participation_rank_is_that_of_the_singular_values() -> None:
    a = softmax_map(3.0, cloud())
    s = np.linalg.svd(a.numpy(), compute_uv=False)
    assert value(attention_participation_rank, a) == pytest.approx((s**2).sum() ** 2 / (s**4).sum(), rel=1e-12)


def test_rows_that_rightly_do_not_sum_to_one_have_a_sink_mass_and_shape_numbers_of_the_rest() -> None:
    kept = torch.linspace(0.2, 0.9, T, dtype=torch.float64)
    full = softmax_map(2.0, cloud())
    a = kept[:, None] * full
    assert value(attention_sink_mass, a) == pytest.approx(1 - float(kept[1:].mean()), abs=1e-12)
    for number in (attention_entropy, attention_relative_entropy, attention_distance):
        assert value(number, a) == pytest.approx(value(number, full), abs=1e-12)
    for number in (attention_effective_beta, attention_overlap_slope):
        assert value(number, a, cloud()) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("number", [attention_effective_beta, attention_overlap_slope])
@pytest.mark.parametrize("beta", [0.0, 1e-3, 0.1, 1.0, 4.0, 27.7, 300.0])
def test_a_softmax_of_beta_times_the_overlaps_gives_beta_back(number: MapNumber, beta: float) -> None:
    c = cloud()
    assert value(number, softmax_map(beta, c), c) == pytest.approx(beta, rel=1e-6, abs=1e-6)


@given(beta=st.floats(0.05, 60.0), seed=st.integers(0, 1000))
def test_beta_comes_back_from_any_cloud_in_both_precisions(beta: float, seed: int) -> None:
    c = cloud(seed)
    a = softmax_map(beta, c)
    for number in (attention_effective_beta, attention_overlap_slope):
        assert value(number, a, c) == pytest.approx(beta, rel=1e-6)
        assert value(number, a.float(), c.float()) == pytest.approx(beta, rel=2e-2)


def test_a_head_that_avoids_what_agrees_has_a_negative_slope_and_a_positive_effective_beta() -> None:
    c = cloud()
    a = softmax_map(-3.0, c)
    assert value(attention_overlap_slope, a, c) == pytest.approx(-3.0, rel=1e-9)
    assert value(attention_effective_beta, a, c) > 0


def test_independent_gaussian_scores_lower_the_entropy_by_half_their_variance() -> None:
    """Far below the freezing of the random energy model, s < sqrt(2 ln i): entropy of row i is ln i - s^2 / 2."""
    tokens, s = 1200, 0.5
    scores = s * torch.randn(tokens, tokens, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    even = sum(math.log(i) for i in range(2, tokens + 1)) / (tokens - 1)
    assert value(attention_entropy, softmax_map(1.0, scores)) == pytest.approx(even - s**2 / 2, abs=5e-3)


def test_what_no_beta_explains_is_undefined() -> None:
    c = cloud()
    assert math.isnan(value(attention_effective_beta, torch.eye(T, dtype=torch.float64), c))
    same = torch.ones(T, T, dtype=torch.float64)
    assert math.isnan(value(attention_overlap_slope, uniform_map(), same))
    assert value(attention_effective_beta, uniform_map(), same) == 0.0
    undefined = c.clone()
    undefined[3, :] = undefined[:, 3] = math.nan  # a zero row has no overlaps
    assert math.isnan(value(attention_effective_beta, softmax_map(2.0, c), undefined))
    assert math.isnan(value(attention_overlap_slope, softmax_map(2.0, c), undefined))
    no_mass = uniform_map()
    no_mass[5] = 0.0
    assert math.isnan(value(attention_entropy, no_mass))
    assert math.isnan(value(attention_distance, no_mass))


@pytest.mark.parametrize("name", map_numbers())
def test_a_batch_gives_what_its_members_give_within_the_stated_range(name: str) -> None:
    number = map_numbers()[name]
    c = torch.stack([cloud(seed) for seed in range(2)])
    a = torch.stack([torch.stack([softmax_map(beta, one) for beta in (0.5, 2.0, 9.0)]) for one in c])
    batch = number(a, overlaps=c)
    assert batch.shape == (2, 3)
    alone = torch.stack([number(a[k], overlaps=c[k]) for k in range(2)])
    torch.testing.assert_close(batch, alone, rtol=1e-9, atol=1e-12)
    low, high = number.attainable(T)
    assert bool((batch >= low - 1e-12).all()) and bool((batch <= high + 1e-12).all())
    single = number(a.float(), overlaps=c.float()).double()
    torch.testing.assert_close(single, batch, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", map_numbers())
def test_every_number_says_what_it_is(name: str) -> None:
    number = map_numbers()[name]
    assert name.startswith("attention_") and number.symbol and number.source and number.undefined
    assert "row" in number.definition or "map" in number.definition or "position" in number.definition


def test_maps_that_are_none_are_refused_and_the_remedies_work() -> None:
    with pytest.raises(ArgumentError, match="one square map a head"):
        attention_entropy(torch.ones(3, 4, 5))
    with pytest.raises(ArgumentError, match="Set the weights ahead to zero"):
        attention_entropy(torch.full((1, 4, 4), 0.25))
    attention_entropy(torch.full((1, 4, 4), 0.25).tril())
    with pytest.raises(ArgumentError, match="must be finite"):
        attention_entropy(torch.full((1, 4, 4), math.nan).tril())
    with pytest.raises(ArgumentError, match=r"am\.overlaps\(rows\)"):
        attention_effective_beta(uniform_map()[None])
    attention_effective_beta(uniform_map()[None], overlaps=cloud())
    with pytest.raises(ArgumentError, match="one matrix for all heads"):
        attention_effective_beta(uniform_map()[None], overlaps=cloud(tokens=5))
