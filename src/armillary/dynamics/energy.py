"""The monotone function of a field: value, logarithm and rate, or a refusal that names the missing ingredient.

For unit rows, one head with symmetric scores x_i . B x_j, a symmetric mask m and values gamma B x_j,

    Phi(X) = 1 / (2 beta) sum_ij w_i w_j m_ij e^{beta x_i . B x_j},      x_i' = mu_i P_i sum_j A_ij gamma B x_j,

A_ij w_i = w_i w_j e^{beta s_ij} / Z_i, so that x_i' = gamma (mu_i / (w_i Z_i)) P_i grad_i Phi and

    d Phi / d s = gamma sum_i (mu_i / (w_i Z_i)) |P_i grad_i Phi|^2,

which has the sign of gamma. Where w_i Z_i does not depend on the state (uniform weights, or none that sum to one), the
drift may have further gradients grad U_i beside attention: Phi + sum_i w_i Z_i U_i / gamma takes the place of Phi. The
mobility mu_i > 0 depends on where the norm is restored: 1 (post), 1 / r_i (pre),
1 / (r_i |A_i|) (peri), alpha / |A_i| (ngpt), (s + 1)^{-1/2} (sqrt depth).

Sums of exponentials are carried with their largest exponent apart, so that nothing is undefined at any beta: value and
rate are inf where no number of the type is as large, and 0 where nothing moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from armillary.dynamics.attention import Softmax, Uniform, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.ingredients import ingredients, value_factor
from armillary.dynamics.normalization import VelocityField
from armillary.dynamics.pushes import Injection, Perceptron
from armillary.dynamics.summation import chosen_evaluator
from armillary.dynamics.sums.task import Evaluator, PairSum
from armillary.errors import MissingIngredientError

__all__ = ["Energy", "energy_of"]

LARGEST_DENSE = 2048
"""Tokens up to which all pairs are held at once."""

ENERGY_ERROR = 1e-10
"""What sums over more pairs must reach."""


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
        if not self._signed:
            return self.log_value(configuration, multiplicity).exp() * math.copysign(1.0, self._beta)
        return _unscaled(*self._scaled_value(configuration, multiplicity))

    def log_value(self, configuration: Tensor, multiplicity: Tensor | None = None) -> Tensor:
        """Log (2 |beta| Phi sign(beta)) - log 2 |beta| = log |Phi|, finite at any beta, `*batch`.

        With uniform weights or potentials of other drifts it is the logarithm of `value`, NaN where that is negative.
        """
        if self._signed:
            total, largest = self._scaled_value(configuration, multiplicity)
            return total.log() + largest
        if (sums := self._sums(configuration)) is not None:
            return sums.log_energy(_unit(configuration), multiplicity)
        logits = self._logits(configuration, multiplicity)
        return torch.logsumexp(logits.flatten(-2), dim=-1) - math.log(2 * abs(self._beta))

    def rate(self, configuration: Tensor, multiplicity: Tensor | None = None, *, time: float = 0.0) -> Tensor:
        """D Phi / d s along the field: the sum over tokens of mobility times squared tangential gradient.

        Args:
            configuration: The state, `*batch tokens dim`.
            multiplicity: w, `*batch tokens`.
            time: Of the field.

        Returns:
            `*batch`, of the sign of `sign` or zero; inf where it cannot be represented (use `log_rate`).
        """
        return self.sign * _unscaled(*self._scaled_rate(configuration, multiplicity, time))

    def log_rate(self, configuration: Tensor, multiplicity: Tensor | None = None, *, time: float = 0.0) -> Tensor:
        """Log |d Phi / d s|, finite at any beta, -inf where nothing moves; less `log_value` that of d log|Phi| / d s.

        Args:
            configuration: The state, `*batch tokens dim`.
            multiplicity: w, `*batch tokens`.
            time: Of the field.

        Returns:
            `*batch`.
        """
        total, largest = self._scaled_rate(configuration, multiplicity, time)
        return total.log() + largest

    def _scaled_value(self, configuration: Tensor, multiplicity: Tensor | None) -> tuple[Tensor, Tensor]:
        """Phi where it can have either sign, as a number and the logarithm of a factor."""
        direction, w = _unit(configuration), _ones(configuration) if multiplicity is None else multiplicity
        logits = self._logits(configuration, multiplicity)
        carried = self._log_normalizer(logits, w)
        largest = torch.maximum(logits.amax((-1, -2)), carried.amax(-1)).detach()
        kernel = torch.exp(logits - largest[..., None, None])
        if isinstance(self._term.rule, Uniform):
            found = (kernel * self._scores(configuration)).sum((-1, -2)) / 2
        else:
            found = kernel.sum((-1, -2)) / (2 * self._beta)
        share = torch.exp(carried - largest[..., None])
        for factor, term in self._potentials:
            found = found + (factor / self._factor * share * term.potential(direction)).sum(-1)
        return found, largest

    def _scaled_rate(self, configuration: Tensor, multiplicity: Tensor | None, time: float) -> tuple[Tensor, Tensor]:
        """|d Phi / d s| as a number and the logarithm of a factor."""
        field, radius = self.field.during(time), configuration.norm(dim=-1)
        direction = configuration / radius[..., None]
        if field.scheme in ("post", "pre", "sqrt depth") and (sums := self._sums(configuration)) is not None:
            pull, exponent = sums.pull(direction, multiplicity), sums.log_partition(direction, multiplicity)
            exponent = exponent if multiplicity is None else exponent + multiplicity.log()
        else:
            pull, exponent = self._scaled_pull(direction, multiplicity)
        largest = exponent.amax(-1).detach()
        largest = largest.masked_fill(torch.isinf(largest), 0.0)
        mobility = self._mobility(field, time, configuration, radius, multiplicity)
        share = torch.exp(exponent - largest[..., None])
        return abs(self._factor) * (share * mobility * pull.square().sum(-1)).sum(-1), largest

    def _scaled_pull(self, direction: Tensor, multiplicity: Tensor | None) -> tuple[Tensor, Tensor]:
        """Vectors p_i and exponents a_i with e^{a_i} |p_i|^2 = |P_i grad_i Phi|^2 / (w_i Z_i)."""
        w = _ones(direction) if multiplicity is None else multiplicity
        logits, keys = self._logits(direction, multiplicity), direction @ self._metric(direction).mT
        carried, plain = self._log_normalizer(logits, w), self._term.heads is None
        if plain:  # P_i x_i = 0: what a token takes of itself is left out, and rounding of it with it
            itself = torch.eye(logits.shape[-1], dtype=torch.bool, device=logits.device)
            logits = logits.masked_fill(itself, -math.inf)
        top = logits.amax(-1).detach()
        alone = torch.isinf(top)  # a token that sees none but itself, or stands for none
        top = top.masked_fill(alone, 0.0)
        pull, exponent = torch.exp(logits - top[..., None]) @ keys, (2 * top - carried).masked_fill(alone, -math.inf)
        if self._potentials:
            pull, exponent = torch.exp(top - carried)[..., None] * pull, carried
            for factor, push in self._potentials:
                pull = pull + factor / self._factor * push(direction)
        return pull - (pull * direction).sum(-1, keepdim=True) * direction, exponent

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
    def _signed(self) -> bool:
        """Whether the value can have either sign."""
        return isinstance(self._term.rule, Uniform) or bool(self._potentials)

    @property
    def _beta(self) -> float:
        rule = self._term.rule
        return rule.beta if isinstance(rule, Softmax | Unnormalized) else 0.0

    @property
    def _factor(self) -> float:
        """Gamma times the drift's own factor."""
        factor = next(factor for factor, term in self.field.drift.terms if isinstance(term, AttentionDrift))
        return factor * value_factor(self._term)

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

    def _logits(self, configuration: Tensor, multiplicity: Tensor | None) -> Tensor:
        """Logarithms of w_i w_j m_ij e^{beta s_ij}, `*batch tokens tokens`; scores play no part in uniform weights."""
        scores = self._scores(configuration)
        logits = torch.zeros_like(scores) if isinstance(self._term.rule, Uniform) else self._beta * scores
        if multiplicity is not None:
            logits = logits + multiplicity.log()[..., :, None] + multiplicity.log()[..., None, :]
        allowed = self._term.mask.allowed(configuration.shape[-2], configuration.device)
        return logits if allowed is None else logits.masked_fill(~allowed, -math.inf)

    def _log_normalizer(self, logits: Tensor, w: Tensor) -> Tensor:
        """Log w_i Z_i, what the row rule divides by: sums for softmax, counts for uniform, n for unnormalized."""
        rule = self._term.rule
        if isinstance(rule, Unnormalized):
            shift = abs(rule.beta) if rule.clock == "shifted" else 0.0
            return w.log() + w.sum(-1, keepdim=True).log() + shift
        return torch.logsumexp(logits, dim=-1)

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
    return Energy(field, 1 if term_factor * value_factor(term) > 0 else -1)


def _unit(configuration: Tensor) -> Tensor:
    return configuration / configuration.norm(dim=-1, keepdim=True)


def _ones(configuration: Tensor) -> Tensor:
    return torch.ones_like(configuration[..., 0])


def _unscaled(total: Tensor, largest: Tensor) -> Tensor:
    """Total times e^largest: inf only where no number is as large, and 0 where the total is."""
    size = torch.where(total == 0, torch.ones_like(total), total.abs())
    return torch.where(total == 0, total, total.sign() * torch.exp(size.log() + largest))
