"""Accuracy per work of the simulator beside the papers' scheme and other solvers, alternated in one run.

    python benchmarks/accuracy_per_work.py [--rounds 3]

Two runs: T = 64, d = 3, beta = 9 to s = 200 and T = 128, d = 16, beta = 9 to s = 30. For each method: evaluations of
the velocity, processor seconds (the smallest of the rounds), the largest error of a coordinate against a reference at
1e-13, and one line for each target, "kept" or "MISSED". torchdiffeq and diffrax take part where they are installed;
compile time of diffrax is given apart.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.integrate import solve_ivp

import armillary as am

CASES = ((64, 3, 9.0, 200.0), (128, 16, 9.0, 30.0))


@dataclass
class Result:
    """What one method did on one case."""

    error: float
    evaluations: float
    seconds: float


Method = Callable[[], tuple[np.ndarray, float]]


def numpy_velocity(beta: float, tokens: int, dim: int) -> Callable[[float, np.ndarray], np.ndarray]:
    """The same right side in plain NumPy, for solvers that know no sphere."""

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        x = flat.reshape(tokens, dim)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        weights = np.exp(beta * (x @ x.T - 1))
        pulled = weights @ x / weights.sum(1, keepdims=True)
        return (pulled - (pulled * x).sum(1, keepdims=True) * x).ravel()

    return velocity


def own(start: torch.Tensor, beta: float, until: float, rtol: float, engine: str) -> Method:
    """This package, on one of its engines."""
    field = am.on_sphere(am.AttentionDrift(am.Softmax(beta)))

    def run() -> tuple[np.ndarray, float]:
        found = am.flow(field, start, until=until, integrator=am.Tsit5(rtol=rtol), keep=1, engine=engine)
        return found.last.numpy(), float(found.evaluations[0])

    return run


def papers(start: torch.Tensor, beta: float, until: float, step: float) -> Method:
    """x -> normalize(x + h A x) in batched torch, as published."""

    def run() -> tuple[np.ndarray, float]:
        x, count = start.clone(), round(until / step)
        for _ in range(count):
            x = x + step * torch.softmax(beta * (x @ x.mT), dim=-1) @ x
            x = x / x.norm(dim=-1, keepdim=True)
        return x.numpy(), float(count)

    return run


def scipy_method(name: str, start: torch.Tensor, beta: float, until: float, rtol: float) -> Method:
    """A solver of SciPy."""
    tokens, dim = start.shape

    def run() -> tuple[np.ndarray, float]:
        found = solve_ivp(
            numpy_velocity(beta, tokens, dim), (0.0, until), start.numpy().ravel(), method=name, rtol=rtol,
            atol=rtol / 100,
        )  # fmt: skip
        rows = found.y[:, -1].reshape(tokens, dim)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), float(found.nfev)

    return run


def torchdiffeq_method(start: torch.Tensor, beta: float, until: float, rtol: float) -> Method | None:
    """dopri5 of torchdiffeq, if it is installed."""
    try:
        from torchdiffeq import odeint
    except ImportError:
        return None
    field = am.on_sphere(am.AttentionDrift(am.Softmax(beta)))

    def run() -> tuple[np.ndarray, float]:
        count = 0

        def velocity(_: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return field.velocity(0.0, x)

        with torch.no_grad():
            times = torch.tensor([0.0, until], dtype=torch.float64)
            last = odeint(velocity, start, times, method="dopri5", rtol=rtol, atol=rtol / 100)[-1]
        return (last / last.norm(dim=-1, keepdim=True)).numpy(), float(count)

    return run


def diffrax_method(start: torch.Tensor, beta: float, until: float, rtol: float) -> tuple[Method, float] | None:
    """Tsit5 of diffrax, if it is installed, and its compile time."""
    try:
        import diffrax
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)

    def velocity(_: object, x: object, __: object) -> object:
        x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        weights = jnp.exp(beta * (x @ x.T - 1))
        pulled = weights @ x / weights.sum(1, keepdims=True)
        return pulled - (pulled * x).sum(-1, keepdims=True) * x

    @jax.jit
    def solved(x: object) -> object:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity), diffrax.Tsit5(), 0.0, until, None, x, max_steps=100_000,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol / 100),
        )  # fmt: skip
        return found.ys[-1], found.stats["num_steps"]

    given = jnp.asarray(start.numpy())
    began = time.perf_counter()
    jax.block_until_ready(solved(given))
    compiled = time.perf_counter() - began

    def run() -> tuple[np.ndarray, float]:
        last, steps = jax.block_until_ready(solved(given))
        rows = np.asarray(last)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), 6.0 * float(steps) + 1

    return run, compiled


def measured(methods: dict[str, Method], reference: np.ndarray, rounds: int) -> dict[str, Result]:
    """Every method in turn, several rounds; the smallest processor time of each."""
    found: dict[str, Result] = {}
    for _ in range(rounds):
        for name, method in methods.items():
            began = time.process_time()
            rows, evaluations = method()
            seconds = time.process_time() - began
            error = float(np.abs(rows - reference).max())
            kept = min(seconds, found[name].seconds) if name in found else seconds
            found[name] = Result(error, evaluations, kept)
    return found


def interpolated(curve: list[Result], error: float) -> float:
    """Evaluations at an error, from the log-log line between a method's tolerances."""
    logs = sorted((math.log(one.error), math.log(one.evaluations)) for one in curve)
    errors, work = [one[0] for one in logs], [one[1] for one in logs]
    return math.exp(float(np.interp(math.log(error), errors, work)))


