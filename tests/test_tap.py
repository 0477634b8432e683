"""The tap: live states with their gradient, in training mode, under checkpointing and wrappers; and what is refused."""

from __future__ import annotations

import pytest
import torch

import armillary as am
import tiny
from armillary.models.capture import hook_count
from processes import together

IDS = torch.randint(0, 250, (2, 12), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("family", tiny.families())
def test_tapped_states_are_the_captured_stream(family):
    model = tiny.tiny_model(family)
    decoder = am.decoder_from_model(model)
    last = decoder.facts.layers
    expected = am.capture(decoder, IDS).states
    with am.tap(model, range(last + 1)) as states:
        decoder.hidden(IDS)
    assert list(states) == list(range(last + 1))
    for layer, rows in states.items():
        assert torch.allclose(rows, expected[:, layer], atol=1e-6)


def _penalized(model, **options):
    with am.tap(model, [1, 3]) as states:
        loss = model(input_ids=IDS, labels=IDS, **options).loss
    total = loss + am.uniformity_penalty(beta=4.0)(states)
    model.zero_grad()
    total.backward()
    return float(total.detach()), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_the_gradient_of_tapped_states_reaches_the_weights_before_them_and_no_others():
    model = tiny.tiny_llama(tied=False)
    with am.tap(model, [2]) as states:
        model(input_ids=IDS)
    am.uniformity_penalty(beta=4.0)(states).backward()
    touched = {name for name, p in model.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}
    assert any("layers.1." in name for name in touched)
    assert not any("layers.2." in name or "layers.3." in name or "lm_head" in name for name in touched)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(reentrant):
    plain, checkpointed = tiny.tiny_llama().train(), tiny.tiny_llama().train()
    checkpointed.activation_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        checkpointed.enable_input_require_grads()
    value, gradients = _penalized(plain)
    again, others = _penalized(checkpointed)
    assert again == pytest.approx(value, abs=1e-6)
    assert all(torch.allclose(gradients[name], others[name], atol=1e-5) for name in gradients)


def test_a_pass_is_the_one_it_would_be_and_no_hook_stays():
    model = tiny.tiny_gpt2().train()
    torch.manual_seed(3)
    plain = model(input_ids=IDS).logits
    before = hook_count(model)
    torch.manual_seed(3)
    with am.tap(model, [0, 4]):
        assert torch.equal(model(input_ids=IDS).logits, plain)
    assert hook_count(model) == before and model.training
    with pytest.raises(KeyboardInterrupt), am.tap(model, [1]):
        raise KeyboardInterrupt
    assert hook_count(model) == before


def test_modes_of_the_parts_survive_a_family_that_must_be_inferred(monkeypatch):
    monkeypatch.setattr("armillary.models.recognition.family_of", lambda *_: None)
    model = tiny.tiny_gpt2().train()
    model.transformer.h[1].eval()
    with am.tap(model, [1]) as states:
        model(input_ids=IDS)
    assert model.training and not model.transformer.h[1].training and model.transformer.h[2].training
    assert states[1].requires_grad


@pytest.mark.parametrize("layers", [[5], [-1], [], [True], [1.0]])
def test_layers_that_do_not_exist_are_refused(layers):
    with (
        pytest.raises(am.ArgumentError, match=r"`layers` must be layers from 0 to 4 .* Write layers=\[2\]"),
        am.tap(tiny.tiny_gpt2(), layers),
    ):
        pass
    with am.tap(tiny.tiny_gpt2(), [2]):
        pass


def test_a_model_compiled_before_the_tap_is_refused_and_the_one_before_compiling_is_not():
    model = tiny.tiny_gpt2()
    compiled = torch.compile(model)
    with pytest.raises(am.UnsupportedModelError, match="must not be compiled"), am.tap(compiled, [1]):
        pass
    with am.tap(compiled._orig_mod, [1]):
        pass
    model.compile()
    with pytest.raises(am.UnsupportedModelError, match="must not be compiled"), am.tap(model, [1]):
        pass


def test_replicas_in_threads_are_refused():
    with pytest.raises(am.ArgumentError, match="DataParallel"), am.tap(torch.nn.DataParallel(tiny.tiny_gpt2()), [1]):
        pass


def test_a_penalty_of_a_tap_through_which_nothing_went_is_refused():
    with am.tap(tiny.tiny_gpt2(), [1]) as states:
        pass
    with pytest.raises(am.ArgumentError, match="no pass went through the tap"):
        am.uniformity_penalty(beta=4.0)(states)


def _one_step(rank, world):
    """Weights after two steps of a model whose batch is shared by the processes."""
    model = tiny.tiny_llama(layers=2).train()
    penalty = am.participation_rank_penalty().after("center", "normalize").of_tokens("without_first")
    trained = model
    batch = torch.cat([IDS, IDS.flip(0).flip(1)])
    if world > 1:
        trained = torch.nn.parallel.DistributedDataParallel(model)
        penalty, batch = penalty.gathered(), batch.chunk(world)[rank]
    regularizer = am.Regularizer(penalty=penalty.pooled(), layers=(1, 2), strength=0.5)
    steps = am.GuardedSteps(torch.optim.SGD(model.parameters(), lr=0.1), when_not_finite="stop")
    for step in range(2):
        with regularizer.tap(trained) as states:
            loss = trained(input_ids=batch, labels=batch).loss
        steps.take(loss + regularizer(states, step=step))
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_data_parallel_training_of_two_processes_equals_one():
    alone = _one_step(0, 1)
    for weights in together(_one_step, 2):
        for name, weight in alone.items():
            assert torch.allclose(weights[name], weight, atol=1e-5), name
