"""The documentation: built strictly, whole without a network, and true of the code of this moment."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import armillary

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
