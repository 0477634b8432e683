"""What a record says in another format is what it says itself: every number and every convention comes back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import xarray as xr

from armillary.errors import ArgumentError
from armillary.records import exports
from armillary.records.exports import FORMATS, read_arrays, read_table, write_arrays, write_table
from armillary.records.record import Record
from armillary.records.storage import measurements_hash
from sample_record import DOCUMENTS, sample_dataset, sample_provenance, sample_record, sample_study

TABLES = ("parquet", "csv", "json")
TITLES = ("NaN", "", "None", 'say "no"', "two\r\nlines", "lone\rreturn", "1e3", "ß, β; =1+1", " padded ")
ATTRIBUTES = {"flag": True, "off": False, "missing": None, "nested": {"a": [1, {"b": None}]}, "one": ["x"], "empty": "",
              "count": 3, "share": 0.25, "greek": "β ≤ 1"}  # fmt: skip


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return Record.open(sample_record(tmp_path_factory.mktemp("records") / "lab"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A record with what other formats lose: a flag, a nested record, half precision, undefined and unbounded ends."""
    half = np.linspace(0.1, 0.9, len(TITLES)).astype(np.float16)
    half[0] = np.nan
    dataset = xr.Dataset(
        {
            "half": (("condition", "document"), np.stack([half, half[::-1]]), ATTRIBUTES),
            "never": (
                ("condition", "document"),
                np.full((2, len(TITLES)), np.nan),
                {"measured": '[["logits", "all"]]'},
            ),
            "once": (("condition", "document"), np.array([[np.nan] * 7 + [1.0, 2.0], [0.0] * 8 + [1e-100]])),
            "third": (("condition", "document"), np.full((2, len(TITLES)), 1 / 3) + np.arange(9) * 1e-16),
            "flags": ("document", np.arange(len(TITLES)) > 3),
        },
        coords={"condition": ["trained", "a/b"], "document": list(TITLES)},
        attrs=ATTRIBUTES,
    )
    study = {**sample_study(), "nested": {"flag": True, "list": [1, 2.5, "x"]}}
    folder = tmp_path_factory.mktemp("odd") / "lab"
    return Record.write(folder, study, {**sample_provenance(), "missing": None}, dataset)


def exported(record: Record, path: Path, per: str) -> Path:
    return {"csv": record.to_csv, "parquet": record.to_parquet, "json": record.to_json}[path.suffix[1:]](path, per)


@pytest.mark.parametrize("per", ["estimate", "document"])
@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("which", ["record", "odd"])
def test_a_table_comes_back_with_every_number_and_every_convention(request, tmp_path, which, ending, per):
    record = request.getfixturevalue(which)
    frame = record.to_dataframe(per)
    back = read_table(exported(record, tmp_path / f"measurements.{ending}", per))
    pd.testing.assert_frame_equal(back.frame, frame, check_exact=True)
    assert back.conventions == {**record.conventions, **frame.attrs} == back.frame.attrs
    assert list(back.conventions["definitions"]) == list(dict.fromkeys(frame["measurement"]))
    assert set(back.conventions["columns"]) == set(frame.columns)


def test_the_odd_record_holds_what_is_easily_lost(odd):
    frame = odd.to_dataframe()
    assert frame["value"].isna().any() and np.isneginf(frame["low"]).any() and frame["low"].isna().any()
    assert odd.to_dataframe("document")["value"].nunique() > 10
    definition = odd.conventions | odd.to_dataframe().attrs
    assert definition["definitions"]["half"] == ATTRIBUTES and definition["study"]["nested"]["flag"] is True


