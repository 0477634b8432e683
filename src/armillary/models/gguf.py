"""A GGUF file read right: configuration, un-permuted weights, the tokenizer with its own rule, or a refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.errors import ArgumentError, UnsupportedModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PRE_TOKENIZERS", "GGUFContent", "gguf_content", "stored_by_llama_cpp", "stored_by_transformers"]

PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    "smollm": ("digits", "byte level"),
    "gpt-2": ("byte level",),
}
"""Pre-tokenizers known to be rebuilt exactly, by the name the file gives: the steps in order.

A text that was cut by the wrong rule still decodes to itself, so a wrong guess would go unnoticed; a name that is not
in this table is refused."""

_CONTROL, _USER_DEFINED = 3, 4  # token types of the format

_BLOCK_TENSORS = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_OTHER_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BITS = {"Q2": 2, "Q3": 3, "Q4": 4, "Q5": 5, "Q6": 6, "Q8": 8, "IQ1": 1, "IQ2": 2, "IQ3": 3, "IQ4": 4}
_UNQUANTIZED = {"F64", "F32", "F16", "BF16"}


@dataclass(frozen=True)
class GGUFContent:
    """What a GGUF file holds, in the library's own terms.

    `config` is a config.json, `tensors` are float32 under the names of the library's modules, `tokenizer` is a
    tokenizer.json and `tokenizer_config` a tokenizer_config.json; `quantization` says the bits ("4-bit (Q4_1)") or is
    None.
    """

    config: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]
    tokenizer: str
    tokenizer_config: dict[str, Any]
    quantization: str | None


def gguf_content(path: Path) -> GGUFContent:
    """Read a GGUF file of the Llama architecture.

    Args:
        path: the file.
    Returns:
        Configuration, dequantized float32 tensors (query and key rows in the library's order) and tokenizer.
    Raises:
        ArgumentError: the file is not a GGUF file, or it is truncated.
        UnsupportedModelError: another architecture, a tensor or a pre-tokenizer without a known meaning.
    Source:
        The GGUF specification (ggml); the row order of query and key is that of llama.cpp's `convert_hf_to_gguf.py`.
    """
    reader = _opened(path)
    fields = dict(reader.fields)

    def value(name: str, *default: Any) -> Any:
        if name not in fields and not default:
            raise ArgumentError(
                f"Argument `source` must be a whole GGUF file of a decoder, but {path.name} holds no field {name}. "
                "Fetch it again."
            )
        return fields[name].contents() if name in fields else default[0]

    _refuse_unknown(path, value, reader)
    tensor_names = {tensor.name for tensor in reader.tensors}
    config = _config(path, value, tied="output.weight" not in tensor_names)
    tokenizer, tokenizer_config = _tokenizer(path, value)
    return GGUFContent(
        config=config,
        tensors=_tensors(path, reader, config),
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        quantization=_quantization(reader),
    )


def stored_by_transformers(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Query or key rows in the library's order, from the order llama.cpp stores (pairs of a rotation side by side).

    Args:
        rows: [heads * head_dim, width], within a head row 2 j + s.
        heads: how many heads share the rows.
    Returns:
        The same rows, within a head row s * head_dim / 2 + j.
    """
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def stored_by_llama_cpp(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The inverse of `stored_by_transformers`: rows as a GGUF file stores them."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _opened(path: Path) -> Any:
    from gguf import GGUFReader

    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ArgumentError(
            f"Argument `source` must be a GGUF file, but {path} starts with {magic!r}. Name another file."
        )
    try:
        reader = GGUFReader(path)
        held = int(reader.fields["GGUF.tensor_count"].contents())
    except Exception as trouble:  # the reader knows no error of its own: a cut file ends in any of a dozen
        raise ArgumentError(
            f"Argument `source` must be a whole GGUF file, but {path} ({path.stat().st_size} bytes) is truncated or "
            f"damaged: {type(trouble).__name__}: {str(trouble).rstrip('.')}. Fetch it again."
        ) from trouble
    if len(reader.tensors) != held:
        raise ArgumentError(
            f"Argument `source` must be a whole GGUF file, but {path} holds {len(reader.tensors)} of {held} tensors. "
            "Fetch it again."
        )
    return reader


def _refuse_unknown(path: Path, value: Any, reader: Any) -> None:
    architecture = value("general.architecture")
    if architecture != "llama":
        raise UnsupportedModelError(
            f"Argument `source` must be a GGUF file of the llama architecture, but {path.name} says {architecture!r}. "
            "Load the model's safetensors instead."
        )
    for name in ("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.expert_count"):
        if value(name, None) not in (None, "none", 0, 1, 1.0):
            raise UnsupportedModelError(
                f"Argument `source` must be a plain Llama, but {path.name} says {name} = {value(name)!r}, which "
                "armillary does not read from GGUF. Load the model's safetensors instead."
            )
    rotated = value("llama.rope.dimension_count", None)
    head_dim = value(
        "llama.attention.key_length", value("llama.embedding_length") // value("llama.attention.head_count")
    )
    if rotated not in (None, head_dim):
        raise UnsupportedModelError(
            f"Argument `source` must rotate whole heads, but {path.name} rotates {rotated} of {head_dim} dimensions. "
            "Load the model's safetensors instead."
        )
    unknown = [tensor.name for tensor in reader.tensors if _library_name(tensor.name) is None]
    if unknown:
        raise UnsupportedModelError(
            f"Argument `source` must hold known tensors only, but {path.name} holds {unknown[0]!r}. "
            "Load the model's safetensors instead."
        )


def _config(path: Path, value: Any, *, tied: bool) -> dict[str, Any]:
    heads, width = value("llama.attention.head_count"), value("llama.embedding_length")
    base = value("llama.rope.freq_base", 10000.0)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(value("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("llama.attention.head_count_kv", heads),
        "head_dim": value("llama.attention.key_length", width // heads),
        "hidden_act": "silu",
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": _shortest(value("llama.attention.layer_norm_rms_epsilon")),
        "rope_parameters": {"rope_type": "default", "rope_theta": _shortest(base)},
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": value("tokenizer.ggml.bos_token_id", None),
        "eos_token_id": value("tokenizer.ggml.eos_token_id", None),
        "pad_token_id": value("tokenizer.ggml.padding_token_id", None),
        "dtype": "float32",
    }


def _shortest(number: float) -> float:
    """The shortest decimal that is the same float32: 1e-05 for 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(number)))


def _library_name(name: str) -> str | None:
    if name in _OTHER_TENSORS:
        return _OTHER_TENSORS[name]
    head, _, rest = name.partition(".")
    block, _, part = rest.partition(".")
    if head == "blk" and block.isdigit() and part in _BLOCK_TENSORS:
        return f"model.layers.{block}.{_BLOCK_TENSORS[part]}"
    return None


def _tensors(path: Path, reader: Any, config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    import numpy as np
    from gguf.quants import dequantize

    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    tensors: dict[str, NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as trouble:
            raise UnsupportedModelError(
                f"Argument `source` must hold tensors of a known type, but {tensor.name!r} of {path.name} is "
                f"{tensor.tensor_type.name}. Load the model's safetensors instead."
            ) from trouble
        values = np.asarray(values, dtype=np.float32).reshape(tuple(int(size) for size in reversed(tensor.shape)))
        name = _library_name(tensor.name)
        assert name is not None  # `_refuse_unknown` came first
        permuted = name.rsplit(".", 2)[1]
        if permuted in heads:
            values = stored_by_transformers(values, heads[permuted])
        tensors[name] = np.array(values)  # a copy: the reader's arrays are views of the read-only file
    return tensors


def _quantization(reader: Any) -> str | None:
    matrices = [tensor for tensor in reader.tensors if len(tensor.shape) > 1]
    sizes: dict[str, int] = {}
    for tensor in matrices:
        sizes[tensor.tensor_type.name] = sizes.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    most = max(sizes, key=lambda kind: sizes[kind])
    if most in _UNQUANTIZED:
        return None
    words = _bits(most)
    embedding = next(tensor.tensor_type.name for tensor in matrices if tensor.name == "token_embd.weight")
    return words if embedding == most else f"{words}, embedding {_bits(embedding)}"


def _bits(kind: str) -> str:
    if kind in _UNQUANTIZED:
        return kind
    bits = _BITS.get(kind.split("_")[0])
    return kind if bits is None else f"{bits}-bit ({kind})"


def _tokenizer(path: Path, value: Any) -> tuple[str, dict[str, Any]]:
    """tokenizer.json and tokenizer_config.json from the file's own tokens, merges and pre-tokenizer name."""
    from tokenizers import processors

    tokenizer, tokens = _byte_pairs(path, value), value("tokenizer.ggml.tokens")
    names = {
        role: tokens[index]
        for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (index := value(f"tokenizer.ggml.{key}_token_id", None)) is not None
    }
    before = [names["bos"]] if value("tokenizer.ggml.add_bos_token", False) else []
    after = [names["eos"]] if value("tokenizer.ggml.add_eos_token", False) else []
    if before or after:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], special_tokens=[(token, tokens.index(token)) for token in before + after]
        )
    settings: dict[str, Any] = {f"{role}_token": token for role, token in names.items()}
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if (template := value("tokenizer.chat_template", None)) is not None:
        settings["chat_template"] = template
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False), settings


def _byte_pairs(path: Path, value: Any) -> Any:
    """The byte-level tokenizer of the file's tokens and merges, its text cut by the rule the file names."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, rule = value("tokenizer.ggml.model"), value("tokenizer.ggml.pre", None)
    if kind != "gpt2" or rule not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedModelError(
            f"Argument `source` must use a pre-tokenizer that armillary can rebuild exactly ({known}, of kind gpt2), "
            f"but {path.name} uses {rule!r} of kind {kind!r}. Load the model's safetensors and tokenizer.json instead."
        )
    tokens, types = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ", 1)) for merge in value("tokenizer.ggml.merges")]
    try:
        tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    except Exception as trouble:  # the library raises plain exceptions
        raise UnsupportedModelError(
            f"Argument `source` must hold merges of its own tokens, but {path.name} does not: {trouble}. "
            "Fetch it again."
        ) from trouble
    steps = {
        "digits": pre_tokenizers.Digits(individual_digits=True),
        "byte level": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    }
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([steps[step] for step in PRE_TOKENIZERS[rule]])
    tokenizer.decoder = decoders.ByteLevel()
    added = [(token, int(sort)) for token, sort in zip(tokens, types, strict=True) if sort in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=sort == _CONTROL) for token, sort in added])
    return tokenizer
