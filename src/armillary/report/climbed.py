"""The page of a ladder: the verdict in words, the ladder with its contrasts, the budget, and paths of tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armillary.errors import ArmillaryError, UnsoundError
from armillary.estimates import METHOD, MINIMUM_MEMBERS, Estimate
from armillary.figures.ladder_reading import LadderReading
from armillary.figures.registry import drawings
from armillary.report.markup import Markup, element, facts, interval, join, paragraph, table
from armillary.report.provenance import every_choice, flattened
from armillary.report.template import NOSCRIPT, assembled, laid_out, with_answer
from armillary.studies.resistance.budget import COUNTED
from armillary.studies.resistance.verdict import (
    VIEWS,
    Finding,
    difference,
    failed_rungs,
    trained_minus_initial,
    verdict,
)
from armillary.terms import CALIBRATED, LONGEST_STEP

__all__ = ["ladder_page"]

MINORITY, TWO_POINTS = 0.25, 0.8
"""When tokens are called bipolar along an axis."""

REACHED = 0.01
"""How near, relatively, the realized angle must come to the wanted one to count as reached."""

Content = Callable[[LadderReading], Markup]

SECTIONS: tuple[tuple[str, str, str, tuple[str | Content, ...]], ...] = (
    ("verdict", "The verdict, finding by finding", "Verdict", (lambda reading: _findings(reading),)),
    (
        "ladder",
        "The ladder",
        "Ladder",
        ("ladder", lambda reading: _contrasts(reading), lambda reading: _steps(reading)),
    ),
    ("budget", "The clustering budget", "Budget", ("budget_bars", "budget_sums", lambda reading: _totals(reading))),
    ("initial", "Trained minus initial", "Initial", (lambda reading: _initial(reading),)),
    (
        "heads",
        "Matrices on trial",
        "Heads",
        (
            "head_maps",
            "head_traces",
            lambda reading: _heads(reading),
            "heads_at_work",
            lambda reading: _bipolar(reading),
        ),
    ),
    ("paths", "Representation drift", "Drift", ("token_paths", "paths")),
    ("dimension", "Dimension", "Dimension", ("projections", lambda reading: _dimension(reading))),
    ("left-out", "Rungs that do not apply, or failed", "Left out", (lambda reading: _left_out(reading),)),
    ("limits", "What these numbers do not show", "Limits", (lambda reading: _limits(reading),)),
    ("methods", "Methods", "Methods", (lambda reading: _methods(reading), lambda reading: _definitions(reading))),
    ("provenance", "Provenance", "Provenance", (lambda reading: _provenance(reading),)),
)


def ladder_page(reading: LadderReading) -> str:
    """The page as HTML.

    Args:
        reading: the record's reading.
    """
    drawn = drawings(reading)
    placed = {item for *_, items in SECTIONS for item in items if isinstance(item, str)}
    further = ("further", "Further figures", "Further", tuple(name for name in drawn if name not in placed))
    sections, links = laid_out(
        (anchor, title, short, [drawn.get(item) if isinstance(item, str) else item(reading) for item in items])
        for anchor, title, short, items in (*SECTIONS[:-4], further, *SECTIONS[-4:])
    )
    contents = with_answer(links)
    name = str(reading.study["model"]["name"])
    return assembled(
        f"Does training resist clustering: {name}", join([_head(reading, name), sections]), contents, drawn
    )


def _head(reading: LadderReading, name: str) -> Markup:
    header = element(
        "header",
        element("p", "Resistance report · from identity matrices to the decoder", class_="kind"),
        element("h1", f"Does training resist clustering? {name}"),
        element(
            "p",
            f"{len(reading.documents)} documents of {reading.dataset.attrs['tokens_per_document']} tokens, "
            f"{len(reading.conditions)} rungs",
            class_="model",
        ),
    )
    said = [
        paragraph(
            element("strong", one.question), " ", _sentence(one), " ", element("small", f"Not shown: {one.not_shown}")
        )
        for one in _first(reading)
    ]
    content = element("div", *said, class_="answer")
    return join([header, element("section", content, _flag(reading), NOSCRIPT, id="answer")])


def _first(reading: LadderReading) -> list[Finding]:
    """The findings that the page begins with."""
    wanted = ("budget of attention", "budget of mlp", "all MLPs removed", "trained minus initial")
    return [one for one in verdict(reading.record) if any(one.name.startswith(name) for name in wanted)]


def _sentence(one: Finding) -> Markup:
    if one.estimate is None:
        return join([one.shows])
    return join([one.shows, " ", _number(one.estimate), "."])


def _number(one: Estimate) -> Markup:
    return interval((one.value, one.low, one.high, one.members), one.level)


def _flag(reading: LadderReading) -> Markup:
    if len(reading.documents) >= MINIMUM_MEMBERS:
        return Markup("")
    words = (
        f"Only {len(reading.documents)} documents: below {MINIMUM_MEMBERS} an interval may be far too wide or too "
        "narrow. Measure more before you quote it."
    )
    return element("div", paragraph(words), class_="flag", role="note")


def _findings(reading: LadderReading) -> Markup:
    rows = [
        [one.question, one.answer, _sentence(one), f"Not shown: {one.not_shown}"] for one in verdict(reading.record)
    ]
    words = (
        "Every sentence is made from the record. “Not resolved” stands where the interval reaches across zero or is "
        "not bounded; “alike” where the whole interval lies within 0.05 of zero. Numbers are mean overlaps, first "
        "token left out, rows normalized; every one stands with and without rogue coordinates."
    )
    return join([paragraph(words), table("Findings.", ["question", "answer", "shown", "not shown"], rows)])


def _contrasts(reading: LadderReading) -> Markup:
    """Every rung minus its neighbor at three depths, with and without rogue coordinates."""
    depths, failed = _depths(reading), failed_rungs(reading.record)
    tables = []
    for number, tail in VIEWS:
        rows = []
        for name in reading.conditions:
            neighbor = str(reading.rungs[name]["neighbor"])
            if not neighbor or neighbor not in reading.conditions or {name, neighbor} & set(failed):
                continue
            cells = []
            for layer in depths:
                try:
                    cells.append(_number(difference(reading.record, name, neighbor, layer, number)))
                except ArmillaryError:
                    cells.append(Markup('<span class="undefined">undefined</span>'))
            what = f"{reading.rungs[name]['change']} (minus {neighbor})"
            rows.append([f"{reading.label(name)} ({name})", what, *cells])
        if rows:
            heads = ["rung", "what differs from its neighbor", *(f"block {layer}" for layer in depths)]
            caption = (
                "Each rung minus its neighbor, paired by document: mean overlap, rows normalized, first token left "
                f"out{tail}."
            )
            tables.append(table(caption, heads, rows))
    return join(tables)


def _steps(reading: LadderReading) -> Markup:
    """Which angle each sublayer's step should turn tokens by, and which it does."""
    if "angle_wanted" not in reading.dataset:
        return Markup("")
    data = reading.dataset[list(CALIBRATED)].isel(document=0)
    rows, missed = [], 0
    for name in reading.conditions:
        for tap, part in (("mid", "attention"), ("block", "MLP")):
            for layer in reading.layers:
                here = data.sel(condition=name, tap=tap, layer=layer)
                length, wanted, realized = (float(here[one]) for one in CALIBRATED)
                if not np.isfinite(wanted):
                    continue
                short = realized < wanted * (1 - REACHED)
                missed += short
                said = "not reachable" if short else ""
                cells = [f"{wanted:.3f}", f"{realized:.3f}", f"{length:.3g}", said]
                rows.append([name, f"{part} {layer}", *cells])
    if not rows:
        return Markup("")
    words = (
        f"Steps calibrated by angle: {len(rows) - missed} of {len(rows)} sublayers turn tokens by the decoder's own "
        f"mean angle there within {REACHED:.0%}. Where no step of up to {LONGEST_STEP:g} times the row reaches that "
        "angle, since what the sublayer proposes lies nearer to the tokens, that longest step is made: not reachable."
    )
    heads = ["rung", "sublayer", "wanted angle", "realized angle", "step length", ""]
    caption = "Wanted and realized mean angle, radians, on the calibration documents."
    inner = table(caption, heads, rows)
    return join([paragraph(words), element("details", element("summary", "Every step"), inner)])


