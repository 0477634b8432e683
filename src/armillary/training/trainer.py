"""For the Trainer of transformers: a mix-in that adds a regularizer to its loss, and a callback that watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from armillary.errors import ArgumentError
from armillary.training.loop import WhenNotFinite, agreed, finite_gradient, not_finite, require_when_not_finite
from armillary.training.probe import Monitor
from armillary.training.regularizer import Regularizer
from armillary.training.tapping import checked_layers, family_for_training, unwrapped

__all__ = ["GeometryCallback", "RegularizedTrainerMixin"]


class GeometryCallback(TrainerCallback):
    """Measures a fixed probe every so many steps, on the first process only, and never touches the loss.

    Numbers go to the monitor's file and, through a trainer with `RegularizedTrainerMixin` or after
    `callback.monitor.log = trainer.log`, to whatever the trainer logs to.

    Args:
        monitor: What is measured, and how often.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """See that the probe fits, and measure step 0."""
        self.monitor.probe.check_fits(given["model"], given.get("processing_class"))
        if state.is_world_process_zero:
            self.monitor.after_step(given["model"], int(state.global_step))

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure if it is time."""
        if state.is_world_process_zero:
            self.monitor.after_step(given["model"], int(state.global_step))


class _Skipping(TrainerCallback):
    """Gives up a step whose loss or gradient is not finite: without gradients the optimizer changes nothing."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Take the gradients away where a part of this step was spoilt, or stop where that was declared."""
        scaled = getattr(self.trainer.accelerator, "scaler", None) is not None  # it gives up such gradients by itself
        if not self.trainer.spoilt and (scaled or finite_gradient(given["model"].parameters())):
            return
        if self.trainer.when_not_finite == "stop":
            raise not_finite("the gradient is not finite", int(state.global_step))
        self.trainer.spoilt = False
        self.trainer.skipped += 1
        given["model"].zero_grad(set_to_none=True)


class RegularizedTrainerMixin:
    """A Trainer whose training loss has a regularizer added; evaluation losses stay plain.

    Write `class Mine(RegularizedTrainerMixin, Trainer): pass` and give `regularizer=...`. The penalty counts once a
    step however many batches are accumulated, and once over all processes (a `gathered()` penalty is that of the whole
    batch). `penalty` and `skipped_steps` are logged beside the loss.

    Args:
        *given: For the Trainer.
        regularizer: What is added.
        when_not_finite: "skip" gives up a step whose loss or gradient is not finite and counts it; "stop" raises.
        **options: For the Trainer.

    Raises:
        ArgumentError: Layers that the model does not have, or a Trainer that compiles the model.
    """

    def __init__(
        self, *given: Any, regularizer: Regularizer, when_not_finite: WhenNotFinite = "skip", **options: Any
    ) -> None:
        require_when_not_finite(when_not_finite)
        super().__init__(*given, **options)
        trainer: Any = self
        if trainer.args.torch_compile:
            raise ArgumentError(
                "Argument `args` must not compile the model, but `torch_compile` is on: what is compiled cannot be "
                "tapped. Train with torch_compile=False."
            )
        inner = unwrapped(trainer.model)
        checked_layers(inner, regularizer.layers, family_for_training(inner))
        self.regularizer, self.when_not_finite = regularizer, when_not_finite
        self.spoilt, self.skipped = False, 0
        self._penalties: list[float] = []
        trainer.add_callback(_Skipping(self))
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, GeometryCallback) and callback.monitor.log is None:
                callback.monitor.log = trainer.log

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The Trainer's own loss plus the regularizer's, in training."""
        trainer: Any = self
        parent: Any = super()
        if not model.training:
            return parent.compute_loss(model, inputs, return_outputs, num_items_in_batch)
        mask = inputs.get("attention_mask") if isinstance(inputs, Mapping) else None
        with self.regularizer.tap(model) as states:
            loss, outputs = parent.compute_loss(model, inputs, True, num_items_in_batch)
        added = self.regularizer(states, step=int(trainer.state.global_step), mask=mask)
        parts = int(trainer.current_gradient_accumulation_steps)
        total = loss + (added / parts if self._scaled(num_items_in_batch) else added)
        if agreed(bool(torch.isfinite(total.detach()))):
            self._penalties.append(float(added.detach()))
        else:
            total = self._without_gradient(
                model, lambda: self.regularizer.blame(loss, states, step=int(trainer.state.global_step), mask=mask)
            )
        return (total, outputs) if return_outputs else total

    def log(self, logs: dict[str, float], *given: Any, **options: Any) -> None:
        """The Trainer's own log with the mean penalty since the last one, and how many steps were skipped."""
        if "loss" in logs and self._penalties:
            logs["penalty"] = sum(self._penalties) / len(self._penalties)
            logs["skipped_steps"] = self.skipped
            self._penalties.clear()
        parent: Any = super()
        parent.log(logs, *given, **options)

    def _scaled(self, items: Any) -> bool:
        """Whether the Trainer takes the loss as it is, or divides it by the number of accumulated batches."""
        trainer: Any = self
        declared = getattr(trainer, "loss_is_scaled_for_ga", None)
        if declared is not None:
            return bool(declared)
        return bool((trainer.model_accepts_loss_kwargs and items is not None) or trainer.compute_loss_func is not None)

    def _without_gradient(self, model: Any, blame: Callable[[], str]) -> Tensor:
        """A loss of zero in the place of one that is not finite: it reaches every weight and changes none."""
        if self.when_not_finite == "stop":
            trainer: Any = self
            raise not_finite(blame(), int(trainer.state.global_step))
        self.spoilt = True
        weights = [p for p in unwrapped(model).parameters() if p.requires_grad]
        return torch.stack([0 * p.flatten()[0].float() for p in weights]).sum()
