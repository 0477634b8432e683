"""A decoder as a gauge sees it: who writes the stream, who reads it through which norm, where heads and neurons lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import UnsupportedModelError
from armillary.models.anatomy import Decoder
from armillary.models.gauges.parts import Affine, Norm, Slots, Table, Writer
from armillary.models.gauges.rows import INSIDE, Inside

__all__ = ["BlockWiring", "Wiring", "wiring_of"]


@dataclass(frozen=True, eq=False)
class BlockWiring:
    """One block: its norms with their readers, its heads, its neurons, and what writes the stream."""

    number: int
    norms: tuple[Norm, ...]
    query: Slots
    key: Slots
    value: Slots
    query_norm: Norm | None
    key_norm: Norm | None
    attention_output: Affine
    attention_behind: Norm | None
    gate: Affine | None
    up: Affine
    down: Affine
    mlp_behind: Norm | None
    activation: Callable[[Tensor], Tensor]

    @property
    def writers(self) -> tuple[tuple[Affine, Norm | None], ...]:
        """What writes the stream, and the norm behind it through which it does so, if there is one."""
        return ((self.attention_output, self.attention_behind), (self.down, self.mlp_behind))


@dataclass(frozen=True, eq=False)
class Wiring:
    """The tensors of a decoder by what they do.

    Attributes:
        decoder: whose they are.
        inside: the row that says how its sublayers are built.
        tables: token and position embeddings, which write layer 0.
        blocks: 1..L.
        final_norm: read by the head.
        head: the unembedding.
        turned: how many coordinates of each query and key rotary positions turn: pairs (i, i + turned/2).
    """

    decoder: Decoder
    inside: Inside
    tables: tuple[Table, ...]
    blocks: tuple[BlockWiring, ...]
    final_norm: Norm
    head: Affine
    turned: int

    @property
    def tied(self) -> bool:
        """Whether embedding and unembedding are one tensor."""
        return self.head.module.weight is self.tables[0].module.weight

    @property
    def norms(self) -> Iterator[Norm]:
        """The norms through which the stream is read, in the order of the pass."""
        for block in self.blocks:
            yield from block.norms
        yield self.final_norm

    @property
    def norms_behind(self) -> Iterator[Norm]:
        """The norms behind sublayers, through which they write."""
        for block in self.blocks:
            yield from (norm for _, norm in block.writers if norm is not None)

    @property
    def head_norms(self) -> Iterator[Norm]:
        """The norms of queries and keys."""
        for block in self.blocks:
            yield from (norm for norm in (block.query_norm, block.key_norm) if norm is not None)

    @property
    def writers(self) -> Iterator[Writer]:
        """All that writes the stream: tables, and the output projections of every block."""
        yield from self.tables
        for block in self.blocks:
            yield from (affine for affine, _ in block.writers)

    @property
    def group(self) -> int:
        """How many query heads share a key-value head."""
        return self.decoder.facts.heads // self.decoder.facts.key_value_heads

    def columns(self, block: BlockWiring) -> Tensor:
        """The inputs of the output projection by head, `heads head_dim`."""
        facts = self.decoder.facts
        return torch.arange(facts.heads * facts.head_dim).view(facts.heads, facts.head_dim)


def wiring_of(decoder: Decoder) -> Wiring:
    """The wiring of a decoder.

    Args:
        decoder: any; a gauge writes into the tensors of this one, so hand over a copy.

    Raises:
        UnsupportedModelError: no row says how its sublayers are built, or a part of that row is not there.
    """
    row, model = decoder.family, decoder.model
    inside = INSIDE.get(row.name)
    if inside is None or row.origin != "listed":
        raise UnsupportedModelError(
            f"Argument `decoder` must be of a family whose queries, keys, values and neurons are known, but no row "
            f"says where they lie in {decoder.facts.architecture}. Known: {', '.join(INSIDE)}; a new one is a row in "
            "models/gauges/rows.py."
        )
    if row.embedding_norm is not None or getattr(decoder.part(row.inner), "project_in", None) is not None:
        raise UnsupportedModelError(
            f"Argument `decoder` must write its embedding straight into the stream, but {decoder.facts.name} puts a "
            "norm or a projection between them. Choose another decoder."
        )
    paths = (row.embedding, *((row.position_embedding,) if row.position_embedding else ()))
    head = Affine(row.head, decoder.head, transposed=False)
    return Wiring(
        decoder=decoder,
        inside=inside,
        tables=tuple(Table(path, model.get_submodule(path)) for path in paths),
        blocks=tuple(_block(decoder, inside, number) for number in range(1, decoder.facts.layers + 1)),
        final_norm=Norm(row.final_norm, decoder.final_norm, row.gain, (head,)),
        head=head,
        turned=_turned(decoder),
    )


def _turned(decoder: Decoder) -> int:
    """Twice the number of rotary frequencies; 0 where positions are no rotation."""
    if "rotary" not in decoder.family.positions:
        return 0
    sizes = {buffer.numel() for name, buffer in decoder.model.named_buffers() if name.endswith("inv_freq")}
    if len(sizes) != 1:
        raise UnsupportedModelError(
            f"Argument `decoder` must have one number of rotary frequencies, but {decoder.facts.name} has "
            f"{sorted(sizes) or 'none'}. Choose another decoder."
        )
    return 2 * sizes.pop()


def _block(decoder: Decoder, inside: Inside, number: int) -> BlockWiring:
    row, block = decoder.family, decoder.block(number)
    transposed = row.attention_output_axis == 0
    made: dict[str, Affine] = {}

    def affine(path: str) -> Affine:
        if path not in made:
            made[path] = Affine(f"block {number} {path}", _part(decoder, block, path), transposed)
        return made[path]

    def norm(path: str | None, readers: tuple[Affine, ...] = ()) -> Norm | None:
        return None if path is None else Norm(f"block {number} {path}", _part(decoder, block, path), row.gain, readers)

    def behind(path: str | None) -> Norm | None:
        return norm(path) if path is not None and _is_norm(_part(decoder, block, path)) else None

    query, key, value = affine(inside.query), affine(inside.key), affine(inside.value)
    attention = tuple(dict.fromkeys((query, key, value)))
    up, gate = affine(inside.up), None if inside.gate is None else affine(inside.gate)
    neurons = (up,) if gate is None else (gate, up)
    shared = row.residual == "parallel" and row.mlp_norm is None
    norms = (norm(row.attention_norm, attention + (neurons if shared else ())), norm(row.mlp_norm, neurons))
    slots = _slots(decoder, inside, query, key, value)
    return BlockWiring(
        number=number,
        norms=tuple(one for one in norms if one is not None),
        query=slots[0],
        key=slots[1],
        value=slots[2],
        query_norm=norm(inside.query_norm),
        key_norm=norm(inside.key_norm),
        attention_output=affine(row.attention_output[0]),
        attention_behind=behind(row.attention_added),
        gate=gate,
        up=up,
        down=affine(inside.down),
        mlp_behind=behind(row.mlp_added),
        activation=_part(decoder, block, inside.activation),
    )


def _slots(decoder: Decoder, inside: Inside, query: Affine, key: Affine, value: Affine) -> tuple[Slots, Slots, Slots]:
    facts = decoder.facts
    heads, shared, dim = facts.heads, facts.key_value_heads, facts.head_dim
    if inside.order == "by head":
        index = torch.arange(3 * heads * dim).view(heads, 3, dim)
        return Slots(query, index[:, 0]), Slots(key, index[:, 1]), Slots(value, index[:, 2])
    first = torch.arange(heads * dim).view(heads, dim)
    later = torch.arange(shared * dim).view(shared, dim)
    if inside.order == "apart":
        return Slots(query, first), Slots(key, later), Slots(value, later)
    return Slots(query, first), Slots(key, heads * dim + later), Slots(value, (heads + shared) * dim + later)


def _is_norm(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1


def _part(decoder: Decoder, block: nn.Module, path: str) -> Any:
    found: Any = block
    for name in path.split("."):
        if not hasattr(found, name):
            raise UnsupportedModelError(
                f"Argument `decoder` must have `{path}` in every block, as the row of {decoder.family.name} in "
                f"models/gauges/rows.py says, but {decoder.facts.architecture} has none. Correct the row."
            )
        found = getattr(found, name)
    return found
