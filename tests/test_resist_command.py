"""`armillary resist` and its page: what is written, said and refused, on a tiny decoder."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import armillary as am
import tiny
from armillary.cli import app
from armillary.cli.resist import _with_spread
from armillary.errors import ArgumentError, UnsoundError
from armillary.studies.resistance.crossed import crossed_estimate
from armillary.studies.resistance.ladder import ladder
from armillary.studies.resistance.verdict import (
    _frozen_words,
    difference,
    stands_still,
    trained_minus_initial,
    verdict,
)

if TYPE_CHECKING:
    from pathlib import Path

RUNGS = "trained,ablated-mlp,initial-released-seed0,initial-released-seed1,initial-released-seed2,identity,trained-qk"
RUNGS += ",trained-qkvo,gaussian,trained-qkvo-mlp,shuffled,idealized-beta1-causal-unit,idealized-beta9-causal-unit"
RUNGS += ",identity-equal,trained-qk-equal"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.saved(tiny.tiny_llama(layers=3), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    draw = np.random.default_rng(0)
    for number in range(12):
        words = " ".join("".join(draw.choice(list("abcdefgh"), 5)) for _ in range(12))
        (folder / f"{number:02d}.txt").write_text(words)
    return folder


def options(model: Path, texts: Path, *more: str) -> list[str]:
    where = ["resist", "--model", str(model), "--documents", str(texts)]
    return [*where, "--max-documents", "4", "--max-tokens", "12", "--rungs", RUNGS, *more]


@pytest.fixture(scope="module")
def run(model: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    out = tmp_path_factory.mktemp("resist") / "record"
    return CliRunner().invoke(app, options(model, texts, "--out", str(out), "--json"), catch_exceptions=False), out


def test_the_command_leaves_a_record_with_its_page_and_says_the_verdict_as_strict_json(run: tuple[Any, Path]) -> None:
    result, out = run
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert {one["name"] for one in said["verdict"]} >= {"budget of attention", "budget of mlp", "all MLPs removed"}
    assert said["reproduction"]["largest_relative_departure"] < 1e-4
    assert said["measurements_hash"] == am.Record.open(out).measurements_hash
    page = (out / "report.html").read_text()
    for words in ("Does training resist clustering?", "The clustering budget", "Each rung minus its neighbor"):
        assert words in page
    assert {path.stem for path in (out / "figures").glob("*.svg")} >= {"ladder", "budget_bars", "budget_sums", "paths"}


def test_a_dry_run_names_rungs_seconds_and_memory_and_writes_nothing(model: Path, texts: Path, tmp_path: Path) -> None:
    asked = options(model, texts, "--out", str(tmp_path / "none"), "--dry-run", "--json")
    said = json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).stdout)
    assert "trained-qkvo" in said["rungs"]
    assert said["estimated_seconds_on_one_core"] >= 0
    assert said["beyond_the_model_mib"] > 0
    assert not list(tmp_path.iterdir())


def test_every_finding_says_what_it_does_not_show_and_none_contradicts_its_interval(run: tuple[Any, Path]) -> None:
    for one in verdict(am.Record.open(run[1])):
        assert one.not_shown
        if one.estimate is None:
            assert ", both steps" in one.name
            continue
        if one.answer == "higher":
            assert one.estimate.low > 0
        elif one.answer == "lower":
            assert one.estimate.high < 0
        elif one.answer == "alike":
            assert max(abs(one.estimate.low), abs(one.estimate.high)) <= 0.05


def test_every_finding_has_a_twin_without_rogue_coordinates(run: tuple[Any, Path]) -> None:
    names = [one.name for one in verdict(am.Record.open(run[1]))]
    tail = ", rogue coordinates left out"
    whole = {name for name in names if not name.endswith(tail)}
    assert {name.removesuffix(tail) for name in names if name.endswith(tail)} == whole
    assert {"identity matrices, unit clock", "trained-qk minus identity, both steps", "trained minus shuffled"} <= whole


def test_the_page_says_of_every_finding_what_it_does_not_show_and_which_genre_was_read(run: tuple[Any, Path]) -> None:
    page = (run[1] / "report.html").read_text()
    first = page[page.index('class="answer"') : page.index("</section>")]
    assert first.count("Not shown:") == first.count("<strong>") > 0
    genre = am.Record.open(run[1]).study["documents"]["genre"]
    for words in (f"The documents are {genre}.", "Wanted and realized mean angle"):
        assert genre
        assert words in page


def test_json_says_wanted_and_realized_angles_of_paced_rungs_only(run: tuple[Any, Path]) -> None:
    said = json.loads(run[0].stdout)
    assert said["failed"] == {}
    assert set(said["steps"]) == {"identity", "trained-qk", "trained-qkvo", "gaussian", "trained-qkvo-mlp"}
    wanted, realized = (said["steps"]["trained-qkvo-mlp"][name] for name in ("angle_wanted", "angle_realized"))
    assert wanted[0][0] is None  # the embedding is reached by no step
    assert all(b <= a * 1.01 for x, y in zip(wanted, realized, strict=True) for a, b in zip(x[1:], y[1:], strict=True))


@pytest.mark.parametrize(("betas", "words"), [((64, 256), "At every beta that was tried"), ((1, 64), "they move")])
def test_identity_matrices_are_said_to_stand_still_where_all_three_numbers_do(betas, words) -> None:
    still = {float(beta): beta > 9 for beta in betas}
    said = _frozen_words(still)
    assert words in said
    assert ("tokens stand still" in said) == any(still.values())
    assert "Tokens move at every beta" in _frozen_words(dict.fromkeys(still, False))


@pytest.mark.parametrize("moved", ["mean_overlap", "participation_rank", "cluster_count"])
def test_a_rung_that_moves_and_comes_back_does_not_stand_still(moved: str) -> None:
    names, kinds = ("mean_overlap", "participation_rank", "cluster_count"), ["normalize", "center, normalize"]
    dims = ("condition", "layer", "tap", "tokens", "preparation", "document")
    shape = dict(zip(dims, (1, 3, 1, 1, 2, 2), strict=True))
    data = xr.Dataset(
        {name: (dims, np.full(tuple(shape.values()), 0.5 if name == "mean_overlap" else 20.0)) for name in names},
        {"condition": ["it"], "layer": [0, 2, 4], "tap": ["block"], "tokens": ["without_first"], "preparation": kinds},
    )
    record, number = SimpleNamespace(dataset=data), ("mean_overlap", "normalize", "without_first")
    assert stands_still(record, "it", number)
    data[moved][{"layer": 1, "document": 1}] += 0.06 if moved == "mean_overlap" else 1.1
    assert not stands_still(record, "it", number)


def test_layers_that_leave_the_way_open_give_no_finding_about_identity_matrices(model, texts, tmp_path) -> None:
    rungs = "idealized-beta1-causal-unit,idealized-beta9-causal-unit,ablated-mlp"
    for layers, found in (("0,3", True), ("3", False), ("0", False)):
        out = tmp_path / layers
        asked = [*options(model, texts, "--out", str(out), "--layers", layers, "--quiet")]
        asked[asked.index(RUNGS)] = rungs
        CliRunner().invoke(app, asked, catch_exceptions=False)
        names = [one.name for one in verdict(am.Record.open(out))]
        assert any(name.startswith("identity matrices") for name in names) == found
        assert ("all MLPs removed" in names) == (layers != "0")


def test_checkpoints_of_three_seeds_give_trained_minus_its_own_first_weights(model, texts, tmp_path) -> None:
    for seed in range(3):
        for step in (0, 40):
            tiny.saved(tiny.tiny_llama(layers=3, seed=10 * seed + step), tmp_path / f"c/arm-seed{seed}/step-{step:05d}")
    asked = options(model, texts, "--out", str(tmp_path / "record"), "--quiet", "--checkpoints")
    asked[asked.index(RUNGS)] = "trained"
    with pytest.raises(ArgumentError, match="NAME-checkpoints"):
        CliRunner().invoke(app, [*asked, str(tmp_path / "nowhere")], catch_exceptions=False)
    CliRunner().invoke(app, [*asked, str(tmp_path / "c")], catch_exceptions=False)
    record = am.Record.open(tmp_path / "record")
    found = {one.name: one for one in verdict(record)}["trained minus its own first weights, arm"]
    assert "3 seeds" in found.estimate.unit
    course = record.dataset["mean_overlap"].sel(layer=2, tap="block", tokens="without_first", preparation="normalize")
    apart = [course.sel(condition=f"arm-seed{k}-last") - course.sel(condition=f"arm-seed{k}-first") for k in range(3)]
    assert found.estimate.value == pytest.approx(float(np.mean(apart)), abs=1e-12)
    hashes = {one["weight_hash"] for name, one in record.study["rungs"].items() if name.startswith("arm")}
    assert len(hashes) == 6


def test_an_unknown_spread_can_be_said_and_a_known_one_cannot() -> None:
    decoder = tiny.tiny_decoder("llama")
    facts = dataclasses.replace(decoder.facts, released_spread=None)
    silent = dataclasses.replace(decoder, facts=facts)
    rung = next(rung for _, rung in ladder(silent) if rung.name == "released-qkvo")
    assert "--spread 0.0417" in rung.lacks(silent)
    told = _with_spread(silent, 0.0417)
    assert not rung.lacks(told)
    with pytest.raises(ArgumentError, match="Leave it out"):
        _with_spread(told, 0.02)
    with pytest.raises(ArgumentError, match="for instance"):
        _with_spread(silent, -1.0)


def test_contrasts_are_paired_by_document(run: tuple[Any, Path]) -> None:
    record = am.Record.open(run[1])
    number = ("mean_overlap", "normalize", "without_first")
    found = difference(record, "ablated-mlp", "trained", 3, number)
    course = record.dataset["mean_overlap"].sel(layer=3, tap="block", tokens="without_first", preparation="normalize")
    apart = (course.sel(condition="ablated-mlp") - course.sel(condition="trained")).values
    assert found.value == pytest.approx(apart.mean(), abs=1e-12)
    same = am.estimates.estimate(apart, level=0.95, resamples=2000, seed=0)
    assert (found.low, found.high) == (same.low, same.high)


def test_trained_minus_initial_resamples_seeds_besides_documents(run: tuple[Any, Path]) -> None:
    record = am.Record.open(run[1])
    number = ("mean_overlap", "normalize", "without_first")
    found = trained_minus_initial(record, "released", 2, number)
    alone = difference(record, "trained", "initial-released-seed0", 2, number)
    assert "3 seeds" in found.unit
    assert found.high - found.low > 0
    assert found.members == alone.members == 4


def test_intervals_over_documents_and_seeds_cover_at_their_level() -> None:
    draw, inside = np.random.default_rng(1), 0
    for _ in range(300):
        values = draw.normal(size=(12, 1)) + draw.normal(size=(1, 3)) + 0.5 * draw.normal(size=(12, 3))
        found = crossed_estimate(values, level=0.9, resamples=400, seed=0)
        inside += found.low <= 0 <= found.high
    assert 0.86 <= inside / 300 <= 0.98


def test_documents_alone_would_not_cover_what_seeds_add() -> None:
    draw, inside = np.random.default_rng(1), 0
    for _ in range(200):
        values = draw.normal(size=(12, 1)) + draw.normal(size=(1, 3)) + 0.5 * draw.normal(size=(12, 3))
        found = am.estimates.estimate(values.mean(axis=1), level=0.9, resamples=400, seed=0)
        inside += found.low <= 0 <= found.high
    assert inside / 200 < 0.8


def test_two_seeds_are_refused() -> None:
    with pytest.raises(UnsoundError, match="3 seeds"):
        crossed_estimate(np.zeros((4, 2)), level=0.9, resamples=400, seed=0)


def test_the_dimension_part_leads_to_the_law_of_orthonormal_tokens_in_high_dimension() -> None:
    from armillary.oracles import overlap as laws
    from armillary.studies.phase.dimension import FIXED, measure

    found = measure({**FIXED, "beta": 1.0, "dim": 4096, "tokens": 16}, range(6))
    law = laws.merge_time(tokens=16, beta=1.0, stop=0.999)
    assert found["consensus_time"].mean() == pytest.approx(law, rel=0.02)
    assert (found["groups"] == 1).all()
    assert (found["share_above"] == 1).all()


def test_a_fresh_decoder_of_plain_matrices_follows_the_wide_limit() -> None:
    from armillary.studies.phase.fresh_decoders import measure, predicted

    cell = {"width": 256, "layers": 2, "heads": 4, "recipe": "0.02", "tokens": 48}
    found = measure(cell, range(3))["mean_overlap"]
    law, _ = predicted(width=256, layers=2, spread=0.02, tokens=48, scores=256 * 0.02**2)
    assert found.mean() == pytest.approx(law, abs=0.03)


@pytest.mark.parametrize("ignored", [["--rungs", "trained"], ["--model", "nowhere"], ["--max-documents", "4"]])
def test_what_a_part_without_a_decoder_would_ignore_is_refused_and_left_out_it_runs(ignored, tmp_path) -> None:
    asked = ["resist", "--part", "dimension", "--dry-run", "--out", str(tmp_path / "r")]
    result = CliRunner().invoke(app, [*asked, *ignored])
    assert f"`{ignored[0]}` must be left out with --part dimension" in str(result.exception)
    assert CliRunner().invoke(app, asked).exit_code == 0


def test_an_unknown_part_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["resist", "--part", "other"])
    assert "ladder, dimension, scale" in str(result.exception)
