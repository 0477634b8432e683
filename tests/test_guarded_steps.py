"""Steps of a hand-written loop: accumulation equals one batch, numbers that are not finite poison nothing."""

from __future__ import annotations

import math

import pytest
import torch

import armillary as am
import tiny
from processes import together

IDS = torch.randint(0, 250, (4, 12), generator=torch.Generator().manual_seed(1))


def _steps(model, **choices):
    choices = {"when_not_finite": "skip", **choices}
    return am.GuardedSteps(torch.optim.AdamW(model.parameters(), lr=1e-2), **choices)


def _weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_accumulated_batches_make_the_step_of_one():
    regularizer = am.Regularizer(penalty=am.uniformity_penalty(beta=4.0), layers=(2,), strength=0.3)
    found = []
    for parts in (1, 2):
        model = tiny.tiny_llama()
        steps = am.GuardedSteps(torch.optim.SGD(model.parameters(), lr=0.1), when_not_finite="stop", accumulate=parts)
        for batch in IDS.chunk(parts):
            with regularizer.tap(model) as states:
                loss = model(input_ids=batch, labels=batch).loss
            took = steps.take(loss + regularizer(states, step=0))
        assert took and steps.taken == 1
        found.append(_weights(model))
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_skipped_and_counted_and_leaves_all_as_it_was(poison):
    model = tiny.tiny_llama()
    steps = _steps(model)
    assert steps.take(model(input_ids=IDS, labels=IDS).loss)
    before, state = _weights(model), steps.optimizer.state_dict()["state"][0]["step"].clone()
    loss = model(input_ids=IDS, labels=IDS).loss
    bad = (
        loss * math.nan if poison == "loss" else loss + torch.sqrt((loss - loss.detach()).abs())
    )  # value fine, gradient not
    assert not steps.take(bad)
    assert (steps.taken, steps.skipped) == (1, 1)
    assert all(torch.equal(before[name], weight) for name, weight in _weights(model).items())
    assert torch.equal(steps.optimizer.state_dict()["state"][0]["step"], state)
    assert steps.take(model(input_ids=IDS, labels=IDS).loss)
    assert all(torch.isfinite(weight).all() for weight in _weights(model).values())


def test_one_bad_part_of_an_accumulated_step_gives_up_all_of_it():
    model = tiny.tiny_llama()
    steps, before = _steps(model, accumulate=3), _weights(model)
    for factor in (1.0, math.inf, 1.0):
        steps.take(model(input_ids=IDS, labels=IDS).loss * factor)
    assert (steps.taken, steps.skipped) == (0, 1)
    assert all(torch.equal(before[name], weight) for name, weight in _weights(model).items())
    assert all(p.grad is None for p in model.parameters())


def test_training_stops_where_that_was_declared():
    model = tiny.tiny_llama()
    with pytest.raises(am.NumericalError, match="at step 0 the loss is nan"):
        _steps(model, when_not_finite="stop").take(model(input_ids=IDS, labels=IDS).loss * math.nan)
    assert all(p.grad is None for p in model.parameters())


def test_gradients_are_scaled_down_to_the_largest_norm():
    model = tiny.tiny_llama()
    steps = am.GuardedSteps(torch.optim.SGD(model.parameters(), lr=1.0), when_not_finite="stop", largest_norm=1e-3)
    before = _weights(model)
    steps.take(model(input_ids=IDS, labels=IDS).loss)
    moved = math.sqrt(sum(float((before[name] - weight).square().sum()) for name, weight in _weights(model).items()))
    assert moved == pytest.approx(1e-3, rel=1e-2)
    assert steps.norm > 1e-2


def test_strength_grows_in_a_straight_line_while_it_warms():
    regularizer = am.Regularizer(penalty=am.mean_direction_penalty(), layers=(1,), strength=0.4, warm_up=4)
    assert [regularizer.strength_at(step) for step in (0, 1, 4, 9)] == pytest.approx([0.0, 0.1, 0.4, 0.4])
    rows = torch.ones(1, 3, 2)
    assert [float(regularizer(rows, step=step)) for step in (0, 2, 8)] == pytest.approx([0.0, 0.2, 0.4])
    assert str(regularizer) == "0.4 x mean_direction() after normalize at layer 1, warm after 4 steps"


@pytest.mark.parametrize("strength", [-0.1, math.nan, math.inf])
def test_a_strength_that_is_negative_or_not_finite_is_refused(strength):
    with pytest.raises(am.ArgumentError, match=r"`strength` must be finite and not negative"):
        am.Regularizer(penalty=am.mean_direction_penalty(), layers=(1,), strength=strength)


def test_no_layer_a_negative_warm_up_and_other_words_are_refused():
    with pytest.raises(am.ArgumentError, match="`layers` and `warm_up`"):
        am.Regularizer(penalty=am.mean_direction_penalty(), layers=(), strength=0.1)
    with pytest.raises(am.ArgumentError, match="`when_not_finite` must be"):
        _steps(tiny.tiny_llama(), when_not_finite="hope")
    with pytest.raises(am.ArgumentError, match="`accumulate` must be at least 1"):
        _steps(tiny.tiny_llama(), accumulate=0)


def _agree(rank, world):
    weight = torch.ones(1, requires_grad=True)
    steps = am.GuardedSteps(torch.optim.SGD([weight], lr=0.1), when_not_finite="skip")
    steps.take(weight.sum() * (math.nan if rank == 1 else 1.0))
    return steps.taken, steps.skipped, weight.item()


def test_processes_skip_together():
    assert together(_agree, 2) == [(0, 1, 1.0), (0, 1, 1.0)]
