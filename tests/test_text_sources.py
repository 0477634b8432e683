"""Documents come from a folder, a separated file, a table or a data set, in their order, each text with its own name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from armillary.errors import ArgumentError
from armillary.models import text_files
from armillary.models.documents import Documents, Skipped
from tiny import tiny_tokenizer

ROWS = [
    {"id": "007", "text": "the first text"},
    {"id": "b", "text": "a second text, of two\nlines"},
    {"id": "NA", "text": "NA is a text too"},
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def texts_of(documents: Documents, tokenizer: Any) -> list[str]:
    return [tokenizer.decode(row) for row in documents.token_ids]


def json_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as a file of the kind that its name asks for."""
    import pandas as pd

    table = pd.DataFrame(rows)
    if ".parquet" in path.name:
        table.to_parquet(path, index=False)
    elif "json" in path.name:
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


# --- one file with a separator


def test_a_text_file_is_cut_at_its_separators(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "all.txt").write_bytes(b"\xef\xbb\xbfone text\r\n---\r\n\r\n---\r\n  another \r\n---\r\n")
    documents = Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator="\n---\n", limit=9, tokens=7)
    assert documents.titles == ("all.txt, text 1", "all.txt, text 3")
    assert texts_of(documents, tokenizer) == ["one tex", "another"]
    assert "between separators '\\n---\\n'" in documents.rule and documents.source == f"file {tmp_path / 'all.txt'}"


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
def test_a_separated_file_reads_the_same_in_blocks_of_any_size(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    texts = ["first é\n", "second 語 of them", "a third — and longer", "e"]
    (tmp_path / "all.txt").write_bytes("\r\n\r\n".join(texts).encode())
    monkeypatch.setattr(text_files, "_BLOCK", block)
    documents = Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator="\n\n", limit=9, tokens=1)
    whole = "\n\n".join(texts).split("\n\n")
    assert len(documents) == 4 and documents.titles[-1] == "all.txt, text 4"
    import hashlib

    assert documents.text_hashes == tuple(hashlib.sha256(text.strip().encode()).hexdigest() for text in whole)


@pytest.mark.parametrize("block", [2, 1000])
def test_a_byte_that_is_not_utf8_is_named_by_its_place(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    (tmp_path / "all.txt").write_bytes("é, and ".encode() + b"\xff|x")
    monkeypatch.setattr(text_files, "_BLOCK", block)
    with pytest.raises(ArgumentError, match=r"byte 8 is 0xff\. Convert or repair it"):
        Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator="|", limit=9, tokens=1)


def test_a_text_of_a_file_that_holds_nul_is_skipped_and_the_others_are_used(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "all.txt").write_bytes(b"good text|b\0d|other text")
    documents = Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator="|", limit=9, tokens=4)
    assert documents.titles == ("all.txt, text 1", "all.txt, text 3")
    assert documents.skipped == (Skipped("all.txt, text 2", "binary: character 1 is NUL"),)


def test_a_very_long_line_is_a_text_like_any_other(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "long.txt").write_text("ab" * 300_000 + "\nshort one")
    documents = Documents.from_text_file(tmp_path / "long.txt", tokenizer, separator="\n", limit=9, tokens=8)
    assert len(documents) == 2 and texts_of(documents, tokenizer)[0] == "abababab"
    json_lines(tmp_path / "long.jsonl", [{"text": "ab" * 100_000}])
    assert len(Documents.read(tmp_path / "long.jsonl", tokenizer, limit=1, tokens=8)) == 1


@pytest.mark.parametrize("separator", ["", None, 3])
def test_a_separator_that_is_no_text_is_refused(tmp_path: Path, tokenizer: Any, separator: Any) -> None:
    (tmp_path / "all.txt").write_text("some\n\ntexts")
    with pytest.raises(ArgumentError, match=r"`separator` must be the text between two documents.* two line ends"):
        Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator=separator, limit=9, tokens=1)
    remedy = Documents.from_text_file(tmp_path / "all.txt", tokenizer, separator="\n\n", limit=9, tokens=1)
    assert len(remedy) == 2, "the remedy, followed"


