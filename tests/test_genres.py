"""Two genres of documents come with every Python, named, hashed and in a fixed order."""

from __future__ import annotations

import inspect
import platform
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from armillary.errors import ArgumentError
from armillary.models import genres
from armillary.models.documents import Documents
from tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def test_the_docstrings_of_a_module_are_one_document_in_the_order_they_stand(tokenizer: Any) -> None:
    import bisect

    documents = Documents.from_docstrings(tokenizer, limit=9, tokens=300)
    assert list(documents.titles) == sorted(documents.titles)
    row = documents.titles.index("bisect")
    said = [bisect.__doc__, *(vars(bisect)[name].__doc__ for name in ("insort_right", "bisect_right"))]
    expected = "\n\n".join(inspect.cleandoc(one) for one in said)
    assert tokenizer.decode(documents.token_ids[row]) == expected[:300]
    assert documents.skipped == () and platform.python_version() in documents.source
    assert "docstrings" in documents.genre and "one genre" in documents.genre


def test_the_two_genres_share_no_document_and_name_themselves(tokenizer: Any) -> None:
    made = {name: Documents.embedded(name, tokenizer, limit=9, tokens=256) for name in genres.GENRES}
    assert list(made) == ["reference", "docstrings"]
    made["reference"].check_disjoint(made["docstrings"])
    assert len({documents.genre for documents in made.values()}) == 2
    for documents in made.values():
        documents.check_independent()
    assert made["reference"].hash == Documents.from_topics(tokenizer, limit=9, tokens=256).hash


@pytest.mark.decoder
def test_each_genre_holds_forty_documents_of_256_tokens_under_the_default_tokenizer() -> None:
    from armillary.models.decoder import load_decoder

    tokenizer = load_decoder().tokenizer
    for name in genres.GENRES:
        assert len(Documents.embedded(name, tokenizer, limit=40, tokens=256)) == 40


def test_a_genre_that_there_is_not_is_refused_with_those_there_are(tokenizer: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`genre` must be one of reference, docstrings .* but it is 'poems'"):
        Documents.embedded("poems", tokenizer, limit=1, tokens=4)


def test_a_python_without_sources_says_so(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(ArgumentError, match="this Python carries no sources of its standard library"):
        Documents.from_docstrings(tokenizer, limit=1, tokens=4)
