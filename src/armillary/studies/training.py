"""A training study: recipes and terms beside the loss under paired seeds, each at its own best learning rate.

First every combination of recipe and term is trained at each learning rate, with seeds of its own; then the grid runs
at the best rate of each combination. Every run takes the same number of steps. A finished run is kept, so that the
same command goes on from there.
"""

from __future__ import annotations

import platform
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from armillary.errors import ArgumentError, NumericalError
from armillary.estimates import require_choices
from armillary.models.configurations import drawn
from armillary.records.journal import Beginning, Journal
from armillary.records.record import Record
from armillary.training.corpus import Corpus
from armillary.training.recipe import LIBRARY, Recipe
from armillary.training.run import BACK, GEOMETRY, INPUT_NOISE, STATE_NOISE, Shape, Term, Training, trained

if TYPE_CHECKING:
    import xarray

__all__ = ["KIND", "STOPPING", "TrainingStudy", "checkpoint_folder"]

KIND = "training"
"""What the study of such a record has under `kind`."""

STOPPING = (
    "every run takes the same number of steps; the learning rate rises in a straight line and falls along a cosine to "
    "a tenth; no run is ended early, prolonged or left out"
)
"""The stopping rule, in words."""

SWEEP_SEED = 1000
"""Seeds of the learning-rate sweep begin here, so that none chooses its own rate."""

_NUMBERS = ("input_noise_loss", "state_noise_loss", "linear_probe", "skipped", "seconds")
_NAMES = {"overlap": "mean_overlap", "norm": "stream_norm_mean"}
_LIBRARIES = ("armillary", "torch", "transformers", "numpy", "xarray")

