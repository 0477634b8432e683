"""The proof a condition hands over: a digest of every tensor before and after, and the names of those that differ."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import CheckMissed

__all__ = [
    "ConditionProof",
    "differing",
    "evaluation",
    "fingerprints",
    "kind_of",
    "kinds",
    "listed",
    "manner",
    "require_same",
    "tensors_of",
]


@dataclass(frozen=True)
class ConditionProof:
    """What a condition changed, found by comparing every parameter and every buffer.

    Attributes:
        changed: Names of the tensors that differ from the trained ones.
        unchanged: How many tensors do not.
        spreads: Root mean square of freshly drawn matrices by kind, and under "recipe" the number asked for.
        sentence: The proof in words.
        constants: Tensors equal in both recipes since both make them constant (norm gains, zero biases).
    """

    changed: tuple[str, ...]
    unchanged: int
    spreads: dict[str, float]
    sentence: str
    constants: tuple[str, ...] = ()


def fingerprints(model: nn.Module) -> dict[str, bytes]:
    """One short digest for every parameter and buffer, tied names and non-persistent buffers included.

    A tensor's bytes are read as a square table of 64-bit words; its row sums and column sums (modulo 2^64) are hashed.
    Any change within one word shows, and so does any exchange of unlike rows, at the price of reading the weights once.

    Args:
        model: Any module.

    Returns:
        Name -> digest.
    """
    seen: dict[tuple[Any, ...], bytes] = {}
    found = {}
    for name, tensor in tensors_of(model).items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if place not in seen:
            seen[place] = _digest(tensor)
        found[name] = seen[place]
    return found


def _digest(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    body = flat[:whole]
    if body.storage_offset() % 8:
        body = body.clone()
    words = body.view(torch.int64)
    columns = max(1, math.isqrt(words.numel()))
    rows = words.numel() // columns
    table, rest = words[: rows * columns].view(rows, columns), words[rows * columns :]
    digest = hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    for part in (table.sum(0), table.sum(1), rest, flat[whole:]):
        digest.update(part.cpu().numpy().tobytes())
    return digest.digest()


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer by name; a tied tensor stands under each of its names."""
    return dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) for the length of a block; every module's own mode is put back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def manner(model: Any) -> str:
    """How a model computes, in words: nothing of this may differ between conditions.

    Raises:
        CheckMissed: A module is in training mode, where dropout would change the numbers from pass to pass.
    """
    training = [name or "the whole model" for name, module in model.named_modules() if module.training]
    if training:
        raise CheckMissed(
            f"Every module must be in evaluation mode while it is measured, but {listed(training)} is in training "
            "mode. Call `.eval()` on the model, and let no other code switch it back."
        )
    dtype = str(model.dtype).removeprefix("torch.")
    return f"evaluation mode, {dtype}, attention by {model.config._attn_implementation}, on {model.device}"


def require_same(before: Mapping[str, bytes], model: nn.Module, when: str) -> None:
    """Raises CheckMissed if a tensor is not what it was.

    Args:
        before: Fingerprints from before.
        model: The model now.
        when: Between then and now, in words.
    """
    changed = differing(before, fingerprints(model))
    if changed:
        raise CheckMissed(
            f"Weights must be the same as before, but {when} {listed(changed)} differ. "
            "Reload the decoder, and let no other code change it while it is measured."
        )


def differing(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Sorted names of the tensors whose fingerprints differ, or that only one side has."""
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def listed(names: Iterable[str], most: int = 3) -> str:
    """Names in a row, the first `most` of them spelled out and the others counted."""
    names = tuple(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def kind_of(name: str) -> str:
    """A tensor's name with the number of its block replaced by a star."""
    return re.sub(r"\.\d+\.", ".*.", name)


def kinds(names: Iterable[str]) -> str:
    """Names by kind, each with its count: "model.layers.*.mlp.down_proj.weight (30)"."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(kind_of(name), []).append(name)
    return ", ".join(f"{kind} ({len(group)})" if len(group) > 1 else group[0] for kind, group in groups.items())
