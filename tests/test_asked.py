"""What a run is asked for: each wish that contradicts itself gets one sentence, and the remedy works."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import armillary as am

ATTENTION = am.AttentionDrift
FIELD = am.on_sphere(ATTENTION(am.Softmax(2.0)))
QUICK = am.Tsit5(rtol=1e-6)


def cloud(tokens: int = 6, dim: int = 3, seed: int = 0) -> torch.Tensor:
    return am.sphere.uniform(tokens=tokens, dim=dim, seed=seed)


def run(field: object = FIELD, start: object = None, until: object = 1.0, **rest: object) -> am.Trajectory:
    given = {"integrator": QUICK} | rest
    return am.flow(field, cloud() if start is None else start, until=until, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"until": 0.0}, "Time runs forward"),
        ({"until": math.nan}, "Time runs forward"),
        ({"until": math.inf}, "Time runs forward"),
        ({"until": "3"}, "Time runs forward"),
        ({"keep": [0.0, 0.5, 0.5, 1.0]}, "take each once"),
        ({"keep": [0.5, 0.2]}, "Sort the times"),
        ({"keep": [0.0, math.nan]}, "Sort the times"),
        ({"keep": [0.0, 2.0]}, "ascend within 0 and 1"),
        ({"keep": []}, "or give a number of states"),
        ({"keep": 0}, "keeps the last state only"),
        ({"keep": 0.5}, r"Write keep=\[0.5\] for one time"),
        ({"start": np.eye(3)}, r"Take torch.as_tensor\(start\)"),
        ({"start": [[1.0, 0.0], [0.0, 1.0]]}, r"Take torch.as_tensor\(start\)"),
        ({"start": torch.empty(0, 4, 3, dtype=torch.float64)}, "must be real"),
        ({"start": torch.empty(0, 3, dtype=torch.float64)}, "at least two tokens"),
        ({"start": cloud() * (1 + 1e-8)}, r"norm 1.00000001. Take sphere.normalize"),
        ({"start": cloud().half()}, r"Take start.double\(\)"),
        ({"start": cloud().float(), "integrator": am.Tsit5(rtol=1e-9)}, "rounding would be taken for an error"),
        ({"weights": torch.tensor([1.0, 0, 1, 1, 1, 1])}, "Leave tokens without weight out"),
        ({"weights": torch.ones(5)}, "one positive number for each of 6 tokens"),
        ({"weights": torch.full((6,), math.nan)}, "smallest entry nan"),
        ({"integrator": "Tsit5"}, r"Take Tsit5\(rtol=1e-8\)"),
        ({"field": ATTENTION(am.Softmax(1.0))}, r"Take on_sphere\(drift\)"),
        ({"engine": "cuda"}, "'auto', 'general' or 'compiled'"),
        ({"field": am.pre_norm(ATTENTION(am.Softmax(1.0))), "start": torch.eye(3).double() * torch.tensor([[0.0], [1], [1]])},
         "rows with a direction, but row .0. has norm 0. Leave it out"),
    ],
)  # fmt: skip
def test_a_wish_that_cannot_be_granted_gets_one_sentence_with_the_remedy(wish: dict[str, object], words: str) -> None:
    with pytest.raises(am.ArgumentError, match=words):
        run(**wish)


@pytest.mark.parametrize("keep", [np.int64(3), np.array([0.0, 0.5, 1.0]), torch.tensor([0.0, 0.5, 1.0]), (0, 0.5, 1)])
def test_times_may_come_as_any_numbers(keep: object) -> None:
    assert run(keep=keep).at == (0.0, 0.5, 1.0)


def test_the_remedies_for_starts_work() -> None:
    for start in (torch.as_tensor(np.eye(3)), am.sphere.normalize(cloud() * (1 + 1e-8)), cloud().half().double()):
        assert run(start=am.sphere.normalize(start)).status.startswith("reached")
    assert run(start=cloud().float(), integrator=am.Tsit5(rtol=1e-5)).last.dtype == torch.float32
    assert run(weights=np.linspace(1.0, 2.0, 6)).status.startswith("reached")
    assert run(until=2, keep=[2]).at == (2.0,)


def test_a_choice_that_is_no_number_is_refused_where_it_is_made() -> None:
    for made in (
        lambda: am.Softmax("4"),  # type: ignore[arg-type]
        lambda: am.Unnormalized(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(am.ArgumentError, match="must be finite"):
            made()
    with pytest.raises(am.ArgumentError, match="whole number"):
        am.Window(1.5, "back")  # type: ignore[arg-type]
    with pytest.raises(am.ArgumentError, match="at least 1"):
        am.Tsit5(rtol=1e-6, most_steps=0)
    with pytest.raises(am.ArgumentError, match="within 0 and"):
        am.StratonovichHeun(step=0.1, seed=2**64)


class Gap:
    """A mask of somebody's own under which a token has nobody to look at."""

    symmetric = False

    def allowed(self, tokens: int, device: torch.device) -> torch.Tensor:
        return torch.ones(tokens, tokens, dtype=torch.bool).tril(-1)


