"""The simulator against laws it does not know: closed forms, conserved quantities, orders of convergence."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import armillary as am
from armillary.dynamics.attention import Mask, RowRule
from armillary.dynamics.integrators import CLASSICAL, TSITOURAS
from armillary.dynamics.runge_kutta import combined, stages
from armillary.oracles import circle, linear, overlap

ATTENTION = am.AttentionDrift
TIGHT = am.Tsit5(rtol=1e-11)
RULES: list[RowRule] = [am.Softmax(3.0), am.Softmax(-2.0), am.Uniform(), am.Unnormalized(1.5), am.Hardmax(tie=1e-12)]
MASKS: list[Mask] = [am.Full(), am.Causal(), am.Window(2, "back"), am.Window(2, "both")]


def cloud(tokens: int = 8, dim: int = 3, seed: int = 0) -> torch.Tensor:
    return am.sphere.uniform(tokens=tokens, dim=dim, seed=seed)


def pair_overlap(run: am.Trajectory) -> np.ndarray:
    return (run.states[..., 0, :] * run.states[..., 1, :]).sum(-1).numpy()


# laws ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [-0.9, -0.5, 0.0, 0.7])
def test_two_tokens_at_uniform_weights_follow_the_tanh_law(start: float) -> None:
    pair = am.sphere.equiangular(tokens=2, dim=3, overlap=start)
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform())), pair, until=3.0, integrator=TIGHT, keep=13)
    assert pair_overlap(run) == pytest.approx(overlap.two_tokens(run.at, overlap=start), abs=2e-10)


def test_half_the_log_of_nineteen_is_the_time_to_nine_tenths() -> None:
    pair = am.sphere.equiangular(tokens=2, dim=2, overlap=0.0)
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform())), pair, until=0.5 * math.log(19), integrator=TIGHT)
    assert pair_overlap(run)[-1] == pytest.approx(0.9, abs=1e-9)


def test_two_tokens_at_beta_eight_need_194_units_to_reach_nine_tenths() -> None:
    pair = am.sphere.equiangular(tokens=2, dim=3, overlap=0.0)
    time = overlap.time_between(0.0, 0.9, lambda c: overlap.two_tokens_rate(c, beta=8.0))
    assert time == pytest.approx(194.134994, rel=1e-8)
    run = am.flow(am.on_sphere(ATTENTION(am.Softmax(8.0))), pair, until=time, integrator=TIGHT)
    rate = overlap.two_tokens_rate(0.9, beta=8.0)
    late = (pair_overlap(run)[-1] - 0.9) / rate
    assert abs(late) / time < 1e-6


@pytest.mark.parametrize(("tokens", "beta", "time"), [(8, 1.0, 1.0), (32, 4.0, 5.0), (16, 9.0, 200.0)])
def test_orthonormal_tokens_follow_the_equiangular_law_and_stay_equiangular(
    tokens: int, beta: float, time: float
) -> None:
    start = torch.eye(tokens, dtype=torch.float64)
    run = am.flow(am.on_sphere(ATTENTION(am.Softmax(beta))), start, until=time, integrator=TIGHT)
    gram = run.last @ run.last.mT
    off = gram[~torch.eye(tokens, dtype=torch.bool)]
    assert float(off.max() - off.min()) < 1e-13
    expected = overlap.equiangular([time], tokens=tokens, overlap=0.0, beta=beta)[0]
    assert float(off.mean()) == pytest.approx(expected, abs=1e-8)


def test_a_causal_pair_moves_at_half_the_speed() -> None:
    pair = am.sphere.equiangular(tokens=2, dim=3, overlap=0.0)
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform(), mask=am.Causal())), pair, until=1.0, integrator=TIGHT)
    assert pair_overlap(run)[-1] == pytest.approx(0.462117157, abs=1e-9)
    assert torch.equal(run.last[0], run.states[0, 0])  # the first token sees only itself


def test_residual_layers_are_the_exact_post_norm_map() -> None:
    run = am.flow(
        am.on_sphere(ATTENTION(am.Softmax(4.0))), torch.eye(12, dtype=torch.float64),
        until=12, integrator=am.ResidualLayer(1.0), keep=13,
    )  # fmt: skip
    expected = overlap.residual_layers(tokens=12, beta=4.0, step=1.0, layers=12)
    assert pair_overlap(run) == pytest.approx(expected, abs=1e-12)
    assert expected[-1] == pytest.approx(0.98293709420, abs=1e-11)
    assert run.axis == "depth"


def test_uniform_weights_conserve_cross_ratios_and_softmax_does_not() -> None:
    start = cloud(6, 3, 1)
    kept = circle.cross_ratio(start.numpy())
    uniform = am.flow(am.on_sphere(ATTENTION(am.Uniform())), start, until=3.0, integrator=TIGHT).last
    softmax = am.flow(am.on_sphere(ATTENTION(am.Softmax(1.0))), start, until=3.0, integrator=TIGHT).last
    assert circle.cross_ratio(uniform.numpy()) == pytest.approx(kept, rel=1e-8)
    assert circle.cross_ratio(softmax.numpy()) != pytest.approx(kept, rel=1e-2)


def test_on_the_circle_the_vectors_move_by_the_angular_equation() -> None:
    angles = np.linspace(0.1, 5.9, 7)
    rows = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    velocity = am.on_sphere(ATTENTION(am.Softmax(3.0))).velocity(0.0, rows).numpy()
    tangent = np.stack([-np.sin(angles), np.cos(angles)], axis=1)
    assert (velocity * tangent).sum(1) == pytest.approx(circle.angular_velocity(angles, beta=3.0), abs=1e-15)


@pytest.mark.parametrize("beta", [1.0, 5.0])
def test_a_ring_of_tokens_grows_its_harmonics_at_the_rates_of_the_bessel_functions(beta: float) -> None:
    angles = torch.arange(48, dtype=torch.float64) * (2 * math.pi / 48)
    ring = torch.stack([angles.cos(), angles.sin()], dim=1)
    found = am.growth_rates(am.on_sphere(ATTENTION(am.Softmax(beta))), ring)
    top = sorted(found.tolist(), reverse=True)
    expected = sorted(np.repeat(linear.circle_rates(beta, largest=20), 2), reverse=True)
    assert top[:8] == pytest.approx(expected[:8], abs=1e-9)


def test_the_causal_mask_halves_the_slowest_rate_at_consensus() -> None:
    rows = torch.zeros(6, 3, dtype=torch.float64)
    rows[:, 0] = 1.0
    found = am.growth_rates(am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Causal())), rows)
    assert found.tolist() == pytest.approx(np.repeat(linear.causal_consensus_spectrum(6), 2).tolist(), abs=1e-10)


def test_natural_frequencies_turn_tokens_at_their_rates() -> None:
    rates = torch.tensor([0.5, -1.0, 2.0])
    run = am.flow(
        am.on_sphere(am.Frequencies.on_circle(rates)), torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64),
        until=1.0, integrator=TIGHT,
    )  # fmt: skip
    assert torch.atan2(run.last[:, 1], run.last[:, 0]).tolist() == pytest.approx(rates.tolist(), abs=1e-10)


def test_lorentzian_frequencies_lock_as_in_kuramotos_model() -> None:
    tokens, width, coupling = 1000, 0.25, 1.0
    quantiles = (torch.arange(tokens, dtype=torch.float64) + 0.5) / tokens
    rates = width * torch.tan(math.pi * (quantiles - 0.5))
    angles = 2 * math.pi * torch.rand(tokens, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    field = am.on_sphere(coupling * ATTENTION(am.Uniform()) + am.Frequencies.on_circle(rates.clamp(-50, 50)))
    start = torch.stack([angles.cos(), angles.sin()], dim=1)
    run = am.flow(field, start, until=40.0, integrator=am.RK4(step=0.025), keep=[30, 32, 34, 36, 38, 40])
    found = run.states.mean(-2).norm(dim=-1)
    assert float(found.mean()) == pytest.approx(circle.lorentzian_order(coupling, width=width), abs=3 / tokens**0.5)


# sphere and symmetry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_the_velocity_is_tangent_and_attention_rows_sum_to_one(rule: RowRule, mask: Mask) -> None:
    rows = cloud()
    drift = ATTENTION(rule, mask=mask)
    velocity = am.on_sphere(drift).velocity(0.0, rows)
    assert float((velocity * rows).sum(-1).abs().max()) < 1e-15
    if not isinstance(rule, am.Unnormalized):
        assert drift.weights(rows).sum(-1) == pytest.approx(torch.ones(8), abs=1e-14)
    allowed = mask.allowed(8, rows.device)
    assert allowed is None or float(drift.weights(rows)[~allowed].abs().max()) == 0.0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), beta=st.floats(-5, 20))
def test_rotating_and_relabeling_tokens_commutes_with_the_velocity(seed: int, beta: float) -> None:
    rows, field = cloud(6, 4, seed), am.on_sphere(ATTENTION(am.Softmax(beta)))
    turn = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))[0]
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    velocity = field.velocity(0.0, rows)
    torch.testing.assert_close(field.velocity(0.0, rows @ turn), velocity @ turn, atol=1e-13, rtol=0)
    torch.testing.assert_close(field.velocity(0.0, rows[order]), velocity[order], atol=1e-13, rtol=0)


@pytest.mark.parametrize("beta", [0.1, 10.0, 100.0, 1000.0, -1000.0])
def test_no_beta_overflows_and_norms_stay_at_one(beta: float) -> None:
    run = am.flow(am.on_sphere(ATTENTION(am.Softmax(beta))), cloud(), until=20.0, integrator=am.Tsit5(rtol=1e-8))
    assert bool(torch.isfinite(run.last).all())
    assert float((run.last.norm(dim=-1) - 1).abs().max()) <= 4e-16


def test_weights_at_beta_a_hundred_in_single_precision_are_the_right_ones() -> None:
    pair = am.sphere.equiangular(tokens=2, dim=2, overlap=0.9).float()
    weights = ATTENTION(am.Softmax(100.0)).weights(pair)
    assert weights[0].tolist() == pytest.approx([1 / (1 + math.exp(-10)), 1 / (1 + math.exp(10))], rel=1e-4)


def test_a_weighted_token_stands_for_as_many_equal_ones() -> None:
    rows = cloud(4, 3, 2)
    twice = torch.cat([rows, rows[:1]])
    field = am.on_sphere(ATTENTION(am.Softmax(2.0)))
    plain = am.flow(field, twice, until=2.0, integrator=TIGHT).last[:4]
    weighted = am.flow(
        field, rows, until=2.0, integrator=TIGHT, weights=torch.tensor([2.0, 1, 1, 1], dtype=torch.float64)
    ).last
    torch.testing.assert_close(weighted, plain, atol=1e-9, rtol=0)


def test_the_result_of_a_system_does_not_depend_on_what_else_is_in_the_batch() -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(6.0)))
    systems = torch.stack([cloud(8, 3, seed) for seed in range(5)])
    together = am.flow(field, systems, until=30.0, integrator=am.Tsit5(rtol=1e-6), keep=4)
    alone = am.flow(field, systems[3], until=30.0, integrator=am.Tsit5(rtol=1e-6), keep=4)
    torch.testing.assert_close(together.states[3], alone.states, atol=1e-12, rtol=0)
    assert together.steps[3] == alone.steps[0] and len(set(together.steps)) > 1


# integrators -------------------------------------------------------------------------------------------------------------


def test_the_tableaus_satisfy_the_conditions_of_their_order() -> None:
    for tableau in (CLASSICAL, TSITOURAS):
        b, c = np.asarray(tableau.weights), np.asarray(tableau.nodes)
        a = np.zeros((len(b), len(b)))
        for k, row in enumerate(tableau.stages):
            a[k + 1, : len(row)] = row
        assert a.sum(1) == pytest.approx(c, abs=1e-14)
        for q in range(1, tableau.order + 1):
            assert b @ c ** (q - 1) == pytest.approx(1 / q, abs=1e-13)
        assert b @ a @ c == pytest.approx(1 / 6, abs=1e-13)
        assert b @ a @ c**2 == pytest.approx(1 / 12, abs=1e-13)
    assert TSITOURAS.shares(np.asarray([1.0]))[0] == pytest.approx(TSITOURAS.weights, abs=1e-13)
    assert sum(TSITOURAS.errors or ()) == pytest.approx(0, abs=1e-14)


def measured_order(error: list[float], step: list[float]) -> float:
    return float(np.polyfit(np.log(step), np.log(error), 1)[0])


def test_the_classical_method_is_of_order_four() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(3.0))), cloud()
    exact = am.flow(field, start, until=2.0, integrator=am.Tsit5(rtol=1e-13)).last
    steps = [0.2, 0.1, 0.05]
    errors = [
        float((am.flow(field, start, until=2.0, integrator=am.RK4(step=h)).last - exact).abs().max()) for h in steps
    ]
    assert measured_order(errors, steps) == pytest.approx(4, abs=0.3)


def stepped(field: am.VelocityField, state: torch.Tensor, length: float, share: float = 1.0) -> torch.Tensor:
    """One step of the embedded pair's own tableau, or its dense output at a share of it."""
    velocities = stages(field, TSITOURAS, 0.0, length, state, None)
    end = field.retracted(combined(state, length, TSITOURAS.weights[:-1], velocities))
    if share == 1:
        return end
    velocities = [*velocities, field.velocity(length, end)]
    return field.retracted(combined(state, length, tuple(TSITOURAS.shares(np.asarray([share]))[0]), velocities))


