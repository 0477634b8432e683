"""The ladder of `armillary resist`: every rung with the neighbor from which it differs in one thing, in one place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder, DecoderFacts
from armillary.models.conditions import Ablated, Initial, Trained
from armillary.studies.resistance.decoder_rungs import Real, Shuffled
from armillary.studies.resistance.idealized import Idealized
from armillary.studies.resistance.matrix_rungs import IDENTITY, NONE, Matrices
from armillary.studies.resistance.rungs import Rung
from armillary.studies.resistance.sources import GAUSSIAN, SPECTRUM, TRAINED

__all__ = ["GROUPS_OF_RUNGS", "RECIPES", "SEEDS", "chosen_rungs", "ladder"]

SEEDS = (0, 1, 2)
"""Of fresh decoders: an interval of trained minus initial resamples them too."""

EQUAL = 0.3
"""Length of the equal steps that a part of the rungs is repeated with."""

GROUPS_OF_RUNGS = {
    "idealized": "identity matrices, continuous time",
    "attention": "attention matrices alone, on the sphere",
    "mlp": "with MLPs, on the sphere",
    "equal": "the main rungs again, with equal steps",
    "decoder": "the decoder, as loaded, with parts removed, fresh, and on shuffled tokens",
}
"""Names that stand for several rungs."""

RECIPES = ("released", "library")
"""Spreads of fresh weights: what the released configuration says, and what the library fills in."""


def _named(name: str, label: str, level: int, scores: str, values: str, mlp: str = NONE, **more: str) -> Matrices:
    return Matrices(name=name, label=label, level=level, scores=scores, values=values, mlp=mlp, **more)  # type: ignore[arg-type]


ATTENTION: tuple[Rung, ...] = (
    _named("identity", "identity Q, K, V, beta 1; no norm is read", 2, IDENTITY, IDENTITY),
    _named(
        "trained-qk",
        "trained Q, K behind trained gains; identity V of the rows themselves",
        2,
        TRAINED,
        IDENTITY,
        neighbor="identity",
        change="trained Q, K and gains",
    ),
    _named(
        "trained-vo",
        "identity Q, K of the rows themselves, beta 1; trained V, O behind trained gains",
        2,
        IDENTITY,
        TRAINED,
        neighbor="identity",
        change="trained V, O and gains",
    ),
    _named(
        "trained-qkvo",
        "trained Q, K, V, O; no MLP",
        2,
        TRAINED,
        TRAINED,
        neighbor="trained-qk",
        change="trained V, O and gains",
    ),
    _named(
        "trained-qkvo-no-positions",
        "trained Q, K, V, O; no MLP, no positions",
        2,
        TRAINED,
        TRAINED,
        positions="none",
        neighbor="trained-qkvo",
        change="no positions",
    ),
    _named(
        "trained-qkvo-no-mask",
        "trained Q, K, V, O; no MLP, no mask",
        2,
        TRAINED,
        TRAINED,
        mask="full",
        neighbor="trained-qkvo",
        change="no mask",
    ),
    _named(
        "spectrum-v",
        "trained Q, K; V, O of random directions, each head's singular values kept, gains folded in",
        2,
        TRAINED,
        SPECTRUM,
        neighbor="trained-qkvo",
        change="random directions in V, O",
    ),
    _named(
        "gaussian",
        "Gaussian Q, K, V, O, standard deviations kept",
        2,
        GAUSSIAN,
        GAUSSIAN,
        neighbor="trained-qkvo",
        change="Gaussian matrices",
    ),
    _named(
        "trained-qkvo-unit-gains",
        "trained Q, K, V, O; no MLP, norms without gain",
        2,
        TRAINED,
        TRAINED,
        reading="unit gains",
        neighbor="trained-qkvo",
        change="norms without gain",
    ),
    _named(
        "gaussian-unit-gains",
        "Gaussian Q, K, V, O, standard deviations kept; norms without gain",
        2,
        GAUSSIAN,
        GAUSSIAN,
        reading="unit gains",
        neighbor="trained-qkvo-unit-gains",
        change="Gaussian matrices",
    ),
)
"""Attention matrices alone, at steps of the decoder's pace."""

MLPS: tuple[Rung, ...] = (
    _named("trained-mlp-only", "trained MLPs alone", 3, NONE, IDENTITY, TRAINED),
    _named(
        "trained-qkvo-mlp",
        "trained Q, K, V, O and MLPs",
        3,
        TRAINED,
        TRAINED,
        TRAINED,
        neighbor="trained-qkvo",
        change="trained MLPs",
    ),
    _named(
        "trained-qkvo-gaussian-mlp",
        "trained Q, K, V, O; Gaussian MLPs",
        3,
        TRAINED,
        TRAINED,
        GAUSSIAN,
        neighbor="trained-qkvo-mlp",
        change="Gaussian MLPs",
    ),
    _named(
        "identity-mlp",
        "identity Q, K, V, beta 1; trained MLPs",
        3,
        IDENTITY,
        IDENTITY,
        TRAINED,
        neighbor="identity",
        change="trained MLPs",
    ),
    _named(
        "gaussian-all",
        "Gaussian Q, K, V, O and MLPs, standard deviations kept",
        3,
        GAUSSIAN,
        GAUSSIAN,
        GAUSSIAN,
        neighbor="trained-qkvo-mlp",
        change="Gaussian matrices",
    ),
    _named(
        "unit-gains",
        "trained Q, K, V, O and MLPs, norms without gain",
        3,
        TRAINED,
        TRAINED,
        TRAINED,
        reading="unit gains",
        neighbor="trained-qkvo-mlp",
        change="norms without gain",
    ),
    _named(
        "no-norm",
        "trained Q, K, V, O and MLPs read the unit rows themselves",
        3,
        TRAINED,
        TRAINED,
        TRAINED,
        reading="no norm",
        neighbor="unit-gains",
        change="no norm",
    ),
)
"""With MLPs."""


