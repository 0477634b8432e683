"""The compiled engine: steps of each system's own, dense output and merging, for plain flows of small systems.

It moves tokens by softmax, unnormalized or uniform weights of identity heads without a mask, on the sphere, with the
same tableau, controller and merging as the general engine, to which tests hold it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from armillary.dynamics.integrators import TSITOURAS
from armillary.dynamics.pair_sums import (
    SOFTMAX,
    UNIFORM,
    UNNORMALIZED,
    all_within,
    compiled,
    nearest_pair,
    room,
    velocity,
)

__all__ = [
    "GATHERED",
    "REACHED",
    "SOFTMAX",
    "TOO_MANY",
    "TOO_SMALL",
    "UNIFORM",
    "UNNORMALIZED",
    "Compiled",
    "Law",
    "STAGES",
    "compiled_flow",
    "error_over",
    "first_step",
    "longer",
    "numbers_of",
    "one_system",
    "pair_velocity",
    "placed",
    "shorter",
    "stage_shares",
]

REACHED, TOO_SMALL, TOO_MANY, GATHERED = 0, 1, 2, 3

STAGES = np.zeros((7, 7))
for _k, _row in enumerate(TSITOURAS.stages):
    STAGES[_k + 1, : len(_row)] = _row
_B, _C = np.asarray(TSITOURAS.weights), np.asarray(TSITOURAS.nodes)
_E, _R = np.asarray(TSITOURAS.errors), np.asarray(TSITOURAS.interpolant)

_HALVINGS = 24  # of a step, to find when tokens had gathered
_SAFETY, _SHRINK, _GROW, _PROPORTIONAL, _INTEGRAL, _ORDER = 0.9, 0.2, 5.0, 0.7, 0.4, 5.0


@dataclass(frozen=True)
class Law:
    """What moves the tokens, in numbers.

    Attributes:
        rule: SOFTMAX, UNNORMALIZED or UNIFORM.
        beta: Inverse temperature.
        factor: Multiplies the velocity.
        shifted: Whether unnormalized weights carry e^{-|beta|}.
    """

    rule: int
    beta: float
    factor: float
    shifted: bool


@dataclass(frozen=True, eq=False)
class Compiled:
    """What a run of the compiled engine leaves.

    Attributes:
        states: `systems times tokens dim`.
        steps, rejected, evaluations: Of each system.
        ends: REACHED, TOO_SMALL or TOO_MANY, each system.
        times: Where each system stands.
        mergers: (system, time, kept token, other token, weight kept, weight other, overlap), in order.
    """

    states: np.ndarray
    steps: np.ndarray
    rejected: np.ndarray
    evaluations: np.ndarray
    ends: np.ndarray
    times: np.ndarray
    mergers: list[tuple[int, float, int, int, float, float, float]]


@compiled(fastmath=True)
def placed(x, stages, shares, count, length, n, found):  # type: ignore[no-untyped-def]
    """The state moved by length times the first stages, each times its share."""
    for k in range(x.shape[0]):
        into, there = found[k], x[k]
        for i in range(n):
            into[i] = 0.0
        for q in range(count):
            share, stage = shares[q], stages[q, k]
            if share != 0.0:
                for i in range(n):
                    into[i] += share * stage[i]
        for i in range(n):
            into[i] = there[i] + length * into[i]


@compiled(fastmath=False)
def _unit(x, n, sizes):  # type: ignore[no-untyped-def]
    for i in range(n):
        sizes[i] = 0.0
    for k in range(x.shape[0]):
        for i in range(n):
            sizes[i] += x[k, i] * x[k, i]
    for i in range(n):
        sizes[i] = math.sqrt(sizes[i])
    for k in range(x.shape[0]):
        for i in range(n):
            x[k, i] /= sizes[i]


@compiled(fastmath=True)
def error_over(stages, length, allowed, n, sizes):  # type: ignore[no-untyped-def]
    """Root mean square over the coordinates of the embedded error over what is allowed."""
    dim, total = stages.shape[1], 0.0
    for k in range(dim):
        for i in range(n):
            sizes[i] = 0.0
        for q in range(7):
            share, stage = _E[q], stages[q, k]
            for i in range(n):
                sizes[i] += share * stage[i]
        for i in range(n):
            total += (length * sizes[i] / allowed) ** 2
    return math.sqrt(total / (dim * n))


@compiled(fastmath=False)
def _merge(x, w, n, stands, holder, angle, time, log, logged, squares):  # type: ignore[no-untyped-def]
    """Merge tokens within the angle, nearest first; returns how many are left and the new length of the log.

    Columns that are left move up, so that no loop runs over tokens that are gone.
    """
    dim = x.shape[0]
    limit = (2.0 * math.sin(angle / 2.0)) ** 2
    while n > 1:
        best, a, b = nearest_pair(x, n, squares)
        if best > limit:
            break
        log[logged, 0], log[logged, 1], log[logged, 2] = time, stands[a], stands[b]
        log[logged, 3], log[logged, 4], log[logged, 5] = w[a], w[b], 1.0 - best / 2.0
        logged += 1
        size = 0.0
        for k in range(dim):
            x[k, a] = w[a] * x[k, a] + w[b] * x[k, b]
            size += x[k, a] * x[k, a]
        size = math.sqrt(size)
        for k in range(dim):
            x[k, a] /= size
        w[a] += w[b]
        for i in range(len(holder)):
            if holder[i] == b:
                holder[i] = a
            elif holder[i] > b:
                holder[i] -= 1
        for j in range(b, n - 1):
            w[j], stands[j] = w[j + 1], stands[j + 1]
            for k in range(dim):
                x[k, j] = x[k, j + 1]
        n -= 1
    return n, logged


@compiled(fastmath=False)
def first_step(stage, n, rtol, atol):  # type: ignore[no-untyped-def]
    """A small part of the time in which a token would move by its own length."""
    fastest = 0.0
    for i in range(n):
        size = 0.0
        for k in range(stage.shape[0]):
            size += stage[k, i] ** 2
        fastest = max(fastest, size)
    return min(0.1 / max(math.sqrt(fastest), 1e-300), 0.5) * min(1.0, max(1e-3, 4 * (rtol + atol) ** 0.2))


@compiled(fastmath=False)
def shorter(length, wrong):  # type: ignore[no-untyped-def]
    """The step to try after one whose error over what is allowed was `wrong`."""
    shrink = _SAFETY * wrong ** (-1.0 / _ORDER) if math.isfinite(wrong) else _SHRINK
    return length * max(_SHRINK, min(_SAFETY, shrink))


@compiled(fastmath=False)
def longer(length, wrong, before):  # type: ignore[no-untyped-def]
    """The step after an accepted one, by its error and that of the one before; the error that the next one looks at."""
    floor = max(wrong, 1e-10)
    grow = _SAFETY * floor ** (-_PROPORTIONAL / _ORDER) * before ** (_INTEGRAL / _ORDER)
    return length * min(_GROW, max(_SHRINK, grow)), floor


@compiled(fastmath=False)
def one_system(x, w, law, times, rtol, atol, angle, gathered, most, kept, log, room):  # type: ignore[no-untyped-def]
    """One system from 0 to the last of `times`; returns counts, how it ended, where it stands and the log's length.

    It ends earlier when no two tokens are farther apart than the squared distance `gathered` (0 for never): distances
    in a cap only shrink, so what is asked of near pairs is known from there on. Then it stands where that came to be.
    """
    dim, n = x.shape
    z, twice, back, pair = room
    stages, trial, sizes = np.zeros((7, dim, n)), np.empty((dim, n)), np.empty(n)
    shares, between = np.empty(7), np.empty((dim, n))
    holder, stands = np.arange(n), np.arange(n)
    time, before, ended = 0.0, 1.0, REACHED
    steps, rejected, evaluations, logged, place = 0, 0, 1, np.int64(0), 0
    stop = times[-1]
    while place < len(times) and times[place] <= 0.0:
        for k in range(dim):
            for i in range(n):
                kept[place, k, i] = x[k, i]
        place += 1
    velocity(x, w, n, law, stages[0], z, twice, back, pair)
    step, when = first_step(stages[0], n, rtol, atol), 0.0
    least = 1e-14 * step
    if gathered > 0.0 and all_within(x, n, gathered, sizes):
        stop, ended = 0.0, GATHERED
    while time < stop:
        left = stop - time
        last = step >= left * (1 - 1e-12)
        length = left if last else step
        for s in range(1, 7):
            placed(x, stages, STAGES[s], s, length, n, trial)
            _unit(trial, n, sizes)
            velocity(trial, w, n, law, stages[s], z, twice, back, pair)
        evaluations += 6
        wrong = error_over(stages, length, atol + rtol, n, sizes)
        if not wrong <= 1.0:
            rejected += 1
            step = shorter(length, wrong)
        else:
            while place < len(times) and times[place] <= time + length:
                share = (times[place] - time) / length
                _keep(x, trial, stages, length, share, n, holder, shares, between, sizes, kept[place])
                place += 1
            together = gathered > 0.0 and all_within(trial, n, gathered, sizes)
            if together:
                when = time + length * _first_within(x, stages, length, n, gathered, shares, between, sizes)
            time = stop if last else time + length
            for k in range(dim):
                for i in range(n):
                    x[k, i], stages[0, k, i] = trial[k, i], stages[6, k, i]
            steps += 1
            if together:
                time, ended = when, GATHERED
                break
            if angle > 0.0:
                some = n
                n, logged = _merge(x, w, n, stands, holder, angle, time, log, logged, sizes)
                if n < some:
                    velocity(x, w, n, law, stages[0], z, twice, back, pair)
                    evaluations += 1
            step, before = longer(length, wrong, before)
        if time < stop and not step > max(16 * 2.220446049250313e-16 * abs(time), least):
            ended = TOO_SMALL
            break
        if time < stop and steps >= most:
            ended = TOO_MANY
            break
    while place < len(times):
        _keep(x, x, stages, 0.0, 1.0, n, holder, shares, between, sizes, kept[place])
        place += 1
    return steps, rejected, evaluations, ended, time, logged


@compiled(fastmath=False)
def _first_within(x, stages, length, n, limit, shares, found, sizes):  # type: ignore[no-untyped-def]
    """The share of a step after which no two tokens are farther apart than a squared distance."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        stage_shares(middle, shares)
        placed(x, stages, shares, 7, length, n, found)
        _unit(found, n, sizes)
        if all_within(found, n, limit, sizes):
            high = middle
        else:
            low = middle
    return high


