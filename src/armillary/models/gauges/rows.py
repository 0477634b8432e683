"""How the sublayers of a family are built inside: where queries, keys, values and neurons lie; one row of data each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["INSIDE", "Inside"]


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What a family's row does not say, since measuring needs none of it; paths are relative to the block.

    Attributes:
        query, key, value: the modules that write them; one module thrice where it writes all.
        order: how heads lie in what those modules write: "apart" (a module each, heads side by side), "side by side"
            (all queries, then all keys, then all values), or "by head" (query, key and value of head 0, of head 1 ...).
        query_norm, key_norm: norms that each head's query and key pass before positions turn them, or None.
        gate: the module behind which the activation of a gated MLP stands, or None.
        up: the module that writes the neurons: those the activation acts on, or those the gate multiplies.
        down: the module that reads the neurons and writes the stream.
        activation: the activation's module or function.
        epsilon: field of the configuration that holds what keeps the norms finite, or None where no field does.
    """

    query: str
    key: str
    value: str
    order: Literal["apart", "side by side", "by head"] = "apart"
    query_norm: str | None = None
    key_norm: str | None = None
    gate: str | None = None
    up: str
    down: str
    activation: str
    epsilon: str | None


_LLAMA = Inside(
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    activation="mlp.act_fn",
    epsilon="rms_norm_eps",
)
_QWEN3 = replace(_LLAMA, query_norm="self_attn.q_norm", key_norm="self_attn.k_norm")
_NEOX = Inside(
    query="attention.query_key_value",
    key="attention.query_key_value",
    value="attention.query_key_value",
    order="by head",
    up="mlp.dense_h_to_4h",
    down="mlp.dense_4h_to_h",
    activation="mlp.act",
    epsilon="layer_norm_eps",
)

INSIDE: dict[str, Inside] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _QWEN3,
    "gemma2": _LLAMA,
    "gemma3": _QWEN3,
    "gpt_neox": _NEOX,
    "gpt_neox_sequential": _NEOX,
    "gpt2": Inside(
        query="attn.c_attn",
        key="attn.c_attn",
        value="attn.c_attn",
        order="side by side",
        up="mlp.c_fc",
        down="mlp.c_proj",
        activation="mlp.act",
        epsilon="layer_norm_epsilon",
    ),
    "opt": replace(_LLAMA, gate=None, up="fc1", down="fc2", activation="activation_fn", epsilon=None),
    "phi": replace(
        _LLAMA, gate=None, up="mlp.fc1", down="mlp.fc2", activation="mlp.activation_fn", epsilon="layer_norm_eps"
    ),
}
"""By the name of the family. A family without a row admits no gauge until somebody writes one: every gauge is verified
on the model at hand, so that a wrong row is refused with the difference it makes."""
