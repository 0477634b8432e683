"""The row of a model that none names, inferred from one traced pass: who reads what, and whose output is added."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import UnsupportedModelError
from armillary.models.families import SQRT_WIDTH, Family
from armillary.models.norming import judged_norm
from armillary.models.tracing import Call, Trace, same_rows, traced

__all__ = ["inferred"]

_DOWN = ("down_proj", "output_linear", "w2", "c_proj", "fc2", "dense_4h_to_h")
"""What the last matrix of an expert is called where experts cannot be told apart by the order of their calls."""


def inferred(model: Any) -> Family:
    """The row of a causal language model of the library, from its module tree and one pass over five ids.

    Nothing of it is believed: the decoder's own proof decides.

    Raises:
        UnsupportedModelError: says which part could not be found.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise _missing(model, "a decoder alone", "an encoder beside it")
    blocks, stack = _blocks(model)
    embedding, head = _name_of(model, model.get_input_embeddings()), _name_of(model, model.get_output_embeddings())
    if embedding is None or head is None:
        raise _missing(model, "an embedding and a head", "not both")
    try:
        trace = traced(model)
    except Exception as trouble:  # whatever a model that is no plain decoder ends in
        reason = " ".join(str(trouble).split())[:200].rstrip(".")
        raise _missing(model, "to run on ids alone", f"{type(trouble).__name__}: {reason}") from trouble
    first, last = (trace.calls.get(f"{blocks}.{name}") for name in (next(iter(stack)), next(reversed(stack))))
    if first is None or last is None or first.read is None:
        raise _missing(model, "to call its blocks", "they were not called")
    final = _only(call for call in _outside(trace, blocks) if call.is_norm and same_rows(call.read, last.wrote))
    if final is None:
        raise _missing(model, "a norm after the last block", "no norm reads what that block writes")
    judged = judged_norm(final.module, final.read, final.wrote)
    if judged is None:
        raise _missing(model, "a LayerNorm or RMSNorm after the last block", type(final.module).__name__)
    return Family(
        name=str(getattr(model.config, "model_type", type(model).__name__)),
        architectures=(type(model).__name__,),
        inner=str(model.base_model_prefix),
        embedding=embedding,
        blocks=blocks,
        final_norm=final.path,
        head=head,
        norm=judged[0],
        gain=judged[1],
        spread="initializer_range" if hasattr(model.config, "initializer_range") else "init_std",
        origin="inferred",
        **_wiring(model, trace, first),
        **_beginning(model, trace, first.read, blocks, embedding),
        **_positions(model, trace, first, blocks, embedding),
        **_logits(model, trace, head),
    )


def _wiring(model: Any, trace: Trace, block: Call) -> dict[str, Any]:
    """Sublayers, their norms, what they add and how: from block 1."""
    attention = _attention(model, trace, block)
    inside = [call for call in trace.within(block.path) if not call.path.startswith(f"{attention.path}.")]
    norms = [call for call in inside if call.is_norm]
    entry, mlp = _mlp(model, block, inside, attention)
    reader = _only(call for call in norms if same_rows(call.wrote, attention.read))
    if reader is None and not same_rows(attention.read, block.read):
        raise _missing(model, "an attention that reads the stream, or a norm of it", "it reads something else")
    second = _only(call for call in norms if same_rows(call.wrote, entry.read))
    middle = entry.read if second is None else second.read
    parallel = same_rows(middle, block.read)
    paths = {"attention": _added(trace, norms, attention, middle), "mlp": _added(trace, norms, mlp, block.wrote)}
    output = _last_linear(trace, attention)
    if output is None:
        raise _missing(model, "an attention with an output projection", "it calls no matrix of its own")
    update = trace.calls[paths["attention"]].wrote
    local = {call: call.path.removeprefix(f"{block.path}.") for call in (*inside, attention)}
    return {
        "attention": local[attention],
        "mlp": local[mlp],
        "attention_norm": None if reader is None else local[reader],
        "mlp_norm": None if second is None or second is reader else local[second],
        "attention_added": _local(block, paths["attention"], attention),
        "mlp_added": _local(block, paths["mlp"], mlp),
        "residual": "parallel" if parallel else "sequential",
        "residual_multiplier": None if parallel else _multiplier(model.config, middle, block.read, update),
        "attention_output": (output.path.removeprefix(f"{block.path}."),),
        "attention_output_axis": 0 if type(output.module).__name__ == "Conv1D" else 1,
        "mlp_output": _written(trace, block, mlp),
        "value_projection": _values(model.config, block, attention),
        "sinks": _sinks(model.config, block, attention),
    }


