"""Attention networks of random weights carried as mean and deviations, against plain products and the powers of a layer."""

import math

import numpy as np
import pytest

from armillary.errors import ArgumentError
from armillary.studies.networks import Network, Rows, after_attention, after_mlp, normalized


def _plain_attention(rows, scores, values):
    total = 0.0
    for score, value in zip(scores, values, strict=True):
        logits = rows @ score @ rows.T
        weights = np.exp(logits - logits.max(1, keepdims=True))
        total = total + weights / weights.sum(1, keepdims=True) @ rows @ value
    return total


def _draw(*, spread):
    draw = np.random.default_rng(0)
    rows = Rows(draw.standard_normal(8), spread * draw.standard_normal((6, 8))).centered()
    scores, values = draw.standard_normal((2, 2, 8, 8)) / 4
    return rows, scores, values


@pytest.mark.parametrize("spread", [2.0, 0.3, 1e-3])
def test_attention_on_deviations_is_attention(spread):
    rows, scores, values = _draw(spread=spread)
    found = after_attention(rows, scores=scores, values=values)
    np.testing.assert_allclose(found.whole, _plain_attention(rows.whole, scores, values), rtol=0, atol=1e-13)


def test_series_and_softmax_agree_where_both_are_exact():
    rows, scores, values = _draw(spread=0.3)
    assert np.abs(rows.apart @ scores[0] @ rows.apart.T).max() < 0.5  # the series is what runs
    found = after_attention(rows, scores=scores, values=values).apart
    plain = _plain_attention(rows.whole, scores, values)
    np.testing.assert_allclose(found, plain - plain.mean(0), rtol=1e-10, atol=1e-14)


def test_deviations_far_below_rounding_come_out_of_attention_cubed():
    rows, scores, values = _draw(spread=1.0)
    sizes = [1e-20, 1e-40]
    after = [
        after_attention(Rows(rows.mean, size * rows.apart), scores=scores, values=values).residual for size in sizes
    ]
    assert math.log10(after[0] / after[1]) == pytest.approx(60, abs=1e-6)


@pytest.mark.parametrize("spread", [2.0, 1e-3])
def test_the_mlp_and_the_norm_on_deviations_are_the_plain_ones(spread):
    rows, _, _ = _draw(spread=spread)
    draw = np.random.default_rng(1)
    inner, outer = draw.standard_normal((8, 32)), draw.standard_normal((32, 8))
    np.testing.assert_allclose(
        after_mlp(rows, inner=inner, outer=outer).whole, np.maximum(rows.whole @ inner, 0) @ outer, atol=1e-12
    )
    whole = rows.whole
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True) * math.sqrt(8)
    np.testing.assert_allclose(normalized(rows).whole, expected, atol=1e-13)


@pytest.mark.parametrize(
    ("parts", "power"),
    [((), 3), (("mlp",), 3), (("norm",), 3), (("mlp", "norm"), 3), (("skip",), 1), (("skip", "mlp", "norm"), 1)],
)
def test_one_layer_cubes_a_small_residual_and_a_skip_connection_keeps_its_first_power(parts, power):
    network = Network(parts=parts, tokens=12, dim=24, heads=2, spread=1.0)
    assert np.mean([network.order(seed=seed) for seed in range(4)]) == pytest.approx(power, abs=2e-3)


def test_residuals_of_pure_attention_are_cubed_from_layer_to_layer():
    network = Network(parts=("norm",), tokens=12, dim=24, heads=2, spread=1.0)
    logs = np.log([rows.residual for rows in network.course(6, seed=0)])
    steps = np.diff(logs[2:])
    assert steps[1:] / steps[:-1] == pytest.approx(3, abs=0.25)
    assert logs[-1] < -80  # e^-80, far below what differences of rounded rows could show


def test_a_score_of_two_independent_rows_has_the_declared_spread():
    network = Network(parts=(), tokens=32, dim=64, heads=4, spread=2.0)
    spreads = []
    for seed in range(6):
        draw = np.random.default_rng(seed)
        rows = network.start(draw).whole
        logits = rows @ network._attention(draw)["scores"][0] @ rows.T
        spreads.append(logits[~np.eye(32, dtype=bool)].std())
    assert np.mean(spreads) == pytest.approx(2.0, rel=0.1)


def test_residuals_are_ratios_of_norms():
    rows = Rows.of(np.array([[3.0, 4.0], [5.0, 4.0]]))
    assert rows.residual == pytest.approx(math.sqrt(2 / (9 + 16 + 25 + 16)))
    assert rows.composite_residual == pytest.approx(math.sqrt(2 * 1) / math.sqrt(8 * 9))


def test_parts_and_heads_that_cannot_be_are_refused():
    with pytest.raises(ArgumentError, match="Leave it out"):
        Network(parts=("dropout",), tokens=4, dim=8, heads=2, spread=1.0)
    with pytest.raises(ArgumentError, match="Take a divisor"):
        Network(parts=(), tokens=4, dim=8, heads=3, spread=1.0)