@pytest.mark.parametrize("which", ["record", "odd"])
def test_arrays_come_back_with_every_number_and_every_convention(request, tmp_path, which):
    record = request.getfixturevalue(which)
    path = record.to_npz(tmp_path / "record.npz")
    back = read_arrays(path)
    assert measurements_hash(back.dataset) == record.measurements_hash
    assert {n: back.dataset[n].dtype for n in back.dataset.data_vars} == {
        n: record.dataset[n].dtype for n in record.dataset.data_vars
    }
    assert back.conventions == {**record.conventions, "provenance": record.provenance}
    with np.load(path) as plain:  # without this package, and without pickle
        assert plain["document"].tolist() == [str(title) for title in record.dataset["document"].values]
        assert json.loads(str(plain["conventions"]))["arrays"]["condition"]["axes"] == ["condition"]


def test_the_odd_arrays_are_half_precision_flags_and_nested_records(odd, tmp_path):
    back = read_arrays(odd.to_npz(tmp_path / "record.npz")).dataset
    assert (back["half"].dtype, back["flags"].dtype) == (np.float16, np.bool_)
    assert back.attrs == ATTRIBUTES == back["half"].attrs


@pytest.mark.parametrize("name", ["flags/no", "conventions"])
def test_an_array_that_the_file_cannot_name_is_refused(tmp_path, name):
    with pytest.raises(ArgumentError, match="Rename it"):
        write_arrays(sample_dataset().rename(loss=name), {}, tmp_path / "a.npz")
    write_arrays(sample_dataset().rename(loss="renamed"), {}, tmp_path / "a.npz")  # the remedy


def test_json_is_strict_and_tells_undefined_from_unbounded(odd, tmp_path):
    def no_constants(token: str) -> None:
        raise AssertionError(token)

    rows = json.loads(odd.to_json(tmp_path / "m.json").read_text("utf-8"), parse_constant=no_constants)["rows"]
    ends = {row["low"] for row in rows}
    assert None in ends and "-inf" in ends


def test_other_readers_find_the_numbers_and_the_conventions(record, tmp_path):
    path = record.to_parquet(tmp_path / "m.parquet")
    about = json.loads(pyarrow.parquet.read_schema(path).metadata[b"armillary"])
    assert about["conventions"]["choices"] == {"level": 0.95, "resamples": 2000, "seed": 0}
    assert about["conventions"]["definitions"]["exponential_overlap"]["beta"] == 4.0
    assert pd.read_parquet(path).attrs == about["conventions"]
    plain = pd.read_csv(record.to_csv(tmp_path / "m.csv"))
    np.testing.assert_allclose(plain["value"], record.to_dataframe()["value"], rtol=1e-14)
    assert json.loads((tmp_path / "m.conventions.json").read_text())["conventions"] == about["conventions"]


def test_the_table_of_documents_names_its_documents_for_every_format(record, tmp_path):
    frame = read_table(record.to_csv(tmp_path / "m.csv", per="document")).frame
    assert frame["document"].drop_duplicates().tolist() == list(DOCUMENTS)


@pytest.mark.parametrize("ending", FORMATS)
def test_an_existing_file_is_refused_and_left_as_it_is(record, tmp_path, ending):
    taken = tmp_path / f"mine.{ending}"
    taken.write_text("mine")
    write = record.to_npz if ending == "npz" else lambda path: exported(record, path, "estimate")
    with pytest.raises(ArgumentError, match=r"exists\. Name another"):
        write(taken)
    assert taken.read_text() == "mine" and [one.name for one in tmp_path.iterdir()] == [taken.name]
    write(tmp_path / f"another.{ending}")  # the remedy