def case(tokens: int, dim: int, beta: float, until: float, rounds: int) -> None:
    """One run, all methods."""
    start = am.sphere.uniform(tokens=tokens, dim=dim, seed=0)
    reference = own(start, beta, until, 1e-13, "general")()[0]
    tolerances, apart = (1e-4, 1e-6, 1e-8, 1e-10), {}
    methods: dict[str, Method] = {}
    for rtol in tolerances:
        methods[f"armillary, compiled {rtol:g}"] = own(start, beta, until, rtol, "compiled")
        methods[f"armillary, general {rtol:g}"] = own(start, beta, until, rtol, "general")
        for name in ("RK45", "DOP853"):
            methods[f"SciPy {name} {rtol:g}"] = scipy_method(name, start, beta, until, rtol)
        if (other := torchdiffeq_method(start, beta, until, rtol)) is not None:
            methods[f"torchdiffeq dopri5 {rtol:g}"] = other
        if (made := diffrax_method(start, beta, until, rtol)) is not None:
            methods[f"diffrax Tsit5 {rtol:g}"], apart[f"{rtol:g}"] = made
    methods["papers' Euler 0.1"] = papers(start, beta, until, 0.1)
    methods["papers' Euler 0.01"] = papers(start, beta, until, 0.01)
    methods["armillary, compiled 1e-06"]()  # compiled before it is timed
    found = measured(methods, reference, rounds)
    print(f"T = {tokens}, d = {dim}, beta = {beta:g} to s = {until:g}; errors against this package at 1e-13")
    check = scipy_method("DOP853", start, beta, until, 1e-13)()[0]
    print(f"  reference and SciPy's DOP853 at 1e-13 differ by {np.abs(check - reference).max():.1e}")
    for name, one in found.items():
        print(f"  {name:30s} {one.evaluations:8.0f} evaluations  {one.seconds:9.4f} s  error {one.error:.1e}")
    if apart:
        print(f"  diffrax compiles in {min(apart.values()):.1f} to {max(apart.values()):.1f} s, not counted above")
    targets(found, small=tokens * dim < 256)


def targets(found: dict[str, Result], *, small: bool) -> None:
    """One line a target, "kept" or "MISSED"; a peer that is not installed is named and judges nothing.

    Args:
        found: What each method did.
        small: Whether times are judged too.
    """
    own_run, euler = found["armillary, compiled 1e-06"], found["papers' Euler 0.1"]
    curves = {
        family: [one for name, one in found.items() if name.startswith(family)]
        for family in ("SciPy RK45", "torchdiffeq dopri5", "diffrax Tsit5")
    }
    work = {family: interpolated(curve, own_run.error) for family, curve in curves.items() if curve}
    for absent in sorted(set(curves) - set(work)):
        print(f"  not run {absent}: it is not installed, and targets beside it are not judged")
    best = min(work, key=lambda family: work[family])
    said(
        own_run.evaluations / work[best], 1.1, True,
        f"evaluations over those of the best peer of its order ({best}) at error {own_run.error:.1e}",
    )  # fmt: skip
    if small and (other := found.get("diffrax Tsit5 1e-06")) is not None:
        said(own_run.seconds / other.seconds, 1.0, True, "seconds over diffrax's at 1e-6")
    if small and (other := found.get("torchdiffeq dopri5 1e-06")) is not None:
        said(other.seconds / own_run.seconds, 20.0, False, "times faster than torchdiffeq at 1e-6")
    own_runs = [one for name, one in found.items() if name.startswith("armillary, compiled")]
    least = min((one.error for one in own_runs if one.seconds <= euler.seconds), default=math.inf)
    said(euler.error / least, 1000.0, False, "times smaller an error than the papers' scheme at its cost or less")


def said(got: float, target: float, below: bool, words: str) -> None:
    """A target with what was reached."""
    kept, least = (got <= target, "at most") if below else (got >= target, "at least")
    print(f"  {'kept  ' if kept else 'MISSED'}  {got:.3g} {words} (target: {least} {target:g})")


def main() -> None:
    """Both cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for tokens, dim, beta, until in CASES:
        case(tokens, dim, beta, until, rounds)


if __name__ == "__main__":
    main()
