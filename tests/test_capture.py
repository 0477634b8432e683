"""The stream is what it is called, hooks leave no trace, and nothing that watches changes what is watched."""

from __future__ import annotations

import pytest
import torch

from armillary.errors import ArgumentError
from armillary.models.capture import Tap, capture, hook_count, stream, taps_of
from armillary.trajectory import Ensemble
from tiny import families, sequential_families, tiny_decoder, tiny_ids

FAMILIES = families()
SEQUENTIAL = sequential_families()
PARALLEL = tuple(name for name in FAMILIES if name not in SEQUENTIAL)


def seen_by(decoder, ids) -> tuple[dict, dict]:
    residuals, reads = {}, {}

    def sink(tap, residual, read):
        residuals[tap], reads[tap] = residual, read

    with stream(decoder, sink):
        decoder.hidden(ids)
    return residuals, reads


@pytest.mark.parametrize("family", FAMILIES)
def test_block_taps_equal_the_librarys_list_except_its_last_entry_which_is_the_final_norm(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    with torch.no_grad():
        decoder.final_norm.weight.mul_(2)  # a gain near 3: a norm taken for a block would show
        listed = decoder.model(ids, output_hidden_states=True).hidden_states
    residuals, reads = seen_by(decoder, ids)
    last = Tap(4)
    for layer in range(4):
        torch.testing.assert_close(residuals[Tap(layer)], listed[layer], atol=1e-5, rtol=0)
    torch.testing.assert_close(reads[last], listed[4], atol=1e-5, rtol=0)
    torch.testing.assert_close(decoder.final_norm(residuals[last]), listed[4], atol=1e-5, rtol=0)
    torch.testing.assert_close(reads[last], decoder.hidden(ids), atol=1e-5, rtol=0)
    assert (residuals[last] - listed[4]).abs().max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_block_tap_is_the_output_of_the_last_block(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    outputs = []
    handle = decoder.block(4).register_forward_hook(lambda module, inputs, output: outputs.append(output))
    residuals, _ = seen_by(decoder, ids)
    handle.remove()
    assert torch.equal(residuals[Tap(4)], outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_four_blocks_have_five_layers_and_layer_zero_is_the_start_of_the_stream(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    residuals, _ = seen_by(decoder, ids)
    blocks = [tap for tap in residuals if tap.place == "block"]
    assert [tap.layer for tap in blocks] == [0, 1, 2, 3, 4]
    assert [tap.name for tap in blocks] == ["embedding", "block", "block", "block", "block"]
    middles = [tap.layer for tap in residuals if tap.place == "mid"]
    assert middles == ([1, 2, 3, 4] if family in SEQUENTIAL else [])
    raw = decoder.embedding.weight[ids]
    ratio = (residuals[Tap(0)].norm(dim=-1) / raw.norm(dim=-1)).mean().item()
    alone = decoder.facts.start_of_stream == "the token embedding, unscaled"
    assert alone == (family not in ("gpt2", "opt", "bloom", "gemma2", "gemma3"))
    assert (ratio == pytest.approx(1.0, abs=1e-6)) is alone
    assert torch.equal(residuals[Tap(0)], raw) is alone
    if family.startswith("gemma"):
        assert ratio == pytest.approx(24**0.5, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_hands_over_all_documents_of_a_batch(family):
    ids = tiny_ids(documents=2, tokens=12)
    residuals, reads = seen_by(tiny_decoder(family), ids)
    assert {tuple(state.shape) for state in (*residuals.values(), *reads.values())} == {(2, 12, 24)}
    assert len(residuals) == (9 if family in SEQUENTIAL else 5)


def added_by(decoder, ids) -> tuple[dict, dict]:
    """The stream at every tap, and what each sublayer adds to it."""
    outputs = {}
    for layer in range(1, 5):
        for kind in ("attention", "mlp"):
            decoder.added(kind, layer).register_forward_hook(
                lambda module, inputs, output, key=(kind, layer): outputs.update(
                    {key: (output[0] if isinstance(output, tuple) else output).reshape(*ids.shape, 24)}
                )
            )
    residuals, _ = seen_by(decoder, ids)
    return residuals, outputs


@pytest.mark.parametrize("family", SEQUENTIAL)
def test_mid_taps_are_the_stream_plus_attention_and_block_taps_add_the_mlp(family):
    residuals, outputs = added_by(tiny_decoder(family), tiny_ids())
    for layer in range(1, 5):
        middle = residuals[Tap(layer - 1)] + outputs["attention", layer]
        torch.testing.assert_close(residuals[Tap(layer, "mid")], middle)
        torch.testing.assert_close(residuals[Tap(layer)], middle + outputs["mlp", layer])


@pytest.mark.parametrize("family", PARALLEL)
def test_a_parallel_block_adds_attention_and_mlp_of_one_stream_and_has_no_mid_tap(family):
    decoder = tiny_decoder(family)
    residuals, outputs = added_by(decoder, tiny_ids())
    for layer in range(1, 5):
        both = outputs["attention", layer] + outputs["mlp", layer]
        torch.testing.assert_close(residuals[Tap(layer)], residuals[Tap(layer - 1)] + both)
    with pytest.raises(ArgumentError, match=r"read one stream, so there is none between them\. Ask for block taps"):
        capture(decoder, tiny_ids(), [Tap(2, "mid")])
    assert capture(decoder, tiny_ids(), [Tap(2)]).at == (2,), "the remedy, followed"


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_read_is_the_norm_of_the_stream_with_its_gain_or_the_stream_itself(family):
    decoder = tiny_decoder(family)
    residuals, reads = seen_by(decoder, tiny_ids())
    assert len(decoder.norms) == (1 if family == "olmo2" else len(residuals))
    with torch.no_grad():
        for tap, (reader, is_norm) in zip(taps_of(decoder), decoder.readers, strict=True):
            assert torch.equal(reader(residuals[tap]) if is_norm else residuals[tap], reads[tap])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_hooks_are_gone_after_trouble_in_the_second_block_and_the_users_hook_still_fires(family, trouble):
    decoder, ids = tiny_decoder(family), tiny_ids()
    fired = []
    decoder.block(1).register_forward_hook(lambda *_: fired.append(1))
    logits, before = decoder.logits(ids), hook_count(decoder.model)

    def sink(tap, residual, read):
        if tap == Tap(2):
            raise trouble

    with pytest.raises(trouble), stream(decoder, sink):
        decoder.logits(ids)
    assert hook_count(decoder.model) == before == 1
    fired.clear()
    assert torch.equal(decoder.logits(ids), logits)
    assert fired == [1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sink_that_returns_a_value_replaces_nothing(family):
    decoder, ids = tiny_decoder(family), tiny_ids()
    expected = decoder.logits(ids)
    with stream(decoder, lambda tap, residual, read: torch.zeros_like(read)):
        assert torch.equal(decoder.logits(ids), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_states_of_a_document_do_not_depend_on_its_batch(family):
    decoder, ids = tiny_decoder(family), tiny_ids(documents=5)
    together = capture(decoder, ids, batch_size=5)
    for size in (1, 2, 3):
        apart = (capture(decoder, ids, batch_size=size).states - together.states).norm(dim=-1)
        assert (apart / together.states.norm(dim=-1)).max() < 1e-5


def test_captured_states_lie_along_depth_with_one_member_a_document():
    decoder, ids = tiny_decoder(), tiny_ids(documents=3, tokens=7)
    everything = capture(decoder, ids, taps_of(decoder), batch_size=2)
    residuals, _ = seen_by(decoder, ids)
    assert everything.axis == "depth"
    assert everything.at == (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4)
    assert everything.states.shape == (3, 9, 7, 24)
    assert everything.members == ("document 1", "document 2", "document 3")
    torch.testing.assert_close(everything.where(2.5), residuals[Tap(3, "mid")], atol=1e-5, rtol=1e-5)
    assert capture(decoder, ids).at == (0, 1, 2, 3, 4)


def test_a_tap_that_the_decoder_lacks_is_refused():
    decoder = tiny_decoder()
    for tap in (Tap(5), Tap(0, "mid"), Tap(-1)):
        with pytest.raises(ArgumentError, match=r"Block taps are layers 0..4, mid taps layers 1..4"):
            capture(decoder, tiny_ids(), [tap])
    with pytest.raises(ArgumentError, match="`batch_size` must be at least 1"):
        capture(decoder, tiny_ids(), batch_size=0)


def test_an_ensemble_names_every_member_and_every_place():
    states = torch.zeros(2, 3, 4, 5)
    whole = Ensemble(states=states, at=(0.0, 1.0, 2.0), axis="depth", members=("a", "b"))
    assert len(whole) == 2
    assert whole.only([1]).members == ("b",)
    with pytest.raises(ArgumentError, match="2 members and 3 times, but name 1 and 3"):
        Ensemble(states=states, at=(0.0, 1.0, 2.0), axis="depth", members=("a",))
    with pytest.raises(ArgumentError, match="must increase"):
        Ensemble(states=states, at=(0.0, 2.0, 1.0), axis="depth", members=("a", "b"))
    with pytest.raises(ArgumentError, match=r"\[members, times, tokens, dim\]"):
        Ensemble(states=states[0], at=(0.0, 1.0, 2.0), axis="depth", members=("a", "b"))
    with pytest.raises(ArgumentError, match="must be one of"):
        whole.where(0.5)
