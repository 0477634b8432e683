"""A simulation as a study: what the record holds, and what the command refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import armillary as am
from armillary import cli, figures
from armillary.oracles import overlap
from armillary.studies.simulation import Simulation

Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def armillary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=()))  # the page shows them all

    def ran(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["armillary", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return ran


def test_a_record_of_a_pair_holds_the_tanh_law_and_the_rank_along_it(tmp_path: Path) -> None:
    study = Simulation(
        field=am.on_sphere(am.AttentionDrift(am.Uniform())),
        starts=am.sphere.equiangular(tokens=2, dim=3, overlap=-0.5)[None],
        start_words="one pair at overlap -1/2", until=2.0, at=21, integrator=am.Tsit5(rtol=1e-11),
    )  # fmt: skip
    record = study.run(tmp_path / "pair")
    law = overlap.two_tokens(record.dataset["time"].values, overlap=-0.5)
    assert record.dataset["mean_overlap after normalize"].values[0] == pytest.approx(law, abs=1e-9)
    rank = record.dataset["participation_rank after normalize"]
    assert rank.values[0] == pytest.approx(2 / (1 + law**2), abs=1e-9)
    assert rank.attrs["definition"] and rank.attrs["preparation"] == "normalize"
    assert record.study["kind"] == "simulation" and record.provenance["energy"] == "monotone"
    assert np.all(np.diff(record.dataset["log_energy"].values[0][record.dataset["log_energy"].values[0] > -50]) > 0)


@pytest.mark.parametrize("beta", [800, -800])
def test_a_simulation_at_a_beta_beyond_every_exponential_has_a_record_and_a_page(beta: int, armillary: Ran) -> None:
    code, _, said = armillary(
        "simulate", "--tokens", 6, "--dim", 3, f"--beta={beta}", "--until", 2, "--keep", 3, "--systems", 3,
        "--out", "sharp", "--json",
    )  # fmt: skip
    assert code == 0, said
    dataset = am.Record.open("sharp").dataset
    assert all(np.isfinite(dataset[name].values).all() for name in ("log_energy", "log_energy_rate"))
    assert (dataset["log_energy_rate"].values > 0).any()


def test_reading_the_record_again_gives_the_same_states_bit_for_bit(tmp_path: Path) -> None:
    starts = torch.stack([am.sphere.uniform(tokens=8, dim=3, seed=k) for k in range(3)])
    study = Simulation(
        field=am.on_sphere(am.AttentionDrift(am.Softmax(4.0))), starts=starts, start_words="three clouds",
        until=5.0, at=[0.0, 1.0, 5.0], integrator=am.Tsit5(rtol=1e-8),
    )  # fmt: skip
    record = study.run(tmp_path / "three")
    run = am.flow(study.field, starts, until=5.0, integrator=am.Tsit5(rtol=1e-8), keep=[0.0, 1.0, 5.0])
    assert np.array_equal(am.Record.open(tmp_path / "three").dataset["states"].values, run.states.numpy())
    assert record.provenance["evaluations"] == list(run.evaluations)


def test_whatever_a_laboratory_measures_of_a_layer_is_measured_along_time_under_the_same_names(
    armillary: Ran, tmp_path: Path
) -> None:
    asked = ["--tokens", 6, "--systems", 3, "--until", 2, "--keep", 4, "--out", "r", "--json"]
    code, out, err = armillary("simulate", *asked, "--measure", "laboratory")
    assert code == 0, err
    found = set(json.loads(out)["measurements"])
    from armillary.studies.plan import default_measurements

    for one in default_measurements(calibrated=False):
        assert any(name.startswith(one.name) and name.endswith(f"after {one.preparation}") for name in found), one
    record = am.Record.open(tmp_path / "r")
    rows = torch.as_tensor(record.dataset["states"].values)
    direct = am.entropy_rank.after("center", "normalize")(rows)
    assert np.allclose(
        record.dataset["entropy_rank after center, normalize"].values, direct, atol=1e-12, equal_nan=True
    )


def test_an_energy_that_the_proof_does_not_license_is_left_out_and_the_reason_stands_in_the_record(
    armillary: Ran,
) -> None:
    code, out, _ = armillary("simulate", "--mask", "causal", "--until", 2, "--systems", 2, "--out", "r", "--json")
    found = json.loads(out)
    assert code == 0 and "log_energy" not in found["measurements"]
    assert "no mask" in found["energy"] and "causal" in found["energy"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rule", "unnormalized", "--beta", 1], ["--rule", "uniform"], ["--rule", "hardmax"], ["--beta", -2],
        ["--mask", "window:3"], ["--mask", "window:3:both"], ["--heads", "gaussian:2:4"], ["--heads", "orthogonal"],
        ["--heads", "goe"], ["--heads", "orthogonal:3"], ["--heads", "goe:2"], ["--norm", "pre"], ["--norm", "mix:1"], ["--norm", "peri"], ["--norm", "ngpt:0.5"],
        ["--norm", "sqrt-depth"], ["--norm", "flat", "--beta", 0.5, "--until", 1], ["--mlp", 16], ["--noise", 0.1],
        ["--start", "ring", "--dim", 2], ["--start", "antipodal"], ["--start", "orthonormal", "--dim", 6],
        ["--start", "equiangular:0.3", "--dim", 6], ["--merge", 1e-4, "--rtol", 1e-6], ["--layer-step", 0.5],
        ["--log-times"], ["--log-times", "--until", 0.005], ["--jitter", 1e-3, "--start", "antipodal"],
        ["--measure", "laboratory"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)  # fmt: skip
def test_every_ingredient_can_be_switched_on_from_the_command_line(arguments: list[object], armillary: Ran) -> None:
    few = ["--tokens", 6, "--systems", 2, "--keep", 5, "--until", 3, "--out", "r", "--json"]
    code, out, err = armillary("simulate", *few, *arguments)
    assert code == 0, err
    found = json.loads(out)
    assert len(found["at"]) in (4, 5) and found["at"][0] == 0 and all(found["statuses"])
    assert Path("r", "report.html").is_file()


def test_a_file_of_states_is_a_start(armillary: Ran, tmp_path: Path) -> None:
    np.save(tmp_path / "start.npy", am.sphere.uniform(tokens=5, dim=4, seed=3).numpy())
    code, out, _ = armillary("simulate", "--start", "start.npy", "--until", 1, "--out", "r", "--json")
    assert code == 0 and json.loads(out)["study"]["dim"] == 4


def test_matrices_masks_and_networks_are_given_from_files(armillary: Ran, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((3, 3))
    np.savez(tmp_path / "tied.npz", scores=scores + scores.T, values=scores + scores.T)
    query, key, value = draw.standard_normal((3, 2, 4, 3))
    np.savez(tmp_path / "heads.npz", query=query, key=key, value=value, output=draw.standard_normal((2, 3, 4)))
    np.savez(tmp_path / "mlp.npz", up=draw.standard_normal((8, 3)), down=draw.standard_normal((3, 8)))
    np.savez(tmp_path / "perceptron.npz", directions=draw.standard_normal((8, 3)), amplitudes=np.ones(8))
    np.save(tmp_path / "mask.npy", np.tri(6, dtype=bool))
    few = ["--tokens", 6, "--systems", 2, "--keep", 5, "--until", 1, "--json"]
    for number, (arguments, energy) in enumerate(
        [
            (["--heads", "tied.npz"], "monotone"),
            (["--heads", "heads.npz"], "one head"),
            (["--mlp", "mlp.npz"], "no MLP"),
            (["--mlp", "perceptron.npz", "--rule", "unnormalized", "--beta", 1], "monotone"),
            (["--mask", "mask.npy"], "no mask"),
        ]
    ):
        code, out, err = armillary("simulate", *few, *arguments, "--out", f"r{number}")
        assert code == 0, err
        assert energy in json.loads(out)["energy"]
    causal = armillary("simulate", *few, "--mask", "causal", "--out", "causal")
    first, second = (json.loads(one)["measurements"]["mean_overlap after normalize"] for one in (out, causal[1]))
    assert np.allclose(first, second, atol=1e-9)


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ({"up": np.ones((4, 3))}, ["--mlp", "f.npz"], "must hold the arrays `up` and `down`, or `directions`"),
        ({"up": np.ones((4, 3)), "down": np.ones((4, 3))}, ["--mlp", "f.npz"], "Transpose one of them"),
        ({"up": np.ones((4, 5)), "down": np.ones((5, 4))}, ["--mlp", "f.npz"], "weights of the dimension of the tokens"),
        ({"scores": np.eye(4), "values": np.eye(4)}, ["--heads", "f.npz"], "must act on dimension 3"),
        ({"scores": np.array([["a"]]), "values": np.eye(4)}, ["--heads", "f.npz"], "must hold real numbers"),
        (np.ones((6, 6)), ["--mask", "f.npy"], "must be boolean"),
        (np.eye(5, dtype=bool), ["--mask", "f.npy"], "must be boolean [6, 6] for 6 tokens"),
        (np.tri(6, k=-1, dtype=bool), ["--mask", "f.npy"], "row 0 is empty. Let it look at itself"),
        (np.ones(6, dtype=bool), ["--mask", "f.npy"], "Give one row a token"),
        (np.ones(6), ["--start", "f.npy"], "Reshape it"),
        (np.ones((6, 3)), ["--start", "f.npy"], "must have unit rows"),
        (np.full((6, 3), np.nan), ["--start", "f.npy"], "must be finite"),
        (b"no numpy file", ["--start", "f.npy"], "Write it with numpy.save"),
        (None, ["--mlp", "f.npz"], "cannot be read (No such file or directory)"),
        (None, ["--mask", "f.npy"], "cannot be read (No such file or directory)"),
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_does_not_fit_gets_one_sentence_and_leaves_nothing(
    content: object, arguments: list[str], words: str, armillary: Ran, tmp_path: Path
) -> None:
    if isinstance(content, dict):
        np.savez(tmp_path / "f.npz", **content)
    elif isinstance(content, bytes):
        (tmp_path / "f.npy").write_bytes(content)
    elif content is not None:
        np.save(tmp_path / "f.npy", content)
    code, out, err = armillary("simulate", "--tokens", 6, *arguments, "--until", 1, "--out", "deep/r")
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tokens", 1], "'--tokens'"),
        (["--dim", 1], "'--dim'"),
        (["--until", -1], "`--until` must be positive and finite, but it is -1. Time runs forward."),
        (["--beta", "nan"], "`beta` must be finite"),
        (["--rule", "sparsemax"], "`--rule` must be one of softmax"),
        (["--mask", "diagonal"], "`--mask` must be full"),
        (["--heads", "many"], "`--heads` must be identity"),
        (["--norm", "batch"], "`--norm` must be post"),
        (["--start", "nowhere.npy"], "`--start` must be uniform"),
        (["--start", "ring"], "Take dim 2"),
        (["--start", "orthonormal", "--tokens", 9, "--dim", 3], "`dim` must be at least 9"),
        (["--start", "equiangular:-0.9", "--tokens", 4], "must lie within"),
        (["--merge", 1e-9], "at least ten times the tolerance"),
        (["--merge", 1e-4, "--mask", "causal"], "tells tokens apart"),
        (["--noise", 0.1, "--layer-step", 0.5], "Leave one out"),
        (["--rtol", 2], "must lie between"),
        (["--until", 0], "Time runs forward"),
        (["--until", "nan"], "Time runs forward"),
        (["--until", "inf"], "Time runs forward"),
        (["--beta", "inf"], "Hardmax is the rule of infinite beta"),
        (["--beta", 800, "--rule", "unnormalized"], "clock='shifted'"),
        (["--mlp", "many"], "Write --mlp 16"),
        (["--measure", "all"], "Write --measure laboratory"),
        (["--mlp", -3], "Write --mlp 16"),
        (["--jitter", -1], "'--jitter'"),
        (["--noise", -1], "'--noise'"),
        (["--start", "equiangular:much"], "`--start` must be uniform"),
        (["--start", "equiangular:0.1.2"], "`--start` must be"),
        (["--norm", "mix:-1"], "must be positive"),
        (["--norm", "mix:1e"], "`--norm` must be"),
        (["--norm", "ngpt:0"], "must be positive"),
        (["--heads", "gaussian:0:4"], "`--heads` must be"),
        (["--heads", "gaussian:2"], "`--heads` must be"),
        (["--heads", "goe:0"], "`--heads` must be"),
        (["--layer-step", 1, "--until", 2.5], "whole layers"),
        (["--layer-step", 0], "must be positive"),
        (["--layer-step", 1, "--merge", 1e-3], "needs Tsit5"),
        (["--merge", 1, "--rtol", 1e-6], "between 0 and 0.5"),
        (["--keep", 1], "'--keep'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_a_wrong_choice_gets_one_sentence_and_leaves_nothing(
    arguments: list[object], words: str, armillary: Ran, tmp_path: Path
) -> None:
    code, out, err = armillary("simulate", *arguments, "--out", "deep/r")
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err
    assert list(tmp_path.iterdir()) == []
