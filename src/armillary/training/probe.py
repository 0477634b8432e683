"""A fixed probe: the same few documents through a model in training, reduced to numbers; training does not notice."""

from __future__ import annotations

import json
import math
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from armillary.errors import ArgumentError
from armillary.observables.alignment import mean_overlap, squared_mean_direction
from armillary.observables.declaration import Measurement
from armillary.observables.drift import stream_norm_mean
from armillary.observables.rank import participation_rank
from armillary.training.tapping import block_count, family_for_training, tap, unwrapped

__all__ = ["Monitor", "Probe", "probe_measurements"]


def probe_measurements() -> dict[str, Measurement]:
    """What a probe measures unless told otherwise, by the name that is logged."""
    return {
        "overlap": mean_overlap.after("normalize"),
        "squared_mean_direction": squared_mean_direction.after("normalize"),
        "participation_rank": participation_rank.after("normalize"),
        "participation_rank_centered": participation_rank.after("center", "normalize"),
        "norm": stream_norm_mean.after(),
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class Probe:
    """Documents of one length and what is measured of them.

    Attributes:
        ids: Token ids, `documents tokens`, no padding.
        layers: Where: 0..L; None for every layer.
        measurements: Name that is logged -> measurement; `probe_measurements()` if None.
        skipped: How many tokens at the beginning of a document take no part.
        tokenizer: The one that made the ids, to be held against the model's; None where it is not known.

    Raises:
        ArgumentError: Ids that are no documents, or of which too few are left.
    """

    ids: Tensor
    layers: Sequence[int] | None = None
    measurements: Mapping[str, Measurement] | None = None
    skipped: int = 1
    tokenizer: Any = None

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or self.ids.is_floating_point() or self.ids.shape[1] - self.skipped < 2:
            raise ArgumentError(
                "Argument `ids` must be integers [documents, tokens] with two tokens left beyond those skipped, but "
                f"has shape {list(self.ids.shape)} and type {self.ids.dtype}. Give longer documents."
            )

    def check_fits(self, model: Any, tokenizer: Any = None) -> None:
        """Refuse a probe of another tokenizer than the model's.

        Args:
            model: The model in training.
            tokenizer: What the training data went through, where it is known.

        Raises:
            ArgumentError: Ids beyond the vocabulary or the context, or a tokenizer with other ids.
        """
        inner: Any = unwrapped(model)
        rows = int(inner.get_input_embeddings().weight.shape[0])
        high = int(self.ids.max())
        if high >= rows or int(self.ids.min()) < 0:
            raise ArgumentError(
                f"Argument `ids` of the probe must lie in the model's vocabulary 0..{rows - 1}, but they reach {high}: "
                "they are of another tokenizer. Tokenize the probe with the model's own."
            )
        if self.tokenizer is not None and tokenizer is not None and _ids_of(self.tokenizer) != _ids_of(tokenizer):
            raise ArgumentError(
                "Argument `tokenizer` of the probe must be the one of the training data, but their vocabularies "
                "differ. Tokenize the probe with the tokenizer of the trainer."
            )
        context = getattr(inner.config, "max_position_embeddings", None)
        if isinstance(context, int) and self.ids.shape[1] > context:
            raise ArgumentError(
                f"Argument `ids` of the probe must have at most {context} tokens, the model's context, but have "
                f"{self.ids.shape[1]}. Cut them."
            )

    def measure(self, model: Any) -> dict[str, float]:
        """Every measurement at every layer, mean over documents, and the loss; a number that is undefined is NaN.

        One pass without gradient in evaluation mode. Modes, gradients, hooks and random states are as before.

        Args:
            model: The model in training.

        Returns:
            "NAME/layer L" -> number, and "loss" in nats per token.
        """
        inner: Any = unwrapped(model)
        family = family_for_training(inner)
        layers = tuple(range(block_count(inner, family) + 1)) if self.layers is None else tuple(self.layers)
        ids = self.ids.to(next(inner.parameters()).device)
        with _evaluating(inner), torch.no_grad(), tap(inner, layers, family=family) as states:
            logits = inner(input_ids=ids, use_cache=False).logits[:, :-1].float()
        found: dict[str, float] = {}
        chosen = probe_measurements() if self.measurements is None else self.measurements
        for layer, rows in states.items():
            part = rows[:, self.skipped :].detach().float().cpu()
            if not bool(torch.isfinite(part).all()):
                found |= {f"{name}/layer {layer}": math.nan for name in chosen}
                continue
            for name, measurement in chosen.items():
                values = torch.as_tensor(measurement(part)).double()
                found[f"{name}/layer {layer}"] = float(torch.nanmean(values))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        return found | {"loss": float(loss)}


@dataclass(eq=False, kw_only=True)
class Monitor:
    """A probe every so many steps, within a share of the time, with early warnings; numbers go to a file and a logger.

    Attributes:
        probe: What is measured.
        every: Steps between two measurements.
        path: JSON lines, one a measurement; None for no file.
        log: Hears a mapping of numbers, as a trainer's own logger takes it; NaN is left out.
        largest_share: Share of the time since the beginning that measuring may take; a measurement beyond it is left
            out and counted. The first is always taken.
        warn_overlap: An overlap that has risen by so much above the run's first measurement at that layer is warned of.
        warn_rank: A participation rank that has fallen to this share of the run's first is warned of.
        prefix: Of every name that is logged.
        latest: The last numbers.
        warnings: Sentences, in order.
        left_out: Measurements that were not taken to keep within the share.

    Raises:
        ArgumentError: Numbers out of range.
    """

    probe: Probe
    every: int
    path: str | Path | None = None
    log: Callable[[dict[str, float]], Any] | None = None
    largest_share: float = 0.05
    warn_overlap: float = 0.3
    warn_rank: float = 0.5
    prefix: str = "geometry/"
    latest: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0
    _first: dict[str, float] = field(default_factory=dict, repr=False)
    _began: float = field(default=math.nan, repr=False)
    _spent: float = field(default=0.0, repr=False)
    _warned: set[str] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        if self.every < 1 or not 0 < self.largest_share <= 1:
            raise ArgumentError(
                "Arguments `every` and `largest_share` must be at least 1 and within (0, 1], but they are "
                f"{self.every} and {self.largest_share}. Write every=100, largest_share=0.05."
            )

    def after_step(self, model: Any, step: int) -> dict[str, float] | None:
        """Measure if it is time.

        Args:
            model: The model in training.
            step: Optimizer steps taken so far.

        Returns:
            The numbers, or None where nothing was measured.

        Raises:
            ArgumentError: The probe's ids are of another tokenizer, or longer than the context.
        """
        if math.isnan(self._began):
            self._began = clock.perf_counter()
        if step % self.every:
            return None
        now = clock.perf_counter()
        if self.latest and self._spent > self.largest_share * (now - self._began):
            self.left_out += 1
            return None
        if not self.latest:
            self.probe.check_fits(model)
        numbers = self.probe.measure(model)
        self._spent += clock.perf_counter() - now
        self.latest = {f"{self.prefix}{name}": value for name, value in numbers.items()}
        self._first = self._first or numbers
        said = self._warn(numbers, step)
        if self.path is not None:
            line = {"step": step, "numbers": {k: v if math.isfinite(v) else None for k, v in numbers.items()}}
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | ({"warnings": said} if said else {}), allow_nan=False) + "\n")
        if self.log is not None:
            self.log({name: value for name, value in self.latest.items() if math.isfinite(value)})
        return numbers

    def _warn(self, numbers: Mapping[str, float], step: int) -> list[str]:
        said = []
        for name, value in numbers.items():
            first = self._first.get(name, math.nan)
            kind, _, place = name.partition("/")
            if name in self._warned:
                continue
            if not math.isfinite(value):
                said.append(f"step {step}: {name} is not a number")
            elif kind == "overlap" and value > first + self.warn_overlap:
                said.append(f"step {step}: the mean overlap at {place} rose from {first:.3g} to {value:.3g}")
            elif kind == "participation_rank" and value < self.warn_rank * first:
                said.append(f"step {step}: the participation rank at {place} fell from {first:.3g} to {value:.3g}")
            else:
                continue
            self._warned.add(name)
        self.warnings += said
        return said


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and every part's own mode afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _ids_of(tokenizer: Any) -> dict[str, int]:
    return dict(tokenizer.get_vocab())
