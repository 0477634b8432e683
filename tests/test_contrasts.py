"""A difference is taken document by document, between numbers that mean the same, or it is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import UNPAIRED_TOKENS
from armillary.records.record import Record
from sample_record import BLOCKS, DOCUMENTS, sample_dataset, sample_provenance, sample_study

STUDY = {**sample_study(), "resamples": 200}
AT = {"layer": 2, "place": "block", "tokens": "without_first", "preparation": "normalize"}


def record(folder: Path, *, dataset=None, **documents: object) -> Record:
    provenance = sample_provenance()
    provenance["documents"] |= documents
    return Record.write(folder, STUDY, provenance, sample_dataset() if dataset is None else dataset)


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    return record(tmp_path_factory.mktemp("a") / "a")


def shifted(by: float, **attrs: object):
    """The sample with every mean overlap moved."""
    dataset = sample_dataset()
    dataset["mean_overlap"] = (dataset["mean_overlap"] - by).assign_attrs(dataset["mean_overlap"].attrs, **attrs)
    return dataset


def only(frame: pd.DataFrame, **where: object) -> pd.Series:
    return frame[np.logical_and.reduce([frame[key] == value for key, value in where.items()])].iloc[0]


def test_two_records_of_the_same_documents_differ_by_what_was_taken_away(a, tmp_path):
    b = record(tmp_path / "b", dataset=shifted(0.25))
    frame = a.contrast_with(b, "mean_overlap", condition="trained")
    assert frame["value"].dropna().to_numpy() == pytest.approx(0.25)
    row = only(frame, **AT)
    assert (row["condition"], row["against"], row["documents"]) == ("trained", "trained", len(DOCUMENTS))
    assert frame.attrs["records"] == [str(a.path), str(b.path)]


def test_a_difference_of_two_records_is_paired_by_document(a, tmp_path):
    b = record(tmp_path / "b", dataset=shifted(0.25))
    row = only(a.contrast_with(b, "mean_overlap", condition="trained", against="ablated:mlp"), **AT)
    one = a.sample("mean_overlap", condition="trained", layer=2, tap="block", tokens="without_first", preparation="normalize")  # fmt: skip
    other = b.sample("mean_overlap", condition="ablated-mlp", layer=2, tap="block", tokens="without_first", preparation="normalize")  # fmt: skip
    assert row["value"] == pytest.approx(np.mean(one.values - other.values))
    assert row["against"] == "ablated-mlp"


def test_everything_at_once_is_every_number_that_both_have_once(a, tmp_path):
    b = record(tmp_path / "b")
    frame = a.contrast_with(b, condition="trained")
    here = a.columns[(a.columns["condition"] == "trained") & ~a.columns["tokens"].isin(UNPAIRED_TOKENS)]
    assert len(frame) == len(here) and (frame["value"].dropna() == 0.0).all()


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        (
            {"token_hash": "f" * 64, "text_hashes": ["a"] * 6, "titles": ["x", "y", "assert", "z", "u", "v"]},
            "6 and 6 documents share 1 title",
        ),
        ({"token_hash": "f" * 64, "text_hashes": ["a"] * 6}, "6 and 6 documents share 6 titles"),
        ({"token_hash": "f" * 64}, "the texts are the same, but not the tokens that were cut from them"),
        ({"token_hash": None}, "the hash of the token ids is not recorded"),
    ],
)
def test_records_of_unlike_documents_are_not_subtracted(a, tmp_path, documents, reason):
    b = record(tmp_path / "b", **documents)
    with pytest.raises(UnsoundError, match=rf"{reason}\. Measure both on identical documents, or .*armillary report"):
        a.contrast_with(b, condition="trained")


def test_decoders_with_unlike_numbers_of_blocks_are_not_subtracted_block_for_block(a, tmp_path):
    deeper = sample_dataset().assign_attrs(layers=BLOCKS + 1)
    b = record(tmp_path / "b", dataset=deeper)
    with pytest.raises(UnsoundError, match=f"as many blocks, but they are {BLOCKS} and {BLOCKS + 1}"):
        a.contrast_with(b, condition="trained")


def test_what_two_records_define_in_another_way_is_left_out_and_refused_when_asked_for(a, tmp_path):
    b = record(tmp_path / "b", dataset=shifted(0.0, definition="of all pairs, i = j too"))
    assert "mean_overlap" not in set(a.contrast_with(b, condition="trained")["measurement"])
    with pytest.raises(ArgumentError, match=r"in the same way, but 'mean_overlap' was not\. Ask for one of .*loss"):
        a.contrast_with(b, "mean_overlap", condition="trained")
    a.contrast_with(b, "loss", condition="trained")  # the remedy


def test_an_offset_that_other_documents_named_is_another_preparation(a, tmp_path):
    provenance = sample_provenance()
    assert provenance["calibration"]["token_hash"]
    provenance["calibration"]["token_hash"] = "0" * 64
    b = Record.write(tmp_path / "b", STUDY, provenance, sample_dataset())
    found = set(a.contrast_with(b, "mean_overlap", condition="trained")["preparation"])
    assert found == {"normalize", "center, normalize"}
    same = set(a.contrast_with(record(tmp_path / "c"), "mean_overlap", condition="trained")["preparation"])
    assert same - found == {"corpus mean, normalize", "without rogue coordinates, normalize"}


@pytest.mark.parametrize("name", ["ablated:mlp", "ablated-mlp", "ablated"])
def test_a_condition_is_named_as_on_the_command_line_as_in_the_record_or_by_its_beginning(a, name):
    assert a.condition(name) == "ablated-mlp"


def test_a_short_form_is_the_whole_name_where_it_is_one(tmp_path):
    names = ["trained", "ablated-mlp", "ablated-mlp-3-4"]
    a = record(tmp_path / "a", dataset=sample_dataset().assign_coords(condition=names))
    assert a.condition("ablated:mlp") == "ablated-mlp" and a.condition("ablated:mlp:3-4") == "ablated-mlp-3-4"
    other = sample_dataset().assign_coords(condition=["trained", "initial-0.5-seed1", "initial-library-seed10"])
    b = record(tmp_path / "b", dataset=other)
    assert b.condition("initial:.5:1") == "initial-0.5-seed1"
    with pytest.raises(ArgumentError, match="initial-library-seed10"):
        b.condition("initial:released:0")
