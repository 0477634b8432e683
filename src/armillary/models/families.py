"""What a model family is: plain data that says where each part of a decoder lies and how its blocks are wired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["FAMILIES", "SQRT_WIDTH", "Family", "family_of"]

SQRT_WIDTH = "sqrt width"
"""The multiplier of an embedding that no field of the configuration holds."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One row of data for each architecture; module paths are dotted, those of parts relative to their block.

    Attributes:
        name: the library's model type, with the wiring behind it where a type has two.
        architectures: class names of the library that belong to the family.
        when: fields of the configuration and the value each must have; one class can have several rows.
        inner: the model below the head, whose output the head maps to logits.
        embedding: token embedding.
        embedding_multiplier: field of the configuration by which the embedding is multiplied, "sqrt width", or None.
        embedding_projection: what maps the embedding to the width of the stream, where the model has it.
        embedding_norm: a norm between the embedding and the first block, or None.
        position_embedding: learned position embedding, or None.
        blocks: the list of blocks.
        attention, mlp: a block's sublayers.
        attention_norm, mlp_norm: the norm each sublayer reads through; None where it reads the stream itself. In a
            parallel block the attention's norm stands for the block.
        attention_added, mlp_added: the module whose output is added to the stream, where it is not the sublayer: a norm
            behind it, or the last projection of a sublayer that adds the stream by itself.
        residual_multiplier: field of the configuration by which what is added is multiplied, or None.
        attention_output, mlp_output: all that writes a sublayer's output: modules, or single tensors of a mixture.
        attention_output_axis: the axis of that projection's weight that runs over the concatenated heads.
        value_projection: the module whose last columns are the values of all key-value heads side by side, or None
            where every head has values of its own.
        sinks: the learned sink of each head, which takes its share of every row, or None: rows sum to one.
        final_norm, head: after the last block.
        final_projection: what stands between final norm and head, where the model has it.
        logit_cap, logit_multiplier, logit_divisor: fields of the configuration that act on the head's output.
        norm: "RMSNorm" or "LayerNorm".
        gain: what a norm multiplies by: "weight", "1 + weight", or "none".
        residual: "sequential": the MLP reads the stream after attention; "parallel": both read the block's input.
        positions: "rotary", "partial rotary", "learned" or "alibi", in words.
        position_argument: the argument by which positions reach the attention, where no tensor holds them.
        spread: field of the configuration that holds the standard deviation of fresh weights.
        origin: "listed", or "inferred" from a model that no row names.
    """

    name: str
    architectures: tuple[str, ...]
    when: tuple[tuple[str, Any], ...] = ()
    inner: str
    embedding: str
    embedding_multiplier: str | None = None
    embedding_projection: str | None = None
    embedding_norm: str | None = None
    position_embedding: str | None = None
    blocks: str
    attention: str
    mlp: str
    attention_norm: str | None
    mlp_norm: str | None
    attention_added: str | None = None
    mlp_added: str | None = None
    residual_multiplier: str | None = None
    attention_output: tuple[str, ...]
    mlp_output: tuple[str, ...]
    attention_output_axis: int = 1
    value_projection: str | None = None
    sinks: str | None = None
    final_norm: str
    final_projection: str | None = None
    head: str
    logit_cap: str | None = None
    logit_multiplier: str | None = None
    logit_divisor: str | None = None
    norm: Literal["RMSNorm", "LayerNorm"]
    gain: Literal["weight", "1 + weight", "none"] = "weight"
    residual: Literal["sequential", "parallel"] = "sequential"
    positions: str
    position_argument: str | None = None
    spread: str = "initializer_range"
    origin: Literal["listed", "inferred"] = "listed"

    @property
    def norm_place(self) -> str:
        """Where the norms stand, in words; the stream itself is never normalized between blocks."""
        behind = any(path is not None and "norm" in path.lower() for path in (self.attention_added, self.mlp_added))
        if self.attention_norm is None and self.mlp_norm is None:
            return "post: each sublayer reads the stream itself, and its output is normalized before it is added"
        if behind:
            return "pre and post: sublayers read a normalized copy, and their output is normalized before it is added"
        if self.residual == "parallel" and self.mlp_norm is None:
            return "pre: both sublayers read one normalized copy"
        return "pre"

    @property
    def start_of_stream(self) -> str:
        """What layer 0 is, in words."""
        words = "the token embedding"
        if self.embedding_multiplier is not None:
            by = "the square root of the width" if self.embedding_multiplier == SQRT_WIDTH else "a number of the family"
            words += f" multiplied by {by}"
        if self.embedding_projection is not None:
            words += " (projected to the width, where the model has a projection)"
        if self.position_embedding is not None:
            words += " plus the learned position embedding"
        if self.embedding_norm is not None:
            words += " after a norm of its own"
        return words if words != "the token embedding" else f"{words}, unscaled"

    def fits(self, architecture: str, config: Any) -> bool:
        """Whether the row is that of a class with this configuration (an object, or a dictionary of its fields)."""
        return architecture in self.architectures and all(_field(config, name) == value for name, value in self.when)


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


_LLAMA = Family(
    name="llama",
    architectures=("LlamaForCausalLM",),
    inner="model",
    embedding="model.embed_tokens",
    blocks="model.layers",
    attention="self_attn",
    mlp="mlp",
    attention_norm="input_layernorm",
    mlp_norm="post_attention_layernorm",
    attention_output=("self_attn.o_proj",),
    mlp_output=("mlp.down_proj",),
    value_projection="self_attn.v_proj",
    final_norm="model.norm",
    head="lm_head",
    norm="RMSNorm",
    positions="rotary",
)

_GEMMA2 = replace(
    _LLAMA,
    name="gemma2",
    architectures=("Gemma2ForCausalLM",),
    mlp_norm="pre_feedforward_layernorm",
    attention_added="post_attention_layernorm",
    mlp_added="post_feedforward_layernorm",
    logit_cap="final_logit_softcapping",
    gain="1 + weight",
    embedding_multiplier=SQRT_WIDTH,
)

_NEOX = Family(
    name="gpt_neox",
    architectures=("GPTNeoXForCausalLM",),
    when=(("use_parallel_residual", True),),
    inner="gpt_neox",
    embedding="gpt_neox.embed_in",
    blocks="gpt_neox.layers",
    attention="attention",
    mlp="mlp",
    attention_norm="input_layernorm",
    mlp_norm="post_attention_layernorm",
    attention_output=("attention.dense",),
    mlp_output=("mlp.dense_4h_to_h",),
    final_norm="gpt_neox.final_layer_norm",
    head="lm_head",
    norm="LayerNorm",
    residual="parallel",
    positions="partial rotary",
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _LLAMA,
        replace(_LLAMA, name="mistral", architectures=("MistralForCausalLM",)),
        replace(_LLAMA, name="qwen2", architectures=("Qwen2ForCausalLM",)),
        replace(_LLAMA, name="qwen3", architectures=("Qwen3ForCausalLM",)),
        Family(
            name="gpt2",
            architectures=("GPT2LMHeadModel",),
            inner="transformer",
            embedding="transformer.wte",
            position_embedding="transformer.wpe",
            blocks="transformer.h",
            attention="attn",
            mlp="mlp",
            attention_norm="ln_1",
            mlp_norm="ln_2",
            attention_output=("attn.c_proj",),
            mlp_output=("mlp.c_proj",),
            attention_output_axis=0,
            final_norm="transformer.ln_f",
            head="lm_head",
            norm="LayerNorm",
            positions="learned",
        ),
        _NEOX,
        replace(_NEOX, name="gpt_neox_sequential", when=(("use_parallel_residual", False),), residual="sequential"),
        _GEMMA2,
        replace(_GEMMA2, name="gemma3", architectures=("Gemma3ForCausalLM",)),
        Family(
            name="opt",
            architectures=("OPTForCausalLM",),
            when=(("do_layer_norm_before", True), ("_remove_final_layer_norm", False)),
            inner="model.decoder",
            embedding="model.decoder.embed_tokens",
            embedding_projection="model.decoder.project_in",
            position_embedding="model.decoder.embed_positions",
            blocks="model.decoder.layers",
            attention="self_attn",
            mlp="fc2",
            attention_norm="self_attn_layer_norm",
            mlp_norm="final_layer_norm",
            attention_output=("self_attn.out_proj",),
            mlp_output=("fc2",),
            value_projection="self_attn.v_proj",
            final_norm="model.decoder.final_layer_norm",
            final_projection="model.decoder.project_out",
            head="lm_head",
            norm="LayerNorm",
            positions="learned",
            spread="init_std",
        ),
        Family(
            name="phi",
            architectures=("PhiForCausalLM",),
            inner="model",
            embedding="model.embed_tokens",
            blocks="model.layers",
            attention="self_attn",
            mlp="mlp",
            attention_norm="input_layernorm",
            mlp_norm=None,
            attention_output=("self_attn.dense",),
            mlp_output=("mlp.fc2",),
            value_projection="self_attn.v_proj",
            final_norm="model.final_layernorm",
            head="lm_head",
            norm="LayerNorm",
            residual="parallel",
            positions="partial rotary",
        ),
        replace(
            _LLAMA,
            name="olmo2",
            architectures=("Olmo2ForCausalLM",),
            attention_norm=None,
            mlp_norm=None,
            attention_added="post_attention_layernorm",
            mlp_added="post_feedforward_layernorm",
        ),
        Family(
            name="bloom",
            architectures=("BloomForCausalLM",),
            when=(("apply_residual_connection_post_layernorm", False),),
            inner="transformer",
            embedding="transformer.word_embeddings",
            embedding_norm="transformer.word_embeddings_layernorm",
            blocks="transformer.h",
            attention="self_attention",
            mlp="mlp",
            attention_norm="input_layernorm",
            mlp_norm="post_attention_layernorm",
            attention_added="self_attention.dense",
            mlp_added="mlp.dense_4h_to_h",
            attention_output=("self_attention.dense",),
            mlp_output=("mlp.dense_4h_to_h",),
            final_norm="transformer.ln_f",
            head="lm_head",
            norm="LayerNorm",
            positions="alibi",
            position_argument="alibi",
        ),
        replace(
            _LLAMA,
            name="mixtral",
            architectures=("MixtralForCausalLM",),
            mlp_output=("mlp.experts.down_proj",),
        ),
        replace(
            _LLAMA,
            name="qwen2_moe",
            architectures=("Qwen2MoeForCausalLM",),
            when=(("decoder_sparse_step", 1), ("mlp_only_layers", [])),
            mlp_output=("mlp.experts.down_proj", "mlp.shared_expert.down_proj"),
        ),
        replace(
            _LLAMA,
            name="qwen3_moe",
            architectures=("Qwen3MoeForCausalLM",),
            when=(("decoder_sparse_step", 1), ("mlp_only_layers", [])),
            mlp_output=("mlp.experts.down_proj",),
        ),
        replace(
            _LLAMA,
            name="gpt_oss",
            architectures=("GptOssForCausalLM",),
            mlp_output=("mlp.experts.down_proj", "mlp.experts.down_proj_bias"),
            sinks="self_attn.sinks",
        ),
    )
}
"""The known families by name. A new family is one more row; the decoder's own proof judges it."""


def family_of(architecture: str, config: Any = None) -> Family | None:
    """The family of one of the library's class names, or None when no row names it.

    Args:
        architecture: class name.
        config: its configuration, an object or a dictionary; None asks for any row of that class.
    """
    return next(
        (
            family
            for family in FAMILIES.values()
            if (architecture in family.architectures if config is None else family.fits(architecture, config))
        ),
        None,
    )
