"""A record is written whole or not at all, read back without loss, and answers with intervals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from armillary.errors import ArgumentError, UnsoundError
from armillary.estimates import contrast
from armillary.records.record import FORMAT, Record
from sample_record import (
    BLOCKS,
    CONDITIONS,
    DOCUMENTS,
    LAYERS,
    sample_dataset,
    sample_provenance,
    sample_record,
    sample_study,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return Record.open(sample_record(tmp_path_factory.mktemp("records") / "lab"))


def write(path: Path, **changes: object) -> Record:
    parts = {"study": sample_study(), "provenance": sample_provenance(), "dataset": sample_dataset(), **changes}
    return Record.write(path, parts["study"], parts["provenance"], parts["dataset"])


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_record_comes_back_as_it_was_written(record):
    assert record.study == sample_study()
    assert record.provenance == sample_provenance()
    expected = sample_dataset()
    xr.testing.assert_identical(record.dataset.drop_vars("bin"), expected.drop_vars("bin"))
    assert np.array_equal(record.dataset["bin"].attrs["edges"], expected["bin"].attrs["edges"])
    for name in expected.variables:
        assert record.dataset[name].dtype == expected[name].dtype


def test_flags_missing_values_mappings_and_half_precision_survive(tmp_path):
    attributes = {"flag": True, "missing": None, "nested": {"a": [1, {"b": None}]}, "one": ["x"], "empty": "",
                  "text": "json:[1]", "count": 3, "share": 0.25, "greek": "β ≤ 1"}  # fmt: skip
    dataset = xr.Dataset(
        {
            "flags": ("document", np.array([True, False, True]), attributes),
            "half": ("document", np.array([0.1, np.nan, 2.0], dtype=np.float16)),
            "counts": ("document", np.array([1, 2, 2**60])),
            "seconds": ("document", np.array([1.5, np.nan, 3.0]), {"units": "seconds"}),
        },
        coords={"document": ["a", "ß", ""]},
        attrs=attributes,
    )
    back = Record.open(write(tmp_path / "r", dataset=dataset).path).dataset
    xr.testing.assert_identical(back, dataset)
    assert {name: back[name].dtype for name in back.data_vars} == {n: dataset[n].dtype for n in dataset.data_vars}
    assert back.attrs["flag"] is True and type(back.attrs["count"]) is int
    assert "half_precision" not in dataset["half"].attrs  # the caller's dataset is left alone


def test_netcdf_attributes_are_only_text_and_numbers(tmp_path):
    dataset = sample_dataset().assign_attrs(flag=True, missing=None, nested={"a": 1})
    plain = xr.load_dataset(write(tmp_path / "r", dataset=dataset).path / "measurements.nc", engine="h5netcdf")
    for holder in (plain, *plain.variables.values()):
        for value in holder.attrs.values():
            assert isinstance(value, str | int | float | np.number | np.ndarray)


def test_what_is_missing_is_null_in_strict_json(tmp_path):
    folder = write(tmp_path / "r", provenance={"spread": math.nan, "bound": math.inf, "of": (1, np.float32(0.5))}).path
    text = (folder / "provenance.json").read_text()

    def no_constants(token: str) -> None:
        raise AssertionError(token)

    read = json.loads(text, parse_constant=no_constants)
    assert (read["spread"], read["bound"], read["of"]) == (None, "inf", [1, 0.5])
    assert read["record"]["format"] == FORMAT


def test_a_choice_that_toml_cannot_hold_is_refused_by_name(tmp_path):
    with pytest.raises(ArgumentError, match=r"study\.layers.*None"):
        write(tmp_path / "r", study={**sample_study(), "layers": None})
    assert left_in(tmp_path) == []
    write(tmp_path / "r", study={**sample_study(), "layers": "all"})  # the remedy


def test_a_name_with_a_slash_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="without a slash"):
        write(tmp_path / "r", dataset=sample_dataset().rename(loss="loss/nats"))
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("call", [Record.require_new, write])
def test_an_existing_path_is_refused_and_left_as_it_is(tmp_path, call):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    with pytest.raises(ArgumentError, match=r"exists\. Name another"):
        call(tmp_path / "taken")
    assert left_in(tmp_path) == ["taken"] and (tmp_path / "taken" / "thesis.txt").read_text() == "mine"
    write(tmp_path / "another")  # the remedy


@pytest.mark.parametrize("call", [Record.require_new, write])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, call):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="folder that can be written"):
        call(tmp_path / "file" / "deeper" / "record")
    assert left_in(tmp_path) == ["file"]


def test_asking_for_a_new_path_leaves_nothing_behind(tmp_path):
    Record.require_new(tmp_path / "runs" / "first" / "lab")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("trouble", [OSError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch, trouble):
    def broken(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr(xr.Dataset, "to_netcdf", broken)
    with pytest.raises(trouble):
        write(tmp_path / "runs" / "lab")
    assert left_in(tmp_path) == []


def test_a_written_record_has_three_files_and_the_permissions_of_any_new_folder(tmp_path):
    folder = write(tmp_path / "runs" / "lab").path
    assert left_in(folder) == ["measurements.nc", "provenance.json", "study.toml"]
    (tmp_path / "plain").mkdir()
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert left_in(tmp_path / "runs") == ["lab"]


def test_a_folder_that_is_no_record_is_refused_with_the_reason(tmp_path, record):
    with pytest.raises(ArgumentError, match="does not exist"):
        Record.open(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match="is a file"):
        Record.open(record.path / "study.toml")
    with pytest.raises(ArgumentError, match=r"holds no study\.toml and no provenance\.json"):
        Record.open(tmp_path)


def test_a_record_of_another_format_is_refused_by_its_number(tmp_path):
    folder = sample_record(tmp_path / "lab")
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["record"]["format"] = FORMAT + 1
    (folder / "provenance.json").write_text(json.dumps(provenance))
    with pytest.raises(ArgumentError, match=f"record of format {FORMAT}, but .* says {FORMAT + 1}"):
        Record.open(folder)


@pytest.mark.parametrize("name", ["study.toml", "provenance.json", "measurements.nc"])
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, name):
    folder = sample_record(tmp_path / "lab")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ArgumentError, match="cannot be read"):
        Record.open(folder)


def test_altered_numbers_are_noticed(tmp_path):
    folder = sample_record(tmp_path / "lab")
    dataset = xr.load_dataset(folder / "measurements.nc", engine="h5netcdf")
    dataset["loss"][0, 0] += 1e-9
    dataset.to_netcdf(folder / "measurements.nc", engine="h5netcdf")
    with pytest.raises(ArgumentError, match="not the one it was written with"):
        Record.open(folder)


def test_the_hash_is_of_the_measurements_and_not_of_the_moment(tmp_path, record):
    provenance = {**sample_provenance(), "created": "2031-01-01T00:00:00+00:00"}
    assert write(tmp_path / "later", provenance=provenance).measurements_hash == record.measurements_hash
    other = sample_dataset()
    other["loss"].attrs["definition"] = "perplexity"
    assert write(tmp_path / "other", dataset=other).measurements_hash != record.measurements_hash


def test_rows_are_strict_json_with_exactly_the_documented_keys(record):
    rows = record.rows()
    json.dumps(rows, allow_nan=False)
    keys = [
        "condition",
        "layer",
        "tap",
        "measurement",
        "preparation",
        "tokens",
        "head",
        "value",
        "low",
        "high",
        "level",
        "documents",
    ]
    assert all(list(row) == keys for row in rows)
    identity = [tuple(row[k] for k in keys[:7]) for row in rows]
    assert len(set(identity)) == len(identity)


def rows_of(record: Record, **where: object) -> list[dict[str, object]]:
    return [row for row in record.rows() if all(row[k] == v for k, v in where.items())]


def test_taps_are_in_words(record):
    rows = rows_of(record, measurement="mean_overlap", condition="trained", tokens="all", preparation="normalize")
    taps = {(row["tap"], row["layer"]) for row in rows}
    inner = range(1, BLOCKS + 1)
    assert taps == (
        {("embedding", 0), ("embedding_read", 0), ("final", BLOCKS)}
        | {("block", layer) for layer in inner}
        | {("mid", layer) for layer in inner}
        | {("mid_read", layer) for layer in inner}
        | {("block_read", layer) for layer in range(1, BLOCKS)}
    )


def test_a_row_equals_the_mean_of_its_documents(record):
    row, = rows_of(record, measurement="participation_rank", condition="ablated-mlp", layer=2, tap="mid", tokens="without_first",
                   preparation="normalize")  # fmt: skip
    where = {
        "condition": "ablated-mlp",
        "tap": "mid",
        "layer": 2,
        "tokens": "without_first",
        "preparation": "normalize",
    }
    values = record.dataset["participation_rank"].sel(where).values
    assert row["value"] == pytest.approx(values.mean(), rel=1e-12)
    assert row["low"] < row["value"] < row["high"] and row["documents"] == len(DOCUMENTS)
    found = record.estimate("participation_rank", **where)
    assert [found.value, found.low, found.high] == pytest.approx([row["value"], row["low"], row["high"]], rel=1e-9)


def test_what_is_undefined_in_every_document_is_a_row_without_a_value(record):
    row, = rows_of(record, measurement="participation_rank", condition="ablated-mlp", tap="block", layer=BLOCKS, tokens="all",
                   preparation="center, normalize")  # fmt: skip
    assert (row["value"], row["low"], row["high"], row["documents"]) == (None, None, None, 0)
    with pytest.raises(UnsoundError):
        record.estimate(
            "participation_rank",
            condition="ablated-mlp", layer=BLOCKS, tap="block", tokens="all", preparation="center, normalize",
        )  # fmt: skip


def test_a_document_without_a_number_is_left_out_and_counted(record):
    found = record.estimate(
        "participation_rank",
        condition="initial", layer=BLOCKS - 1, tap="block", tokens="all", preparation="center, normalize",
    )  # fmt: skip
    assert (found.members, found.undefined) == (5, 1)


def test_what_was_not_asked_for_has_no_row(record):
    assert not rows_of(record, measurement="entropy_rank", preparation="as given")
    assert not rows_of(record, measurement="entropy_rank", tap="final")
    assert not rows_of(record, tap="mid", layer=0)
    assert not rows_of(record, measurement="order_parameter_sweep")
    with pytest.raises(ArgumentError, match="must have been measured"):
        record.estimate("entropy_rank", condition="trained", layer=1, preparation="as given")


@pytest.mark.parametrize(
    "axis",
    [
        "tokens",
        "preparation",
        "tap",
    ],
)
def test_a_token_set_a_preparation_and_a_tap_are_never_chosen_for_the_caller(record, axis):
    choices = {"tap": "block", "tokens": "without_first", "preparation": "normalize"}
    chosen = record.sample("mean_overlap", condition="trained", layer=2, **choices)
    assert (chosen.tokens, chosen.preparation) == ("without_first", "normalize")
    left = {key: value for key, value in choices.items() if key != axis}
    with pytest.raises(ArgumentError, match=rf"`{axis}` must be given where more than one") as caught:
        record.sample("mean_overlap", condition="trained", layer=2, **left)
    assert repr(choices[axis]) in str(caught.value), "the remedy lists what was measured"


def test_all_that_is_open_is_asked_for_at_once(record):
    with pytest.raises(ArgumentError, match=r"Arguments? .*`tokens` and `preparation` must be given"):
        record.estimate("mean_overlap", condition="trained", layer=2)


def test_the_only_preparation_and_token_set_that_were_measured_need_not_be_named(tmp_path):
    dataset = sample_dataset()[["mean_overlap"]].sel(tap=["block"], tokens=["without_first"], preparation=["normalize"])
    del dataset["mean_overlap"].attrs["measured"]
    opened = write(tmp_path / "lab", dataset=dataset)
    found = opened.sample("mean_overlap", condition="trained", layer=2)
    assert (found.tokens, found.preparation) == ("without_first", "normalize")
    expected = dataset["mean_overlap"].sel(condition="trained", layer=2).values.ravel()
    assert np.array_equal(found.values, expected)


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ({"measurement": "effective"}, "Ask for one of .*entropy_rank, .*mean_overlap"),
        ({"layer": 99}, "Ask for what was: layer 0 or 1 or 2 or 3 or 4; tap "),
        ({"layer": None}, "Ask for what was: layer 0 or 1 or 2 or 3 or 4; tap "),
        ({"tap": "mid", "layer": 0}, "Ask for what was: tap 'embedding'"),
        ({"tokens": "every"}, "tokens 'all' or 'without_first' or 'without_first_and_massive'"),
        ({"preparation": "centre"}, "preparation .*'normalize'"),
    ],
)
def test_what_was_not_measured_is_answered_with_what_was(record, asked, offered):
    right = {"measurement": "mean_overlap", "layer": 2, "tap": "block", "tokens": "all", "preparation": "normalize"}
    record.sample(condition="trained", **right)
    with pytest.raises(ArgumentError, match=offered):
        record.sample(condition="trained", **{**right, **asked})


def test_without_a_declaration_a_combination_counts_where_a_document_has_a_number(tmp_path):
    dataset = sample_dataset()
    del dataset["participation_rank"].attrs["measured"]
    opened = write(tmp_path / "lab", dataset=dataset)
    where = {"measurement": "participation_rank", "condition": "ablated-mlp", "preparation": "center, normalize"}
    assert {row["layer"] for row in rows_of(opened, **where)} == set(LAYERS) - {BLOCKS}


def test_the_loss_has_a_row_without_a_layer(record):
    rows = rows_of(record, measurement="loss")
    assert [(row["condition"], row["layer"], row["tap"]) for row in rows] == [(c, None, "logits") for c in CONDITIONS]
    assert record.estimate("loss", condition="trained").value == pytest.approx(rows[0]["value"])


def test_sublayer_updates_are_rows_of_their_tap(record):
    rows = rows_of(record, measurement="update_angle", condition="trained", tokens="all")
    assert {(row["tap"], row["layer"]) for row in rows} == {(t, n) for t in ("block", "mid") for n in LAYERS[1:]}


def test_a_contrast_is_the_mean_of_the_documents_differences(record):
    frame = record.contrast("trained", "ablated", "mean_overlap")
    row = frame[
        (frame["place"] == "block_read")
        & (frame["layer"] == 2)
        & (frame["tokens"] == "all")
        & (frame["preparation"] == "normalize")
    ]
    place = {"tap": "block_read", "layer": 2, "tokens": "all", "preparation": "normalize"}
    a, b = (record.dataset["mean_overlap"].sel(condition=c, **place).values for c in ("trained", "ablated-mlp"))
    assert row["value"].item() == pytest.approx((a - b).mean(), rel=1e-12)
    alone = contrast(
        record.sample("mean_overlap", condition="trained", **place),
        record.sample("mean_overlap", condition="ablated-mlp", **place),
        level=0.95, resamples=2000, seed=0,
    )  # fmt: skip
    assert [row["low"].item(), row["high"].item()] == pytest.approx([alone.low, alone.high], rel=1e-9)


def test_a_contrast_of_a_condition_with_itself_is_zero_without_width(record):
    frame = record.contrast("trained", "trained").dropna(subset="value")
    assert (frame[["value", "low", "high"]] == 0.0).all(axis=None)


def test_a_contrast_of_everything_has_one_row_a_place(record):
    frame = record.contrast("trained", "initial-library-seed0")
    paired = [row for row in record.rows() if row["tokens"] != "without_first_and_massive"]
    assert len(frame) == sum(row["condition"] == "trained" for row in paired) < len(record.rows()) / len(CONDITIONS)
    assert set(frame["against"]) == {"initial-library-seed0"}


def test_tokens_that_each_state_chooses_anew_are_not_subtracted_and_the_remedy_works(record):
    frame = record.contrast("trained", "ablated-mlp", "mean_overlap")
    assert set(frame["tokens"]) == {"all", "without_first"}
    place = {"layer": 2, "tap": "block", "preparation": "normalize"}
    choices = {"level": 0.95, "resamples": 2000, "seed": 0}

    def pair(tokens):
        return (record.sample("mean_overlap", condition=c, tokens=tokens, **place) for c in ("trained", "ablated-mlp"))

    with pytest.raises(UnsoundError, match=r"chosen anew in every state.*Use 'without_first' or 'all'"):
        contrast(*pair("without_first_and_massive"), **choices)
    for tokens in ("without_first", "all"):
        contrast(*pair(tokens), **choices)
    with pytest.raises(ArgumentError, match=r"'effective' was not\. Ask for one of .*mean_overlap"):
        record.contrast("trained", "ablated-mlp", "effective")


def test_samples_of_unlike_preparations_or_metrics_are_not_subtracted(record):
    place = {"condition": "trained", "layer": 1, "tap": "block", "tokens": "all", "preparation": "normalize"}
    a = record.sample("mean_overlap", **place)
    for changes, reason in (({"preparation": "center, normalize"}, "preparation"), ({"tap": "block_read"}, "metric")):
        b = record.sample("mean_overlap", **{**place, **changes})
        with pytest.raises(UnsoundError, match=reason):
            contrast(a, b, level=0.95, resamples=2000, seed=0)


@pytest.mark.parametrize("name", ["untrained", "", "Trained"])
def test_a_condition_that_is_unknown_or_ambiguous_is_refused_with_the_names(record, name):
    with pytest.raises(ArgumentError, match="trained, initial-library-seed0, ablated-mlp"):
        record.contrast(name, "trained")


def test_a_beginning_that_two_conditions_have_is_refused_with_their_full_names(tmp_path):
    names = ["trained", "initial-released-seed0", "initial-library-seed0"]
    opened = write(tmp_path / "lab", dataset=sample_dataset().assign_coords(condition=names))
    with pytest.raises(
        ArgumentError, match="'initial' is that of initial-released-seed0, initial-library-seed0"
    ) as caught:
        opened.condition("initial")
    assert "trained" not in str(caught.value)
    assert opened.condition("initial-l") == "initial-library-seed0"  # the remedy, followed


def test_a_sample_names_its_documents_by_the_hash_of_their_ids(record):
    assert record.sample("loss", condition="trained").source == record.provenance["documents"]["token_hash"] != ""


def test_the_tidy_table_of_documents_holds_every_number(record):
    frame = record.to_dataframe("document")
    assert len(frame) == len(record.columns) * len(DOCUMENTS)
    one = frame[(frame["measurement"] == "loss") & (frame["condition"] == "trained")]
    assert one["document"].tolist() == list(DOCUMENTS)
    assert np.array_equal(one["value"], record.dataset["loss"].sel(condition="trained"))


def test_a_record_of_one_document_gives_no_interval(tmp_path):
    opened = write(tmp_path / "lab", dataset=sample_dataset().isel(document=[0]))
    with pytest.raises(UnsoundError, match="spread over"):
        opened.rows()


def test_intervals_follow_the_seed_of_the_study(tmp_path, record):
    other = write(tmp_path / "lab", study={**sample_study(), "seed": 1})
    assert other.rows()[0]["value"] == record.rows()[0]["value"]
    assert other.rows()[0]["low"] != record.rows()[0]["low"]
    assert record.rows() == Record.open(record.path).rows()
