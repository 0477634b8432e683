"""States of a live pass, with their gradient: hooks on whoever reads the stream, for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder
from armillary.models.capture import first_tensor
from armillary.models.families import Family
from armillary.models.recognition import row_of

__all__ = ["TappedStates", "block_count", "family_for_training", "tap", "unwrapped"]


class TappedStates(Mapping[int, Tensor]):
    """The stream after the tapped blocks, layer -> `documents tokens dim`, in the order of depth; of the last pass."""

    def __init__(self) -> None:
        self._states: dict[int, Tensor] = {}

    def __getitem__(self, layer: int) -> Tensor:
        """The live states of a layer."""
        return self._states[layer]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._states))

    def __len__(self) -> int:
        return len(self._states)


@contextmanager
def tap(model: Any, layers: Sequence[int], *, family: Family | None = None) -> Iterator[TappedStates]:
    """While open, a forward pass of the model leaves its stream behind the named blocks, with gradient.

    The hooks return nothing, so the pass is the one it would be without them; they are removed when the block ends,
    whatever ends it, and the states stay usable. Training mode, dropout and wrappers of data-parallel training are as
    they were.

    Args:
        model: A causal language model of the library, or a `Decoder`; wrapped for data-parallel training or not.
        layers: 0 for the embedding, l for the stream after block l; the last is before the final norm.
        family: The row of the model, if it is at hand; looked up otherwise.

    Yields:
        The states, filled by the pass.

    Raises:
        ArgumentError: A layer that does not exist.
        UnsupportedModelError: The model is compiled, or no family row fits.

    Example:
        with tap(model, layers=[2, 3]) as states:
            loss = model(**batch).loss
        loss = loss + 0.1 * penalty(states, mask=batch["attention_mask"])
    """
    inner = unwrapped(model)
    row = family_for_training(inner) if family is None else family
    chosen = checked_layers(inner, layers, row)
    states = TappedStates()
    with ExitStack() as hooks:
        for layer in chosen:
            handle = _reader(inner, row, layer).register_forward_pre_hook(_keeping(states, layer), with_kwargs=True)
            hooks.callback(handle.remove)
        yield states


def unwrapped(model: Any) -> nn.Module:
    """The library's own module inside a `Decoder` or a wrapper of data-parallel training.

    Raises:
        ArgumentError: It runs as replicas in threads, whose states are nowhere to be seen.
    """
    if isinstance(model, Decoder):
        model = model.model
    if isinstance(model, nn.DataParallel):
        raise ArgumentError(
            "Argument `model` must run as one module a process, but it is wrapped in DataParallel, whose replicas "
            "cannot be tapped. Use DistributedDataParallel."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module
    inner: nn.Module = model
    return inner


def family_for_training(model: Any) -> Family:
    """The model's family row; inferring one needs a pass in evaluation mode, after which every part is as it was.

    Raises:
        UnsupportedModelError: Not a causal language model, compiled, or nothing can be inferred.
    """
    modes = {module: module.training for module in model.modules()} if isinstance(model, nn.Module) else {}
    try:
        return row_of(model)
    finally:
        for module, training in modes.items():
            module.training = training


def block_count(model: Any, family: Family) -> int:
    """How many blocks the stream passes."""
    blocks: nn.Module = model.get_submodule(family.blocks)
    return sum(module is not None for module in blocks._modules.values())


def checked_layers(model: Any, layers: Sequence[int], family: Family) -> tuple[int, ...]:
    """The layers in the order of depth.

    Raises:
        ArgumentError: None is given, or one that does not exist.
    """
    last = block_count(model, family)
    wrong = [
        layer for layer in layers if not isinstance(layer, int) or isinstance(layer, bool) or not 0 <= layer <= last
    ]
    if wrong or not layers:
        raise ArgumentError(
            f"Argument `layers` must be layers from 0 to {last} (the embedding, then one after each block), but it is "
            f"{list(layers)}. Write layers=[{max(1, last // 2)}]."
        )
    return tuple(sorted(set(layers)))


def _reader(model: nn.Module, family: Family, layer: int) -> nn.Module:
    """Whoever reads the stream after a block: what the next block's attention reads through, or the final norm."""
    blocks = [module for module in model.get_submodule(family.blocks)._modules.values() if module is not None]
    if layer == len(blocks):
        return model.get_submodule(family.final_norm)
    return blocks[layer].get_submodule(family.attention_norm or family.attention)


def _keeping(states: TappedStates, layer: int) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        states._states[layer] = first_tensor(inputs, named)

    return hook
