"""The decoder's contract, proved on one short pass after loading: what every later measurement takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import NumericalError, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, hook_count, stream

__all__ = ["Promise", "left_as_found", "prove", "require"]

ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""What counts as rounding, relative to the largest entry, by the type of the weights; in float64 the library still
takes rotations and the eager softmax in float32."""


@dataclass(frozen=True)
class Promise:
    """One sentence of the contract, what it expected and what was found."""

    name: str
    expected: str
    got: str
    passed: bool


@dataclass
class _Pass:
    """What one eager pass showed: the stream, the sublayers' outputs, and the library's own lists."""

    residuals: dict[Tap, Tensor] = field(default_factory=dict)
    sublayers: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    attentions: tuple[Tensor, ...] = ()
    hidden_states: tuple[Tensor, ...] = ()
    logits: Tensor = field(default_factory=lambda: torch.empty(0))


def prove(decoder: Decoder, *, tokens: int = 12) -> tuple[Promise, ...]:
    """Put every promise of the contract to the test on random ids; the model is left exactly as found.

    The attention maps need the library's eager implementation: it is switched on for one pass and switched back.

    Args:
        decoder: the decoder.
        tokens: the length of the three documents of the test, cut to the context; the third is the first with another
            last token, so that one pass shows whether earlier positions see it.
    Returns:
        The promises in order, kept or missed.
    """
    tokens = min(tokens, decoder.facts.context)
    ids = _test_ids(decoder, tokens)
    before = hook_count(decoder.model)
    with left_as_found(decoder.model):
        eager = _eager_pass(decoder, ids)
        plain = decoder.logits(ids)
        with stream(decoder, lambda tap, residual, read: residual):
            captured = decoder.logits(ids)
        again = decoder.logits(ids)
        promises = (
            _finite(decoder, eager),
            _shapes(decoder, eager, ids),
            _rows_sum_to_one(decoder, eager, ids),
            _causal(decoder, eager, plain),
            _sublayers_add_up(decoder, eager),
            _attention_matters(decoder, plain, ids),
            _same(
                "one function",
                "maps are those of the attention in use: eager and usual logits agree",
                eager.logits,
                plain,
            ),
            _exact("capture", "logits with and without capture agree", plain, captured),
            _exact("repetition", "a second pass is identical", plain, again),
            _library_list(decoder, eager),
        )
    after = hook_count(decoder.model)
    training = sum(module.training for module in decoder.model.modules())
    return (
        *promises,
        Promise("evaluation mode", "no module in training mode", f"{training} in training mode", training == 0),
        Promise("hooks", f"{before} hooks, as before", f"{after} hooks", after == before),
    )


def require(decoder: Decoder, promises: tuple[Promise, ...]) -> None:
    """Refuse a decoder that missed a promise.

    Raises:
        NumericalError: states of the proof are NaN or infinite: nothing can be said about the other promises.
        UnsupportedModelError: names the first promise missed.
    """
    missed = next((promise for promise in promises if not promise.passed), None)
    if missed is not None and missed.name == "finite":
        raise NumericalError(
            f"States must be finite, but in condition trained, {missed.got}. Check the weights, or use --dtype float32."
        )
    if missed is not None:
        raise UnsupportedModelError(
            f"Argument `source` must be a decoder that keeps its contract, but {decoder.facts.name} misses "
            f'"{missed.name}": expected {missed.expected}; got {missed.got}. Measure another model, or correct its '
            "family."
        )


@contextmanager
def left_as_found(model: nn.Module) -> Iterator[None]:
    """Afterwards hooks and attention implementation are those of before, by whatever exception.

    The library hangs hooks of its own on a model the first time attention maps or hidden states are asked of it; they
    go too.
    """
    mark = "_output_capturing_hooks_installed"
    held = {module: (set(module._forward_hooks), set(module._forward_pre_hooks)) for module in model.modules()}
    marked = {module for module in held if getattr(module, mark, False)}
    config: Any = model.config
    implementation = config._attn_implementation
    try:
        yield
    finally:
        for module in model.modules():
            hooks, pre_hooks = held.get(module, (set(), set()))
            for key in set(module._forward_hooks) - hooks:
                module._forward_hooks.pop(key)
                module._forward_hooks_with_kwargs.pop(key, None)
            for key in set(module._forward_pre_hooks) - pre_hooks:
                module._forward_pre_hooks.pop(key)
                module._forward_pre_hooks_with_kwargs.pop(key, None)
            if getattr(module, mark, False) and module not in marked:
                setattr(module, mark, False)
        if config._attn_implementation != implementation:
            _use(model, implementation)


