"""What gauges moved, place by place: how many numbers, which one most and at which layer, how still the others are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from armillary.invariance.verdicts import Verdict
from armillary.records.gauged import PLACE_WORDS, GaugedNumbers, PlacedNumber
from armillary.terms import measurement_name, measurement_words, preparation_words

__all__ = ["AtPlace", "at_places", "number_words", "part_by_place", "summary_text", "unmoved_words"]

MOST = 3
"""How many numbers of a place are named, where some of them stay."""

Judged = tuple[PlacedNumber, Verdict, float]
"""A number, its verdict, and the largest relative difference of any document (NaN where it is zero before)."""


@dataclass(frozen=True)
class AtPlace:
    """One gauge at one place.

    Attributes:
        gauge: its name.
        place: a key of `PLACE_WORDS`.
        numbers: how many were measured there, layers counted.
        moved: how many moved by more than rounding.
        refuted: how many moved although a theorem keeps them: errors in the package.
        most: the moved number whose mean changed most relative to the mean before, with its verdict; None if none did.
        still: largest relative difference of any document among the others; NaN if there are none.
    """

    gauge: str
    place: str
    numbers: int
    moved: int
    refuted: int
    most: tuple[PlacedNumber, Verdict] | None
    still: float

    def __str__(self) -> str:
        where = PLACE_WORDS[self.place]
        if self.refuted:
            return f"{where}: {self.refuted} of {self.numbers} numbers moved although a theorem keeps them"
        if self.most is None:
            return f"{where}: none of {self.numbers} numbers moved (relative difference at most {self.still:.0e})"
        number, verdict = self.most
        return (
            f"{where}: {self.moved} of {self.numbers} numbers moved, most {number_words(number.number)} at layer "
            f"{number.layer}: {verdict.before:.3g} -> {verdict.after:.3g}"
        )


def at_places(found: GaugedNumbers, *, level: float, resamples: int, seed: int) -> list[AtPlace]:
    """Every gauge at every place.

    Args:
        found: numbers before and after.
        level: nominal coverage of the intervals.
        resamples: how often documents are resampled.
        seed: of the resampling.
    """
    result = []
    for gauge, one in found.under.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(one.after - found.before) / np.abs(found.before)
        largest = np.where(np.isfinite(apart), apart, -1.0).max(axis=0)
        made = found.verdicts(gauge, level=level, resamples=resamples, seed=seed)
        judged = list(zip(found.numbers, made, np.where(largest < 0, math.nan, largest), strict=True))
        for place in PLACE_WORDS:
            here = [entry for entry in judged if entry[0].place == place]
            if here:
                result.append(_at(gauge, place, here))
    return result


def summary_text(found: GaugedNumbers, *, level: float, resamples: int, seed: int) -> str:
    """The proofs, what each gauge moved at each place, and what was refused, as lines of text."""
    entries = at_places(found, level=level, resamples=resamples, seed=seed)
    lines = []
    for gauge, one in found.under.items():
        lines.append(one.proof)
        lines += [f"  {entry}" for entry in entries if entry.gauge == gauge]
    lines += [f"{gauge}: refused, {why}" for gauge, why in found.refused.items()]
    lines += [f"{gauge}: not verified, nothing was measured ({why})" for gauge, why in found.failed.items()]
    return "\n".join([*lines, "", unmoved_words(found, level=level, resamples=resamples, seed=seed)])


def unmoved_words(found: GaugedNumbers, *, level: float, resamples: int, seed: int) -> str:
    """Which numbers no gauge moved at any layer, and which belong to a basis that training chose, in two sentences.

    Args:
        found: numbers before and after.
        level: nominal coverage of the intervals.
        resamples: how often documents are resampled.
        seed: of the resampling.
    """
    still, moved = part_by_place(found, level=level, resamples=resamples, seed=seed)
    first = (
        f"Unmoved by every listed re-parametrization that leaves the function unchanged: {'; '.join(still) or 'none'}."
    )
    return f"{first} Depending on a basis that training happened to choose: {'; '.join(moved) or 'none'}."


def part_by_place(found: GaugedNumbers, *, level: float, resamples: int, seed: int) -> tuple[list[str], list[str]]:
    """What no gauge moved at any layer, and what some did, place by place in words.

    Args:
        found: numbers before and after.
        level: nominal coverage of the intervals.
        resamples: how often documents are resampled.
        seed: of the resampling.
    """
    movers: dict[tuple[str, str], list[str]] = {(one.place, one.number): [] for one in found.numbers}
    for gauge in found.under:
        made = found.verdicts(gauge, level=level, resamples=resamples, seed=seed)
        for number, verdict in zip(found.numbers, made, strict=True):
            held = movers[number.place, number.number]
            if verdict.word in ("changes", "claim refuted") and gauge not in held:
                held.append(gauge)
    still, moved = [], []
    for place, where in PLACE_WORDS.items():
        here = {number: names for (one, number), names in movers.items() if one == place}
        kept = [number for number, names in here.items() if not names]
        if kept:
            still.append(f"{where} ({'all' if len(kept) == len(here) else f'{len(kept)} of'} {len(here)} numbers)")
        if len(kept) < len(here):
            by = ", ".join(dict.fromkeys(name for names in here.values() for name in names))
            which = [number_words(number) for number, names in here.items() if names]
            few = f"{', '.join(which)}" if len(which) <= MOST else f"{len(which)} of {len(here)} numbers"
            moved.append(f"{where}, {few if kept else f'all {len(here)} numbers'} (by {by})")
    return still, moved


def number_words(number: str) -> str:
    """A stored number in words, with its preparation behind a bar."""
    name, preparation = measurement_name(number)
    bare, _, which = name.partition(", ")
    words = measurement_words(bare) + (f", {which}" if which else "")
    return f"{words} | {preparation_words(preparation)}" if preparation else words


def _at(gauge: str, place: str, here: list[Judged]) -> AtPlace:
    changed = [(number, verdict) for number, verdict, _ in here if verdict.word == "changes"]
    others = [share for _, verdict, share in here if verdict.word != "changes" and not math.isnan(share)]
    return AtPlace(
        gauge=gauge,
        place=place,
        numbers=len(here),
        moved=len(changed),
        refuted=sum(verdict.word == "claim refuted" for _, verdict, _ in here),
        most=max(changed, key=lambda entry: _size(entry[1]), default=None),
        still=max(others, default=math.nan),
    )


def _size(verdict: Verdict) -> float:
    return 0.0 if math.isnan(verdict.relative) or not verdict.resolved else abs(verdict.relative)
