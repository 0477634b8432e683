"""The sentences of a decoder's contract: each a function of what the proof's passes showed, each able to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, taps_of
from armillary.models.evidence import (
    ROUNDING,
    SUBLAYERS,
    Evidence,
    difference,
    first,
    hands_out_maps,
    largest,
    tolerance,
)
from armillary.models.evidence import present as part_present
from armillary.models.norming import normalized
from armillary.models.trials import batching, grouped_heads, sinks

__all__ = ["BEFORE_ANY_PASS", "PROMISES", "Promise"]


@dataclass(frozen=True)
class Promise:
    """One sentence of the contract, what it expected and what was found."""

    name: str
    expected: str
    got: str
    passed: bool


def _distinct_blocks(decoder: Decoder) -> Promise:
    """Hooks on a module that two blocks share could not tell them apart."""
    blocks, readers = decoder.blocks, [module for module, _ in decoder.readers]
    wanted = getattr(decoder.model.config, "num_hidden_layers", len(blocks))
    repeated = [layer for layer, block in enumerate(blocks, 1) if any(block is other for other in blocks[: layer - 1])]
    shared = len(readers) - len(set(map(id, readers)))
    got = f"{len(blocks)} blocks"
    if repeated:
        got += f", of which block {repeated[0]} is an earlier one again"
    elif shared:
        got += f", {shared} of whose norms are those of another block"
    passed = len(blocks) == wanted > 0 and not repeated and not shared
    return Promise("distinct blocks", f"{max(wanted, 1)} blocks with modules of their own", got, passed)


def _tied_weights(decoder: Decoder) -> Promise:
    head: Any = decoder.head
    embedding: Any = decoder.embedding
    wanted = bool(getattr(decoder.model.config, "tie_word_embeddings", False))
    held = head.weight is embedding.weight
    words = {True: "embedding and head are one tensor", False: "embedding and head are two tensors"}
    return Promise("tied weights", words[wanted] + ", as the configuration says", words[held], held == wanted)


def _maps_at_hand(decoder: Decoder) -> Promise:
    """A class that keeps a fused attention hands out maps that are not those of its output, or none."""
    implementation = decoder.model.config._attn_implementation
    passed = hands_out_maps(decoder.model)
    got = "they do" if passed else f'they keep "{implementation}": load the model with attn_implementation="eager"'
    return Promise("maps at hand", "attentions that are eager, or become so when told to", got, passed)


def _finite(seen: Evidence) -> Promise:
    """The first state that is not finite, by layer, document and token, and the first weight that is not."""
    states = [(f"layer {tap.layer} ({tap.place})", seen.residuals[tap]) for tap in sorted(seen.residuals, key=_depth)]
    for where, state in (*states, ("the logits", seen.logits)):
        wrong = (~torch.isfinite(state)).nonzero()
        if len(wrong):
            document, token, _ = wrong[0].tolist()
            kind = "NaN" if bool(torch.isnan(state[document, token]).any()) else "infinite"
            named = seen.decoder.model.named_parameters()
            weight = next((name for name, value in named if not bool(torch.isfinite(value).all())), None)
            got = f"{where}, document {document + 1} of the proof's random ids, token {token}, a coordinate is {kind}"
            got += "" if weight is None else f", and so is an entry of the weight {weight}"
            return Promise("finite", "no state NaN or infinite", got, False)
    return Promise("finite", "no state NaN or infinite", f"{len(states)} taps and the logits, all finite", True)


def _depth(tap: Tap) -> float:
    return tap.depth


def _shapes(seen: Evidence) -> Promise:
    facts, ids = seen.decoder.facts, seen.ids
    expected = [*ids.shape, facts.width]
    states = [*seen.residuals.values(), *seen.reads.values(), *seen.updates.values()]
    wrong = [list(state.shape) for state in states if list(state.shape) != expected]
    wrong += [list(seen.logits.shape)] if list(seen.logits.shape) != [*ids.shape, facts.vocabulary] else []
    taps, updates = len(taps_of(seen.decoder)), 2 * facts.layers
    counts = (len(seen.residuals), len(seen.updates))
    return Promise(
        "shapes",
        f"{taps} taps and {updates} sublayer outputs {expected}, logits [..., {facts.vocabulary}]",
        f"{counts[0]} taps and {counts[1]} sublayer outputs"
        + (f", one of them {wrong[0]}" if wrong else ", all of that shape"),
        not wrong and counts == (taps, updates),
    )


def _norms(seen: Evidence) -> Promise:
    """Every norm that reads the stream, against the formula that its family's row states."""
    decoder, row = seen.decoder, seen.decoder.family
    worst, count = 0.0, 0
    for tap, (norm, is_norm) in zip(taps_of(decoder), decoder.readers, strict=True):
        if is_norm:
            apart = difference(normalized(seen.residuals[tap], norm, kind=row.norm, gain=row.gain), seen.reads[tap])
            worst, count = largest((worst, apart)), count + 1
    formula = {"RMSNorm": "x / rms(x)", "LayerNorm": "(x - mean) / standard deviation"}[row.norm]
    formula += {"weight": " times the gain", "1 + weight": " times (1 + the stored gain)", "none": ", no gain"}[
        row.gain
    ]
    return Promise(
        "norms",
        f"each {row.norm} is {formula}, within {tolerance(decoder):g}",
        f"{count} norms read the stream, largest departure {worst:.1e}",
        worst <= tolerance(decoder),
    )


