"""Documents are chosen by a stated rule, have one length and a hash, and say what could not be used and why."""

from __future__ import annotations

import hashlib
import json
import platform
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armillary.errors import ArgumentError, CheckMissed, UnsoundError
from armillary.models.documents import Documents, NothingLeft, Skipped, ids_hash
from armillary.models.start_token import StartTokenWarning
from tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def adding(start: str, end: str = "") -> Any:
    """The tiny tokenizer, but with a start token in front of every text and an end token behind it."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer()
    names = [name for name in (start, end) if name]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{start} $A {end}".strip(),
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in names],
    )
    return tokenizer


def folder_of(path: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        (path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- the rule


def test_texts_are_sorted_by_title_long_enough_passed_over_by_offset_and_limited(tokenizer: Any) -> None:
    texts = {title: title * 10 for title in "hgfedcba"} | {"b": "short"}
    chosen = Documents.from_texts(texts, tokenizer, limit=3, tokens=8, offset=2)
    assert chosen.titles == ("d", "e", "f")
    assert chosen.token_ids.shape == (3, 8) and chosen.token_ids.dtype == torch.int64
    assert len(chosen) == 3 and chosen.tokens == 8
    assert chosen.skipped == (Skipped("b", "too short: 5 tokens, 8 are needed"),)
    for words in (
        "sorted by title",
        "without truncation",
        "at least 8 tokens",
        "the first 2 of them",
        "first 3 taken",
        "cut to its first 8",
        "no padding",
    ):
        assert words in chosen.rule


def test_a_text_of_exactly_the_length_is_taken_and_a_longer_one_is_cut_to_its_beginning(tokenizer: Any) -> None:
    chosen = Documents.from_texts({"exact": "abcd", "longer": "abcxyz"}, tokenizer, limit=9, tokens=4)
    assert [tokenizer.decode(row) for row in chosen.token_ids] == ["abcd", "abcx"]


def test_what_lies_beyond_the_limit_is_not_looked_at(tmp_path: Path, tokenizer: Any) -> None:
    folder_of(tmp_path, {"a.txt": "first text", "b.txt": "second text", "c.txt": b"\xff", "d.txt": ""})
    assert Documents.from_folder(tmp_path, tokenizer, limit=2, tokens=4).skipped == ()


def test_a_text_equal_to_an_earlier_one_is_no_second_document(tokenizer: Any) -> None:
    texts = {"one": "the same words", "two": "the same wording", "x": "rather other words"}
    chosen = Documents.from_texts(texts, tokenizer, limit=9, tokens=12)
    assert chosen.titles == ("one", "x")
    assert chosen.skipped == (Skipped("two", "the same first 12 tokens as 'one'"),)
    assert Documents.from_texts(texts, tokenizer, limit=9, tokens=14).titles == ("one", "two", "x"), "they differ later"


def test_the_tokenizers_own_truncation_is_not_applied(tokenizer: Any) -> None:
    short = tiny_tokenizer()
    short.backend_tokenizer.enable_truncation(3)
    chosen = Documents.from_texts({"a": "twelve bytes"}, short, limit=1, tokens=12)
    assert chosen.token_ids.shape == (1, 12)
    raw = short.backend_tokenizer
    raw.enable_truncation(3)
    with pytest.raises(ArgumentError, match="no_truncation"):
        Documents.from_texts({"a": "twelve bytes"}, raw, limit=1, tokens=12)
    raw.no_truncation()
    assert torch.equal(Documents.from_texts({"a": "twelve bytes"}, raw, limit=1, tokens=12).token_ids, chosen.token_ids)


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    tokens=st.integers(1, 30),
    limit=st.integers(1, 6),
    offset=st.integers(0, 6),
)
def test_the_rule_equals_its_one_line_definition(lengths: list[int], tokens: int, limit: int, offset: int) -> None:
    texts = {f"{n:02d}": chr(65 + n) * length for n, length in enumerate(lengths)}
    expected = [title for title in sorted(texts) if len(texts[title]) >= tokens][offset:][:limit]
    tokenizer = tiny_tokenizer()
    if expected:
        assert (
            list(Documents.from_texts(texts, tokenizer, limit=limit, tokens=tokens, offset=offset).titles) == expected
        )
    else:
        with pytest.raises(ArgumentError):
            Documents.from_texts(texts, tokenizer, limit=limit, tokens=tokens, offset=offset)


def test_a_calibration_set_by_offset_is_disjoint_and_an_overlapping_one_is_refused(tokenizer: Any) -> None:
    documents = Documents.from_topics(tokenizer, limit=4, tokens=64)
    documents.check_disjoint(Documents.from_topics(tokenizer, limit=4, tokens=64, offset=len(documents)))
    overlapping = Documents.from_topics(tokenizer, limit=4, tokens=64, offset=3)
    with pytest.raises(ArgumentError, match=rf"{documents.titles[3]!r} is in both \(1 in all\). Give it `offset=4`"):
        documents.check_disjoint(overlapping)


def test_no_document_beyond_the_offset_is_another_trouble_than_documents_that_cannot_be_used(tokenizer: Any) -> None:
    texts = {"a": "some words here", "b": "and other words"}
    with pytest.raises(NothingLeft, match=r"`offset` must be below 2, .* but it is 2\. Lower it"):
        Documents.from_texts(texts, tokenizer, limit=4, tokens=8, offset=2)
    assert Documents.from_texts(texts, tokenizer, limit=4, tokens=8, offset=1).titles == ("b",), "the remedy, followed"
    for changes in ({"tokens": 99}, {"texts": {"a": " "}}, {"offset": -1}):
        with pytest.raises(ArgumentError) as caught:
            Documents.from_texts(
                **{"texts": texts, "tokenizer": tokenizer, "limit": 4, "tokens": 8, "offset": 2, **changes}
            )
        assert type(caught.value) is ArgumentError


# --- the default topics


def test_the_default_documents_name_the_version_of_python_and_hash_the_texts(tokenizer: Any) -> None:
    from pydoc_data.topics import topics

    documents = Documents.from_topics(tokenizer, limit=5, tokens=64)
    assert platform.python_version() in documents.source and "CPython" in documents.source
    assert list(documents.titles) == sorted(title for title in topics if len(topics[title].encode()) >= 64)[:5]
    for title, row, text_hash in zip(documents.titles, documents.token_ids, documents.text_hashes, strict=True):
        assert text_hash == hashlib.sha256(topics[title].encode()).hexdigest()
        assert tokenizer.decode(row) == topics[title].encode()[:64].decode()
    assert documents.texts_hash == hashlib.sha256("\n".join(documents.text_hashes).encode()).hexdigest()
    assert "one genre" in documents.genre


def test_topics_that_are_too_short_are_passed_over_and_not_skipped(tokenizer: Any) -> None:
    documents = Documents.from_topics(tokenizer, limit=999, tokens=4000)
    assert 1 < len(documents) < 79 and documents.skipped == ()


def test_topics_that_are_all_too_short_name_the_longest(tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match=r"none has 10000000 tokens \(the longest has (\d+)\)") as trouble:
        Documents.from_topics(tokenizer, limit=1, tokens=10_000_000)
    longest = int(str(trouble.value).split("longest has ")[1].split(")")[0])
    assert len(Documents.from_topics(tokenizer, limit=1, tokens=longest)) == 1, "the remedy, followed"


# --- hashes


def test_the_hash_is_that_of_the_ids_as_little_endian_int32(tokenizer: Any) -> None:
    documents = Documents.from_token_ids([[1, 2, 70000], [4, 5, 6]])
    assert documents.hash == hashlib.sha256(struct.pack("<6i", 1, 2, 70000, 4, 5, 6)).hexdigest()
    assert documents.hash != Documents.from_token_ids([[1, 2, 70000], [4, 5, 7]]).hash


def test_ids_that_change_after_hashing_are_caught() -> None:
    documents = Documents.from_token_ids([[1, 2, 3]])
    documents.check_unchanged()
    documents.token_ids[0, 1] = 9
    with pytest.raises(CheckMissed, match=r"Token ids must stay .* change ids in a copy only"):
        documents.check_unchanged()
    again = Documents.from_token_ids([[1, 2, 3]])
    again.token_ids.clone()[0, 1] = 9
    again.check_unchanged()  # the remedy, followed


def test_the_ids_given_to_a_decoder_hash_to_the_documents_hash_and_any_other_do_not() -> None:
    documents = Documents.from_token_ids(torch.arange(14).reshape(7, 2))
    given = torch.cat(list(documents.batches(3)))
    assert ids_hash(given) == ids_hash(given.int()) == ids_hash(given.T.contiguous().T) == documents.hash
    swapped, cut, other = given.flip(0), given[:6], given.clone()
    other[6, 1] += 1
    assert len({documents.hash, *(ids_hash(ids) for ids in (swapped, cut, other))}) == 4


def test_provenance_is_strict_json_and_holds_what_a_record_needs(tmp_path: Path, tokenizer: Any) -> None:
    folder_of(tmp_path, {"a.txt": "some words here", "b.txt": b"\xff\xfe"})
    documents = Documents.from_folder(tmp_path, tokenizer, limit=4, tokens=5, genre="test sentences")
    kept = json.loads(json.dumps(documents.provenance(), allow_nan=False))
    assert (
        kept["titles"] == ["a.txt"]
        and kept["token_hash"] == documents.hash
        and kept["first_ids"] == [int(documents.token_ids[0, 0])]
    )
    assert kept["skipped"] == [{"title": "b.txt", "reason": "not UTF-8: byte 0 is 0xff"}]
    assert (
        kept["genre"] == "test sentences"
        and kept["rule"]
        and kept["start_token"]
        and kept["source"] == f"folder {tmp_path}"
    )
    assert len(kept["text_hashes"]) == kept["documents"] == 1 and kept["tokens"] == 5
    assert kept["start_tokens"] == [0] and kept["counts"]["texts_unusable"] == kept["skipped_in_all"] == 1
    assert kept["outcome"] == "2 texts looked at, 1 of them in documents; 1 lost a part; 1 could not be used"


# --- start token


def test_no_start_token_is_added_where_the_tokenizer_adds_none(tokenizer: Any) -> None:
    documents = Documents.from_texts({"a": "abc"}, tokenizer, limit=1, tokens=3)
    assert documents.start_token.startswith("none added")
    assert documents.first_ids == (tokenizer.convert_tokens_to_ids("a"),)


def test_a_start_token_that_the_tokenizer_adds_is_kept_counted_and_named() -> None:
    documents = Documents.from_texts({"a": "abc", "b": "xyz"}, adding("<start>"), limit=2, tokens=4)
    assert documents.first_ids == (256, 256)
    assert documents.start_token == "added by the tokenizer itself in front of every text: <start> (id 256)"
    with pytest.raises(ArgumentError, match=r"none has 5 tokens .the longest has 4."):
        Documents.from_texts({"a": "abc"}, adding("<start>"), limit=1, tokens=5)


def test_a_start_token_twice_is_a_warning() -> None:
    texts = {"a": "abc", "b": "<start>xyz"}
    with pytest.warns(StartTokenWarning, match="1 documents begin with a start token twice, first 'b'"):
        documents = Documents.from_texts(texts, adding("<start>"), limit=2, tokens=3)
    assert documents.token_ids[1, :2].tolist() == [256, 256] and documents.start_tokens == (1, 2)
    assert "WARNING: twice in 1 documents, first in 'b'" in documents.start_token
    assert documents.provenance()["start_tokens"] == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error", StartTokenWarning)
        with pytest.raises(StartTokenWarning):
            Documents.from_texts(texts, adding("<start>"), limit=2, tokens=3)
        cleaned = {title: text.removeprefix("<start>") for title, text in texts.items()}
        Documents.from_texts(cleaned, adding("<start>"), limit=2, tokens=3)  # the remedy, followed


def test_a_start_token_that_the_text_spells_out_is_counted_and_none_is_added_to_it(tokenizer: Any) -> None:
    documents = Documents.from_texts({"a": "abc", "b": "<start>xyz"}, tokenizer, limit=2, tokens=3)
    assert documents.start_tokens == (0, 1) and documents.first_ids[1] == 256
    assert "special tokens spelled out in 1 documents, first in 'b'" in documents.start_token
    with pytest.warns(StartTokenWarning):
        twice = Documents.from_texts({"a": "<start><start>xyz"}, tokenizer, limit=2, tokens=3)
    assert twice.start_tokens == (2,)


def test_an_end_token_that_the_tokenizer_adds_never_ends_a_document() -> None:
    documents = Documents.from_texts({"a": "abcd"}, adding("<start>", "<end>"), limit=1, tokens=5)
    assert documents.token_ids.tolist() == [[256, *tiny_tokenizer()("abcd")["input_ids"]]]
    with pytest.raises(ArgumentError, match="the longest has 5"):
        Documents.from_texts({"a": "abcd"}, adding("<start>", "<end>"), limit=1, tokens=6)


def test_a_bare_tokenizer_of_the_tokenizers_library_gives_the_same_documents() -> None:
    for tokenizer in (tiny_tokenizer(), adding("<start>", "<end>")):
        wrapped, bare = (
            Documents.from_texts({"a": "some text"}, t, limit=1, tokens=6)
            for t in (tokenizer, tokenizer.backend_tokenizer)
        )
        assert wrapped.hash == bare.hash and wrapped.start_token == bare.start_token


@pytest.mark.parametrize("wrong", [None, 3, "gpt2"])
def test_something_that_is_no_tokenizer_is_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="`tokenizer` must turn text into ids"):
        Documents.from_topics(wrong, limit=1, tokens=4)


# --- folders


def test_a_folder_skips_what_cannot_be_used_with_the_reason(tmp_path: Path, tokenizer: Any) -> None:
    folder_of(
        tmp_path,
        {
            "a.txt": "long enough to use",
            "b.md": "",
            "c.rst": " \n\t ",
            "d.TXT": "caf\xe9 in another encoding".encode("latin-1"),
            "e.txt": "brief",
            "f.text": "\ufeffbyte order mark",
            "fa.txt": "a NUL byte\0 among letters",
            "fb.txt": "as Windows has it".encode("utf-16"),
            "g.py": "not a text file at all",
            ".hidden": "nor this one, truly",
        },
    )
    (tmp_path / "h.txt").mkdir()
    (tmp_path / "i.txt").symlink_to(tmp_path / "nowhere")
    documents = Documents.from_folder(tmp_path, tokenizer, limit=9, tokens=10)
    assert documents.titles == ("a.txt", "f.text")
    assert tokenizer.decode(documents.token_ids[1]) == "byte order"
    assert documents.skipped == (
        Skipped("b.md", "empty"),
        Skipped("c.rst", "empty"),
        Skipped("d.TXT", "not UTF-8: byte 3 is 0xe9"),
        Skipped("e.txt", "too short: 5 tokens, 10 are needed"),
        Skipped("fa.txt", "binary: character 10 is NUL"),
        Skipped("fb.txt", "not UTF-8: byte 0 is 0xff"),
    )
    assert "the 8 text files (.md, .rst, .text, .txt)" in documents.rule


def test_a_file_that_cannot_be_read_is_skipped_with_the_reason(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of(tmp_path, {"a.txt": "readable", "b.txt": "locked away"})
    read = Path.read_bytes

    def refuse(file: Path) -> bytes:
        if file.name == "b.txt":
            raise PermissionError(13, "Permission denied")
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    documents = Documents.from_folder(tmp_path, tokenizer, limit=9, tokens=4)
    assert documents.skipped == (Skipped("b.txt", "cannot be read: Permission denied"),)


def test_a_file_name_that_is_not_utf8_becomes_a_title_that_is(tmp_path: Path, tokenizer: Any) -> None:
    import os

    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("enough words")
    title = Documents.from_folder(tmp_path, tokenizer, limit=1, tokens=4).titles[0]
    assert title == "caf\\xe9.txt" and title.encode("utf-8")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "none of the 0 entries of .* is a file ending in"),
        ({"a.pdf": b"%PDF", "b.csv": "1"}, "none of the 2 entries of .* is a file ending in"),
        ({"a.txt": "", "b.txt": "  "}, r"none can \('a.txt': empty\)"),
        ({"a.txt": b"\xff\xfe"}, r"none can \('a.txt': not UTF-8: byte 0 is 0xff\)"),
        ({"a.txt": "four"}, r"none has 10 tokens \(the longest has 4\). Ask for 4 tokens or fewer"),
        ({"a.txt": "long enough for one"}, "`offset` must be below 1, .* but it is 1. Lower it"),
    ],
)
def test_a_folder_with_nothing_left_is_refused_in_one_sentence(
    tmp_path: Path, tokenizer: Any, files: Any, message: str
) -> None:
    folder_of(tmp_path, files)
    with pytest.raises(ArgumentError, match=message) as trouble:
        Documents.from_folder(tmp_path, tokenizer, limit=2, tokens=10, offset=1 if "offset" in message else 0)
    assert str(trouble.value).startswith("Argument `") and "\n" not in str(trouble.value)
    assert trouble.value.exit_code == 2


def test_a_missing_folder_and_a_file_in_its_place_are_refused(tmp_path: Path, tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match="nowhere does not exist"):
        Documents.from_folder(tmp_path / "nowhere", tokenizer, limit=1, tokens=4)
    file = folder_of(tmp_path, {"a.txt": "words words"}) / "a.txt"
    with pytest.raises(ArgumentError, match=r"a\.txt is a file. Give the folder that holds them"):
        Documents.from_folder(file, tokenizer, limit=1, tokens=4)
    assert len(Documents.from_folder(file.parent, tokenizer, limit=1, tokens=4)) == 1, "the remedy, followed"


def test_line_ends_are_read_as_line_feeds(tmp_path: Path, tokenizer: Any) -> None:
    folder_of(tmp_path, {"dos.txt": "one\r\ntwo\r\n", "mac.md": "one\rtwo!", "unix.txt": "one\ntwo?"})
    documents = Documents.from_folder(tmp_path, tokenizer, limit=3, tokens=8)
    assert [tokenizer.decode(row) for row in documents.token_ids] == ["one\ntwo\n", "one\ntwo!", "one\ntwo?"]
    assert "line ends as LF" in documents.rule


# --- bad arguments


@pytest.mark.parametrize(
    "bad", [{"limit": 0}, {"limit": 2.0}, {"tokens": 0}, {"tokens": True}, {"offset": -1}, {"limit": "3"}]
)
def test_limits_that_are_no_counts_are_refused(tokenizer: Any, bad: Any) -> None:
    with pytest.raises(ArgumentError, match=f"`{next(iter(bad))}` must be a whole number of at least"):
        Documents.from_texts({"a": "text"}, tokenizer, **{"limit": 1, "tokens": 1, **bad})


@pytest.mark.parametrize("texts", [{}, [], {"a": b"bytes"}, {1: "text"}, None])
def test_texts_that_are_no_mapping_of_titles_to_texts_are_refused(tokenizer: Any, texts: Any) -> None:
    with pytest.raises(ArgumentError, match="`texts` must map titles to texts, but"):
        Documents.from_texts(texts, tokenizer, limit=1, tokens=1)


# --- given ids


@pytest.mark.parametrize(
    "ids",
    [
        [[1, 2], [3, 4]],
        torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),
        torch.tensor([[1, 2], [3, 4]]).numpy(),
        torch.tensor([[1, 2], [3, 4]]).numpy().astype("uint16"),  # as many token files are kept
    ],
)
def test_given_ids_are_taken_as_they_are(ids: Any) -> None:
    documents = Documents.from_token_ids(ids, titles=["one", "two"])
    assert documents.token_ids.tolist() == [[1, 2], [3, 4]] and documents.token_ids.dtype == torch.int64
    assert documents.titles == ("one", "two") and documents.first_ids == (1, 3)
    assert documents.texts_hash is None and documents.start_token.startswith("as given")
    assert Documents.from_token_ids(ids).titles == ("document 1", "document 2")


def test_given_ids_are_a_copy() -> None:
    ids = torch.tensor([[1, 2]])
    documents = Documents.from_token_ids(ids)
    ids[0, 0] = 7
    documents.check_unchanged()


@pytest.mark.parametrize(
    ("ids", "got"),
    [
        ([[1, 2], [3]], "form no table"),
        ("text", "form no table"),
        ([1, 2], r"shape \(2,\)"),
        ([], r"shape \(0,\)"),
        ([[]], r"shape \(1, 0\)"),
        ([[1.0, 2.0]], "float32"),
        ([[True]], "bool"),
        ([[1, -1]], "the id -1"),
        ([[1, 2**31]], "the id 2147483648"),  # the hash would take it for -2147483648
    ],
)
def test_given_ids_that_are_no_table_of_whole_numbers_are_refused(ids: Any, got: str) -> None:
    with pytest.raises(ArgumentError, match=rf"`ids` must be .* but .*{got}"):
        Documents.from_token_ids(ids)


@pytest.mark.parametrize("titles", [["one"], ["same", "same"], ["a", "b", "c"]])
def test_titles_that_do_not_name_each_document_are_refused(titles: list[str]) -> None:
    with pytest.raises(ArgumentError, match="`titles` must name each of the 2 documents differently"):
        Documents.from_token_ids([[1], [2]], titles)


# --- independent members


def test_copies_of_a_document_are_named_and_refused_where_an_interval_would_count_them() -> None:
    documents = Documents.from_token_ids([[1, 2], [3, 4], [1, 2]], ["one", "two", "three"])
    with pytest.raises(UnsoundError, match=r"'three' has the token ids of 'one'.* Leave one of them out"):
        documents.check_independent()
    Documents.from_token_ids([[1, 2], [3, 4]]).check_independent()  # the remedy, followed


def test_a_document_of_one_repeated_token_is_a_document() -> None:
    Documents.from_token_ids([[7, 7, 7], [8, 8, 8]]).check_independent()


# --- use


def test_batches_cover_every_document_once_in_order() -> None:
    documents = Documents.from_token_ids(torch.arange(14).reshape(7, 2))
    for size in (1, 3, 7, 50):
        batches = list(documents.batches(size))
        assert torch.equal(torch.cat(batches), documents.token_ids)
        assert all(len(batch) <= size for batch in batches)
    with pytest.raises(ArgumentError, match="`size` must be a whole number from 1 up"):
        documents.batches(0)


def test_more_tokens_than_the_context_are_refused() -> None:
    documents = Documents.from_token_ids([[1, 2, 3, 4]])
    documents.check_context(4)
    with pytest.raises(
        ArgumentError, match=r"`tokens` must be at most 3, the context of this decoder, but it is 4. Ask for 3 tokens"
    ):
        documents.check_context(3)


def test_ids_of_another_vocabulary_are_refused() -> None:
    documents = Documents.from_token_ids([[1, 2], [3, 9]], ["one", "two"])
    documents.check_vocabulary(10)
    with pytest.raises(ArgumentError, match=r"ids below 9, .* but 'two' holds 9"):
        documents.check_vocabulary(9)


@pytest.mark.decoder
def test_the_default_decoder_adds_no_start_token_to_the_default_documents() -> None:
    from armillary.models.decoder import load_decoder

    decoder = load_decoder()
    documents = Documents.from_topics(decoder.tokenizer, limit=32, tokens=256)
    documents.check_context(decoder.facts.context)
    documents.check_vocabulary(decoder.facts.vocabulary)
    documents.check_disjoint(Documents.from_topics(decoder.tokenizer, limit=16, tokens=256, offset=32))
    assert len(documents) == 32 and documents.start_token.startswith("none added")
    if platform.python_version() == "3.11.7":  # the texts differ between versions
        assert documents.titles[0] == "assert" and documents.titles[-1] == "objects"
