"""The energy: value and rate where the proof holds, a refusal that names what is missing where it does not."""

from __future__ import annotations

import math

import pytest
import torch

import armillary as am

ATTENTION = am.AttentionDrift


def cloud(tokens: int = 7, dim: int = 3, seed: int = 0) -> torch.Tensor:
    return am.sphere.uniform(tokens=tokens, dim=dim, seed=seed)


def tied(factor: float, dim: int = 3) -> am.Heads:
    square = torch.randn(dim, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = (square + square.mT) / 2
    return am.Heads.given(scores=scores, values=factor * scores)


PERCEPTRON = am.Perceptron(cloud(4, 3, 8), torch.tensor([1.0, -0.5, 0.7, 2.0], dtype=torch.float64))

LICENSED = {
    "post": am.on_sphere(ATTENTION(am.Softmax(3.0))),
    "negative beta": am.on_sphere(ATTENTION(am.Softmax(-2.0))),
    "uniform": am.on_sphere(ATTENTION(am.Uniform())),
    "unnormalized": am.on_sphere(ATTENTION(am.Unnormalized(1.5))),
    "shifted clock": am.on_sphere(ATTENTION(am.Unnormalized(1.5, clock="shifted"))),
    "repulsive": am.on_sphere(-1.0 * ATTENTION(am.Softmax(2.0))),
    "window on both sides": am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Window(2, "both"))),
    "uniform in a window": am.on_sphere(ATTENTION(am.Uniform(), mask=am.Window(2, "both"))),
    "given symmetric mask": am.on_sphere(
        ATTENTION(am.Softmax(2.0), mask=am.Allowed(torch.eye(7).bool() | torch.eye(7).bool().flip(0)))
    ),
    "perceptron": am.on_sphere(ATTENTION(am.Unnormalized(1.5)) + 0.5 * PERCEPTRON),
    "perceptron, repulsive": am.on_sphere(-1.0 * ATTENTION(am.Unnormalized(1.5, clock="shifted")) + PERCEPTRON),
    "perceptron, uniform": am.on_sphere(ATTENTION(am.Uniform()) + PERCEPTRON),
    "perceptron, pre": am.pre_norm(ATTENTION(am.Unnormalized(1.5)) + PERCEPTRON),
    "perceptron, peri": am.peri_norm(ATTENTION(am.Uniform()) + PERCEPTRON),
    "injection": am.on_sphere(ATTENTION(am.Unnormalized(1.5)) + am.Injection(0.3 * cloud(7, 3, 9))),
    "injection, uniform in a window": am.ngpt(
        ATTENTION(am.Uniform(), mask=am.Window(2, "both")) + am.Injection(0.3 * cloud(7, 3, 9)), alpha=0.5
    ),
    "tied matrices": am.on_sphere(ATTENTION(am.Softmax(1.0), heads=tied(0.7))),
    "tied, repulsive": am.on_sphere(ATTENTION(am.Softmax(1.0), heads=tied(-0.7))),
    "pre": am.pre_norm(ATTENTION(am.Softmax(2.0))),
    "peri": am.peri_norm(ATTENTION(am.Softmax(2.0))),
    "ngpt": am.ngpt(ATTENTION(am.Softmax(2.0)), alpha=0.5),
    "sqrt depth": am.sqrt_depth(ATTENTION(am.Softmax(2.0))),
    "turning together": am.on_sphere(
        ATTENTION(am.Softmax(2.0)) + am.Frequencies(torch.tensor([[[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]] * 7).double())
    ),
}


