"""Laws of the overlap: two tokens, equiangular tokens, a causal pair, two weighted clusters, one residual layer.

Equiangular tokens stay equiangular, so their common overlap g obeys one ordinary differential equation; its solution is
taken from the closed form where there is one, else from the quadrature of ds = dg / g' and its inverse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.integrate import quad, solve_ivp

from armillary.errors import ArgumentError

__all__ = [
    "causal_pair",
    "equiangular",
    "equiangular_rate",
    "equiangular_uniform",
    "merge_time",
    "participation_rank_of_equiangular",
    "participation_rank_of_pair",
    "residual_layers",
    "scheme_overlap",
    "scheme_rate",
    "time_between",
    "two_clusters",
    "two_clusters_rate",
    "two_clusters_time",
    "two_tokens",
    "two_tokens_rate",
]


def two_tokens(at: Sequence[float] | np.ndarray, *, overlap: float) -> np.ndarray:
    """Two tokens at uniform weights: c(s) = tanh(s + artanh c(0)); exactly opposed ones stay.

    Args:
        at: Times.
        overlap: c(0), within [-1, 1].

    Returns:
        c at each time.
    """
    times = np.asarray(at, dtype=float)
    if abs(overlap) == 1:
        return np.full_like(times, overlap)
    return np.tanh(times + math.atanh(overlap))


def causal_pair(at: Sequence[float] | np.ndarray, *, overlap: float) -> np.ndarray:
    """Two tokens, uniform weights, the first sees only itself: c(s) = tanh(s / 2 + artanh c(0)), half the speed."""
    return two_tokens(np.asarray(at, dtype=float) / 2, overlap=overlap)


def two_tokens_rate(overlap: float, *, beta: float) -> float:
    """dc/ds = 2 (1 - c^2) / (1 + e^{beta (1 - c)}) for two tokens under softmax."""
    return 2 * (1 - overlap**2) * math.exp(-np.logaddexp(0.0, beta * (1 - overlap)))


def equiangular_rate(overlap: float, *, tokens: int, beta: float, rule: str = "softmax") -> float:
    """dg/ds of equiangular tokens.

    softmax: 2 (1 - g) ((n - 1) g + 1) / (e^{beta (1 - g)} + n - 1);
    unnormalized: (2 / n) e^{beta g} (1 - g) ((n - 1) g + 1);
    shifted, the same with another clock: (2 / n) e^{beta g - |beta|} (1 - g) ((n - 1) g + 1).

    Args:
        overlap: g.
        tokens: n.
        beta: Inverse temperature; 0 is uniform weights.
        rule: "softmax", "unnormalized" or "shifted".
    """
    shape = 2 * (1 - overlap) * ((tokens - 1) * overlap + 1)
    if rule == "softmax":
        return shape * math.exp(-np.logaddexp(beta * (1 - overlap), math.log(tokens - 1)))
    if rule in ("unnormalized", "shifted"):
        return shape * math.exp(beta * overlap - (abs(beta) if rule == "shifted" else 0.0)) / tokens
    raise ArgumentError(
        f"Argument `rule` must be 'softmax', 'unnormalized' or 'shifted', but it is {rule!r}. Name one."
    )


def equiangular_uniform(at: Sequence[float] | np.ndarray, *, tokens: int, overlap: float = 0.0) -> np.ndarray:
    """Closed form at uniform weights: (1 - g) / ((n - 1) g + 1) decays as e^{-2 s}.

    From g(0) = 0 it reads g = (1 - e^{-2s}) / (1 + (n - 1) e^{-2s}); for n = 2 it is the tanh law.
    """
    decay = (1 - overlap) / ((tokens - 1) * overlap + 1) * np.exp(-2 * np.asarray(at, dtype=float))
    return (1 - decay) / (1 + (tokens - 1) * decay)


def equiangular(
    at: Sequence[float] | np.ndarray, *, tokens: int, overlap: float, beta: float = 0.0, rule: str = "softmax"
) -> np.ndarray:
    """The common overlap of equiangular tokens at the given times, to about 1e-12.

    Args:
        at: Times, ascending, from 0 on.
        tokens: n.
        overlap: g(0), within [-1/(n-1), 1].
        beta: Inverse temperature.
        rule: "softmax", "unnormalized" or "shifted".
    """
    times = np.asarray(at, dtype=float)
    if beta == 0 and rule == "softmax":
        return equiangular_uniform(times, tokens=tokens, overlap=overlap)

    def rate(_: float, g: np.ndarray) -> list[float]:
        return [equiangular_rate(float(g[0]), tokens=tokens, beta=beta, rule=rule)]

    found = solve_ivp(rate, (0.0, float(times[-1])), [overlap], method="DOP853", t_eval=times, rtol=1e-13, atol=1e-15)
    return np.asarray(found.y[0])


def time_between(start: float, stop: float, rate: Callable[[float], float]) -> float:
    """The time that an overlap of rate dc/ds = rate(c) takes from `start` to `stop`, by quadrature of dc / rate.

    In y = -ln(1 - c), in which the approach to consensus takes equal times for equal stretches.
    """
    ends = (-math.log1p(-start), -math.log1p(-stop))
    value, _ = quad(lambda y: math.exp(-y) / rate(-math.expm1(-y)), *ends, epsabs=0, epsrel=1e-10, limit=500)
    return float(value)


def merge_time(*, tokens: int, beta: float, start: float = 0.0, stop: float) -> float:
    """The time in which equiangular tokens go from one overlap to another under softmax, by quadrature."""
    return time_between(start, stop, lambda g: equiangular_rate(g, tokens=tokens, beta=beta))


def participation_rank_of_pair(overlap: float) -> float:
    """2 / (1 + c^2) for two unit rows: 2 at c = 0, 1.6 at c = +-1/2, 1 at +-1."""
    return 2 / (1 + overlap**2)


def participation_rank_of_equiangular(overlap: float, *, tokens: int) -> float:
    """N / (1 + (n - 1) g^2)."""
    return tokens / (1 + (tokens - 1) * overlap**2)


def residual_layers(*, tokens: int, beta: float, step: float, layers: int, overlap: float = 0.0) -> np.ndarray:
    """Overlap of equiangular tokens after each post-norm layer x -> normalize(x + h A x): exact, layer by layer.

    With a = A_ii, b = A_ij, u = 1 + h (a - b), v = h b and sigma = 1 + (n - 1) g,
    1 - g_next = u^2 (1 - g) / (u^2 + 2 u v sigma + v^2 n sigma).

    Returns:
        `layers + 1` overlaps, the start first.
    """
    found = [overlap]
    for _ in range(layers):
        g = found[-1]
        own = math.exp(-np.logaddexp(0.0, math.log(tokens - 1) - beta * (1 - g)))
        other = (1 - own) / (tokens - 1)
        u, v, sigma = 1 + step * (own - other), step * other, 1 + (tokens - 1) * g
        found.append(1 - u**2 * (1 - g) / (u**2 + 2 * u * v * sigma + v**2 * tokens * sigma))
    return np.asarray(found)


def two_clusters_rate(overlap: float, *, beta: float, weights: tuple[float, float]) -> float:
    """dc/ds of two tight clusters: (1 - c^2) [w2 / (w1 e^{b(1-c)} + w2) + w1 / (w2 e^{b(1-c)} + w1)]."""
    first, second = weights
    gap = beta * (1 - overlap)
    pulled = 1 / (1 + np.exp(gap + math.log(first / second))) + 1 / (1 + np.exp(gap + math.log(second / first)))
    return float((1 - overlap**2) * pulled)


def two_clusters_time(start: float, stop: float, *, beta: float, weights: tuple[float, float]) -> float:
    """The time that two tight clusters take from one overlap to another, by quadrature."""
    return time_between(start, stop, lambda c: two_clusters_rate(c, beta=beta, weights=weights))


def two_clusters(at: float, *, overlap: float, beta: float, weights: tuple[float, float]) -> float:
    """The overlap of two tight clusters at a time, from their equation, to about 1e-12."""

    def rate(_: float, c: np.ndarray) -> list[float]:
        return [two_clusters_rate(float(c[0]), beta=beta, weights=weights)]

    found = solve_ivp(rate, (0.0, at), [overlap], method="DOP853", rtol=1e-13, atol=1e-15)
    return float(found.y[0, -1])


def scheme_rate(scheme: str, *, tokens: int, beta: float, alpha: float = 1.0, radius: float = 1.0) -> float:
    """dg/ds at s = 0 of orthonormal tokens under each placement of the norm.

    post, pre (over r_0), mix and sqrt depth: 2 / (e^beta + n - 1); peri: 2 / (r_0 sqrt(e^{2 beta} + n - 1)); ngpt:
    2 alpha / sqrt(e^{2 beta} + n - 1).

    Source: Karagodin, Ge, Polyanskiy, Rigollet 2025.
    """
    plain, root = 2 / (math.exp(beta) + tokens - 1), 2 / math.sqrt(math.exp(2 * beta) + tokens - 1)
    rates = {
        "post": plain,
        "mix": plain,
        "sqrt depth": plain,
        "pre": plain / radius,
        "peri": root / radius,
        "ngpt": alpha * root,
    }
    return rates[scheme]


def scheme_overlap(
    at: Sequence[float] | np.ndarray, *, scheme: str, tokens: int, beta: float, alpha: float = 1.0, switch: float = 1.0
) -> np.ndarray:
    """Overlap of orthonormal tokens of unit length under each placement of the norm, from the equations of g and r.

    With A the attention output of the direction theta, g' is the post-norm rate over s_i, and r' = 0 (post, ngpt, sqrt
    depth), theta . A (pre) or theta . A / |A| (peri).

    Args:
        at: Times, ascending, from 0 on.
        scheme: "post", "pre", "mix", "peri", "ngpt" or "sqrt depth".
        tokens: n.
        beta: Inverse temperature.
        alpha: Of ngpt.
        switch: When mix turns from post to pre.
    """
    times = np.asarray(at, dtype=float)

    def rate(time: float, y: np.ndarray) -> list[float]:
        g, r = float(y[0]), float(y[1])
        own = 1 / (1 + (tokens - 1) * math.exp(-beta * (1 - g)))
        other = (1 - own) / (tokens - 1)
        along = own + (tokens - 1) * other * g
        total = 1 + (tokens - 1) * g
        length = math.sqrt((own - other) ** 2 + 2 * (own - other) * other * total + other**2 * tokens * total)
        plain = equiangular_rate(g, tokens=tokens, beta=beta)
        free = scheme == "pre" or (scheme == "mix" and time >= switch)
        if scheme == "peri":
            return [plain / (r * length), along / length]
        if scheme == "ngpt":
            return [alpha * plain / length, 0.0]
        if scheme == "sqrt depth":
            return [plain / math.sqrt(time + 1), 0.0]
        return [plain / r, along] if free else [plain, 0.0]

    edges = [0.0, *([switch] if scheme == "mix" and switch < times[-1] else []), float(times[-1])]
    state, found = np.asarray([0.0, 1.0]), np.zeros_like(times)
    for begin, end in itertools.pairwise(edges):
        run = solve_ivp(rate, (begin, end), state, method="DOP853", dense_output=True, rtol=1e-12, atol=1e-14)
        inside = (times >= begin) & (times <= end)
        assert run.sol is not None
        found[inside] = run.sol(times[inside])[0]
        state = run.y[:, -1]
    return found
