"""What the page says in sentences, answer, warnings and methods, each generated from the record's numbers."""

from __future__ import annotations

import math
from typing import Any

from armillary.estimates import MINIMUM_MEMBERS
from armillary.figures.reading import DEFAULT_TOKENS, Profile, Reading
from armillary.records.headlines import HEADLINES, OVERLAP, Headline, shown_layers
from armillary.records.methods import methods_paragraph, recipe_words
from armillary.report.doubts import doubts
from armillary.report.markup import NOT_MEASURED, Markup, counted, element, interval, join, paragraph
from armillary.terms import layer_words, measurement_words, preparation_words

__all__ = ["Facts", "answer", "courses", "flags", "methods", "opening"]

UNDEFINED_ENDS = (math.nan, math.nan, math.nan, 0)
LISTED = 12  # skipped documents named one by one


class Facts:
    """What the sentences need to know about a record: names, sizes, and its headline measurements.

    Args:
        reading: the record's reading.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        decoder = reading.provenance.get("decoder") or {}
        self.decoder: dict[str, Any] = dict(decoder)
        self.model = str(decoder.get("name", "unnamed decoder"))
        self.quantization = decoder.get("quantization")
        self.source = reading.provenance.get("documents") or {}
        self.documents = len(reading.documents)
        self.tokens = int(reading.dataset.attrs.get("tokens_per_document") or reading.dataset.sizes.get("position", 0))
        self.initial = tuple(name for name in reading.conditions if name.startswith("initial"))
        self.ablated = tuple(name for name in reading.conditions if name.startswith("ablated"))
        self.reference = "trained" if "trained" in reading.conditions else reading.conditions[0]
        self.headlines: tuple[Headline, ...] = reading.chosen(*HEADLINES)

    @property
    def seeds(self) -> str:
        """How many seeds of each initialization recipe are shown, in words; empty where there is none."""
        recipes = [name.rpartition("-seed")[0] for name in self.initial]
        if not recipes:
            return ""
        if len(recipes) == 1:
            return "one seed is shown"
        return "one seed each is shown" if len(set(recipes)) == len(recipes) else "a few seeds are shown"

    @property
    def model_words(self) -> str:
        """The model's name, with its quantization wherever it has one."""
        named = not self.quantization or str(self.quantization).partition(",")[0] in self.model
        return self.model if named else f"{self.model}, a {self.quantization} model,"

    @property
    def reference_words(self) -> str:
        """The decoder whose numbers come first, as a sentence names it."""
        if self.reference == "trained":
            return "In the trained decoder"
        return f"In the condition “{self.reading.label(self.reference)}”"

    def profile(self, headline: Headline, condition: str) -> Profile | None:
        """A headline measurement of a condition against depth."""
        where = {"tap": "block", "tokens": DEFAULT_TOKENS, "preparation": headline[1]}
        return self.reading.profile(headline[0], condition=condition, **where)

    def at(self, headline: Headline, condition: str, layer: int) -> tuple[float, float, float, int]:
        """Value, low, high, members of a headline measurement at a layer."""
        profile = self.profile(headline, condition)
        if profile is None and not self.reading.measured(headline[0], "block", DEFAULT_TOKENS, headline[1]):
            return NOT_MEASURED
        return UNDEFINED_ENDS if profile is None else profile.at(layer)

    def difference(self, headline: Headline, other: str, layer: int) -> tuple[float, float, float, int]:
        """The paired difference trained minus `other` of a headline measurement at a layer."""
        where = {"tap": "block", "tokens": DEFAULT_TOKENS, "preparation": headline[1]}
        profile = self.reading.contrast(headline[0], self.reference, other, **where)
        return UNDEFINED_ENDS if profile is None else profile.at(layer)

    def floor(self, headline: Headline, other: str, layer: int) -> float:
        """How far rounding alone moves that difference; NaN where it was not measured."""
        where = {"tap": "block", "tokens": DEFAULT_TOKENS, "preparation": headline[1]}
        return self.reading.floor(headline[0], self.reference, other, layer, **where)

    def words(self, ends: tuple[float, float, float, int]) -> Markup:
        """A number with its interval."""
        return interval(ends, self.reading.level, self.documents)

    def cell(self, ends: tuple[float, float, float, int]) -> Markup:
        """A table cell with a number and its interval."""
        return element("td", self.words(ends), class_="value")