@pytest.mark.parametrize("name", LICENSED)
def test_the_rate_is_the_slope_of_the_value_along_the_motion_and_has_the_promised_sign(name: str) -> None:
    field, start, step = LICENSED[name], cloud(), 1e-4
    energy = am.energy_of(field)
    run = am.flow(field, start, until=2 * step, integrator=am.RK4(step=step / 2), keep=[0.0, step, 2 * step])
    slope = float(energy.value(run.states[2]) - energy.value(run.states[0])) / (2 * step)
    rate = float(energy.rate(run.states[1], time=step))
    assert rate == pytest.approx(slope, rel=1e-5)
    assert rate * energy.sign > 0
    longer = am.flow(field, start, until=3.0, integrator=am.Tsit5(rtol=1e-10), keep=31)
    changes = energy.sign * energy.value(longer.states).diff()
    assert float(changes.min()) > -1e-8


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (am.on_sphere(ATTENTION(am.Softmax(4.0), mask=am.Causal())), "no mask .the causal mask"),
        (am.on_sphere(ATTENTION(am.Softmax(4.0), mask=am.Window(2, "back"))), "no mask .the window of 2 back"),
        (am.on_sphere(ATTENTION(am.Hardmax(tie=1e-12))), "hardmax"),
        (
            am.on_sphere(ATTENTION(am.Softmax(1.0), heads=am.Heads.orthogonal(dim=3, seed=0))),
            "W_Q.T W_K is not symmetric",
        ),
        (am.on_sphere(ATTENTION(am.Softmax(1.0), heads=am.Heads.goe(dim=3, seed=0))), "values equal keys"),
        (
            am.on_sphere(ATTENTION(am.Softmax(1.0), heads=am.Heads.gaussian(dim=3, heads=2, head_dim=2, seed=0))),
            "one head",
        ),
        (am.on_sphere(ATTENTION(am.Softmax(1.0)) + am.MLPDrift(torch.relu)), "no MLP"),
        (am.flat(ATTENTION(am.Softmax(1.0))), "unit vectors"),
        (am.pre_norm(ATTENTION(am.Softmax(1.0)), read=am.RMSNorm()), "unit vectors"),
        (am.on_sphere(ATTENTION(am.Softmax(1.0)) + am.Noise(0.1)), "no noise"),
        (
            am.on_sphere(ATTENTION(am.Softmax(1.0)) + am.Injection(torch.eye(3, dtype=torch.float64))),
            "constant mobility .softmax divides attention by Z_i, and not the injection",
        ),
        (am.on_sphere(ATTENTION(am.Softmax(1.0)) + PERCEPTRON), "constant mobility .* perceptron of 4 neurons"),
        (
            am.on_sphere(ATTENTION(am.Softmax(1.0)) + am.Frequencies.on_circle(torch.tensor([0.0, 1.0]))),
            "natural frequencies",
        ),
        (am.on_sphere(ATTENTION(am.Softmax(1.0), positions=am.RotaryPositions())), "depend on positions"),
        (am.on_sphere(am.MLPDrift(torch.relu)), "there is no attention"),
        (am.on_sphere(ATTENTION(am.Softmax(0.0))), "take Uniform"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_energy_without_its_ingredients_is_refused_and_the_absent_one_is_named(
    field: am.VelocityField, words: str
) -> None:
    with pytest.raises(am.MissingIngredientError, match=words):
        am.energy_of(field)


def test_every_missing_ingredient_is_named_at_once() -> None:
    field = am.flat(ATTENTION(am.Softmax(1.0), mask=am.Causal()) + am.MLPDrift(torch.relu))
    with pytest.raises(am.MissingIngredientError, match="3 of its ingredients") as refused:
        am.energy_of(field)
    assert all(words in str(refused.value) for words in ("unit vectors", "no mask", "no MLP"))


def test_the_remedy_for_beta_zero_has_an_energy() -> None:
    rows = cloud()
    value = am.energy_of(am.on_sphere(ATTENTION(am.Uniform()))).value(rows)
    assert float(value) == pytest.approx(float((rows @ rows.mT).sum()) / 2)


@pytest.mark.parametrize("beta", [1.0, 50.0, 800.0, 1e5, -800.0])
def test_the_logarithm_of_the_energy_is_finite_at_any_beta(beta: float) -> None:
    energy, rows = am.energy_of(am.on_sphere(ATTENTION(am.Softmax(beta)))), cloud()
    scores = beta * (rows @ rows.mT)
    expected = float(scores.max()) + math.log(float(torch.exp(scores - scores.max()).sum())) - math.log(2 * abs(beta))
    assert float(energy.log_value(rows)) == pytest.approx(expected, rel=1e-12)
    assert math.isinf(float(energy.value(rows))) == (expected > 700)


EXTREME = [
    (beta, clock, dtype)
    for beta, dtype in ((800.0, torch.float64), (-800.0, torch.float64), (1e5, torch.float64), (-100.0, torch.float32))
    for clock in ("softmax", "shifted")
] + [(100.0, "softmax", torch.float32)]


@pytest.mark.parametrize(("beta", "clock", "dtype"), EXTREME)
def test_the_rate_is_a_number_or_infinite_and_its_logarithm_finite_at_any_beta(
    beta: float, clock: str, dtype: torch.dtype
) -> None:
    rule = am.Softmax(beta) if clock == "softmax" else am.Unnormalized(beta, clock="shifted")
    energy = am.energy_of(am.on_sphere(ATTENTION(rule)))
    rows = cloud(6).to(dtype)
    assert not math.isnan(float(energy.rate(rows))) and float(energy.rate(rows)) * energy.sign >= 0
    assert math.isfinite(float(energy.log_rate(rows))) and not math.isnan(float(energy.value(rows)))
    assert float(energy.rate(rows)) == pytest.approx(
        energy.sign * float(energy.log_rate(rows).double().exp().to(dtype)), rel=1e-4
    )
    opposed = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=dtype)
    assert float(energy.rate(opposed)) == 0.0 and float(energy.log_rate(opposed)) == -math.inf


