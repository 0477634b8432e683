"""The study: every choice of one climb of the ladder, carried out rung by rung through a journal to a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import require_choices
from armillary.models.anatomy import Decoder
from armillary.models.documents import Documents
from armillary.models.matrices import without_plain_form
from armillary.observables.declaration import Preparation
from armillary.observables.rank import isotropic_participation_rank, rank_ceiling
from armillary.records.journal import (
    Journal,
)
from armillary.records.record import Record
from armillary.studies.axes import with_words
from armillary.studies.backend import Backend
from armillary.studies.plan import GROUPS, TAPS
from armillary.studies.resistance.cost import cost
from armillary.studies.resistance.decoder_rungs import Saved
from armillary.studies.resistance.ladder import RECIPES, chosen_rungs
from armillary.studies.resistance.nulls import null_variables
from armillary.studies.resistance.numbers import (
    AFTER_BLOCKS,
    EVERYWHERE,
    PREPARATIONS,
    TOKENS,
)
from armillary.studies.resistance.projections import KINDS, kept_directions
from armillary.studies.resistance.run import ROGUE_COORDINATES, Climb
from armillary.studies.resistance.rungs import Rung, Workshop
from armillary.studies.resistance.sources import SPECTRUM, TRAINED, Sources
from armillary.studies.resistance.trial import GAINS, declared_heads, head_table
from armillary.studies.resistance.wandering import AXES

if TYPE_CHECKING:
    import xarray

__all__ = ["Resistance"]


@dataclass(frozen=True)
class Resistance:
    """All choices of one climb; `run` turns them into a record.

    Args:
        decoder: The decoder, which has proved its contract.
        documents: The documents, identical on every rung.
        calibration: Documents disjoint from the others: they name the rogue coordinates of the decoder, which are left
            out on every rung, the pace of its sublayers, and the steps with which other rungs follow it.
        rungs: Names of rungs or of groups of rungs; all that apply if None.
        further: Rungs of one's own, after all others: checkpoints of the same decoder (`Saved`), or anything that is a
            `Rung`.
        layers: Measured layers; all if None. Shares of a budget need neighboring ones.
        level: Nominal coverage of the intervals.
        resamples: How many times documents are resampled.
        seed: Of the resampling and of everything drawn.
        chunk: Documents in one pass: what a stopped run loses at most.
        tolerance: Relative tolerance of the idealized flow.
        threads: Of the processor; the last bits of numbers depend on it.

    Raises:
        ArgumentError: Choices that contradict each other.
        UnsoundError: One document.
    """

    decoder: Decoder
    documents: Documents
    calibration: Documents
    rungs: Sequence[str] | None = None
    further: Sequence[Rung] = ()
    layers: Sequence[int] | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    chunk: int = 4
    tolerance: float = 1e-6
    threads: int = 1

    def __post_init__(self) -> None:
        facts = self.decoder.facts
        layers = tuple(range(facts.layers + 1)) if self.layers is None else tuple(sorted(set(self.layers)))
        if not layers or layers[0] < 0 or layers[-1] > facts.layers:
            raise ArgumentError(
                f"Argument `layers` must lie within 0 (embedding) and {facts.layers}, but it is {list(layers)}. "
                "Layer l is the stream after block l."
            )
        if len(self.documents) < 2:
            raise UnsoundError(
                "Argument `documents` must hold at least two documents, but it holds one. Tokens of one document are "
                "dependent, so one document gives no interval. Add documents."
            )
        if self.documents.tokens < 4 or self.calibration.tokens < 4:
            raise ArgumentError("Argument `documents` must have at least 4 tokens each. Ask for more tokens.")
        if set(self.documents.titles) & set(self.calibration.titles):
            raise ArgumentError(
                "Argument `calibration` must hold other documents than `documents`, but they share one. Take the next "
                "ones of the same source."
            )
        for name in ("chunk", "threads"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"Argument `{name}` must be at least 1, but it is {getattr(self, name)}. Take 1.")
        require_choices(self.level, self.resamples)
        object.__setattr__(self, "layers", layers)

    @cached_property
    def climbed(self) -> tuple[Rung, ...]:
        """The rungs that apply, the decoder first."""
        return self._chosen[0]

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The rungs that do not, with the reason."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[tuple[Rung, ...], dict[str, str]]:
        rungs, reasons = chosen_rungs(self.decoder, self.rungs)
        for rung in self.further:
            if isinstance(rung, Saved):
                rung.require_shape(self.decoder)
        reasons |= {rung.name: why for rung in self.further if (why := rung.lacks(self.decoder))}
        return (*rungs, *(rung for rung in self.further if rung.name not in reasons)), reasons

    def run(
        self,
        path: str | Path,
        *,
        backend: Backend | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> Record:
        """Climb, or go on climbing, and write the record.

        Args:
            path: The new folder.
            backend: Where rungs are climbed, this process if None; numbers do not depend on it.
            progress: Told after every chunk with a sentence, the passes done and the passes in all.
            notice: Told that an earlier run is gone on with.

        Raises:
            ArgumentError: The folder exists, or an unfinished run in its place has other choices.
            CheckMissed: The matrices do not reproduce the decoder, or a condition cannot prove what it changed.
            NumericalError: A state of the decoder as loaded is not finite; what fails on another rung is written
                down, and the other rungs go on.
        """
        with Journal.held(Path(path)) as journal:
            Climb(self, journal, progress).carry_out(journal, Path(path), backend or Backend(), notice)
        return Record.open(path)

    def choices(self) -> dict[str, Any]:
        """Every choice, as study.toml keeps it."""
        return {
            "kind": "resistance",
            "model": {"name": self.decoder.facts.name, "source": self.decoder.facts.source},
            "conditions": [rung.name for rung in self.climbed],
            "rungs": {
                rung.name: {
                    "label": rung.label, "level": rung.level, "neighbor": rung.neighbor, "change": rung.change,
                    **rung.as_choices(),
                }
                for rung in self.climbed
            },
            "left_out": self.left_out,
            "layers": list(self.layers or ()),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "chunk": self.chunk,
            "tolerance": self.tolerance,
            "threads": self.threads,
            "dtype": self.decoder.facts.dtype,
            "measurements": [str(one) for one in (*EVERYWHERE, *AFTER_BLOCKS)],
            "grouping": str(GROUPS),
            "rogue_coordinates": ROGUE_COORDINATES,
            "documents": {
                "source": self.documents.source, "genre": self.documents.genre, "rule": self.documents.rule,
                "count": len(self.documents), "tokens": self.documents.tokens,
            },
            "calibration": {"rule": self.calibration.rule, "count": len(self.calibration)},
        }  # fmt: skip

    def frame(self) -> xarray.Dataset:
        """Labels of all axes, and what an isotropic cloud of the same size gives."""
        import xarray as xr

        tokens, width = self.documents.tokens, self.decoder.facts.width
        heads, axes = self._heads()
        nulls, null_axis = null_variables(self.decoder, self.documents, tuple(self.layers or ()), self._recipes)
        prepared = [Preparation.parse(one) for one in PREPARATIONS]
        counts = [tokens, tokens - 1]
        return with_words(
            xr.Dataset(
                {
                    "reference_ceiling": (
                        ("tokens", "preparation"),
                        np.asarray([[rank_ceiling(n, width, one) for one in prepared] for n in counts], dtype=float),
                        {"definition": "largest value any rank can take: min(T, d), or min(T - 1, d) after centering"},
                    ),
                    "reference_isotropic": (
                        ("tokens", "preparation"),
                        np.asarray([[isotropic_participation_rank(n, width, one) for one in prepared] for n in counts]),
                        {"definition": "participation rank of an isotropic cloud of that size, n d / (n + d - 1)"},
                    ),
                    **heads,
                    **nulls,
                },
                coords={
                    "condition": [rung.name for rung in self.climbed],
                    "layer": np.asarray(self.layers),
                    "tap": list(TAPS),
                    "tokens": list(TOKENS),
                    "preparation": list(PREPARATIONS),
                    "document": list(self.documents.titles),
                    **axes,
                    **null_axis,
                    "position": np.arange(tokens),
                    "path_axis": np.arange(AXES),
                    "projection": list(KINDS),
                    "directions": list(kept_directions(width)),
                },
                attrs={"layers": self.decoder.facts.layers, "width": width, "tokens_per_document": tokens},
            )
        )

    def _heads(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Numbers of every head's matrices: the decoder's, of random directions, and fresh ones; and their axes."""
        facts = self.decoder.facts
        heads = {"head": np.arange(facts.heads)}
        if without_plain_form(self.decoder):
            return {}, heads
        names = (TRAINED, SPECTRUM, *(f"initial-{name}-seed{self.seed}" for name in self._recipes))
        sources = Sources(self.decoder, self.seed)
        made = (sources.random_directions() if name == SPECTRUM else sources(name) for name in names)
        tables = [{gain: head_table(weights, gain=gain) for gain in GAINS} for weights in made]
        axes = {"source": list(names), "gain": list(GAINS), "block": np.arange(1, facts.layers + 1)}
        return declared_heads(tables, names), axes | heads

    @property
    def _recipes(self) -> tuple[str, ...]:
        """Recipes of fresh decoders whose spread is known; one where both are the same number."""
        facts = self.decoder.facts
        spreads = {"released": facts.released_spread, "library": facts.library_spread}
        known = tuple(name for name in RECIPES if spreads[name] is not None)
        return known if len({spreads[name] for name in known}) == len(known) else known[:1]

    def cost(self) -> dict[str, Any]:
        """What a run would take, estimated from one document; nothing is written."""
        return cost(self)

    def workshop(self) -> Workshop:
        """What all rungs share."""
        return Workshop(self.decoder, Sources(self.decoder, self.seed), self.tolerance)