def _test_ids(decoder: Decoder, tokens: int) -> Tensor:
    ids = torch.randint(decoder.facts.vocabulary, (3, tokens), generator=torch.Generator().manual_seed(0))
    ids[2] = ids[0]
    ids[2, -1] = (ids[0, -1] + 1) % decoder.facts.vocabulary
    return ids


def _use(model: Any, implementation: str) -> None:
    model.set_attn_implementation(implementation)


def _eager_pass(decoder: Decoder, ids: Tensor) -> _Pass:
    seen = _Pass()

    def keep(tap: Tap, residual: Tensor, read: Tensor) -> None:
        seen.residuals[tap] = residual

    def listening(kind: str, layer: int) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            seen.sublayers[kind, layer] = output[0] if isinstance(output, tuple) else output

        return hook

    implementation = decoder.model.config._attn_implementation
    _use(decoder.model, "eager")
    with ExitStack() as hooks, torch.no_grad():
        for layer in range(1, decoder.facts.layers + 1):
            hooks.callback(decoder.attention(layer).register_forward_hook(listening("attention", layer)).remove)
            hooks.callback(decoder.mlp(layer).register_forward_hook(listening("mlp", layer)).remove)
        hooks.enter_context(stream(decoder, keep))
        output = decoder.model(
            input_ids=ids.to(decoder.device), use_cache=False, output_attentions=True, output_hidden_states=True
        )
    _use(decoder.model, implementation)
    seen.attentions, seen.hidden_states = tuple(output.attentions or ()), tuple(output.hidden_states or ())
    seen.logits = output.logits
    return seen


def _finite(decoder: Decoder, seen: _Pass) -> Promise:
    """The first state that is not finite, by layer, document and token, and the first weight that is not."""
    states = [(f"layer {tap.layer} ({tap.place})", state) for tap, state in seen.residuals.items()]
    for where, state in (*states, ("the logits", seen.logits)):
        wrong = (~torch.isfinite(state)).nonzero()
        if len(wrong):
            document, token, _ = wrong[0].tolist()
            kind = "NaN" if bool(torch.isnan(state[document, token]).any()) else "infinite"
            named = decoder.model.named_parameters()
            weight = next((name for name, value in named if not bool(torch.isfinite(value).all())), None)
            got = f"{where}, document {document + 1} of the proof's random ids, token {token}, a coordinate is {kind}"
            got += "" if weight is None else f", and so is an entry of the weight {weight}"
            return Promise("finite", "no state NaN or infinite", got, False)
    return Promise("finite", "no state NaN or infinite", f"{len(states)} taps and the logits, all finite", True)


def _shapes(decoder: Decoder, seen: _Pass, ids: Tensor) -> Promise:
    expected = [*ids.shape, decoder.facts.width]
    states = [*seen.residuals.values(), *seen.sublayers.values()]
    wrong = [list(state.shape) for state in states if list(state.shape) != expected]
    wrong += [list(seen.logits.shape)] if list(seen.logits.shape) != [*ids.shape, decoder.facts.vocabulary] else []
    layers = decoder.facts.layers
    counts = (len(seen.residuals), len(seen.sublayers))
    return Promise(
        "shapes",
        f"{2 * layers + 1} taps and {2 * layers} sublayer outputs {expected}, logits [..., {decoder.facts.vocabulary}]",
        f"{counts[0]} taps and {counts[1]} sublayer outputs"
        + (f", one of them {wrong[0]}" if wrong else ", all of that shape"),
        not wrong and counts == (2 * layers + 1, 2 * layers),
    )


def _rows_sum_to_one(decoder: Decoder, seen: _Pass, ids: Tensor) -> Promise:
    expected = [ids.shape[0], decoder.facts.heads, ids.shape[1], ids.shape[1]]
    fitting = [maps for maps in seen.attentions if list(maps.shape) == expected]
    worst = max((float((maps.double().sum(-1) - 1).abs().max()) for maps in fitting), default=float("nan"))
    tolerance = _tolerance(decoder)
    return Promise(
        "attention rows",
        f"{decoder.facts.layers} maps {expected}, rows sum to one within {tolerance:g}",
        f"{len(fitting)} such maps of {len(seen.attentions)}, largest departure {worst:.1e}",
        len(fitting) == len(seen.attentions) == decoder.facts.layers and worst <= tolerance,
    )


