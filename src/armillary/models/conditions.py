"""The states a decoder is measured in: trained, fresh, one component removed; each proves what it changed.

A condition is applied for the length of a `with` block. It yields a decoder in evaluation mode and a proof: which
tensors differ from the trained ones, and that no other does. A condition that cannot prove this raises `CheckMissed`,
for a baseline that still holds trained weights, or an ablation that did not happen, looks like a finding. Weights are
put back exactly, whatever ends the block.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from armillary.errors import ArgumentError
from armillary.models.anatomy import Decoder, DecoderFacts, weight_hash
from armillary.models.freshness import fresh_model, freshness
from armillary.models.positions import positions_silenced
from armillary.models.proofs import ConditionProof, evaluation, fingerprints, manner, require_same
from armillary.models.removal import cuts_of, removed, require_silent

__all__ = [
    "PARTS",
    "Ablated",
    "Applied",
    "Condition",
    "ConditionProof",
    "Initial",
    "Trained",
    "fingerprints",
    "parse_condition",
]

PARTS = ("attention", "mlp", "positions", "head")
"""What an ablation can remove."""

MOST_BLOCKS = 10_000
"""Blocks counted beyond this are a slip of the hand, and their range is never written out."""

Part = Literal["attention", "mlp", "positions", "head"]

_ACCEPTED = (
    "trained; initial; initial-RECIPE-seedSEED with RECIPE = released, library or a positive spread such as 0.02, and "
    "SEED from 0; ablated-attention, ablated-mlp, ablated-positions; ablated-mlp-3-5 or ablated-attention-1+4 for some "
    f"blocks; ablated-head-BLOCK-HEAD; blocks from 1 (to {MOST_BLOCKS}) and heads from 0; or short, with colons, as "
    "initial:0.02:1"
)


@dataclass(frozen=True)
class Applied:
    """A decoder while a condition holds, and the proof that it holds."""

    decoder: Decoder
    proof: ConditionProof


@dataclass(frozen=True)
class Trained:
    """The decoder as it was loaded."""

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        return "trained"

    @property
    def label(self) -> str:
        """The condition in words."""
        return "trained"

    def check_fits(self, decoder: Decoder) -> None:
        """Every decoder is in this state already."""

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields the decoder in evaluation mode; afterwards its weights must be the same as before.

        Raises:
            CheckMissed: Something changed a tensor meanwhile.
        """
        with evaluation(decoder.model):
            before = fingerprints(decoder.model)
            sentence = f"weights as loaded: none of {len(before)} tensors changed; {manner(decoder.model)}"
            yield Applied(decoder, ConditionProof((), len(before), {}, sentence))
            require_same(before, decoder.model, "while the trained decoder was measured")


