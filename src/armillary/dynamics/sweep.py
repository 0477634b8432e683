"""Many independent systems in one compiled call, each with its own steps, merging and end, and what is read of them.

Nothing is kept of a system but numbers: which share of its pairs has met, how many groups there are, what the mean and
the smallest overlap are, at each wanted time, and when all pairs had met. So many systems need the memory of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from armillary.dynamics.merging import Merging
from armillary.dynamics.overlap_steps import gram_system
from armillary.dynamics.pair_sums import compiled, room
from armillary.dynamics.pairs import GATHERED, TOO_MANY, TOO_SMALL, Law, numbers_of, one_system
from armillary.dynamics.planning import COMPILED
from armillary.dynamics.sums.told import tell
from armillary.errors import ArgumentError

__all__ = ["Sweep", "in_their_span", "observed", "sweep", "uniform_start", "uniform_starts"]

SHARE, GROUPS, MEAN, SMALLEST = 0, 1, 2, 3
TOKENS, OVERLAPS = 0, 1


@dataclass(frozen=True, eq=False)
class Sweep:
    """What is read of many systems.

    Attributes:
        share_above: Share of the pairs of a system whose overlap is above the threshold, `systems times`.
        groups: Connected components of tokens within the angle, `systems times`; NaN where none are counted.
        mean_overlap: Mean overlap over distinct pairs, `systems times`.
        smallest_overlap: Of all pairs, `systems times`.
        gathered_at: When all pairs of a system were above the threshold, `systems`; NaN where they were not by the end.
        steps, rejected, evaluations: Of each system.
        unfinished: Which systems stopped before the last time without having gathered: too many steps, or a step that
            fell below rounding. Their numbers after `stood_at` are NaN.
        stood_at: Where each system stopped.
        moved: "tokens", or "overlaps" where there are no more tokens than dimensions and nothing is merged.
    """

    share_above: np.ndarray
    groups: np.ndarray
    mean_overlap: np.ndarray
    smallest_overlap: np.ndarray
    gathered_at: np.ndarray
    steps: np.ndarray
    rejected: np.ndarray
    evaluations: np.ndarray
    unfinished: np.ndarray
    stood_at: np.ndarray
    moved: str


def sweep(
    starts: np.ndarray, *, law: Law, times: np.ndarray, rtol: float, atol: float, above: float, within: float | None,
    angle: float = 0.0, most: int = 1_000_000, stop: bool = True,
) -> Sweep:  # fmt: skip
    """Follow independent systems, one compiled call for all of them.

    Args:
        starts: Unit rows, `systems tokens dim`, float64. Where a space is larger than the number of tokens, rows in the
            coordinates of their own span (`in_their_span`) move alike and cost less.
        law: What moves them.
        times: When numbers are read, ascending, from 0 on; the last one is where a system ends.
        rtol: Relative tolerance of the steps.
        atol: Absolute tolerance of the steps.
        above: Overlap above which a pair has met, in (0, 1).
        within: Angle in radians up to which two tokens share a group; None counts no groups.
        angle: Below which tokens are merged, at least ten times `rtol`; 0 for never.
        most: Steps after which a system is left where it is.
        stop: Whether a system ends once all its pairs have met. Distances inside a cap only shrink under attention that
            attracts (weights are positive whatever the sign of beta), so that the share stays 1; mean and smallest
            overlap are NaN from there on, and so is the number of groups if `within` is the narrower of the two.

    Returns:
        The numbers, systems in the order of the starts.

    Raises:
        ArgumentError: Starts, times, thresholds or the angle out of range; an early end under repulsion.

    Example:
        >>> law = Law(rule=0, beta=1.0, factor=1.0, shifted=True)
        >>> starts = uniform_starts(tokens=8, dim=3, seeds=range(4))
        >>> times = np.linspace(0.0, 20.0, 11)
        >>> found = sweep(starts, law=law, times=times, rtol=1e-6, atol=1e-7, above=0.999, within=0.1)
        >>> found.share_above[:, -1].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    _require(starts, law, times, above, within, stop=stop)
    if angle:
        Merging(angle).check(rtol)
    systems = len(starts)
    found = np.full((4, systems, len(times)), np.nan)
    counts = np.zeros((3, systems), dtype=np.int64)
    ends, stood = np.zeros(systems, dtype=np.int64), np.zeros(systems)
    at = np.ascontiguousarray(times, dtype=float)
    tokens, dim = starts.shape[1:]
    first = np.ascontiguousarray(starts, dtype=float)
    by_overlaps = tokens <= dim and angle == 0.0
    close = 2.0 if within is None else math.cos(within)
    if by_overlaps:
        _many_by_overlaps(
            first, numbers_of(law), at, float(rtol), float(atol), float(above), close,
            float(above) if stop else 2.0, int(most), found, counts, ends, stood,
        )  # fmt: skip
    else:
        _many(
            first, numbers_of(law), at, float(rtol), float(atol), float(angle), float(above), close,
            2.0 * (1.0 - above) if stop else 0.0, int(most), found, counts, ends, stood, room(tokens, dim),
        )  # fmt: skip
    tell("all pairs of overlaps, in the compiled engine, rounding" if by_overlaps else COMPILED)
    gathered = np.where(ends == GATHERED, stood, np.nan)
    if not stop:
        gathered = np.full(systems, np.nan)
    left = (ends == TOO_MANY) | (ends == TOO_SMALL)
    return Sweep(
        found[SHARE], found[GROUPS], found[MEAN], found[SMALLEST], gathered, counts[0], counts[1], counts[2], left,
        stood, "overlaps" if by_overlaps else "tokens",
    )  # fmt: skip


