"""Claims on trial: each verdict that is a theorem is met, a false claim is found, and bad input is refused in words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from armillary.errors import ArgumentError, UnsoundError
from armillary.invariance.against import against
from armillary.invariance.audit import audit, standard
from armillary.invariance.judgment import Audit
from armillary.invariance.proofs import CARRIED, proof
from armillary.invariance.trial import witnessed
from armillary.invariance.witnesses import WITNESSES
from armillary.observables.alignment import exponential_overlap, mean_overlap, overlaps, squared_mean_direction
from armillary.observables.attention_declaration import map_numbers
from armillary.observables.between import BETWEEN_LAYERS, between_layers
from armillary.observables.claims import Claim
from armillary.observables.cloud import STEPS, Calibration, Cloud
from armillary.observables.clustering import cluster_count, clustering_order_parameter, noise_share
from armillary.observables.correspondence import linear_cka, neighbor_overlap
from armillary.observables.declaration import OBSERVABLES, Measurement, Observable, observable
from armillary.observables.distances import AngularDistance
from armillary.observables.drift import stream_norm_first, stream_norm_mean, zero_rows
from armillary.observables.grouping import HDBSCAN, AverageLinkage, CompleteLinkage, Connected, Grouping, Groups
from armillary.observables.isotropy import uniformity
from armillary.observables.neighbors import duplicate_rows, intrinsic_dimension
from armillary.observables.population import both_ways_participation_rank
from armillary.observables.rank import algebraic_rank, participation_rank, variance_components
from armillary.studies.plan import default_measurements
from armillary.transformations.linear import DiagonalGain, FeaturePermutation, GeneralLinear, Linear, Orthogonal
from armillary.transformations.rows import Centering, GlobalScale, RowScale, TokenPermutation, Translation

CHOICES = {"level": 0.95, "resamples": 400, "seed": 0}
DIAG = DiagonalGain(torch.tensor([2.0, 1.0]), name="diag(2, 1)")
EVERY = standard(condition_number=4.0, seed=1, gain=DiagonalGain(torch.logspace(1, 0, 12, base=2.0), name="gain"))


def cloud(documents: int = 8, tokens: int = 30, dim: int = 12, offset: float = 0.6) -> torch.Tensor:
    drawn = torch.randn(documents, tokens, dim, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return drawn + offset


def words(found: Audit, measurement: Measurement) -> dict[str, str]:
    return {one.transformation: one.verdict.word for one in found.judgments if one.measurement == str(measurement)}


def test_diag_2_1_takes_participation_rank_to_25_over_17_and_leaves_the_algebraic_rank_proved_and_survived() -> None:
    ranks = [participation_rank.after(), algebraic_rank.after()]
    found = audit(ranks, torch.eye(2, dtype=torch.float64), transformations=[DIAG], **CHOICES)
    moved, kept = (one.verdict for one in found.judgments)
    assert (moved.word, moved.before, moved.after) == ("changes", 2.0, pytest.approx(25 / 17, rel=1e-14))
    assert (kept.word, kept.before, kept.after) == ("proved and survived", 2.0, 2.0)
    assert "invertible map" in str(kept.reason) and "one document: no interval" in str(moved)


def test_row_scaling_leaves_normalized_overlaps_and_changes_the_raw_participation_rank() -> None:
    numbers = [mean_overlap.after("normalize"), participation_rank.after(), participation_rank.after("normalize")]
    found = audit(numbers, cloud(), transformations=[RowScale(0.5, seed=0)], **CHOICES)
    assert [one.verdict.word for one in found.judgments] == ["proved and survived", "changes", "proved and survived"]
    changed = found.judgments[1].verdict
    assert changed.low < changed.difference < changed.high and changed.resolved


def test_translation_changes_uncentered_numbers_and_keeps_centered_ones() -> None:
    numbers = [one.after(*steps) for one in (participation_rank, algebraic_rank) for steps in ((), ("center",))]
    found = audit(numbers, cloud(), transformations=[Translation(1.0, seed=0)], **CHOICES)
    assert [one.verdict.word for one in found.judgments] == ["changes", "proved and survived"] * 2


def test_the_order_of_the_preparation_decides_which_transformations_a_number_survives() -> None:
    first, then = participation_rank.after("center", "normalize"), participation_rank.after("normalize", "center")
    found = audit([first, then], cloud(), transformations=[RowScale(0.5, seed=0), Translation(1.0, seed=0)], **CHOICES)
    assert words(found, first) == {"row scale": "changes", "translation": "proved and survived"}
    assert words(found, then) == {"row scale": "proved and survived", "translation": "changes"}


def test_a_full_rank_cloud_does_not_see_a_translation_and_the_rank_deficient_witness_does() -> None:
    without = audit([algebraic_rank.after()], cloud(), transformations=[Translation(1.0, 0)], witnesses=(), **CHOICES)
    assert without.judgments[0].verdict.word == "survived"
    shown = audit([algebraic_rank.after()], cloud(), transformations=[Translation(1.0, 0)], **CHOICES).judgments[0]
    assert shown.verdict.word == "changes" and shown.on_witness_only and shown.witness is not None
    assert (shown.witness.witness, shown.witness.before, shown.witness.after) == ("opposed pairs", 1.0, 2.0)
    assert str(shown) == "changes on a witness (opposed pairs: 1 to 2)"
    found = witnessed([Translation(1.0, 0)], [algebraic_rank.after()])
    assert [(one.before, one.after) for one in found if one.witness == "rank-deficient cloud"] == [(3.0, 4.0)]


@pytest.fixture
def false_claim() -> Iterator[Observable]:
    @observable(
        symbol="r", source="here", claims=[Claim(Translation, "wrong on purpose: a translation can add a direction")]
    )
    def counted_directions(spectrum):
        """Number of singular values above 1e-5 of the largest."""
        return (spectrum > 1e-5 * spectrum[..., :1]).sum(-1).double()

    yield counted_directions
    del OBSERVABLES["counted_directions"]


def test_a_false_claim_is_refuted_by_a_witness_where_a_generic_cloud_alone_would_have_let_it_pass(
    false_claim: Observable,
) -> None:
    asked = ([false_claim.after()], cloud())
    alone = audit(*asked, transformations=[Translation(1.0, 0)], witnesses=(), **CHOICES)
    assert [one.verdict.word for one in alone.judgments] == ["proved and survived"] and not alone.refuted
    found = audit(*asked, transformations=[Translation(1.0, 0)], **CHOICES)
    (refuted,) = found.refuted
    assert "claim refuted" in str(refuted) and "opposed pairs" in str(refuted)


GROUPINGS = [
    Grouping(AngularDistance(), rule)
    for rule in (
        Connected(within=0.7), AverageLinkage(within=0.7), CompleteLinkage(within=0.7), HDBSCAN(min_cluster_size=3)
    )
]  # fmt: skip
MADE = {
    "exponential_overlap": [exponential_overlap(beta=4.0)],
    "uniformity": [uniformity(t=2.0)],
    "variance_components": [variance_components(share=0.95)],
    "duplicate_rows": [duplicate_rows(tolerance=1e-6)],
    "intrinsic_dimension": [intrinsic_dimension(discard=0.1, tolerance=1e-6)],
    "cluster_count": [cluster_count(one) for one in GROUPINGS],
    "clustering_order_parameter": [
        clustering_order_parameter(one)
        for one in (*GROUPINGS, Grouping(AngularDistance(), Groups(count=3, linkage="average")))
    ],
    "noise_share": [noise_share(GROUPINGS[-1])],
}


def every_observable() -> list[Observable]:
    default_measurements()  # the rooms that declare them
    own = {name: one for name, one in OBSERVABLES.items() if name in MADE or one.function.__module__.startswith("arm")}
    return [made for name, one in own.items() for made in MADE.get(name, [one])]


PREPARATIONS = [
    (), ("normalize",), ("center",), ("center", "normalize"),
    ("remove feature mean", "normalize"), ("corpus mean", "normalize"), ("without rogue coordinates", "normalize"),
]  # fmt: skip


@pytest.mark.parametrize("one", every_observable(), ids=lambda one: one.words[:60])
def test_every_observable_of_the_package_declares_claims_and_none_is_refuted(one: Observable) -> None:
    assert one.claims and all(claim.reason and claim.source for claim in one.claims)
    numbers = [one.after(*steps) for steps in PREPARATIONS if not one.needs_unit_rows or steps[-1:] == ("normalize",)]
    states = cloud(2, tokens=20)
    found = audit(numbers, states, transformations=EVERY, calibration=Calibration(states.mean((0, 1)), (3,)), **CHOICES)
    assert [str(judgment) for judgment in found.refuted] == []
    assert any(judgment.verdict.word == "proved and survived" for judgment in found.judgments)


def test_what_is_not_claimed_of_any_number_is_indeed_false_somewhere() -> None:
    numbers = [participation_rank.after("normalize"), mean_overlap.after("center", "normalize")]
    states = cloud()
    found = audit(numbers, states, transformations=EVERY, **CHOICES)
    unclaimed = [one for one in found.judgments if one.verdict.reason is None]
    assert {one.verdict.word for one in unclaimed} == {"changes"}
    assert len(unclaimed) == 7  # gain and general on both; translation and centering on one, row scale on the other


def test_every_step_of_a_preparation_says_what_it_carries_and_each_sentence_is_true_of_rows() -> None:
    assert set(CARRIED) == set(STEPS)
    assert proof(zero_rows.after(), GeneralLinear(4.0, 0)) is not None
    assert proof(stream_norm_first.after(), TokenPermutation(0)) is None
    assert proof(stream_norm_mean.after(), GlobalScale(2.0)) is None
    assert proof(both_ways_participation_rank.after(), FeaturePermutation(0)) is not None
    assert proof(both_ways_participation_rank.after(), Orthogonal(0)) is None
    assert proof(mean_overlap.after("corpus mean", "normalize"), Translation(1.0, 0)) is not None
    assert proof(mean_overlap.after("without rogue coordinates", "normalize"), Orthogonal(0)) is None
    assert proof(algebraic_rank.after(), DiagonalGain(torch.tensor([1.0, 0.0]))) is None


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_each_transformation_says_its_group_and_its_inverse_brings_the_rows_back(one) -> None:
    rows = cloud(3)
    assert one.group
    back = one.inverse(rows).of(one.of(rows))
    torch.testing.assert_close(back, rows, atol=1e-12, rtol=1e-12)
    elsewhere = rows.mean((0, 1))
    torch.testing.assert_close(
        one.inverse(rows).along(one.along(elsewhere, rows), one.of(rows)).expand(3, 12),
        elsewhere.expand(3, 12), atol=1e-12, rtol=1e-12,
    )  # fmt: skip


def test_an_observable_without_claims_is_listed_and_still_tried() -> None:
    @observable(symbol="max", source="here")
    def largest_coordinate(configuration):
        """Largest coordinate of any token."""
        return configuration.amax((-2, -1))

    try:
        found = audit([largest_coordinate.after("normalize")], cloud(), transformations=EVERY, **CHOICES)
        assert found.without_claims == ("largest_coordinate | normalize",)
        assert found.of("largest_coordinate | normalize", "orthogonal").verdict.word == "changes"
        kept = found.of("largest_coordinate | normalize", "permutation of features").verdict
        assert kept.word == "survived" and kept.reason is None  # true, but nothing was cited
    finally:
        del OBSERVABLES["largest_coordinate"]


def test_a_singular_matrix_a_condition_number_beyond_the_dtype_and_a_missing_preparation_are_refused() -> None:
    with pytest.raises(ArgumentError, match="inverse"):
        Linear(torch.ones(3, 3))
    with pytest.raises(ArgumentError, match="square"):
        Linear(torch.ones(3, 2))
    with pytest.raises(ArgumentError, match="finite"):
        Linear(torch.full((2, 2), math.nan))
    with pytest.raises(ArgumentError, match="12 coordinates"):
        audit([participation_rank.after()], cloud(), transformations=[Linear(torch.eye(3))], **CHOICES)
    narrow = cloud().float()
    with pytest.raises(ArgumentError, match=r"below 8.39e\+06"):
        audit([participation_rank.after()], narrow, transformations=[GeneralLinear(1e7, 0)], **CHOICES)
    audit([participation_rank.after()], cloud(), transformations=[GeneralLinear(1e7, 0)], **CHOICES)  # the remedy
    with pytest.raises(ArgumentError, match="participation_rank' without one"):
        audit([participation_rank], cloud(), **CHOICES)
    with pytest.raises(UnsoundError, match="normalize"):
        audit([mean_overlap.after()], cloud(), **CHOICES)
    with pytest.raises(ArgumentError, match="finite"):
        audit([participation_rank.after()], torch.full((2, 4, 3), math.nan), **CHOICES)
    with pytest.raises(UnsoundError, match="zero"):
        DiagonalGain(torch.tensor([1.0, 0.0])).inverse(torch.eye(2))


def test_an_ill_conditioned_matrix_is_refused_for_the_type_of_the_states_and_a_wider_type_takes_it() -> None:
    steep = Linear(torch.logspace(0, 1, 12, base=1e12, dtype=torch.float64).diag(), name="steep")
    with pytest.raises(ArgumentError, match=r"`given` must have a condition number below 8.39e\+06, .* one of 1e\+12"):
        audit([participation_rank.after()], cloud().float(), transformations=[steep], **CHOICES)
    audit([participation_rank.after()], cloud(), transformations=[steep], **CHOICES)


def test_what_shares_a_name_is_refused_and_told_apart_by_another() -> None:
    number, one, other = participation_rank.after(), DiagonalGain(torch.ones(12)), DiagonalGain(torch.arange(12.0) + 1)
    with pytest.raises(ArgumentError, match=r"a name each, but 2 are called 'gain of the next norm'. Give one another"):
        audit([number], cloud(), transformations=[one, other], **CHOICES)
    with pytest.raises(
        ArgumentError, match=r"a name each, but 2 are called 'participation_rank \| as given'. Leave one"
    ):
        audit([number, number], cloud(), transformations=[other], **CHOICES)
    found = audit(
        [number], cloud(), transformations=[one, DiagonalGain(other.gain, name="steep")], witnesses=(), **CHOICES
    )
    assert [one.verdict.word for one in found.judgments] == ["survived", "changes"]


def test_nothing_to_try_is_refused_in_a_sentence() -> None:
    with pytest.raises(ArgumentError, match="`measurements` must hold at least one"):
        audit([], cloud(), **CHOICES)
    with pytest.raises(ArgumentError, match="`transformations` must hold at least one"):
        audit([participation_rank.after()], cloud(), transformations=[], **CHOICES)


def test_a_gain_with_a_zero_takes_a_direction_away_and_one_that_is_not_finite_is_refused() -> None:
    gain = DiagonalGain(torch.tensor([0.0, 1.0, 1.5, 2.0, 2.0, 1.0]), name="gain")
    found = audit([algebraic_rank.after()], cloud(dim=6), transformations=[gain], witnesses=(), **CHOICES).judgments[0]
    assert str(found) == "changes by -1 [-1, -1] (-16.7%)" and found.verdict.floor < 1e-9
    with pytest.raises(ArgumentError, match="coordinate 1 is nan"):
        DiagonalGain(torch.tensor([1.0, math.nan]))


def test_a_given_matrix_is_tried_like_the_drawn_ones() -> None:
    given = Linear(torch.diag(torch.tensor([2.0, 1.0])), name="mine")
    numbers = [participation_rank.after(), algebraic_rank.after()]
    found = audit(numbers, torch.eye(2), transformations=[given], **CHOICES)
    assert found.of(numbers[0], given).verdict.after == pytest.approx(25 / 17)
    assert found.of(numbers[1], "mine").verdict.word == "proved and survived"
    with pytest.raises(ArgumentError, match="Tried: mine"):
        found.of(numbers[0], "yours")


def test_every_pair_has_a_row_of_strict_json_with_verdict_numbers_floor_and_reason() -> None:
    numbers = [participation_rank.after(), squared_mean_direction.after("normalize")]
    rows = json.loads(json.dumps(audit(numbers, cloud(), **CHOICES).rows(), allow_nan=False))
    assert len(rows) == 2 * 9
    keys = {"measurement", "transformation", "verdict", "before", "after", "difference", "low", "high", "floor"}
    assert all(keys | {"reason", "relative", "witness", "documents"} <= set(row) for row in rows)
    assert all(row["floor"] is not None and row["documents"] == 8 for row in rows)


def test_the_printed_table_has_a_row_for_each_number_and_a_column_for_each_transformation() -> None:
    found = audit([participation_rank.after("normalize"), algebraic_rank.after()], cloud(), **CHOICES)
    text = str(found)
    for part in ("participation rank", "algebraic rank", "proved", "normalize"):
        assert part in text
    lines = text.splitlines()
    for first, second in (("row ", "scale"), ("global ", "scale"), ("general", "linear, k=4")):  # heads take two lines
        above = next(place for place, line in enumerate(lines) if first in line)
        column = lines[above].index(first)
        assert lines[above + 1][column:].startswith(second)
    assert max(len(line) for line in lines) <= 100


def test_witnesses_are_what_they_are_called() -> None:
    rows = {one.name: one.rows for one in WITNESSES}
    assert float(algebraic_rank.after()(rows["rank-deficient cloud"])) == 3
    assert float(squared_mean_direction.after("normalize")(rows["opposed pairs"])) == 0
    norms = rows["one far token"].norm(dim=-1)
    assert float(norms.max() / norms.median()) > 50
    assert float(mean_overlap.after("normalize")(rows["aligned cloud"])) > 0.95
    moved = witnessed([DiagonalGain(torch.ones(12), name="gain")], [participation_rank.after()])
    on_identity = next(one for one in moved if one.witness == "identity")
    assert (on_identity.before, on_identity.after) == (2.0, pytest.approx(25 / 17))


def test_centering_is_undone_only_by_the_mean_that_it_took() -> None:
    rows = cloud(2)
    again = Centering().inverse(rows)
    torch.testing.assert_close(again.of(Centering().of(rows)), rows)
    torch.testing.assert_close(again.inverse(rows).of(rows), Centering().of(rows))
    assert "no group" in Centering.group
    np.testing.assert_allclose(TokenPermutation(3).of(rows).sum(-2), rows.sum(-2), atol=1e-12)


def test_numbers_between_layers_are_tried_with_one_transformation_of_both_and_keep_their_claims() -> None:
    first, later = Cloud(cloud(3)), cloud(3) + 0.5 * cloud(3).roll(1, dims=-1)
    numbers = [
        against(one.after(*steps), first, "embedding") for one in (linear_cka, neighbor_overlap(k=3))
        for steps in ((), ("normalize",))
    ]  # fmt: skip
    found = audit(numbers, later, transformations=EVERY, **CHOICES)
    assert found.measurements[0] == "linear_cka_to_embedding | as given" and not found.refuted
    cka = words(found, numbers[0])
    assert {name for name, word in cka.items() if word == "proved and survived"} == {
        "orthogonal", "permutation of features", "permutation of tokens", "global scale", "translation", "centering"
    }  # fmt: skip
    assert cka["row scale"] == cka["general linear, k=4"] == "changes"
    assert words(found, numbers[1])["row scale"] == "proved and survived"


def test_a_false_claim_of_a_number_between_layers_is_refuted_by_a_pair_of_witnesses() -> None:
    @between_layers(symbol="r", source="here", claims=[Claim(Translation, "wrong on purpose")])
    def directions_gained(spectrum, other):
        """How many singular values above 1e-5 of the largest one cloud has more than the other."""
        return ((spectrum > 1e-5 * spectrum[..., :1]).sum(-1) - (other > 1e-5 * other[..., :1]).sum(-1)).double()

    try:
        asked = [against(directions_gained.after(), Cloud(cloud(3)), "embedding")]
        later = cloud(3).roll(1, dims=-1)
        alone = audit(asked, later, transformations=[Translation(1.0, 0)], witnesses=(), **CHOICES)
        assert [one.verdict.word for one in alone.judgments] == ["proved and survived"]
        (refuted,) = audit(asked, later, transformations=[Translation(1.0, 0)], **CHOICES).refuted
        assert refuted.witness is not None and refuted.witness.witness == "rank-deficient cloud and one far token"
        assert (refuted.witness.before, refuted.witness.after) == (-3.0, -2.0)
    finally:
        del BETWEEN_LAYERS["directions_gained"]


def test_a_false_claim_of_invertible_maps_is_refuted_where_the_given_matrix_hides_it() -> None:
    @observable(symbol="x", source="here", claims=[Claim(GeneralLinear, "wrong on purpose")])
    def participation_again(spectrum):
        """Participation rank."""
        return spectrum.square().sum(-1).square() / spectrum.pow(4).sum(-1)

    try:
        given = Linear(torch.diag(torch.tensor([2.0] * 11 + [1.0])), name="mine")
        rows = cloud(3)
        rows[..., -1] = 0.0  # all that the matrix does to these is to double them
        numbers = [participation_again.after(), participation_rank.after()]
        alone = audit(numbers, rows, transformations=[given], witnesses=(), **CHOICES)
        assert [one.verdict.word for one in alone.judgments] == ["proved and survived", "survived"]
        found = audit(numbers, rows, transformations=[given], **CHOICES)
        assert [one.verdict.word for one in found.judgments] == ["claim refuted", "survived"]
    finally:
        del OBSERVABLES["participation_again"]


def test_numbers_of_an_attention_map_that_see_overlaps_see_directions_only() -> None:
    rows = cloud(2, tokens=10)
    maps = torch.softmax(torch.randn(2, 3, 10, 10, generator=torch.Generator().manual_seed(2)).double(), -1).tril()
    maps = maps / maps.sum(-1, keepdim=True)
    for number in map_numbers().values():
        assert number.claims
        before = number(maps, overlaps=overlaps(rows))
        for claim in number.claims:
            one = next(t for t in EVERY if type(t) is claim.transformation)
            torch.testing.assert_close(number(maps, overlaps=overlaps(one.of(rows))), before, rtol=1e-6, atol=1e-9)
        seen = number(maps, overlaps=overlaps(EVERY[-1].of(rows)))
        assert bool(torch.equal(seen, before)) != number.needs_overlaps
