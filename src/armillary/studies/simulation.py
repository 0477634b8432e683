"""A simulation as a study: a dynamics, independent starts, observables along time, reduced to a record.

The numbers are those of the laboratory, taken of moving tokens instead of a decoder's layers: the same functions, the
same names and the same file format, with time in the place of depth and independent starts in the place of documents.
"""

from __future__ import annotations

import math
import platform
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as declared
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from armillary.dynamics.attention import Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.energy import energy_of
from armillary.dynamics.flow import flow
from armillary.dynamics.ingredients import ingredients
from armillary.dynamics.integrators import Integrator
from armillary.dynamics.merging import Merging
from armillary.dynamics.normalization import VelocityField
from armillary.errors import ArgumentError
from armillary.observables.alignment import mean_overlap, smallest_overlap, squared_mean_direction
from armillary.observables.clustering import cluster_count, clustering_order_parameter
from armillary.observables.declaration import Measurement
from armillary.observables.distances import AngularDistance
from armillary.observables.grouping import Connected, Grouping
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.studies.course import endings, groups_along_time, law_of, terms_of
from armillary.studies.plan import default_measurements
from armillary.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

__all__ = [
    "Simulation",
    "default_grouping",
    "default_measurements_along_time",
    "laboratory_measurements_along_time",
]

KEPT_NUMBERS = 4_000_000
"""States are kept in the record up to so many numbers, those of the first starts beyond it."""

_LIBRARIES = ("armillary", "torch", "numpy", "scipy", "xarray")


def default_grouping(*, within: float = 0.1) -> Grouping:
    """Groups as `armillary simulate` forms them: connected components of directions.

    Args:
        within: Angle in radians below which tokens belong to one group.
    """
    return Grouping(AngularDistance(), Connected(within=within))


def default_measurements_along_time(*, within: float = 0.1) -> tuple[Measurement, ...]:
    """What `armillary simulate` measures at every kept time.

    Args:
        within: Angle in radians below which tokens belong to one group (connected components).
    """
    groups = default_grouping(within=within)
    return (
        mean_overlap.after("normalize"),
        smallest_overlap.after("normalize"),
        squared_mean_direction.after("normalize"),
        participation_rank.after("normalize"),
        participation_rank.after("center", "normalize"),
        cluster_count(groups).after("normalize"),
        clustering_order_parameter(groups).after("normalize"),
    )


