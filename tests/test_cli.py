"""The command line as a user meets it: each exit code reached for real, one sentence for each trouble, nothing half-written."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armillary import cli
from armillary.cli.export import Format
from armillary.cli.refusals import parser_words
from armillary.errors import ArgumentError
from armillary.estimates import MINIMUM_MEMBERS
from armillary.models.conditions import parse_condition
from armillary.records.exports import FORMATS, read_table
from armillary.records.record import Record
from armillary.report import write_comparison
from armillary.studies.presets import PRESETS
from sample_record import sample_record
from tiny import saved, tiny_gguf, tiny_llama, tiny_tokenizer

ROOT = Path(__file__).parents[1]
COMMAND = Path(sysconfig.get_path("scripts")) / "armillary"
LONG = "words and words and more words, until there are enough of them for any test "


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line on standard error, and nothing on standard output."""
        assert self.out == "" and self.err.startswith("armillary: ") and self.err.count("\n") == 1, self
        assert "Traceback" not in self.err and ".." not in self.err.replace("../", "")
        return self.err.strip()


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny matrices only lose by waiting for a second thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import torch

    folder = tmp_path_factory.mktemp("models")
    found = {"llama": saved(tiny_llama(), folder / "llama"), "gguf": tiny_gguf(tiny_llama(), folder / "tiny.gguf")}
    found["qwen"] = tiny_gguf(tiny_llama(), folder / "qwen.gguf", general_architecture="bert")
    found["pre"] = tiny_gguf(tiny_llama(), folder / "pre.gguf", pre_tokenizer="falcon")

    def changed(name: str, change: Callable[[Any], Any]) -> None:
        model = tiny_llama()
        with torch.no_grad():
            change(model)
        found[name] = saved(model, folder / name)

    changed("nan weight", lambda m: m.model.layers[2].mlp.down_proj.weight[0].fill_(float("nan")))
    changed("nan letter", lambda m: m.model.embed_tokens.weight[letter("Z")].fill_(float("nan")))
    changed("idle mlp", lambda m: [block.mlp.down_proj.weight.zero_() for block in m.model.layers])
    changed("idle attention", lambda m: [block.self_attn.o_proj.weight.zero_() for block in m.model.layers])
    tiny_llama().save_pretrained(folder / "no tokenizer")
    found["no tokenizer"] = folder / "no tokenizer"
    return found


def letter(text: str) -> int:
    return tiny_tokenizer()(text)["input_ids"][0]


def written(folder: Path, texts: dict[str, str | bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("texts") / "texts", {f"{k:02}.txt": f"{k * k} {LONG}" for k in range(8)})


@pytest.fixture
def armillary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """`main()` with these arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARMILLARY_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))

    def run(*arguments: Any) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["armillary", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        seen = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, seen.out, seen.err)

    return run


@pytest.fixture
def quick_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small files in the place of a page and its figures, which have tests of their own."""

    def figures(record: Record, folder: Path) -> tuple[Path, ...]:
        folder.mkdir()
        (folder / "one.svg").write_text("new")
        return (folder / "one.svg",)

    def page(record: Record, path: Path) -> Path:
        path.write_text("new page")
        return path

    monkeypatch.setattr("armillary.figures.write_figures", figures)
    monkeypatch.setattr("armillary.report.write_report", page)


@pytest.fixture
def lab(armillary: Callable[..., Outcome], quick_pictures: None, models: dict[str, Path], texts: Path) -> Any:
    """`armillary lab` on the tiny model and four short documents, in one condition unless said otherwise."""

    def run(*flags: str, **changed: Any) -> Outcome:
        options = {"model": models["llama"], "documents": texts, "conditions": "trained", "max_documents": 4}
        options |= {"max_tokens": 24, "out": "record", **changed}
        named = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        return armillary("lab", *named, *flags)

    return run


def listing(folder: Path = Path()) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def rows_of(outcome: Outcome) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(outcome.out)["measurements"]
    return rows


# done -----------------------------------------------------------------------------------------------------------------


def test_the_installed_command_goes_end_to_end_and_a_record_is_drawn_again_without_the_model(
    models: dict[str, Path],
    texts: Path,
    tmp_path: Path,
    armillary: Callable[..., Outcome],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = shutil.copytree(models["llama"], tmp_path / "model")
    arguments = ["lab", "--model", model, "--documents", texts, "--max-documents", "4", "--max-tokens", "24"]
    arguments += ["--conditions", "trained,ablated:mlp", "--layers", "0,4", "--out", "deep/down/record"]
    ended = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""  # no progress where there is no terminal, and no library that talks
    assert "record: deep/down/record\nreport: deep/down/record/report.html\n" in ended.stdout
    assert "mean overlap after block 4, rows normalized, first token left out:\n" in ended.stdout
    assert "  ablated-mlp " in ended.stdout and "95% over 4 documents" in ended.stdout
    assert ended.stdout.count("fewer than 8 documents") == 1  # said once, not beside every number
    record = tmp_path / "deep/down/record"
    held = {path.name for path in record.iterdir()}
    assert held == {"study.toml", "provenance.json", "measurements.nc", "report.html", "figures"}
    printed = {path.name for path in (record / "figures").iterdir()}
    names = {name.split(".")[0] for name in printed}
    assert names and printed == {f"{name}.{kind}" for name in names for kind in ("pdf", "svg", "png")}
    before = {path.name: path.read_bytes() for path in record.iterdir() if path.is_file()}

    shutil.rmtree(model)
    monkeypatch.setattr("armillary.models.decoder.load_decoder", None)
    (record / "report.html").unlink()
    shutil.rmtree(record / "figures")
    figures = importlib.import_module("armillary.figures")
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=("svg",)))
    again = armillary("report", record)
    assert again == Outcome(0, f"{record}/report.html\n", "")
    assert {path.name for path in record.iterdir()} == held
    assert {path.name for path in (record / "figures").iterdir()} == {f"{name}.svg" for name in names}
    for name in ("study.toml", "provenance.json", "measurements.nc"):
        assert (record / name).read_bytes() == before[name]
    assert (record / "report.html").read_text() == before["report.html"].decode()