def test_the_embedded_pair_is_of_order_five_at_fixed_steps_and_of_order_four_between_them() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(3.0))), cloud()[None]
    steps = [0.025, 0.05, 0.1]
    exact = am.flow(field, start, until=2.0, integrator=am.Tsit5(rtol=1e-14), keep=[0.4 * h for h in steps] + [2.0])
    whole, between = [], []
    for place, h in enumerate(steps):
        state = start
        for _ in range(round(2.0 / h)):
            state = stepped(field, state, h)
        whole.append(float((state - exact.last).abs().max()))
        between.append(float((stepped(field, start, h, 0.4) - exact.states[:, place]).abs().max()))
    assert measured_order(whole, steps) == pytest.approx(5, abs=0.3)
    assert measured_order(between, steps) - 1 == pytest.approx(4, abs=0.3)  # a single step: one order more


def test_the_error_of_the_adaptive_method_follows_its_tolerance() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(3.0))), cloud()
    exact = am.flow(field, start, until=5.0, integrator=am.Tsit5(rtol=1e-13)).last
    for rtol in (1e-4, 1e-6, 1e-8, 1e-10):
        found = am.flow(field, start, until=5.0, integrator=am.Tsit5(rtol=rtol)).last
        assert float((found - exact).abs().max()) < 10 * rtol


