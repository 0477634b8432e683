"""What noise costs a trained decoder, and what a linear map reads from its states: beside the loss, not instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from armillary.training.tapping import family_for_training, tap

__all__ = [
    "CLASSES",
    "byte_class",
    "linear_probe",
    "loss_under_input_noise",
    "loss_under_state_noise",
    "next_token_loss",
]

CLASSES = ("space", "letter", "digit", "line end", "other")
"""Kinds of bytes that the linear probe tells apart."""


def next_token_loss(model: Any, inputs: Tensor, targets: Tensor) -> float:
    """Mean cross entropy of each next token, nats; evaluation mode is the caller's.

    Args:
        model: The model.
        inputs: `documents tokens`, what it sees.
        targets: `documents tokens`, what is to be told.
    """
    with torch.no_grad():
        logits = model(input_ids=inputs, use_cache=False).logits[:, :-1].float()
    return float(nn.functional.cross_entropy(logits.flatten(0, 1), targets[:, 1:].flatten()))


def loss_under_input_noise(model: Any, ids: Tensor, *, share: float, seed: int) -> float:
    """The loss where a share of the tokens that the model sees is replaced at random; targets stay.

    Args:
        model: The model.
        ids: `documents tokens`.
        share: Of the tokens.
        seed: Of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    replaced = torch.rand(ids.shape, generator=generator) < share
    others = torch.randint(0, int(model.config.vocab_size), ids.shape, generator=generator)
    return next_token_loss(model, torch.where(replaced, others, ids), ids)


def loss_under_state_noise(model: Any, ids: Tensor, *, layer: int, size: float, seed: int) -> float:
    """The loss with Gaussian noise added to the stream after a block, its length so many times that of the row.

    Args:
        model: The model.
        ids: `documents tokens`.
        layer: After which block.
        size: Length of the noise over that of the row.
        seed: Of the draw.
    """
    generator = torch.Generator().manual_seed(seed)

    def noisy(rows: Tensor) -> Tensor:
        noise = torch.randn(rows.shape, generator=generator).to(rows)
        return rows + size * noise * rows.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)

    blocks = model.get_submodule(family_for_training(model).blocks)
    handle = blocks[layer - 1].register_forward_hook(_replacing(noisy))
    try:
        return next_token_loss(model, ids, ids)
    finally:
        handle.remove()


def _replacing(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    return hook


def byte_class(ids: Tensor) -> Tensor:
    """The kind of each byte, as an index into `CLASSES`."""
    letter = ((ids >= 65) & (ids <= 90)) | ((ids >= 97) & (ids <= 122))
    kinds = torch.full_like(ids, 4)
    kinds[ids == 10] = 3
    kinds[(ids >= 48) & (ids <= 57)] = 2
    kinds[letter] = 1
    kinds[ids == 32] = 0
    return kinds


def linear_probe(model: Any, fit: Tensor, held_out: Tensor, *, layer: int, back: int, ridge: float = 1e-2) -> float:
    """Share of tokens whose `back`-th predecessor's kind a linear map reads from the stream, on held-out documents.

    A ridge regression on one-hot kinds, fitted to other documents; features are standardized.

    Args:
        model: The model.
        fit: Documents to fit on.
        held_out: Documents to read.
        layer: After which block.
        back: How many tokens back.
        ridge: Strength of the regularization, times the number of rows.
    """

    def rows(ids: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), tap(model, [layer]) as states:
            model(input_ids=ids, use_cache=False)
        return states[layer][:, back:].flatten(0, 1).double(), byte_class(ids)[:, :-back].flatten()

    (features, kinds), (others, wanted) = rows(fit), rows(held_out)
    mean, spread = features.mean(0), features.std(0) + 1e-12
    x, y = (features - mean) / spread, nn.functional.one_hot(kinds, len(CLASSES)).double()
    gram = x.T @ x + ridge * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(gram, x.T @ (y - y.mean(0)))
    told = (((others - mean) / spread) @ weights + y.mean(0)).argmax(-1)
    return float((told == wanted).double().mean())
