"""A run that is cut short, in whatever way, loses nothing: what is finished is kept, can be read, and is gone on with."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from armillary.errors import ArgumentError, DiskError
from armillary.models.conditions import Ablated, Trained
from armillary.models.documents import Documents
from armillary.observables.alignment import mean_overlap
from armillary.observables.rank import participation_rank
from armillary.records import journal
from armillary.records.record import Record
from armillary.studies import chunk, run
from armillary.studies.laboratory import Laboratory
from killed_runs import resumed_after_kills
from tiny import tiny_decoder, tiny_ids

MEASUREMENTS = (mean_overlap.after("normalize"), participation_rank.after("corpus mean", "normalize"))


def documents(seed: int = 0, count: int = 5, tokens: int = 12) -> Documents:
    titles = [f"set {seed}, document {k}" for k in range(count)]
    return Documents.from_token_ids(tiny_ids(documents=count, tokens=tokens, seed=seed), titles)


def study(**changed: Any) -> Laboratory:
    chosen: dict[str, Any] = {
        "decoder": tiny_decoder("llama"),
        "documents": documents(),
        "conditions": [Trained(), Ablated("mlp")],
        "measurements": MEASUREMENTS,
        "layers": [0, 2, 4],
        "calibration": documents(seed=9, count=2),
        "batch_size": 2,
    }
    return Laboratory(**(chosen | changed))


UNITS = 2 * (1 + 3)  # two conditions, each one calibration and three chunks


def cut_after(units: int) -> Callable[[str, int, int], None]:
    """A progress that interrupts once so many units are finished."""
    left = [units]

    def progress(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    return progress


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return study().run(tmp_path_factory.mktemp("whole") / "record")


def cut_short(path: Path, units: int, **changed: Any) -> Path:
    with pytest.raises(KeyboardInterrupt):
        study(**changed).run(path, progress=cut_after(units))
    return path.with_name(f"{path.name}.partial")


@pytest.mark.parametrize("units", range(1, UNITS + 1))
def test_a_run_cut_short_after_any_unit_goes_on_and_ends_with_the_same_bits(
    units: int, whole: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(tmp_path / "deep" / "record", units)
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["record.partial"]
    measured, told, said = [], [], []
    measure = chunk.Bench.measure
    monkeypatch.setattr(chunk.Bench, "measure", lambda *given: measured.append(1) or measure(*given))
    record = study().run(tmp_path / "deep" / "record", progress=lambda *one: told.append(one), notice=said.append)
    calibrations = 1 + (units > 4)
    chunks = units - calibrations
    floors_to_measure = (units < 2) + (units < 6)  # of a condition, with its first chunk
    assert len(measured) == 6 - chunks + floors_to_measure
    xr.testing.assert_identical(record.dataset, whole.dataset)
    assert record.measurements_hash == whole.measurements_hash
    assert record.study == whole.study
    same = ("conditions", "documents", "calibration", "decoder", "versions")
    assert {key: record.provenance[key] for key in same} == {key: whole.provenance[key] for key in same}
    assert "partial" not in record.provenance
    assert [one.name for one in (tmp_path / "deep").iterdir()] == ["record"]
    assert (
        len(said) == 1
        and f"{2 * calibrations + 2 * min(chunks, 2) + (chunks > 2) + 2 * max(0, min(chunks - 3, 2)) + (chunks > 5)} of 14 passes"
        in said[0]
    )
    assert all(done == total for _, done, total in told[-1:])


def test_what_is_finished_of_a_run_is_a_record_that_says_it_is_partial(whole: Record, tmp_path: Path) -> None:
    partial = cut_short(tmp_path / "record", 4 + 2)  # all of the first condition, calibration and a chunk of the second
    found = Record.open(partial)
    assert found.provenance["partial"] == {"documents": 2, "of": 5, "conditions_without_numbers": []}
    assert found.dataset["document"].values.tolist() == whole.dataset["document"].values[:2].tolist()
    assert found.provenance["documents"]["titles"] == list(documents().titles[:2])
    assert found.provenance["documents"]["token_hash"] == Documents.from_token_ids(documents().token_ids[:2]).hash
    assert found.study["documents"]["count"] == found.provenance["documents"]["documents"] == 2
    for name in ("mean_overlap", "loss", "overlap_histogram", "statement_value"):
        expected = whole.dataset[name].isel(document=slice(0, 2))
        np.testing.assert_array_equal(found.dataset[name].values, expected.values, err_msg=name)
    first = study().run(tmp_path / "first")
    assert first.dataset["mean_direction"].shape == found.dataset["mean_direction"].shape
    assert len(found.contrast("trained", "ablated-mlp", "mean_overlap")) > 0
    with pytest.raises(ArgumentError, match=r"is not finished.*read .*record\.partial"):
        Record.open(tmp_path / "record")


def test_the_mean_direction_of_a_partial_record_is_that_of_its_documents(tmp_path: Path) -> None:
    partial = Record.open(cut_short(tmp_path / "record", 4 + 3))
    fewer = Laboratory(
        tiny_decoder("llama"), documents(count=4), [Trained(), Ablated("mlp")], MEASUREMENTS, layers=[0, 2, 4],
        calibration=documents(seed=9, count=2), batch_size=2,
    ).run(tmp_path / "fewer")  # fmt: skip
    assert len(partial.dataset["document"]) == 4
    xr.testing.assert_equal(partial.dataset["mean_direction"], fewer.dataset["mean_direction"])
    xr.testing.assert_equal(partial.dataset["mean_overlap"], fewer.dataset["mean_overlap"].assign_coords(
        document=partial.dataset["document"]))  # fmt: skip


def test_conditions_without_a_number_are_left_out_and_named(tmp_path: Path) -> None:
    found = Record.open(cut_short(tmp_path / "record", 3))
    assert found.dataset["condition"].values.tolist() == found.study["conditions"] == ["trained"]
    assert found.provenance["partial"] == {"documents": 4, "of": 5, "conditions_without_numbers": ["ablated-mlp"]}


def test_a_run_with_nothing_to_read_yet_says_how_to_go_on(tmp_path: Path) -> None:
    partial = cut_short(tmp_path / "record", 4 + 1, batch_size=1)  # a calibration and four documents
    assert len(Record.open(partial).dataset["document"]) == 4
    lone = cut_short(tmp_path / "lone", 1 + 1, batch_size=1)
    with pytest.raises(ArgumentError, match=r"no two documents yet.*Run the same command again to go on"):
        Record.open(lone)
    assert study(batch_size=1).run(tmp_path / "lone").study["batch_size"] == 1


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "batch size": ({"batch_size": 3}, "batch_size 2 and this one has 3"),
    "conditions": ({"conditions": [Trained()]}, "conditions trained, ablated-mlp and this one has trained"),
    "level": ({"level": 0.9}, r"level 0\.95 and this one has 0\.9\."),
    "threads": ({"threads": 7}, "threads 1 and this one has 7"),
    "documents": ({"documents": documents(seed=1)}, "token hash of the documents"),
    "weights": ({"decoder": tiny_decoder("llama", seed=1)}, "weight hash"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_run_that_differs_from_the_one_begun_is_refused_with_what_differs(case: str, tmp_path: Path) -> None:
    partial = cut_short(tmp_path / "record", 2)
    before = sorted(one.name for one in partial.iterdir())
    changed, named = CHANGES[case]
    with pytest.raises(ArgumentError, match=named):
        study(**changed).run(tmp_path / "record")
    assert sorted(one.name for one in partial.iterdir()) == before
    study(**changed).run(tmp_path / "another")  # the remedy: name another place


def test_a_run_of_other_versions_is_refused_and_so_is_a_journal_of_another_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = cut_short(tmp_path / "record", 2)
    monkeypatch.setattr(run, "versions", lambda: {"python": "3.99"})
    with pytest.raises(ArgumentError, match=r"versions\.python \S+ and this one has 3\.99"):
        study().run(tmp_path / "record")
    monkeypatch.undo()
    content = json.loads((partial / "journal.json").read_text())
    (partial / "journal.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(ArgumentError, match=r"format 1, but .* says 99"):
        study().run(tmp_path / "record")


def test_two_runs_on_one_record_are_one_too_many_and_the_second_is_told_who_writes(tmp_path: Path) -> None:
    refused = []

    def another(*_: Any) -> None:
        if not refused:
            with pytest.raises(ArgumentError, match=f"process {os.getpid()} on .* is writing") as error:
                study().run(tmp_path / "record")
            refused.append(error)
            with pytest.raises(ArgumentError, match="is writing"):
                Record.require_new(tmp_path / "record")

    study().run(tmp_path / "record", progress=another)
    assert refused and [one.name for one in tmp_path.iterdir()] == ["record"]


def test_the_lock_of_a_process_that_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    partial = cut_short(tmp_path / "record", 2)
    (partial / "lock").touch()
    (partial / "holder.json").write_text('{"pid": 1, "host": "elsewhere"}')
    Record.require_new(tmp_path / "record")
    assert study().run(tmp_path / "record").study["batch_size"] == 2


@pytest.mark.parametrize("write", [1, 4, 5, 9, 10, 12])
def test_a_disk_that_fills_up_at_any_write_is_one_sentence_and_nothing_is_lost(
    write: int, whole: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, sync = [write], os.fsync

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="Make room, then run the same command again"):
        study().run(tmp_path / "record")
    monkeypatch.undo()
    kept = list((tmp_path / "record.partial").glob("*.npz")) if (tmp_path / "record.partial").exists() else []
    assert not list(tmp_path.rglob("*.unfinished"))
    assert bool(kept) == (write >= 10)  # two syncs a file: holder, frame, journal, proof, calibration
    assert study().run(tmp_path / "record").measurements_hash == whole.measurements_hash


def test_a_disk_that_fills_up_while_the_record_is_put_together_keeps_every_chunk(
    whole: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = xr.Dataset.to_netcdf

    def full(data: xr.Dataset, path: Path, **options: Any) -> None:
        if Path(path).name == "measurements.nc":
            raise RuntimeError("file write failed: errno = 28, error message = 'No space left on device'")
        written(data, path, **options)

    monkeypatch.setattr("xarray.Dataset.to_netcdf", full)
    with pytest.raises(DiskError):
        study().run(tmp_path / "record")
    monkeypatch.undo()
    assert len(list((tmp_path / "record.partial").glob("0*.npz"))) == UNITS + 2  # and two rounding floors
    monkeypatch.setattr(chunk.Bench, "measure", lambda *_: pytest.fail("measured again"))
    assert study().run(tmp_path / "record").measurements_hash == whole.measurements_hash
    assert [one.name for one in tmp_path.iterdir()] == ["record"]


def test_a_unit_that_the_disk_has_damaged_is_measured_again(whole: Record, tmp_path: Path) -> None:
    partial = cut_short(tmp_path / "record", UNITS - 1)
    unit = partial / "00-0000002.npz"
    content = bytearray(unit.read_bytes())
    content[len(content) // 2] ^= 0xFF
    unit.write_bytes(content)
    (partial / "01-0000000.npz").write_bytes(b"half")
    assert study().run(tmp_path / "record").measurements_hash == whole.measurements_hash


@pytest.mark.parametrize("place", range(4, 30))
def test_a_flipped_bit_anywhere_in_the_head_of_a_unit_is_damage_or_none(place: int, tmp_path: Path) -> None:
    unit = tmp_path / "unit.npz"
    np.savez(unit, a=np.arange(5.0))
    content = bytearray(unit.read_bytes())
    content[place] ^= 0xFF
    unit.write_bytes(content)
    if journal._is_whole(unit):
        with np.load(unit) as stored:
            assert stored["a"].tolist() == [0, 1, 2, 3, 4]


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "record.partial").mkdir()
    (tmp_path / "record.partial" / "mine.txt").write_text("mine")
    with pytest.raises(ArgumentError, match=r"holds mine\.txt"):
        study().run(tmp_path / "record")
    assert [one.name for one in (tmp_path / "record.partial").iterdir()] == ["mine.txt"]
    study().run(tmp_path / "elsewhere")


def test_threads_are_those_of_the_run_begun_and_are_given_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    partial = cut_short(tmp_path / "record", 2, threads=2)
    assert json.loads((partial / "journal.json").read_text())["study"]["threads"] == 2
    assert study().run(tmp_path / "record").study["threads"] == 2
    assert torch.get_num_threads() == before
    assert journal.partial_of(Path("a/b")) == Path("a/b.partial")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied as on POSIX")
def test_a_run_killed_at_ten_random_moments_ends_with_the_same_bits(tmp_path: Path) -> None:
    assert resumed_after_kills("test_journal", "study", tmp_path, kills=10) >= 3
