"""What a simulation's page says in sentences: what moved the tokens, what energy and law say, and the fine print."""

from __future__ import annotations

from typing import Any

import numpy as np

from armillary.estimates import METHOD, MINIMUM_MEMBERS
from armillary.figures.run import OVERLAP, Run
from armillary.report.endings import ended
from armillary.report.markup import Markup, element, interval, join, listed, paragraph, table
from armillary.terms import measurement_name, measurement_words, preparation_words

__all__ = ["against_the_law", "answer", "definitions", "energy_words", "flags", "limits", "methods", "numbers"]

NORMS = {
    "post": "rows held on the unit sphere (post-norm)",
    "pre": "rows that run freely and are read through a norm (pre-norm)",
    "mix": "rows on the unit sphere at first and free later (mix-norm)",
    "peri": "free rows, read through a norm, whose every update is normalized too (peri-norm)",
    "ngpt": "rows on the unit sphere and every update normalized (nGPT)",
    "sqrt depth": "rows on the unit sphere and updates that shrink with the square root of depth",
    "flat": "no norm anywhere (flat)",
}
INGREDIENTS = "unit vectors, symmetric scores, values equal to keys, one head, and nothing else that moves them"
ROUNDING = 1e-12


def answer(run: Run) -> Markup:
    """What was simulated with every ingredient, how it ended, and what the energy does."""
    said = [_course(run), energy_sentence(run), _law_sentence(run)]
    return join([paragraph(what_moved(run), " ", element("strong", ended(run))), paragraph(*said)])


def _course(run: Run) -> Markup:
    """From where to where mean overlap and participation rank went."""
    parts = []
    for words, name in (("mean overlap", OVERLAP), ("participation rank", "participation_rank after normalize")):
        if name in run.dataset:
            parts.append(join([f"the {words} went from ", _value(run, name, 0), " to ", _value(run, name, -1)]))
    if not parts:
        return Markup("")
    return join([f"Between {run.when(run.times[0])} and {run.when(run.times[-1])} ", join(parts, " and "), ". "])


def what_moved(run: Run) -> str:
    """The dynamics with every ingredient, in a sentence or two."""
    study = run.study
    terms = listed([str(one) for one in study.get("terms") or [study["dynamics"]]])
    matrices = str((study.get("choices") or {}).get("heads", "identity"))
    drawn = f" (matrices: {matrices}, seed {study['choices'].get('seed')})" if matrices != "identity" else ""
    norm = NORMS.get(str(study["scheme"]), str(study["scheme"]))
    end = f"through {study['until']:g} layers" if run.discrete else f"until s = {study['until']:g}"
    merging = str(study.get("merging", "none"))
    merged = f" Tokens closer than {merging.removeprefix('angle ')} were merged into one." if merging != "none" else ""
    return (
        f"{study['tokens']} tokens in dimension {study['dim']} were moved by {terms}{drawn}, {norm}, {end}. "
        f"Start: {study['start']}.{merged}"
    )


def energy_sentence(run: Run) -> str:
    """What the energy does, and why; or which ingredient of the proof is missing."""
    said = str(run.provenance.get("energy", ""))
    if said != "monotone":
        return f"No energy is claimed: {said.removeprefix('not claimed: ')}."
    word = "decreases" if _sign(run) > 0 else "increases"
    return f"The energy never {word}: every ingredient of the proof is there."


def energy_words(run: Run) -> Markup:
    """The energy's paragraph: the proof and what was seen, or what the proof lacks."""
    said = str(run.provenance.get("energy", ""))
    if said != "monotone":
        return paragraph(
            f"{energy_sentence(run)} So none is drawn: a function of the state could be plotted, and nothing would "
            "say which way it must go. ",
            element("code", "armillary check --ingredients"),
            " takes each ingredient away and looks for a state where the energy falls.",
        )
    word = "decrease" if _sign(run) > 0 else "increase"
    parts: list[Any] = [f"The proof has all it needs: {INGREDIENTS}. So the energy cannot {word} along the motion. "]
    if run.discrete:
        parts = [
            f"The proof has its ingredients ({INGREDIENTS}) but speaks of continuous time; for layers of a finite step "
            "it is no proof, and what is drawn is what happened. "
        ]
    worst = _worst_step(run)
    if np.isfinite(worst):
        seen = (
            "it went the wrong way between no two kept times"
            if worst >= 0
            else f"the worst change of log |Φ| between two kept times is {worst:.1e}".replace("-", "−")
            + (", which is rounding" if worst > -ROUNDING else "")
        )
        parts.append(f"Seen in these starts: {seen}.")
    return paragraph(*parts)


