"""The rounding floor is of the size of the true error, and a difference below it is not resolved."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import armillary as am
from armillary.models.conditions import Ablated, Trained
from armillary.models.decoder import decoder_from_model
from armillary.models.documents import Documents
from armillary.records.assembly import Variable
from armillary.records.floors import floor_name, floors, is_floor, moved, resolved
from armillary.records.journal import Journal, partial_of, rounding_unit
from armillary.records.record import Record
from armillary.studies.laboratory import Laboratory
from armillary.studies.plan import Plan
from tiny import tiny_ids, tiny_model

CONTINUOUS = (
    "mean_overlap",
    "smallest_overlap",
    "participation_rank",
    "entropy_rank",
    "stream_norm_mean",
    "update_angle",
)
WIDER = {"float32": "float64", "bfloat16": "float32", "float16": "float32"}


def measured(model, path: Path, *conditions, **options) -> Record:
    documents = Documents.from_token_ids(tiny_ids(documents=6, tokens=20, seed=5), [f"document {k}" for k in range(6)])
    chosen = conditions or (Trained(),)
    return Laboratory(decoder_from_model(model), documents, chosen, resamples=400, **options).run(path)


@pytest.mark.parametrize(
    ("family", "dtype"), [("llama", "float32"), ("gpt2", "float32"), ("llama", "bfloat16"), ("gpt2", "float16")]
)
def test_the_floor_is_within_a_factor_of_ten_of_the_true_error_of_other_documents(family, dtype, tmp_path):
    model = tiny_model(family).to(getattr(torch, dtype))
    record = measured(model, tmp_path / "narrow")
    truth = measured(copy.deepcopy(model).to(getattr(torch, WIDER[dtype])), tmp_path / "wide")
    for name in CONTINUOUS:
        floor = record.dataset[floor_name(name)].values
        error = np.abs(record.dataset[name] - truth.dataset[name]).isel(document=slice(2, None)).max("document").values
        both = np.isfinite(floor) & np.isfinite(error) & (error > 0)
        ratio = floor[both] / error[both]
        assert both.any() and 0.1 < np.median(ratio) < 10, name
        assert np.mean(ratio > 0.03) > 0.95 and np.mean(ratio < 30) > 0.95, name
    assert (
        f"once more in {WIDER[dtype]}, on the same weights; the largest difference from {dtype}"
        in record.provenance["rounding"]
    )


def test_a_planted_difference_below_the_floor_is_not_resolved_and_a_real_one_is(tmp_path):
    model = tiny_model("llama")
    record = measured(model, tmp_path / "one", Trained(), Ablated("mlp"))
    with torch.no_grad():  # by one unit of the last place of one weight
        entry = model.model.layers[0].mlp.up_proj.weight[:1, :1]
        entry.copy_(torch.nextafter(entry, torch.full_like(entry, torch.inf)))
    other = measured(model, tmp_path / "two", Trained())
    planted = record.contrast_with(other, "mean_overlap", condition="trained")
    deep = planted[(planted["layer"] > 0) & (planted["tap"] == "block")]
    assert len(deep) and not deep["resolved"].any()
    assert (deep["value"].abs() < deep["floor"]).all() and (deep["value"] != 0).any()
    real = record.contrast("trained", "ablated-mlp", "mean_overlap")
    last = real[(real["layer"] == 4) & (real["tap"] == "block")]
    assert last["resolved"].all() and (last["floor"] > 0).all()


def test_an_estimate_of_a_difference_below_its_floor_says_so(tmp_path):
    record = measured(tiny_model("llama"), tmp_path / "one", Trained(), Ablated("mlp"))
    where = {"layer": 4, "tap": "block", "tokens": "without_first", "preparation": "normalize"}
    one, other = (record.sample("mean_overlap", condition=name, **where) for name in ("trained", "ablated-mlp"))
    real = am.contrast(one, other, level=0.95, resamples=400, seed=0)
    assert real.resolved is True and "Not resolved" not in str(real)
    assert real.floor == pytest.approx(one.floor + other.floor) and 0 < real.floor < 1e-4
    same = am.contrast(one, one, level=0.95, resamples=400, seed=0)
    assert same.resolved is False and "not resolved: rounding alone moves it by up to" in str(same)
    bare = am.contrast([0.1, 0.2], [0.1, 0.1], level=0.95, resamples=400, seed=0)
    assert bare.resolved is None


def test_without_a_wider_type_or_without_documents_for_it_nothing_is_claimed(tmp_path):
    widest = measured(tiny_model("llama").double(), tmp_path / "widest", Trained(), Ablated("mlp"))
    assert widest.provenance["rounding"] == "not measured: float64 on cpu has no wider type to compare with"
    frame = widest.contrast("trained", "ablated-mlp", "mean_overlap")
    assert frame["floor"].isna().all() and frame["resolved"].isna().all()
    none = measured(tiny_model("llama"), tmp_path / "none", plan=Plan(rounding_documents=0))
    assert none.provenance["rounding"].startswith("not measured")
    assert not any(is_floor(str(name)) for name in none.dataset)


def test_an_operation_that_knows_no_wider_type_leaves_a_reason_and_the_numbers(tmp_path):
    model = tiny_model("llama")

    def narrow_only(module, inputs):
        if inputs[0].dtype is torch.float64:
            raise RuntimeError("mat1 must be Float32, got Double")

    model.model.layers[1].mlp.register_forward_pre_hook(narrow_only)
    record = measured(model, tmp_path / "record")
    assert record.provenance["rounding_not_measured"] == {"trained": "RuntimeError: mat1 must be Float32, got Double"}
    assert not any(is_floor(str(name)) for name in record.dataset)
    assert np.isfinite(record.dataset["loss"]).all()
    assert "must run in float64" in record.provenance["gauges_not_measured"]


def test_floors_are_the_same_to_the_bit_when_a_run_goes_on_after_them_or_before_them(tmp_path, monkeypatch):
    from armillary.studies import station

    whole = measured(tiny_model("llama"), tmp_path / "whole", Trained(), Ablated("mlp"), batch_size=2)
    for stop_at in ("rounding", "put"):
        with monkeypatch.context() as patched:
            calls = []
            original = station.rounding if stop_at == "rounding" else Journal.put

            def stopped(*arguments, calls=calls, original=original, allowed=1 if stop_at == "rounding" else 8):
                calls.append(arguments)
                if len(calls) > allowed:
                    raise KeyboardInterrupt
                return original(*arguments)

            patched.setattr(*((station, "rounding") if stop_at == "rounding" else (Journal, "put")), stopped)
            with pytest.raises(KeyboardInterrupt):
                measured(tiny_model("llama"), tmp_path / stop_at, Trained(), Ablated("mlp"), batch_size=2)
        assert (partial_of(tmp_path / stop_at) / rounding_unit(0)).exists()
        resumed = measured(tiny_model("llama"), tmp_path / stop_at, Trained(), Ablated("mlp"), batch_size=2)
        assert resumed.measurements_hash == whole.measurements_hash


def test_floors_take_the_largest_over_documents_and_neighboring_layers_and_leave_the_embedding_alone():
    variable = Variable(("condition", "layer", "document"), {})
    narrow = {"x": np.array([[0.0, 1.0, 1.0, 1.0, np.nan], [0.0, 1.0, 1.5, 1.0, np.nan]])}
    wide = {"x": np.array([[0.0, 1.1, 1.0, 1.0, np.nan], [0.0, 1.0, 1.0, 1.0, np.nan]])}
    found = moved(narrow, wide, {"x": variable}, layers=(0, 1, 2, 3, 4))["x_rounding"]
    assert found[:4].tolist() == [0.0, 0.5, 0.5, 0.5] and np.isnan(found[4])
    wide["x"][0, 3] = np.nan  # rounding decides whether there is a number
    assert moved(narrow, wide, {"x": variable}, layers=(1, 2, 3, 4, 5))["x_rounding"][3] == np.inf


def test_every_combination_finds_its_own_floor(tmp_path):
    record = measured(tiny_model("llama"), tmp_path / "one", Trained(), Ablated("mlp"))
    found = floors(record.dataset, record.columns)
    for row in range(0, len(record.columns), 37):
        one = record.columns.iloc[row]
        if floor_name(one["measurement"]) not in record.dataset:  # a number of each head has none
            assert np.isnan(found[row])
            continue
        held = record.dataset[floor_name(one["measurement"])]
        where = {axis: one["place" if axis == "tap" else axis] for axis in held.dims}
        assert np.array_equal(found[row], held.sel(where).item(), equal_nan=True)
    of_each_set = record.columns["measurement"].isin(CONTINUOUS).to_numpy()
    assert np.isfinite(found[of_each_set]).mean() > 0.8


def test_no_difference_is_never_resolved_whatever_the_floor() -> None:
    assert resolved(0.0, 0.0) is False and resolved(1e-9, 1e-9) is False
    assert resolved(-2e-9, 1e-9) is True and resolved(1.0, float("nan")) is None