def test_json_is_one_strict_object_with_facts_token_hash_and_a_row_for_each_number(lab: Any, texts: Path) -> None:
    outcome = lab("--json", conditions="trained,ablated:mlp:2-3", layers="0,2-3")
    assert (outcome.code, outcome.err) == (0, "") and outcome.out.count("\n") == 1 and outcome.out.isascii()

    def refused(constant: str) -> None:
        pytest.fail(f"{constant} is no JSON")

    found = json.loads(outcome.out, parse_constant=refused)
    assert set(found) == {"model", "token_hash", "skipped", "measurements"} and found["skipped"] == []
    facts = (
        "layers",
        "heads",
        "key_value_heads",
        "width",
        "vocabulary",
        "context",
        "norm",
        "norm_place",
        "tied",
        "dtype",
    )
    assert [found["model"][fact] for fact in facts] == [4, 4, 2, 24, 260, 64, "RMSNorm", "pre", False, "float32"]
    ids = [tiny_tokenizer()(path.read_text())["input_ids"][:24] for path in sorted(texts.iterdir())[:4]]
    assert found["token_hash"] == hashlib.sha256(np.asarray(ids, dtype="<i4").tobytes()).hexdigest()
    keys = [
        "condition",
        "layer",
        "tap",
        "measurement",
        "preparation",
        "tokens",
        "head",
        "value",
        "low",
        "high",
        "level",
        "documents",
    ]
    rows = found["measurements"]
    assert all(list(row) == keys for row in rows)
    assert {row["condition"] for row in rows} == {"trained", "ablated-mlp-2-3"}
    assert {row["layer"] for row in rows} == {0, 2, 3, None}  # None: the loss
    assert {row["tap"] for row in rows if row["layer"] == 0} == {"embedding", "embedding_read"}
    assert {row["level"] for row in rows} == {0.95} and {row["documents"] for row in rows} <= {0, 1, 2, 3, 4}
    assert len({json.dumps([row[key] for key in keys[:7]]) for row in rows}) == len(rows) > 200
    assert rows == Record.open("record").rows()


def test_conditions_are_repeated_or_separated_by_commas_and_the_first_carries_the_statement(lab: Any) -> None:
    outcome = lab("--quiet", "--conditions", "trained, initial:0.02:1", conditions="ablated:mlp", layers="4")
    assert outcome == Outcome(0, "", "")
    record = Record.open("record")
    assert record.study["conditions"] == ["ablated-mlp", "trained", "initial-0.02-seed1"]
    assert record.dataset["statement_value"].attrs["condition"] == "ablated-mlp"


def test_the_default_conditions_are_the_six_of_the_help(
    armillary: Callable[..., Outcome], models: dict[str, Path], texts: Path
) -> None:
    outcome = armillary(
        "lab", "--model", models["llama"], "--documents", texts, "--max-tokens", 24, "--dry-run", "--json"
    )
    names = [
        "trained",
        "initial-released-seed0",
        "initial-library-seed0",
        "ablated-mlp",
        "ablated-attention",
        "ablated-positions",
    ]
    assert outcome.code == 0 and json.loads(outcome.out)["conditions"] == names


def test_where_nobody_recorded_a_released_spread_the_default_leaves_that_condition_out(
    armillary: Callable[..., Outcome], models: dict[str, Path], texts: Path
) -> None:
    outcome = armillary(
        "lab", "--model", models["gguf"], "--documents", texts, "--max-tokens", 24, "--dry-run", "--json"
    )
    assert outcome.code == 0 and "initial-released-seed0" not in json.loads(outcome.out)["conditions"]


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(lab: Any) -> None:
    outcome = lab("--dry-run", conditions="trained,ablated:mlp", layers="0-2")
    assert outcome.code == 0 and outcome.err == "" and listing() == []
    assert "conditions: trained, ablated-mlp\n" in outcome.out and "layers: 3" in outcome.out
    assert "documents: 4" in outcome.out and "estimated seconds: " in outcome.out
    assert json.loads(lab("--dry-run", "--json").out)["document_passes"] == 4 + 4  # four more for calibration