def test_dense_output_is_as_good_as_the_steps_themselves() -> None:
    pair = am.sphere.equiangular(tokens=2, dim=3, overlap=-0.5)
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform())), pair, until=4.0, integrator=am.Tsit5(rtol=1e-8), keep=101)
    assert run.steps[0] < 60
    assert pair_overlap(run) == pytest.approx(overlap.two_tokens(run.at, overlap=-0.5), abs=2e-7)


def test_the_papers_scheme_is_named_and_has_a_slow_clock() -> None:
    start = torch.eye(32, dtype=torch.float64)
    field = am.on_sphere(ATTENTION(am.Softmax(1.0)))
    run = am.flow(field, start, until=2.0, integrator=am.Euler(step=0.1))
    assert pair_overlap(run)[-1] == pytest.approx(0.54078, abs=1e-5)
    assert overlap.equiangular([2.0], tokens=32, overlap=0.0, beta=1.0)[0] == pytest.approx(0.589773, abs=1e-6)


@pytest.mark.parametrize(
    "field",
    [
        am.on_sphere(ATTENTION(am.Softmax(2.0))), am.pre_norm(ATTENTION(am.Softmax(2.0))),
        am.peri_norm(ATTENTION(am.Softmax(2.0))), am.ngpt(ATTENTION(am.Softmax(2.0)), alpha=0.5),
        am.sqrt_depth(ATTENTION(am.Softmax(2.0))), am.flat(ATTENTION(am.Softmax(0.3))),
        am.mix_norm(ATTENTION(am.Softmax(2.0)), switch=0.5),
    ],
    ids=lambda field: field.scheme,
)  # fmt: skip
def test_every_field_is_the_limit_of_its_own_layers_as_the_step_shrinks(field: am.VelocityField) -> None:
    start = cloud(6, 4, 3)
    exact = am.flow(field, start, until=1.0, integrator=am.Tsit5(rtol=1e-12)).last
    errors, steps = [], [0.02, 0.01, 0.005]
    for h in steps:
        state = start
        for k in range(round(1 / h)):
            state = field.during(k * h + 1e-12).layer(k * h, state, h)
        errors.append(float((state - exact).abs().max()))
    assert errors[-1] < 0.01 and measured_order(errors, steps) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("scheme", ["post", "pre", "peri", "ngpt", "sqrt depth"])
