"""The tokenizer of a decoder: the folder's own or another that was named, and whether its ids fit the embedding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from armillary.errors import ArgumentError, UnsupportedModelError

__all__ = ["TOKENIZER_FILES", "folder_tokenizer", "in_one_line", "require_fit", "require_tokens", "tokenizer_words"]

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""A folder holds a tokenizer where one of these is."""


def folder_tokenizer(path: Path, *, remote_code: bool = False) -> Any:
    """The folder's tokenizer; tokenizer.json is taken as written where it exists: no class rebuilds it.

    Args:
        path: A folder.
        remote_code: Whether a class that the folder brings may be run.

    Returns:
        The library's tokenizer, or None where the folder holds none.

    Raises:
        ArgumentError: A tokenizer that cannot be read.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not any((path / name).is_file() for name in TOKENIZER_FILES) and not remote_code:
        return None
    as_written = (path / "tokenizer.json").is_file()
    try:
        if as_written:
            return PreTrainedTokenizerFast.from_pretrained(path, local_files_only=True)
        return AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=remote_code)
    except Exception as trouble:  # whatever a damaged tokenizer file ends in
        raise ArgumentError(
            f"Argument `source` must hold a tokenizer that can be read, but that of {path} cannot: "
            f"{in_one_line(trouble)}. Fetch it again."
        ) from trouble


def require_fit(tokenizer: Any, *, rows: int, name: str) -> tuple[str, ...]:
    """Refuse a tokenizer whose ids lead beyond the embedding.

    Args:
        tokenizer: The library's tokenizer, or None.
        rows: Of the embedding.
        name: Of the decoder, for messages.

    Returns:
        A sentence where the tokenizer has fewer ids than the embedding has rows.

    Raises:
        ArgumentError: An id without a row: the tokenizer is that of another model.
    """
    if tokenizer is None:
        return ()
    vocabulary: dict[str, int] = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    count = max((*vocabulary.values(), len(tokenizer) - 1)) + 1
    if count > rows:
        last = next((token for token, index in vocabulary.items() if index == count - 1), "")
        raise ArgumentError(
            f"Argument `tokenizer` must have an embedding row for each of its ids, but its ids reach to {count - 1} "
            f"({last!r}) and {name} has {rows} rows. Name the model's own tokenizer."
        )
    return (
        () if count == rows else (f"The tokenizer has {count} ids for {rows} embedding rows; the rest is never fed.",)
    )


def require_tokens(tokenizer: Any, tokens: Sequence[str], *, spare: Sequence[int], name: str) -> None:
    """Refuse a tokenizer whose tokens are not those that a file lists, id by id.

    Args:
        tokenizer: The library's tokenizer.
        tokens: The file's own list, by id.
        spare: Ids that the file marks as unused, which may be called anything.
        name: Of the file, for messages.

    Raises:
        UnsupportedModelError: Names the first id that stands for another token.
    """
    free = set(spare)
    known = min(len(tokenizer), len(tokens))
    found = [*tokenizer.convert_ids_to_tokens(range(known)), *[None] * (len(tokens) - known)]
    for index, (there, here) in enumerate(zip(found, tokens, strict=True)):
        if there != here and index not in free:
            raise UnsupportedModelError(
                f"Argument `tokenizer` must have the tokens that {name} lists, but id {index} is {there!r} there and "
                f"{here!r} in the file. Name the tokenizer of the model that the file was made from."
            )


def tokenizer_words(tokenizer: Any) -> str:
    """The tokenizer in one line: kind, size, and a hash over its whole rule where it can be written down."""
    import hashlib

    if tokenizer is None:
        return "none: give token ids"
    words = f"{type(tokenizer).__name__} of {len(tokenizer)} tokens"
    rule = getattr(tokenizer, "backend_tokenizer", None)
    return (
        words if rule is None else f"{words}, sha256 {hashlib.sha256(rule.to_str().encode('utf-8')).hexdigest()[:16]}"
    )


def in_one_line(trouble: Exception) -> str:
    """What a library's error says: its kind and the first two lines that say anything."""
    lines = [line.strip() for line in str(trouble).splitlines() if line.strip()][:2] or ["no reason given"]
    return f"{type(trouble).__name__}: {' '.join(lines).rstrip('.!')}"
