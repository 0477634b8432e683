"""Texts become documents of one length by a stated rule, and the rule says what may count as an independent member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import armillary as am
from armillary.errors import ArgumentError, UnsoundError
from armillary.models.cutting import Pack, Split, Truncate, parse_cut
from armillary.models.documents import Documents
from test_documents import adding
from tiny import tiny_decoder, tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def lettered(*lengths: int) -> dict[str, str]:
    """Texts a, b, c ... of these lengths: running numbers, so that every piece is another."""
    return {
        chr(97 + n): "".join(chr(0x21 + (7 * n + k) % 90) for k in range(length)) for n, length in enumerate(lengths)
    }


# --- split


def test_one_piece_of_each_text_is_drawn_and_any_piece_may_be() -> None:
    tokenizer, texts = tiny_tokenizer(), lettered(50, 61, 9, 33)
    places = set()
    for seed in range(20):
        documents = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=Split(seed=seed))
        assert [title[0] for title in documents.titles] == ["a", "b", "d"]
        for title, row in zip(documents.titles, documents.token_ids, strict=True):
            number = int(title.split()[2]) - 1
            assert tokenizer.decode(row) == texts[title[0]][10 * number : 10 * number + 10]
        places.add(documents.titles[0])
        documents.check_independent()
    assert places == {f"a, piece {number} of 5" for number in range(1, 6)}


def test_the_drawn_piece_depends_on_the_seed_and_the_text_alone(tokenizer: Any) -> None:
    texts = lettered(50, 61, 70)
    together = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=Split(seed=4))
    alone = Documents.from_texts({"b": texts["b"]}, tokenizer, limit=9, tokens=10, cut=Split(seed=4))
    assert together.titles[1] == alone.titles[0] and together.token_ids[1].tolist() == alone.token_ids[0].tolist()


def test_several_pieces_of_a_text_come_in_order_without_overlap_and_no_interval_takes_them(tokenizer: Any) -> None:
    texts = lettered(45, 23)
    documents = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=Split(pieces_per_text=9))
    assert documents.titles == (*(f"a, piece {n} of 4" for n in (1, 2, 3, 4)), "b, piece 1 of 2", "b, piece 2 of 2")
    assert "".join(tokenizer.decode(row) for row in documents.token_ids) == texts["a"][:40] + texts["b"][:20]
    with pytest.raises(UnsoundError, match=r"'a, piece 1 of 4' and 'a, piece 2 of 4' are pieces of one text"):
        documents.check_independent()
    decoder = tiny_decoder()
    with pytest.raises(UnsoundError, match=r"Take one piece of each text with Split\(pieces"):
        am.Laboratory(decoder, documents, [am.Trained()])
    remedy = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=Split(pieces_per_text=1))
    am.Laboratory(decoder, remedy, [am.Trained()])  # the remedy, followed


def test_a_calibration_set_holds_no_piece_of_an_evaluated_text(tokenizer: Any) -> None:
    texts, cut = lettered(45, 23, 21), Split(pieces_per_text=9)
    documents = Documents.from_texts(texts, tokenizer, limit=3, tokens=10, cut=cut)
    others = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=cut, offset=3)
    assert [title[0] for title in others.titles] == ["b", "b", "c", "c"], "the fourth piece of a is left out"
    documents.check_disjoint(others)
    same_text = Documents.from_texts({"a": texts["a"]}, tokenizer, limit=1, tokens=10, cut=Split(seed=1))
    with pytest.raises(ArgumentError, match="is in both"):
        documents.check_disjoint(same_text)


def test_start_tokens_stand_in_front_of_every_piece() -> None:
    documents = Documents.from_texts(
        {"a": "abcdefg"}, adding("<start>"), limit=9, tokens=4, cut=Split(pieces_per_text=9)
    )
    assert documents.first_ids == (256, 256) and documents.start_tokens == (1, 1)
    assert [tiny_tokenizer().decode(row[1:]) for row in documents.token_ids] == ["abc", "def"]


@pytest.mark.parametrize("bad", [{"pieces_per_text": 0}, {"seed": -1}, {"pieces_per_text": True}, {"seed": 0.5}])
def test_pieces_and_seed_are_counts(bad: Any) -> None:
    with pytest.raises(ArgumentError, match=f"`{next(iter(bad))}` must be a whole number from"):
        Split(**bad)


# --- pack


def test_packs_join_texts_in_order_and_no_text_lies_in_two(tokenizer: Any) -> None:
    texts = {"a": "aaa", "b": "bbbb", "c": "ccccccc", "d": "d", "e": "ee", "f": "ffffffff", "g": "g"}
    documents = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=Pack(joined_by="<end>"))
    shown = [tokenizer.decode(row).replace("<end>", "|") for row in documents.token_ids]
    assert shown == ["aaa|bbbb|c", "d|ee|fffff"[:10]] or shown == ["aaa|bbbb|c", "d|ee|ffff"]
    assert documents.texts == (("a", "b", "c"), ("d", "e", "f")) and documents.begins == ((0, 4, 9), (0, 2, 5))
    assert documents.titles == ("a and 2 more", "d and 2 more")
    counts = documents.counts
    assert counts["texts_in_documents"] == 6 and counts["texts_left_over"] == 1 and counts["texts_cut"] == 2
    documents.check_independent()
    kept = json.loads(json.dumps(documents.provenance()))
    assert kept["packs"] == [{"a": 0, "b": 4, "c": 9}, {"d": 0, "e": 2, "f": 5}]
    assert "1 were too few for another pack" in kept["outcome"] and "no text in two packs" in kept["rule"]


def test_start_tokens_stand_once_in_front_of_a_pack() -> None:
    documents = Documents.from_texts(
        {"a": "ab", "b": "cdef"}, adding("<start>", "<end>"), limit=1, tokens=6, cut=Pack("<pad>")
    )
    tokenizer = tiny_tokenizer()
    assert documents.token_ids.tolist() == [[256, *tokenizer("ab")["input_ids"], 258, *tokenizer("cd")["input_ids"]]]
    assert documents.begins == ((1, 4),) and documents.start_tokens == (1,)


def test_a_pack_that_ends_at_a_separator_holds_no_text_behind_it(tokenizer: Any) -> None:
    documents = Documents.from_texts({"a": "abc", "b": "xyz"}, tokenizer, limit=1, tokens=4, cut=Pack("<end>"))
    assert documents.titles == ("a",) and documents.token_ids[0, -1] == 257


@pytest.mark.parametrize("separator", ["", "two", None])
def test_a_separator_that_is_not_one_token_is_refused_and_one_is_named(tokenizer: Any, separator: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`joined_by` must be one token .*own end token is '<end>'"):
        Documents.from_texts({"a": "abc"}, tokenizer, limit=1, tokens=2, cut=Pack(separator))
    Documents.from_texts({"a": "abc"}, tokenizer, limit=1, tokens=2, cut=Pack("<end>"))  # the remedy, followed


def test_texts_that_do_not_fill_one_pack_are_refused(tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match=r"the 2 texts of .* do not fill one pack of 9 tokens. Ask for fewer"):
        Documents.from_texts({"a": "abc", "b": "def"}, tokenizer, limit=1, tokens=9, cut=Pack("<end>"))
    assert len(Documents.from_texts({"a": "abc", "b": "def"}, tokenizer, limit=1, tokens=7, cut=Pack("<end>"))) == 1


# --- every rule

CUTS = st.sampled_from([Truncate(), Split(), Split(pieces_per_text=3, seed=1), Pack("<end>")])


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=9),
    tokens=st.integers(1, 15),
    cut=CUTS,
    offset=st.integers(0, 3),
)
def test_every_rule_gives_documents_of_one_length_and_accounts_for_every_text(
    lengths: list[int], tokens: int, cut: Any, offset: int
) -> None:
    texts = lettered(*lengths)
    try:
        documents = Documents.from_texts(texts, tiny_tokenizer(), limit=99, tokens=tokens, cut=cut, offset=offset)
    except ArgumentError:
        return
    assert documents.tokens == tokens and len(set(documents.titles)) == len(documents)
    counts = documents.counts
    assert counts["texts_looked_at"] == len(texts)
    held = {title for inside in documents.texts for title in inside}
    assert counts["texts_in_documents"] == len(held) <= len(texts)
    if offset == 0 and not isinstance(cut, Pack) and not counts["documents_equal_to_an_earlier_one"]:
        assert len(held) + counts["texts_too_short"] == len(texts)
    if not isinstance(cut, Split):
        documents.check_independent()


@pytest.mark.parametrize("cut", [Truncate(), Split(), Pack("<end>")])
def test_documents_beyond_the_context_are_refused_under_every_rule(cut: Any, tokenizer: Any) -> None:
    decoder = tiny_decoder()
    texts = lettered(*[200] * 4)
    beyond = Documents.from_texts(texts, tokenizer, limit=4, tokens=decoder.facts.context + 1, cut=cut)
    with pytest.raises(ArgumentError, match=r"at most 64, the context of this decoder, but it is 65. Ask for 64"):
        am.Laboratory(decoder, beyond, [am.Trained()])
    within = Documents.from_texts(texts, tokenizer, limit=4, tokens=decoder.facts.context, cut=cut)
    am.Laboratory(decoder, within, [am.Trained()])  # the remedy, followed


@pytest.mark.parametrize("cut", [Truncate(), Split()])
def test_a_length_that_keeps_every_text_is_named(cut: Any, tokenizer: Any) -> None:
    texts = lettered(12, 5, 30)
    documents = Documents.from_texts(texts, tokenizer, limit=9, tokens=10, cut=cut)
    assert documents.outcome.endswith(
        "1 were too short; 5 tokens would have kept every text; all documents have one length, since ranks and mean "
        "directions depend on the number of tokens"
    )
    assert len(Documents.from_texts(texts, tokenizer, limit=9, tokens=5, cut=cut)) == 3, "the remedy, followed"
    with pytest.raises(ArgumentError, match=r"Ask for 30 tokens or fewer \(5 would keep every text\), .*one length"):
        Documents.from_texts(texts, tokenizer, limit=9, tokens=31, cut=cut)


@pytest.mark.parametrize("text", ["truncate", "split:1:0", "split:3:7", "pack:<|endoftext|>", "pack:a:b"])
def test_a_rule_is_written_as_it_is_called(text: str) -> None:
    assert parse_cut(text).name == text
    assert parse_cut("split") == Split()


@pytest.mark.parametrize("text", ["", "cut", "truncate:3", "split:x", "split:1:2:3", "pack", "pack:"])
def test_a_rule_of_no_known_name_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"`cut` must be truncate, split.* Write pack:<"):
        parse_cut(text)


def test_something_that_is_no_rule_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match="`cut` must be a rule that cuts texts, but it is 'split'"):
        Documents.from_texts({"a": "abc"}, tokenizer, limit=1, tokens=2, cut="split")  # type: ignore[arg-type]


def test_a_length_that_start_tokens_fill_alone_is_refused() -> None:
    for cut in (Split(), Pack("<end>")):
        with pytest.raises(ArgumentError, match="`tokens` must be more than the 1 start tokens"):
            Documents.from_texts({"a": "abc"}, adding("<start>"), limit=1, tokens=1, cut=cut)