def test_orthonormal_tokens_start_at_the_speed_of_their_normalization(scheme: str) -> None:
    drift = ATTENTION(am.Softmax(2.0))
    field = {
        "post": am.on_sphere(drift), "pre": am.pre_norm(drift), "peri": am.peri_norm(drift),
        "ngpt": am.ngpt(drift, alpha=0.7), "sqrt depth": am.sqrt_depth(drift),
    }[scheme]  # fmt: skip
    run = am.flow(field, torch.eye(8, dtype=torch.float64), until=1e-4, integrator=TIGHT)
    unit = run.last / run.last.norm(dim=-1, keepdim=True)
    expected = overlap.scheme_rate(scheme, tokens=8, beta=2.0, alpha=0.7)
    assert float(unit[0] @ unit[1]) / 1e-4 == pytest.approx(expected, rel=2e-4)


def test_gradients_through_a_run_agree_with_finite_differences() -> None:
    start = cloud(5, 3, 4)

    def order(beta: float, rows: torch.Tensor) -> torch.Tensor:
        run = am.flow(am.on_sphere(ATTENTION(am.Softmax(beta))), rows, until=2.0, integrator=am.RK4(step=0.05))
        return run.last.mean(-2).square().sum()

    moved = start.clone().requires_grad_()
    order(2.0, moved).backward()
    push = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    push = push - (push * start).sum(-1, keepdim=True) * start
    h = 1e-5
    there, back = (am.sphere.normalize(start + sign * h * push) for sign in (1, -1))
    assert moved.grad is not None
    expected = float(order(2.0, there) - order(2.0, back)) / (2 * h)
    assert float((moved.grad * push).sum()) == pytest.approx(expected, rel=1e-6)


def final_order(
    beta: float | torch.Tensor = 2.0, heads: am.Heads | None = None, rows: torch.Tensor | None = None,
    integrator: object = None, rule: object = am.Softmax,
) -> torch.Tensor:  # fmt: skip
    field = am.on_sphere(ATTENTION(rule(beta), heads=heads))  # type: ignore[operator]
    start = cloud(5, 3, 4) if rows is None else rows
    run = am.flow(field, start, until=2.0, integrator=integrator or am.RK4(step=0.05))  # type: ignore[arg-type]
    return run.last.mean(-2).square().sum()


ADAPTIVE = am.Tsit5(rtol=1e-10)


@pytest.mark.parametrize("integrator", [None, ADAPTIVE], ids=["RK4", "Tsit5"])
@pytest.mark.parametrize("rule", [am.Softmax, am.Unnormalized, lambda beta: am.Unnormalized(beta, clock="shifted")])
def test_the_gradient_with_respect_to_beta_agrees_with_finite_differences(rule: object, integrator: object) -> None:
    beta, h = torch.tensor(2.0, dtype=torch.float64, requires_grad=True), 1e-5
    final_order(beta, rule=rule, integrator=integrator).backward()
    there, back = (final_order(2.0 + sign * h, rule=rule, integrator=integrator) for sign in (1, -1))
    assert beta.grad is not None
    assert float(beta.grad) == pytest.approx(float(there - back) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("integrator", [None, ADAPTIVE], ids=["RK4", "Tsit5"])
@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
def test_the_gradient_with_respect_to_the_matrices_agrees_with_finite_differences(
    name: str, integrator: object
) -> None:
    heads, h = am.Heads.gaussian(dim=3, heads=2, head_dim=3, seed=1), 1e-5
    matrix = getattr(heads, name).clone().requires_grad_()
    final_order(heads=replace(heads, **{name: matrix}), integrator=integrator).backward()
    push = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    there, back = (
        final_order(heads=replace(heads, **{name: matrix.detach() + sign * h * push}), integrator=integrator)
        for sign in (1, -1)
    )
    assert matrix.grad is not None
    assert float((matrix.grad * push).sum()) == pytest.approx(float(there - back) / (2 * h), rel=1e-5)


def test_the_gradient_with_respect_to_the_start_comes_through_adaptive_steps() -> None:
    start, h = cloud(5, 3, 4), 1e-5
    moved = start.clone().requires_grad_()
    final_order(rows=moved, integrator=ADAPTIVE).backward()
    push = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    push = push - (push * start).sum(-1, keepdim=True) * start
    there, back = (final_order(rows=am.sphere.normalize(start + s * h * push), integrator=ADAPTIVE) for s in (1, -1))
    assert moved.grad is not None
    assert float((moved.grad * push).sum()) == pytest.approx(float(there - back) / (2 * h), rel=1e-5)


def test_a_beta_of_several_numbers_is_refused() -> None:
    with pytest.raises(am.ArgumentError, match="must be one number"):
        am.Softmax(torch.ones(2))  # type: ignore[arg-type]


# the two engines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [am.Softmax(9.0), am.Softmax(-3.0), am.Uniform(), am.Unnormalized(2.0), am.Unnormalized(-1.0)], ids=str
)
@pytest.mark.parametrize("dim", [2, 3, 7])
def test_both_engines_give_the_same_motion_to_twelve_digits(rule: RowRule, dim: int) -> None:
    field, starts = am.on_sphere(1.5 * ATTENTION(rule)), torch.stack([cloud(10, dim, seed) for seed in range(2)])
    weights = torch.linspace(0.5, 2.0, 10, dtype=torch.float64)
    runs = [
        am.flow(field, starts, until=4.0, integrator=am.Tsit5(rtol=1e-9), keep=5, weights=weights, engine=engine)
        for engine in ("compiled", "general")
    ]
    assert [run.engine for run in runs] == ["compiled", "general"]
    torch.testing.assert_close(runs[0].states, runs[1].states, atol=1e-12, rtol=0)
    assert runs[0].steps == runs[1].steps and runs[0].evaluations == runs[1].evaluations


