"""A diagram whose run, worker or disk dies ends with every cell once and with the bits of a run that never stopped."""

import errno
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from armillary.errors import ArgumentError, CheckMissed, DiskError
from armillary.records import journal
from armillary.records.cells import finished_cells
from armillary.records.record import Record
from armillary.report import write_report
from armillary.studies.backend import Backend
from armillary.studies.diagram import work
from armillary.studies.diagram.declaration import Axis
from armillary.studies.diagram.run import Diagram
from armillary.studies.diagram.work import measured_cell
from armillary.studies.phase import group_count
from armillary.studies.phase.perspective import PRESET
from killed_runs import resumed_after_kills
from mean_length import GRID
from mean_length import PRESET as SMALL

MOVING = replace(
    PRESET.quick,
    axes=(Axis("beta", (0.5, 2.0, 4.0, 9.0), "beta"), Axis("dim", (2, 3, 12), "dimension d")),
    seeds=3,
    along=(Axis("time", (1.0, 5.0, 20.0), "time s"),),
    fixed={**PRESET.quick.fixed, "tokens": 8},
)


SUMS = [
    "all pairs of overlaps, in the compiled engine, rounding",  # more dimensions than tokens
    "pairs, in the compiled engine, relative error 1e-13",
]


def moving(**changes):
    """A small diagram of real flows."""
    return Diagram(**{"preset": PRESET, "grid": MOVING, "size": "small", **changes})


def small(**changes):
    return Diagram(**{"preset": SMALL, "grid": GRID, "size": "small", **changes})


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return moving().run(tmp_path_factory.mktemp("alone") / "record")


class Stopped(Exception):
    """What stops a run in these tests."""


def cut_short(folder, cells, study=small):
    """Run until so many cells are finished, and stop there; the journal that is left."""

    def stop(words, *_):
        if words.startswith(f"{cells} of"):
            raise Stopped

    with pytest.raises(Stopped):
        study().run(folder, progress=stop)
    return journal.partial_of(folder)


def test_two_processes_end_with_the_bits_of_one(alone, tmp_path):
    told = []
    found = moving().run(
        tmp_path / "record", backend=Backend("processes", workers=2), progress=lambda *one: told.append(one)
    )
    assert found.measurements_hash == alone.measurements_hash and found.study == alone.study
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][0].startswith("12 of 12 cells") and told[-1][1] == told[-1][2]


def test_a_killed_worker_of_a_dask_cluster_of_two_is_survived(alone, tmp_path):
    distributed = pytest.importorskip("distributed")
    killed, told = [], []
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")

        def kill_one(words, *_):
            told.append(words)
            if not killed and not words.startswith("0 of"):
                with distributed.Client(address, set_as_default=False) as client:
                    killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        found = moving().run(tmp_path / "record", backend=Backend("dask", address=address), progress=kill_one)
    assert killed and found.measurements_hash == alone.measurements_hash
    assert found.provenance["summation"] == alone.provenance["summation"] == SUMS
    assert [words.split(",")[0] for words in told] == [f"{done} of 12 cells" for done in range(13)]


def test_an_adaptive_cluster_that_starts_at_no_worker_gets_one_for_what_is_submitted(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=0, **options) as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        found = small().run(tmp_path / "record", backend=Backend("dask", address=cluster.scheduler_address))
    assert found.measurements_hash == small().run(tmp_path / "here").measurements_hash


def test_a_record_and_its_page_name_every_sum_that_ran_whatever_was_resumed(alone, tmp_path):
    cut_short(tmp_path / "record", 5, study=moving)
    found = moving().run(tmp_path / "record")
    assert found.provenance["summation"] == alone.provenance["summation"] == SUMS
    assert found.measurements_hash == alone.measurements_hash
    page = write_report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(one in page for one in SUMS)
    sizes = (Axis("beta", (10.0,), "beta"), Axis("start", ("random",), "start"), Axis("tokens", (1100,), "tokens"))
    many = replace(group_count.PRESET.quick, axes=sizes, seeds=2, along=(Axis("time", (0.5, 1.0), "time s"),))
    found = Diagram(preset=replace(group_count.PRESET, findings=None), grid=many, size="small").run(tmp_path / "circle")
    (only,) = found.provenance["summation"]  # one sentence for two seeds: their counts are left out
    assert only.startswith("circle with") and only.endswith("x max Z / Z_i")


def test_a_run_that_is_killed_at_any_moment_goes_on_and_ends_with_the_same_bits(tmp_path):
    assert resumed_after_kills("test_phase_runs", "small", tmp_path, kills=12) > 3


def test_a_resumed_run_measures_only_what_is_missing(tmp_path, monkeypatch):
    partial = cut_short(tmp_path / "record", 4)
    assert len(finished_cells(journal.Journal(partial))) == 4
    measured, notices = [], []
    plain = work._checked
    monkeypatch.setattr(work, "_checked", lambda *given: measured.append(given[2]) or plain(*given))
    found = small().run(tmp_path / "record", notice=notices.append)
    assert len(measured) == 2
    assert notices == [f"Going on with the run in {partial}: 4 of 6 cells are finished."]
    assert found.measurements_hash == small().run(tmp_path / "whole").measurements_hash
    assert not partial.exists()


def test_what_is_finished_can_be_read_and_drawn_before_the_run_has_ended(tmp_path):
    partial = cut_short(tmp_path / "record", 4)
    found = Record.open(partial)
    assert found.provenance["partial"] == {"cells": 4, "of": 6}
    assert np.isfinite(found.dataset["squared_mean"].values).all(axis=-1).sum() == 4
    assert len(found.to_dataframe().dropna(subset="value")) == 4 + 4 * 3
    page = write_report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 of 6 cells are finished" in page
    with pytest.raises(ArgumentError, match="is not finished"):
        Record.open(tmp_path / "record")


def test_a_run_with_other_choices_is_not_gone_on_with(tmp_path):
    cut_short(tmp_path / "record", 2)
    with pytest.raises(ArgumentError, match="was begun with seeds 20 and this one has 21"):
        small(grid=replace(GRID, seeds=21)).run(tmp_path / "record")
    with pytest.raises(ArgumentError, match="was begun with code"):
        small(preset=replace(SMALL, measure=measured_cell)).run(tmp_path / "record")


def test_two_runs_on_one_record_are_one_sentence_and_nothing_is_lost(tmp_path):
    refused = pytest.raises(ArgumentError, match=f"process {os.getpid()} on .* is writing")
    with journal.Journal.held(tmp_path / "record"), refused:
        small().run(tmp_path / "record")
    assert small().run(tmp_path / "record").study["cells"] == 6


def test_a_full_disk_is_one_sentence_and_the_finished_cells_are_kept(tmp_path, monkeypatch):
    plain, written = journal._write, []

    def full(path, content):
        written.append(path.name)
        if sum(name.startswith("cell-") for name in written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        plain(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write", full)
        with pytest.raises(DiskError, match="it goes on from what is finished"):
            small().run(tmp_path / "record")
    notices = []
    found = small().run(tmp_path / "record", notice=notices.append)
    assert "3 of 6 cells" in notices[0]
    assert found.measurements_hash == small().run(tmp_path / "whole").measurements_hash


def test_a_worker_with_another_processor_stops_the_run():
    cell = GRID.cells[0]
    with pytest.raises(CheckMissed, match="Every worker must have the processor another"):
        measured_cell(SMALL.measure, SMALL.results, cell, (0,), 0, "another")
