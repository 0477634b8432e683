"""What every module of a block read and wrote in one short pass: how a block is wired, seen rather than believed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Call", "Trace", "same_rows", "traced"]


@dataclass(eq=False)
class Call:
    """One call of a module: its path, the module, the first tensor it read, the first it wrote, and named tensors."""

    path: str
    module: nn.Module
    read: Tensor | None
    wrote: Tensor | None
    named: dict[str, Tensor]

    @property
    def is_norm(self) -> bool:
        """Whether it is called a norm and keeps the shape."""
        kept = self.read is not None and self.wrote is not None and self.read.shape == self.wrote.shape
        return kept and "norm" in type(self.module).__name__.lower()

    @property
    def is_linear(self) -> bool:
        """Whether it is one matrix: a Linear, or GPT-2's Conv1D."""
        weight = getattr(self.module, "weight", None)
        linear = isinstance(self.module, nn.Linear) or type(self.module).__name__ == "Conv1D"
        return linear and isinstance(weight, Tensor) and weight.ndim == 2


@dataclass(eq=False)
class Trace:
    """The calls of a pass in the order in which they ended, and its ids.

    Attributes:
        ids: [1, tokens].
        calls: of every module, by its path in the model; a module called again stands where it was first.
    """

    ids: Tensor
    calls: dict[str, Call] = field(default_factory=dict)

    def within(self, path: str) -> Iterator[Call]:
        """Calls of the modules below a path, in order; their own paths are still those of the model."""
        yield from (call for name, call in self.calls.items() if name.startswith(f"{path}."))


def traced(model: Any) -> Trace:
    """One pass over five ids, with hooks on every module that are gone afterwards.

    Args:
        model: the library's model in evaluation mode.
    """
    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids = torch.randint(vocabulary, (1, 5), generator=torch.Generator().manual_seed(1))
    trace = Trace(ids.to(model.get_input_embeddings().weight.device))

    def noting(path: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            read = next((value for value in (*inputs, *named.values()) if isinstance(value, Tensor)), None)
            wrote = next((value for value in _flat(output) if isinstance(value, Tensor)), None)
            tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
            trace.calls.setdefault(path, Call(path, module, read, wrote, tensors))

        return hook

    with ExitStack() as hooks, torch.no_grad():
        for path, module in model.named_modules():
            hooks.callback(module.register_forward_hook(noting(path), with_kwargs=True).remove)
        model(input_ids=trace.ids, use_cache=False)
    return trace


def _flat(output: Any) -> Iterator[Any]:
    if isinstance(output, tuple | list):
        yield from output
    elif hasattr(output, "values") and not isinstance(output, Tensor):
        yield from output.values()
    else:
        yield output


def same_rows(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors hold the same rows, however these are laid out in batches."""
    if one is None or other is None or one.numel() != other.numel() or one.shape[-1] != other.shape[-1]:
        return False
    return torch.equal(one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1]))
