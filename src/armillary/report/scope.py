"""What exists for which tokens and taps, and what an interval can say of it, told from what the record holds."""

from __future__ import annotations

import json

from armillary.estimates import METHOD, UNPAIRED_TOKENS
from armillary.figures.reading import DEFAULT_TOKENS, Reading
from armillary.report.markup import Markup, element, listed
from armillary.report.words import Facts
from armillary.terms import TAPS, TOKENS, measurement_words

__all__ = ["scope"]

PICTURES = {
    "overlap_histogram": "overlap histograms",
    "singular_values": "spectra",
    "order_parameter_sweep": "threshold sweeps",
    "overlap_by_band": "overlap by position band",
    "mean_direction": "mean directions",
}


def scope(known: Facts) -> Markup:
    """The rules of the token sets as a list: which numbers exist where, and what is never compared."""
    reading = known.reading
    points = [
        f"After each block, every measurement exists for these token sets: {listed(list(_sets(reading)))}."
        if len(_sets(reading)) > 1
        else "",
        _other_taps(reading),
        _pictures(reading),
        _unpaired(reading),
        f"Ends of intervals ({METHOD}) are cut at the range that a number can take, such as 1 for an overlap. The true "
        "mean lies in that range, so this costs no coverage. An interval that reaches its range says little: one "
        "document far from the others makes it wide.",
    ]
    return element("ul", *(element("li", point) for point in points if point))


def _sets(reading: Reading) -> tuple[str, ...]:
    return tuple(TOKENS.get(name, name) for name in reading.options("tokens"))


def _other_taps(reading: Reading) -> str:
    """Which measurements of the directions exist at taps other than the stream after the block."""
    names, taps = [], {"block"}
    for name in map(str, reading.dataset.data_vars):
        array = reading.dataset[name]
        asked = json.loads(array.attrs.get("measured", "[]")) if "preparation" in array.dims else []
        taps |= {tap for tap, *_ in asked}
        if any(tap != "block" and preparation != "as given" for tap, _, preparation in asked):
            names.append(measurement_words(name))
    elsewhere = [TAPS[tap] for tap in reading.options("tap") if tap in TAPS and tap in taps - {"block"}]
    if not elsewhere:
        return ""
    where = f"At the other taps ({'; '.join(elsewhere)})"
    return f"{where} there are only {listed(names)}." if names else f"{where} no measurement of directions was taken."


def _unpaired(reading: Reading) -> str:
    """Why no difference is taken on a token set that each state chooses for itself."""
    sets = [TOKENS.get(name, name) for name in reading.options("tokens") if name in UNPAIRED_TOKENS]
    if not sets:
        return ""
    return (
        "Which tokens are massive is found anew at every layer, in every document and condition, so the set "
        f"“{listed(sets)}” differs between layers and between conditions. Its numbers stand beside the others; no "
        "difference is ever taken on it."
    )


def _pictures(reading: Reading) -> str:
    """Which whole distributions were kept for one token set alone."""
    alone = [words for name, words in PICTURES.items() if reading.attribute(name, "tokens") == DEFAULT_TOKENS]
    between = any("compared_with" in reading.dataset[name].attrs for name in reading.dataset.data_vars)
    alone += ["numbers between layers"] * between
    return f"Kept {TOKENS[DEFAULT_TOKENS]} only, after each block: {listed(alone)}." if alone else ""