def _sign(run: Run) -> int:
    return -1 if run.attribute("log_energy", "direction") == "never increases" else 1


def _worst_step(run: Run) -> float:
    """The smallest change of log |Phi| in its direction between neighboring kept times; NaN where none is defined."""
    if "log_energy" not in run.dataset:
        return float("nan")
    steps = np.diff(np.asarray(run.dataset["log_energy"].values, dtype=np.float64), axis=1)
    upward = _sign(run) * (-1 if float(run.study["beta"]) < 0 else 1)  # where beta < 0, Phi is negative
    return float(np.nanmin(upward * steps)) if np.isfinite(steps).any() else float("nan")


def _law_sentence(run: Run) -> str:
    worst = _deviation(run)
    return "" if worst is None else f" Its overlaps follow a known law, to {worst[0]:.1e} at worst."


def against_the_law(run: Run) -> Markup:
    """How far the simulation is from the law that its overlaps must follow; empty where none is known."""
    law, worst = run.law, _deviation(run)
    if law is None or worst is None:
        return Markup("")
    names = {
        "equiangular": "equal overlaps stay equal, so that one equation for one number says everything (closed form at "
        "uniform weights, otherwise integrated apart from the simulator to 1e-12)",
        "causal pair": "a causal pair at uniform weights, c(s) = tanh(s/2 + artanh c(0))",
        "residual layers": "the exact map of one residual layer on equal overlaps",
        "scheme": "the equations of overlap and radius of orthonormal tokens under this placement of the norm",
    }
    return paragraph(
        f"The law: {names.get(str(law['name']), str(law['name']))}. At the worst of the kept times "
        f"({run.when(worst[1])}, start {worst[2] + 1}) the mean overlap differs from it by {worst[0]:.1e}; the "
        f"integrator was {run.study['integrator']}."
    )


def _deviation(run: Run) -> tuple[float, float, int] | None:
    """The largest distance between mean overlap and law at a kept time, that time and that start."""
    lawful = run.law_overlap(run.times)
    if lawful is None or OVERLAP not in run.dataset:
        return None
    apart = np.abs(np.asarray(run.dataset[OVERLAP].values, dtype=np.float64) - lawful)
    place, time = np.unravel_index(int(np.nanargmax(apart)), apart.shape)
    return float(apart[place, time]), float(run.times[time]), int(place)


