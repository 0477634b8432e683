"""A diagnosis of initializations: overlap, norm, participation rank and gradient through depth before any training.

Each recipe is drawn several times, and everything is measured beside what the recursion of wide layers predicts for the
same token ids. A draw is a member: its own weights and its own documents.
"""

from __future__ import annotations

import platform
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from armillary.errors import ArgumentError, UnsupportedModelError
from armillary.estimates import require_choices
from armillary.models.configurations import drawn, require_drawable
from armillary.models.decoder import Decoder, decoder_from_model
from armillary.models.genres import embedded
from armillary.models.texts import Text
from armillary.observables.alignment import mean_overlap, squared_mean_direction
from armillary.observables.declaration import Measurement
from armillary.observables.drift import stream_norm_mean
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.training.prediction import unpredictable, wide_decoder
from armillary.training.recipe import Recipe
from armillary.training.tapping import tap

if TYPE_CHECKING:
    import xarray

__all__ = ["KIND", "TEXTS", "Diagnosis"]

KIND = "diagnosis"
"""What the study of such a record has under `kind`."""

TEXTS = ("distinct", "bytes")
"""Where token ids come from: drawn without repetition, or the bytes of Python's own reference."""

WIDE_SCORES = 1.0
"""Standard deviation of attention scores up to which the recursion's averages are meant."""

_LIBRARIES = ("armillary", "torch", "transformers", "numpy", "scipy", "xarray")