def test_quiet_says_nothing_and_layers_are_those_asked_for(lab: Any) -> None:
    assert lab("--quiet", layers="3, 0-1,1") == Outcome(0, "", "")
    assert Record.open("record").dataset["layer"].values.tolist() == [0, 1, 3]
    assert Path("record/report.html").read_text() == "new page" and Path("record/figures/one.svg").is_file()


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_appears_on_a_terminal_unless_quiet_and_never_in_the_json(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # colors asked for do not make a terminal
    assert lab("--json", layers="4", out="silent").err == ""
    for flags, shown in ((("--json",), True), (("--json", "--quiet"), False)):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        outcome = lab(*flags, layers="4", out=f"seen {shown}")
        assert outcome.code == 0 and rows_of(outcome)
        assert ("trained" in screen.getvalue() and "drawing" in screen.getvalue()) is shown


def test_the_seed_moves_intervals_only_and_the_level_their_width(lab: Any) -> None:
    def numbers(name: str, **options: Any) -> list[tuple[Any, ...]]:
        rows = rows_of(lab("--json", layers="4", out=name, **options))
        rows = [row for row in rows if row["measurement"] == "mean_overlap" and row["tap"] == "block"]
        return [(row["value"], row["low"], row["high"]) for row in rows]

    one, same, other, narrow = numbers("a"), numbers("b", seed=0), numbers("c", seed=1), numbers("d", level="0.5")
    assert one == same and one != other and [row[0] for row in one] == [row[0] for row in other]
    assert all(a[1] < n[1] < n[2] < a[2] for a, n in zip(one, narrow, strict=True))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_the_type_asked_for_is_the_type_measured_in(dtype: str, lab: Any) -> None:
    assert json.loads(lab("--json", layers="4", dtype=dtype).out)["model"]["dtype"] == dtype


def test_an_ablation_alone_is_measured(lab: Any) -> None:
    assert {row["condition"] for row in rows_of(lab("--json", conditions="ablated:mlp", layers="4"))} == {"ablated-mlp"}


def test_a_gguf_file_is_measured_and_leaves_nothing_outside_record_and_cache(lab: Any, models: dict[str, Path]) -> None:
    assert lab("--quiet", model=models["gguf"], layers="4").code == 0
    assert {path.name for path in Path().iterdir()} == {"record"}


def test_check_prints_every_promise_and_as_json_the_facts_too(
    armillary: Callable[..., Outcome], models: dict[str, Path]
) -> None:
    plain = armillary("check", "--model", models["llama"])
    assert plain.code == 0 and plain.out.count("kept  ") == 21 and "MISSED" not in plain.out
    found = json.loads(armillary("check", "--model", models["llama"], "--json").out)
    assert found["model"]["layers"] == 4 and all(one["passed"] for one in found["promises"])
    assert {one["name"] for one in found["promises"]} > {"finite", "causal", "sublayers", "hooks"}


# 1, 3, 4: the model ---------------------------------------------------------------------------------------------------


def test_a_decoder_that_misses_a_promise_ends_check_with_1_and_the_laboratory_with_3(
    armillary: Callable[..., Outcome], lab: Any, models: dict[str, Path]
) -> None:
    outcome = armillary("check", "--model", models["idle attention"])
    assert outcome.code == 1 and "MISSED  attention matters: expected halving" in outcome.out and outcome.err == ""
    refused = lab(model=models["idle attention"])
    assert refused.code == 3 and 'misses "attention matters": expected' in refused.sentence and listing() == []


def test_a_condition_that_changes_nothing_ends_with_1(lab: Any, models: dict[str, Path]) -> None:
    outcome = lab(model=models["idle mlp"], conditions="trained,ablated:mlp")
    assert outcome.code == 1 and "ablated-mlp must change the decoder" in outcome.sentence
    assert not Path("record").exists()  # what was finished before is kept beside it, and another choice is told so
    again = lab(model=models["idle mlp"], conditions="trained")
    assert again.code == 2 and "conditions" in again.sentence and "record.partial" in again.sentence
    shutil.rmtree("record.partial")
    assert lab(model=models["idle mlp"], conditions="trained").code == 0


@pytest.mark.parametrize(("name", "got"), [("qwen", "says 'bert'"), ("pre", "uses 'falcon'")])
def test_a_gguf_file_that_cannot_be_read_right_ends_with_3(
    name: str, got: str, lab: Any, models: dict[str, Path]
) -> None:
    outcome = lab(model=models[name])
    assert (
        outcome.code == 3 and got in outcome.sentence and "Argument `--model` must" in outcome.err and listing() == []
    )


def test_an_architecture_outside_the_families_ends_with_3(lab: Any, models: dict[str, Path]) -> None:
    folder = shutil.copytree(models["llama"], Path("bert"))
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    outcome = lab(model=folder)
    assert outcome.code == 3 and "LlamaForCausalLM" in outcome.sentence and "but bert is BertModel" in outcome.err


def test_weights_that_are_not_finite_end_with_4_and_are_named(
    armillary: Callable[..., Outcome], lab: Any, models: dict[str, Path]
) -> None:
    outcome = lab(model=models["nan weight"])
    assert outcome.code == 4 and listing() == []
    for named in (
        "condition trained",
        "layer 3 (block)",
        "document 1",
        "token 0",
        "weight model.layers.2.mlp.down_proj.weight",
    ):
        assert named in outcome.sentence
    assert armillary("check", "--model", models["nan weight"]).out.count("MISSED  finite") == 1


def test_states_that_are_not_finite_end_with_4_and_condition_layer_document_and_token(
    lab: Any, models: dict[str, Path]
) -> None:
    folder = written(Path("odd"), {"a.txt": f"a {LONG}", "b.txt": f"b and Z {LONG}", "c.txt": f"c {LONG}"})
    outcome = lab(model=models["nan letter"], documents=folder)
    assert outcome.code == 4 and not Path("record").exists()
    assert "condition trained, layer 0 (block), document 'b.txt', token 6" in outcome.sentence


# 5: documents ---------------------------------------------------------------------------------------------------------


MIXED = {
    "a.txt": f"a {LONG}",
    "b.txt": b"\xff\xfe",
    "c.txt": "",
    "d.txt": f"d {LONG}",
    "e.txt": "short",
    "f.txt": f"a {LONG}",
}


def test_documents_that_had_to_be_skipped_end_with_5_each_with_its_reason(lab: Any) -> None:
    folder = written(Path("mixed"), MIXED)
    outcome = lab(documents=folder, layers="4")
    assert outcome.code == 5 and Record.open("record").dataset["document"].values.tolist() == ["a.txt", "d.txt"]
    skipped = outcome.err.splitlines()
    assert skipped[:2] == ["skipped b.txt: not UTF-8: byte 0 is 0xff", "skipped c.txt: empty"]
    assert skipped[2:] == [
        "skipped e.txt: too short: 5 tokens, 24 are needed",
        "skipped f.txt: the same first 24 tokens as 'a.txt'",
    ]
    as_json = lab("--json", documents=folder, layers="4", out="again")
    assert as_json.code == 5 and len(json.loads(as_json.out)["skipped"]) == 4 and as_json.err == outcome.err
    assert lab("--quiet", documents=folder, layers="4", out="quiet") == Outcome(5, "", "")


def test_a_selection_that_was_asked_for_is_no_skip(lab: Any) -> None:
    folder = written(
        Path("more"), {"a.txt": f"a {LONG}", "b.txt": f"b {LONG}", "c.txt": b"\xff", "d.md": f"d {LONG}", "e.csv": "1"}
    )
    assert lab("--quiet", documents=folder, max_documents=2, layers="4").code == 0


@pytest.mark.parametrize("name", ["t.txt", "t.jsonl", "t.csv", "t.tsv", "t.parquet"])
def test_a_file_of_documents_is_read_as_what_it_is(name: str, lab: Any, tmp_path: Path) -> None:
    import pandas as pd

    rows = pd.DataFrame({"name": list("abcde"), "body": [f"{k * k} {LONG}" for k in range(5)]})
    flags: dict[str, Any] = {"text_column": "body", "id_column": "name"}
    if name == "t.txt":
        (tmp_path / name).write_text("\n\n".join(rows["body"]))
        flags = {"separator": r"\n\n"}
    elif name == "t.jsonl":
        rows.to_json(tmp_path / name, orient="records", lines=True)
    elif name == "t.parquet":
        rows.to_parquet(tmp_path / name)
    else:
        rows.to_csv(tmp_path / name, sep="\t" if name == "t.tsv" else ",", index=False)
    assert lab("--quiet", documents=name, genre="made-up sentences", **flags).code == 0
    kept = Record.open(tmp_path / "record")
    titles = [f"t.txt, text {n}" for n in (1, 2, 3, 4)] if name == "t.txt" else ["a", "b", "c", "d"]
    assert kept.provenance["documents"]["titles"] == titles
    assert kept.study["documents"]["genre"] == "made-up sentences"
    assert kept.provenance["documents"]["source"] == f"file {name}"


def test_a_genre_that_python_carries_is_measured_and_named_in_the_record(
    armillary: Callable[..., Outcome], models: dict[str, Path], quick_pictures: None
) -> None:
    arguments = ["--model", models["llama"], "--conditions", "trained", "--max-documents", "3", "--max-tokens", "16"]
    arguments += ["--layers", "0", "--quiet"]
    sources = {}
    for flags in ((), ("--genre", "reference"), ("--genre", "docstrings")):
        assert armillary("lab", *arguments, *flags, "--out", f"record{len(sources)}").code == 0
        kept = Record.open(f"record{len(sources)}")
        sources[flags] = (kept.study["documents"]["genre"], kept.provenance["documents"]["token_hash"])
    assert sources[()] == sources[("--genre", "reference")] != sources[("--genre", "docstrings")]
    assert sources[("--genre", "docstrings")][0].startswith("docstrings of Python's standard library")


@pytest.mark.parametrize(("cut", "titles"), [("split:1:3", "piece"), ("pack:<end>", "and 1 more")])
def test_texts_are_cut_by_the_rule_asked_for(cut: str, titles: str, lab: Any, tmp_path: Path) -> None:
    short = written(
        tmp_path / "short", {f"{k}.txt": f"{k} some seventeen" + f", {k} more" * 9 * (k % 2) for k in range(10)}
    )
    length = 24 if "pack" in cut else 16
    assert lab("--quiet", documents=short, cut=cut, max_tokens=length).code == 0
    kept = Record.open(tmp_path / "record").provenance["documents"]
    assert any(titles in title for title in kept["titles"]), kept["titles"]


def test_a_start_token_twice_is_a_warning_on_standard_error(lab: Any, models: dict[str, Path], tmp_path: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    model = shutil.copytree(models["llama"], tmp_path / "adds")
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<start> $A", special_tokens=[("<start>", 256)]
    )
    tokenizer.save_pretrained(model)
    folder = written(tmp_path / "doubled", {"a.txt": f"<start>1 {LONG}", "b.txt": f"2 {LONG}"})
    ended = lab("--quiet", documents=folder, model=model)
    assert ended.code == 0 and ended.err.count("\n") == 1
    assert ended.err.startswith("armillary: warning: 1 documents begin with a start token twice, first 'a.txt'")


def test_names_in_any_script_and_texts_that_spell_special_tokens_are_documents(
    lab: Any, models: dict[str, Path]
) -> None:
    folder = written(
        Path("scripts"), {"日本.txt": "日本語" * 20, "ä ö.txt": f"<start><end> {LONG}", "q'\"<b>.txt": LONG}
    )
    model = shutil.copytree(models["llama"], Path("mödel"))
    outcome = lab("--json", documents=folder, model=model, layers="4")
    assert outcome.code == 0 and outcome.out.isascii() and json.loads(outcome.out)["model"]["name"] == "mödel"
    kept = Record.open("record").provenance["documents"]
    assert kept["titles"] == ["q'\"<b>.txt", "ä ö.txt", "日本.txt"] and kept["first_ids"][1] == 256
    assert kept["start_token"].endswith("special tokens spelled out in 1 documents, first in 'ä ö.txt'")


BAD_FOLDERS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no documents": ({}, "none of the 0 entries"),
    "nothing that is text": ({"a.pdf": LONG}, "none of the 1 entries"),
    "empty": ({"a.txt": "", "b.txt": " \n"}, "'a.txt': empty"),
    "not UTF-8": ({"a.txt": b"\xe4\xf6" * 50}, "'a.txt': not UTF-8: byte 0 is 0xe4"),
    "too short": ({"a.txt": "abc", "b.txt": "abcd"}, "none has 24 tokens (the longest has 4)"),
    "one document": ({"a.txt": LONG}, "must hold at least two documents of 24 tokens, but it holds one, 'a.txt'"),
    "one that can be used": ({"a.txt": LONG, "b.txt": "b"}, "'b.txt' was skipped: too short"),
    "the same twice": ({"a.txt": LONG, "b.txt": LONG}, "the same first 24 tokens as 'a.txt'"),
}


