"""The checks themselves: each passes on the real engine and misses on one that is wrong on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import armillary as am
from armillary import checks  # noqa: F401 - importing it declares the checks
from armillary.checks.declaration import CHECKS, Check, Engine, Sides, check, run_checks
from armillary.dynamics.normalization import VelocityField

QUICK = [one for one in CHECKS.values() if one.cost == "fast"]
SLOW = [one for one in CHECKS.values() if one.cost == "all"]


def pushed(field: VelocityField) -> VelocityField:
    """Two per cent too fast, and with a push of its own that no law knows."""
    push = am.MLPDrift(lambda rows: 0.05 * (rows + 0.3).square() + 0.02 * rows.roll(1, -1), "a push")
    return replace(field, drift=1.02 * field.drift + push)


def unprojected(field: VelocityField) -> VelocityField:
    """Nothing holds tokens to the sphere."""
    return replace(field, scheme="pre") if field.spherical else field


def turned_around(field: VelocityField) -> VelocityField:
    """Repulsion for attraction, and a third of the noise too much."""
    return replace(field, drift=-1.3 * field.drift)


def sharper(field: VelocityField) -> VelocityField:
    """Twice the inverse temperature, weights that sum to 1.1."""
    terms = [
        1.1 * factor * (replace(one, rule=am.Softmax(2 * one.rule.beta)) if doubled(one) else one)
        for factor, one in field.drift.terms
    ]
    return replace(field, drift=sum(terms[1:], start=terms[0]))


def doubled(one: am.Drift) -> bool:
    return isinstance(one, am.AttentionDrift) and isinstance(one.rule, am.Softmax)


def lopsided(tokens: int, dim: int, seed: int) -> torch.Tensor:
    """Directions that prefer one side."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(tokens, dim, generator=draw, dtype=torch.float64)
    rows[:, 0] = rows[:, 0] + 1.5
    return am.sphere.normalize(rows)


WRONG = [
    Engine(bend=sharper),  # as fast as the right one; whoever is found out first ends it
    Engine(bend=pushed, draw=lopsided),
    Engine(bend=unprojected),
    Engine(bend=turned_around),
]


def missed(one: Check, engine: Engine) -> bool:
    """Whether a wrong engine is found out, be it by what it raises."""
    return not one.judged(engine).passed


@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.name)
def test_the_simulator_keeps_the_law_and_a_wrong_one_misses_it(one: Check) -> None:
    seeds: set[int] = set()

    def draw(tokens: int, dim: int, seed: int) -> torch.Tensor:
        seeds.add(seed)
        return am.sphere.uniform(tokens=tokens, dim=dim, seed=seed)

    verdict = one.judged(Engine(draw=draw))
    assert verdict.passed, verdict
    if len(seeds) > 5:  # what is said of the draws is what was drawn
        assert verdict.seeds == f"{min(seeds)}-{max(seeds)}" and verdict.draws == str(len(seeds))
    assert any(missed(one, engine) for engine in WRONG), "no wrong engine is found out"


@pytest.mark.parametrize("one", SLOW, ids=lambda one: one.name)
def test_a_wrong_simulator_misses_the_slow_law_too(one: Check) -> None:
    """That the right one keeps it is what `armillary check --all` says."""
    assert any(missed(one, engine) for engine in WRONG), "no wrong engine is found out"


def test_every_law_judged_by_standard_errors_says_its_draws_and_seeds() -> None:
    sampled = [one for one in CHECKS.values() if one.tolerance == 0 and one.status != "model-specific"]
    exact = {"opposed pair stays"}
    assert len(sampled) > 15 and all(one.draws and one.seeds for one in sampled if one.name not in exact)


def test_there_are_more_than_thirty_quick_laws_and_every_one_has_a_formula_and_a_status() -> None:
    assert len(QUICK) >= 60 and len(CHECKS) > len(QUICK)
    assert all(one.formula and one.status for one in CHECKS.values())


def test_a_law_whose_sides_are_not_finite_is_missed() -> None:
    one = Check("x", "x = 1", 1e-3, False, "fast", lambda engine: Sides.of([1.0, 1.0], [1.0, float("nan")]), "exact")
    assert not one.judged(Engine()).passed


@pytest.mark.parametrize("error", [am.NumericalError, ZeroDivisionError, ValueError])
def test_what_the_engine_raises_is_a_miss_that_says_so(error: type[Exception]) -> None:
    def sides(engine: Engine) -> Sides:
        raise error("States must be finite, but are not.")

    verdict = Check("x", "x = 1", 1e-3, False, "fast", sides, "exact").judged(Engine())
    assert not verdict.passed and verdict.error == float("inf") and verdict.raised.startswith("States must be finite")


def test_sampled_laws_are_judged_by_three_standard_errors() -> None:
    one = Check("x", "x = 1", 0.0, False, "fast", lambda engine: Sides.of([1.0], [1.25], [0.1]), "exact")
    verdict = one.judged(Engine())
    assert verdict.passed and verdict.tolerance == pytest.approx(0.3)
    assert not replace_sides(one, Sides.of([1.0], [1.31], [0.1])).judged(Engine()).passed


def replace_sides(one: Check, sides: Sides) -> Check:
    return Check(one.name, one.formula, one.tolerance, one.relative, one.cost, lambda engine: sides, one.status)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(am.ArgumentError, match="must be new"):
        check("tanh law", "c", tolerance=1.0)(lambda engine: Sides.of(1.0, 1.0))


def test_a_run_tells_each_verdict_as_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: CHECKS[name] for name in ("tanh law", "opposed pair stays", "edge of consensus in high dimension")}
    monkeypatch.setattr("armillary.checks.declaration.CHECKS", few)
    heard: list[str] = []
    found = run_checks(cost="fast", told=lambda verdict: heard.append(verdict.name))
    assert heard == [one.name for one in found] == ["tanh law", "opposed pair stays"]
