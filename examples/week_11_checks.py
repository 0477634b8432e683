"""Week 11, checked: each function says whether an answer is right and, if not, which property it misses.

No answer is written down in this file. An answer is judged by what must be true of it: a velocity is tangent, a law
solves its equation, a number of the record is read off the record. Every check prints one sentence and goes on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import armillary as am

TITLES: dict[str, str] = {}
DONE: dict[str, bool] = {}
FIVE = ("normalized overlaps", "length of the mean direction", "participation rank", "algebraic rank", "group count")
GROUPING = am.Grouping(am.AngularDistance(), am.Connected(within=0.6))
RANDOM = np.random.default_rng(11)


class NotYet(Exception):
    """What an answer still misses."""


def exercise(title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A check under the title of its exercise: prints one sentence, remembers it for `score`, never raises."""

    def declare(check: Callable[..., None]) -> Callable[..., None]:
        TITLES[check.__name__] = title

        @functools.wraps(check)
        def told(*answers: Any) -> None:
            DONE[check.__name__] = False
            try:
                if any(answer is ... for answer in answers):
                    raise NotYet("An answer is still `...`. Replace it by yours.")
                check(*answers)
            except NotYet as trouble:
                print(f"Not yet ({title}). {trouble}")
            except NotImplementedError:
                print(f"Not yet ({title}). A function is still blank. Write its lines and run its cell again.")
            except Exception as trouble:  # of the student's own code
                print(f"Not yet ({title}). Your code stopped with {type(trouble).__name__}: {trouble}")
            else:
                DONE[check.__name__] = True
                print(f"Right ({title}).")

        return told

    return declare


def score() -> None:
    """How many exercises are done, and which are not."""
    still = [title for name, title in TITLES.items() if not DONE.get(name)]
    print(f"{len(TITLES) - len(still)} of {len(TITLES)} done.", *(f"Open: {title}." for title in still))


def same(got: Any, expected: Any, *, within: float = 1e-8) -> bool:
    """Whether two numbers or arrays agree."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    return got.shape == expected.shape and bool(np.allclose(got, expected, rtol=0, atol=within))


def numbers(got: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """What a student's function returned, as an array of the stated shape."""
    if got is None:
        raise NotYet(f"`{name}` returned nothing. End it with `return`.")
    array = np.asarray(got, dtype=float)
    if array.shape != shape:
        raise NotYet(f"`{name}` must return shape {shape}, but it returned shape {array.shape}.")
    if not np.isfinite(array).all():
        raise NotYet(f"`{name}` returned something that is not a finite number.")
    return array


