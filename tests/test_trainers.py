"""Regularizers and probes where people train: the Trainer of transformers, Lightning where it is, a loop of one's own."""

from __future__ import annotations

import importlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import Trainer, TrainingArguments

import armillary as am
import tiny
from armillary.models.capture import hook_count

IDS = torch.randint(0, 250, (16, 12), generator=torch.Generator().manual_seed(1))
LABELS = IDS.clone()
LABELS[:, 0] = -100  # the Trainer divides by all labels, and the first one predicts nothing
DATA = [{"input_ids": row, "labels": labels} for row, labels in zip(IDS, LABELS, strict=True)]
PROBE = IDS[:3]


class Regularized(am.RegularizedTrainerMixin, Trainer):
    pass


def regularizer(strength=0.5, layers=(2, 3), penalty=None):
    return am.Regularizer(penalty=penalty or am.uniformity_penalty(beta=4.0), layers=layers, strength=strength)


def trained(folder, *, kind=Regularized, model=None, callbacks=(), **options):
    model = model or tiny.tiny_gpt2()
    more = {key: options.pop(key) for key in ("regularizer", "when_not_finite", "processing_class") if key in options}
    settings = {
        "per_device_train_batch_size": 4, "max_steps": 3, "logging_steps": 1, "report_to": [], "use_cpu": True, "seed": 0,
        "learning_rate": 0.01, "lr_scheduler_type": "constant", "optim": "sgd", "disable_tqdm": True, "save_strategy": "no",
        "max_grad_norm": 0.0, **options,
    }  # fmt: skip
    arguments = TrainingArguments(output_dir=str(folder), **settings)
    trainer = kind(model=model, args=arguments, train_dataset=DATA, callbacks=list(callbacks), **more)
    trainer.train()
    return trainer


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def deterministic():
    model = tiny.tiny_gpt2()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


# Trainer ---------------------------------------------------------------------------------------------------------


def test_a_strength_of_zero_trains_as_the_plain_trainer_does(tmp_path):
    plain = trained(tmp_path, kind=Trainer, model=deterministic())
    other = trained(tmp_path, model=deterministic(), regularizer=regularizer(strength=0.0))
    for name, weight in weights(plain.model).items():
        assert torch.equal(weight, weights(other.model)[name])


def test_the_mix_in_takes_the_steps_of_a_loop_that_adds_the_penalty_itself(tmp_path):
    order = []

    class Noted(Regularized):
        def compute_loss(self, model, inputs, *given, **options):
            order.append(inputs["input_ids"])
            return super().compute_loss(model, inputs, *given, **options)

    trainer = trained(tmp_path, kind=Noted, model=deterministic(), regularizer=regularizer(), max_steps=4)
    model = deterministic().train()
    steps = am.GuardedSteps(torch.optim.SGD(model.parameters(), lr=0.01), when_not_finite="stop")
    for batch in order:
        with regularizer().tap(model) as states:
            loss = model(input_ids=batch, labels=batch).loss
        steps.take(loss + regularizer()(states, step=0))
    found = weights(trainer.model)
    assert all(torch.allclose(weight, found[name], atol=1e-5) for name, weight in weights(model).items())
    assert {"loss", "penalty", "skipped_steps"} <= trainer.state.log_history[0].keys()


def test_accumulated_batches_count_the_penalty_once_a_step(tmp_path):
    together = trained(
        tmp_path, model=deterministic(), regularizer=regularizer(), per_device_train_batch_size=8, max_steps=2
    )
    apart = trained(
        tmp_path,
        model=deterministic(),
        regularizer=regularizer(),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=2,
    )
    found = weights(apart.model)
    assert all(torch.allclose(weight, found[name], atol=1e-5) for name, weight in weights(together.model).items())


def test_evaluation_losses_stay_plain(tmp_path):
    trainer = trained(tmp_path, regularizer=regularizer(strength=50.0))
    loss = trainer.evaluate(DATA[:4])["eval_loss"]
    batch = IDS[:4]
    trainer.model.eval()
    assert loss == pytest.approx(float(trainer.model(input_ids=batch, labels=batch).loss.detach()), rel=1e-4)