def numbers(run: Run) -> Markup:
    """Every measured number at the first, the middle and the last kept time."""
    places = sorted({0, len(run.times) // 2, len(run.times) - 1})
    rows = []
    for name in _measured(run):
        words, _, preparation = name.partition(" after ")
        cells = [element("td", _value(run, name, place), class_="value") for place in places]
        rows.append([f"{measurement_words(words)} ({preparation_words(preparation)})", *cells])
    return table(
        "Means over starts at three kept times.", ["", *(run.when(run.times[place]) for place in places)], rows
    )


def _measured(run: Run) -> list[str]:
    return [str(name) for name in run.dataset.data_vars if " after " in str(name) and run.dataset[name].ndim == 2]


def _value(run: Run, name: str, place: int) -> Markup:
    """The mean over starts with its interval at one kept time."""
    values = np.asarray(run.dataset[name].values, dtype=np.float64)[:, place]
    if run.starts == 1:
        return (
            element("span", f"{values[0]:.4g}".replace("-", "−"), class_="num")
            if np.isfinite(values[0])
            else interval((float("nan"), 0.0, 0.0, 0), run.level)
        )
    found = run.summary(values[:, None], (0,), run.attainable(name))
    ends = (float("nan"), float("nan"), float("nan"), 0) if found is None else found.at(0)
    return interval(ends, run.level, run.starts)


def flags(run: Run) -> Markup:
    """Warnings beside the answer: early stops, tightened tolerances, too few starts."""
    found: list[str] = []
    early = [str(one) for one in run.provenance["statuses"] if not str(one).startswith("reached")]
    found += [f"Stopped before the end: {one}." for one in dict.fromkeys(early)]
    if any("tolerances were tightened" in str(one) for one in run.provenance["statuses"]):
        found.append(
            "Some starts hardly move at first, so their tolerances were tightened; each status says by how much."
        )
    if run.starts == 1:
        found.append("One start has no spread over starts, so no interval is given anywhere on this page.")
    elif run.starts < MINIMUM_MEMBERS:
        found.append(
            f"Only {run.starts} starts: below {MINIMUM_MEMBERS} an interval may be far too wide or too narrow. Read "
            "the values, and take more starts for the intervals."
        )
    return element("div", *(paragraph(text) for text in found), class_="flag", role="note") if found else Markup("")


def methods(run: Run) -> Markup:
    """The methods paragraph, ready to be copied."""
    study = run.study
    evaluations = [int(one) for one in run.provenance.get("evaluations") or []]
    took = f" ({min(evaluations)} to {max(evaluations)} evaluations of the velocity a start)" if evaluations else ""
    number = len(run.times)
    over = (
        f"Every number is a mean over {run.starts} independent starts with a {100 * run.level:g}% {METHOD} interval "
        f"from {run.resamples} resamples of whole starts (seed {run.seed})."
        if run.starts > 1
        else "There was one start, so numbers carry no interval."
    )
    said = (
        f"We simulated the dynamics “{study['dynamics']}”: {what_moved(run)} Time was stepped by {study['integrator']} "
        f"on the {study.get('engine', 'general')} engine in {study['dtype']}{took}, each start with steps of its own. "
        f"States were kept and measured at {number} {'layers' if run.discrete else 'times'} from {run.times[0]:g} to "
        f"{run.times[-1]:g}{', evenly in log s' if run.logarithmic else ''}. Overlaps run over all unordered pairs of "
        "different tokens, rows normalized. The participation rank is (Σλ)²/Σλ² of the squared singular values. "
        f"Groups: {study.get('grouping', 'as recorded')}. {over}"
    )
    return element("blockquote", paragraph(said), class_="methods")


def definitions(run: Run) -> Markup:
    """What each number is, where it is from, and when it is undefined."""
    names = [*_measured(run), *(one for one in ("log_energy", "log_energy_rate") if one in run.dataset)]
    rows = []
    for name in names:
        held = run.dataset[name].attrs
        preparation = preparation_words(str(held["preparation"])) if "preparation" in held else "rows on the sphere"
        title = measurement_words(measurement_name(name.partition(" after ")[0] + " | ")[0])
        cells = [str(held.get(key, "")) for key in ("symbol", "definition", "source", "undefined")]
        rows.append([title, preparation, *cells])
    return table("Definitions.", ["number", "preparation", "symbol", "definition", "source", "undefined"], rows)


def limits(run: Run) -> Markup:
    """The fine print of this simulation."""
    study = run.study
    points = [
        (
            "The sphere is an idealization.",
            "A law that holds for points moved like this can test an instrument. It does not say what a trained "
            "decoder does.",
        ),
        (
            "A plateau is no end.",
            "Clusters stand still for a time that grows exponentially with β and then merge. A small velocity says "
            "nothing about what comes later; only consensus, a proof of it, or a stationary state does.",
        ),
        (
            "A group pattern in finitely many tokens is not a phase.",
            f"Groups are formed among {study['tokens']} tokens by {study.get('grouping', 'a declared grouping')}. "
            "Another threshold would give other counts, and no limit of many tokens was taken.",
        ),
        (
            "Events are seen at kept times.",
            "Groups that merge and part between two kept times leave no trace here; the merger log, where merging was "
            "asked for, has its own times.",
        ),
        (
            "Low rank is not consensus.",
            "Two opposed groups have participation rank 1 and no mean direction; one group has the same rank and a "
            "unit mean direction. That is why these numbers stand side by side.",
        ),
    ]
    if run.starts > 1:
        points.append(
            (
                "Intervals cover starts, nothing else.",
                "They come from resampling whole starts of the kind named above; matrices, β, dimension and number of "
                "tokens were fixed.",
            )
        )
    if str(study.get("merging", "none")) != "none":
        points.append(
            (
                "Merged tokens are one token.",
                "Replacing tokens within the angle by their weighted mean direction loses motion of the order of the "
                "angle squared; when they would have come closer still is not recorded.",
            )
        )
    if str(study["scheme"]) in ("pre", "peri", "flat", "mix"):
        points.append(
            (
                "Rows have lengths of their own here.",
                "Overlaps, ranks and groups are those of directions; how long the rows became is in the states "
                "of the record.",
            )
        )
    if any("noise" in str(one) for one in study.get("terms", [])):
        points.append(
            (
                "One realization of the noise for each start.",
                "The order of the scheme holds on average over realizations; its step was fixed.",
            )
        )
    return element("ul", *(element("li", element("strong", head), " ", text) for head, text in points), class_="limits")