def answer(facts: Facts) -> Markup:
    """The whole result in a few sentences, with its intervals; what was not measured is not spoken of."""
    reading = facts.reading
    layers = shown_layers(reading.layers)
    first, middle, last = layers[0], layers[-2] if len(layers) > 1 else layers[-1], layers[-1]
    said = [opening(facts), *courses(facts, (first, middle, last))]
    closing: list[Any] = []
    if facts.headlines:
        closing = [_beside(facts, middle), _signs(facts, middle), _ablations(facts, middle), _end(facts)]
    return join([paragraph(*said), *([paragraph(*closing)] if closing else [])])


def opening(facts: Facts) -> str:
    """What was measured on what, in a sentence.

    Args:
        facts: of the record.
    """
    reading = facts.reading
    conditions = counted(len(reading.conditions), "condition")
    same = ", with identical token ids in all of them" if len(reading.conditions) > 1 else ""
    return (
        f"On {counted(facts.documents, 'document')} of {facts.tokens} tokens each, {facts.model_words} was measured at "
        f"{counted(len(reading.layers), 'depth')} in {conditions}{same}. "
    )


def flags(facts: Facts) -> Markup:
    """Warnings beside the answer: a run that has not ended, what looks wrong, too few documents, and skipped ones."""
    found: list[Any] = []
    if partial := facts.reading.provenance.get("partial"):
        without = ", ".join(partial["conditions_without_numbers"])
        rest = f" No number is there yet of {without}." if without else ""
        found.append(
            f"The run has not ended: this page shows the {partial['documents']} of {partial['of']} documents that are "
            f"finished in every condition begun.{rest} The same command goes on with it."
        )
    found += doubts(facts.reading.provenance, facts.reading.dataset)
    if facts.documents < 2:
        found.append("One document has no spread over documents, so no interval is given anywhere on this page.")
    elif facts.documents < MINIMUM_MEMBERS:
        found.append(
            f"Only {facts.documents} documents: below {MINIMUM_MEMBERS} an interval may be far too wide or too narrow. "
            "Read the values, and take more documents for the intervals."
        )
    found += [str(said) for key in ("permitted", "notes") for said in facts.decoder.get(key) or ()]
    for condition, why in (facts.reading.provenance.get("rounding_not_measured") or {}).items():
        found.append(f"No rounding floor was measured in the condition “{facts.reading.label(condition)}”: {why}.")
    skipped = facts.source.get("skipped") or []
    if skipped:
        names = "; ".join(f"{item.get('title')} ({item.get('reason')})" for item in skipped[:LISTED])
        in_all = int(facts.source.get("skipped_in_all", len(skipped)))
        more = f"; {in_all - LISTED} more" if in_all > LISTED else ""
        found.append(f"Skipped: {counted(in_all, 'document')}: {names}{more}.")
    return element("div", *(paragraph(text) for text in found), class_="flag", role="note") if found else Markup("")


def methods(facts: Facts) -> Markup:
    """The methods paragraph, ready to be copied."""
    reading = facts.reading
    said = methods_paragraph(reading.study, reading.provenance, reading.dataset)
    return element("blockquote", paragraph(said), class_="methods")