def _poisonous(at):
    """A penalty that is not a number in one of its calls."""
    calls = []

    def function(rows):
        calls.append(1)
        values = rows.rows.sum((-2, -1))
        return values * math.nan if len(calls) == at else values

    return am.Penalty(name="poison", definition="", source="", at_consensus="", function=function)


def test_a_step_that_is_not_finite_is_skipped_and_counted(tmp_path):
    seen = []

    class Watched(Regularized):
        def log(self, logs, *given, **options):
            super().log(logs, *given, **options)
            seen.append(weights(self.model))

    trainer = trained(
        tmp_path,
        kind=Watched,
        regularizer=regularizer(penalty=_poisonous(2), layers=(2,)),
        max_steps=3,
        optim="adamw_torch",
    )
    first, second, third = seen[:3]
    assert trainer.skipped == 1
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(second[name], third[name]) for name in first)
    assert all(torch.isfinite(weight).all() for weight in third.values())


def test_training_stops_where_that_was_declared(tmp_path):
    with pytest.raises(am.NumericalError, match=r"at step 1 .* times the penalty poison"):
        trained(tmp_path, regularizer=regularizer(penalty=_poisonous(2), layers=(2,)), when_not_finite="stop")


def _cornered():
    """A penalty of finite value whose gradient is not a number."""
    return am.Penalty(
        name="cornered", definition="", source="", at_consensus="",
        function=lambda rows: torch.sqrt((rows.rows - rows.rows.detach()).abs().sum((-2, -1))),
    )  # fmt: skip


@pytest.mark.parametrize("clipped", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_changes_no_weight_and_is_counted(clipped, tmp_path):
    cornered = regularizer(penalty=_cornered(), layers=(2,))
    trainer = trained(tmp_path, regularizer=cornered, optim="adamw_torch", max_grad_norm=clipped)
    assert trainer.skipped == 3
    assert all(torch.equal(weight, weights(tiny.tiny_gpt2())[name]) for name, weight in weights(trainer.model).items())
    assert trainer.state.log_history[-2]["skipped_steps"] == 3


def test_a_gradient_that_is_not_finite_stops_training_where_that_was_declared(tmp_path):
    with pytest.raises(am.NumericalError, match="at step 0 the gradient is not finite"):
        trained(tmp_path, regularizer=regularizer(penalty=_cornered(), layers=(2,)), when_not_finite="stop")


def test_the_part_of_a_loss_that_is_not_finite_is_named(tmp_path):
    nothing = am.Penalty(
        name="nothing", definition="", source="", at_consensus="",
        function=lambda rows: rows.rows.sum((-2, -1)) * math.nan,
    )  # fmt: skip
    words = r"the penalty nothing\(\) after normalize is nan at layers 2, 3 \(the loss itself is 7\.\d+\)"
    with pytest.raises(am.NumericalError, match=words):
        trained(tmp_path, regularizer=regularizer(penalty=nothing), when_not_finite="stop")
    states = {2: torch.eye(3)[None], 3: torch.eye(3)[None]}
    heavy = regularizer(strength=1e300)
    assert "1e+300 times the penalty uniformity(beta=4.0) after normalize is not finite" in heavy.blame(
        torch.tensor(5.0), states, step=0
    )
    assert heavy.blame(torch.tensor(math.inf), states, step=0) == "the loss itself is inf"


def test_layers_that_do_not_exist_and_compiled_models_are_refused_before_training(tmp_path):
    with pytest.raises(am.ArgumentError, match="`layers` must be layers from 0 to 4"):
        trained(tmp_path, regularizer=regularizer(layers=(7,)))
    with pytest.raises(am.ArgumentError, match="`torch_compile` is on"):
        trained(tmp_path, regularizer=regularizer(), torch_compile=True)


def test_a_callback_measures_a_fixed_probe_and_training_does_not_notice(tmp_path):
    path = tmp_path / "geometry.jsonl"
    monitor = am.Monitor(probe=am.Probe(ids=PROBE), every=2, path=path, largest_share=1.0)
    watched = trained(
        tmp_path, kind=Trainer, callbacks=[am.GeometryCallback(monitor)], model=tiny.tiny_gpt2(), max_steps=4
    )
    alone = trained(tmp_path, kind=Trainer, model=tiny.tiny_gpt2(), max_steps=4)
    assert all(torch.equal(weight, weights(alone.model)[name]) for name, weight in weights(watched.model).items())
    assert hook_count(watched.model) == hook_count(alone.model)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4]
    assert {"overlap/layer 0", "participation_rank/layer 4", "loss"} <= lines[0]["numbers"].keys()
    states = am.capture(am.decoder_from_model(tiny.tiny_gpt2()), PROBE).states[:, 3, 1:]
    assert lines[0]["numbers"]["overlap/layer 3"] == pytest.approx(
        float(am.mean_overlap.after("normalize")(states).mean()), abs=1e-5
    )


