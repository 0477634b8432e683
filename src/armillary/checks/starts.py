"""Laws of independent uniform starts: averages, growth of harmonics, modes of the density."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT, attention, off_diagonal
from armillary.dynamics.attention import Softmax, Unnormalized
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Tsit5
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
    "argmax k^2 I_k switches at beta = 1.044, 3.165, 6.211, 10.228, 15.236, 21.240, 28.243; it is 3, 7, 10, 20, 45, "
    "about sqrt(2 beta), at beta = 5, 25, 50, 200, 1000",
    tolerance=5e-4,
)
def _fastest(engine: Engine) -> Sides:
    switches = [1.044, 3.165, 6.211, 10.228, 15.236, 21.240, 28.243]
    fastest = {5.0: 3, 25.0: 7, 50.0: 10, 200.0: 20, 1000.0: 45}
    got = [float(_mode_rates(engine, beta, tokens=512).argmax()) for beta in fastest]
    return Sides.of([*switches, *fastest.values()], [*(_switch(engine, k) for k in range(1, 8)), *got])


@check(
    "switches of the fastest mode",
    "modes k and k + 1 of a ring grow alike, at k^2 I_k / (beta I_0), where (k + 1)^2 I_{k+1} = k^2 I_k: k = 1 ... 7",
    tolerance=1e-9,
)
def _switches(engine: Engine) -> Sides:
    expected, got = [], []
    for k in range(1, 8):
        beta = linear.fastest_harmonic_switch(k, dim=2)
        alike = linear.harmonic_rate(k, dim=2, beta=beta)
        expected += [beta, alike, alike]
        got += [_switch(engine, k), *_mode_rates(engine, beta, tokens=96)[k : k + 2]]
    return Sides.of(expected, got)


def _switch(engine: Engine, k: int) -> float:
    """The beta above which mode k + 1 of a ring of 96 tokens grows faster than mode k, by bisection."""
    low, high = 0.1, 40.0
    for _ in range(40):
        middle = (low + high) / 2
        rates = _mode_rates(engine, middle, tokens=96)
        low, high = (low, middle) if rates[k + 1] > rates[k] else (middle, high)
    return (low + high) / 2


def _mode_rates(engine: Engine, beta: float, *, tokens: int) -> np.ndarray:
    """Growth rates of the modes 0 ... tokens / 2 of a uniform ring.

    Rotations turn the ring's linearization into itself, so that it is diagonal in Fourier modes and the answer of all
    tokens to a shift of one has every rate.
    """
    angles = torch.arange(tokens, dtype=torch.float64) * (2 * math.pi / tokens)
    ring = torch.stack([angles.cos(), angles.sin()], dim=1)
    along = torch.stack([-angles.sin(), angles.cos()], dim=1)
    shift = torch.zeros_like(ring)
    shift[0] = along[0]
    answer = torch.func.jvp(lambda rows: engine.velocity(attention(beta), rows), (ring,), (shift,))[1]
    return np.asarray(np.fft.rfft((answer * along).sum(-1).numpy()).real)


@check(
    "modes of the kernel density",
    "on the circle sqrt(sum k^4 I_k^2 / sum k^2 I_k^2), about sqrt(3 beta / 2): beta = 9, 25, 50, 100, 200",
    tolerance=0.0,
    status="exact as T grows",
    draws="200",
    seeds="0-199",
)
def _modes(engine: Engine) -> Sides:
    betas = (9.0, 25.0, 50.0, 100.0, 200.0)
    angle = 2 * np.pi * np.arange(4096) / 4096
    kernels = np.stack([np.fft.rfft(np.exp(beta * (np.cos(angle) - 1))) for beta in betas])
    counts = []
    for seed in range(200):
        rows = engine.draw(20_000, 2, seed).numpy()
        seen = np.histogram(np.arctan2(rows[:, 1], rows[:, 0]) % (2 * np.pi), 4096, (0, 2 * np.pi))[0]
        density = np.fft.irfft(kernels * np.fft.rfft(seen))
        peak = (density > np.roll(density, 1, -1)) & (density >= np.roll(density, -1, -1))
        counts.append(peak.sum(-1))
    means = [_sampled(one) for one in np.asarray(counts, dtype=float).T]
    law = [sampling.kernel_density_modes(beta) for beta in betas]
    return Sides.of(law, [mean for mean, _ in means], [error for _, error in means])


KNOWN_DEVIATION = {16: 0.613, 64: 0.274, 256: 0.164, 1024: 0.084}
"""Largest distance of an overlap from the equiangular law, n = 16, beta = 1: draws not stated, taken as one."""

KNOWN_MEAN_DEVIATION = {64: 0.035, 256: 0.021, 1024: 0.010}
"""The same of the mean overlap."""


@check(
    "high dimension follows the equiangular law",
    "16 tokens, beta = 1: the largest distance of an overlap from the law is 0.613, 0.274, 0.164, 0.084 at d = 16, 64, "
    "256, 1024, of the mean overlap 0.035, 0.021, 0.010 from d = 64 on (taken as of one draw)",
    tolerance=0.0,
    cost="all",
    status="estimate",
    draws="100",
    seeds="0-99",
)
def _deviation(engine: Engine) -> Sides:
    found = {dim: _from_the_law(engine, dim) for dim in KNOWN_DEVIATION}
    known = [*KNOWN_DEVIATION.values(), *KNOWN_MEAN_DEVIATION.values()]
    largest = [np.abs(found[dim]).max((1, 2)) for dim in KNOWN_DEVIATION]
    of_mean = [np.abs(found[dim].mean(-1)).max(-1) for dim in KNOWN_MEAN_DEVIATION]
    draws = [*largest, *of_mean]
    return Sides.of(known, [one.mean() for one in draws], [one.std(ddof=1) * math.hypot(0.1, 1.0) for one in draws])


@check(
    "mean overlap in high dimension",
    "over 100 draws of 16 tokens, beta = 1, it stays within 0.035, 0.021, 0.010 of the equiangular law at d = 64, 256, "
    "1024: their distance over that is below 1",
    tolerance=1.0,
    cost="all",
    status="estimate",
    draws="100",
    seeds="0-99",
)
def _mean(engine: Engine) -> Sides:
    got = [np.abs(_from_the_law(engine, dim).mean((0, 2))).max() / most for dim, most in KNOWN_MEAN_DEVIATION.items()]
    return Sides.of([0.0] * 3, got)


def _from_the_law(engine: Engine, dim: int) -> np.ndarray:
    """Overlaps of 16 uniform tokens minus that of orthonormal ones at s = 0, 0.1 ... 6, `draws times pairs`."""
    times = np.linspace(0, 6, 61)
    starts = torch.stack([engine.draw(16, dim, seed) for seed in range(100)])
    run = engine.flow(attention(1.0), starts, until=6.0, integrator=Tsit5(rtol=1e-6), keep=list(times))
    law = overlap.equiangular(times, tokens=16, overlap=0.0, beta=1.0)
    return off_diagonal(run.states) - law[:, None]
