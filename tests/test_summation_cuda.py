"""Sums over all pairs and flows on a graphics card: the same code on tensors that lie there, held to double precision."""

from __future__ import annotations

import pytest
import torch

import armillary as am
from armillary.dynamics.attention import Mask, RowRule
from armillary.dynamics.summation import EVALUATORS, chosen_evaluator
from armillary.dynamics.sums.task import PairSum

DEVICE = "cuda"

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="no graphics card"),
]

CHOICES = [
    (am.Softmax(4.0), am.Full()), (am.Softmax(-3.0), am.Full()), (am.Softmax(4.0), am.Causal()),
    (am.Softmax(4.0), am.Window(9, "both")), (am.Unnormalized(2.0, "shifted"), am.Full()), (am.Uniform(), am.Causal()),
]  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rule", "mask"), CHOICES, ids=str)
def test_every_evaluator_gives_there_what_all_pairs_give_here(rule: RowRule, mask: Mask, weighted: bool) -> None:
    rows = torch.stack([am.sphere.uniform(tokens=300, dim=16, seed=seed) for seed in range(2)])
    weights = torch.linspace(0.5, 3, 600, dtype=torch.float64).reshape(2, 300) if weighted else None
    attention = am.AttentionDrift(rule, mask)
    drift, pull = attention(rows, weights), attention.toward_others(rows, weights)
    pull = pull - (pull * rows).sum(-1, keepdim=True) * rows
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        there = rows.to(DEVICE, dtype)
        weigh = None if weights is None else weights.to(DEVICE, dtype)
        task = PairSum(tokens=300, dim=16, rule=rule, mask=mask, dtype=dtype, device=DEVICE, systems=2)
        able = [kind for kind in EVALUATORS.values() if kind.obstacle(task) is None]
        assert able and (DEVICE == "cpu" or all(kind.name in ("means", "sdpa", "rows") for kind in able))
        for kind in able:
            one = kind(task, 1e-9)
            assert one.drift(there, weigh).device.type == DEVICE
            torch.testing.assert_close(one.drift(there, weigh).cpu().double(), drift, rtol=0, atol=bound)
            torch.testing.assert_close(one.pull(there, weigh).cpu().double(), pull, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_flow_there_ends_where_it_ends_here_and_names_its_sum(dtype: torch.dtype) -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(3.0), mask=am.Causal()))
    start = am.sphere.uniform(tokens=64, dim=8, seed=0)
    here = am.flow(field, start, until=3.0, integrator=am.Tsit5(rtol=1e-9))
    there = am.flow(
        field, start.to(DEVICE, dtype), until=3.0, integrator=am.Tsit5(rtol=1e-9 if dtype == torch.float64 else 1e-5)
    )
    assert there.last.device.type == DEVICE and there.summation and there.status.startswith("reached")
    torch.testing.assert_close(
        there.last.cpu().double(), here.last, rtol=0, atol=1e-7 if dtype == torch.float64 else 1e-3
    )


def test_tokens_merge_there_as_they_merge_here() -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(9.0)))
    start = am.sphere.uniform(tokens=24, dim=3, seed=0)
    runs = [
        am.flow(field, one, until=200.0, integrator=am.Tsit5(rtol=1e-8), merging=am.Merging(1e-4), engine="general")
        for one in (start, start.to(DEVICE))
    ]
    assert [merger.tokens for merger in runs[0].mergers] == [merger.tokens for merger in runs[1].mergers]
    torch.testing.assert_close(runs[1].last.cpu(), runs[0].last, rtol=0, atol=1e-6)


def test_memory_there_does_not_grow_with_the_square_of_the_tokens() -> None:
    if DEVICE == "cpu":
        return
    rows = am.sphere.uniform(tokens=65_536, dim=64, seed=0).to(DEVICE, torch.float32)
    task = PairSum(tokens=65_536, dim=64, rule=am.Softmax(3.0), dtype=torch.float32, device=DEVICE)
    for name in ("sdpa", "rows"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        EVALUATORS[name](task, 1e-9).pull(rows)
        assert torch.cuda.max_memory_allocated() - before < 1 << 30  # all pairs: 16 GiB


def test_single_precision_takes_the_attention_kernel_there_and_double_takes_blocks() -> None:
    same = {"tokens": 4096, "dim": 64, "rule": am.Softmax(3.0), "device": "cuda"}
    assert chosen_evaluator(PairSum(dtype=torch.float32, **same), accuracy=1e-9).evaluator.name == "sdpa"
    assert chosen_evaluator(PairSum(dtype=torch.float64, **same), accuracy=1e-9).evaluator.name == "rows"