def _require(
    starts: np.ndarray, law: Law, times: np.ndarray, above: float, within: float | None, *, stop: bool
) -> None:
    if starts.ndim != 3 or starts.shape[1] < 2:
        raise ArgumentError(
            f"Argument `starts` must be [systems, tokens, dim] with two tokens or more, but has shape "
            f"{list(starts.shape)}. Add the axis of systems: starts[None]."
        )
    if not 0 < above < 1 or (within is not None and not 0 < within < math.pi):
        raise ArgumentError(
            f"Arguments `above` and `within` must lie in (0, 1) and (0, pi), but they are {above} and {within}. An "
            "overlap above 0.999, and an angle of 0.1, for instance."
        )
    if len(times) == 0 or times[0] < 0 or (np.diff(times) <= 0).any():
        raise ArgumentError("Argument `times` must ascend from 0 on, but does not. Sort the times, each once.")
    if stop and law.factor < 0:
        raise ArgumentError(
            f"Argument `stop` must be False where tokens part again, but the factor is {law.factor:g}. Follow the "
            "systems to the end: stop=False."
        )


@compiled(fastmath=False)
def _many(starts, law, times, rtol, atol, angle, above, close, gathered, most, found, counts, ends, stood, room):  # type: ignore[no-untyped-def]
    """Every system, one after the other, with the same room to work in."""
    systems, tokens, dim = starts.shape
    x, w, log = np.empty((dim, tokens)), np.empty(tokens), np.empty((tokens, 6))
    kept = np.empty((len(times), dim, tokens))
    line, parent = np.empty(tokens), np.empty(tokens, dtype=np.int64)
    for s in range(systems):
        for i in range(tokens):
            w[i] = 1.0
            for k in range(dim):
                x[k, i] = starts[s, i, k]
        counts[0, s], counts[1, s], counts[2, s], ends[s], stood[s], _ = one_system(
            x, w, law, times, rtol, atol, angle, gathered, most, kept, log, room
        )
        for t in range(len(times)):
            if times[t] <= stood[s]:
                _observe(kept[t], above, close, line, parent, found[:, s, t], TOKENS)
            elif ends[s] == GATHERED:
                _all_met(above, close, found[:, s, t])


@compiled(fastmath=False)
def _many_by_overlaps(starts, law, times, rtol, atol, above, close, gathered, most, found, counts, ends, stood):  # type: ignore[no-untyped-def]
    """Every system as its overlaps, one after the other."""
    systems, tokens, dim = starts.shape
    c, kept = np.empty((tokens, tokens)), np.empty((len(times), tokens, tokens))
    line, parent = np.empty(tokens), np.empty(tokens, dtype=np.int64)
    for s in range(systems):
        for i in range(tokens):
            c[i, i] = 1.0
            for j in range(i):
                overlap = 0.0
                for k in range(dim):
                    overlap += starts[s, i, k] * starts[s, j, k]
                c[i, j], c[j, i] = overlap, overlap
        counts[0, s], counts[1, s], counts[2, s], ends[s], stood[s] = gram_system(
            c, law, times, rtol, atol, gathered, most, kept
        )
        for t in range(len(times)):
            if times[t] <= stood[s]:
                _observe(kept[t], above, close, line, parent, found[:, s, t], OVERLAPS)
            elif ends[s] == GATHERED:
                _all_met(above, close, found[:, s, t])


@compiled(fastmath=False)
def _all_met(above, close, found):  # type: ignore[no-untyped-def]
    """What is known of a system whose pairs have all met."""
    found[SHARE] = 1.0
    if close <= above:
        found[GROUPS] = 1.0


