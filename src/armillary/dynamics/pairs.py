"""The compiled engine: each pair of tokens once, steps of each system's own, merging; for plain flows of small systems.

It moves tokens by softmax, unnormalized or uniform weights of identity heads without a mask, on the sphere, with the
same tableau, controller and merging as the general engine, to which tests hold it. Pair sums are taken of differences,

    v_i = P_i sum_j w_j e^{-beta |x_j - x_i|^2 / 2} (x_j - x_i) / Z_i,

so that tokens close together lose no digits and nothing can overflow. The exponential is a polynomial that the compiler
turns into vector instructions; its relative error is 4e-16.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from armillary.dynamics.integrators import TSITOURAS

__all__ = ["Compiled", "Law", "compiled_flow", "pair_velocity"]

SOFTMAX, UNNORMALIZED, UNIFORM = 0, 1, 2
REACHED, TOO_SMALL, TOO_MANY = 0, 1, 2

_A = np.zeros((7, 7))
for _k, _row in enumerate(TSITOURAS.stages):
    _A[_k + 1, : len(_row)] = _row
_B, _C = np.asarray(TSITOURAS.weights), np.asarray(TSITOURAS.nodes)
_E, _R = np.asarray(TSITOURAS.errors), np.asarray(TSITOURAS.interpolant)

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer, which then lies in the low bits
_LOWEST = -700.0
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


def _compiled(*, fastmath: bool | set[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles a function at its first call and keeps the machine code beside the file for the next process.

    What may have been wrapped around it for checking is taken off: the compiler reads the function itself.
    """

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = numba.njit(cache=True, fastmath=fastmath)(inspect.unwrap(function))
        return made

    return compiled


@_compiled(fastmath={"contract", "nsz", "arcp"})
def _exponentials(arguments, rounded, bits, scale, found, count):  # type: ignore[no-untyped-def]
    """e^x of the first `count` arguments, all at most 0, into `found`.

    Reassociation is not allowed here: it would undo the rounding trick.
    """
    for j in range(count):
        arguments[j] = max(arguments[j], _LOWEST)
        rounded[j] = arguments[j] * _LOG2E + _MAGIC
    for j in range(count):
        scale[j] = (bits[j] + 1023) << 52
    two = scale.view(np.float64)
    for j in range(count):
        k = rounded[j] - _MAGIC
        r = (arguments[j] - k * _LN2_HIGH) - k * _LN2_LOW
        p = 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        found[j] = p * two[j]


@_compiled(fastmath=True)
def _velocity(x, w, law, v, z, work, bits, scale):  # type: ignore[no-untyped-def]
    """Velocities of unit rows `dim tokens` into v; returns the smallest squared distance of two present tokens."""
    dim, tokens = x.shape
    rule, beta, factor, shift = law
    arguments, found, rounded = work[0], work[1], work[2]
    total, nearest = 0.0, 1e300
    own = math.exp(beta - abs(beta)) if beta < 0 else 1.0
    if rule == UNIFORM:
        own = 1.0
    for i in range(tokens):
        total += w[i]
        z[i] = w[i] * own
        for k in range(dim):
            v[k, i] = 0.0
    for i in range(tokens):
        if w[i] == 0.0:
            continue
        count = tokens - i - 1
        for j in range(count):
            arguments[j] = 0.0
        for k in range(dim):
            here = x[k, i]
            for j in range(count):
                apart = x[k, i + 1 + j] - here
                arguments[j] += apart * apart
        for j in range(count):
            if w[i + 1 + j] > 0.0:
                nearest = min(nearest, arguments[j])
        if rule == UNIFORM:
            for j in range(count):
                found[j] = 1.0
        else:
            least = beta - abs(beta)
            for j in range(count):
                arguments[j] = -0.5 * beta * arguments[j] + least
            _exponentials(arguments, rounded, bits, scale, found, count)
        mine = w[i]
        sum_z = 0.0
        for j in range(count):
            sum_z += w[i + 1 + j] * found[j]
            z[i + 1 + j] += mine * found[j]
        z[i] += sum_z
        for k in range(dim):
            here, pull = x[k, i], 0.0
            for j in range(count):
                toward = found[j] * (x[k, i + 1 + j] - here)
                pull += w[i + 1 + j] * toward
                v[k, i + 1 + j] -= mine * toward
            v[k, i] += pull
    for i in range(tokens):
        along = 0.0
        for k in range(dim):
            along += v[k, i] * x[k, i]
        share = factor / (total * shift if rule == UNNORMALIZED else z[i])
        if w[i] == 0.0:
            share = 0.0
        for k in range(dim):
            v[k, i] = (v[k, i] - along * x[k, i]) * share
    return nearest


