"""The simulator on a GPU: it runs where its input is, and gives the numbers of the CPU."""

from __future__ import annotations

import pytest
import torch

import armillary as am

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

ATTENTION = am.AttentionDrift
HEADS = am.Heads.gaussian(dim=3, heads=4, head_dim=2, seed=0)


def cloud(systems: int = 3, tokens: int = 12, dim: int = 3) -> torch.Tensor:
    return torch.stack([am.sphere.uniform(tokens=tokens, dim=dim, seed=seed) for seed in range(systems)])


FIELDS = {
    "plain": am.on_sphere(ATTENTION(am.Softmax(4.0))),
    "uniform": am.on_sphere(ATTENTION(am.Uniform())),
    "unnormalized": am.on_sphere(ATTENTION(am.Unnormalized(2.0))),
    "causal": am.on_sphere(ATTENTION(am.Softmax(4.0), mask=am.Causal())),
    "window": am.on_sphere(ATTENTION(am.Softmax(4.0), mask=am.Window(3, "both"))),
    "given mask": am.on_sphere(ATTENTION(am.Softmax(4.0), mask=am.Allowed(torch.eye(12).bool()))),
    "heads": am.on_sphere(ATTENTION(am.Softmax(1.0), heads=HEADS)),
    "rotary": am.on_sphere(ATTENTION(am.Softmax(1.0), heads=HEADS, positions=am.RotaryPositions())),
    "perceptron": am.on_sphere(ATTENTION(am.Uniform()) + am.Perceptron(torch.eye(3), torch.ones(3))),
    "injection": am.on_sphere(ATTENTION(am.Uniform()) + am.Injection(cloud()[0])),
    "pre": am.pre_norm(ATTENTION(am.Softmax(2.0)), read=am.LayerNorm(torch.ones(3), torch.zeros(3))),
    "peri": am.peri_norm(ATTENTION(am.Softmax(2.0))),
    "mix": am.mix_norm(ATTENTION(am.Softmax(2.0)), switch=0.5),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("integrator", [am.Tsit5(rtol=1e-9), am.RK4(step=0.05)], ids=str)
def test_a_start_on_the_gpu_runs_there_and_ends_where_the_cpu_does(name: str, integrator: object) -> None:
    start, rest = cloud(), {"until": 2.0, "integrator": integrator, "keep": 5, "engine": "general"}
    here = am.flow(FIELDS[name], start, **rest)  # type: ignore[arg-type]
    there = am.flow(FIELDS[name], start.cuda(), **rest)  # type: ignore[arg-type]
    assert there.last.device.type == "cuda" and there.statuses
    torch.testing.assert_close(there.states.cpu(), here.states, atol=1e-10, rtol=0)


def test_mergers_on_the_gpu_are_those_of_the_cpu() -> None:
    start, rest = cloud(2, 24), {"until": 1e3, "integrator": am.Tsit5(rtol=1e-8), "merging": am.Merging(1e-4)}
    field = am.on_sphere(ATTENTION(am.Softmax(20.0)))
    here, there = (am.flow(field, one, engine="general", **rest) for one in (start, start.cuda()))  # type: ignore[arg-type]
    assert [one.tokens for one in here.mergers] == [one.tokens for one in there.mergers] and here.mergers
    torch.testing.assert_close(there.last.cpu(), here.last, atol=1e-6, rtol=0)


def test_noise_single_precision_energy_and_linearization_work_on_the_gpu() -> None:
    start = cloud().cuda()
    noisy = am.on_sphere(ATTENTION(am.Softmax(2.0)) + am.Noise(0.1))
    assert am.flow(noisy, start, until=0.5, integrator=am.StratonovichHeun(step=0.05, seed=0)).last.is_cuda
    single = am.flow(FIELDS["plain"], start.float(), until=2.0, integrator=am.Tsit5(rtol=1e-5)).last
    assert single.dtype == torch.float32 and single.is_cuda
    energy = am.energy_of(FIELDS["plain"])
    torch.testing.assert_close(energy.value(start).cpu(), energy.value(cloud()), atol=1e-9, rtol=1e-12)
    torch.testing.assert_close(energy.rate(start).cpu(), energy.rate(cloud()), atol=1e-9, rtol=1e-12)
    rates = (am.growth_rates(FIELDS["plain"], one[0]) for one in (start, cloud()))
    torch.testing.assert_close(*(one.cpu() for one in rates), atol=1e-9, rtol=0)
    assert am.participation_rank.after("normalize")(start).is_cuda


def test_gradients_come_back_from_the_gpu() -> None:
    beta = torch.tensor(2.0, dtype=torch.float64, device="cuda", requires_grad=True)
    field = am.on_sphere(ATTENTION(am.Softmax(beta)))  # type: ignore[arg-type]
    am.flow(field, cloud().cuda(), until=1.0, integrator=am.RK4(step=0.1)).last.mean(-2).square().sum().backward()
    assert beta.grad is not None and bool(torch.isfinite(beta.grad))


def test_a_simulation_of_starts_on_the_gpu_leaves_a_record(tmp_path: object) -> None:
    study = am.Simulation(
        field=FIELDS["plain"], starts=cloud().cuda(), start_words="three clouds", until=2.0, at=5,
        integrator=am.Tsit5(rtol=1e-8),
    )  # fmt: skip
    record = study.run(f"{tmp_path}/gpu")
    assert record.dataset["states"].shape == (3, 5, 12, 3)
