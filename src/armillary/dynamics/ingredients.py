"""The ingredients that license the energy: which of them a field has, and why each absent one is absent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from armillary.dynamics.attention import Hardmax, Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.drifts import Drift, Layered
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.pushes import Frequencies, Injection, MLPDrift, Noise, Perceptron

__all__ = ["INGREDIENTS", "Ingredients", "ingredients", "mergeable", "value_factor"]

INGREDIENTS = (
    "unit vectors",
    "symmetric scores",
    "values equal keys",
    "one head",
    "no mask",
    "no MLP",
)
"""What the proof of monotonicity uses."""


@dataclass(frozen=True)
class Ingredients:
    """Which of the proof's ingredients a field has.

    Attributes:
        missing: What is absent, each with the reason.
    """

    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether the energy is monotone."""
        return not self.missing


def ingredients(field: VelocityField) -> Ingredients:
    """Which ingredients of the proof a field lacks, each with the reason."""
    missing = []
    if field.scheme == "flat":
        missing.append("unit vectors (no norm: tokens leave the sphere)")
    if field.scheme in ("pre", "peri", "mix") and field.read is not None:
        missing.append("unit vectors (layers read through a norm with a gain or a radius of its own)")
    terms = _terms(field.drift)
    attention = [(factor, term) for factor, term in terms if isinstance(term, AttentionDrift)]
    if len(attention) != 1:
        missing.append(
            "one head (attention enters several times)" if attention else "symmetric scores (there is no attention)"
        )
    steady = all(isinstance(term.rule, Uniform | Unnormalized) for _, term in attention)
    for _, term in terms:
        missing += _lacking(term, steady=steady)
    return Ingredients(tuple(dict.fromkeys(missing)))


def mergeable(field: VelocityField) -> bool:
    """Whether tokens at one place always move alike, so that they may be counted as one."""
    alike = all(
        (
            isinstance(term, AttentionDrift)
            and term.mask.allowed(2, torch.device("cpu")) is None
            and term.positions is None
        )
        or isinstance(term, MLPDrift | Perceptron)
        for _, term in _terms(field.drift)
    )
    return alike and field.scheme in ("post", "ngpt", "sqrt depth")


def _terms(drift: Drift) -> list[tuple[float, Drift]]:
    found = []
    for factor, term in drift.terms:
        if isinstance(term, Layered):
            found += [(factor * inner, one) for layer in term.drifts for inner, one in _terms(layer)]
        else:
            found.append((factor, term))
    return found


def _lacking(term: Drift, *, steady: bool) -> list[str]:
    if isinstance(term, AttentionDrift):
        return _lacking_in_attention(term)
    if isinstance(term, Frequencies):
        first = term.generators[:1]
        alike = bool((term.generators == first).all())
        return [] if alike else ["no other drift (tokens turn at different natural frequencies)"]
    if isinstance(term, Noise):
        return [] if term.strength == 0 else ["no noise (energy is monotone in no realization)"]
    if isinstance(term, MLPDrift):
        return ["no MLP"]
    if isinstance(term, Injection | Perceptron):
        return [] if steady else [f"constant mobility (softmax divides attention by Z_i, and not the {term})"]
    return [f"no other drift ({term})"]


def _lacking_in_attention(term: AttentionDrift) -> list[str]:
    missing = []
    if isinstance(term.rule, Hardmax):
        missing.append("symmetric scores (hardmax weights are no exponentials of them)")
    if isinstance(term.rule, Softmax | Unnormalized) and term.rule.beta == 0:
        missing.append("symmetric scores (at beta = 0 scores play no part; take Uniform(), which has an energy)")
    if not term.mask.symmetric:
        missing.append(f"no mask (the {term.mask} lets j act on i without i acting on j)")
    if term.positions is not None:
        missing.append("symmetric scores (they depend on positions)")
    if term.heads is not None:
        if term.heads.count > 1:
            missing.append("one head")
        else:
            scores = term.heads.score_matrices[0]
            if not torch.allclose(scores, scores.mT, rtol=1e-12, atol=1e-12):
                missing.append("symmetric scores (W_Q^T W_K is not symmetric)")
            if math.isnan(value_factor(term)):
                missing.append("values equal keys (W_O W_V is no multiple of W_Q^T W_K)")
    return missing


def value_factor(term: AttentionDrift) -> float:
    """Gamma with V = gamma B, NaN if there is none; with uniform weights B is free, so V itself must be symmetric."""
    if term.heads is None:
        return 1.0
    scores, values = term.heads.score_matrices[0].double(), term.heads.value_matrices[0].double()
    size = float((scores * scores).sum())
    factor = float((scores * values).sum()) / size if size else math.nan
    fits = size > 0 and float((values - factor * scores).abs().max()) <= 1e-12 * max(1.0, float(values.abs().max()))
    return factor if fits and factor != 0 else math.nan
