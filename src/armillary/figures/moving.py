"""Figures of a simulation against time: energy, order parameters, participation ranks, and the law of two tokens."""

from __future__ import annotations

import numpy as np

from armillary.figures.described import told
from armillary.figures.drawing import Axis, Curve, Drawing, Panel, Rule, Style, View
from armillary.figures.palette import SERIES
from armillary.figures.reading import Numbers
from armillary.figures.registry import figure_of
from armillary.figures.run import LAW, MEAN, MOST_STARTS, OVERLAP, Run
from armillary.oracles import overlap as laws
from armillary.terms import preparation_words

__all__ = ["directions_in_time", "energy", "ranks_in_time", "two_token_portrait"]

LAW_NAME = "the law"
POINTS = 201
OTHER_BETAS = (0.0, 1.0, 4.0, 9.0)


def shaded(run: Run) -> str:
    """What the shading is, where there is any."""
    return f"Shaded: {100 * run.level:g}% intervals over {run.starts} independent starts." if run.starts > 1 else ""


@figure_of(Run)
def energy(run: Run) -> Drawing | None:
    """The logarithm of the energy and the size of its rate against time; absent where the proof licenses no energy."""
    panels = []
    for name, title, label in (
        ("log_energy", "energy", "log |Φ|"),
        ("log_energy_rate", "rate of the energy", "log |dΦ/ds|"),
    ):
        values = run.shown(name)
        if values is None or not np.isfinite(values).any():
            continue
        curves = [
            Curve(run.start_name(place), run.drawn_times, tuple(row.tolist()), style=run.start_style(place))
            for place, row in enumerate(values[:MOST_STARTS])
        ]
        mean = run.mean_curve(name)
        if name == "log_energy" and mean is not None and run.starts > 1:
            curves.append(mean)
        panel = Panel(title, run.time_axis, Axis(label), tuple(curves))
        panels += [panel] if panel.drawn else []
    if not panels:
        return None
    course = "never decreases" if run.attribute("log_energy", "direction") != "never increases" else "never increases"
    return Drawing(
        "energy",
        "The energy against time",
        "Φ is the sum over all pairs of exp(β c)/(2β), or half the sum of all overlaps at uniform weights. It "
        f"{course}: the ingredients of the proof are all there. Its rate is the sum of the squared speeds, each "
        "weighted by how easily that token moves; a small rate is a plateau or an end, and it does not tell which. "
        f"{shaded(run)}".strip(),
        told("The energy against time", tuple(panels)),
        (View((), tuple(panels)),),
    )


@figure_of(Run)
def directions_in_time(run: Run) -> Drawing | None:
    """Mean overlap, squared mean direction and smallest overlap against time, with the law where one is known."""
    tokens = int(run.dataset.attrs["tokens"])
    lawful = run.law_overlap(run.law_times)
    panels = []
    for name, title, label in (
        (OVERLAP, "mean overlap", "c"),
        ("squared_mean_direction after normalize", "squared mean direction", "|m|²"),
        ("smallest_overlap after normalize", "smallest overlap", "min c"),
    ):
        curve = run.mean_curve(name)
        if curve is not None:
            of = (1 + (tokens - 1) * lawful) / tokens if lawful is not None and title.startswith("squared") else lawful
            more = () if of is None else (_law_curve(run, of),)
            panels.append(Panel(title, run.time_axis, Axis(label), (curve, *more)))
    if not panels:
        return None
    return Drawing(
        "directions_in_time",
        "Order parameters against time",
        "Mean and smallest overlap run over all unordered pairs of different tokens; the squared mean direction counts "
        f"self-pairs: 1 is consensus. {_law_words(run)}{shaded(run)}".strip(),
        told("Order parameters against time", tuple(panels)),
        (View((), tuple(panels)),),
        columns=3,
    )