def ladder(decoder: Decoder) -> tuple[tuple[str, Rung], ...]:
    """Every rung with the group it belongs to, the decoder itself first: its pace is what others follow.

    Args:
        decoder: Whose widths decide the betas, and whose facts the recipes.
    """
    facts = decoder.facts
    return (
        *(("decoder", one) for one in _decoder(facts)),
        *(("idealized", one) for one in _idealized(facts)),
        *(("attention", one) for one in _attention(facts)),
        *(("mlp", one) for one in _mlp(facts)),
        *(("equal", one) for one in _equal(facts)),
    )


def chosen_rungs(decoder: Decoder, names: Sequence[str] | None = None) -> tuple[tuple[Rung, ...], dict[str, str]]:
    """The rungs that were asked for and apply, the decoder first, and the reasons why others do not.

    Args:
        decoder: The decoder.
        names: Names of rungs or of groups; all if None.

    Raises:
        ArgumentError: A name that is neither.
    """
    every = ladder(decoder)
    known = {rung.name for _, rung in every}
    for name in names or ():
        if name not in known and name not in GROUPS_OF_RUNGS:
            raise ArgumentError(
                f"Argument `rungs` must name rungs or groups of them, but {name!r} is none. Groups are "
                f"{', '.join(GROUPS_OF_RUNGS)}; rungs are {', '.join(sorted(known))}."
            )
    wanted = [rung for group, rung in every if names is None or group in names or rung.name in names]
    if not any(rung.name == "trained" for rung in wanted):
        wanted.insert(0, next(rung for _, rung in every if rung.name == "trained"))
    reasons = {rung.name: why for rung in wanted if (why := rung.lacks(decoder))}
    return tuple(rung for rung in wanted if rung.name not in reasons), reasons


def _decoder(facts: DecoderFacts) -> list[Rung]:
    found: list[Rung] = [Real(condition=Trained())]
    for part, words in (("mlp", "all MLPs"), ("attention", "all attention"), ("positions", "positions")):
        found.append(Real(condition=Ablated(part), neighbor="trained", change=f"without {words}"))  # type: ignore[arg-type]
    spreads = {"released": facts.released_spread, "library": facts.library_spread}
    for recipe in RECIPES:
        if recipe == "library" and spreads["library"] == spreads["released"]:
            continue  # one recipe under two names
        for seed in SEEDS:
            found.append(Real(condition=Initial(seed, recipe), neighbor="trained", change="weights drawn fresh"))
    return [*found, Shuffled(seed=0)]


def _idealized(facts: DecoderFacts) -> list[Rung]:
    betas: dict[float, str] = {1.0: "", 4.0: "", 9.0: ""}
    for number, words in ((facts.head_dim, "sqrt of the head dimension"), (facts.width, "sqrt of the width")):
        betas.setdefault(math.sqrt(number), words)
    found: list[Rung] = []
    for clock in ("unit", "ratio"):
        for mask in ("full", "causal"):
            before = ""
            for beta, words in sorted(betas.items()):
                one = Idealized(
                    beta=beta,
                    mask=mask,
                    clock=clock,
                    words=words,
                    neighbor=before,
                    change=f"beta {beta:.4g}" if before else "",
                )
                found.append(one)
                before = one.name
    return found


def _attention(facts: DecoderFacts) -> list[Rung]:
    fresh = [
        _fresh(
            recipe,
            "qkvo",
            f"fresh Q, K, V, O ({recipe} spread), trained gains and embedding; no MLP",
            2,
            NONE,
            "trained-qkvo",
        )
        for recipe in _recipes(facts)
    ]
    return [*ATTENTION, *fresh]


def _mlp(facts: DecoderFacts) -> list[Rung]:
    fresh = [
        _fresh(
            recipe, "all", f"fresh Q, K, V, O and MLPs ({recipe} spread), trained gains and embedding", 3,
            f"initial-{recipe}-seed0", "trained-qkvo-mlp",
        )
        for recipe in _recipes(facts)
    ]  # fmt: skip
    return [*MLPS, *fresh]


def _fresh(recipe: str, what: str, label: str, level: int, mlp: str, neighbor: str) -> Matrices:
    source = f"initial-{recipe}-seed0"
    change = "fresh matrices, trained gains and embedding"
    return _named(f"{recipe}-{what}", label, level, source, source, mlp, neighbor=neighbor, change=change)


def _equal(facts: DecoderFacts) -> list[Rung]:
    """The main rungs with steps of one length: what depends on the steps shows beside what does not."""
    main: tuple[str, ...] = ("identity", "trained-qk", "trained-vo", "trained-qkvo", "spectrum-v", "gaussian")
    main += ("trained-qkvo-unit-gains", "gaussian-unit-gains")
    main += ("trained-mlp-only", "trained-qkvo-mlp", "trained-qkvo-gaussian-mlp", "gaussian-all")
    fresh = [f"{recipe}-{what}" for recipe in _recipes(facts) for what in ("qkvo", "all")]
    names = {*main, *fresh}
    both = [one for one in (*_attention(facts), *_mlp(facts)) if one.name in names]
    return [
        Matrices(
            **{
                **vars(one),
                "name": f"{one.name}-equal",
                "label": f"{one.label}; equal steps {EQUAL:g}",
                "step": "equal",
                "length": EQUAL,
                "neighbor": f"{one.neighbor}-equal" if one.neighbor in names else "",
            }
        )
        for one in both
    ]


def _recipes(facts: DecoderFacts) -> tuple[str, ...]:
    same = facts.library_spread == facts.released_spread
    return RECIPES[:1] if same else RECIPES
