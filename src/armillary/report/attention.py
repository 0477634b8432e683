"""What attention numbers say in a sentence, and what they do not show."""

from __future__ import annotations

import numpy as np

from armillary.report.markup import Markup, counted, element, join, paragraph
from armillary.report.words import Facts
from armillary.terms import layer_words

__all__ = ["attention"]

FIRST = "attention_first_mass"
HALF = 0.5


def attention(facts: Facts) -> Markup:
    """Where the first token draws most attention, and the fine print of attention; empty where none was measured."""
    if not any(str(name).startswith("attention_") for name in facts.reading.dataset.data_vars):
        return Markup("")
    points = [
        (
            "A weight is not an influence.",
            "What a token passes on is its weight times its value. A first token that draws most of the attention may "
            "hand on next to nothing, so its mass can mean that a head rests.",
        ),
        (
            "Means over rows mix positions.",
            "Early rows have little to choose from. Entropy, distance and mass depend on the length of the documents; "
            "compare them at one length only.",
        ),
        (
            "Effective beta is sharpness, not agreement.",
            "It matches the entropy of a map, whomever the head attends to; the slope tells whether it prefers tokens "
            "that agree. Both refer to overlaps of the whole stream before the block, while a head compares its own "
            "projections of it, and positions too.",
        ),
        (
            "Under a causal mask asymmetry is mostly the mask.",
            "No token can look ahead, so the antisymmetric share says how little a map keeps on its diagonal. Whether "
            "the scores are symmetric cannot be read from it.",
        ),
        (
            "Heads have no order.",
            "Head 3 of one block has nothing to do with head 3 of another; a mean over heads may describe no head.",
        ),
    ]
    fine = element("ul", *(element("li", element("strong", head), " ", text) for head, text in points), class_="limits")
    return join([_sinks(facts), fine])


def _sinks(facts: Facts) -> Markup:
    """How much attention the first token draws in the reference condition, where most, and in how many heads."""
    profile = facts.reading.profile(f"{FIRST}_head_mean", condition=facts.reference)
    if profile is None:
        return Markup("")
    place = int(np.nanargmax(profile.value))
    layer = int(profile.x[place])
    said = [
        f"{facts.reference_words} the first token draws most attention in {layer_words(layer)}, ",
        facts.words(profile.at(layer)),
        " of the mass of later rows, mean over heads (a layer that was chosen as the largest)",
    ]
    if FIRST in facts.reading.dataset:
        each = facts.reading.dataset[FIRST].sel(condition=facts.reference).mean("document", skipna=True).values
        each = each[np.isfinite(each)]
        said.append(f"; {int((each > HALF).sum())} of {counted(each.size, 'head')} give it more than half")
    return paragraph(*said, ".")