def _totals(reading: LadderReading) -> Markup:
    """Summed shares of every rung that has both sublayers."""
    rows = []
    for name in reading.conditions:
        for measurement, preparation, tokens, words in COUNTED:
            budget = reading.budget(name, measurement, preparation, tokens)
            if budget is None or not any((budget.shares[part] != 0).any() for part in ("attention", "mlp")):
                continue
            cells = []
            for part in ("attention", "mlp"):
                try:
                    total, (up, blocks) = budget.total(part), budget.signs(part)
                except UnsoundError:  # no direction is left at consensus once the mean is taken out
                    cells.append(Markup('<span class="undefined">undefined</span>'))
                    continue
                count = f" up in {up} of {len(budget.shares[part])} documents, {blocks} of {len(budget.layers)} blocks"
                cells.append(join([_number(total), element("small", count)]))
            rows.append([f"{reading.label(name)}", words, *cells])
    if not rows:
        return Markup("")
    caption = "Shares summed over all measured blocks, with intervals over documents."
    inner = table(caption, ["rung", "number", "attention", "MLP"], rows)
    return element("details", element("summary", "Summed shares of every rung"), inner)


def _initial(reading: LadderReading) -> Markup:
    """Trained minus fresh at every measured layer, documents and seeds resampled."""
    found = []
    for recipe in ("released", "library"):
        rows = []
        for layer in reading.layers:
            try:
                both = [trained_minus_initial(reading.record, recipe, layer, number) for number, _ in VIEWS]
            except (ArmillaryError, ValueError):
                break
            rows.append([f"{layer}", *(_number(one) for one in both)])
        if rows:
            caption = (
                f"Trained minus initial, {recipe} recipe: mean overlap; the interval resamples documents and seeds."
            )
            heads = ["layer", "all coordinates", "rogue coordinates left out"]
            found.append(element("details", element("summary", f"{recipe} recipe"), table(caption, heads, rows)))
    if not found:
        return Markup("")
    words = (
        "The sign of trained minus initial depends on the spread of the fresh weights, so both recipes stand here. The "
        "decoder's own first weights are not known; only decoders trained here can be subtracted from themselves."
    )
    return join([paragraph(words), *found])


