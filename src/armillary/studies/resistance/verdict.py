"""The verdict in words, generated from the record: what was measured, with its interval, what it shows and what not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArmillaryError
from armillary.estimates import Estimate, estimate
from armillary.studies.resistance.budget import clustering_budget
from armillary.studies.resistance.crossed import FEWEST_SEEDS, crossed_estimate

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = ["HEADLINE", "Finding", "difference", "fresh_decoders", "trained_minus_initial", "verdict"]

HEADLINE = ("mean_overlap", "normalize", "without_first")
"""The number that verdicts are given in: measurement, preparation, tokens."""

ROGUE = ("mean_overlap", "without rogue coordinates, normalize", "without_first")
SAME = 0.05
"""Two rungs whose overlaps differ by no more, interval included, are called alike."""


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict with the number behind it.

    Attributes:
        name: Short name.
        question: What it answers.
        estimate: The number with its interval; None where the record cannot give one.
        answer: "higher", "lower", "alike" or "not resolved".
        shows: What the number shows, in a sentence.
        not_shown: What it does not show.
    """

    name: str
    question: str
    estimate: Estimate | None
    answer: str
    shows: str
    not_shown: str

    def __str__(self) -> str:
        number = "" if self.estimate is None else f" {self.estimate}."
        return f"{self.question} {self.shows}{number} Not shown: {self.not_shown}"


def verdict(record: Record) -> tuple[Finding, ...]:
    """Every finding that the record has numbers for, the clustering budget first.

    Args:
        record: A record of `armillary resist`.
    """
    found: list[Finding] = []
    for make in (_budget, _removed, _trained_against_fresh, _circuits, _specific, _idealized, _order):
        found += make(record)
    return tuple(found)


def difference(record: Record, first: str, second: str, layer: int, number: tuple[str, str, str]) -> Estimate:
    """One rung minus another at one layer, paired by document.

    Args:
        record: The record.
        first: The rung that is subtracted from.
        second: The rung that is subtracted.
        layer: Where, after the block.
        number: Measurement, preparation, tokens.
    """
    values = _values(record, first, layer, number) - _values(record, second, layer, number)
    return _estimated(record, values)


def fresh_decoders(record: Record, recipe: str) -> tuple[str, ...]:
    """The conditions of the record that are fresh decoders of one recipe.

    Args:
        record: The record.
        recipe: "released" or "library".
    """
    return tuple(name for name in _names(record) if name.startswith(f"initial-{recipe}-"))


def trained_minus_initial(record: Record, recipe: str, layer: int, number: tuple[str, str, str]) -> Estimate:
    """The decoder minus fresh ones of a recipe at one layer; the interval resamples documents and seeds.

    Args:
        record: The record.
        recipe: "released" or "library".
        layer: Where, after the block.
        number: Measurement, preparation, tokens.

    Raises:
        UnsoundError: Fewer than three seeds, or two documents.
    """
    fresh = np.stack([_values(record, name, layer, number) for name in fresh_decoders(record, recipe)], axis=1)
    own = _values(record, "trained", layer, number)[:, None]
    study = record.study
    return crossed_estimate(own - fresh, level=study["level"], resamples=study["resamples"], seed=study["seed"])


def _budget(record: Record) -> Iterator[Finding]:
    for number, tail in ((HEADLINE, ""), (ROGUE, ", rogue coordinates left out")):
        measurement, preparation, tokens = number
        try:
            budget = clustering_budget(
                record, "trained", measurement=measurement, preparation=preparation, tokens=tokens
            )
        except ArmillaryError:
            continue
        documents, blocks = len(budget.shares["mlp"]), len(budget.layers)
        for part, words in (("attention", "attention"), ("mlp", "the MLPs")):
            total = budget.total(part)
            with_it, up = budget.signs(part)
            answer = _sign(total)
            does = {"higher": f"{words} raised it", "lower": f"{words} lowered it"}.get(answer, "no sign is resolved")
            yield Finding(
                f"budget of {part}{tail}",
                f"By how much did {words} change mean overlap, summed over {blocks} blocks{tail}?",
                total,
                answer,
                f"In this decoder {does}. The sum is positive in {with_it} of {documents} documents, the mean share in "
                f"{up} of {blocks} blocks; the sum:",
                "what the sublayer would do at another place: a share is the change at the states that the whole "
                "decoder made.",
            )


def _removed(record: Record) -> Iterator[Finding]:
    if "ablated-mlp" not in _names(record):
        return
    layer = _depth(record, 2 / 3)
    apart = difference(record, "ablated-mlp", "trained", layer, HEADLINE)
    level = _estimated(record, _values(record, "ablated-mlp", layer, HEADLINE))
    yield Finding(
        "all MLPs removed",
        f"What happens by block {layer} without any MLP?",
        apart,
        _sign(apart),
        f"Mean overlap is {level.value:.3f} there; minus that of the decoder as trained:",
        "a model that was trained without MLPs: this one was cut, and its loss is far from that of a decoder.",
    )


def _trained_against_fresh(record: Record) -> Iterator[Finding]:
    layer = _depth(record, 2 / 3)
    for recipe in ("released", "library"):
        if len(fresh_decoders(record, recipe)) < FEWEST_SEEDS:
            continue
        apart = trained_minus_initial(record, recipe, layer, HEADLINE)
        answer = _sign(apart)
        words = {"higher": "more aligned than", "lower": "less aligned than"}.get(answer, "not told apart from")
        yield Finding(
            f"trained minus initial, {recipe}",
            f"Is the trained decoder less clustered at block {layer} than fresh ones of the {recipe} recipe?",
            apart,
            answer,
            f"Its tokens are {words} those of fresh decoders; trained minus initial:",
            "what training changed: the decoder's own first weights are not known, and another spread of fresh "
            "weights can turn the sign.",
        )


def _circuits(record: Record) -> Iterator[Finding]:
    pairs = (
        ("trained-qk", "identity", "trained Q, K with identity V", "identity matrices"),
        ("trained-vo", "identity", "trained V, O with identity Q, K", "identity matrices"),
        ("trained-qkvo", "identity", "trained Q, K, V, O without MLPs", "identity matrices"),
    )
    yield from _contrasts(
        record, pairs, "Do {first} cluster like {second}",
        "other steps than the two that were tried; on the sphere nothing but direction is kept.",
    )  # fmt: skip


def _specific(record: Record) -> Iterator[Finding]:
    pairs = (
        ("trained-qkvo", "gaussian", "trained Q, K, V, O", "Gaussian ones of the same standard deviations"),
        (
            "trained-qkvo-unit-gains",
            "gaussian-unit-gains",
            "trained Q, K, V, O without gains",
            "Gaussian ones of the same standard deviations without gains",
        ),
        ("trained-qkvo", "spectrum-v", "trained V, O", "V, O of random directions with the same singular values"),
        ("trained-qkvo-mlp", "gaussian-all", "trained attention and MLPs", "Gaussian ones of the same sizes"),
    )
    yield from _contrasts(
        record, pairs, "Is resistance a matter of training: do {first} cluster like {second}",
        "which property of the matrices makes the difference; one draw of Gaussian matrices stands for all.",
    )  # fmt: skip


def _contrasts(
    record: Record, pairs: tuple[tuple[str, str, str, str], ...], question: str, not_shown: str
) -> Iterator[Finding]:
    layer = _depth(record, 1 / 3)
    for ending, steps in (("", "at the decoder's own pace"), ("-equal", "with equal steps")):
        for first, second, words, against in pairs:
            if not {first + ending, second + ending} <= set(_names(record)):
                continue
            apart = difference(record, first + ending, second + ending, layer, HEADLINE)
            answer = _sign(apart, alike=SAME)
            said = {
                "higher": "The first is more aligned", "lower": "The first is less aligned", "alike": "They are alike",
            }.get(answer, "The difference is not resolved")  # fmt: skip
            yield Finding(
                f"{first}{ending} minus {second}{ending}",
                f"{question.format(first=words, second=against)}, {steps}, by block {layer}?",
                apart,
                answer,
                f"{said}; difference of mean overlaps:",
                not_shown,
            )


def _idealized(record: Record) -> Iterator[Finding]:
    last = _depth(record, 1.0)
    for clock, words in (("ratio", "the time that the decoder's own attention takes"), ("unit", "time ln 2 a block")):
        moved = {}
        for name in _names(record):
            if name.startswith("idealized-") and name.endswith(f"-causal-{clock}"):
                beta = float(name.split("beta")[1].split("-")[0])
                moved[beta] = _values(record, name, last, HEADLINE) - _values(record, name, _first(record), HEADLINE)
        if len(moved) < 2:
            continue
        frozen = sorted(beta for beta, change in moved.items() if np.abs(change).max() < SAME)
        top = max(moved)
        yield Finding(
            f"identity matrices, {clock} clock",
            f"Do identity matrices cluster within {words}, under the causal mask?",
            _estimated(record, moved[top]),
            _sign(_estimated(record, moved[top]), alike=SAME),
            "Only at small beta: "
            + (f"at beta {', '.join(f'{one:.3g}' for one in frozen)} " if frozen else "at none of the betas ")
            + f"overlaps move by less than {SAME:g} in every document; at beta {top:.3g} they change by:",
            "that they would not cluster later: they do, in a time that grows exponentially with beta.",
        )


def _order(record: Record) -> Iterator[Finding]:
    if "shuffled" not in _names(record):
        return
    layer = _depth(record, 2 / 3)
    apart = difference(record, "trained", "shuffled", layer, HEADLINE)
    yield Finding(
        "trained minus shuffled",
        f"Does the order of the words matter to alignment at block {layer}?",
        apart,
        _sign(apart),
        "The decoder on its documents minus the decoder on the same tokens in random order:",
        "whether meaning or mere position makes the difference.",
    )


def _sign(number: Estimate, *, alike: float = 0.0) -> str:
    """Which side of zero the whole interval is on; "alike" where it lies within a stated distance of zero."""
    if not (math.isfinite(number.low) and math.isfinite(number.high)):
        return "not resolved"
    if alike and max(abs(number.low), abs(number.high)) <= alike:
        return "alike"
    return "higher" if number.low > 0 else "lower" if number.high < 0 else "not resolved"


def _names(record: Record) -> tuple[str, ...]:
    return tuple(str(name) for name in record.dataset["condition"].values)


def _first(record: Record) -> int:
    return int(record.dataset["layer"].values[0])


def _depth(record: Record, share: float) -> int:
    """The measured layer nearest to a share of the depth."""
    layers = [int(layer) for layer in record.dataset["layer"].values]
    wanted = share * int(record.dataset.attrs["layers"])
    return min(layers, key=lambda layer: (abs(layer - wanted), layer))


def _values(record: Record, condition: str, layer: int, number: tuple[str, str, str]) -> np.ndarray:
    measurement, preparation, tokens = number
    where = {"condition": condition, "layer": layer, "tap": "block", "tokens": tokens, "preparation": preparation}
    return np.asarray(record.dataset[measurement].sel(where).values, dtype=np.float64)


def _estimated(record: Record, values: np.ndarray) -> Estimate:
    study = record.study
    return estimate(values, level=study["level"], resamples=study["resamples"], seed=study["seed"])