def test_the_process_that_compiles_has_the_same_bits_as_those_that_read_machine_code_from_its_file(tmp_path) -> None:
    code = (
        "import armillary as am; start = am.sphere.uniform(tokens=8, dim=4, seed=0);"
        "field = am.on_sphere(am.AttentionDrift(am.Softmax(1.0)));"
        "run = am.flow(field, start, until=1.7, integrator=am.Tsit5(rtol=1e-6), keep=3); print(run.states.tolist())"
    )
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second != ""


def test_both_engines_merge_the_same_tokens_at_the_same_times() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(20.0))), cloud(24, 3, 5)
    runs = [
        am.flow(field, start, until=1e4, integrator=am.Tsit5(rtol=1e-8), merging=am.Merging(1e-4), engine=engine)
        for engine in ("compiled", "general")
    ]
    first, second = (run.mergers for run in runs)
    assert len(first) > 5 and [one.tokens for one in first] == [one.tokens for one in second]
    assert [one.time for one in first] == pytest.approx([one.time for one in second], rel=1e-5)
    torch.testing.assert_close(runs[0].last, runs[1].last, atol=1e-6, rtol=0)


def test_the_exponential_of_the_compiled_engine_is_right_to_rounding() -> None:
    from armillary.dynamics.pairs import Law, pair_velocity

    for beta in (0.1, 1.0, 30.0, 300.0):
        rows = cloud(40, 3, 1)
        found = pair_velocity(rows.numpy(), law=Law(0, beta, 1.0, False))
        exact = am.on_sphere(ATTENTION(am.Softmax(beta))).velocity(0.0, rows).numpy()
        assert np.abs(found - exact).max() < 1e-13 * np.abs(exact).max() * max(1.0, beta / 30)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("tokens", [2, 3, 16, 33])
def test_compiled_sums_count_every_pair_once_whatever_the_numbers_of_tokens_and_coordinates(
    tokens: int, dim: int
) -> None:
    from armillary.dynamics.pairs import Law, pair_velocity

    rows, weights = cloud(tokens, dim, 4).numpy(), np.linspace(0.5, 2.0, tokens)
    kernel = weights * np.exp(-2.0 * np.square(rows[:, None] - rows[None]).sum(-1))
    pulled = (kernel[:, :, None] * (rows[None] - rows[:, None])).sum(1)
    pulled = pulled - (pulled * rows).sum(1, keepdims=True) * rows
    exact = {0: pulled / kernel.sum(1)[:, None], 1: pulled / weights.sum()}
    for rule in (0, 1):
        found = pair_velocity(rows, law=Law(rule, 4.0, 1.0, True), weights=weights)
        assert np.abs(found - exact[rule]).max() < 1e-15


def test_a_metastable_run_to_a_million_million_units_is_short_and_logs_its_mergers() -> None:
    run = am.flow(
        am.on_sphere(ATTENTION(am.Softmax(81.0))), cloud(64, 3, 0), until=1e12,
        integrator=am.Tsit5(rtol=1e-6), merging=am.Merging(1e-4),
    )  # fmt: skip
    assert run.evaluations[0] < 20_000 and run.engine == "compiled"
    groups = {tuple(row) for row in run.last.numpy().round(9).tolist()}
    assert len(groups) == 64 - len(run.mergers) and 2 < len(groups) < 20
    assert [one.time for one in run.mergers] == sorted(one.time for one in run.mergers)


@pytest.mark.parametrize(
    ("tokens", "dim", "engine"), [(1400, 6, "compiled"), (1400, 2, "general"), (1400, 96, "general")]
)
def test_the_compiled_engine_takes_every_run_whose_cheapest_sum_is_over_pairs(tokens, dim, engine) -> None:
    start, steps = am.sphere.uniform(tokens=tokens, dim=dim, seed=0), am.Tsit5(rtol=1e-6)
    chosen = am.flow(am.on_sphere(ATTENTION(am.Softmax(5.0))), start, until=0.02, integrator=steps)
    assert chosen.engine == engine
    by_hand = am.flow(am.on_sphere(ATTENTION(am.Softmax(5.0))), start, until=0.02, integrator=steps, engine="general")
    assert torch.allclose(chosen.last, by_hand.last, atol=1e-9)


def test_what_the_compiled_engine_cannot_do_is_done_by_the_general_one_or_refused() -> None:
    causal = am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Causal()))
    assert am.flow(causal, cloud(), until=1.0, integrator=am.Tsit5(rtol=1e-6)).engine == "general"
    with pytest.raises(am.ArgumentError, match="'general' for masks, heads and positions"):
        am.flow(causal, cloud(), until=1.0, integrator=am.Tsit5(rtol=1e-6), engine="compiled")


# stationary states, mergers, ends ---------------------------------------------------------------------------------------


def test_opposed_and_simplex_states_stay_and_are_called_unstable_with_the_right_rate() -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(2.0)))
    pair = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    found = am.stationarity(field, pair)
    assert found.stationary and found.fastest == pytest.approx(linear.antipodal_escape(2.0), abs=1e-10)
    assert "unstable" in am.flow(field, pair, until=5.0, integrator=am.Tsit5(rtol=1e-8)).status
    simplex = am.sphere.equiangular(tokens=4, dim=3, overlap=-1 / 3)
    assert am.stationarity(field, simplex).label.startswith("stationary and unstable")
    aligned = torch.tensor([[1.0, 0.0]] * 3, dtype=torch.float64)
    assert am.stationarity(field, aligned).label == "stationary and stable, up to rotations"