@pytest.mark.parametrize("case", BAD_FOLDERS)
def test_documents_that_cannot_be_measured_end_with_2_and_one_sentence(case: str, lab: Any) -> None:
    files, got = BAD_FOLDERS[case]
    folder = written(Path("folder"), files)
    before = listing()
    outcome = lab(documents=folder)
    assert outcome.code == 2 and got in outcome.sentence and listing() == before
    assert "Argument `--documents` must" in outcome.err or "Argument `--max-tokens` must" in outcome.err


# presets --------------------------------------------------------------------------------------------------------------


def studied(record: str = "record") -> dict[str, Any]:
    return tomllib.loads((Path(record) / "study.toml").read_text(encoding="utf-8"))


def test_a_preset_decides_what_no_option_decides_and_the_record_names_both(
    armillary: Callable[..., Outcome], quick_pictures: None, models: dict[str, Path], texts: Path
) -> None:
    given = ["--model", models["llama"], "--documents", texts, "--preset", "class", "--max-documents", "3"]
    assert armillary("lab", *given, "--max-tokens", "24", "--out", "record").code == 0
    study, row = studied(), PRESETS["class"]
    assert study["conditions"] == list(row.conditions)
    assert (study["documents"]["count"], study["documents"]["tokens"]) == (3, 24)
    assert study["preset"] == "class, except max_documents, max_tokens"


def test_without_options_a_presets_own_numbers_are_asked_for(
    armillary: Callable[..., Outcome], models: dict[str, Path], tmp_path: Path
) -> None:
    row = PRESETS["class"]
    many = written(tmp_path / "many", {f"{k:02}.txt": f"{k * k} " + 20 * LONG for k in range(row.documents + 9)})
    long = tiny_llama()
    long.config.max_position_embeddings = row.tokens
    model = saved(long, tmp_path / "long")
    ended = armillary("lab", "--model", model, "--documents", many, "--preset", "class", "--dry-run", "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["documents"], told["tokens_each"], len(told["conditions"])) == (row.documents, row.tokens, 4)


def test_every_name_of_a_preset_is_a_condition_by_its_own_name() -> None:
    for row in PRESETS.values():
        assert [parse_condition(name).name for name in row.conditions] == list(row.conditions)
        assert row.conditions[0] == "trained" and row.documents >= MINIMUM_MEMBERS


# 2: bad input ---------------------------------------------------------------------------------------------------------


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"documents": "nowhere"}, "but nowhere does not exist"),
    ({"documents": ROOT / "README.md"}, "stands between two documents of the text file"),
    ({"max_documents": 1}, "`--max-documents` must be at least 2, but it is 1"),
    ({"max_documents": 0}, "'--max-documents': Input should be greater than or equal to 1, but it is '0'"),
    ({"max_documents": "many"}, "valid integer, unable to parse string as an integer, but it is 'many'"),
    ({"max_tokens": 5000}, "`--max-tokens` must be at most 64, the context of this decoder, but it is 5000"),
    ({"max_tokens": 65}, "but it is 65. Ask for fewer"),
    ({"preset": "klass"}, "`--preset` must be one of full, class, but it is 'klass'. Leave it out for full"),
    ({"max_tokens": 3}, "greater than or equal to 4, but it is '3'"),
    ({"batch_size": 0}, "'--batch-size': Input should be greater than or equal to 1, but it is '0'"),
    ({"layers": "7-3"}, "`--layers` must look like 0,5,10-30, but it is '7-3'"),
    ({"layers": ""}, "but it is ''"),
    ({"layers": "1,"}, "but it is '1,'"),
    ({"layers": "²"}, "but it is '²'"),
    ({"layers": "-1"}, "but it is '-1'"),
    ({"layers": "5"}, "`--layers` must lie within 0 (embedding) and 4, the blocks of this decoder, but it is '5'"),
    ({"layers": "0-99999999999999"}, "but it is '0-99999999999999'"),
    ({"conditions": "trained,trained"}, "`--conditions` must name each condition once, but trained comes twice"),
    ({"conditions": "initial,initial:released:0"}, "but initial-released-seed0 comes twice"),
    ({"conditions": "trained,"}, "must name a state of the decoder, but is ''. Accepted: trained; initial;"),
    ({"conditions": "Trained"}, "but is 'Trained'. Accepted:"),
    ({"conditions": "ablated:mlp:5"}, "`--conditions` must fit the decoder, but 'ablated:mlp:5' does not:"),
    (
        {"conditions": "trained,ablated:head:1:4"},
        "'ablated:head:1:4' does not: Argument `head` must lie between 0 and 3",
    ),
    ({"conditions": "ablated:mlp:1-99999999999999"}, "1-99999999999999"),
    ({"conditions": "ablated:mlp:3-1"}, "but is 'ablated:mlp:3-1'. Accepted:"),
    ({"conditions": "initial:nan"}, "but is 'initial:nan'. Accepted:"),
    ({"level": "1"}, "`--level` must lie between 0 and 1, but it is 1"),
    ({"level": "0"}, "but it is 0"),
    ({"level": "nan"}, "but it is nan"),
    ({"level": "95"}, "but it is 95. Write 0.95"),
    (
        {"level": "high"},
        "'--level': Input should be a valid number, unable to parse string as a number, but it is 'high'",
    ),
    ({"seed": "-1"}, "'--seed': Input should be greater than or equal to 0, but it is '-1'"),
    ({"seed": 2**63}, "less than or equal to 9223372036854775807"),
    ({"dtype": "int8"}, "`--dtype` must be one of float32, float64, bfloat16, float16, but is 'int8'"),
    ({"device": "tpu"}, "`--device` must be auto, cpu, cuda, mps or map, but is 'tpu'"),
    ({"level": "0.9999"}, "`--level` must be at most 0.995, so that five of 2000 resamples"),
    ({"threads": 10**6}, "`--threads` must be at most"),
    ({"axes": "documents"}, "`--axes` must come with --states"),
    ({"states_array": "x"}, "`--states-array` must come with --states"),
    ({"model": "nowhere/at/all"}, "`--model` must be a GGUF file, a folder, a hub id"),
    ({"model": "nobody/nothing"}, "'nobody/nothing' is no file or folder here and the hub does not bring it"),
    ({"model": ROOT / "docs"}, "docs holds no config.json"),
]