def _causal(decoder: Decoder, seen: _Pass, plain: Tensor) -> Promise:
    ahead = max((float(maps.triu(1).abs().max()) for maps in seen.attentions), default=float("nan"))
    leak = _difference(plain[2, :-1], plain[0, :-1])
    return Promise(
        "causal",
        "attention ahead exactly 0, and logits before the last token blind to it",
        f"attention ahead at most {ahead:.1e}, logits before the last token moved by {leak:.1e}",
        ahead == 0 and leak <= _tolerance(decoder),
    )


def _sublayers_add_up(decoder: Decoder, seen: _Pass) -> Promise:
    worst, place = 0.0, ""
    for layer in range(1, decoder.facts.layers + 1):
        start, middle, end = (seen.residuals.get(tap) for tap in (Tap(layer - 1), Tap(layer, "mid"), Tap(layer)))
        for before, after, kind in ((start, middle, "attention"), (middle, end, "mlp")):
            update = seen.sublayers.get((kind, layer))
            if before is None or after is None or update is None or before.shape != update.shape:
                return Promise("sublayers", "stream + attention + MLP = stream", f"no {kind} of block {layer}", False)
            apart = _difference(before + update, after)
            if not apart <= worst:  # NaN counts as apart
                worst, place = apart, f" ({kind} of block {layer})"
    return Promise(
        "sublayers",
        f"stream in + attention + MLP = stream out in every block, within {_tolerance(decoder):g}",
        f"largest departure {worst:.1e}{place}",
        worst <= _tolerance(decoder),
    )


def _attention_matters(decoder: Decoder, plain: Tensor, ids: Tensor) -> Promise:
    """The output of every attention is halved on the way; a decoder whose attention has no effect does not notice."""

    def halved(module: nn.Module, inputs: Any, output: Any) -> Any:
        return (output[0] / 2, *output[1:]) if isinstance(output, tuple) else output / 2

    handles = [decoder.attention(layer).register_forward_hook(halved) for layer in range(1, decoder.facts.layers + 1)]
    try:
        moved = _difference(decoder.logits(ids), plain)
    finally:
        for handle in handles:
            handle.remove()
    least = 10 * _tolerance(decoder)
    return Promise(
        "attention matters",
        f"halving attention moves logits by more than {least:g}",
        f"moved by {moved:.1e}",
        moved > least,
    )


def _library_list(decoder: Decoder, seen: _Pass) -> Promise:
    layers = decoder.facts.layers
    expected = f"{layers + 1} states: layers 0..{layers - 1} as tapped, and last the final norm of block {layers}"
    if len(seen.hidden_states) != layers + 1 or Tap(layers) not in seen.residuals:
        return Promise("library's list", expected, f"{len(seen.hidden_states)} states", False)
    with torch.no_grad():
        final = decoder.final_norm(seen.residuals[Tap(layers)])
    tapped = max(_difference(seen.hidden_states[layer], seen.residuals[Tap(layer)]) for layer in range(layers))
    last = _difference(seen.hidden_states[layers], final)
    return Promise(
        "library's list",
        expected,
        f"{len(seen.hidden_states)} states, largest departure {tapped:.1e}, of the last {last:.1e}",
        max(tapped, last) <= _tolerance(decoder),
    )


def _same(name: str, expected: str, one: Tensor, other: Tensor) -> Promise:
    apart, tolerance = _difference(one, other), 10 * ROUNDING.get(one.dtype, 1e-5)
    return Promise(name, f"{expected} within {tolerance:g}", f"largest departure {apart:.1e}", apart <= tolerance)


def _exact(name: str, expected: str, one: Tensor, other: Tensor) -> Promise:
    apart = _difference(one, other)
    return Promise(name, f"{expected}, to the last bit", f"largest departure {apart:.1e}", apart == 0)


def _tolerance(decoder: Decoder) -> float:
    return ROUNDING.get(next(decoder.model.parameters()).dtype, 1e-5)


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest entry of the difference over the largest of the second; NaN for unlike shapes or NaN entries."""
    if one.shape != other.shape:
        return float("nan")
    scale = other.double().abs().max()
    return float((one.double() - other.double()).abs().max() / torch.where(scale > 0, scale, torch.ones_like(scale)))
