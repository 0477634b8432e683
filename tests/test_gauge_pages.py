"""What is told of gauges: a summary in words, a figure and a part of a page, all from numbers that a record holds."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
import xarray as xr

import armillary as am
from armillary.figures.gauges import EVERY, before_and_after_gauges
from armillary.figures.reading import Reading
from armillary.figures.verdicts import heat_map
from armillary.figures.verdicts_of_gauges import verdicts_of_gauges
from armillary.invariance.judgment import Audit, Judgment
from armillary.invariance.verdicts import verdict
from armillary.records.gauge_summary import at_places, number_words, summary_text, unmoved_words
from armillary.report.gauged import gauges_section
from armillary.report.verdict_cells import cell
from sample_gauges import planted

CHOICES = {"level": 0.95, "resamples": 200, "seed": 0}


def reading(found: am.GaugedNumbers) -> Reading:
    record = SimpleNamespace(dataset=found.dataset(), study=CHOICES, provenance={})
    return Reading(record)  # type: ignore[arg-type]


def test_the_summary_names_the_number_that_moved_most_and_how_still_the_others_are() -> None:
    entries = {(one.gauge, one.place): one for one in at_places(planted(), **CHOICES)}
    fold = entries["fold", "read"]
    assert (fold.numbers, fold.moved, fold.refuted) == (2, 2, 0)
    assert str(fold) == (
        "after the next norm: 2 of 2 numbers moved, most mean overlap | rows normalized at layer 0: 0.31 -> 0.41"
    )
    still = entries["spin", "stream"]
    assert still.moved == 0 and still.still == pytest.approx(1e-13, rel=0.1)
    assert str(still) == "stream: none of 2 numbers moved (relative difference at most 1e-13)"


def test_the_words_part_what_no_gauge_moves_from_what_belongs_to_a_basis() -> None:
    assert unmoved_words(planted(), **CHOICES) == (
        "Unmoved by every listed re-parametrization that leaves the function unchanged: stream (all 1 numbers). "
        "Depending on a basis that training happened to choose: after the next norm, all 1 numbers (by fold)."
    )
    text = summary_text(planted(), **CHOICES)
    assert "fold: logits move by 1e-13" in text and "bend: refused, it is stiff" in text


def test_a_refuted_theorem_is_said_in_summary_and_page() -> None:
    found = planted(reason="they say it cannot")
    refuted = next(one for one in at_places(found, **CHOICES) if one.refuted)
    assert str(refuted).endswith("2 of 2 numbers moved although a theorem keeps them")
    assert "2 refuted" in str(gauges_section(reading(found)))


def test_numbers_of_heads_are_words_too() -> None:
    assert number_words("attention_entropy, head 3") == "row entropy of attention, head 3"
    assert number_words("participation_rank | as given") == "participation rank | rows as given"


def test_the_figure_shows_each_number_before_and_after_what_moves_it() -> None:
    drawing = before_and_after_gauges(reading(planted()))
    assert drawing is not None and drawing.controls[0].options == (EVERY, "fold", "spin")
    stream, read = drawing.opening.panels
    assert [curve.name for curve in stream.curves] == ["before"]
    assert [curve.name for curve in read.curves] == ["before", "fold"]
    assert read.curves[1].y == pytest.approx((0.41, 0.48))
    assert [curve.name for curve in drawing.view(("spin",)).panels[0].curves] == ["before", "spin"]
    assert "mean overlap, after the next norm" in drawing.alt


def test_gauges_have_a_heat_map_of_their_own_with_the_place_before_each_number() -> None:
    drawing = verdicts_of_gauges(reading(planted()))
    assert drawing is not None and drawing.controls[0].options == ("embedding", "block 4")
    panel = drawing.opening.panels[0]
    assert [text for _, text in panel.x.ticks] == ["fold", "spin"] and panel.x.upright
    assert [text for _, text in panel.y.ticks] == [
        "after the next norm: mean overlap, normalized",
        "stream: mean overlap, normalized",
    ]
    assert panel.tiles is not None
    (read, unmoved), (still, _) = panel.tiles.values
    assert read == pytest.approx(math.log10(0.1 / 0.41)) and math.isnan(unmoved) and math.isnan(still)
    assert "fold: 1 proved and survived, 1 changes." in drawing.alt
    assert verdicts_of_gauges(Reading(SimpleNamespace(dataset=xr.Dataset(), study=CHOICES, provenance={}))) is None


def test_a_mean_difference_below_its_floor_is_told_as_what_single_documents_do() -> None:
    def judged(*after: float) -> Judgment:
        found = verdict([1.0, 1.0], after, floor=1e-9, reason=None, **CHOICES)
        return Judgment("mean_overlap | normalize", "fold", found)

    apart = judged(1.5, 0.5)
    text = str(cell(apart))
    assert "changes in single documents, by up to 0.5" in text and "is below its floor 1e-09" in text
    panel = heat_map(Audit((apart,), (), 2))
    assert [curve.name for curve in panel.curves] == ["changes in single documents only"]
    assert panel.tiles is not None and math.isnan(panel.tiles.values[0][0])
    near, far = (re.sub('title="[^"]*"', "", str(cell(judged(*2 * [1 + step])))) for step in (3e-9, 0.1))
    assert "floor 1e-09" in near and "changes by" in near and "floor" not in far


def test_the_part_of_the_page_holds_proofs_counts_and_refusals() -> None:
    html = str(gauges_section(reading(planted())))
    plain = re.sub(r"<[^>]+>", " ", html)
    assert "1.0e-13" in plain and "unmoved" in plain and "bend: it is stiff" in plain
    assert "0.31 → 0.41" in plain and 'title="fold: logits move by 1e-13"' in html


def test_a_record_without_gauges_has_neither_figure_nor_part() -> None:
    bare = Reading(SimpleNamespace(dataset=planted().dataset().drop_vars("gauge_after"), study=CHOICES, provenance={}))  # type: ignore[arg-type]
    assert before_and_after_gauges(bare) is None and gauges_section(bare) is None