def _measurements() -> tuple[tuple[str, Measurement], ...]:
    return (
        ("mean_overlap", mean_overlap.after("normalize")),
        ("squared_mean_direction", squared_mean_direction.after("normalize")),
        ("participation_rank", participation_rank.after("normalize")),
        ("participation_rank_centered", participation_rank.after("center", "normalize")),
        ("stream_norm_mean", stream_norm_mean.after()),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """All choices of a diagnosis; `run` turns them into a record.

    Args:
        config: The library's configuration of a causal language model.
        source: Where it comes from, in words.
        recipes: Recipes of initialization, each with its choices.
        draws: How many times each is drawn, with seeds 0, 1, ...
        documents: How many documents a draw passes.
        tokens: Tokens of each.
        texts: One of `TEXTS`.
        threshold: Overlap whose depth is told.
        level: Nominal coverage of intervals over draws.
        resamples: How many times draws are resampled.
        seed: Of the resampling.

    Raises:
        ArgumentError: Sizes that do not fit the configuration or one another, unknown texts, a recipe twice, or a
            threshold that is no overlap.
        UnsupportedModelError: No causal language model can be made of the configuration.
    """

    config: Any
    source: str
    recipes: Sequence[Recipe]
    draws: int
    documents: int
    tokens: int
    texts: str
    threshold: float
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        require_choices(self.level, self.resamples)
        if self.texts not in TEXTS:
            raise ArgumentError(
                f"Argument `texts` must be one of {', '.join(TEXTS)}, but it is {self.texts!r}. Name one."
            )
        if self.tokens < 2 or self.documents < 1 or self.draws < 1 or not self.recipes:
            raise ArgumentError(
                "Arguments `tokens`, `documents`, `draws` and `recipes` must be at least 2, 1, 1 and one, but they are "
                f"{self.tokens}, {self.documents}, {self.draws} and {len(self.recipes)}. One token has no pair."
            )
        texts = [str(one) for one in self.recipes]
        twice = next((text for text in texts if texts.count(text) > 1), None)
        if twice is not None:
            raise ArgumentError(f"Argument `recipes` must be all different, but {twice} comes twice. Name it once.")
        if not -1 < self.threshold < 1:
            raise ArgumentError(
                f"Argument `threshold` must be an overlap between -1 and 1, but it is {self.threshold:g}. Write 0.5."
            )
        needed = 256 if self.texts == "bytes" else self.tokens
        if self.config.vocab_size < needed:
            raise ArgumentError(
                f"Argument `texts` must fit the vocabulary of {self.config.vocab_size}, but {self.texts!r} needs "
                f"{needed} ids. Ask for fewer tokens, or the other texts."
            )
        context = getattr(self.config, "max_position_embeddings", None)
        if isinstance(context, int) and self.tokens > context:
            raise ArgumentError(
                f"Argument `tokens` must be at most {context}, the context of the configuration, but it is "
                f"{self.tokens}. Ask for fewer."
            )
        require_drawable(self.config)

    def run(self, path: str | Path, *, told: Callable[[str, int, int], None] | None = None) -> Record:
        """Draw, measure and write the record.

        Args:
            path: The new folder.
            told: Hears what is being done, how much of it is done and how much there is.

        Returns:
            The record.

        Raises:
            ArgumentError: The folder exists, or a recipe's choices do not fit the model.
            UnsupportedModelError: No causal language model can be made of the configuration.
        """
        Record.require_new(path)
        say, began = told or (lambda words, done, total: None), clock.perf_counter()
        total = len(self.recipes) * self.draws
        rows: list[dict[str, np.ndarray]] = []
        reports: list[dict[str, Any]] = []
        silent: tuple[str, ...] = ()
        decoder: Decoder
        for place, recipe in enumerate(self.recipes):
            for draw in range(self.draws):
                say(str(recipe), place * self.draws + draw, total)
                model = drawn(self.config, seed=draw)
                decoder = decoder_from_model(model) if draw == 0 else replace(decoder, model=model)
                report = recipe(decoder, seed=draw)
                silent = unpredictable(decoder)
                rows.append(self._numbers(decoder, draw))
                if draw == 0:
                    reports.append(
                        {"recipe": report.recipe, "sentence": report.sentence, "changed": len(report.changed)}
                    )
        dataset = self._dataset(rows, decoder)
        provenance = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
            "recipes": reports,
            "prediction": f"none: {'; '.join(silent)}" if silent else "the recursion of wide random layers",
            "score_spread": float(max(row["score_spread"][0] for row in rows)) if not silent else None,
            "decoder": {"architecture": type(decoder.model).__name__, "family": decoder.family.name,
                        "layers": decoder.facts.layers, "width": decoder.facts.width, "heads": decoder.facts.heads},
            "seconds": round(clock.perf_counter() - began, 3),
        }  # fmt: skip
        say("done", total, total)
        return Record.write(path, self._study(), provenance, dataset)

    def _numbers(self, decoder: Decoder, draw: int) -> dict[str, np.ndarray]:
        ids = self._ids(draw)
        found = _measured(decoder, ids)
        try:
            wide = wide_decoder(decoder)
        except UnsupportedModelError:
            return found
        told = [wide.numbers(row.tolist()) for row in ids]
        found |= {f"predicted_{name}": np.mean([one[name] for one in told], axis=0) for name in told[0]}
        spreads = [0.0 if block.attention is None else block.attention.score_spread for block in wide.blocks]
        return found | {"score_spread": np.array([max(spreads)])}

    def _ids(self, draw: int) -> Tensor:
        if self.texts == "distinct":
            generator = torch.Generator().manual_seed(draw)
            every = [
                torch.randperm(self.config.vocab_size, generator=generator)[: self.tokens]
                for _ in range(self.documents)
            ]
            return torch.stack(every)
        first = draw * self.documents
        long = [one.text.encode() for one in embedded("reference").texts if isinstance(one, Text)]
        long = [text for text in long if len(text) >= self.tokens]
        chosen = [long[(first + k) % len(long)] for k in range(self.documents)]
        return torch.tensor([list(text[: self.tokens]) for text in chosen])

    def _dataset(self, rows: list[dict[str, np.ndarray]], decoder: Decoder) -> xarray.Dataset:
        import xarray as xr

        shape = (len(self.recipes), self.draws, decoder.facts.layers + 1)
        words = {
            "gradient_norm": "norm of the gradient of a document's summed next-token loss with respect to the stream",
            "participation_rank_centered": "participation rank of rows centered over the tokens, then normalized",
        }
        variables: dict[str, Any] = {}
        for name in rows[0]:
            if name == "score_spread":
                continue
            attrs: dict[str, Any] = {
                "definition": words.get(name, name.replace("_", " ")),
                "tokens": "all",
                "unit": "draws",
            }
            if "overlap" in name:
                attrs |= {"lowest": -1.0, "highest": 1.0}
            values = np.stack([row[name] for row in rows]).reshape(shape)
            variables[name] = (("recipe", "draw", "layer"), values, attrs)
        coordinates = {
            "recipe": [str(one) for one in self.recipes],
            "draw": np.arange(self.draws),
            "layer": np.arange(shape[2]),
        }
        return xr.Dataset(variables, coords=coordinates, attrs={"tokens": self.tokens, "width": decoder.facts.width})

    def _study(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "source": self.source,
            "configuration": {k: v for k, v in self.config.to_diff_dict().items() if isinstance(v, str | int | float)},
            "recipes": [str(one) for one in self.recipes],
            "draws": self.draws,
            "documents": self.documents,
            "tokens": self.tokens,
            "texts": self.texts,
            "threshold": self.threshold,
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
        }


def _measured(decoder: Decoder, ids: Tensor) -> dict[str, np.ndarray]:
    """Every measurement and the gradient's norm at layers 0..L, mean over documents."""
    model: Any = decoder.model
    layers = range(decoder.facts.layers + 1)
    model.requires_grad_(False)
    model.enable_input_require_grads()  # the embedding's output is where the gradient ends
    try:
        with torch.enable_grad(), tap(decoder, layers) as states:
            logits = model(input_ids=ids, use_cache=False).logits.float()
            loss = torch.nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"
            )
            gradients = torch.autograd.grad(loss, list(states.values()))
        rows = torch.stack([one.detach() for one in states.values()], dim=1)
    finally:
        model.disable_input_require_grads()
        model.requires_grad_(True)
    found = {name: np.asarray(torch.as_tensor(one(rows)).mean(0), dtype=float) for name, one in _measurements()}
    norms = [float(one.flatten(1).norm(dim=1).mean()) for one in gradients]
    return found | {"gradient_norm": np.array(norms)}