# --- tables


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.csv", "t.tsv", "t.parquet", "t.csv.gz", "t.jsonl.gz"])
def test_every_kind_of_table_gives_the_same_documents(tmp_path: Path, tokenizer: Any, name: str) -> None:
    path = written(tmp_path / name, ROWS)
    documents = Documents.read(path, tokenizer, limit=9, tokens=14, id_column="id")
    assert documents.titles == ("007", "b", "NA"), "ids and texts are taken as they stand"
    assert texts_of(documents, tokenizer) == [row["text"][:14] for row in ROWS]
    assert documents.source == f"file {path}" and "called by column 'id'" in documents.rule
    assert Documents.read(path, tokenizer, limit=9, tokens=14).titles == ("row 1", "row 2", "row 3")
    by_name = Documents.from_table(path, tokenizer, limit=9, tokens=2, text_column="id")
    assert by_name.titles == ("row 1", "row 3") and texts_of(by_name, tokenizer) == ["00", "NA"]


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.parquet"])
def test_an_id_that_repeats_is_refused_with_both_rows(tmp_path: Path, tokenizer: Any, name: str) -> None:
    path = written(tmp_path / name, [*ROWS, {"id": "b", "text": "once more"}])
    with pytest.raises(ArgumentError, match=r"`id_column` must name each row .* rows 2 and 4 are both 'b'\. Join"):
        Documents.read(path, tokenizer, limit=9, tokens=4, id_column="id")


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.parquet"])
def test_a_missing_column_is_refused_with_the_columns_there_are(tmp_path: Path, tokenizer: Any, name: str) -> None:
    path = written(tmp_path / name, ROWS)
    for argument in ("text_column", "id_column"):
        with pytest.raises(
            ArgumentError, match=rf"`{argument}` must be a column of .*'body' is none of id, text\. Name"
        ):
            Documents.read(path, tokenizer, limit=9, tokens=4, **{argument: "body"})


def test_rows_without_text_are_skipped_and_counted(tmp_path: Path, tokenizer: Any) -> None:
    rows = [
        {"id": 1, "text": "good enough"},
        {"id": 2, "text": None},
        {"id": 3},
        {"id": 4, "text": ["a", "list"]},
        {"id": 5, "text": " \n"},
        "{broken",
        "[1, 2]",
        '{"id": 8, "text": "half \\ud800 of it"}',
        {"id": 9, "text": "NUL \0 inside"},
        {"id": 10, "text": "also good"},
    ]
    path = json_lines(tmp_path / "t.jsonl", rows)
    documents = Documents.read(path, tokenizer, limit=99, tokens=4, id_column="id")
    assert documents.titles == ("1", "10")
    assert [(one.title, one.reason.split(":")[0]) for one in documents.skipped] == [
        ("2", "no text in column 'text'"),
        ("3", "no text in column 'text'"),
        ("4", "column 'text' holds list, not text"),
        ("5", "empty"),
        ("row 6", "not JSON"),
        ("row 7", "no JSON object but list"),
        ("8", "not Unicode"),
        ("9", "binary"),
    ]
    assert documents.counts["texts_unusable"] == 8 and documents.counts["texts_looked_at"] == 10


def test_a_row_without_an_id_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    path = json_lines(tmp_path / "t.jsonl", [{"id": "a", "text": "some"}, {"id": None, "text": "more"}])
    with pytest.raises(ArgumentError, match=r"row 2 has nothing in 'id'. Fill it in, or leave the argument out"):
        Documents.read(path, tokenizer, limit=9, tokens=4, id_column="id")
    assert len(Documents.read(path, tokenizer, limit=9, tokens=4)) == 2, "the remedy, followed"


def test_only_rows_that_are_needed_are_read(tmp_path: Path, tokenizer: Any) -> None:
    path = json_lines(tmp_path / "t.jsonl", [{"text": "some text"}, {"text": "more text"}, "{broken"])
    assert Documents.read(path, tokenizer, limit=2, tokens=4).skipped == ()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "No columns to parse"),
        ("t.csv", b"id,text\na,b,c\n", "more fields than the header"),
        ("t.csv", b"id,text\na,b\nc,d,e\n", "Expected 2 fields in line 3, saw 3"),
        ("t.csv", b"id,text\na,\xff\xfe\n", "can't decode byte 0xff"),
        ("t.parquet", b"PAR1 or not", "(magic bytes|too small|Not a gzipped)"),
        ("t.csv.gz", b"no gzip at all", "(magic bytes|too small|Not a gzipped)"),
        ("t.jsonl.gz", b"no gzip at all", "cannot be unpacked"),
        ("t.jsonl.gz", gzip.compress(b'{"text": "cut short"}\n' * 99, mtime=0)[:-12], "cannot be unpacked"),
    ],
)
def test_a_damaged_table_is_refused_in_one_sentence(
    tmp_path: Path, tokenizer: Any, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        ArgumentError, match=f"must be a readable file .* but .* is not: .*{message}.*Convert or repair it"
    ):
        Documents.read(tmp_path / name, tokenizer, limit=999, tokens=2)


