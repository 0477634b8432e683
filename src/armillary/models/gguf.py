"""A GGUF file read right: configuration and un-permuted weights in the library's own terms, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.models.gguf_library import through_library
from armillary.models.gguf_tokenizer import FileTokenizer, file_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GGUFContent", "gguf_content", "stored_by_llama_cpp", "stored_by_transformers"]

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

    `config` is a config.json, `tensors` are float32 under the names of the library's modules; `quantization` says the
    bits ("4-bit (Q4_1)") or is None.
    """

    config: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]
    tokenizer: FileTokenizer
    quantization: str | None


def gguf_content(path: Path, *, own_tokenizer: bool = True) -> GGUFContent:
    """Read a GGUF file: a Llama by our own reader, another architecture through the library's.

    Args:
        path: the file.
        own_tokenizer: whether the file's own tokenizer will be used: one that cannot be proved is then refused.

    Returns:
        Configuration, dequantized float32 tensors (query and key rows in the library's order) and tokenizer.

    Raises:
        ArgumentError: the file is not a GGUF file, or it is truncated.
        UnsupportedModelError: an architecture, a tensor or a pre-tokenizer without a known meaning.
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

    architecture = value("general.architecture")
    _refuse_scaled(path, value, architecture)
    if architecture != "llama":
        tokenizer = file_tokenizer(path, value, required=own_tokenizer)
        return GGUFContent(*through_library(path, reader), tokenizer, _quantization(reader))
    _refuse_unknown(path, value, reader)
    tensor_names = {tensor.name for tensor in reader.tensors}
    config = _config(path, value, tied="output.weight" not in tensor_names)
    tokenizer = file_tokenizer(path, value, required=own_tokenizer)
    return GGUFContent(config, _tensors(path, reader, config), tokenizer, _quantization(reader))


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


def _refuse_scaled(path: Path, value: Any, architecture: str) -> None:
    for name in (f"{architecture}.rope.scaling.type", f"{architecture}.rope.scaling.factor"):
        if value(name, None) not in (None, "none", 0, 1, 1.0):
            raise UnsupportedModelError(
                f"Argument `source` must have plain positions, but {path.name} says {name} = {value(name)!r}, which "
                "armillary does not read from GGUF. Load the model's safetensors instead."
            )


def _refuse_unknown(path: Path, value: Any, reader: Any) -> None:
    if value("llama.expert_count", None) not in (None, 0, 1):
        raise UnsupportedModelError(
            f"Argument `source` must be a plain Llama, but {path.name} has {value('llama.expert_count')} experts, "
            "which armillary does not read from GGUF. Load the model's safetensors instead."
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
    embedding = next((one.tensor_type.name for one in matrices if one.name == "token_embd.weight"), most)
    return words if embedding == most else f"{words}, embedding {_bits(embedding)}"


def _bits(kind: str) -> str:
    if kind in _UNQUANTIZED:
        return kind
    bits = _BITS.get(kind.split("_")[0])
    return kind if bits is None else f"{bits}-bit ({kind})"