@pytest.mark.parametrize("beta", [3.0, -2.0, 800.0])
def test_the_relative_rate_is_the_sum_over_shares_of_the_partition_sums(beta: float) -> None:
    pair = am.sphere.equiangular(tokens=2, dim=2, overlap=0.995)
    rows = pair if beta > 100 else cloud(6)
    energy = am.energy_of(am.on_sphere(ATTENTION(am.Softmax(beta))))
    scores = beta * (rows @ rows.mT)
    pull = torch.softmax(scores, -1) @ rows
    pull = pull - (pull * rows).sum(-1, keepdim=True) * rows
    shares = torch.softmax(torch.logsumexp(scores, -1), -1)
    relative = 2 * abs(beta) * float((shares * pull.square().sum(-1)).sum())
    assert float((energy.log_rate(rows) - energy.log_value(rows)).exp()) == pytest.approx(relative, rel=1e-11)


def test_a_pair_far_apart_at_a_large_beta_has_the_rate_of_its_law_and_no_rounding() -> None:
    """Tokens at an overlap c: 2 sin^2 e^{2 beta c} / (e^beta + e^{beta c}), far below the rounding of the attention."""
    beta, c = 400.0, 0.5
    rows = am.sphere.equiangular(tokens=2, dim=2, overlap=c)
    energy = am.energy_of(am.on_sphere(ATTENTION(am.Softmax(beta))))
    law = math.log(2 * (1 - c * c)) + 2 * beta * c - beta - math.log1p(math.exp(beta * (c - 1)))
    assert float(energy.log_rate(rows)) == pytest.approx(law, abs=1e-10)
    assert float(energy.rate(rows)) == pytest.approx(math.exp(law), rel=1e-9)


def test_tokens_that_see_none_but_themselves_have_an_energy_that_stands_still() -> None:
    energy = am.energy_of(am.on_sphere(ATTENTION(am.Softmax(900.0), mask=am.Window(0, "both"))))
    assert float(energy.rate(cloud())) == 0.0 and float(energy.log_value(cloud())) == pytest.approx(
        900 + math.log(7 / 1800), rel=1e-13
    )


def test_a_potential_beside_attention_at_a_large_beta_is_a_number_or_infinite() -> None:
    drift = ATTENTION(am.Unnormalized(800.0, clock="shifted")) + am.Injection(0.3 * cloud(7, 3, 9))
    energy = am.energy_of(am.on_sphere(drift))
    assert math.isfinite(float(energy.log_rate(cloud()))) and not math.isnan(float(energy.value(cloud())))


def test_a_weighted_token_counts_as_many_in_the_energy() -> None:
    rows = cloud(3)
    energy = am.energy_of(am.on_sphere(ATTENTION(am.Softmax(2.0))))
    repeated = torch.cat([rows, rows[:1], rows[:1]])
    weights = torch.tensor([3.0, 1.0, 1.0], dtype=torch.float64)
    assert float(energy.value(rows, weights)) == pytest.approx(float(energy.value(repeated)), rel=1e-13)
    assert float(energy.rate(rows, weights)) == pytest.approx(float(energy.rate(repeated)), rel=1e-12)


