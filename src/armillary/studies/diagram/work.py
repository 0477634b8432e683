"""One cell measured, here or in another process, and held to what was declared of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
from threadpoolctl import threadpool_limits

from armillary.dynamics.sums.told import listened
from armillary.errors import ArgumentError, CheckMissed, NumericalError
from armillary.records.journal import SECONDS, SUMS
from armillary.studies.diagram.declaration import SEED, Cell, Measure, Result
from armillary.studies.origin import processor

__all__ = ["measured_cell"]


def measured_cell(
    measure: Measure, results: Sequence[Result], cell: Cell, seeds: Sequence[int], place: int, expected: str
) -> tuple[int, dict[str, np.ndarray]]:
    """Measure a cell on one core.

    Args:
        measure: What measures it.
        results: What it must return.
        cell: The cell.
        seeds: Of its systems.
        place: Of the cell in its grid.
        expected: The processor that numbers equal to the last bit need.

    Returns:
        The place, and an array for each result; beside them seconds of processor time, and which sums over
        pairs ran.

    Raises:
        CheckMissed: The processor is of another kind.
        ArgumentError: What came back is not what was declared.
        NumericalError: A number is infinite.
    """
    if processor() != expected:
        raise CheckMissed(
            f"Every worker must have the processor {expected} for numbers equal to the last bit, but one has "
            f"{processor()}. Leave that machine out, or measure on machines like it alone."
        )
    began = time.process_time()
    with _one_thread(), listened() as sums:
        found = measure(cell, seeds)
    seconds = time.process_time() - began
    arrays = _checked(found, results, cell, len(seeds))
    return place, {**arrays, SECONDS: np.asarray(seconds), SUMS: np.asarray(sorted(sums), dtype=np.str_)}


def _checked(found: dict[str, np.ndarray], results: Sequence[Result], cell: Cell, seeds: int) -> dict[str, np.ndarray]:
    """The arrays, if they are those that were declared."""
    declared = {one.name: tuple(seeds if axis == SEED else len(cell[axis]) for axis in one.dims) for one in results}
    got = {name: np.shape(array) for name, array in found.items()}
    if got != declared:
        wrong = next(name for name in (*declared, *got) if got.get(name) != declared.get(name))
        raise ArgumentError(
            f"Argument `measure` must return what its results declare, but {wrong!r} has shape {got.get(wrong, 'none')}"
            f" instead of {declared.get(wrong, 'none')}. Mend the function or the declaration."
        )
    arrays = {name: np.asarray(found[name], dtype=np.float64) for name in declared}
    for name, array in arrays.items():
        if np.isinf(array).any():
            raise NumericalError(
                f"A measured number must be finite or undefined, but {name!r} is infinite {int(np.isinf(array).sum())} "
                f"times in the cell {_named(cell)}. Return NaN where it is undefined, and count such systems apart."
            )
    return arrays


def _named(cell: Cell) -> str:
    """A cell by what is a single value in it."""
    return ", ".join(f"{name} {value}" for name, value in cell.items() if isinstance(value, int | float | str))


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for every library of matrices while the block lasts: the order of sums follows from it."""
    with ExitStack() as opened:
        opened.enter_context(threadpool_limits(limits=1))
        torch = sys.modules.get("torch")
        if torch is not None:
            opened.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield
