"""The verdict in words, generated from the record: what was measured, with its interval, what it shows and what not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import Estimate, estimate
from armillary.studies.resistance.budget import clustering_budget
from armillary.studies.resistance.checkpoints import arm_of
from armillary.studies.resistance.crossed import FEWEST_SEEDS, crossed_estimate

if TYPE_CHECKING:
    from armillary.records.record import Record

__all__ = [
    "HEADLINE",
    "ROGUE",
    "VIEWS",
    "Finding",
    "difference",
    "failed_rungs",
    "fresh_decoders",
    "stands_still",
    "trained_minus_initial",
    "verdict",
]

HEADLINE = ("mean_overlap", "normalize", "without_first")
"""The number that verdicts are given in: measurement, preparation, tokens."""

ROGUE = ("mean_overlap", "without rogue coordinates, normalize", "without_first")
VIEWS = ((HEADLINE, ""), (ROGUE, ", rogue coordinates left out"))
"""Every finding is given with and without rogue coordinates: the number, and what is said of it."""

SAME = 0.05
"""Two rungs whose overlaps differ by no more, interval included, are called alike."""

NO_ENERGY = "no energy was measured, and under a mask or with values unlike keys none need rise"


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
    for make in (_budget, _removed, _own_first, _trained_against_fresh, _circuits, _specific, _idealized, _order):
        for number, tail in VIEWS:
            try:
                found += make(record, number, tail)
            except UnsoundError:  # fewer than two documents have that number
                continue
    return tuple(found)


def failed_rungs(record: Record) -> dict[str, str]:
    """The rungs that did not come to an end, with the reason; they have no numbers, or those of some documents only.

    Args:
        record: A record of `armillary resist`.
    """
    return {one["name"]: one["failed"] for one in record.provenance["conditions"] if "failed" in one}


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


Number = tuple[str, str, str]


def _budget(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    measurement, preparation, tokens = number
    try:
        budget = clustering_budget(
            record, "trained", measurement=measurement, preparation=preparation, tokens=tokens
        )  # fmt: skip
    except ArgumentError:
        return
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
            "what the sublayer would do at another place: a share is the change at the states that the whole decoder "
            "made.",
        )


def _removed(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    layer = _depth(record, 2 / 3)
    if "ablated-mlp" not in _names(record) or layer == 0:
        return
    apart = difference(record, "ablated-mlp", "trained", layer, number)
    level = _estimated(record, _values(record, "ablated-mlp", layer, number))
    yield Finding(
        f"all MLPs removed{tail}",
        f"What happens by block {layer} without any MLP{tail}?",
        apart,
        _sign(apart),
        f"Mean overlap is {level} there; minus that of the decoder as trained:",
        "a model that was trained without MLPs: this one was cut, and its loss is far from that of a decoder.",
    )


def _own_first(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    """Checkpoints of decoders trained here: the last minus the first of the same run."""
    layer, study = _depth(record, 2 / 3), record.study
    runs: dict[str, list[np.ndarray]] = {}
    for name in _names(record):
        first = str(study["rungs"][name]["neighbor"])
        if (arm := arm_of(name)) and first in _names(record):
            apart = _values(record, name, layer, number) - _values(record, first, layer, number)
            runs.setdefault(arm, []).append(apart)
    for arm, values in runs.items():
        table = np.stack(values, axis=1)
        if crossed := len(values) >= FEWEST_SEEDS:
            choices = {name: study[name] for name in ("level", "resamples", "seed")}
            change = crossed_estimate(table, **choices)
        else:
            change = _estimated(record, table.mean(axis=1))
        answer = _sign(change)
        words = {"higher": "raised", "lower": "lowered"}.get(answer, "did not resolvably change")
        yield Finding(
            f"trained minus its own first weights, {arm}{tail}",
            f"What did training do to mean overlap at block {layer} in {arm}{tail}?",
            change,
            answer,
            f"Training {words} it, {len(values)} run{'s' if len(values) > 1 else ''}; last checkpoint minus the first:",
            "what training does to a decoder of another size or on other texts"
            + ("." if crossed else f"; with fewer than {FEWEST_SEEDS} seeds, what another seed would give."),
        )


def _trained_against_fresh(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    layer = _depth(record, 2 / 3)
    known = [one for one in ("released", "library") if len(fresh_decoders(record, one)) >= FEWEST_SEEDS]
    if layer == 0:
        return
    apart = {recipe: trained_minus_initial(record, recipe, layer, number) for recipe in known}
    answers = {recipe: _sign(one) for recipe, one in apart.items()}
    turned = " The two recipes give opposite signs." if {"higher", "lower"} <= set(answers.values()) else ""
    for recipe, answer in answers.items():
        words = {"higher": "more aligned than", "lower": "less aligned than"}.get(answer, "not told apart from")
        yield Finding(
            f"trained minus initial, {recipe}{tail}",
            f"Is the trained decoder less clustered at block {layer} than fresh ones of the {recipe} recipe{tail}?",
            apart[recipe],
            answer,
            f"Its tokens are {words} those of fresh decoders.{turned} Trained minus initial:",
            "what training changed: the decoder's own first weights are not known, and another spread of fresh "
            "weights can turn the sign.",
        )


def _circuits(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    pairs = (
        ("trained-qk", "identity", "trained Q, K with identity V", "identity matrices"),
        ("trained-vo", "identity", "trained V, O with identity Q, K", "identity matrices"),
        ("trained-qkvo", "identity", "trained Q, K, V, O without MLPs", "identity matrices"),
    )
    yield from _contrasts(
        record, pairs, "Do {first} cluster like {second}",
        f"other steps than the two that were tried; on the sphere nothing but direction is kept; {NO_ENERGY}.",
        number, tail,
    )  # fmt: skip


def _specific(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    pairs = (
        ("trained-qkvo", "gaussian", "trained Q, K, V, O", "this one draw of Gaussian ones of their sizes"),
        (
            "trained-qkvo-unit-gains",
            "gaussian-unit-gains",
            "trained Q, K, V, O without gains",
            "this one draw of Gaussian ones of their sizes without gains",
        ),
        ("trained-qkvo", "spectrum-v", "trained V, O", "this one draw of V, O with the same singular values"),
        ("trained-qkvo-mlp", "gaussian-all", "trained attention and MLPs", "this one draw of Gaussian ones"),
    )
    yield from _contrasts(
        record, pairs, "Is resistance a matter of training: do {first} cluster like {second}",
        "which property of the matrices makes the difference, and what another draw would give: the interval is over "
        "documents, under one draw; on the sphere nothing but direction is kept.",
        number, tail,
    )  # fmt: skip


def _contrasts(
    record: Record, pairs: tuple[tuple[str, str, str, str], ...], question: str, not_shown: str, number: Number,
    tail: str,
) -> Iterator[Finding]:  # fmt: skip
    layer = _depth(record, 1 / 3)
    if layer == 0:
        return
    for first, second, words, against in pairs:
        asked = question.format(first=words, second=against)
        answers = {}
        for ending, steps in (("", "at the decoder's own pace"), ("-equal", "with equal steps")):
            if not {first + ending, second + ending} <= set(_names(record)):
                continue
            apart = difference(record, first + ending, second + ending, layer, number)
            answers[steps] = answer = _sign(apart, alike=SAME)
            said = {
                "higher": "The first is more aligned", "lower": "The first is less aligned",
                "alike": f"They are alike within {SAME:g}",
            }.get(answer, "The difference is not resolved")  # fmt: skip
            yield Finding(
                f"{first}{ending} minus {second}{ending}{tail}",
                f"{asked}, {steps}, by block {layer}{tail}?",
                apart,
                answer,
                f"{said}; difference of mean overlaps:",
                not_shown,
            )
        if len(answers) == 2:
            yield _joined(f"{first} minus {second}", f"{asked}, whatever the steps{tail}?", answers, tail)


def _joined(name: str, question: str, answers: dict[str, str], tail: str) -> Finding:
    """One finding for both steps: an answer that changes with the step is one about steps."""
    held = len(set(answers.values())) == 1
    answer = "depends on the step" if not held else next(iter(answers.values()))
    words = "; ".join(f"{steps}: {one}" for steps, one in answers.items())
    said = "Depends on the step" if not held else "Holds under both steps"
    shows = "Resolved under neither step" if held and answer == "not resolved" else said
    return Finding(
        f"{name}, both steps{tail}", question, None, answer, f"{shows} ({words}).",
        "steps of other lengths: only these two maps from depth to distance were tried.",
    )  # fmt: skip


def _idealized(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    last, layers = int(record.dataset.attrs["layers"]), [int(layer) for layer in record.dataset["layer"].values]
    if not {0, last} <= set(layers):
        return  # nothing is known of the whole way
    for clock, words in (("ratio", "the time that the decoder's own attention takes"), ("unit", "time ln 2 a block")):
        moved, still = {}, {}
        for name in _names(record):
            if name.startswith("idealized-") and name.endswith(f"-causal-{clock}"):
                beta = float(name.split("beta")[1].split("-")[0])
                moved[beta] = _values(record, name, last, number) - _values(record, name, 0, number)
                still[beta] = stands_still(record, name, number)
        if len(moved) < 2:
            continue
        top = max(moved)
        change = _estimated(record, moved[top])
        yield Finding(
            f"identity matrices, {clock} clock{tail}",
            f"Do identity matrices cluster within {words}, under the causal mask{tail}?",
            change,
            _sign(change, alike=SAME),
            f"{_frozen_words(still)}. At beta {top:.3g} mean overlap changes by:",
            "what happens later: under the causal mask with identity values tokens are proved to gather from almost "
            "every start (Karagodin, Polyanskiy and Rigollet 2024), in a time that was not measured here; without a "
            "mask groups are proved to last for a time that grows exponentially with beta (Geshkovski, Koubbi, "
            f"Polyanskiy and Rigollet 2024); {NO_ENERGY}.",
        )


def stands_still(record: Record, name: str, number: Number) -> bool:
    """Whether overlap, participation rank and number of groups stay within `SAME` of where they started.

    At every measured layer and in every document; overlap absolutely, the others relative to the embedding.

    Args:
        record: Of the ladder.
        name: Of the rung.
        number: The overlap: observable, preparation, tokens.
    """
    layers = sorted(int(layer) for layer in record.dataset["layer"].values)
    groups = ("cluster_count", "center, normalize", "without_first")
    for one in (number, ("participation_rank", *number[1:]), groups):
        start, *later = (_values(record, name, layer, one) for layer in layers)
        scale = np.ones_like(start) if one is number else np.abs(start)
        if not (np.abs(np.asarray(later) - start) < SAME * scale).all():
            return False
    return True


def _frozen_words(still: dict[float, bool]) -> str:
    """Which betas stand still and which move."""
    frozen = [f"{beta:.3g}" for beta in sorted(still) if still[beta]]
    moving = [f"{beta:.3g}" for beta in sorted(still) if not still[beta]]
    what = (
        f"overlap stays within {SAME:g}, participation rank and number of groups within {SAME:.0%} of the embedding's"
    )
    if not frozen:
        return f"Tokens move at every beta that was tried ({', '.join(moving)})"
    if not moving:
        return f"At every beta that was tried ({', '.join(frozen)}) tokens stand still: {what} in every document"
    return (
        f"At beta {', '.join(frozen)} tokens stand still: {what} in every document; at beta {', '.join(moving)} they "
        "move"
    )


def _order(record: Record, number: Number, tail: str) -> Iterator[Finding]:
    layer = _depth(record, 2 / 3)
    if "shuffled" not in _names(record) or layer == 0:
        return
    apart = difference(record, "trained", "shuffled", layer, number)
    yield Finding(
        f"trained minus shuffled{tail}",
        f"Does the order of the words matter to alignment at block {layer}{tail}?",
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
    """The rungs that came to an end."""
    failed = failed_rungs(record)
    return tuple(name for name in map(str, record.dataset["condition"].values) if name not in failed)


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