def test_numbers_of_a_callback_go_to_what_the_trainer_logs_to(tmp_path):
    monitor = am.Monitor(probe=am.Probe(ids=PROBE, layers=(4,)), every=1, largest_share=1.0)
    trainer = trained(tmp_path, regularizer=regularizer(), callbacks=[am.GeometryCallback(monitor)])
    logged = [one for one in trainer.state.log_history if "geometry/overlap/layer 4" in one]
    assert [one["step"] for one in logged] == [0, 1, 2, 3]


# probe -----------------------------------------------------------------------------------------------------------


def test_a_probe_of_another_tokenizer_is_refused(tmp_path):
    probe = am.Probe(ids=PROBE + 200)
    with pytest.raises(am.ArgumentError, match="they are of another tokenizer"):
        trained(tmp_path, kind=Trainer, callbacks=[am.GeometryCallback(am.Monitor(probe=probe, every=1))])
    known = am.Probe(ids=PROBE, tokenizer=tiny.tiny_tokenizer())
    known.check_fits(tiny.tiny_gpt2(), tiny.tiny_tokenizer())
    other = tiny.tiny_tokenizer()
    other.add_tokens(["<new>"])
    with pytest.raises(am.ArgumentError, match="their vocabularies differ"):
        known.check_fits(tiny.tiny_gpt2(), other)
    with pytest.raises(am.ArgumentError, match="at most 64 tokens"):
        am.Probe(ids=torch.zeros(1, 65, dtype=torch.long)).check_fits(tiny.tiny_gpt2())
    with pytest.raises(am.ArgumentError, match="they are of another tokenizer"):
        am.Monitor(probe=probe, every=1).after_step(tiny.tiny_gpt2(), 0)
    with pytest.raises(am.ArgumentError, match="two tokens left"):
        am.Probe(ids=PROBE[:, :2])


def test_a_probe_of_a_model_that_is_not_finite_gives_no_number_and_a_warning(tmp_path):
    model = tiny.tiny_gpt2()
    monitor = am.Monitor(
        probe=am.Probe(ids=PROBE), every=1, path=tmp_path / "g.jsonl", largest_share=1.0, log=(heard := []).append
    )
    monitor.after_step(model, 0)
    with torch.no_grad():
        model.transformer.h[2].mlp.c_proj.weight[0, 0] = math.nan
    found = monitor.after_step(model, 1)
    assert math.isnan(found["overlap/layer 3"]) and math.isfinite(found["overlap/layer 2"])
    assert any("overlap/layer 3 is not a number" in one for one in monitor.warnings)
    assert json.loads((tmp_path / "g.jsonl").read_text().splitlines()[1])["numbers"]["overlap/layer 3"] is None
    assert "geometry/overlap/layer 3" not in heard[1]