@pytest.mark.parametrize(("changed", "got"), BAD_OPTIONS, ids=lambda value: str(value)[:40])
def test_options_that_cannot_be_used_end_with_2_and_one_sentence(changed: dict[str, Any], got: str, lab: Any) -> None:
    outcome = lab(**changed)
    assert outcome.code == 2 and got in outcome.sentence and listing() == []


@pytest.mark.parametrize(
    ("changed", "got"),
    [
        ({"cut": "cut"}, "`--cut` must be truncate, split"),
        ({"cut": "split:0"}, "`--cut` must take at least one piece, but it is 'split:0'"),
        ({"text_column": "b"}, "`--text-column` must come with a table ending in .csv"),
        ({"id_column": "a"}, "`--id-column` must come with a table ending in .csv"),
        ({"documents": "one.txt", "separator": ";", "id_column": "a"}, "`--id-column` must come with a table"),
        ({"cut": "split:2"}, "Take one piece of each text with Split(pieces_per_text=1) or --cut split"),
        ({"cut": "pack:no token"}, "`--cut` must be one token of the tokenizer"),
        ({"separator": ";"}, "`--separator` must be left out here"),
        ({"documents": "one.txt"}, "`--separator` must say what stands between"),
        ({"documents": "t.csv"}, "`--text-column` must be a column of t.csv, but 'text' is none of a, b"),
        ({"documents": "t.csv", "text_column": "b", "id_column": "c"}, "`--id-column` must be a column of t.csv"),
        ({"documents": "t.csv", "text_column": "b", "id_column": "a"}, "rows 1 and 2 are both '1'"),
    ],
)
def test_documents_that_cannot_be_read_as_asked_end_with_2_and_one_sentence(
    changed: dict[str, Any], got: str, lab: Any, tmp_path: Path
) -> None:
    (tmp_path / "one.txt").write_text(LONG)
    (tmp_path / "t.csv").write_text(f'a,b\n1,"one {LONG}"\n1,"two {LONG}"\n')
    outcome = lab(**changed)
    assert outcome.code == 2 and got in outcome.sentence and listing() == ["one.txt", "t.csv"]


@pytest.mark.parametrize(
    ("flags", "got"),
    [
        (("--genre", "poems"), "`--genre` must be one of reference, docstrings"),
        (("--separator", ";"), "`--separator` must come with --documents"),
        (("--id-column", "id"), "`--id-column` must come with --documents"),
        (("--text-column", "body"), "`--text-column` must come with --documents"),
    ],
)
def test_options_about_texts_are_judged_before_a_model_is_loaded(
    flags: tuple[str, str], got: str, armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armillary.models.decoder.load_decoder", lambda *_, **__: pytest.fail("a model was loaded"))
    outcome = armillary("lab", *flags)
    assert outcome.code == 2 and got in outcome.sentence


def test_conditions_are_judged_before_the_first_is_measured(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    laboratory = importlib.import_module("armillary.studies.laboratory")
    monkeypatch.setattr(laboratory.Laboratory, "run", lambda *_, **__: pytest.fail("something ran"))
    assert lab(conditions="trained,ablated:mlp:99").code == 2


def test_a_graphics_card_that_is_not_there_gets_one_sentence(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = lab(device="cuda")
    assert (
        outcome.code == 2
        and "`--device` must be one this machine has, but 'cuda' is not available. Use \"cpu\"" in outcome.sentence
    )


def test_a_model_without_a_tokenizer_is_told_what_it_lacks(lab: Any, models: dict[str, Path]) -> None:
    outcome = lab(model=models["no tokenizer"])
    assert (
        outcome.code == 2
        and "holds none. Put its tokenizer.json beside the weights" in outcome.sentence
        and listing() == []
    )


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.9, 0.9999])
@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_a_truncated_file_ends_with_2_and_leaves_nothing_behind(
    kind: str, share: float, lab: Any, models: dict[str, Path]
) -> None:
    cache = Path(os.environ["ARMILLARY_CACHE"])
    if kind == "gguf":
        source = file = Path(shutil.copy(models["gguf"], "cut.gguf"))
    else:
        source = shutil.copytree(models["llama"], Path("cut"))
        file = source / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    before = listing()
    outcome = lab(model=source)
    assert outcome.code == 2 and "Argument `--model` must be a" in outcome.sentence and "cut" in outcome.err
    assert listing() == before and (not cache.exists() or listing(cache) == [])


CHANGED_CONFIGS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is not JSON"),
    "no object": ([], "holds no JSON object"),
    "no architecture": ({"architectures": None}, "names no architecture (None)"),
    "fewer blocks than the file": (
        {"num_hidden_layers": 2},
        "holds 18, the first model.layers.2.input_layernorm.weight",
    ),
    "more blocks than the file": ({"num_hidden_layers": 6}, "lacks 18, the first model.layers.4."),
    "another width": ({"hidden_size": 32}, "is [260, 24], not [260, 32]"),
    "a number in words": ({"num_hidden_layers": "four"}, "expected int, got str"),
    "a spread in words": ({"initializer_range": "small"}, "expected float, got str"),
    "quantized": ({"quantization_config": {"quant_method": "awq"}}, "is quantized (awq)"),
    "code of its own": ({"auto_map": {"AutoModelForCausalLM": "m.M"}}, "which may do anything on this machine"),
}


@pytest.mark.parametrize("case", CHANGED_CONFIGS)
def test_a_configuration_that_does_not_fit_its_weights_is_one_sentence(
    case: str, lab: Any, models: dict[str, Path]
) -> None:
    change, got = CHANGED_CONFIGS[case]
    folder = shutil.copytree(models["llama"], Path("model"))
    config = json.loads((folder / "config.json").read_text())
    text = change if isinstance(change, str) else json.dumps(config | change if isinstance(change, dict) else change)
    (folder / "config.json").write_text(text)
    before = listing()
    outcome = lab(model=folder)
    assert outcome.code == (3 if case in ("quantized", "code of its own") else 2)
    assert got in outcome.sentence and listing() == before


