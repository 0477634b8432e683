"""The options that name a decoder: each refusal names the option that helps, and following it helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from armillary import cli
from test_sources import COMMIT, hub_cache, remote, without_safetensors
from tiny import saved, tiny_llama, tiny_tokenizer


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """`armillary check --json` with options: exit code, facts of the model, and what was said of trouble."""
    monkeypatch.chdir(tmp_path)

    def run(*options: Any) -> tuple[int, dict[str, Any], str]:
        monkeypatch.setattr(sys, "argv", ["armillary", "check", "--json", *map(str, options)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        seen = capsys.readouterr()
        return int(ended.value.code or 0), json.loads(seen.out)["model"] if seen.out else {}, seen.err

    return run


def test_pickled_weights_need_their_option(check: Any, tmp_path: Path) -> None:
    folder = without_safetensors(saved(tiny_llama(), tmp_path / "model"))
    code, _, said = check("--model", folder)
    assert code == 2 and "pass `--allow-pickle`" in said
    code, facts, _ = check("--model", folder, "--allow-pickle")
    assert code == 0 and facts["permitted"] == ["pickled weights: read as permitted, tensors and nothing else"]


def test_code_of_a_models_own_needs_its_option(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = remote(saved(tiny_llama(), tmp_path / "model"))
    code, _, said = check("--model", folder)
    assert code == 3 and "pass `--trust-remote-code`" in said
    code, facts, _ = check("--model", folder, "--trust-remote-code")
    assert code == 0 and facts["permitted"][0].startswith("remote code")


def test_a_tokenizer_can_be_named_and_must_fit(check: Any, tmp_path: Path) -> None:
    folder = saved(tiny_llama(vocabulary=250), tmp_path / "model")
    code, _, said = check("--model", folder)
    assert code == 2 and "Argument `--tokenizer` must have an embedding row for each of its ids" in said
    tiny_llama().save_pretrained(tmp_path / "bare")
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    code, facts, _ = check("--model", "bare", "--tokenizer", "tokenizer")
    assert code == 0 and "260 tokens" in facts["tokenizer"]


def test_a_revision_is_that_of_a_hub_id(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_cache(tmp_path / "hub", tiny_llama())
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    code, facts, _ = check("--model", "some-org/tiny", "--revision", "main")
    assert code == 0 and facts["revision"] == COMMIT
    code, _, said = check("--revision", "main")
    assert code == 2 and "Argument `--revision` must belong to a hub id" in said