def _start(seen: Evidence) -> Promise:
    """Layer 0 from the embedding's own rows, and how its norm compares with theirs."""
    decoder, row = seen.decoder, seen.decoder.family
    embedding: Any = decoder.embedding
    raw = embedding.weight.detach()[seen.ids.to(embedding.weight.device)]
    state = raw * decoder.embedding_multiplier
    with torch.no_grad():
        for path in (row.embedding_projection, row.position_embedding, row.embedding_norm):
            module = None if path is None else part_present(decoder.model, path)
            if path is not None and module is not None:
                state = state + seen.beginning[path] if path == row.position_embedding else module(state)
    got = seen.residuals[Tap(0)]
    apart = difference(got, state)
    ratio = float((got.double().norm(dim=-1) / raw.double().norm(dim=-1)).mean())
    return Promise(
        "start of the stream",
        f"layer 0 is {row.start_of_stream}, within {tolerance(decoder):g}",
        f"largest departure {apart:.1e}; its norm is {ratio:.4g} times that of the raw embedding",
        apart <= tolerance(decoder),
    )


def _attention_rows(seen: Evidence) -> Promise:
    facts, tokens = seen.decoder.facts, seen.ids.shape[1]
    expected = [seen.ids.shape[0], facts.heads, tokens, tokens]
    fitting = [maps for maps in seen.attentions if list(maps.shape) == expected]
    complete = len(fitting) == len(seen.attentions) == facts.layers
    limit = tolerance(seen.decoder)
    found = f"{len(fitting)} such maps of {len(seen.attentions)}"
    if seen.decoder.family.sinks is not None and complete:
        apart, least, most = sinks(seen)
        return Promise(
            "attention rows",
            f"{facts.layers} maps {expected}; a row and its head's learned sink sum to one: without the sink the row "
            f"is the same, over one minus the sink's mass, within {limit:g}",
            f"{found}, largest departure {apart:.1e}, mass of the sinks {least:.2g} to {most:.2g}",
            apart <= limit and most > 0,
        )
    worst = max((float((maps.double().sum(-1) - 1).abs().max()) for maps in fitting), default=float("nan"))
    return Promise(
        "attention rows",
        f"{facts.layers} maps {expected}, rows sum to one within {limit:g}",
        f"{found}, largest departure {worst:.1e}",
        complete and worst <= limit,
    )


def _causal(seen: Evidence) -> Promise:
    ahead = max((float(maps.triu(1).abs().max()) for maps in seen.attentions), default=float("nan"))
    leak = difference(seen.plain[2, :-1], seen.plain[0, :-1])
    return Promise(
        "causal",
        "attention ahead exactly 0, and logits before the last token blind to it",
        f"attention ahead at most {ahead:.1e}, logits before the last token moved by {leak:.1e}",
        ahead == 0 and leak <= tolerance(seen.decoder),
    )