def _heads(reading: LadderReading) -> Markup:
    """How many heads attract, trained and beside it."""
    if "head_vo_trace" not in reading.dataset:
        return Markup("")
    rows = []
    for source in reading.options("source"):
        for form, words in (("vo", "W_O W_V"), ("qk", "W_Q^T W_K")):
            here = {"source": source, "gain": "folded"}
            trace, positive, antisymmetric = (
                reading.dataset[f"head_{form}_{name}"].sel(here).values.ravel()
                for name in ("trace", "positive_share", "antisymmetric_share")
            )
            cells = [
                f"{int((trace > 0).sum())} of {trace.size}", f"{trace.mean():.3f}",
                f"{trace.min():.3f} to {trace.max():.3f}", f"{positive.mean():.3f}", f"{antisymmetric.mean():.3f}",
            ]  # fmt: skip
            rows.append([source, words, *(cell.replace("-", "−") for cell in cells)])
    heads = ["matrices", "form", "heads with positive trace", "mean trace", "range", "positive share", "antisymmetric"]
    caption = (
        "Signs of heads: normalized traces, share of the symmetric part's squared eigenvalues that are positive, share "
        "of the antisymmetric part; gain folded in."
    )
    return table(caption, heads, rows)


def _bipolar(reading: LadderReading) -> Markup:
    """For how many heads the idealization would make two opposed groups stable, and in how many tokens stand so."""
    if "head_vo_trace" not in reading.dataset or "axis_minority" not in reading.dataset:
        return Markup("")
    here = {"source": "trained", "gain": "folded"}
    top, second = (reading.dataset[f"head_vo_{name}"].sel(here).values for name in ("top", "second"))
    layers = [layer for layer in reading.layers if layer > 0]
    at = [layer - 1 for layer in layers]
    work = {
        name: reading.dataset[name]
        .sel(condition="trained", layer=layers)
        .mean("document")
        .transpose("layer", "head")
        .values
        for name in ("score_slope", "axis_minority", "axis_two_points")
    }
    ratio = np.clip(second[at], 0, None) / top[at]
    stable = (np.tanh(np.clip(work["score_slope"], 0, None)) > ratio) & (top[at] > 0)
    seen = (work["axis_minority"] >= MINORITY) & (work["axis_two_points"] >= TWO_POINTS)
    return paragraph(
        f"Two opposed groups along a head's axis are stable in the idealization where tanh β exceeds λ₂/λ₁. With the "
        "slope of scores for β and the symmetric part of W_O W_V for the eigenvalues that holds for "
        f"{int(stable.sum())} of {stable.size} heads. Tokens that stand at two opposed points of that axis (at least "
        f"{MINORITY:g} of them on either side, and {TWO_POINTS:g} of the two-point number) are seen for "
        f"{int(seen.sum())} heads, and for {int((stable & seen).sum())} where they would be stable. The condition "
        "supposes identity scores and one head; it is no prediction for a decoder."
    )


def _dimension(reading: LadderReading) -> Markup:
    """Where the other half of the question is answered."""
    return paragraph(
        "What dimension does to the idealization itself is a diagram of its own: ",
        element("code", "armillary resist --part dimension"),
        " (consensus time, groups and the edge in β over dimension and number of tokens) and ",
        element("code", "armillary resist --part scale"),
        " (fresh decoders over width, depth and heads).",
    )


