"""Laws of independent uniform starts: averages, growth of harmonics, modes of the density."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, attention, off_diagonal
from armillary.dynamics.attention import Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.normalization import flat, on_sphere
from armillary.oracles import linear, overlap, sampling

__all__: list[str] = []


def _sampled(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


@check(
    "uniform overlaps",
    "E mean_ij c^2 = (n + d - 1) / (n d), E |mean|^2 = 1/n, R about n d / (n + d - 1)",
    tolerance=0.0,
    draws="200",
    seeds="0-199",
)
def _uniform(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for tokens, dim in ((64, 3), (64, 16), (32, 128)):
        grams = np.asarray([_gram(engine.draw(tokens, dim, seed)) for seed in range(200)])
        for value, law in (
            (np.square(grams).mean((1, 2)), 1 / sampling.participation_rank_of_uniform(tokens=tokens, dim=dim)),
            (grams.mean((1, 2)), 1 / tokens),
        ):
            mean, spread = _sampled(value)
            expected.append(law)
            got.append(mean)
            error.append(spread)
    return Sides.of(expected, got, error)


def _gram(rows: torch.Tensor) -> np.ndarray:
    return np.asarray((rows @ rows.mT).numpy())


@check(
    "uniform energy",
    "E Phi = [n e^beta + n (n-1) 0F1(; d/2; beta^2/4)] / (2 beta)",
    tolerance=0.0,
    draws="200",
    seeds="0-199",
)
def _energy(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for tokens, dim, beta in ((64, 3, 1.0), (64, 16, 4.0), (32, 128, 9.0)):
        grams = np.asarray([_gram(engine.draw(tokens, dim, seed)) for seed in range(200)])
        mean, spread = _sampled(np.exp(beta * grams).sum((1, 2)) / (2 * beta))
        expected.append(sampling.expected_energy(tokens=tokens, dim=dim, beta=beta))
        got.append(mean)
        error.append(spread)
    return Sides.of(expected, got, error)


@check(
    "attention output over uniform keys",
    "I_{d/2}(beta) / I_{d/2-1}(beta) along the query",
    tolerance=0.0,
    draws="20",
    seeds="0-19",
)
def _output(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for dim, beta in ((3, 2.0), (8, 4.0), (64, 8.0)):
        found = []
        for seed in range(20):
            rows = engine.draw(1500, dim, seed)
            out = engine.velocity(flat(AttentionDrift(Softmax(beta))), rows)
            sums = torch.exp(beta * (rows @ rows.mT - 1)).sum(-1)
            pulled = (rows * out).sum(-1) * sums - 1  # without what a query takes of itself
            found.append(float(pulled.sum() / (sums - 1).sum()))  # a ratio of means: its bias is below the spread
        mean, spread = _sampled(np.asarray(found))
        expected.append(sampling.attention_output(dim=dim, beta=beta))
        got.append(mean)
        error.append(spread)
    return Sides.of(expected, got, error)


@check("harmonics on the ring", "a uniform ring grows mode k at k^2 I_k(beta) / (beta I_0(beta))", tolerance=1e-8)
def _ring(engine: Engine) -> Sides:
    angles = torch.arange(96, dtype=torch.float64) * (2 * math.pi / 96)
    found = engine.rates(attention(5.0), torch.stack([angles.cos(), angles.sin()], dim=1))
    rates = linear.circle_rates(5.0, largest=6)
    return Sides.of(rates, [found[np.argmin(np.abs(found - rate))] for rate in rates])


@check(
    "harmonics on the ring, unnormalized",
    "the same rates times E e^{beta u} = I_0(beta)",
    tolerance=1e-13,
    relative=True,
)
def _ring_unnormalized(engine: Engine) -> Sides:
    angles = torch.arange(96, dtype=torch.float64) * (2 * math.pi / 96)
    ring = torch.stack([angles.cos(), angles.sin()], dim=1)
    found = engine.rates(on_sphere(AttentionDrift(Unnormalized(5.0))), ring)
    rates = linear.circle_rates(5.0, largest=6) * math.exp(sampling.expected_kernel(5.0, dim=2))
    return Sides.of(rates, [found[np.argmin(np.abs(found - rate))] for rate in rates])


@check(
    "harmonics on the sphere",
    "moments of degree l of a nearly uniform cloud on S^2 grow as e^{sigma_l s}",
    tolerance=1e-5,
    relative=True,
)
def _sphere(engine: Engine) -> Sides:
    heights, shares = np.polynomial.legendre.leggauss(14)
    around = 2 * np.pi * np.arange(28) / 28
    u, phi = (one.ravel() for one in np.meshgrid(heights, around, indexing="ij"))
    rows = torch.tensor(np.stack([np.sqrt(1 - u**2) * np.cos(phi), np.sqrt(1 - u**2) * np.sin(phi), u], axis=1))
    expected, got = [], []
    for degree, legendre in ((1, lambda x: x), (2, lambda x: (3 * x**2 - 1) / 2)):
        mass = np.repeat(shares, 28) * (1 + 1e-5 * legendre(u))
        weights = torch.tensor(mass / mass.sum())
        run = engine.flow(attention(3.0), rows, until=1.0, integrator=TIGHT, keep=[0.0, 1.0], weights=weights)
        moments = [float((weights * torch.tensor(legendre(state[:, 2].numpy()))).sum()) for state in run.states]
        expected.append(linear.harmonic_rate(degree, dim=3, beta=3.0))
        got.append(math.log(moments[1] / moments[0]))
    return Sides.of(expected, got)


@check(
    "fastest mode on the circle",
    "argmax k^2 I_k switches at beta = 1.044, 3.165, 6.211, 10.228, 15.236",
    tolerance=2e-3,
)
def _switches(engine: Engine) -> Sides:
    known, got = (1.044, 3.165, 6.211, 10.228, 15.236), []
    for k, _ in enumerate(known, start=1):
        low, high = 0.1, 40.0
        for _ in range(40):
            middle = (low + high) / 2
            above = linear.harmonic_rate(k + 1, dim=2, beta=middle) > linear.harmonic_rate(k, dim=2, beta=middle)
            low, high = (low, middle) if above else (middle, high)
        got.append((low + high) / 2)
    angles = torch.arange(60, dtype=torch.float64) * (2 * math.pi / 60)
    ring = torch.stack([angles.cos(), angles.sin()], dim=1)
    top = [engine.rates(attention(beta), ring)[0] for beta in known]  # at a switch two modes grow alike
    alike = [linear.harmonic_rate(k, dim=2, beta=beta) for k, beta in enumerate(known, start=1)]
    return Sides.of([*known, *alike], [*got, *top])


@check(
    "modes of the kernel density",
    "on the circle sqrt(sum k^4 I_k^2 / sum k^2 I_k^2), about sqrt(3 beta / 2)",
    tolerance=0.0,
    status="exact as T grows",
    draws="200",
    seeds="0-199",
)
def _modes(engine: Engine) -> Sides:
    expected, got, error = [], [], []
    for beta in (9.0, 25.0):
        counts = []
        for seed in range(200):
            rows = engine.draw(2000, 2, seed).numpy()
            angles = np.arctan2(rows[:, 1], rows[:, 0]) % (2 * np.pi)
            density = np.fft.ifft(_profile(beta) * np.fft.fft(np.histogram(angles, 512, (0, 2 * np.pi))[0])).real
            counts.append(np.sum((density > np.roll(density, 1)) & (density >= np.roll(density, -1))))
        mean, spread = _sampled(np.asarray(counts, dtype=float))
        expected.append(sampling.kernel_density_modes(beta))
        got.append(mean)
        error.append(spread)
    return Sides.of(expected, got, error)


def _profile(beta: float) -> np.ndarray:
    angle = 2 * np.pi * np.arange(512) / 512
    return np.asarray(np.fft.fft(np.exp(beta * (np.cos(angle) - 1))))


@check(
    "high dimension follows the equiangular law",
    "largest deviation of n = 16 tokens about sqrt(ln d / d): ratio to it within 1 +- 0.5",
    tolerance=0.5,
    cost="all",
    status="estimate",
    draws="1",
    seeds="0",
)
def _deviation(engine: Engine) -> Sides:
    got = []
    for dim in (64, 256, 1024):
        times = np.linspace(0, 6, 61)
        run = engine.flow(attention(1.0), engine.draw(16, dim, 0), until=6.0, integrator=TIGHT, keep=list(times))
        law = overlap.equiangular(times, tokens=16, overlap=0.0, beta=1.0)
        got.append(np.abs(off_diagonal(run.states) - law[:, None]).max() / math.sqrt(math.log(dim) / dim))
    return Sides.of([1.0] * 3, got)