@compiled(fastmath=True)
def _overlaps_with(x, i, found):  # type: ignore[no-untyped-def]
    """Overlaps of token i with all later ones, four coordinates at a time."""
    dim, tokens = x.shape
    count = tokens - i - 1
    for j in range(count):
        found[j] = 0.0
    for k in range(0, dim - 3, 4):
        a, b, c, d = x[k, i + 1 :], x[k + 1, i + 1 :], x[k + 2, i + 1 :], x[k + 3, i + 1 :]
        at, bt, ct, dt = x[k, i], x[k + 1, i], x[k + 2, i], x[k + 3, i]
        for j in range(count):
            found[j] += a[j] * at + b[j] * bt + c[j] * ct + d[j] * dt
    for k in range(dim - dim % 4, dim):
        a, at = x[k, i + 1 :], x[k, i]
        for j in range(count):
            found[j] += a[j] * at
    return count


@compiled(fastmath=True)
def _counted(x, above, close, line, parent, given):  # type: ignore[no-untyped-def]
    """Pairs above, groups, sum of overlaps and smallest overlap of tokens `dim tokens`, or of their overlaps."""
    tokens = x.shape[1]
    if close <= 1.0:
        for i in range(tokens):
            parent[i] = i
    many, total, smallest, groups = 0.0, 0.0, 1.0, tokens
    for i in range(tokens - 1):
        if given == TOKENS:
            count = _overlaps_with(x, i, line)
        else:
            count = tokens - i - 1
            for j in range(count):
                line[j] = x[i, i + 1 + j]
        largest = -1.0
        for j in range(count):
            many += 1.0 if line[j] > above else 0.0
            total += line[j]
            smallest = min(smallest, line[j])
            largest = max(largest, line[j])
        if largest >= close:
            for j in range(count):
                if line[j] >= close:
                    groups -= _joined(parent, i, i + 1 + j)
    return many, groups, total, smallest


@compiled(fastmath=False)
def _observe(x, above, close, line, parent, found, given):  # type: ignore[no-untyped-def]
    """Share of pairs above, groups, mean and smallest overlap; divided by rules that keep n/n at 1."""
    tokens = x.shape[1]
    pairs = tokens * (tokens - 1) / 2
    many, groups, total, smallest = _counted(x, above, close, line, parent, given)
    found[0], found[1], found[2], found[3] = many / pairs, groups if close <= 1.0 else np.nan, total / pairs, smallest


@compiled(fastmath=False)
def _joined(parent, i, j):  # type: ignore[no-untyped-def]
    """Join the groups of two tokens; 1 if they were apart."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    while parent[j] != j:
        parent[j] = parent[parent[j]]
        j = parent[j]
    if i == j:
        return 0
    parent[max(i, j)] = min(i, j)
    return 1


def observed(states: np.ndarray, *, above: float, within: float) -> np.ndarray:
    """The numbers that a sweep reads, of configurations that something else has moved.

    Args:
        states: Unit rows, `*batch tokens dim`.
        above: Overlap above which a pair has met.
        within: Angle in radians up to which two tokens share a group.

    Returns:
        Share of pairs above, groups, mean and smallest overlap: `4 *batch`.
    """
    batch, (tokens, dim) = states.shape[:-2], states.shape[-2:]
    flat = np.ascontiguousarray(np.asarray(states, dtype=float).reshape(-1, tokens, dim).swapaxes(1, 2))
    line, parent = np.empty(tokens), np.empty(tokens, dtype=np.int64)
    found = np.empty((len(flat), 4))
    for state, into in zip(flat, found, strict=True):
        _observe(state, float(above), math.cos(within), line, parent, into, TOKENS)
    return found.T.reshape(4, *batch)


def uniform_starts(*, tokens: int, dim: int, seeds: range | list[int] | tuple[int, ...]) -> np.ndarray:
    """Independent uniform directions for each seed, in coordinates of their own span where that is smaller.

    A start depends on its own seed, the number of tokens and the dimension alone.

    Args:
        tokens: T.
        dim: d.
        seeds: One for each system.

    Returns:
        `systems tokens min(tokens, dim)`.
    """
    made = [in_their_span(uniform_start(tokens=tokens, dim=dim, seed=int(seed))) for seed in seeds]
    return np.ascontiguousarray(np.stack(made))


def uniform_start(*, tokens: int, dim: int, seed: int) -> np.ndarray:
    """The uniform directions that `uniform_starts` draws for one seed, as they are drawn, `tokens dim`.

    Args:
        tokens: T.
        dim: d.
        seed: Of the start.
    """
    rows = np.random.default_rng([seed, tokens, dim]).standard_normal((tokens, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def in_their_span(rows: np.ndarray) -> np.ndarray:
    """Unit rows in coordinates of an orthonormal basis of their span, which no attention with identity heads leaves.

    Args:
        rows: `tokens dim`.

    Returns:
        `tokens min(tokens, dim)` with the same overlaps, to rounding.
    """
    tokens, dim = rows.shape
    if tokens >= dim:
        return rows
    reduced = np.asarray(np.linalg.qr(rows.T, mode="r")).T
    return np.asarray(reduced / np.linalg.norm(reduced, axis=1, keepdims=True))
