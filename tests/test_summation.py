"""Sums over all pairs: every evaluator against direct summation in long double precision, the choice, and whole flows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import armillary as am
from armillary.dynamics import summation
from armillary.dynamics.attention import Mask, RowRule
from armillary.dynamics.circuits import CircuitDrift, IdentityScores, IdentityValues
from armillary.dynamics.extent import all_overlaps_above
from armillary.dynamics.overlaps import OverlapDrift
from armillary.dynamics.summation import EVALUATORS, chosen_evaluator
from armillary.dynamics.sums import blocks, kernels, tiles
from armillary.dynamics.sums.circle import Circle
from armillary.dynamics.sums.costs import seconds
from armillary.dynamics.sums.pairs import Pairs
from armillary.dynamics.sums.series import Series
from armillary.dynamics.sums.sphere import Sphere
from armillary.dynamics.sums.task import Evaluator, PairSum

SERIES: dict[int, type[Series]] = {2: Circle, 3: Sphere}
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def crowd(tokens: int, dim: int, seed: int = 0) -> Tensor:
    """A narrow crowd, tokens far from it and from one another (two at the poles), and two tokens at one place."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(tokens, dim, generator=generator, dtype=torch.float64)
    rows[5:] = 0.05 * rows[5:] + torch.eye(dim, dtype=torch.float64)[0]
    rows[0] = -torch.eye(dim, dtype=torch.float64)[0]
    rows[0, -1] = 0.1
    rows[1], rows[2] = torch.eye(dim, dtype=torch.float64)[-1], -torch.eye(dim, dtype=torch.float64)[-1]
    rows[8] = rows[7]
    return rows / rows.norm(dim=-1, keepdim=True)


