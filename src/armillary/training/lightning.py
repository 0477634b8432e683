"""For Lightning, where it is installed: a callback that watches the geometry, and one that guards the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from armillary.errors import ArgumentError
from armillary.training.loop import WhenNotFinite, finite_gradient, not_finite, require_when_not_finite
from armillary.training.probe import Monitor

try:
    from lightning.pytorch import Callback
except ImportError as missing:
    raise ImportError(
        "Lightning must be installed for its callback, but it is not. Install it with "
        "`pip install 'armillary[lightning]'`."
    ) from missing

__all__ = ["FiniteStepsCallback", "GeometryCallback"]


class FiniteStepsCallback(Callback):
    """Gives up a step whose gradient is not finite: without gradients the optimizer changes nothing.

    A loss that is not finite has such a gradient. Steps are counted, and `skipped_steps` goes to the logger.

    Args:
        when_not_finite: "skip" gives the step up and counts it; "stop" raises.

    Attributes:
        skipped: Steps given up so far.

    Raises:
        ArgumentError: Another word.
    """

    def __init__(self, *, when_not_finite: WhenNotFinite) -> None:
        require_when_not_finite(when_not_finite)
        self.when_not_finite, self.skipped = when_not_finite, 0

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Take the gradients away where one is not finite, or stop where that was declared."""
        if finite_gradient(pl_module.parameters()):
            return
        if self.when_not_finite == "stop":
            raise not_finite("the gradient is not finite", int(trainer.global_step))
        self.skipped += 1
        optimizer.zero_grad(set_to_none=True)
        if trainer.logger is not None:
            trainer.logger.log_metrics({"skipped_steps": self.skipped}, step=trainer.global_step)


class GeometryCallback(Callback):
    """Measures a fixed probe every so many steps, on the first process only, and never touches the loss.

    Numbers go to the monitor's file and to the logger of the Lightning trainer. A regularizer belongs into
    `training_step`: tap the model there and add `regularizer(states, step=self.global_step)` to the loss.

    Args:
        monitor: What is measured, and how often.
        model: From the LightningModule to the language model inside it; the attribute `model` by default.
    """

    def __init__(self, monitor: Monitor, *, model: Callable[[Any], Any] | None = None) -> None:
        self.monitor = monitor
        self._model = model
        self._step = -1

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """See that the probe fits, and measure step 0."""
        model = self._inside(pl_module)
        self.monitor.probe.check_fits(model)
        if self.monitor.log is None and trainer.logger is not None:
            self.monitor.log = lambda numbers: trainer.logger.log_metrics(numbers, step=trainer.global_step)
        self._measure(trainer, model)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *given: Any, **named: Any) -> None:
        """Measure if it is time; once a step, however many batches are accumulated."""
        self._measure(trainer, self._inside(pl_module))

    def _measure(self, trainer: Any, model: Any) -> None:
        step = int(trainer.global_step)
        if trainer.is_global_zero and step != self._step:
            self._step = step
            self.monitor.after_step(model, step)

    def _inside(self, pl_module: Any) -> Any:
        if self._model is not None:
            return self._model(pl_module)
        if not hasattr(pl_module, "model"):
            raise ArgumentError(
                f"Argument `model` must say where the language model of {type(pl_module).__name__} is, but it has no "
                "attribute `model`. Write GeometryCallback(monitor, model=lambda module: module.decoder)."
            )
        return pl_module.model
