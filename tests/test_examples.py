"""Every example that the project shows is run: the README's Python, and the digits in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import armillary

ROOT = Path(__file__).parents[1]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.decoder
def test_the_ten_lines_of_the_readme_run_and_print_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block, *_ = python_blocks(ROOT / "README.md")  # the training loop behind it has a test in test_trainers
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"0\.\d+ \[0\.\d+, 0\.\d+\] 95% over \d+ documents", printed), printed
    assert (tmp_path / "records/from-python/measurements.nc").is_file()


def test_the_observable_of_the_contributors_page_prints_what_its_comment_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (block,) = python_blocks(ROOT / "CONTRIBUTING.md")
    try:
        exec(compile(block, "CONTRIBUTING.md", "exec"), {})
    finally:
        armillary.OBSERVABLES.pop("largest_overlap", None)
    assert float(capsys.readouterr().out) == pytest.approx(0.8)


def test_the_examples_of_all_docstrings_print_what_they_say() -> None:
    tried = 0
    for module in pkgutil.walk_packages(armillary.__path__, "armillary."):
        found = doctest.testmod(importlib.import_module(module.name))
        assert found.failed == 0, module.name
        tried += found.attempted
    assert tried > 0
