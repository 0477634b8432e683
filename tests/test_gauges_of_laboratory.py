"""A laboratory puts the re-parametrizations of its decoder beside its transformations, and its page tells of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import xarray as xr

import armillary as am
import tiny
from armillary.models.documents import Documents
from armillary.models.gauges.listing import controls, gauges
from armillary.records.gauged import GaugedNumbers
from armillary.records.record import Record
from armillary.report.page import write_report
from armillary.studies import gauged, run
from armillary.studies.gauged import memory_of_gauges
from armillary.studies.laboratory import Laboratory

MEASUREMENTS = (am.mean_overlap.after("normalize"), am.participation_rank.after("corpus mean", "normalize"))
CHOSEN = ("fold-gains", "rotation", "key-bias")


def documents(seed: int = 0, count: int = 3) -> Documents:
    titles = [f"{seed}, {k}" for k in range(count)]
    return Documents.from_token_ids(tiny.tiny_ids(documents=count, tokens=10, seed=seed), titles)


def study(decoder: Any = None, **changed: Any) -> Laboratory:
    chosen: dict[str, Any] = {"measurements": MEASUREMENTS, "layers": [0, 1, 2], "calibration": documents(9, 2)}
    chosen |= {"gauges": CHOSEN, "batch_size": 2}
    decoder = tiny.tiny_decoder("llama", layers=2) if decoder is None else decoder
    return Laboratory(decoder, documents(), [am.Trained()], **(chosen | changed))


def page_of(record: Record, path: Path) -> str:
    html = re.sub(r"<style.*?</style>|<script.*?</script>", " ", write_report(record, path).read_text(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def held(record: Record) -> GaugedNumbers:
    found = GaugedNumbers.of(record.dataset)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return study().run(tmp_path_factory.mktemp("whole") / "record")


def test_a_laboratory_tries_every_gauge_that_its_decoder_admits_unless_told_otherwise(tmp_path: Path) -> None:
    record = study(gauges=("all",), calibration=None, measurements=MEASUREMENTS[:1]).run(tmp_path / "record")
    found = held(record)
    assert set(found.under) | set(found.refused) == set(gauges()) and not found.failed
    assert record.study["gauges"] == ["all"] == list(Laboratory.gauges)


def test_the_record_holds_what_the_study_of_gauges_gives_at_the_layers_of_the_statement(whole: Record) -> None:
    found = held(whole)
    few = documents().token_ids[:2]
    chosen = {name: gauges(seed=0)[name] for name in CHOSEN}
    expected = am.numbers_under(study().decoder, few, chosen, layers=(1, 2), measurements=MEASUREMENTS[:1])
    assert found.titles == ("0, 0", "0, 1") and found.tokens == 10
    assert list(found.under) == ["fold-gains", "rotation"] and "rotary" in found.refused["key-bias"]
    choices = {"level": 0.95, "resamples": 200, "seed": 0}
    assert found.rows(**choices) == expected.rows(**choices)
    assert set(whole.dataset["statement_layer"].values) == {one.layer for one in found.numbers}


def test_the_page_has_a_column_for_each_gauge_the_words_and_the_refusals(whole: Record, tmp_path: Path) -> None:
    text = page_of(whole, tmp_path / "page.html")
    assert (
        "unmoved by every listed re-parametrization that leaves the function unchanged: stream (1 of 3 numbers)" in text
    )
    assert "These depend on a basis that training happened to choose: stream, share of the largest coordinate" in text
    assert re.search(
        r"gain of the next norm diagonal matrices, one factor a coordinate fold-gains leaves the function unchanged rotation leaves the",
        text,
    )
    assert "verified on 2 documents of 10 tokens" in text and "key-bias: rotary positions" in text
    assert "not tried" in text  # a calibrated view has a row and was not put under a gauge
    assert "proved and survived" in text and "after the next norm" in text
    assert "Which numbers survive which re-parametrization" in text  # the heat map beside the one of transformations


def test_a_gauge_that_moves_the_outputs_stands_on_the_page_as_not_verified_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"wrong": controls()["rotation-without-folding"], "rotation": gauges()["rotation"]}
    monkeypatch.setattr(gauged, "named_gauges", lambda *_, **__: wrong)
    record = study().run(tmp_path / "record")
    found = held(record)
    assert list(found.under) == ["rotation"] and re.search(r"logits move by \d", found.failed["wrong"])
    text = page_of(record, tmp_path / "page.html")
    assert "Not verified: these moved the outputs of this decoder" in text and "wrong: rotation-without-fold" in text
    monkeypatch.setattr(gauged, "named_gauges", lambda *_, **__: {"wrong": wrong["wrong"]})
    alone = study().run(tmp_path / "alone")
    assert held(alone).failed and not held(alone).under
    assert "Not verified" in page_of(alone, tmp_path / "alone.html")


def test_half_precision_is_refused_with_the_reason_and_the_laboratory_goes_on(tmp_path: Path) -> None:
    model = tiny.tiny_model("llama", layers=2).to(torch.bfloat16)
    record = study(am.decoder_from_model(model)).run(tmp_path / "record")
    assert GaugedNumbers.of(record.dataset) is None
    assert "own rounding hides any difference" in record.provenance["gauges_not_measured"]
    assert "not measured, since Argument `dtype` must be float32" in page_of(record, tmp_path / "page.html")


def test_none_are_tried_where_none_are_asked_for_and_old_records_say_why_they_have_none(
    whole: Record, tmp_path: Path
) -> None:
    record = study(gauges=()).run(tmp_path / "record")
    assert GaugedNumbers.of(record.dataset) is None and record.study["gauges"] == []
    text = page_of(record, tmp_path / "page.html")
    assert "left out of this run (--gauges none)" in text and "listed transformation that a re-param" in text
    older = {key: value for key, value in record.study.items() if key != "gauges"}
    before = Record.write(tmp_path / "older", older, record.provenance, record.dataset)
    assert "older than those of a laboratory" in page_of(before, tmp_path / "older.html")
    kept = whole.dataset.drop_vars([name for name in whole.dataset.variables if str(name).startswith("gauge")])
    xr.testing.assert_identical(record.dataset, kept)  # the other numbers have the same bits


def test_a_run_cut_short_at_its_gauges_goes_on_with_the_same_bits(
    whole: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run, "under_gauges", cut)
        with pytest.raises(KeyboardInterrupt):
            study().run(tmp_path / "record")
    partial = Record.open(tmp_path / "record.partial")
    assert GaugedNumbers.of(partial.dataset) is None
    assert "not measured yet" in page_of(partial, tmp_path / "partial.html")
    found = study().run(tmp_path / "record")
    xr.testing.assert_identical(found.dataset, whole.dataset)
    assert found.measurements_hash == whole.measurements_hash


def test_a_limit_of_memory_that_no_copy_in_float64_keeps_to_leaves_gauges_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = study(memory_limit=2**30)
    assert memory_of_gauges(study(gauges=())) == 0 < memory_of_gauges(asked) < 2**30
    assert held(asked.run(tmp_path / "enough")).under
    monkeypatch.setattr(gauged, "memory_of_gauges", lambda _: 2**31)
    record = asked.run(tmp_path / "little")
    assert "takes about 2048MiB, and `memory_limit` allows 1024MiB" in record.provenance["gauges_not_measured"]


def test_an_unknown_gauge_is_refused_and_the_remedy_works() -> None:
    with pytest.raises(am.ArgumentError, match=r"there is no 'spin'\. Choose among .*, or all"):
        study(gauges=("spin",))
    assert study(gauges=("all",)).gauges == ("all",)
