"""`armillary phase` from the command line: what it prints, what it refuses, and that it goes on where it was cut short."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from armillary import cli, figures
from armillary.records.record import Record
from armillary.studies.diagram import run
from armillary.studies.diagram.registry import preset_names

Ran = Callable[..., tuple[int, str, str]]

STUDY = """
title: Pairs that meet
seeds: 2
grid: {beta: [1, 4], dim: [2], tokens: [4]}
run: {until: 5, above: 0.99, within: 0.1, rtol: 1.0e-5, times: 3}
"""


@pytest.fixture
def armillary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=()))  # the page shows them all
    (tmp_path / "study.yaml").write_text(STUDY)

    def ran(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["armillary", "phase", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return ran


def test_every_preset_has_a_section_of_its_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "phase.md").read_text(encoding="utf-8")
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert sorted(one for one in headings if one in preset_names()) == sorted(preset_names())


def test_a_dry_run_names_the_cells_and_their_cost_and_writes_nothing(armillary: Ran, tmp_path: Path) -> None:
    code, out, err = armillary("--preset", "perspective", "--quick", "--dry-run", "--workers", 1)
    assert code == 0 and err == "" and "120 cells of 128 independent systems" in out
    assert "beta 0.1, dim 2" in out and "of one processor core" in out and out.count("differs: ") >= 3
    code, out, _ = armillary("--preset", "perspective", "--dry-run", "--json")
    said = json.loads(out)
    assert len(said["cells"]) == 540 and said["systems_per_cell"] == 2048 and said["core_seconds"] > 100
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]


def test_a_study_file_becomes_a_record_with_its_page_and_one_json_object(armillary: Ran, tmp_path: Path) -> None:
    code, out, err = armillary("--study", "study.yaml", "--out", "r", "--json")
    said = json.loads(out)
    assert code == 0 and err == "" and said["study"]["size"] == "study.yaml" and said["study"]["cells"] == 2
    assert said["study"]["grid"]["fixed"]["above"] == 0.99
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Pairs that meet" in page and "What these numbers do not show" in page
    code, out, _ = armillary("--study", "study.yaml", "--seeds", 3)
    assert code == 0 and "2 cells of 3 systems" in out and "record: records/phase-study" in out


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(
    armillary: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = run.measured_cell, []

    def interrupted(*given: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(run, "measured_cell", interrupted)
        code, out, err = armillary("--study", "study.yaml", "--out", "r")
    assert code == 130 and out == "" and "what is finished is kept in r.partial" in err
    code, _, err = armillary("--study", "study.yaml", "--out", "r")
    assert code == 0 and "1 of 2 cells are finished" in err
    assert Record.open(tmp_path / "r").provenance.get("partial") is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "`--preset` must name one of"),
        (["--preset", "nothing"], "`--preset` must be one of"),
        (["--study", "study.yaml", "--quick"], "`--quick` must be left out beside --study"),
        (["--study", "study.yaml", "--preset", "perspective"], "`--preset` must be left out beside --study"),
        (["--study", "nothing.toml"], "`--study` must be a file that can be read"),
        (["--preset", "perspective", "--backend", "threads"], "`--backend` must be one of"),
        (["--preset", "perspective", "--workers", 2], "`--workers` must be at least 1"),
        (["--preset", "perspective", "--quick", "--out", "."], "`--out` must be a new folder"),
    ],
)
def test_a_wrong_choice_gets_one_sentence_and_leaves_nothing(
    armillary: Ran, tmp_path: Path, arguments: list[object], words: str
) -> None:
    code, out, err = armillary(*arguments)
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]
