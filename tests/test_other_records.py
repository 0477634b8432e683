"""Records that are not about documents say what they are, refuse what they have not, and stand on no page of two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from armillary.cli import terminal
from armillary.cli.refusals import with_options
from armillary.cli.report import report
from armillary.errors import ArgumentError, Interrupted
from armillary.records.record import Record
from sample_record import sample_dataset, sample_provenance, sample_study

KINDS = ("training", "diagnosis")


def other(folder: Path, kind: str) -> Record:
    numbers = xr.Dataset({"loss": (("recipe", "seed"), np.array([[1.0, 2.0], [3.0, 5.0]]))})
    return Record.write(folder / kind, {"kind": kind, "level": 0.95, "resamples": 2000, "seed": 0}, {}, numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_documents_says_what_it_is(kind: str, tmp_path: Path) -> None:
    record = other(tmp_path, kind)
    assert f"{kind}, 1 measurements over 2 recipe, 2 seed" in repr(record)
    assert kind in record._repr_html_()


@pytest.mark.parametrize(
    "asked",
    [
        lambda record: record.condition("trained"),
        lambda record: record.methods(),
        lambda record: record.columns,
        lambda record: record.to_dataframe(),
        lambda record: record.to_dataframe("document"),
        lambda record: record.contrast("trained", "ablated-mlp"),
    ],
)
def test_what_a_record_without_documents_has_not_is_refused_and_the_remedy_works(asked, tmp_path: Path) -> None:
    record = other(tmp_path, "training")
    with pytest.raises(ArgumentError, match=r"the training in .* holds none.*to_xarray.*--format npz"):
        asked(record)
    assert record.to_xarray()["loss"].values[1, 1] == 5.0
    assert np.load(record.to_npz(tmp_path / "a.npz"))["loss"][1, 1] == 5.0


@pytest.mark.parametrize("kind", ["resistance", "audit", "phase", *KINDS])
def test_records_with_a_page_of_another_kind_stand_on_no_page_of_two(kind: str, tmp_path: Path) -> None:
    for name, words in (("a", "laboratory"), ("b", kind)):
        Record.write(tmp_path / name, sample_study() | {"kind": words}, sample_provenance(), sample_dataset())
    with pytest.raises(ArgumentError, match=r"b is an? .* Draw it alone"):
        report([tmp_path / "a", tmp_path / "b"], out=tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(("parts", "offered"), [("documents", True), ("cells", True), ("", False)])
def test_an_interrupt_offers_the_unfinished_record_only_where_it_can_be_read(
    parts: str, offered: bool, tmp_path: Path
) -> None:
    (tmp_path / "run.partial").mkdir()
    with (
        pytest.raises(Interrupted, match="Run the same command again") as caught,
        terminal.interruptible(tmp_path / "run", parts=parts),
    ):
        raise KeyboardInterrupt
    assert ("armillary report" in str(caught.value)) is offered


@pytest.mark.parametrize("command", ["lab", "simulate", "phase", "resist", "diagnose", "train"])
def test_a_command_that_writes_a_record_calls_its_folder_out(command: str) -> None:
    assert with_options("Argument `path` must be a new folder.", [command]) == "Argument `--out` must be a new folder."