@_compiled(fastmath=False)
def _unit(x):  # type: ignore[no-untyped-def]
    dim, tokens = x.shape
    for i in range(tokens):
        size = 0.0
        for k in range(dim):
            size += x[k, i] * x[k, i]
        size = math.sqrt(size)
        for k in range(dim):
            x[k, i] /= size


@_compiled(fastmath=False)
def _merge(x, w, holder, angle, time, log, logged):  # type: ignore[no-untyped-def]
    """Merge present tokens within the angle, nearest first; returns the new length of the log."""
    dim, tokens = x.shape
    limit = (2.0 * math.sin(angle / 2.0)) ** 2
    while True:
        best, a, b = 1e300, -1, -1
        for i in range(tokens):
            if w[i] == 0.0:
                continue
            for j in range(i + 1, tokens):
                if w[j] == 0.0:
                    continue
                apart = 0.0
                for k in range(dim):
                    apart += (x[k, i] - x[k, j]) ** 2
                if apart < best:
                    best, a, b = apart, i, j
        if best > limit:
            return logged
        log[logged, 0], log[logged, 1], log[logged, 2] = time, a, b
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
        w[b] = 0.0
        for i in range(tokens):
            if holder[i] == b:
                holder[i] = a


@_compiled(fastmath=False)
def _run(x, w, law, times, rtol, atol, first, angle, most, kept, log):  # type: ignore[no-untyped-def]
    """One system from 0 to the last of `times`; returns counts, how it ended, where it stands and the log's length."""
    dim, tokens = x.shape
    stages = np.zeros((7, dim, tokens))
    trial, z = np.empty((dim, tokens)), np.empty(tokens)
    work = np.empty((3, max(tokens, 1)))
    bits, scale = work[2].view(np.int64), np.empty(max(tokens, 1), dtype=np.int64)
    holder = np.arange(tokens)
    time, step, before = 0.0, first, 1.0
    steps, rejected, evaluations, logged, place = 0, 0, 1, 0, 0
    stop = times[-1]
    while place < len(times) and times[place] <= 0.0:
        for i in range(tokens):
            for k in range(dim):
                kept[place, i, k] = x[k, i]
        place += 1
    nearest = _velocity(x, w, law, stages[0], z, work, bits, scale)
    if step <= 0.0:
        fastest = 0.0
        for i in range(tokens):
            size = 0.0
            for k in range(dim):
                size += stages[0, k, i] ** 2
            fastest = max(fastest, size)
        step = min(0.1 / max(math.sqrt(fastest), 1e-300), 0.5) * min(1.0, max(1e-3, 4 * (rtol + atol) ** 0.2))
    ended = REACHED
    while time < stop:
        left = stop - time
        last = step >= left * (1 - 1e-12)
        length = left if last else step
        for s in range(1, 7):
            for k in range(dim):
                for i in range(tokens):
                    moved = 0.0
                    for q in range(s):
                        moved += _A[s, q] * stages[q, k, i]
                    trial[k, i] = x[k, i] + length * moved
            _unit(trial)
            nearest = _velocity(trial, w, law, stages[s], z, work, bits, scale)
        evaluations += 6
        wrong, present = 0.0, 0.0
        for i in range(tokens):
            if w[i] == 0.0:
                continue
            present += 1.0
            for k in range(dim):
                off = 0.0
                for q in range(7):
                    off += _E[q] * stages[q, k, i]
                wrong += (length * off / (atol + rtol)) ** 2 / dim
        wrong = math.sqrt(wrong / present)
        if not wrong <= 1.0:
            rejected += 1
            shrink = _SAFETY * wrong ** (-1.0 / _ORDER) if math.isfinite(wrong) else _SHRINK
            step = length * max(_SHRINK, min(_SAFETY, shrink))
        else:
            while place < len(times) and times[place] <= time + length:
                share = (times[place] - time) / length
                _keep(x, trial, stages, length, share, holder, kept[place])
                place += 1
            time = stop if last else time + length
            for k in range(dim):
                for i in range(tokens):
                    x[k, i] = trial[k, i]
                    stages[0, k, i] = stages[6, k, i]
            steps += 1
            if angle > 0.0 and nearest <= (2.0 * math.sin(angle / 2.0)) ** 2:
                logged = _merge(x, w, holder, angle, time, log, logged)
                nearest = _velocity(x, w, law, stages[0], z, work, bits, scale)
                evaluations += 1
            floor = max(wrong, 1e-10)
            grow = _SAFETY * floor ** (-_PROPORTIONAL / _ORDER) * before ** (_INTEGRAL / _ORDER)
            step = length * min(_GROW, max(_SHRINK, grow))
            before = floor
        if time < stop and step <= 16 * 2.220446049250313e-16 * max(abs(time), 1e-3):
            ended = TOO_SMALL
            break
        if time < stop and steps >= most:
            ended = TOO_MANY
            break
    while place < len(times):
        for i in range(tokens):
            for k in range(dim):
                kept[place, i, k] = x[k, holder[i]]
        place += 1
    return steps, rejected, evaluations, ended, time, logged


