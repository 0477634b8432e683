"""Changes of basis: what they are, and what they do to each kind of number."""

from __future__ import annotations

import pytest
import torch

from armillary.errors import ArgumentError
from armillary.invariance.moved import values_after
from armillary.observables.alignment import mean_overlap
from armillary.observables.cloud import Calibration, Cloud
from armillary.observables.rank import algebraic_rank, participation_rank
from armillary.transformations.linear import DiagonalGain, GeneralLinear, Orthogonal


def test_a_general_linear_map_has_the_stated_condition_number_and_an_orthogonal_one_has_one() -> None:
    singular = torch.linalg.svdvals(GeneralLinear(4.0, seed=1).matrix(12))
    assert float(singular[0] / singular[-1]) == pytest.approx(4.0, rel=1e-12)
    q = Orthogonal(seed=3).matrix(12)
    torch.testing.assert_close(q @ q.mT, torch.eye(12, dtype=torch.float64), atol=1e-12, rtol=0)
    with pytest.raises(ArgumentError, match="condition_number"):
        GeneralLinear(0.5, seed=0)


def test_an_orthogonal_map_moves_no_number_and_a_general_one_moves_all_but_the_algebraic_rank() -> None:
    rows = torch.randn(40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.7
    measurements = [
        mean_overlap.after("normalize"),
        participation_rank.after("center", "normalize"),
        algebraic_rank.after(),
    ]
    cloud = Cloud(rows)
    before = torch.stack([one.of(cloud) for one in measurements])
    turned = torch.stack(values_after(cloud, Orthogonal(seed=1), measurements))
    stretched = torch.stack(values_after(cloud, GeneralLinear(4.0, seed=1), measurements))
    torch.testing.assert_close(turned, before, atol=1e-10, rtol=0)
    assert float((stretched[:2] - before[:2]).abs().min()) > 1e-2
    assert stretched[2] == before[2] == 12


def test_diag_2_1_as_a_gain_gives_25_over_17() -> None:
    gain = DiagonalGain(torch.tensor([2.0, 1.0]))
    (value,) = values_after(Cloud(torch.eye(2, dtype=torch.float64)), gain, [participation_rank.after()])
    assert float(value) == pytest.approx(25 / 17, rel=1e-14)
    with pytest.raises(ArgumentError, match="gain"):
        gain.matrix(3)


def test_the_corpus_mean_moves_along_with_the_basis() -> None:
    rows = torch.randn(20, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 2.0
    cloud = Cloud(rows, calibration=Calibration(rows.mean(0), (1,)))
    measurement = mean_overlap.after("corpus mean", "normalize")
    (turned,) = values_after(cloud, Orthogonal(seed=5), [measurement])
    assert float(turned) == pytest.approx(float(measurement.of(cloud)), abs=1e-12)
    bound = mean_overlap.after("without rogue coordinates", "normalize")
    (moved,) = values_after(cloud, Orthogonal(seed=5), [bound])
    assert abs(float(moved) - float(bound.of(cloud))) > 1e-3  # a coordinate is no direction
