"""One training run: a small decoder, a recipe, a term beside the loss, a learning rate and a seed, as arrays."""

from __future__ import annotations

import math
import time as clock
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from armillary.errors import ArgumentError
from armillary.training.corpus import VOCABULARY, Corpus, byte_tokenizer
from armillary.training.loop import GuardedSteps, WhenNotFinite
from armillary.training.penalty import Penalty
from armillary.training.probe import Probe
from armillary.training.recipe import Recipe
from armillary.training.regularizer import Regularizer
from armillary.training.robustness import linear_probe, loss_under_input_noise, loss_under_state_noise

__all__ = ["GEOMETRY", "Shape", "Term", "Training", "trained"]

GEOMETRY = ("overlap", "squared_mean_direction", "participation_rank", "participation_rank_centered", "norm")
"""What is measured at every layer, by the names of a probe."""

INPUT_NOISE, STATE_NOISE, BACK = 0.05, 0.3, 3
"""Share of tokens replaced, length of noise over that of a row, and how far back the linear probe looks."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The decoder and how it is trained, the same for every run of a study.

    Attributes:
        architecture: "gpt2" (LayerNorm, GELU, learned positions) or "llama" (RMSNorm, gated, rotary).
        width: Coordinates of the stream.
        blocks: Number of blocks.
        heads: Attention heads.
        tokens: Bytes of a document.
        documents: In a batch.
        steps: Optimizer steps; every run takes as many, whatever its loss.
        every: Steps between two measurements on held-out documents.
        warm_up: Share of the steps over which the learning rate rises; then it falls to a tenth along a cosine.
        decay: Weight decay of matrices.
        largest_norm: Of the gradient.
        when_not_finite: What becomes of a step that is not finite.

    Raises:
        ArgumentError: Sizes that do not fit one another.
    """

    architecture: Literal["gpt2", "llama"]
    width: int
    blocks: int
    heads: int
    tokens: int
    documents: int
    steps: int
    every: int
    warm_up: float = 0.1
    decay: float = 0.1
    largest_norm: float = 1.0
    when_not_finite: WhenNotFinite = "skip"

    def __post_init__(self) -> None:
        if self.architecture not in ("gpt2", "llama"):
            raise ArgumentError(
                f"Argument `architecture` must be gpt2 or llama, but it is {self.architecture!r}. Name one of them."
            )
        least = {"width": 1, "blocks": 1, "heads": 1, "tokens": 4, "documents": 1, "steps": 1, "every": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ArgumentError(
                    f"Argument `{name}` must be at least {smallest}, but it is {getattr(self, name)}. Give more."
                )
        if self.width % (2 * self.heads):
            heads = max(one for one in range(1, self.heads + 1) if not self.width % (2 * one) or one == 1)
            fitting = f"`heads` {heads}" if self.width % 2 == 0 else f"`width` {2 * self.heads}"
            raise ArgumentError(
                f"Argument `heads` must divide half of `width`, but {self.heads} does not divide half of {self.width}. "
                f"Give {fitting}."
            )
        if self.steps % self.every:
            every = max(one for one in range(1, self.every + 1) if self.steps % one == 0)
            raise ArgumentError(
                f"Argument `every` must divide `steps`, but {self.every} does not divide {self.steps}. Give `every` "
                f"{every}, or `steps` {self.steps + self.every - self.steps % self.every}."
            )

    def config(self) -> Any:
        """The library's configuration."""
        from transformers import GPT2Config, LlamaConfig

        common = {"vocab_size": VOCABULARY, "bos_token_id": None, "eos_token_id": None}
        if self.architecture == "gpt2":
            sizes = {"n_embd": self.width, "n_layer": self.blocks, "n_head": self.heads, "n_positions": self.tokens}
            return GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **sizes, **common)
        sizes = {"hidden_size": self.width, "num_hidden_layers": self.blocks, "num_attention_heads": self.heads}
        return LlamaConfig(intermediate_size=3 * self.width, max_position_embeddings=self.tokens, **sizes, **common)

    @property
    def at(self) -> tuple[int, ...]:
        """The steps after which everything is measured."""
        return tuple(range(0, self.steps + 1, self.every))

    def rate(self, step: int, highest: float) -> float:
        """The learning rate of a step, counted from 0.

        Args:
            step: Which.
            highest: At the end of the warm-up.
        """
        warm = max(1, round(self.warm_up * self.steps))
        if step < warm:
            return highest * (step + 1) / warm
        return highest * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / max(1, self.steps - warm))))


