"""What a regularizer costs: training steps with and without each penalty on two layers, alternated.

    python benchmarks/regularizer_cost.py

A GPT-2 of 4 blocks of width 256 and sequences of 256 tokens, one thread. Steps alternate, so that a machine that others
use slows all of them alike; the ratio is that of medians of processor time. The promise is at most 1.10 for
each; a larger one ends with exit code 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import armillary as am

PROMISED = 1.10
CHOICES = {
    "uniformity": {"beta": 4.0},
    "overlap_ceiling": {"ceiling": 0.2},
    "koleo": {"softening": 0.01},
    "variance": {"target": 1.0},
    "target_overlap": {"target": am.IsotropicTarget(), "betas": (1.0, 4.0, 16.0)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=256, n_embd=256, n_layer=4, n_head=4, n_positions=given.tokens, bos_token_id=None, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"
    steps = am.GuardedSteps(torch.optim.AdamW(model.parameters(), lr=1e-4), when_not_finite="stop", largest_norm=1.0)
    ids = torch.randint(0, 256, (given.documents, given.tokens))

    def step(regularizer: am.Regularizer | None) -> float:
        began = time.process_time()
        if regularizer is None:
            steps.take(model(input_ids=ids, labels=ids).loss)
        else:
            with regularizer.tap(model) as states:
                loss = model(input_ids=ids, labels=ids).loss
            steps.take(loss + regularizer(states, step=0))
        return time.process_time() - began

    rows: dict[str, am.Regularizer | None] = {"none": None}
    for name, factory in sorted(am.PENALTIES.items()):
        rows[name] = am.Regularizer(penalty=factory(**CHOICES.get(name, {})), layers=(2, 3), strength=0.1)
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for regularizer in rows.values():
        step(regularizer)  # the first is not counted
    for _ in range(given.rounds):
        for name, regularizer in rows.items():
            seconds[name].append(step(regularizer))
    plain = statistics.median(seconds["none"])
    shape = {"documents": given.documents, "tokens": given.tokens, "dim": 256, "blocks": 4}
    print(f"{given.documents} documents of {given.tokens} tokens, width 256, 4 blocks, layers 2 and 3, one thread")
    print(f"{'penalty':20s} {'ms a step':>10s} {'ratio':>7s}   one layer, told beforehand")
    for name, regularizer in rows.items():
        middle = statistics.median(seconds[name])
        told = "" if regularizer is None else str(am.penalty_cost(regularizer.penalty, **shape))
        print(f"{name:20s} {1000 * middle:10.1f} {middle / plain:7.3f}   {told}")
    worst = max(statistics.median(seconds[name]) / plain for name in rows)
    print(f"largest ratio {worst:.3f} (promised: at most {PROMISED:.2f})")
    if worst > PROMISED:
        sys.exit(1)


if __name__ == "__main__":
    main()