def directions(tokens: int, dim: int) -> np.ndarray:
    """Unit rows drawn at random."""
    rows = RANDOM.standard_normal((tokens, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def energy_of(rows: np.ndarray, beta: float) -> float:
    """The energy, as the course defines it."""
    return float(np.exp(beta * rows @ rows.T).sum() / (2 * beta))


def slope(rows: np.ndarray, beta: float) -> np.ndarray:
    """Derivative of the energy for each coordinate of each row, by differences alone."""
    step, found = 1e-5, np.zeros_like(rows)
    for place in np.ndindex(*rows.shape):
        moved = np.zeros_like(rows)
        moved[place] = step
        found[place] = (energy_of(rows + moved, beta) - energy_of(rows - moved, beta)) / (2 * step)
    return found


def along_sphere(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """What is left of vectors once their part along each row is taken off."""
    return vectors - (rows * vectors).sum(1, keepdims=True) * rows


def follows(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The projected motion under weights that are normalized here."""
    return along_sphere(rows, weights / weights.sum(1, keepdims=True) @ rows)


@exercise("1 Observables")
def observables(overlaps: Callable, mean_length: Callable, participation: Callable) -> None:
    """Three functions of unit rows against the package's own on random rows."""
    for tokens, dim in ((5, 3), (4, 7)):
        rows = directions(tokens, dim)
        if not same(numbers(overlaps(rows), (tokens, tokens), "overlaps"), am.overlaps(rows)):
            raise NotYet("`overlaps` must hold the inner product of row i and row j at place (i, j).")
        length = math.sqrt(am.squared_mean_direction.after()(rows))
        if not same(numbers(mean_length(rows), (), "mean_direction_length"), length):
            raise NotYet("`mean_direction_length` differs on random rows. Average the rows first, then take a length.")
        got = numbers(participation(rows), (), "participation_rank")
        if not same(got, am.participation_rank.after()(rows)):
            plain = np.linalg.svd(rows, compute_uv=False)
            squared = not same(got, plain.sum() ** 2 / (plain**2).sum())
            hint = "It reads eigenvalues of X^T X, without centering" if squared else "Square the singular values first"
            raise NotYet(f"`participation_rank` differs on random rows. {hint}.")
        if not same(participation(3 * rows), got):
            raise NotYet("`participation_rank` changes when all rows are tripled. Both of its sums must scale alike.")


@exercise("2 Four vectors")
def four_vectors(opposed: dict, aligned: dict) -> None:
    """Length of the mean direction, participation rank and number of groups of (u, u, -u, -u) and (u, u, u, u)."""
    row, wrong = np.array([0.6, 0.8]), []
    for name, answers, rows in (("opposed", opposed, [row, row, -row, -row]), ("aligned", aligned, [row] * 4)):
        truth = {
            "mean direction": math.sqrt(am.squared_mean_direction.after()(np.array(rows))),
            "participation rank": am.participation_rank.after()(np.array(rows)),
            "groups": am.cluster_count(GROUPING).after()(np.array(rows)),
        }
        if any(answers.get(key, ...) is ... for key in truth):
            raise NotYet(f"`{name}` needs a number for each of {', '.join(truth)}.")
        wrong += [
            f"the {key} of `{name}`" for key, value in truth.items() if not same(answers[key], value, within=1e-6)
        ]
    if wrong:
        raise NotYet(
            f"Look again at {' and '.join(wrong)}. Exercise 1 has functions for the "
            "first two; for the groups, see who reaches whom by steps of at most 0.6 rad."
        )


@exercise("3 A configuration of your own")
def three_groups(rows: Any) -> None:
    """Six unit rows in three groups, mean direction zero, participation rank two."""
    rows = np.asarray(rows, dtype=float)
    if rows.ndim != 2 or len(rows) != 6:
        raise NotYet(f"Six rows are asked for; yours have shape {rows.shape}.")
    if not same(np.linalg.norm(rows, axis=1), np.ones(6), within=1e-6):
        raise NotYet("Each row must have length one.")
    groups = am.cluster_count(GROUPING).after()(rows)
    if groups != 3:
        raise NotYet(f"Directions nearer than 0.6 rad share a group; the number of yours is {groups:g}, not three.")
    length = math.sqrt(max(0.0, am.squared_mean_direction.after()(rows)))
    if length > 1e-6:
        raise NotYet(f"The mean direction must vanish; yours has length {length:.3g}.")
    spread = am.participation_rank.after()(rows)
    if abs(spread - 2) > 1e-6:
        raise NotYet(f"The participation rank must be two; yours is {spread:.4g}.")


@exercise("4 A stretched basis")
def stretched(participation: float, algebraic: int) -> None:
    """Participation and algebraic rank of the identity times diag(2, 1)."""
    singular = np.array([2.0, 1.0])
    if not same(algebraic, am.algebraic_rank.after()(np.diag(singular))):
        raise NotYet("The algebraic rank counts independent rows. Did stretching make two of them dependent?")
    if not same(participation, am.participation_rank.after()(np.diag(singular)), within=1e-4):
        plain = same(participation, singular.sum() ** 2 / (singular**2).sum(), within=1e-4)
        hint = "square the singular values before anything else" if plain else "start from the eigenvalues of X^T X"
        raise NotYet(f"The participation rank is another number: {hint}.")


@exercise("5 What survives")
def survivors(orthogonal: Iterable[str], general: Iterable[str], row_factors: Iterable[str]) -> None:
    """Names of what stays under an orthogonal map, a general invertible one, and positive row factors; by trying."""
    maps: dict[str, tuple[set[str], Callable[[np.ndarray], np.ndarray]]] = {
        "an orthogonal map": (set(orthogonal), lambda rows: rows @ np.linalg.qr(RANDOM.standard_normal((4, 4)))[0]),
        "a general invertible map": (set(general), lambda rows: rows @ RANDOM.standard_normal((4, 4))),
        "positive row factors": (set(row_factors), lambda rows: rows * RANDOM.uniform(0.2, 5.0, (len(rows), 1))),
    }
    for name, (given, change) in maps.items():
        if given - set(FIVE):
            raise NotYet(f"{sorted(given - set(FIVE))} is not among the five names {list(FIVE)}.")
        moved: set[str] = set()
        for _ in range(12):
            rows = directions(9, 4)
            pairs = zip(FIVE, _five(rows), _five(change(rows)), strict=True)
            moved |= {one for one, before, after in pairs if not same(before, after, within=1e-6)}
        wrong = len(given ^ (set(FIVE) - moved))
        if wrong:
            raise NotYet(
                f"For {name}, {wrong} of the five names {'stands' if wrong == 1 else 'stand'} on the wrong side. "
                "Try it: draw rows, map them, and measure before and after."
            )


def _five(rows: np.ndarray) -> tuple[Any, ...]:
    return (
        am.overlaps(rows),
        am.squared_mean_direction.after("normalize")(rows),
        am.participation_rank.after()(rows),
        am.algebraic_rank.after()(rows),
        am.cluster_count(GROUPING).after("normalize")(rows),
    )


@exercise("6 The velocity")
def velocity(field: Callable) -> None:
    """Tangent, at rest at consensus, uniform weights at beta = 0, and the gradient of the energy over Z."""
    rows = directions(5, 3)
    moved = numbers(field(rows, 1.5), (5, 3), "velocity")
    if np.abs((rows * moved).sum(1)).max() > 1e-9:
        raise NotYet("A row's velocity has a part along the row, so its length would change. Project it off.")
    if np.abs(numbers(field(np.tile(rows[:1], (4, 1)), 1.5), (4, 3), "velocity")).max() > 1e-9:
        raise NotYet("At consensus nothing should move, but it does.")
    pair = directions(2, 3)
    if not same(field(pair, 0.0), follows(pair, np.ones((2, 2)))):
        raise NotYet("At beta = 0 every token should weigh the same, itself included, and the weights sum to one.")
    mobility = np.exp(1.5 * rows @ rows.T).sum(1, keepdims=True)
    if not same(moved, along_sphere(rows, slope(rows, 1.5)) / mobility, within=1e-6):
        raise NotYet("The weights are not those of the course: e^(beta x_i.x_j), divided by their sum over j.")


@exercise("7 The energy grows")
def energy(value: Callable, rate: Callable) -> None:
    """The value against its definition; the rate against a difference of energies along the motion."""
    for beta in (0.5, 3.0):
        rows = directions(6, 3)
        if not same(numbers(value(rows, beta), (), "energy"), energy_of(rows, beta)):
            raise NotYet("`energy` differs. Does its sum run over all ordered pairs, self-pairs included?")
        step, moved = 1e-5, follows(rows, np.exp(beta * rows @ rows.T))
        seen = (energy_of(rows + step * moved, beta) - energy_of(rows - step * moved, beta)) / (2 * step)
        got = float(numbers(rate(rows, beta), (), "energy_rate"))
        if abs(got - seen) > 1e-4 * seen:
            raise NotYet(
                f"`energy_rate` gives {got:.4g} where the energy really grows at {seen:.4g}. Which positive number "
                "divides each token's squared tangential gradient?"
            )


@exercise("8 Without an ingredient")
def falling(rows: Any, beta: float) -> None:
    """A start from which the energy falls although each token only follows attention, under a causal mask."""
    rows = np.asarray(rows, dtype=float)
    if rows.ndim != 2 or not same(np.linalg.norm(rows, axis=1), np.ones(len(rows)), within=1e-6):
        raise NotYet("Give unit rows, one token in each.")
    rate = float((slope(rows, beta) * follows(rows, np.tril(np.exp(beta * rows @ rows.T)))).sum())
    if rate >= -1e-6:
        raise NotYet(f"From this start the energy changes at {rate:.3g}; it should fall. Such starts are rare: search.")


@exercise("9 Two particles")
def two_particles(law: Callable, integrated: Callable) -> None:
    """The law solves its equation from any start, the antipodal one too; the integration comes near it."""
    h = 1e-5
    for start in (-0.9, -0.5, 0.0, 0.7):
        if not same(numbers(law(0.0, start), (), "law"), start):
            raise NotYet(f"At time zero the law must give the overlap it started from, {start}.")
        for s in (0.3, 1.2):
            c, rate = law(s, start), (law(s + h, start) - law(s - h, start)) / (2 * h)
            if abs(rate - (1 - c**2)) > 1e-6:
                raise NotYet(f"At s = {s} your law changes at {rate:.4f}; its equation asks for {1 - c**2:.4f}.")
    with np.errstate(all="ignore"):
        opposite = float(law(3.0, -1.0))
    if opposite != -1.0:
        raise NotYet(f"An exactly opposite pair rests; your law makes {opposite} of it. Treat that start by itself.")
    coarse, fine = (abs(float(integrated(-0.5, 2.0, steps)) - law(2.0, -0.5)) for steps in (100, 200))
    if not coarse < 0.02:
        raise NotYet(f"With 100 steps your integration ends {coarse:.3f} away from your law. One of the two is wrong.")
    if coarse > 1e-9 and fine > 0.7 * coarse:
        raise NotYet("Twice as many steps should about halve the error of the integration, or better, but do not.")


@exercise("10 Participation rank along the way")
def pair_rank(formula: Callable, at_minus_half: float, time_of_peak: float) -> None:
    """The formula against the eigenvalues of a Gram matrix; the value at c = -1/2; when it is largest from there."""
    for c in (-0.8, -0.1, 0.0, 0.35, 1.0):
        eigenvalues = np.linalg.eigvalsh([[1.0, c], [c, 1.0]])
        if not same(numbers(formula(c), (), "rank_of_pair"), eigenvalues.sum() ** 2 / (eigenvalues**2).sum()):
            raise NotYet(f"At c = {c} the formula misses what the eigenvalues of the 2 x 2 Gram matrix give.")
    pair = am.sphere.equiangular(tokens=2, dim=2, overlap=-0.5)
    if not same(at_minus_half, am.participation_rank.after()(pair), within=1e-6):
        raise NotYet("The number at c = -1/2 is another one. Put c into your formula.")
    overlap = math.tanh(float(time_of_peak) + math.atanh(-0.5))
    if abs(overlap) > 1e-3:
        raise NotYet(f"At your time the overlap is {overlap:.3f}. Which overlap makes the participation rank largest?")


@exercise("11 Time to 0.9")
def time_to_nine_tenths(time: float) -> None:
    """When an orthogonal pair has reached overlap 0.9."""
    reached = math.tanh(float(time))
    if abs(reached - 0.9) > 1e-4:
        raise NotYet(f"At s = {float(time):g} the pair has reached {reached:.4f}.")


@exercise("12 On a circle")
def circle(angular: Callable, coupling: float) -> None:
    """The angular equation against the projected one; the coupling of the model it becomes at beta = 0."""
    for beta in (0.0, 2.5):
        angles = RANDOM.uniform(0, 2 * np.pi, 6)
        rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        moved = follows(rows, np.exp(beta * rows @ rows.T))
        expected = (moved * np.stack([-np.sin(angles), np.cos(angles)], axis=1)).sum(1)
        got = numbers(angular(angles, beta), (6,), "angular_velocity")
        if same(got, -expected):
            raise NotYet("Every sign is reversed: tokens attract. Whose angle is subtracted from whose?")
        if not same(got, expected):
            raise NotYet(f"At beta = {beta} it is not the projected motion. Are the weights normalized over j?")
    plain = np.sin(angles[None] - angles[:, None]).mean(1)
    if not same(coupling * plain, angular(angles, 0.0)):
        raise NotYet("With that K, K/T times the sum of sines is not your angular velocity at beta = 0.")


@exercise("13 Trained against fresh")
def trained_against_fresh(record: am.Record, sign: str) -> None:
    """The sign of the paired difference of mean overlap at layer 15, read off its interval."""
    words = ("positive", "negative", "not resolved")
    if sign not in words:
        raise NotYet(f"Answer with one of {', '.join(words)}.")
    table = record.contrast("trained", "initial-released-seed0", "mean_overlap")
    place = "layer == 15 and place == 'block' and tokens == 'without_first' and preparation == 'normalize'"
    ((low, high),) = table.query(place)[["low", "high"]].to_numpy()
    if sign != ("positive" if low > 0 else "negative" if high < 0 else "not resolved"):
        raise NotYet("Read the row of layer 15, place `block`, without the first token: where does its interval lie?")


@exercise("14 Centering")
def centering(record: am.Record, factor: float) -> None:
    """How many times larger the participation rank of layer 15 is once rows are centered."""
    where = {"condition": "trained", "layer": 15, "tap": "block", "tokens": "without_first"}
    steps = ("center, normalize", "normalize")
    after, before = (record.estimate("participation_rank", preparation=one, **where).value for one in steps)
    if same(factor, before / after, within=0.01 * before / after):
        raise NotYet("That is the other way round.")
    if not same(factor, after / before, within=0.01 * after / before):
        raise NotYet("Divide two estimates of this record: the same layer, tap and tokens, with and without `center`.")


@exercise("15 The statement")
def statement(record: am.Record, changed: Iterable[str]) -> None:
    """Which reported numbers of layer 15 a general linear map moves."""
    table, given = statement_table(record), set(changed)
    if not given <= set(table.index):
        raise NotYet(f"Use the names of the table, {list(table.index)}.")
    general = next(name for name in table.columns if name.startswith("general linear"))
    truth = {name for name in table.index if abs(table.loc[name, general] - table.loc[name, "none"]) > 1e-6}
    wrong = len(given ^ truth)
    if wrong:
        raise NotYet(f"{wrong} of {len(table)} names stand on the wrong side. Compare two columns of the table.")


def statement_table(record: am.Record) -> Any:
    """Each reported number of layer 15, a row, before and after each change of basis, a column; document means."""
    import xarray

    with xarray.open_dataset(record.path / "measurements.nc", engine="h5netcdf") as dataset:
        means = dataset["statement_value"].sel(statement_layer=15).mean("document")
        return means.transpose("statement_measurement", "transformation").to_pandas()
