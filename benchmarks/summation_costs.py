"""What each evaluator of sums over all pairs costs on this machine: the table of `armillary.dynamics.sums.costs`.

    python benchmarks/summation_costs.py            prints the table as it stands in the source, and where ways cross
    python benchmarks/summation_costs.py --check    measures again and prints predicted beside measured times

One thread, CPU time of the process, the smallest of several rounds. Constants are a non-negative least-squares fit of
relative errors.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import date

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.optimize import nnls

from armillary import sphere
from armillary.dynamics.attention import Softmax, Uniform
from armillary.dynamics.summation import EVALUATORS
from armillary.dynamics.sums.costs import counts, seconds
from armillary.dynamics.sums.task import PairSum

PLACES: dict[str, list[tuple[int, int, float]]] = {
    "pairs 2": [(t, 2, 10.0) for t in (32, 64, 128, 256, 1024, 4096, 8192)],
    "pairs 3": [(t, 3, 10.0) for t in (32, 64, 128, 256, 1024, 4096, 8192)],
    "pairs": [(t, d, 10.0) for t in (32, 64, 256, 1024, 3000) for d in (4, 8, 16, 32)],
    "rows": [(t, d, 10.0) for t in (32, 64, 256, 1024, 4096) for d in (2, 8, 32, 128, 512) if t * t * d < 3e9],
    "sdpa": [(t, d, 10.0) for t in (32, 64, 256, 1024, 4096) for d in (2, 8, 32, 128, 512) if t * t * d < 3e9],
    "tiles": [(t, d, 10.0) for t in (32, 64, 256, 1024, 4096) for d in (2, 8, 32, 128, 512) if t * t * d < 3e9],
    "means": [(t, d, 0.0) for t in (64, 1024, 100_000) for d in (2, 16, 128)],
    "circle": [(t, 2, b) for t in (64, 512, 4096, 100_000, 1_000_000) for b in (1.0, 10.0, 100.0, 1000.0)],
    "sphere": [(t, 3, b) for t in (64, 512, 4096, 100_000, 400_000) for b in (1.0, 10.0, 100.0, 1000.0)],
}


def fastest(call: Callable[[], object], least: float = 0.02, rounds: int = 5) -> float:
    """Smallest CPU time of a call, in seconds."""
    call()
    begin = time.process_time()
    call()
    once = time.process_time() - begin
    repeats = max(1, int(least / max(once, 1e-6)))
    found = []
    for _ in range(rounds if once < 1 else 2):
        begin = time.process_time()
        for _ in range(repeats):
            call()
        found.append((time.process_time() - begin) / repeats)
    return min(found)


def measured(name: str, tokens: int, dim: int, beta: float, dtype: torch.dtype) -> tuple[PairSum, float]:
    """The task and the time of one pull."""
    task = PairSum(tokens=tokens, dim=dim, rule=Softmax(beta) if beta else Uniform(), dtype=dtype)
    evaluator = EVALUATORS[name](task, max(1e-9, EVALUATORS[name].attainable(task)))
    rows = sphere.uniform(tokens=tokens, dim=dim, seed=0).to(dtype)
    return task, fastest(lambda: evaluator.pull(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of the names to measure")
    chosen = parser.parse_args()
    check, only = chosen.check, chosen.only
    torch.set_num_threads(1)
    if not check:
        print(f'MEASURED = "CPU time, one thread, {platform.machine()}, torch {torch.__version__}, {date.today()}"\n')
        print("COSTS: dict[tuple[str, str], Cost] = {")
    for key, places in PLACES.items():
        if not key.startswith(tuple(only)):
            continue
        for dtype, kind in ((torch.float64, "double"), (torch.float32, "single")):
            if key in ("circle", "sphere", "means") and kind == "single":
                continue
            found = [measured(key.split()[0], *place, dtype) for place in places]
            if check:
                worst = [seconds(key.split()[0], task) / took for task, took in found]
                print(f"{key:8} {kind:6} predicted over measured: {min(worst):.2f} ... {max(worst):.2f}")
                continue
            rows = np.array([np.array(counts(key.split()[0], task)) / took for task, took in found])
            size = np.linalg.norm(rows, axis=0)
            size[size == 0] = 1
            fit = nnls(rows / size, np.ones(len(rows)))[0] / size
            print(f'    ("{key}", "{kind}"): Cost({", ".join(f"{one:.2g}" for one in fit)}),', flush=True)
            print("#", " ".join(f"{float((r * fit).sum()):.2f}" for r in rows), file=sys.stderr)
    if not check:
        print("}")


if __name__ == "__main__":
    main()
