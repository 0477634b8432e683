"""Each ingredient of the energy's proof taken away in turn, and a search for a configuration where the energy falls.

The energy is the one of the plain dynamics, Phi = 1/(2 beta) sum_ij e^{beta x_i . x_j}, whatever moves the tokens; its
rate along a velocity v is sum_ij e^{beta x_i . x_j} x_j . v_i. Found is a configuration with a rate below zero by far
more than rounding; none found is said to be that, and is no proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.attention import Causal, Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.heads import Heads
from armillary.dynamics.normalization import VelocityField, flat, on_sphere
from armillary.dynamics.pushes import MLPDrift
from armillary.sphere import uniform

__all__ = ["Decrease", "removals", "search"]

BETA = 1.0


@dataclass(frozen=True, eq=False)
class Decrease:
    """What a search found.

    Attributes:
        removed: The ingredient that is absent, and what stands in its place.
        tries: How many random configurations were looked at.
        configuration: The one with the lowest relative rate, `tokens dim`.
        rate: d Phi / d s there.
        relative: The rate over Phi.
        floor: Rounding of the rate: eps times the sum of the moduli of its terms.
    """

    removed: str
    tries: int
    configuration: Tensor
    rate: float
    relative: float
    floor: float

    @property
    def found(self) -> bool:
        """Whether the energy decreases there, beyond rounding."""
        return self.rate < -10 * self.floor

    def __str__(self) -> str:
        if not self.found:
            return f"{self.removed}: no decrease found in {self.tries} tries (lowest rate {self.rate:+.3g})"
        rows = "; ".join(", ".join(f"{value:+.4f}" for value in row) for row in self.configuration.tolist())
        return (
            f"{self.removed}: Phi falls at {self.rate:+.6g} (rounding {self.floor:.0e}; {self.relative:+.2%} of Phi a "
            f"unit of time) at x = [{rows}]"
        )


def removals() -> dict[str, VelocityField]:
    """The plain dynamics in two dimensions with one ingredient taken away."""
    draw = torch.Generator().manual_seed(0)
    eye = torch.eye(2, dtype=torch.float64)
    general = torch.randn(4, 2, 2, generator=draw, dtype=torch.float64)
    rule = Softmax(BETA)
    mlp = MLPDrift.of_weights(general[0].repeat(2, 1), general[1].repeat(1, 2))
    several = Heads.given(scores=torch.stack([eye, 2 * eye]), values=torch.stack([eye, -eye]))
    return {
        "no mask -> causal mask": on_sphere(AttentionDrift(rule, mask=Causal())),
        "values equal keys -> a general value matrix": on_sphere(
            AttentionDrift(rule, heads=Heads.given(scores=eye, values=general[2]))
        ),
        "symmetric scores -> general query and key matrices": on_sphere(
            AttentionDrift(rule, heads=Heads.given(scores=general[3], values=eye))
        ),
        "one head -> two heads of opposite values": on_sphere(AttentionDrift(rule, heads=several)),
        "no MLP -> a two-layer MLP beside attention": on_sphere(AttentionDrift(rule) + mlp),
        "unit vectors -> no projection": flat(AttentionDrift(rule)),
        "nothing taken away": on_sphere(AttentionDrift(rule)),
    }


def search(removed: str, field: VelocityField, *, tries: int, seed: int, descent: int = 60) -> Decrease:
    """Look for a configuration where the energy decreases.

    Args:
        removed: The ingredient, in words.
        field: The dynamics without it.
        tries: Random configurations of 2 to 5 tokens on the circle; the best is improved by gradient descent.
        seed: Of these.
        descent: Steps of descent on the relative rate.

    Returns:
        The configuration with the lowest relative rate, whether or not it is below zero.
    """
    best, lowest = uniform(tokens=2, dim=2, seed=seed), float("inf")
    for number in range(tries):
        rows = uniform(tokens=2 + number % 4, dim=2, seed=seed + number)
        relative = float(_relative(field, rows))
        if relative < lowest:
            best, lowest = rows, relative
    for _ in range(descent):
        moving = best.clone().requires_grad_()
        value = _relative(field, moving / moving.norm(dim=-1, keepdim=True))
        (slope,) = torch.autograd.grad(value, moving)
        trial = best - 0.05 * slope / slope.norm().clamp_min(1e-12)
        trial = trial / trial.norm(dim=-1, keepdim=True)
        if float(_relative(field, trial)) >= lowest:
            break
        best, lowest = trial.detach(), float(_relative(field, trial))
    rate, floor = _rate(field, best)
    return Decrease(removed, tries, best, float(rate), lowest, float(floor))


def _rate(field: VelocityField, rows: Tensor) -> tuple[Tensor, Tensor]:
    kernel = torch.exp(BETA * (rows @ rows.mT))
    velocity = field.during(0.0).velocity(0.0, rows)
    terms = kernel * (velocity @ rows.mT)  # e^{beta c_ij} x_j . v_i
    return terms.sum(), torch.finfo(rows.dtype).eps * terms.abs().sum()


def _relative(field: VelocityField, rows: Tensor) -> Tensor:
    rate, _ = _rate(field, rows)
    return rate / (torch.exp(BETA * (rows @ rows.mT)).sum() / (2 * BETA))
