"""Diagrams: cells of a grid measured one by one into a record, resumed without losing one, the same on any backend."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from armillary.errors import ArgumentError, NumericalError
from armillary.figures import drawings, reading_of
from armillary.records.exports import read_table
from armillary.records.record import Record
from armillary.studies.diagram.declaration import Axis, Grid
from armillary.studies.diagram.registry import preset_named, preset_names
from armillary.studies.diagram.run import Diagram
from armillary.studies.diagram.work import measured_cell
from armillary.studies.origin import processor
from mean_length import GRID, PRESET, measure


def _diagram(**changes):
    return Diagram(**{"preset": PRESET, "grid": GRID, "size": "quick", **changes})


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return _diagram().run(tmp_path_factory.mktemp("records") / "diagram")


def test_every_cell_stands_at_its_place_in_the_record(record):
    for place, cell in GRID.cells.items():
        labels = {"tokens": cell["tokens"], "dim": cell["dim"]}
        expected = measure(cell, range(20))
        for name, array in expected.items():
            np.testing.assert_array_equal(record.dataset[name].sel(labels).values, array)
        assert GRID.words(place) == f"tokens {cell['tokens']}, dim {cell['dim']}"


def test_a_finding_stands_beside_what_was_expected(record):
    (found,) = record.provenance["findings"]
    assert found["low"] < found["expected"] == 1 / 64 < found["high"]
    assert found["members"] == 20


def test_every_result_without_a_figure_of_its_own_is_drawn(record):
    assert set(drawings(reading_of(record))) == {"grid_squared_mean", "grid_in_share"}


def test_a_diagram_is_the_same_when_read_again(record):
    again = Record.open(record.path)
    assert again.measurements_hash == record.measurements_hash
    assert again.study["kind"] == "phase"


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_called_like_its_module_and_asks_a_question(name):
    preset = preset_named(name)
    assert preset.name == name
    assert preset.question.endswith("?")
    assert preset.differs and preset.limits and preset.source


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_measures_each_seed_by_itself(name):
    preset = preset_named(name)
    cells = preset.quick.cells
    place = min(cells, key=lambda one: preset.cost(cells[one]))
    seeds = (3, 4) if preset.quick.seeds > 1 else (0,)
    _, together = measured_cell(preset.measure, preset.results, cells[place], seeds, place, processor())
    for k, seed in enumerate(seeds):
        _, alone = measured_cell(preset.measure, preset.results, cells[place], (seed,), place, processor())
        for one in preset.results:
            if "seed" in one.dims:
                np.testing.assert_array_equal(
                    np.take(together[one.name], k, one.dims.index("seed")),
                    alone[one.name].squeeze(one.dims.index("seed")),
                )


def test_a_preset_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ArgumentError, match="perspective"):
        preset_named("perspektive")


@pytest.mark.parametrize("level", [0.0, 2.0, math.nan])
def test_a_level_that_gives_no_interval_is_refused_before_anything_runs(level):
    preset = preset_named("perspective")
    with pytest.raises(ArgumentError, match="`level` must lie between 0 and 1"):
        Diagram(preset=preset, grid=preset.quick, size="quick", level=level)


def test_a_grid_without_values_or_with_a_name_twice_is_refused():
    with pytest.raises(ArgumentError, match="one value or more"):
        Axis("beta", (), "beta")
    with pytest.raises(ArgumentError, match="tokens comes twice"):
        Grid(axes=(Axis("tokens", (2,), "T"),), seeds=1, fixed={"tokens": 3})
    with pytest.raises(ArgumentError, match="leaves none"):
        Grid(axes=(Axis("tokens", (2,), "T"),), seeds=1, belongs=lambda cell: cell["tokens"] > 2)


def test_cells_that_do_not_belong_are_not_measured_and_stay_undefined(tmp_path):
    grid = replace(GRID, belongs=lambda cell: cell["tokens"] > cell["dim"])
    data = _diagram(grid=grid).run(tmp_path / "diagram").dataset
    undefined = np.isnan(data["squared_mean"].values).all(axis=-1)
    assert undefined.tolist() == [[False, True], [False, False], [False, False]]


def test_what_a_cell_returns_must_be_what_was_declared():
    cell = next(iter(GRID.cells.values()))
    with pytest.raises(ArgumentError, match=r"'in_share' has shape \(2,\) instead of \(3,\)"):
        measured_cell(
            lambda c, s: measure(c, s) | {"in_share": np.zeros(2)}, PRESET.results, cell, (0,), 0, processor()
        )
    with pytest.raises(NumericalError, match="count such systems apart"):
        measured_cell(
            lambda c, s: measure(c, s) | {"in_share": np.full(3, np.inf)}, PRESET.results, cell, (0,), 0, processor()
        )


def test_a_table_has_one_row_a_cell_and_result_with_its_interval_over_seeds(record):
    table = record.to_dataframe()
    assert list(table.columns) == ["tokens", "dim", "share", "measurement", "value", "low", "high", "level", "seeds"]
    assert len(table) == 6 + 6 * 3
    row = table[(table.tokens == 64) & (table.dim == 3) & (table.measurement == "squared_mean")].iloc[0]
    (found,) = record.provenance["findings"]
    assert (row["value"], row["low"], row["high"], row["seeds"]) == (found["value"], found["low"], found["high"], 20)
    assert np.isnan(row["share"])
    mean = table[table.measurement == "in_share"].iloc[4]
    assert (mean["tokens"], mean["dim"], mean["share"]) == (4, 5, 0.5) and np.isnan(mean["low"])
    assert mean["value"] == record.dataset["in_share"].sel(tokens=4, dim=5, share=0.5)


def test_a_table_of_seeds_has_every_number_of_every_system(record):
    table = record.to_dataframe("document")
    own = table[table.measurement == "squared_mean"]
    assert len(own) == 6 * 20
    np.testing.assert_array_equal(own["value"], record.dataset["squared_mean"].values.ravel())
    assert own["seed"].tolist() == list(range(20)) * 6


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_a_diagram_leaves_as_a_table_and_comes_back(record, tmp_path, ending):
    file = tmp_path / f"numbers.{ending}"
    {"csv": record.to_csv, "parquet": record.to_parquet, "json": record.to_json}[ending](file)
    table, said = read_table(file)
    assert_frame_equal(table, record.to_dataframe())
    assert said["columns"]["tokens"] == "tokens T"
    assert said["definitions"]["squared_mean"]["symbol"] == "|mean|^2"


def test_a_diagram_says_what_it_is_in_a_line(record):
    assert "phase diagram mean-length (quick), 6 cells of 20 systems" in repr(record)
    assert "How long is the mean" in record._repr_html_()
