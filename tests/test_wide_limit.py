"""The recursion of wide random layers: closed forms, limits, and a decoder written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from armillary.oracles import layers, wide_limit

GPT2 = wide_limit.Block(
    attention=wide_limit.Averaging(value=768 * 0.02**2, output=768 * 0.02**2 / 24),
    feed_forward=wide_limit.FeedForward(into=768 * 0.02**2, out=3072 * 0.02**2 / 24, activation="gelu_new"),
    epsilon=1e-5,
)


def _gram(overlap, scale=1.0):
    return scale * np.array([[1.0, overlap], [overlap, 1.0]])


@pytest.mark.parametrize("overlap", [-0.5, 0.0, 0.5, 0.9, 1.0])
def test_the_rectified_kernel_is_the_arc_cosine_kernel(overlap):
    found = wide_limit.activation_gram(_gram(overlap, 2.0), "relu")
    assert found[0, 1] / found[0, 0] == pytest.approx(layers.relu_kernel(overlap), abs=1e-12)
    assert found[0, 0] == pytest.approx(1.0)  # half of the variance 2


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "silu", "tanh"])
def test_a_kernel_is_the_double_integral_over_two_gaussians(activation):
    scale, overlap = 0.7, 0.6
    f = wide_limit.ACTIVATIONS[activation]

    def density(v, u):
        square = (u * u - 2 * overlap * u * v + v * v) / (2 * scale * (1 - overlap**2))
        return math.exp(-square) / (2 * math.pi * scale * math.sqrt(1 - overlap**2))

    exact, _ = integrate.dblquad(lambda v, u: float(f(u) * f(v)) * density(v, u), -8, 8, -8, 8, epsabs=1e-9)
    assert wide_limit.activation_gram(_gram(overlap, scale), activation)[0, 1] == pytest.approx(exact, abs=1e-7)


def test_the_identity_passes_a_gram_matrix_on():
    gram = np.array([[2.0, 0.3], [0.3, 0.5]])
    assert np.allclose(wide_limit.activation_gram(gram, "identity"), gram, atol=1e-12)


def test_even_averages_of_orthonormal_tokens_have_the_cosines_of_running_means():
    averages = wide_limit.averaged_gram(np.eye(8))
    cosines = wide_limit.normalized_gram(averages, 0.0)
    assert cosines[1, 5] == pytest.approx(layers.causal_average_cosine(2, 6))
    assert averages[3, 3] == pytest.approx(1 / 4)


def test_a_window_of_one_leaves_every_token_alone():
    gram = wide_limit.normalized_gram(wide_limit.embedding_gram([1, 2, 1, 3], token=1.0, position=0.5), 0.0)
    assert np.allclose(wide_limit.averaged_gram(gram, window=1, score_spread=0.8), gram, atol=1e-12)


def test_random_scores_average_as_the_sum_over_all_pairs_says():
    gram = wide_limit.normalized_gram(wide_limit.embedding_gram([1, 2, 1, 3, 4, 2], token=1.0, position=0.4), 0.0)
    spread, i, j = 1.1, 5, 3
    weights = np.exp(spread**2 * gram[i, j] * gram[: i + 1, : j + 1])
    expected = (weights * gram[: i + 1, : j + 1]).sum() / weights.sum()
    assert wide_limit.averaged_gram(gram, score_spread=spread)[i, j] == pytest.approx(expected, rel=1e-6)


def test_random_scores_agree_with_the_law_of_one_attention_layer():
    """Equiangular tokens whose last two see all: the law is stated for full attention."""
    tokens, overlap, spread = 200, 0.5, 1.0
    gram = np.full((tokens, tokens), overlap)
    np.fill_diagonal(gram, 1.0)
    averages = wide_limit.averaged_gram(gram, score_spread=spread)
    law = layers.random_attention_cosine(tokens=tokens, overlap=overlap, spread=spread)
    assert wide_limit.normalized_gram(averages, 0.0)[-1, -2] == pytest.approx(law, abs=2e-4)


def test_equal_tokens_share_a_vector_and_positions_part_them():
    cosines = wide_limit.normalized_gram(wide_limit.embedding_gram([7, 7, 8], token=4e-4, position=1e-4), 0.0)
    assert cosines[0, 1] == pytest.approx(0.8)
    assert cosines[0, 2] == 0


def test_the_recursion_of_gpt2_small_gives_the_values_that_quadrature_gave():
    grams = wide_limit.stream_grams(wide_limit.embedding_gram(range(64), token=4e-4, position=4e-4), [GPT2] * 12)
    for layer, overlap, scale in [
        (1, 0.172, 0.0804),
        (2, 0.289, 0.1144),
        (4, 0.411, 0.166),
        (8, 0.519, 0.241),
        (12, 0.574, 0.300),
    ]:
        assert wide_limit.mean_overlap(grams[layer]) == pytest.approx(overlap, abs=6e-4)
        assert wide_limit.root_mean_square(grams[layer]) == pytest.approx(scale, abs=4e-4)
    assert wide_limit.participation_rank(grams[0], 768) == pytest.approx(59.1, abs=0.06)
    assert wide_limit.participation_rank(grams[12], 768) == pytest.approx(2.9, abs=0.05)


def test_removing_a_part_moves_the_recursion_as_it_moved_a_forward_pass():
    """Measured once on a forward pass in NumPy, one draw; draws scatter by .03."""
    start = wide_limit.embedding_gram(range(64), token=4e-4, position=4e-4)
    alone = {
        "attention": wide_limit.Block(attention=GPT2.attention, feed_forward=None, epsilon=1e-5),
        "feed_forward": wide_limit.Block(attention=None, feed_forward=GPT2.feed_forward, epsilon=1e-5),
        "unscaled": wide_limit.Block(
            attention=GPT2.attention, feed_forward=GPT2.feed_forward, epsilon=1e-5, scale=math.sqrt(24)
        ),
    }
    seen = {
        "attention": (0.111, 0.447, 0.840, 0.902),
        "feed_forward": (0.090, 0.133, 0.202, 0.246),
        "unscaled": (0.523, 0.613, 0.726, 0.779),
    }
    for part, block in alone.items():
        grams = wide_limit.stream_grams(start, [block] * 12)
        assert [wide_limit.mean_overlap(grams[at]) for at in (1, 2, 6, 12)] == pytest.approx(seen[part], abs=0.03)


def test_a_parallel_block_reads_its_input_twice():
    start = wide_limit.embedding_gram(range(6), token=1.0)
    parts = {"attention": GPT2.attention, "feed_forward": GPT2.feed_forward, "epsilon": 1e-5}
    both = wide_limit.stream_grams(start, [wide_limit.Block(**parts, parallel=True)])[1]
    attended = wide_limit.stream_grams(start, [wide_limit.Block(**{**parts, "feed_forward": None})])[1]
    fed = wide_limit.stream_grams(start, [wide_limit.Block(**{**parts, "attention": None})])[1]
    assert np.allclose(both, attended + fed - start, atol=1e-12)
