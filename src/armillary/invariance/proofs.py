"""What follows for rows as given from what an observable claims of rows as prepared: a reason, or none.

A preparation step S carries a transformation T of the rows as given to one of the rows as prepared, T' with S T = T' S;
or it removes it, S T = S; or nothing is known. The order of steps matters: rows normalized and then centered may be
scaled one by one before, rows centered and then normalized may not. A number cannot change if what is left behind the
last step consists of transformations that its observable claims to be blind to.
"""

from __future__ import annotations

from dataclasses import dataclass

from armillary.observables.claims import Claim
from armillary.observables.declaration import Measurement, Preparation
from armillary.transformations.declaration import Transformation
from armillary.transformations.kinds import kinds_with
from armillary.transformations.linear import DiagonalGain, FeaturePermutation, GeneralLinear, Orthogonal
from armillary.transformations.rows import RowScale, TokenPermutation, Translation

__all__ = ["CARRIED", "Carried", "behind", "proof"]

Kind = type[Transformation]


@dataclass(frozen=True)
class Carried:
    """What a step makes of a kind of transformation.

    Args:
        words: Why, as a formula in words.
        same: Whether the transformation itself is found again behind the step.
        more: What is found besides.
    """

    words: str
    same: bool = True
    more: tuple[Kind, ...] = ()


_ROW_BY_ROW = Carried("each row is treated alike")

CARRIED: dict[str, dict[Kind, Carried]] = {
    "center": {
        GeneralLinear: Carried("the mean of rows times M is the mean times M"),
        TokenPermutation: Carried("the mean does not know the order"),
        Translation: Carried("the mean moves along and is subtracted", same=False),
    },
    "normalize": {
        Orthogonal: Carried("lengths stay"),
        GeneralLinear: Carried("lengths change, each row by a factor of its own", more=(RowScale,)),
        RowScale: Carried("a positive factor of a row is divided out", same=False),
        TokenPermutation: _ROW_BY_ROW,
    },
    "remove feature mean": {
        FeaturePermutation: Carried("the mean of coordinates does not know their order"),
        RowScale: Carried("the mean of a row's coordinates takes the row's factor"),
        Translation: Carried("the vector loses its own mean and stays one vector for all"),
        TokenPermutation: _ROW_BY_ROW,
    },
    "corpus mean": {
        GeneralLinear: Carried("the corpus mean goes along"),
        Translation: Carried("the corpus mean goes along and is subtracted", same=False),
        TokenPermutation: _ROW_BY_ROW,
    },
    "without rogue coordinates": {
        FeaturePermutation: Carried("the named coordinates go along"),
        DiagonalGain: Carried("zero times a gain is zero"),
        RowScale: Carried("zero times a factor is zero"),
        Translation: Carried("the vector loses the same coordinates and stays one vector for all"),
        TokenPermutation: _ROW_BY_ROW,
    },
}
"""Step -> kind -> what is behind it; a kind that is missing there, and all kinds that hold it: nothing is known."""


def proof(measurement: Measurement, transformation: Transformation) -> str | None:
    """Why a number cannot change under a transformation, with sources; None where nothing says so.

    Args:
        measurement: An observable after its preparation.
        transformation: Of the rows as given.

    Returns:
        A sentence for every step that the reason needs.
    """
    kinds, said = _through(measurement.preparation, transformation)
    if kinds is None:
        return None
    if not kinds:
        return "; ".join([*said, "the rows as prepared are the same"])
    claims = [_claimed(measurement.observable.claims, kind) for kind in kinds]
    if any(one is None for one in claims):
        return None
    return "; ".join([*said, *dict.fromkeys(str(one) for one in claims)])


def behind(preparation: Preparation, transformation: Transformation) -> tuple[Kind, ...] | None:
    """The kinds of transformation of the rows as prepared that one of the rows as given comes to.

    Args:
        preparation: Steps in order.
        transformation: Of the rows as given.

    Returns:
        Kinds, none if the preparation takes it away; None if nothing is known.
    """
    return _through(preparation, transformation)[0]


def _through(preparation: Preparation, transformation: Transformation) -> tuple[tuple[Kind, ...] | None, list[str]]:
    """What is behind the last step, and what was said on the way."""
    if _singular(transformation):
        return None, []
    kinds: tuple[Kind, ...] = (type(transformation),)
    said: list[str] = []
    for step in preparation.steps:
        carried = [_carried(step, kind) for kind in kinds]
        known = [one for one in carried if one is not None]
        if len(known) < len(carried):
            return None, said
        said += [f"{step}: {one.words}" for one in known]
        kept = [kind for kind, one in zip(kinds, known, strict=True) if one.same]
        kinds = tuple(dict.fromkeys([*kept, *(more for one in known for more in one.more)]))
    return kinds, said


def _carried(step: str, kind: Kind) -> Carried | None:
    table = CARRIED.get(step, {})
    return next((table[one] for one in kinds_with(kind) if one in table), None)


def _claimed(claims: tuple[Claim, ...], kind: Kind) -> Claim | None:
    return next((claim for one in kinds_with(kind) for claim in claims if claim.transformation is one), None)


def _singular(transformation: Transformation) -> bool:
    """Whether it is a gain with a zero in it: no claim for invertible maps holds then."""
    return isinstance(transformation, DiagonalGain) and bool((transformation.gain == 0).any())
