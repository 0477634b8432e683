"""One configuration as its observables see it: rows, overlaps and spectrum, each computed once and shared.

A laboratory asks some thirty numbers of the same rows. Nearly all of them are functions of the Gram matrix, and the
Gram matrix of prepared rows follows from the Gram matrix of the rows as given (scaling for "normalize", double
centering for "center"), so one matrix product serves them all. `Cloud.after` is a tree: two measurements whose
preparations begin alike share the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from armillary.errors import ArgumentError, NumericalError
from armillary.observables.gram import inner_products
from armillary.observables.spectrum import eigenvalues

__all__ = ["STEPS", "Calibration", "Cloud"]

STEPS = {
    "center": "subtract the mean over the tokens of this configuration",
    "normalize": "divide each row by its Euclidean norm",
    "remove feature mean": "subtract from each row the mean of its own coordinates (what LayerNorm cannot see)",
    "corpus mean": "subtract the mean row of the calibration documents",
    "without rogue coordinates": "set to zero the coordinates named by the calibration documents",
}

ROW_WISE = frozenset(STEPS) - {"center"}
"""Steps that act on each row alone, whichever tokens stand beside it."""

# Below this share of its length left after a subtraction, a row's products have lost digits: start again from the rows.
_CANCELLATION = {torch.float32: 0.02, torch.float64: 1e-8}
# What is left of a row within this many roundings of the dtype it came in is rounding, not geometry: it counts as zero.
_ROUNDINGS = 8
# Overlaps of unit rows may pass 1 by rounding; by more than this, digits were lost somewhere.
_EXCESS = 1e-3

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was estimated on other documents: the mean row, and the coordinates that carry most of the mean overlap.

    Args:
        mean: Mean row of the calibration documents, shape `dim`; or one for each configuration, `*batch dim`.
        coordinates: Indices of the rogue coordinates.
    """

    mean: Tensor
    coordinates: tuple[int, ...]


