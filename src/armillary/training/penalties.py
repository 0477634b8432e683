"""The penalties: functions of token directions that keep them apart, each with its reference values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from armillary.errors import ArgumentError
from armillary.training.pair_sums import log_mean_exp, mean_square_above, nearest_squared_distance, squared_overlaps
from armillary.training.penalty import PENALTIES, Penalty, penalty
from armillary.training.rows import Rows
from armillary.training.targets import Target

__all__ = [
    "PENALTIES",
    "covariance_penalty",
    "koleo_penalty",
    "mean_direction_penalty",
    "overlap_ceiling_penalty",
    "participation_rank_penalty",
    "target_overlap_penalty",
    "uniformity_penalty",
    "variance_penalty",
]

SMOOTH = "its gradient is zero there: a smooth symmetric term does not leave exact consensus by itself"


@penalty
def uniformity_penalty(*, beta: float) -> Penalty:
    """The potential of the dynamics: log of the mean of e^{beta (c_ij - 1)} over pairs i != j.

    At beta = 2t it is the uniformity loss log E e^{-t |x_i - x_j|^2}; without the pairs i = j it is log Phi but for
    constants. Uniform directions have log 0F1(; d/2; beta^2 / 4) - beta (d = 3, beta = 4: -2.07978; d = 128:
    -3.93753). For n <= d + 1 rows it is least where every overlap is -1/(n-1): -beta n / (n - 1). For beta well below
    sqrt(d) it sees little more than the mean direction; larger beta sees near neighbors.

    Args:
        beta: Inverse temperature, positive.

    Source:
        Wang & Isola 2020; Geshkovski et al. 2023.
    """
    _require("beta", beta, beta > 0, "be positive", "Write beta=4.0")
    return Penalty(
        name="uniformity",
        definition="log of the mean of exp(beta (c_ij - 1)) over ordered pairs i != j",
        source="Wang & Isola 2020; Geshkovski et al. 2023",
        at_consensus=f"0, its largest value; {SMOOTH}",
        function=lambda rows: log_mean_exp(rows, (beta,))[:, 0],
        parameters=(("beta", float(beta)),),
    )


@penalty
def mean_direction_penalty() -> Penalty:
    """Squared length of the mean of the unit rows: 1 at consensus, 0 where directions balance, in O(T d).

    It takes a shared offset away and leaves the rest: opposed groups have mean zero and rank one.

    Source:
        The identity |x_bar|^2 = mean of c_ij over all i, j.
    """

    def squared(rows: Rows) -> Tensor:
        return (rows.rows.sum(-2) / rows.counts[:, None]).square().sum(-1)

    return Penalty(
        name="mean_direction",
        definition="squared length of the mean of the rows",
        source="identity with the mean of c_ij over all i, j",
        at_consensus=f"1, its largest value; {SMOOTH}",
        function=squared,
    )


@penalty
def overlap_ceiling_penalty(*, ceiling: float) -> Penalty:
    """Mean over pairs i != j of max(0, c_ij - ceiling)^2: nothing where no pair is nearer than the ceiling.

    Args:
        ceiling: Overlap within [-1, 1) up to which a pair costs nothing.

    Source:
        Zhang et al. 2017 (spread-out regularization), with a hinge.
    """
    _require("ceiling", ceiling, -1 <= ceiling < 1, "lie within [-1, 1)", "Write ceiling=0.5")
    return Penalty(
        name="overlap_ceiling",
        definition="mean over ordered pairs i != j of max(0, c_ij - ceiling)^2",
        source="Zhang et al. 2017, with a hinge",
        at_consensus=f"(1 - ceiling)^2, its largest value; {SMOOTH}",
        function=lambda rows: mean_square_above(rows, ceiling),
        parameters=(("ceiling", float(ceiling)),),
    )


@penalty
def participation_rank_penalty() -> Penalty:
    """Minus the logarithm of the participation rank R = (tr G)^2 / ||G||_F^2, by Frobenius norms and no decomposition.

    0 where all rows agree (R = 1), -log T for orthonormal rows, -log d for a cloud that fills d dimensions evenly.

    Source:
        The participation ratio of the spectrum of the Gram matrix.
    """

    def minus_log(rows: Rows) -> Tensor:
        trace = rows.rows.square().sum((-2, -1))
        return torch.log(squared_overlaps(rows)) - 2 * torch.log(trace)

    return Penalty(
        name="participation_rank",
        definition="-log of (sum of squared singular values)^2 / sum of their fourth powers, by Frobenius norms",
        source="participation ratio of the spectrum, without a decomposition",
        at_consensus=f"0, its largest value; {SMOOTH}",
        function=minus_log,
    )


@penalty
def koleo_penalty(*, softening: float) -> Penalty:
    """Minus the mean of log sqrt(r_i^2 + softening^2), r_i the distance of a unit row to the nearest other one.

    Without softening duplicates are infinitely bad and have no gradient; with it their value is -log softening and
    their gradient zero. A row's gradient is at most 1 / (2 T softening): choose it not too small.

    Args:
        softening: Distance below which rows count as one, within (0, 2).

    Source:
        Sablayrolles et al. 2019 (Kozachenko-Leonenko entropy).
    """
    _require("softening", softening, 0 < softening < 2, "lie between 0 and 2", "Write softening=0.01")

    def entropy(rows: Rows) -> Tensor:
        squared = nearest_squared_distance(rows)
        if rows.kept is not None:
            squared = torch.where(rows.kept, squared, 0)
        return -rows.mean(0.5 * torch.log(squared + softening**2))

    return Penalty(
        name="koleo",
        definition="-mean of log sqrt(r^2 + softening^2), r the distance to the nearest other row",
        source="Sablayrolles et al. 2019",
        at_consensus="-log softening, its largest value; its gradient is zero at duplicates",
        function=entropy,
        parameters=(("softening", float(softening)),),
    )


@penalty
def variance_penalty(*, target: float) -> Penalty:
    """Mean over coordinates of max(0, target - s_k), s_k the standard deviation of a coordinate in isotropic units.

    s_k = sqrt(d Var(u_k) + 1e-4): about 1 in every coordinate of an isotropic cloud of unit rows, 0.01 at consensus.

    Args:
        target: Standard deviation up to which a coordinate costs something, positive.

    Source:
        Bardes, Ponce & LeCun 2022 (VICReg), on unit rows.
    """
    _require("target", target, target > 0, "be positive", "Write target=1.0")

    def hinge(rows: Rows) -> Tensor:
        spread = torch.sqrt(rows.dim * _centered(rows).square().sum(-2) / (rows.counts[:, None] - 1) + 1e-4)
        return torch.relu(target - spread).mean(-1)

    return Penalty(
        name="variance",
        definition="mean over coordinates of max(0, target - sqrt(d Var + 1e-4))",
        source="Bardes, Ponce & LeCun 2022, on unit rows",
        at_consensus=f"target - 0.01, its largest value; {SMOOTH}",
        function=hinge,
        parameters=(("target", float(target)),),
    )


@penalty
def covariance_penalty() -> Penalty:
    """Sum over k != l of (d Cov(u_k, u_l))^2, divided by d: coordinates that move together.

    Its least value is 0, which consensus has too: use it beside `variance_penalty`.

    Source:
        Bardes, Ponce & LeCun 2022 (VICReg), on unit rows.
    """

    def off_diagonal(rows: Rows) -> Tensor:
        about = _centered(rows)
        whole = squared_overlaps(Rows(about, rows.kept, rows.counts))
        diagonal = about.square().sum(-2).square().sum(-1)
        return rows.dim * (whole - diagonal) / (rows.counts - 1).square()

    return Penalty(
        name="covariance",
        definition="(1/d) sum over k != l of (d Cov(u_k, u_l))^2",
        source="Bardes, Ponce & LeCun 2022, on unit rows",
        at_consensus="0, its least value: it does not keep tokens apart alone",
        function=off_diagonal,
    )


@penalty
def target_overlap_penalty(*, target: Target, betas: Sequence[float]) -> Penalty:
    """Mean over betas of (l - l*)^2, l = log mean of e^{beta (c - 1)} over pairs i != j and l* that of a target.

    The overlaps' distribution is matched through its exponential averages, which need no sorting of pairs: at as many
    betas as are named. 0 where all of them agree.

    Args:
        target: `IsotropicTarget()`, `GroupsTarget(k, across)`, `RingTarget()`, or anything with their `log_mean_exp`.
        betas: Where the averages are compared; not zero. Small ones see the mean, large ones near pairs, negative ones
            opposed pairs.

    Source:
        Cramer-Wold and moment matching; Wang & Isola 2020 is the case of one beta and no target.
    """
    chosen = tuple(float(beta) for beta in betas)
    _require("betas", betas, bool(chosen) and all(chosen), "hold numbers other than 0", "Write betas=(1, 4, 16)")

    def distance(rows: Rows) -> Tensor:
        found = log_mean_exp(rows, chosen)
        aim = [[target.log_mean_exp(b, tokens=float(n), dim=rows.dim) for b in chosen] for n in rows.counts.tolist()]
        return (found - found.new_tensor(aim)).square().mean(-1)

    return Penalty(
        name="target_overlap",
        definition="mean over beta of (log mean exp(beta (c_ij - 1)) - the same of the target)^2, pairs i != j",
        source="moment matching",
        at_consensus=f"mean of the squares of the target's logarithms; {SMOOTH}",
        function=distance,
        parameters=(("target", target), ("betas", chosen)),
    )


def _centered(rows: Rows) -> Tensor:
    about = rows.rows - rows.rows.sum(-2, keepdim=True) / rows.counts[:, None, None]
    return about if rows.kept is None else torch.where(rows.kept[..., None], about, 0)


def _require(name: str, value: object, fits: bool, must: str, remedy: str) -> None:
    numbers = value if isinstance(value, Sequence) else [value]
    if not fits or not all(isinstance(one, int | float) and math.isfinite(one) for one in numbers):
        raise ArgumentError(f"Argument `{name}` must {must}, but it is {value}. {remedy}.")
