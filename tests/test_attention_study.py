"""A laboratory's attention numbers and group histories against plain passes over the library's own maps and states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armillary.errors import ArgumentError, CheckMissed
from armillary.models.capture import capture, hook_count
from armillary.models.conditions import Ablated, Trained
from armillary.models.contract import left_as_found
from armillary.models.documents import Documents
from armillary.observables.attention_declaration import map_numbers
from armillary.observables.clustering import group_labels
from armillary.observables.distances import AngularDistance
from armillary.observables.group_history import EVENTS, Majority, followed_groups
from armillary.observables.grouping import HDBSCAN, Grouping
from armillary.observables.rank import participation_rank
from armillary.records.record import Record
from armillary.studies.collector import Setting
from armillary.studies.collectors import COLLECTORS
from armillary.studies.laboratory import Laboratory
from armillary.studies.plan import GROUPS, MAJORITY, Plan
from tiny import tiny_decoder, tiny_ids

MEASURED = [participation_rank.after("normalize")]


def laboratory(decoder: Any, *, tokens: int = 12, documents: int = 3, **options: Any) -> Laboratory:
    chosen = {"conditions": [Trained(), Ablated("mlp")], "measurements": MEASURED, "batch_size": 2, **options}
    return Laboratory(decoder, Documents.from_token_ids(tiny_ids(documents=documents, tokens=tokens)), **chosen)


def library_maps(decoder: Any, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with left_as_found(decoder.model), torch.no_grad():
        decoder.model.set_attn_implementation("eager")
        return decoder.model(input_ids=ids, use_cache=False, output_attentions=True).attentions


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Record]:
    decoder = tiny_decoder(request.param)
    return decoder, laboratory(decoder).run(tmp_path_factory.mktemp("attention") / "record")


def test_every_number_of_every_head_is_that_of_the_library_s_own_maps(measured: tuple[Any, Record]) -> None:
    decoder, record = measured
    ids = tiny_ids(documents=3, tokens=12)
    states = capture(decoder, ids).states.double()
    unit = states / states.norm(dim=-1, keepdim=True)
    for name, number in map_numbers().items():
        found = record.dataset[name].sel(condition="trained")
        assert bool(np.isnan(found.sel(layer=0)).all())
        for layer, maps in enumerate(library_maps(decoder, ids), start=1):
            rows = unit[:, layer - 1]
            expected = number(maps.double(), overlaps=(rows @ rows.mT).clamp(-1, 1)).T  # head document
            np.testing.assert_allclose(found.sel(layer=layer).values, expected.numpy(), rtol=5e-3, atol=1e-4)
            mean = record.dataset[f"{name}_head_mean"].sel(condition="trained", layer=layer).values
            np.testing.assert_allclose(mean, np.nanmean(found.sel(layer=layer).values, axis=0), rtol=1e-12)


def test_attention_has_rows_of_its_own_by_head_in_every_condition(measured: tuple[Any, Record]) -> None:
    decoder, record = measured
    rows = [row for row in record.rows() if row["tap"] == "attention"]
    heads = {row["head"] for row in rows}
    assert heads == {None, *range(decoder.facts.heads)}
    assert {row["condition"] for row in rows} == {"trained", "ablated-mlp"}
    assert {row["measurement"] for row in rows if row["head"] is not None} == set(map_numbers())
    assert {row["measurement"] for row in rows if row["head"] is None} == {f"{n}_head_mean" for n in map_numbers()}
    assert all(row["tokens"] == "all" for row in rows)
    one = record.estimate("attention_distance", condition="trained", layer=2, head=1)
    assert 0 <= one.value <= 6 and one.members == 3
    with pytest.raises(ArgumentError, match=r"`head` must be given.*Choose head 0 or 1 or 2 or 3\."):
        record.estimate("attention_distance", condition="trained", layer=2)
    differences = record.contrast("trained", "ablated-mlp", "attention_distance")
    assert len(differences) == decoder.facts.layers * decoder.facts.heads
    assert differences[differences["layer"] == 1]["value"].abs().max() == 0.0  # no MLP stands before the first map


def test_batches_do_not_change_a_number(measured: tuple[Any, Record], tmp_path: Path) -> None:
    decoder, record = measured
    alone = laboratory(decoder, batch_size=1).run(tmp_path / "alone")
    for name in (*map_numbers(), "group_agreement", "groups_born"):
        np.testing.assert_allclose(alone.dataset[name], record.dataset[name], rtol=1e-3, atol=1e-5)


def test_a_plan_without_attention_takes_no_map_and_holds_no_variable(tmp_path: Path) -> None:
    decoder = tiny_decoder()
    study = laboratory(decoder, plan=Plan(attention=()))
    record = study.run(tmp_path / "record")
    assert not [name for name in map(str, record.dataset.variables) if "attention" in name or name == "head"]
    assert record.study["plan"]["attention"] == []
    kinds = [kind for kind in COLLECTORS if kind.belongs(Setting(study.layout, decoder, "trained", {}))]
    assert "Attention" not in [kind.__name__ for kind in kinds]
    some = laboratory(decoder, plan=Plan(attention=("attention_entropy",)), layers=(2,)).run(tmp_path / "some")
    assert "attention_entropy" in some.dataset and "attention_distance" not in some.dataset


def test_a_plan_names_numbers_that_exist_each_once_and_the_remedy_works() -> None:
    for wrong in (("entropy",), ("attention_entropy", "attention_entropy")):
        with pytest.raises(ArgumentError, match=r"each once.*attention_distance.*give \(\) for none"):
            Plan(attention=wrong)
    assert Plan(attention=("attention_distance",)).choices()["attention"] == ["attention_distance"]


def test_maps_of_another_attention_stop_the_run_and_leave_the_model_as_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from transformers.models.llama import modeling_llama

    decoder, honest = tiny_decoder("llama"), modeling_llama.eager_attention_forward
    study, hooks = laboratory(decoder, tokens=10), hook_count(decoder.model)
    calibrated = study.bench(study.conditions[0], decoder, {})

    def other(*arguments: Any, **named: Any) -> Any:
        output, maps = honest(*arguments, **named)
        return 1.01 * output, maps

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", other)
    with pytest.raises(CheckMissed, match="with and without attention capture"):
        calibrated.measure(study.documents.token_ids[:2], study.documents.titles[:2])
    assert hook_count(decoder.model) == hooks
    assert decoder.model.config._attn_implementation == "sdpa"


def test_groups_are_followed_between_measured_layers(tmp_path: Path) -> None:
    decoder, ids = tiny_decoder(), tiny_ids(documents=3, tokens=20)
    coarse = Plan(
        followed=Grouping(AngularDistance(), HDBSCAN(min_cluster_size=3)), majority=Majority(share=0.6, least=3)
    )
    for name, plan in (("own", Plan()), ("coarse", coarse)):
        record = laboratory(decoder, tokens=20, plan=plan, layers=(0, 2, 4)).run(tmp_path / name)
        states = capture(decoder, ids).states
        for document in range(3):
            rows = [prepared(states[document, layer, 1:]) for layer in (0, 2, 4)]
            labels = torch.stack([group_labels(one, plan.followed) for one in rows]).numpy()
            history = followed_groups(labels, layers=(0, 2, 4), by=plan.majority)
            for step in history.steps:
                here = record.dataset.sel(condition="trained", layer=step.stop).isel(document=document)
                assert {kind: float(here[f"groups_{kind}"]) for kind in EVENTS} == {k: step.count(k) for k in EVENTS}
                assert float(here["group_persisting_share"]) == step.persisting_share
                assert float(here["group_agreement"]) == pytest.approx(step.agreement)
        assert bool(np.isnan(record.dataset["groups_born"].sel(layer=0)).all())
        assert str(plan.followed) in record.dataset["groups_born"].attrs["definition"]
        assert record.study["plan"]["followed"] == str(plan.followed)
        assert record.estimate("groups_born", condition="trained", layer=2).members == 3


def prepared(rows: torch.Tensor) -> torch.Tensor:
    """Centered rows; `group_labels` normalizes them."""
    return (rows.double() - rows.double().mean(0)).float()


def test_the_laboratory_s_own_grouping_is_the_one_of_its_order_parameter() -> None:
    assert Plan().followed == GROUPS and Plan().majority == MAJORITY
    assert "0.785398" in str(GROUPS)
