"""The course meeting's notebook: the key answers everything, the students' version nothing, and the checks tell them apart."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
KEY, STUDENTS = EXAMPLES / "week_11_key.ipynb", EXAMPLES / "week_11.ipynb"


def module(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None and specification.loader is not None
    made = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(made)
    return made


def notebook(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def sources(path: Path, *, laboratory: bool) -> list[str]:
    """Code cells; without the laboratory, only those of its cells that check an answer."""
    cells = [cell for cell in notebook(path)["cells"] if cell["cell_type"] == "code"]
    chosen = [
        one
        for one in cells
        if laboratory or "laboratory" not in one["metadata"].get("tags", []) or "\ncheck." in one["source"]
    ]
    return ["".join(cell["source"]) for cell in chosen]


def checked(path: Path) -> list[str]:
    return re.findall(r"^check\.(\w+)\(", "\n".join(sources(path, laboratory=True)), flags=re.MULTILINE)


def test_the_students_notebook_is_what_the_key_makes():
    made = module("make_week_11")
    expected = made.written(made.students(notebook(KEY)))
    assert STUDENTS.read_text(encoding="utf-8") == expected, "Run `python examples/make_week_11.py` and commit."


def test_both_notebooks_have_the_same_exercises_and_every_check_has_one():
    assert checked(KEY) == checked(STUDENTS)
    assert set(checked(KEY)) == {*module("week_11_checks").TITLES, "score"}


def test_no_answer_is_left_in_the_students_notebook():
    text = STUDENTS.read_text(encoding="utf-8")
    assert "SOLUTION" not in text and "# ANSWER" not in text
    for told in ("25 / 17", "1.6", "math.log(19)", "atanh", "2 / (1 + c"):
        assert told in KEY.read_text(encoding="utf-8")
        assert told not in text
    assert not any(cell.get("outputs") for path in (KEY, STUDENTS) for cell in notebook(path)["cells"])


def test_the_blanks_run_to_the_end_and_every_check_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "week_11_checks", module("week_11_checks"))
    names: dict[str, Any] = {"record": None}
    for source in sources(STUDENTS, laboratory=False):
        exec(source, names)
    told = capsys.readouterr().out.splitlines()
    exercises = [line for line in told if line.startswith(("Right", "Not yet"))]
    assert len(exercises) == 15
    for line in exercises:
        assert re.fullmatch(r"Not yet \(\d+ [^)]+\)\. .*(Replace it|Write its lines|needs a number).*\.", line), line
    assert any(line.startswith("0 of 15 done.") for line in told)


@pytest.mark.decoder
def test_the_key_runs_as_a_notebook_and_every_answer_is_right():
    key = module("make_week_11").answered(notebook(KEY))
    played = nbclient.NotebookClient(
        nbformat.from_dict(key), timeout=900, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    printed = "".join(
        output.get("text", "")
        for cell in played.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    )
    assert "15 of 15 done." in printed, printed
    assert "Not yet" not in printed


def spun(X: np.ndarray, beta: float, *, project: bool = True, shared: bool = False, bare: bool = False) -> np.ndarray:
    weights = np.exp(beta * X @ X.T)
    pulled = weights @ X / (1 if bare else weights.sum() / len(X) if shared else weights.sum(1, keepdims=True))
    return pulled - (X * pulled).sum(1, keepdims=True) * X if project else pulled


def tanh_law(s: float, start: float) -> float:
    return start if abs(start) == 1 else math.tanh(s + math.atanh(start))


def plain_rank(X: np.ndarray) -> float:
    s = np.linalg.svd(X, compute_uv=False)
    return s.sum() ** 2 / (s**2).sum()


def gram(X: np.ndarray) -> np.ndarray:
    return X @ X.T


def mean_length(X: np.ndarray) -> float:
    return float(np.linalg.norm(X.mean(0)))


def squared_rank(X: np.ndarray) -> float:
    return float(np.trace(gram(X)) ** 2 / (gram(X) ** 2).sum())


def energy(X: np.ndarray, beta: float) -> float:
    return float(np.exp(beta * gram(X)).sum() / (2 * beta))


NAMES = {"normalized overlaps", "length of the mean direction", "participation rank", "algebraic rank", "group count"}
HALF = {"mean direction": 0, "participation rank": 1, "groups": 2}
WHOLE = {"mean direction": 1, "participation rank": 1, "groups": 1}
AXES = np.repeat(np.eye(3), 2, axis=0)


@pytest.mark.parametrize(
    ("name", "answers", "hint"),
    [
        ("observables", (lambda X: None, mean_length, squared_rank), "End it with `return`"),
        ("observables", (lambda X: X.T @ X, mean_length, squared_rank), "must return shape"),
        ("observables", (gram, lambda X: np.linalg.norm(X, axis=1).mean(), squared_rank), "Average the rows first"),
        ("observables", (gram, mean_length, plain_rank), "Square the singular values first"),
        ("observables", (gram, mean_length, lambda X: squared_rank(X - X.mean(0))), "without centering"),
        ("observables", (gram, mean_length, lambda X: squared_rank(X) * np.linalg.norm(X[0])), "rows are tripled"),
        ("four_vectors", (HALF | {"participation rank": 2}, WHOLE), "the participation rank of `opposed`"),
        ("four_vectors", (HALF, WHOLE | {"mean direction": 0}), "the mean direction of `aligned`"),
        ("three_groups", (AXES,), "mean direction must vanish"),
        ("three_groups", (np.repeat([[1.0, 0.0], [-1.0, 0.0]], 3, axis=0),), "is 2, not three"),
        ("three_groups", (2 * AXES,), "length one"),
        ("stretched", (1.8, 2), "square the singular values"),
        ("stretched", (2.0, 2), "start from the eigenvalues"),
        ("stretched", (25 / 17, 1), "independent rows"),
        ("survivors", (NAMES - {"group count"}, {"algebraic rank"}, NAMES - {"participation rank"}), "orthogonal map, 1 of"),
        ("survivors", (NAMES, {"algebraic rank", "participation rank"}, NAMES), "general invertible map, 1 of"),
        ("survivors", (NAMES, {"algebraic rank"}, NAMES), "positive row factors, 1 of"),
        ("survivors", (NAMES | {"energy"}, set(), set()), "not among the five names"),
        ("velocity", (lambda X, b: spun(X, b, project=False),), "Project it off"),
        ("velocity", (lambda X, b: spun(X, b, bare=True),), "weights sum to one"),
        ("velocity", (lambda X, b: spun(X, b, shared=True),), "not those of the course"),
        ("velocity", (lambda X, b: spun(X, 2 * b),), "not those of the course"),
        ("energy", (lambda X, b: energy(X, b) / 2, lambda X, b: 0.0), "all ordered pairs"),
        ("energy", (energy, lambda X, b: (spun(X, b) ** 2).sum()), "Which positive number"),
        ("falling", (np.eye(3), 1.0), "it should fall"),
        ("two_particles", (lambda s, c: math.tanh(s), lambda *_: 0.0), "At time zero"),
        ("two_particles", (lambda s, c: c + s * (1 - c**2), lambda *_: 0.0), "its equation asks for"),
        ("two_particles", (lambda s, c: float(np.tanh(s + np.arctanh(min(c, 1 - 1e-9) if c > -1 else -0.999))), lambda *_: 0.0), "exactly opposite pair rests"),
        ("two_particles", (tanh_law, lambda *_: 0.0), "One of the two is wrong"),
        ("two_particles", (tanh_law, lambda c, s, n: tanh_law(s, c) + 0.01), "Twice as many steps"),
        ("pair_rank", (lambda c: 2 / (1 + c), 1.6, 0.5), "misses what the eigenvalues"),
        ("pair_rank", (lambda c: 2 / (1 + c**2), 2.0, 0.5), "Put c into your formula"),
        ("pair_rank", (lambda c: 2 / (1 + c**2), 1.6, 0.5), "Which overlap makes"),
        ("time_to_nine_tenths", (math.log(19),), "has reached 0.99"),
        ("circle", (lambda phi, b: -_angular(phi, b), 1.0), "Every sign is reversed"),
        ("circle", (lambda phi, b: _angular(phi, b) * 2, 1.0), "normalized over j"),
        ("circle", (lambda phi, b: _angular(phi, b), 2.0), "With that K"),
        ("time_to_nine_tenths", ("soon",), "Your code stopped with ValueError"),
        ("trained_against_fresh", (None, "yes"), "Answer with one of"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_told_what_it_misses(
    name: str, answers: tuple[Any, ...], hint: str, capsys: pytest.CaptureFixture[str]
):
    checks = module("week_11_checks")
    check: Callable[..., None] = getattr(checks, name)
    check(*answers)
    told = capsys.readouterr().out
    assert told.startswith("Not yet") and hint in told, told
    assert not checks.DONE[name]


def _angular(phi: np.ndarray, beta: float) -> np.ndarray:
    differences = phi[None, :] - phi[:, None]
    weights = np.exp(beta * np.cos(differences))
    return (weights * np.sin(differences)).sum(1) / weights.sum(1)
