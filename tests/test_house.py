"""The house itself: the page that describes it is true, its rooms are in order, its public names resolve."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch

import armillary
import conftest
from armillary.shapes import Configuration, Value

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "armillary"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = sorted(SOURCE.rglob("*.py"))
PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _layers() -> list[list[str]]:
    """The layers of the import contract from the ground up; a layer is a list of rooms."""
    contract = next(c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [[room.strip(" ()") for room in layer.split("|")] for layer in reversed(contract["layers"])]


def _expected_table() -> str:
    """The table of rooms as tree, first lines and import contract have it, from the ground up."""
    layers = _layers()
    existing = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    rows: list[tuple[int, str, str, str]] = []
    for path in FILES:
        name = path.relative_to(SOURCE).as_posix()
        first_line = (ast.get_docstring(_tree(path)) or "").split("\n")[0].replace("|", "\\|")
        room = name.split("/")[0].removesuffix(".py")
        if room == "__init__":
            rows.append((len(layers), name, first_line, "every room, at first use"))
            continue
        level = next(i for i, layer in enumerate(layers) if room in layer)
        below = next((here for layer in reversed(layers[:level]) if (here := [r for r in layer if r in existing])), [])
        may = ", ".join(f"`{r}`" for r in below)
        rows.append((level, name, first_line, f"{may} and below" if level > 1 else may or "nothing"))
    lines = ["| room | its first line | may import |", "| --- | --- | --- |"]
    return "\n".join(lines + [f"| `{name}` | {line} | {may} |" for _, name, line, may in sorted(rows)])


def _expected_list() -> str:
    """The rooms themselves, each with the first line of its own docstring, from the ground up."""
    rows = []
    for level, layer in enumerate(_layers()):
        for room in layer:
            path = SOURCE / room / "__init__.py" if (SOURCE / room).is_dir() else SOURCE / f"{room}.py"
            name = f"{room}/" if path.name == "__init__.py" else path.name
            rows.append((level, name, (ast.get_docstring(_tree(path)) or "").split("\n")[0]))
    return "\n".join(
        ["| where | what it is |", "| --- | --- |", *(f"| `{n}` | {line} |" for _, n, line in sorted(rows))]
    )


def _definitions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Functions and classes of a module and methods of its classes, with dotted names; not what is nested in functions."""
    to_visit: list[tuple[str, ast.AST]] = [("", _tree(path))]
    while to_visit:
        prefix, node = to_visit.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + child.name, child
                if isinstance(child, ast.ClassDef):
                    to_visit.append((f"{prefix}{child.name}.", child))


def _identifiers(path: Path) -> Iterator[str]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_the_architecture_page_holds_every_room_with_its_first_line_and_what_it_may_import():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for column, expected in (("where", _expected_list()), ("room", _expected_table())):
        tables = re.findall(rf"^\| {column} \|.*?(?=\n\n|\Z)", page, flags=re.MULTILINE | re.DOTALL)
        assert len(tables) == 1 and tables[0].strip().splitlines() == expected.splitlines(), (
            f"One table in docs/architecture.md must read:\n\n{expected}\n"
        )


def test_every_file_says_its_one_idea_in_a_first_line_that_ends_a_sentence():
    silent = []
    for path in FILES:
        first_line = (ast.get_docstring(_tree(path)) or "").split("\n")[0]
        if not first_line.endswith((".", "?")):
            silent.append(f"{path.relative_to(ROOT)}: {first_line!r}")
    assert not silent, silent


def test_no_room_has_a_name_that_says_nothing():
    refused = {"utils", "util", "misc", "helpers", "helper", "common", "base", "core", "tools"}
    assert not [str(path) for path in FILES if refused & {part.removesuffix(".py") for part in path.parts[-3:]}]


def test_everything_public_has_a_docstring():
    bare = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for name, node in _definitions(path)
        if not any(part.startswith("_") for part in name.split(".")) and not ast.get_docstring(node)
    ]
    assert not bare, bare