@pytest.mark.parametrize(("name", "content"), [("t.jsonl", "\n\n"), ("t.csv", "id,text\n"), ("t.txt", " \n\n ")])
def test_a_file_without_any_text_is_refused(tmp_path: Path, tokenizer: Any, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    separator = "\n\n" if name == "t.txt" else None
    with pytest.raises(ArgumentError, match=r"none can \(there is no text in it\)"):
        Documents.read(tmp_path / name, tokenizer, limit=9, tokens=4, separator=separator)


def test_damage_behind_the_sound_footer_of_a_parquet_file_is_one_sentence_too(tmp_path: Path, tokenizer: Any) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "t.parquet"
    pandas.DataFrame(ROWS).to_parquet(path)
    damaged = bytearray(path.read_bytes())
    pages = len(damaged) - 8 - int.from_bytes(damaged[-8:-4], "little")  # before the footer, which names the columns
    damaged[4:pages] = b"\xff" * (pages - 4)
    path.write_bytes(bytes(damaged))
    with pytest.raises(ArgumentError, match=r"must be a readable file of texts in UTF-8, but .* is not: .*Convert"):
        Documents.read(path, tokenizer, limit=9, tokens=4)


def test_a_number_too_long_to_be_read_costs_its_row_and_no_more(tmp_path: Path, tokenizer: Any) -> None:
    rows = [{"text": f"{k} enough words"} for k in range(2)]
    (tmp_path / "t.jsonl").write_text("\n".join(['{"text": 1' + "0" * 9999 + "}", *map(json.dumps, rows)]))
    found = Documents.read(tmp_path / "t.jsonl", tokenizer, limit=9, tokens=4)
    assert found.titles == ("row 2", "row 3") and [one.title for one in found.skipped] == ["row 1"]
    assert "not JSON" in found.skipped[0].reason


# --- data sets


def test_a_data_set_gives_the_same_documents_as_its_rows_streamed_or_not(tokenizer: Any) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(ROWS)
    choices: dict[str, Any] = {"text_column": "text", "id_column": "id", "limit": 9, "tokens": 14}
    plain = Documents.from_rows(ROWS, tokenizer, **choices)
    for rows in (table, table.to_iterable_dataset(), (row for row in ROWS)):
        documents = Documents.from_rows(rows, tokenizer, **choices)
        assert documents.hash == plain.hash and documents.titles == plain.titles == ("007", "b", "NA")
    assert "rows given by the caller (Dataset" in Documents.from_rows(table, tokenizer, **choices).source
    with pytest.raises(ArgumentError, match="'body' is none of id, text"):
        Documents.from_rows(table, tokenizer, **choices | {"text_column": "body"})
    with pytest.raises(ArgumentError, match=r"must be one data set, but it is 2 .* rows\['train'\]"):
        Documents.from_rows(datasets.DatasetDict(train=table, test=table), tokenizer, **choices)
    assert len(Documents.from_rows(datasets.DatasetDict(train=table)["train"], tokenizer, **choices)) == 3


@pytest.mark.parametrize("rows", [None, "text", 3, ["a text"], [["a", "b"]]])
def test_something_without_named_columns_is_refused(tokenizer: Any, rows: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`rows` must give rows with named columns, but .* a list of mappings"):
        Documents.from_rows(rows, tokenizer, text_column="text", limit=1, tokens=1)
    good = Documents.from_rows([{"text": "a text"}], tokenizer, text_column="text", limit=1, tokens=1)
    assert len(good) == 1, "the remedy, followed"


# --- what lies at a path


def test_a_path_is_read_as_what_lies_there(tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    folder = Documents.read(tmp_path, tokenizer, limit=9, tokens=3)
    assert (
        folder.titles == ("a.txt",)
        and folder.hash == Documents.from_folder(tmp_path, tokenizer, limit=9, tokens=3).hash
    )
    with pytest.raises(ArgumentError, match=r"`separator` must say what stands between .* none is given"):
        Documents.read(tmp_path / "a.txt", tokenizer, limit=9, tokens=3)
    parts = Documents.read(tmp_path / "a.txt", tokenizer, limit=9, tokens=3, separator="\n\n")
    assert texts_of(parts, tokenizer) == ["one", "two"], "the remedy, followed"
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("one\n\ntwo")
    packed = Documents.read(tmp_path / "b.txt.gz", tokenizer, limit=9, tokens=3, separator="\n\n")
    assert packed.hash == parts.hash


@pytest.mark.parametrize("name", ["", "t.jsonl"])
def test_a_separator_for_what_keeps_documents_apart_by_itself_is_refused(
    tmp_path: Path, tokenizer: Any, name: str
) -> None:
    json_lines(tmp_path / "t.jsonl", [{"text": "some"}])
    (tmp_path / "a.txt").write_text("some")
    with pytest.raises(ArgumentError, match="`separator` must be left out here"):
        Documents.read(tmp_path / name, tokenizer, limit=9, tokens=3, separator="\n")
    assert len(Documents.read(tmp_path / name, tokenizer, limit=9, tokens=3)) == 1, "the remedy, followed"


def test_a_path_where_nothing_lies_and_a_table_of_no_known_kind_are_refused(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match="does not exist"):
        Documents.read(tmp_path / "nothing.csv", tokenizer, limit=1, tokens=1)
    with pytest.raises(ArgumentError, match=r"a text file or a table, but .*texts does not exist. Check its name"):
        Documents.read(tmp_path / "texts", tokenizer, limit=1, tokens=1)
    (tmp_path / "t.xls").write_text("x")
    with pytest.raises(ArgumentError, match=r"must be a table ending in \.csv, .*Rename it"):
        Documents.from_table(tmp_path / "t.xls", tokenizer, limit=1, tokens=1, text_column="text")
