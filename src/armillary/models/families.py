"""What a model family is: plain data that says where each part of a decoder lies and how its blocks are wired."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "Family", "family_of"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One row of data for each architecture; module paths are dotted, those of parts relative to their block.

    Attributes:
        name: the library's model type.
        architectures: class names of the library that belong to the family.
        inner: the model below the head, whose output is the final norm's.
        embedding: token embedding.
        position_embedding: learned position embedding, or None.
        rotary: the module that holds the rotation frequencies, or None.
        blocks: the list of blocks.
        attention, mlp: a block's sublayers; each output is added to the stream.
        attention_norm, mlp_norm: the norm each sublayer reads through.
        attention_output, mlp_output: the last projection of each sublayer.
        attention_output_axis: the axis of that projection's weight that runs over the concatenated heads.
        final_norm, head: after the last block.
        norm: "RMSNorm" or "LayerNorm".
        norm_place: "pre": sublayers read a normalized copy, the stream itself is never normalized.
        residual: "sequential": the MLP reads the stream after attention.
        positions: "rotary" or "learned".
        start_of_stream: what layer 0 is, in words.
    """

    name: str
    architectures: tuple[str, ...]
    inner: str
    embedding: str
    position_embedding: str | None
    rotary: str | None
    blocks: str
    attention: str
    mlp: str
    attention_norm: str
    mlp_norm: str
    attention_output: str
    mlp_output: str
    attention_output_axis: int
    final_norm: str
    head: str
    norm: str
    norm_place: str
    residual: str
    positions: str
    start_of_stream: str


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="llama",
            architectures=("LlamaForCausalLM",),
            inner="model",
            embedding="model.embed_tokens",
            position_embedding=None,
            rotary="model.rotary_emb",
            blocks="model.layers",
            attention="self_attn",
            mlp="mlp",
            attention_norm="input_layernorm",
            mlp_norm="post_attention_layernorm",
            attention_output="self_attn.o_proj",
            mlp_output="mlp.down_proj",
            attention_output_axis=1,
            final_norm="model.norm",
            head="lm_head",
            norm="RMSNorm",
            norm_place="pre",
            residual="sequential",
            positions="rotary",
            start_of_stream="the token embedding, unscaled",
        ),
        Family(
            name="gpt2",
            architectures=("GPT2LMHeadModel",),
            inner="transformer",
            embedding="transformer.wte",
            position_embedding="transformer.wpe",
            rotary=None,
            blocks="transformer.h",
            attention="attn",
            mlp="mlp",
            attention_norm="ln_1",
            mlp_norm="ln_2",
            attention_output="attn.c_proj",
            mlp_output="mlp.c_proj",
            attention_output_axis=0,
            final_norm="transformer.ln_f",
            head="lm_head",
            norm="LayerNorm",
            norm_place="pre",
            residual="sequential",
            positions="learned",
            start_of_stream="the token embedding plus the learned position embedding",
        ),
    )
}
"""The known families by name. A new family is one more row; the decoder's own proof judges it."""


def family_of(architecture: str) -> Family | None:
    """The family of one of the library's class names, or None when no row names it."""
    return next((family for family in FAMILIES.values() if architecture in family.architectures), None)
