"""A decoder in hand: the library's own module in evaluation mode, its tokenizer, its facts and the way to each part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.models.families import Family
from armillary.shapes import Configuration, TokenIds, Value

__all__ = ["Decoder", "DecoderFacts", "weight_hash"]


@dataclass(frozen=True, kw_only=True)
class DecoderFacts:
    """What is recorded of a decoder.

    `context` is the largest number of tokens; `quantization` says the bits of the file the weights came from, or None;
    `library_spread` is the initialization spread the library fills in when nobody says one, `released_spread` the one
    the released configuration states, or None when nobody recorded it; `weight_hash` is over the tensors as loaded;
    `revision` is the commit of a hub id; `permitted` says what was read or run because somebody permitted it; `notes`
    are sentences on what was found while loading.
    """

    name: str
    source: str
    architecture: str
    family: str
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    width: int
    vocabulary: int
    context: int
    norm: str
    norm_place: str
    residual: str
    positions: str
    start_of_stream: str
    tied: bool
    dtype: str
    quantization: str | None
    weight_hash: str
    tokenizer: str
    library_spread: float
    released_spread: float | None
    revision: str | None = None
    permitted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Decoder:
    """One contract over every family.

    Blocks are numbered 1..L, as layers are: block l writes layer l, and layer 0 is the embedding.

    Args:
        model: the library's causal language model, in evaluation mode.
        tokenizer: the library's tokenizer, or None.
        family: where the parts lie.
        facts: what is recorded.
    """

    model: Any
    tokenizer: Any
    family: Family
    facts: DecoderFacts

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.model.parameters()).device

    @property
    def inner(self) -> nn.Module:
        """The model below the head; its output is the final norm's."""
        return self.part(self.family.inner)

    @property
    def blocks(self) -> tuple[nn.Module, ...]:
        """Blocks 1..L in order."""
        return tuple(self.part(self.family.blocks).children())

    @property
    def embedding(self) -> nn.Module:
        """The token embedding."""
        return self.part(self.family.embedding)

    @property
    def final_norm(self) -> nn.Module:
        """The norm after the last block."""
        return self.part(self.family.final_norm)

    @property
    def head(self) -> nn.Module:
        """The map from the final norm's output to logits."""
        return self.part(self.family.head)

    @property
    def norms(self) -> tuple[nn.Module, ...]:
        """Attention norm and MLP norm of each block in order, then the final norm: 2 L + 1 modules."""
        within = (self.family.attention_norm, self.family.mlp_norm)
        return (*(block.get_submodule(path) for block in self.blocks for path in within), self.final_norm)

    def part(self, path: str) -> nn.Module:
        """The module at a dotted path of the model."""
        module: nn.Module = self.model.get_submodule(path)
        return module

    def block(self, layer: int) -> nn.Module:
        """Block `layer`, 1..L."""
        blocks = self.blocks
        if not 1 <= layer <= len(blocks):
            raise ArgumentError(
                f"Argument `layer` must be a block from 1 to {len(blocks)}, but is {layer}. Layer 0 is the embedding."
            )
        return blocks[layer - 1]

    def attention(self, layer: int) -> nn.Module:
        """The attention sublayer of block `layer`, 1..L."""
        return self.block(layer).get_submodule(self.family.attention)

    def mlp(self, layer: int) -> nn.Module:
        """The MLP sublayer of block `layer`, 1..L."""
        return self.block(layer).get_submodule(self.family.mlp)

    def attention_output(self, layer: int) -> nn.Module:
        """The output projection of the attention of block `layer`, 1..L."""
        return self.block(layer).get_submodule(self.family.attention_output)

    def mlp_output(self, layer: int) -> nn.Module:
        """The output projection of the MLP of block `layer`, 1..L."""
        return self.block(layer).get_submodule(self.family.mlp_output)

    def checked(self, ids: Tensor) -> Tensor:
        """The ids on the decoder's device, once they are [documents, tokens], within the context and the vocabulary.

        Raises:
            ArgumentError: another shape or kind, more tokens than the context limit, an id outside the vocabulary.
        """
        if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 1 or ids.is_floating_point():
            raise ArgumentError(
                f"Argument `ids` must be integers [documents, tokens], but has shape {list(ids.shape)} and type "
                f"{ids.dtype}. Give one row of ids a document."
            )
        if ids.shape[1] > self.facts.context:
            raise ArgumentError(
                f"Argument `ids` must hold at most {self.facts.context} tokens a document (the context limit of "
                f"{self.facts.name}), but holds {ids.shape[1]}. Ask for fewer tokens."
            )
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self.facts.vocabulary:
            raise ArgumentError(
                f"Argument `ids` must lie in the vocabulary 0..{self.facts.vocabulary - 1}, but reaches from {low} to "
                f"{high}. Use the decoder's own tokenizer."
            )
        return ids.to(self.device)

    def hidden(self, ids: Tensor) -> Configuration:
        """The output of the final norm: one forward pass without the head and without gradient.

        Args:
            ids: [documents, tokens], no padding.
        Returns:
            [documents, tokens, width] on the decoder's device.
        Raises:
            ArgumentError: see `checked`.
        """
        with torch.no_grad():
            states: Tensor = self.inner(input_ids=self.checked(ids), use_cache=False).last_hidden_state
        return states

    def logits(self, ids: Tensor) -> Float[Tensor, "documents tokens vocabulary"]:
        """Next-token logits [documents, tokens, vocabulary], the head of `hidden`: the library's own forward pass."""
        with torch.no_grad():
            logits: Tensor = self.model(input_ids=self.checked(ids), use_cache=False).logits
        return logits

    def loss(self, final_states: Configuration, ids: TokenIds) -> Value:
        """Next-token cross entropy, one number a document, logits held for one document at a time.

        Formula: -1/(T-1) sum_{t<T} log p(id_{t+1} | id_1..id_t).

        Args:
            final_states: [documents, tokens, width], as `hidden` returns.
            ids: [documents, tokens].
        Returns:
            float64 [documents], nats per token, on the CPU; NaN (undefined) for documents of one token.
        """
        losses = torch.full((ids.shape[0],), torch.nan, dtype=torch.float64)
        if ids.shape[1] < 2:
            return losses
        with torch.no_grad():
            for document, (states, targets) in enumerate(zip(final_states, ids, strict=True)):
                logits = self.head(states[:-1].to(self.device)).float()
                losses[document] = nn.functional.cross_entropy(logits, targets[1:].to(self.device)).double().cpu()
        return losses


def weight_hash(model: nn.Module) -> str:
    """sha256 over every parameter: name, type, shape and bytes, in the order of names; a tied pair counts once."""
    return tensors_hash(dict(model.named_parameters()))


def tensors_hash(tensors: dict[str, Tensor]) -> str:
    """The hash behind `weight_hash`, of tensors by name."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