def test_grouped_heads_serve_the_queries_that_follow_each_other() -> None:
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(4, 2, 3, generator=draw, dtype=torch.float64)
    key, value = torch.randn(2, 2, 2, 3, generator=draw, dtype=torch.float64)
    output = torch.randn(4, 3, 2, generator=draw, dtype=torch.float64)
    grouped = am.Heads(query, key, value, output)
    spelled = am.Heads(query, key.repeat_interleave(2, 0), value.repeat_interleave(2, 0), output)
    rows = cloud()
    one, other = (ATTENTION(am.Softmax(1.0), heads=heads)(rows) for heads in (grouped, spelled))
    torch.testing.assert_close(one, other, atol=0, rtol=0)
    with pytest.raises(am.ArgumentError, match="fit together"):
        am.Heads(query, key[:, :, :2], value, output)
    with pytest.raises(am.ArgumentError, match="axis of heads"):
        am.Heads(query[0], key, value, output)


def test_identity_heads_and_no_heads_are_the_same_drift() -> None:
    rows = cloud()
    for rule in (am.Softmax(2.0), am.Uniform(), am.Unnormalized(1.0)):
        plain, given = ATTENTION(rule)(rows), ATTENTION(rule, heads=am.Heads.identity(3))(rows)
        torch.testing.assert_close(given, plain, atol=1e-15, rtol=0)


def test_rotary_scores_depend_on_the_distance_of_positions_only() -> None:
    rows = torch.ones(9, 4, dtype=torch.float64) / 2
    drift = ATTENTION(am.Softmax(1.0), positions=am.RotaryPositions())
    scores = drift._scores(rows, None)
    for gap in range(9):
        assert float(scores.diagonal(gap).std(correction=0)) < 1e-14
    assert float(scores.diagonal(3)[0]) != pytest.approx(1.0, abs=1e-3)


def test_a_perceptron_is_the_gradient_of_its_potential_and_an_mlp_of_tied_weights() -> None:
    rows = cloud().requires_grad_()
    PERCEPTRON.potential(rows).sum().backward()
    assert rows.grad is not None
    torch.testing.assert_close(PERCEPTRON(rows.detach()), rows.grad, atol=1e-14, rtol=0)
    tied = am.MLPDrift.of_weights(PERCEPTRON.directions, PERCEPTRON.directions.mT * PERCEPTRON.amplitudes)
    torch.testing.assert_close(PERCEPTRON(rows.detach()), tied(rows.detach()), atol=1e-14, rtol=0)


def test_weighted_tokens_count_as_many_in_the_energy_with_a_potential() -> None:
    rows, weights = cloud(3), torch.tensor([3.0, 1.0, 1.0], dtype=torch.float64)
    repeated = torch.cat([rows, rows[:1], rows[:1]])
    energy = am.energy_of(LICENSED["perceptron"])
    assert float(energy.value(rows, weights)) == pytest.approx(float(energy.value(repeated)), rel=1e-13)
    assert float(energy.rate(rows, weights)) == pytest.approx(float(energy.rate(repeated)), rel=1e-12)


def test_tokens_gather_at_the_directions_of_a_strong_perceptron() -> None:
    axis = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], dtype=torch.float64)
    field = am.on_sphere(
        ATTENTION(am.Unnormalized(1.0)) + 20.0 * am.Perceptron(axis, torch.ones(2, dtype=torch.float64))
    )
    start = cloud(12, 3, 2)
    last = am.flow(field, start, until=5.0, integrator=am.Tsit5(rtol=1e-8)).last
    torch.testing.assert_close(last[:, 0].abs(), torch.ones(12, dtype=torch.float64), atol=0.05, rtol=0)
    assert torch.equal(last[:, 0].sign(), start[:, 0].sign())


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(am.ArgumentError, match="Transpose one of them"):
        am.MLPDrift.of_weights(torch.ones(5, 3), torch.ones(5, 3))
    with pytest.raises(am.ArgumentError, match="one amplitude a direction"):
        am.Perceptron(torch.ones(5, 3), torch.ones(4))
    with pytest.raises(am.ArgumentError, match="in the dimension of the tokens"):
        am.flow(am.on_sphere(PERCEPTRON), cloud(5, 4), until=1.0, integrator=am.RK4(step=0.1))