def test_tokens_that_hardly_hear_each_other_are_linearized_whatever_the_beta() -> None:
    rates = am.growth_rates(
        am.on_sphere(am.AttentionDrift(am.Softmax(800.0))), am.sphere.uniform(tokens=6, dim=3, seed=1)
    )
    assert 0 < float(rates[0]) < 1e-70


def test_a_nearly_opposed_pair_leaves_at_the_right_time_and_the_status_says_what_was_done() -> None:
    c = -1 + 1e-12
    pair = torch.tensor([[1.0, 0.0], [c, math.sqrt(1 - c * c)]], dtype=torch.float64)
    time = -math.atanh(c)
    assert time == pytest.approx(14.16, abs=0.01)
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform())), pair, until=time, integrator=am.Tsit5(rtol=1e-6))
    assert abs(pair_overlap(run)[-1]) < 1e-3
    assert "tolerances were tightened" in run.status


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 1e-5])
def test_a_coarse_absolute_tolerance_does_not_hide_the_escape_of_a_nearly_opposed_pair(gap: float) -> None:
    angle = math.pi - gap
    pair = torch.tensor([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64)
    time = -math.log(math.tan(gap / 2))  # c = 0 by the tanh law
    run = am.flow(am.on_sphere(ATTENTION(am.Uniform())), pair, until=time, integrator=am.Tsit5(rtol=1e-8, atol=1e-2))
    assert abs(pair_overlap(run)[-1]) < 1e-3
    assert "tolerances were tightened" in run.status


def test_a_plateau_is_not_called_an_end() -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(9.0)))
    angles = torch.tensor([0.0, 0.01, 1.5, 1.51], dtype=torch.float64)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    run = am.flow(field, rows, until=20.0, integrator=am.Tsit5(rtol=1e-8))
    assert "consensus is certain" in run.status and "not reached yet" in run.status
    assert float((run.last @ run.last.mT).min()) < 0.2
    assert "a plateau of 2 groups (connected within 0.1 rad), no end" in run.status and "weights 2, 2" in run.status


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0)])
def test_the_lifetime_of_a_plateau_is_that_of_the_law_of_two_weighted_clusters_and_of_the_motion(
    weights: tuple[float, float],
) -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(8.0)))
    start, mass = am.sphere.equiangular(tokens=2, dim=2, overlap=0.1), torch.tensor(weights)
    run = am.flow(field, start, until=5.0, integrator=TIGHT, weights=mass)
    predicted = float(run.status.partition("in about ")[2].partition(" units")[0])
    left = overlap.two_clusters_time(pair_overlap(run)[-1], 0.999, beta=8.0, weights=weights)
    assert predicted == pytest.approx(left, rel=1e-3) and f"weights {weights[0]:g}, {weights[1]:g}" in run.status
    later = am.flow(field, start, until=5.0 + left, integrator=TIGHT, weights=mass)
    assert pair_overlap(later)[-1] == pytest.approx(0.999, abs=1e-6)


def test_a_motion_that_goes_on_and_a_rule_without_the_law_are_called_no_plateau() -> None:
    soon = am.flow(am.on_sphere(ATTENTION(am.Softmax(4.0))), cloud(6, 3), until=0.5, integrator=TIGHT)
    causal = am.on_sphere(ATTENTION(am.Softmax(30.0), mask=am.Causal()))
    other = am.flow(causal, torch.eye(3, dtype=torch.float64), until=5.0, integrator=TIGHT)
    assert "plateau of" not in soon.status and "plateau of" not in other.status
    frozen = am.flow(
        am.on_sphere(ATTENTION(am.Softmax(2000.0))), torch.eye(3, dtype=torch.float64), until=5.0, integrator=TIGHT
    )
    assert "would merge after more than 1e300 units" in frozen.status


def test_merging_leaves_the_motion_of_clusters_as_it_is_and_logs_every_merger() -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(9.0)))
    angles = torch.tensor([0.0, 0.02, 1.5, 1.52, 1.53], dtype=torch.float64)
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    plain = am.flow(field, rows, until=60.0, integrator=am.Tsit5(rtol=1e-9), keep=[30.0, 60.0])
    joined = am.flow(
        field, rows, until=60.0, integrator=am.Tsit5(rtol=1e-7), keep=[30.0, 60.0], merging=am.Merging(1e-5)
    )
    torch.testing.assert_close(joined.states, plain.states, atol=1e-6, rtol=0)
    assert sorted(one.tokens for one in joined.mergers)[-1] in ((2, 3, 4), (3, 4)) and len(joined.mergers) == 3
    assert joined.evaluations[0] < plain.evaluations[0]
    before, after = (float(state[0] @ state[-1]) for state in joined.states)
    assert overlap.two_clusters_time(before, after, beta=9.0, weights=(2.0, 3.0)) == pytest.approx(30.0, rel=1e-5)


def test_a_merger_needs_an_angle_well_above_the_tolerance() -> None:
    field = am.on_sphere(ATTENTION(am.Softmax(9.0)))
    with pytest.raises(am.ArgumentError, match="at least ten times the tolerance"):
        am.flow(field, cloud(), until=5.0, integrator=am.Tsit5(rtol=1e-6), merging=am.Merging(1e-6))
    am.flow(field, cloud(), until=5.0, integrator=am.Tsit5(rtol=1e-6), merging=am.Merging(1e-5))


