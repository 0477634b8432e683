"""The sum over all pairs on a graphics card: fraction of the measured matrix-product rate, and error, by number type.

    python benchmarks/gpu_drift.py                    T in 4,096 ... 131,072; d in 16, 64, 128, 768
    python benchmarks/gpu_drift.py --device cpu --quick   the same code where there is no card

Rates are of 4 T^2 d operations of the two matrix products; the exponentials come on top. The rate beside it is that of
one large matrix product of the same type, measured in the same run. Errors are of the drift, over the largest drift, on
256 random rows against double precision. `rows` is the package's way in double precision.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from armillary import sphere
from armillary.dynamics.attention import Softmax
from armillary.dynamics.summation import EVALUATORS
from armillary.dynamics.sums.task import PairSum

BETA = 5.0
TYPES = {"single": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16, "double": torch.float64}


def fastest(call: Callable[[], object], device: str, rounds: int = 5) -> float:
    """Smallest time of a call, in seconds."""
    found = float("inf")
    call()
    for _ in range(rounds):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            found = min(found, begin.elapsed_time(end) / 1e3)
        else:
            start = time.process_time()
            call()
            found = min(found, time.process_time() - start)
    return found


def exact(rows: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
    """Drifts of some rows in double precision."""
    x = rows.double()
    return torch.softmax(BETA * (x[some] @ x.T), dim=-1) @ x


def one_case(tokens: int, dim: int, kind: str, rate: float, device: str) -> None:
    dtype = TYPES[kind]
    rows = sphere.uniform(tokens=tokens, dim=dim, seed=0).to(device, dtype)
    task = PairSum(tokens=tokens, dim=dim, rule=Softmax(BETA), dtype=dtype, device=device)
    name = "rows" if kind == "double" else "sdpa"
    evaluator = EVALUATORS[name](task, 1e-9)
    took = fastest(lambda: evaluator.drift(rows), device)
    some = torch.randperm(tokens, generator=torch.Generator().manual_seed(0))[:256].to(device)
    known = exact(rows, some)
    error = float((evaluator.drift(rows)[some].double() - known).norm(dim=-1).max() / known.norm(dim=-1).max())
    own = 4 * tokens**2 * dim / took
    memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")
    said = f"{tokens:7} {dim:4}  {kind:8}  {name:5}  {took * 1e3:10.3f}  {own / 1e12:8.2f}  {own / rate:6.2f}"
    print(f"{said}  {error:8.1e}  {memory:6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    device = chosen.device
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("No graphics card here. `--device cpu --quick` tries the same code without one.")
    print(torch.cuda.get_device_name() if device == "cuda" else "CPU", "torch", torch.__version__)
    print(" tokens  dim  type      sum            ms  Tflop/s  /rate     error  peak/GiB")
    side = 1024 if chosen.quick else 8192
    for kind, dtype in TYPES.items():
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        square = torch.randn(side, side, device=device, dtype=dtype)
        rate = 2 * side**3 / fastest(lambda square=square: square @ square, device)
        print(f"one matrix product of {side}, {kind}: {rate / 1e12:.2f} Tflop/s")
        del square
        for tokens in (1024, 4096) if chosen.quick else (4096, 16_384, 65_536, 131_072):
            for dim in (16, 128) if chosen.quick else (16, 64, 128, 768):
                if kind != "double" or tokens <= 16_384:
                    one_case(tokens, dim, kind, rate, device)


if __name__ == "__main__":
    main()