def courses(facts: Facts, layers: tuple[int, ...]) -> list[Any]:
    """Each headline measurement of the reference condition through depth, one sentence each.

    Args:
        facts: of the record.
        layers: the depths that are named.
    """
    said: list[Any] = []
    for place, headline in enumerate(facts.headlines):
        path = _path(facts, headline, facts.reference, layers)
        name, preparation = measurement_words(headline[0]), preparation_words(headline[1])
        opening = f"{facts.reference_words} " if place == 0 else ""
        if headline == OVERLAP:
            subject = "two token directions of a document (rows normalized, first token left out) overlap on average by"
        else:
            subject = f"the {name} ({preparation}{', first token left out' if place == 0 else ''}) is"
        said += [_sentence(f"{opening}{subject} "), path, ". "]
    return said


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _path(facts: Facts, headline: Headline, condition: str, layers: tuple[int, ...]) -> Markup:
    steps = [
        join([facts.words(facts.at(headline, condition, layer)), f" at {_layer(layer)}"])
        for layer in dict.fromkeys(layers)
    ]
    return join([join(steps[:-1], ", "), " and ", steps[-1]]) if len(steps) > 1 else steps[0]


def _layer(layer: int) -> str:
    return f"the {layer_words(layer)}" if layer == 0 else layer_words(layer)


def _beside(facts: Facts, layer: int) -> Markup:
    """The leading measurement of every condition at one layer."""
    if len(facts.reading.conditions) < 2:
        return Markup("")
    leading = facts.headlines[0]
    parts = [
        join([f"{facts.reading.label(name)} ", facts.words(facts.at(leading, name, layer))])
        for name in (facts.reference, *(name for name in facts.reading.conditions if name != facts.reference))
    ]
    return join([_sentence(f"{measurement_words(leading[0])} at {_layer(layer)}: "), join(parts, "; "), ". "])


def _signs(facts: Facts, layer: int) -> Markup:
    """Trained minus each initialization, and what the signs say together."""
    if not facts.initial or facts.reference != "trained":
        return Markup("")
    parts, signs = [], []
    for name in facts.initial:
        ends = facts.difference(facts.headlines[0], name, layer)
        sign = direction(ends)
        signs.append(sign)
        words = {1: ", higher", -1: ", lower", 0: ", sign not resolved"}[sign] if ends[3] else ""
        parts.append(join([facts.words(ends), f" against {facts.reading.label(name)}{words}"]))
    sentence: list[Any] = ["Trained minus initial, paired by document: ", join(parts, "; "), ". "]
    if {1, -1} <= set(signs):
        sentence.append(element("strong", "The sign depends on the initialization recipe"))
        sentence.append(", so a claim about what training does here must name the recipe it is measured against. ")
    elif len(facts.initial) > 1 and len(set(signs)) == 1 and signs[0]:
        sentence.append("Both recipes give this sign. " if len(signs) == 2 else "All recipes give this sign. ")
    elif len(facts.initial) == 1:
        sentence.append("Another initialization recipe may give another sign. ")
    return join(sentence)


def _ablations(facts: Facts, layer: int) -> Markup:
    """Trained minus each decoder with a part removed."""
    if not facts.ablated or facts.reference != "trained":
        return Markup("")
    parts = [
        join([f"{facts.reading.label(name)} ", facts.words(facts.difference(facts.headlines[0], name, layer))])
        for name in facts.ablated
    ]
    return join(["Trained minus the same decoder with a part removed: ", join(parts, "; "), ". "])


def _end(facts: Facts) -> Markup:
    recipes = recipe_words(facts.decoder, facts.initial).lstrip()
    seed = f"{recipes} Of the initial conditions {facts.seeds}. " if facts.seeds else ""
    return join(
        [
            seed,
            f"Brackets are {100 * facts.reading.level:g}% intervals from resampling documents, and speak for documents "
            "like these only.",
            element("sup", Markup('<a href="#note-interval" id="back-interval">1</a>'), class_="note"),
        ]
    )


def direction(ends: tuple[float, float, float, int]) -> int:
    """The sign of a difference: 1 or -1 where the interval leaves zero out, 0 where it is not resolved."""
    _, low, high, _ = ends
    return 1 if low > 0 else -1 if high < 0 else 0