def exact(rows: Tensor, beta: float, weights: Tensor | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scaled partition sums, pull and drift by all pairs at once, from differences, in long doubles."""
    x = rows.numpy().astype(np.longdouble)
    w = np.ones(len(x), dtype=np.longdouble) if weights is None else weights.numpy().astype(np.longdouble)
    apart = x[None] - x[:, None]
    kernel = np.exp(-beta * (apart**2).sum(-1) / 2 + (beta - abs(beta))) * w
    z = kernel.sum(1)
    toward = np.einsum("ij,ijk->ik", kernel, apart) / z[:, None]
    return z, toward - (toward * x).sum(1)[:, None] * x, toward + x


def largest(error: np.ndarray) -> float:
    return float(np.abs(error).max())


def softmax(rows: Tensor, beta: float) -> PairSum:
    return PairSum(tokens=len(rows), dim=rows.shape[1], rule=am.Softmax(beta))


# every evaluator against direct summation --------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [*BETAS, -1.0, -100.0])
@pytest.mark.parametrize("start", ["cloud", "crowd"])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_series_keeps_its_absolute_error_for_clouds_and_for_tokens_alone(dim: int, start: str, beta: float) -> None:
    rows = am.sphere.uniform(tokens=300, dim=dim, seed=1) if start == "cloud" else crowd(300, dim)
    z, pull, drift = exact(rows, beta)
    for accuracy in (1e-6, 1e-11):
        series = SERIES[dim](softmax(rows, beta), accuracy)
        assert largest(series.pull(rows).numpy() - pull) <= accuracy
        assert largest(series.drift(rows).numpy() - drift) <= accuracy
        found = np.exp((series.log_partition(rows).numpy() - abs(beta)).astype(np.longdouble))
        assert largest(found - z) <= max(series.error, 4e-16 * abs(beta)) * float(z.max())


@pytest.mark.parametrize("beta", [-3.0, -10.0, -30.0, -100.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_series_keeps_its_error_where_no_token_stands_opposite_to_a_crowd_that_repels(dim: int, beta: float) -> None:
    """Every Z is then exponentially small beside those that the series could reach elsewhere."""
    drawn = 0.02 * torch.randn(200, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = am.sphere.normalize(drawn + torch.eye(dim, dtype=torch.float64)[0])
    z, pull, drift = exact(rows, beta)
    for accuracy in (1e-6, 1e-9):
        series = SERIES[dim](softmax(rows, beta), accuracy)
        assert largest(series.pull(rows).numpy() - pull) <= accuracy
        assert largest(series.drift(rows).numpy() - drift) <= accuracy
        found = series.log_partition(rows).numpy() - abs(beta)
        assert largest(found - np.log(z)) <= accuracy
        assert "x (sum of weights) / Z_i" in series.words


@pytest.mark.parametrize("beta", [*BETAS, -3.0])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_pairs_keep_the_digits_of_every_token_even_where_it_hardly_moves(dim: int, beta: float) -> None:
    rows = crowd(300, dim)
    z, pull, drift = exact(rows, beta)
    pairs = Pairs(softmax(rows, beta), 1e-15)
    error = np.abs(pairs.pull(rows).numpy() - pull).max(1)
    size = np.abs(pull).max(1)
    seen = size > 1e-280
    assert float((error[seen] / size[seen]).max()) < 1e-11 and seen.sum() >= 297
    assert largest(pairs.drift(rows).numpy() - drift) < 1e-14
    assert largest(pairs.log_partition(rows).numpy() - abs(beta) - np.log(z)) < 4e-16 * (abs(beta) + 40)


@pytest.mark.parametrize("beta", [*BETAS, -3.0])
@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("name", ["tiles", "sdpa", "rows"])
def test_direct_sums_keep_their_absolute_error_for_tokens_alone_and_at_one_place(
    name: str, dim: int, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "PAIRS", 20_000)
    monkeypatch.setattr(tiles, "_SIDE", 64)
    rows = crowd(300, dim)
    z, pull, drift = exact(rows, beta)
    evaluator = EVALUATORS[name](softmax(rows, beta), 1e-9)
    assert largest(evaluator.pull(rows).numpy() - pull) <= evaluator.error
    assert largest(evaluator.drift(rows).numpy() - drift) <= evaluator.error
    assert largest(evaluator.log_partition(rows).numpy() - abs(beta) - np.log(z)) < 4e-16 * (abs(beta) + 40)


def test_far_tokens_drift_by_the_law_of_two_and_not_by_the_error_of_the_series() -> None:
    """One token far from a crowd: under beta = 40 it moves by 1e-31, which no series could see."""
    rows = torch.zeros(4001, 2, dtype=torch.float64)
    rows[:, 0], rows[0, 0] = 1.0, -math.sqrt(0.99)
    rows[0, 1] = 0.1
    c = float(rows[0] @ rows[1])
    weight = 4000 * math.exp(40 * (c - 1))
    expected = weight / (1 + weight) * math.sqrt(1 - c * c)
    circle = Circle(softmax(rows, 40.0), Circle.attainable(softmax(rows, 40.0)))
    assert float(circle.pull(rows)[0].norm()) == pytest.approx(expected, rel=1e-10) and circle.alone == 1
    assert expected < 1e-30 and "1 pulls" in circle.words


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mask", [am.Full(), am.Causal(), am.Window(7, "back"), am.Window(9, "both")], ids=str)
@pytest.mark.parametrize(
    "rule",
    [
        am.Softmax(4.0),
        am.Softmax(-3.0),
        am.Unnormalized(2.0),
        am.Unnormalized(-2.0, "shifted"),
        am.Uniform(),
        am.Hardmax(1e-9),
    ],
    ids=str,
)
def test_every_evaluator_gives_what_the_whole_attention_matrix_gives(
    rule: RowRule, mask: Mask, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "PAIRS", 2000)  # several blocks
    monkeypatch.setattr(tiles, "_SIDE", 32)
    generator = torch.Generator().manual_seed(3)
    for dim in (2, 3, 5):
        rows = am.sphere.normalize(torch.randn(2, 90, dim, generator=generator, dtype=torch.float64))
        weights = torch.rand(2, 90, generator=generator, dtype=torch.float64) + 0.1 if weighted else None
        task = PairSum(tokens=90, dim=dim, rule=rule, mask=mask)
        attention = am.AttentionDrift(rule, mask)
        drift, pull = attention(rows, weights), attention.toward_others(rows, weights)
        pull = pull - (pull * rows).sum(-1, keepdim=True) * rows
        able = [one for one in EVALUATORS.values() if one.obstacle(task) is None]
        assert able
        for kind in able:
            evaluator = kind(task, max(1e-10, kind.attainable(task)))
            bound = 1e-10 if isinstance(evaluator, Series) else 1e-13
            torch.testing.assert_close(evaluator.drift(rows, weights), drift, rtol=0, atol=bound * task.scale)
            torch.testing.assert_close(evaluator.pull(rows, weights), pull, rtol=0, atol=bound * task.scale)


@pytest.mark.parametrize("name", ["pairs", "tiles", "sdpa", "rows", "circle"])
def test_partition_sums_and_energy_are_those_of_all_pairs(name: str) -> None:
    rows = am.sphere.uniform(tokens=70, dim=2, seed=2)
    weights = torch.linspace(0.5, 3.0, 70, dtype=torch.float64)
    field = am.on_sphere(am.AttentionDrift(am.Softmax(3.0)))
    task = softmax(rows, 3.0)
    evaluator = EVALUATORS[name](task, 1e-10)
    expected = torch.logsumexp(3.0 * rows @ rows.mT + weights.log(), dim=-1)
    torch.testing.assert_close(evaluator.log_partition(rows, weights), expected, rtol=0, atol=1e-9)
    whole = am.energy_of(field).log_value(rows, weights)
    torch.testing.assert_close(evaluator.log_energy(rows, weights), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", [am.Softmax(3.0), am.Softmax(-2.0)], ids=str)
@pytest.mark.parametrize("make", [am.on_sphere, am.sqrt_depth])
def test_energy_and_rate_of_many_tokens_are_those_of_all_pairs_at_once(
    make, rule: am.Softmax, monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.dynamics import energy

    rows = torch.stack([am.sphere.uniform(tokens=80, dim=3, seed=seed) for seed in range(2)])
    weights = torch.linspace(0.5, 2.0, 160, dtype=torch.float64).reshape(2, 80)
    phi = am.energy_of(make(am.AttentionDrift(rule)))
    dense = [phi.value(rows, weights), phi.log_value(rows), phi.rate(rows, weights, time=1.0), phi.rate(rows)]
    monkeypatch.setattr(energy, "LARGEST_DENSE", 10)
    found = [phi.value(rows, weights), phi.log_value(rows), phi.rate(rows, weights, time=1.0), phi.rate(rows)]
    for one, other in zip(found, dense, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["pairs", "tiles", "sdpa", "rows", "circle", "sphere"])
def test_single_precision_is_off_by_its_rounding(name: str) -> None:
    dim = 2 if name == "circle" else 3
    rows = am.sphere.uniform(tokens=200, dim=dim, seed=0).float()
    _, pull, _ = exact((rows.double() / rows.double().norm(dim=-1, keepdim=True)), 5.0)
    task = PairSum(tokens=200, dim=dim, rule=am.Softmax(5.0), dtype=torch.float32)
    found = EVALUATORS[name](task, 1e-5).pull(rows)
    assert found.dtype == torch.float32 and largest(found.numpy() - pull) < 5e-6


def test_machine_code_of_every_size_has_a_name_of_its_own() -> None:
    """Under one name, what another process compiled for another size was taken for it: it wrote out of bounds."""
    made = [kernels.symmetric_kernel(dim, length) for dim in (2, 3, 4, 5) for length in (16, 64, 128)]
    made.append(kernels.row_kernel(128))
    assert len({one.py_func.__qualname__ for one in made}) == len(made)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_the_exponential_is_right_to_its_last_bits(kind: type[np.floating]) -> None:
    arguments = -np.linspace(0, 80, 100_003).astype(kind)
    found = np.empty_like(arguments)
    kernels.exponentials(arguments, found)
    expected = np.exp(arguments.astype(np.longdouble))
    assert float(np.abs(found / expected - 1).max()) < 3 * np.finfo(kind).eps


def test_derivatives_pass_through_blocks_and_through_the_attention_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PAIRS", 500)
    rows = am.sphere.uniform(tokens=40, dim=4, seed=0)
    found = []
    for name in ("rows", "sdpa", "whole"):
        x = rows.clone().requires_grad_()
        task = PairSum(tokens=40, dim=4, rule=am.Softmax(2.0), gradient=True)
        drift = am.AttentionDrift(am.Softmax(2.0))(x) if name == "whole" else EVALUATORS[name](task, 1e-9).drift(x)
        found.append(torch.autograd.grad(drift.square().sum(), x)[0])
    torch.testing.assert_close(found[0], found[2], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[1], found[2], rtol=0, atol=1e-12)


# the choice --------------------------------------------------------------------------------------------------------------


def name_for(tokens: int, dim: int, *, accuracy: float = 1e-9, beta: float = 10.0, name: str = "auto", **more) -> str:
    rule = more.pop("rule", am.Softmax(beta))
    return chosen_evaluator(
        PairSum(tokens=tokens, dim=dim, rule=rule, **more), accuracy=accuracy, name=name
    ).evaluator.name


def test_the_choice_follows_size_dimension_mask_rule_device_and_type() -> None:
    assert name_for(64, 2) == "pairs" and name_for(100_000, 2) == "circle"
    assert name_for(300, 3) == "pairs" and name_for(100_000, 3) == "sphere"
    assert name_for(2000, 3, beta=10) == "sphere" and name_for(2000, 3, beta=3000) == "pairs"
    assert name_for(8192, 128) == "tiles" and name_for(8192, 2, mask=am.Causal()) == "sdpa"
    assert name_for(8192, 128, rule=am.Uniform()) == "means" and name_for(512, 8, rule=am.Hardmax(0.0)) == "rows"
    assert (
        name_for(8192, 2, gradient=True) == "sdpa" and name_for(8192, 2, device="cuda", dtype=torch.float32) == "sdpa"
    )
    assert name_for(8192, 64, device="cuda") == "rows"  # no kernel in double precision
    assert name_for(100_000, 2, unit=False) == "sdpa"


def test_what_cannot_reach_the_accuracy_gives_way_and_the_words_say_so() -> None:
    task = PairSum(tokens=20_000, dim=2, rule=am.Softmax(10.0))
    choice = chosen_evaluator(task, accuracy=1e-13, name="circle")
    assert choice.evaluator.name == "pairs"
    assert (
        choice.words.startswith("pairs, relative error")
        and "not circle: its error 9e-12 is above 1e-13" in choice.words
    )
    assert chosen_evaluator(task, accuracy=1e-11, name="circle").words.startswith("circle with 32 modes")


def test_an_evaluator_that_cannot_do_the_sum_is_refused_with_the_reason_and_auto_can() -> None:
    with pytest.raises(am.ArgumentError, match=r"made for dimension 2, not 5.*Take 'auto'"):
        name_for(100, 5, name="circle")
    with pytest.raises(am.ArgumentError, match=r"one of .*'sdpa'"):
        name_for(100, 5, name="keops")
    assert name_for(100, 5) == "pairs"


def test_an_accuracy_that_none_reaches_gets_the_most_exact_one_and_the_words_say_so() -> None:
    task = PairSum(tokens=8192, dim=64, rule=am.Softmax(4.0), mask=am.Causal())
    able = [one for one in EVALUATORS.values() if one.obstacle(task) is None]
    choice = chosen_evaluator(task, accuracy=1e-15)
    assert choice.evaluator.error == min(one.attainable(task) for one in able)
    assert choice.words == "sdpa, absolute error 1e-14; 1e-15 was asked for, which none reaches"
    asked = chosen_evaluator(task, accuracy=1e-15, name="rows")
    assert asked.evaluator.name == "sdpa" and "not rows: its error 2e-13 is above 1e-15" in asked.words


def test_predicted_costs_grow_as_the_methods_do() -> None:
    def cost(name: str, tokens: int) -> float:
        return seconds(name, PairSum(tokens=tokens, dim=2, rule=am.Softmax(10.0)))

    assert 95 < cost("pairs", 10**6) / cost("pairs", 10**5) < 105
    assert 8 < cost("circle", 10**6) / cost("circle", 10**5) < 11


# flows -------------------------------------------------------------------------------------------------------------------


def test_a_flow_names_its_sum_and_all_ways_give_one_motion() -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(20.0)))
    start = am.sphere.uniform(tokens=60, dim=2, seed=0)
    runs = {
        name: am.flow(field, start, until=6.0, integrator=am.Tsit5(rtol=1e-8), summation=name)
        for name in ("auto", "pairs", "circle", "sdpa", "rows")
    }
    assert runs["auto"].engine == "compiled" and runs["circle"].engine == "general"
    assert [runs[name].summation.split(" ")[0].strip(",") for name in runs] == [
        "pairs",
        "pairs",
        "circle",
        "sdpa",
        "rows",
    ]
    for run in runs.values():
        torch.testing.assert_close(run.last, runs["pairs"].last, rtol=0, atol=1e-6)


def test_sums_and_multiples_of_drifts_are_summed_term_by_term() -> None:
    drift = 0.5 * am.AttentionDrift(am.Softmax(3.0)) - am.AttentionDrift(am.Unnormalized(1.0), mask=am.Causal())
    start = am.sphere.uniform(tokens=30, dim=3, seed=0)
    runs = [
        am.flow(am.on_sphere(drift), start, until=2.0, integrator=am.RK4(step=0.05), summation=name)
        for name in ("auto", "rows")
    ]
    torch.testing.assert_close(runs[0].last, runs[1].last, rtol=0, atol=1e-12)
    assert "pairs" in runs[0].summation and "; " in runs[0].summation


HEADS = am.Heads.gaussian(dim=8, heads=2, head_dim=4, seed=0)


@pytest.mark.parametrize(
    ("drift", "why"),
    [
        (am.AttentionDrift(am.Softmax(2.0), heads=HEADS), "given heads"),
        (am.AttentionDrift(am.Softmax(2.0), positions=am.RotaryPositions()), "positions"),
        (am.AttentionDrift(am.Softmax(2.0), mask=am.Allowed(torch.ones(12, 12).bool())), "given pair by pair"),
        (am.AttentionDrift(am.Softmax(torch.tensor(2.0, dtype=torch.float64))), "a beta whose derivative is wanted"),
        (CircuitDrift(IdentityScores(2.0), IdentityValues()), "given circuits"),
        (am.MLPDrift(torch.tanh, "tanh"), "no sum over pairs"),
    ],
    ids=str,
)
def test_a_name_is_refused_where_there_is_no_choice_and_left_out_the_run_says_what_was_done(drift, why: str) -> None:
    start = am.sphere.uniform(tokens=12, dim=8, seed=0)

    def run(name: str) -> am.Trajectory:
        return am.flow(am.on_sphere(drift), start, until=1.0, integrator=am.Tsit5(rtol=1e-6), summation=name)

    with pytest.raises(am.ArgumentError, match=rf"where there is no choice, but it is 'rows', .*{why}.*Leave it out"):
        run("rows")
    with pytest.raises(am.ArgumentError, match=r"'auto' or one of .*'sdpa'.* but it is 'nonsense'"):
        run("nonsense")
    assert why in run("auto").summation


@pytest.mark.parametrize("mask", [am.Full(), am.Causal(), am.Window(5, "both")], ids=str)
@pytest.mark.parametrize("positions", [None, am.RotaryPositions()], ids=str)
def test_given_heads_of_many_tokens_go_through_the_kernel_and_move_as_all_pairs_at_once(
    positions: am.RotaryPositions | None, mask: Mask, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(2.0), mask=mask, heads=HEADS, positions=positions))
    start = am.sphere.uniform(tokens=40, dim=8, seed=0).expand(2, -1, -1)
    weights = torch.linspace(0.5, 2.0, 40, dtype=torch.float64)

    def run(name: str = "auto") -> am.Trajectory:
        return am.flow(field, start, until=2.0, integrator=am.RK4(step=0.1), weights=weights, summation=name)

    whole, asked = run(), run("sdpa")
    monkeypatch.setattr(summation, "LARGEST_AT_ONCE", 39)
    assert whole.summation == "all pairs at once (given heads)"
    assert asked.summation == run().summation and asked.summation.startswith("sdpa, each head by itself")
    torch.testing.assert_close(run().last, whole.last, rtol=0, atol=1e-13)


def test_the_compiled_engine_is_not_asked_for_another_sum() -> None:
    with pytest.raises(am.ArgumentError, match="must be 'general' to sum by 'circle'"):
        am.flow(
            am.on_sphere(am.AttentionDrift(am.Softmax(1.0))), am.sphere.uniform(tokens=8, dim=2, seed=0), until=1.0,
            integrator=am.Tsit5(rtol=1e-6), engine="compiled", summation="circle",
        )  # fmt: skip


def test_tight_tolerances_and_long_times_ask_for_more_and_a_series_gives_way() -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(2.0)))
    start = am.sphere.uniform(tokens=40, dim=2, seed=0)
    run = am.flow(field, start, until=5.0, integrator=am.Tsit5(rtol=1e-12), summation="circle")
    assert run.summation.startswith("pairs, relative") and "not circle: its error 9e-12 is above 2e-14" in run.summation


@pytest.mark.parametrize("make", [am.on_sphere, am.pre_norm, am.flat, lambda drift: am.ngpt(drift, alpha=1.0)])
def test_fewer_tokens_than_dimensions_move_as_in_their_span(make) -> None:
    field = make(am.AttentionDrift(am.Softmax(2.0)))
    start = am.sphere.uniform(tokens=5, dim=40, seed=0)
    run = am.flow(field, start, until=2.0, integrator=am.Tsit5(rtol=1e-10), keep=3)
    assert "5 of 40 dimensions" in run.summation and run.states.shape == (3, 5, 40)
    torch.testing.assert_close(run.states[0], start, rtol=0, atol=1e-14)
    turned = field.drift + 0.0 * am.MLPDrift(lambda x: x, "nothing")  # leaves no basis out of sight: all 40 dimensions
    whole = am.flow(make(turned), start, until=2.0, integrator=am.Tsit5(rtol=1e-10), keep=3)
    assert "span" not in whole.summation
    torch.testing.assert_close(run.states, whole.states, rtol=0, atol=1e-8)


def test_overlaps_move_as_those_of_tokens_do_and_keep_ones_on_the_diagonal() -> None:
    for attention in (am.AttentionDrift(am.Softmax(3.0)), 2.0 * am.AttentionDrift(am.Softmax(1.0), mask=am.Causal())):
        field = am.on_sphere(attention)
        start = am.sphere.uniform(tokens=12, dim=20, seed=0)
        rows = am.flow(field, start, until=3.0, integrator=am.Tsit5(rtol=1e-10), keep=4).states
        gram = am.flow(am.overlap_field(field), start @ start.mT, until=3.0, integrator=am.Tsit5(rtol=1e-10), keep=4)
        torch.testing.assert_close(gram.states, rows @ rows.mT, rtol=0, atol=1e-8)
        assert float((gram.last.diagonal() - 1).abs().max()) < 1e-9


def test_overlaps_do_not_say_how_other_fields_move_tokens() -> None:
    field = am.on_sphere(am.AttentionDrift(am.Softmax(1.0), heads=am.Heads.identity(dim=3)))
    with pytest.raises(am.ArgumentError, match="unit rows with these overlaps"):
        am.overlap_field(field)
    with pytest.raises(am.ArgumentError, match=r"x @ x\.mT"):
        OverlapDrift(am.Softmax(1.0)).check(4, 3)


@pytest.mark.parametrize("width", [0.001, 0.0222, 0.0224, 0.3])
def test_whether_all_tokens_overlap_is_decided_without_all_pairs(width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from armillary.dynamics import extent

    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        angle = width * (2 * torch.rand(500, generator=generator, dtype=torch.float64) - 1)
        rows = torch.stack([angle.cos(), angle.sin()], dim=1)
        dense = bool((rows @ rows.mT).min() > 0.999)
        monkeypatch.setattr(extent, "_DENSE", 7)
        assert all_overlaps_above(rows, 0.999) == dense


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("tilt", [1.4, 1.57, 1.58])
def test_a_hemisphere_of_many_tokens_is_found_or_excluded_from_a_few_of_them(tilt: float, dim: int) -> None:
    generator = torch.Generator().manual_seed(0)
    polar = tilt * torch.rand(20_000, generator=generator, dtype=torch.float64)
    around = am.sphere.normalize(torch.randn(20_000, dim - 1, generator=generator, dtype=torch.float64))
    polar[:2], around[:2] = tilt, torch.stack([around[0], -around[0]])
    rows = torch.cat([polar.cos()[:, None], polar.sin()[:, None] * around], dim=1)
    found = am.hemisphere(rows)
    assert (found is not None) == (tilt < math.pi / 2)
    assert found is None or float((rows @ found.direction).min()) == found.margin > 0


def test_memory_of_a_sum_does_not_grow_with_the_square_of_the_tokens() -> None:
    """6e4 tokens have 29 GB of pairs in double precision, more than is at hand anywhere this runs."""
    rows = am.sphere.uniform(tokens=60_000, dim=2, seed=0)
    window = PairSum(tokens=60_000, dim=2, rule=am.Softmax(2.0), mask=am.Window(3, "both"))
    found = EVALUATORS["sdpa"](window, 1e-9).pull(rows)
    some = slice(29_990, 30_010)
    near = rows[29_980:30_020]
    expected = am.AttentionDrift(am.Softmax(2.0), mask=am.Window(3, "both"))(near)[10:30]
    expected = expected - (expected * rows[some]).sum(-1, keepdim=True) * rows[some]
    torch.testing.assert_close(found[some], expected, rtol=0, atol=1e-13)


def test_every_evaluator_says_what_it_is() -> None:
    task = PairSum(tokens=100, dim=2, rule=am.Softmax(1.0))
    for name, kind in EVALUATORS.items():
        assert issubclass(kind, Evaluator) and kind.name == name
        if kind.obstacle(task) is None:
            assert kind(task, 1e-9).words.startswith(name)
