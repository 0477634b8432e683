"""Fewer tokens than dimensions: the overlaps move by themselves, compiled, at half the arithmetic of the tokens.

With identity heads the velocity of a token is a sum of tokens, so the Gram matrix C obeys an equation of its own,

    dC_ij/ds = m_ij + m_ji - (m_ii + m_jj) C_ij,    M = D^-1 E C,    E = e^{beta (C - 1)},    D_ii = sum_j E_ij,

one product of matrices an evaluation. Its diagonal stays 1 and it stays symmetric to the last bit. Exponents are taken
of overlaps and not of differences: it is meant for runs without merging, up to the time at which tokens gather.
"""

from __future__ import annotations

import numpy as np

from armillary.dynamics.pair_sums import UNIFORM, UNNORMALIZED, compiled, exponential
from armillary.dynamics.pairs import (
    GATHERED,
    REACHED,
    STAGES,
    TOO_MANY,
    TOO_SMALL,
    error_over,
    first_step,
    longer,
    placed,
    shorter,
    stage_shares,
)

__all__ = ["gram_system"]

_HALVINGS = 24  # of a step, to find when tokens had gathered
_EXACT: set[str] = {"contract", "nsz", "arcp"}


@compiled(fastmath=_EXACT)
def _weights(c, law, e):  # type: ignore[no-untyped-def]
    """What each pair weighs: e^{beta c - |beta|}, or 1 with uniform weights."""
    rule, beta, _, _ = law
    least = abs(beta)
    for i in range(c.shape[0]):
        overlaps, found = c[i], e[i]
        if rule == UNIFORM:
            for j in range(c.shape[0]):
                found[j] = 1.0
        else:
            for j in range(c.shape[0]):
                found[j] = exponential(beta * overlaps[j] - least)


@compiled(fastmath=True)
def _shares_of(e, law, z):  # type: ignore[no-untyped-def]
    """What each row is multiplied by: the clock over the sum of its weights, or over their number."""
    rule, _, factor, shift = law
    n = e.shape[0]
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += e[i, j]
        z[i] = factor / (n * shift if rule == UNNORMALIZED else total)


@compiled(fastmath=_EXACT)
def _rate(c, law, rate, e, m, z):  # type: ignore[no-untyped-def]
    """How fast every overlap moves, into `rate`."""
    n = c.shape[0]
    _weights(c, law, e)
    _shares_of(e, law, z)
    np.dot(e, c, m)
    for i in range(n):
        share = z[i]
        for j in range(n):
            m[i, j] *= share
    for i in range(n):
        z[i] = m[i, i]
    for i in range(n):
        own = z[i]
        for j in range(n):
            rate[i, j] = m[i, j] + m[j, i] - (own + z[j]) * c[i, j]


@compiled(fastmath=False)
def _all_above(c, above):  # type: ignore[no-untyped-def]
    """Whether every overlap is at least that."""
    n = c.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            if c[i, j] < above:
                return False
    return True


@compiled(fastmath=False)
def _first_above(c, stages, length, above, shares, found):  # type: ignore[no-untyped-def]
    """The share of a step after which every overlap is at least that."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        stage_shares(middle, shares)
        placed(c, stages, shares, 7, length, c.shape[0], found)
        if _all_above(found, above):
            high = middle
        else:
            low = middle
    return high


@compiled(fastmath=False)
def gram_system(c, law, times, rtol, atol, gathered, most, kept):  # type: ignore[no-untyped-def]
    """One system from 0 to the last of `times`, as overlaps; returns counts, how it ended and where it stands.

    It ends earlier when all overlaps are at least `gathered` (above 1 for never). Steps are those of `one_system`, with
    the overlaps in the place of coordinates.
    """
    n = c.shape[0]
    stages, trial, sizes = np.zeros((7, n, n)), np.empty((n, n)), np.empty(n)
    e, m, z, shares = np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(7)
    time, before, ended, when = 0.0, 1.0, REACHED, 0.0
    steps, rejected, evaluations, place = 0, 0, 1, 0
    stop = times[-1]
    while place < len(times) and times[place] <= 0.0:
        kept[place] = c
        place += 1
    _rate(c, law, stages[0], e, m, z)
    step = first_step(stages[0], n, rtol, atol)
    least = 1e-14 * step
    if _all_above(c, gathered):
        stop, ended = 0.0, GATHERED
    while time < stop:
        left = stop - time
        last = step >= left * (1 - 1e-12)
        length = left if last else step
        for s in range(1, 7):
            placed(c, stages, STAGES[s], s, length, n, trial)
            _rate(trial, law, stages[s], e, m, z)
        evaluations += 6
        wrong = error_over(stages, length, atol + rtol, n, sizes)
        if not wrong <= 1.0:
            rejected += 1
            step = shorter(length, wrong)
        else:
            while place < len(times) and times[place] <= time + length:
                stage_shares((times[place] - time) / length, shares)
                placed(c, stages, shares, 7, length, n, kept[place])
                place += 1
            together = _all_above(trial, gathered)
            if together:
                when = time + length * _first_above(c, stages, length, gathered, shares, e)
            time = stop if last else time + length
            for i in range(n):
                for j in range(n):
                    c[i, j], stages[0, i, j] = trial[i, j], stages[6, i, j]
            steps += 1
            if together:
                time, ended = when, GATHERED
                break
            step, before = longer(length, wrong, before)
        if time < stop and not step > max(16 * 2.220446049250313e-16 * abs(time), least):
            ended = TOO_SMALL
            break
        if time < stop and steps >= most:
            ended = TOO_MANY
            break
    while place < len(times):
        kept[place] = c
        place += 1
    return steps, rejected, evaluations, ended, time
