"""Observables against closed forms, dense references and the small inputs that break tools of this kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armillary import sphere
from armillary.errors import ArgumentError, UnsoundError
from armillary.observables.alignment import (
    exponential_overlap,
    mean_direction,
    mean_overlap,
    overlap_histogram,
    overlaps,
    smallest_overlap,
    squared_mean_direction,
)
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.clustering import (
    cluster_count,
    cluster_sweep,
    clustering_order_parameter,
    group_labels,
)
from armillary.observables.declaration import OBSERVABLES, Observable, Preparation, observable
from armillary.observables.distances import AngularDistance, ChordalDistance
from armillary.observables.drift import massive_tokens, sublayer_update, zero_rows
from armillary.observables.gram import inner_products
from armillary.observables.grouping import Connected, Grouping
from armillary.observables.rank import (
    algebraic_rank,
    entropy_rank,
    isotropic_participation_rank,
    nuclear_over_spectral,
    participation_rank,
    rank_ceiling,
    squared_entropy_rank,
    stable_rank,
)

GROUPS = Grouping(AngularDistance(), Connected(within=0.3))
RANKS = (participation_rank, algebraic_rank, entropy_rank, squared_entropy_rank, stable_rank, nuclear_over_spectral)


def gaussian(tokens: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((tokens, dim))


def test_rank_one_means_two_opposed_groups_or_consensus_and_the_mean_direction_tells_them_apart() -> None:
    opposed = sphere.opposed_pairs()
    together = opposed[:1].expand(4, -1)
    for rows, squared, groups in ((opposed, 0.0, 2.0), (together, 1.0, 1.0)):
        assert participation_rank.after("normalize")(rows) == pytest.approx(1.0, abs=1e-12)
        assert algebraic_rank.after("normalize")(rows) == 1.0
        assert squared_mean_direction.after("normalize")(rows) == pytest.approx(squared, abs=1e-12)
        assert cluster_count(GROUPS).after("normalize")(rows) == groups
        assert clustering_order_parameter(GROUPS).after("normalize")(rows) == pytest.approx(1 / groups)
    assert smallest_overlap.after("normalize")(opposed) == pytest.approx(-1.0)
    assert smallest_overlap.after("normalize")(together) == pytest.approx(1.0)
    assert mean_direction(opposed).norm() < 1e-15


def test_diag_2_1_keeps_the_algebraic_rank_and_takes_the_participation_rank_to_25_over_17() -> None:
    assert participation_rank.after()(np.eye(2)) == pytest.approx(2.0, rel=1e-14)
    assert participation_rank.after()(np.eye(2) @ np.diag([2.0, 1.0])) == pytest.approx(25 / 17, rel=1e-14)
    assert algebraic_rank.after()(np.diag([2.0, 1.0])) == 2.0


@pytest.mark.parametrize("overlap", [-1.0, -0.5, 0.0, 0.9])
def test_two_unit_vectors_have_participation_rank_2_over_1_plus_c_squared(overlap: float) -> None:
    rows = sphere.equiangular(tokens=2, dim=3, overlap=overlap)
    assert participation_rank.after()(rows) == pytest.approx(2 / (1 + overlap**2), rel=1e-12)
    assert mean_overlap.after()(rows) == pytest.approx(overlap, abs=1e-12)


def test_c_minus_one_half_gives_participation_rank_1_6() -> None:
    assert participation_rank.after()(sphere.equiangular(tokens=2, dim=2, overlap=-0.5)) == pytest.approx(
        1.6, rel=1e-12
    )


@pytest.mark.parametrize(
    ("sizes", "rank", "squared"), [((2, 2), 2.0, 0.5), ((3, 1), 1.6, 0.625), ((10, 1, 1), 1.411765, 0.708333)]
)
def test_orthogonal_groups_have_rank_n2_over_sum_s2_and_squared_mean_sum_s2_over_n2(
    sizes: tuple[int, ...], rank: float, squared: float
) -> None:
    rows = sphere.orthogonal_groups(*sizes)
    assert participation_rank.after()(rows) == pytest.approx(rank, abs=1e-6)
    assert squared_mean_direction.after()(rows) == pytest.approx(squared, abs=1e-6)
    assert clustering_order_parameter(GROUPS).after()(rows) == pytest.approx(squared, abs=1e-6)
    assert exponential_overlap(beta=60.0).after()(rows) == pytest.approx(squared, abs=1e-6)
    assert cluster_count(GROUPS).after()(rows) == len(sizes)


def test_random_directions_have_the_stated_isotropic_rank_and_mean() -> None:
    ranks = [participation_rank.after()(sphere.uniform(tokens=64, dim=16, seed=s)) for s in range(400)]
    assert np.mean(ranks) == pytest.approx(isotropic_participation_rank(64, 16), abs=4 * np.std(ranks) / math.sqrt(400))
    squares = [squared_mean_direction.after()(sphere.uniform(tokens=64, dim=16, seed=s)) for s in range(200)]
    assert np.mean(squares) == pytest.approx(1 / 64, abs=4 * np.std(squares) / math.sqrt(200))


def test_one_word_several_ranks_each_has_its_own_name_and_value() -> None:
    rows = np.diag([4.0, 2.0, 1.0, 1.0])
    expected = {
        participation_rank: (484 / 274, 1.6278),
        entropy_rank: (3.36359, 2.6379),
        squared_entropy_rank: (2.2763, None),
        stable_rank: (1.375, None),
        nuclear_over_spectral: (2.0, None),
        algebraic_rank: (4.0, 3.0),
    }
    for one, (as_given, centered) in expected.items():
        assert one.after()(rows) == pytest.approx(as_given, rel=2e-5), one.name
        if centered is not None:
            assert one.after("center")(rows) == pytest.approx(centered, rel=2e-5), one.name
    assert len({one.name for one in RANKS}) == 6
    assert not any("effective" in one.name for one in RANKS)


def test_centering_decides_whether_one_dimension_is_used_or_all() -> None:
    rows = gaussian(256, 64)
    rows[:, 0] += 20.0
    raw, centered = participation_rank.after(), participation_rank.after("center")
    assert raw(rows) == pytest.approx(1.33, abs=0.02)
    assert centered(rows) == pytest.approx(51.07, abs=1.0)
    assert str(raw) == "participation_rank | as given"
    assert str(centered) == "participation_rank | center"


def test_one_giant_token_owns_the_spectrum_and_unit_rows_give_it_back() -> None:
    rows = gaussian(256, 64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    plain = participation_rank.after()(rows)
    rows[17] *= 100.0
    massive = massive_tokens(torch.as_tensor(rows).norm(dim=-1), ratio=5.0)
    assert massive.nonzero().flatten().tolist() == [17]
    assert plain == pytest.approx(51.1, abs=1.0)
    assert participation_rank.after()(rows) == pytest.approx(1.05, abs=0.01)
    assert participation_rank.after("normalize")(rows) == pytest.approx(plain, rel=1e-9)
    without = participation_rank.after()(rows, tokens=~massive)
    assert without == pytest.approx(plain, rel=0.02)


def test_padding_rows_never_enter_a_statistic() -> None:
    real = gaussian(4, 16)
    padded = np.concatenate([real, np.tile(gaussian(1, 16, seed=9), (12, 1))])
    mask = np.arange(16) < 4
    for measurement in (
        mean_overlap.after("normalize"),
        participation_rank.after("center", "normalize"),
        entropy_rank.after(),
    ):
        assert measurement(padded, tokens=mask) == pytest.approx(measurement(real), rel=1e-12)
        assert measurement(np.stack([padded, padded]), tokens=np.stack([mask, mask]))[1] == pytest.approx(
            measurement(real)
        )
    assert abs(mean_overlap.after("normalize")(padded) - mean_overlap.after("normalize")(real)) > 0.05


def test_overlaps_stay_within_one_for_half_precision_and_keep_small_vectors() -> None:
    large = torch.full((2, 768), 300.0, dtype=torch.float16)
    assert overlaps(large).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    c = 0.91036
    small = torch.tensor([[1e-9, 0.0], [c, math.sqrt(1 - c * c)]], dtype=torch.float64)
    assert overlaps(small)[0, 1] == pytest.approx(0.91036, abs=1e-12)
    many = torch.randn(300, 768, generator=torch.Generator().manual_seed(1)).repeat(2, 1)
    found = overlaps(many)
    assert float(found.abs().max()) <= 1.0
    assert bool((found.diagonal() == 1.0).all())


def test_a_zero_row_makes_overlaps_undefined_and_is_counted() -> None:
    rows = gaussian(8, 5)
    rows[3] = 0.0
    assert math.isnan(mean_overlap.after("normalize")(rows))
    assert math.isnan(participation_rank.after("normalize")(rows))
    assert math.isnan(cluster_count(GROUPS).after("normalize")(rows))
    assert zero_rows.after()(rows) == 1.0
    assert participation_rank.after()(rows) == pytest.approx(participation_rank.after()(np.delete(rows, 3, 0)))
    others = np.stack([rows, gaussian(8, 5, seed=2)])
    assert torch.isnan(entropy_rank.after("normalize")(others)).tolist() == [True, False]


def test_what_is_undefined_is_nan_and_not_a_number() -> None:
    assert math.isnan(mean_overlap.after("normalize")(gaussian(1, 4)))
    same = np.tile(gaussian(1, 6), (16, 1))
    for one in RANKS:
        assert math.isnan(one.after("center")(same)), one.name
        assert one.after("normalize")(same) == pytest.approx(1.0, abs=1e-6), one.name
    nearly = torch.as_tensor(same).float() * (1 + 1e-7 * torch.as_tensor(gaussian(16, 1)).float())
    assert math.isnan(participation_rank.after("center")(nearly))  # float32 rounding is no spread


def test_near_consensus_the_centered_rank_is_resolved_as_far_as_the_rows_are() -> None:
    rows = np.tile(gaussian(1, 32), (64, 1)) + 1e-3 * gaussian(64, 32, seed=3)
    centered = rows - rows.mean(0)
    values = np.linalg.svd(centered, compute_uv=False) ** 2
    expected = values.sum() ** 2 / (values**2).sum()
    assert participation_rank.after("center")(rows) == pytest.approx(expected, rel=1e-9)
    single = Cloud(torch.as_tensor(rows).float())  # a float32 Gram alone would be wrong in the second digit
    assert float(participation_rank.after("center").of(single)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_row_that_lies_at_the_mean_has_no_direction_after_centering(dtype: torch.dtype) -> None:
    rows = torch.as_tensor(gaussian(9, 16)) + 50.0
    rows[4] = rows[[0, 1, 2, 3, 5, 6, 7, 8]].mean(0)
    cloud = Cloud(rows.to(dtype), accumulate=torch.float64)
    assert math.isnan(float(mean_overlap.after("center", "normalize").of(cloud)))
    without = rows[[0, 1, 2, 3, 5, 6, 7, 8]]
    expected = participation_rank.after("center")(without)
    assert float(participation_rank.after("center").of(cloud)) == pytest.approx(expected, rel=1e-4)


def test_a_row_near_the_mean_keeps_its_direction_in_float32() -> None:
    rows = gaussian(12, 24) + 40.0
    rows[3] = np.delete(rows, 3, 0).mean(0) + 0.02 * gaussian(1, 24, seed=8)[0]
    single = Cloud(torch.as_tensor(rows).float())
    exact = mean_overlap.after("center", "normalize")(torch.as_tensor(rows).float().double())
    assert float(mean_overlap.after("center", "normalize").of(single)) == pytest.approx(exact, abs=1e-5)


def test_half_precision_has_no_algebraic_rank_but_participation_rank_stays_near() -> None:
    rows = torch.as_tensor(gaussian(64, 576))
    half = Cloud(rows.bfloat16())
    assert math.isnan(float(algebraic_rank.after("normalize").of(half)))
    assert float(participation_rank.after("normalize").of(half)) == pytest.approx(
        participation_rank.after("normalize")(rows), rel=1e-2
    )


def test_updates_of_half_precision_streams_do_not_overflow() -> None:
    before = torch.full((1, 600), 300.0, dtype=torch.float16)
    update = sublayer_update(before, before * 1.5)
    assert update.radial.item() == pytest.approx(0.5, abs=1e-3)
    assert update.tangential.item() == pytest.approx(0.0, abs=1e-3)


def test_no_token_at_all_is_undefined() -> None:
    assert math.isnan(participation_rank.after()(gaussian(4, 3), tokens=np.zeros(4, dtype=bool)))


def test_the_histogram_counts_every_pair_once_and_closes_its_last_bin() -> None:
    rows = torch.cat([torch.as_tensor(gaussian(40, 8)).float()] * 2)  # every token twice: overlaps of 1 and a bit more
    gram = rows @ rows.mT
    norms = gram.diagonal().sqrt()
    unclamped = gram / norms[:, None] / norms[None, :]
    assert float(unclamped.max()) > 1.0
    i, j = np.triu_indices(80, 1)
    counts = overlap_histogram(unclamped[i, j], bins=32)
    assert int(counts.sum()) == 80 * 79 // 2
    assert int(counts[-1]) >= 40
    expected = np.histogram(np.clip(unclamped.numpy()[i, j], -1, 1), bins=np.linspace(-1, 1, 33))[0]
    assert counts.tolist() == expected.tolist()
    batch = overlap_histogram(torch.stack([unclamped[i, j], unclamped[i, j].flip(0)]), bins=32)
    assert batch.tolist() == [counts.tolist(), counts.tolist()]


def test_a_histogram_of_rows_that_are_not_unit_is_refused() -> None:
    with pytest.raises(UnsoundError, match="Normalize"):
        overlap_histogram(torch.tensor([3.0, 0.5]), bins=8)


def test_mean_overlap_of_rows_that_are_not_unit_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(UnsoundError, match="'normalize'"):
        mean_overlap.after()(gaussian(5, 3))
    assert -1 <= mean_overlap.after("normalize")(gaussian(5, 3)) <= 1


def test_an_observable_without_its_preparation_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(UnsoundError, match=r"participation_rank.after\('normalize'\)"):
        participation_rank(gaussian(5, 3))
    assert participation_rank.after("normalize")(gaussian(5, 3)) > 1


def test_preparation_is_ordered() -> None:
    rows = gaussian(30, 6) * np.linspace(1, 9, 30)[:, None] + 2.0
    one = participation_rank.after("center", "normalize")(rows)
    other = participation_rank.after("normalize", "center")(rows)
    assert abs(one - other) > 1e-2
    assert Preparation.parse(str(Preparation(("center", "normalize")))).steps == ("center", "normalize")
    with pytest.raises(ArgumentError, match="whiten"):
        participation_rank.after("whiten")
    with pytest.raises(ArgumentError, match="repeat"):
        participation_rank.after("center", "center")


def prepared(rows: np.ndarray, steps: tuple[str, ...], mean: np.ndarray, coordinates: tuple[int, ...]) -> np.ndarray:
    """The plain way: each step on the rows, in float64."""
    for step in steps:
        if step == "center":
            rows = rows - rows.mean(0)
        elif step == "normalize":
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        elif step == "remove feature mean":
            rows = rows - rows.mean(1, keepdims=True)
        elif step == "corpus mean":
            rows = rows - mean
        else:
            rows = rows.copy()
            rows[:, list(coordinates)] = 0.0
    return rows


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "steps",
    [
        (),
        ("center",),
        ("normalize",),
        ("center", "normalize"),
        ("normalize", "center"),
        ("remove feature mean", "normalize"),
        ("corpus mean", "normalize"),
        ("without rogue coordinates", "normalize"),
        ("corpus mean", "without rogue coordinates", "center", "normalize"),
    ],
)
def test_the_shared_overlaps_equal_those_of_rows_prepared_step_by_step(
    steps: tuple[str, ...], dtype: torch.dtype
) -> None:
    rows = np.stack([gaussian(24, 10) + 1.5, gaussian(24, 10, seed=1) * 3 - 1])
    mean, coordinates = gaussian(1, 10, seed=5)[0], (2, 7)
    cloud = Cloud(torch.as_tensor(rows), accumulate=dtype, calibration=Calibration(torch.as_tensor(mean), coordinates))
    for tokens in (0, 1):
        found = cloud.without_tokens(tokens).prepared(steps)
        for member, one in enumerate(rows):
            plain = prepared(one[tokens:], steps, mean, coordinates)
            tolerance = 1e-12 if dtype == torch.float64 else 2e-5
            scale = np.abs(plain @ plain.T).max()
            np.testing.assert_allclose(found.gram[member].numpy(), plain @ plain.T, atol=tolerance * scale)
            np.testing.assert_allclose(found.rows[member].numpy(), plain, atol=tolerance * np.abs(plain).max())
            singular = np.linalg.svd(plain, compute_uv=False)
            slack = 1e-7 if dtype == torch.float64 else 2e-2  # singular values come from squares
            np.testing.assert_allclose(
                found.singular_values[member, : len(singular)].numpy(), singular, atol=slack * singular[0]
            )


def test_a_calibrated_step_without_calibration_is_refused() -> None:
    with pytest.raises(ArgumentError, match="calibration"):
        participation_rank.after("corpus mean")(gaussian(4, 3))


@given(st.integers(2, 12), st.integers(2, 9), st.integers(0, 10_000))
def test_rotation_permutation_and_row_scale_leave_normalized_numbers_alone(tokens: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((tokens, dim)) + 0.3
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    moved = (rows @ rotation)[rng.permutation(tokens)] * rng.uniform(0.1, 9.0, (tokens, 1))
    measurements = [mean_overlap, squared_mean_direction, *RANKS, exponential_overlap(beta=2.0), cluster_count(GROUPS)]
    for one in measurements:
        assert one.after("normalize")(moved) == pytest.approx(one.after("normalize")(rows), rel=1e-6, abs=1e-9), (
            one.name
        )


@given(st.integers(1, 5), st.integers(2, 9), st.integers(0, 10_000))
def test_a_batch_gives_what_its_members_give_alone(members: int, tokens: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((members, tokens, 4))
    for one in (*RANKS, mean_overlap, clustering_order_parameter(GROUPS)):
        for steps in (("normalize",), ("center", "normalize")):
            batch = one.after(*steps)(rows)
            alone = [one.after(*steps)(member) for member in rows]
            floor = 1e-6 if one.wants == "spectrum" else 1e-9  # a zero singular value comes out as 1e-8 of the largest
            np.testing.assert_allclose(np.asarray(batch), alone, rtol=floor, equal_nan=True)


def test_no_rank_exceeds_its_ceiling() -> None:
    for tokens, dim in ((5, 9), (9, 5)):
        rows = gaussian(tokens, dim)
        for one in RANKS:
            assert one.after()(rows) <= rank_ceiling(tokens, dim, Preparation()) + 1e-9
            assert one.after("center")(rows) <= rank_ceiling(tokens, dim, Preparation(("center",))) + 1e-9


def test_algebraic_rank_counts_repeated_rows_once_in_float32_too() -> None:
    rows = torch.randn(129, 576, generator=torch.Generator().manual_seed(0)).repeat(2, 1)[:256]
    assert algebraic_rank.after("normalize")(rows) == 129.0
    full = torch.randn(256, 576, generator=torch.Generator().manual_seed(0))
    full[:, 0] += 400.0  # a large offset: a float32 Gram would lose half of the small singular values
    assert float(algebraic_rank.after().of(Cloud(full))) == 256.0
    assert algebraic_rank.after()(full) == 256.0


def test_components_at_a_threshold_equal_those_of_the_graph() -> None:
    from scipy.sparse.csgraph import connected_components

    rows = sphere.uniform(tokens=60, dim=3, seed=4)
    for distance in (AngularDistance(), ChordalDistance()):
        matrix = distance.of(overlaps(rows)).numpy()
        thresholds = (0.05, 0.2, 0.4, 0.8, 3.2)
        counts, orders = cluster_sweep(Cloud(rows).after("normalize"), distance, thresholds)
        for k, threshold in enumerate(thresholds):
            number, labels = connected_components(matrix <= threshold)
            assert counts[k] == number
            assert orders[k] == pytest.approx(float(((np.bincount(labels) / 60) ** 2).sum()))
            found = group_labels(rows, Grouping(distance, Connected(threshold))).numpy()
            assert len({*zip(labels.tolist(), found.tolist(), strict=True)}) == number


def test_angular_and_chordal_distance_are_metrics_and_agree_on_order() -> None:
    gram = overlaps(sphere.uniform(tokens=20, dim=4, seed=2))
    for distance in (AngularDistance(), ChordalDistance()):
        d = distance.of(gram)
        assert float(d.diagonal().abs().max()) < 1e-12
        torch.testing.assert_close(d, d.mT, atol=1e-12, rtol=0)
        assert bool((d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-9).all())
    i, j = torch.triu_indices(20, 20, offset=1)
    angles, chords = AngularDistance().of(gram[i, j]), ChordalDistance().of(gram[i, j])
    assert torch.equal(angles.argsort(), chords.argsort())
    torch.testing.assert_close(chords, 2 * torch.sin(angles / 2), atol=1e-12, rtol=0)


def test_a_grouping_needs_a_positive_threshold() -> None:
    with pytest.raises(ArgumentError, match="within"):
        Connected(within=0.0)


def test_an_update_splits_into_radial_and_tangential_part() -> None:
    before = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    update = sublayer_update(before, before + torch.tensor([[1.0, 3.0]], dtype=torch.float64))
    assert update.radial.item() == pytest.approx(0.5)
    assert update.tangential.item() == pytest.approx(1.5)
    assert update.norm.item() == pytest.approx(math.sqrt(10) / 2)
    assert update.angle.item() == pytest.approx(math.pi / 4)


def test_one_decorated_function_is_an_observable() -> None:
    try:

        @observable(symbol="f", source="this test")
        def first_coordinate(x: torch.Tensor) -> torch.Tensor:
            """Mean of the first coordinate."""
            return x[..., 0].mean(-1)

        assert isinstance(first_coordinate, Observable)
        assert first_coordinate.definition == "Mean of the first coordinate."
        assert first_coordinate.after("center")(gaussian(6, 3)) == pytest.approx(0.0, abs=1e-12)
        assert OBSERVABLES["first_coordinate"] is first_coordinate
    finally:
        OBSERVABLES.pop("first_coordinate", None)


def test_an_observable_that_is_no_number_a_configuration_or_takes_a_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'mean_overlap' is taken"):

        @observable(symbol="c", source="this test")
        def mean_overlap(gram: torch.Tensor) -> torch.Tensor:
            """Another formula."""
            return gram.sum((-2, -1))

    with pytest.raises(ArgumentError, match="docstring"):

        @observable(symbol="n", source="this test")
        def nameless(gram: torch.Tensor) -> torch.Tensor:
            return gram.sum((-2, -1))

    try:

        @observable(symbol="n", source="this test")
        def row_norms(configuration: torch.Tensor) -> torch.Tensor:
            """Norms of the rows: not one number."""
            return configuration.norm(dim=-1)

        with pytest.raises(ArgumentError, match=r"row_norms must return one number .* shape \(2,\).* shape \(2, 6\)"):
            row_norms.after()(np.stack([gaussian(6, 3), gaussian(6, 3, seed=1)]))
    finally:
        OBSERVABLES.pop("row_norms", None)


def test_inner_products_are_symmetric_to_the_last_bit_and_carry_a_gradient() -> None:
    rows = torch.from_numpy(gaussian(3 * 20, 8).reshape(3, 20, 8))
    found = inner_products(rows)
    assert torch.equal(found, found.mT)
    torch.testing.assert_close(found, torch.einsum("bid,bjd->bij", rows, rows), rtol=1e-12, atol=1e-12)
    inner_products(rows.requires_grad_()).diagonal(dim1=-2, dim2=-1).sum().backward()
    assert rows.grad is not None
    torch.testing.assert_close(rows.grad, 2 * rows.detach())


def test_a_number_of_the_rows_alone_never_forms_the_overlaps() -> None:
    try:

        @observable(symbol="x_0", source="this test")
        def first_mean(configuration: torch.Tensor) -> torch.Tensor:
            """Mean of the first coordinate."""
            return configuration[..., 0].mean(-1)

        rows = torch.ones(300_000, 2, dtype=torch.float64)  # the overlaps would take 720 GB
        assert float(first_mean.after("normalize").of(Cloud(rows))) == pytest.approx(math.sqrt(0.5))
    finally:
        OBSERVABLES.pop("first_mean", None)


def test_within_a_threshold_means_at_most() -> None:
    rows = np.eye(4)
    assert cluster_count(Grouping(ChordalDistance(), Connected(math.sqrt(2.0)))).after()(rows) == 1.0
    assert cluster_count(Grouping(ChordalDistance(), Connected(1.414))).after()(rows) == 4.0


def test_non_finite_rows_are_refused_with_their_place() -> None:
    rows = gaussian(8, 8)
    rows[2, 5] = np.nan
    with pytest.raises(ArgumentError, match=r"\[2, 5\]"):
        participation_rank.after()(rows)
    same = np.tile(gaussian(1, 8), (16, 1))
    assert algebraic_rank.after()(same) == 1.0
