"""A decoder in hand: the library's own module in evaluation mode, its tokenizer, its facts and the way to each part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.models.families import SQRT_WIDTH, Family
from armillary.models.norming import gain_of
from armillary.shapes import Configuration, TokenIds, Value

if TYPE_CHECKING:
    from armillary.models.gauges.declaration import Gauge

__all__ = ["NO_LIMIT", "Decoder", "DecoderFacts", "weight_hash"]

NO_LIMIT = 2**31 - 1
"""The context of a decoder in which nothing sets one: positions come from distances, and no configuration says more."""


@dataclass(frozen=True, kw_only=True)
class DecoderFacts:
    """What is recorded of a decoder.

    `context` is the largest number of tokens; `quantization` says the bits of the file the weights came from, or None;
    `library_spread` is the initialization spread the library fills in when nobody says one, `released_spread` the one
    the released configuration states, or None when nobody recorded it; `weight_hash` is over the tensors as loaded;
    `revision` is the commit of a hub id; `permitted` says what was read or run because somebody permitted it; `notes`
    are sentences on what was found while loading. `family_origin` is "listed", or "inferred" for a decoder that no row
    names; `attention_rows` says what a row of an attention map sums to.
    """

    name: str
    source: str
    architecture: str
    family: str
    family_origin: str
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
    attention_rows: str
    tied: bool
    dtype: str
    quantization: str | None
    weight_hash: str
    tokenizer: str
    library_spread: float | None
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
        loading: what `load_decoder` was asked for, so that another process can load the same; None for a model object.
    """

    model: Any
    tokenizer: Any
    family: Family
    facts: DecoderFacts
    loading: dict[str, Any] | None = None

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
        """Blocks 1..L in order, a repeated one as often as it is repeated."""
        return tuple(module for module in self.part(self.family.blocks)._modules.values() if module is not None)

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
    def readers(self) -> tuple[tuple[nn.Module, bool], ...]:
        """Who reads the stream at each tap, in the order of the pass, and whether it is a norm.

        In every block what the attention reads through, then (in a sequential block) what the MLP reads through, and
        last the final norm. A sublayer without a norm of its own reads the stream itself.
        """
        row = self.family
        within = [(row.attention_norm, row.attention)]
        if row.residual == "sequential":
            within.append((row.mlp_norm, row.mlp))
        inside = [
            (block.get_submodule(norm or sublayer), norm is not None)
            for block in self.blocks
            for norm, sublayer in within
        ]
        return (*inside, (self.final_norm, True))

    @property
    def norms(self) -> tuple[nn.Module, ...]:
        """The norms through which the stream is read, in the order of the pass; the final norm is the last."""
        return tuple(module for module, is_norm in self.readers if is_norm)

    def norm_after(self, layer: int) -> nn.Module | None:
        """The norm that reads the stream after block `layer` (0: the embedding); None if it is read as it is."""
        reader, is_norm = self.readers[layer * (2 if self.family.residual == "sequential" else 1)]
        return reader if is_norm else None

    def gain(self, norm: nn.Module) -> Tensor | None:
        """What a norm multiplies its normalized rows by, [width]; None for a norm without a gain."""
        return gain_of(norm, self.family.gain)

    def window(self, layer: int) -> int | None:
        """How many tokens the attention of block `layer` sees, itself included; None where all earlier ones."""
        config = self.model.config
        size = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)
        kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
        if not isinstance(size, int) or size < 1 or getattr(config, "use_sliding_window", True) is False:
            return None
        return size if not kinds or kinds[layer - 1] in ("sliding_attention", "local") else None

    def key_value_head(self, head: int) -> int:
        """The key-value head that query head `head` (from 0) reads: heads in a row share one."""
        return head * self.facts.key_value_heads // self.facts.heads

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

    def added(self, sublayer: str, layer: int) -> nn.Module:
        """The module whose output "attention" or "mlp" of block `layer` adds to the stream, times `multiplier`."""
        row = self.family
        path = (row.attention_added or row.attention) if sublayer == "attention" else (row.mlp_added or row.mlp)
        return self.block(layer).get_submodule(path)

    @property
    def multiplier(self) -> float:
        """What every sublayer's output is multiplied by before it is added."""
        field = self.family.residual_multiplier
        return 1.0 if field is None else float(getattr(self.model.config, field))

    @property
    def embedding_multiplier(self) -> float:
        """What the token embedding is multiplied by on its way to layer 0."""
        field = self.family.embedding_multiplier
        if field == SQRT_WIDTH:
            return float(self.facts.width**0.5)
        return 1.0 if field is None else float(getattr(self.model.config, field))

    def attention_output(self, layer: int) -> nn.Module:
        """The output projection of the attention of block `layer`, 1..L."""
        return self.written("attention", layer)[0][0]

    def mlp_output(self, layer: int) -> nn.Module:
        """The output projection of the MLP of block `layer`, 1..L; the experts of a mixture."""
        return self.written("mlp", layer)[0][0]

    def written(self, sublayer: str, layer: int) -> tuple[tuple[nn.Module, str], ...]:
        """The tensors that write the output of "attention" or "mlp" of block `layer`, as (module, attribute)."""
        paths = self.family.attention_output if sublayer == "attention" else self.family.mlp_output
        found: list[tuple[nn.Module, str]] = []
        for path in paths:
            parent, _, attribute = path.rpartition(".")
            owner = self.block(layer).get_submodule(parent)
            if attribute in owner._parameters:
                found.append((owner, attribute))
                continue
            module = owner.get_submodule(attribute)
            found += [(module, kind) for kind in ("weight", "bias") if getattr(module, kind, None) is not None]
        return tuple(found)

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
        """What the head reads, the output of the final norm: one forward pass without the head and without gradient.

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

    def under(self, gauge: Gauge, documents: Any, *, untie: Literal["by copy", "never"] = "by copy") -> Decoder:
        """A verified copy with other weights and the same function; see `models.gauges.verification.under`."""
        from armillary.models.gauges.verification import under  # that room stands on this one

        return under(self, gauge, documents, untie=untie)

    def logits_from(self, final_states: Configuration) -> Float[Tensor, "*batch tokens vocabulary"]:
        """Logits of the states that `hidden` returns: the head, and what the family does to its output.

        Formula: with z the head's output, z times a multiplier or over a divisor, and cap tanh(z / cap) under a cap.
        """
        row, config = self.family, self.model.config
        logits: Tensor = self.head(final_states)
        for field, sign in ((row.logit_multiplier, 1), (row.logit_divisor, -1)):
            number = getattr(config, field, None) if field else None
            logits = logits if number is None else logits * number if sign > 0 else logits / number
        cap = getattr(config, row.logit_cap, None) if row.logit_cap else None
        return logits if cap is None else torch.tanh(logits / cap) * cap

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
                logits = self.logits_from(states[:-1].to(self.device)).float()
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