@compiled(fastmath=True)
def stage_shares(share, found):  # type: ignore[no-untyped-def]
    """What each stage adds to the state at a share of a step, in units of the step."""
    for q in range(7):
        found[q] = share * (_R[q, 0] + share * (_R[q, 1] + share * (_R[q, 2] + share * _R[q, 3])))


@compiled(fastmath=False)
def _keep(x, end, stages, length, share, n, holder, shares, between, sizes, kept):  # type: ignore[no-untyped-def]
    """The state at a share of the step, every original token at the column that stands for it."""
    dim, tokens = kept.shape
    into = kept if n == tokens else between
    if share >= 1 - 1e-14:
        for k in range(dim):
            for i in range(n):
                into[k, i] = end[k, i]
    else:
        stage_shares(share, shares)
        placed(x, stages, shares, 7, length, n, into)
        _unit(into, n, sizes)
    if n < tokens:
        for k in range(dim):
            for i in range(tokens):
                kept[k, i] = between[k, holder[i]]


def pair_velocity(rows: np.ndarray, *, law: Law, weights: np.ndarray | None = None) -> np.ndarray:
    """The velocity of one configuration.

    Args:
        rows: Unit rows, `tokens dim`, float64.
        law: What moves them.
        weights: Of the tokens, `tokens`; None for one each.

    Returns:
        `tokens dim`.
    """
    x = np.ascontiguousarray(rows.T, dtype=float)
    w = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float)
    v = np.empty_like(x)
    velocity(x, w, len(rows), numbers_of(law), v, *room(*rows.shape))
    return v.T.copy()