def test_noise_alone_forgets_the_start_at_the_rate_of_brownian_motion_on_the_sphere() -> None:
    start = torch.zeros(4000, 3, dtype=torch.float64)
    start[:, 0] = 1.0
    run = am.flow(am.on_sphere(am.Noise(0.5)), start, until=0.6, integrator=am.StratonovichHeun(step=0.01, seed=0))
    mean = float(run.last[:, 0].mean())
    assert mean == pytest.approx(math.exp(-2 * 0.5 * 0.6), abs=3 * 0.6 / 4000**0.5)  # e^{-(d - 1) strength s}


def test_points_nearly_equal_or_opposite_or_equal_do_no_harm() -> None:
    base = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    near = am.sphere.normalize(base[None] + torch.tensor([0.0, 1e-9, 0.0], dtype=torch.float64))[0]
    rows = torch.stack([base, near, -base, base])
    for engine in ("compiled", "general"):
        field = am.on_sphere(ATTENTION(am.Softmax(5.0)))
        run = am.flow(field, rows, until=30.0, integrator=am.Tsit5(rtol=1e-9), engine=engine, keep=31)
        assert bool(torch.isfinite(run.states).all())
        assert float((run.states[:, 0] - run.states[:, 3]).norm(dim=-1).max()) < 1e-20  # equal tokens stay equal
        apart = (run.states[:, 0] - run.states[:, 1]).norm(dim=-1)
        assert float(apart[-1]) < 1e-9 and float(apart.max()) < 2e-9


def test_noise_has_weak_order_one_and_strong_order_a_half_or_better() -> None:
    """Brownian paths on refined grids share their increments; the mean has a closed form."""
    field, dim, until = am.on_sphere(am.Noise(0.5)), 3, 0.5
    start = torch.zeros(20_000, dim, dtype=torch.float64)
    start[:, 0] = 1.0
    errors, steps = [], [0.25, 0.125, 0.0625]
    for step in steps:
        run = am.flow(field, start, until=until, integrator=am.StratonovichHeun(step=step, seed=0))
        errors.append(abs(float(run.last[:, 0].mean()) - math.exp(-(dim - 1) * 0.5 * until)))
    assert measured_order(errors, steps) > 0.7
    kicks = torch.randn(64, 2000, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ends = [driven(field, start[:2000], kicks, until, 64 // 2**level) for level in range(4)]
    strong = [float((end - ends[0]).norm(dim=-1).mean()) for end in ends[1:]]
    assert measured_order(strong, [2.0, 4.0, 8.0]) > 0.45


def driven(field: am.VelocityField, start: torch.Tensor, kicks: torch.Tensor, until: float, steps: int) -> torch.Tensor:
    """Heun's method with the increments of a finer grid added up."""
    x, noise = start, field.drift.noise
    summed = kicks.reshape(steps, len(kicks) // steps, *kicks.shape[1:]).sum(1) * (noise * (until / len(kicks)) ** 0.5)
    for kick in summed:
        first = field.tangential(x, kick)
        x = field.retracted(x + (first + field.tangential(x + first, kick)) / 2)
    return x


def test_without_noise_heuns_method_is_of_order_two() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(3.0))), cloud()
    exact = am.flow(field, start, until=2.0, integrator=am.Tsit5(rtol=1e-13)).last
    steps = [0.1, 0.05, 0.025]
    errors = [
        float(
            (am.flow(field, start, until=2.0, integrator=am.StratonovichHeun(step=h, seed=0)).last - exact).abs().max()
        )
        for h in steps
    ]
    assert measured_order(errors, steps) == pytest.approx(2, abs=0.25)


# refusals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (torch.ones(3, 2, dtype=torch.float64), "norm 1.41421"),
        (torch.zeros(3, 2, dtype=torch.float64), "norm 0"),
        (torch.eye(3, dtype=torch.float64)[:1], "at least two tokens"),
        (torch.ones(3, 1, dtype=torch.float64), "at least two dimensions"),
        (torch.full((3, 2), float("nan"), dtype=torch.float64), "finite"),
        (torch.eye(3, dtype=torch.int64), "real"),
    ],
)
def test_a_start_that_is_no_configuration_is_refused_in_one_sentence(start: torch.Tensor, words: str) -> None:
    with pytest.raises(am.ArgumentError, match=words):
        am.flow(am.on_sphere(ATTENTION(am.Uniform())), start, until=1.0, integrator=am.RK4(step=0.1))


def test_choices_that_contradict_each_other_are_refused_with_the_remedy() -> None:
    field, start = am.on_sphere(ATTENTION(am.Softmax(2.0))), cloud()
    with pytest.raises(am.ArgumentError, match="Time runs forward"):
        am.flow(field, start, until=-1.0, integrator=am.RK4(step=0.1))
    with pytest.raises(am.ArgumentError, match="beta` must be finite"):
        am.Softmax(float("inf"))
    with pytest.raises(am.ArgumentError, match="Hardmax"):
        am.Softmax(float("nan"))
    with pytest.raises(am.ArgumentError, match="shifted"):
        am.Unnormalized(800.0)
    am.Unnormalized(800.0, clock="shifted")
    with pytest.raises(am.ArgumentError, match="StratonovichHeun"):
        am.flow(am.on_sphere(ATTENTION(am.Softmax(2.0)) + am.Noise(0.1)), start, until=1.0, integrator=am.RK4(step=0.1))
    with pytest.raises(am.ArgumentError, match="whole layers"):
        am.flow(field, start, until=2.5, integrator=am.ResidualLayer(1.0))
    with pytest.raises(am.ArgumentError, match="float64 for merging"):
        am.flow(field, start.float(), until=2.0, integrator=am.Tsit5(rtol=1e-5), merging=am.Merging(1e-3))
    causal = am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Causal()))
    with pytest.raises(am.ArgumentError, match="tells tokens apart"):
        am.flow(causal, start, until=2.0, integrator=am.Tsit5(rtol=1e-5), merging=am.Merging(1e-3))
    with pytest.raises(am.ArgumentError, match="act on dimension 3"):
        am.flow(
            am.on_sphere(ATTENTION(am.Softmax(2.0), heads=am.Heads.identity(4))), start, until=1.0, integrator=TIGHT
        )