@dataclass(frozen=True)
class Term:
    """What is added to the loss: a penalty with a strength, or nothing.

    Attributes:
        penalty: None for a plain loss.
        strength: Once it is warm, after a tenth of the steps.
    """

    penalty: Penalty | None = None
    strength: float = 0.0

    def __str__(self) -> str:
        return "none" if self.penalty is None else f"{self.strength:g} x {self.penalty}"

    def regularizer(self, shape: Shape) -> Regularizer | None:
        """At every layer after a block, or None.

        Args:
            shape: Of the training.
        """
        if self.penalty is None:
            return None
        layers = tuple(range(1, shape.blocks + 1))
        warm = max(1, shape.steps // 10)
        return Regularizer(penalty=self.penalty, layers=layers, strength=self.strength, warm_up=warm)


@dataclass(frozen=True)
class Training:
    """One run.

    Attributes:
        recipe: Of initialization.
        term: Beside the loss.
        rate: Highest learning rate.
        seed: Of the weights, the recipe and the order of the documents: runs of one seed are paired.
    """

    recipe: Recipe
    term: Term
    rate: float
    seed: int


def trained(
    shape: Shape, training: Training, corpus: Corpus, *, checkpoints: Path | None = None
) -> dict[str, np.ndarray]:
    """Train once.

    Args:
        shape: What all runs share.
        training: What is this run's own.
        corpus: The texts.
        checkpoints: Folder for the model at step 0, at measured steps near powers of two and at the end, in the
            library's format with a tokenizer; None keeps none.

    Returns:
        "loss" `steps`, each of `GEOMETRY` `steps layers`, "training_loss" `steps` (mean since the last), and numbers:
        "input_noise_loss", "state_noise_loss", "linear_probe", "skipped", "seconds".
    """
    from armillary.models.configurations import drawn

    model = drawn(shape.config(), seed=training.seed)
    training.recipe(model, seed=training.seed)
    model.loss_type = "ForCausalLM"  # some classes leave the library to guess, and it says so in every process
    model.train()
    steps = GuardedSteps(
        _optimizer(model, shape, training.rate), shape.when_not_finite, largest_norm=shape.largest_norm
    )
    regularizer = training.term.regularizer(shape)
    starts = corpus.windows(steps=shape.steps, documents=shape.documents, tokens=shape.tokens, seed=training.seed)
    probe, kept = Probe(ids=corpus.held_out), _kept_steps(shape)
    rows: list[dict[str, float]] = []
    recent: list[float] = []
    curve: list[float] = []
    spent = 0.0
    for step in range(shape.steps + 1):
        if step in shape.at:
            rows.append(probe.measure(model))
            curve.append(float(np.mean(recent)) if recent else math.nan)
            recent = []
            if checkpoints is not None and step in kept:
                _keep(model, checkpoints / f"step-{step:05d}")
        if step < shape.steps:
            began = clock.process_time()
            for group in steps.optimizer.param_groups:
                group["lr"] = shape.rate(step, training.rate)
            recent.append(_step(model, corpus.batch(starts[step], shape.tokens), steps, regularizer, step))
            spent += clock.process_time() - began
    found = {"loss": np.array([row["loss"] for row in rows]), "training_loss": np.array(curve)}
    for name in GEOMETRY:
        found[name] = np.array([[row[f"{name}/layer {layer}"] for layer in range(shape.blocks + 1)] for row in rows])
    fit = corpus.batch(starts[-8:].flatten(), shape.tokens)
    numbers = _at_the_end(model.eval(), corpus.held_out, fit, max(1, shape.blocks // 2))
    numbers |= {"skipped": float(steps.skipped), "seconds": spent / shape.steps}
    return found | {name: np.array(value) for name, value in numbers.items()}


def _at_the_end(model: Any, held_out: torch.Tensor, fit: torch.Tensor, middle: int) -> dict[str, float]:
    return {
        "input_noise_loss": loss_under_input_noise(model, held_out, share=INPUT_NOISE, seed=0),
        "state_noise_loss": loss_under_state_noise(model, held_out, layer=middle, size=STATE_NOISE, seed=0),
        "linear_probe": linear_probe(model, fit, held_out, layer=middle, back=BACK),
    }


def _step(model: Any, ids: torch.Tensor, steps: GuardedSteps, regularizer: Regularizer | None, step: int) -> float:
    if regularizer is None:
        loss = model(input_ids=ids, labels=ids).loss
        steps.take(loss)
        return float(loss.detach())
    with regularizer.tap(model) as states:
        loss = model(input_ids=ids, labels=ids).loss
    added = regularizer(states, step=step)
    steps.take(loss + added, blame=lambda: regularizer.blame(loss, states, step=step))
    return float(loss.detach())


def _optimizer(model: Any, shape: Shape, rate: float) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": shape.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95))


def _kept_steps(shape: Shape) -> set[int]:
    kept, wanted = {0, shape.steps}, 1
    while wanted < shape.steps:
        kept.add(min(shape.at, key=lambda step: abs(step - wanted)))
        wanted *= 2
    return kept


def _keep(model: Any, folder: Path) -> None:
    from armillary.models.weights import quietly

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer: Any = byte_tokenizer()
    with quietly():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
