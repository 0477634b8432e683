"""A decoder in the next wider type: what differs is rounding alone, and afterwards every weight is its own again."""

from __future__ import annotations

import copy

import pytest
import torch

from armillary.models.capture import capture
from armillary.models.decoder import decoder_from_model
from armillary.models.widened import widened, wider_type
from tiny import families, tiny_ids, tiny_model

CASES = [
    ("gpt2", "float16"),
    ("llama", "float16"),
    *((one, kind) for one in families() for kind in ("float32", "bfloat16")),
]


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_states_are_those_of_a_whole_copy_in_the_wider_type(family, dtype):
    model = tiny_model(family).to(getattr(torch, dtype))
    decoder = decoder_from_model(model)
    wide = wider_type(decoder)
    whole = decoder_from_model(copy.deepcopy(model).to(wide))
    if wide is torch.float64 and getattr(whole.model.config, "_experts_implementation", None) is not None:
        whole.model.set_experts_implementation("eager")
    with widened(decoder):
        states = capture(decoder, tiny_ids()).states
    assert states.dtype is wide
    assert torch.equal(states, capture(whole, tiny_ids()).states)
    assert not torch.equal(states, capture(decoder, tiny_ids()).states.to(wide))


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_is_the_same_object_again_and_ties_hold_even_after_an_exception(tied):
    model = tiny_model("gpt2", tied=tied)
    decoder = decoder_from_model(model)
    before = {name: (id(weight), weight.clone()) for name, weight in model.named_parameters()}
    plain = decoder.logits(tiny_ids())

    def stop(*_):
        raise KeyboardInterrupt

    handle = decoder.mlp(2).register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt), widened(decoder):
        decoder.logits(tiny_ids())
    handle.remove()
    after = dict(model.named_parameters())
    assert list(after) == list(before)
    assert all(id(after[name]) == kept and torch.equal(after[name], weight) for name, (kept, weight) in before.items())
    assert (model.lm_head.weight is model.transformer.wte.weight) == tied
    assert torch.equal(decoder.logits(tiny_ids()), plain)


def test_the_widest_type_has_no_wider_one():
    assert wider_type(decoder_from_model(tiny_model("llama").double())) is None