def test_a_velocity_that_blows_up_is_a_status_with_the_state_so_far() -> None:
    field = am.flat(ATTENTION(am.Softmax(1.0)) + am.MLPDrift(lambda x: x * x.square().sum(-1, keepdim=True)))
    run = am.flow(field, cloud(4, 3), until=5.0, integrator=am.Tsit5(rtol=1e-6, most_steps=20_000))
    assert run.status.startswith("stopped at s = 0.") and bool(torch.isfinite(run.last).all())


@pytest.mark.parametrize("integrator", [am.RK4(step=0.01), am.ResidualLayer(2.0)])
def test_fixed_steps_that_blow_up_stop_at_the_last_finite_state_and_leave_other_systems_alone(
    integrator: am.RK4 | am.ResidualLayer,
) -> None:
    field = am.flat(am.MLPDrift(lambda x: x * x.square().sum(-1, keepdim=True)))
    starts = torch.stack([cloud(4, 3), 1e-3 * cloud(4, 3)])
    until, keep = (20, [0, 10, 20]) if isinstance(integrator, am.ResidualLayer) else (5.0, [0.0, 0.3, 5.0])
    run = am.flow(field, starts, until=until, integrator=integrator, keep=keep)
    unit = "layer" if isinstance(integrator, am.ResidualLayer) else "s ="
    assert run.statuses[0].startswith(f"stopped at {unit} ") and "not finite" in run.statuses[0]
    assert run.statuses[1].startswith("reached") and run.steps[0] < run.steps[1]
    assert bool(torch.isfinite(run.states).all()) and set(run.stopped_at) == {0}
    alone = am.flow(field, starts[1], until=until, integrator=integrator, keep=keep)
    assert torch.equal(run.states[1], alone.states)


@pytest.mark.parametrize(
    "norm", [am.LayerNorm(gain=torch.ones(4)), am.LayerNorm(bias=torch.ones(2)), am.RMSNorm(torch.ones(1, 3))]
)
def test_a_gain_or_bias_of_another_length_than_the_rows_is_refused(norm: am.LayerNorm | am.RMSNorm) -> None:
    with pytest.raises(am.ArgumentError, match=r"each of the 3 coordinates of a row, but has shape .*Give 3 numbers"):
        am.flow(am.pre_norm(ATTENTION(am.Softmax(1.0)), read=norm), cloud(4, 3), until=1.0, integrator=TIGHT)
    mended = replace(norm, gain=torch.ones(3)) if norm.gain is not None else replace(norm, bias=torch.ones(3))
    assert mended(cloud(4, 3)).shape == (4, 3)


@pytest.mark.parametrize("placed", [am.pre_norm, am.peri_norm])
def test_a_stream_that_shrinks_to_nothing_stops_there_and_says_so(placed) -> None:
    field = placed(-1.3 * ATTENTION(am.Softmax(2.0)))
    run = am.flow(field, cloud(), until=20.0, integrator=am.Tsit5(rtol=1e-8))
    (sentence,) = run.statuses
    assert "shrunk" in sentence and run.steps[0] < 10_000
    assert float(run.last.norm(dim=-1).min()) < 1e-8


def test_tokens_under_a_layer_norm_move_on_the_unit_sphere_of_one_dimension_less() -> None:
    dim, step, norm = 6, 0.3, am.LayerNorm()
    heads = am.Heads.gaussian(dim=dim, heads=2, head_dim=3, seed=1)
    basis = am.sphere.mean_free_basis(dim)
    x = norm(torch.randn(5, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)) / dim**0.5
    inside = am.on_sphere(ATTENTION(am.Softmax(2.0), heads=heads.restricted(basis)))
    run = am.flow(inside, x @ basis.mT, until=4, integrator=am.ResidualLayer(step), keep=5)
    attention = ATTENTION(am.Softmax(2.0), heads=heads)
    for state in run.states:
        assert torch.allclose(state @ basis, x, atol=1e-14)
        assert float(x.mean(1).abs().max()) < 1e-15
        x = norm(x + step * attention(x)) / dim**0.5


def test_many_orthogonal_heads_are_orthogonal_and_add_up_to_the_size_of_one() -> None:
    heads = am.Heads.orthogonal(dim=4, seed=0, heads=3)
    eye = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    for matrix in (heads.query, heads.key, heads.value, heads.output * 3**0.5):
        assert torch.allclose(matrix @ matrix.mT, eye, atol=1e-14)
    assert not torch.allclose(heads.query[0], heads.query[1])
    assert torch.equal(am.Heads.orthogonal(dim=4, seed=0).query[0], heads.query[0])
    symmetric = am.Heads.goe(dim=200, seed=0, heads=4).value_matrices
    assert torch.allclose(symmetric, symmetric.mT)
    assert float(torch.linalg.eigvalsh(symmetric.sum(0)).abs().max()) == pytest.approx(2**0.5, rel=0.05)
    for made in (am.Heads.orthogonal, am.Heads.goe):
        with pytest.raises(am.ArgumentError, match="must be 1 or more"):
            made(dim=4, seed=0, heads=0)


@pytest.mark.parametrize(
    ("basis", "words"), [(torch.eye(4)[:, :3], "must have rows of dimension"), (2 * torch.eye(4), "orthonormal")]
)
def test_heads_are_restricted_to_orthonormal_rows_of_their_own_dimension(basis, words) -> None:
    with pytest.raises(am.ArgumentError, match=words):
        am.Heads.identity(4).restricted(basis)