def laboratory_measurements_along_time(*, within: float = 0.1) -> tuple[Measurement, ...]:
    """What `armillary simulate` measures by default, and whatever else the laboratory measures of a layer.

    Preparations that are estimated on other documents (corpus mean, rogue coordinates) have no meaning for a start that
    was drawn, and are left out.

    Args:
        within: Angle in radians below which tokens belong to one group (connected components).
    """
    first = default_measurements_along_time(within=within)
    known = {str(one) for one in first}
    rest = default_measurements(grouping=default_grouping(within=within), calibrated=False)
    return (*first, *(one for one in rest if str(one) not in known))


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulation:
    """All choices of one simulation; `run` turns them into a record.

    Args:
        field: What moves the tokens.
        starts: Independent starts, `systems tokens dim`, unit rows.
        start_words: How they were made, in words.
        until: Time to reach (layers, for a discrete network).
        at: Times at which states are kept and measured, ascending; evenly spaced from 0 if an int.
        integrator: How time is stepped.
        merging: When tokens count as one, or None.
        measurements: What is measured; the default list if None.
        grouping: Which tokens share a group, for labels and endings in the record; `default_grouping()` if None.
        level: Nominal coverage of the intervals over starts.
        resamples: How many times starts are resampled.
        seed: Of the resampling.

    Raises:
        ArgumentError: The starts are not three-dimensional.
    """

    field: VelocityField
    starts: torch.Tensor
    start_words: str
    until: float
    at: int | Sequence[float]
    integrator: Integrator
    merging: Merging | None = None
    measurements: Sequence[Measurement] | None = None
    grouping: Grouping | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    choices: dict[str, Any] = declared(default_factory=dict)

    def __post_init__(self) -> None:
        if self.starts.ndim != 3:
            raise ArgumentError(
                f"Argument `starts` must be [systems, tokens, dim], but has shape {list(self.starts.shape)}. Add the "
                f"axis "
                "of systems: starts[None]."
            )

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """What is measured at every kept time."""
        return default_measurements_along_time() if self.measurements is None else tuple(self.measurements)

    @property
    def groups(self) -> Grouping:
        """Which tokens share a group."""
        return default_grouping() if self.grouping is None else self.grouping

    def run(self, path: str | Path, *, told: Callable[[str, int, int], None] | None = None) -> Record:
        """Simulate, measure and write the record.

        Args:
            path: The new folder.
            told: Hears what is being done, how much of it is done and how much there is.

        Returns:
            The record.

        Raises:
            ArgumentError: The folder exists, or choices contradict each other.
            NumericalError: A state is not finite.
        """
        Record.require_new(path)
        say = told or (lambda words, done, total: None)
        began = clock.perf_counter()
        say("moving", 0, 2)
        run = flow(
            self.field, self.starts, until=self.until, integrator=self.integrator, keep=self.at, merging=self.merging
        )
        say("measuring", 1, 2)
        dataset = self._dataset(run)
        seconds = round(clock.perf_counter() - began, 3)
        record = Record.write(path, self._study(run), self._origin(run, seconds), dataset)
        say("done", 2, 2)
        return record

    def _dataset(self, run: Trajectory) -> xarray.Dataset:
        import xarray as xr

        systems, tokens, dim = self.starts.shape
        variables: dict[str, Any] = {}
        for one in self.measured:
            lowest, highest = one.observable.attainable(tokens, dim)
            attrs: dict[str, Any] = {
                "symbol": one.observable.symbol, "definition": one.observable.definition,
                "source": one.observable.source, "undefined": one.observable.undefined,
                "preparation": str(one.preparation), **dict(one.observable.parameters),
            }  # fmt: skip
            attrs |= {k: v for k, v in (("lowest", lowest), ("highest", highest)) if math.isfinite(v)}
            values = np.asarray(torch.as_tensor(run.measure(one)).cpu(), dtype=float)
            variables[f"{one.name} after {one.preparation}"] = (("system", "time"), values, attrs)
        variables |= self._energy(run)
        shown = max(1, min(systems, KEPT_NUMBERS // max(1, len(run.at) * tokens * dim)))
        variables["states"] = (
            ("shown", "time", "token", "coordinate"),
            run.states[:shown].cpu().numpy(),
            {"definition": "configurations as they were kept; unit rows where the norm holds tokens to the sphere"},
        )
        variables["group"] = (
            ("shown", "time", "token"),
            groups_along_time(run.states[:shown], self.groups).cpu().numpy(),
            {
                "definition": "group of each token, numbered by first appearance; -1 for a token in no group",
                "grouping": str(self.groups),
            },
        )
        coordinates = {
            "system": np.arange(systems),
            "time": ("time", np.asarray(run.at), {"units": "layers" if run.axis == "depth" else "units of time s"}),
            "shown": np.arange(shown),
            "token": np.arange(tokens),
            "coordinate": np.arange(dim),
        }
        return xr.Dataset(variables, coords=coordinates, attrs={"tokens": tokens, "width": dim})

    def _energy(self, run: Trajectory) -> dict[str, Any]:
        if not ingredients(self.field).complete:
            return {}
        energy = energy_of(self.field)
        rates = [energy.log_rate(state, time=at) for at, state in zip(run.at, run.states.unbind(1), strict=True)]
        found = torch.stack(rates, dim=1)
        return {
            "log_energy": (
                ("system", "time"),
                energy.log_value(run.states).cpu().numpy(),
                {
                    "symbol": "log |Phi|",
                    "definition": f"logarithm of the energy {energy.definition} (NaN where that is negative)",
                    "source": "Geshkovski et al. 2023",
                    "undefined": "never at beta != 0",
                    "direction": "never decreases" if energy.sign > 0 else "never increases",
                },
            ),
            "log_energy_rate": (
                ("system", "time"),
                torch.where(found.isinf(), torch.nan, found).cpu().numpy(),
                {
                    "symbol": "log |dPhi/ds|",
                    "definition": "logarithm of the sum over tokens of mobility times squared tangential gradient",
                    "source": "Geshkovski et al. 2023",
                    "undefined": "where nothing moves",
                },
            ),
        }

    def _study(self, run: Trajectory) -> dict[str, Any]:
        law = law_of(self.field, self.starts, self.integrator)
        return {
            "kind": "simulation",
            "dynamics": str(self.field),
            "scheme": self.field.scheme,
            "terms": terms_of(self.field),
            "grouping": str(self.groups),
            "beta": self._beta,
            "start": self.start_words,
            "systems": int(self.starts.shape[0]),
            "tokens": int(self.starts.shape[1]),
            "dim": int(self.starts.shape[2]),
            "until": float(self.until),
            "at": [float(one) for one in run.at],
            "integrator": str(self.integrator),
            "engine": run.engine,
            "summation": run.summation,
            "merging": "none" if self.merging is None else f"angle {self.merging.angle:g} radians",
            "measurements": [str(one) for one in self.measured],
            "dtype": str(self.starts.dtype).removeprefix("torch."),
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "choices": self.choices,
        } | ({} if law is None else {"law": law})

    @property
    def _beta(self) -> float:
        """Beta of the first attention, 0 without any."""
        rules = [term.rule for _, term in self.field.drift.terms if isinstance(term, AttentionDrift)]
        return next((rule.beta for rule in rules if isinstance(rule, Softmax | Unnormalized)), 0.0)

    def _origin(self, run: Trajectory, seconds: float) -> dict[str, Any]:
        lacking = ingredients(self.field).missing
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
            "statuses": list(run.statuses),
            "endings": endings(run, self.field, self.groups),
            "steps": list(run.steps),
            "rejected": list(run.rejected),
            "evaluations": list(run.evaluations),
            "mergers": [
                {
                    "time": one.time,
                    "system": one.system,
                    "tokens": list(one.tokens),
                    "weights": list(one.weights),
                    "overlap": one.overlap,
                }
                for one in run.mergers
            ],
            "energy": "monotone" if not lacking else f"not claimed: the proof lacks {'; '.join(lacking)}",
            "seconds": seconds,
        }