def test_functions_say_what_they_return_and_classes_are_nouns():
    refused = re.compile(r"^_?(get|compute|calculate)_|(Manager|Helper|Utils?)$")
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for name, _ in _definitions(path)
        if refused.search(name.rsplit(".", 1)[-1]) and not name.endswith("Mixin.compute_loss")  # the Trainer's own name
    ]
    assert not wrong, wrong


def test_no_identifier_uses_a_refused_word():
    refused = re.compile(r"temperature|effective_?rank|similarity|significant", flags=re.IGNORECASE)
    wrong = {
        f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in _identifiers(path) if refused.search(name)
    }
    assert not wrong, wrong


def test_spelling_is_american():
    british = re.compile(
        r"\w*(?:normalis|centre|colour|behaviour|regularis|initialis|neighbour|parametris|summaris|labelle|labelli|modelle|modelli|analysed|analysing)\w*",
        re.I,
    )
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in [*FILES, *PROSE]
        for word in british.findall(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, wrong


def test_every_public_name_resolves_and_is_what_its_module_offers():
    for name, module in armillary._PUBLIC.items():
        value = getattr(armillary, name)
        room = sys.modules[module]
        assert value is (room if module == f"armillary.{name}" else getattr(room, name)), name
        assert name in dir(armillary)
    assert armillary.__all__ == list(armillary._PUBLIC)


def test_type_checkers_see_the_same_public_names_as_the_table():
    block = next(node for node in _tree(SOURCE / "__init__.py").body if isinstance(node, ast.If))
    seen = {
        alias.asname: f"armillary.{alias.name}" if statement.module == "armillary" else statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == armillary._PUBLIC


def test_every_declared_observable_is_public_under_its_own_name():
    for path in sorted((SOURCE / "observables").glob("[!_]*.py")):
        importlib.import_module(f"armillary.observables.{path.stem}")
    declared = importlib.import_module("armillary.observables.declaration").OBSERVABLES
    assert len(declared) > 10
    assert {name: getattr(armillary, name, None) for name in declared if name.isidentifier()} == declared


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'effective_rank'"):
        armillary.effective_rank  # noqa: B018


@pytest.mark.parametrize("module", ["armillary", "armillary.cli"])
def test_importing_brings_in_no_heavy_library(module):
    heavy = ["torch", "transformers", "xarray", "pandas", "scipy", "matplotlib", "plotly"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_wrong_shape_is_refused_while_tests_run():
    assert type(armillary.__loader__).__name__ == "_JaxtypingLoader"  # the hook has read the package itself

    def first_row(rows: Configuration) -> Value:
        return rows[..., 0, :]

    enforced = jaxtyping.jaxtyped(first_row, typechecker=conftest.enforce_shapes)
    with pytest.raises(jaxtyping.TypeCheckError, match="parameters"):
        enforced(torch.zeros(3))
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        enforced(torch.zeros(2, 4, 3))


def test_the_constraints_pin_every_dependency_and_name_no_place():
    def plain(requirement: str) -> str:
        return re.split(r"[<>=~!\[; ]", requirement)[0].lower().replace("_", "-")

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins), pins
    wanted = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["dev"]
    assert {plain(requirement) for requirement in wanted} <= {plain(pin) for pin in pins}


def test_every_imported_library_is_a_declared_dependency():
    declared = {re.split(r"[<>=]", name)[0].replace("-", "_") for name in PROJECT["project"]["dependencies"]}
    declared = {
        {"scikit_learn": "sklearn", "pyyaml": "yaml"}.get(name, name) for name in declared
    }  # imported under another name
    imported = set()
    for path in FILES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").split(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"armillary"}
    optional = PROJECT["project"]["optional-dependencies"]
    extra = {
        name
        for name, group in (("distributed", "dask"), ("lightning", "lightning"))
        if any(name in one for one in optional[group])
    }
    assert foreign <= declared | extra, f"imported but not declared: {sorted(foreign - declared - extra)}"
    # the engine that xarray finds by itself, what it stands on, and what the library spreads layers over devices with
    used_by_name = {"h5netcdf", "h5py", "accelerate"}
    assert declared - used_by_name <= foreign, f"declared but not imported: {sorted(declared - used_by_name - foreign)}"


def test_the_version_is_said_once_in_effect():
    version = PROJECT["project"]["version"]
    assert armillary.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
