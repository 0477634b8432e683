"""Nearest neighbors of one cloud and of two layers, and linear CKA: known surfaces, closed forms, scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.between import BETWEEN_LAYERS, BetweenLayers, between_layers
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.correspondence import linear_cka, neighbor_overlap
from armillary.observables.neighbors import duplicate_rows, intrinsic_dimension, squared_distances

DIMENSION = intrinsic_dimension(discard=0.1, tolerance=1e-6).after()
REPEATS = duplicate_rows(tolerance=1e-6).after()
CKA = linear_cka.after()


def gaussian(tokens: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, dim))


def turned(rows: np.ndarray, dim: int, seed: int = 0) -> np.ndarray:
    """The rows in `dim` coordinates, turned at random."""
    turn, _ = np.linalg.qr(gaussian(dim, dim, seed=seed))
    return rows @ turn[: rows.shape[1]]


def cube(tokens: int, dim: int, seed: int) -> np.ndarray:
    return turned(np.random.default_rng(seed).random((tokens, dim)), 50, seed)


def ball(tokens: int, dim: int, seed: int) -> np.ndarray:
    rows = gaussian(tokens, dim + 1, seed)
    return turned(rows / np.linalg.norm(rows, axis=1, keepdims=True), 50, seed)


@pytest.mark.parametrize(
    ("surface", "expected"),
    [(cube, {2: 2.0, 5: 4.64, 10: 8.56}), (ball, {2: 2.0, 5: 5.0, 10: 9.24})],
    ids=["cube", "sphere"],
)
def test_points_of_a_known_surface_in_50_coordinates_have_its_dimension_less_a_known_bias(
    surface: object, expected: dict[int, float]
) -> None:
    for dim, mean in expected.items():
        values = [DIMENSION(surface(1000, dim, seed)) for seed in range(6)]  # type: ignore[operator]
        assert np.mean(values) == pytest.approx(mean, abs=4 * np.std(values) / math.sqrt(6))
        assert 0.8 * dim < np.mean(values) < 1.1 * dim


def plain_dimension(rows: np.ndarray, discard: float) -> float:
    distances, _ = NearestNeighbors(n_neighbors=3).fit(rows).kneighbors(rows)
    ratios = np.sort(np.log(distances[:, 2] / distances[:, 1]))
    kept = int((1 - discard) * len(rows) + 1e-9)
    kept = min(kept, len(rows) - 1)
    y = -np.log(1 - np.arange(1, kept + 1) / len(rows))
    return float(np.linalg.lstsq(ratios[:kept, None], y, rcond=None)[0][0])


@pytest.mark.parametrize("discard", [0.0, 0.1, 0.25])
def test_the_dimension_equals_a_line_through_neighbors_of_another_library(discard: float) -> None:
    rows = gaussian(60, 7)
    found = intrinsic_dimension(discard=discard, tolerance=1e-6).after()(rows)
    assert found == pytest.approx(plain_dimension(rows, discard), rel=1e-8)


def test_repeated_rows_are_counted_and_each_is_kept_once() -> None:
    rows = gaussian(60, 7)
    again = np.concatenate([rows, rows[:9], rows[:4] + 1e-9])
    assert REPEATS(rows) == 0.0
    assert REPEATS(again) == 13.0
    assert DIMENSION(again) == pytest.approx(DIMENSION(rows), rel=1e-6)
    assert duplicate_rows(tolerance=1e-7).after()(rows + 0.5 * gaussian(60, 7, seed=1)[:1]) == 0.0
    spread = math.sqrt(((rows - rows.mean(0)) ** 2).sum(1).mean())
    pair = np.concatenate([rows, rows[:1] + np.array([2e-3 * spread, *[0.0] * 6])])
    assert duplicate_rows(tolerance=1.9e-3).after()(pair) == 0.0
    assert duplicate_rows(tolerance=2.1e-3).after()(pair) == 1.0


def test_where_no_two_neighbors_are_left_the_dimension_is_undefined() -> None:
    assert math.isnan(DIMENSION(np.ones((8, 3))))
    assert REPEATS(np.ones((8, 3))) == 7.0
    assert math.isnan(DIMENSION(np.eye(6)))  # all equally far: every ratio is 1
    assert math.isnan(DIMENSION(gaussian(2, 3)))
    rows = gaussian(8, 3)
    rows[3] = 0.0
    assert math.isnan(intrinsic_dimension(discard=0.1, tolerance=1e-6).after("normalize")(rows))
    assert math.isnan(duplicate_rows(tolerance=1e-6).after("normalize")(rows))


def test_far_from_the_origin_and_in_single_precision_distances_keep_their_digits() -> None:
    rows = gaussian(50, 20)
    expected = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    far = Cloud(torch.tensor(rows + 1e4))
    np.testing.assert_allclose(squared_distances(far).numpy(), expected, rtol=1e-8, atol=1e-9)
    single = Cloud(torch.tensor(rows + 5.0, dtype=torch.float32))
    np.testing.assert_allclose(squared_distances(single).numpy(), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: intrinsic_dimension(discard=1.0, tolerance=1e-6),
        lambda: intrinsic_dimension(discard=0.1, tolerance=0.0),
        lambda: duplicate_rows(tolerance=2.0),
        lambda: duplicate_rows(tolerance=1e-12),
        lambda: neighbor_overlap(k=0),
    ],
)
def test_a_share_or_a_number_of_neighbors_out_of_range_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match=r"Use .*\."):
        wrong()  # type: ignore[operator]
    assert intrinsic_dimension(discard=0.1, tolerance=1e-6).words == "intrinsic_dimension(discard=0.1, tolerance=1e-06)"
    assert neighbor_overlap(k=10).words == "neighbor_overlap(k=10)"


def test_cka_is_one_for_a_cloud_turned_moved_and_scaled() -> None:
    rows = gaussian(40, 8)
    turn, _ = np.linalg.qr(gaussian(8, 8, seed=1))
    assert CKA(rows, rows) == pytest.approx(1.0, abs=1e-12)
    assert CKA(rows, 3.0 * rows @ turn + 20.0) == pytest.approx(1.0, abs=1e-9)
    other = gaussian(40, 5, seed=2) + 0.5 * rows[:, :5]
    value = CKA(rows, other)
    assert 0.1 < value < 0.9
    assert CKA(other, rows) == pytest.approx(value, rel=1e-12)
    assert linear_cka.after("center")(rows - 9.0, other) == pytest.approx(value, rel=1e-9)


def hsic(k: np.ndarray, m: np.ndarray) -> float:
    """The unbiased estimator term by term, Song et al. 2012, equation 5."""
    n, k, m = len(k), k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    one = np.ones(n)
    terms = np.trace(k @ m) + one @ k @ one * (one @ m @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ k @ m @ one
    return float(terms / (n * (n - 3)))


def test_cka_equals_the_published_estimator_term_by_term() -> None:
    rows, other = gaussian(25, 6, seed=3) + 1.0, gaussian(25, 9, seed=4) @ gaussian(9, 9, seed=5)
    other[:, :6] += rows
    k, m = rows @ rows.T, other @ other.T
    assert CKA(rows, other) == pytest.approx(hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m)), rel=1e-10)


@pytest.mark.parametrize("tokens", [8, 20, 80])
def test_cka_of_independent_clouds_is_zero_on_average_where_the_biased_form_is_not(tokens: int) -> None:
    def biased(x: np.ndarray, y: np.ndarray) -> float:
        x, y = x - x.mean(0), y - y.mean(0)
        return float(np.linalg.norm(x.T @ y) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y))

    draws = [(gaussian(tokens, 40, seed=2 * s), gaussian(tokens, 40, seed=2 * s + 1)) for s in range(100)]
    values = [CKA(*pair) for pair in draws]
    assert abs(np.mean(values)) < 4 * np.std(values) / 10
    assert abs(np.mean(values)) < 0.05
    assert np.mean([biased(*pair) for pair in draws]) > 0.3
    assert all(-1 <= value <= 1 for value in values)


def test_cka_without_spread_or_with_three_rows_is_undefined() -> None:
    rows = gaussian(9, 4)
    assert math.isnan(CKA(rows, np.ones((9, 4))))
    assert math.isnan(CKA(rows[:3], rows[:3]))
    assert not math.isnan(CKA(rows[:4], rows[:4]))


def neighbors(rows: np.ndarray, k: int) -> list[set[int]]:
    _, found = NearestNeighbors(n_neighbors=k + 1).fit(rows).kneighbors(rows)
    return [set(row[1:].tolist()) for row in found]


@pytest.mark.parametrize("k", [1, 5, 20])
def test_neighbor_overlap_counts_common_neighbors_of_another_library(k: int) -> None:
    rows, other = gaussian(60, 6), gaussian(60, 6) + 0.4 * gaussian(60, 6, seed=1)
    pairs = zip(neighbors(rows, k), neighbors(other, k), strict=True)
    expected = np.mean([len(a & b) / k for a, b in pairs])
    measured = neighbor_overlap(k=k).after()
    assert measured(rows, other) == pytest.approx(expected, abs=1e-12)
    assert measured(rows, rows) == pytest.approx(1.0, abs=1e-12)
    assert neighbor_overlap(k=k).after("normalize")(rows, 5.0 * rows) == pytest.approx(1.0, abs=1e-12)


def test_neighbor_overlap_of_independent_clouds_is_k_over_t_minus_1() -> None:
    overlap = neighbor_overlap(k=5)
    values = [overlap.after()(gaussian(40, 6, seed=2 * s), gaussian(40, 6, seed=2 * s + 1)) for s in range(60)]
    assert overlap.independent(40, 6) == 5 / 39
    assert np.mean(values) == pytest.approx(5 / 39, abs=4 * np.std(values) / math.sqrt(60))


def test_tokens_that_are_equally_far_share_the_last_places() -> None:
    corners = np.eye(6)  # every token has five others at one distance: each is 2/5 of a neighbor
    line = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])[:, None]
    overlap = neighbor_overlap(k=2).after()
    assert overlap(corners, corners) == pytest.approx(1.0, abs=1e-7)
    assert overlap(corners, line) == pytest.approx(2 / 5, abs=1e-7)  # shares are kept in float32
    repeated = np.repeat(gaussian(5, 3), 4, axis=0)
    assert overlap(repeated, repeated) == pytest.approx(1.0, abs=1e-7)
    order = np.random.default_rng(0).permutation(20)
    other = gaussian(20, 3, seed=7)
    assert overlap(repeated[order], other[order]) == pytest.approx(overlap(repeated, other), rel=1e-6)


def test_with_too_few_rows_neighbor_overlap_is_undefined_and_a_zero_row_after_normalizing_too() -> None:
    assert math.isnan(neighbor_overlap(k=3).after()(gaussian(4, 3), gaussian(4, 3)))
    assert not math.isnan(neighbor_overlap(k=3).after()(gaussian(5, 3), gaussian(5, 3)))
    rows = gaussian(9, 3)
    rows[2] = 0.0
    assert math.isnan(neighbor_overlap(k=3).after("normalize")(rows, gaussian(9, 3)))


@given(members=st.integers(1, 3), tokens=st.integers(6, 12), seed=st.integers(0, 1000))
def test_a_batch_of_pairs_gives_what_its_members_give_alone(members: int, tokens: int, seed: int) -> None:
    rows, other = np.random.default_rng(seed).standard_normal((2, members, tokens, 4))
    for one in (linear_cka.after("normalize"), neighbor_overlap(k=3).after("center", "normalize")):
        together = one(rows, other)
        assert isinstance(together, torch.Tensor)
        alone = [one(a, b) for a, b in zip(rows, other, strict=True)]
        np.testing.assert_allclose(together.numpy(), alone, rtol=1e-9, atol=1e-12)


@given(members=st.integers(1, 3), tokens=st.integers(5, 12), seed=st.integers(0, 1000))
def test_a_batch_of_clouds_has_the_dimensions_of_its_members(members: int, tokens: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((members, tokens, 4))
    rows[0, -1] = rows[0, 0]
    for one in (DIMENSION, REPEATS):
        together = one(rows)
        assert isinstance(together, torch.Tensor)
        np.testing.assert_allclose(together.numpy(), [one(member) for member in rows], rtol=1e-9)


def test_one_decorated_function_is_a_number_between_layers_and_both_go_through_its_preparation() -> None:
    @between_layers(symbol="cos", source="this test", needs_unit_rows=True, attainable=lambda tokens, dim: (-1.0, 1.0))
    def mean_cosine(configuration: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Mean overlap of each token with itself in the other layer."""
        return (configuration * other).sum(-1).mean(-1)

    try:
        assert isinstance(mean_cosine, BetweenLayers)
        assert mean_cosine.definition.startswith("Mean overlap of each token")
        assert mean_cosine.after("normalize")(np.eye(3), 2 * np.eye(3)) == pytest.approx(1.0)
        assert str(mean_cosine.after("center", "normalize")) == "mean_cosine | center, normalize"
        with pytest.raises(UnsoundError, match="'normalize'"):
            mean_cosine.after()(np.eye(3), 2 * np.eye(3))
        with pytest.raises(UnsoundError, match=r"after\('normalize'\)"):
            mean_cosine(np.eye(3), np.eye(3))
        moved = Calibration(mean=torch.tensor([0.0, 5.0, 0.0]), coordinates=())
        shifted = np.eye(3) + np.array([0.0, 5.0, 0.0])
        both = mean_cosine.after("corpus mean", "normalize")
        none = Calibration(mean=torch.zeros(3), coordinates=())
        assert both(shifted, np.eye(3), calibrations=(moved, none)) == pytest.approx(1.0)
        with pytest.raises(ArgumentError, match="'mean_cosine' is taken"):
            between_layers(symbol="", source="", definition="again")(mean_cosine.function)
    finally:
        del BETWEEN_LAYERS["mean_cosine"]
    again = between_layers(symbol="", source="", definition="again")(mean_cosine.function)  # the remedy
    assert again.definition == "again"
    del BETWEEN_LAYERS["mean_cosine"]


def test_layers_of_other_tokens_and_functions_that_return_no_number_a_pair_are_refused() -> None:
    with pytest.raises(ArgumentError, match="same documents"):
        CKA(gaussian(8, 3), gaussian(9, 3))
    with pytest.raises(ArgumentError, match="finite"):
        CKA(gaussian(8, 3), gaussian(8, 3) * np.nan)
    wide = between_layers(symbol="", source="", definition="rows")(lambda gram, other: gram)
    try:
        with pytest.raises(ArgumentError, match="keep the leading axes"):
            wide.after()(gaussian(8, 3), gaussian(8, 3))
    finally:
        del BETWEEN_LAYERS["<lambda>"]
    with pytest.raises(ArgumentError, match="gram, pairs, spectrum or cloud"):
        between_layers(symbol="", source="", definition="rows")(lambda first, second: first)
    with pytest.raises(ArgumentError, match="write a docstring"):
        between_layers(symbol="", source="")(lambda gram, other: gram)