Unit = tuple[str, Training, Path | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingStudy:
    """All choices of a training study; `run` turns them into a record.

    Args:
        shape: The decoder and how it is trained.
        recipes: Recipes of initialization; the first is the baseline's.
        terms: Beside the loss; the first must be the loss alone.
        seeds: How many paired seeds, 0, 1, ...
        rates: Learning rates of the sweep; a single one is taken without a sweep.
        sweep_seeds: Seeds of the sweep.
        corpus: The texts.
        workers: Processes that train side by side, one thread each.
        checkpoints: Of which runs of the grid checkpoints are kept: "first" seed, "all" or "none".
        level: Nominal coverage of intervals over seeds.
        resamples: How many times seeds are resampled.
        seed: Of the resampling.

    Raises:
        ArgumentError: A grid without a baseline, or numbers out of range.
    """

    shape: Shape
    recipes: Sequence[Recipe]
    terms: Sequence[Term]
    seeds: int
    rates: Sequence[float]
    sweep_seeds: int
    corpus: Corpus
    workers: int = 1
    checkpoints: Literal["first", "all", "none"] = "first"
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        require_choices(self.level, self.resamples)
        for name in ("recipes", "terms", "rates"):
            texts = [f"{one:g}" if isinstance(one, float) else str(one) for one in getattr(self, name)]
            if not texts:
                raise ArgumentError(f"Argument `{name}` must hold one at least, but it is empty. Name one.")
            twice = next((text for text in texts if texts.count(text) > 1), None)
            if twice is not None:
                raise ArgumentError(f"Argument `{name}` must be all different, but {twice} comes twice. Name it once.")
        if self.terms[0].penalty is not None:
            raise ArgumentError(
                f"Argument `terms` must begin with the loss alone, but begins with {self.terms[0]}. Put Term() first."
            )
        for name in ("seeds", "sweep_seeds", "workers"):
            if getattr(self, name) < 1:
                raise ArgumentError(
                    f"Argument `{name}` must be at least 1, but it is {getattr(self, name)}. Give more."
                )
        wrong = [rate for rate in self.rates if not 0 < rate < 1]
        if wrong:
            raise ArgumentError(
                f"Argument `rates` must lie between 0 and 1, but {wrong[0]:g} does not. Give rates such as 0.001 and "
                "0.003."
            )
        if self.checkpoints not in ("first", "all", "none"):
            raise ArgumentError(
                f"Argument `checkpoints` must be first, all or none, but it is {self.checkpoints!r}. Name one of them."
            )

    @property
    def runs(self) -> int:
        """How many runs there are, those of the sweep included."""
        cells = len(self.recipes) * len(self.terms)
        sweep = 0 if len(self.rates) == 1 else len(self.rates) * self.sweep_seeds
        return cells * (self.seeds + sweep)

    def run(self, path: str | Path, *, told: Callable[[str, int, int], None] | None = None) -> Record:
        """Train what is missing and write the record.

        Args:
            path: The new folder; what is finished lies beside it until then.
            told: Hears what was done, how many runs are done and how many there are.

        Returns:
            The record.

        Raises:
            ArgumentError: The folder exists, another run is writing it, an unfinished one was of other choices, or a
                recipe does not fit the model that a seed draws.
            NumericalError: A step was not finite, and training was to stop.
        """
        record = Record.require_new(path)
        self._try_recipes()
        with Journal.held(record) as journal:
            journal.begin(self._identity(), self._beginning)
            sweep = {} if len(self.rates) == 1 else self._every(journal, self._sweep(), told, 0)
            best = self._best(sweep)
            grid = self._every(journal, self._grid(best, record), told, len(sweep))
            dataset = self._dataset(sweep, best, grid)
            provenance = self._origin() | {"runs": len(sweep) + len(grid), "workers": self.workers}
            spent = [one["spent"] for one in [*sweep.values(), *grid.values()] if "spent" in one]
            if len(spent) == len(sweep) + len(grid):
                provenance["seconds"] = round(float(sum(spent)), 1)  # of processors, all runs and measurements
            if self.checkpoints != "none":
                provenance["checkpoints"] = str(checkpoint_folder(record).name)
            return Record.write(record, self._study(), provenance, dataset)

    # runs --------------------------------------------------------------------------------------------------------

    def _cells(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(len(self.recipes)) for j in range(len(self.terms))]

    def _try_recipes(self) -> None:
        """Apply each recipe to what each seed draws, so that one that does not fit is refused before anything."""
        seeds = [*range(self.seeds), *(SWEEP_SEED + s for s in range(self.sweep_seeds if len(self.rates) > 1 else 0))]
        for recipe in self.recipes:
            for seed in seeds if recipe.name != LIBRARY else ():
                recipe(drawn(self.shape.config(), seed=seed), seed=seed)

    def _sweep(self) -> list[Unit]:
        return [
            (f"sweep-{i}-{j}-{k}-{s}.npz", Training(self.recipes[i], self.terms[j], rate, SWEEP_SEED + s), None)
            for i, j in self._cells()
            for k, rate in enumerate(self.rates)
            for s in range(self.sweep_seeds)
        ]

    def _grid(self, best: np.ndarray, record: Path) -> list[Unit]:
        def kept(i: int, j: int, seed: int) -> Path | None:
            wanted = self.checkpoints == "all" or (self.checkpoints == "first" and seed == 0)
            return checkpoint_folder(record) / f"recipe{i}-term{j}-seed{seed}" if wanted else None

        return [
            (f"grid-{i}-{j}-{s}.npz", Training(self.recipes[i], self.terms[j], float(best[i, j]), s), kept(i, j, s))
            for s in range(self.seeds)  # a study that is cut short has the same seeds everywhere
            for i, j in self._cells()
        ]

    def _every(
        self, journal: Journal, units: list[Unit], told: Callable[[str, int, int], None] | None, before: int
    ) -> dict[str, dict[str, np.ndarray]]:
        """Train what is missing of these, here or in processes; each finished run is written down at once."""
        finished = journal.units()
        missing = [unit for unit in units if unit[0] not in finished]
        done = before + len(units) - len(missing)
        if told is not None:
            told("training", done, self.runs)
        for name, arrays in self._trained(missing):
            journal.put(name, arrays)
            done += 1
            if told is not None:
                told("training", done, self.runs)
        return {name: journal.arrays(name) for name, *_ in units}

    def _trained(self, units: list[Unit]) -> Any:
        if self.workers == 1 or len(units) < 2:
            return (_one(self.shape, self.corpus, unit) for unit in units)
        from joblib import Parallel, delayed

        work = Parallel(n_jobs=self.workers, return_as="generator_unordered")
        return work(delayed(_one)(self.shape, self.corpus, unit) for unit in units)

    def _best(self, sweep: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
        """The rate of the lowest final loss, mean over the sweep's seeds, of each combination."""
        best = np.full((len(self.recipes), len(self.terms)), float(self.rates[0]))
        if sweep:
            losses = self._swept(sweep).mean(-1)
            for i, j in self._cells():
                if not np.isfinite(losses[i, j]).any():
                    raise ArgumentError(
                        f"Argument `rates` must hold one at which training stays finite, but with {self.recipes[i]} "
                        f"and {self.terms[j]} none of {list(self.rates)} does. Give lower ones."
                    )
                best[i, j] = self.rates[int(np.nanargmin(losses[i, j]))]
        return best

    def _swept(self, sweep: dict[str, dict[str, np.ndarray]]) -> np.ndarray:
        shape = (len(self.recipes), len(self.terms), len(self.rates), self.sweep_seeds)
        return np.array([float(arrays["loss"][-1]) for arrays in sweep.values()]).reshape(shape)

    # what is written ---------------------------------------------------------------------------------------------

    def _dataset(
        self, sweep: dict[str, dict[str, np.ndarray]], best: np.ndarray, grid: dict[str, dict[str, np.ndarray]]
    ) -> xarray.Dataset:
        import xarray as xr

        cell, shape = ("recipe", "term", "seed"), (self.seeds, len(self.recipes), len(self.terms))

        def stacked(name: str) -> np.ndarray:
            values = np.stack([arrays[name] for arrays in grid.values()])
            return np.moveaxis(values.reshape(*shape, *values.shape[1:]), 0, 2)

        words = _definitions()
        variables: dict[str, Any] = {
            "loss": ((*cell, "step"), stacked("loss"), words["loss"]),
            "training_loss": ((*cell, "step"), stacked("training_loss"), words["training_loss"]),
        }
        for name in GEOMETRY:
            label = _NAMES.get(name, name)
            variables[label] = ((*cell, "step", "layer"), stacked(name), words.get(label, {"definition": label}))
        for name in _NUMBERS:
            variables[name] = (cell, stacked(name), words[name])
        losses = variables["loss"][1]
        aim = float(losses[0, 0, :, -1].mean())
        reached = np.apply_along_axis(lambda row: _first_below(row, np.array(self.shape.at), aim), -1, losses)
        variables["steps_to_loss"] = (cell, reached, words["steps_to_loss"] | {"aim": aim})
        variables["best_rate"] = (("recipe", "term"), best, words["best_rate"])
        coordinates: dict[str, Any] = {
            "recipe": [str(one) for one in self.recipes],
            "term": [str(one) for one in self.terms],
            "seed": np.arange(self.seeds),
            "step": np.array(self.shape.at),
            "layer": np.arange(self.shape.blocks + 1),
        }
        if sweep:
            variables["sweep_loss"] = (
                ("recipe", "term", "rate", "sweep_seed"),
                self._swept(sweep),
                words["sweep_loss"],
            )
            coordinates |= {"rate": list(self.rates), "sweep_seed": SWEEP_SEED + np.arange(self.sweep_seeds)}
        return xr.Dataset(variables, coords=coordinates, attrs={"tokens": self.shape.tokens, "width": self.shape.width})

    def _study(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "shape": asdict(self.shape),
            "recipes": [str(one) for one in self.recipes],
            "terms": [str(one) for one in self.terms],
            "seeds": self.seeds,
            "rates": list(self.rates),
            "sweep_seeds": self.sweep_seeds,
            "texts": self.corpus.source,
            "held_out": len(self.corpus.titles),
            "stopping": STOPPING,
            "checkpoints": self.checkpoints,
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
        }

    def _origin(self) -> dict[str, Any]:
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
            "texts": {
                "source": self.corpus.source,
                "bytes": len(self.corpus.training),
                "texts": self.corpus.texts,
                "held_out": list(self.corpus.titles),
                "hash": self.corpus.hash,
            },
        }

    def _identity(self) -> dict[str, Any]:
        kept = {name: value for name, value in self._study().items() if name not in ("level", "resamples", "seed")}
        return {**kept, "hash of the texts": self.corpus.hash, "versions": self._origin()["versions"]}

    def _beginning(self) -> Beginning:
        import xarray as xr

        return Beginning(self._study(), self._origin(), xr.Dataset(), {})


def checkpoint_folder(record: Path) -> Path:
    """Where the checkpoints of a study lie: beside its record, under its name and `-checkpoints`.

    Args:
        record: The folder of the record.
    """
    return record.with_name(f"{record.name}-checkpoints")


def _one(shape: Shape, corpus: Corpus, unit: Unit) -> tuple[str, dict[str, np.ndarray]]:
    import torch

    name, training, folder = unit
    threads, began = torch.get_num_threads(), clock.process_time()
    torch.set_num_threads(1)
    try:
        found = trained(shape, training, corpus, checkpoints=folder)
        return name, found | {"spent": np.array(clock.process_time() - began)}
    except NumericalError as trouble:
        raise NumericalError(
            f"{training.recipe} with term {training.term}, learning rate {training.rate:g}, seed {training.seed}: "
            f"{trouble}"
        ) from trouble
    finally:
        torch.set_num_threads(threads)


def _first_below(losses: np.ndarray, steps: np.ndarray, aim: float) -> float:
    """The step at which a curve first reaches a loss, between measured steps in a straight line; NaN if it does not."""
    below = np.flatnonzero(losses <= aim)
    if not len(below):
        return float("nan")
    first = int(below[0])
    if first == 0:
        return float(steps[0])
    high, low = losses[first - 1], losses[first]
    return float(steps[first - 1] + (steps[first] - steps[first - 1]) * (high - aim) / (high - low))


def _definitions() -> dict[str, dict[str, Any]]:
    held = "held-out documents"
    return {
        "loss": {"definition": f"next-token loss on {held}, nats per byte, without any term"},
        "training_loss": {
            "definition": "the same on training documents, mean over the steps since the last measurement"
        },
        "mean_overlap": {
            "definition": f"mean overlap of unit rows, first token left out, mean over {held}",
            "lowest": -1.0,
            "highest": 1.0,
        },
        "participation_rank": {"definition": "participation rank of unit rows, first token left out", "lowest": 1.0},
        "participation_rank_centered": {
            "definition": "the same of rows centered over the tokens, then normalized",
            "lowest": 1.0,
        },
        "squared_mean_direction": {
            "definition": "squared length of the mean of unit rows",
            "lowest": 0.0,
            "highest": 1.0,
        },
        "stream_norm_mean": {"definition": "mean norm of a row of the stream", "lowest": 0.0},
        "input_noise_loss": {"definition": f"the loss at the end with {100 * INPUT_NOISE:g} % of the bytes replaced"},
        "state_noise_loss": {
            "definition": f"the loss at the end with noise of {STATE_NOISE:g} of a row's length after the middle block"
        },
        "linear_probe": {
            "definition": f"share of tokens whose byte kind {BACK} back a linear map reads after the middle block",
            "lowest": 0.0,
            "highest": 1.0,
        },
        "skipped": {"definition": "steps given up because a loss or gradient was not finite"},
        "seconds": {"definition": "processor seconds a step, measurements left out"},
        "steps_to_loss": {
            "definition": "step at which the held-out loss first reaches the baseline's mean final loss",
            "undefined": "it is not reached",
        },
        "best_rate": {"definition": "learning rate with the lowest final loss of the sweep"},
        "sweep_loss": {"definition": "final held-out loss of the sweep's runs"},
    }
