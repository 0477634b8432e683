"""The direct sum over all pairs beside its limit: two matrix products and T^2 exponentials, in the same rounds.

    python benchmarks/drift_limit.py                 T in 64, 1024, 8192; d in 2, 3, 16, 128, 768; double and single
    python benchmarks/drift_limit.py --quick         without T = 8192 where d is above 16
    python benchmarks/drift_limit.py --tokens 64     other numbers of tokens
    python benchmarks/drift_limit.py --memory        the memory of each sum alone

The limit of a drift sum_j A_ij x_j is the time of X X^T and of E X in tiles of 1,024 rows (the faster of NumPy and
torch) and of T^2 exponentials: the package's compiled polynomial in calls of 4,096 numbers with a refill between calls,
whose rate is printed. In two and three dimensions each pair needs one exponential only, and matrix products are no
good; there the second limit, `/half`, is T^2 / 2 of those exponentials and nothing else. `/bare` is stricter: the same
polynomial over one array of 65,536 numbers, without refill, whose rate is printed too. At the end the memory that each
of the package's sums takes, in a process of its own. One thread, CPU time, smallest of alternated rounds.
Beside it: NumPy in tiles of 256 rows, torch's dense softmax, torch's attention kernel, pykeops if it is installed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from armillary import sphere
from armillary.dynamics.attention import Softmax
from armillary.dynamics.summation import EVALUATORS, chosen_evaluator
from armillary.dynamics.sums import kernels
from armillary.dynamics.sums.costs import seconds
from armillary.dynamics.sums.task import PairSum

BETA = 5.0
REFILLED, BARE = 4096, 65_536  # numbers in one call of the exponential
KINDS = {"double": (np.float64, torch.float64), "single": (np.float32, torch.float32)}


def fastest(calls: dict[str, Callable[[], object]], rounds: int, least: float = 4e-3) -> dict[str, float]:
    """Smallest CPU time of each call over rounds in which all of them take turns."""
    repeats = {}
    for name, call in calls.items():
        call()
        begin = time.process_time()
        call()
        repeats[name] = max(1, int(least / max(time.process_time() - begin, 1e-6)))
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                call()
            found[name] = min(found[name], (time.process_time() - begin) / repeats[name])
    return found


def exponentials(kind: str) -> Callable[[], object]:
    """4,096 exponentials, with a refill."""
    source = -np.random.default_rng(0).uniform(0, 60, REFILLED).astype(KINDS[kind][0])
    arguments, found = source.copy(), np.empty_like(source)

    def call() -> None:
        arguments[:] = source
        kernels.exponentials(arguments, found)

    return call


def bare_exponentials(kind: str) -> Callable[[], object]:
    """65,536 exponentials of one array, into another."""
    arguments = -np.random.default_rng(0).uniform(0, 60, BARE).astype(KINDS[kind][0])
    found = np.empty_like(arguments)
    return lambda: kernels.exponentials(arguments, found)


def products(rows: torch.Tensor) -> dict[str, Callable[[], object]]:
    """X X^T and E X, tile by tile, with either library."""
    x, tile = rows.numpy(), min(1024, len(rows))
    scores, out = np.empty((tile, tile), x.dtype), np.empty((tile, x.shape[1]), x.dtype)
    score_tensor, out_tensor = torch.from_numpy(scores), torch.from_numpy(out)
    scores[:] = 0.5
    parts = range(0, len(x), tile)

    def with_numpy() -> None:
        for i in parts:
            for j in parts:
                np.matmul(x[i : i + tile], x[j : j + tile].T, out=scores)
                np.matmul(scores, x[j : j + tile], out=out)

    def with_torch() -> None:
        for i in parts:
            for j in parts:
                torch.mm(rows[i : i + tile], rows[j : j + tile].T, out=score_tensor)
                torch.mm(score_tensor, rows[j : j + tile], out=out_tensor)

    return {"numpy products": with_numpy, "torch products": with_torch}


def numpy_tiles(x: np.ndarray) -> np.ndarray:
    found = np.empty_like(x)
    for first in range(0, len(x), 256):
        weights = x[first : first + 256] @ x.T
        weights -= 1
        weights *= BETA
        np.exp(weights, out=weights)
        found[first : first + 256] = weights @ x / weights.sum(1, keepdims=True)
    return found


def keops(rows: torch.Tensor) -> Callable[[], object] | None:
    try:
        from pykeops.torch import LazyTensor
    except ImportError:
        return None
    here, there = LazyTensor(rows[:, None]), LazyTensor(rows[None])

    def call() -> object:
        weights = (BETA * ((here * there).sum(-1) - 1)).exp()
        return (weights @ rows) / weights.sum(1)

    return call


def contenders(rows: torch.Tensor, task: PairSum) -> dict[str, Callable[[], object]]:
    """The package's direct sum, and the others."""
    direct = [name for name in ("pairs", "tiles", "sdpa", "rows") if EVALUATORS[name].obstacle(task) is None]
    name = min(direct, key=lambda one: seconds(one, task))
    own = EVALUATORS[name](task, 1e-9)
    sdpa = EVALUATORS["sdpa"](task, 1e-9)
    found: dict[str, Callable[[], object]] = {f"own: {name}": lambda: own.drift(rows)}
    found["sdpa"] = lambda: sdpa.drift(rows)
    found["numpy tiles"] = lambda: numpy_tiles(rows.numpy())
    found["torch softmax"] = lambda: torch.softmax(BETA * (rows @ rows.T), dim=-1) @ rows
    if (call := keops(rows)) is not None:
        found["pykeops"] = call
    return found


