"""The decoder's contract, proved on one short pass after loading: what every later measurement takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from armillary.errors import NumericalError, UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.capture import hook_count
from armillary.models.evidence import gathered
from armillary.models.promises import BEFORE_ANY_PASS, PROMISES, Promise

__all__ = ["Promise", "left_as_found", "prove", "require"]

LONGEST = 64
"""A window of attention up to this many tokens is put to the test by documents that are longer."""


def prove(decoder: Decoder, *, tokens: int = 12) -> tuple[Promise, ...]:
    """Put every promise of the contract to the test on random ids; the model is left exactly as found.

    The attention maps need the library's eager implementation: it is switched on for one pass and switched back.

    Args:
        decoder: the decoder.
        tokens: the length of the three documents of the test, cut to the context and lengthened where that shows a
            short attention window; the third is the first with another last token, so that one pass shows whether
            earlier positions see it.

    Returns:
        The promises in order, kept or missed. If the blocks themselves are not what they should be, only that.
    """
    parts = tuple(promise(decoder) for promise in BEFORE_ANY_PASS)
    if not all(promise.passed for promise in parts):
        return parts
    windows = [decoder.window(layer) or 0 for layer in range(1, decoder.facts.layers + 1)]
    tokens = max([tokens, *(window + 4 for window in windows if window <= LONGEST)])
    before = hook_count(decoder.model)
    with left_as_found(decoder.model):
        try:
            seen = gathered(decoder, min(tokens, decoder.facts.context))
            promises = tuple(promise(seen) for promise in PROMISES)
        except Exception as trouble:  # whatever a model that is not what its row says ends in
            got = f"{type(trouble).__name__}: {' '.join(str(trouble).split())[:300].rstrip('.')}"
            promises = (
                Promise("passes", "the model runs on random ids, and its parts are where its row says", got, False),
            )
    after = hook_count(decoder.model)
    training = sum(module.training for module in decoder.model.modules())
    return (
        *parts,
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
        inferred = " Its family is not listed, and was inferred from its modules." * (decoder.family.origin != "listed")
        raise UnsupportedModelError(
            f"Argument `source` must be a decoder that keeps its contract, but {decoder.facts.name} misses "
            f'"{missed.name}": expected {missed.expected}; got {missed.got}.{inferred} Measure another model, or '
            f"{'add its family (one row of data)' if inferred else 'correct its family'}."
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
            whole: Any = model
            whole.set_attn_implementation(implementation)