@pytest.mark.parametrize("rule", [am.Softmax(2.0), am.Uniform(), am.Unnormalized(1.0), am.Hardmax(tie=1e-12)], ids=str)
def test_a_mask_that_leaves_a_token_nobody_to_look_at_is_refused(rule: object) -> None:
    with pytest.raises(am.ArgumentError, match=r"row 0 is empty\. Let it look at itself"):
        run(am.on_sphere(ATTENTION(rule, mask=Gap())))  # type: ignore[arg-type]
    mended = am.Allowed(Gap().allowed(6, torch.device("cpu")) | torch.eye(6, dtype=torch.bool))
    causal = run(am.on_sphere(ATTENTION(rule, mask=am.Causal()))).last  # type: ignore[arg-type]
    torch.testing.assert_close(run(am.on_sphere(ATTENTION(rule, mask=mended))).last, causal, atol=1e-12, rtol=0)  # type: ignore[arg-type]


def test_a_mask_of_the_wrong_shape_or_kind_is_refused() -> None:
    with pytest.raises(am.ArgumentError, match=r"boolean \[6, 6\] for 6 tokens, but it is torch.bool \[5, 5\]"):
        run(am.on_sphere(ATTENTION(am.Softmax(1.0), mask=am.Allowed(torch.ones(5, 5, dtype=torch.bool)))))
    with pytest.raises(am.ArgumentError, match=r"torch.bool \[3, 4\]"):
        am.Allowed(torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(am.ArgumentError, match=r"torch\.float32"):
        am.Allowed(torch.ones(3, 3))


def test_a_window_wider_than_the_sequence_is_no_mask() -> None:
    wide = run(am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Window(50, "both"))), engine="general").last
    torch.testing.assert_close(wide, run(engine="general").last, atol=1e-12, rtol=0)
    back = run(am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Window(50, "back")))).last
    causal = run(am.on_sphere(ATTENTION(am.Softmax(2.0), mask=am.Causal()))).last
    torch.testing.assert_close(back, causal, atol=1e-12, rtol=0)


def test_tokens_that_see_only_themselves_stay_and_no_consensus_is_promised() -> None:
    start = am.sphere.normalize(cloud() + torch.tensor([3.0, 0, 0]))  # within a hemisphere
    for mask in (am.Window(0, "back"), am.Allowed(torch.eye(6, dtype=torch.bool))):
        found = run(am.on_sphere(ATTENTION(am.Softmax(2.0), mask=mask)), start=start, keep=[0.0, 1.0])
        assert float((found.states[1] - found.states[0]).abs().max()) < 1e-15
        assert "consensus" not in found.status and "stable" in found.status
    assert "consensus is certain" in run(start=start).status


@pytest.mark.parametrize("engine", ["compiled", "general"])
@pytest.mark.parametrize("dim", [3, 5])
@pytest.mark.parametrize("beta", [-299.0, -301.0, -1000.0, -1e6])
def test_repulsive_weights_are_taken_from_the_farthest_token_however_sharp_they_are(
    beta: float, dim: int, engine: str
) -> None:
    rows = cloud(8, dim)
    weights = torch.softmax(beta * (rows @ rows.mT), -1)
    pulled = weights @ rows
    exact = pulled - (pulled * rows).sum(-1, keepdim=True) * rows
    time = 1e-5 / abs(beta)
    found = run(am.on_sphere(ATTENTION(am.Softmax(beta))), start=rows, until=time, keep=1, engine=engine)
    assert float(((found.last - rows) / time - exact).abs().max()) < 1e-3 + 1e-15 / time


def test_the_plain_clock_is_refused_where_speeds_overflow_and_runs_up_to_there() -> None:
    with pytest.raises(am.ArgumentError, match="clock='shifted'"):
        am.Unnormalized(400.0)
    fast = am.on_sphere(ATTENTION(am.Unnormalized(300.0)))
    slow = am.on_sphere(ATTENTION(am.Unnormalized(300.0, clock="shifted")))
    for engine in ("compiled", "general"):
        one = run(fast, until=3.0 * math.exp(-300.0), engine=engine)
        other = run(slow, until=3.0, engine=engine)
        assert one.status.startswith("reached")
        torch.testing.assert_close(one.last, other.last, atol=1e-12, rtol=0)


@pytest.mark.parametrize("integrator", [QUICK, am.RK4(step=0.1)], ids=str)
def test_a_velocity_that_is_not_finite_is_named_before_anything_moves(integrator: object) -> None:
    broken = am.on_sphere(ATTENTION(am.Softmax(1.0)) + am.MLPDrift(lambda rows: rows / 0.0))
    with pytest.raises(am.NumericalError, match="at s = 0 that of token 0 of system 0"):
        run(broken, integrator=integrator)


def test_equal_tokens_merge_at_once_into_one_that_carries_their_weight() -> None:
    rows = torch.cat([cloud(2), cloud(2)[:1], cloud(2)[:1]])
    found = run(start=rows, merging=am.Merging(1e-4), until=3.0)
    assert [one.weights for one in found.mergers][:2] == [(1.0, 1.0), (2.0, 1.0)]
    plain = run(start=rows, until=3.0, integrator=am.Tsit5(rtol=1e-9))
    torch.testing.assert_close(found.last, plain.last, atol=1e-5, rtol=0)
