"""What one system of the perspective paper's diagram costs, and how exact it is, beside the published recipe.

    python benchmarks/phase_cost.py

Published recipe: x <- normalize(x + 0.1 softmax(beta x x^T) x), 300 steps, all systems of a batch at once in torch,
float64, the share of pairs above 0.999 read at 200 times. Here: one compiled call, steps of each system's own, at the
tolerance of the preset, the same 200 times. One thread each, CPU time, alternated over dimensions and rounds in one
process, smallest of the rounds; the same starts. Errors are those of overlaps at s = 5 (most systems are on their way
then) and of the mean curves that the diagram is made of, against the same flow at a tolerance of 1e-12.
"""

import argparse
import time

import numpy as np
import torch

from armillary.dynamics.pairs import SOFTMAX, Law, compiled_flow
from armillary.dynamics.sweep import sweep, uniform_start, uniform_starts

TOKENS, ABOVE, LAST, STEP = 32, 0.999, 30.0, 0.1
TIMES = np.linspace(LAST / 200, LAST, 200)
BETAS = np.linspace(0.1, 9.0, 10)
DIMS = (2, 8, 32, 128, 512, 1024)
QUICK = (2, 8, 32, 128)  # those of the quick size; the published one has all
RTOL = 1e-5
EARLY = 5.0


def law(beta):
    return Law(SOFTMAX, float(beta), 1.0, shifted=True)


def here(starts, beta):
    return sweep(starts, law=law(beta), times=TIMES, rtol=RTOL, atol=RTOL / 10, above=ABOVE, within=None).share_above


def there(starts, beta):
    """The published recipe; the state at s = 5 beside the shares."""
    x = torch.from_numpy(starts)
    shares, early = torch.empty(len(x), len(TIMES), dtype=torch.float64), None
    read = np.rint(TIMES / STEP).astype(int)
    place = 0
    for step in range(1, round(LAST / STEP) + 1):
        gram = x @ x.mT
        x = torch.nn.functional.normalize(x + STEP * torch.softmax(beta * gram, dim=-1) @ x, dim=-1)
        while place < len(read) and read[place] <= step:
            above = (x @ x.mT > ABOVE).double()
            shares[:, place] = (above.sum((1, 2)) - TOKENS) / (TOKENS * (TOKENS - 1))
            place += 1
        if step == round(EARLY / STEP):
            early = x.clone()
    return shares.numpy(), early.numpy()


def moved(starts, beta, rtol, until):
    given = np.full(len(starts), rtol)
    run = compiled_flow(
        starts, law=law(beta), times=np.array([until]), rtol=given, atol=given / 10, angle=0.0, most=10**7
    )
    return run.states[:, 0]


def seconds(call):
    began = time.process_time()
    call()
    return time.process_time() - began


def ambient(dim, systems):
    return np.stack([uniform_start(tokens=TOKENS, dim=dim, seed=seed) for seed in range(systems)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(chosen.systems)
    starts = {dim: (uniform_starts(tokens=TOKENS, dim=dim, seeds=seeds), ambient(dim, chosen.systems)) for dim in DIMS}
    here(starts[2][0][:1], 1.0)  # compiled once
    spent = {(dim, who): np.full(len(BETAS), np.inf) for dim in DIMS for who in ("here", "there")}
    for _ in range(chosen.rounds):
        for k, beta in enumerate(BETAS):
            for dim in DIMS:
                mine, theirs = starts[dim]
                spent[dim, "here"][k] = min(spent[dim, "here"][k], seconds(lambda m=mine, b=beta: here(m, b)))
                spent[dim, "there"][k] = min(spent[dim, "there"][k], seconds(lambda t=theirs, b=beta: there(t, b)))
    counts = f"{len(BETAS)} values of beta, {chosen.systems} systems, {chosen.rounds} rounds"
    print(f"CPU milliseconds a system, mean over {counts}")
    print(f"{'d':>5} {'here':>8} {'recipe':>8} {'ratio':>7}   overlaps at s = 5, median system     mean curve, largest")
    per_system = {}
    for dim in DIMS:
        cost = per_system[dim] = {who: 1e3 * spent[dim, who].mean() / chosen.systems for who in ("here", "there")}
        mine, theirs = starts[dim]
        position = {"here": [], "there": []}
        curve = {"here": 0.0, "there": 0.0}
        for beta in BETAS[::3]:
            exact = moved(mine, beta, 1e-12, EARLY)
            gram = exact @ exact.swapaxes(1, 2)
            shares, early = there(theirs, beta)
            for who, found in (("here", moved(mine, beta, RTOL, EARLY)), ("there", early)):
                wrong = found @ found.swapaxes(1, 2) - gram  # overlaps: the two know the tokens in other coordinates
                position[who].append(np.median(np.abs(wrong).max((1, 2))))
            fine = sweep(mine, law=law(beta), times=TIMES, rtol=1e-11, atol=1e-12, above=ABOVE, within=None).share_above
            for who, found in (("here", here(mine, beta)), ("there", shares)):
                curve[who] = max(curve[who], np.abs(found.mean(0) - fine.mean(0)).max())
        a, b = (max(position[who]) for who in ("here", "there"))
        print(
            f"{dim:>5} {cost['here']:>8.2f} {cost['there']:>8.2f} {cost['there'] / cost['here']:>6.1f}x"
            f"   {a:.1e} here, {b:.1e} recipe ({b / a:.0f}x)   {curve['here']:.1e} here, {curve['there']:.1e} recipe"
            f" ({curve['there'] / max(curve['here'], 1e-300):.3g}x)"
        )
    totals = {who: sum(one[who] for one in per_system.values()) for who in ("here", "there")}
    print(f"  all {totals['here']:>8.2f} {totals['there']:>8.2f} {totals['there'] / totals['here']:>6.1f}x")
    quick = 30 * 128 * sum(per_system[dim]["here"] for dim in QUICK) / 1e3
    print(f"30 betas x 128 seeds, d = {', '.join(map(str, QUICK))}: about {quick:.0f} CPU seconds")
    full, share = 90 * 2048 * totals["here"] / 1e3, len(BETAS) * chosen.systems / (90 * 2048)
    dims = ", ".join(map(str, DIMS))
    print(f"90 betas x 2,048 seeds, d = {dims}: about {full / 60:.0f} CPU minutes, from {share:.2%} of them")


if __name__ == "__main__":
    main()