@dataclass(frozen=True)
class Initial:
    """A fresh model built from the configuration only, never from the trained weights.

    Matrices are drawn from N(0, spread^2) by the model family's own rule (GPT-2 divides the spread of the output
    projections by sqrt(2 layers)). The draw happens on the CPU in the decoder's own dtype, so one seed means one model
    on every device; the global random state is left alone.

    Args:
        seed: Of the draw, from 0 up.
        recipe: "released" for the spread of the released configuration, "library" for the one that the library fills
            in where a file says nothing, or a number. The sign of "trained minus initial" can depend on it.
    """

    seed: int
    recipe: str | float = "released"

    def __post_init__(self) -> None:
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise ArgumentError(f"Argument `seed` must be a whole number from 0 up, but is {self.seed!r}. Give seed=0.")
        number = isinstance(self.recipe, (int, float)) and not isinstance(self.recipe, bool)
        if self.recipe not in ("released", "library") and not (number and 0 < float(self.recipe) < math.inf):
            raise ArgumentError(
                'Argument `recipe` must be "released", "library" or a positive spread, '
                f"but it is {self.recipe!r}. Give 0.02, for instance."
            )

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        recipe = self.recipe if isinstance(self.recipe, str) else repr(float(self.recipe))
        return f"initial-{recipe}-seed{self.seed}"

    @property
    def label(self) -> str:
        """The condition in words."""
        recipe = f"{self.recipe} recipe" if isinstance(self.recipe, str) else f"spread {self.recipe:g}"
        return f"initial, {recipe}, seed {self.seed}"

    def spread(self, facts: DecoderFacts) -> float:
        """The number that the recipe stands for with this decoder.

        Raises:
            ArgumentError: The released configuration's spread is not known.
        """
        if not isinstance(self.recipe, str):
            return float(self.recipe)
        spread = facts.released_spread if self.recipe == "released" else facts.library_spread
        if spread is None:
            raise ArgumentError(
                f'Argument `recipe` must be a known spread, but the "{self.recipe}" one of {facts.name} is not known. '
                f"{'Give recipe=' + chr(34) + 'library' + chr(34) if self.recipe == 'released' else 'Give 0.02'} "
                "or the number that its configuration states."
            )
        return float(spread)

    def check_fits(self, decoder: Decoder) -> None:
        """Raises ArgumentError if the recipe's spread is not known for this decoder."""
        self.spread(decoder.facts)

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields a decoder around the fresh model: same dtype, device and attention, evaluation mode.

        Raises:
            ArgumentError: The recipe's spread is not known.
            CheckMissed: A tensor is still the trained one, a tie is lost, or the spread did not arrive.
        """
        spread = self.spread(decoder.facts)
        fresh = fresh_model(decoder.model, spread=spread, seed=self.seed, field=decoder.family.spread)
        proof = freshness(decoder.model, fresh, spread=spread, layers=decoder.facts.layers, origin=self.label)
        facts = dataclasses.replace(decoder.facts, quantization=None, weight_hash=weight_hash(fresh))
        yield Applied(dataclasses.replace(decoder, model=fresh, facts=facts), proof)


@dataclass(frozen=True)
class Ablated:
    """The trained decoder with one component removed: zeros where it is written into the stream.

    Attention and MLP: the output projection (weight and bias) is zero, in a mixture that of every expert, so the
    sublayer adds nothing. Head: its columns of the output projection are zero; its query, key and value are
    computed and thrown away. Positions: all rotary frequencies are zero (no rotation is left), or the learned
    position vectors are, or the attention is called without its alibi; a sliding window stays.

    Args:
        part: "attention", "mlp", "positions" or "head".
        layers: Blocks, counted from 1 as in "layer l is the stream after block l"; None means all. Exactly one for a
            head, none for positions, which belong to the whole decoder.
        head: Counted from 0; for part "head" only.
    """

    part: Part
    layers: tuple[int, ...] | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ArgumentError(f"Argument `part` must be one of {', '.join(PARTS)}, but is {self.part!r}. Name one.")
        object.__setattr__(self, "layers", _blocks(self.layers))
        if self.part == "positions" and self.layers is not None:
            raise ArgumentError(
                "Argument `layers` must be left out for positions, which belong to the whole decoder, "
                f"but it is {self.layers}. Write Ablated('positions')."
            )
        if self.part == "head":
            if self.layers is None or len(self.layers) != 1 or not _is_whole(self.head) or int(self.head or 0) < 0:
                raise ArgumentError(
                    "Arguments `layers` and `head` must name one block from 1 and one head from 0, "
                    f"but they are {self.layers} and {self.head!r}. Write Ablated('head', layers=(16,), head=0)."
                )
        elif self.head is not None:
            raise ArgumentError(
                f"Argument `head` must be left out for part {self.part!r}, but it is {self.head!r}. Use part 'head'."
            )

    @property
    def name(self) -> str:
        """Short name, the coordinate in a record."""
        blocks = "" if self.layers is None else f"-{_span(self.layers)}"
        return f"ablated-{self.part}{blocks}" + ("" if self.head is None else f"-{self.head}")

    @property
    def label(self) -> str:
        """The condition in words."""
        what = {"mlp": "MLP", "head": f"head {self.head}"}.get(self.part, self.part)
        if self.layers is None:
            return f"{what} removed" if self.part == "positions" else f"{what} removed in every block"
        return f"{what} removed in block{'s' if len(self.layers) > 1 else ''} {_span(self.layers).replace('+', ', ')}"

    def check_fits(self, decoder: Decoder) -> None:
        """Raises ArgumentError if the decoder has no such block or head, UnsupportedModelError if no such part."""
        if self.part != "positions" or decoder.family.position_argument is None:
            cuts_of(decoder, self.part, layers=self.layers, head=self.head)

    @contextmanager
    def applied(self, decoder: Decoder) -> Iterator[Applied]:
        """Yields the same decoder with the part removed, and puts every weight back, whatever ends the block.

        Raises:
            ArgumentError: The decoder has no such block or head.
            CheckMissed: Another tensor changed, nothing changed, or the weights afterwards are not those before.
        """
        model, argument = decoder.model, decoder.family.position_argument
        if self.part == "positions" and argument is not None:
            with evaluation(model), positions_silenced(decoder, argument, label=self.label) as proof:
                yield Applied(decoder, proof)
            return
        cuts = cuts_of(decoder, self.part, layers=self.layers, head=self.head)
        with evaluation(model), removed(model, cuts, name=self.name, label=self.label) as proof:
            if self.part in ("attention", "mlp"):
                require_silent(decoder, self.part, self.layers, self.name)
                sublayers = "all" if self.layers is None else str(len(self.layers))
                proof = dataclasses.replace(proof, sentence=f"{proof.sentence}; {sublayers} add exactly zero")
            yield Applied(decoder, proof)


Condition = Trained | Initial | Ablated


def parse_condition(text: str) -> Condition:
    """The condition that a short text names, as in a record or on the command line.

    Args:
        text: Its name in a record ("initial-library-seed0", "ablated-mlp-3-5"), or the same with colons: "trained",
            "initial", "initial:library:0", "initial:0.01:3", "ablated:mlp", "ablated:mlp:3-5",
            "ablated:attention:1+4", "ablated:head:16:0".

    Returns:
        The condition.

    Raises:
        ArgumentError: For any other text; the message lists the accepted forms.

    Example:
        >>> parse_condition("initial:library:3").name
        'initial-library-seed3'
        >>> parse_condition("ablated:mlp:3-5").label
        'MLP removed in blocks 3-5'
    """
    kind, *rest = _with_colons(text.strip()).split(":")
    try:
        match kind, rest:
            case "trained", []:
                return Trained()
            case "initial", [] | [_] | [_, _]:
                recipe = rest[0] if rest else "released"
                seed = int(rest[1]) if len(rest) == 2 else 0
                return Initial(seed, recipe if recipe in ("released", "library") else float(recipe))
            case "ablated", ["head", block, head]:
                return Ablated("head", (int(block),), int(head))
            case "ablated", [("attention" | "mlp" | "positions") as part]:
                return Ablated(part)
            case "ablated", [("attention" | "mlp") as part, blocks]:
                return Ablated(part, _parsed_blocks(blocks))
    except ValueError:  # a number that is none, or one that its condition refuses: the accepted forms give the ranges
        pass
    raise ArgumentError(
        f"Argument `condition` must name a state of the decoder, but is {text!r}. Accepted: {_ACCEPTED}."
    )


def _with_colons(text: str) -> str:
    """A condition's name in a record in the form with colons; other text stays as it is."""
    named = re.fullmatch(r"(initial)-(.+)-seed(\d+)|(ablated)-(head)-(\d+)-(\d+)|(ablated)-([a-z]+)(?:-(.+))?", text)
    return text if named is None else ":".join(part for part in named.groups() if part)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _blocks(layers: Any) -> tuple[int, ...] | None:
    if layers is None:
        return None
    given = tuple(layers) if isinstance(layers, Iterable) and not isinstance(layers, str) else (layers,)
    if not given or not all(_is_whole(layer) and layer >= 1 for layer in given):
        raise ArgumentError(
            f"Argument `layers` must be blocks counted from 1, but is {layers!r}. Write layers=(3, 4), or None for all."
        )
    return tuple(sorted(set(given)))


def _span(layers: tuple[int, ...]) -> str:
    """Blocks in short: (3, 4, 5, 9) is "3-5+9"."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return "+".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _parsed_blocks(text: str) -> tuple[int, ...]:
    blocks: list[int] = []
    for run in text.split("+"):
        first, _, last = run.partition("-")
        if int(last or first) > MOST_BLOCKS:
            raise ValueError(f"block {int(last or first)} is beyond {MOST_BLOCKS}")
        blocks += range(int(first), int(last or first) + 1)
    return tuple(blocks)
