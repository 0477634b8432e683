"""Two records side by side: what differs comes first, everything stands in pairs on the same axes, and nothing is subtracted
that has no partner."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from armillary.figures import Reading, drawings
from armillary.figures.beside import DEPTH_SHARE, Pair
from armillary.figures.overlaid import Differences, differences_drawing, overlaid
from armillary.figures.printed import print_drawing
from armillary.records.record import Record
from armillary.report import write_comparison
from armillary.report.beside import pair_names
from sample_record import BLOCKS, CONDITIONS, DOCUMENTS, sample_dataset, sample_provenance, sample_study
from test_report import ATTACK, _opened, _read, _text

STUDY = {**sample_study(), "resamples": 200}
OTHER = {"token_hash": "f" * 64, "titles": ["apache", "bsd", "gpl", "mit", "psf", "zpl"], "genre": "licenses",
         "text_hashes": ["e" * 64] * 6, "source": "shipped licenses"}  # fmt: skip


def record(folder: Path, *, dataset=None, study=None, **documents: object) -> Record:
    provenance = sample_provenance()
    provenance["documents"] |= documents
    return Record.write(folder, study or STUDY, provenance, sample_dataset() if dataset is None else dataset)


def scaled():
    """The sample with mean overlaps of four fifths."""
    dataset = sample_dataset()
    dataset["mean_overlap"] = (dataset["mean_overlap"] * 0.8).assign_attrs(dataset["mean_overlap"].attrs)
    return dataset


def deeper():
    """The sample as if measured at blocks 0, 2, 4, 6 and 8 of a decoder of eight."""
    return sample_dataset().assign_coords(layer=[0, 2, 4, 6, 8]).assign_attrs(layers=2 * BLOCKS)


def pair_of(a: Record, b: Record) -> Pair:
    return Pair.of(a, b, pair_names(a.path, b.path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("beside")


@pytest.fixture(scope="module")
def topics(folder):
    return record(folder / "topics")


@pytest.fixture(scope="module")
def licenses(folder):
    dataset = scaled().isel(condition=[0, 2]).assign_coords(document=OTHER["titles"])
    return record(folder / "licenses", dataset=dataset, study={**STUDY, "level": 0.9}, **OTHER)


@pytest.fixture(scope="module")
def same(folder):
    return record(folder / "same", dataset=scaled())


@pytest.fixture(scope="module")
def deep(folder):
    return record(folder / "deep", dataset=deeper(), **OTHER)


@pytest.fixture(scope="module")
def unpaired_page(topics, licenses, tmp_path_factory):
    return write_comparison(topics, licenses, tmp_path_factory.mktemp("page") / "unpaired", ())


@pytest.fixture(scope="module")
def paired_page(topics, same, tmp_path_factory):
    return write_comparison(topics, same, tmp_path_factory.mktemp("page") / "paired", ())


# figures


def test_every_figure_that_both_have_is_there_with_both_records_in_it(topics, licenses):
    pair = pair_of(topics, licenses)
    shown, first, second = pair.drawings(), drawings(Reading(topics)), drawings(Reading(licenses))
    assert set(shown) == set(first) & set(second) and len(shown) > 10
    for drawing in shown.values():
        panels = drawing.opening.panels
        assert {name for panel in panels for name in pair.names if panel.note.endswith(name)} == set(pair.names)
        assert all(name in drawing.alt for name in pair.names) and drawing.columns == 2


def test_the_panels_of_a_pair_stand_next_to_each_other_on_the_same_axes_with_their_own_numbers(topics, licenses):
    pair = pair_of(topics, licenses)
    for name, drawing in pair.drawings().items():
        panels = drawing.opening.panels
        for left, right in zip(panels[::2], panels[1::2], strict=True):
            assert left.y.label == right.y.label and left.title == right.title
            assert (left.x.limits, left.y.limits) == (right.x.limits, right.y.limits), name
            assert left.note.replace(*pair.names) == right.note
    left, right = pair.drawings()["alignment"].opening.panels[:2]
    assert np.array(right.curves[0].y) == pytest.approx(0.8 * np.array(left.curves[0].y))
    low, high = left.y.limits
    assert all(low <= y <= high for panel in (left, right) for curve in panel.curves for y in curve.y)


def test_a_condition_looks_the_same_in_both_records(topics, licenses):
    left, right = pair_of(topics, licenses).drawings()["alignment"].opening.panels[:2]
    styles = [{curve.name: curve.style for curve in panel.curves} for panel in (left, right)]
    assert len(styles[0]) == 3 and len(styles[1]) == 2
    assert all(styles[0][name] == style for name, style in styles[1].items())


def test_decoders_of_unlike_depth_are_drawn_against_the_share_of_their_blocks(topics, deep):
    pair = pair_of(topics, deep)
    drawing = pair.drawings()["alignment"]
    left, right = drawing.opening.panels[:2]
    assert left.x.label == right.x.label == DEPTH_SHARE
    assert left.curves[0].x == right.curves[0].x == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert "share of the blocks passed" in drawing.caption
    options = pair.drawings()["spectra"].controls[0].options
    assert options == ("embedding", "block 1 | block 2", "block 2 | block 4", "block 3 | block 6", "block 4 | block 8")
    with_spectra = drawings(Reading(deep))["spectra"].view(("block 6", "normalize")).panels[0].curves[0].y
    shown = pair.drawings()["spectra"].view(("block 3 | block 6", "normalize")).panels[1].curves[0].y
    assert shown == with_spectra


def test_records_of_one_depth_with_unlike_layers_offer_the_layers_that_both_have(topics, tmp_path):
    some = record(tmp_path / "some", dataset=sample_dataset().isel(layer=[0, 2, 4]), **OTHER)
    drawing = pair_of(topics, some).drawings()["spectra"]
    assert drawing.controls[0].options == ("embedding", "block 2", "block 4")
    assert all(view.panels[0].title == view.panels[1].title for view in drawing.views)


def test_a_condition_that_only_one_record_has_is_shown_alone(topics, licenses):
    drawing = pair_of(topics, licenses).drawings()["metrics"]
    assert drawing.controls[0].options == ("trained", "initial (library, seed 0)", "without MLP")
    alone = drawing.view(("initial (library, seed 0)",)).panels
    assert alone and all(panel.note.endswith("A (topics)") for panel in alone)


def test_headline_numbers_of_both_stand_over_each_other(topics, licenses):
    drawing = overlaid(pair_of(topics, licenses))
    assert drawing.controls[0].options == ("trained", "without MLP")
    panel = drawing.opening.panels[0]
    assert [curve.name for curve in panel.curves] == ["A (topics)", "B (licenses)"]
    assert len({(curve.style.color, curve.style.dash, curve.style.marker) for curve in panel.curves}) == 2
    assert np.array(panel.curves[1].y) == pytest.approx(0.8 * np.array(panel.curves[0].y))


def test_differences_are_the_records_own_and_only_on_identical_documents(topics, same, licenses):
    pair = pair_of(topics, same)
    found = Differences.between(pair, topics, same)
    assert found.refusal == ""
    profile = found.profiles[("mean_overlap", "normalize"), "trained"]
    frame = topics.contrast_with(same, "mean_overlap", condition="trained")
    rows = frame[(frame["place"] == "block") & (frame["tokens"] == "without_first")]
    rows = rows[rows["preparation"] == "normalize"].sort_values("layer")
    for ends in ("value", "low", "high"):
        np.testing.assert_allclose(getattr(profile, ends), rows[ends], rtol=1e-9)
    assert len(differences_drawing(pair, found).opening.panels[0].curves) == len(CONDITIONS)
    other = Differences.between(pair_of(topics, licenses), topics, licenses)
    assert other.profiles == {} and "they differ" in other.refusal
    assert differences_drawing(pair_of(topics, licenses), other) is None


# the page


def test_what_differs_stands_before_any_number(unpaired_page):
    text = _text(unpaired_page)
    head = text[: text.index("Each by itself")]
    for words in ("Where the two records differ", "licenses", "reference prose, one genre", "0.95", "0.9", "invented"):
        assert words in head
    assert head.index("Documents") < head.index("Choices of the study")
    assert "Only A (topics) has the condition initial (library, seed 0)." in head
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_records_of_unlike_documents_are_said_to_be_unpaired_and_no_difference_is_printed(unpaired_page):
    text = _text(unpaired_page)
    assert "The documents differ: 6 and 6 documents share no titles. No difference between the two records" in text
    assert "paired by document. ▲ the first" not in text and "minus B" not in text


def test_records_of_the_same_documents_are_subtracted_with_paired_intervals(paired_page, topics, same):
    text = _text(paired_page)
    assert "Both records hold the same token ids" in text and "do not differ in any recorded choice" in text
    frame = topics.contrast_with(same, "mean_overlap", condition="trained")
    row = frame[(frame["place"] == "block") & (frame["layer"] == BLOCKS) & (frame["tokens"] == "without_first")]
    value = row[row["preparation"] == "normalize"]["value"].item()
    assert "A (topics) minus B (same), paired by document. ▲ the first is higher" in text
    assert f"▲ {value:.3f}" in text


def test_the_numbers_of_both_stand_below_each_other_and_are_the_records_estimates(unpaired_page, topics, licenses):
    text = _text(unpaired_page)
    where = {"layer": 2, "tap": "block", "tokens": "without_first", "preparation": "normalize"}
    for one, name in ((topics, "A"), (licenses, "B")):
        shown = str(one.estimate("mean_overlap", condition="trained", **where)).split("] ")[0] + "]"
        assert shown in text[text.index(f"trained, {name}") :].split("without MLP")[0]


def test_unlike_depths_are_tabled_by_share_and_never_subtracted(topics, deep, tmp_path):
    text = _text(write_comparison(topics, deep, tmp_path / "deep", ()))
    assert "embeddinga sixthhalftwo thirdslast block" in text
    assert "Columns are shares of the blocks passed; the layer stands below each number." in text
    assert "block 8" in text and "minus B" not in text
    again = record(tmp_path / "again", dataset=deeper())
    said = _text(write_comparison(topics, again, tmp_path / "again-beside", ()))
    assert "The decoders have 4 and 8 blocks, so that no layer of one is the same place" in said


def test_a_page_of_two_has_unique_ids_and_a_target_for_every_link(unpaired_page):
    elements = _read(unpaired_page).elements
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids)) and {a["href"][1:] for tag, a in elements if tag == "a"} <= set(ids)


def test_a_pair_is_printed_with_both_records_in_it(topics, licenses, tmp_path):
    pair = pair_of(topics, licenses)
    print_drawing(pair.drawings()["loss"], tmp_path, ("svg",), source="both")
    text = (tmp_path / "loss.svg").read_text(encoding="utf-8")
    assert "two records side by side" in text and "B (licenses)" in text


def test_two_folders_of_one_name_are_told_apart_by_where_they_lie():
    assert pair_names(Path("/x/a/lab"), Path("/x/b/lab")) == ("A (a/lab)", "B (b/lab)")
    assert pair_names(Path("/x/a"), Path("/x/b")) == ("A (a)", "B (b)")


@pytest.mark.browser
def test_the_page_of_two_opens_without_error_or_request_and_draws_every_figure(unpaired_page, tmp_path):
    root = _opened(unpaired_page, tmp_path)
    figures = [a for tag, a in _read(unpaired_page).elements if tag == "figure"]
    assert json.loads(root["data-found"]) == [] and int(root["data-drawn"]) == len(figures) > 10


def test_foreign_text_is_escaped_on_a_page_of_two(topics, tmp_path):
    titles = [f"{k}{ATTACK}" for k in range(len(DOCUMENTS))]
    odd = record(tmp_path / "odd", dataset=sample_dataset().assign_coords(document=titles), genre=ATTACK)
    tags = [tag for tag, _ in _read(write_comparison(topics, odd, tmp_path / "page", ())).elements]
    assert tags.count("script") == 3 and "img" not in tags
