"""A million tokens on the circle and on the sphere: one evaluation, its error, and a whole flow to the plateau.

    python benchmarks/million_tokens.py               everything, each part in a process of its own (some minutes)
    python benchmarks/million_tokens.py --part circle     evaluations on the circle (or: sphere)
    python benchmarks/million_tokens.py --part flow-circle --out DIR    the flow, with its picture (or: flow-sphere)

Evaluations: CPU seconds of one pull, over the time of its bare transforms and over direct compiled pairs (measured at
T = 2e4 and extrapolated by T^2); errors on a random subset against direct sums of differences. A uniform cloud pulls
with T^-1/2 only, all of it cancellation: there the error of Z is what counts; the clumped cloud is a mixture of 20
bumps. One thread.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ducc0
import numpy as np
import torch
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

import armillary as am
from armillary.dynamics.sums.circle import Circle
from armillary.dynamics.sums.pairs import Pairs, direct_rows
from armillary.dynamics.sums.sphere import Sphere
from armillary.dynamics.sums.task import PairSum

SERIES = {"circle": (Circle, 2), "sphere": (Sphere, 3)}
BETAS = (10.0, 100.0, 1000.0)


def clumped(tokens: int, dim: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    centers = am.sphere.uniform(tokens=20, dim=dim, seed=2)
    which = torch.randint(20, (tokens,), generator=generator)
    noise = torch.randn(tokens, dim, generator=generator, dtype=torch.float64)
    return am.sphere.normalize(centers[which] + 0.1 * noise)


def fastest(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    found = dict.fromkeys(calls, math.inf)
    for name in calls:
        calls[name]()
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            found[name] = min(found[name], time.process_time() - begin)
    return found


def bare_circle(rows: np.ndarray, modes: int, epsilon: float) -> Callable[[], object]:
    """The plan and its two transforms, and nothing else."""
    angles = np.arctan2(rows[:, 1], rows[:, 0])[:, None]
    ones = np.ones(len(rows), dtype=complex)

    def call() -> None:
        plan = ducc0.nufft.plan(nu2u=True, coord=angles, grid_shape=(2 * modes + 1,), epsilon=epsilon, nthreads=1)
        plan.u2nu(forward=False, grid=plan.nu2u(forward=True, points=ones))

    return call


def bare_sphere(rows: np.ndarray, modes: int, epsilon: float) -> Callable[[], object]:
    """The three transforms, and nothing else."""
    places = np.stack([np.arccos(rows[:, 2].clip(-1, 1)), np.arctan2(rows[:, 1], rows[:, 0]) % (2 * np.pi)], axis=1)
    ones = np.ones((1, len(rows)))
    same = {"lmax": modes, "loc": places, "epsilon": epsilon, "nthreads": 1}

    def call() -> None:
        found = ducc0.sht.adjoint_synthesis_general(map=ones, spin=0, **same)
        ducc0.sht.synthesis_general(alm=found, spin=0, **same)
        ducc0.sht.synthesis_general(alm=found, spin=1, mode="DERIV1", **same)

    return call


def evaluations(kind: str) -> None:
    series, dim = SERIES[kind]
    bare = bare_circle if kind == "circle" else bare_sphere
    few = 20_000
    print(
        f"{kind}: seconds of one pull, over bare transforms, direct pairs (extrapolated from T = {few}) over it; errors"
    )
    print(
        "  tokens      beta  cloud    modes  seconds   /bare  direct/  error of pull / largest   error of Z / largest"
    )
    for tokens in (100_000, 1_000_000):
        for beta in BETAS:
            direct = None
            for cloud, rows in (
                ("uniform", am.sphere.uniform(tokens=tokens, dim=dim, seed=0)), ("clumped", clumped(tokens, dim)),
            ):  # fmt: skip
                task = PairSum(tokens=tokens, dim=dim, rule=am.Softmax(beta))
                one = series(task, 1e-9)
                if direct is None:
                    pairs, part = Pairs(task, 1e-9), rows[:few].contiguous()
                    direct = fastest({"direct": lambda pairs=pairs, part=part: pairs.pull(part)}, 3)["direct"]
                    direct *= (tokens / few) ** 2
                calls = {
                    "own": lambda one=one, rows=rows: one.pull(rows),
                    "bare": bare(rows.numpy(), one.modes, one.epsilon),
                }
                took = fastest(calls, 5)
                pull_error, z_error = errors(one, rows)
                own = took["own"]
                said = f"  {tokens:8}  {beta:6g}  {cloud}  {one.modes:5}  {own:7.4f}  {own / took['bare']:5.2f}"
                said += f"  {direct / own:7.0f}  {pull_error:10.1e}                {z_error:10.1e}"
                print(said, flush=True)


def errors(series: Circle | Sphere, rows: torch.Tensor, subset: int = 300) -> tuple[float, float]:
    """Of the pull over the largest pull, and of Z over the largest Z, on a random subset."""
    x = rows.numpy()
    some = np.random.default_rng(0).choice(len(x), subset, replace=False)
    p, z = direct_rows(series.task.beta, x[some], x, None)
    exact = (p - np.einsum("ij,ij->i", p, x[some])[:, None] * x[some]) / z[:, None]
    pull = series.pull(rows).numpy()
    found, *_ = series.transformed(x, None)
    largest = np.linalg.norm(pull, axis=1).max()
    return float(np.linalg.norm(pull[some] - exact, axis=1).max() / largest), float(
        abs(found[some] - z).max() / z.max()
    )


def groups(rows: np.ndarray, within: float) -> np.ndarray:
    """Shares of the groups of tokens no further apart than `within`, from at most 20,000 tokens, descending."""
    some = rows[:: max(1, len(rows) // 20_000)]
    near = cKDTree(np.unique(np.round(some, 4), axis=0))
    labels = connected_components(near.sparse_distance_matrix(near, within), directed=False)[1]
    own = labels[near.query(some)[1]]
    return np.sort(np.bincount(own))[::-1] / len(some)


def whole_flow(kind: str, out: Path, tokens: int, beta: float, until: float) -> None:
    _, dim = SERIES[kind]
    field = am.on_sphere(am.AttentionDrift(am.Softmax(beta)))
    start = am.sphere.uniform(tokens=tokens, dim=dim, seed=0)
    keep = [until * k / 12 for k in range(13)] if dim == 2 else [0.0, 0.55 * until, 0.7 * until, until]
    begin, cpu = time.perf_counter(), time.process_time()
    run = am.flow(field, start, until=until, integrator=am.Tsit5(rtol=1e-5), keep=keep)
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(
        f"{kind}: {tokens} tokens, beta {beta:g}, to s = {until:g}: {cpu:.0f} s of CPU time ({wall:.0f} s on the clock)"
    )
    print(f"  {run.steps[0]} steps, {run.rejected[0]} rejected, {run.evaluations[0]} evaluations")
    print(f"  {run.summation}")
    print(f"  {run.status}")
    energy = SERIES[kind][0](PairSum(tokens=tokens, dim=dim, rule=am.Softmax(beta)), 1e-9)
    said = ", ".join(f"{float(energy.log_energy(state)):.6f}" for state in run.states[[0, len(keep) // 2, -1]])
    print(f"  log energy at the start, between and at the end: {said}")
    sizes = groups(run.last.numpy(), 0.05)
    print(f"  groups within 0.05: {len(sizes)}, shares {np.round(sizes[:8], 3)} ...")
    out.mkdir(parents=True, exist_ok=True)
    (circle_picture if dim == 2 else sphere_picture)(run, beta, out / f"million_{kind}.png")
    print(f"  picture in {out / f'million_{kind}.png'}")


def circle_picture(run: am.Trajectory, beta: float, path: Path) -> None:
    import matplotlib.pyplot as plt

    angles = np.arctan2(run.states[..., 1].numpy(), run.states[..., 0].numpy())
    edges = np.linspace(-math.pi, math.pi, 721)
    density = np.stack([np.histogram(one, edges)[0] / len(one) * 720 for one in angles])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    shown = left.imshow(
        np.log10(np.maximum(density, 1e-3)), aspect="auto", origin="lower", cmap="magma",
        extent=(-math.pi, math.pi, run.at[0], run.at[-1]),
    )  # fmt: skip
    figure.colorbar(shown, ax=left, label="log10 of density over uniform")
    left.set(xlabel="angle", ylabel="time s", title=f"{angles.shape[1]:,} tokens on the circle, beta = {beta:g}")
    for index in (0, len(run.at) // 2, len(run.at) - 1):
        right.semilogy((edges[1:] + edges[:-1]) / 2, np.maximum(density[index], 1e-3), label=f"s = {run.at[index]:.3g}")
    right.set(xlabel="angle", ylabel="density over uniform", title="from a uniform start to the plateau")
    right.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    figure.savefig(path, dpi=130)


def sphere_picture(run: am.Trajectory, beta: float, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 3.2), subplot_kw={"projection": "mollweide"}, layout="constrained")
    around, height = np.linspace(-math.pi, math.pi, 361), np.linspace(-1, 1, 181)
    for axis, state, at in zip(axes, run.states[[0, -2, -1]].numpy(), [run.at[0], run.at[-2], run.at[-1]], strict=True):
        count = np.histogram2d(state[:, 2], np.arctan2(state[:, 1], state[:, 0]), [height, around])[0]
        density = np.log10(np.maximum(count / count.mean(), 1e-1))  # cells of equal area
        shown = axis.pcolormesh(around, np.arcsin(height), density, cmap="magma", vmin=-1, vmax=3, rasterized=True)
        axis.set_title(f"s = {at:.3g}")
        axis.set_xticklabels([])
        axis.set_yticklabels([])
    figure.colorbar(shown, ax=axes, label="log10 of density over uniform")
    figure.suptitle(f"{run.states.shape[1]:,} tokens on the sphere, beta = {beta:g}")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["all", "circle", "sphere", "flow-circle", "flow-sphere"], default="all")
    parser.add_argument("--out", type=Path, default=Path("records"))
    parser.add_argument("--tokens", type=float, default=1e6)
    parser.add_argument("--beta", type=float, default=100.0)
    parser.add_argument("--until", type=float, default=20.0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    if chosen.part == "all":
        for part in ("circle", "sphere", "flow-circle", "flow-sphere"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--part", part], check=True)
        return
    if chosen.part.startswith("flow"):
        whole_flow(chosen.part.removeprefix("flow-"), chosen.out, int(chosen.tokens), chosen.beta, chosen.until)
    else:
        evaluations(chosen.part)
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB\n", flush=True)


if __name__ == "__main__":
    main()