class Cloud:
    """Rows of one or many configurations with their overlaps and spectrum.

    Args:
        rows: Tensor `*batch tokens dim`. Half-precision rows are taken to float32.
        accumulate: dtype of the overlaps and the spectrum; the dtype of the rows if None. float64 for ranks.
        calibration: What the steps "corpus mean" and "without rogue coordinates" subtract.
        resolution: eps of the type that tolerances refer to; that of the rows as given if None.

    Raises:
        ArgumentError: If `rows` is not a floating-point tensor with at least two axes.
    """

    def __init__(
        self,
        rows: Tensor,
        *,
        accumulate: torch.dtype | None = None,
        calibration: Calibration | None = None,
        resolution: float | None = None,
    ) -> None:
        if not isinstance(rows, Tensor) or rows.ndim < 2 or not rows.is_floating_point():
            shape = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise ArgumentError(
                f"Argument `rows` must be a floating-point tensor `*batch tokens dim`, but it is {shape}. "
                "Pass token vectors as rows."
            )
        self.resolution = torch.finfo(rows.dtype).eps if resolution is None else resolution
        if rows.dtype in (torch.float16, torch.bfloat16):
            rows = rows.float()
        if accumulate is not None:
            rows = rows.to(accumulate)
        self.calibration = calibration
        *batch, self.tokens, self.dim = rows.shape
        self.batch = tuple(batch)
        self._rows: Callable[[], Tensor] = lambda: rows
        self._gram: Callable[[], Tensor] = lambda: inner_products(rows)
        self._shared: dict[Hashable, Any] = {}
        self._chosen_from: Callable[[str], Cloud] | None = None

    def _child(self, rows: Callable[[], Tensor], gram: Callable[[], Tensor], *, tokens: int | None = None) -> Cloud:
        child = object.__new__(Cloud)
        child.resolution, child.calibration = self.resolution, self.calibration
        child.tokens, child.dim = self.tokens if tokens is None else tokens, self.dim
        child.batch = self.batch
        child._rows, child._gram, child._shared, child._chosen_from = rows, gram, {}, None
        return child

    def shared(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The value of `make()`, computed once for this cloud under `key` (groups of one grouping, for example)."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def forget(self) -> None:
        """Drop everything that was derived from this cloud.

        A cloud knows what was derived from it and the other way round, so without this word the memory of a batch would
        come back only when the interpreter looks for cycles.
        """
        derived = [one for one in self._shared.values() if isinstance(one, Cloud)]
        self._shared.clear()
        for one in derived:
            one.forget()

    @cached_property
    def rows(self) -> Tensor:
        """The rows as prepared, `*batch tokens dim`."""
        return self._rows()

    @cached_property
    def gram(self) -> Tensor:
        """Inner products of the rows as prepared, `*batch tokens tokens`."""
        return self._gram()

    @cached_property
    def squared_norms(self) -> Tensor:
        """Diagonal of the Gram matrix, `*batch tokens`."""
        return self.gram.diagonal(dim1=-2, dim2=-1)

    @cached_property
    def norms(self) -> Tensor:
        """Lengths of the rows as prepared, `*batch tokens`."""
        return self.squared_norms.sqrt()

    @cached_property
    def pairs(self) -> Tensor:
        """Inner products of the unordered pairs i < j, `*batch tokens*(tokens-1)/2`, row after row."""
        i, j = torch.triu_indices(self.tokens, self.tokens, offset=1, device=self.gram.device)
        return self.gram.flatten(-2).index_select(-1, i * self.tokens + j)

    @cached_property
    def squared_singular_values(self) -> Tensor:
        """Eigenvalues of the Gram matrix, descending, `*batch min(tokens,dim)`; rounding below zero becomes zero."""
        return eigenvalues(self.gram if self.tokens <= self.dim else self.rows.mT @ self.rows)

    @cached_property
    def singular_values(self) -> Tensor:
        """Singular values, descending, `*batch min(tokens,dim)`."""
        return self.squared_singular_values.sqrt()

    def without_tokens(self, first: int) -> Cloud:
        """The cloud without its first `first` tokens (a view of the same overlaps)."""

        def make() -> Cloud:
            child = self._child(
                lambda: self.rows[..., first:, :],
                lambda: self.gram[..., first:, first:],
                tokens=self.tokens - first,
            )
            child._chosen_from = lambda step: self.after(step).without_tokens(first)
            return child

        return self.shared(("without", first), make)

    def first(self, count: int) -> Cloud:
        """The first configurations of a batch, with everything made anew from their rows; itself if there are no more.

        Args:
            count: How many.
        """
        if count >= self.batch[0]:
            return self
        calibration = self.calibration
        if calibration is not None and calibration.mean.ndim > 1:
            calibration = Calibration(calibration.mean[:count], calibration.coordinates)
        return Cloud(self.rows[:count], calibration=calibration, resolution=self.resolution)

    def member(self, index: int, tokens: Tensor) -> Cloud:
        """Configuration `index` of a batch alone, with only the tokens that the boolean `tokens` (`tokens`) names."""
        chosen = tokens.nonzero().flatten()
        child = self._child(
            lambda: self.rows[index][chosen],
            lambda: self.gram[index][chosen][:, chosen],
            tokens=len(chosen),
        )
        child.batch = ()
        child._chosen_from = lambda step: self.after(step).member(index, tokens)
        return child

    def prepared(self, steps: tuple[str, ...]) -> Cloud:
        """The cloud after the named steps, in order."""
        cloud = self
        for step in steps:
            cloud = cloud.after(step)
        return cloud

    def after(self, step: str) -> Cloud:
        """The cloud after one step of a preparation; the same object each time it is asked for.

        Raises:
            ArgumentError: If the step is unknown, or needs a calibration that is not there.
        """
        makers = {
            "center": self._center,
            "normalize": self._normalize,
            "remove feature mean": self._remove_feature_mean,
            "corpus mean": self._remove_corpus_mean,
            "without rogue coordinates": self._remove_coordinates,
        }
        if step not in makers:
            raise ArgumentError(f"Argument `step` must be one of {', '.join(makers)}, but it is {step!r}. Correct it.")
        if self._chosen_from is not None and step in ROW_WISE:  # choosing tokens and a step on each row commute
            return self.shared(("after", step), lambda: self._chosen_from(step))  # type: ignore[misc]
        return self.shared(("after", step), makers[step])

    def _normalize(self) -> Cloud:
        def overlaps() -> Tensor:
            squares = self.squared_norms
            inverse = squares.rsqrt()  # a zero row gives 0 * inf = NaN: undefined, and counted elsewhere
            unit = self.gram * inverse[..., :, None] * inverse[..., None, :]
            if bool((unit.amax((-2, -1)) > 1 + _EXCESS).any()):
                raise NumericalError("Overlaps must lie within [-1, 1], but one exceeds 1 by more than rounding.")
            unit.clamp_(-1.0, 1.0)
            unit.diagonal(dim1=-2, dim2=-1).copy_(torch.where(squares > 0, torch.ones_like(squares), torch.nan))
            return unit

        return self._child(lambda: self.rows / self.rows.norm(dim=-1, keepdim=True), overlaps)

    def _remove_feature_mean(self) -> Cloud:
        def without(rows: Tensor) -> Tensor:
            return rows - rows.mean(dim=-1, keepdim=True)

        def gram() -> Tensor:
            mean = self.rows.mean(dim=-1)
            return self._resolved(self.gram - self.dim * mean[..., :, None] * mean[..., None, :], without)

        return self._child(lambda: without(self.rows), gram)

    def _center(self) -> Cloud:
        def centered(rows: Tensor) -> Tensor:
            return rows - rows.mean(dim=-2, keepdim=True)

        def gram() -> Tensor:
            row_mean = self.gram.mean(dim=-1)
            total = row_mean.mean(dim=-1)
            shifted = self.gram - row_mean[..., :, None] - row_mean[..., None, :] + total[..., None, None]
            return self._resolved(shifted, centered)

        return self._child(lambda: centered(self.rows), gram)

    def _remove_corpus_mean(self) -> Cloud:
        mean = self._needs_calibration("corpus mean").mean

        def without(rows: Tensor) -> Tensor:
            return rows - mean.to(rows)[..., None, :]

        def gram() -> Tensor:
            here = mean.to(self.rows)
            along = (self.rows @ here[..., :, None])[..., 0]
            square = (here**2).sum(-1)[..., None, None]
            return self._resolved(self.gram - along[..., :, None] - along[..., None, :] + square, without)

        return self._child(lambda: without(self.rows), gram)

    def _remove_coordinates(self) -> Cloud:
        index = list(self._needs_calibration("without rogue coordinates").coordinates)

        def without(rows: Tensor) -> Tensor:
            kept = rows.clone()
            kept[..., index] = 0.0
            return kept

        def gram() -> Tensor:
            removed = self.rows[..., index]
            return self._resolved(self.gram - inner_products(removed), without)

        return self._child(lambda: without(self.rows), gram)

    def _needs_calibration(self, step: str) -> Calibration:
        if self.calibration is None:
            raise ArgumentError(
                f"Argument `step` must not be {step!r} without a calibration, but none was given. "
                "Pass calibration=Calibration(mean, coordinates), estimated on other documents."
            )
        return self.calibration

    def _resolved(self, gram: Tensor, on_rows: Callable[[Tensor], Tensor]) -> Tensor:
        """`gram` where the subtraction left digits in every row, else made again from float64 rows.

        Rows of which only rounding is left become exactly zero: they have no direction, and what depends on one is
        undefined.
        """
        before = self.squared_norms
        rounding = (_ROUNDINGS * self.resolution) ** 2
        enough = max(_CANCELLATION[gram.dtype], 4 * rounding)
        lossy = (gram.diagonal(dim1=-2, dim2=-1) <= enough * before).any(-1)
        if not bool(lossy.any()):
            return gram
        exact = on_rows(self.rows.double())
        again = inner_products(exact)
        kept = (again.diagonal(dim1=-2, dim2=-1) > rounding * before).to(again.dtype)
        again = again * kept[..., :, None] * kept[..., None, :]
        return torch.where(lossy[..., None, None], again.to(gram.dtype), gram)
