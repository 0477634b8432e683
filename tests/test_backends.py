"""Chunks spread over processes end in the same bits, whatever the number of workers and whichever of them dies."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pickle
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
import xarray as xr

from armillary.errors import ArgumentError, CheckMissed, NumericalError, WorkersLost
from armillary.models.anatomy import weight_hash
from armillary.models.conditions import Ablated, Initial, Trained
from armillary.models.decoder import load_decoder
from armillary.models.documents import Documents
from armillary.observables.alignment import mean_overlap, smallest_overlap
from armillary.observables.declaration import Observable
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.studies import backend, origin, run, station
from armillary.studies.backend import Backend
from armillary.studies.laboratory import Laboratory
from tiny import saved, tiny_decoder, tiny_ids, tiny_model

MEASUREMENTS = (
    mean_overlap.after("normalize"),
    smallest_overlap.after("center", "normalize"),
    participation_rank.after("corpus mean", "normalize"),
)


def documents(seed: int = 0, count: int = 6) -> Documents:
    return Documents.from_token_ids(
        tiny_ids(documents=count, tokens=12, seed=seed), [f"{seed}, {k}" for k in range(count)]
    )


def study(decoder: Any) -> Laboratory:
    conditions = [Trained(), Initial(seed=1, recipe="library"), Ablated("mlp")]
    return Laboratory(
        decoder, documents(), conditions, MEASUREMENTS, layers=[0, 4], calibration=documents(9, 2), batch_size=2
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model("llama"), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return study(load_decoder(folder)).run(tmp_path_factory.mktemp("alone") / "record")


def test_two_processes_end_with_the_bits_of_one_for_a_model_from_a_folder_and_for_a_model_object(
    folder: Path, alone: Record, tmp_path: Path
) -> None:
    told: list[Any] = []
    found = study(load_decoder(folder)).run(
        tmp_path / "loaded", backend=Backend("processes", workers=2), progress=lambda *one: told.append(one)
    )
    xr.testing.assert_identical(found.dataset, alone.dataset)
    assert found.measurements_hash == alone.measurements_hash and found.study == alone.study
    assert found.provenance["conditions"] == alone.provenance["conditions"]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told) and told[-1][1:] == (24, 24)
    copied = study(tiny_decoder("llama")).run(tmp_path / "copied", backend=Backend("processes", workers=2))
    xr.testing.assert_equal(copied.dataset, alone.dataset)


class TerminatedWorkerError(Exception):
    """As joblib calls it."""


def test_what_lost_workers_were_doing_is_done_again_and_workers_lost_again_and_again_end_the_run(
    alone: Record, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, lost = [], [3]

    @contextlib.contextmanager
    def parallel(_: Any) -> Iterator[Any]:
        def here(given: Any) -> Iterator[Any]:
            for number, (function, arguments, _) in enumerate(given):
                if number == 1 and lost[0] > 0:
                    lost[0] -= 1
                    raise TerminatedWorkerError
                calls.append(1)
                yield function(*arguments)

        yield here

    monkeypatch.setattr(Backend, "_parallel", parallel)
    found = study(load_decoder(folder)).run(tmp_path / "record", backend=Backend("processes", workers=2))
    assert len(calls) == 3 + 9 and lost == [0]
    assert found.measurements_hash == alone.measurements_hash

    @contextlib.contextmanager
    def hopeless(_: Any) -> Iterator[Any]:
        def here(given: Any) -> Iterator[Any]:
            raise TerminatedWorkerError
            yield

        yield here

    monkeypatch.setattr(Backend, "_parallel", hopeless)
    with pytest.raises(WorkersLost, match="3 times in a row"):
        study(load_decoder(folder)).run(tmp_path / "another", backend=Backend("processes", workers=2))


def test_calls_that_come_back_without_what_they_were_made_for_end_the_run_and_not_in_a_circle() -> None:
    found: list[float] = []
    with pytest.raises(WorkersLost, match="1 are still to be made"):
        Backend("processes", 1).each(math.sqrt, lambda: [(4.0,)], found.append)
    assert found == [2.0]


def test_a_killed_worker_of_a_dask_cluster_is_survived(folder: Path, alone: Record, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    killed = []
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")

        def kill_one(*_: Any) -> None:
            if not killed:
                with distributed.Client(address, set_as_default=False) as client:
                    killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        found = study(load_decoder(folder)).run(
            tmp_path / "record", backend=Backend("dask", address=address), progress=kill_one
        )
    assert killed and found.measurements_hash == alone.measurements_hash


def test_a_worker_with_other_weights_or_another_processor_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    errand = run._Run(study(tiny_decoder("llama")), None, None).errand()  # type: ignore[arg-type]
    same = {"weight_hash": errand.weight_hash, "processor": errand.processor}
    station.require_same(tiny_decoder("llama"), **same)
    with pytest.raises(CheckMissed, match="Every worker must load the weights of hash"):
        station.require_same(tiny_decoder("llama", seed=1), **same)
    monkeypatch.setattr(origin, "processor", lambda: "another")
    with pytest.raises(CheckMissed, match="Every worker must have the processor"):
        station.require_same(tiny_decoder("llama"), **same)


def test_trouble_in_a_worker_is_the_sentence_it_would_be_here(tmp_path: Path) -> None:
    decoder = tiny_decoder("llama")
    giant = int(documents().token_ids[3, 1])
    decoder.embedding.weight.data[giant] = float("nan")
    decoder = dataclasses.replace(
        decoder, facts=dataclasses.replace(decoder.facts, weight_hash=weight_hash(decoder.model))
    )
    with pytest.raises(NumericalError, match="NaN in condition trained, layer 0"):
        study(decoder).run(tmp_path / "record", backend=Backend("processes", workers=2))


def test_observables_go_to_another_process_by_name_and_come_back_themselves() -> None:
    from armillary.observables.attention_maps import attention_entropy
    from armillary.observables.correspondence import linear_cka, neighbor_overlap

    for declared in (mean_overlap, attention_entropy, linear_cka):
        assert pickle.loads(pickle.dumps(declared)) is declared
    nearest = neighbor_overlap(k=3).after("normalize")
    first, second = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(1))
    assert cloudpickle.loads(cloudpickle.dumps(nearest))(first, second) == nearest(first, second)
    own = Observable(
        "spread", "s", "largest minus smallest", "here", lambda pairs: pairs.amax(-1) - 1.0, "pairs", "never", True
    )
    copied = cloudpickle.loads(cloudpickle.dumps(own.after("normalize")))
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert copied == own.after("normalize") and copied(rows) == own.after("normalize")(rows)


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"kind": "threads"}, "one of here, processes, dask, ray, but is 'threads'"),
        ({"kind": "processes", "workers": 0}, "at least 1"),
        ({"kind": "here", "workers": 2}, 'Use backend "processes" for more'),
        ({"kind": "processes", "address": "here:1"}, 'Use backend "dask" for a cluster'),
    ],
)
def test_a_backend_that_cannot_be_is_refused(options: dict[str, Any], got: str) -> None:
    with pytest.raises(ArgumentError, match=got):
        Backend(**options)


def test_a_backend_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"needs ray\. Run `pip install ray`"):
        Backend("ray")
    with pytest.raises(ArgumentError, match=r"needs distributed\. Run `pip install armillary\[dask\]`"):
        Backend("dask")


def test_a_scheduler_that_does_not_answer_is_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(backend, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes the call and never says a word
        for address in (f"127.0.0.1:{mute.getsockname()[1]}", "127.0.0.1:9", "127.0.0.1:99999", "no port", "", "x://y"):
            with pytest.raises(ArgumentError, match=rf"none answers at '{re.escape(address)}'"):
                study(load_decoder(folder)).run(tmp_path / "record", backend=Backend("dask", address=address))
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_without_workers_is_waited_for_and_said_so(
    folder: Path, alone: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(backend, "_COMING", 0.2)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, silence_logs=50) as idle:
        told: list[str] = []

        def started(sentence: str) -> None:
            told.append(sentence)
            idle.scale(1)  # what the sentence names, done

        there = Backend("dask", address=idle.scheduler_address, notice=started)
        found = study(load_decoder(folder)).run(tmp_path / "record", backend=there)
    assert found.measurements_hash == alone.measurements_hash
    assert len(told) == 1 and "waiting for the first one" in told[0] and f"`dask worker {there.address}`" in told[0]


def test_workers_of_its_own_that_never_start_are_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(backend, "_COMING", 0.2)
    idle = distributed.LocalCluster
    monkeypatch.setattr(distributed, "LocalCluster", lambda **given: idle(**{**given, "n_workers": 0}))
    with pytest.raises(WorkersLost, match=r"none did within 0\.2 seconds\. Ask for fewer"):
        study(load_decoder(folder)).run(tmp_path / "record", backend=Backend("dask", workers=2))
    assert list(tmp_path.iterdir()) == []
