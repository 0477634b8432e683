"""What the proof of a decoder looks at: a few short passes on random ids, and the tensors they showed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from armillary.models.anatomy import Decoder
from armillary.models.capture import Tap, first_tensor, stream

__all__ = ["ROUNDING", "Evidence", "difference", "gathered", "hands_out_maps", "largest", "random_ids", "tolerance"]

ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""What counts as rounding, relative to the largest entry, by the type of the weights; in float64 the library still
takes rotations and the eager softmax in float32."""

SUBLAYERS = ("attention", "mlp")


@dataclass(eq=False)
class Evidence:
    """What the passes showed.

    Attributes:
        decoder: the decoder.
        ids: three documents [3, tokens]; the third is the first with another last token.
        residuals, reads: the stream at each tap, and what is read of it.
        updates: what each sublayer adds, by ("attention" or "mlp", block), before the family's multiplier.
        mlp_reads: what the MLP of each block, or the norm before it, reads.
        attentions, hidden_states: the library's own lists.
        attention_calls: the arguments of each attention, by block.
        beginning: outputs of the embedding and the modules behind it, by path.
        final: under "states" what the model below the head hands on in the last pass.
        logits: of the eager pass.
        plain, captured, again: logits of the usual pass, of one with hooks on the stream, and of a second usual one.
    """

    decoder: Decoder
    ids: Tensor
    residuals: dict[Tap, Tensor] = field(default_factory=dict)
    reads: dict[Tap, Tensor] = field(default_factory=dict)
    updates: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    mlp_reads: dict[int, Tensor] = field(default_factory=dict)
    attentions: tuple[Tensor, ...] = ()
    hidden_states: tuple[Tensor, ...] = ()
    attention_calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)
    beginning: dict[str, Tensor] = field(default_factory=dict)
    final: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    plain: Tensor = field(default_factory=lambda: torch.empty(0))
    captured: Tensor = field(default_factory=lambda: torch.empty(0))
    again: Tensor = field(default_factory=lambda: torch.empty(0))


def gathered(decoder: Decoder, tokens: int) -> Evidence:
    """Run the passes.

    Args:
        decoder: the decoder; hooks and attention implementation are the caller's to put back.
        tokens: the length of the documents.
    """
    seen = Evidence(decoder, random_ids(decoder, tokens))
    _eager_pass(seen)
    seen.plain = decoder.logits(seen.ids)
    with stream(decoder, lambda tap, residual, read: residual):
        seen.captured = decoder.logits(seen.ids)
    note = _into(seen.final, "states", lambda inputs, named, output: output[0])
    noting = decoder.inner.register_forward_hook(note, with_kwargs=True)
    try:
        seen.again = decoder.logits(seen.ids)
    finally:
        noting.remove()
    return seen


def random_ids(decoder: Decoder, tokens: int) -> Tensor:
    """Three documents [3, tokens] of random ids; the third is the first with another last token."""
    ids = torch.randint(decoder.facts.vocabulary, (3, tokens), generator=torch.Generator().manual_seed(0))
    ids[2] = ids[0]
    ids[2, -1] = (ids[0, -1] + 1) % decoder.facts.vocabulary
    return ids


def hands_out_maps(model: Any) -> bool:
    """Whether the library's eager attention, which alone forms the maps, is in use or can be switched to.

    Some classes decide once, when they are built, and keep what they have whatever they are told.
    """
    implementation = model.config._attn_implementation
    if implementation == "eager":
        return True
    model.set_attn_implementation("eager")
    switched = bool(model.config._attn_implementation == "eager")
    model.set_attn_implementation(implementation)
    return switched


def _eager_pass(seen: Evidence) -> None:
    """One pass with the library's eager attention, which alone hands out its maps."""
    decoder = seen.decoder

    def keep(tap: Tap, residual: Tensor, read: Tensor) -> None:
        seen.residuals[tap], seen.reads[tap] = residual, read

    implementation = decoder.model.config._attn_implementation
    if implementation != "eager":
        decoder.model.set_attn_implementation("eager")
    with ExitStack() as hooks, torch.no_grad():
        for module, hook in _listeners(seen):
            hooks.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
        hooks.enter_context(stream(decoder, keep))
        output = decoder.model(
            input_ids=seen.ids.to(decoder.device), use_cache=False, output_attentions=True, output_hidden_states=True
        )
    if implementation != "eager":
        decoder.model.set_attn_implementation(implementation)
    seen.attentions = tuple(maps for maps in output.attentions or () if maps is not None)
    seen.hidden_states, seen.logits = tuple(output.hidden_states or ()), output.logits


