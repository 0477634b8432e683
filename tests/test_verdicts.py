"""Verdicts: what is said of a number from its values before and after, its floor and the reason claimed for it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from armillary.errors import ArgumentError
from armillary.estimates import contrast
from armillary.invariance.verdicts import Verdict, verdict, verdicts

CHOICES = {"level": 0.95, "resamples": 2000, "seed": 0}
BEFORE = [2.0, 2.1, 1.9, 2.2, 2.0, 1.8, 2.1, 2.05]


def judged(before: object, after: object, floor: float = 1e-9, reason: str | None = None) -> Verdict:
    return verdict(before, after, floor=floor, reason=reason, **CHOICES)


def test_what_does_not_move_survives_and_is_called_proved_only_with_a_reason() -> None:
    moved = [x + 1e-12 for x in BEFORE]
    assert judged(BEFORE, moved).word == "survived"
    proved = judged(BEFORE, moved, reason="a function of inner products")
    assert proved.word == "proved and survived" and proved.reason == "a function of inner products"
    assert not proved.resolved and "not resolved (floor 1.0e-09)" in proved.change


def test_what_moves_changes_by_a_difference_with_its_interval_and_refutes_a_claim() -> None:
    after = [1.5 * x for x in BEFORE]
    found = judged(BEFORE, after)
    expected = contrast(after, BEFORE, **CHOICES)
    assert (found.word, found.difference, found.low, found.high) == (
        "changes",
        expected.value,
        expected.low,
        expected.high,
    )
    assert found.relative == pytest.approx(0.5) and found.documents == 8
    assert str(found).startswith(f"changes by {str(expected).partition(']')[0]}] (+50%)")
    assert judged(BEFORE, after, reason="wrong").word == "claim refuted"


def test_one_document_that_moves_is_enough_even_where_the_mean_does_not() -> None:
    after = [x + d for x, d in zip(BEFORE, [0.1, -0.1, 0, 0, 0, 0, 0, 0], strict=True)]
    found = judged(BEFORE, after)
    assert found.word == "changes" and not found.resolved and "up to 0.1 in a document" in str(found)


def test_one_document_gives_a_verdict_without_an_interval_and_says_so() -> None:
    found = judged([2.0], [25 / 17])
    assert found.word == "changes" and math.isnan(found.low) and "one document: no interval" in str(found)
    assert found.row()["low"] is None


def test_a_number_that_is_defined_on_one_side_only_has_moved_and_one_that_never_is_has_not() -> None:
    found = judged([1.0, math.nan], [1.0, 2.0])
    assert found.word == "changes" and "one side" in str(found)
    assert judged([math.nan] * 2, [math.nan] * 2).word == "undefined"
    json.dumps(found.row(), allow_nan=False)


def test_where_rounding_decides_or_was_not_measured_nothing_is_said() -> None:
    assert judged(BEFORE, [2 * x for x in BEFORE], floor=math.inf, reason="proved").word == "not resolved"
    assert judged(BEFORE, [2 * x for x in BEFORE], floor=math.nan).word == "not resolved"
    assert judged(BEFORE, BEFORE, floor=math.nan).word == "survived"  # equal to the last bit


def test_many_numbers_are_judged_as_each_alone() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 9, 3, 2))
    after[:, 1, 0] = before[:, 1, 0]
    many = verdicts(before, after, floors=1e-9, reasons=[None], **CHOICES)
    for k, one in enumerate(many):
        i, j = divmod(k, 2)
        alone = judged(before[:, i, j], after[:, i, j])
        assert one.word == alone.word
        for name in ("before", "after", "difference", "low", "high", "relative", "largest", "floor", "documents"):
            assert getattr(one, name) == pytest.approx(getattr(alone, name), rel=1e-12, nan_ok=True)
    assert [one.word for one in many].count("survived") == 1
    with pytest.raises(ArgumentError, match="reasons"):
        verdicts(before, after, floors=1e-9, reasons=[None] * 4, **CHOICES)
    with pytest.raises(ArgumentError, match="identical documents"):
        verdicts(before, after[:5], floors=1e-9, reasons=[None], **CHOICES)
    with pytest.raises(ArgumentError, match="verdicts"):
        judged(before, after)
