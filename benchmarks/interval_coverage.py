"""How often the bootstrap-t interval covers the truth, by number of documents and shape of the population.

Run `python benchmarks/interval_coverage.py` (two minutes). For every population and every number of
members it draws data sets, makes the interval of each with `armillary.estimates.intervals`, and counts how often the
population's mean lies inside; BCa, percentile and Student intervals of the same data sets stand beside. The table is
where `MINIMUM_MEMBERS` comes from: the first number of members from which on every population that one meets in
per-document means is within two points of the level. Coverage is averaged over several seeds, each with its own data
sets and its own resampling; the last digit of the table is uncertain by 2 (2,000 data sets of one seed: by 6).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from armillary.estimates import MINIMUM_MEMBERS, intervals

Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Population:
    """Members are drawn from it; `demanding` ones lie beyond what the stated minimum promises."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    demanding: bool = False


POPULATIONS = (
    Population("normal", 0.0, lambda g, s: g.normal(size=s)),
    Population("gamma(4): skewness 1", 4.0, lambda g, s: g.gamma(4.0, size=s)),
    Population("lognormal(0.5): skewness 1.75", math.exp(0.125), lambda g, s: g.lognormal(0.0, 0.5, size=s)),
    Population("beta(8, 2), an overlap", 0.8, lambda g, s: g.beta(8.0, 2.0, size=s)),
    Population("beta(20, 1), near consensus", 20 / 21, lambda g, s: g.beta(20.0, 1.0, size=s)),
    Population("exponential: skewness 2", 1.0, lambda g, s: g.exponential(size=s)),
    Population("Poisson(3), a count", 3.0, lambda g, s: g.poisson(3.0, size=s).astype(float)),
    Population("lognormal(1): skewness 6", math.exp(0.5), lambda g, s: g.lognormal(0.0, 1.0, size=s), demanding=True),
    Population("Poisson(0.2), a rare count", 0.2, lambda g, s: g.poisson(0.2, size=s).astype(float), demanding=True),
)


def student(x: np.ndarray, level: float) -> Ends:
    n = len(x)
    half = stats.t.ppf((1 + level) / 2, n - 1) * x.std(axis=0, ddof=1) / math.sqrt(n)
    return x.mean(axis=0) - half, x.mean(axis=0) + half


def bca_and_percentile(x: np.ndarray, level: float, resamples: int, seed: int) -> tuple[Ends, Ends]:
    n, tail = len(x), (1 - level) / 2
    counts = np.random.default_rng([seed, n]).multinomial(n, np.full(n, 1 / n), size=resamples)
    means = x.T @ counts.T.astype(float) / n
    mean, d = x.mean(axis=0), x - x.mean(axis=0)
    below = ((means < mean[:, None]).mean(axis=1) + (means <= mean[:, None]).mean(axis=1)) / 2
    bias = ndtri(np.clip(below, 1 / resamples, 1 - 1 / resamples))
    squares = (d**2).sum(axis=0)
    acceleration = (d**3).sum(axis=0) / (6 * np.where(squares > 0, squares, 1.0) ** 1.5)
    means.sort(axis=1)

    def at(share: np.ndarray) -> np.ndarray:
        rank = np.clip(np.floor(share * (resamples + 1)).astype(int) - 1, 0, resamples - 1)
        return means[np.arange(len(means)), rank]

    def adjusted(share: float) -> np.ndarray:
        z = bias + ndtri(share)
        return at(ndtr(bias + z / (1 - acceleration * z)))

    flat = np.ones(len(means))
    return (adjusted(tail), adjusted(1 - tail)), (at(tail * flat), at((1 - tail) * flat))


def covered(ends: Ends, truth: float) -> float:
    return 100 * float(np.mean((ends[0] <= truth) & (truth <= ends[1])))


def one_line(population: Population, members: int, choices: argparse.Namespace) -> tuple[float, str]:
    """Coverage of bootstrap-t and a line of the table, averaged over the seeds."""
    level, resamples = choices.level, choices.resamples
    columns: dict[str, list[float]] = {"t": [], "bca": [], "percentile": [], "student": []}
    ratio, unbounded = [], []
    for seed in range(choices.seeds):
        size = (members, choices.datasets)
        x = population.draw(np.random.default_rng([7, seed, members]), size)
        found = intervals(x, level=level, resamples=resamples, seed=seed)
        bca, percentile = bca_and_percentile(x, level, resamples, seed)
        columns["t"].append(covered((found.low, found.high), population.mean))
        columns["bca"].append(covered(bca, population.mean))
        columns["percentile"].append(covered(percentile, population.mean))
        columns["student"].append(covered(student(x, level), population.mean))
        plain = student(x, level)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio.append(float(np.nanmedian((found.high - found.low) / (plain[1] - plain[0]))))
        unbounded.append(100 * float(np.mean(~np.isfinite(found.high - found.low))))
    t, b, p, s = (float(np.mean(columns[k])) for k in ("t", "bca", "percentile", "student"))
    numbers = f"{t:11.1f} {b:6.1f} {p:11.1f} {s:9.1f} {np.mean(ratio):7.2f} {np.mean(unbounded):10.1f}"
    return t, f"{members:4d}  {population.name:30s} {numbers}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="+", default=[4, 6, 8, 12, 16, 32, 64])
    parser.add_argument("--datasets", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--level", type=float, default=0.95)
    choices = parser.parse_args()
    drawn = f"{choices.seeds} x {choices.datasets} data sets, {choices.resamples} resamples"
    print(f"coverage in %, nominal {100 * choices.level:g}; {drawn}")
    print("width: median width of bootstrap-t over Student's; unbounded: % of data sets that cannot bound an end")
    print(f"   n  {'population':30s} bootstrap-t    BCa  percentile   Student   width  unbounded")
    worst: dict[int, float] = {}
    for members in choices.members:
        for population in POPULATIONS:
            coverage, text = one_line(population, members, choices)
            print(text + ("  (beyond the promise)" if population.demanding else ""), flush=True)
            if not population.demanding:
                worst[members] = max(worst.get(members, 0.0), abs(coverage - 100 * choices.level))
    for members, miss in worst.items():
        print(f"{members:4d} members: worst distance from nominal {miss:.1f} points")
    return int(any(miss > 2.0 for members, miss in worst.items() if members >= MINIMUM_MEMBERS))


if __name__ == "__main__":
    raise SystemExit(main())
