"""What `armillary lab` measures by default: every scientific choice in one place, written into each record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from armillary.errors import ArgumentError
from armillary.estimates import MINIMUM_MEMBERS
from armillary.observables.alignment import (
    exponential_overlap,
    mean_overlap,
    smallest_overlap,
    squared_mean_direction,
)
from armillary.observables.attention_declaration import map_numbers
from armillary.observables.between import BetweenMeasurement
from armillary.observables.clustering import cluster_count, clustering_order_parameter
from armillary.observables.correspondence import linear_cka, neighbor_overlap
from armillary.observables.declaration import Measurement
from armillary.observables.distances import AngularDistance
from armillary.observables.group_history import Majority
from armillary.observables.grouping import Connected, Grouping
from armillary.observables.neighbors import duplicate_rows, intrinsic_dimension
from armillary.observables.population import population_participation_rank
from armillary.observables.rank import (
    algebraic_rank,
    entropy_rank,
    nuclear_over_spectral,
    participation_rank,
    squared_entropy_rank,
    stable_rank,
    variance_components,
)

__all__ = [
    "FLOOR_DOCUMENTS",
    "TAPS",
    "TOKEN_SETS",
    "Plan",
    "at_other_taps",
    "check_measurements",
    "default_between_layers",
    "default_measurements",
    "position_bands",
    "statement_layers",
]

TAPS = ("block", "mid", "block_read", "mid_read")
"""The stream after a block, after its attention, and both as the next norm hands them to the sublayer behind it."""

TOKEN_SETS = ("all", "without_first", "without_first_and_massive")
"""Which tokens take part; a massive token has a norm above `Plan.massive_ratio` medians, wherever it stands."""

FLOOR_DOCUMENTS = 2
"""How many of the audited documents show what rounding does to the audit itself."""

SPHERE = ("normalize",)
CENTERED = ("center", "normalize")
CORPUS = ("corpus mean", "normalize")
ROGUE = ("without rogue coordinates", "normalize")

GROUPS = Grouping(AngularDistance(), Connected(within=math.pi / 4))
"""The laboratory's own grouping: angles below a quarter of pi are nearer to agreement than to orthogonality."""

MAJORITY = Majority(share=0.5, least=2)
"""The laboratory's own way to follow groups: more than half of either one's tokens, groups of two and more."""


def default_measurements(
    *, beta: float = 4.0, grouping: Grouping | None = None, calibrated: bool = True
) -> tuple[Measurement, ...]:
    """The laboratory's own list, at the stream after every block.

    Args:
        beta: Inverse temperature of the threshold-free overlap.
        grouping: Distance and rule of the groups; the laboratory's own, angles below a quarter of pi, if None.
        calibrated: Whether to include the two views that need calibration documents.

    Returns:
        Measurements in the order in which they are reported.
    """
    groups = grouping or GROUPS
    components = variance_components(share=0.95)
    spectral = (entropy_rank, squared_entropy_rank, stable_rank, nuclear_over_spectral, components)
    measurements = [
        mean_overlap.after(*SPHERE),
        mean_overlap.after(*CENTERED),
        squared_mean_direction.after(*SPHERE),
        smallest_overlap.after(*SPHERE),
        exponential_overlap(beta=beta).after(*SPHERE),
        exponential_overlap(beta=beta).after(*CENTERED),
        clustering_order_parameter(groups).after(*CENTERED),
        clustering_order_parameter(groups).after(*SPHERE),
        cluster_count(groups).after(*CENTERED),
        participation_rank.after(),
        participation_rank.after("center"),
        participation_rank.after(*SPHERE),
        participation_rank.after(*CENTERED),
        algebraic_rank.after(*SPHERE),
        *(one.after(*SPHERE) for one in spectral),
        *(one.after(*CENTERED) for one in spectral),
        population_participation_rank.after(*SPHERE),
        intrinsic_dimension(discard=0.1, tolerance=1e-6).after(*SPHERE),
        duplicate_rows(tolerance=1e-6).after(*SPHERE),
    ]
    if calibrated:
        measurements += [one.after(*view) for view in (CORPUS, ROGUE) for one in (mean_overlap, participation_rank)]
    return tuple(measurements)