def _attention(model: Any, trace: Trace, block: Call) -> Call:
    for call in sorted(trace.within(block.path), key=lambda call: call.path.count(".")):
        named = f"{type(call.module).__name__} {call.path.rsplit('.', 1)[-1]}".lower()
        matrices = any(parameter.ndim == 2 for parameter in call.module.parameters())
        if ("attention" in named or "attn" in named) and matrices and not call.is_norm and not call.is_linear:
            return call
    raise _missing(model, "an attention in every block", "block 1 has no module of that name")


def _mlp(model: Any, block: Call, inside: list[Call], attention: Call) -> tuple[Call, Call]:
    """The first and the last module of what a block does besides attention: one module as a rule."""
    depth = block.path.count(".") + 1
    children = [
        call
        for call in inside
        if call.path.count(".") == depth and call is not attention and not call.is_norm and _has_matrices(call.module)
    ]
    if not children:
        raise _missing(model, "an MLP in every block", "block 1 has no matrices besides its attention")
    return children[0], children[-1]


def _added(trace: Trace, norms: list[Call], sublayer: Call, stream: Tensor | None) -> str:
    """The module whose output is added: a norm behind the sublayer, the sublayer, or the last matrix inside it."""
    behind = _only(call for call in norms if same_rows(call.read, sublayer.wrote) and not same_rows(call.read, stream))
    if behind is not None:
        return behind.path
    inside = _last_linear(trace, sublayer)
    carries = same_rows(sublayer.wrote, stream) and inside is not None
    return inside.path if carries and inside is not None else sublayer.path


def _local(block: Call, path: str, sublayer: Call) -> str | None:
    return None if path == sublayer.path else path.removeprefix(f"{block.path}.")


def _last_linear(trace: Trace, sublayer: Call) -> Call | None:
    if sublayer.is_linear:
        return sublayer
    found = [call for call in trace.within(sublayer.path) if call.is_linear]
    return found[-1] if found else None


def _written(trace: Trace, block: Call, mlp: Call) -> tuple[str, ...]:
    """All that writes the MLP's output: its last matrix, or in a mixture the last of every expert."""
    prefix = mlp.path.removeprefix(f"{block.path}.")
    experts = [name for name, tensor in mlp.module.named_parameters() if tensor.ndim == 3 or "experts." in name]
    if not experts:
        last = _last_linear(trace, mlp)
        return (prefix,) if last is None else (last.path.removeprefix(f"{block.path}."),)
    names = [name for name, _ in mlp.module.named_parameters() if any(part in name for part in _DOWN)]
    return tuple(f"{prefix}.{name}" for name in names) or (prefix,)


def _values(config: Any, block: Call, attention: Call) -> str | None:
    from armillary.models.facts import key_value_heads

    heads, groups = config.num_attention_heads, key_value_heads(config)
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    own = "" if attention.path == block.path else attention.path.removeprefix(f"{block.path}.") + "."
    for name, module in attention.module.named_modules():
        wide = module.out_features if isinstance(module, nn.Linear) else 0
        alone = wide == groups * size and name.rsplit(".", 1)[-1] in ("v_proj", "value")
        if alone or (groups < heads and wide == (heads + 2 * groups) * size):
            return own + name
    return None


def _sinks(config: Any, block: Call, attention: Call) -> str | None:
    for name, parameter in attention.module.named_parameters():
        if "sink" in name and parameter.shape == (config.num_attention_heads,):
            return f"{attention.path.removeprefix(f'{block.path}.')}.{name}"
    return None


def _multiplier(config: Any, middle: Tensor | None, before: Tensor | None, update: Tensor | None) -> str | None:
    """The field of the configuration that says by which number an update is multiplied; None where that is one."""
    if middle is None or before is None or update is None or middle.numel() != before.numel():
        return None
    change = (middle.reshape(before.shape) - before).double()
    number = float((change * update.reshape(before.shape).double()).sum() / update.double().square().sum())
    return None if abs(number - 1) < 1e-3 else _field_with(config, number, ("residual", "multiplier", "scale"))


