"""A diagram described in a file: what it says is what runs, and what cannot be is refused before anything runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from armillary.errors import ArgumentError
from armillary.studies.diagram.flows import measure_flow
from armillary.studies.diagram.study_file import study_from_file
from armillary.studies.diagram.work import measured_cell
from armillary.studies.origin import processor

TOML = """
title = "Groups on the circle"
seeds = 3
[grid]
beta = { from = 1, to = 9, count = 3 }
dim = [2]
tokens = [6]
start = ["uniform", "ring"]
[run]
until = 30
above = 0.99
within = 0.1
rtol = 1e-6
times = 4
"""

CONTENT = {
    "title": "Groups", "seeds": 2,
    "grid": {"beta": [2], "dim": [3], "tokens": [5]},
    "run": {"until": 8, "above": 0.99, "within": 0.3, "rtol": 1e-7, "times": 5, "stop": "never"},
}  # fmt: skip


def _written(folder, content, ending="json"):
    path = folder / f"study.{ending}"
    path.write_text(json.dumps(content) if ending == "json" else content, encoding="utf-8")
    return path


def _with(table, **changes):
    return {**CONTENT, table: {**CONTENT[table], **changes}}


def _measured(preset, **labels):
    place, cell = next((p, c) for p, c in preset.full.cells.items() if all(c[k] == v for k, v in labels.items()))
    return measured_cell(preset.measure, preset.results, cell, range(preset.full.seeds), place, processor())[1]


def test_the_three_formats_say_the_same(tmp_path):
    import tomllib

    content = tomllib.loads(TOML)
    paths = [
        _written(tmp_path, TOML, "toml"), _written(tmp_path, content), _written(tmp_path, yaml.safe_dump(content), "yaml"),
    ]  # fmt: skip
    first, *others = [study_from_file(path).full for path in paths]
    assert all(one == first for one in others)
    assert [(axis.name, axis.values) for axis in first.axes[:3]] == [
        ("beta", (1.0, 5.0, 9.0)),
        ("dim", (2,)),
        ("tokens", (6,)),
    ]
    assert first.fixed["above"] == 0.99 and first.along[0].values == (0.0, 10.0, 20.0, 30.0)
    assert len(first.cells) == 6


@pytest.mark.parametrize("start", ["uniform", "antipodal"])
def test_both_engines_read_the_same_of_the_same_cell(tmp_path, start):
    cell = next(iter(study_from_file(_written(tmp_path, _with("grid", start=[start]))).full.cells.values()))
    plain = measure_flow(cell, (0, 1))
    general = measure_flow({**cell, "mask": "window:9:both"}, (0, 1))  # wide enough to hide nothing
    assert set(plain) == set(general)
    for name in set(plain) - {"gathered_at"}:
        np.testing.assert_allclose(general[name], plain[name], atol=1e-6)


def test_masks_heads_and_norms_go_to_the_general_engine_and_each_seed_has_its_own_heads(tmp_path):
    grid = {"mask": ["causal"], "heads": ["gaussian:1:3"], "norm": ["pre"]}
    preset = study_from_file(_written(tmp_path, _with("grid", **grid)))
    found = _measured(preset, mask="causal")
    cell = next(iter(preset.full.cells.values()))
    alone = measure_flow(cell, (1,))
    for name in ("share_above", "groups"):
        assert found[name][1] == alone[name][0]
    assert np.isnan(found["gathered_at"]).all()
    assert found["groups_in_time"][0] == 5.0


def test_a_system_that_stops_before_the_end_has_no_number_there(tmp_path):
    preset = study_from_file(_written(tmp_path, _with("run", steps=2)))
    found = _measured(preset)
    assert np.isnan(found["share_above"]).all() and np.isnan(found["together"]).all()
    assert np.isfinite(found["share_above_in_time"][0]) and np.isnan(found["share_above_in_time"][-1])
    general = study_from_file(
        _written(tmp_path, {**_with("run", steps=2), "grid": {**CONTENT["grid"], "norm": ["peri"]}})
    )
    assert np.isnan(_measured(general)["share_above"]).all()


def test_cells_that_cannot_be_are_all_listed_before_anything_runs(tmp_path):
    content = _with("grid", tokens=[3, 5], dim=[2, 3], start=["orthonormal", "ring"])
    with pytest.raises(ArgumentError) as refused:
        study_from_file(_written(tmp_path, content))
    said = str(refused.value)
    assert "5 of 8 cannot. dim 2, tokens 3, start orthonormal; tokens 5, start orthonormal: Argument" in said
    assert "dim 3, start ring: Argument" in said and "mask" not in said and "norm post" not in said
    with pytest.raises(ArgumentError, match=r"9 of 21 cannot\. dim 2, tokens 3-8; dim 5, tokens 6-8: Argument"):
        study_from_file(
            _written(tmp_path, _with("grid", tokens=[2, 3, 4, 5, 6, 7, 8], dim=[2, 5, 9], start=["orthonormal"]))
        )


def test_merging_where_it_would_change_the_motion_is_refused_before_anything_runs(tmp_path):
    def refused(grid, **run):
        with pytest.raises(ArgumentError) as said:
            study_from_file(_written(tmp_path, {**_with("run", **run), "grid": {**CONTENT["grid"], **grid}}))
        return str(said.value)

    said = refused({"mask": ["full", "causal"], "norm": ["post", "pre"]}, merge=1e-4)
    assert "3 of 4 cannot" in said and "this field tells tokens apart. Leave it out." in said
    for mask in ("full", "causal"):  # whichever engine would have run
        said = refused({"mask": [mask]}, merge=1e-7, rtol=1e-6)
        assert "Every cell: Argument `angle` must be at least ten times the tolerance 1e-06" in said
    assert study_from_file(_written(tmp_path, _with("run", merge=1e-5, rtol=1e-6))).full.fixed["merge"] == 1e-5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_with("grid", beta=[]), "`grid.beta` fits, but is []"),
        (_with("grid", mask=["diagonal"]), "`mask` must be full, causal"),
        (_with("grid", tokens=[1]), "`grid.tokens.0` fits, but is 1"),
        (
            _with("grid", beta={"from": -1, "to": 9, "count": 3, "spacing": "log"}),
            '`grid.beta` fits: spacing = "log" needs ends of one sign and not 0, but they are -1 and 9',
        ),
        (
            _with("grid", beta={"from": 0, "to": 9, "count": 3, "spacing": "log"}),
            "ends of one sign and not 0, but they are 0 and 9",
        ),
        (_with("grid", depth=[3]), "`grid.depth` fits"),
        (_with("run", above=1.5), "`run.above` fits, but is 1.5"),
        (_with("run", rule="sparsemax"), "`run.rule` fits, but is 'sparsemax'"),
        ({**CONTENT, "seeds": 0}, "`seeds` fits, but is 0"),
        ({key: value for key, value in CONTENT.items() if key != "run"}, "`run` fits"),
    ],
)
def test_what_a_file_says_wrong_is_one_sentence(tmp_path, content, words):
    with pytest.raises(ArgumentError) as refused:
        study_from_file(_written(tmp_path, content))
    assert words in str(refused.value)


def test_negative_beta_may_end_early_too_since_weights_stay_positive(tmp_path):
    grid = {**CONTENT["grid"], "beta": [-1.0], "dim": [5], "start": ["equiangular:0.7"]}
    run = {**CONTENT["run"], "until": 30}
    early, late = (
        _measured(study_from_file(_written(tmp_path, {**CONTENT, "grid": grid, "run": {**run, "stop": stop}})))
        for stop in ("gathered", "never")
    )
    np.testing.assert_array_equal(early["share_above_in_time"], late["share_above_in_time"])
    assert (early["together"] == 1).all() and np.isfinite(early["gathered_at"]).all()


@pytest.mark.parametrize(("name", "text"), [("a.ini", ""), ("a.toml", "x ="), ("a.json", "{"), ("a.yaml", "a: [")])
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ArgumentError, match="Argument `study` must"):
        study_from_file(tmp_path / name)
    with pytest.raises(ArgumentError, match="cannot"):
        study_from_file(tmp_path / "nothing.json")


def test_the_study_file_of_the_page_is_one_that_runs(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "phase.md").read_text(encoding="utf-8")
    preset = study_from_file(_written(tmp_path, page.split("```toml\n")[1].split("```")[0], "toml"))
    assert len(preset.full.cells) == 9 * 2 * 2 and preset.question.startswith("How many groups")
    assert preset.full.fixed["stop"] and preset.full.fixed["merge"] == 0.0
