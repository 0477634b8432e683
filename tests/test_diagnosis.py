"""`armillary diagnose`: measured and predicted numbers of an initialization through depth, its page, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from functools import partial

import numpy as np
import pytest
import torch

import armillary as am
import tiny
from armillary import cli, figures
from armillary.models.configurations import configuration, drawn
from armillary.oracles import wide_limit
from armillary.records.crossings import crossing, crossings
from armillary.studies.diagnosis import Diagnosis
from armillary.training.recipes import parse_recipe

SMALL = [
    "gpt2",
    "--set",
    "n_embd=48",
    "--set",
    "n_layer=3",
    "--set",
    "n_head=4",
    "--set",
    "vocab_size=260",
    "--set",
    "n_positions=64",
]
FEW = ["--draws", "2", "--max-documents", "2", "--max-tokens", "24"]


REFUSED_VALUES = [
    (["--set", "n_layer=1.5"], "Write `--set` n_layer=12"),
    (["--set", "n_layer=0"], "n_layer is 0. Write `--set` n_layer=2"),
    (["--set", "n_layer=-1"], "n_layer is -1. Write `--set` n_layer=2"),
    (["--set", "initializer_range=0"], "initializer_range is 0. Write `--set` initializer_range=0.02"),
    (["--set", "initializer_range=-1"], "initializer_range is -1"),
    (["--set", "activation_function=magic"], "`--set` must give values of which a GPT2Config makes a model"),
    (["--set", "n_head=7"], "must be divisible by num_heads"),
    (["--set", "n_head=0"], "ZeroDivisionError"),
    (["--set", "n_embd=-4"], "negative dimension -4"),
    (["--set", "n_inner=0"], "would be empty"),
    (["--set", "n_inner=many"], "Field 'n_inner' expected"),
]


@pytest.fixture
def armillary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=()))

    def ran(*arguments):
        monkeypatch.setattr(sys, "argv", ["armillary", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return ran


def test_the_record_holds_what_numpy_finds_in_the_captured_stream_and_what_the_recursion_says(tmp_path):
    config = configuration("llama", {"hidden_size": "32", "intermediate_size": "64", "num_hidden_layers": "2", "num_attention_heads": "4",
                                     "num_key_value_heads": "2", "vocab_size": "300", "max_position_embeddings": "64"})  # fmt: skip
    study = Diagnosis(
        config=config,
        source="here",
        recipes=[parse_recipe("library")],
        draws=2,
        documents=3,
        tokens=20,
        texts="distinct",
        threshold=0.5,
    )
    data = study.run(tmp_path / "r").dataset
    decoder = am.decoder_from_model(drawn(config, seed=1))
    ids = study._ids(1)
    states = am.capture(decoder, ids).states.double().numpy()
    rows = states / np.linalg.norm(states, axis=-1, keepdims=True)
    gram = rows @ rows.swapaxes(-1, -2)
    overlap = ((gram.sum((-2, -1)) - 20) / (20 * 19)).mean(0)
    assert np.allclose(data["mean_overlap"].values[0, 1], overlap, atol=1e-5)
    assert np.allclose(data["participation_rank"].values[0, 1], (400 / (gram**2).sum((-2, -1))).mean(0), rtol=1e-4)
    assert np.allclose(data["stream_norm_mean"].values[0, 1], np.linalg.norm(states, axis=-1).mean((0, 2)), rtol=1e-5)
    predicted = am.wide_decoder(decoder).grams(ids[0].tolist())
    assert data["predicted_mean_overlap"].values[0, 1, 2] == pytest.approx(wide_limit.mean_overlap(predicted[2]))


def test_the_gradient_is_that_of_the_loss_with_respect_to_the_stream(tmp_path):
    config = configuration("gpt2", dict(one.split("=") for one in SMALL if "=" in one))
    study = Diagnosis(
        config=config,
        source="here",
        recipes=[parse_recipe("library")],
        draws=1,
        documents=1,
        tokens=8,
        texts="distinct",
        threshold=0.5,
    )
    found = study.run(tmp_path / "r").dataset["gradient_norm"].values[0, 0]
    model = drawn(config, seed=0)
    ids = study._ids(0)
    with am.tap(model, [1]) as states:
        logits = model(input_ids=ids).logits
    states[1].retain_grad()
    torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum").backward()
    assert found[1] == pytest.approx(float(states[1].grad.norm()), rel=1e-4)


def test_a_diagnosis_leaves_a_record_and_a_page_and_says_its_numbers(armillary, tmp_path):
    code, out, err = armillary(
        "diagnose",
        *SMALL,
        *FEW,
        "--recipe",
        "library",
        "--recipe",
        "depth_scaled:power=0",
        "--threshold",
        "0.05",
        "--out",
        "r",
    )
    assert code == 0, err
    assert "predicted mean overlap" in out and "overlap passes 0.05 at layer" in out
    page = (tmp_path / "r" / "report.html").read_text()
    assert "An initialization through depth" in page and "depth_scaled:power=0" in page and "null model" in page
    said = out.split("overlap passes 0.05 at layer ")[2].splitlines()[0]
    assert (
        "it stays below 0.05 (predicted none)" in page
        and f"it passes 0.05 at layer {said}." in page
        and "(predicted" in said
    )
    record = am.Record.open(tmp_path / "r")
    assert record.study["kind"] == "diagnosis" and record.study["configuration"]["n_embd"] == 48
    assert record.dataset["mean_overlap"].dims == ("recipe", "draw", "layer")


def test_json_is_strict_and_alone(armillary):
    code, out, _ = armillary("diagnose", *SMALL, *FEW, "--texts", "bytes", "--out", "r", "--json")
    found = json.loads(out)
    assert code == 0 and found["layers"] == [0, 1, 2, 3]
    assert len(found["numbers"]["mean_overlap"]["library"]) == 2
    assert set(found["depth_of_threshold"]) == {"measured library", "predicted library"}


def test_a_family_without_a_prediction_is_measured_all_the_same(armillary, tmp_path):
    config = tiny.tiny_model("olmo2").config
    config.save_pretrained(tmp_path / "model")
    code, out, _ = armillary("diagnose", tmp_path / "model" / "config.json", *FEW, "--out", "r")
    assert code == 0 and "prediction none: a norm stands behind each sublayer" in out
    assert "No prediction" in (tmp_path / "r" / "report.html").read_text()


def test_a_dry_run_writes_nothing_and_recipes_can_be_listed(armillary, tmp_path):
    code, out, _ = armillary("diagnose", *SMALL, "--dry-run")
    assert code == 0 and "2 documents" not in out and "3 draws of each" in out
    code, out, _ = armillary("diagnose", "--list-recipes")
    assert code == 0 and "mimetic_value_output:sign=attractive|repulsive|zero,share=NUMBER" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--recipe", "magic"], "`--recipe` must be one of library"),
        (["--set", "n_layer"], "`--set` must be FIELD=VALUE"),
        (["--set", "depth=3"], "`--set` must name fields of GPT2Config"),
        (["--texts", "prose"], "`--texts` must be one of distinct, bytes"),
        (["--max-tokens", "65"], "at most 64"),
        (["--max-tokens", "1"], "'--max-tokens'"),
        (["--set", "vocab_size=20"], "needs 24 ids"),
        (["--recipe", "overlap_profile:first=0.9,last=0.95"], "of overlap_profile:first=0.9,last=0.95 `profile` must"),
        (["--recipe", "library", "--recipe", "library"], "`--recipe` must be all different, but library comes twice"),
        (["--threshold", "1.5"], "`--threshold` must be an overlap between -1 and 1, but it is 1.5"),
        *REFUSED_VALUES,
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(arguments, words, armillary, tmp_path):
    code, out, err = armillary("diagnose", *SMALL, *FEW, *arguments, "--out", "r")
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err, err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(("arguments", "words"), REFUSED_VALUES)
def test_a_dry_run_refuses_what_cannot_be_drawn(arguments, words, armillary):
    code, out, err = armillary("diagnose", *SMALL, *arguments, "--dry-run")
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err, err


@pytest.mark.parametrize("remedy", ["n_layer=2", "initializer_range=0.02", "initializer_range=1", "n_head=6"])
def test_the_remedies_of_refused_values_are_accepted_without_a_word_of_the_library(remedy, armillary):
    code, _, err = armillary("diagnose", *SMALL, "--set", remedy, "--dry-run")
    assert code == 0 and err == ""


def test_the_depth_of_a_threshold_lies_between_layers_or_nowhere():
    layers = np.arange(4.0)
    assert crossing(layers, np.array([0.0, 0.2, 0.6, 0.7]), 0.4) == pytest.approx(1.5)
    assert crossing(layers, np.array([0.5, 0.2, 0.6, 0.7]), 0.4) == 0
    assert math.isnan(crossing(layers, np.array([0.0, 0.1, 0.2, 0.3]), 0.4))


def test_depths_over_draws_are_told_from_the_lowest_to_the_highest_as_numbers():
    layers = np.arange(13.0)
    steep, late = layers / 5, layers / 20.6
    assert crossings(layers, np.stack([steep, late]), 0.5) == "2.5 to 10.3"
    assert crossings(layers, np.stack([steep, steep]), 0.5) == "2.5"
    assert crossings(layers, np.stack([steep, 0 * layers]), 0.5) == "2.5, never in 1"
    assert crossings(layers, np.stack([0 * layers]), 0.5) == "none"