def _window(seen: Evidence) -> Promise:
    """Attention ends where the configuration says, not before and not behind."""
    decoder, tokens = seen.decoder, seen.ids.shape[1]
    windows = [decoder.window(layer) for layer in range(1, decoder.facts.layers + 1)]
    sizes = sorted({window for window in windows if window is not None})
    expected = f"a window of {', '.join(map(str, sizes))} tokens" if sizes else "every earlier token is seen"
    if sizes and all(window is not None for window in windows):
        expected += " in every block"
    elif sizes:
        expected += " in blocks " + ", ".join(str(layer) for layer, window in enumerate(windows, 1) if window)
    beyond, edge = 0.0, float("inf")
    for maps, window in zip(seen.attentions, windows, strict=False):
        reach = min(window or tokens, tokens)
        beyond = max(beyond, float(maps.tril(-reach).abs().max()) if reach < tokens else 0.0)
        edge = min(edge, float(maps.diagonal(-(reach - 1), -2, -1).max()))
    got = f"attention beyond at most {beyond:.1e}, at the edge up to {edge:.1e}"
    if sizes and sizes[-1] >= tokens:
        got += f"; a window of {sizes[-1]} is wider than the {tokens} tokens of the proof and was not put to the test"
    return Promise("window", expected, got, beyond == 0 and 0 < edge < float("inf"))


def _sublayers_add_up(seen: Evidence) -> Promise:
    decoder, multiplier = seen.decoder, seen.decoder.multiplier
    parallel = decoder.family.residual == "parallel"
    worst, place = 0.0, ""
    for layer in range(1, decoder.facts.layers + 1):
        before, end = (seen.residuals.get(tap) for tap in (Tap(layer - 1), Tap(layer)))
        attention, mlp = (seen.updates.get((sublayer, layer)) for sublayer in SUBLAYERS)
        if before is None or end is None or attention is None or mlp is None or attention.shape != mlp.shape:
            return Promise("sublayers", "stream + attention + MLP = stream", f"nothing of block {layer}", False)
        middle = before if parallel else seen.residuals[Tap(layer, "mid")]
        if parallel:
            source = before if decoder.family.mlp_norm is not None else seen.reads[Tap(layer - 1)]
            steps = [(end, before + multiplier * (attention + mlp), "both"), (seen.mlp_reads[layer], source, "mlp")]
        else:
            steps = [(middle, before + multiplier * attention, "attention"), (end, middle + multiplier * mlp, "mlp")]
        for found, expected, kind in steps:
            apart = difference(expected, found)
            if not apart <= worst:  # NaN counts as apart
                worst, place = apart, f" ({kind} of block {layer})"
    manner = "of one stream, side by side" if parallel else "one after the other"
    scaled = f", each times {multiplier:g}" if multiplier != 1 else ""
    return Promise(
        "sublayers",
        f"stream in + attention + MLP = stream out in every block, {manner}{scaled}, within {tolerance(decoder):g}",
        f"largest departure {worst:.1e}{place}",
        worst <= tolerance(decoder),
    )


def _attention_matters(seen: Evidence) -> Promise:
    """What every attention adds is halved on the way; a decoder whose attention has no effect does not notice."""
    decoder = seen.decoder

    def halved(module: Any, inputs: Any, output: Any) -> Any:
        return (output[0] / 2, *output[1:]) if isinstance(output, tuple) else output / 2

    layers = range(1, decoder.facts.layers + 1)
    handles = [decoder.added("attention", layer).register_forward_hook(halved) for layer in layers]
    try:
        moved = difference(decoder.logits(seen.ids), seen.plain)
    finally:
        for handle in handles:
            handle.remove()
    least = min(10 * tolerance(decoder), 0.1)
    return Promise(
        "attention matters",
        f"halving attention moves logits by more than {least:g}",
        f"moved by {moved:.1e}",
        moved > least,
    )


