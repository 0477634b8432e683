"""The tensors a gauge acts on, whatever module holds them: affine maps, tables, norms, and the slots of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from armillary.models.norming import Gain, gain_of

__all__ = ["Affine", "LinearMap", "Norm", "Slots", "Table", "Writer"]

LinearMap = Callable[[Tensor], Tensor]
"""A linear map of the last axis of a tensor; leading axes are left alone."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A module y = W x + b, whichever way round it stores W.

    Args:
        name: where it lies in the model.
        module: it.
        transposed: whether its weight is stored inputs x outputs.
    """

    name: str
    module: Any
    transposed: bool

    @property
    def matrix(self) -> Tensor:
        """W, a view `outputs inputs`: what is written into it is written into the module."""
        weight: Tensor = self.module.weight.data
        return weight.T if self.transposed else weight

    @property
    def bias(self) -> Tensor | None:
        """b, a view `outputs`; None where the module has none."""
        held = getattr(self.module, "bias", None)
        return None if held is None else held.data

    def map_outputs(self, f: LinearMap) -> None:
        """Y becomes f(y)."""
        self.matrix.copy_(f(self.matrix.T).T)
        if self.bias is not None:
            self.bias.copy_(f(self.bias))

    def map_rows(self, f: LinearMap) -> None:
        """Each row of W becomes f of it; the bias stays."""
        self.matrix.copy_(f(self.matrix))


@dataclass(frozen=True, eq=False)
class Table:
    """An embedding: one vector of the stream for each token or position."""

    name: str
    module: Any

    def map_outputs(self, f: LinearMap) -> None:
        """Each vector v becomes f(v)."""
        held: Tensor = self.module.weight.data
        held.copy_(f(held))


Writer = Affine | Table
"""What writes the stream: an embedding, or the last projection of a sublayer."""


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm, and the affine maps that read it.

    Args:
        name: where it lies in the model.
        module: it.
        form: what it multiplies by, see `Family.gain`.
        readers: who reads what it writes.
    """

    name: str
    module: nn.Module
    form: Gain
    readers: tuple[Affine, ...] = field(default=())

    @property
    def gain(self) -> Tensor | None:
        """What it multiplies normalized rows by, `width`; None where it has no gain."""
        return gain_of(self.module, self.form)

    def put_gain(self, gain: Tensor) -> None:
        """Multiply by this from now on."""
        weight: Any = self.module.weight
        weight.data.copy_(gain - 1 if self.form == "1 + weight" else gain)

    @property
    def bias(self) -> Tensor | None:
        """What it adds in the end, a view `width`; None for nothing."""
        held: Any = getattr(self.module, "bias", None)
        return None if held is None else held.data

    @property
    def epsilon_name(self) -> str | None:
        """The attribute that holds what keeps the division finite."""
        names = ("variance_epsilon", "eps", "epsilon")
        return next((name for name in names if isinstance(getattr(self.module, name, None), float)), None)


@dataclass(frozen=True, eq=False)
class Slots:
    """Where the heads of queries, keys or values lie among the outputs of an affine map.

    Args:
        affine: what writes them.
        index: `heads head_dim`: output `index[h, i]` is coordinate i of head h.
    """

    affine: Affine
    index: Tensor

    @property
    def matrix(self) -> Tensor:
        """A copy of W by heads, `heads head_dim inputs`."""
        return self.affine.matrix[self.index.to(self.affine.matrix.device)]

    @property
    def bias(self) -> Tensor | None:
        """A copy of b by heads, `heads head_dim`, or None."""
        return None if self.affine.bias is None else self.affine.bias[self.index.to(self.affine.bias.device)]

    def put(self, matrix: Tensor, bias: Tensor | None = None) -> None:
        """Write W by heads back, and b where one is given."""
        index = self.index.to(matrix.device)
        self.affine.matrix[index] = matrix
        if bias is not None and self.affine.bias is not None:
            self.affine.bias[index] = bias

    def map_heads(self, maps: Tensor) -> None:
        """Head h's vector v becomes M_h v, its bias too.

        Args:
            maps: M, `heads head_dim head_dim`.
        """
        bias = self.bias
        self.put(maps @ self.matrix, None if bias is None else torch.einsum("hij,hj->hi", maps, bias))
