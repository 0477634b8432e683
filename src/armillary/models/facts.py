"""What is recorded of a decoder, read off its configuration and its parts."""

from __future__ import annotations

from typing import Any

from torch import nn

from armillary.errors import UnsupportedModelError
from armillary.models.anatomy import NO_LIMIT, DecoderFacts, weight_hash
from armillary.models.families import Family
from armillary.models.tokenizer import tokenizer_words

__all__ = ["facts_of"]


def facts_of(
    model: Any,
    family: Family,
    tokenizer: Any,
    *,
    name: str,
    source: str,
    quantization: str | None,
    released_spread: float | None,
    known_hash: str | None,
) -> DecoderFacts:
    """The facts of a model of a family.

    Args:
        model: the library's causal language model.
        family: its row.
        tokenizer: its tokenizer, or None.
        name: recorded as given.
        source: recorded as given.
        quantization: recorded as given.
        released_spread: recorded as given.
        known_hash: of the weights, where they have been hashed before.

    Raises:
        UnsupportedModelError: a part of the row that the model lacks.
    """
    config = model.config
    heads = config.num_attention_heads
    embedding, head, blocks = _parts(model, family)
    return DecoderFacts(
        name=name,
        source=source,
        architecture=type(model).__name__,
        family=family.name,
        family_origin=family.origin,
        layers=len(blocks._modules),
        heads=heads,
        key_value_heads=key_value_heads(config),
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        width=config.hidden_size,
        vocabulary=embedding.num_embeddings,
        context=_context(config),
        norm=family.norm,
        norm_place=family.norm_place,
        residual=family.residual,
        positions=family.positions,
        start_of_stream=family.start_of_stream,
        attention_rows="sum to one" if family.sinks is None else "sum to one together with a learned sink of each head",
        tied=head.weight is embedding.weight,
        dtype=str(embedding.weight.dtype).removeprefix("torch."),
        quantization=quantization,
        weight_hash=known_hash or weight_hash(model),
        tokenizer=tokenizer_words(tokenizer),
        library_spread=getattr(type(config)(), family.spread, None),
        released_spread=released_spread,
    )


def key_value_heads(config: Any) -> int:
    """How many key-value heads a block has, under whichever name a configuration has it."""
    for field in ("num_key_value_heads", "num_kv_heads"):
        number = getattr(config, field, None)
        if number:
            return int(number)
    return int(config.num_attention_heads)


def _parts(model: Any, family: Family) -> tuple[Any, Any, nn.Module]:
    norms = (family.attention_norm, family.mlp_norm)
    within = (family.attention, family.mlp, *norms, family.attention_added, family.mlp_added)
    try:
        embedding, head, blocks, _ = (
            model.get_submodule(path) for path in (family.embedding, family.head, family.blocks, family.final_norm)
        )
        for block in blocks.children():
            for path in within:
                block.get_submodule(path or "")
    except AttributeError as trouble:
        raise UnsupportedModelError(
            f"Argument `model` must have the parts of the family {family.name}, but {trouble}. Correct the family's "
            "row."
        ) from trouble
    return embedding, head, blocks


def _context(config: Any) -> int:
    """The largest number of tokens, NO_LIMIT where nothing in the model sets one."""
    for field in ("max_position_embeddings", "seq_length", "max_seq_len"):
        number = getattr(config, field, None)
        if isinstance(number, int) and number > 0:
            return number
    return NO_LIMIT