def one_case(tokens: int, dim: int, kind: str, rounds: int) -> None:
    dtype = KINDS[kind][1]
    rows = sphere.uniform(tokens=tokens, dim=dim, seed=0).to(dtype)
    task = PairSum(tokens=tokens, dim=dim, rule=Softmax(BETA), dtype=dtype)
    calls = {
        **products(rows),
        "exponentials": exponentials(kind),
        "bare": bare_exponentials(kind),
        **contenders(rows, task),
    }
    took = fastest(calls, rounds)
    rate, bare = REFILLED / took["exponentials"], BARE / took["bare"]
    limit = min(took["numpy products"], took["torch products"]) + tokens**2 / rate
    own = next(name for name in took if name.startswith("own"))
    said = [f"{tokens:6} {dim:4} {kind}  {rate / 1e9:5.2f} {bare / 1e9:5.2f}  {limit * 1e3:9.3f}"]
    said.append(f"{own[5:]:5} {took[own] * 1e3:9.3f}")
    said.append(f"{took[own] / limit:6.2f}")
    said += [f"{took[own] * one * 2 / tokens**2:6.2f}" if dim <= 3 else "     -" for one in (rate, bare)]
    said += [f"{took[name] / took[own]:6.2f}" for name in ("sdpa", "numpy tiles", "torch softmax")]
    said.append(f"{took['pykeops'] / took[own]:6.2f}" if "pykeops" in took else "  n.i.")
    said.append(f"{chosen_evaluator(task, accuracy=1e-9).evaluator.name}")
    print("  ".join(said), flush=True)


def memory() -> None:
    """Growth of the largest resident size by one sum, each in a process of its own."""
    code = (
        "import resource, sys, torch; torch.set_num_threads(1); from armillary import sphere;"
        "from armillary.dynamics.attention import Softmax; from armillary.dynamics.sums.task import PairSum;"
        "from armillary.dynamics.summation import EVALUATORS; name, d = sys.argv[1], int(sys.argv[2]);"
        "make = lambda t: (EVALUATORS[name](PairSum(tokens=t, dim=d, rule=Softmax(5.0)), 1e-9),"
        " sphere.uniform(tokens=t, dim=d, seed=0)); e, x = make(300); e.drift(x); e, x = make(16384);"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; e.drift(x);"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)"
    )
    print("T = 16384, double: growth of peak memory by one drift, MiB (T^2 numbers: 2048)")
    for name, dim in (
        ("pairs", 2),
        ("pairs", 3),
        ("circle", 2),
        ("sphere", 3),
        ("sdpa", 16),
        ("rows", 16),
        ("tiles", 768),
    ):
        found = subprocess.run([sys.executable, "-c", code, name, str(dim)], capture_output=True, text=True, check=True)
        print(f"  {name:7} d = {dim:3}  {float(found.stdout):7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tokens", type=int, nargs="+", default=(64, 1024, 8192))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    threadpool_limits(1)
    if chosen.memory:
        memory()
        return
    print(
        "exponential of the limits: the package's own polynomial (numba), 4,096 at a time with refill; bare: the same\n"
        "without refill (both rates in G/s)"
    )
    print(
        "tokens  dim type    rate  bare   limit/ms  own       own/ms  /limit   /half   /bare  over own: sdpa numpy"
        " torch keops  auto"
    )
    for kind in KINDS:
        for dim in (2, 3, 16, 128, 768):
            for tokens in chosen.tokens:
                if not (chosen.quick and tokens > 1024 and dim > 16):
                    one_case(tokens, dim, kind, chosen.rounds if tokens * dim < 1e6 else 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB, that of torch's dense softmax; of the package's own sums:")
    memory()


if __name__ == "__main__":
    main()