def _listeners(seen: Evidence) -> list[tuple[nn.Module, Callable[..., None]]]:
    """Modules and the hooks that note what they read or write; clones, since some blocks add in place."""
    decoder, row = seen.decoder, seen.decoder.family
    rows = torch.Size((*seen.ids.shape, decoder.facts.width))

    def update(inputs: Any, named: Any, output: Any) -> Tensor:
        tensor = first(output).clone()
        return tensor.reshape(rows) if tensor.numel() == rows.numel() else tensor

    def read(inputs: Any, named: Any, output: Any) -> Tensor:
        tensor = first_tensor(inputs, named).clone()
        return tensor.reshape(rows) if tensor.numel() == rows.numel() else tensor

    def call(inputs: Any, named: Any, output: Any) -> Any:
        return inputs, named

    def wrote(inputs: Any, named: Any, output: Any) -> Any:
        return output

    found: list[tuple[nn.Module, Callable[..., None]]] = []
    for layer in range(1, decoder.facts.layers + 1):
        for sublayer in SUBLAYERS:
            found.append((decoder.added(sublayer, layer), _into(seen.updates, (sublayer, layer), update)))
        mlp = decoder.block(layer).get_submodule(row.mlp_norm or row.mlp)
        found.append((mlp, _into(seen.mlp_reads, layer, read)))
        found.append((decoder.attention(layer), _into(seen.attention_calls, layer, call)))
    for path in (row.embedding, row.embedding_projection, row.embedding_norm, row.position_embedding):
        module = None if path is None else present(decoder.model, path)
        if path is not None and module is not None:
            found.append((module, _into(seen.beginning, path, wrote)))
    return found


def _into(store: dict[Any, Any], key: Any, picked: Callable[..., Any]) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        store[key] = picked(inputs, named, output)

    return hook


def padded_states(decoder: Decoder, ids: Tensor, mask: Tensor, *, positions: bool) -> dict[Tap, Tensor]:
    """The stream of a padded batch at every tap.

    Args:
        decoder: the decoder.
        ids: [documents, tokens].
        mask: of the same shape, 1 at tokens and 0 at padding.
        positions: hand over positions that count the tokens from 0.
    """
    states: dict[Tap, Tensor] = {}

    def keep(tap: Tap, residual: Tensor, read: Tensor) -> None:
        states[tap] = residual

    options: dict[str, Tensor] = {"attention_mask": mask.to(decoder.device)}
    if positions:
        options["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0).to(decoder.device)
    with stream(decoder, keep), torch.no_grad():
        inner: Any = decoder.inner
        inner(input_ids=ids.to(decoder.device), use_cache=False, **options)
    return states


def takes_positions(decoder: Decoder) -> bool:
    """Whether the model can be told the position of each token."""
    return "position_ids" in inspect.signature(decoder.inner.forward).parameters


def present(model: nn.Module, path: str) -> nn.Module | None:
    """The module at a path, or None where the model has none there."""
    owner: Any = model
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner if isinstance(owner, nn.Module) else None


def first(output: Any) -> Tensor:
    """What a sublayer hands on: its output, or the first entry of it."""
    tensor: Tensor = output[0] if isinstance(output, tuple | list) else output
    return tensor


def tolerance(decoder: Decoder) -> float:
    """What counts as rounding for this decoder, see `ROUNDING`."""
    return ROUNDING.get(next(decoder.model.parameters()).dtype, 1e-5)


def largest(values: Iterable[float]) -> float:
    """The largest number, NaN if there is one: an undefined departure never counts as small."""
    worst = 0.0
    for value in values:
        worst = worst if value <= worst else value
        if worst != worst:
            break
    return worst


def difference(one: Tensor, other: Tensor) -> float:
    """The largest entry of the difference over the largest of the second; NaN for unlike shapes or NaN entries."""
    if one.shape != other.shape:
        return float("nan")
    one, other = one.detach(), other.detach()
    scale = other.double().abs().max()
    return float((one.double() - other.double()).abs().max() / torch.where(scale > 0, scale, torch.ones_like(scale)))
