"""The monotone function and the ingredients that license it: value and rate, or a refusal that names what is missing.

For unit rows, one head with symmetric scores x_i . B x_j, a symmetric mask m and values gamma B x_j,

    Phi(X) = 1 / (2 beta) sum_ij w_i w_j m_ij e^{beta x_i . B x_j},      x_i' = mu_i P_i sum_j A_ij gamma B x_j,

A_ij w_i = w_i w_j e^{beta s_ij} / Z_i, so that x_i' = gamma (mu_i / (w_i Z_i)) P_i grad_i Phi and

    d Phi / d s = gamma sum_i (mu_i / (w_i Z_i)) |P_i grad_i Phi|^2,

which has the sign of gamma. Where w_i Z_i does not depend on the state (uniform weights, or none that sum to one), the
drift may have further gradients grad U_i beside attention: Phi + sum_i w_i Z_i U_i / gamma takes the place of Phi. The
mobility mu_i > 0 depends on where the norm is restored: 1 (post), 1 / r_i (pre),
1 / (r_i |A_i|) (peri), alpha / |A_i| (ngpt), (s + 1)^{-1/2} (sqrt depth).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.attention import Hardmax, Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.drifts import Drift, Layered
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.pushes import Frequencies, Injection, MLPDrift, Noise, Perceptron
from armillary.dynamics.summation import chosen_evaluator
from armillary.dynamics.sums.task import Evaluator, PairSum
from armillary.errors import MissingIngredientError

__all__ = ["INGREDIENTS", "Energy", "Ingredients", "energy_of", "mergeable"]

LARGEST_DENSE = 2048
"""Tokens up to which all pairs are held at once."""

ENERGY_ERROR = 1e-10
"""What sums over more pairs must reach."""

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


@dataclass(frozen=True, eq=False)
class Energy:
    """Phi of a field, its rate and its logarithm.

    Attributes:
        field: The field it belongs to.
        sign: Which way it moves: +1 never decreases, -1 never increases.
    """

    field: VelocityField
    sign: int

    def value(self, configuration: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Phi; inf where it cannot be represented (use `log_value`).

        Args:
            configuration: `*batch tokens dim`; only directions matter.
            multiplicity: w, `*batch tokens`.

        Returns:
            `*batch`. With uniform weights it is half the sum of all overlaps, the part of Phi that is left at beta = 0.
            Potentials of other drifts are part of it.
        """
        if self._sums(configuration) is not None:
            return self.log_value(configuration, multiplicity).exp() * math.copysign(1.0, self._beta)
        pairs, scores = self._pairs(configuration, multiplicity), self._scores(configuration)
        if isinstance(self._term.rule, Uniform):
            found = (pairs * scores).sum((-1, -2)) / 2
        else:
            found = (pairs * torch.exp(self._beta * scores)).sum((-1, -2)) / (2 * self._beta)
        if not self._potentials:
            return found
        direction = _unit(configuration)
        carried = self._normalizer(pairs, _ones(configuration) if multiplicity is None else multiplicity)
        ratio = [(factor / self._factor, term) for factor, term in self._potentials]
        return found + sum((part * carried * term.potential(direction)).sum(-1) for part, term in ratio)

    def log_value(self, configuration: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Log (2 |beta| Phi sign(beta)) - log 2 |beta| = log |Phi|, finite at any beta, `*batch`.

        With uniform weights or potentials of other drifts it is the logarithm of `value`, NaN where that is negative.
        """
        if isinstance(self._term.rule, Uniform) or self._potentials:
            return self.value(configuration, multiplicity).log()
        if (sums := self._sums(configuration)) is not None:
            return sums.log_energy(_unit(configuration), multiplicity)
        pairs = self._pairs(configuration, multiplicity)
        logits = self._beta * self._scores(configuration) + pairs.log()
        return torch.logsumexp(logits.flatten(-2), dim=-1) - math.log(2 * abs(self._beta))

    def rate(self, configuration: Tensor, multiplicity: Tensor | None = None, *, time: float = 0.0) -> Tensor:
        """D Phi / d s along the field: the sum over tokens of mobility times squared tangential gradient.

        Args:
            configuration: The state, `*batch tokens dim`.
            multiplicity: w, `*batch tokens`.
            time: Of the field.

        Returns:
            `*batch`, of the sign of `sign` or zero.
        """
        field, term = self.field.during(time), self._term
        radius = configuration.norm(dim=-1)
        direction = configuration / radius[..., None]
        if field.scheme in ("post", "pre", "sqrt depth") and (sums := self._sums(configuration)) is not None:
            pull, carried = sums.pull(direction, multiplicity), sums.log_partition(direction, multiplicity).exp()
            carried = carried if multiplicity is None else carried * multiplicity
            mobility = self._mobility(field, time, configuration, radius, None)
            return self._factor * (mobility * carried * pull.square().sum(-1)).sum(-1)
        pairs, scores = self._pairs(configuration, multiplicity), self._scores(configuration)
        kernel = pairs if isinstance(term.rule, Uniform) else pairs * torch.exp(self._beta * scores)
        gradient = kernel @ (direction @ self._metric(direction).mT)
        carried = self._normalizer(kernel, torch.ones_like(radius) if multiplicity is None else multiplicity)
        for factor, push in self._potentials:
            gradient = gradient + factor / self._factor * carried[..., None] * push(direction)
        tangential = gradient - (gradient * direction).sum(-1, keepdim=True) * direction
        mobility = self._mobility(field, time, configuration, radius, multiplicity) / carried
        return self._factor * (mobility * tangential.square().sum(-1)).sum(-1)

    @property
    def _term(self) -> AttentionDrift:
        return next(term for _, term in self.field.drift.terms if isinstance(term, AttentionDrift))

    @property
    def definition(self) -> str:
        """What the energy is, in words and signs."""
        if isinstance(self._term.rule, Uniform):
            said = "half the sum of all overlaps"
        else:
            said = "1/(2 beta) sum_ij e^{beta x_i . x_j}"
        return said + "".join(f" + potential of the {term}" for _, term in self._potentials)

    @property
    def _potentials(self) -> list[tuple[float, Injection | Perceptron]]:
        return [(f, term) for f, term in self.field.drift.terms if isinstance(term, Injection | Perceptron)]

    @property
    def _beta(self) -> float:
        rule = self._term.rule
        return rule.beta if isinstance(rule, Softmax | Unnormalized) else 0.0

    @property
    def _factor(self) -> float:
        """Gamma times the drift's own factor."""
        factor = next(factor for factor, term in self.field.drift.terms if isinstance(term, AttentionDrift))
        return factor * _value_factor(self._term)

    def _sums(self, configuration: Tensor) -> Evaluator | None:
        """How softmax sums are evaluated where all pairs at once would be too many; None where they are not."""
        term, (tokens, dim) = self._term, configuration.shape[-2:]
        plain = isinstance(term.rule, Softmax) and term.heads is None and not self._potentials
        if tokens <= LARGEST_DENSE or not plain:
            return None
        task = PairSum(
            tokens=tokens, dim=dim, rule=term.rule, mask=term.mask, dtype=configuration.dtype,
            device=configuration.device.type, gradient=configuration.requires_grad,
            systems=configuration.shape[:-2].numel(),
        )  # fmt: skip
        return chosen_evaluator(task, accuracy=ENERGY_ERROR).evaluator

    def _metric(self, like: Tensor) -> Tensor:
        heads = self._term.heads
        if heads is None:
            return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
        return heads.score_matrices[0].to(like)

    def _scores(self, configuration: Tensor) -> Tensor:
        direction = _unit(configuration)
        return direction @ self._metric(direction) @ direction.mT

    def _pairs(self, configuration: Tensor, multiplicity: Tensor | None) -> Tensor:
        tokens = configuration.shape[-2]
        allowed = self._term.mask.allowed(tokens, configuration.device)
        ones = torch.ones(tokens, tokens, dtype=configuration.dtype, device=configuration.device)
        pairs = ones if allowed is None else ones * allowed
        if multiplicity is None:
            return pairs
        return pairs * multiplicity[..., :, None] * multiplicity[..., None, :]

    def _normalizer(self, kernel: Tensor, w: Tensor) -> Tensor:
        """w_i Z_i, what the row rule divides by: kernel sums for softmax, counts for uniform, n for unnormalized."""
        rule = self._term.rule
        if isinstance(rule, Unnormalized):
            scale = math.exp(abs(rule.beta)) if rule.clock == "shifted" else 1.0
            return w * w.sum(-1, keepdim=True) * scale
        return kernel.sum(-1)

    def _mobility(
        self, field: VelocityField, time: float, configuration: Tensor, radius: Tensor, multiplicity: Tensor | None
    ) -> Tensor:
        if field.scheme == "pre":
            return 1 / radius
        if field.scheme == "sqrt depth":
            return torch.full_like(radius, (time + 1) ** -0.5)
        if field.scheme in ("peri", "ngpt"):
            direction = configuration / radius[..., None]
            length = field.drift(direction, multiplicity).norm(dim=-1)
            return field.alpha / length / (radius if field.scheme == "peri" else 1.0)
        return torch.ones_like(radius)


def energy_of(field: VelocityField) -> Energy:
    """The monotone function of a field.

    Args:
        field: Drift and normalization.

    Returns:
        Value, rate and logarithm, and which way it moves.

    Raises:
        MissingIngredientError: The proof does not hold for this field; every missing ingredient is named.
    """
    found = ingredients(field)
    if not found.complete:
        raise MissingIngredientError(
            f"The energy must not decrease for this field, but the proof lacks {len(found.missing)} of its "
            f"ingredients: "
            f"{'; '.join(found.missing)}. Ask for the energy of the field without that, or search for a configuration "
            "where it decreases."
        )
    term_factor = next(f for f, term in field.drift.terms if isinstance(term, AttentionDrift))
    term = next(term for _, term in field.drift.terms if isinstance(term, AttentionDrift))
    return Energy(field, 1 if term_factor * _value_factor(term) > 0 else -1)


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
            if math.isnan(_value_factor(term)):
                missing.append("values equal keys (W_O W_V is no multiple of W_Q^T W_K)")
    return missing


def _unit(configuration: Tensor) -> Tensor:
    return configuration / configuration.norm(dim=-1, keepdim=True)


def _ones(configuration: Tensor) -> Tensor:
    return torch.ones_like(configuration[..., 0])


def _value_factor(term: AttentionDrift) -> float:
    """Gamma with V = gamma B, NaN if there is none; with uniform weights B is free, so V itself must be symmetric."""
    if term.heads is None:
        return 1.0
    scores, values = term.heads.score_matrices[0].double(), term.heads.value_matrices[0].double()
    size = float((scores * scores).sum())
    factor = float((scores * values).sum()) / size if size else math.nan
    fits = size > 0 and float((values - factor * scores).abs().max()) <= 1e-12 * max(1.0, float(values.abs().max()))
    return factor if fits and factor != 0 else math.nan