@figure_of(Run)
def ranks_in_time(run: Run) -> Drawing | None:
    """Participation rank, plain and of centered rows, against time, with the law where one is known."""
    tokens = int(run.dataset.attrs["tokens"])
    lawful = run.law_overlap(run.law_times)
    panels = []
    for preparation in ("normalize", "center, normalize"):
        name = f"participation_rank after {preparation}"
        curve = run.mean_curve(name)
        if curve is None:
            continue
        curves: tuple[Curve, ...] = (curve,)
        if lawful is not None and preparation == "normalize":
            curves += (_law_curve(run, np.vectorize(laws.participation_rank_of_equiangular)(lawful, tokens=tokens)),)
        ceiling = run.attainable(name)[1]
        rules = (Rule(f"ceiling {ceiling:g}", y=ceiling),) if np.isfinite(ceiling) else ()
        title = "participation rank" + (", centered" if "center" in preparation else "")
        axis = Axis("directions", "log")
        panels.append(Panel(title, run.time_axis, axis, curves, rules, preparation_words(preparation)))
    if not panels:
        return None
    return Drawing(
        "ranks_in_time",
        "Participation rank against time",
        "The participation rank is (Σλ)²/Σλ² of the squared singular values of the rows. Two opposed groups have rank "
        "1 too: low rank is not consensus. Of centered rows it is undefined once all rows agree to rounding. "
        f"{_law_words(run)}{shaded(run)}".strip(),
        told("Participation rank against time", tuple(panels)),
        (View((), tuple(panels)),),
    )


@figure_of(Run)
def two_token_portrait(run: Run) -> Drawing | None:
    """The phase portrait of the law of two tokens: rate against overlap, with the run's kept times on it."""
    law = run.law
    if law is None or law["name"] != "equiangular" or law["tokens"] != 2:
        return None
    beta, rule = float(law["beta"]), str(law["rule"])
    grid = np.linspace(-1, 1, POINTS)

    def rates(overlaps: Numbers, at_beta: float) -> tuple[float, ...]:
        return tuple(laws.equiangular_rate(float(c), tokens=2, beta=at_beta, rule=rule) for c in overlaps)

    here = rates(grid, beta)
    curves = [Curve(f"β = {beta:g}, as simulated", tuple(grid.tolist()), here, style=MEAN)]
    others = [one for one in OTHER_BETAS if one != beta][:3] if rule == "softmax" else []
    for one, look in zip(others, SERIES[1:], strict=False):
        thin = Style(look.color, look.dash, "none", 1.2)
        curves.append(Curve(f"β = {one:g}", tuple(grid.tolist()), rates(grid, one), style=thin))
    overlaps = np.asarray(run.dataset[OVERLAP].values, dtype=np.float64).ravel()
    kept = np.clip(overlaps[np.isfinite(overlaps)], -1, 1)
    dots = Style("#D55E00", "solid", "circle", 1.0)
    curves.append(Curve("kept times of the run", tuple(kept.tolist()), rates(kept, beta), style=dots, shape="points"))
    ticks = ((-1.0, "−1, opposed"), (-0.5, "−0.5"), (0.0, "0"), (0.5, "0.5"), (1.0, "1, consensus"))
    panel = Panel("", Axis("overlap c", ticks=ticks, limits=(-1.05, 1.05)), Axis("dc/ds"), tuple(curves))
    peak = int(np.argmax(here))
    return Drawing(
        "two_token_portrait",
        "Phase portrait of two tokens",
        "The law of two tokens: the rate dc/ds as a function of their overlap c alone. It is positive everywhere "
        "between the opposed pair and consensus, so every other pair meets. Dots: the overlaps that the run had at its "
        "kept times, placed on the curve; they crowd where it is slow.",
        f"Rate dc/ds against overlap c from -1 to 1 for two tokens at beta {beta:g}. The curve is zero at both ends, "
        f"positive between them, and largest, {here[peak]:.3g}, at c = {grid[peak]:.2f}. The run went from c = "
        f"{overlaps[0]:.3g} to {overlaps[-1]:.3g}.",
        (View((), (panel,)),),
        columns=1,
        height=0.6,
    )


def _law_curve(run: Run, values: Numbers) -> Curve:
    """The law as a line: its mean over the starts."""
    return Curve(LAW_NAME, tuple(run.law_times.tolist()), tuple(values.mean(axis=0).tolist()), style=LAW)


def _law_words(run: Run) -> str:
    over = " (mean over the same starts)" if run.starts > 1 else ""
    return (
        ""
        if run.law is None
        else f"Dashed: the law, from a closed form or quadrature that no simulation enters{over}. "
    )