def test_a_side_file_in_the_way_is_refused_before_the_table_is_written(record, tmp_path):
    (tmp_path / "m.conventions.json").write_text("mine")
    with pytest.raises(ArgumentError, match=r"m\.conventions\.json exists"):
        record.to_csv(tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


@pytest.mark.parametrize("name", ["m", "m.xlsx", "m.npz"])
def test_an_ending_that_no_table_has_is_refused(record, tmp_path, name):
    with pytest.raises(ArgumentError, match=r"must end in \.csv"):
        record.to_csv(tmp_path / name)
    with pytest.raises(ArgumentError, match=r"must end in \.parquet, \.csv or \.json"):
        read_table(tmp_path / name)


def test_a_folder_that_is_missing_is_refused_and_not_made(record, tmp_path):
    with pytest.raises(ArgumentError, match="folder that exists"):
        record.to_parquet(tmp_path / "nowhere" / "m.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", FORMATS)
def test_a_failed_export_leaves_nothing_behind(record, tmp_path, monkeypatch, ending):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports, "_to_json", full)
    monkeypatch.setattr(exports, "_to_parquet", full)
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        record.to_npz(tmp_path / "m.npz") if ending == "npz" else exported(record, tmp_path / f"m.{ending}", "estimate")
    assert list(tmp_path.iterdir()) == []


def test_a_csv_without_its_conventions_is_refused(record, tmp_path):
    path = record.to_csv(tmp_path / "m.csv")
    side = (tmp_path / "m.conventions.json").rename(tmp_path / "elsewhere.json")
    with pytest.raises(ArgumentError, match="conventions beside it"):
        read_table(path)
    side.rename(tmp_path / "m.conventions.json")
    read_table(path)  # the remedy


@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_no_export_is_refused_in_one_sentence(tmp_path, ending):
    read = read_arrays if ending == "npz" else read_table
    path = tmp_path / f"m.{ending}"
    with pytest.raises(ArgumentError, match="does not exist"):
        read(path)
    path.write_text("no such thing")
    (tmp_path / "m.conventions.json").write_text("{}")
    with pytest.raises(ArgumentError, match="cannot be read"):
        read(path)


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_a_table_of_differences_can_be_exported_too_with_what_is_resolved(record, tmp_path, ending):
    frame = record.contrast("trained", "ablated-mlp")
    frame["resolved"] = pd.array([True, False, None, *[True] * (len(frame) - 3)], dtype="boolean")
    back = read_table(write_table(frame, frame.attrs, tmp_path / f"differences.{ending}"))
    pd.testing.assert_frame_equal(back.frame, frame, check_exact=True)
    assert back.conventions == frame.attrs


def test_the_dataset_handed_out_is_ones_own(record):
    handed = record.to_xarray()
    xr.testing.assert_equal(handed, record.dataset)
    assert json.loads(handed.attrs["study"]) == record.study
    handed["loss"][:] = math.nan
    assert not record.dataset["loss"].isnull().any()


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_a_simulation_leaves_as_a_table_over_time_with_its_intervals(ending, tmp_path):
    from simulated_record import simulated

    record = simulated("sphere")
    frame = record.to_dataframe()
    written = getattr(record, f"to_{ending}")(tmp_path / f"run.{ending}")
    found = read_table(written)
    pd.testing.assert_frame_equal(found.frame, frame, check_dtype=False)
    assert found.conventions["study"]["kind"] == "simulation" and "n" not in found.conventions["columns"]
    here = frame[(frame["measurement"] == "mean_overlap") & (frame["preparation"] == "normalize")]
    values = record.dataset["mean_overlap after normalize"].values
    assert here["time"].tolist() == record.dataset["time"].values.tolist()
    assert np.allclose(here["value"], values.mean(0)) and (here["low"] <= here["value"]).all()
    assert (here["starts"] == len(values)).all()


def test_every_start_of_a_simulation_is_a_row_of_the_finer_table_and_arrays_come_whole(tmp_path):
    from simulated_record import simulated

    record = simulated("causal")
    each = record.to_dataframe("document")
    row = each[(each["measurement"] == "smallest_overlap") & (each["start"] == 2)]
    assert np.allclose(row["value"], record.dataset["smallest_overlap after normalize"].values[2])
    back = read_arrays(record.to_npz(tmp_path / "run.npz"))
    assert np.array_equal(back.dataset["states"].values, record.dataset["states"].values)
    assert "3 starts of 6 tokens" in repr(record)