@dataclass(frozen=True)
class Plan:
    """The choices of a laboratory beyond its list of measurements.

    Args:
        bins: Equal bins of the overlap histogram over [-1, 1].
        thresholds: Angles in radians of the threshold sweep.
        massive_ratio: Norm over median norm above which a token is massive.
        rogue_coordinates: How many coordinates the rogue view sets to zero.
        condition_number: Of the general linear map in the statement.
        audit_documents: How many documents, from the first, the statement is made on.
        bands: How many position bands.
        attention: Which numbers of attention maps are taken of every head, by name; none needs no eager pass.
        followed: The grouping whose groups are followed from layer to layer, of centered, normalized rows.
        majority: When groups of neighboring layers are linked.
        rounding_documents: How many documents pass once more in the next wider type, for the rounding floor; 0: none.
        gauge_documents: How many documents, from the first, re-parametrizations are verified and measured on.
        gauge_tokens: How many tokens of each of them, from the first.
        gauge_condition: Condition number of the general maps among re-parametrizations.

    Raises:
        ArgumentError: If there is no number of attention of such a name, or one comes twice.
    """

    bins: int = 64
    thresholds: tuple[float, ...] = tuple(round(0.1 * k, 1) for k in range(1, 16))
    massive_ratio: float = 5.0
    rogue_coordinates: int = 3
    condition_number: float = 4.0
    audit_documents: int = MINIMUM_MEMBERS
    bands: int = 4
    attention: tuple[str, ...] = field(default_factory=lambda: tuple(map_numbers()))
    followed: Grouping = GROUPS
    majority: Majority = MAJORITY
    rounding_documents: int = 2
    gauge_documents: int = 2
    gauge_tokens: int = 48
    gauge_condition: float = 10.0

    def __post_init__(self) -> None:
        known = map_numbers()
        unknown = [name for name in self.attention if name not in known]
        if unknown or len(set(self.attention)) < len(self.attention):
            raise ArgumentError(
                f"Argument `attention` must name numbers of attention maps, each once, but it is "
                f"{list(self.attention)}. Choose among {', '.join(known)}, or give () for none."
            )

    def choices(self) -> dict[str, Any]:
        """Every choice as study.toml keeps it, groupings in words."""
        plain = {name: value for name, value in vars(self).items() if name not in ("followed", "majority")}
        plain["thresholds"], plain["attention"] = list(self.thresholds), list(self.attention)
        return {**plain, "followed": str(self.followed), "majority": str(self.majority)}


def default_between_layers() -> tuple[BetweenMeasurement, ...]:
    """The laboratory's own numbers between layers, of directions: each token counts once, a massive one too."""
    return (linear_cka.after(*SPHERE), neighbor_overlap(k=10).after(*SPHERE))


def check_measurements(
    measurements: Sequence[Measurement], between: Sequence[BetweenMeasurement], *, calibrated: bool
) -> None:
    """Refuse a list that no laboratory could report without ambiguity.

    Args:
        measurements: What is to be measured.
        between: What is to be measured between layers.
        calibrated: Whether there are calibration documents.

    Raises:
        ArgumentError: If an entry is no measurement, comes twice, or needs a calibration that is not there.
    """
    for one in measurements:
        if not isinstance(one, Measurement):
            raise ArgumentError(
                f"Argument `measurements` must hold observables with a declared preparation, but it holds {one!r}. "
                "Write for example participation_rank.after('normalize')."
            )
    for other in between:
        if not isinstance(other, BetweenMeasurement):
            raise ArgumentError(
                "Argument `between` must hold numbers between layers with a declared preparation, but it holds "
                f"{other!r}. Write for example linear_cka.after('normalize')."
            )
    _refuse_what_no_record_could_tell("measurements", measurements, calibrated=calibrated)
    _refuse_what_no_record_could_tell("between", between, calibrated=calibrated)


def _refuse_what_no_record_could_tell(
    argument: str, measurements: Sequence[Measurement | BetweenMeasurement], *, calibrated: bool
) -> None:
    seen: set[tuple[str, str]] = set()
    for one in measurements:
        if one.preparation.needs_calibration and not calibrated:
            raise ArgumentError(
                f"Argument `calibration` must hold documents for {one}, but there is none. "
                "Pass calibration=Documents(...) disjoint from the others."
            )
        key = (one.name, str(one.preparation))
        if key in seen:
            raise ArgumentError(
                f"Argument `{argument}` must name each observable once a preparation, but {one} comes twice. "
                "Leave one out, or run two laboratories."
            )
        seen.add(key)


def at_other_taps(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Those that are taken after attention and as read too: mean overlap, squared mean and participation rank.

    Args:
        measurements: What is measured after every block.

    Returns:
        The ones among them of unit rows that need no calibration.
    """
    names = (mean_overlap.name, squared_mean_direction.name, participation_rank.name)
    return tuple(one for one in measurements if one.name in names and one.preparation.steps in (SPHERE, CENTERED))


def position_bands(tokens: int, count: int) -> tuple[tuple[int, int], ...]:
    """Bands [start, stop) of positions of nearly equal size, the first token left out.

    Args:
        tokens: Tokens in a document.
        count: How many bands.

    Returns:
        Pairs of positions; fewer than `count` if there are too few tokens for bands of two.
    """
    count = max(1, min(count, (tokens - 1) // 2))
    edges = [1 + round(k * (tokens - 1) / count) for k in range(count + 1)]
    return tuple(pairwise(edges))


def statement_layers(layers: Sequence[int]) -> tuple[int, ...]:
    """Where the statement's maps are applied: half of the way, and the last layer.

    Args:
        layers: Measured layers, ascending.

    Returns:
        One or two of them.
    """
    last = len(layers) - 1
    return tuple(dict.fromkeys(layers[round(last * share)] for share in (0.5, 1.0)))
