"""Tiny GGUF files of architectures that the library reads, and of every type that a file stores whole or by blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny import CONTEXT, VOCABULARY, randomized, tiny_tokenizer


def tiny_qwen2(*, tied: bool = False, width: int = 24) -> Any:
    """A random `Qwen2ForCausalLM`, biases on query, key and value; grouped heads."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT, tie_word_embeddings=tied,
        use_sliding_window=False, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return randomized(Qwen2ForCausalLM(config), seed=3)


def library_gguf(
    model: Any, path: Path, *, architecture: str, kind: str = "F32", pre_tokenizer: str = "qwen2",
    more: dict[str, Any] | None = None, model_kind: str = "gpt2",
) -> Path:  # fmt: skip
    """A model as a GGUF file under the format's own tensor names, matrices stored as `kind`, no row moved.

    `more` holds further tensors by the format's names.
    """
    import gguf
    import numpy as np

    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if architecture == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model(model_kind)
    writer.add_tokenizer_pre(pre_tokenizer)
    tokens = sorted(tiny_tokenizer().get_vocab().items(), key=lambda entry: entry[1])
    writer.add_token_list([token for token, _ in tokens])
    writer.add_token_types([3 if index >= 256 else 1 for _, index in tokens])
    writer.add_token_merges([])
    names = gguf.get_tensor_name_map(
        next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture), config.num_hidden_layers
    )
    stored = gguf.GGMLQuantizationType[kind]
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if architecture == "gpt2" and name.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and values.ndim == 2:
            values = np.ascontiguousarray(values.T)  # the format keeps rows by output
        stem, _, suffix = name.rpartition(".")
        label = f"{names.get_name(stem)}.{suffix}"
        if values.ndim == 2 and kind != "F32":
            writer.add_tensor(label, gguf.quants.quantize(values, stored), raw_dtype=stored)
        else:
            writer.add_tensor(label, values)
    for label, values in (more or {}).items():
        writer.add_tensor(label, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
