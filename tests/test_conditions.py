"""Conditions change what they say and nothing else, prove it, and put every weight back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from armillary.errors import ArgumentError, CheckMissed
from armillary.models import conditions, freshness, proofs, removal
from armillary.models.conditions import Ablated, Initial, Trained, fingerprints, parse_condition
from armillary.models.decoder import Decoder, decoder_from_model
from armillary.models.families import FAMILIES as FAMILIES_BY_NAME
from tiny import WINDOW, families, randomized, tiny_decoder, tiny_gpt2, tiny_ids, tiny_llama, tiny_model, tiny_tokenizer

FAMILIES = pytest.mark.parametrize("family", families())
ABLATIONS = (
    Ablated("attention"),
    Ablated("mlp"),
    Ablated("positions"),
    Ablated("head", (2,), 1),
    Ablated("mlp", (1, 3)),
)


def weights(decoder: Decoder) -> dict[str, torch.Tensor]:
    model = decoder.model
    return {name: value.detach().clone() for name, value in (*model.named_parameters(), *model.named_buffers())}


def assert_restored(decoder: Decoder, before: dict[str, torch.Tensor]) -> None:
    now = weights(decoder)
    assert now.keys() == before.keys()
    assert all(torch.equal(now[name], before[name]) for name in before)


def of(model: Any) -> Decoder:
    return decoder_from_model(model, tiny_tokenizer(), name="tiny")


# --- every condition


@pytest.mark.parametrize("condition", [Trained(), Initial(0, "library"), Ablated("mlp")], ids=lambda c: c.name)
def test_two_measurements_are_identical_bit_for_bit_although_the_config_has_dropout(condition: Any) -> None:
    decoder, ids = tiny_decoder("gpt2"), tiny_ids()
    assert decoder.model.config.resid_pdrop > 0
    decoder.model.train()
    assert not torch.equal(decoder.logits(ids), decoder.logits(ids)), "the trigger: dropout is on"
    seen = []
    for _ in range(2):
        with condition.applied(decoder) as applied:
            assert not any(module.training for module in applied.decoder.model.modules())
            assert "evaluation mode" in applied.proof.sentence
            seen += [applied.decoder.logits(ids), applied.decoder.logits(ids)]
    assert all(torch.equal(seen[0], other) for other in seen[1:])
    assert all(module.training for module in decoder.model.modules()), "the caller's own mode is put back"


@FAMILIES
def test_trained_changes_nothing(family: str) -> None:
    decoder, ids = tiny_decoder(family), tiny_ids()
    expected, before = decoder.logits(ids), weights(decoder)
    with Trained().applied(decoder) as applied:
        assert torch.equal(applied.decoder.logits(ids), expected)
    assert applied.proof.changed == ()
    assert applied.proof.unchanged == len(fingerprints(decoder.model))
    assert_restored(decoder, before)


def test_a_weight_that_changes_while_the_trained_decoder_is_measured_is_caught() -> None:
    decoder = tiny_decoder()
    with pytest.raises(CheckMissed, match=r"model\.norm\.weight"), Trained().applied(decoder), torch.no_grad():
        decoder.model.model.norm.weight[3] += 1


@FAMILIES
def test_conditions_share_dtype_device_and_attention(family: str) -> None:
    decoder = of(tiny_model(family).to(torch.bfloat16))
    trained = {name: value.dtype for name, value in weights(decoder).items()}
    for condition in (Trained(), Initial(0, "library"), Ablated("attention")):
        with condition.applied(decoder) as applied:
            assert {name: value.dtype for name, value in weights(applied.decoder).items()} == trained
            assert applied.decoder.model.config._attn_implementation == decoder.model.config._attn_implementation
            assert "bfloat16" in applied.proof.sentence


# --- initial


@FAMILIES
def test_no_tensor_of_the_initial_model_is_a_trained_one_when_every_trained_weight_is_seven(
    family: str, tmp_path: Any
) -> None:
    model = tiny_model(family, tied=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    model.save_pretrained(tmp_path)
    decoder = of(type(model).from_pretrained(tmp_path).eval())
    assert all(bool((parameter == 7).all()) for parameter in decoder.model.parameters()), "the trigger"
    with Initial(0, "library").applied(decoder) as applied:
        fresh = applied.decoder.model
        assert not any(bool((parameter == 7).any()) for parameter in fresh.parameters())
        assert fresh.lm_head.weight is fresh.get_input_embeddings().weight
        assert applied.proof.constants == ()
        assert "stay tied" in applied.proof.sentence
        assert set(applied.proof.changed) == set(dict(fresh.named_parameters(remove_duplicate=False)))
    assert all(bool((parameter == 7).all()) for parameter in decoder.model.parameters())


@FAMILIES
def test_tensors_that_both_recipes_make_constant_are_listed(family: str) -> None:
    decoder = of(type(tiny_model(family))(tiny_model(family).config).eval())  # untrained: gains 1, biases 0
    with Initial(5, "library").applied(decoder) as applied:
        constants = set(applied.proof.constants)
    expected = {name for name, value in decoder.model.named_parameters() if bool((value == value.flatten()[0]).all())}
    assert constants == expected
    assert {name.rsplit(".", 1)[-1] for name in constants} <= {"weight", "bias", "gate_up_proj_bias", "down_proj_bias"}
    assert all(
        value.ndim == 1 or name.endswith("bias")
        for name, value in decoder.model.named_parameters()
        if name in constants
    )
    assert f"{len(constants)} are constant in both" in applied.proof.sentence


def spoiled(monkeypatch: pytest.MonkeyPatch, spoil: Any) -> None:
    build = freshness.fresh_model

    def wrong(trained: Any, **options: Any) -> Any:
        fresh = build(trained, **options)
        with torch.no_grad():
            return spoil(trained, fresh) or fresh

    monkeypatch.setattr(conditions, "fresh_model", wrong)


def copied_matrix(trained: Any, fresh: Any) -> None:
    fresh.model.layers[2].mlp.up_proj.weight.copy_(trained.model.layers[2].mlp.up_proj.weight)


def copied_row(trained: Any, fresh: Any) -> None:
    fresh.model.layers[2].mlp.up_proj.weight[5] = trained.model.layers[2].mlp.up_proj.weight[5]


def copied_gain(trained: Any, fresh: Any) -> None:
    fresh.model.norm.weight.copy_(trained.model.norm.weight)


def the_trained_model(trained: Any, fresh: Any) -> Any:
    return trained


def moved_frequency(trained: Any, fresh: Any) -> None:
    fresh.model.rotary_emb.inv_freq[1] *= 2


def wider_embedding(trained: Any, fresh: Any) -> None:
    fresh.model.embed_tokens.weight.mul_(1.2)


def single_precision_norm(trained: Any, fresh: Any) -> None:
    fresh.model.norm.double()


def training_mode(trained: Any, fresh: Any) -> None:
    fresh.train()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (copied_matrix, r"still be the trained one, but model\.layers\.2\.mlp\.up_proj\.weight are"),
        (copied_row, r"still be the trained one, but model\.layers\.2\.mlp\.up_proj\.weight are"),
        (copied_gain, r"still be the trained one, but model\.norm\.weight are"),
        (the_trained_model, "still be the trained one, but .* and 36 more"),
        (moved_frequency, r"Buffers .* model\.rotary_emb\.inv_freq"),
        (wider_embedding, "embedding's spread must be the recipe's 0.02"),
        (single_precision_norm, r"model\.norm\.weight differ in name, shape, dtype or device"),
        (training_mode, "evaluation mode"),
    ],
)
def test_an_initial_model_that_is_not_fresh_is_caught(
    monkeypatch: pytest.MonkeyPatch, spoil: Any, message: str
) -> None:
    decoder = tiny_decoder()
    spoiled(monkeypatch, spoil)
    with pytest.raises(CheckMissed, match=message), Initial(0, "library").applied(decoder):
        pass


def test_a_lost_tie_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def untie(trained: Any, fresh: Any) -> None:
        fresh.lm_head.weight = torch.nn.Parameter(fresh.lm_head.weight.clone())

    decoder = tiny_decoder("gpt2")
    spoiled(monkeypatch, untie)
    with pytest.raises(CheckMissed, match="stay tied"), Initial(0, "library").applied(decoder):
        pass


@FAMILIES
def test_the_seed_decides_the_initial_model_and_the_global_random_state_is_left_alone(family: str) -> None:
    decoder = tiny_decoder(family)
    torch.manual_seed(11)
    expected = torch.rand(3)
    drawn = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(noise)
        with Initial(seed, "library").applied(decoder) as applied:
            drawn.append(weights(applied.decoder))
    torch.manual_seed(11)
    with Initial(3, "library").applied(decoder):
        assert torch.equal(torch.rand(3), expected)
    embedding = next(name for name in drawn[0] if drawn[0][name].ndim == 2)
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])
    assert not torch.equal(drawn[0][embedding], drawn[2][embedding])


@pytest.mark.parametrize("spread", [0.01, 0.3])
def test_measured_spreads_stand_beside_the_recipe(spread: float) -> None:
    decoder = of(tiny_gpt2(layers=2, width=64))
    with Initial(0, spread).applied(decoder) as applied:
        spreads = applied.proof.spreads
    assert spreads["recipe"] == spread
    assert spreads["transformer.wte.weight"] == pytest.approx(spread, rel=0.03)
    assert spreads["transformer.h.*.mlp.c_fc.weight"] == pytest.approx(spread, rel=0.03)
    assert spreads["transformer.h.*.mlp.c_proj.weight"] == pytest.approx(spread / 2, rel=0.03), (
        "GPT-2: sqrt(2 x 2 blocks)"
    )
    assert "divided by sqrt(2 x 2) in transformer.h.*.attn.c_proj.weight" in applied.proof.sentence


def test_recipes_are_the_decoders_own_numbers_and_an_unknown_one_says_what_to_give() -> None:
    facts = tiny_decoder().facts
    assert Initial(0, "library").spread(facts) == facts.library_spread
    assert Initial(0, 0.07).spread(facts) == 0.07
    known, unknown = (copy.copy(facts) for _ in range(2))
    object.__setattr__(known, "released_spread", 1 / 24)
    object.__setattr__(unknown, "released_spread", None)
    assert Initial(0).spread(known) == 1 / 24
    with pytest.raises(ArgumentError, match='recipe="library"'):
        Initial(0).spread(unknown)
    assert Initial(0, "library").spread(unknown) == unknown.library_spread, "the remedy, followed"


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1},
        {"seed": 0.5},
        {"seed": True},
        *({"seed": 0, "recipe": r} for r in ("own", 0, -1, float("nan"), True)),
    ],
)
def test_a_bad_seed_or_recipe_is_refused(options: Any) -> None:
    with pytest.raises(ArgumentError, match=r"Argument `(seed|recipe)` must .*\. Give "):
        Initial(**options)


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (lambda model: model.model.norm.double(), lambda model: model.float()),
        (lambda model: setattr(model.lm_head, "weight", model.model.embed_tokens.weight),
         lambda model: setattr(model.config, "tie_word_embeddings", True)),
        (lambda model: model.model.rotary_emb.inv_freq.mul_(2), lambda model: tiny_llama()),
    ],
    ids=["one dtype", "the configuration says what is tied", "reloaded"],
)  # fmt: skip
def test_a_decoder_that_no_fresh_model_can_resemble_is_refused_and_the_remedy_works(spoil: Any, remedy: Any) -> None:
    model = tiny_llama()
    decoder = of(model)
    spoil(model)
    with (
        pytest.raises(CheckMissed, match=r"to one dtype and device|Set `tie_word_embeddings`|Reload the decoder"),
        Initial(0, "library").applied(decoder),
    ):
        pass
    repaired = remedy(model)
    with Initial(0, "library").applied(of(repaired if isinstance(repaired, torch.nn.Module) else model)) as applied:
        assert "none is still trained" in applied.proof.sentence


def test_a_decoder_drawn_from_the_same_seed_is_caught_and_another_seed_is_the_remedy() -> None:
    model = tiny_llama()
    spread = of(model).facts.library_spread
    decoder = of(freshness.fresh_model(model, spread=spread, seed=7))
    with pytest.raises(CheckMissed, match="Give another seed"), Initial(7, "library").applied(decoder):
        pass
    with Initial(8, "library").applied(decoder) as applied:
        assert "none is still trained" in applied.proof.sentence


# --- ablated


@FAMILIES
def test_exactly_the_named_part_changes_and_comes_back(family: str) -> None:
    decoder, ids = tiny_decoder(family), tiny_ids()
    before, expected = weights(decoder), decoder.logits(ids)
    for condition in ABLATIONS:
        with condition.applied(decoder) as applied:
            now = weights(applied.decoder)
            changed = {name for name in now if not torch.equal(now[name], before[name])}
            assert changed == set(applied.proof.changed), condition.name
            assert applied.proof.unchanged + len(applied.proof.changed) == len(fingerprints(decoder.model))
            assert not torch.allclose(applied.decoder.logits(ids), expected, atol=1e-3), condition.name
        assert_restored(decoder, before)
        assert torch.equal(decoder.logits(ids), expected), condition.name


@FAMILIES
@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_weights_come_back_whatever_ends_the_block(family: str, trouble: type[BaseException]) -> None:
    decoder = tiny_decoder(family)
    before = weights(decoder)
    for condition in ABLATIONS:
        with pytest.raises(trouble), condition.applied(decoder):
            raise trouble
        assert_restored(decoder, before)


def outputs(decoder: Decoder, modules: list[Any], ids: torch.Tensor) -> list[torch.Tensor]:
    seen: list[torch.Tensor] = []
    hooks = [
        module.register_forward_hook(lambda *a: seen.append(a[2][0] if isinstance(a[2], tuple) else a[2]))
        for module in modules
    ]
    decoder.logits(ids)
    for hook in hooks:
        hook.remove()
    return seen


@FAMILIES
@pytest.mark.parametrize("part", ["attention", "mlp"])
@pytest.mark.parametrize("layers", [None, (2, 4)])
def test_a_removed_sublayer_adds_exactly_zero_and_the_others_still_add(family: str, part: Any, layers: Any) -> None:
    decoder = of(tiny_llama(attention_bias=True)) if family == "llama" else tiny_decoder(family)
    sublayers = {name: [decoder.added(name, layer) for layer in (1, 2, 3, 4)] for name in ("attention", "mlp")}
    with Ablated(part, layers).applied(decoder):
        for name, modules in sublayers.items():
            for layer, output in enumerate(outputs(decoder, modules, tiny_ids()), start=1):
                removed = name == part and layer in (layers or (1, 2, 3, 4))
                assert bool((output == 0).all()) == removed


@FAMILIES
@pytest.mark.parametrize(("layer", "head"), [(1, 0), (3, 2), (4, 3)])
def test_removing_a_head_is_the_same_as_silencing_what_it_hands_to_the_output_projection(
    family: str, layer: int, head: int
) -> None:
    decoder, ids = tiny_decoder(family), tiny_ids()
    size = decoder.facts.head_dim

    def silence(_: Any, inputs: Any) -> Any:
        heads = inputs[0].clone()
        heads[..., head * size : (head + 1) * size] = 0
        return (heads,)

    hook = decoder.attention_output(layer).register_forward_pre_hook(silence)
    expected = decoder.logits(ids)
    hook.remove()
    with Ablated("head", (layer,), head).applied(decoder):
        removed = decoder.logits(ids)
    torch.testing.assert_close(removed, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(removed, decoder.logits(ids), atol=1e-2)


@FAMILIES
def test_without_positions_the_order_of_earlier_tokens_is_invisible_to_one_block(family: str) -> None:
    decoder = of(tiny_model(family, layers=1))
    ids = tiny_ids(documents=1, tokens=WINDOW)  # a sliding window stays when positions go: all tokens lie within it
    shuffled = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    last, moved = decoder.hidden(ids)[:, -1], decoder.hidden(shuffled)[:, -1]
    assert not torch.allclose(last, moved, atol=1e-2), "with positions the order matters"
    with Ablated("positions").applied(decoder):
        last, moved = decoder.hidden(ids)[:, -1], decoder.hidden(shuffled)[:, -1]
        earlier, changed = decoder.hidden(ids)[:, 3], decoder.hidden(shuffled)[:, 3]
    torch.testing.assert_close(last, moved, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(earlier, changed, atol=1e-2), "the mask is still causal"


@pytest.mark.parametrize("family", [name for name in families() if FAMILIES_BY_NAME[name].sinks is None])
def test_without_positions_a_repeated_token_has_one_state_at_every_place(family: str) -> None:
    """But for learned sinks, whose share falls with the number of earlier tokens."""
    decoder, ids = tiny_decoder(family), torch.full((1, 9), 65)
    if family == "gpt2":
        assert not torch.allclose(decoder.hidden(ids)[0, 0], decoder.hidden(ids)[0, 8], atol=1e-2)
    with Ablated("positions").applied(decoder):
        states = decoder.hidden(ids)[0]
    torch.testing.assert_close(states, states[:1].expand_as(states), rtol=1e-5, atol=1e-5)


def test_an_ablation_that_touches_another_tensor_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, remove = tiny_decoder(), removal._set_to_zero
    down = weights(decoder)["model.layers.0.mlp.down_proj.weight"]

    def careless(cuts: Any) -> None:
        remove(cuts)
        decoder.model.model.layers[1].mlp.up_proj.weight.data[0, 0] += 1e-3

    monkeypatch.setattr(removal, "_set_to_zero", careless)
    with (
        pytest.raises(CheckMissed, match=r"model\.layers\.1\.mlp\.up_proj\.weight changed too"),
        Ablated("mlp").applied(decoder),
    ):
        pass
    assert torch.equal(decoder.model.model.layers[0].mlp.down_proj.weight, down)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_head_cut_from_the_wrong_columns_is_caught(monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    decoder = tiny_decoder()

    def careless(cuts: Any) -> None:
        cuts[0].tensor.data.select(axis, 0).zero_()

    monkeypatch.setattr(removal, "_set_to_zero", careless)
    with pytest.raises(CheckMissed, match="only its part"), Ablated("head", (1,), 2).applied(decoder):
        pass


def test_an_ablation_that_did_not_happen_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = tiny_decoder()
    monkeypatch.setattr(removal, "_set_to_zero", lambda cuts: None)
    with pytest.raises(CheckMissed, match="must change the decoder"), Ablated("mlp").applied(decoder):
        pass


def test_an_ablation_of_half_the_blocks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, remove = tiny_decoder(), removal._set_to_zero
    monkeypatch.setattr(removal, "_set_to_zero", lambda cuts: remove(cuts[:2]))
    with pytest.raises(CheckMissed, match=r"layers\.2\.mlp"), Ablated("mlp").applied(decoder):
        pass


def test_another_weight_that_changes_while_a_part_is_removed_is_caught() -> None:
    decoder = tiny_decoder()
    with (
        pytest.raises(CheckMissed, match=r"after ablated-mlp model\.norm\.weight differ"),
        Ablated("mlp").applied(decoder),
    ):
        decoder.model.model.norm.weight.data[3] += 1
    with Ablated("mlp").applied(tiny_decoder()) as applied:  # the remedy, followed: the decoder anew
        assert len(applied.proof.changed) == 4


def test_a_part_that_comes_back_before_the_end_is_caught() -> None:
    decoder = tiny_decoder()
    before = weights(decoder)
    with pytest.raises(CheckMissed, match="zero no more"), Ablated("positions").applied(decoder):
        decoder.model.model.rotary_emb.inv_freq.fill_(1)
    assert_restored(decoder, before)


def test_position_frequencies_that_the_model_rebuilds_while_it_runs_are_caught() -> None:
    from transformers import LlamaForCausalLM

    config = copy.deepcopy(tiny_llama().config)
    config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    decoder = of(randomized(LlamaForCausalLM(config), seed=0))
    before = weights(decoder)
    with Ablated("positions").applied(decoder):
        decoder.hidden(tiny_ids(tokens=64))
    too_long = tiny_ids(documents=1, tokens=80)
    with pytest.raises(CheckMissed, match="zero no more"), Ablated("positions").applied(decoder), torch.no_grad():
        decoder.inner(input_ids=too_long, use_cache=False)
    assert_restored(decoder, before)


def test_a_bias_that_was_zero_before_is_said_not_to_have_changed() -> None:
    decoder = tiny_decoder("gpt2")
    with torch.no_grad():
        for layer in (1, 2, 3, 4):
            decoder.mlp_output(layer).bias.zero_()
    with Ablated("mlp").applied(decoder) as applied:
        assert len(applied.proof.changed) == 4
        assert "4 of them zero before" in applied.proof.sentence


@pytest.mark.parametrize(
    ("part", "options", "names"),
    [
        ("norm", {}, "part"),
        ("mlp", {"layers": ()}, "layers"),
        ("mlp", {"layers": (0,)}, "layers"),
        ("mlp", {"layers": "3"}, "layers"),
        ("mlp", {"layers": (1.0,)}, "layers"),
        ("mlp", {"head": 0}, "head"),
        ("positions", {"layers": (1,)}, "layers"),
        ("head", {}, "layers"),
        ("head", {"layers": (1, 2), "head": 0}, "layers"),
        ("head", {"layers": (1,)}, "head"),
        ("head", {"layers": (1,), "head": -1}, "head"),
    ],
)
def test_an_ablation_that_makes_no_sense_is_refused(part: Any, options: Any, names: str) -> None:
    with pytest.raises(ArgumentError, match=rf"Arguments? .*`{names}`.* must .*, but "):
        Ablated(part, **options)


@pytest.mark.parametrize(
    ("condition", "range_"),
    [(Ablated("mlp", (4, 5)), "1 and 4"), (Ablated("head", (5,), 0), "1 and 4"), (Ablated("head", (1,), 4), "0 and 3")],
)
def test_a_block_or_head_the_decoder_does_not_have_is_refused(condition: Ablated, range_: str) -> None:
    decoder = tiny_decoder()
    with pytest.raises(ArgumentError, match=f"must lie between {range_}"), condition.applied(decoder):
        pass


def test_a_part_that_is_zero_already_is_refused_and_the_others_can_still_be_removed() -> None:
    decoder = tiny_decoder()
    with torch.no_grad():
        decoder.mlp_output(2).weight.zero_()
    with pytest.raises(CheckMissed, match="Leave it out"), Ablated("mlp", (2,)).applied(decoder):
        pass
    with Ablated("mlp", (1, 3, 4)).applied(decoder) as applied:
        assert len(applied.proof.changed) == 3


def test_a_module_that_is_switched_to_training_mode_is_named_and_eval_is_the_remedy() -> None:
    decoder = tiny_decoder()
    decoder.model.model.norm.train()
    with pytest.raises(CheckMissed, match=r"model\.norm is in training mode\. Call `\.eval\(\)`"):
        proofs.manner(decoder.model)
    decoder.model.eval()
    assert "evaluation mode" in proofs.manner(decoder.model)


# --- fingerprints


def digests(tensor: torch.Tensor) -> bytes:
    module = torch.nn.Module()
    module.register_buffer("value", tensor, persistent=False)
    return fingerprints(module)["value"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (16, 16), (5, 3, 7), (1001,)])
def test_a_fingerprint_sees_every_single_entry(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randint(1, 50, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    original = digests(tensor)
    for place in range(0, tensor.numel(), 13):
        other = tensor.clone()
        other.view(-1)[place] += 1
        assert digests(other) != original
    assert digests(tensor.clone()) == original


def test_a_fingerprint_sees_exchanged_rows_columns_and_heads_and_minus_zero() -> None:
    tensor = torch.randn(24, 24, generator=torch.Generator().manual_seed(0))
    original = digests(tensor)
    assert digests(tensor.flip(0)) != original
    assert digests(tensor.flip(1)) != original
    assert digests(tensor.roll(6, 1)) != original
    assert digests(tensor.T.contiguous()) != original
    assert digests(torch.zeros(3)) != digests(-torch.zeros(3))
    assert digests(tensor.T) == digests(tensor.T.contiguous()), "how it lies in memory does not matter"
    assert digests(torch.zeros(0, 3)) != digests(torch.zeros(3, 0))


def test_fingerprints_include_tied_names_and_buffers_that_are_not_saved() -> None:
    found = fingerprints(tiny_llama(tied=True))
    assert found["lm_head.weight"] == found["model.embed_tokens.weight"]
    assert "model.rotary_emb.inv_freq" in found


# --- names


@pytest.mark.parametrize(
    ("text", "condition", "name", "label"),
    [
        ("trained", Trained(), "trained", "trained"),
        ("initial", Initial(0), "initial-released-seed0", "initial, released recipe, seed 0"),
        ("initial:library", Initial(0, "library"), "initial-library-seed0", "initial, library recipe, seed 0"),
        ("initial:released:2", Initial(2), "initial-released-seed2", "initial, released recipe, seed 2"),
        ("initial:0.01:3", Initial(3, 0.01), "initial-0.01-seed3", "initial, spread 0.01, seed 3"),
        ("initial:1e-5:3", Initial(3, 1e-5), "initial-1e-05-seed3", "initial, spread 1e-05, seed 3"),
        ("ablated:attention", Ablated("attention"), "ablated-attention", "attention removed in every block"),
        (" ablated:mlp ", Ablated("mlp"), "ablated-mlp", "MLP removed in every block"),
        ("ablated:positions", Ablated("positions"), "ablated-positions", "positions removed"),
        ("ablated:mlp:3-4", Ablated("mlp", (3, 4)), "ablated-mlp-3-4", "MLP removed in blocks 3-4"),
        ("ablated:mlp:9+3-5", Ablated("mlp", (3, 4, 5, 9)), "ablated-mlp-3-5+9", "MLP removed in blocks 3-5, 9"),
        ("ablated:attention:2", Ablated("attention", (2,)), "ablated-attention-2", "attention removed in block 2"),
        ("ablated:head:16:0", Ablated("head", (16,), 0), "ablated-head-16-0", "head 0 removed in block 16"),
    ],
)
def test_a_condition_has_a_text_a_name_and_a_label(text: str, condition: Any, name: str, label: str) -> None:
    assert parse_condition(text) == condition == parse_condition(name)
    assert condition.name == name
    assert condition.label == label


@pytest.mark.parametrize(
    "text",
    ["", "random", "trained:0", "initial:own", "initial:0.01:x", "initial:-1", "initial:library:0:1", "ablated", "ablated:norm",
     "ablated:head", "ablated:head:16", "ablated:head:0:0", "ablated:mlp:0", "ablated:mlp:5-3", "ablated:mlp:x", "ablated:positions:1",
     "initial-library", "initial-own-seed0", "initial-library-seedx", "ablated-norm", "ablated-head-16", "ablated-mlp-0"],
)  # fmt: skip
def test_an_unknown_condition_is_answered_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(
        ArgumentError, match=r"Argument `condition`.*Accepted: trained; initial; .*ablated-head-BLOCK-HEAD"
    ):
        parse_condition(text)


@pytest.mark.parametrize(
    "text", ["ablated:mlp:0", "ablated:head:0:0", "initial:-1", "initial:0.01:-3", "ablated:mlp:20000"]
)
def test_the_answer_to_a_condition_out_of_range_is_one_sentence_about_one_argument_and_gives_the_range(
    text: str,
) -> None:
    with pytest.raises(ArgumentError, match=r"positive spread .*SEED from 0.*blocks from 1 .*heads from 0") as caught:
        parse_condition(text)
    assert str(caught.value).count("Argument") == 1


@pytest.mark.decoder
def test_the_default_decoder_goes_through_all_its_conditions_and_comes_back_unharmed() -> None:
    from armillary.models.decoder import load_decoder

    decoder = load_decoder()
    before = fingerprints(decoder.model)
    for recipe, spread in (("released", 1 / 24), ("library", 0.02)):
        with Initial(0, recipe).applied(decoder) as applied:
            assert applied.proof.constants == ()
            assert applied.proof.spreads["model.layers.*.self_attn.q_proj.weight"] == pytest.approx(spread, rel=2e-3)
            assert applied.decoder.facts.quantization is None
            assert applied.decoder.facts.weight_hash != decoder.facts.weight_hash
    with Ablated("head", (16,), 0).applied(decoder) as applied:
        assert applied.proof.changed == ("model.layers.15.self_attn.o_proj.weight",)
        assert fingerprints(load_decoder().model) == before, (
            "the cached file is not written to, though weights are mapped"
        )
    assert fingerprints(decoder.model) == before