@pytest.mark.parametrize(
    "place", ["taken", "file", "file/below", "/proc/self/record", "/proc/none/record", ".", "n" * 300]
)
def test_a_place_where_no_record_can_be_written_is_refused_before_a_model_is_loaded(
    place: str, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armillary.models.decoder.load_decoder", None)
    written(Path("taken"), {"study.toml": "mine"})
    Path("file").write_text("mine")
    before = listing()
    outcome = lab(out=place)
    named = place if Path(place).parent == Path() else str(Path(place).parent)
    assert outcome.code == 2 and named in outcome.sentence and listing() == before
    assert Path("taken/study.toml").read_text() == Path("file").read_text() == "mine"


def test_what_the_output_goes_to_may_be_full(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("armillary.cli.terminal.print_json", full)
    outcome = lab("--dry-run", "--json")
    words = "armillary: A file, or what the output goes to, cannot be used (No space left on device). Check the disk"
    assert outcome.code == 2 and outcome.sentence.startswith(words)


def test_a_home_that_matplotlib_cannot_write_to_is_not_spoken_of(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = logging.getLogger("matplotlib")
    monkeypatch.setattr(words, "level", logging.NOTSET)
    assert armillary("report", "nowhere").code == 2
    assert not words.isEnabledFor(logging.WARNING) and words.isEnabledFor(logging.ERROR)


def test_a_path_that_the_parser_names_is_not_named_twice() -> None:
    said = "Invalid value for '--documents': path '/a' is not readable"
    assert parser_words(said, ["lab", "--documents", "/a"]) == f"{said}. See `armillary lab --help`."
    said = "Invalid value for '--seed': not a number"
    assert parser_words(said, ["lab", "--seed", "x"]) == f"{said}, but it is 'x'. See `armillary lab --help`."


def test_a_disk_that_fills_up_while_the_record_is_written_loses_nothing_and_the_same_command_ends_it(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        Path(_[1]).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(_[1]))

    with monkeypatch.context() as patched:
        patched.setattr("xarray.Dataset.to_netcdf", full)
        outcome = lab(layers="4", out="deep/record")
    assert outcome.code == 2 and "No space left on device" in outcome.sentence
    assert "Make room, then run the same command again" in outcome.sentence
    assert [path.name for path in Path("deep").iterdir()] == ["record.partial"]
    monkeypatch.setattr("armillary.studies.chunk.Bench.measure", None)
    assert lab(layers="4", out="deep/record").code == 0
    assert [path.name for path in Path("deep").iterdir()] == ["record"]


def test_too_little_memory_is_one_sentence_and_a_fault_of_ours_keeps_its_traceback(
    lab: Any, armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    laboratory = importlib.import_module("armillary.studies.laboratory")

    def failing(error: Exception) -> Callable[..., None]:
        def run(*_: Any, **__: Any) -> None:
            raise error

        return run

    too_much = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
    for error in (MemoryError(), too_much):
        monkeypatch.setattr(laboratory.Laboratory, "run", failing(error))
        outcome = lab()
        assert outcome.code == 2 and "Lower --batch-size or --max-tokens" in outcome.sentence and listing() == []
    diagrams = importlib.import_module("armillary.studies.diagram.run")
    monkeypatch.setattr(diagrams.Diagram, "run", failing(MemoryError()))
    outcome = armillary("phase", "--preset", "perspective", "--quick")  # told of no option that it does not have
    assert outcome.code == 2 and outcome.sentence.endswith("does not suffice. Lower --workers or --seeds.")
    outcome = armillary("phase", "--preset", "perspective", "--quick", "--workers", "1", "--seeds", "8")
    assert outcome.code == 2  # the options that were named are there
    monkeypatch.setattr(laboratory.Laboratory, "run", failing(RuntimeError("a fault")))
    with pytest.raises(RuntimeError, match="a fault"):
        lab()


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        (["lab", "--modle", "x"], "No such option: --modle (Possible options: --model"),
        (["lab", "extra"], "unexpected extra argument(s) (extra). See `armillary lab --help`"),
        (["measure"], "No such command 'measure'. See `armillary --help`"),
        (["report"], "Missing argument 'records'"),
        (["report", "nowhere"], "`RECORD` must be the folder of a record, but nowhere does not exist"),
        (["report", str(ROOT / "docs")], "holds no study.toml and no provenance.json and no measurements.nc"),
        (["report", str(ROOT / "README.md")], "is a file"),
        (["check", "--model", str(ROOT / "docs")], "docs holds no config.json"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_command_that_cannot_be_understood_ends_with_2_and_one_sentence(
    arguments: list[str], got: str, armillary: Callable[..., Outcome]
) -> None:
    outcome = armillary(*arguments)
    assert outcome.code == 2 and got in outcome.sentence and listing() == []


# pictures that fail ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "got"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "OSError: No space left on device"),
        (TypeError("a fault"), 1, "TypeError: a fault"),
        (ArgumentError("Argument `x` must be."), 2, "ArgumentError: Argument `x` must be"),
        (KeyboardInterrupt(), 130, "Interrupted; the record in record is whole"),
    ],
    ids=["disk", "fault", "refusal", "interrupt"],
)
def test_a_drawing_that_fails_leaves_a_whole_record_its_numbers_and_the_command_that_draws_it(
    error: BaseException,
    code: int,
    got: str,
    lab: Any,
    armillary: Callable[..., Outcome],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(record: Record, path: Path) -> Path:
        path.write_text("half a pa")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("armillary.report.write_report", failing)
        outcome = lab("--json", layers="4")
    assert outcome.code == code and got in outcome.err and "`armillary report record`" in outcome.err
    assert outcome.err.count("\n") == 1 and rows_of(outcome) == Record.open("record").rows()
    assert listing() == ["record", *(f"record/{name}" for name in ("measurements.nc", "provenance.json", "study.toml"))]
    assert armillary("report", "record") == Outcome(0, "record/report.html\n", "")
    assert Path("record/report.html").read_text() == "new page"


def test_drawing_again_replaces_what_it_draws_and_a_failure_leaves_the_old_pictures(
    lab: Any, armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab("--quiet", layers="4")
    page, figures = Path("record/report.html"), Path("record/figures")
    page.write_text("old page")
    (figures / "one.svg").write_text("old")
    (figures / "mine.svg").write_text("mine")
    before = listing()
    with monkeypatch.context() as patch:
        patch.setattr("armillary.report.write_report", lambda *_: 1 / 0)
        assert armillary("report", "record").code == 1
    assert listing() == before and (figures / "one.svg").read_text() == "old" and page.read_text() == "old page"
    assert armillary("report", "--quiet", "record") == Outcome(0, "", "")
    assert listing() == before and (figures / "one.svg").read_text() == "new" and page.read_text() == "new page"
    assert (figures / "mine.svg").read_text() == "mine"


# 130: interrupts ------------------------------------------------------------------------------------------------------


def test_an_interrupt_while_loading_or_checking_says_so(
    lab: Any, armillary: Callable[..., Outcome], models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("armillary.models.decoder.load_decoder", interrupted)
    assert lab() == Outcome(130, "", "armillary: Interrupted; nothing was written.\n") and listing() == []
    outcome = armillary("check", "--model", models["llama"])
    assert outcome == Outcome(130, "", "armillary: Interrupted; nothing was changed.\n")


def test_an_interrupt_before_a_command_has_begun_says_so(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("armillary.cli.lab.require_interval", interrupted)
    assert lab() == Outcome(130, "", "armillary: Interrupted; nothing was changed.\n") and listing() == []


KEPT = (
    "armillary: Interrupted; what is finished is kept in deep/record.partial. Run the same command again to go on, or "
    "`armillary report deep/record.partial` to see the documents that are finished.\n"
)


def test_an_interrupt_keeps_what_is_finished_to_be_gone_on_with_or_looked_at(
    lab: Any, armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **__: Any) -> None:
        Path(given[1]).write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("xarray.Dataset.to_netcdf", interrupted)
        assert lab(layers="4", out="deep/record") == Outcome(130, "", KEPT)
    assert [path.name for path in Path("deep").iterdir()] == ["record.partial"]
    assert armillary("report", "deep/record.partial").code == 0
    assert Path("deep/record.partial/report.html").is_file()
    outcome = lab(layers="4", out="deep/record")
    assert outcome.code == 0 and "armillary: Going on with the run in deep/record.partial: " in outcome.err
    assert [path.name for path in Path("deep").iterdir()] == ["record"]


WAITING = """
import signal, sys
from contextlib import contextmanager
from armillary import cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with interrupts ignored

@contextmanager
def waiting(words, *, quiet):
    def tell(*_):
        print("a batch is done", flush=True)
        sys.stdin.read()  # until the signal has been sent
    yield tell

cli.terminal.progress = waiting
cli.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_in_the_middle_of_a_run_ends_with_130_and_keeps_what_is_finished(
    sent: signal.Signals, models: dict[str, Path], texts: Path, tmp_path: Path
) -> None:
    arguments = ["lab", "--model", models["llama"], "--documents", texts, "--max-documents", "4", "--max-tokens", "24"]
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *map(str, arguments), "--out", "deep/record"],
        cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdin and process.stdout and process.stderr
        assert process.stdout.readline() == "a batch is done\n"
        process.send_signal(sent)
        process.stdin.close()
        assert process.stderr.read() == KEPT
    assert process.returncode == 130
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["record.partial"]
    assert len(list((tmp_path / "deep" / "record.partial").glob("00-*.npz"))) == 1


# help -----------------------------------------------------------------------------------------------------------------


HELP = """
import sys
from armillary import cli
try:
    cli.main()
except SystemExit as ended:
    heavy = {"torch", "transformers", "numpy", "xarray", "plotly", "matplotlib", "pandas", "rich"} & set(sys.modules)
    print("brought in:", sorted(heavy))
    sys.exit(ended.code)
"""


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["lab", "--help"], ["check", "--help"], ["report", "--help"], ["export", "--help"]]
)
def test_help_brings_in_no_heavy_library_and_names_every_option(arguments: list[str]) -> None:
    ended = subprocess.run([sys.executable, "-c", HELP, *arguments], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0 and ended.stderr == "" and "brought in: []" in ended.stdout
    assert ended.stdout.startswith(f"Usage: armillary {' '.join(arguments[:-1])}".rstrip())


def help_of(*arguments: str) -> Iterator[str]:
    ended = subprocess.run([COMMAND, *arguments, "--help"], capture_output=True, text=True, timeout=100)
    return (line.strip() for line in ended.stdout.splitlines())


def test_the_readme_has_every_command_and_every_exit_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = "\n".join(help_of())
    commands = {line.split()[0] for line in shown.split("Commands:")[1].strip().splitlines()}
    assert commands == {"lab", "simulate", "phase", "resist", "diagnose", "audit", "train", "check", "report", "export"}
    assert all(f"`armillary {command}" in readme for command in commands)
    assert all(f"| {code} | " in readme for code in (0, 1, 2, 3, 4, 5, 130))


def test_two_records_are_drawn_side_by_side_in_a_folder_of_their_own_and_again(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armillary.report.beside.FORMATS", ("svg",))
    monkeypatch.setattr("armillary.report.beside.Pair.drawings", lambda _: {})
    left, right = sample_record(Path("left")), sample_record(Path("deep/right"))
    monkeypatch.setattr("armillary.report.write_comparison", partial(write_comparison, formats=("svg",)))
    before = sorted(Path("left").iterdir())
    for _ in range(2):
        assert armillary("report", left, right) == Outcome(0, "left-beside-right/report.html\n", "")
    assert Path("left-beside-right/figures/overlaid.svg").exists() and sorted(Path("left").iterdir()) == before
    assert armillary("report", left, right, "--out", "else/where", "--quiet") == Outcome(0, "", "")
    assert Path("else/where/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["left", "left", "left"], "`RECORD` must be one folder or two, but 3 are given. Compare them two by two."),
        (["left", "nowhere"], "`RECORD` must be the folder of a record, but nowhere does not exist."),
        (
            ["left", "left", "--out", "mine"],
            "`--out` must be a new folder, or one that holds an earlier report, but mine",
        ),
        (["left", "--out", "mine/file"], "`--out` must be a folder, but mine/file is a file. Name another."),
    ],
)
def test_records_that_cannot_be_drawn_side_by_side_end_with_2_and_one_sentence(
    armillary: Callable[..., Outcome], arguments: list[str], said: str
) -> None:
    sample_record(Path("left"))
    Path("mine").mkdir()
    Path("mine/file").write_text("mine")
    before = listing()
    ended = armillary("report", *arguments)
    assert ended.code == 2 and said in ended.sentence and listing() == before


def test_a_comparison_that_fails_leaves_no_folder_behind(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_record(Path("left"))
    monkeypatch.setattr("armillary.report.write_comparison", lambda *_: 1 / 0)
    before = listing()
    ended = armillary("report", "left", "left", "--out", "both")
    assert ended.code == 1 and "The records are whole, but their pictures could not be drawn" in ended.sentence
    assert "`armillary report left left`" in ended.err and listing() == before


def test_every_format_of_an_export_can_be_asked_for(armillary: Callable[..., Outcome]) -> None:
    record = sample_record(Path("record"))
    for name in FORMATS:
        ended = armillary("export", record, "--format", name, "--per", "document") if name != "npz" else armillary(
            "export", record, "--format", name)  # fmt: skip
        assert (ended.code, ended.err) == (0, "") and Path(ended.out.strip()) == record / f"measurements.{name}"
    assert {one.value for one in Format} == set(FORMATS)
    assert len(read_table(record / "measurements.csv").frame) == len(Record.open(record).to_dataframe("document"))


def test_the_ending_of_an_export_says_its_format_and_quiet_says_nothing(armillary: Callable[..., Outcome]) -> None:
    record = sample_record(Path("record"))
    assert armillary("export", record, "--out", "numbers.parquet", "--quiet") == Outcome(0, "", "")
    assert len(read_table("numbers.parquet").frame) == len(Record.open(record).rows())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record"], "`--format` must say what to write, but is missing. Write `--format csv`."),
        (["record", "--out", "m.xlsx"], "`--out` must end in .parquet or .csv or .npz or .json, but is m.xlsx."),
        (["record", "--out", "m.csv", "--format", "npz"], "`--out` must end in .npz, but is m.csv."),
        (["record", "--out", "taken.csv"], "`--out` must be a new file, but taken.csv exists. Name another"),
        (["record", "--out", "nowhere/m.csv"], "`--out` must lie in a folder that exists, but nowhere does not."),
        (["record", "--out", "m.npz", "--per", "document"], "`--per` must be left out for .npz"),
        (["nowhere", "--format", "csv"], "`RECORD` must be the folder of a record, but nowhere does not exist."),
        (["record", "--format", "xlsx"], "'--format': 'xlsx' is not one of 'parquet', 'csv', 'npz', 'json'"),
    ],
)
def test_an_export_that_cannot_be_written_ends_with_2_and_one_sentence(
    armillary: Callable[..., Outcome], arguments: list[str], said: str
) -> None:
    sample_record(Path("record"))
    Path("taken.csv").write_text("mine")
    before = sorted(str(path) for path in Path().rglob("*"))
    ended = armillary("export", *arguments)
    assert ended.code == 2 and said in ended.sentence
    assert sorted(str(path) for path in Path().rglob("*")) == before and Path("taken.csv").read_text() == "mine"


def test_the_laboratory_has_every_option_it_promises() -> None:
    options = {line.split()[0] for line in help_of("lab") if line.startswith("--")}
    promised = "model revision tokenizer allow-pickle trust-remote-code states axes states-array documents genre separator text-column id-column cut conditions gauges layers max-documents max-tokens batch-size device dtype seed level out threads memory-limit backend workers address preset dry-run json quiet"
    assert options == {f"--{name}" for name in (*promised.split(), "help")}


# laws of the simulator -------------------------------------------------------------------------------------------------


@pytest.fixture
def few_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    import armillary.checks  # noqa: F401 - importing it declares the checks
    from armillary.checks import declaration

    names = ("tanh law", "opposed pair stays", "residual layers")
    monkeypatch.setattr(declaration, "CHECKS", {name: declaration.CHECKS[name] for name in names})


@pytest.mark.usefixtures("few_laws")
def test_the_laws_are_told_one_a_line_and_as_json(armillary: Callable[..., Outcome]) -> None:
    told = armillary("check", "--fast")
    assert told.code == 0 and told.out.count("kept  ") == 3 and "3 of 3 laws kept" in told.out
    found = json.loads(armillary("check", "--fast", "--json").out)["laws"]
    assert [one["name"] for one in found] == ["tanh law", "opposed pair stays", "residual layers"]
    assert {"name", "formula", "expected", "got", "error", "tolerance", "passed"} <= set(found[0])
    assert all(one["passed"] and one["error"] <= one["tolerance"] for one in found)


@pytest.mark.usefixtures("few_laws")
def test_a_law_that_the_simulator_misses_ends_with_one(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.checks import declaration

    real = declaration.flow
    monkeypatch.setattr(declaration, "flow", lambda field, start, **options: real(doubled(field), start, **options))
    outcome = armillary("check", "--fast")
    assert outcome.code == 1 and "MISSED  tanh law" in outcome.out


@pytest.mark.usefixtures("few_laws")
def test_a_law_on_which_the_simulator_fails_is_missed_with_its_words_and_the_json_stays_strict(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.checks import declaration
    from armillary.errors import NumericalError

    def failing(field: Any, start: Any, **options: Any) -> Any:
        raise NumericalError("States must be finite, but are not.")

    monkeypatch.setattr(declaration, "flow", failing)
    told = armillary("check", "--fast")
    assert told.code == 1 and "MISSED  tanh law" in told.out and "it raised: States must be finite" in told.out
    assert "1 of 3 laws kept" in told.out
    told = armillary("check", "--fast", "--json")
    first = json.loads(told.out, parse_constant=pytest.fail)["laws"][0]
    assert told.code == 1 and not first["passed"] and (first["got"], first["error"]) == (None, None)


def test_a_law_whose_numbers_are_not_finite_is_missed_and_the_json_stays_strict(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.checks import declaration
    from armillary.checks.declaration import Check, Sides

    one = Check("x", "x = 1", 1.0, False, "fast", lambda engine: Sides.of(1.0, float("inf")), "exact", "200", "0-199")
    monkeypatch.setattr(declaration, "CHECKS", {"x": one})
    told = armillary("check", "--fast", "--json")
    (found,) = json.loads(told.out, parse_constant=pytest.fail)["laws"]
    assert told.code == 1 and found["error"] is None and (found["draws"], found["seeds"]) == ("200", "0-199")
    assert "(200 draws, seeds 0-199)" in armillary("check", "--fast").out


@pytest.mark.usefixtures("few_laws")
def test_the_json_of_the_laws_holds_the_claims_and_what_became_of_the_checks_behind_them(
    armillary: Callable[..., Outcome],
) -> None:
    claims = json.loads(armillary("check", "--fast", "--json").out)["claims"]
    assert len(claims) == 8 and all(one["words"] and one["status"] for one in claims)
    assert claims[2]["checks"] == {"tanh law": "kept", "merge clock": "not run"}


def test_a_decrease_of_the_energy_with_every_ingredient_there_ends_with_one(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.checks import ingredients

    causal = ingredients.removals()["no mask -> causal mask"]
    monkeypatch.setattr(ingredients, "removals", lambda: {"nothing taken away": causal})
    monkeypatch.setattr(ingredients, "search", partial_tries(ingredients.search))
    told = armillary("check", "--ingredients")
    assert told.code == 1 and "nothing taken away: Phi falls" in told.out


def doubled(field: Any) -> Any:
    from dataclasses import replace

    return replace(field, drift=2.0 * field.drift)


def test_a_decrease_of_the_energy_is_shown_for_every_ingredient_but_the_projection(
    armillary: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armillary.checks import ingredients

    monkeypatch.setattr(ingredients, "search", partial_tries(ingredients.search))
    found = json.loads(armillary("check", "--ingredients", "--json").out)["ingredients"]
    by_name = {one["removed"]: one for one in found}
    assert not by_name["nothing taken away"]["found"] and not by_name["unit vectors -> no projection"]["found"]
    others = [
        one for name, one in by_name.items() if name not in ("nothing taken away", "unit vectors -> no projection")
    ]
    assert len(others) == 5 and all(one["found"] and one["rate"] < -1e-3 for one in others)


def partial_tries(search: Any) -> Any:
    return lambda removed, field, *, tries, seed: search(removed, field, tries=200, seed=seed)