def _grouped_heads(seen: Evidence) -> Promise:
    facts = seen.decoder.facts
    if facts.key_value_heads == facts.heads and seen.decoder.family.value_projection is None:
        return Promise("grouped heads", "one key-value head a head", f"{facts.heads} of each", True)
    share = facts.heads // facts.key_value_heads
    expected = (
        f"{facts.heads} heads read {facts.key_value_heads} key-value heads, {share} in a row each: other values of one "
        "move its heads and no other"
    )
    passed, got = grouped_heads(seen)
    return Promise("grouped heads", expected, got, passed)


def _head(seen: Evidence) -> Promise:
    decoder, row = seen.decoder, seen.decoder.family
    with torch.no_grad():
        apart = difference(decoder.logits_from(seen.final["states"]), seen.again)
    limit = tolerance(decoder)
    fields = [field for field in (row.logit_multiplier, row.logit_divisor, row.logit_cap) if field]
    held = [f"{field} {getattr(decoder.model.config, field)}" for field in fields]
    return Promise(
        "head",
        f"logits are the head of the final norm's output{' with ' + ', '.join(held) if held else ''}, within {limit:g}",
        f"largest departure {apart:.1e}",
        apart <= limit,
    )


def _one_function(seen: Evidence) -> Promise:
    apart, limit = difference(seen.logits, seen.plain), 10 * ROUNDING.get(seen.plain.dtype, 1e-5)
    return Promise(
        "one function",
        f"maps are those of the attention in use: eager and usual logits agree within {limit:g}",
        f"largest departure {apart:.1e}",
        apart <= limit,
    )


def _capture(seen: Evidence) -> Promise:
    return _exact("capture", "logits with and without capture agree", seen.plain, seen.captured)


def _repetition(seen: Evidence) -> Promise:
    return _exact("repetition", "a second pass is identical", seen.plain, seen.again)


def _exact(name: str, expected: str, one: Tensor, other: Tensor) -> Promise:
    apart = difference(one, other)
    return Promise(name, f"{expected}, to the last bit", f"largest departure {apart:.1e}", apart == 0)


def _batching(seen: Evidence) -> Promise:
    """Padding on the right must change nothing; on the left, what it changes is said."""
    right, (manner, left) = batching(seen)
    limit = tolerance(seen.decoder)
    got = f"{right:.1e} with right padding, {left:.1e} with {manner}"
    return Promise(
        "batching",
        f"states of a document do not depend on its batch or on padding behind it, within {limit:g}",
        got if left <= limit else f"{got}: pad on the right only",
        right <= limit,
    )


def _library_list(seen: Evidence) -> Promise:
    decoder = seen.decoder
    layers = decoder.facts.layers
    expected = f"{layers + 1} states: layers 0..{layers - 1} as tapped, and last the final norm of block {layers}"
    if len(seen.hidden_states) != layers + 1 or Tap(layers) not in seen.residuals:
        return Promise("library's list", expected, f"{len(seen.hidden_states)} states", False)
    with torch.no_grad():
        final = first(decoder.final_norm(seen.residuals[Tap(layers)]))
        path = decoder.family.final_projection
        projection = None if path is None else part_present(decoder.model, path)
        final = final if projection is None else projection(final)
    tapped = largest(difference(seen.hidden_states[layer], seen.residuals[Tap(layer)]) for layer in range(layers))
    last = difference(seen.hidden_states[layers], final)
    return Promise(
        "library's list",
        expected,
        f"{len(seen.hidden_states)} states, largest departure {tapped:.1e}, of the last {last:.1e}",
        largest((tapped, last)) <= tolerance(decoder),
    )


BEFORE_ANY_PASS: tuple[Callable[[Decoder], Promise], ...] = (_distinct_blocks, _tied_weights, _maps_at_hand)
"""What is asked of the modules themselves; the other promises make no sense before."""

PROMISES: tuple[Callable[[Evidence], Promise], ...] = (
    _finite,
    _shapes,
    _norms,
    _start,
    _attention_rows,
    _causal,
    _window,
    _sublayers_add_up,
    _attention_matters,
    _grouped_heads,
    _head,
    _one_function,
    _capture,
    _repetition,
    _batching,
    _library_list,
)
"""What is asked of the passes, in the order in which a decoder is refused."""