def test_what_rises_or_falls_far_from_the_start_of_the_run_is_warned_of_once():
    model = tiny.tiny_gpt2()
    monitor = am.Monitor(probe=am.Probe(ids=PROBE, layers=(4,)), every=1, largest_share=1.0)
    monitor.after_step(model, 0)
    with torch.no_grad():
        model.transformer.h[3].mlp.c_proj.bias += 100.0
    for step in (1, 2):
        monitor.after_step(model, step)
    assert [one.partition(" at layer")[0] for one in monitor.warnings] == [
        "step 1: the mean overlap",
        "step 1: the participation rank",
    ]


def test_measuring_keeps_within_its_share_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("armillary.training.probe.clock.perf_counter", lambda: now[0])

    class Slow(am.Probe):
        def check_fits(self, model, tokenizer=None):
            pass

        def measure(self, model):
            now[0] += 1.0
            return {"loss": 1.0}

    monitor = am.Monitor(probe=Slow(ids=PROBE), every=1, largest_share=0.1)
    taken = 0
    for step in range(100):
        taken += monitor.after_step(None, step) is not None
        now[0] += 1.0
    assert taken + monitor.left_out == 100
    assert 9 <= taken <= 12


def test_numbers_of_a_monitor_out_of_range_are_refused():
    with pytest.raises(am.ArgumentError, match="`every` and `largest_share`"):
        am.Monitor(probe=am.Probe(ids=PROBE), every=0)


# Lightning -------------------------------------------------------------------------------------------------------


def _lightning(step, callback, logger=False):
    from lightning.pytorch import LightningModule
    from lightning.pytorch import Trainer as LightningTrainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.model = tiny.tiny_gpt2()

        def training_step(self, batch, _):
            with regularizer().tap(self.model) as states:
                loss = self.model(input_ids=batch, labels=batch).loss
            return step(loss, states, self.global_step)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    module = Module()
    LightningTrainer(
        max_steps=2, accelerator="cpu", logger=logger, callbacks=[callback], enable_progress_bar=False,
        enable_checkpointing=False, log_every_n_steps=1, enable_model_summary=False,
    ).fit(module, torch.utils.data.DataLoader(IDS, batch_size=4))  # fmt: skip
    return module.model


def test_the_lightning_callback_measures_the_probe_and_logs_it(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    from armillary.training.lightning import GeometryCallback

    def step(loss, states, number):
        return loss + regularizer()(states, step=number)

    monitor = am.Monitor(probe=am.Probe(ids=PROBE, layers=(4,)), every=1, path=tmp_path / "g.jsonl", largest_share=1.0)
    _lightning(step, GeometryCallback(monitor), CSVLogger(tmp_path))
    assert [json.loads(line)["step"] for line in (tmp_path / "g.jsonl").read_text().splitlines()] == [0, 1, 2]
    assert "geometry/overlap/layer 4" in next(tmp_path.rglob("metrics.csv")).read_text()


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_in_lightning_a_step_that_is_not_finite_is_skipped_and_counted_or_training_stops(poison):
    from armillary.training.lightning import FiniteStepsCallback

    def step(loss, states, _):
        corner = torch.sqrt((states[2] - states[2].detach()).abs().sum())
        return loss * math.nan if poison == "loss" else loss + corner

    guard = FiniteStepsCallback(when_not_finite="skip")
    model = _lightning(step, guard)
    assert guard.skipped == 2
    assert all(torch.equal(weight, weights(tiny.tiny_gpt2())[name]) for name, weight in weights(model).items())
    with pytest.raises(am.NumericalError, match="at step 0 the gradient is not finite"):
        _lightning(step, FiniteStepsCallback(when_not_finite="stop"))


def test_without_lightning_its_callback_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "armillary.training.lightning", raising=False)
    with pytest.raises(ImportError, match=r"Install it with `pip install 'armillary\[lightning\]'`"):
        importlib.import_module("armillary.training.lightning")


# the README ------------------------------------------------------------------------------------------------------


def test_the_loop_in_the_readme_has_fifteen_lines_and_runs(tmp_path):
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Training with the geometry in view")[1]
    code = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    taken, skipped, loss = done.stdout.split()
    assert (int(taken), int(skipped)) == (20, 0) and float(loss) < 5.4
