"""Where the norm is restored: speeds at the start and at the end under each placement."""

from __future__ import annotations

import math

import numpy as np
import torch

from armillary.checks.declaration import Engine, Sides, check
from armillary.checks.pairs import TIGHT
from armillary.dynamics.attention import Softmax
from armillary.dynamics.attention_drift import AttentionDrift
from armillary.dynamics.integrators import Tsit5
from armillary.dynamics.normalization import VelocityField, mix_norm, ngpt, on_sphere, peri_norm, pre_norm, sqrt_depth
from armillary.oracles import overlap

__all__: list[str] = []

ALPHA = 0.5


def _fields(beta: float) -> dict[str, VelocityField]:
    drift = AttentionDrift(Softmax(beta))
    return {
        "post": on_sphere(drift),
        "pre": pre_norm(drift),
        "mix": mix_norm(drift, switch=1.0),
        "peri": peri_norm(drift),
        "ngpt": ngpt(drift, alpha=ALPHA),
        "sqrt depth": sqrt_depth(drift),
    }


def _overlap(state: torch.Tensor) -> float:
    unit = state / state.norm(dim=-1, keepdim=True)
    return float(unit[0] @ unit[1])


@check(
    "speed at the start",
    "orthonormal tokens: 2/(e^b+n-1) post, pre, mix, sqrt depth; 2/sqrt(e^{2b}+n-1) peri, times alpha ngpt",
    tolerance=1e-5,
    relative=True,
)
def _start(engine: Engine) -> Sides:
    expected, got, step = [], [], 1e-5
    for name, field in _fields(2.0).items():
        run = engine.flow(field, torch.eye(8, dtype=torch.float64), until=step, integrator=TIGHT)
        expected.append(overlap.scheme_rate(name, tokens=8, beta=2.0, alpha=ALPHA))
        got.append(_overlap(run.last) / step)
    return Sides.of(expected, got)


@check(
    "speed at the end",
    "1-g: e^{-2s} post, e^{-2 alpha s} ngpt, e^{-4 sqrt(s+1)} sqrt depth",
    tolerance=0.01,
    relative=True,
)
def _end(engine: Engine) -> Sides:
    got = []
    for name, times in (("post", (8.0, 9.0)), ("ngpt", (14.0, 16.0)), ("sqrt depth", (24.0, 28.0))):
        run = engine.flow(
            _fields(2.0)[name], torch.eye(8, dtype=torch.float64), until=times[1], integrator=TIGHT, keep=times
        )
        logs = [math.log(1 - _overlap(state)) for state in run.states]
        clock = [math.sqrt(t + 1) if name == "sqrt depth" else t for t in times]
        got.append((logs[1] - logs[0]) / (clock[1] - clock[0]))
    return Sides.of([-2.0, -2 * ALPHA, -4.0], got)


@check("growing streams slow down", "pre, peri, mix: 1 - g falls as r^{-2}", tolerance=0.01, relative=True)
def _growing(engine: Engine) -> Sides:
    got = []
    for name in ("pre", "peri", "mix"):
        run = engine.flow(
            _fields(2.0)[name],
            torch.eye(8, dtype=torch.float64),
            until=300.0,
            integrator=Tsit5(rtol=1e-11),
            keep=[200.0, 300.0],
        )
        logs = [math.log(1 - _overlap(state)) for state in run.states]
        radius = [math.log(float(state.norm(dim=-1).mean())) for state in run.states]
        got.append((logs[1] - logs[0]) / (radius[1] - radius[0]))
    return Sides.of(np.full(3, -2.0), got)


@check("course under each placement", "g at s = 1/2, 1, 2, 3, 12 from the equations of g and r", tolerance=1e-8)
def _course(engine: Engine) -> Sides:
    times, expected, got = [0.5, 1.0, 2.0, 3.0, 12.0], [], []
    for name, field in _fields(2.0).items():
        run = engine.flow(field, torch.eye(16, dtype=torch.float64), until=12.0, integrator=TIGHT, keep=times)
        law = overlap.scheme_overlap([0.0, *times], scheme=name, tokens=16, beta=2.0, alpha=ALPHA, switch=1.0)
        expected += list(law[1:])
        got += [_overlap(state) for state in run.states]
    return Sides.of(expected, got)


@check(
    "times to one half under each placement",
    "n = 16, beta = 2, orthonormal: first multiple of 0.02 with g above 1/2: 0.92 (ngpt, alpha 1), 1.36 (peri), 1.80 "
    "(post), 1.96 (mix, switch 1), 2.54 (pre), 2.60 (sqrt depth)",
    tolerance=1e-9,
)
def _half(engine: Engine) -> Sides:
    drift = AttentionDrift(Softmax(2.0))
    fields = _fields(2.0) | {"ngpt": ngpt(drift, alpha=1.0)}
    known = {"ngpt": 0.92, "peri": 1.36, "post": 1.80, "mix": 1.96, "pre": 2.54, "sqrt depth": 2.60}
    got = []
    for name in known:
        run = engine.flow(fields[name], torch.eye(16, dtype=torch.float64), until=3.0, integrator=TIGHT, keep=151)
        got.append(next((at for at, state in zip(run.at, run.states, strict=True) if _overlap(state) > 0.5), math.inf))
    return Sides.of(list(known.values()), got)
