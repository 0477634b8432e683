"""Records of small real simulations, made once: a pair, a cloud on the sphere, a circle, and one without an energy."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch

import armillary as am
from armillary.records.record import Record
from armillary.studies.simulation import Simulation

KINDS = ("pair", "sphere", "circle", "causal", "layers")


@cache
def simulated(kind: str) -> Record:
    """The record of one of `KINDS`; its folder goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix=f"armillary-{kind}-")
    _FOLDERS.append(folder)
    return study(kind).run(Path(folder.name) / "record")


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def study(kind: str) -> Simulation:
    """The simulation of one of `KINDS`."""
    softmax = am.AttentionDrift(am.Softmax(4.0))
    adaptive = am.Tsit5(rtol=1e-8)
    if kind == "pair":
        pairs = torch.stack([am.sphere.equiangular(tokens=2, dim=3, overlap=c) for c in (-0.9, 0.0)])
        field, starts, until, at = am.on_sphere(softmax), pairs, 20.0, 21
    elif kind == "sphere":
        field, starts, until = am.on_sphere(am.AttentionDrift(am.Softmax(9.0))), clouds(tokens=10, dim=3), 1e4
        at = [0.0, *(0.1 * (1e5) ** (k / 20) for k in range(20)), 1e4]
    elif kind == "circle":
        field, starts, until, at = am.on_sphere(softmax), clouds(tokens=9, dim=2), 6.0, 13
    elif kind == "causal":
        field = am.on_sphere(am.AttentionDrift(am.Softmax(4.0), mask=am.Causal()))
        starts, until, at = clouds(tokens=6, dim=3), 5.0, 6
    else:
        starts = am.sphere.equiangular(tokens=4, dim=4, overlap=0.0)[None]
        return Simulation(
            field=am.on_sphere(softmax), starts=starts, start_words="equiangular, overlap 0", until=12.0,
            at=[float(k) for k in range(13)], integrator=am.ResidualLayer(1.0),
        )  # fmt: skip
    merging = am.Merging(1e-4) if kind == "sphere" else None
    return Simulation(
        field=field, starts=starts, start_words=f"{len(starts)} <starts> of its kind", until=until, at=at,
        integrator=adaptive, merging=merging,
    )  # fmt: skip


def clouds(*, tokens: int, dim: int) -> torch.Tensor:
    """Three independent clouds of uniform directions."""
    return torch.stack([am.sphere.uniform(tokens=tokens, dim=dim, seed=seed) for seed in range(3)])