@_compiled(fastmath=False)
def _keep(x, end, stages, length, share, holder, kept):  # type: ignore[no-untyped-def]
    """The state at a share of the step, every original token at the row that stands for it."""
    dim, tokens = x.shape
    weight = np.zeros(7)
    for q in range(7):
        weight[q] = share * (_R[q, 0] + share * (_R[q, 1] + share * (_R[q, 2] + share * _R[q, 3])))
    row = np.empty(dim)
    for i in range(tokens):
        source, size = holder[i], 0.0
        for k in range(dim):
            if share >= 1 - 1e-14:
                row[k] = end[k, source]
            else:
                moved = 0.0
                for q in range(7):
                    moved += weight[q] * stages[q, k, source]
                row[k] = x[k, source] + length * moved
            size += row[k] * row[k]
        size = math.sqrt(size)
        for k in range(dim):
            kept[i, k] = row[k] / size


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
    work = np.empty((3, len(rows)))
    v, scale = np.empty_like(x), np.empty(len(rows), dtype=np.int64)
    _velocity(x, w, _numbers(law), v, np.empty(len(rows)), work, work[2].view(np.int64), scale)
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
    kept = np.empty((systems, len(times), tokens, dim))
    counts = np.zeros((3, systems), dtype=np.int64)
    ends, stands = np.zeros(systems, dtype=np.int64), np.zeros(systems)
    mergers: list[tuple[int, float, int, int, float, float, float]] = []
    for k in range(systems):
        x = np.ascontiguousarray(starts[k].T, dtype=float)
        w = np.ones(tokens) if weights is None else np.array(weights[k], dtype=float)
        log = np.zeros((tokens, 6))
        *counts[:, k], ends[k], stands[k], logged = _run(
            x, w, _numbers(law), np.asarray(times, dtype=float), float(rtol[k]), float(atol[k]), 0.0, float(angle),
            int(most), kept[k], log,
        )  # fmt: skip
        for time, a, b, first, second, overlap in log[:logged]:
            mergers.append((k, float(time), int(a), int(b), float(first), float(second), float(overlap)))
    return Compiled(kept, counts[0], counts[1], counts[2], ends, stands, mergers)


def _numbers(law: Law) -> tuple[int, float, float, float]:
    """The law as the kernels take it: rule, beta, factor, and what unnormalized weights are divided by beside n.

    Kernels work with e^{beta c - |beta|}; the plain clock multiplies by e^{|beta|} again.
    """
    shift = 1.0 if law.shifted or law.rule != UNNORMALIZED else math.exp(-abs(law.beta))
    return law.rule, law.beta, law.factor, shift
