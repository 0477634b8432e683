"""Penalties: reference values, gradients, consensus and duplicates, masks, half precision, tiles, several processes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import armillary as am
from armillary.observables.isotropy import uniformity
from armillary.observables.rank import participation_rank
from armillary.training import pair_sums
from armillary.training.penalties import PENALTIES
from armillary.training.regularizer import penalty_cost
from processes import together

CHOICES = {
    "uniformity": {"beta": 4.0},
    "mean_direction": {},
    "overlap_ceiling": {"ceiling": 0.2},
    "participation_rank": {},
    "koleo": {"softening": 0.05},
    "variance": {"target": 1.0},
    "covariance": {},
    "target_overlap": {"target": am.IsotropicTarget(), "betas": (-2.0, 1.0, 4.0)},
}
EVERY = pytest.mark.parametrize("name", sorted(CHOICES))


def make(name):
    return PENALTIES[name](**CHOICES[name])


def cloud(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def test_every_penalty_is_tried_here():
    assert sorted(PENALTIES) == sorted(CHOICES)


# reference values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "value"), [(3, -2.07978), (128, -3.93753)])
def test_uniform_directions_have_the_uniformity_of_the_uniform_law(dim, value):
    penalty = am.uniformity_penalty(beta=4.0)
    found = float(penalty(am.sphere.uniform(tokens=3000, dim=dim, seed=0)))
    assert found == pytest.approx(value, abs=2e-3)
    assert am.IsotropicTarget().log_mean_exp(4.0, tokens=10, dim=dim) == pytest.approx(value, abs=6e-6)


def test_two_orthogonal_rows_have_uniformity_minus_two_t():
    assert float(am.uniformity_penalty(beta=4.0)(torch.eye(2))) == pytest.approx(-4.0)


def test_the_simplex_is_the_optimum_of_uniformity():
    penalty, n = am.uniformity_penalty(beta=4.0), 4
    simplex = am.sphere.equiangular(tokens=n, dim=3, overlap=-1 / (n - 1)).requires_grad_()
    value = penalty(simplex)
    assert float(value.detach()) == pytest.approx(-4.0 * n / (n - 1))
    value.backward()
    assert float(simplex.grad.abs().max()) < 1e-12
    assert all(float(penalty(cloud(n, 3, seed=seed))) > float(value.detach()) for seed in range(20))


def test_uniformity_is_the_observable_of_that_name():
    rows = cloud(2, 9, 5)
    assert float(am.uniformity_penalty(beta=3.0)(rows)) == pytest.approx(
        float(uniformity(t=1.5).after("normalize")(rows).mean())
    )


@pytest.mark.parametrize("steps", [("normalize",), ("center", "normalize")])
@pytest.mark.parametrize("shape", [(2, 5, 9), (2, 9, 5)])
def test_the_participation_rank_without_a_decomposition_is_that_of_the_spectrum(shape, steps):
    rows = cloud(*shape)
    expected = -torch.log(participation_rank.after(*steps)(rows)).mean()
    assert float(am.participation_rank_penalty().after(*steps)(rows)) == pytest.approx(float(expected))


def test_groups_have_the_squared_mean_direction_that_their_sizes_say():
    assert float(am.mean_direction_penalty()(am.sphere.orthogonal_groups(10, 1, 1))) == pytest.approx(
        0.708333, abs=1e-6
    )


def test_a_ceiling_costs_the_square_of_what_lies_above_it():
    rows = am.sphere.equiangular(tokens=5, dim=5, overlap=0.5)
    assert float(am.overlap_ceiling_penalty(ceiling=0.2)(rows)) == pytest.approx(0.09)
    assert float(am.overlap_ceiling_penalty(ceiling=0.6)(rows)) == 0


def test_koleo_is_the_mean_logarithm_of_the_nearest_distance():
    found = float(am.koleo_penalty(softening=1e-9)(torch.eye(3)))
    assert found == pytest.approx(-math.log(math.sqrt(2)))


def test_an_isotropic_cloud_costs_no_variance_and_hardly_any_covariance():
    rows = am.sphere.uniform(tokens=4000, dim=4, seed=1)
    assert float(am.variance_penalty(target=0.9)(rows)) == 0
    assert float(am.covariance_penalty()(rows)) < 0.01
    line = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])  # d Cov = 4/3 in all four entries
    assert float(am.covariance_penalty()(line)) == pytest.approx((4 / 3) ** 2)


@pytest.mark.parametrize(
    ("target", "rows"),
    [
        (am.GroupsTarget(3, "orthogonal"), am.sphere.orthogonal_groups(4, 4, 4)),
        (am.GroupsTarget(2, "simplex"), am.sphere.opposed_pairs()),
        (
            am.RingTarget(),
            torch.stack(
                [torch.cos(torch.arange(7) * math.tau / 7), torch.sin(torch.arange(7) * math.tau / 7)], 1
            ).double(),
        ),
    ],
)
def test_a_target_costs_nothing_where_it_is_reached(target, rows):
    penalty = am.target_overlap_penalty(target=target, betas=(-3.0, 1.0, 8.0))
    assert float(penalty(rows)) < 1e-10
    assert float(penalty(cloud(*rows.shape, seed=3))) > 1e-3


# gradients, consensus, duplicates --------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_those_of_finite_differences(name, masked):
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]]) if masked else None
    rows = cloud(2, 5, 3, seed=5).requires_grad_()
    penalty = make(name) if name != "variance" else am.variance_penalty(target=3.0)
    assert torch.autograd.gradcheck(lambda x: penalty(x, mask=mask), rows, atol=1e-6)


@EVERY
def test_gradients_after_centering_are_those_of_finite_differences(name):
    assert torch.autograd.gradcheck(
        make(name).after("center", "normalize"), cloud(1, 5, 3, seed=2).requires_grad_(), atol=1e-6
    )


AT_CONSENSUS = {
    "uniformity": 0.0,
    "mean_direction": 1.0,
    "overlap_ceiling": 0.64,
    "participation_rank": 0.0,
    "koleo": -math.log(0.05),
    "variance": 0.99,
    "covariance": 0.0,
}


@EVERY
def test_exact_consensus_has_the_stated_value_and_no_gradient(name):
    rows = torch.ones(2, 6, 4, dtype=torch.float64).requires_grad_()
    value = make(name)(rows)
    value.backward()
    if name in AT_CONSENSUS:
        assert float(value.detach()) == pytest.approx(AT_CONSENSUS[name], abs=1e-12)
    assert torch.isfinite(value)
    assert float(rows.grad.abs().max()) < 1e-12


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_duplicates_and_extremes_of_half_precision_have_finite_values_and_gradients(name, dtype):
    rows = cloud(3, 8, 6, seed=4, dtype=dtype)
    rows[0] = rows[0, :1]  # consensus
    rows[1, 1] = rows[1, 0]  # a duplicate
    rows[1, 2] = -rows[1, 0]
    rows[2] *= 60000 / rows[2].abs().max()
    rows[2, 3] *= 1e-4
    rows.requires_grad_()
    value = make(name)(rows)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value) and torch.isfinite(rows.grad).all()


@EVERY
def test_near_consensus_only_the_covariance_does_not_push_apart(name):
    """A step against the gradient, from a cloud of nearly one direction, spreads its directions."""
    rows = (torch.ones(1, 8, 4, dtype=torch.float64) + 0.01 * cloud(1, 8, 4, seed=7)).requires_grad_()
    make(name)(rows).backward()
    step = rows.detach() - 0.01 * rows.grad / rows.grad.norm()
    spread = am.mean_overlap.after("normalize")
    assert (float(spread(step)) < float(spread(rows.detach()))) == (name != "covariance")


# which rows ------------------------------------------------------------------------------------------------------


@EVERY
def test_padding_counts_for_nothing(name):
    rows, penalty = cloud(2, 9, 4), make(name)
    mask = torch.ones(2, 9)
    mask[0, 6:] = 0
    mask[1, :3] = 0
    alone = (penalty(rows[:1, :6]) + penalty(rows[1:, 3:])) / 2
    rows[0, 6:] = torch.nan
    assert float(penalty(rows.nan_to_num(1e4), mask=mask)) == pytest.approx(float(alone))


def test_the_first_token_and_massive_ones_can_be_left_out():
    rows = cloud(2, 12, 4)
    rows[1, 5] *= 1000
    mask = torch.ones(2, 12)
    mask[0, :2] = 0
    penalty = am.uniformity_penalty(beta=2.0)
    assert float(penalty.of_tokens("without_first")(rows, mask=mask)) == pytest.approx(
        float((penalty(rows[:1, 3:]) + penalty(rows[1:, 1:])) / 2)
    )
    kept = torch.cat([rows[1, 1:5], rows[1, 6:]])
    assert float(penalty.of_tokens("without_first_and_massive")(rows[1:])) == pytest.approx(float(penalty(kept)))


@EVERY
def test_a_pooled_penalty_takes_the_batch_as_one_document(name):
    rows = cloud(2, 5, 4)
    assert float(make(name).pooled()(rows)) == pytest.approx(float(make(name)(rows.reshape(10, 4))))
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    kept = rows[mask.bool()]
    assert float(make(name).after("center", "normalize").pooled()(rows, mask=mask)) == pytest.approx(
        float(make(name).after("center", "normalize")(kept))
    )


@EVERY
@given(seed=st.integers(0, 99), tokens=st.integers(2, 7))
def test_a_penalty_does_not_depend_on_basis_order_or_row_length(name, seed, tokens):
    rows, penalty = cloud(tokens, 5, seed=seed), make(name)
    turn = torch.linalg.qr(cloud(5, 5, seed=seed + 100))[0]
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(seed))
    lengths = 0.1 + torch.rand(tokens, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    changed = (lengths * rows)[order] @ (
        turn if name not in ("variance", "covariance") else torch.eye(5, dtype=torch.float64)
    )
    assert float(penalty(changed)) == pytest.approx(float(penalty(rows)), abs=1e-9)


@EVERY
@pytest.mark.parametrize("masked", [False, True])
def test_tiles_change_neither_value_nor_gradient(name, masked, monkeypatch):
    mask = (cloud(2, 11, seed=9) > -1).double() if masked else None
    results = []
    for tile in (2**22, 50):
        monkeypatch.setattr(pair_sums, "TILE", tile)
        rows = cloud(2, 11, 13, seed=1).requires_grad_()
        value = make(name)(rows, mask=mask)
        value.backward()
        results.append((value.detach(), rows.grad))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-12)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-12)


def test_memory_grows_with_tokens_and_not_with_pairs(monkeypatch):
    """What autograd keeps between forward and backward."""
    monkeypatch.setattr(pair_sums, "TILE", 2**10)
    kept = [_bytes_kept(tokens) for tokens in (256, 512)]
    assert kept[1] < 2.5 * kept[0] + 2**16


def _bytes_kept(tokens):
    rows, sizes = cloud(1, tokens, 4, dtype=torch.float32).requires_grad_(), {}

    def noted(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        assert torch.isfinite(am.uniformity_penalty(beta=4.0)(rows))
    return sum(sizes.values())


def test_autocast_leaves_a_penalty_in_single_precision():
    rows = cloud(1, 16, 8, dtype=torch.float32)
    plain = am.uniformity_penalty(beta=4.0)(rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(am.uniformity_penalty(beta=4.0)(rows), plain)


def test_the_choices_of_a_penalty_can_be_read():
    penalty = (
        am.uniformity_penalty(beta=4.0).after("center", "normalize").of_tokens("without_first").pooled().gathered()
    )
    assert str(penalty) == "uniformity(beta=4.0) after center, normalize, without first, over the batch, gathered"


def test_the_cost_of_a_penalty_is_told_beforehand():
    cost = penalty_cost(am.uniformity_penalty(beta=4.0), documents=8, tokens=256, dim=256, blocks=4)
    assert cost.products == 3 * 8 * 256**3
    assert 0.01 < cost.share < 0.04
    assert "million" in str(cost)


# what is refused -------------------------------------------------------------------------------------------------


def test_a_mask_that_keeps_nothing_is_refused_and_another_mask_helps():
    rows, penalty = cloud(2, 4, 3), am.uniformity_penalty(beta=4.0)
    with pytest.raises(am.ArgumentError, match=r"`mask` must keep at least two tokens .* most that it keeps is 0"):
        penalty(rows, mask=torch.zeros(2, 4))
    assert torch.isfinite(penalty(rows, mask=torch.tensor([[0, 0, 0, 0], [1, 1, 0, 0]])))


def test_one_token_is_refused():
    with pytest.raises(am.ArgumentError, match="one token has no pair"):
        am.participation_rank_penalty()(cloud(3, 1, 4))
    with pytest.raises(am.ArgumentError, match="tokens: without_first"):
        am.participation_rank_penalty().of_tokens("without_first")(cloud(3, 2, 4))


def test_centered_consensus_has_no_value():
    assert torch.isnan(am.uniformity_penalty(beta=4.0).after("center", "normalize")(torch.ones(2, 5, 3)))


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(am.ArgumentError, match=r"`mask` must have one entry a token, shape \[2, 4\]"):
        am.uniformity_penalty(beta=4.0)(cloud(2, 4, 3), mask=torch.ones(2, 5))


def test_ids_are_no_states():
    with pytest.raises(am.ArgumentError, match="`states` must be rows"):
        am.uniformity_penalty(beta=4.0)(torch.ones(2, 4, dtype=torch.long))


@pytest.mark.parametrize(
    ("factory", "choices", "words"),
    [
        ("uniformity", {"beta": 0.0}, "`beta` must be positive"),
        ("uniformity", {"beta": math.inf}, "`beta` must be positive"),
        ("overlap_ceiling", {"ceiling": 1.0}, "`ceiling` must lie within"),
        ("koleo", {"softening": 0.0}, "`softening` must lie"),
        ("variance", {"target": -1.0}, "`target` must be positive"),
        ("target_overlap", {"target": am.RingTarget(), "betas": ()}, "`betas` must hold"),
        ("target_overlap", {"target": am.RingTarget(), "betas": (0.0,)}, "`betas` must hold"),
    ],
)
def test_choices_without_meaning_are_refused(factory, choices, words):
    with pytest.raises(am.ArgumentError, match=words):
        PENALTIES[factory](**choices)


def test_more_groups_than_tokens_are_refused():
    with pytest.raises(am.ArgumentError, match="4 groups are asked of 3"):
        am.target_overlap_penalty(target=am.GroupsTarget(4, "simplex"), betas=(1.0,))(cloud(3, 5))
    with pytest.raises(am.ArgumentError, match="`count` and `across`"):
        am.GroupsTarget(1, "simplex")


def test_steps_that_a_penalty_does_not_know_are_refused():
    for steps in ((), ("center",), ("corpus mean", "normalize")):
        with pytest.raises(am.ArgumentError, match="`steps` must be among"):
            am.uniformity_penalty(beta=4.0).after(*steps)
    with pytest.raises(am.ArgumentError, match="`policy` must be one of"):
        am.uniformity_penalty(beta=4.0).of_tokens("some")


# several processes -----------------------------------------------------------------------------------------------


def _two_processes(rank, world):
    """Value and averaged gradient of a shared factor of the rows, in each of the processes."""
    results = {}
    for name in sorted(CHOICES):
        for pooled in (False, True):
            penalty = make(name).after("center", "normalize")
            rows = cloud(3, 6, 4, seed=3)
            mask = torch.ones(3, 6)
            mask[0, 4:] = 0
            share = slice(0, 1) if rank == 0 else slice(1, 3)  # unequal shares
            if world == 1:
                share = slice(0, 3)
            else:
                penalty = penalty.gathered()
            factor = torch.linspace(0.5, 2.0, 4, dtype=torch.float64).requires_grad_()
            value = (penalty.pooled() if pooled else penalty)(rows[share] * factor, mask=mask[share])
            value.backward()
            if world > 1:
                torch.distributed.all_reduce(factor.grad)
                factor.grad /= world
            results[name, pooled] = (value.item(), factor.grad.tolist())
    return results


def test_two_processes_equal_one():
    alone = _two_processes(0, 1)
    for found in together(_two_processes, 2):
        for key, (value, gradient) in alone.items():
            assert found[key][0] == pytest.approx(value, abs=1e-12), key
            assert found[key][1] == pytest.approx(gradient, abs=1e-12), key


def test_one_process_has_nothing_to_gather():
    rows = cloud(2, 5, 4)
    assert float(am.uniformity_penalty(beta=4.0).gathered()(rows)) == float(am.uniformity_penalty(beta=4.0)(rows))


@EVERY
def test_states_that_are_not_numbers_show(name):
    rows = cloud(2, 6, 4)
    rows[1, 2, 3] = torch.nan
    assert torch.isnan(make(name)(rows))
