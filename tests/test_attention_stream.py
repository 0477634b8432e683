"""Attention maps handed on one sublayer at a time inside the pass, with model, hooks and implementation left as found."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from armillary.errors import CheckMissed
from armillary.models.attention import attention_stream, require_same_logits
from armillary.models.capture import capture, hook_count, stream
from armillary.models.contract import left_as_found
from armillary.observables.attention_maps import attention_sink_mass
from tiny import families, tiny_decoder, tiny_ids

FAMILIES = families()


def library_maps(decoder: Any, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the library itself returns when it is asked for all maps at once."""
    with left_as_found(decoder.model), torch.no_grad():
        decoder.model.set_attn_implementation("eager")
        return decoder.model(input_ids=ids, use_cache=False, output_attentions=True).attentions


@pytest.mark.parametrize("family", FAMILIES)
def test_the_maps_are_the_library_s_own_and_the_stream_is_the_one_before_the_block(family: str) -> None:
    decoder, ids = tiny_decoder(family), tiny_ids()
    seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    with attention_stream(decoder, lambda layer, maps, before: seen.update({layer: (maps.clone(), before.clone())})):
        decoder.hidden(ids)
    expected = library_maps(decoder, ids)
    assert list(seen) == list(range(1, decoder.facts.layers + 1)) and len(expected) == len(seen)
    states = capture(decoder, ids).states
    for layer, (maps, before) in seen.items():
        assert torch.equal(maps, expected[layer - 1])
        torch.testing.assert_close(before, states[:, layer - 1], rtol=1e-4, atol=1e-4)
        assert not bool(maps.triu(1).any())
        nowhere = attention_sink_mass(maps)
        if decoder.family.sinks is not None:  # learned sinks take a part of every row, above rounding
            assert 1e-5 < float(nowhere.min()) <= float(nowhere.max()) < 1
        else:
            assert float(nowhere.abs().max()) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_maps_are_forgotten_before_the_next_sublayer_hands_out_its_own(family: str) -> None:
    decoder = tiny_decoder(family)
    alive: list[weakref.ref[torch.Tensor]] = []
    most = []

    def sink(layer: int, maps: torch.Tensor, before: torch.Tensor) -> None:
        alive.append(weakref.ref(maps.untyped_storage()))
        most.append(sum(one() is not None for one in alive))

    with attention_stream(decoder, sink):
        decoder.hidden(tiny_ids())
    assert len(most) == decoder.facts.layers
    assert max(most) <= 2  # some blocks hand their map on to whoever called them


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_with_and_without_capture_agree_and_the_model_is_left_as_found(family: str) -> None:
    decoder, ids = tiny_decoder(family), tiny_ids()
    own = decoder.attention(1).register_forward_hook(lambda module, inputs, output: None)
    hooks, implementation, before = (
        hook_count(decoder.model),
        decoder.model.config._attn_implementation,
        decoder.logits(ids),
    )
    assert require_same_logits(decoder, ids) < 1e-5
    with attention_stream(decoder, lambda layer, maps, stream: "ignored"), stream(decoder, lambda *_: "ignored"):
        assert decoder.model.config._attn_implementation == "eager"
        torch.testing.assert_close(decoder.logits(ids), before, rtol=1e-4, atol=1e-3)
    assert hook_count(decoder.model) == hooks
    assert decoder.model.config._attn_implementation == implementation
    assert torch.equal(decoder.logits(ids), before)
    own.remove()


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_after_trouble_in_the_sink_the_model_is_left_as_found(trouble: type[BaseException]) -> None:
    decoder, ids = tiny_decoder(), tiny_ids()
    hooks, before = hook_count(decoder.model), decoder.logits(ids)

    def sink(layer: int, maps: torch.Tensor, stream: torch.Tensor) -> None:
        if layer == 2:
            raise trouble("on purpose")

    with pytest.raises(trouble, match="on purpose"), attention_stream(decoder, sink):
        decoder.hidden(ids)
    assert hook_count(decoder.model) == hooks
    assert decoder.model.config._attn_implementation == "sdpa"
    assert torch.equal(decoder.logits(ids), before)


def test_maps_of_another_attention_than_the_one_in_use_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    decoder, ids, honest = tiny_decoder("llama"), tiny_ids(), modeling_llama.eager_attention_forward

    def other(*arguments: Any, **named: Any) -> Any:
        output, maps = honest(*arguments, **named)
        return 1.01 * output, maps

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", other)
    with pytest.raises(CheckMissed, match=r"Logits with and without attention capture must agree within 0.0001.*apart"):
        require_same_logits(decoder, ids)
    monkeypatch.undo()
    require_same_logits(decoder, ids)


def test_a_sublayer_without_a_map_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    decoder, honest = tiny_decoder("llama"), modeling_llama.eager_attention_forward
    monkeypatch.setattr(
        modeling_llama, "eager_attention_forward", lambda *given, **named: (honest(*given, **named)[0], None)
    )
    with (
        pytest.raises(CheckMissed, match=r"block 1 must hand out maps of shape \(3, 4, 17, 17\).*NoneType"),
        attention_stream(decoder, lambda *_: None),
    ):
        decoder.hidden(tiny_ids())