def _left_out(reading: LadderReading) -> Markup:
    left, failed = dict(reading.study.get("left_out") or {}), failed_rungs(reading.record)
    tables = [
        table(caption, ["rung", "why"], [[name, why] for name, why in rungs.items()])
        for caption, rungs in (
            ("Rungs that do not apply to this decoder.", left),
            ("Rungs that failed: they have no numbers.", failed),
        )
        if rungs
    ]
    return join(tables)


def _limits(reading: LadderReading) -> Markup:
    genre = str((reading.study.get("documents") or {}).get("genre") or "one kind of text")
    points = (
        ("One genre.", f"The documents are {genre}. Intervals speak for texts of that kind, drawn like these."),
        (
            "The sphere is an idealization.",
            "Rungs built from matrices keep directions only. The decoder's stream has lengths, and a massive first "
            "token; what a rung shows of matrices it shows on the sphere.",
        ),
        (
            "Steps decide.",
            "Rungs were climbed with the decoder's own mean angle at each sublayer and, where named so, with equal "
            "steps. Another map from depth to time gives other curves.",
        ),
        (
            "Overlap is not consensus of meaning.",
            "Much of the alignment of a trained decoder is an offset in a few coordinates; read every overlap beside "
            "the one without rogue coordinates and beside the centered participation rank.",
        ),
        (
            "A prediction for random matrices is no fit.",
            "The wide-limit curves know the sizes of matrices only, and even attention at first; where they miss a "
            "fresh decoder, width or sharp scores are the reason.",
        ),
        (
            "Random matrices are one draw.",
            "Gaussian and fresh rungs on the sphere were drawn once; only the fresh decoders have several seeds.",
        ),
    )
    return element("ul", *(element("li", element("strong", head), " ", text) for head, text in points), class_="limits")


def _methods(reading: LadderReading) -> Markup:
    study = reading.study
    proof = dict(reading.provenance.get("reproduction") or {})
    apart = proof.get("largest_relative_departure")
    rebuilt = (
        f"The decoder was rebuilt from its matrices ({proof['rebuilt']}); the largest departure of a row from its own "
        f"states was {apart:.1e} of its length."
        if apart is not None
        else "No rung was built from matrices."
    )
    said = (
        f"{len(reading.documents)} documents of {reading.dataset.attrs['tokens_per_document']} tokens passed through "
        f"{len(reading.conditions)} rungs. {rebuilt} Rogue coordinates are the {study['rogue_coordinates']} that carry "
        "most of the mean overlap of the decoder, averaged over its taps, the same at every tap of every rung, named "
        f"by {study['calibration']['count']} other documents, which tell the pace of the decoder's sublayers and the "
        "steps of the rungs that follow it too. Intervals: "
        f"{100 * reading.level:g}% {METHOD}, {reading.resamples} resamples of whole documents (seed {reading.seed}). "
        f"Groups: {study['grouping']}."
    )
    rows = [[name, str(one["label"])] for name, one in reading.rungs.items()]
    every = element("details", element("summary", "Every rung"), table("Rungs.", ["name", "what it is"], rows))
    return join([element("blockquote", paragraph(said), class_="methods"), every])


def _definitions(reading: LadderReading) -> Markup:
    rows = []
    for name in reading.dataset.data_vars:
        held = reading.dataset[name].attrs
        if "symbol" in held:
            rows.append(
                [str(name), *(str(held.get(key, "")) for key in ("symbol", "definition", "source", "undefined"))]
            )
    return table("Definitions.", ["number", "symbol", "definition", "source", "undefined"], rows)


def _provenance(reading: LadderReading) -> Markup:
    origin = dict(reading.provenance)
    told = ("conditions", "promises", "versions", "documents", "calibration", "reproduction", "timings")
    single = {name: value for name, value in origin.items() if name not in told}
    documents = dict(origin.get("documents") or {})
    kept = {name: documents.get(name) for name in ("source", "rule", "token_hash")}
    return join(
        [
            facts("Record", flattened({**single, "hash of the measurements": reading.digest})),
            facts("Documents", flattened(kept)),
            facts("Versions", flattened(origin.get("versions") or {})),
            facts("Seconds", flattened(origin.get("timings") or {})),
            every_choice(reading.study),
        ]
    )


def _depths(reading: LadderReading) -> tuple[int, ...]:
    """Measured layers nearest to a third, two thirds and all of the depth."""
    last = int(reading.dataset.attrs["layers"])
    near = (min(reading.layers, key=lambda layer: abs(layer - last * share)) for share in (1 / 3, 2 / 3, 1.0))
    return tuple(dict.fromkeys(near))
