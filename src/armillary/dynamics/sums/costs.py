"""What each evaluator costs, from measured times: the table behind the choice, and how it was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from armillary.dynamics.attention import Causal, Window
from armillary.dynamics.sums.series import FINEST, orders
from armillary.dynamics.sums.task import PairSum

__all__ = ["COSTS", "MEASURED", "Cost", "seconds"]


@dataclass(frozen=True)
class Cost:
    """Seconds of one evaluation: start + pair * T^2 + entry * T^2 d + token * T + mode * (modes).

    Attributes:
        start: Of a call.
        pair: Of each of the T^2 pairs.
        entry: Of each coordinate of each pair.
        token: Of each token.
        mode: Of each Fourier mode, or of each spherical harmonic.
    """

    start: float = 0.0
    pair: float = 0.0
    entry: float = 0.0
    token: float = 0.0
    mode: float = 0.0

    def parts(self) -> tuple[float, ...]:
        """The five numbers in their order."""
        return (self.start, self.pair, self.entry, self.token, self.mode)


MEASURED = "CPU time, one thread, x86_64 (Zen 5), torch 2.13.0+cpu, 2026-11-30"
"""How the table came about; `python benchmarks/summation_costs.py` measures it again."""

COSTS: dict[tuple[str, str], Cost] = {
    ("pairs 2", "double"): Cost(1.6e-05, 3.6e-10, 0, 4.1e-08, 0),
    ("pairs 2", "single"): Cost(1.5e-05, 1.5e-10, 0, 3.6e-08, 0),
    ("pairs 3", "double"): Cost(1.5e-05, 4.2e-10, 0, 5.4e-08, 0),
    ("pairs 3", "single"): Cost(1.5e-05, 0, 6.5e-11, 3.1e-08, 0),
    ("pairs", "double"): Cost(2.1e-05, 2e-10, 1.2e-10, 8.6e-08, 0),
    ("pairs", "single"): Cost(1.9e-05, 0, 6.9e-11, 8.1e-08, 0),
    ("tiles", "double"): Cost(1e-05, 6.6e-10, 6.2e-11, 3.9e-07, 0),
    ("tiles", "single"): Cost(1.2e-05, 2.6e-10, 2.8e-11, 3.2e-07, 0),
    ("rows", "double"): Cost(2.9e-05, 3.8e-09, 9.3e-11, 0, 0),
    ("rows", "single"): Cost(2.9e-05, 2.5e-09, 3.9e-11, 0, 0),
    ("sdpa", "double"): Cost(2.7e-05, 1.5e-09, 8.1e-11, 6.8e-08, 0),
    ("sdpa", "single"): Cost(2.4e-05, 9.8e-10, 3.3e-11, 9.5e-09, 0),
    ("means", "double"): Cost(1.5e-05, 0, 0, 1.1e-09, 0),
    ("circle", "double"): Cost(7e-05, 0, 0, 4.5e-08, 1.2e-07),
    ("sphere", "double"): Cost(6e-05, 0, 0, 2e-07, 7.7e-08),
}


def counts(name: str, task: PairSum) -> tuple[float, ...]:
    """How often each of the five parts of a cost enters."""
    tokens, share = float(task.tokens), 1.0
    if isinstance(task.mask, Causal):
        share = 0.5
    elif isinstance(task.mask, Window):
        share = min(1.0, 3 * max(task.mask.reach, 64) / task.tokens)
    pairs = 0.0 if name in ("circle", "sphere", "means") else share * tokens * tokens
    modes = {"circle": lambda k: float(k), "sphere": lambda k: float(k * k)}
    many = modes[name](orders(task.beta, FINEST)) if name in modes else 0.0
    return 1.0, pairs, pairs * task.dim, tokens * (task.dim if name == "means" else 1), many


def seconds(name: str, task: PairSum) -> float:
    """What one evaluation of the pull would cost on the machine that the table was measured on.

    Args:
        name: Of the evaluator.
        task: What is summed.
    """
    kind = {torch.float32: "single", torch.float64: "double"}.get(task.dtype, "single")
    key = next(k for k in ((f"{name} {task.dim}", kind), (name, kind), (name, "double")) if k in COSTS)
    start, *rest = (c * n for c, n in zip(COSTS[key].parts(), counts(name, task), strict=True))
    together = name in ("rows", "sdpa", "means")  # tensor kernels take all systems in one call
    return start * (1 if together else task.systems) + math.fsum(rest) * task.systems
