"""Intervals over documents and seeds at once: what a fresh decoder depends on besides the texts it reads."""

from __future__ import annotations

import math

import numpy as np

from armillary.errors import UnsoundError
from armillary.estimates import Estimate, require_choices

__all__ = ["FEWEST_SEEDS", "crossed_estimate"]

FEWEST_SEEDS = 3
"""Two seeds have a spread that says nothing."""


def crossed_estimate(values: np.ndarray, *, level: float, resamples: int, seed: int) -> Estimate:
    """The mean over documents and seeds, each document measured under each seed, with an interval that resamples both.

    Documents are resampled, and each resample's mean is studentized by its own spread. A handful of seeds cannot be
    resampled to their nominal coverage, so their mean is drawn from Student's t with one degree of freedom less than
    there are seeds. The interval is that of the sum of both errors.

    Args:
        values: `documents seeds`, all finite.
        level: Nominal coverage.
        resamples: How many times both are drawn.
        seed: Of the draws.

    Returns:
        Mean and interval; `unit` says how many seeds stand behind it.

    Raises:
        UnsoundError: Fewer than two documents, fewer than three seeds, or a number that is missing.
        ArgumentError: Level or resamples are out of range.

    Source: model-specific; documents as Efron and Tibshirani 1993 (section 12.5), seeds as Student 1908.

    Example:
        >>> values = np.array([[0.2, 0.3, 0.25], [0.3, 0.35, 0.31], [0.1, 0.22, 0.2], [0.2, 0.3, 0.28]])
        >>> print(crossed_estimate(values, level=0.95, resamples=2000, seed=0).unit)
        documents under each of 3 seeds
    """
    require_choices(level, resamples)
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2 or table.shape[1] < FEWEST_SEEDS or not np.isfinite(table).all():
        raise UnsoundError(
            f"Argument `values` must hold finite numbers of at least two documents under at least {FEWEST_SEEDS} "
            f"seeds, but has shape {list(table.shape)}. Measure more fresh decoders."
        )
    documents, seeds = table.shape
    generator = np.random.default_rng([seed, documents, seeds])
    by_document, by_seed = table.mean(axis=1), table.mean(axis=0)
    value = float(table.mean())
    error = _studentized(by_document, generator, resamples) * by_document.std(ddof=1) / math.sqrt(documents)
    error = error + generator.standard_t(seeds - 1, resamples) * by_seed.std(ddof=1) / math.sqrt(seeds)
    low, high = np.quantile(error, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    unit = f"documents under each of {seeds} seeds"
    return Estimate(value, value - float(high), value - float(low), level, documents, unit)


def _studentized(x: np.ndarray, generator: np.random.Generator, resamples: int) -> np.ndarray:
    """Errors of resampled means over their own standard errors; a resample of one document only counts as infinite."""
    drawn = x[generator.integers(0, len(x), (resamples, len(x)))]
    shift, spread = drawn.mean(axis=1) - x.mean(), drawn.std(axis=1, ddof=1) / math.sqrt(len(x))
    flat = spread <= 1e-12 * max(float(x.std()), np.finfo(float).tiny)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(flat, np.copysign(np.inf, shift), shift / spread)
    return np.where(flat & (shift == 0), 0.0, t) if x.std() > 0 else np.zeros(resamples)
