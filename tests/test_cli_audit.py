"""`armillary audit` as a user meets it: tables, strict JSON, exit codes, one sentence for each trouble."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from armillary import cli
from armillary.errors import ArgumentError
from armillary.figures import drawings
from armillary.figures.registry import reading_of
from armillary.models.documents import Documents
from armillary.observables.claims import Claim
from armillary.observables.declaration import OBSERVABLES, observable
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.report import write_report
from armillary.studies import auditing
from armillary.transformations.linear import Orthogonal
from armillary.transformations.rows import RowScale
from sample_record import sample_record
from simulated_record import simulated
from tiny import saved, tiny_decoder, tiny_ids, tiny_llama

LONG = "words and words and more words, until there are enough of them for any test "


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("places")
    texts = folder / "texts"
    texts.mkdir()
    for k in range(10):
        (texts / f"{k:02}.txt").write_text(f"{k * k} {LONG}")
    return {
        "texts": texts,
        "llama": saved(tiny_llama(), folder / "llama"),
        "lab": sample_record(folder / "lab"),
    }


@pytest.fixture
def armillary(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., SimpleNamespace]:
    """`armillary audit` with these arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: Any) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["armillary", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        seen = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=seen.out, err=seen.err)

    return run


@pytest.fixture
def tiny(places: dict[str, Path]) -> tuple[Any, ...]:
    return ("--model", places["llama"], "--documents", places["texts"], "--max-tokens", 20, "--max-documents", 6)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures: they have a test of their own."""
    monkeypatch.setattr("armillary.cli.audit.drawn", lambda record, quiet: record.path / "report.html")


def test_an_audit_leaves_a_record_and_prints_a_table_for_each_layer(armillary, tiny) -> None:
    seen = armillary(*tiny, "--layers", "0,2", "--out", "record")
    assert seen.code == 0, seen.err
    for part in ("layer 0, 6 documents", "layer 2", "algebraic rank", "proved", "gain of", "linear, k=4", "REFUTED: a"):
        assert part in seen.out
    record = Record.open("record")
    assert record.study["kind"] == "audit" and record.study["layers"] == [0, 2]
    assert {one["group"] for one in record.study["transformations"]} >= {
        "R^d under addition",
        "GL(d), invertible matrices",
    }
    assert list(record.audits()) == [0, 2] and not record.audits()[2].refuted


def test_json_lists_every_pair_with_verdict_numbers_floor_and_reason(armillary, tiny) -> None:
    seen = armillary(*tiny, "--layers", "2", "--transformations", "orthogonal,row-scale", "--json")
    found = json.loads(seen.out)
    rows = found["verdicts"]
    pairs = {(row["measurement"], row["transformation"]) for row in rows}
    numbers = {measurement for measurement, _ in pairs}
    assert len(pairs) == len(rows) == 2 * len(numbers) and {name for _, name in pairs} == {"orthogonal", "row scale"}
    assert all(row["floor"] is not None for row in rows)
    for row in rows:
        assert {"measurement", "verdict", "before", "after", "difference", "low", "high", "floor", "reason"} <= set(row)
    raw = next(
        r for r in rows if r["measurement"] == "participation_rank | as given" and r["transformation"] == "row scale"
    )
    assert raw["verdict"] == "changes" and raw["low"] <= raw["difference"] <= raw["high"] and raw["reason"] is None
    orders = {r["measurement"]: r["verdict"] for r in rows if r["transformation"] == "row scale"}
    assert orders["participation_rank | center, normalize"] == "changes"
    assert orders["participation_rank | normalize, center"] == "proved and survived"
    kept = next(
        r for r in rows if r["measurement"] == "mean_overlap | normalize" and r["transformation"] == "row scale"
    )
    assert kept["verdict"] == "proved and survived" and "divided out" in kept["reason"]


def test_one_transformation_is_printed_with_intervals_and_relative_changes_and_many_say_where_they_stand(
    armillary, tiny
) -> None:
    one = armillary(*tiny, "--layers", "2", "--transformations", "row-scale").out
    assert re.search(r"as given +changes by -?[0-9.]+ \[-?[0-9.]+, -?[0-9.]+\] \([-+][0-9.]+%\)\n", one)
    assert "Intervals and relative" not in one
    many = armillary(*tiny, "--layers", "2", "--out", "other").out
    assert "Intervals and relative changes: on the page, in --json" in many


def test_one_document_gives_verdicts_without_intervals_and_says_so(armillary, tiny) -> None:
    options = [*tiny[:-1], 1]
    seen = armillary(*options, "--layers", "2")
    assert seen.code == 0 and "no change has an interval" in seen.out and "layer 2, 1 document\n" in seen.out
    rows = json.loads(armillary(*options, "--layers", "2", "--out", "other", "--json").out)["verdicts"]
    assert all(row["low"] is None and row["documents"] <= 1 for row in rows)
    assert {"changes", "proved and survived"} <= {row["verdict"] for row in rows}


def test_a_record_of_a_laboratory_is_judged_again_without_its_model(armillary, places) -> None:
    seen = armillary(places["lab"], "--transformations", "gain,orthogonal", "--layers", "2")
    assert seen.code == 0 and "layer 2, 6 documents" in seen.out and "row" not in seen.out.partition("proved: ")[0]
    beyond = armillary(places["lab"], "--layers", "1")
    assert beyond.code == 2 and "must be of 2, 4" in beyond.err and "--model" in beyond.err
    absent = armillary(places["lab"], "--transformations", "mine.npy")
    assert absent.code == 2 and "names mine.npy" in absent.err
    ignored = armillary(places["lab"], "--condition-number", "3")
    assert ignored.code == 2 and "`--condition-number` must be left out with a record" in ignored.err


def test_the_kept_states_of_a_simulation_are_put_on_trial(armillary) -> None:
    record = simulated("circle").path
    seen = armillary(record)
    assert seen.code == 0 and re.search(r"time [0-9.]+, \d+ documents", seen.out) and "mean overlap" in seen.out
    assert armillary(record, "--layers", "0").code == 2


def test_a_refuted_claim_ends_with_exit_code_1_and_names_it(armillary, tiny, monkeypatch) -> None:
    @observable(symbol="x", source="here", claims=[Claim(Orthogonal, "wrong on purpose")])
    def first_coordinate(configuration):
        """Mean of the first coordinate."""
        return configuration[..., 0].mean(-1)

    try:
        monkeypatch.setattr(auditing, "default_measurements", lambda calibrated: (first_coordinate.after(),))
        seen = armillary(*tiny, "--layers", "2", "--transformations", "orthogonal")
        assert seen.code == 1 and "REFUTED" in seen.out
        assert "claims that were refuted: 1" in seen.err and "wrong on purpose" in seen.err
    finally:
        del OBSERVABLES["first_coordinate"]


def test_a_matrix_in_a_file_is_tried_and_a_singular_one_is_refused(armillary, tiny, tmp_path) -> None:
    width = tiny_llama().config.hidden_size
    np.save(tmp_path / "good.npy", np.diag(np.linspace(1, 2, width)))
    np.save(tmp_path / "bad.npy", np.ones((width, width)))
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "good.npy", np.diag(np.linspace(1, 3, width)))
    seen = armillary(*tiny, "--layers", "2", "--transformations", "good.npy,b/good.npy", "--json")
    rows = [row for row in json.loads(seen.out)["verdicts"] if row["measurement"] == "participation_rank | as given"]
    assert [row["transformation"] for row in rows] == ["good.npy", "b/good.npy"]
    assert rows[0]["after"] != rows[1]["after"]
    np.save(tmp_path / "words.npy", np.array([["one", "two"], ["three", "four"]]))
    np.save(tmp_path / "complex.npy", 1j * np.eye(width))
    for name, kind in (("words.npy", "<U5"), ("complex.npy", "complex128")):
        seen = armillary(*tiny, "--transformations", name, "--out", "other")
        assert seen.code == 2 and f"of real numbers, but {name} holds {kind}" in seen.err
    refused = armillary(*tiny, "--layers", "2", "--transformations", "bad.npy", "--out", "other")
    assert refused.code == 2 and "`--transformations` must be invertible" in refused.err
    assert armillary(*tiny, "--transformations", "none.npy", "--out", "other").code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--transformations", "shear"), "must be of orthogonal"),
        (("--transformations", "gain,gain"), "each once"),
        (("--condition-number", "0.5"), "`--condition-number` must be finite and at least 1"),
        (("--condition-number", "1e8"), "`--condition-number` must be below 8.39e+06"),
        (("--gauges", "twist"), "`--gauges` must name gauges"),
        (("--gauges", "all,rotation"), "`--gauges` must be all, none or names"),
        (("--gauges", "rotation,rotation"), "`--gauges` must name each once"),
        (("--gauges", "rotation", "--dtype", "bfloat16"), "Load the decoder with `--dtype` float32"),
        (("--gauges", "rotation", "--untie", "maybe"), "`--untie` must be by-copy or never"),
        (("--layers", "99"), "`--layers` must lie within 0"),
        (("--layers", "x"), "must look like"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence_with_the_name_of_its_option(
    armillary, tiny, options, said
) -> None:
    seen = armillary(*tiny, *options)
    assert seen.code == 2 and said in seen.err and seen.err.count("\n") == 1 and seen.out == ""


def test_a_folder_that_is_there_is_refused_by_the_name_of_its_option(armillary, tiny, tmp_path) -> None:
    (tmp_path / "there").mkdir()
    seen = armillary(*tiny, "--out", "there")
    assert seen.code == 2 and "`--out`" in seen.err and "RECORD" not in seen.err
    missing = armillary(tmp_path / "nowhere")
    assert missing.code == 2 and "`RECORD`" in missing.err


def test_a_gauge_that_does_not_verify_stops_with_the_difference_and_leaves_no_record(armillary, tiny) -> None:
    asked = ("--layers", "2", "--transformations", "orthogonal", "--gauges", "value-output")
    seen = armillary(*tiny, *asked, "--condition-number", "8000", "--out", "other")
    assert seen.code == 1 and "must leave all logits within" in seen.err and seen.err.count("\n") == 1
    assert not Path("other").exists()
    assert armillary(*tiny, *asked, "--condition-number", "8000", "--dtype", "float64", "--out", "other").code == 0


def test_gauges_have_a_condition_number_of_their_own_and_few_short_documents_unless_told_otherwise(
    armillary, tiny
) -> None:
    asked = (*tiny[:6], "--transformations", "general-linear", "--gauges", "value-output", "--json")
    own = json.loads(armillary(*asked, "--out", "own").out)["study"]
    assert (own["gauge_condition"], own["gauge_documents"], own["gauge_tokens"]) == (10.0, 2, 20)
    assert own["layers"] == [0, 2, 4] and own["gauge_layers"] == [0, 1, 2, 3, 4]
    told = json.loads(armillary(*asked, "--condition-number", "3", *tiny[6:], "--out", "told").out)["study"]
    assert (told["gauge_condition"], told["gauge_documents"], told["gauge_tokens"]) == (3.0, 6, 20)
    none = armillary(*asked[:-3], "--gauges", "none", "--json", "--out", "none")
    assert none.code == 0 and "gauges" not in json.loads(none.out)


def test_gauges_are_verified_and_their_numbers_judged_beside_the_transformations(armillary, tiny) -> None:
    options = ("--layers", "2", "--transformations", "orthogonal", "--gauges", "rotation,neuron-scaling")
    found = json.loads(armillary(*tiny, *options, "--json").out)
    assert list(found["refused_gauges"]) == ["neuron-scaling"] and found["failed_gauges"] == {}
    proof = found["verified_gauges"]["rotation"]
    assert 0 < proof["difference"] < 1e-11 and proof["narrow_difference"] <= 10 * proof["output_floor"]
    assert proof["proof"].startswith("rotation: logits move by") and "seed 0" in proof["label"]
    heads = {row["head"] for row in found["gauges"] if row["place"] == "attention"}
    assert heads == {None, *range(tiny_llama().config.num_attention_heads)}
    assert {row["at"] for row in found["verdicts"]} == {"layer 2"}
    moved = {(r["place"], r["measurement"]) for r in found["gauges"] if r["verdict"] == "changes"}
    assert any(place == "stream" and "kurtosis" in number for place, number in moved)
    assert not {number for place, number in moved if place == "stream" and "overlap" in number}
    again = armillary("records/audit", "--transformations", "orthogonal")
    assert again.code == 0 and "rotation: logits move by" in again.out and "Unmoved by every listed" in again.out


def test_a_decoder_of_one_block_is_audited_at_its_embedding_and_its_only_layer(tmp_path: Path) -> None:
    documents = Documents.from_token_ids(tiny_ids(documents=2, tokens=12), ["one", "two"])
    decoder = tiny_decoder("llama", layers=1)
    study = auditing.Auditing(decoder=decoder, documents=documents, transformations=[RowScale(0.5, 0)])
    assert list(study.run(tmp_path / "record").audits()) == [0, 1]


def test_choices_that_do_not_fit_are_refused_before_anything_is_computed() -> None:
    documents = Documents.from_token_ids(tiny_ids(documents=1, tokens=12), ["only"])
    asked = {"decoder": tiny_decoder("gpt2"), "documents": documents, "transformations": [RowScale(0.5, 0)]}
    for wrong, said in (
        ({"measurements": [participation_rank]}, "a declared preparation"),
        ({"measurements": 2 * [participation_rank.after()]}, "comes twice"),
        ({"gauges": ("spin",)}, "there is no 'spin'"),
        ({"gauge_documents": 0}, "`gauge_documents` must be at least 1"),
        ({"transformations": []}, "`transformations` must hold at least one"),
        ({"transformations": 2 * [RowScale(0.5, 0)]}, "2 are called 'row scale'"),
    ):
        with pytest.raises(ArgumentError, match=said):
            auditing.Auditing(**{**asked, **wrong})


def test_the_page_and_the_heat_map_of_an_audit_are_drawn_from_its_record(tmp_path: Path) -> None:
    documents = Documents.from_token_ids(tiny_ids(documents=1, tokens=12), ["only"])
    maps = [Orthogonal(0), RowScale(0.5, 0)]
    study = auditing.Auditing(decoder=tiny_decoder("gpt2"), documents=documents, transformations=maps)
    record = study.run(tmp_path / "record")
    drawn = drawings(reading_of(record))
    assert set(drawn) == {"verdicts"} and len(drawn["verdicts"].views) == 3
    panel = drawn["verdicts"].views[1].panels[0]
    assert panel.tiles is not None and (len(panel.tiles.x), len(panel.tiles.y)) == (
        2,
        len(study.choices()["measurements"]),
    )
    page = write_report(record, tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (
        "claims on trial",
        "One document: verdicts stand",
        "one document: no interval",
        "proved and survived",
    ):
        assert words in page or words.replace("one document: ", "") in page
    assert "permutation of features and global scale" not in page  # a LayerNorm decoder, and neither was tried
