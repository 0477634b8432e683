"""Tiny random decoders of each family and a tiny tokenizer, shared by all tests: real loading code, real hooks, no download.

Every gain and every bias is random too: with unit gains a final norm that is applied twice, or a gain that is forgotten,
would go unnoticed. Weights are large enough (spread 0.3) that every sublayer moves the stream visibly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

VOCABULARY = 260  # 256 bytes and four special tokens
CONTEXT = 64


def randomized(model: Any, *, seed: int, spread: float = 0.3) -> Any:
    """The model with every parameter redrawn: matrices N(0, spread^2), gains near 1.5, biases N(0, 0.3^2); evaluation mode."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_gain = parameter.ndim == 1 and name.endswith("weight")
            parameter.copy_(1.5 + 0.5 * noise if is_gain else (0.3 if parameter.ndim == 1 else spread) * noise)
    return model.eval()


def tiny_llama(
    *,
    seed: int = 0,
    layers: int = 4,
    width: int = 24,
    heads: int = 4,
    key_value_heads: int = 2,
    tied: bool = False,
    attention_bias: bool = False,
    vocabulary: int = VOCABULARY,
) -> Any:
    """A random `LlamaForCausalLM` with grouped heads (4 query heads share 2 key-value heads)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tied,
        attention_bias=attention_bias,
        mlp_bias=attention_bias,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return randomized(LlamaForCausalLM(config), seed=seed)


def tiny_gpt2(*, seed: int = 0, layers: int = 4, width: int = 24, heads: int = 4, tied: bool = True) -> Any:
    """A random `GPT2LMHeadModel`; its dropout stays at the library's 0.1, so a forgotten evaluation mode shows."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_positions=CONTEXT,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=None,
    )
    return randomized(GPT2LMHeadModel(config), seed=seed)


USUAL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
GROUPED: dict[str, Any] = {**USUAL, "num_key_value_heads": 2}
WINDOW = 8
OWN_NAMES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_attention_heads": 4,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
NEOX = {**USUAL, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.67}}
LISTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mistral": ("MistralConfig", "MistralForCausalLM", {**GROUPED, "sliding_window": WINDOW}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**GROUPED, "head_dim": 6}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", NEOX),
    "gpt_neox_sequential": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {**NEOX, "use_parallel_residual": False}),
    "gemma2": (
        "Gemma2Config",
        "Gemma2ForCausalLM",
        {**GROUPED, "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": WINDOW, "attn_logit_softcapping": 5.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {**GROUPED, "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": WINDOW, "sliding_window_pattern": 2},
    ),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {**OWN_NAMES, "ffn_dim": 48, "max_position_embeddings": CONTEXT, "word_embed_proj_dim": 24},
    ),
    "phi": (
        "PhiConfig",
        "PhiForCausalLM",
        {**USUAL, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.67}},
    ),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", GROUPED),
    "bloom": ("BloomConfig", "BloomForCausalLM", OWN_NAMES),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {**GROUPED, "num_local_experts": 3}),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        {**GROUPED, **EXPERTS, "shared_expert_intermediate_size": 16},
    ),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {**GROUPED, **EXPERTS, "head_dim": 6}),
    "gpt_oss": (
        "GptOssConfig",
        "GptOssForCausalLM",
        {
            **GROUPED,
            "num_local_experts": 3,
            "num_experts_per_tok": 2,
            "head_dim": 6,
            "sliding_window": WINDOW,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
}
"""What makes a tiny instance of every family besides Llama and GPT-2: configuration, model, fields."""


def families() -> tuple[str, ...]:
    """The name of every listed family: a row without a tiny instance fails the tests that ask for one."""
    from armillary.models.families import FAMILIES

    return tuple(FAMILIES)


def sequential_families() -> tuple[str, ...]:
    """Those whose blocks have a tap between attention and MLP."""
    from armillary.models.families import FAMILIES

    return tuple(name for name, row in FAMILIES.items() if row.residual == "sequential")


def built(config: str, model: str, fields: dict[str, Any], *, seed: int = 0, layers: int = 4, **changed: Any) -> Any:
    """A random model of the library from the names of its classes; `tied` and other fields override."""
    import transformers

    if "tied" in changed:
        changed["tie_word_embeddings"] = changed.pop("tied")
    made = getattr(transformers, config)(**{**fields, "num_hidden_layers": layers, **changed})
    return randomized(getattr(transformers, model)(made), seed=seed)


def tiny_tokenizer() -> Any:
    """Byte-level: one token a byte, ids 0..255, and four special tokens; it adds no start token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<start>", "<end>", "<pad>", "<unknown>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<start>", eos_token="<end>", pad_token="<pad>"
    )


def tiny_model(family: str, **options: Any) -> Any:
    """A tiny random model of a listed family, by its name: four blocks of width 24 with four heads."""
    if family in LISTED:
        return built(*LISTED[family], **options)
    return {"llama": tiny_llama, "gpt2": tiny_gpt2}[family](**options)


def tiny_decoder(family: str = "llama", **options: Any) -> Any:
    """A `Decoder` around a tiny random model, with the tiny tokenizer."""
    from armillary.models.decoder import decoder_from_model

    return decoder_from_model(tiny_model(family, **options), tiny_tokenizer(), name=f"tiny {family}")


def tiny_ids(*, documents: int = 3, tokens: int = 17, seed: int = 0) -> Tensor:
    """Random token ids [documents, tokens] below 256."""
    import torch

    return torch.randint(0, 256, (documents, tokens), generator=torch.Generator().manual_seed(seed))


def saved(model: Any, path: Path) -> Path:
    """The model and the tiny tokenizer written as a folder that `load_decoder` reads."""
    model.save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def tiny_gguf(
    model: Any, path: Path, *, pre_tokenizer: str = "smollm", quantized: bool = False, **changed: Any
) -> Path:
    """A Llama as a GGUF file, the way llama.cpp's converter writes it: query and key rows permuted, tokenizer inside.

    `changed` overrides single fields, `general_architecture="qwen2"` for instance.
    """
    import gguf
    import numpy as np

    config = model.config
    writer = gguf.GGUFWriter(path, changed.pop("general_architecture", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    tokens = sorted(tiny_tokenizer().get_vocab().items(), key=lambda entry: entry[1])
    merged = {254: "12", 255: "Ġa"}  # two merges, in the place of two rare bytes
    writer.add_token_list([merged.get(index, token) for token, index in tokens])
    writer.add_token_types([3 if index >= 256 else 1 for _, index in tokens])
    writer.add_token_merges(["1 2", "Ġ a"])
    for name, value in changed.items():
        writer.add_string(name.replace("__", "."), value)
    parts = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    parts |= {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
    parts |= {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    others = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    for name, parameter in model.named_parameters():
        rows = parameter.detach().numpy()
        part = name.split(".")[-2]
        if part in heads:  # written out, so that the reader is not judged by its own inverse
            size = rows.shape[0] // heads[part]
            order = [
                head * size + half * size // 2 + j
                for head in range(heads[part])
                for j in range(size // 2)
                for half in (0, 1)
            ]
            rows = np.ascontiguousarray(rows[order])
        stored = others.get(name) or (
            "output.weight" if name == "lm_head.weight" else f"blk.{name.split('.')[2]}.{parts[part]}.weight"
        )
        if quantized and rows.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0 if stored == "token_embd.weight" else gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(stored, gguf.quants.quantize(rows, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