def _beginning(model: Any, trace: Trace, start: Tensor, blocks: str, embedding: str) -> dict[str, Any]:
    """What lies between the embedding's own rows and block 1."""
    raw = model.get_input_embeddings().weight.detach()[trace.ids]
    found: dict[str, Any] = {}
    state = trace.calls[embedding].wrote
    outside = list(_outside(trace, blocks))
    projection = _only(call for call in outside if call.is_linear and same_rows(call.read, state))
    if projection is not None:
        return {"embedding_projection": projection.path}
    norm = _only(call for call in outside if call.is_norm and same_rows(call.wrote, start))
    if norm is not None:
        found["embedding_norm"], state = norm.path, norm.read
    elif not any(isinstance(call.module, nn.Embedding) and call.path != embedding for call in outside):
        state = start
    if state is not None and state.numel() == raw.numel():
        number = float((state.double() * raw.double()).sum() / raw.double().square().sum())
        if abs(number - raw.shape[-1] ** 0.5) < 1e-2:
            found["embedding_multiplier"] = SQRT_WIDTH
        elif abs(number - 1) > 1e-3:
            found["embedding_multiplier"] = _field_with(model.config, number, ("embed", "emb", "multiplier", "scale"))
    return found


def _positions(model: Any, trace: Trace, block: Call, blocks: str, embedding: str) -> dict[str, Any]:
    tables = [
        call for call in _outside(trace, blocks) if isinstance(call.module, nn.Embedding) and call.path != embedding
    ]
    if len(tables) == 1:
        return {"position_embedding": tables[0].path, "positions": "learned"}
    frequencies = [buffer for name, buffer in model.named_buffers() if name.endswith("inv_freq")]
    if frequencies:
        size = getattr(model.config, "head_dim", None) or model.config.hidden_size // model.config.num_attention_heads
        part = 2 * frequencies[0].numel() < size
        return {"positions": "partial rotary" if part else "rotary"}
    for call in trace.within(block.path):
        for name in ("alibi", "position_bias"):
            if name in call.named:
                return {"positions": "alibi", "position_argument": name}
    return {"positions": "in no module that could be told"}


def _logits(model: Any, trace: Trace, head: str) -> dict[str, Any]:
    """What acts on the head's output: nothing, or one field of the configuration."""
    call, whole = trace.calls.get(head), trace.calls.get("")
    if call is None or whole is None or call.wrote is None or whole.wrote is None:
        return {}
    z, logits = call.wrote.double(), whole.wrote.double()
    tolerance = 1e-4 * float(logits.abs().max())
    if float((z - logits).abs().max()) <= tolerance:
        return {}
    for field, number in _numbers(model.config):
        if "logit" in field and number > 0:
            for kind, made in (
                ("logit_multiplier", z * number),
                ("logit_divisor", z / number),
                ("logit_cap", torch.tanh(z / number) * number),
            ):
                if float((made - logits).abs().max()) <= tolerance:
                    return {kind: field}
    return {}


def _field_with(config: Any, number: float, words: tuple[str, ...]) -> str | None:
    fields = [name for name, value in _numbers(config) if abs(value - number) <= 1e-3 * max(abs(number), 1e-9)]
    return next((name for name in fields if any(word in name for word in words)), None)


def _numbers(config: Any) -> list[tuple[str, float]]:
    fields = config.to_dict().items()
    return [(name, float(value)) for name, value in fields if isinstance(value, int | float) and value is not True]


def _blocks(model: Any) -> tuple[str, dict[str, nn.Module]]:
    """The list of blocks: of all lists of modules the first with one entry for each layer and attention in it."""
    wanted = getattr(model.config, "num_hidden_layers", None)
    for path, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == wanted and len(module) > 0:
            return path, {name: block for name, block in module._modules.items() if block is not None}
    raise _missing(model, f"a list of {wanted} blocks", "no list of modules of that length")


def _outside(trace: Trace, blocks: str) -> list[Call]:
    return [call for path, call in trace.calls.items() if path and not path.startswith(f"{blocks}.")]


def _has_matrices(module: nn.Module) -> bool:
    return any(parameter.ndim >= 2 for parameter in module.parameters())


def _only(calls: Any) -> Call | None:
    return next(iter(calls), None)


def _name_of(model: Any, module: Any) -> str | None:
    return next((path for path, other in model.named_modules() if other is module and module is not None), None)


def _missing(model: Any, wanted: str, found: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"Argument `model` must have {wanted} for the family of {type(model).__name__} to be inferred, but {found}. "
        "Measure another model, or add its family (one row of data)."
    )
