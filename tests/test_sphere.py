"""The sphere's named configurations against what defines them."""

from __future__ import annotations

import pytest
import torch

import armillary as am
from armillary import sphere
from armillary.errors import ArgumentError


@pytest.mark.parametrize(
    ("tokens", "dim", "overlap"), [(2, 3, -0.3), (5, 5, 0.0), (5, 4, -0.25), (7, 9, 0.6), (4, 2, 1.0)]
)
def test_equiangular_rows_are_unit_and_share_one_overlap(tokens: int, dim: int, overlap: float) -> None:
    rows = sphere.equiangular(tokens=tokens, dim=dim, overlap=overlap)
    gram = rows @ rows.mT
    expected = torch.full((tokens, tokens), overlap, dtype=torch.float64).fill_diagonal_(1.0)
    torch.testing.assert_close(gram, expected, atol=1e-12, rtol=0)


def test_more_equiangular_tokens_than_the_dimension_allows_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 5"):
        sphere.equiangular(tokens=5, dim=4, overlap=0.1)
    with pytest.raises(ArgumentError, match="overlap"):
        sphere.equiangular(tokens=5, dim=9, overlap=-0.3)


def test_uniform_directions_follow_their_seed_and_leave_the_global_state_alone() -> None:
    state = torch.get_rng_state()
    one, again = sphere.uniform(tokens=9, dim=4, seed=3), sphere.uniform(tokens=9, dim=4, seed=3)
    assert torch.equal(one, again)
    assert not torch.equal(one, sphere.uniform(tokens=9, dim=4, seed=4))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_zero_row_has_no_direction() -> None:
    with pytest.raises(ArgumentError, match="zero"):
        sphere.normalize(torch.zeros(2, 3))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200])
def test_a_row_that_is_not_finite_has_no_direction(value: float) -> None:
    rows = torch.eye(3, dtype=torch.float64)
    rows[1, 2] = value
    with pytest.raises(ArgumentError, match=r"finite rows of finite length, but row \[1\] is not"):
        sphere.normalize(rows)


def test_a_jitter_turns_every_row_by_about_the_angle_and_only_then_an_opposed_pair_leaves() -> None:
    rows = sphere.uniform(tokens=4000, dim=5, seed=0)
    turned = sphere.jitter(rows, angle=1e-3, seed=1)
    angles = (turned - rows).norm(dim=-1)
    assert float(angles.square().mean().sqrt()) == pytest.approx(1e-3, rel=0.05)
    assert torch.equal(turned, sphere.jitter(rows, angle=1e-3, seed=1))
    pair = sphere.opposed_pairs()[[0, 2]]
    field, rest = am.on_sphere(am.AttentionDrift(am.Uniform())), {"until": 40.0, "integrator": am.Tsit5(rtol=1e-8)}
    assert torch.allclose(am.flow(field, pair, **rest).last, pair, atol=1e-15)
    assert "consensus" in am.flow(field, sphere.jitter(pair, angle=1e-6, seed=0), **rest).status
    with pytest.raises(ArgumentError, match="positive and finite"):
        sphere.jitter(pair, angle=0.0, seed=0)


def test_the_hyperplane_of_mean_zero_has_an_orthonormal_basis_that_keeps_overlaps() -> None:
    for dim in (2, 3, 8):
        basis = am.sphere.mean_free_basis(dim)
        assert torch.allclose(basis @ basis.mT, torch.eye(dim - 1, dtype=torch.float64), atol=1e-15)
        assert float(basis.sum(1).abs().max()) < 1e-15
        rows = am.sphere.uniform(tokens=5, dim=dim, seed=0)
        rows = rows - rows.mean(1, keepdim=True)
        coordinates = rows @ basis.mT
        assert torch.allclose(coordinates @ coordinates.mT, rows @ rows.mT, atol=1e-15)
        assert torch.allclose(coordinates @ basis, rows, atol=1e-15)
    with pytest.raises(am.ArgumentError, match="must be 2 or more"):
        am.sphere.mean_free_basis(1)