def compiled_flow(
    starts: np.ndarray, *, law: Law, times: np.ndarray, rtol: np.ndarray, atol: np.ndarray, angle: float, most: int,
    weights: np.ndarray | None = None,
) -> Compiled:  # fmt: skip
    """Independent systems, one after the other, each with steps of its own.

    Args:
        starts: Unit rows, `systems tokens dim`, float64.
        law: What moves them.
        times: When states are kept, ascending; the last one is where a system ends.
        rtol: Relative tolerance of each system, `systems`.
        atol: Absolute tolerance of each system, `systems`.
        angle: Below which tokens are merged; 0 for never.
        most: Steps after which a system stops where it is.
        weights: Of the tokens, `systems tokens`; None for one each.

    Returns:
        States at the times, counts, ends and mergers.
    """
    systems, tokens, dim = starts.shape
    kept = np.empty((systems, len(times), dim, tokens))
    counts = np.zeros((3, systems), dtype=np.int64)
    ends, stands = np.zeros(systems, dtype=np.int64), np.zeros(systems)
    mergers: list[tuple[int, float, int, int, float, float, float]] = []
    for k in range(systems):
        x = np.array(starts[k].T, dtype=float, order="C")  # a copy, even where the transpose lies in order
        w = np.ones(tokens) if weights is None else np.array(weights[k], dtype=float)
        log = np.zeros((tokens, 6))
        *counts[:, k], ends[k], stands[k], logged = one_system(
            x, w, numbers_of(law), np.asarray(times, dtype=float), float(rtol[k]), float(atol[k]), float(angle), 0.0,
            int(most), kept[k], log, room(tokens, dim),
        )  # fmt: skip
        for time, a, b, first, second, overlap in log[:logged]:
            mergers.append((k, float(time), int(a), int(b), float(first), float(second), float(overlap)))
    return Compiled(np.ascontiguousarray(kept.swapaxes(2, 3)), counts[0], counts[1], counts[2], ends, stands, mergers)


def numbers_of(law: Law) -> tuple[int, float, float, float]:
    """The law as the kernels take it: rule, beta, factor, and what unnormalized weights are divided by beside n.

    Kernels work with e^{beta c - |beta|}; the plain clock multiplies by e^{|beta|} again.

    Args:
        law: What moves the tokens.
    """
    shift = 1.0 if law.shifted or law.rule != UNNORMALIZED else math.exp(-abs(law.beta))
    return law.rule, float(law.beta), float(law.factor), shift  # of one type each: another would be compiled anew
